"""``Table`` and ``Unit``: the pieces of work that evaluations are made of, and ``play_tables``.

A unit is some deals of one table. Its result depends on what it says and on nothing else: not on
the process that plays it, nor on what is played before it or beside it. So units can be played
anywhere, kept, and put together in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Batch, IllegalActionError
from escoba_env.checks import quoted, whole
from escoba_env.engine.record import TWELFTHS
from escoba_env.evaluation.playout import play_out
from escoba_env.evaluation.pool import AnyWorkers, Load, Store, StoreError, run_units
from escoba_env.files import MAX_TENSORS, read_whole
from escoba_env.policies import PolicyLike, load_policy, policy_files, split_options
from escoba_env.rules import Rules

A, B = 0, 1
INT32 = 2**31 - 1
UNIT_DEALS = 100
"""Deals of a unit where the caller has no say: enough games side by side for a network, and few
enough that work is shared evenly and little of it is lost, unless a policy takes long."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what was done before it.

    Attributes:
        result: The result over the deals that were finished.
    """

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


Stop: TypeAlias = KeyboardInterrupt | StoreError
"""What ends work early, and leaves the result over what was finished."""


def stop_with(stop: Stop, result: Any) -> NoReturn:
    """Ends work that was stopped.

    Raises:
        Interrupted: With the result, if Ctrl-C came.
        StoreError: With the result, if nothing more could be kept.
    """
    if isinstance(stop, StoreError):
        stop.result = result
        raise stop
    raise Interrupted(result)


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
        at_once: Deals that are enough to be played by themselves; see ``Policy``.
    """

    table: Table
    seed: int
    first: int
    deals: int
    at_once: int

    def parts(self) -> list[Unit]:
        """Splits a unit that takes long."""
        end = self.first + self.deals
        return [
            replace(self, first=first, deals=min(self.at_once, end - first))
            for first in range(self.first, end, self.at_once)
        ]

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
        with self.naming_deals():
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

    @contextmanager
    def naming_deals(self) -> Iterator[None]:
        """Adds the deals and their seed to what a policy's fault says, so that it can be found."""
        try:
            yield
        except ValueError as error:
            if type(error) not in (ValueError, IllegalActionError):
                raise
            last = self.first + self.deals - 1
            raise type(error)(
                f"{error} (deals {self.first} to {last} of seed {self.seed})"
            ) from error

    def fits(self, result: Any) -> bool:
        """Whether something that was read from a file can be what :meth:`play` returns."""
        if not isinstance(result, dict) or set(result) != {"twelfths", "rounds", "escobas"}:
            return False
        rules, rotations = self.table.rules, len(self.table.seating)
        games = self.deals * rotations
        is_match = self.table.episode == "match"
        if not are_wholes([result["rounds"]], 1, games, games * INT32 if is_match else games):
            return False
        # Every match has a round, and one may have all the others.
        longest = result["rounds"] - games + 1
        most = min(INT32, TWELFTHS * most_points(rules) * longest)
        if not are_wholes(result["twelfths"], games * rules.num_sides, 0, most):
            return False
        escobas = result["escobas"]
        if is_match:
            # Somebody has won.
            best = np.array(result["twelfths"]).reshape(games, rules.num_sides).max(1)
            return escobas is None and bool((best >= TWELFTHS * rules.match_target).all())
        return (
            isinstance(escobas, list)
            and len(escobas) == rotations
            and all(
                are_wholes(row, rules.players, 0, self.deals * _escobas(rules)) for row in escobas
            )
        )


def are_wholes(values: Any, number: int, low: int, high: int) -> bool:
    """Whether something that was read from a file is a list of so many whole numbers in a range."""
    return (
        isinstance(values, list)
        and len(values) == number
        and all(type(value) is int and low <= value <= high for value in values)
    )


def most_points(rules: Rules) -> int:
    """Returns more points than a side can score in a round."""
    majorities = rules.most_cards + rules.all_oros + rules.all_sevens + rules.setenta
    napola = len(rules.ranks) if rules.napola else 0
    return majorities + rules.seven_of_oros + napola + rules.escoba * _escobas(rules)


