"""ONNX: policies as single files that any framework can write and onnxruntime plays.

A file has the inputs ``observation`` float32 (n, ...) and ``action_mask`` bool (n, 43), the outputs
``logits`` float32 (n, 43) and, if it estimates the return, ``value`` float32 (n,); and a card as
JSON in its metadata under ``escoba_card``: what the observations are (see ``PolicyCard``). Loading
one runs no code, reads no other file, and refuses whatever does not fit: operations that are not
ONNX's own, and more work than a network that scores actions has (see ``onnx_bounds``). What a
network may still do is to take a few seconds when it is loaded, or memory while it plays.

``save_onnx`` writes a network of any framework on top of torch, and needs torch. Playing needs
onnxruntime and onnx alone.
"""

from __future__ import annotations

import importlib
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.adapters import require
from escoba_env.adapters.onnx_bounds import check_bounds
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import path_of
from escoba_env.encoding import VERSIONS, Encoding
from escoba_env.files import brief, check_writable, read_whole, write_whole
from escoba_env.policies.base import Policy
from escoba_env.policies.checkpoint import CheckpointError, PolicyCard, parse_card
from escoba_env.policies.scoring import CardPolicy, ScoringPolicy, random_rows

if TYPE_CHECKING:
    import torch

METADATA_KEY = "escoba_card"
MAX_CARD = 1 << 20
MAX_BYTES = 1 << 30
"""A file larger than this is refused before it is read."""

_TRIALS = (1, 3)
"""Numbers of rows that an export is tried with: a network may have been written for one alone."""
_TRIAL_SECONDS = 5.0
"""Longest time for the few decisions that a file is tried with; a network takes milliseconds."""
_TOLERANCE = 1e-4


def save_onnx(
    module: torch.nn.Module,
    path: str | Path,
    *,
    encoding: Encoding,
    name: str,
    training: dict[str, Any] | None = None,
    strength: dict[str, Any] | None = None,
    licence: str = "MIT",
) -> None:
    """Writes a torch network as a file that ``load_policy`` takes.

    Args:
        module: Its ``forward(observation, action_mask)`` takes float32 (n, *encoding.shape) and
            bool (n, 43), and returns logits float32 (n, 43), or these and values float32 (n,).
        path: The file, ``NAME.onnx``; it is written whole, or stays as it is.
        encoding: What it observes; environments have it as ``env.encoding``.
        name: Name of the policy.
        training: How it was trained, any JSON.
        strength: How strong it was measured to be, any JSON.
        licence: Its licence.

    Raises:
        ValueError: If the path is none of ``NAME.onnx``, or the network cannot be exported or does
            not give what it should.
        ModuleNotFoundError: If a package is missing; the message names the extra.
    """
    card = PolicyCard(
        name=name,
        encoding=encoding.name,
        encoding_version=VERSIONS[encoding.name],
        memory=encoding.memory,
        rules=encoding.rules.as_dict(),
        episode=encoding.episode,
        training=training or {},
        strength=strength or {},
        licence=licence,
    )
    export_onnx(module, path, card, encoding)


def check_export(path: str | Path) -> None:
    """Checks that a policy can be written as a file, before anything is trained for it.

    Raises:
        ImportError: If a package is missing or too old; the message names the extra.
        ValueError: If the path is none of ``NAME.onnx``, or cannot be written.
    """
    if path_of("path", path).suffix != ".onnx":
        raise ValueError(f"path {str(path)!r} is not possible; allowed: NAME.onnx")
    _onnx()
    require("onnxscript", "onnx", at_least="0.6")
    _onnxruntime()
    require("torch", "learned", at_least="2.13")
    check_writable(path)


