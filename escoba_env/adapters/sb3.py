"""Stable-Baselines3: models in memory as policies, with or without masks of their own."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from escoba_env.adapters import require
from escoba_env.cards import NUM_ACTIONS
from escoba_env.encoding import SPACE_KEY, Encoding
from escoba_env.policies.scoring import ScoringPolicy, as_encoding

# Before what is imported from it, so that an error says what to install.
require("torch", "learned", at_least="2.13")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

_TRIAL_ROWS = 4
_TOLERANCE = 1e-3


class SB3Policy(ScoringPolicy):
    """Plays by a model of Stable-Baselines3 or sb3-contrib, as it is when it plays.

    Actor-critics (``PPO``, ``A2C``, ``MaskablePPO``) and action values (``DQN``) are played, by the
    likeliest or best *legal* action, also where the model itself knows no masks. What a
    ``VecNormalize`` has learned of the observations is part of the model.

    Args:
        model: The model.
        encoding: What it observes, an ``Encoding`` (such as ``env.encoding``) or the name of one of
            ``classic`` with two players; default: that of the environment that it was made with,
            which a model remembers when it is saved and loaded.
        sample: Draw actions from the policy's probabilities (with ``DQN``, by the softmax of the
            values) instead of taking the best.
        name: Its name; default: the name of its algorithm.

    Raises:
        ValueError: If the model is of another kind, or observes something else than the encoding.
    """

    def __init__(
        self,
        model: Any,
        encoding: Encoding | str | None = None,
        *,
        sample: bool = False,
        name: str | None = None,
    ) -> None:
        kind = type(model).__name__
        if encoding is None:
            encoding = _encoding_of(model)
        encoding = as_encoding(encoding, f"model {kind}")
        super().__init__(name or kind, encoding, sample=sample)
        self.model = model
        self.network = ModelNetwork(model, encoding)

    def score(
        self, observations: NDArray[np.float32], masks: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Scores actions by the model; see ``ScoringPolicy.score``."""
        device = self.model.device
        training = self.model.policy.training
        self.model.policy.set_training_mode(False)
        try:
            with torch.no_grad():
                outputs = self.network(
                    torch.from_numpy(observations).to(device), torch.from_numpy(masks).to(device)
                )
        finally:
            self.model.policy.set_training_mode(training)
        arrays = [output.float().cpu().numpy() for output in outputs]
        return arrays[0], arrays[1] if len(arrays) > 1 else None


