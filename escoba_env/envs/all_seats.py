"""``AllSeatsEnv``: many games in which one learner plays every seat, for self-play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from escoba_env.batch import Batch, check_games, observation_buffers
from escoba_env.encoding import Encoding
from escoba_env.envs.table import reset_needed, table_rules
from escoba_env.game import fresh_seed
from escoba_env.rules import Rules


class Decisions(NamedTuple):
    """The next decision of every game, and what came of the one before it.

    Attributes:
        seats: int64 (num_envs,): who moves.
        observations: Array (num_envs, *encoding.shape): what that seat sees.
        masks: int8 (num_envs, 43): what it may do; never all zeros.
        rewards: float32 (num_envs, players): what every seat earned by the step; of the game that
            was played then, also where it is over.
        over: bool (num_envs,): whether that game is over, and the decision one of the next game.
        episodes: int64 (num_envs,): which game of the seed the decision belongs to. No two games
            of a seed have the same number; ``Batch(...).reset(seed, game_indices=episodes)``
            deals them again.
    """

    seats: NDArray[np.int64]
    observations: NDArray[Any]
    masks: NDArray[np.int8]
    rewards: NDArray[np.float32]
    over: NDArray[np.bool_]
    episodes: NDArray[np.int64]


class AllSeatsEnv:
    """Many games, every seat of which is the learner's.

    A step takes one action in each game and goes on to the next decision, whoever's it is. A game
    that ends is followed by the next one in the same step.

    **Credit.** The seat that moves next need not be another one, and a seat is paid for what others
    do. What follows from a decision of a seat is its *own* next decision: add ``rewards[:, seat]``
    up from one to the other, or to the end of the game. Nothing is ever truncated, so the value
    after the end is 0, and its observation is not needed.

    **Illegal actions** raise, and change nothing in any game: whoever plays all seats has the
    masks.

    Args:
        num_envs: Number of games.
        rules: As for ``EscobaEnv``.
        players: As for ``EscobaEnv``.
        partnership: As for ``EscobaEnv``.
        episode: As for ``EscobaEnv``.
        reward: As for ``EscobaEnv``.
        encoding: As for ``EscobaEnv``.
        memory: As for ``EscobaEnv``.
        reward_timing: As for ``EscobaEnv``.
        dtype: Type of observations; see ``Batch``.
        skip_forced: Whether decisions with a single legal action are played right away; see
            ``Batch``.
        threads: Threads that share the games; see ``Batch``.
        **rule_fields: As for ``EscobaEnv``.

    Attributes:
        batch: The games. Look at them, take views and clones of them, never play on them.
        num_envs: Number of games.

    Raises:
        ValueError: If an argument is not possible; the message names it and what is allowed.
    """

    def __init__(
        self,
        num_envs: int,
        rules: str | Rules | Mapping[str, Any] = "classic",
        players: int | None = None,
        partnership: bool | None = None,
        episode: str = "round",
        reward: str = "margin",
        encoding: str = "compact",
        memory: str = "perfect",
        reward_timing: str = "round_end",
        dtype: str = "float32",
        skip_forced: bool = False,
        threads: int = 1,
        **rule_fields: Any,
    ) -> None:
        self.batch = Batch(
            check_games("num_envs", num_envs),
            table_rules(rules, players, partnership, rule_fields),
            episode=episode,
            reward=reward,
            reward_timing=reward_timing,
            encoding=encoding,
            memory=memory,
            dtype=dtype,
            skip_forced=skip_forced,
            threads=threads,
        )
        self.num_envs = len(self.batch)
        self._started = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.batch!r}>"

    @property
    def rules(self) -> Rules:
        """Rules of the tables."""
        return self.batch.rules

    @property
    def encoding(self) -> Encoding:
        """Layout of the observations."""
        return self.batch.encoding

    def reset(
        self,
        seed: int | None = None,
        *,
        out: NDArray[Any] | None = None,
        masks: NDArray[np.int8] | None = None,
    ) -> Decisions:
        """Starts new games everywhere.

        Args:
            seed: Seed of the games; default: the next games of the present one, which is the
                operating system's choice at first.
            out: Array to write the observations into; default: a new one.
            masks: Array to write the masks into; default: a new one.

        Returns:
            The first decisions; nothing has been earned and no game is over.

        Raises:
            ValueError: If the seed or an array is not possible; no game has changed then.
        """
        out, masks, _ = observation_buffers(self.encoding, self.num_envs, out, masks)
        if seed is None and self._started:
            self.batch.restart(np.arange(self.num_envs))
        else:
            self.batch.reset(fresh_seed() if seed is None else seed)
        self._started = True
        rewards = np.zeros((self.num_envs, self.rules.players), np.float32)
        return self._decisions(rewards, np.zeros(self.num_envs, np.bool_), out, masks)

    def step(
        self,
        actions: ArrayLike,
        *,
        out: NDArray[Any] | None = None,
        masks: NDArray[np.int8] | None = None,
    ) -> Decisions:
        """Takes one action in every game, and starts the next game where one is over.

        Args:
            actions: Action ids, int (num_envs,).
            out: As for :meth:`reset`.
            masks: As for :meth:`reset`.

        Returns:
            The next decisions.

        Raises:
            IllegalActionError: If an action is illegal.
            ValueError: If an argument has another shape or type.
            ResetNeeded: If no game has been started. In all cases no game has changed.
        """
        if not self._started:
            raise reset_needed("step()")
        out, masks, _ = observation_buffers(self.encoding, self.num_envs, out, masks)
        rewards, over = self.batch.step(actions)
        if over.any():
            self.batch.restart(np.flatnonzero(over))
        return self._decisions(rewards, over, out, masks)

    def _decisions(
        self,
        rewards: NDArray[np.float32],
        over: NDArray[np.bool_],
        out: NDArray[Any],
        masks: NDArray[np.int8],
    ) -> Decisions:
        self.batch.observe(out=out, masks=masks)
        episodes = self.batch.states["game_index"].copy()
        return Decisions(self.batch.turn, out, masks, rewards, over, episodes)
