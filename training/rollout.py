"""Self-play rollouts: the decisions of every seat, each seat's linked one to the next.

The next state of a seat's decision is its *own* next decision, and whatever it earns in between,
the round's reward above all, belongs to the earlier one. Decisions with a single legal action are
played by the engine and learned from by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer, MaskableRolloutBufferSamples
from torch import Tensor

from escoba_env.batch import Batch
from escoba_env.cards import NUM_ACTIONS
from escoba_env.engine.outlook import NUM_FACTS
from escoba_env.policies.base import Policy
from escoba_env.policies.network import Choices, choices_of

Floats = NDArray[np.float32]
Act = Callable[[Choices], tuple[NDArray[np.int64], Floats, Floats]]
"""Observations of decisions to actions, values and log-probabilities."""

LEARNER = -1
"""In ``opponent_of``: the seat is played by the learner."""


class SeatRolloutBuffer(MaskableRolloutBuffer):
    """Decisions of one update, in arrays (steps, games): MaskablePPO draws its minibatches here.

    ``add_step`` and ``credit`` fill it, ``finish`` links each seat's decisions and computes
    advantages and returns by GAE.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        gae_lambda: float = 1,
        gamma: float = 1,
        n_envs: int = 1,
        players: int = 2,
    ) -> None:
        self.players = players
        super().__init__(
            buffer_size, observation_space, action_space, device, gae_lambda, gamma, n_envs
        )

    def reset(self) -> None:
        """Empties the buffer; the arrays are made once and used again."""
        if not hasattr(self, "observations"):
            shape = (self.buffer_size, self.n_envs)
            size = spaces.flatdim(self.observation_space) - NUM_ACTIONS * NUM_FACTS
            self.observations = np.zeros((*shape, size), np.float32)
            self.actions = np.zeros(shape, np.int64)
            self.seats = np.zeros(shape, np.int64)
            self.values = np.zeros(shape, np.float32)
            self.log_probs = np.zeros(shape, np.float32)
            self.advantages = np.zeros(shape, np.float32)
            self.returns = np.zeros(shape, np.float32)
            self.earned = np.zeros((*shape, self.players), np.float32)
            self.over = np.zeros(shape, np.bool_)
        # Of each step the legal actions, game by game: how many, which, and their facts.
        self._legal: list[tuple[Tensor, Tensor, Tensor]] = []
        self.earned[:] = 0
        self.over[:] = False
        self.pos = 0
        self.full = False
        self.generator_ready = False

    def add_step(
        self,
        choices: Choices,
        seats: NDArray[np.int64],
        actions: NDArray[np.int64],
        values: Floats,
        log_probs: Floats,
    ) -> None:
        """Adds one decision of every game."""
        self.observations[self.pos] = choices.state
        number = torch.bincount(choices.rows, minlength=self.n_envs)
        self._legal.append((number, choices.actions, choices.facts))
        self.seats[self.pos] = seats
        self.actions[self.pos] = actions
        self.values[self.pos] = values
        self.log_probs[self.pos] = log_probs
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def credit(self, games: NDArray[np.int64], rewards: Floats, over: NDArray[np.bool_]) -> None:
        """Adds what every seat earned after the latest decision of some games."""
        step = self.pos - 1
        # A game that was over within this step is another game by now.
        same = ~self.over[step, games]
        self.earned[step, games[same]] += rewards[same]
        self.over[step, games[same]] |= over[same]

    def finish(self, next_values: Floats, still_earned: Floats) -> None:
        """Computes advantages and returns.

        Args:
            next_values: float32 (games, players): value of each seat's next decision after the
                last step; 0 where the game ended before it.
            still_earned: float32 (games, players): what each seat earns from the end of the last
                step to that decision.
        """
        rows = np.arange(self.n_envs)
        value = next_values.copy()
        advantage = np.zeros_like(next_values)
        earned = still_earned.copy()
        for step in reversed(range(self.buffer_size)):
            over = self.over[step]
            value[over] = 0
            advantage[over] = 0
            earned[over] = 0
            earned += self.earned[step]
            seat = self.seats[step]
            here = self.values[step]
            delta = earned[rows, seat] + self.gamma * value[rows, seat] - here
            gain = delta + self.gamma * self.gae_lambda * advantage[rows, seat]
            self.advantages[step] = gain
            value[rows, seat] = here
            advantage[rows, seat] = gain
            earned[rows, seat] = 0
        np.add(self.advantages, self.values, out=self.returns)
        self._all_legal = tuple(map(torch.cat, zip(*self._legal, strict=True)))

    def get(self, batch_size: int | None = None) -> Iterator[MaskableRolloutBufferSamples]:  # type: ignore[override]
        """Yields shuffled minibatches of all decisions; a last, smaller one is left out."""
        assert self.full, "a rollout is not finished"
        total = self.buffer_size * self.n_envs
        size = batch_size or total
        flat = {
            name: torch.from_numpy(array.reshape(total, *array.shape[2:]))
            for name, array in (
                ("actions", self.actions),
                ("old_values", self.values),
                ("old_log_prob", self.log_probs),
                ("advantages", self.advantages),
                ("returns", self.returns),
            )
        }
        order = torch.randperm(total)
        for start in range(0, total - size + 1, size):
            rows = order[start : start + size]
            yield MaskableRolloutBufferSamples(
                observations=self.choices(rows),  # type: ignore[arg-type]
                action_masks=None,  # type: ignore[arg-type]
                **{name: array[rows] for name, array in flat.items()},
            )

    def choices(self, rows: Tensor) -> Choices:
        """Returns the observations of a finished rollout's decisions.

        Args:
            rows: int64 (n,): decision ``step * games + game``.
        """
        numbers, actions, facts = self._all_legal
        starts = numbers.cumsum(0) - numbers
        number = numbers[rows]
        # Where each legal action of these rows stands among all.
        shift = starts[rows] - (number.cumsum(0) - number)
        places = torch.arange(int(number.sum())) + shift.repeat_interleave(number)
        states = torch.from_numpy(self.observations.reshape(len(numbers), -1))
        of_row = torch.arange(len(rows)).repeat_interleave(number)
        return Choices(states[rows], of_row, actions[places], facts[places])


