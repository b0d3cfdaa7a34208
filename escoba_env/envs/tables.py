"""``Tables``: many games as the vectorised environments play them, one learner in each.

To them what ``table.Table`` is to the environments of one game: it checks actions and reset
options, seats the learner, has the opponents play, settles illegal actions and starts the next
games.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import logger
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from escoba_env.batch import (
    MAX_SEED,
    Batch,
    IllegalActionError,
    check_games,
    explain_illegal,
    observation_buffers,
)
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import as_array, quoted
from escoba_env.engine import vector as kernels
from escoba_env.engine.batch import first_illegal, observe_games, step_games
from escoba_env.engine.vector import LEARNER
from escoba_env.envs.opponents import Opponent, Opponents, fixed_seat, load_opponents
from escoba_env.envs.table import (
    penalty_of,
    reset_needed,
    reset_options,
    table_rules,
    terminates,
)
from escoba_env.game import Game

NEXT_GAME = -1
"""In the seeds of ``Tables.start``: the next game of the slot's present stream."""


class Outcome(NamedTuple):
    """What came of a step.

    Attributes:
        rewards: float64 (num_envs,): what each learner earned.
        terminated: bool (num_envs,): whether the game ended in this step.
        finals: With ``SAME_STEP``: slots, int64 (k,), into which the next game has been put, and
            the learner's last observation in each, (k, *encoding.shape); several such pairs.
    """

    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    finals: list[tuple[NDArray[np.int64], NDArray[Any]]]


