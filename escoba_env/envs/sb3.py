"""The Stable-Baselines3 ``VecEnv``: many games, one learner in each, on one batch.

The only file of the environments that needs Stable-Baselines3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from escoba_env.adapters import require
from escoba_env.batch import MAX_SEED
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import integer, whole, wholes
from escoba_env.encoding import Encoding
from escoba_env.envs.opponents import Opponent
from escoba_env.envs.table import box_of
from escoba_env.envs.tables import NEXT_GAME, Tables
from escoba_env.policies import Policy
from escoba_env.rules import Rules

# Before what is imported from it, so that an error says what to install.
require("stable_baselines3", "train", at_least="2.6")

from stable_baselines3.common.vec_env import VecEnv  # noqa: E402
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices  # noqa: E402

StepReturn = tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]


class OneOfMany:
    """One game of an ``EscobaVecEnv``, for what Stable-Baselines3 asks of single environments."""

    spec = None
    render_mode = None

    def __init__(self, env: EscobaVecEnv, index: int) -> None:
        self._env = env
        self._index = index

    @property
    def seat(self) -> int:
        """Seat of the learner in this episode."""
        return int(self._env.seats[self._index])

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the learner's legal actions, bool (43,)."""
        mask: NDArray[np.bool_] = self._env.action_masks()[self._index]
        return mask


class EscobaVecEnv(VecEnv):
    """Many games of Escoba for one learner in each, against policies, for Stable-Baselines3.

    Works with the stock ``MaskablePPO`` of sb3-contrib, its callbacks, and the wrappers of
    Stable-Baselines3. Games, seeds, rewards and opponents are those of ``EscobaVectorEnv``; the
    differences are those between the two interfaces:

    * an observation is the encoding alone, and the masks come from :meth:`action_masks`, or by
      ``env_method("action_masks")`` as sb3-contrib asks for them;
    * rewards are float32;
    * an episode that ends is followed by the next one in the same step;
      ``info["terminal_observation"]`` has the last observation of the one that ended, and
      ``info["TimeLimit.truncated"]`` is ``False``: it *is* the end. Other infos are ``{}``.

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
        reward_timing: As for ``EscobaEnv``.
        illegal: As for ``EscobaEnv``.
        dtype: ``"float32"`` or ``"uint8"``: the type of observations; see ``Batch``.
        **rule_fields: As for ``EscobaEnv``.

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
            autoreset_mode=AutoresetMode.SAME_STEP,
            fields=rule_fields,
        )
        self.envs = [OneOfMany(self, index) for index in range(len(self._tables))]
        self._masks = np.ones((len(self.envs), NUM_ACTIONS), np.bool_)
        self._actions: Any = None
        space = spaces.Discrete(NUM_ACTIONS)
        super().__init__(len(self.envs), box_of(self._tables.encoding), space)

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

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the legal actions of every learner, bool (num_envs, 43); ones before reset."""
        return self._masks.copy()

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Sets the seeds of the next :meth:`reset`: game ``i`` gets ``seed + i``.

        Raises:
            ValueError: If the seed is not possible.
        """
        if seed is not None:
            seed = whole("seed", seed, 0, MAX_SEED - self.num_envs + 1)
        return super().seed(seed)

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Sets the options of the next :meth:`reset`.

        Args:
            options: As for ``EscobaEnv``, a mapping for all games or a list with one for each.

        Raises:
            ValueError: If an option is not possible; those that were set before then stay.
        """
        given = options if isinstance(options, list | tuple) else [options] * self.num_envs
        if len(given) != self.num_envs:
            raise ValueError(
                f"options are {len(given)}; allowed: one mapping for each of the {self.num_envs} "
                f"environments, or one for all"
            )
        for one in given if isinstance(options, list | tuple) else given[:1]:
            self._tables.check_options(one)
        super().set_options([dict(one or {}) for one in given])

    def reset(self) -> NDArray[Any]:
        """Starts new games, with the seeds and options that have been set since the last reset.

        Returns:
            Observations (num_envs, *encoding.shape).

        """
        seeds = np.array([NEXT_GAME if seed is None else seed for seed in self._seeds])
        self._tables.start(np.arange(self.num_envs), seeds, self._options)
        self._tables.settle()
        self._reset_seeds()
        self._reset_options()
        return self._observe()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Takes the actions for :meth:`step_wait`."""
        self._actions = actions

    def step_wait(self) -> StepReturn:
        """Takes an action for each learner, then lets the others play.

        Returns:
            Observations; rewards, float32 (num_envs,); whether each episode has ended, bool
            (num_envs,); and an info for each.

        Raises:
            TypeError: If the actions are not integers.
            ValueError: If they have another shape.
            IllegalActionError: If one is illegal and ``illegal="raise"``.
            RuntimeError: If there are no actions by :meth:`step_async`.
            ResetNeeded: If no game has been started. In all these cases nothing has changed.
        """
        actions, self._actions = self._actions, None
        if actions is None:
            raise RuntimeError("step_wait() before step_async(); allowed: after it, or step()")
        outcome = self._tables.step(actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for slots, observations in outcome.finals:
            for slot, observation in zip(slots, observations, strict=True):
                infos[slot] = {"terminal_observation": observation, "TimeLimit.truncated": False}
        return self._observe(), outcome.rewards.astype(np.float32), outcome.terminated, infos

    def _observe(self) -> NDArray[Any]:
        observations, masks = self._tables.observe()
        self._masks = masks.view(np.bool_)
        return observations

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of some games; see ``OneOfMany``."""
        return [getattr(env, attr_name) for env in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of some games, for :meth:`get_attr`; the games do not change."""
        for env in self._chosen(indices):
            setattr(env, attr_name, value)

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Calls a method of some games; see ``OneOfMany``."""
        if method_name == "action_masks" and indices is None:
            return list(self._masks)
        return [
            getattr(env, method_name)(*method_args, **method_kwargs)
            for env in self._chosen(indices)
        ]

    def env_is_wrapped(
        self,
        wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]],
        indices: VecEnvIndices = None,
    ) -> list[bool]:
        """Whether some games are wrapped: none ever is."""
        return [isinstance(env, wrapper_class) for env in self._chosen(indices)]

    def _chosen(self, indices: VecEnvIndices) -> list[OneOfMany]:
        if indices is None:
            return self.envs
        one = integer(indices)
        given: Any = indices if one is None else [one]
        chosen = wholes("indices", given, None, 0, self.num_envs - 1)
        return [self.envs[index] for index in chosen]
