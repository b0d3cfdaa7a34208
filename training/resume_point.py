"""Resume points: files of ``torch.save`` whose every part is checked before it is used.

They are read with ``weights_only``, so nothing in them is run; but a number out of its range could
still end the process in a kernel, or be learned from.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from escoba_env.checks import whole
from escoba_env.files import MAX_TENSORS, check_regular, write_whole

from .config import ConfigError

_DAMAGE = (
    *(RuntimeError, LookupError, ValueError, EOFError, OSError, TypeError, AttributeError),
    *(ArithmeticError, pickle.UnpicklingError),
)
"""What reading a damaged file can end in."""


def write_resume_point(path: Path, content: dict[str, Any]) -> None:
    """Writes a resume point whole.

    Raises:
        ValueError: If it cannot be written.
    """
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_whole(path, buffer.getvalue())


@contextmanager
def resume_point(path: Path) -> Iterator[Content]:
    """Reads a resume point; whatever is found wrong with it meanwhile is one kind of error.

    Raises:
        ConfigError: If it is damaged.
    """
    try:
        check_regular(path, MAX_TENSORS)
        yield Content(torch.load(path, weights_only=True))
    except ConfigError:
        raise
    except _DAMAGE as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"{path} cannot be resumed from: {text:.500}") from error


class Content:
    """What a resume point holds. Whatever is taken out of it is checked.

    Every method raises one of the errors that ``resume_point`` turns into a ``ConfigError``.
    """

    def __init__(self, content: Any) -> None:
        if not isinstance(content, dict):
            raise ValueError(f"it holds a {type(content).__name__}, no mapping")
        self._content = content

    def get(self, key: str) -> Any:
        """Returns what earlier versions did not keep, or none."""
        return self._content.get(key)

    def __getitem__(self, key: str) -> Any:
        if key not in self._content:
            raise ValueError(f"it has no {key!r}")
        return self._content[key]

    def whole(self, key: str, low: int, high: int) -> int:
        """Returns a whole number in a range."""
        return whole(key, self[key], low, high)

    def seconds(self) -> float:
        """Returns the time that learning has taken."""
        value = self["seconds"]
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"seconds {value!r:.80}; allowed: a finite number, 0 or more")
        return float(value)

    def array(self, key: str, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """Returns an array of a dtype and shape."""
        value = self[key]
        if not isinstance(value, Tensor):
            raise TypeError(f"{key} is a {type(value).__name__}, no tensor")
        array: NDArray[Any] = value.numpy()
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(
                f"{key} is {array.dtype} of shape {array.shape}; "
                f"allowed: {np.dtype(dtype)} of shape {shape}"
            )
        return array


def restore_weights(module: torch.nn.Module, given: Any, name: str) -> None:
    """Gives a module weights that come from a file.

    Raises:
        ValueError: If they are not its own: each of its name, shape and dtype, and finite.
    """
    own = module.state_dict()
    if not isinstance(given, Mapping) or given.keys() != own.keys():
        raise ValueError(f"{name} are not the weights of this network")
    for key, value in own.items():
        _check_tensor(f"{name}: {key}", given[key], value)
    module.load_state_dict(given)


def restore_optimizer(optimizer: torch.optim.Optimizer, given: Any) -> None:
    """Gives Adam, or AdamW, the moments that come from a file; its settings are the config's.

    Raises:
        ValueError: If they are not those of its weights.
    """
    own = optimizer.state_dict()
    state = given["state"]
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    if not isinstance(state, dict) or not state.keys() <= set(range(len(weights))):
        raise ValueError("optimizer is not one of this network's weights")
    for place, moments in state.items():
        if set(moments) != {"step", "exp_avg", "exp_avg_sq"}:
            raise ValueError(f"optimizer: weight {place} has the moments {sorted(moments)}")
        _check_tensor(f"optimizer: step of weight {place}", moments["step"], torch.zeros(()))
        for key in ("exp_avg", "exp_avg_sq"):
            _check_tensor(f"optimizer: {key} of weight {place}", moments[key], weights[place])
        if moments["step"] < 1 or (moments["exp_avg_sq"] < 0).any():
            raise ValueError(f"optimizer: weight {place} has negative counts or squares")
    optimizer.load_state_dict({**own, "state": state})


def _check_tensor(name: str, value: Any, like: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}, no tensor")
    if value.shape != like.shape or value.dtype != like.dtype:
        raise ValueError(
            f"{name} is {value.dtype} of shape {tuple(value.shape)}; "
            f"allowed: {like.dtype} of shape {tuple(like.shape)}"
        )
    if not torch.isfinite(value).all():
        raise ValueError(f"{name} is not finite")
