"""``ismcts`` and ``cheat:ismcts``: tree search over what all can see.

The kernels are in ``escoba_env.engine.ismcts``; this file reads options and shares out the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Records, Views
from escoba_env.checks import one_of, real, whole
from escoba_env.engine import batch as game_kernels
from escoba_env.engine import ismcts as kernels
from escoba_env.engine.counting import MOST_MOVES
from escoba_env.engine.record import NOBODY, STATE
from escoba_env.engine.search import ROLLOUTS, begin_search
from escoba_env.engine.solve import MAX_TURNS
from escoba_env.policies.base import Policy, repr_of
from escoba_env.policies.search import (
    MOST_DEALS,
    MOST_TURNS,
    NO_GUIDE,
    Likely,
    check_knowledge,
    check_likely,
    check_threads,
)
from escoba_env.threads import spread

PRIOR = 24.0
"""As many visits what ``counting`` says of a move counts for."""
MOST_ITERATIONS = 2**20
ITERATIONS_OF_A_UNIT = 2048
"""Iterations, times deals, that take a second or so."""
TREES_OF_A_UNIT = 20
"""Deals that a learned policy plays: it is asked for all trees at once, and slow with few."""
ROWS_AT_ONCE = 2**20
"""Rows of trees that are kept side by side while a learned policy is asked."""


class ISMCTSPolicy:
    """Searches a tree over what all can see, with the hidden cards dealt anew every iteration.

    Single-observer information-set Monte Carlo tree search (Cowling, Powley and Whitehouse, 2012).
    Moves are chosen by UCB1, in favour of what ``counting`` says of them, or with ``policy`` by
    PUCT, in favour of what that policy would choose. From a new move on the round is played out as
    by ``search``, or with two sides and ``policy``, the margin is what that expects. Of the moves
    at the top the one visited most is played. With two players and nothing but the other hand
    hidden, the exact solver plays instead.

    It looks at the margin of the present round, in a match too.

    Args:
        iterations: Iterations of each decision; default 500.
        policy: Name or folder of a learned policy; default: none.
        exploration: How much moves that were seldom tried are favoured, in points; default 0.7.
        rollout: Who plays out: ``counting``, ``greedy`` or ``random``; default: ``counting``, or
            with a ``policy`` that was trained for margins of rounds, and two sides, nobody.
        deals: As for ``search``.
        solver_turns: As for ``search``.
        threads: Threads that share the decisions of a call; results do not depend on it.

    Raises:
        ValueError: If an option is not possible, by name.

    Attributes:
        deals_at_once: See ``Policy``.
    """

    name = "ismcts"
    cheats = False

    def __init__(
        self,
        *,
        iterations: int = 500,
        policy: str | Policy | None = None,
        exploration: float = 0.7,
        rollout: str | None = None,
        deals: int = 1,
        solver_turns: int = 6,
        threads: int = 1,
    ) -> None:
        self.iterations = whole("option iterations", iterations, 1, MOST_ITERATIONS)
        self.exploration = _exploration(exploration)
        if rollout is not None:
            one_of("option rollout", rollout, ROLLOUTS)
        self._asked_rollout = rollout
        self._rollout = ROLLOUTS.index(rollout or "counting")
        self.deals = whole("option deals", deals, 0, MOST_DEALS)
        self.solver_turns = whole("option solver_turns", solver_turns, 0, MOST_TURNS)
        self.threads = check_threads(threads)
        self._player = check_likely(policy)
        self.deals_at_once = max(1, ITERATIONS_OF_A_UNIT // self.iterations) * self.threads
        if self._player is not None:
            self.deals_at_once = TREES_OF_A_UNIT
        self._expects = rollout is None and getattr(self._player, "expects_margins", False)

    def __repr__(self) -> str:
        return repr_of(
            self,
            iterations=self.iterations,
            policy=getattr(self._player, "name", None),
            exploration=self.exploration,
            rollout=self._asked_rollout,
            deals=self.deals,
            solver_turns=self.solver_turns,
            threads=self.threads,
        )

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view; see ``Policy.act``."""
        check_knowledge(views, self.name, self.cheats)
        actions = np.empty(len(views), np.int64)
        player = self._player
        if player is None:

            def search(a: int, b: int) -> None:
                kernels.search_trees(
                    *(views.spec, views.records[a:b], views.keys[a:b], self.iterations),
                    *(self._rollout, self.deals, self.solver_turns, self.exploration, PRIOR),
                    actions[a:b],
                )

            spread(search, len(views), self.threads, min_rows=1)
            return actions
        numbers = np.empty(len(views), np.int64)
        sums = np.empty((len(views), MOST_MOVES))
        begin_search(
            *(views.spec, views.records, self.solver_turns, 0.0, NO_GUIDE),
            *(numbers, sums, actions),
        )
        open_ones = np.flatnonzero(numbers)
        at_once = max(1, ROWS_AT_ONCE // (self.iterations + 1))
        for begin in range(0, len(open_ones), at_once):
            part = open_ones[begin : begin + at_once]
            actions[part] = self._search_by(player, views[part])
        return actions

    def _search_by(self, player: Likely, views: Views) -> NDArray[np.int64]:
        """Searches trees side by side, one iteration of all after the other."""
        number = len(views)
        spec, records, keys = views.spec, views.records, views.keys
        trees = np.empty((number, self.iterations + 1), kernels.TREE)
        trees["child"][:, 0] = NOBODY
        trees["visits"][:, 0] = 0
        sizes = np.ones(number, np.int64)
        paths = np.empty((number, MAX_TURNS + 1), np.int64)
        lengths = np.empty(number, np.int64)
        states: Records = np.empty(number, STATE)
        expects = self._expects and views.rules.num_sides == 2
        nothing = np.empty(0, np.float32)
        for iteration in range(self.iterations):
            kernels.start_iteration(spec, records, keys, iteration, states, lengths)
            ended = np.zeros(number, np.bool_)
            live = np.arange(number)
            grown = np.zeros(number, np.bool_)
            while live.size:
                seen = _seen(views, states, live)
                expected = player.margins(seen) if expects else nothing
                kernels.walk(
                    *(spec, records, keys, iteration, live, states, player.probabilities(seen)),
                    *(expected, self._rollout, self.deals, self.solver_turns, self.exploration),
                    *(trees, sizes, paths, lengths, grown, ended),
                )
                live = live[~ended[live]]
        actions = np.empty(number, np.int64)
        kernels.end_trees(spec, records, trees, actions)
        return actions


def _seen(views: Views, states: Records, games: NDArray[np.int64]) -> Views:
    """What the seats to move in some worlds of views see."""
    records = np.empty(len(games), STATE)
    keys = np.empty(len(games), np.int64)
    turns = states["turn"][games].astype(np.int64)
    game_kernels.view_games(views.spec, states, games, turns, records, keys)
    return Views(views.rules, views.episode, views.spec, records, keys)


class CheatingISMCTSPolicy(ISMCTSPolicy):
    """Cheats: tree search in the deal as it is, all hidden cards known.

    A ceiling to measure others by, never an opponent to learn from: it is given the games that it
    needs where policies are measured or played out, not by an environment. Options as for
    ``ismcts``.
    """

    name = "cheat:ismcts"
    cheats = True


def _exploration(value: Any) -> float:
    return real("option exploration", value, 0, 1000, "0 to 1000")