class SelfPlay:
    """Plays a batch forward and fills rollout buffers.

    Args:
        batch: Games of the ``tactical`` encoding with ``skip_forced``.
        opponents: Frozen policies, and the share of games in which each plays all sides but one;
            the rest of the games is self-play on every seat.
        reward_scale: Factor of rewards inside the learner.
        seed: Seed of which side learns in games against opponents.
    """

    def __init__(
        self,
        batch: Batch,
        opponents: list[tuple[Policy, float]],
        reward_scale: float,
        seed: int,
    ) -> None:
        self.batch = batch
        self.reward_scale = reward_scale
        self.policies = [policy for policy, _ in opponents]
        self.random = np.random.default_rng(seed)
        self.games = np.arange(len(batch))
        self._dense, self._masks = batch.observe()
        players = batch.rules.players
        # Which policy plays a seat of a game; games are split by share, in order.
        self.opponent_of = np.full((len(batch), players), LEARNER)
        ends = np.rint(np.cumsum([0.0, *(share for _, share in opponents)]) * len(batch))
        self._opponent_of_game = np.full(len(batch), LEARNER)
        for number, (start, end) in enumerate(pairwise(ends)):
            self._opponent_of_game[int(start) : int(end)] = number
        self._seat_opponents(self.games)
        self._let_opponents_move(None)

    def collect(self, buffer: SeatRolloutBuffer, act: Act) -> None:
        """Fills a buffer with decisions of the learner and what came of them."""
        buffer.reset()
        while not buffer.full:
            seats = self.batch.turn
            choices = _choices(*self.batch.observe(out=self._dense, masks=self._masks))
            actions, values, log_probs = act(choices)
            buffer.add_step(choices, seats, actions, values, log_probs)
            rewards, over = self.batch.step(actions)
            buffer.credit(self.games, rewards * self.reward_scale, over)
            self._restart(self.games[over])
            self._let_opponents_move(buffer)
        buffer.finish(*self._look_ahead(buffer, act))

    def _restart(self, games: NDArray[np.int64]) -> None:
        if len(games):
            self.batch.restart(games)
            self._seat_opponents(games)

    def _seat_opponents(self, games: NDArray[np.int64]) -> None:
        games = games[self._opponent_of_game[games] != LEARNER]
        sides = self.batch.rules.num_sides
        learning = self.random.integers(sides, size=len(games))
        for seat in range(self.batch.rules.players):
            playing = learning != seat % sides
            self.opponent_of[games, seat] = np.where(
                playing, self._opponent_of_game[games], LEARNER
            )

    def _let_opponents_move(self, buffer: SeatRolloutBuffer | None) -> None:
        if not self.policies:
            return
        while True:
            movers = self.opponent_of[self.games, self.batch.turn]
            waiting = self.games[movers != LEARNER]
            if len(waiting) == 0:
                return
            rewards, over = _step_with(self.batch, self.policies, movers, waiting)
            if buffer is not None:
                buffer.credit(waiting, rewards * self.reward_scale, over)
            self._restart(waiting[over])

    def _look_ahead(self, buffer: SeatRolloutBuffer, act: Act) -> tuple[Floats, Floats]:
        """Plays a copy on until every seat has decided again, to learn what its next value is."""
        batch = self.batch.clone()
        shape = (len(batch), batch.rules.players)
        next_values = np.zeros(shape, np.float32)
        earned = np.zeros(shape, np.float32)
        # Seats that have decided in the game that is still going on.
        open_seats = np.zeros(shape, np.bool_)
        going_on = np.ones(len(batch), np.bool_)
        for step in reversed(range(buffer.buffer_size)):
            going_on &= ~buffer.over[step]
            open_seats[self.games[going_on], buffer.seats[step, going_on]] = True
            if not going_on.any():
                break
        while True:
            games = np.flatnonzero(open_seats.any(1))
            if len(games) == 0:
                return next_values, earned
            seats = batch.turn[games]
            movers = np.full(len(batch), LEARNER)
            movers[games] = self.opponent_of[games, seats]
            frozen = games[movers[games] != LEARNER]
            rewards = np.zeros((len(batch), shape[1]), np.float32)
            over = np.zeros(len(batch), np.bool_)
            if len(frozen):
                rewards[frozen], over[frozen] = _step_with(batch, self.policies, movers, frozen)
            own = games[movers[games] == LEARNER]
            if len(own):
                seats = batch.turn[own]
                actions, values, _ = act(_choices(*batch.observe(own)))
                waiting = open_seats[own, seats]
                next_values[own[waiting], seats[waiting]] = values[waiting]
                open_seats[own, seats] = False
                rewards[own], over[own] = batch.step(actions, own)
            earned += np.where(open_seats, rewards * self.reward_scale, 0)
            open_seats[over] = False


def _choices(observations: Floats, masks: NDArray[np.int8]) -> Choices:
    return choices_of(torch.from_numpy(observations), torch.from_numpy(masks))


def _step_with(
    batch: Batch, policies: list[Policy], movers: NDArray[np.int64], games: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Lets frozen policies move in some games, each in one call for all of its games."""
    actions = np.empty(len(games), np.int64)
    for number, policy in enumerate(policies):
        mine = movers[games] == number
        if mine.any():
            actions[mine] = policy.act(batch.views(games[mine]))
    return batch.step(actions, games)