class ModelNetwork(nn.Module):
    """The network of a model: observation and mask to logits, and values if it has a critic.

    Args:
        model: The model.
        encoding: What it observes.

    Raises:
        ValueError: If the model is of another kind, or observes something else.
    """

    def __init__(self, model: Any, encoding: Encoding) -> None:
        super().__init__()
        kind = type(model).__name__
        policy = model.policy
        actor_critic = all(
            hasattr(policy, part) for part in ("mlp_extractor", "action_net", "value_net")
        )
        # Recurrent policies have these parts too, and a memory, which a policy here has not.
        if hasattr(policy, "lstm_actor") or not (actor_critic or hasattr(policy, "q_net")):
            raise ValueError(
                f"model {kind} is not possible; allowed: PPO, A2C, MaskablePPO, DQN and others "
                f"with one network for the logits or values of all actions and no memory"
            )
        actions = getattr(model, "action_space", None)
        if not isinstance(actions, spaces.Discrete) or (actions.n, actions.start) != (
            NUM_ACTIONS,
            0,
        ):
            raise ValueError(
                f"model {kind} has the action space {actions}; allowed: Discrete({NUM_ACTIONS})"
            )
        space = model.observation_space
        self.takes_mask = isinstance(space, spaces.Dict)
        if self.takes_mask and set(space.spaces) == {"observation", "action_mask"}:
            space = space["observation"]
        if getattr(space, "shape", None) != encoding.shape:
            raise ValueError(
                f"model {kind} observes {type(space).__name__} {getattr(space, 'shape', None)}; "
                f"encoding {encoding.name!r} under its rules has the shape {encoding.shape}"
            )
        self.mean: Tensor
        self.deviation: Tensor
        self.policy = policy
        self.actor_critic = actor_critic
        normalizer = model.get_vec_normalize_env()
        self.normalizes = normalizer is not None and normalizer.norm_obs
        if self.normalizes:
            statistics = normalizer.obs_rms
            if self.takes_mask:
                raise ValueError(
                    f"model {kind}: VecNormalize over a dictionary of observation and mask is not "
                    f"possible; allowed: observations alone, as of EscobaVecEnv"
                )
            deviation = np.sqrt(statistics.var + normalizer.epsilon)
            self.register_buffer("mean", torch.from_numpy(statistics.mean.astype(np.float32)))
            self.register_buffer("deviation", torch.from_numpy(deviation.astype(np.float32)))
            self.clip = float(normalizer.clip_obs)
        if actor_critic:
            self._compare(kind, encoding)

    def forward(self, observation: Tensor, action_mask: Tensor) -> tuple[Tensor, ...]:
        """Scores actions.

        Args:
            observation: float32 (n, *encoding.shape).
            action_mask: bool (n, 43).

        Returns:
            Logits float32 (n, 43), also of illegal actions; values float32 (n,) if it has a critic.
        """
        if self.normalizes:
            scaled = (observation - self.mean) / self.deviation
            observation = scaled.clamp(-self.clip, self.clip)
        seen: Any = observation
        if self.takes_mask:
            seen = {"observation": observation, "action_mask": action_mask.float()}
        if not self.actor_critic:
            return (self.policy.q_net(seen),)
        features = self.policy.extract_features(seen)
        if isinstance(features, tuple):
            actor = self.policy.mlp_extractor.forward_actor(features[0])
            critic = self.policy.mlp_extractor.forward_critic(features[1])
        else:
            actor, critic = self.policy.mlp_extractor(features)
        return self.policy.action_net(actor), self.policy.value_net(critic).squeeze(-1)

    def _compare(self, kind: str, encoding: Encoding) -> None:
        """Sees that the scores are those that the model itself draws actions from.

        Raises:
            ValueError: If they are not, as with a policy class that changes them.
        """
        rows = torch.rand(
            _TRIAL_ROWS, *encoding.shape, dtype=torch.float32, device=self.policy.device
        )
        masks = torch.ones(_TRIAL_ROWS, NUM_ACTIONS, dtype=torch.bool, device=rows.device)
        seen: Any = rows
        if self.takes_mask:
            seen = {"observation": rows, "action_mask": masks.float()}
        normalizes, self.normalizes = self.normalizes, False
        training = self.policy.training
        self.policy.set_training_mode(False)
        try:
            with torch.no_grad():
                own = self.policy.get_distribution(seen).distribution.logits
                found = torch.log_softmax(self(rows, masks)[0], 1)
        finally:
            self.normalizes = normalizes
            self.policy.set_training_mode(training)
        if own.shape != found.shape or not torch.allclose(own, found, atol=_TOLERANCE):
            raise ValueError(
                f"model {kind} has a policy {type(self.policy).__name__} whose distribution is not "
                f"that of its action_net; allowed: policies that change nothing between them"
            )


def _encoding_of(model: Any) -> Encoding | None:
    """Finds the encoding of a model's environment, under whatever wrappers.

    A model that was loaded without one has the space of its observations.
    """
    env: Any = model.get_env() if hasattr(model, "get_env") else None
    if env is None:
        space, last = model.observation_space, getattr(model, "_last_obs", None)
        if isinstance(space, spaces.Dict):
            space = space.spaces.get("observation")
            last = last.get("observation") if isinstance(last, dict) else None
        content = getattr(space, SPACE_KEY, None)
        if content is None:
            return None
        # Wrappers such as VecNormalize keep the space, but not the range of what is in it.
        if last is not None and not ((space.low <= last) & (last <= space.high)).all():
            raise ValueError(
                f"model {type(model).__name__} was trained on observations that VecNormalize or "
                f"another wrapper has changed, which is not in its file; allowed: a model that is "
                f"loaded with its environment, load(path, env=VecNormalize.load(...))"
            )
        return Encoding.from_dict(content)
    while env is not None and hasattr(env, "venv"):
        env = env.venv
    encoding = getattr(env, "encoding", None)
    if encoding is None and getattr(env, "envs", None):
        inner = env.envs[0]
        while isinstance(inner, gymnasium.Wrapper):
            if isinstance(inner, gymnasium.ObservationWrapper):
                raise ValueError(
                    f"model {type(model).__name__} observes through {type(inner).__name__}, which "
                    f"policies do not; allowed: environments whose observations are left as they "
                    f"are, or changed by VecNormalize"
                )
            inner = inner.env
        encoding = getattr(inner, "encoding", None)
    return encoding
