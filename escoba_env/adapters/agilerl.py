"""AgileRL: observations without the mask, and the masks in the infos, where its agents read them.

The environments themselves need no AgileRL; ``vector_env`` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray
from pettingzoo import ParallelEnv

from escoba_env.adapters import require
from escoba_env.checks import flag, whole
from escoba_env.envs import parallel
from escoba_env.envs.opponents import Opponent
from escoba_env.envs.table import Observation, box_of
from escoba_env.envs.vector import EscobaVectorEnv
from escoba_env.rules import Rules

MAX_ENVS = 1024
"""Processes of ``vector_env``."""

Observations = dict[str, NDArray[np.float32]]
Infos = dict[str, dict[str, Any]]


# Any: Gymnasium's types do not say what a space holds.
class parallel_env(ParallelEnv[str, Any, Any]):  # noqa: N801 - PettingZoo's name for it
    """The parallel environment for AgileRL's multi-agent algorithms.

    Every seat observes and acts at each step; the action of the seat to move counts, the others'
    are ignored. Observations are the encoding alone, and ``infos[agent]["action_mask"]`` is the
    mask, int8 (43,): the legal actions of the seat to move, and ones for the others, for whom
    nothing they choose counts, and after the end. Everything else is that of ``escoba_env``'s own
    ``parallel_env``, which is at hand as ``game``.

    ``MADDPG`` and ``MATD3`` of AgileRL 2.58 read such masks, of one game or of many. Its ``IPPO``
    reads lists, of one game, and applies them where it acts but not where it learns; and its
    ``PzDummyVecEnv`` hands on an old mask where it starts the next game by itself. (``PPO`` reads
    arrays and applies them in both: see ``masked_vector_env``.)

    Args:
        mask_lists: Whether masks are lists of 43 whole numbers in place of arrays.
        rules: As for ``escoba_v0.raw_env``.
        players: As for ``escoba_v0.raw_env``.
        partnership: As for ``escoba_v0.raw_env``.
        episode: As for ``escoba_v0.raw_env``.
        reward: As for ``escoba_v0.raw_env``.
        encoding: As for ``escoba_v0.raw_env``.
        memory: As for ``escoba_v0.raw_env``.
        reward_timing: As for ``escoba_v0.raw_env``.
        illegal: As for ``escoba_v0.raw_env``.
        render_mode: As for ``escoba_v0.raw_env``.
        faces: As for ``escoba_v0.raw_env``.
        **rule_fields: As for ``escoba_v0.raw_env``.

    Raises:
        ValueError: If an argument is not possible; the message names it and what is allowed.
    """

    metadata: dict[str, Any] = {**parallel.parallel_env.metadata}  # noqa: RUF012 - as PettingZoo's

    def __init__(
        self,
        mask_lists: bool = False,
        rules: str | Rules | Mapping[str, Any] = "classic",
        players: int | None = None,
        partnership: bool | None = None,
        episode: str = "round",
        reward: str = "margin",
        encoding: str = "compact",
        memory: str = "perfect",
        reward_timing: str = "round_end",
        illegal: str = "terminate",
        render_mode: str | None = None,
        faces: str = "spanish",
        **rule_fields: Any,
    ) -> None:
        self._mask_lists = flag("mask_lists", mask_lists)
        self.game = parallel.parallel_env(
            rules,
            players,
            partnership,
            episode,
            reward,
            encoding,
            memory,
            reward_timing,
            illegal,
            render_mode,
            faces,
            **rule_fields,
        )
        self.render_mode = self.game.render_mode
        self.possible_agents = self.game.possible_agents
        self.agents = []
        self.action_spaces = self.game.action_spaces
        self.observation_spaces = {
            agent: box_of(self.game.aec_env.encoding) for agent in self.possible_agents
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.game!r}>"

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's observation space, a ``Box``, the same object each time.

        Raises:
            ValueError: If there is no such agent.
        """
        # Asked for its error.
        self.game.observation_space(agent)
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's action space; see ``raw_env``."""
        return self.game.action_space(agent)

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        """Starts a new game; returns the observation and the info of every seat.

        Raises:
            ValueError: If the seed or an option is not possible; nothing has changed then.
        """
        seen, _ = self.game.reset(seed, options)
        self.agents = list(self.game.agents)
        return self._apart(seen)

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Takes the action of the seat to move out of ``actions``.

        Returns:
            Observations, rewards, terminations, truncations and infos of every seat.

        Raises:
            ValueError: If the seat to move has no action.
            TypeError: If its action is not a whole number.
            IllegalActionError: If it is illegal and ``illegal="raise"``.
            ResetNeeded: If no game is being played. In all cases nothing has changed.
        """
        seen, rewards, terminations, truncations, _ = self.game.step(actions)
        self.agents = list(self.game.agents)
        observations, infos = self._apart(seen)
        return observations, rewards, terminations, truncations, infos

    def _apart(self, seen: Mapping[str, Observation]) -> tuple[Observations, Infos]:
        """Takes observations and masks apart; a mask without a legal action becomes ones."""
        observations, infos = {}, {}
        for agent, both in seen.items():
            mask = both["action_mask"]
            if not mask.any():
                mask = np.ones_like(mask)
            observations[agent] = both["observation"]
            infos[agent] = {"action_mask": mask.tolist() if self._mask_lists else mask}
        return observations, infos

    def state(self) -> NDArray[np.float32]:
        """Returns the full-information state; see ``raw_env``."""
        return self.game.state()

    def render(self) -> Any:
        """Draws the whole game; see ``raw_env``."""
        return self.game.render()

    def close(self) -> None:
        """Does nothing: there is no window."""


def vector_env(
    num_envs: int,
    mask_lists: bool = False,
    rules: str | Rules | Mapping[str, Any] = "classic",
    players: int | None = None,
    partnership: bool | None = None,
    episode: str = "round",
    reward: str = "margin",
    encoding: str = "compact",
    memory: str = "perfect",
    reward_timing: str = "round_end",
    illegal: str = "terminate",
    render_mode: str | None = None,
    faces: str = "spanish",
    **rule_fields: Any,
) -> Any:
    """Makes AgileRL's ``AsyncPettingZooVecEnv`` of ``parallel_env``, each in a process of its own.

    Args:
        num_envs: Number of games.
        mask_lists: As for ``parallel_env``.
        rules: As for ``escoba_v0.raw_env``.
        players: As for ``escoba_v0.raw_env``.
        partnership: As for ``escoba_v0.raw_env``.
        episode: As for ``escoba_v0.raw_env``.
        reward: As for ``escoba_v0.raw_env``.
        encoding: As for ``escoba_v0.raw_env``.
        memory: As for ``escoba_v0.raw_env``.
        reward_timing: As for ``escoba_v0.raw_env``.
        illegal: As for ``escoba_v0.raw_env``.
        render_mode: As for ``escoba_v0.raw_env``.
        faces: As for ``escoba_v0.raw_env``.
        **rule_fields: As for ``escoba_v0.raw_env``.

    Raises:
        ValueError: If an argument is not possible.
        ModuleNotFoundError: If AgileRL is not installed.
        ImportError: If another version is installed.
    """
    num_envs = whole("num_envs", num_envs, 1, MAX_ENVS)

    def make() -> parallel_env:
        return parallel_env(
            mask_lists,
            rules,
            players,
            partnership,
            episode,
            reward,
            encoding,
            memory,
            reward_timing,
            illegal,
            render_mode,
            faces,
            **rule_fields,
        )

    # What is not possible is to be said here, not in a process.
    make()
    vector = require("agilerl.vector.pz_async_vec_env", "agilerl", at_least="2.58")
    return vector.AsyncPettingZooVecEnv([make] * num_envs)


class masked_vector_env(VectorEnv[Any, Any, Any]):  # noqa: N801 - beside parallel_env
    """One learner against policies in many games, for AgileRL's ``PPO`` and ``DQN``.

    Games, opponents, rewards and ends are those of ``EscobaVectorEnv`` with ``SAME_STEP``: all
    games in one batch. Observations are the encoding alone, (num_envs, *encoding.shape);
    ``info["action_mask"]`` is the mask, int8 (num_envs, 43), never all zeros.

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

    Attributes:
        games: The environment that plays.

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
        super().__init__()
        if "autoreset_mode" in rule_fields:
            raise ValueError("autoreset_mode is 'SameStep' here; allowed: leave it out")
        self.games = EscobaVectorEnv(
            num_envs,
            opponents,
            seat,
            rules,
            players,
            partnership,
            episode,
            reward,
            encoding,
            memory,
            reward_timing,
            illegal,
            dtype,
            AutoresetMode.SAME_STEP,
            **rule_fields,
        )
        self.num_envs = self.games.num_envs
        self.metadata = self.games.metadata
        self.single_observation_space = box_of(self.games.encoding)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.single_action_space = self.games.single_action_space
        self.action_space = self.games.action_space

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.games!r}>"

    def reset(
        self, *, seed: Any = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Starts new games.

        Args:
            seed: As for ``EscobaVectorEnv``.
            options: As for ``EscobaVectorEnv``.

        Returns:
            Observations (num_envs, *encoding.shape), and the masks in ``info["action_mask"]``.

        Raises:
            ValueError: If a seed or an option is not possible; nothing has changed then.
        """
        seen, _ = self.games.reset(seed=seed, options=options)
        return seen["observation"], {"action_mask": seen["action_mask"]}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Takes an action for each learner; see ``EscobaVectorEnv``.

        ``info["final_obs"]`` holds encodings alone, ``None`` where no game has ended.
        """
        seen, rewards, terminations, truncations, info = self.games.step(actions)
        if "final_obs" in info:
            for slot in np.flatnonzero(info["_final_obs"]):
                info["final_obs"][slot] = info["final_obs"][slot]["observation"]
        info["action_mask"] = seen["action_mask"]
        return seen["observation"], rewards, terminations, truncations, info
