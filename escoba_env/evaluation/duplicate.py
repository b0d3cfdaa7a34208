"""``evaluate``: A against B on duplicate deals, and ``Evaluation``, what came out.

Duplicate: the same deal is played once for every side that A can take, so that the luck of the
cards and of the first seat (about half a point a round) cancels out. One deal is one sample.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.checks import quoted, whole
from escoba_env.engine.record import TWELFTHS, lower
from escoba_env.evaluation.pool import AnyWorkers, check_workers
from escoba_env.evaluation.seeds import open_store
from escoba_env.evaluation.units import (
    UNIT_DEALS,
    A,
    B,
    Played,
    Table,
    play_tables,
    stop_with,
)
from escoba_env.policies import PolicyLike, load_policy, name_of
from escoba_env.rules import Rules, make_rules
from escoba_env.version import package_version

MAX_DEALS = 10**8
"""Deals of one evaluation: the points of each are kept until the end."""
MIN_PRECISION_DEALS = 200
"""Deals before a precision can be reached: fewer say little about how wide the interval is."""
NORMAL_95 = 1.959963984540054
"""Half of a 95 % interval of the normal distribution, in standard deviations."""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """What A wins from B, in short.

    Attributes:
        a: The policy that is measured, as it was asked for.
        b: The policy in every other seat.
        margin: Mean of A's points less the mean of the other sides' points, per game.
        half_width: Half of the 95 % interval around ``margin``.
        wins: Games in which A's side alone had most points.
        draws: Games in which A's side shared the lead.
        losses: The other games.
    """

    a: str
    b: str
    margin: float
    half_width: float
    wins: int
    draws: int
    losses: int

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of ``margin``: low and high."""
        return self.margin - self.half_width, self.margin + self.half_width


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Result of :func:`evaluate`: what A wins from B.

    Attributes:
        a: The policy that is measured, as it was asked for.
        b: The policy in every other seat.
        rules: Rules of the table.
        episode: ``"round"`` or ``"match"``: what a game is.
        deals: Number of deals: the samples that the interval comes from.
        precision: The half-width at which to stop, if one was asked for.
        seed: Seed of the deals; the deals are its games 0 to ``deals - 1``.
        complete: Whether all deals that were asked for were played, or enough for the precision;
            false after Ctrl-C, or once results could no longer be kept.
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
    precision: float | None
    seed: int
    complete: bool
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

    def __repr__(self) -> str:
        # In ASCII, so that every terminal can show it.
        return (
            f"<Evaluation {self.rules.title}, {self.episode}: {quoted(self.a)} wins "
            f"{self.margin:+.3f} +- {self.half_width:.3f} from {quoted(self.b)} in {self.deals} "
            f"deals>"
        )

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of ``margin``: low and high."""
        return self.margin - self.half_width, self.margin + self.half_width

    @property
    def precision_reached(self) -> bool | None:
        """Whether the precision that was asked for was reached; ``None`` if none was."""
        if self.precision is None:
            return None
        return self.deals >= MIN_PRECISION_DEALS and self.half_width <= self.precision

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON; ``rules`` as ``Rules.as_dict``."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["rules"] = self.rules.as_dict()
        values["interval"] = list(self.interval)
        values["precision_reached"] = self.precision_reached
        return values


def evaluate(
    a: PolicyLike,
    b: PolicyLike,
    rules: Any = "classic",
    *,
    episode: str = "round",
    deals: int = 1000,
    precision: float | None = None,
    seed: int | None = None,
    chunk: int = UNIT_DEALS,
    workers: AnyWorkers = 1,
    folder: str | Path | None = None,
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
            With a precision it is the most that are played.
        precision: Stop when half of the 95 % interval of the margin is this or less, which is
            asked after every ``chunk`` deals, and never before 200. Stopping by the width, not by
            the margin, leaves the interval what it is. Whether it was reached is in the result.
        seed: Seed of the deals. Default: one that is drawn anew, so that nobody can have known the
            deals, or that of the folder. The result has it; given here, it repeats the evaluation.
        chunk: Most deals played side by side; policies that take long may ask for fewer. It bounds
            the memory used, and changes no result but that of networks, which may round otherwise.
        workers: Processes that play, or ``RayWorkers``. Results do not depend on it. With others
            than 1, A and B are names or folders, and a script that calls this is guarded by
            ``if __name__ == "__main__"``.
        folder: Where results are kept; deals whose results are there already are not played again.
            A and B are names or folders then.
        on_progress: Called after each chunk, or part of one, with the deals and the rounds finished
            so far.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        RulesError: If the rules are not possible.
        IllegalActionError: If a policy chooses an illegal action.
        ValueError: If another argument is not possible, by name.
        Interrupted: On Ctrl-C, if at least two deals were finished; it is a ``KeyboardInterrupt``
            that holds the result so far.
        StoreError: If results can no longer be kept, with the result as for ``Interrupted``.
    """
    rules = make_rules(rules, **fields)
    deals = whole("deals", deals, 2, MAX_DEALS)
    chunk = whole("chunk", chunk, 1, MAX_DEALS)
    precision = _check_precision(precision)
    workers = check_workers(workers)
    policies = (a, b)
    for policy in policies:
        load_policy(policy)
        if isinstance(policy, str | Path):
            continue
        if workers != 1:
            raise ValueError(
                f"policy {quoted(policy)} with workers={workers} is not possible; allowed: "
                f"names and folders, which other processes can load"
            )
        if folder is not None:
            raise ValueError(
                f"policy {quoted(policy)} with folder={quoted(folder)} is not possible; "
                f"allowed: names and folders, by which kept results are found again"
            )
    lower(rules, episode)
    store, seed = open_store(folder, seed)
    # Objects are passed on as they are; names are loaded by whichever process plays.
    table = duplicate_table(a, b, rules, episode)
    begin = time.perf_counter()

    # Margins are whole numbers here, so their sums are exact however many there are.
    number = total = squares = 0

    def enough(block: list[Played]) -> bool:
        nonlocal number, total, squares
        if precision is None:
            return False
        margins = block[0].margins().tolist()
        number += len(margins)
        total += sum(margins)
        squares += sum(margin * margin for margin in margins)
        if number < MIN_PRECISION_DEALS:
            return False
        deviation = math.sqrt((squares * number - total * total) / (number * (number - 1)))
        return NORMAL_95 * deviation / math.sqrt(number) <= precision * block[0].unit

    (played,), stop = play_tables(
        [table],
        deals=deals,
        seed=seed,
        block=chunk,
        workers=workers,
        store=store,
        on_progress=on_progress,
        enough=enough,
    )
    if stop is not None and played.deals < 2:
        raise stop
    result = _evaluation(
        played, seed, precision, complete=stop is None, seconds=time.perf_counter() - begin
    )
    if stop is not None:
        stop_with(stop, result)
    return result


