"""The network of a learned policy: a trunk for the state, one head shared over all actions.

Needs torch. The same module is trained by ``training`` and played by ``LearnedPolicy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from escoba_env.cards import NUM_ACTIONS
from escoba_env.engine.outlook import NUM_FACTS
from escoba_env.policies.checkpoint import NetworkCard

FLOAT = torch.float32
"""Of weights, whatever torch's default is: observations and checkpoints are float32."""

ILLEGAL_LOGIT = -1e8
"""Logit of an illegal action: finite, so that nothing becomes NaN, and of probability 0."""


class Choices(NamedTuple):
    """Observations of decisions with what follows from their legal actions alone.

    Of 43 actions two or three are usually legal: this is a third of a dense observation.
    """

    state: Tensor
    """float32 (n, state_size): the columns before the facts."""
    rows: Tensor
    """int64 (m,): the decision that each legal action belongs to, ascending."""
    actions: Tensor
    """int64 (m,): the legal actions."""
    facts: Tensor
    """float32 (m, NUM_FACTS): what follows from them."""
    hidden: Tensor | None = None
    """What ``training.critic`` sees beside it, and no policy does; uint8 (n, 42)."""


def choices_of(observation: Tensor, mask: Tensor) -> Choices:
    """Picks out what the network reads of dense observations; see ``PolicyNetwork.forward``."""
    state_size = observation.shape[1] - NUM_ACTIONS * NUM_FACTS
    facts = observation[:, state_size:].view(-1, NUM_ACTIONS, NUM_FACTS)
    rows, actions = mask.nonzero(as_tuple=True)
    return Choices(observation[:, :state_size], rows, actions, facts[rows, actions])


class PolicyNetwork(nn.Module):
    """Policy and value for an encoding with facts, ``tactical`` or ``universal_tactical``.

    The state part of an observation passes through the trunk. Each *legal* action is then scored
    by the same small head from the trunk's output, the action's facts and the action's own
    embedding; illegal actions cost nothing. Value and policy share the trunk.

    Args:
        state_size: Number of columns before the facts.
        hidden: Widths of the trunk's layers, at least one.
        action_hidden: Width of the action head.
        action_layers: Layers of that width after the one that takes its inputs.
        state_to_head: Whether the head takes the state itself, too, and not only what the trunk
            makes of it.
    """

    def __init__(
        self,
        state_size: int,
        hidden: Sequence[int] = (256, 256),
        action_hidden: int = 128,
        action_layers: int = 1,
        state_to_head: bool = False,
    ) -> None:
        super().__init__()
        self.state_size = state_size
        layers: list[nn.Module] = []
        width = state_size
        for size in hidden:
            layers += [nn.Linear(width, size, dtype=FLOAT), nn.ReLU()]
            width = size
        self.trunk = nn.Sequential(*layers)
        self.value_head = nn.Linear(width, 1, dtype=FLOAT)
        self.state_to_action = nn.Linear(width, action_hidden, dtype=FLOAT)
        self.facts_to_action = nn.Linear(NUM_FACTS, action_hidden, bias=False, dtype=FLOAT)
        self.action_embedding = nn.Embedding(NUM_ACTIONS, action_hidden, dtype=FLOAT)
        self.state_to_head = (
            nn.Linear(state_size, action_hidden, bias=False, dtype=FLOAT) if state_to_head else None
        )
        self.action_layers = nn.ModuleList(
            nn.Linear(action_hidden, action_hidden, dtype=FLOAT) for _ in range(action_layers)
        )
        self.action_head = nn.Linear(action_hidden, 1, dtype=FLOAT)
        self._initialise()

    @classmethod
    def of(cls, shape: NetworkCard) -> PolicyNetwork:
        """Makes the network that a card describes."""
        return cls(
            shape.state_size,
            shape.hidden,
            shape.action_hidden,
            shape.action_layers,
            shape.state_to_head,
        )

    def _initialise(self) -> None:
        # Orthogonal with small output layers: the first policy is near uniform (Andrychowicz et
        # al., What matters in on-policy reinforcement learning, 2021).
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.orthogonal_(module.weight, 2**0.5)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.action_embedding.weight, std=0.1)
        nn.init.orthogonal_(self.action_head.weight, 0.01)
        nn.init.orthogonal_(self.value_head.weight, 1.0)

    def forward(self, observation: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Scores actions and estimates the return.

        Args:
            observation: float32 (n, state_size + 43 * NUM_FACTS).
            mask: bool (n, 43), at least one legal action in each row.

        Returns:
            Logits float32 (n, 43), ``ILLEGAL_LOGIT`` where illegal; values float32 (n,).
        """
        return self.score(choices_of(observation, mask))

    def score(self, choices: Choices) -> tuple[Tensor, Tensor]:
        """Scores actions and estimates the return; result as for ``forward``."""
        state, rows, actions, facts, _ = choices
        latent = self.trunk(state)
        mixed = self.state_to_action(latent)
        if self.state_to_head is not None:
            mixed = mixed + self.state_to_head(state)
        mixed = mixed.index_select(0, rows)
        mixed = mixed + self.facts_to_action(facts) + self.action_embedding(actions)
        mixed = torch.relu(mixed)
        for layer in self.action_layers:
            mixed = torch.relu(layer(mixed))
        # Under autocast the layers so far are of lower precision, which outputs cannot do with.
        with torch.autocast(mixed.device.type, enabled=False):
            scores = self.action_head(mixed.float()).squeeze(-1)
            values = self.value_head(latent.float()).squeeze(-1)
        logits = scores.new_full((state.shape[0] * NUM_ACTIONS,), ILLEGAL_LOGIT)
        logits = logits.index_copy(0, rows * NUM_ACTIONS + actions, scores)
        return logits.view(-1, NUM_ACTIONS), values

    def value(self, observation: Tensor) -> Tensor:
        """Estimates the return alone, float32 (n,)."""
        latent = self.trunk(observation[:, : self.state_size])
        with torch.autocast(latent.device.type, enabled=False):
            value: Tensor = self.value_head(latent.float()).squeeze(-1)
        return value