def export_onnx(
    module: torch.nn.Module, path: str | Path, card: PolicyCard, encoding: Encoding
) -> None:
    """Writes a torch network with a card of its own; see ``save_onnx``."""
    check_export(path)
    onnx = _onnx()
    torch: Any = importlib.import_module("torch")
    from escoba_env.adapters.torch_module import network_outputs

    was_training = module.training
    module.eval()
    try:
        observation, mask = random_rows(encoding, 2)
        outputs = network_outputs(module, observation, mask)
        rows = torch.export.Dim("n", min=1)
        try:
            with _quietly():
                program = torch.onnx.export(
                    module,
                    (torch.from_numpy(observation), torch.from_numpy(mask)),
                    input_names=["observation", "action_mask"],
                    output_names=["logits", "value"][: len(outputs)],
                    dynamic_shapes=({0: rows}, {0: rows}),
                    dynamo=True,
                    verbose=False,
                )
        except Exception as error:  # an exporter meets whatever a network is made of
            raise ValueError(f"policy {card.name!r} cannot be exported to ONNX: {error}") from error
        model = program.model_proto
        onnx.helper.set_model_props(model, {METADATA_KEY: card.model_dump_json()})
        content = model.SerializeToString()
        policy = ONNXPolicy(content, where=str(path))
        for trial in _TRIALS:
            observation, mask = random_rows(encoding, trial)
            expected = network_outputs(module, observation, mask)
            found = policy.run(observation, mask)
            for here, there in zip(expected, found, strict=True):
                if not np.allclose(here, there, rtol=_TOLERANCE, atol=_TOLERANCE):
                    raise ValueError(
                        f"policy {card.name!r}: its ONNX form gives other numbers for {trial} rows"
                    )
    finally:
        module.train(was_training)
    write_whole(path, content)


