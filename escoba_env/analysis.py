"""``analyse``: every legal move of a position, with what policies and the solver say of it.

``analyse_game`` does so for every decision of a replay, and says what each move lost. It asks; it
knows no rule and judges nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import IllegalActionError, Records, Views, explain_illegal
from escoba_env.cards import NUM_ACTIONS, cards_in
from escoba_env.checks import whole
from escoba_env.engine import batch as kernels
from escoba_env.engine.alike import number_kinds
from escoba_env.engine.record import NOBODY, PLAYING, STATE, copy_records, lower
from escoba_env.game import Game
from escoba_env.notation import Move
from escoba_env.policies import Policy, load_policy, name_of
from escoba_env.policies.asking import ask
from escoba_env.position import format_position, logged_move, parse_position
from escoba_env.replay import Replay
from escoba_env.rules import Rules
from escoba_env.solver import NO_LIMIT, Solution, SolverLimitError, solve, solve_view

MAX_NODES = 5_000_000
"""Most positions that the solver searches: some seconds."""
ROUNDING = 1e-3
"""How far probabilities may sum to something else than 1."""
GRADER = "search:worlds=256"
"""Policy that grades the moves of a game by default."""
EXACT = "exact"
"""What is written where the exact solver has graded a move."""


@dataclass(frozen=True, kw_only=True)
class MoveAnalysis:
    """A legal move.

    Attributes:
        move: The move.
        probabilities: How likely each policy plays it; one that gives no probabilities plays the
            move that it chooses with 1.
        values: The margin that each policy expects from it, of those policies that say so.
        exact: Margin of the round under perfect play, if the seat to move can know all cards.
        double_dummy: The same if all cards were known to everybody. Where there is an exact value
            everything follows from what is known, and this is the same.
    """

    move: Move
    probabilities: dict[str, float]
    values: dict[str, float]
    exact: int | None
    double_dummy: int | None

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return {**vars(self), "move": str(self.move)}


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Result of :func:`analyse`.

    Attributes:
        position: The position as text.
        rules: Rules of the table.
        seat: Seat to move, for whose side all values are.
        policies: Policies that were asked, by the names they were asked for by.
        moves: Every legal move: the best first, by the exact value if there is one, else by what
            the first policy says of it.
        notes: Why a value is missing, in words.
    """

    position: str
    rules: Rules
    seat: int
    policies: tuple[str, ...]
    moves: tuple[MoveAnalysis, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON; ``rules`` as ``Rules.as_dict``."""
        return {
            **vars(self),
            "rules": self.rules.as_dict(),
            "policies": list(self.policies),
            "moves": [move.as_dict() for move in self.moves],
            "notes": list(self.notes),
        }


def analyse(
    position: str | Game,
    policies: Sequence[str | Path | Policy] = (),
    *,
    double_dummy: bool = True,
    max_nodes: int = MAX_NODES,
) -> Analysis:
    """Says what policies and the solver think of every legal move.

    A policy is asked as in play: it sees what the seat to move sees. It may have two methods more
    than it needs to play, each from ``n`` views to an array (n, 43): ``probabilities``, of every
    action, and ``action_values``, the margin that it expects, ``nan`` for illegal actions.

    Args:
        position: A game in play, or the text of one, or of the view of the seat to move.
        policies: Those to ask; anything that ``load_policy`` takes, all with different names.
        double_dummy: Whether to solve the position with all cards known, which is possible for a
            whole game of two sides.
        max_nodes: Most positions that the solver searches, for each of the two values.

    Raises:
        IllegalActionError: If a policy chooses an illegal action.
        ValueError: If the position is none, over, or the view of another seat; if another argument
            is not possible; or if a policy, named in the message, answers with something else than
            is asked of it.
    """
    max_nodes = whole("max_nodes", max_nodes, 1, NO_LIMIT)
    if isinstance(position, Game):
        rules, episode, record = position.rules, position.episode, position.states
    else:
        rules, episode, record = parse_position(position)
    seat, viewer = int(record["turn"][0]), int(record["viewer"][0])
    if record["phase"][0] != PLAYING:
        raise ValueError("the game is over: there is no move; allowed: a position in play")
    if viewer not in (NOBODY, seat):
        raise ValueError(f"the view of seat {viewer} is not possible: seat {seat} is to move")
    return _analyse(rules, episode, record, _load(policies), double_dummy, max_nodes)


def _load(policies: Any) -> dict[str, Policy]:
    """Loads policies, by the names they are asked for by.

    Raises:
        ValueError: If one is not possible, or there are two of a name.
    """
    if isinstance(policies, str | bytes) or not isinstance(policies, Sequence):
        raise ValueError(f"policies {policies!r:.80} are not possible; allowed: a list of policies")
    names = tuple(map(name_of, policies))
    if len(set(names)) != len(names):
        raise ValueError(f"policies {', '.join(names)} are not possible; allowed: each once")
    return dict(zip(names, map(load_policy, policies), strict=True))


def _analyse(
    rules: Rules,
    episode: str,
    record: Records,
    loaded: dict[str, Policy],
    double_dummy: bool,
    max_nodes: int,
) -> Analysis:
    names = tuple(loaded)
    spec = lower(rules, episode)
    moves = _Moves(rules, episode, spec, record, loaded)
    notes: list[str] = []
    exact = _solved(solve_view, moves.views(record), "exact", max_nodes, notes)
    dummy = exact if double_dummy else None
    known = record["viewer"][0] == NOBODY and rules.num_sides == 2
    if double_dummy and exact is None and known:
        game = Game(rules, episode=episode, seed=0)
        game.set_state(record.tobytes())
        dummy = _solved(solve, game, "double dummy", max_nodes, notes)
    rows = [
        MoveAnalysis(
            move=move,
            probabilities={name: moves.probabilities[name][move] for name in names},
            values={n: moves.values[n][move] for n in names if move in moves.values[n]},
            exact=exact.moves[move] if exact else None,
            double_dummy=dummy.moves[move] if dummy else None,
        )
        for move in sorted(moves.found)
    ]
    return Analysis(
        position=format_position(rules, episode, record[0]),
        rules=rules,
        seat=int(record["turn"][0]),
        policies=names,
        moves=tuple(sorted(rows, key=lambda row: _rank(row, names))),
        notes=tuple(notes),
    )


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A turn of a game, and what it lost.

    Attributes:
        turn: Number of turns played before it, in all rounds: what ``Replay.game`` takes.
        round_index: Rounds before its own.
        seat: Who moved.
        move: What was played.
        choices: Number of legal moves.
        best: The best move; none if nothing says which that is.
        value: Margin of the round for the side to move that was expected from ``move``; in the
            same cases none.
        best_value: The same of ``best``.
        graded_by: ``"exact"``, or the name of the policy whose values these are.
    """

    turn: int
    round_index: int
    seat: int
    move: Move
    choices: int
    best: Move | None = None
    value: float | None = None
    best_value: float | None = None
    graded_by: str | None = None

    @property
    def loss(self) -> float | None:
        """Points by which the move was worse than the best; none if nothing says so."""
        if self.choices == 1:
            return 0.0
        if self.value is None or self.best_value is None:
            return None
        return self.best_value - self.value

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        best = None if self.best is None else str(self.best)
        return {**vars(self), "move": str(self.move), "best": best, "loss": self.loss}


@dataclass(frozen=True, kw_only=True)
class PlayerSummary:
    """What the decisions of a player lost.

    Attributes:
        seat: Where it sat.
        name: Its name in the replay, if it has one.
        decisions: Number of turns with a choice.
        graded: Those of which it is known what they lost.
        loss: What these lost, all together, in points.
    """

    seat: int
    name: str | None
    decisions: int
    graded: int
    loss: float


@dataclass(frozen=True, kw_only=True)
class GameAnalysis:
    """Result of :func:`analyse_game`.

    Attributes:
        replay: The game.
        policies: Policies that were asked.
        decisions: Every turn, in order.
        notes: What is missing, and why, in words.
    """

    replay: Replay
    policies: tuple[str, ...]
    decisions: tuple[Decision, ...]
    notes: tuple[str, ...]

    @property
    def players(self) -> tuple[PlayerSummary, ...]:
        """What each player lost, by seat."""
        return summarise([self])

    def worst(self, most: int = 5) -> tuple[Decision, ...]:
        """Returns the moves that lost something, those that lost most first.

        Args:
            most: How many at most.

        Raises:
            ValueError: If that is not a whole number from 0.
        """
        whole("most", most, 0, NO_LIMIT)
        lost = [one for one in self.decisions if one.loss]
        return tuple(sorted(lost, key=lambda one: (-(one.loss or 0.0), one.turn))[:most])

    def as_dict(self) -> dict[str, Any]:
        """Returns everything but the replay as plain values for JSON."""
        return {
            "policies": list(self.policies),
            "players": [vars(player) for player in self.players],
            "decisions": [one.as_dict() for one in self.decisions],
            "notes": list(self.notes),
        }


def summarise(games: Iterable[GameAnalysis]) -> tuple[PlayerSummary, ...]:
    """Adds up what the players of some games lost, by seat and name."""
    sums: dict[tuple[int, str | None], list[float]] = {}
    for game in games:
        names = game.replay.policies or (None,) * game.replay.rules.players
        for seat, name in enumerate(names):
            lost = [one.loss for one in game.decisions if one.seat == seat and one.choices > 1]
            graded = [loss for loss in lost if loss is not None]
            old = sums.setdefault((seat, name), [0, 0, 0.0])
            sums[seat, name] = [old[0] + len(lost), old[1] + len(graded), old[2] + sum(graded)]
    return tuple(
        PlayerSummary(seat=seat, name=name, decisions=int(decisions), graded=int(graded), loss=loss)
        for (seat, name), (decisions, graded, loss) in sorted(sums.items(), key=_by_seat)
    )


def _by_seat(item: tuple[tuple[int, str | None], Any]) -> tuple[int, str]:
    return item[0][0], item[0][1] or ""


def analyse_game(
    replay: Replay,
    policies: Sequence[str | Path | Policy] = (GRADER,),
    *,
    max_nodes: int = MAX_NODES,
    show: Callable[[int, int], None] | None = None,
) -> GameAnalysis:
    """Grades every decision of a game by the margin of the round that it lost.

    A move is graded by the exact solver, where everything follows from what the seat to move
    knows: with two players from the last deal on. Before that it is graded by the first policy
    that gives values, by default a search, whose values are estimates: small losses mean little.
    Cards that the seat could not see are never used.

    Args:
        replay: The game, which need not be finished.
        policies: Those to ask, as for :func:`analyse`.
        max_nodes: As for :func:`analyse`.
        show: Called with the number of turns that are graded, and of all turns.

    Raises:
        IllegalActionError: If a policy chooses an illegal action.
        ValueError: If an argument is not possible, or as for :func:`analyse`.
    """
    given: object = replay
    if not isinstance(given, Replay):
        raise ValueError(
            f"replay {given!r:.80} is not possible; allowed: a Replay (a position: analyse)"
        )
    max_nodes = whole("max_nodes", max_nodes, 1, NO_LIMIT)
    loaded = _load(policies)
    decisions = []
    for played in replay.played():
        game = played.before
        choices = len(game.legal_moves())
        one = Decision(
            turn=played.number,
            round_index=played.round_index,
            seat=played.seat,
            move=played.move,
            choices=choices,
        )
        if choices > 1:
            found = _analyse(game.rules, game.episode, game.states, loaded, False, max_nodes)
            one = _graded(one, found)
        decisions.append(one)
        if show is not None:
            show(len(decisions), replay.turns)
    missing = sum(one.loss is None for one in decisions)
    notes = []
    if missing:
        asked = ", ".join(loaded) or "none"
        notes.append(
            f"{missing} of {len(decisions)} moves are not graded: no exact value, and of the "
            f"policies asked ({asked}) none gives values; search does"
        )
    return GameAnalysis(
        replay=replay, policies=tuple(loaded), decisions=tuple(decisions), notes=tuple(notes)
    )


def _graded(one: Decision, found: Analysis) -> Decision:
    """Grades a decision by what has the first word on all moves that it has a value of."""
    rows = {row.move: row for row in found.moves}
    tables: dict[str, dict[Move, float]] = {
        EXACT: {move: row.exact for move, row in rows.items() if row.exact is not None},
        **{
            name: {move: row.values[name] for move, row in rows.items() if name in row.values}
            for name in found.policies
        },
    }
    for name, values in tables.items():
        if one.move in values:
            # Of moves that are worth the same the one that was played is as good as any.
            best = max(values, key=lambda move: (values[move], move == one.move))
            return replace(
                one, best=best, value=values[one.move], best_value=values[best], graded_by=name
            )
    return one


def _rank(row: MoveAnalysis, names: Sequence[str]) -> tuple[float, ...]:
    first = [row.values.get(names[0], 0.0), row.probabilities[names[0]]] if names else []
    return tuple(-value for value in [row.exact or 0, *first, row.double_dummy or 0])


def _solved(
    solver: Any, position: Any, kind: str, max_nodes: int, notes: list[str]
) -> Solution | None:
    try:
        solution: Solution = solver(position, max_nodes=max_nodes)
    except (ValueError, SolverLimitError) as error:
        notes.append(f"no {kind} value: {error}")
        return None
    return solution


class _Moves:
    """Every whole turn of a position, and what each policy says of it.

    A turn is one or more picks, and some can be made in more than one order: the probability of a
    move is the sum over all ways to it, and its value that of the last pick that has one.
    """

    def __init__(
        self,
        rules: Rules,
        episode: str,
        spec: NDArray[Any],
        record: Records,
        policies: dict[str, Policy],
    ) -> None:
        self._table = (rules, episode, spec)
        self.found: set[Move] = set()
        self.probabilities: dict[str, dict[Move, float]] = {name: {} for name in policies}
        self.values: dict[str, dict[Move, float]] = {name: {} for name in policies}
        at = int(record["turn_index"][0])
        # Positions within the turn, with how likely each policy comes there and what it expects.
        unknown = dict.fromkeys(policies, float("nan"))
        level: dict[Any, tuple[Records, dict[str, float], dict[str, float]]] = {
            (): (copy_records(record), dict.fromkeys(policies, 1.0), unknown)
        }
        while level:
            states = np.concatenate([state for state, _, _ in level.values()])
            views = self.views(states)
            said = {name: _said(policy, views) for name, policy in policies.items()}
            after: dict[Any, tuple[Records, dict[str, float], dict[str, float]]] = {}
            for row, (state, reached, expected) in enumerate(level.values()):
                for action in cards_in(state["legal"][0]):
                    child = copy_records(state)
                    kernels.apply_pick(spec, child, action)
                    ways = {n: reached[n] * float(said[n][0][row, action]) for n in policies}
                    values = {n: float(said[n][1][row, action]) for n in policies}
                    values = {n: expected[n] if np.isnan(v) else v for n, v in values.items()}
                    if child["turn_index"][0] == at:
                        key = tuple(int(child[name][0]) for name in ("played", "picked", "placing"))
                        if key in after:
                            ways = {n: after[key][1][n] + ways[n] for n in policies}
                        after[key] = (child, ways, values)
                        continue
                    move = logged_move(child[0], at)
                    assert move is not None
                    self.found.add(move)
                    for name in policies:
                        likely = self.probabilities[name]
                        likely[move] = likely.get(move, 0.0) + ways[name]
                        if not np.isnan(values[name]):
                            self.values[name][move] = values[name]
            level = after
        self._fill_in(record)

    def _fill_in(self, record: Records) -> None:
        """Gives moves that come to the same the same value: a search looks at one of them."""
        found = sorted(self.found)
        kinds = np.empty((len(found), 3), np.int64)
        rows = np.array([(move.card, move.taken, move.onto) for move in found], np.int64)
        number_kinds(self._table[2], record, rows, kinds)
        for values in self.values.values():
            of_kind = {
                tuple(kind): values[move]
                for move, kind in zip(found, kinds.tolist(), strict=True)
                if move in values
            }
            for move, kind in zip(found, kinds.tolist(), strict=True):
                if tuple(kind) in of_kind:
                    values.setdefault(move, of_kind[tuple(kind)])

    def views(self, states: Records) -> Views:
        """The views of the seat to move."""
        records = np.empty(len(states), STATE)
        keys = np.empty(len(states), np.int64)
        rules, episode, spec = self._table
        kernels.view_games(
            spec,
            states,
            np.arange(len(states)),
            states["turn"].astype(np.int64),
            records,
            keys,
        )
        return Views(rules, episode, spec, records, keys)


def _said(policy: Policy, views: Views) -> tuple[NDArray[Any], NDArray[Any]]:
    """Probabilities and values that a policy gives the actions of some views, (n, 43) each.

    Raises:
        IllegalActionError: If it chooses an illegal action, or says that it might.
        ValueError: If it answers with something else.
    """
    shape = (len(views), NUM_ACTIONS)
    probabilities = getattr(policy, "probabilities", None)
    if probabilities is None:
        chosen = np.zeros(shape)
        chosen[np.arange(len(views)), ask(policy, views)] = 1
    else:
        chosen = _numbers(policy, "probabilities", probabilities(views), shape)
        # Written so that nan fails.
        if not ((chosen >= 0).all() and (np.abs(chosen.sum(1) - 1) < ROUNDING).all()):
            raise ValueError(
                f"policy {policy.name!r}: probabilities of a view are negative, no numbers or sum "
                f"to something else; allowed: numbers from 0 that sum to 1"
            )
        legal = views.records["legal"][:, None] >> np.arange(NUM_ACTIONS) & 1
        bad = np.argwhere((chosen > 0) & (legal == 0))
        if len(bad):
            row, action = bad[0].tolist()
            reason = explain_illegal(views.records[row], action)
            raise IllegalActionError(f"policy {policy.name!r}: probabilities: {reason}")
    values = getattr(policy, "action_values", None)
    if values is None:
        return chosen, np.full(shape, np.nan)
    expected = _numbers(policy, "action_values", values(views), shape)
    if np.isinf(expected).any():
        raise ValueError(
            f"policy {policy.name!r}: action_values are infinite; allowed: margins, or nan for none"
        )
    return chosen, expected


def _numbers(policy: Policy, what: str, answer: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = answer if isinstance(answer, np.ndarray) else np.empty((), object)
    if array.shape != shape or array.dtype.kind not in "fiu":
        found = f"{array.dtype} of shape {array.shape}" if array.shape else repr(answer)[:80]
        raise ValueError(
            f"policy {policy.name!r}: {what} are {found}; allowed: an array of numbers of shape "
            f"{shape}"
        )
    return array
