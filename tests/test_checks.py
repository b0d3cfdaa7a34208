"""How arguments are read and quoted; ``test_bad_arguments`` sees that every entry point does it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from escoba_env.checks import MAX_QUOTE, flag, integer, path_of, quoted, real, room_for
from tests.entry_points import HUGE, LONG, Index, Unreadable

VALUES: list[Any] = [
    *[HUGE, -HUGE, [HUGE], {HUGE: LONG}, LONG, LONG.encode(), [[[[LONG]]]], range(10**9)],
    *[np.zeros((50, 50)), np.array([LONG] * 3), np.array([HUGE], object), Unreadable()],
    *[[Unreadable()] * 3, Fraction(HUGE, 3), type(LONG, (), {})(), list(range(10**6))],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_any_value_is_quoted_on_one_short_line(value: Any) -> None:
    text = quoted(value)
    assert 0 < len(text) <= MAX_QUOTE
    assert "\n" not in text


@pytest.mark.parametrize(
    "value", [0, -7, 10**30, "a 'b'", None, True, 1.5, [1, "7o"], {"a": (1,)}, b"x", float("nan")]
)
def test_a_short_value_is_quoted_as_its_repr(value: Any) -> None:
    assert quoted(value) == repr(value)


def test_a_number_of_too_many_digits_is_quoted_by_how_many() -> None:
    assert quoted(HUGE) == "<a whole number of some 5,001 digits>"
    assert quoted(10**100) == f"{10**100}"


def test_a_long_value_is_quoted_without_its_middle() -> None:
    path = "/home/" + "x" * 300 + "/config.yaml"
    assert quoted(path).startswith("'/home/xxx")
    assert quoted(path).endswith("xxx/config.yaml'")
    assert len(quoted(path)) == MAX_QUOTE


def test_a_value_that_contains_itself_is_quoted() -> None:
    value: list[Any] = []
    value.append(value)
    assert quoted(value).startswith("[[[")


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3), Index(3)])
def test_a_whole_number_of_any_type_is_an_int(value: Any) -> None:
    assert type(integer(value)) is int
    assert integer(value) == 3


@pytest.mark.parametrize("value", [True, np.bool_(True), np.array(True), 3.0, "3", None, [3]])
def test_what_is_no_whole_number_is_none(value: Any) -> None:
    assert integer(value) is None


def test_tensors_are_numbers_if_they_hold_one() -> None:
    torch = pytest.importorskip("torch")
    assert integer(torch.tensor(3)) == 3
    for none in (torch.tensor(True), torch.tensor(3.0), torch.tensor([1, 2])):
        assert integer(none) is None
    assert integer(torch.empty((), dtype=torch.int64, device="meta")) is None


def test_a_real_number_is_finite_and_within_its_range() -> None:
    for value in (1, 1.5, np.float32(1.5), np.int8(1), Fraction(3, 2)):
        assert type(real("x", value, 1, 2)) is float
    for bad in (True, np.bool_(True), "1", None, float("nan"), float("inf"), HUGE, 3, 1j, [1.5]):
        with pytest.raises(ValueError, match=r"^x .* is not possible; allowed: a number, 1 to 2$"):
            real("x", bad, 1, 2)


def test_a_flag_is_true_or_false_and_nothing_like_it() -> None:
    assert flag("x", np.bool_(False)) is False
    for bad in (0, 1, None, "true", np.int8(1), [True]):
        with pytest.raises(ValueError, match=r"^x .* allowed: true or false$"):
            flag("x", bad)


def test_a_path_is_text_that_a_file_can_have() -> None:
    assert path_of("file", "a/b") == Path("a/b")
    for bad in ("", "a\0b", LONG, b"a", 3, None):
        with pytest.raises(ValueError, match=r"^file .* is not possible; allowed: a path$"):
            path_of("file", bad)


def test_a_lack_of_memory_is_said_of_the_argument_that_asked_for_it() -> None:
    message = r"n 2 is not possible: they take 1\.0 GiB"
    with pytest.raises(ValueError, match=message), room_for("n", 2, 2**30):
        raise MemoryError
    # What the machine has not is not even asked for.
    with pytest.raises(ValueError, match="n 3 is not possible"), room_for("n", 3, 2**62):
        pytest.fail("it was asked for")