class Tables:
    """Many games with one learner in each, of which every one waits for its learner or is over.

    The games of a slot depend on its seed and its learner's actions alone: not on how many slots
    there are, and not on what is played in others. They are those that ``EscobaEnv`` plays.

    Args:
        num_envs: Number of games.
        opponents: As for ``EscobaEnv``.
        seat: As for ``EscobaEnv``.
        rules: As for ``EscobaEnv``.
        players: As for ``EscobaEnv``.
        partnership: As for ``EscobaEnv``.
        episode: As for ``EscobaEnv``.
        reward: As for ``EscobaEnv``.
        encoding: As for ``EscobaEnv``.
        memory: As for ``EscobaEnv``.
        dtype: Type of observations; see ``Batch``.
        reward_timing: As for ``EscobaEnv``.
        illegal: As for ``EscobaEnv``.
        autoreset_mode: Whether a game that is over is followed by the next one in the step in
            which it ends, in the step after that, or not before :meth:`start`.
        fields: Fields of ``Rules`` that replace those of ``rules``.

    Attributes:
        batch: The games; look at them, never play on them.
        opponents: The policy that plays each other seat, in the order of the argument.
        seats: int64 (num_envs,): the learner's seat in each game.
        over: bool (num_envs,): whether each game is over, or none has been started.

    Raises:
        ValueError: If an argument is not possible, by name.
    """

    def __init__(
        self,
        num_envs: int,
        opponents: Opponent | Sequence[Opponent],
        seat: int | str,
        rules: Any,
        *,
        players: int | None,
        partnership: bool | None,
        episode: str,
        reward: str,
        encoding: str,
        memory: str,
        dtype: str,
        reward_timing: str,
        illegal: str,
        autoreset_mode: AutoresetMode,
        fields: Mapping[str, Any],
    ) -> None:
        self._terminates = terminates(illegal)
        fields = dict(fields)
        render_mode = fields.pop("render_mode", None)
        if render_mode is not None:
            raise ValueError(
                f"render_mode={quoted(render_mode)} is not possible for games in one batch; "
                f"allowed: None, or environments of one game each (vectorization_mode='sync')"
            )
        num_envs = check_games("num_envs", num_envs)
        self.batch = Batch(
            num_envs,
            table_rules(rules, players, partnership, fields),
            episode=episode,
            reward=reward,
            reward_timing=reward_timing,
            encoding=encoding,
            memory=memory,
            dtype=dtype,
        )
        self.rules = self.batch.rules
        self.encoding = self.batch.encoding
        self._penalty = penalty_of(self.rules, reward)
        self._mode = autoreset_mode
        self._started = False
        self._fixed_seat = fixed_seat(seat, self.rules.players)
        self.opponents = load_opponents(opponents, self.rules.players)
        distinct = {id(policy): policy for policy in self.opponents}
        self._others = Opponents(self.batch, list(distinct.values()))
        numbers = {key: number for number, key in enumerate(distinct)}
        # Who sits in each seat, the learner's being the first.
        self._order = np.array([LEARNER, *(numbers[id(policy)] for policy in self.opponents)])
        num_envs = len(self.batch)
        self._all = np.arange(num_envs)
        self.seats = np.full(num_envs, self._fixed_seat or 0)
        self.over = np.ones(num_envs, np.bool_)
        # What each seat has earned since its game's learner was last told.
        self._earned = np.zeros((num_envs, self.rules.players), np.float64)
        self._rewards = np.zeros(num_envs, np.float64)
        self._terminated = np.zeros(num_envs, np.bool_)
        self._finals: list[tuple[NDArray[np.int64], NDArray[Any]]] = []
        # Until there is a seed, streams that nobody has chosen.
        words = np.random.SeedSequence().generate_state(num_envs, np.uint64)
        self.batch.states["seed"] = words & np.uint64(MAX_SEED)

    def __len__(self) -> int:
        return len(self.over)

    def summary(self) -> str:
        """Says on one line what is played by whom."""
        seat = "a seat drawn each time" if self._fixed_seat is None else f"seat {self._fixed_seat}"
        others = " and ".join(policy.name for policy in self.opponents)
        return (
            f"{self.rules.title}, {self.batch.episode}: {len(self)} games, the learner in {seat} "
            f"against {others}"
        )

    def check_started(self, what: str) -> None:
        """Checks that games have been started in all slots.

        Raises:
            ResetNeeded: If not, or if an opponent has broken off a step.
        """
        if not self._started:
            raise reset_needed(what)

    # -- starting ---------------------------------------------------------------------------

    def start(
        self,
        slots: NDArray[np.int64],
        seeds: NDArray[np.int64] | None = None,
        options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Starts new games in slots; :meth:`settle` then lets the opponents play.

        Args:
            slots: int64 (n,).
            seeds: int64 (n,): a seed, of which this is the first game, or ``NEXT_GAME``; default:
                ``NEXT_GAME`` for all.
            options: Reset options of each, as for ``EscobaEnv``; default: none.

        Raises:
            ValueError: If an option is not possible; nothing has changed then.
        """
        states = self.batch.states
        stream = states["seed"][slots]
        index = states["game_index"][slots] + 1
        if seeds is not None:
            first = seeds != NEXT_GAME
            stream = np.where(first, seeds, stream)
            index = np.where(first, 0, index)
        # All options are tried before anything changes.
        chosen = [reset_options(option) for option in options or ()]
        dealt = {
            slots[i]: self._deal(stream[i], index[i], option)
            for i, option in enumerate(chosen)
            if option
        }
        kernels.start_streams(self.batch.spec, states, slots, stream, index)
        for slot, record in dealt.items():
            states[slot] = record
        self.over[slots] = False
        self._earned[slots] = 0
        kernels.seat_learners(
            self.batch.spec,
            states,
            slots,
            -1 if self._fixed_seat is None else self._fixed_seat,
            self._order,
            self.seats,
            self._others.chairs,
        )

    def _deal(self, seed: int, index: int, options: Mapping[str, Any]) -> np.void:
        """Deals a game as the options say."""
        game = Game(self.rules, episode=self.batch.episode, seed=int(seed))
        game.reset(int(seed), index=int(index), **options)
        return game.record

    def check_options(self, options: Mapping[str, Any] | None) -> None:
        """Checks reset options without starting a game.

        Raises:
            ValueError: If one of them is not possible.
        """
        self._deal(0, 0, reset_options(options))

    def settle(self) -> None:
        """Lets the opponents play until every game that is not over waits for its learner."""
        try:
            self._others.play(self._earned, self._end)
        except BaseException:
            # Some games have gone on and some have not.
            self._started = False
            raise
        self._started = True

    # -- looking ----------------------------------------------------------------------------

    def observe(
        self, slots: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.int8]]:
        """Returns what the learners see, in new arrays, and their masks: zeros after the end."""
        if slots is None:
            slots = self._all
        batch = self.batch
        observations, masks, rows = observation_buffers(self.encoding, len(slots), None, None)
        observe_games(
            batch.spec, batch.states, slots, self.seats[slots], self.encoding.plan, rows, masks
        )
        masks[self.over[slots]] = 0
        return observations, masks

    # -- playing ----------------------------------------------------------------------------

    def step(self, actions: ArrayLike, games: NDArray[np.bool_] | None = None) -> Outcome:
        """Takes an action for each learner; :meth:`settle` is part of it.

        Args:
            actions: Integers (num_envs,).
            games: bool (num_envs,): the games that are stepped; the others stay as they are, and
                their actions are not looked at. Default: all.

        Raises:
            TypeError: If the actions are not integers.
            ValueError: If they have another shape.
            IllegalActionError: If one is illegal and ``illegal="raise"``.
            ResetNeeded: If no game has been started, or one is over and is not to be followed by
                the next one. In all these cases nothing has changed.
        """
        given = as_array(actions)
        chosen = self._as_actions(given)
        self.check_started("step()")
        ended = np.flatnonzero(self.over if games is None else self.over & games)
        slots = self._all if games is None else np.flatnonzero(games)
        if ended.size:
            if self._mode is AutoresetMode.DISABLED:
                raise reset_needed(f"step() of environment {ended[0]}")
            slots = slots[~self.over[slots]]
        legal = self._legal(slots, chosen[slots])
        wrong = slots[~legal]
        if wrong.size and not self._terminates:
            reason = explain_illegal(self.batch.states[wrong[0]], int(given[wrong[0]]))
            raise IllegalActionError(f"environment {wrong[0]}: {reason}")
        self._rewards = np.zeros(len(self), np.float64)
        self._terminated = np.zeros(len(self), np.bool_)
        self._finals = []
        played = slots[legal]
        rewards = np.empty((len(played), self.rules.players), np.float32)
        over = np.empty(len(played), np.bool_)
        batch = self.batch
        step_games(
            *(batch.spec, batch.states, played, chosen[played]), *batch.step_settings, rewards, over
        )
        kernels.add_rows(self._earned, played, rewards)
        self._end(played[over])
        notice = self._forfeit(wrong, given) if wrong.size else ""
        if ended.size:
            self.start(ended)
        self.settle()
        kernels.take_earned(self._earned, slots, self.seats, self._terminated, self._rewards)
        if notice:
            # Last, as a warning may be an error. Level 3 is whoever called the environment's step.
            logger.warn("%s", notice, stacklevel=3)
        return Outcome(self._rewards, self._terminated, self._finals)

    def _as_actions(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        if actions.dtype.kind not in "iu":
            raise TypeError(
                f"actions are of type {actions.dtype}; allowed: whole numbers, 0 to "
                f"{NUM_ACTIONS - 1}, of any integer type"
            )
        if actions.shape != self._all.shape:
            raise ValueError(
                f"actions are of shape {actions.shape}; allowed: {self._all.shape}, one for each "
                f"environment"
            )
        # What is too large for the type becomes negative, and is illegal all the same.
        return actions.astype(np.int64, copy=False)

    def _legal(self, slots: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which actions are legal, one for each of some games."""
        if first_illegal(self.batch.states, slots, chosen) < 0:
            return np.ones(len(slots), np.bool_)
        inside = (chosen >= 0) & (chosen < NUM_ACTIONS)
        bits = self.batch.states["legal"][slots] >> np.where(inside, chosen, 0)
        legal: NDArray[np.bool_] = inside & (bits & 1 == 1)
        return legal

    def _forfeit(self, slots: NDArray[np.int64], actions: NDArray[Any]) -> str:
        """Ends games by an illegal action, for which the learner pays; says so in words."""
        first = int(slots[0])
        reason = explain_illegal(self.batch.states[first], int(actions[first]))
        who = f"environment {first}: player_{self.seats[first]}"
        self._earned[slots, self.seats[slots]] -= self._penalty
        self._end(slots)
        more = f" (and so in {len(slots) - 1} more)" if len(slots) > 1 else ""
        return f"{who}: {reason}; this ended the game and cost {self._penalty:g}{more}"

    def _end(self, slots: NDArray[np.int64]) -> None:
        """Settles games that have ended."""
        if slots.size == 0:
            return
        self.over[slots] = True
        self._terminated[slots] = True
        self._rewards[slots] = self._earned[slots, self.seats[slots]]
        self._others.chairs[slots] = LEARNER
        if self._mode is AutoresetMode.SAME_STEP:
            self._finals.append((slots, self.observe(slots)[0]))
            self.start(slots)
