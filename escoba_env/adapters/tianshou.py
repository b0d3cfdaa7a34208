"""Tianshou: its vector environment on the batch engine, for one learner against named opponents.

``PettingZooEnv(escoba_v0.env())`` of Tianshou works too, and gives every seat's reward at every
step. But ``MultiAgentOnPolicyAlgorithm`` and its off-policy sister look, for each seat, at the rows
of its own moves alone: what others' moves earned it, such as a round that another seat ends, is
lost, and the ``obs_next`` of its row is another seat's. Train by ``EscobaVectorEnv``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from escoba_env.adapters import require
from escoba_env.batch import MAX_SEED
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import as_array, integer, quoted, whole, wholes
from escoba_env.encoding import Encoding
from escoba_env.envs.opponents import Opponent
from escoba_env.envs.table import box_of
from escoba_env.envs.tables import NEXT_GAME, Tables
from escoba_env.policies import Policy
from escoba_env.rules import Rules

# Before what is imported from it, so that an error says what to install.
require("tianshou", "tianshou", at_least="2.0", below="3")

from tianshou.data import Batch  # noqa: E402
from tianshou.env import BaseVectorEnv  # noqa: E402

Indices = int | Sequence[int] | NDArray[np.int64] | None


class EscobaVectorEnv(BaseVectorEnv):
    """Many games for one learner in each, against policies, as Tianshou's collectors want them.

    Observations are a ``Batch`` of ``obs``, the encoding (n, *encoding.shape), and ``mask``, bool
    (n, 43): the names by which Tianshou's ``DQN`` and its random policy find the legal actions, and
    by which a network for ``PPO`` can. Masks are ones where a game is over.

    Games, rewards and opponents are those of Gymnasium's ``EscobaVectorEnv``, played in one batch.
    Nothing is truncated. Games are reset by the caller, as collectors do; ``id`` says which games a
    call is about.

    **Seeds**: :meth:`seed`, or ``reset(seed=s)``: game ``i`` gets ``s + i``.

    Args:
        num_envs: Number of games.
        opponents: As for ``EscobaEnv``, like the following ones.
        seat: Seat of the learner, or ``"random"``.
        rules: As there.
        players: As there.
        partnership: As there.
        episode: As there.
        reward: As there.
        encoding: As there.
        memory: As there.
        reward_timing: As there.
        illegal: As there.
        dtype: ``"float32"`` or ``"uint8"``: the type of observations.
        **rule_fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If an argument is not possible; the message names it and what is allowed.
    """

    def __init__(
        self,
        num_envs: int = 1,
        opponents: Opponent | Sequence[Opponent] = "greedy",
        seat: int | str = 0,
        rules: str | Rules | Mapping[str, Any] = "classic",
        players: int | None = None,
        partnership: bool | None = None,
        episode: str = "round",
        reward: str = "margin",
        encoding: str = "compact",
        memory: str = "perfect",
        reward_timing: str = "round_end",
        illegal: str = "terminate",
        dtype: str = "float32",
        **rule_fields: Any,
    ) -> None:
        # Not the base class's: that makes a worker for each game.
        self._tables = Tables(
            num_envs,
            opponents,
            seat,
            rules,
            players=players,
            partnership=partnership,
            episode=episode,
            reward=reward,
            encoding=encoding,
            memory=memory,
            dtype=dtype,
            reward_timing=reward_timing,
            illegal=illegal,
            autoreset_mode=AutoresetMode.DISABLED,
            fields=rule_fields,
        )
        self.env_num = len(self._tables)
        self.is_async = False
        self.is_closed = False
        self._seeds = np.full(self.env_num, NEXT_GAME)
        mask = spaces.MultiBinary(NUM_ACTIONS)
        self._attributes = {
            "action_space": spaces.Discrete(NUM_ACTIONS),
            "observation_space": spaces.Dict({"obs": box_of(self.encoding), "mask": mask}),
            "metadata": {"render_modes": []},
            "reward_range": (-np.inf, np.inf),
            "spec": None,
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._tables.summary()}>"

    @property
    def rules(self) -> Rules:
        """Rules of the tables."""
        return self._tables.rules

    @property
    def encoding(self) -> Encoding:
        """Layout of the observations."""
        return self._tables.encoding

    @property
    def opponents(self) -> tuple[Policy, ...]:
        """The policy that plays each other seat, in the order of the argument."""
        return self._tables.opponents

    @property
    def seats(self) -> NDArray[np.int64]:
        """Seat of the learner in each game, int64 (num_envs,)."""
        return self._tables.seats.copy()

    def get_env_attr(self, key: str, id: Indices = None) -> list[Any]:  # noqa: A002 - Tianshou's
        """Returns ``action_space``, ``observation_space`` and the like, once for each game.

        Raises:
            AttributeError: If games have no such attribute.
        """
        try:
            value = self._attributes[key]
        except KeyError:
            allowed = ", ".join(self._attributes)
            raise AttributeError(
                f"attribute {quoted(key)} is unknown; allowed: {allowed}"
            ) from None
        return [value] * len(self._games(id))

    def set_env_attr(self, key: str, value: Any, id: Indices = None) -> None:  # noqa: A002, ARG002
        """Refuses: games of one batch have no attributes of their own.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(
            f"attribute {quoted(key)} cannot be set; allowed: arguments of the class"
        )

    def seed(self, seed: int | Sequence[int] | None = None) -> list[int | None]:
        """Sets the seeds of the next game of each slot.

        Args:
            seed: A seed ``s`` for ``s, s + 1, ...``, or one for each game; ``None``: as they are.

        Returns:
            The seeds.

        Raises:
            ValueError: If a seed is not possible.
        """
        if seed is None:
            return [None] * self.env_num
        given: Any = seed
        if isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim):
            self._seeds = wholes("seed", given, (self.env_num,), 0, MAX_SEED).copy()
        else:
            first = whole("seed", seed, 0, MAX_SEED - self.env_num + 1)
            self._seeds = first + np.arange(self.env_num)
        return list(map(int, self._seeds))

    def reset(
        self,
        env_id: Indices = None,
        *,
        seed: int | Sequence[int] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Batch, NDArray[np.object_]]:
        """Starts new games and lets the others play until the learners are to move.

        Args:
            env_id: The games to start; default: all.
            seed: As for :meth:`seed`.
            options: As for ``EscobaEnv``, the same for all games.

        Returns:
            Observations of these games, and an empty info for each.

        Raises:
            ValueError: If an argument is not possible; nothing has changed then.
        """
        games = self._games(env_id)
        before = self._seeds
        self.seed(seed)
        try:
            choices = None if options is None else [options] * len(games)
            self._tables.start(games, self._seeds[games], choices)
        except BaseException:
            self._seeds = before
            raise
        self._seeds[games] = NEXT_GAME
        self._tables.settle()
        return self._observe(games), self._infos(games)

    def step(
        self,
        action: ArrayLike,
        id: Indices = None,  # noqa: A002 - Tianshou's name
    ) -> tuple[Batch, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], NDArray[Any]]:
        """Takes an action for the learner of each game, then lets the others play.

        Args:
            action: Action ids (n,), of any integer type.
            id: The games that are stepped, (n,); default: all.

        Returns:
            Observations; rewards, float64 (n,); whether each episode has ended, bool (n,); whether
            it was truncated, never; and an info for each, with ``env_id``.

        Raises:
            TypeError: If the actions are not integers.
            ValueError: If they have another shape, or there are no such games.
            IllegalActionError: If one is illegal and ``illegal="raise"``.
            ResetNeeded: If a game is over, or none has been started. In all these cases nothing
                has changed.
        """
        games = self._games(id)
        given = as_array(action)
        if given.shape != games.shape:
            raise ValueError(f"actions are of shape {given.shape}; allowed: {games.shape}")
        actions = np.zeros(self.env_num, given.dtype)
        actions[games] = given
        stepped = np.zeros(self.env_num, np.bool_)
        stepped[games] = True
        outcome = self._tables.step(actions, stepped)
        return (
            self._observe(games),
            outcome.rewards[games],
            outcome.terminated[games],
            np.zeros(len(games), np.bool_),
            self._infos(games),
        )

    def render(self, **kwargs: Any) -> list[Any]:
        """Refuses: games of one batch are not drawn.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "games in one batch are not drawn; allowed: DummyVectorEnv of EscobaEnv(render_mode=)"
        )

    def close(self) -> None:
        """Says that the environment is done with; there is nothing to release."""
        self.is_closed = True

    def _games(self, chosen: Indices) -> NDArray[np.int64]:
        self._assert_is_not_closed()
        if chosen is None:
            return np.arange(self.env_num)
        one = integer(chosen)
        given = chosen if one is None else [one]
        games = wholes("id", given, None, 0, self.env_num - 1)
        if len(np.unique(games)) != len(games):
            raise ValueError(f"id {quoted(chosen)}; allowed: no game twice")
        return games

    def _observe(self, games: NDArray[np.int64]) -> Batch:
        observations, masks = self._tables.observe(games)
        masks[self._tables.over[games]] = 1
        return Batch(obs=observations, mask=masks.view(np.bool_))

    def _infos(self, games: NDArray[np.int64]) -> NDArray[np.object_]:
        return np.array([{"env_id": game} for game in games])
