"""``search`` and ``cheat:search``: every move played out in many deals of the hidden cards.

The kernels are in ``escoba_env.engine.search``; this file reads options and shares out the work.
"""

from __future__ import annotations

import time as clock
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Records, Views
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import flag, one_of, quoted, real, whole
from escoba_env.engine import batch as game_kernels
from escoba_env.engine import search as kernels
from escoba_env.engine.counting import MOST_MOVES
from escoba_env.engine.record import NOBODY, STATE
from escoba_env.policies.asking import ask
from escoba_env.policies.base import Policy, repr_of
from escoba_env.policies.match_odds import bend, bends_at, bends_of
from escoba_env.threads import MAX_THREADS, spread

WORLDS = 64
"""Deals of a decision unless another number is asked for."""

PRIOR = 24
"""As many worlds the value that ``counting`` gives a move counts for."""
# Tuned with 16 worlds over ``counting``: 0 wins -0.01, 8 +0.11, 24 +0.21 a round (1,000 deals,
# +-0.09, play-outs to the end of the round).

POINTS_OF_A_LOGIT = 0.2
"""Margin that one unit of a learned policy's logits is worth: what ``training.distil`` makes of
them with its usual ``temperature``."""

LEAST_LOGIT = -50.0
"""Of an action to which a learned policy gives no probability at all."""

NO_BENDS = np.empty((0, 0))
NO_GUIDE = np.empty((0, 0))
NO_SPREAD = np.empty((0, 0, 0))
UTILITIES = ("margin", "win")
MOST_WORLDS = 2**20
MOST_DEALS = 20
"""Deals of a play-out that are enough for every pack."""
MOST_TURNS = 42
WORLDS_AT_ONCE = kernels.BLOCK
"""Worlds between two looks at the clock."""
WORLDS_OF_A_CALL = 4096
"""Worlds of a decision that are chosen in one call: a multiple of the above."""
GAMES_AT_ONCE = 16_384
"""Play-outs by a learned policy that are played side by side."""
WORLDS_OF_A_UNIT = 1024
"""Worlds, times deals, that take a second or so."""


def check_knowledge(views: Views, name: str, cheats: bool) -> None:
    """Sees that a policy is given what is meant for it.

    Raises:
        ValueError: If a policy that plays by views is given whole games, or the other way round.
    """
    whole_games = bool((views.records["viewer"] == NOBODY).any())
    if len(views) and whole_games != cheats:
        given = "whole games" if whole_games else "views"
        allowed = (
            "whole games, where policies are measured (evaluate, tournament, crossplay, ladder) or "
            "played out (play_out)"
            if cheats
            else "views of the seat to move"
        )
        raise ValueError(f"policy {quoted(name)} cannot play by {given}; allowed: {allowed}")


def check_threads(threads: Any) -> int:
    """Returns a number of threads.

    Raises:
        ValueError: If it is not possible.
    """
    return whole("option threads", threads, 1, MAX_THREADS)


@runtime_checkable
class Likely(Protocol):
    """A policy that says how likely each action is, and what margin it expects."""

    def probabilities(self, views: Views) -> NDArray[np.float32]:
        """Returns the probability of every action for each view, float32 (n, 43)."""
        ...

    def margins(self, views: Views) -> NDArray[np.float32]:
        """Returns the margin of the round that each view's side expects, float32 (n,)."""
        ...


