"""``load_policy``: finds a policy by name, file, folder or module, or makes one of an object.

A name of a file or folder never runs code that is in it. A name of a module does: it is the user's
own, or one that is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any, TypeAlias

from escoba_env.checks import quoted, suggestion
from escoba_env.encoding import Encoding
from escoba_env.policies.base import Policy
from escoba_env.policies.builtin import CountingPolicy, GreedyPolicy, RandomPolicy
from escoba_env.policies.checkpoint import (
    checkpoint_files,
    find_checkpoint,
    shipped_checkpoints,
)
from escoba_env.policies.function import FunctionPolicy
from escoba_env.policies.ismcts import CheatingISMCTSPolicy, ISMCTSPolicy
from escoba_env.policies.search import CheatingSearchPolicy, SearchPolicy

BUILTIN: Mapping[str, Callable[..., Policy]] = {
    "random": RandomPolicy,
    "greedy": GreedyPolicy,
    "counting": CountingPolicy,
    "search": SearchPolicy,
    "ismcts": ISMCTSPolicy,
    "cheat:search": CheatingSearchPolicy,
    "cheat:ismcts": CheatingISMCTSPolicy,
}
"""Makers of the policies that need no checkpoint, by name. Their options are keyword arguments."""

ENTRY_POINTS = "escoba_env.policies"
"""Group of entry points by which an installed package gives its policies names."""

ONNX = ".onnx"
PICKLES = (".zip", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
"""Files of other libraries that can run code when they are loaded."""

PolicyLike: TypeAlias = Any
"""What ``load_policy`` takes: a name, a path, a ``Policy``, a function, a model of SB3."""

_FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def load_policy(policy: PolicyLike, encoding: Encoding | str | None = None) -> Policy:
    """Loads a policy.

    Args:
        policy: One of

            * a built-in name (a key of ``BUILTIN``), or the name of a shipped checkpoint;
            * the folder of a checkpoint, or a file ``NAME.onnx`` (see ``adapters.onnx``);
            * a name that an installed package has registered as an entry point of the group
              ``escoba_env.policies``;
            * ``package.module:factory``: what that factory returns, which is anything that is
              allowed here but a name. The working folder is the last place where it is looked for;
            * each of these with options after a colon where it takes any, such as
              ``search:worlds=64``, ``runs/one/checkpoint:sample=true`` or
              ``package.module:factory:depth=2``;
            * a ``Policy``, which is returned as it is;
            * a model of Stable-Baselines3 or sb3-contrib (see ``adapters.sb3``), also one that
              was loaded: ``load_policy(MaskablePPO.load("m.zip"))``;
            * a torch network ``forward(observation, action_mask) -> logits`` with the argument
              ``encoding`` (see ``adapters.torch_module``);
            * a function ``(observation, mask) -> action``; for more make a ``FunctionPolicy``.
        encoding: What a model, network or function observes: an ``Encoding``, such as
            ``env.encoding``, or the name of one of ``classic`` with two players, as in
            ``load_policy(model, encoding="tactical")``. Default: for a model that of the
            environment that it was trained in, for a function ``compact``.

    Raises:
        ValueError: If there is no such policy, it takes no such option, or a factory fails.
        CheckpointError: If a checkpoint or a file is damaged, foreign or of another version.
        ModuleNotFoundError: If it needs a package that is not installed; the message names it.
    """
    if not isinstance(policy, str | Path):
        return _policy_of(policy, encoding)
    if encoding is not None:
        raise _has_its_own_encoding(str(policy), encoding)
    name, options = split_options(str(policy))
    if name in BUILTIN:
        allowed = list(inspect.signature(BUILTIN[name]).parameters)
        if options and not allowed:
            raise ValueError(f"policy {name!r} takes no options; got {quoted(sorted(options))}")
        unknown = set(options) - set(allowed)
        if unknown:
            raise ValueError(
                f"policy option {quoted(min(unknown))} is unknown; allowed for {name!r}: "
                f"{', '.join(allowed)}{suggestion(min(unknown), allowed)}"
            )
        return BUILTIN[name](**options)
    folder = find_checkpoint(name)
    if folder is not None:
        # Only learned policies need torch.
        try:
            from escoba_env.policies.learned import LearnedPolicy
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ModuleNotFoundError(
                f"policy {quoted(name)} is a trained network and needs torch: "
                f"pip install 'escoba-env[learned]'",
                name="torch",
            ) from None
        return LearnedPolicy.load(folder, **options)
    if name.endswith(ONNX):
        from escoba_env.adapters.onnx import ONNXPolicy

        return ONNXPolicy.load(name, **options)
    registered = registered_policies()
    known = [*BUILTIN, *shipped_checkpoints(), *registered]
    if name in registered:
        return _made(name, registered[name].load, options)
    if _FACTORY.fullmatch(name):
        return _made(name, lambda: _factory(name, suggestion(name, known)), options)
    if name.endswith(PICKLES):
        raise ValueError(
            f"policy {quoted(name)} is refused: loading such a file can run code that is in it; "
            f"allowed: a checkpoint or a file NAME{ONNX}. If you trust it, load it with its own "
            f"library and give the model, load_policy(MaskablePPO.load('m.zip')), or write it as a "
            f"file that everybody can load: export_policy(load_policy(model), 'NAME{ONNX}')"
        )
    raise ValueError(
        f"policy {quoted(name)} is unknown; allowed: {', '.join(known)}, the folder of a "
        f"checkpoint, a file NAME{ONNX}, or package.module:factory{suggestion(name, known)}"
    )


def name_of(policy: PolicyLike) -> str:
    """Returns the name that a policy was asked for by, options included, or an object's own."""
    return str(policy) if isinstance(policy, str | Path) else load_policy(policy).name


