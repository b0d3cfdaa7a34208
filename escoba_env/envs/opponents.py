"""``Opponents``: policies that play some seats of a batch, asked once for all games that wait.

This file knows whose turn it is, and nothing about what a learner is told of the game.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Batch
from escoba_env.checks import quoted, whole
from escoba_env.engine import vector as kernels
from escoba_env.engine.vector import ASKED, GREEDY, LEARNER, RANDOM
from escoba_env.policies import GreedyPolicy, Policy, PolicyLike, RandomPolicy, load_policy

Opponent = PolicyLike
"""What ``load_policy`` takes."""

_BUILTIN: dict[type, int] = {RandomPolicy: RANDOM, GreedyPolicy: GREEDY}
"""Exact types: what a class that is derived from one of these does is not known here."""


def load_opponents(opponents: Opponent | Sequence[Opponent], players: int) -> tuple[Policy, ...]:
    """Loads the policy of every seat but the learner's, in the order in which they follow it.

    A policy that is named several times is loaded once.

    Raises:
        ValueError: If there are too few or too many, or one is not possible.
    """
    others = opponents if isinstance(opponents, list | tuple) else [opponents] * (players - 1)
    if len(others) != players - 1:
        raise ValueError(
            f"opponents={quoted(opponents)}; allowed: one policy or policy name, or a list of "
            f"{players - 1}, one for each other seat in the order of play"
        )
    loaded: dict[str, Policy] = {}
    policies = []
    for policy in others:
        if isinstance(policy, str | Path):
            if str(policy) not in loaded:
                loaded[str(policy)] = load_policy(policy)
            policies.append(loaded[str(policy)])
            continue
        try:
            policies.append(load_policy(policy))
        except ValueError as error:
            raise ValueError(f"opponents={quoted(opponents)}: {error}") from error
    for policy in policies:
        if getattr(policy, "cheats", False):
            raise ValueError(
                f"opponent {quoted(policy.name)} sees hidden cards; allowed: policies that play by "
                f"what they know (those that cheat are to measure others by, with evaluate and its "
                f"like)"
            )
    return tuple(policies)


def fixed_seat(seat: int | str, players: int) -> int | None:
    """Returns the seat of the learner, or ``None`` if it is drawn for each episode.

    Raises:
        ValueError: If there is no such seat.
    """
    if isinstance(seat, str) and seat == "random":
        return None
    return whole("seat", seat, 0, players - 1, f"0 to {players - 1}, or 'random'")


class Opponents:
    """Policies in seats of a batch's games.

    Args:
        batch: The games.
        policies: Those who play.

    Attributes:
        chairs: int64 (num_games, players): which of ``policies`` sits in each seat, or
            ``LEARNER``; at first all are the learner's. Fill it in.
    """

    def __init__(self, batch: Batch, policies: Sequence[Policy]) -> None:
        self.batch = batch
        self.policies = tuple(policies)
        self.chairs = np.full((len(batch), batch.rules.players), LEARNER)
        self._movers = np.empty(len(batch), np.int64)
        self._ended = np.empty(len(batch), np.int64)
        self._ways = np.array([_BUILTIN.get(type(policy), ASKED) for policy in self.policies])

    def play(
        self, earned: NDArray[np.float64], on_over: Callable[[NDArray[np.int64]], None]
    ) -> None:
        """Plays on until every game waits for the learner or is over.

        Each policy is asked once for all games that wait for it, then again for those that still
        do, or do so now: as many times as the longest of their turns has picks. Where only one
        action is legal it is not asked, nor are ``random`` and ``greedy``, which kernels play.

        Args:
            earned: Array (num_games, players) to which is added what every seat earns.
            on_over: Called with the slots of games that have just ended. It may put other games
                into them, in which case these are played on too.

        Raises:
            IllegalActionError: If a policy, named in the message, chooses an illegal action.
            ValueError: If a policy answers with something else than one whole number a view.
        """
        while True:
            on_over(self._play_unasked(earned))
            if not kernels.find_movers(self.batch.states, self.chairs, self._movers):
                return
            self._ask(earned, on_over)

    def _play_unasked(self, earned: NDArray[np.float64]) -> NDArray[np.int64]:
        """Plays what needs no asking; returns the games that have ended."""
        batch = self.batch
        count = kernels.play_unasked(
            batch.spec,
            batch.states,
            self.chairs,
            self._ways,
            *batch.step_settings,
            earned,
            self._ended,
        )
        return self._ended[:count].copy()

    def _ask(
        self, earned: NDArray[np.float64], on_over: Callable[[NDArray[np.int64]], None]
    ) -> None:
        """Has every policy make one decision in all games that wait for it."""
        batch = self.batch
        for number, policy in enumerate(self.policies):
            games = np.flatnonzero(self._movers == number)
            if games.size == 0:
                continue
            actions = policy.act(batch.views(games))
            try:
                rewards, over = batch.step(actions, games)
            except ValueError as error:
                raise type(error)(f"opponent {quoted(policy.name)}: {error}") from error
            kernels.add_rows(earned, games, rewards)
            if over.any():
                on_over(games[over])
