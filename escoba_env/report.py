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


@dataclass(frozen=True)
class Category:
    """One category of a round.

    Attributes:
        name: One of ``CATEGORIES``. ``most_oros`` and ``most_sevens`` include the points for all.
        counts: What each side has in it: cards, oros, sevens, setenta total (0: a suit is
            missing), 1 for the seven of oros, length of the napola, escobas.
        points: Points of each side, exact.
    """

    name: str
    counts: tuple[int, ...]
    points: tuple[Fraction, ...]

    @property
    def winners(self) -> tuple[int, ...]:
        """Sides that have scored in it."""
        return tuple(side for side, points in enumerate(self.points) if points)


@dataclass(frozen=True)
class RoundReport:
    """A finished round, category by category.

    Attributes:
        round_index: Rounds of the match before it.
        categories: Every category that the rules give points for, or could.
        totals: Points of each side in the round.
        scores: Match score of each side after it.
    """

    round_index: int
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
        content["categories"] = {
            c.name: {"counts": list(c.counts), "points": _plain(c.points)} for c in self.categories
        }
        content["totals"] = _plain(self.totals)
        content["scores"] = _plain(self.scores)
        return content

    def __str__(self) -> str:
        """A line for each category: counts of each side, and who scores what."""
        lines = []
        for category in self.categories:
            counts = " : ".join(str(count) for count in category.counts)
            won = ", ".join(f"side {s} +{category.points[s]}" for s in category.winners) or "nobody"
            lines.append(f"{category.name}: {counts} ({won})")
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
        categories=tuple(
            Category(name, tuple(counts[i, :sides].tolist()), _points(points[i, :sides]))
            for i, name in enumerate(CATEGORIES)
        ),
        totals=_points(state["round_points"][0, :sides]),
        scores=_points(state["scores"][0, :sides]),
    )


def _points(twelfths: NDArray[Any]) -> tuple[Fraction, ...]:
    return tuple(Fraction(int(t), TWELFTHS) for t in twelfths)
