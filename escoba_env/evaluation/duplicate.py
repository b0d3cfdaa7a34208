"""``evaluate``: A against B on duplicate deals, and ``Evaluation``, what came out.

Duplicate: the same deal is played once for every side that A can take, so that the luck of the
cards and of the first seat (about half a point a round) cancels out. One deal is one sample.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Batch, check_seed
from escoba_env.checks import whole
from escoba_env.engine.record import TWELFTHS
from escoba_env.evaluation.playout import play_out
from escoba_env.policies import Policy, load_policy
from escoba_env.rules import Rules, make_rules

A, B = 0, 1
MAX_DEALS = 10**8
"""Deals of one evaluation: the margin of each is kept until the end."""
NORMAL_95 = 1.959963984540054
"""Half of a 95 % interval of the normal distribution, in standard deviations."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Result of :func:`evaluate`: what A wins from B.

    Attributes:
        a: The policy that is measured, as it was asked for.
        b: The policy in every other seat.
        rules: Rules of the table.
        episode: ``"round"`` or ``"match"``: what a game is.
        deals: Number of deals: the samples that the interval comes from.
        seed: Seed of the deals; the deals are its games 0 to ``deals - 1``.
        rotations: How often each deal was played: once for every side that A can take.
        games: Games played, ``deals * rotations``.
        rounds: Rounds played in them.
        margin: Mean of A's points less the mean of the other sides' points, per game.
        half_width: Half of the 95 % interval around ``margin``.
        wins: Games in which A's side alone had most points.
        draws: Games in which A's side shared the lead.
        losses: The other games.
        points: A's points per round.
        other_points: The mean of the other sides' points per round.
        escobas: Escobas of A's side per round; ``None`` for matches.
        other_escobas: The mean of the other sides' escobas per round; ``None`` for matches.
        seconds: Time taken; left out when evaluations are compared.
        version: Version of the package that played.
    """

    a: str
    b: str
    rules: Rules
    episode: str
    deals: int
    seed: int
    rotations: int
    games: int
    rounds: int
    margin: float
    half_width: float
    wins: int
    draws: int
    losses: int
    points: float
    other_points: float
    escobas: float | None
    other_escobas: float | None
    seconds: float = dataclasses.field(compare=False)
    version: str

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of ``margin``: low and high."""
        return self.margin - self.half_width, self.margin + self.half_width

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON; ``rules`` as ``Rules.as_dict``."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["rules"] = self.rules.as_dict()
        values["interval"] = list(self.interval)
        return values


def evaluate(
    a: str | Path | Policy,
    b: str | Path | Policy,
    rules: Any = "classic",
    *,
    episode: str = "round",
    deals: int = 1000,
    seed: int = 0,
    chunk: int = 500,
    on_progress: Callable[[int, int], None] | None = None,
    **fields: Any,
) -> Evaluation:
    """Plays A against B on duplicate deals.

    Every deal is played once for every side, with A on that side and B on all others: with two
    sides they swap seats, with three or four players A sits in each seat in turn, and in a
    partnership A plays seats 0 and 2, then 1 and 3. The mean of A's margins over these games is
    one sample. Policies that draw at random draw alike in the same situation of the same deal.

    Args:
        a: The policy to measure; anything that ``load_policy`` takes.
        b: Its opponent.
        rules: A preset's name, a ``Rules`` or a mapping of fields.
        episode: ``"round"``, or ``"match"`` for margins and wins of whole matches.
        deals: Number of deals, at least 2; of a match, its first round's deal and those after it.
        seed: Seed of the deals.
        chunk: Deals played side by side. It bounds the memory used and changes no result.
        on_progress: Called after each chunk with the deals and the rounds finished so far.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        RulesError: If the rules are not possible.
        IllegalActionError: If a policy chooses an illegal action.
        ValueError: If another argument is not possible, by name.
    """
    table = make_rules(rules, **fields)
    deals = whole("deals", deals, 2, MAX_DEALS)
    chunk = whole("chunk", chunk, 1, MAX_DEALS)
    policies = (load_policy(a), load_policy(b))
    begin = time.perf_counter()
    seats = seatings(table)
    sides = rotations = len(seats)
    # A's points * sides - everyone's points: whole numbers, so sums are exact in any order.
    margins = np.empty(deals, np.int64)
    wins = draws = rounds = 0
    own_points = all_points = own_escobas = all_escobas = 0
    for first in range(0, deals, chunk):
        number = min(chunk, deals - first)
        batch = Batch(number * rotations, table, episode=episode, skip_forced=True)
        batch.reset(seed, game_indices=np.repeat(np.arange(first, first + number), rotations))
        chairs = np.tile(seats, (number, 1))
        played = play_out(batch, policies, chairs)
        # In rotation r A is side r, and seat r belongs to side r.
        scores = played.twelfths[:, :sides].reshape(number, rotations, sides)
        own = scores.diagonal(axis1=1, axis2=2)
        best_other = np.where(np.eye(sides, dtype=np.bool_), -1, scores).max(2)
        margins[first : first + number] = (own * sides - scores.sum(2)).sum(1)
        wins += int((own > best_other).sum())
        draws += int((own == best_other).sum())
        rounds += int(played.rounds.sum())
        own_points += int(own.sum())
        all_points += int(scores.sum())
        if played.escobas is not None:
            own_escobas += int(played.escobas[chairs == A].sum())
            all_escobas += int(played.escobas.sum())
        if on_progress is not None:
            on_progress(first + number, rounds)
    margin, half_width = mean_interval(margins / (TWELFTHS * (sides - 1) * rotations))
    games = deals * rotations
    per_round = episode == "round"
    return Evaluation(
        a=_name(a),
        b=_name(b),
        rules=table,
        episode=episode,
        deals=deals,
        seed=check_seed(seed),
        rotations=rotations,
        games=games,
        rounds=rounds,
        margin=margin,
        half_width=half_width,
        wins=wins,
        draws=draws,
        losses=games - wins - draws,
        points=own_points / (TWELFTHS * rounds),
        other_points=(all_points - own_points) / (TWELFTHS * rounds * (sides - 1)),
        escobas=own_escobas / rounds if per_round else None,
        other_escobas=(all_escobas - own_escobas) / (rounds * (sides - 1)) if per_round else None,
        seconds=time.perf_counter() - begin,
        version=package_version(),
    )


def seatings(rules: Rules) -> NDArray[np.int64]:
    """Returns who sits where in each rotation of a deal.

    Returns:
        int64 (rotations, players): 0 for A and 1 for B. In rotation ``r`` A plays side ``r``.
    """
    return np.array(
        [
            [A if rules.side_of(seat) == side else B for seat in range(rules.players)]
            for side in range(rules.num_sides)
        ],
        np.int64,
    )


def mean_interval(samples: NDArray[np.float64]) -> tuple[float, float]:
    """Returns the mean of at least two samples and half of its 95 % interval (normal)."""
    half_width = NORMAL_95 * float(samples.std(ddof=1)) / math.sqrt(len(samples))
    return float(samples.mean()), half_width


def package_version() -> str:
    """Returns the version of the installed package; ``"unknown"`` if none is installed."""
    try:
        return importlib.metadata.version("escoba-env")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _name(policy: str | Path | Policy) -> str:
    """The name that a policy was asked for by, options included."""
    return str(policy) if isinstance(policy, str | Path) else policy.name
