"""Checks of arguments: each gives the value in one plain form, or an error that names it.

Whatever a caller passes is read here: a whole number, a number, a truth value, a word, a path, an
array. ``quoted`` is how a value appears in a message, however large or strange it is.
"""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import os
import reprlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_QUOTE = 160
"""Characters of a value in a message."""
MAX_PATH = 4096
"""Characters of a path: no usual system takes longer ones."""
_MAX_BITS = 4096
"""Bits of a whole number that is still written out: Python refuses from 4,300 digits on."""


class _Quoting(reprlib.Repr):
    """Writes the beginning of large values, without the work of writing all of them."""

    def __init__(self) -> None:
        super().__init__()
        # A third level of as many items is as much work as a message is worth.
        self.maxlevel = 3
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 30
        self.maxarray = self.maxdeque = 30
        self.maxstring = self.maxlong = self.maxother = 2 * MAX_QUOTE

    def repr_int(self, x: int, level: int) -> str:
        """Writes a whole number, or how many digits it has."""
        if x.bit_length() > _MAX_BITS:
            return f"<a whole number of some {int(x.bit_length() * math.log10(2)) + 1:,} digits>"
        return super().repr_int(x, level)

    def repr_instance(self, x: Any, level: int) -> str:
        """Writes any other value."""
        try:
            return super().repr_instance(x, level)
        except Exception:  # noqa: BLE001 - somebody else's code
            return f"<{type(x).__name__}>"


_QUOTING = _Quoting()


def quoted(value: Any, most: int = MAX_QUOTE) -> str:
    """Writes a value for a message: on one line, at most ``most`` characters, without an error."""
    try:
        text = _QUOTING.repr(value)
    except Exception:  # noqa: BLE001 - somebody else's code
        text = f"<{type(value).__name__}>"
    if "\n" in text:
        text = " ".join(text.split())
    if len(text) <= most:
        return text
    # The middle is left out: long paths differ at their end.
    end = most // 3
    return f"{text[: most - end - 3]}...{text[-end:]}"


def suggestion(value: Any, known: Iterable[str]) -> str:
    """Returns ``"; did you mean 'greedy'?"`` for a name close to a known one, else ``""``."""
    close = difflib.get_close_matches(str(value)[:80], list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def integer(value: Any) -> int | None:
    """Returns a whole number as an ``int``; ``None`` if the value is not one.

    Any integer type is one: Python's, NumPy's, a tensor of one. Booleans are none, in whatever
    library.
    """
    if type(value) is int:
        return value
    # A tensor of bool passes as an index.
    if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
        return None
    try:
        return operator.index(value)
    except Exception:  # noqa: BLE001 - what libraries raise for tensors that are no number
        return None


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
    number = integer(value)
    if number is None or not low <= number <= high:
        allowed = allowed or f"a whole number, {low} to {high}"
        raise ValueError(f"{name} {quoted(value)} is not possible; allowed: {allowed}")
    return number


def real(name: str, value: Any, low: float, high: float, allowed: str | None = None) -> float:
    """Returns a number as a ``float``.

    Args:
        name: What the value is called.
        value: Any real number but booleans.
        low: Lowest allowed value.
        high: Highest allowed value.
        allowed: What is allowed, in words; default: the range.

    Raises:
        ValueError: If it is none, or out of range.
    """
    number = math.nan
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        try:
            number = float(value)
        except (OverflowError, ValueError):
            number = math.nan
    # Written so that nan fails.
    if not low <= number <= high:
        allowed = allowed or f"a number, {low:g} to {high:g}"
        raise ValueError(f"{name} {quoted(value)} is not possible; allowed: {allowed}")
    return number


def flag(name: str, value: Any) -> bool:
    """Returns a truth value as a ``bool``.

    Raises:
        ValueError: If it is none: a number or a word is not taken for one.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} {quoted(value)} is not possible; allowed: true or false")
    return bool(value)


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
    array = as_array(values)
    right = array.ndim == 1 if shape is None else array.shape == shape
    if right and array.size == 0:
        return np.empty(array.shape, np.int64)
    limited = low is not None and high is not None
    right = right and array.dtype.kind in "iu"
    if not right or (limited and not (array.min() >= low and array.max() <= high)):
        expected = "one dimension" if shape is None else f"shape {shape}"
        raise ValueError(
            f"{name} {quoted(values)} are {array.dtype} of shape {array.shape}; "
            f"allowed: integers of {expected}{f', each {low} to {high}' if limited else ''}"
        )
    # Kernels are compiled for contiguous, writeable arrays: for another kind they would be again.
    return np.require(array, np.int64, ("C", "W"))


def as_array(values: Any) -> NDArray[Any]:
    """Returns values as an array; of no dimension and of objects if they cannot become one."""
    try:
        return np.asarray(values)
    except Exception:  # noqa: BLE001 - ragged lists, and tensors that NumPy cannot take
        return np.empty((), object)


def path_of(name: str, value: Any) -> Path:
    """Returns a path.

    Raises:
        ValueError: If it is no text and no path, or one that no file can have.
    """
    text = str(value) if isinstance(value, str | Path) else ""
    possible = 0 < len(text) <= MAX_PATH and "\0" not in text
    if possible:
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            possible = False
    if not possible:
        raise ValueError(f"{name} {quoted(value)} is not possible; allowed: a path")
    return Path(value)


def one_of(name: str, value: Any, choices: Collection[str]) -> str:
    """Returns a word out of some.

    Raises:
        ValueError: If it is another one.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} {quoted(value)} is unknown; allowed: {', '.join(choices)}")
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
        found = f"{array.dtype!s:.80} of shape {array.shape}{rest}"
    else:
        found = quoted(array)
    wanted = f"a writeable {np.dtype(dtype)} array of shape {shape}"
    raise ValueError(f"{name} is {found}; allowed: {wanted}")


@contextmanager
def room_for(name: str, value: Any, size: int) -> Iterator[None]:
    """Says which argument asked for more memory than there is.

    Args:
        name: What the argument is called.
        value: Its value.
        size: Bytes that it asks for.

    Raises:
        ValueError: Before the block if the machine has less, and in place of a ``MemoryError``.
    """
    fault = ValueError(
        f"{name} {quoted(value)} is not possible: they take {size / 2**30:,.1f} GiB, for which "
        f"there is no room; allowed: fewer"
    )
    # Some systems hand out memory that they do not have, and kill the process that uses it.
    if size > _memory():
        raise fault
    try:
        yield
    except MemoryError:
        raise fault from None


@cache
def _memory() -> float:
    """Bytes of memory of this machine; infinite where that is not told."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the content of an object of JSON, as ``object_pairs_hook`` of ``json.loads``.

    Raises:
        ValueError: If a key stands twice: of two values it would not be known which is meant.
    """
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {quoted(twice)} stands twice; allowed: each key once")
    return content