def _escobas(rules: Rules) -> int:
    """More escobas than there can be in a round: one a turn, and two that are dealt."""
    return rules.turns + 2


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
) -> tuple[list[Played], Stop | None]:
    """Plays the same deals at every table, block of deals by block.

    Args:
        tables: The tables.
        deals: Number of deals, games 0 to ``deals - 1`` of the seed.
        seed: Seed of the deals.
        block: Deals of a unit. A network may round otherwise in a batch of another size, so
            results that are to be compared to the last digit have the same.
        workers: Processes that play, as for ``run_units``.
        store: Where results are kept and looked up.
        on_progress: Called after each unit, or part of one, with the deals finished so far, those
            of all tables together, and the rounds in them.
        enough: Called after each block with what was played in it; true: no more is needed.

    Returns:
        What was played, for each table the same deals; and what came before all of it was, if
        anything did. Of several tables, blocks that some have not finished are left out, but kept
        in the store.

    Raises:
        ValueError: If a result that was kept is damaged.
    """
    at_once = deals_at_once(tables)

    def units() -> Iterator[Unit]:
        for first in range(0, deals, block):
            for table, most in zip(tables, at_once, strict=True):
                yield Unit(table, seed, first, min(block, deals - first), most)

    finished: list[list[list[dict[str, Any]]]] = []
    row: list[list[dict[str, Any]]] = []
    parts: list[dict[str, Any]] = []
    deals_of_parts = done = rounds = 0
    stop: Stop | None = None
    results = run_units(units(), workers=workers, store=store, identify=identify)
    try:
        with closing(results):
            for result in results:
                parts.append(result)
                played = len(result["twelfths"]) // tables[len(row)].numbers_of_a_deal
                deals_of_parts += played
                done += played
                rounds += result["rounds"]
                if on_progress is not None:
                    on_progress(done, rounds)
                if deals_of_parts < min(block, deals - len(finished) * block):
                    continue
                row.append(parts)
                parts, deals_of_parts = [], 0
                if len(row) == len(tables):
                    finished.append(row)
                    row = []
                    if enough is not None and enough(_together(tables, finished[-1:])):
                        break
    except (KeyboardInterrupt, StoreError) as error:
        stop = error
        if len(tables) == 1:
            finished.append([parts])
    return _together(tables, finished), stop


def deals_at_once(tables: Sequence[Table]) -> list[int]:
    """Returns how many deals of each table are enough to be played by themselves.

    Raises:
        ValueError: If a policy says something else than a number.
    """
    known: dict[str, int] = {}

    def of(policy: PolicyLike) -> int:
        name = str(policy) if isinstance(policy, str | Path) else f"object {id(policy)}"
        if name not in known:
            said = getattr(load_policy(policy), "deals_at_once", INT32)
            known[name] = whole(f"deals_at_once of policy {quoted(policy)}:", said, 1, INT32)
        return known[name]

    return [min(map(of, table.policies)) for table in tables]


def _together(
    tables: Sequence[Table], rows: Sequence[Sequence[Sequence[dict[str, Any]]]]
) -> list[Played]:
    return [
        _joined(table, [part for row in rows for part in row[i]]) for i, table in enumerate(tables)
    ]


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
        ValueError: If one is something else than a name or a folder, unknown or given twice, or
            they are no list.
    """
    names: list[str] = []
    given: object = policies
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(
            f"{name} {quoted(given)} is not possible; allowed: a list of names or folders"
        )
    for policy in policies:
        if not isinstance(policy, str | Path):
            raise ValueError(
                f"{name} {quoted(policy)} is not possible; allowed: a name or a folder"
            )
        load_policy(policy)
        if str(policy) in names:
            raise ValueError(f"{name} {quoted(str(policy))} is given twice; allowed: once")
        names.append(str(policy))
    return names


def identify(policy: PolicyLike) -> str:
    """Names a policy so that another one never has the same name: files by what is in them."""
    if not isinstance(policy, str | Path):
        raise ValueError(
            f"policy {quoted(policy)} is an object; allowed here: a name or a folder, which can be "
            f"loaded again"
        )
    name, options = split_options(str(policy))
    digests = []
    # An option may name a policy too, such as the one that a search plays games out with.
    for value in (name, *options.values()):
        files = policy_files(value) if isinstance(value, str) else []
        if files:
            content = b"".join(read_whole(file, MAX_TENSORS) for file in files)
            digests.append(f" sha256={hashlib.sha256(content).hexdigest()[:16]}")
    return str(policy) + "".join(digests)
