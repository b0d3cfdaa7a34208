"""RLlib, new API stack: the game as a ``MultiAgentEnv``, and this project's network as a module.

Needs Ray's RLlib and, for the module, torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from escoba_env.adapters import require
from escoba_env.batch import MAX_SEED, IllegalActionError
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import flag, quoted, real, whole
from escoba_env.engine.outlook import NUM_FACTS
from escoba_env.envs.aec import raw_env
from escoba_env.envs.opponents import load_opponents
from escoba_env.envs.table import Observation, box_of, reset_needed
from escoba_env.policies import Policy

try:
    require("ray.rllib", "rllib", at_least="2.60")
    import torch
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] == "ray":
        raise
    raise ModuleNotFoundError(
        f"Ray's RLlib needs {error.name}, which is not installed: pip install 'escoba-env[rllib]'",
        name=error.name,
    ) from None

# After the check, so that what is missing is named.
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from escoba_env.policies.checkpoint import NetworkCard
from escoba_env.policies.network import PolicyNetwork

LEARNER = "learner"
"""Module of the agents ``player_0``, ``player_1`` ..."""
PAST = "past"
"""Among ``opponents``, seats that are agents of their own; module of the agents ``past_0`` ..."""

RUNNER_SEEDS = 2**32
"""How far the seeds of env runners are apart."""

StepResult = tuple[
    dict[str, Observation],
    dict[str, float],
    dict[str, bool],
    dict[str, bool],
    dict[str, dict[str, Any]],
]


class EscobaMultiAgentEnv(MultiAgentEnv):
    """Escoba as RLlib's new API stack plays it: only the agent to move observes and acts.

    Agents, actions, rewards, ends and illegal actions are those of ``escoba_v0.raw_env``, which is
    at hand as ``aec_env``.

    **Observations.** ``Dict(observations, action_mask)``: the encoding, and float32 (43,) of zeros
    and ones, as RLlib's action-masking module reads them. After the end all agents get their last
    observation, with a mask of ones, so that a softmax over it is defined.

    **Rewards** come with an agent's next observation, summed since its last one: RLlib drops what
    an agent is given before it has acted, and between two samples of an episode that is cut. What
    is earned before an agent's first decision counts for that decision. An episode's rewards add up
    to the engine's returns.

    **Opponents.** ``opponents={"greedy": 0.2, "past": 0.3}``: in a fifth of the games one side is
    the agents' and a frozen policy plays the other seats inside the environment; in 0.3 of them the
    other seats are agents ``past_0``, ``past_1`` ... for a policy mapping to give to an earlier
    copy of the learner. In the rest all seats are ``player_0``, ``player_1`` ... ``agents`` are
    those of the present game; which game and side it is depends on the seed of ``reset``.

    Args:
        config: What RLlib passes on from ``env_config``: arguments of ``raw_env``, ``opponents``,
            a mapping of policies (names or folders) to their shares of games, and ``skip_forced``:
            whether decisions with a single legal action are played without asking anybody.

    Raises:
        ValueError: If a value is not possible; the message names it and what is allowed.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        given: object = config
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(f"config {quoted(given)} is not possible; allowed: None or a mapping")
        arguments = dict(config or {})
        # An EnvContext says which env runner this is in, if any.
        self._shift = (getattr(config, "worker_index", None) or 0) * RUNNER_SEEDS
        shares = arguments.pop("opponents", {})
        skip_forced = arguments.pop("skip_forced", False)
        self._skip_forced = flag("skip_forced", skip_forced)
        self._policies = _frozen(shares)
        self._limits = np.cumsum([0.0, *(float(share) for share in shares.values())])[1:]
        self.aec_env = raw_env(**arguments)
        players = self.aec_env.possible_agents
        self._past = [f"{PAST}_{seat}" for seat in range(len(players))]
        self.possible_agents = [*players, *(self._past if PAST in shares else [])]
        self.agents = list(players)
        self.observation_spaces = {agent: self._space() for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(NUM_ACTIONS) for agent in self.possible_agents}
        self.render_mode = self.aec_env.render_mode
        super().__init__()
        self._seating: list[str | Policy] = list(players)
        self._earned: dict[str, float] = {}
        self._seen: set[str] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.aec_env!r}>"

    __str__ = __repr__

    def _space(self) -> spaces.Dict:
        return spaces.Dict(
            {
                "observations": box_of(self.aec_env.encoding),
                "action_mask": spaces.Box(0, 1, (NUM_ACTIONS,), np.float32),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Starts a new game; see ``raw_env``.

        In RLlib's env runner number ``w`` a seed means ``seed + w * RUNNER_SEEDS``: RLlib gives
        runners seeds that overlap, and they would be dealt the same games.

        Returns:
            The observation and the (empty) info of the agent that is to decide first.

        Raises:
            ValueError: If the seed or an option is not possible; nothing has changed then.
        """
        if seed is not None:
            # Gymnasium's own seeding takes an ``int`` alone.
            seed = whole("seed", seed, 0, MAX_SEED - self._shift) + self._shift
        self.aec_env.reset(seed, options)
        super().reset(seed=seed)
        self._seating = self._seats()
        self.agents = [who for who in self._seating if isinstance(who, str)]
        self._earned = dict.fromkeys(self.agents, 0.0)
        self._play_on()
        observations = self._observe()
        self._seen = set(observations)
        return observations, {agent: {} for agent in observations}

    def step(self, action_dict: Mapping[str, int]) -> StepResult:
        """Takes the action of the agent that was given an observation.

        Returns:
            Observations, rewards, terminations, truncations and (empty) infos of the agent that is
            to decide next, or of all agents at the end; ``__all__`` says whether it is the end.

        Raises:
            ValueError: If the action is not of that agent alone.
            TypeError: If it is not a whole number.
            IllegalActionError: If it is illegal and ``illegal="raise"``.
            ResetNeeded: If no game is being played. In all cases nothing has changed.
        """
        if self._is_over():
            raise reset_needed("step()")
        mover = self._mover
        assert isinstance(mover, str)
        given: object = action_dict
        if not isinstance(given, Mapping) or set(given) != {mover}:
            raise ValueError(
                f"actions {quoted(action_dict)}; allowed: an action of {quoted(mover)}, who is to "
                f"decide, and of nobody else"
            )
        self._take(action_dict[mover])
        self._play_on()
        over = self._is_over()
        observations = self._observe()
        # To RLlib an agent begins with its first observation, and is paid from then on.
        rewards = {
            agent: self._earned.pop(agent) for agent in observations if over or agent in self._seen
        }
        self._earned |= dict.fromkeys(rewards, 0.0)
        self._seen |= set(observations)
        return (
            observations,
            rewards,
            {**dict.fromkeys(observations, over), "__all__": over},
            {**dict.fromkeys(observations, False), "__all__": False},
            {agent: {} for agent in observations},
        )

    def render(self) -> Any:
        """Draws the whole game; see ``raw_env``."""
        return self.aec_env.render()

    def _is_over(self) -> bool:
        env = self.aec_env
        return not env.agents or env.terminations[env.agent_selection]

    @property
    def _mover(self) -> str | Policy:
        env = self.aec_env
        return self._seating[env.possible_agents.index(env.agent_selection)]

    def _seats(self) -> list[str | Policy]:
        """Draws who plays each seat of a game: an agent or a frozen policy."""
        players = self.aec_env.possible_agents
        kind = int(np.searchsorted(self._limits, self.np_random.random(), "right"))
        if kind == len(self._limits):
            return list(players)
        policy = self._policies[kind]
        rules = self.aec_env.rules
        side = self.np_random.integers(rules.num_sides)
        others = self._past if policy is None else [policy] * len(players)
        return [
            name if rules.side_of(seat) == side else others[seat]
            for seat, name in enumerate(players)
        ]

    def _play_on(self) -> None:
        """Plays up to the next decision of an agent, or to the end."""
        env = self.aec_env
        while not self._is_over():
            mover = self._mover
            legal = int(env.game.record["legal"])
            if self._skip_forced and legal & (legal - 1) == 0:
                self._take(legal.bit_length() - 1)
            elif isinstance(mover, str):
                return
            else:
                action = int(mover.act(env.game.view(env.game.turn))[0])
                if not 0 <= action < NUM_ACTIONS or not legal >> action & 1:
                    raise IllegalActionError(
                        f"opponent {quoted(mover.name)} as {env.agent_selection}: action {action} "
                        f"is illegal; allowed: {env.game.legal_actions()}"
                    )
                self._take(action)

    def _take(self, action: Any) -> None:
        self.aec_env.step(action)
        for who, reward in zip(self._seating, self.aec_env.rewards.values(), strict=True):
            if isinstance(who, str):
                self._earned[who] += reward

    def _observe(self) -> dict[str, Observation]:
        """What the agent to decide sees, or every agent at the end."""
        env = self.aec_env
        over = self._is_over()
        observations = {}
        for who, name in zip(self._seating, env.possible_agents, strict=True):
            if isinstance(who, str) and (over or name == env.agent_selection):
                seen = env.observe(name)
                mask = seen["action_mask"].astype(np.float32)
                observations[who] = {
                    "observations": seen["observation"],
                    "action_mask": np.ones_like(mask) if over else mask,
                }
        return observations


def module_of(agent_id: str, *_: Any, **__: Any) -> str:
    """Says which module an agent plays by: a ``policy_mapping_fn`` for RLlib."""
    return PAST if agent_id.startswith(PAST) else LEARNER


def _frozen(shares: Any) -> list[Policy | None]:
    """Loads the policies among opponents; ``None`` for ``past``."""
    allowed = "a mapping of policies to shares of games, above 0, that add up to 1 at most"
    if not isinstance(shares, Mapping):
        raise ValueError(f"opponents={quoted(shares)}; allowed: {allowed}")
    # The least is a number above 0.
    given = [real("share of opponents", x, 1e-300, 1, allowed) for x in shares.values()]
    if sum(given) > 1 + 1e-9:
        raise ValueError(f"opponents={quoted(dict(shares))}; allowed: {allowed}")
    return [None if name == PAST else load_opponents([name], 2)[0] for name in shares]


class EscobaTorchRLModule(TorchRLModule, ValueFunctionAPI):
    """``PolicyNetwork`` as an RLlib module: masks inside, trunk shared by policy and value.

    For the encodings ``tactical`` and ``universal_tactical`` of ``EscobaMultiAgentEnv``. What PPO
    trains in it is ``network``, which is saved as a checkpoint of this project as it is.
    ``model_config`` may have ``hidden``, ``action_hidden``, ``action_layers`` and
    ``state_to_head``, as for ``PolicyNetwork``.

    Raises:
        ValueError: If the observations have no facts at their end.
    """

    network: PolicyNetwork

    def setup(self) -> None:
        """Makes the network; RLlib calls it."""
        size = self.observation_space["observations"].shape[0]
        state_size = size - NUM_ACTIONS * NUM_FACTS
        if state_size < 1:
            raise ValueError(
                f"observations of {size} columns have no facts of actions; allowed: encoding "
                f"'tactical' or 'universal_tactical'"
            )
        # RLlib adds settings of its own networks to what it was given.
        given = dict(self.model_config or {})
        shape = NetworkCard.model_fields.keys() - {"kind", "state_size"}
        self.network = PolicyNetwork(
            state_size, **{name: given[name] for name in shape if name in given}
        )

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        logits, values = self.network(*_inputs(batch))
        # What PPO hands back to compute_values, so that the trunk is passed once.
        return {Columns.ACTION_DIST_INPUTS: logits, Columns.EMBEDDINGS: values}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        """Estimates the return; see RLlib's ``ValueFunctionAPI``."""
        values: torch.Tensor = embeddings
        return self.network.value(_inputs(batch)[0]) if embeddings is None else values


def _inputs(batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    seen = batch[Columns.OBS]
    return seen["observations"], seen["action_mask"] > 0
