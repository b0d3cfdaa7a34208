"""Self-play rollouts: the decisions of every seat, each seat's linked one to the next.

The next state of a seat's decision is its *own* next decision, and whatever it earns in between,
the round's reward above all, belongs to the earlier one. Decisions with a single legal action are
played by the engine and learned from by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

from .critic import hidden_places
from .league import League

Floats = NDArray[np.float32]
Act = Callable[[Choices], tuple[NDArray[np.int64], Floats, Floats]]
"""Observations of decisions to actions, values and log-probabilities."""

LEARNER = -1
"""In ``opponent_of``: the seat is played by the learner."""
FROM_LEAGUE = -2
"""Instead of an opponent: one is drawn for each game."""


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
        # Made with the first step, if a critic sees more than the seat.
        self.hidden: NDArray[np.uint8] | None = None
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
        if choices.hidden is not None:
            if self.hidden is None:
                shape = (self.buffer_size, *choices.hidden.shape)
                self.hidden = np.zeros(shape, np.uint8)
            self.hidden[self.pos] = choices.hidden
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
        # Of an all-seeing critic's values and the network's own, one after the other.
        values = 1 if self.hidden is None else 2
        order = torch.randperm(total)
        for start in range(0, total - size + 1, size):
            rows = order[start : start + size]
            parts = {name: array[rows] for name, array in flat.items()}
            parts["returns"] = parts["returns"].repeat(values)
            yield MaskableRolloutBufferSamples(
                observations=self.choices(rows),  # type: ignore[arg-type]
                action_masks=None,  # type: ignore[arg-type]
                **parts,
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
        hidden = None
        if self.hidden is not None:
            hidden = torch.from_numpy(self.hidden.reshape(len(numbers), -1))[rows]
        return Choices(states[rows], of_row, actions[places], facts[places], hidden)


class SelfPlay:
    """Plays a batch forward and fills rollout buffers.

    Args:
        batch: Games of the ``tactical`` encoding with ``skip_forced``.
        opponents: Frozen policies, and the share of games in which each plays all sides but one;
            the rest of the games is self-play on every seat.
        reward_scale: Factor of rewards inside the learner.
        seed: Seed of which side learns in games against opponents.
        league: Opponents that are drawn anew for each game.
        league_share: Share of games against them, beside those against ``opponents``.
        teammates: Partnership: frozen policies, and the share of games in which each is the partner
            of a side that learns.
        all_seeing: Whether decisions come with the hidden cards, for a critic that sees them.
    """

    def __init__(
        self,
        batch: Batch,
        opponents: Sequence[tuple[Policy, float]],
        reward_scale: float,
        seed: int,
        league: League | None = None,
        league_share: float = 0.0,
        teammates: Sequence[tuple[Policy, float]] = (),
        *,
        all_seeing: bool = False,
    ) -> None:
        self.batch = batch
        self.all_seeing = all_seeing
        self.reward_scale = reward_scale
        self.league = league
        self._fixed = [policy for policy, _ in (*opponents, *teammates)]
        self._first_teammate = len(opponents)
        self._teammate_shares = [share for _, share in teammates]
        self.random = np.random.default_rng(seed)
        self.games = np.arange(len(batch))
        self._dense, self._masks = batch.observe()
        players = batch.rules.players
        # Which policy plays a seat of a game; games are split by share, in order.
        self.opponent_of = np.full((len(batch), players), LEARNER)
        shares = [share for _, share in opponents] + [league_share if league else 0.0]
        ends = np.rint(np.cumsum([0.0, *shares]) * len(batch))
        self._opponent_of_game = np.full(len(batch), LEARNER)
        for number, (start, end) in enumerate(pairwise(ends)):
            is_league = number == len(opponents)
            self._opponent_of_game[int(start) : int(end)] = FROM_LEAGUE if is_league else number
        # Of games against the league: the member and the side that learns, or -1.
        self.league_games = np.full((len(batch), 2), -1)
        self._seat_others(self.games)
        self._let_opponents_move(None)

    @property
    def policies(self) -> list[Policy | None]:
        """Those that ``opponent_of`` counts: opponents, teammates, members of the league."""
        return [*self._fixed, *(self.league.policies if self.league else [])]

    def collect(self, buffer: SeatRolloutBuffer, act: Act) -> None:
        """Fills a buffer with decisions of the learner and what came of them."""
        buffer.reset()
        while not buffer.full:
            seats = self.batch.turn
            seen = self.batch.observe(out=self._dense, masks=self._masks)
            choices = self._choices(self.batch, self.games, *seen)
            actions, values, log_probs = act(choices)
            buffer.add_step(choices, seats, actions, values, log_probs)
            rewards, over = self.batch.step(actions)
            buffer.credit(self.games, rewards * self.reward_scale, over)
            self._restart(self.games[over])
            self._let_opponents_move(buffer)
        buffer.finish(*self._look_ahead(buffer, act))

    def _restart(self, games: NDArray[np.int64]) -> None:
        if len(games):
            self._note_results(games)
            self.batch.restart(games)
            self._seat_others(games)

    def _note_results(self, games: NDArray[np.int64]) -> None:
        """Tells the league how games against it ended."""
        games = games[self.league_games[games, 0] >= 0]
        if self.league is None or len(games) == 0:
            return
        members, sides = self.league_games[games].T
        scores = self.batch.states["scores"][games, : self.batch.rules.num_sides].astype(np.int64)
        own = scores[np.arange(len(games)), sides]
        scores[np.arange(len(games)), sides] = np.iinfo(np.int64).min
        best = scores.max(1)
        self.league.note(members, np.where(own > best, 1.0, np.where(own == best, 0.5, 0.0)))

    def _seat_others(self, games: NDArray[np.int64]) -> None:
        """Seats opponents and teammates in games that begin."""
        self.opponent_of[games] = LEARNER
        rules = self.batch.rules
        opponent = self._opponent_of_game[games].copy()
        self.league_games[games] = -1
        if self.league is not None:
            from_league = np.flatnonzero(opponent == FROM_LEAGUE)
            members = self.league.draw(len(from_league), self.random)
            somebody = members >= 0
            opponent[from_league] = np.where(somebody, members + len(self._fixed), LEARNER)
            self.league_games[games[from_league], 0] = members
        against = opponent != LEARNER
        others, opponent = games[against], opponent[against]
        learning = self.random.integers(rules.num_sides, size=len(others))
        self.league_games[others, 1] = learning
        for seat in range(rules.players):
            playing = learning != seat % rules.num_sides
            self.opponent_of[others, seat] = np.where(playing, opponent, LEARNER)
        if self._teammate_shares:
            self._seat_teammates(games)

    def _seat_teammates(self, games: NDArray[np.int64]) -> None:
        """Gives one of the two seats of learning sides to a teammate."""
        none = max(0.0, 1 - sum(self._teammate_shares))
        shares = np.array([*self._teammate_shares, none])
        for side in range(self.batch.rules.num_sides):
            drawn = self.random.choice(len(shares), size=len(games), p=shares / shares.sum())
            seats = side + 2 * self.random.integers(2, size=len(games))
            learns = self.opponent_of[games, side] == LEARNER
            mine = learns & (drawn < len(self._teammate_shares))
            self.opponent_of[games[mine], seats[mine]] = self._first_teammate + drawn[mine]

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

    def _choices(
        self,
        batch: Batch,
        games: NDArray[np.int64],
        observations: Floats,
        masks: NDArray[np.int8],
    ) -> Choices:
        choices = choices_of(torch.from_numpy(observations), torch.from_numpy(masks))
        if not self.all_seeing:
            return choices
        places = hidden_places(batch.rules, batch.states[games])
        return choices._replace(hidden=torch.from_numpy(places))

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
                actions, values, _ = act(self._choices(batch, own, *batch.observe(own)))
                waiting = open_seats[own, seats]
                next_values[own[waiting], seats[waiting]] = values[waiting]
                open_seats[own, seats] = False
                rewards[own], over[own] = batch.step(actions, own)
            earned += np.where(open_seats, rewards * self.reward_scale, 0)
            open_seats[over] = False


def _step_with(
    batch: Batch,
    policies: Sequence[Policy | None],
    movers: NDArray[np.int64],
    games: NDArray[np.int64],
) -> tuple[Floats, NDArray[np.bool_]]:
    """Lets frozen policies move in some games, each in one call for all of its games."""
    actions = np.empty(len(games), np.int64)
    for number, policy in enumerate(policies):
        mine = movers[games] == number
        if policy is not None and mine.any():
            actions[mine] = policy.act(batch.views(games[mine]))
    return batch.step(actions, games)
