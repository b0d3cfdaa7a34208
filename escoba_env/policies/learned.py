"""``LearnedPolicy``: a trained network that plays."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from escoba_env.checks import quoted
from escoba_env.policies.checkpoint import Card, CheckpointError, load_checkpoint, save_checkpoint
from escoba_env.policies.network import PolicyNetwork
from escoba_env.policies.scoring import CardPolicy, encoding_of


class LearnedPolicy(CardPolicy):
    """Plays by a network.

    It plays any rules whose observations have the layout of those it was trained on: with
    ``universal_tactical`` all rules; with ``tactical`` scoring and target may differ, the number of
    players and the pack may not.

    Args:
        card: What the network was trained for.
        network: The network; it is copied, so that a learner's later updates do not reach it.
        sample: Draw actions from the policy's probabilities instead of taking the likeliest.

    Raises:
        CheckpointError: If the card's encoding is not one that this version writes.
    """

    card: Card

    def __init__(self, card: Card, network: PolicyNetwork, *, sample: bool = False) -> None:
        super().__init__(card, sample=sample)
        _check_network(card)
        self.network = copy.deepcopy(network).requires_grad_(False).eval()

    @classmethod
    def load(cls, folder: str | Path, **options: Any) -> LearnedPolicy:
        """Loads a checkpoint.

        Args:
            folder: Its folder.
            **options: ``sample``, as for the class.

        Raises:
            CheckpointError: If it is damaged, foreign, of another version, or its weights do not
                fit its card.
            ValueError: If an option is unknown.
        """
        unknown = set(options) - {"sample"}
        if unknown:
            raise ValueError(f"policy option {quoted(min(unknown))} is unknown; allowed: sample")
        card, tensors = load_checkpoint(folder)
        _check_network(card)
        # Shapes without memory: whatever the card asks for, nothing is allocated.
        with torch.device("meta"):
            network = PolicyNetwork.of(card.network)
        expected = {key: tuple(value.shape) for key, value in network.state_dict().items()}
        found = {key: value.shape for key, value in tensors.items()}
        if expected != found:
            wrong = sorted(k for k in {*expected, *found} if expected.get(k) != found.get(k))
            key = wrong[0]
            raise CheckpointError(
                f"{folder}: weights {key!r} have shape {found.get(key)}; its card asks for "
                f"{expected.get(key)}"
            )
        weights = {key: torch.from_numpy(value) for key, value in tensors.items()}
        network.load_state_dict(weights, assign=True)
        return cls(card, network, **options)

    def save(self, folder: str | Path) -> None:
        """Writes the policy as a checkpoint; see ``save_checkpoint``."""
        save_checkpoint(folder, self.card, self.weights())

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Returns the network's weights by name."""
        return {key: value.numpy() for key, value in self.network.state_dict().items()}

    def score(
        self, observations: NDArray[np.float32], masks: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Scores actions by the network; see ``ScoringPolicy.score``."""
        with torch.inference_mode():
            logits, values = self.network(torch.from_numpy(observations), torch.from_numpy(masks))
        return logits.numpy(), values.numpy()

    def values(
        self,
        observations: NDArray[np.float32],
        masks: NDArray[np.bool_],  # noqa: ARG002  (others need it)
    ) -> NDArray[np.float32]:
        """Estimates the return alone, without the actions' part of the network."""
        with torch.inference_mode():
            values: NDArray[np.float32] = self.network.value(torch.from_numpy(observations)).numpy()
        return values


def _check_network(card: Card) -> None:
    """Sees that a card's network reads what its encoding writes.

    Raises:
        CheckpointError: If it does not.
    """
    layout = encoding_of(card).layout()
    if "facts" not in layout or layout["facts"].start != card.network.state_size:
        raise CheckpointError(
            f"checkpoint {card.name!r}: its network takes {card.network.state_size} state columns; "
            f"encoding {card.encoding!r} under its rules has other ones"
        )
