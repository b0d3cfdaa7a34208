"""The learner: sb3-contrib's MaskablePPO on our rollouts and the network of ``LearnedPolicy``."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.logger import Logger
from torch import Tensor

from escoba_env.batch import Batch
from escoba_env.cards import NUM_ACTIONS
from escoba_env.encoding import Encoding
from escoba_env.policies import load_policy
from escoba_env.policies.checkpoint import MAX_BYTES, WEIGHTS, Card, NetworkCard
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.policies.network import Choices, PolicyNetwork
from escoba_env.rules import Rules

from .config import Config, ConfigError
from .critic import Critic
from .log import DECISIONS
from .rollout import SeatRolloutBuffer, SelfPlay


class SharedHeadPolicy(MaskableActorCriticPolicy):
    """MaskablePPO's view of ``PolicyNetwork``."""

    def __init__(
        self,
        *args: Any,
        network: NetworkCard,
        low_precision: bool,
        all_seeing: Rules | None = None,
        **kwargs: Any,
    ) -> None:
        self.shape = network
        self.all_seeing = all_seeing
        self.low_precision = low_precision
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Any) -> None:
        self.network = PolicyNetwork.of(self.shape)
        self.critic = None
        if self.all_seeing is not None:
            self.critic = Critic(self.all_seeing, self.shape.state_size, self.shape.hidden)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=lr_schedule(1), eps=1e-5)

    def forward(  # type: ignore[override]
        self,
        obs: Choices,
        deterministic: bool = False,
        action_masks: None = None,  # noqa: ARG002, MaskablePPO's; choices are legal actions
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns actions (n,), values (n,) and log-probabilities (n,).

        Observations are ``Choices`` here and below: they hold legal actions only.
        """
        log_probs, values = self._evaluate(obs)
        if self.critic is not None:
            values = self.critic(obs, self.low_precision)
        if deterministic:
            actions = log_probs.argmax(1)
        else:
            actions = torch.multinomial(log_probs.exp(), 1).squeeze(1)
        return actions, values, _of(log_probs, actions)

    def evaluate_actions(  # type: ignore[override]
        self,
        obs: Choices,
        actions: Tensor,
        action_masks: None = None,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns values (n,), log-probabilities (n,) and entropies (n,) of actions taken.

        With an all-seeing critic values are (2 * n,): the critic's, and the network's own, which
        learns beside it, for policies say what they expect.
        """
        log_probs, values = self._evaluate(obs)
        if self.critic is not None:
            values = torch.cat([self.critic(obs, self.low_precision), values])
        entropy = -(log_probs.exp() * log_probs).sum(1)
        return values, _of(log_probs, actions), entropy

    def _evaluate(self, choices: Choices) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities (n, 43) and values (n,)."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.low_precision):
            logits, values = self.network.score(choices)
        # The network masks its logits itself: MaskableCategorical would do so again.
        return torch.log_softmax(logits, 1), values


def _of(log_probs: Tensor, actions: Tensor) -> Tensor:
    return log_probs.gather(1, actions.long().unsqueeze(1)).squeeze(1)


class SelfPlayPPO(MaskablePPO):
    """MaskablePPO that learns from rollouts of ``SelfPlay``.

    Args:
        config: Settings of the run.
        batch: Games that will be played; gives the spaces.
    """

    def __init__(self, config: Config, batch: Batch) -> None:
        start = config.learning_rate
        end = config.final_learning_rate

        def learning_rate(remaining: float) -> float:
            return end + (start - end) * remaining

        super().__init__(
            SharedHeadPolicy,
            env=None,  # type: ignore[arg-type]
            learning_rate=learning_rate,
            n_steps=config.steps,
            batch_size=config.minibatch,
            n_epochs=config.epochs,
            gamma=1.0,
            gae_lambda=config.gae_lambda,
            clip_range=config.clip,
            ent_coef=config.entropy,
            # The mean over a critic and the network itself: each weighs as one alone would.
            vf_coef=config.value_weight * (2 if config.critic == "all_seeing" else 1),
            max_grad_norm=config.max_gradient,
            rollout_buffer_class=SeatRolloutBuffer,
            rollout_buffer_kwargs={"players": batch.rules.players},
            policy_kwargs={
                "network": network_card(config, batch),
                "low_precision": uses_bfloat16(config.precision),
                "all_seeing": batch.rules if config.critic == "all_seeing" else None,
            },
            seed=config.seed,
            device="cpu",
            _init_setup_model=False,
        )
        self.seconds = 0.0
        """Time spent in updates, over all sittings."""
        encoding = batch.encoding
        self.observation_space = spaces.Box(encoding.low, encoding.high, dtype=np.float32)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self.n_envs = len(batch)
        self._setup_model()
        # Nothing is written before the run has its folder; see ``log.open_log``.
        self.set_logger(Logger(None, []))

    @property
    def network(self) -> PolicyNetwork:
        """The network that is being trained."""
        network: PolicyNetwork = self.policy.network  # type: ignore[assignment]
        return network

    def update(self, play: SelfPlay, total: int) -> None:
        """Plays one rollout and learns from it.

        Args:
            play: Plays the games.
            total: Decisions of the whole run, for the learning rate's schedule.
        """
        buffer = self.rollout_buffer
        assert isinstance(buffer, SeatRolloutBuffer)
        start = time.perf_counter()
        self.policy.set_training_mode(False)
        play.collect(buffer, self.act)
        decisions = buffer.buffer_size * buffer.n_envs
        self.num_timesteps += decisions
        self._update_current_progress_remaining(min(self.num_timesteps, total), total)
        self.train()
        seconds = time.perf_counter() - start
        self.seconds += seconds
        self.logger.record(DECISIONS, self.num_timesteps)
        self.logger.record("time/decisions_per_second", decisions / seconds)
        self.logger.record("time/seconds", self.seconds)

    def act(
        self, choices: Choices
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        """Draws actions; returns them with values and log-probabilities."""
        with torch.no_grad():
            actions, values, log_probs = self.policy(choices)
        return actions.numpy(), values.numpy(), log_probs.numpy()


def uses_bfloat16(precision: str) -> bool:
    """Whether the layers of the network are computed in bfloat16.

    Weights, gradients and the outputs stay float32. Twice as fast where the processor multiplies
    bfloat16 itself, and much slower where it does not.
    """
    if precision == "auto":
        cpu: Any = torch.cpu
        return bool(cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported())  # noqa: SLF001
    return precision == "bfloat16"


def network_card(config: Config, batch: Batch) -> NetworkCard:
    """Shape of the network for a run."""
    return config.network.card(batch.encoding)


def take_weights(
    network: PolicyNetwork, shape: NetworkCard, encoding: Encoding, start: str, name: str
) -> None:
    """Gives a network the weights of a checkpoint; see :func:`starting_weights`.

    Args:
        network: The network, of that shape.
        shape: Its shape.
        encoding: What it reads.
        start: Name or folder of the checkpoint.
        name: What the config is called, for messages.

    Raises:
        ConfigError: If there is no such checkpoint, or it is of another network.
    """
    network.load_state_dict(starting_weights(shape, encoding, start, name))


def starting_weights(
    shape: NetworkCard, encoding: Encoding, start: str, name: str
) -> dict[str, Tensor]:
    """Returns the weights of a checkpoint as a network takes them that may see more.

    Sections of the encoding that the checkpoint does not see, such as the scores of a match for a
    policy of rounds, get weights of 0: the network begins as that policy and can learn to use them.

    Args:
        shape: Shape of the network.
        encoding: What it reads.
        start: Name or folder of the checkpoint.
        name: What the config is called, for messages.

    Raises:
        ConfigError: If there is no such checkpoint, or it is of another network.
    """
    try:
        policy = load_policy(start)
    except ValueError as error:
        raise ConfigError(f"config {name}: start: {error}") from None
    columns = _columns_in(encoding, policy.encoding) if isinstance(policy, LearnedPolicy) else None
    if (
        not isinstance(policy, LearnedPolicy)
        or columns is None
        or policy.card.network.model_copy(update={"state_size": shape.state_size}) != shape
    ):
        raise ConfigError(
            f"config {name}: start={start!r} is of another network; allowed: a checkpoint of "
            f"{shape!r}, or one that sees less of the state"
        )
    given: dict[str, Tensor] = policy.network.state_dict()
    for key in ("trunk.0.weight", "state_to_head.weight"):
        if key in given:
            wider = given[key].new_zeros(len(given[key]), shape.state_size)
            wider[:, columns] = given[key]
            given[key] = wider
    return given


def check_size(shape: NetworkCard) -> None:
    """Checks that a checkpoint can hold a network, before it is made.

    Raises:
        ValueError: If it is too large.
    """
    with torch.device("meta"):
        numbers = sum(weight.numel() for weight in PolicyNetwork.of(shape).parameters())
    most = MAX_BYTES[WEIGHTS] // 4 - 2**16
    if numbers > most:
        raise ValueError(f"network of {numbers:,} weights; allowed: up to {most:,}")


def _columns_in(encoding: Encoding, other: Encoding) -> list[int] | None:
    """Where the columns of another encoding's state lie; None if some are not there."""
    layout = encoding.layout()
    columns: list[int] = []
    for section in other.layout().values():
        same = layout.get(section.name)
        if same is None or replace(same, start=section.start) != section:
            return None
        if section.name != "facts":
            columns += range(same.start, same.stop)
    return columns


def frozen_policy(config: Config, batch: Batch, model: SelfPlayPPO, **about: Any) -> LearnedPolicy:
    """Returns the learner as it is now: a policy that later updates do not reach.

    Args:
        config: Settings of the run.
        batch: Its games.
        model: The learner.
        **about: Further contents of the card: ``training``, ``strength``.
    """
    card = Card(
        name=config.name,
        encoding=batch.encoding.name,
        encoding_version=batch.encoding.version,
        memory=config.memory,
        rules=batch.rules.as_dict(),
        episode=config.episode,
        network=network_card(config, batch),
        **about,
    )
    return LearnedPolicy(card, model.network)