class SearchPolicy:
    """Plays every move out in many random deals of the hidden cards, and takes the best on average.

    The cards that the seat has not seen are dealt anew ``worlds`` times (determinised search;
    Ginsberg, *GIB*, 2001). In each deal the moves are compared by play-outs of a policy that every
    seat follows. What ``counting``, or a learned policy, says of a move counts like some
    more worlds.
    With two players and nothing but the other hand hidden, the exact solver plays instead.

    It looks at the margin of the present round, in a match too unless ``utility=win``. The same
    view and key give the same action whatever else is asked, except with ``time`` (and but for the
    rounding of a network, with ``policy`` or a learned ``rollout``).

    Args:
        worlds: Number of deals; default 64.
        rollout: Who plays them out: ``counting`` (default), ``greedy``, ``random``, or the name or
            folder of a learned policy, which takes a hundred times as long.
        deals: Deals of hands that a play-out goes on for after the present one, before an estimate
            takes its place; default 1. The last two deals of a round are always played to the end.
        solver_turns: With so many turns left, and two sides, the exact solver takes the place of a
            play-out; default 6. It knows all cards of its world.
        time: Seconds for each decision, in place of ``worlds``: results then depend on the machine.
        threads: Threads that share the decisions of a call; results do not depend on it.
        prior: As many worlds what ``counting``, or ``policy``, says of a move counts for; default
            24.
        policy: Name or folder of a learned policy, whose logits are the prior, at
            ``POINTS_OF_A_LOGIT`` each; default: ``counting`` is.
        utility: ``margin`` (default), or in matches between two sides ``win``: margins count for
            what they are worth at the score; see ``match_odds.bends_of``.
        belief: Whether deals are the likelier, the better what others have played since hands were
            dealt fits the cards that they would hold; default: all are equally likely. Others are
            taken to play by what ``counting`` says, with errors. Without effect with building.

    Raises:
        ValueError: If an option is not possible, by name.

    Attributes:
        deals_at_once: See ``Policy``.
    """

    name = "search"
    cheats = False
    _prior = PRIOR

    def __init__(
        self,
        *,
        worlds: int | None = None,
        rollout: str | Policy = "counting",
        deals: int = 1,
        solver_turns: int = 6,
        time: float | None = None,
        threads: int = 1,
        belief: bool = False,
        prior: int | None = None,
        policy: str | Policy | None = None,
        utility: str = "margin",
    ) -> None:
        one_of("option utility", utility, UTILITIES)
        self.utility = utility
        self.belief = flag("option belief", belief)
        if prior is not None:
            self._prior = whole("option prior", prior, 0, MOST_WORLDS)
        self._guide = check_likely(policy)
        if worlds is not None and time is not None:
            raise ValueError(
                f"options worlds={quoted(worlds)} and time={quoted(time)}; allowed: one of them"
            )
        self.worlds = whole("option worlds", WORLDS if worlds is None else worlds, 1, MOST_WORLDS)
        self.deals = whole("option deals", deals, 0, MOST_DEALS)
        self.solver_turns = whole("option solver_turns", solver_turns, 0, MOST_TURNS)
        self.threads = check_threads(threads)
        self.time = None if time is None else _seconds(time)
        self._rollout, self._player = _player(rollout)
        self.rollout = rollout if isinstance(rollout, str) else rollout.name
        worlds_of_a_unit = WORLDS_OF_A_UNIT if self._player is None else WORLDS_OF_A_UNIT // 8
        each = self.worlds if self.time is None else WORLDS_OF_A_UNIT
        self.deals_at_once = max(1, worlds_of_a_unit // each) * self.threads

    def __repr__(self) -> str:
        return repr_of(
            self,
            worlds=None if self.time is not None or self.worlds == WORLDS else self.worlds,
            rollout=self.rollout,
            deals=self.deals,
            solver_turns=self.solver_turns,
            time=self.time,
            threads=self.threads,
            belief=self.belief,
            prior=None if self._prior == PRIOR else self._prior,
            policy=getattr(self._guide, "name", None),
            utility=self.utility,
        )

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view; see ``Policy.act``."""
        check_knowledge(views, self.name, self.cheats)
        numbers = np.empty(len(views), np.int64)
        sums = np.zeros((len(views), MOST_MOVES))
        actions = np.empty(len(views), np.int64)

        def search(a: int, b: int) -> None:
            part = views[a:b]
            found = numbers[a:b], sums[a:b], actions[a:b]
            self._begin(part, *found)
            if self.time is None:
                self._add(part, 0, self.worlds, numbers[a:b], sums[a:b])
            else:
                self._add_for(self.time, part, numbers[a:b], sums[a:b])
            kernels.end_search(part.spec, part.records, *found)

        spread(search, len(views), self.threads, min_rows=1)
        return actions

    def action_values(self, views: Views) -> NDArray[np.float64]:
        """Returns the margin of the round that it expects from each action; for analysis.

        With ``utility=win`` it is what margins are worth at the score, in points.

        Returns:
            float64 (n, 43); ``nan`` for illegal actions, for those that come to the same as
            another, and where it plays without a search.
        """
        check_knowledge(views, self.name, self.cheats)
        if self.time is not None:
            raise ValueError("option time is not possible here; allowed: worlds")
        numbers = np.empty(len(views), np.int64)
        sums = np.zeros((len(views), MOST_MOVES))
        actions = np.empty(len(views), np.int64)
        values = np.full((len(views), NUM_ACTIONS), np.nan)
        self._begin(views, numbers, sums, actions)
        self._add(views, 0, self.worlds, numbers, sums)
        weight = float(self.worlds + self._prior)
        kernels.action_margins(views.spec, views.records, numbers, sums, weight, values)
        return values

    def action_values_at(self, views: Views, scores: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns what ``action_values`` would at other scores of the match, from the same worlds.

        Every play-out counts at all scores, which is much faster than asking again.

        Args:
            views: Views of matches between two sides.
            scores: int64 (n, k, 2): whole points of the own and the other side, below the target.

        Returns:
            float64 (n, k, 43); see ``action_values``.

        Raises:
            ValueError: Unless ``utility=win`` and ``worlds``, and play-outs are by ``counting``,
                ``greedy`` or ``random``; or if scores are not as they should be.
        """
        check_knowledge(views, self.name, self.cheats)
        _check_scores(views, scores)
        if self.utility != "win" or self.time is not None or self._player is not None:
            raise ValueError(
                f"values at other scores are not possible with utility={self.utility!r}, "
                f"time={self.time!r} and rollout={self.rollout!r}; allowed: utility=win, worlds, "
                f"and rollout {', '.join(kernels.ROLLOUTS)}"
            )
        bends = bends_at(views.rules, scores[..., 0], scores[..., 1])
        numbers = np.empty(len(views), np.int64)
        sums = np.zeros((len(views), MOST_MOVES))
        actions = np.empty(len(views), np.int64)
        self._begin(views, numbers, sums, actions)
        spread = np.zeros((len(views), int(numbers.max(initial=0)), bends.shape[2]))
        prior = sums.copy()
        self._add(views, 0, self.worlds, numbers, sums, spread)
        values = np.full((*bends.shape[:2], NUM_ACTIONS), np.nan)
        weight = float(self.worlds + self._prior)
        for k in range(bends.shape[1]):
            sums[:] = prior
            sums[:, : spread.shape[1]] += np.einsum("imb,ib->im", spread, bends[:, k])
            at_score = np.full((len(views), NUM_ACTIONS), np.nan)
            kernels.action_margins(views.spec, views.records, numbers, sums, weight, at_score)
            values[:, k] = at_score
        return values

    def bend(self, views: Views, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns what margins of the present round are worth to it, (n, k) as they are."""
        return bend(bends_of(views), margins) if self.utility == "win" else margins

    def _begin(
        self,
        views: Views,
        numbers: NDArray[np.int64],
        sums: NDArray[np.float64],
        actions: NDArray[np.int64],
    ) -> None:
        """Settles the decisions that take no search, and begins the others by the prior."""
        guide = NO_GUIDE
        if self._guide is not None:
            with np.errstate(divide="ignore"):
                logits = np.log(self._guide.probabilities(views).astype(np.float64))
            guide = np.maximum(logits - logits.max(1, keepdims=True), LEAST_LOGIT)
            guide *= POINTS_OF_A_LOGIT
        kernels.begin_search(
            *(views.spec, views.records, self.solver_turns, float(self._prior), guide),
            *(numbers, sums, actions),
        )

    def _add_for(
        self, seconds: float, views: Views, numbers: NDArray[np.int64], sums: NDArray[np.float64]
    ) -> None:
        """Searches one decision after the other, each for some time."""
        for i in np.flatnonzero(numbers):
            end = clock.perf_counter() + seconds
            first = 0
            while first == 0 or clock.perf_counter() < end:
                one = slice(i, i + 1)
                self._add(views[one], first, WORLDS_AT_ONCE, numbers[one], sums[one])
                first += WORLDS_AT_ONCE

    def _add(
        self,
        views: Views,
        first: int,
        worlds: int,
        numbers: NDArray[np.int64],
        sums: NDArray[np.float64],
        spread: NDArray[np.float64] = NO_SPREAD,
    ) -> None:
        """Adds what every move is worth in some worlds; see ``search_worlds``."""
        bends = bends_of(views) if self.utility == "win" else NO_BENDS
        if self._player is None:
            for world in range(first, first + worlds, WORLDS_OF_A_CALL):
                number = min(WORLDS_OF_A_CALL, first + worlds - world)
                kernels.search_worlds(
                    *(views.spec, views.records, views.keys),
                    *(self._chosen(views, world, number, numbers), self._rollout),
                    *(self.deals, self.solver_turns, bends, spread, numbers, sums),
                )
            return
        totals = np.zeros_like(sums)
        ends = np.cumsum(numbers * worlds)
        begin = 0
        while begin < len(views):
            # At least one decision at a time, and of that as many worlds as there is room for.
            done = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, done + GAMES_AT_ONCE, "right")))
            part = slice(begin, end)
            at_once = worlds
            if ends[end - 1] - done > GAMES_AT_ONCE:
                # Whole blocks of worlds, which are chosen together.
                blocks = GAMES_AT_ONCE // (int(numbers[begin]) * kernels.BLOCK)
                at_once = max(1, blocks) * kernels.BLOCK
            for world in range(first, first + worlds, at_once):
                number = min(at_once, first + worlds - world)
                self._play_out(
                    *(self._player, views[part], world, number, numbers[part]),
                    *(bends[part] if len(bends) else bends, totals[part]),
                )
            begin = end
        sums += totals

    def _chosen(
        self, views: Views, first: int, worlds: int, numbers: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Chooses the deals that some worlds of each decision are, int64 (n, worlds)."""
        chosen = np.empty((len(views), worlds), np.int64)
        if self.belief:
            kernels.believe_worlds(views.spec, views.records, views.keys, first, numbers, chosen)
        else:
            chosen[:] = np.arange(first, first + worlds)
        return chosen

    def _play_out(
        self,
        player: Policy,
        views: Views,
        first: int,
        worlds: int,
        numbers: NDArray[np.int64],
        bends: NDArray[np.float64],
        totals: NDArray[np.float64],
    ) -> None:
        """Adds what every move is worth, played out by a policy that is no kernel.

        World is added to world, so that totals do not depend on how worlds are split into calls.
        """
        size = int(numbers.sum()) * worlds
        states: Records = np.empty(size, STATE)
        seats, stops = np.empty((2, size), np.int64)
        kernels.start_worlds(
            *(views.spec, views.records, views.keys),
            *(self._chosen(views, first, worlds, numbers), self.deals, numbers),
            *(states, seats, stops),
        )
        margins = np.empty(size)
        over = np.zeros(size, np.bool_)
        live = np.arange(size)
        while live.size:
            kernels.end_worlds(
                views.spec, states, live, seats, stops, self.solver_turns, margins, over
            )
            live = live[~over[live]]
            if live.size:
                records = np.empty(len(live), STATE)
                keys = np.empty(len(live), np.int64)
                turns = states["turn"][live].astype(np.int64)
                game_kernels.view_games(views.spec, states, live, turns, records, keys)
                asked = Views(views.rules, views.episode, views.spec, records, keys)
                kernels.play_picks(views.spec, states, live, ask(player, asked))
        at = 0
        for i in np.flatnonzero(numbers):
            end = at + int(numbers[i]) * worlds
            total = totals[i, : numbers[i]]
            worths = margins[at:end].reshape(worlds, -1)
            if len(bends):
                worths = bend(np.repeat(bends[i : i + 1], worlds, axis=0), worths)
            for row in worths:
                total += row
            at = end


class CheatingSearchPolicy(SearchPolicy):
    """Cheats: plays every move out in the deal as it is, all hidden cards known.

    A ceiling to measure others by, never an opponent to learn from: it is given the games that it
    needs where policies are measured or played out, not by an environment. With
    ``solver_turns=42`` and two sides it plays as the exact solver does: perfectly against perfect
    play, which is not the most that can be won from others.

    Args:
        rollout: As for ``search``; every seat of a play-out still knows only what it would.
        deals: As for ``search``; default: to the end of the round.
        solver_turns: As for ``search``; default 12.
        threads: As for ``search``.

    Raises:
        ValueError: If an option is not possible, by name.
    """

    name = "cheat:search"
    cheats = True
    # What the deal says outweighs what a count can.
    _prior = 0

    def __init__(
        self,
        *,
        rollout: str | Policy = "counting",
        deals: int = MOST_DEALS,
        solver_turns: int = 12,
        threads: int = 1,
    ) -> None:
        super().__init__(
            worlds=1, rollout=rollout, deals=deals, solver_turns=solver_turns, threads=threads
        )


def _seconds(time: Any) -> float:
    # The least is a number above 0.
    return real("option time", time, 1e-300, 3600, "seconds, up to 3600")


def _check_scores(views: Views, scores: NDArray[np.int64]) -> None:
    """Sees that there are some scores for each view.

    Raises:
        ValueError: If they have another shape or dtype, or are not below the target.
    """
    right = scores.ndim == 3 and scores.shape[0] == len(views) and scores.shape[2] == 2
    if not right or not np.issubdtype(scores.dtype, np.integer):
        raise ValueError(
            f"scores of shape {scores.shape} and dtype {scores.dtype} are not possible; allowed: "
            f"integers of shape ({len(views)}, k, 2)"
        )
    target = views.rules.match_target
    outside = (scores < 0) | (scores >= target)
    if outside.any():
        raise ValueError(f"score {scores[outside][0]} is not possible; allowed: 0 to {target - 1}")


def check_likely(policy: Any) -> Likely | None:
    """Loads the policy that the option ``policy`` names; none for ``None``.

    Raises:
        ValueError: If there is no such policy, or it gives no probabilities.
    """
    if policy is None:
        return None
    allowed = "the name or folder of a learned policy"
    player = check_player("policy", policy, allowed)
    if not isinstance(player, Likely):
        raise ValueError(
            f"option policy {quoted(policy)} gives no probabilities; allowed: {allowed}"
        )
    return player


def _player(rollout: Any) -> tuple[int, Policy | None]:
    """Returns the kernels' number of a roll-out policy, or the policy if it is none of theirs."""
    if isinstance(rollout, str) and rollout in kernels.ROLLOUTS:
        return kernels.ROLLOUTS.index(rollout), None
    allowed = f"{', '.join(kernels.ROLLOUTS)}, or the name or folder of a learned policy"
    return -1, check_player("rollout", rollout, allowed)


def check_player(option: str, policy: Any, allowed: str) -> Policy:
    """Loads the policy that an option names.

    Raises:
        ValueError: If there is none, or it is a search itself.
    """
    # The module that this one is loaded by.
    from escoba_env.policies import load_policy

    try:
        player = load_policy(policy)
    except ValueError as error:
        raise ValueError(
            f"option {option} {quoted(policy)} is not possible ({error}); allowed: {allowed}"
        ) from None
    # Searches alone say whether they cheat.
    if hasattr(player, "cheats"):
        raise ValueError(f"option {option} {quoted(policy)} is a search itself; allowed: {allowed}")
    return player
