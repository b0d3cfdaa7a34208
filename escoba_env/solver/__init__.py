"""The exact solver: the best that the side to move can still get, and every move that gets it.

:func:`solve` knows all cards (*double dummy*); :func:`solve_view` and :func:`solve_views` know what
a seat knows, and answer where everything follows from that. With two players that is the case from
the last deal on: what has not been seen is the other hand.

Values are margins of the side to move, as the reward ``"margin"`` counts them: its points of the
round minus the other side's, in points, those scored already among them. With two sides they are
whole numbers under any rules, as a tie gives both sides the same. In a match they are margins of
the round that is being played: nothing is said of later rounds, nor of the target.

The kernels are in ``escoba_env.engine.solve``. A search that samples hidden cards calls
``solve_games`` there, with a :class:`Memory` of its own for each thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Records, Views
from escoba_env.cards import NUM_ACTIONS, cards_in
from escoba_env.checks import whole
from escoba_env.engine import solve as kernels
from escoba_env.engine.record import GAME_OVER, STATE
from escoba_env.game import Game
from escoba_env.notation import Move
from escoba_env.position import table_piles
from escoba_env.rules import Rules

NO_VALUE = kernels.NO_VALUE
"""Value of an action that is not legal, in arrays of values."""

NO_LIMIT = 2**62


class SolverLimitError(RuntimeError):
    """The search was given up: it would have taken more positions than ``max_nodes``."""


class Memory(NamedTuple):
    """Work space of the kernels, for one thread at a time; see :func:`make_memory`."""

    plans: NDArray[Any]
    nodes: NDArray[Any]
    scratch: Records
    slots: NDArray[Any]


def make_memory(rows: int = 2**20) -> Memory:
    """Makes work space for the solver's kernels, to be used again and again.

    Args:
        rows: Most rows of the table of positions, a power of two; 32 bytes each. A search uses as
            many of them as it is likely to fill, so a large table costs a short search nothing.
            With too few rows a search takes longer, and finds the same.

    Raises:
        ValueError: If the number of rows is not possible, or there is no room for them.
    """
    rows = whole("rows", rows, 2, 2**32)
    if rows & (rows - 1):
        raise ValueError(f"rows {rows} is not possible; allowed: a power of two")
    try:
        slots = np.empty(rows, kernels.SLOT)
    except MemoryError:
        size = rows * kernels.SLOT.itemsize / 2**30
        raise ValueError(
            f"rows {rows} is not possible: they take {size:,.1f} GiB, for which there is no room; "
            f"allowed: fewer"
        ) from None
    return Memory(
        np.empty(1, kernels.PLAN),
        np.empty(kernels.MAX_TURNS + 1, kernels.NODE),
        np.empty(1, STATE),
        slots,
    )


def _check_memory(memory: Any) -> Memory:
    """Returns work space, new if none is given.

    Raises:
        ValueError: If it is something else than :func:`make_memory` makes.
    """
    if memory is None:
        return make_memory()
    # What is in the tuple may be anything.
    parts: list[Any] = list(memory) if isinstance(memory, Memory) else []
    dtypes = (kernels.PLAN, kernels.NODE, STATE, kernels.SLOT)
    if parts and all(
        isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype == dtype
        for part, dtype in zip(parts, dtypes, strict=True)
    ):
        *lengths, rows = map(len, parts)
        if lengths == [1, kernels.MAX_TURNS + 1, 1] and rows > 1 and not rows & (rows - 1):
            return Memory(*parts)
    raise ValueError(f"memory {memory!r:.80} is not possible; allowed: that of make_memory")


@dataclass(frozen=True)
class Solution:
    """What perfect play leads to, for the side of the seat to move.

    Attributes:
        value: Margin of the round if both sides play perfectly.
        moves: Margin of every whole turn that the picks so far leave open, in the order of
            ``Game.legal_moves``.
        actions: Margin of every legal action: that of the best move it can lead to.
        nodes: Number of positions searched.
    """

    value: int
    moves: dict[Move, int]
    actions: dict[int, int]
    nodes: int

    @property
    def best_moves(self) -> list[Move]:
        """Every move whose margin is ``value``."""
        return [move for move, value in self.moves.items() if value == self.value]

    @property
    def best_actions(self) -> list[int]:
        """Every action whose margin is ``value``, ascending."""
        return [action for action, value in self.actions.items() if value == self.value]


@dataclass(frozen=True, eq=False)
class Solutions:
    """What perfect play leads to in each of ``n`` views, for the side of the seat to move.

    Attributes:
        values: int64 (n,): margin of the round if both sides play perfectly.
        actions: int64 (n, 43): margin of every legal action, ``NO_VALUE`` for the others.
        nodes: int64 (n,): number of positions searched.
    """

    values: NDArray[np.int64]
    actions: NDArray[np.int64]
    nodes: NDArray[np.int64]

    @property
    def best_actions(self) -> NDArray[np.int64]:
        """The lowest action that leads to the best margin, int64 (n,)."""
        best: NDArray[np.int64] = self.actions.argmax(axis=1)
        return best


def solve(
    game: Game,
    *,
    table: bool = True,
    bounds: bool = True,
    max_nodes: int | None = None,
    memory: Memory | None = None,
) -> Solution:
    """Solves a position with all cards known, the order of the stock too.

    Args:
        game: A game in play, at any pick of a turn: two players, or four as a partnership. Of a
            match the present round is solved.
        table: Whether positions that were met before are looked up. Without, the same values are
            found by plain alpha-beta, in longer time.
        bounds: Whether lines of play are cut short by the points that are still open.
        max_nodes: Most positions to search; default: as many as it takes. A whole deal of
            ``classic`` takes some 15,000, and one with building and partners tens of millions.
        memory: Work space to use; default: new.

    Returns:
        Values of the position and of every move.

    Raises:
        ValueError: If the game has more than two sides or is over, or an argument is not possible.
        SolverLimitError: If the search would have taken more positions than ``max_nodes``.
    """
    given: object = game
    if not isinstance(given, Game):
        raise ValueError(
            f"game {given!r:.80} is not possible; allowed: a Game (a view: solve_view)"
        )
    _check(game.rules, game.states)
    return _solution(game.spec, game.states, table, bounds, max_nodes, memory)


def solve_view(
    views: Views,
    *,
    table: bool = True,
    bounds: bool = True,
    max_nodes: int | None = None,
    memory: Memory | None = None,
) -> Solution:
    """Solves one view from what its seat knows.

    Everything must follow from that: at most one hand is hidden, and nothing else; or no hand is
    (``open_hands``, or the others are empty) and no more hands can be dealt.

    Args:
        views: One view of a game in play, of any seat.
        table: As for :func:`solve`, like all that follows.
        bounds: See there.
        max_nodes: See there.
        memory: See there.

    Returns:
        Values for the side of the seat to move, which need not be the viewer.

    Raises:
        ValueError: If something stays hidden, or as for :func:`solve`.
        SolverLimitError: As for :func:`solve`.
    """
    _check_views(views)
    if len(views) != 1:
        raise ValueError(f"{len(views)} views are not possible; allowed: one (more: solve_views)")
    return _solution(views.spec, _filled_in(views), table, bounds, max_nodes, memory)


def solve_views(
    views: Views, *, max_nodes: int | None = None, memory: Memory | None = None
) -> Solutions:
    """Solves many views, each from what its seat knows, as :func:`solve_view` does.

    Args:
        views: Views of games in play.
        max_nodes: Most positions to search for each of them; default: as many as it takes.
        memory: Work space to use; default: new.

    Raises:
        ValueError: If something stays hidden in one of them, or as for :func:`solve`.
        SolverLimitError: If one of them would have taken more positions than ``max_nodes``.
    """
    _check_views(views)
    records = _filled_in(views)
    limit, memory = _limit(max_nodes), _check_memory(memory)
    actions = np.empty((len(records), NUM_ACTIONS), np.int64)
    nodes = np.empty(len(records), np.int64)
    given_up = kernels.solve_games(views.spec, records, *memory, True, True, limit, actions, nodes)
    if given_up >= 0:
        raise SolverLimitError(f"view {given_up} takes more than max_nodes={limit} positions")
    return Solutions(actions.max(axis=1, initial=NO_VALUE), actions, nodes)


def solvable(views: Views) -> NDArray[np.bool_]:
    """Tells in which views of a table of two sides everything follows from what the seat knows.

    Args:
        views: Views of games in play.

    Returns:
        bool (n,): which of them :func:`solve_views` takes, given time.

    Raises:
        ValueError: As for :func:`solve`.
    """
    _check_views(views)
    filled = np.empty(len(views), np.bool_)
    kernels.fill_in_views(views.spec, views.records.copy(), filled)
    return filled


def _solution(
    spec: NDArray[Any],
    records: Records,
    table: bool,
    bounds: bool,
    max_nodes: int | None,
    memory: Memory | None,
) -> Solution:
    limit, memory = _limit(max_nodes), _check_memory(memory)
    values = np.empty((1, NUM_ACTIONS), np.int64)
    status, nodes, count, rows = kernels.solve_game(
        spec, records, *memory, bool(table), bool(bounds), limit, values
    )
    if status != kernels.SOLVED:
        raise SolverLimitError(f"the position takes more than max_nodes={limit} positions")
    moves = {_move(records[0], row): int(row[kernels.SCORE]) for row in rows[:count]}
    return Solution(
        value=max(moves.values()),
        moves={move: moves[move] for move in sorted(moves)},
        actions={action: int(value) for action, value in enumerate(values[0]) if value != NO_VALUE},
        nodes=int(nodes),
    )


def _move(record: Any, row: NDArray[np.int64]) -> Move:
    """The move in a row of a kernel's list; with building heads stand there for their piles."""
    piles = {pile & -pile: pile for pile in table_piles(record)}
    taken, place = int(row[kernels.TAKEN]), int(row[kernels.PLACE])
    return Move(
        int(row[kernels.CARD]),
        sum(piles[1 << head] for head in cards_in(taken)),
        piles.get(1 << place, 0) if not taken else 0,
    )