class ONNXPolicy(CardPolicy):
    """Plays by an ONNX network, on one thread.

    Args:
        content: The file.
        sample: Draw actions from the policy's probabilities instead of taking the likeliest.
        where: What the file is called, for messages.

    Raises:
        CheckpointError: If it is damaged, foreign or of another version, wants other files, or
            does not fit its card.
        ModuleNotFoundError: If a package is missing; the message names the extra.
    """

    def __init__(self, content: bytes, *, sample: bool = False, where: str = "ONNX file") -> None:
        onnx = _onnx()
        self._runtime = _onnxruntime()
        try:
            model = onnx.load_model_from_string(content)
        except Exception as error:  # noqa: BLE001  (whatever it raises, it is no model)
            raise CheckpointError(f"{where} is not an ONNX file, or is damaged: {error}") from None
        card = [prop.value for prop in model.metadata_props if prop.key == METADATA_KEY]
        if len(card) != 1:
            raise CheckpointError(
                f"{where} has no card ({METADATA_KEY} in its metadata); allowed: files that "
                f"save_onnx or escoba export wrote"
            )
        if len(card[0]) > MAX_CARD:
            raise CheckpointError(f"the card of {where} is larger than {MAX_CARD} bytes")
        super().__init__(parse_card(card[0], f"the card of {where}", PolicyCard), sample=sample)
        try:
            check_bounds(onnx, model)
        except Exception as error:  # noqa: BLE001  (what infers shapes has errors of its own)
            raise CheckpointError(f"{where} is not possible: {brief(str(error))}") from None
        # The runtime gets what has been checked, written anew: a file can be read in two ways.
        model.DiscardUnknownFields()
        del model.metadata_props[:]
        checked = model.SerializeToString()
        # What takes long is seen first without optimization, which would itself run it, unlimited.
        self._session = self._start(checked, where, optimized=False)
        self._check_interface(where)
        self._session = self._start(checked, where, optimized=True)

    def _start(self, model: bytes, where: str, *, optimized: bool) -> Any:
        options = self._runtime.SessionOptions()
        # A file can be an ONNX model to one reader and the runtime's own format to another.
        options.add_session_config_entry("session.load_model_format", "ONNX")
        # A pool of threads beside torch's and NumPy's slows all of them down.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if not optimized:
            levels = self._runtime.GraphOptimizationLevel
            options.graph_optimization_level = levels.ORT_DISABLE_ALL
        try:
            return self._runtime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"], enable_fallback=False
            )
        except Exception as error:  # noqa: BLE001  (its errors have no common base)
            raise CheckpointError(f"{where} cannot be run: {error}") from None

    @classmethod
    def load(cls, path: str | Path, **options: Any) -> ONNXPolicy:
        """Loads a file.

        Args:
            path: The file.
            **options: ``sample``, as for the class.

        Raises:
            CheckpointError: As for the class, or if there is no such file.
            ValueError: If an option is unknown.
        """
        unknown = set(options) - {"sample"}
        if unknown:
            raise ValueError(f"policy option {min(unknown)!r} is unknown; allowed: sample")
        try:
            content = read_whole(path, MAX_BYTES)
        except ValueError as error:
            raise CheckpointError(str(error)) from None
        return cls(content, where=str(path), **options)

    def score(
        self, observations: NDArray[np.float32], masks: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Scores actions by the network; see ``ScoringPolicy.score``."""
        outputs = self.run(observations, masks)
        return outputs[0], outputs[1] if len(outputs) > 1 else None

    @property
    def expects_margins(self) -> bool:
        """Whether it was trained to expect the margin of a round, and gives values."""
        return super().expects_margins and len(self._outputs) > 1

    def run(
        self, observations: NDArray[np.float32], masks: NDArray[np.bool_]
    ) -> list[NDArray[np.float32]]:
        """Runs the network; returns its outputs, logits first."""
        return self._run(observations, masks)

    def _run(
        self, observations: NDArray[np.float32], masks: NDArray[np.bool_], options: Any = None
    ) -> list[NDArray[np.float32]]:
        feed = {"observation": observations, "action_mask": masks}
        try:
            outputs: list[NDArray[np.float32]] = self._session.run(
                self._outputs, {name: feed[name] for name in self._inputs}, options
            )
        except Exception as error:  # its errors have no common base
            raise ValueError(f"policy {self.name!r} cannot be run: {error}") from error
        rows = len(masks)
        shapes = [masks.shape, (rows,)][: len(outputs)]
        found = [(getattr(o, "dtype", type(o)), getattr(o, "shape", None)) for o in outputs]
        if found != [(np.dtype(np.float32), shape) for shape in shapes]:
            raise ValueError(
                f"policy {self.name!r} gives {found} for {rows} rows; allowed: logits float32 "
                f"{masks.shape} and perhaps value float32 {(rows,)}"
            )
        return outputs

    def _check_interface(self, where: str) -> None:
        shape = self.encoding.shape
        wanted = {
            "observation": ("tensor(float)", shape),
            "action_mask": ("tensor(bool)", (NUM_ACTIONS,)),
        }
        # What a network has no use for, an exporter leaves out: those that do not ask for a mask.
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._outputs = [node.name for node in self._session.get_outputs()]
        for node in self._session.get_inputs():
            kind, rest = wanted.get(node.name, ("", ()))
            fits = len(node.shape) == 1 + len(rest) and not isinstance(node.shape[0], int)
            if node.type != kind or not fits or tuple(node.shape[1:]) != rest:
                raise CheckpointError(
                    f"{where}: input {node.name} is {node.type} {node.shape}; its card allows: "
                    f"observation float (n, {', '.join(map(str, shape))}), action_mask bool "
                    f"(n, {NUM_ACTIONS})"
                )
        if "observation" not in self._inputs or self._outputs not in (
            ["logits"],
            ["logits", "value"],
        ):
            raise CheckpointError(
                f"{where} has inputs {self._inputs} and outputs {self._outputs}; allowed: "
                f"observation and action_mask, logits and perhaps value"
            )
        options = self._runtime.RunOptions()
        options.log_severity_level = 4
        timer = threading.Timer(_TRIAL_SECONDS, setattr, (options, "terminate", True))
        timer.daemon = True
        timer.start()
        try:
            for rows in _TRIALS:
                self._run(*random_rows(self.encoding, rows), options)
        except ValueError as error:
            slow = f"it takes longer than {_TRIAL_SECONDS:g} s for a few decisions"
            raise CheckpointError(f"{where}: {slow if options.terminate else error}") from None
        finally:
            timer.cancel()


def export_policy(policy: Policy, path: str | Path) -> None:
    """Writes a policy that is a network as a file; see ``save_onnx``.

    Args:
        policy: A trained policy of this package, or an ``SB3Policy``. Whether it samples is for
            whoever loads it.
        path: The file, ``NAME.onnx``.

    Raises:
        ValueError: If it is no network, or the path is not possible.
        ModuleNotFoundError: If a package is missing; the message names the extra.
    """
    network = getattr(policy, "network", None)
    if not isinstance(policy, ScoringPolicy) or network is None:
        raise ValueError(
            f"policy {policy.name!r} is not possible; allowed: checkpoints, which are networks"
        )
    encoding = policy.made_for
    if not isinstance(policy, CardPolicy):
        save_onnx(network, path, encoding=encoding, name=policy.name)
        return
    fields = policy.card.model_dump(include=set(PolicyCard.model_fields))
    export_onnx(network, path, PolicyCard(**fields), encoding)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keeps an exporter from telling what it does, and what else it could do."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _onnx() -> Any:
    onnx: Any = require("onnx", "onnx", at_least="1.17")
    for part in ("helper", "numpy_helper", "shape_inference"):
        importlib.import_module(f"onnx.{part}")
    return onnx


def _onnxruntime() -> Any:
    return require("onnxruntime", "onnx", at_least="1.18")
