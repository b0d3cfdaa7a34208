"""Bad arguments for every entry point, and what an object holds before and after them.

``Entry`` is one argument of one entry point. ``refuse`` passes a bad value and sees that the error
names the argument in a few words and that nothing has changed; ``accept`` sees that every type of
whole number does what ``int`` does.
"""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from escoba_env.rules import Rules

HUGE = 10**5000
"""More digits than Python is willing to write."""
LONG = "x" * 10_000
MOST_CHARACTERS = 900
"""Of a message: long values are cut, and what is allowed is a list of names at the most."""


class Unreadable:
    """A value of no use, whose ``repr`` fails too."""

    def __repr__(self) -> str:
        raise RuntimeError("no words for it")


class Index:
    """A whole number of somebody else's type."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value


def _tensors() -> list[Any]:
    """Tensors that are no whole number, some of which NumPy cannot take."""
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    return [
        torch.tensor(True),
        torch.tensor(1.0),
        torch.tensor([1, 2, 3, 4, 5]),
        torch.tensor(1.0, dtype=torch.bfloat16),
        torch.tensor([1.0], requires_grad=True),
        torch.empty(1, device="meta", dtype=torch.int64),
        torch.eye(2).to_sparse(),
    ]


NOTHING: list[Any] = [Unreadable(), {"a": HUGE}, {LONG}, [[LONG]], *_tensors()]
"""No value of any argument."""
NO_WHOLES: list[Any] = [
    *[-1, HUGE, -HUGE, 1.0, 1.5, float("nan"), "1", LONG, b"1", True, False, np.bool_(True)],
    *[np.float64(3), [1.5], [HUGE], {}, np.array([1.0, 2.0]), Fraction(1, 2), np.array("1")],
    *NOTHING,
]
NO_FLAGS: list[Any] = [0, 1, 2, HUGE, "x", "true", LONG, None, [], [True], np.int64(1), *NOTHING]
NO_WORDS: list[Any] = [0, HUGE, True, "", "nonsense", LONG, b"round", [], ["round"], *NOTHING]
NO_ARRAYS: list[Any] = [
    *[HUGE, [HUGE] * 3, [1.0, 2.0, 3.0], "abc", LONG, [[1], [1, 2]], [True, True, False], {}],
    *[["1", "2", "3"], [None] * 3, [-1, 0, 1], [2**64] * 3, np.zeros((2, 2), np.int64)],
    *[np.zeros(3), *NOTHING],
]
"""No whole numbers, one for each of three games."""
NO_CARDS: list[Any] = [HUGE, 1, LONG, "8x", "7o 7o", ["7o", HUGE], [LONG], [None], b"7o", *NOTHING]
NO_PATHS: list[Any] = ["", "a\0b", 3, HUGE, None, LONG, b"a", [], True, *NOTHING]
NO_OPTIONS: list[Any] = [
    *[[], "x", 3, (), [{}], {"nonsense": 1}, {LONG: 1}, {HUGE: HUGE}, {"dealer": 9}],
    *[{"dealer": HUGE}, {"dealer": True}, {"deck": LONG}, {"deck": HUGE}, {"deck": "7o"}],
    *[{"scores": [HUGE, 0]}, {"scores": LONG}, {"scores": [0]}, {"scores": [float("nan"), 0]}],
    *[{"scores": [0.001, 0]}, {"scores": 3}, {"deck": Unreadable()}, *_tensors()],
]


@dataclass(frozen=True)
class Entry:
    """One argument of one entry point.

    Attributes:
        name: The entry point and the argument.
        make: Makes what is called, in the middle of its use.
        call: Calls it with a value.
        bad: Values that are refused.
        good: A whole number that is taken, if the argument is one.
        named: What the message of every refusal has in it.
        errors: What is raised.
    """

    name: str
    make: Callable[[], Any]
    call: Callable[[Any, Any], Any]
    bad: Iterable[Any]
    named: str = ""
    good: int | None = None
    errors: tuple[type[Exception], ...] = field(default=(ValueError,))

    def __str__(self) -> str:
        return self.name


def refuse(entry: Entry) -> None:
    """Sees that every bad value is refused, and that nothing has changed."""
    thing = entry.make()
    before = snapshot(thing)
    for value in entry.bad:
        try:
            entry.call(thing, value)
        except entry.errors as error:
            message = str(error)
        else:
            pytest.fail(f"{entry.name} takes {type(value).__name__} {_short(value)}")
        assert entry.named in message, message
        assert len(message) <= MOST_CHARACTERS, (len(message), message)
        assert "\n" not in message, message
        assert snapshot(thing) == before, (entry.name, message)


def accept(entry: Entry) -> None:
    """Sees that every type of whole number does what ``int`` does."""
    assert entry.good is not None
    wanted = _done(entry, entry.good)
    kinds: list[Any] = [np.int8, np.uint8, np.int64, np.uint64, np.array, Index]
    if importlib.util.find_spec("torch") is not None:
        import torch

        kinds.append(torch.tensor)
    for kind in kinds:
        assert _done(entry, kind(entry.good)) == wanted, (entry.name, kind)


def _done(entry: Entry, value: Any) -> Any:
    thing = entry.make()
    return snapshot([entry.call(thing, value), thing])


def _short(value: Any) -> str:
    try:
        return repr(value)[:100]
    except (ValueError, RuntimeError):
        return "that has no words"


PLAIN = (type(None), bool, int, float, complex, str, bytes, type, np.dtype)
WORK = ("_work", "_movers", "_ended")
"""Work arrays, which hold what was in memory before."""
UNSEEN = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)


def snapshot(value: Any, seen: dict[int, tuple[int, Any]] | None = None) -> Any:
    """Returns all that an object holds, as plain values that can be compared."""
    seen = {} if seen is None else seen
    if isinstance(value, PLAIN):
        return repr(value) if isinstance(value, float) else (type(value).__name__, value)
    if isinstance(value, UNSEEN):
        return value.__name__
    if isinstance(value, Rules | spaces.Space):
        # Rules remember what they have been asked for, and spaces draw samples.
        return repr(value)
    if id(value) in seen:
        return "seen", seen[id(value)][0]
    # With the value, so that no other one gets its id.
    seen[id(value)] = len(seen), value
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [snapshot(one, seen) for one in value.ravel()]
    if isinstance(value, np.ndarray | np.generic):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if type(value).__module__ == "torch" and hasattr(value, "numpy"):
        return snapshot(value.detach().cpu().numpy())
    if isinstance(value, dict):
        return [(snapshot(key, seen), snapshot(one, seen)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [snapshot(one, seen) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    held = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(value, name):
                held[name] = getattr(value, name)
    held = {name: one for name, one in held.items() if name not in WORK}
    return type(value).__name__, snapshot(held, seen)
