"""A critic that sees all cards: a better yardstick for advantages, which only training has.

The policy still decides by what its seat sees; that the baseline of its advantages knows the other
hands and the order of the stock takes the luck of the deal out of them (asymmetric actor-critic;
Pinto et al., 2018).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from escoba_env.batch import Records
from escoba_env.cards import NUM_IDS
from escoba_env.engine import batch as kernels
from escoba_env.engine.record import lower
from escoba_env.policies.network import Choices
from escoba_env.rules import Rules


def num_places(rules: Rules) -> int:
    """Returns how many places a card can lie in: open, in a hand, or in a hand to come.

    Cards that are left when the last hands have been dealt count as one more deal.
    """
    return rules.players * (1 + rules.deals)


def hidden_places(rules: Rules, states: Records) -> NDArray[np.uint8]:
    """Says where each card lies that is in another hand or in the stock.

    Args:
        rules: Their rules.
        states: Whole games.

    Returns:
        uint8 (n, 42), by card; see the kernel.
    """
    places = np.empty((len(states), NUM_IDS), np.uint8)
    # An episode changes nothing that is hidden.
    kernels.hidden_places(lower(rules, "round"), states, places)
    return places


class Critic(nn.Module):
    """Values of decisions by all cards.

    Args:
        rules: Rules of the table.
        state_size: Number of columns that the policy sees.
        hidden: Widths of its layers.
    """

    def __init__(self, rules: Rules, state_size: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.places = num_places(rules)
        layers: list[nn.Module] = []
        width = state_size + NUM_IDS * (self.places - 1)
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            width = size
        self.trunk = nn.Sequential(*layers)
        self.head = nn.Linear(width, 1)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.orthogonal_(module.weight, 1.0 if module is self.head else 2**0.5)
                nn.init.zeros_(module.bias)

    def forward(self, choices: Choices, low_precision: bool) -> Tensor:
        """Returns the value of each decision, float32 (n,)."""
        assert choices.hidden is not None
        one_hot = nn.functional.one_hot(choices.hidden.long(), self.places)[..., 1:]
        seen = torch.cat([choices.state, one_hot.flatten(1).to(choices.state.dtype)], 1)
        with torch.autocast("cpu", torch.bfloat16, enabled=low_precision):
            latent = self.trunk(seen)
        value: Tensor = self.head(latent.float()).squeeze(-1)
        return value