def split_options(text: str) -> tuple[str, dict[str, Any]]:
    """Splits ``name:key=value,key=value`` into the name and its options.

    Values that are JSON numbers, ``true`` or ``false`` are read as such, others as text.

    Raises:
        ValueError: If an option stands twice or is not ``key=value``.
    """
    name, colon, tail = text.rpartition(":")
    if not colon or "=" not in tail:
        return text, {}
    options: dict[str, Any] = {}
    for part in tail.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key or not value or key in options:
            raise ValueError(
                f"option {quoted(part)} of policy {quoted(text)} is not key=value, or stands twice"
            )
        options[key] = _value(value)
    return name, options


def registered_policies() -> dict[str, EntryPoint]:
    """Policies that installed packages have registered, by name.

    A name that is taken, by this package or by another one before, is left out with a warning.
    """
    found: dict[str, EntryPoint] = {}
    taken = {*BUILTIN, *shipped_checkpoints()}
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.value):
        if entry.name in taken or "=" in entry.name:
            warnings.warn(
                f"policy {quoted(entry.name)} of {quoted(entry.value)} is left out: the name is "
                f"taken or has an '='",
                stacklevel=2,
            )
            continue
        taken.add(entry.name)
        found[entry.name] = entry
    return found


def policy_files(name: str) -> list[Path]:
    """Returns the files that the policy of a name, without its options, comes from; may be none.

    Of a factory these are its module and the modules beside it that it imports.
    """
    folder = find_checkpoint(name) if name not in BUILTIN else None
    if folder is not None:
        return checkpoint_files(folder)
    if name.endswith(ONNX):
        return [Path(name)] if Path(name).is_file() else []
    registered = registered_policies()
    target = registered[name].value if name in registered else name
    if name in BUILTIN or not _FACTORY.fullmatch(target):
        return []
    return _module_files(target.partition(":")[0])