def pairing_of(played: Played) -> Pairing:
    """Returns what A has won from B at a table of :func:`duplicate_table`."""
    sides = played.table.rules.num_sides
    # In rotation r A is side r.
    scores = played.twelfths
    own = scores.diagonal(axis1=1, axis2=2)
    best_other = np.where(np.eye(sides, dtype=np.bool_), -1, scores).max(2)
    margin, half_width = mean_interval(played.margins() / played.unit)
    return Pairing(
        a=name_of(played.table.policies[A]),
        b=name_of(played.table.policies[B]),
        margin=margin,
        half_width=half_width,
        wins=int((own > best_other).sum()),
        draws=int((own == best_other).sum()),
        losses=int((own < best_other).sum()),
    )


def _evaluation(
    played: Played, seed: int, precision: float | None, *, complete: bool, seconds: float
) -> Evaluation:
    table = played.table
    others = table.rules.num_sides - 1
    rounds = played.rounds
    own_points = int(played.twelfths.diagonal(axis1=1, axis2=2).sum(dtype=np.int64))
    all_points = int(played.twelfths.sum(dtype=np.int64))
    own_escobas = other_escobas = None
    if played.escobas is not None:
        of_a = int(played.escobas[np.array(table.seating) == A].sum())
        own_escobas = of_a / rounds
        other_escobas = (int(played.escobas.sum()) - of_a) / (rounds * others)
    return Evaluation(
        **dataclasses.asdict(pairing_of(played)),
        rules=table.rules,
        episode=table.episode,
        deals=played.deals,
        precision=precision,
        seed=seed,
        complete=complete,
        rotations=len(table.seating),
        games=played.deals * len(table.seating),
        rounds=rounds,
        points=own_points / (TWELFTHS * rounds),
        other_points=(all_points - own_points) / (TWELFTHS * rounds * others),
        escobas=own_escobas,
        other_escobas=other_escobas,
        seconds=seconds,
        version=package_version(),
    )


def duplicate_table(a: PolicyLike, b: PolicyLike, rules: Rules, episode: str) -> Table:
    """Returns the table of A against B: each deal once with A on every side."""
    return Table((a, b), tuple(tuple(row) for row in seatings(rules).tolist()), rules, episode)


def _check_precision(precision: Any) -> float | None:
    if precision is None:
        return None
    number = isinstance(precision, int | float) and not isinstance(precision, bool)
    # A whole number may be too large to be a float.
    if not number or not 0 < precision <= sys.float_info.max:
        raise ValueError(
            f"precision {quoted(precision)} is not possible; allowed: a number above 0"
        )
    return float(precision)


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