def _limit(max_nodes: int | None) -> int:
    return NO_LIMIT if max_nodes is None else whole("max_nodes", max_nodes, 1, NO_LIMIT)


def _check(rules: Rules, records: Records) -> None:
    if rules.num_sides != 2:
        raise ValueError(
            f"players={rules.players}, partnership={rules.partnership} is not possible: the solver "
            f"is for two sides; allowed: 2 players, or 4 as a partnership"
        )
    if (records["phase"] == GAME_OVER).any():
        raise ValueError("the game is over: there is nothing to solve; allowed: a game in play")


def _check_views(views: Views) -> None:
    given: object = views
    if not isinstance(given, Views):
        raise ValueError(f"views {given!r:.80} are not possible; allowed: Views (a game: solve)")
    _check(views.rules, views.records)


def _filled_in(views: Views) -> Records:
    """Copies the records of views and fills in what is hidden in them."""
    records = views.records.copy()
    filled = np.empty(len(records), np.bool_)
    kernels.fill_in_views(views.spec, records, filled)
    if not filled.all():
        unknown = int(filled.argmin())
        record = views.records[unknown]
        hands = [
            f"{int(count)} cards in the hand of seat {seat}"
            for seat, count in enumerate(record["hand_counts"])
            if count and seat != record["viewer"] and not views.rules.open_hands
        ]
        stock = int(record["stock_size"]) - int(record["stock_next"])
        if stock:
            hands.append(f"{stock} in the stock")
        raise ValueError(
            f"view {unknown} of seat {int(record['viewer'])} hides {' and '.join(hands)}; allowed: "
            f"views in which everything is known by counting (two players after the last deal)"
        )
    return records
