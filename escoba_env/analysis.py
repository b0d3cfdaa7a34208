"""``analyse``: every legal move of a position, with what policies and the solver say of it.

It asks; it knows no rule and judges nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import IllegalActionError, Records, Views, explain_illegal
from escoba_env.cards import NUM_ACTIONS, cards_in
from escoba_env.checks import whole
from escoba_env.engine import batch as kernels
from escoba_env.engine.record import NOBODY, PLAYING, STATE, copy_records, lower
from escoba_env.game import Game
from escoba_env.notation import Move
from escoba_env.policies import Policy, load_policy, name_of
from escoba_env.policies.asking import ask
from escoba_env.position import format_position, logged_move, parse_position
from escoba_env.rules import Rules
from escoba_env.solver import NO_LIMIT, Solution, SolverLimitError, solve, solve_view

MAX_NODES = 5_000_000
"""Most positions that the solver searches: some seconds."""
ROUNDING = 1e-3
"""How far probabilities may sum to something else than 1."""


@dataclass(frozen=True, kw_only=True)
class MoveAnalysis:
    """A legal move.

    Attributes:
        move: The move.
        probabilities: How likely each policy plays it; one that gives no probabilities plays the
            move that it chooses with 1.
        values: The margin that each policy expects from it, of those policies that say so.
        exact: Margin of the round under perfect play, if the seat to move can know all cards.
        double_dummy: The same if all cards were known to everybody.
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
    given: object = policies
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise ValueError(f"policies {given!r} are not possible; allowed: a list of policies")
    if isinstance(position, Game):
        rules, episode, record = position.rules, position.episode, position.states
    else:
        rules, episode, record = parse_position(position)
    seat, viewer = int(record["turn"][0]), int(record["viewer"][0])
    if record["phase"][0] != PLAYING:
        raise ValueError("the game is over: there is no move; allowed: a position in play")
    if viewer not in (NOBODY, seat):
        raise ValueError(f"the view of seat {viewer} is not possible: seat {seat} is to move")
    spec = lower(rules, episode)
    names = tuple(map(name_of, policies))
    if len(set(names)) != len(names):
        raise ValueError(f"policies {', '.join(names)} are not possible; allowed: each once")
    loaded = dict(zip(names, map(load_policy, policies), strict=True))
    moves = _Moves(rules, episode, spec, record, loaded)
    notes: list[str] = []
    exact = _solved(solve_view, moves.views(record), "exact", max_nodes, notes)
    dummy = None
    if double_dummy and exact is None and viewer == NOBODY and rules.num_sides == 2:
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
        seat=seat,
        policies=names,
        moves=tuple(sorted(rows, key=lambda row: _rank(row, names))),
        notes=tuple(notes),
    )


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