def _module_files(name: str) -> list[Path]:
    """Returns the files of a module and of what it imports from the same place, without running it.

    The same place is the folder that the module or its package lies in; of an installed package it
    is the package alone. What is imported in another way than by ``import``, and data that the
    module reads, cannot be seen.
    """
    spec = _spec(name)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return []
    own = Path(spec.origin)
    root = own.parents[name.count(".") + (own.stem == "__init__")]
    # This package has a version of its own in the key of every result.
    others = {"escoba_env"}
    standard = Path(sysconfig.get_path("stdlib"))
    if root == standard or root.name in ("site-packages", "dist-packages"):
        others |= {path.name.partition(".")[0] for path in root.iterdir()}
    finder = ModuleFinder([str(root)], excludes=sorted(others - {name.partition(".")[0]}))
    try:
        finder.import_hook(name)
    except (ImportError, SyntaxError):
        # It cannot be imported either, which is told when it is.
        return [own]
    # A part of Python's own library whose stubs leave this out.
    found = (getattr(one, "__file__", None) for one in finder.modules.values())
    return sorted({own, *(Path(file) for file in found if file)})


def _policy_of(value: Any, encoding: Encoding | str | None = None) -> Policy:
    """Makes a policy of an object, which observes what ``encoding`` says.

    Raises:
        ValueError: If that is not possible.
    """
    if not inspect.isclass(value):
        if isinstance(value, Policy) and isinstance(getattr(value, "name", None), str):
            if encoding is not None:
                raise _has_its_own_encoding(value.name, encoding)
            return value
        # A model of Stable-Baselines3, without importing that.
        if all(hasattr(value, part) for part in ("predict", "policy", "observation_space")):
            from escoba_env.adapters.sb3 import SB3Policy

            return SB3Policy(value, encoding)
        # Who has a network has imported torch.
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.nn.Module):
            from escoba_env.adapters.torch_module import TorchPolicy

            return TorchPolicy(value, encoding)
        if callable(value):
            if isinstance(encoding, Encoding):
                return FunctionPolicy(value, encoding.name, encoding.memory)
            return FunctionPolicy(value, *([] if encoding is None else [encoding]))
    raise ValueError(
        f"policy {quoted(value)} is not possible; allowed: a name ({', '.join(BUILTIN)}, ...), a "
        f"path, an object with a name and act(views), a model of Stable-Baselines3, or a function "
        f"(observation, mask) -> action"
    )


def _has_its_own_encoding(name: str, encoding: Encoding | str) -> ValueError:
    return ValueError(
        f"encoding {encoding!r:.80} is not possible with policy {name!r:.80}, which has its own or "
        f"needs none; allowed: with a model, network or function"
    )


def _made(name: str, find: Callable[[], Any], options: dict[str, Any]) -> Policy:
    """Calls a factory that is somebody else's code, and says what it did wrong."""
    try:
        factory = find()
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"policy {quoted(name)} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not callable(factory):
        raise ValueError(
            f"policy {quoted(name)} is {quoted(factory)}; allowed: a factory, called with the "
            f"options"
        )
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise ValueError(
            f"policy {quoted(name)}: options {quoted(options)} do not fit: {error}"
        ) from None
    except ValueError:
        # Some built-in callables tell nobody what they take.
        pass
    try:
        made = factory(**options)
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"policy {quoted(name)}: its factory raised {type(error).__name__}: {error}"
        ) from error
    if isinstance(made, str | Path):
        raise ValueError(
            f"policy {quoted(name)}: its factory returned {quoted(made)}; allowed: a policy, not a "
            f"name of one"
        )
    try:
        return _policy_of(made)
    except ValueError as error:
        raise ValueError(
            f"policy {quoted(name)}: its factory returned no policy: {error}"
        ) from None


def _factory(name: str, hint: str) -> Any:
    """Imports a factory; the hint is what the name may be a misspelling of."""
    module_name, _, attribute = name.partition(":")
    if _spec(module_name) is None:
        raise ModuleNotFoundError(
            f"there is no module {quoted(module_name)}{hint}", name=module_name
        )
    module = importlib.import_module(module_name)
    if not hasattr(module, attribute):
        raise AttributeError(f"module {quoted(module_name)} has no {quoted(attribute)}")
    return getattr(module, attribute)


def _spec(module: str) -> Any:
    """Finds a module where Python does, or else in the working folder; ``None`` if there is none.

    A command such as ``escoba`` does not look into the working folder by itself.
    """
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
        importlib.invalidate_caches()
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None


def _value(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int | float) else text
