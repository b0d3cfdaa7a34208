"""The PettingZoo parallel form of the turn-based game: every seat acts, one action counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from escoba_env.checks import quoted
from escoba_env.envs.aec import raw_env
from escoba_env.envs.table import Observation, reset_needed
from escoba_env.rules import Rules


# Any: Gymnasium's types do not say what a Dict space holds.
class parallel_env(ParallelEnv[str, Any, Any]):  # noqa: N801 - PettingZoo's name for it
    """The AEC environment for tools that need PettingZoo's parallel API.

    At each step only the action of the seat to move counts; it is the one whose ``action_mask`` is
    not all zeros. The actions of the others are ignored. Rewards, ends, penalties and everything
    else are those of ``raw_env``, which is at hand as ``aec_env``. When the game ends, all seats
    leave at once.

    (PettingZoo's ``turn_based_aec_to_parallel`` does the same, but writes into the ``infos`` it
    has handed out before, and returns four values instead of five after the end.)

    Args:
        rules: As for ``raw_env``.
        players: As for ``raw_env``.
        partnership: As for ``raw_env``.
        episode: As for ``raw_env``.
        reward: As for ``raw_env``.
        encoding: As for ``raw_env``.
        memory: As for ``raw_env``.
        reward_timing: As for ``raw_env``.
        illegal: As for ``raw_env``.
        render_mode: As for ``raw_env``.
        faces: As for ``raw_env``.
        **rule_fields: As for ``raw_env``.

    Raises:
        ValueError: If an argument is not possible; the message names it and what is allowed.
    """

    metadata: dict[str, Any] = {**raw_env.metadata}  # noqa: RUF012 - PettingZoo declares it so

    def __init__(
        self,
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
        self.aec_env = raw_env(
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
        self.render_mode = self.aec_env.render_mode
        self.possible_agents = list(self.aec_env.possible_agents)
        self.agents = []
        self.observation_spaces = self.aec_env.observation_spaces
        self.action_spaces = self.aec_env.action_spaces
        self.state_space = self.aec_env.state_space

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.aec_env!r}>"

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's observation space; see ``raw_env``."""
        return self.aec_env.observation_space(agent)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's action space; see ``raw_env``."""
        return self.aec_env.action_space(agent)

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Starts a new game; returns the observation and the (empty) info of every seat.

        Raises:
            ValueError: If the seed or an option is not possible; nothing has changed then.
        """
        self.aec_env.reset(seed, options)
        self.agents = list(self.possible_agents)
        return self._observe(), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Takes the action of the seat to move out of ``actions``.

        Returns:
            Observations, rewards, terminations, truncations and infos of every seat.

        Raises:
            ValueError: If the seat to move has no action.
            TypeError: If its action is not a whole number.
            IllegalActionError: If it is illegal and ``illegal="raise"``.
            ResetNeeded: If no game is being played. In all cases nothing has changed.
        """
        env = self.aec_env
        if not self.agents:
            raise reset_needed("step()")
        given: object = actions
        if not isinstance(given, Mapping) or env.agent_selection not in actions:
            raise ValueError(
                f"actions {quoted(actions)} lack {quoted(env.agent_selection)}, which is to move; "
                f"allowed: a mapping of agents to actions with at least that one"
            )
        env.step(actions[env.agent_selection])
        observations = self._observe()
        rewards, terminations = dict(env.rewards), dict(env.terminations)
        truncations = dict(env.truncations)
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        if env.terminations[env.agent_selection]:
            while env.agents:
                env.step(None)
            self.agents = []
        return observations, rewards, terminations, truncations, infos

    def _observe(self) -> dict[str, Observation]:
        return {agent: self.aec_env.observe(agent) for agent in self.agents}

    def state(self) -> NDArray[np.float32]:
        """Returns the full-information state; see ``raw_env``."""
        return self.aec_env.state()

    def render(self) -> str | NDArray[np.uint8] | None:
        """Draws the whole game; see ``raw_env``."""
        return self.aec_env.render()

    def close(self) -> None:
        """Does nothing: there is no window."""
