"""Checks of arguments: each gives the value in one plain form, or an error that names it."""

from __future__ import annotations

import operator
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def whole(name: str, value: Any, low: int, high: int, allowed: str | None = None) -> int:
    """Returns a whole number as an ``int``.

    Args:
        name: What the value is called.
        value: Any integer type but booleans.
        low: Lowest allowed value.
        high: Highest allowed value.
        allowed: What is allowed, in words; default: the range.

    Raises:
        ValueError: If it is none, or out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool | np.bool_) or not low <= number <= high:
        allowed = allowed or f"a whole number, {low} to {high}"
        raise ValueError(f"{name} {value!r} is not possible; allowed: {allowed}")
    return number


def wholes(
    name: str,
    values: ArrayLike,
    shape: tuple[int, ...] | None,
    low: int | None = None,
    high: int | None = None,
) -> NDArray[np.int64]:
    """Returns whole numbers as an int64 array.

    Args:
        name: What the values are called.
        values: Any integer type but booleans.
        shape: Shape that they have; none: one dimension of any length.
        low: Lowest allowed value; none: any.
        high: Highest allowed value, where there is a lowest one.

    Raises:
        ValueError: If the shape is another one, or a value is none or out of range.
    """
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        # Ragged lists: no array, and so of no shape that is allowed.
        array = np.empty((), object)
    right = array.ndim == 1 if shape is None else array.shape == shape
    if right and array.size == 0:
        return np.empty(array.shape, np.int64)
    limited = low is not None and high is not None
    right = right and array.dtype.kind in "iu"
    if not right or (limited and not (array.min() >= low and array.max() <= high)):
        expected = "one dimension" if shape is None else f"shape {shape}"
        raise ValueError(
            f"{name} {_short(values)} are {array.dtype} of shape {array.shape}; "
            f"allowed: integers of {expected}{f', each {low} to {high}' if limited else ''}"
        )
    return array.astype(np.int64, copy=False)


def path_of(name: str, value: Any) -> Path:
    """Returns a path.

    Raises:
        ValueError: If it is no text and no path, or one that no file can have.
    """
    if not isinstance(value, str | Path) or str(value) == "" or "\0" in str(value):
        raise ValueError(f"{name} {value!r} is not possible; allowed: a path")
    return Path(value)


def one_of(name: str, value: Any, choices: Collection[str]) -> str:
    """Returns a word out of some.

    Raises:
        ValueError: If it is another one.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} {value!r} is unknown; allowed: {', '.join(choices)}")
    return value


def buffer(name: str, array: Any, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Returns an array that can be written into.

    Raises:
        ValueError: If it is none, or of another shape or dtype.
    """
    if isinstance(array, np.ndarray):
        if array.shape == shape and array.dtype == dtype and array.flags.writeable:
            return array
        rest = "" if array.flags.writeable else ", read-only"
        found = f"{array.dtype} of shape {array.shape}{rest}"
    else:
        found = _short(array)
    wanted = f"a writeable {np.dtype(dtype)} array of shape {shape}"
    raise ValueError(f"{name} is {found}; allowed: {wanted}")


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the content of an object of JSON, as ``object_pairs_hook`` of ``json.loads``.

    Raises:
        ValueError: If a key stands twice: of two values it would not be known which is meant.
    """
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {_short(twice)} stands twice; allowed: each key once")
    return content


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
