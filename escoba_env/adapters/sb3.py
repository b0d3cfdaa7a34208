"""Stable-Baselines3: models in memory as policies, with or without masks of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from escoba_env.encoding import Encoding
from escoba_env.policies.scoring import ScoringPolicy


class SB3Policy(ScoringPolicy):
    """Plays by a model of Stable-Baselines3 or sb3-contrib, as it is when it plays.

    Actor-critics (``PPO``, ``A2C``, ``MaskablePPO``) and action values (``DQN``) are played, by the
    likeliest or best *legal* action, also where the model itself knows no masks. What a
    ``VecNormalize`` has learned of the observations is part of the model.

    Args:
        model: The model.
        encoding: What it observes; default: that of the environment that it was made with.
        sample: Draw actions from the policy's probabilities (with ``DQN``, by the softmax of the
            values) instead of taking the best.
        name: Its name; default: the name of its algorithm.

    Raises:
        ValueError: If the model is of another kind, or observes something else than the encoding.
    """

    def __init__(
        self,
        model: Any,
        encoding: Encoding | None = None,
        *,
        sample: bool = False,
        name: str | None = None,
    ) -> None:
        kind = type(model).__name__
        if encoding is None:
            encoding = _encoding_of(model)
        if not isinstance(encoding, Encoding):
            raise ValueError(
                f"model {kind}: encoding {encoding!r} is not possible; allowed: an Encoding, such "
                f"as env.encoding, where the model's environment does not tell"
            )
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
        space = model.observation_space
        self.takes_mask = isinstance(space, spaces.Dict)
        if self.takes_mask and set(space.spaces) == {"observation", "action_mask"}:
            space = space["observation"]
        if getattr(space, "shape", None) != encoding.shape:
            raise ValueError(
                f"model {kind} observes {model.observation_space}; encoding {encoding.name!r} "
                f"under its rules has the shape {encoding.shape}"
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


def _encoding_of(model: Any) -> Encoding | None:
    """Finds the encoding of a model's environment, under whatever wrappers."""
    env = model.get_env()
    while env is not None and hasattr(env, "venv"):
        env = env.venv
    encoding = getattr(env, "encoding", None)
    if encoding is None and getattr(env, "envs", None):
        encoding = getattr(env.envs[0].unwrapped, "encoding", None)
    return encoding
