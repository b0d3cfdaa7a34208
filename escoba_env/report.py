"""``RoundReport``: who won which category of a finished round, with what counts.

The counts and points are the engine's own; this file only names them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.engine.batch import NUM_CATEGORIES, report_round
from escoba_env.engine.record import TWELFTHS
from escoba_env.rules import Rules

CATEGORIES = (
    "most_cards",
    "most_oros",
    "most_sevens",
    "setenta",
    "seven_of_oros",
    "napola",
    "escoba",
)
"""Categories in the order in which the engine reports them."""
assert len(CATEGORIES) == NUM_CATEGORIES

_POINTS_FOR_ALL = {"most_oros": "all_oros", "most_sevens": "all_sevens"}
"""Rules that give other points in a category."""


def side_name(rules: Rules, side: int) -> str:
    """Names a side by its players, such as ``player_0`` or ``player_0+player_2``."""
    return "+".join(f"player_{seat}" for seat in range(side, rules.players, rules.num_sides))


@dataclass(frozen=True)
class Category:
    """One category of a round.

    Attributes:
        name: One of ``CATEGORIES``. ``most_oros`` and ``most_sevens`` include the points for all.
        counts: What each side has in it: cards, oros, sevens, setenta total (0: a suit is
            missing), 1 for the seven of oros, length of the napola, escobas.
        points: Points of each side, exact.
        counted: Whether the rules give points for it.
    """

    name: str
    counts: tuple[int, ...]
    points: tuple[Fraction, ...]
    counted: bool

    @property
    def winners(self) -> tuple[int, ...]:
        """Sides that have scored in it."""
        return tuple(side for side, points in enumerate(self.points) if points)


@dataclass(frozen=True)
class RoundReport:
    """A finished round, category by category.

    Attributes:
        round_index: Rounds of the match before it.
        sides: Names of the sides; see ``side_name``.
        categories: Every category, also those that the rules give no points for.
        totals: Points of each side in the round.
        scores: Match score of each side after it.
    """

    round_index: int
    sides: tuple[str, ...]
    categories: tuple[Category, ...]
    totals: tuple[Fraction, ...]
    scores: tuple[Fraction, ...]

    def __getitem__(self, name: str) -> Category:
        """Returns a category by name."""
        for category in self.categories:
            if category.name == name:
                return category
        raise KeyError(f"category {name!r} is unknown; allowed: {', '.join(CATEGORIES)}")

    def as_dict(self) -> dict[str, Any]:
        """Returns the report for JSON; points that are not whole are text, such as ``"1/2"``."""
        content: dict[str, Any] = dataclasses.asdict(self)
        content["sides"] = list(self.sides)
        content["categories"] = {
            c.name: {
                "counts": list(c.counts),
                "points": _plain(c.points),
                "counted": c.counted,
            }
            for c in self.categories
        }
        content["totals"] = _plain(self.totals)
        content["scores"] = _plain(self.scores)
        return content

    def __str__(self) -> str:
        """A line for each category that counts: counts of each side, and who scores what."""
        lines = [" : ".join(self.sides)]
        for category in self.categories:
            if not category.counted:
                continue
            counts = " : ".join(str(count) for count in category.counts)
            won = [f"{self.sides[side]} +{category.points[side]}" for side in category.winners]
            lines.append(f"{category.name}: {counts} ({', '.join(won) or 'nobody'})")
        lines.append(f"round: {' : '.join(map(str, self.totals))}")
        lines.append(f"score: {' : '.join(map(str, self.scores))}")
        return "\n".join(lines)


def _plain(points: tuple[Fraction, ...]) -> list[int | str]:
    return [int(p) if p.denominator == 1 else str(p) for p in points]


def round_report(rules: Rules, spec: NDArray[Any], state: NDArray[np.void]) -> RoundReport:
    """Reports on a round that has just ended.

    Args:
        rules: Rules of the table.
        spec: The rules lowered.
        state: Array of one game record, whose round is over.
    """
    sides = rules.num_sides
    counts = np.zeros((NUM_CATEGORIES, 4), np.int64)
    points = np.zeros((NUM_CATEGORIES, 4), np.int64)
    report_round(spec, state, counts, points)
    return RoundReport(
        round_index=int(state["round_index"][0]),
        sides=tuple(side_name(rules, side) for side in range(sides)),
        categories=tuple(
            Category(
                name,
                tuple(counts[i, :sides].tolist()),
                _points(points[i, :sides]),
                counted=any(getattr(rules, field) for field in _fields_of(name)),
            )
            for i, name in enumerate(CATEGORIES)
        ),
        totals=_points(state["round_points"][0, :sides]),
        scores=_points(state["scores"][0, :sides]),
    )


def _fields_of(category: str) -> tuple[str, ...]:
    """Fields of the rules that say what a category is worth."""
    for_all = _POINTS_FOR_ALL.get(category)
    return (category,) if for_all is None else (category, for_all)


def _points(twelfths: NDArray[Any]) -> tuple[Fraction, ...]:
    return tuple(Fraction(int(t), TWELFTHS) for t in twelfths)
