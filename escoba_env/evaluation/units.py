"""``Table`` and ``Unit``: the pieces of work that evaluations are made of, and ``play_tables``.

A unit is some deals of one table. Its result depends on what it says and on nothing else: not on
the process that plays it, nor on what is played before it or beside it. So units can be played
anywhere, kept, and put together in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Batch
from escoba_env.engine.record import TWELFTHS
from escoba_env.evaluation.playout import play_out
from escoba_env.evaluation.pool import AnyWorkers, Load, Store, run_units
from escoba_env.policies import PolicyLike, load_policy, policy_files, split_options
from escoba_env.rules import Rules

A, B = 0, 1
UNIT_DEALS = 100
"""Deals of a unit where the caller has no say: enough games side by side for a network, and few
enough that work is shared evenly and little of it is lost."""


@dataclass(frozen=True)
class Table:
    """Who plays what, and who sits where.

    Attributes:
        policies: Those who play.
        seating: Which of ``policies`` sits in each seat, once for every time a deal is played.
        rules: Rules of the table.
        episode: ``"round"`` or ``"match"``.
    """

    policies: tuple[PolicyLike, ...]
    seating: tuple[tuple[int, ...], ...]
    rules: Rules
    episode: str

    @property
    def numbers_of_a_deal(self) -> int:
        """Points that a deal results in: those of each side in each rotation."""
        return len(self.seating) * self.rules.num_sides


@dataclass(frozen=True)
class Unit:
    """Some deals of a table.

    Attributes:
        table: The table.
        seed: Seed of the deals.
        first: The first of them: a game of the seed.
        deals: Number of them.
    """

    table: Table
    seed: int
    first: int
    deals: int

    def key(self, identify: Callable[[PolicyLike], str]) -> dict[str, Any]:
        """Returns everything that the result depends on, for JSON."""
        return {
            "play": [identify(policy) for policy in self.table.policies],
            "seating": [list(row) for row in self.table.seating],
            "rules": self.table.rules.changes(),
            "episode": self.table.episode,
            "seed": self.seed,
            "first": self.first,
            "deals": self.deals,
        }

    def play(self, load: Load) -> dict[str, Any]:
        """Plays the deals; returns the values of a :class:`Played` as lists."""
        table = self.table
        rotations = len(table.seating)
        batch = Batch(self.deals * rotations, table.rules, episode=table.episode, skip_forced=True)
        indices = np.arange(self.first, self.first + self.deals)
        batch.reset(self.seed, game_indices=np.repeat(indices, rotations))
        chairs = np.tile(np.array(table.seating), (self.deals, 1))
        played = play_out(batch, [load(policy) for policy in table.policies], chairs)
        escobas = None
        if played.escobas is not None:
            by_rotation = played.escobas.reshape(self.deals, rotations, table.rules.players)
            escobas = by_rotation.sum(0).tolist()
        return {
            "twelfths": played.twelfths[:, : table.rules.num_sides].ravel().tolist(),
            "rounds": int(played.rounds.sum()),
            "escobas": escobas,
        }


@dataclass(frozen=True, eq=False)
class Played:
    """What came out of the deals of a table.

    Attributes:
        table: The table.
        twelfths: int32 (deals, rotations, sides): points of each side over the whole game.
        rounds: Rounds played.
        escobas: int64 (rotations, players): escobas that score, summed over the deals; ``None``
            for matches.
    """

    table: Table
    twelfths: NDArray[np.int32]
    rounds: int
    escobas: NDArray[np.int64] | None

    @property
    def deals(self) -> int:
        """Number of deals."""
        return len(self.twelfths)

    def margins(self, team: Collection[int] = (A,)) -> NDArray[np.int64]:
        """Returns what a policy, or several as partners, win from the others; exact.

        Args:
            team: Which of the table's policies: in every rotation one whole side is theirs.

        Returns:
            int64 (deals,): their points times the number of sides, less everybody's points, in
            twelfths and summed over the rotations. :attr:`unit` is what one point of margin per
            game is in it.
        """
        sides = self.table.rules.num_sides
        own = [next(s for s in range(sides) if row[s] in team) for row in self.table.seating]
        scores = self.twelfths.astype(np.int64)
        picked = scores[:, np.arange(len(own)), own]
        margins: NDArray[np.int64] = (picked * sides - scores.sum(2)).sum(1)
        return margins

    @property
    def unit(self) -> int:
        """One point of margin per game, in :meth:`margins`."""
        return TWELFTHS * (self.table.rules.num_sides - 1) * len(self.table.seating)


def play_tables(
    tables: Sequence[Table],
    *,
    deals: int,
    seed: int,
    block: int = UNIT_DEALS,
    workers: AnyWorkers = 1,
    store: Store | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    enough: Callable[[list[Played]], bool] | None = None,
) -> tuple[list[Played], bool]:
    """Plays the same deals at every table, block of deals by block.

    Args:
        tables: The tables.
        deals: Number of deals, games 0 to ``deals - 1`` of the seed.
        seed: Seed of the deals.
        block: Deals of a unit. A network may round otherwise in a batch of another size, so
            results that are to be compared to the last digit have the same.
        workers: Processes that play, as for ``run_units``.
        store: Where results are kept and looked up.
        on_progress: Called after each unit with the deals finished so far, those of all tables
            together, and the rounds in them.
        enough: Called after each block with what was played in it; true: no more is needed.

    Returns:
        What was played, for each table the same deals; and whether Ctrl-C came before all of it
        was. Blocks that some of the tables have not finished are left out, but kept in the store.
    """

    def units() -> Iterator[Unit]:
        for first in range(0, deals, block):
            for table in tables:
                yield Unit(table, seed, first, min(block, deals - first))

    finished: list[list[dict[str, Any]]] = []
    row: list[dict[str, Any]] = []
    done = rounds = 0
    stopped = False
    results = run_units(units(), workers=workers, store=store, identify=identify)
    try:
        with closing(results):
            for result in results:
                row.append(result)
                done += len(result["twelfths"]) // tables[len(row) - 1].numbers_of_a_deal
                rounds += result["rounds"]
                if on_progress is not None:
                    on_progress(done, rounds)
                if len(row) == len(tables):
                    finished.append(row)
                    row = []
                    if enough is not None and enough(_together(tables, finished[-1:])):
                        break
    except KeyboardInterrupt:
        stopped = True
    return _together(tables, finished), stopped


def _together(tables: Sequence[Table], rows: Sequence[Sequence[dict[str, Any]]]) -> list[Played]:
    return [_joined(table, [row[i] for row in rows]) for i, table in enumerate(tables)]


def _joined(table: Table, parts: Sequence[dict[str, Any]]) -> Played:
    shape = (-1, len(table.seating), table.rules.num_sides)
    twelfths = [np.array(part["twelfths"], np.int32).reshape(shape) for part in parts]
    escobas = None
    if table.episode == "round":
        escobas = np.zeros((len(table.seating), table.rules.players), np.int64)
        for part in parts:
            escobas += np.array(part["escobas"], np.int64)
    return Played(
        table,
        np.concatenate(twelfths) if twelfths else np.zeros((0, *shape[1:]), np.int32),
        sum(part["rounds"] for part in parts),
        escobas,
    )


def check_names(name: str, policies: Sequence[Any]) -> list[str]:
    """Returns policies as names, each of which can be loaded and none of which stands twice.

    Raises:
        ValueError: If one is something else than a name or a folder, unknown or given twice.
    """
    names = []
    for policy in policies:
        if not isinstance(policy, str | Path):
            raise ValueError(f"{name} {policy!r} is not possible; allowed: a name or a folder")
        load_policy(policy)
        if str(policy) in names:
            raise ValueError(f"{name} {str(policy)!r} is given twice; allowed: once")
        names.append(str(policy))
    return names


def identify(policy: PolicyLike) -> str:
    """Names a policy so that another one never has the same name: files by what is in them."""
    if not isinstance(policy, str | Path):
        raise ValueError(
            f"policy {policy!r} is an object; allowed here: a name or a folder, which can be "
            f"loaded again"
        )
    name, options = split_options(str(policy))
    digests = []
    # An option may name a policy too, such as the one that a search plays games out with.
    for value in (name, *options.values()):
        files = policy_files(value) if isinstance(value, str) else []
        if files:
            content = b"".join(file.read_bytes() for file in files)
            digests.append(f" sha256={hashlib.sha256(content).hexdigest()[:16]}")
    return str(policy) + "".join(digests)
