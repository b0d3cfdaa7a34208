"""``LearnedPolicy``: a trained network that plays."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from escoba_env.batch import Views
from escoba_env.encoding import VERSIONS, Encoding
from escoba_env.engine.batch import sample_actions
from escoba_env.policies.checkpoint import Card, CheckpointError, load_checkpoint, save_checkpoint
from escoba_env.policies.network import PolicyNetwork
from escoba_env.rules import RulesError, make_rules


class LearnedPolicy:
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

    def __init__(self, card: Card, network: PolicyNetwork, *, sample: bool = False) -> None:
        if not isinstance(sample, bool):
            raise ValueError(f"option sample={sample!r}; allowed: true or false")
        self.card = card
        self.name = card.name
        self.sample = sample
        self.encoding = _encoding_of(card)
        self._table = (self.encoding.rules, self.encoding.episode)
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
            raise ValueError(f"policy option {min(unknown)!r} is unknown; allowed: sample")
        card, tensors = load_checkpoint(folder)
        _encoding_of(card)
        shape = card.network
        # Shapes without memory: whatever the card asks for, nothing is allocated.
        with torch.device("meta"):
            network = PolicyNetwork(shape.state_size, shape.hidden, shape.action_hidden)
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
        tensors = {key: value.numpy() for key, value in self.network.state_dict().items()}
        save_checkpoint(folder, self.card, tensors)

    def probabilities(self, views: Views) -> NDArray[np.float32]:
        """Returns the probability of every action for each view, float32 (n, 43)."""
        observations, masks = self._observe(views)
        with torch.inference_mode():
            logits, _ = self.network(torch.from_numpy(observations), torch.from_numpy(masks))
            result: NDArray[np.float32] = torch.softmax(logits, 1).numpy()
        return result

    @property
    def expects_margins(self) -> bool:
        """Whether its card says that it was trained to expect the margin of a round."""
        config = self.card.training.get("config", {})
        return (
            self.card.episode == "round"
            and config.get("reward") == "margin"
            and config.get("reward_timing", "round_end") == "round_end"
            and isinstance(config.get("reward_scale"), int | float)
        )

    def margins(self, views: Views) -> NDArray[np.float32]:
        """Returns the margin of the round that each view's side expects, float32 (n,).

        Raises:
            ValueError: Unless it ``expects_margins``.
        """
        if not self.expects_margins:
            raise ValueError(f"policy {self.name!r} was not trained for the margin of a round")
        observations, _ = self._observe(views)
        with torch.inference_mode():
            values = self.network.value(torch.from_numpy(observations))
        result: NDArray[np.float32] = values.numpy() / self.card.training["config"]["reward_scale"]
        return result

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view; see ``Policy.act``."""
        if len(views) == 0:
            return np.empty(0, np.int64)
        if not self.sample:
            observations, masks = self._observe(views)
            with torch.inference_mode():
                logits, _ = self.network(torch.from_numpy(observations), torch.from_numpy(masks))
            # Whatever a network says of a legal action, an illegal one is never better.
            legal = torch.from_numpy(masks)
            actions: NDArray[np.int64] = logits.masked_fill(~legal, -torch.inf).argmax(1).numpy()
            return actions
        actions = np.empty(len(views), np.int64)
        sample_actions(self.probabilities(views), views.records, views.keys, actions)
        return actions

    def _observe(self, views: Views) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        if (views.rules, views.episode) != self._table:
            self.encoding = self._encoding_for(views)
            self._table = (views.rules, views.episode)
        observations, masks = views.observe(self.encoding)
        return observations, masks.astype(np.bool_)

    def _encoding_for(self, views: Views) -> Encoding:
        """Makes the encoding that it was trained on for another table.

        Raises:
            ValueError: If that has another layout.
        """
        card = self.card
        # A policy that was trained on rounds knows no scores, and plays a match without them.
        for episode in (views.episode, card.episode):
            encoding = Encoding(card.encoding, views.rules, episode, card.memory)
            if _columns(encoding) == _columns(self.encoding):
                return encoding
        raise ValueError(
            f"policy {self.name!r} was trained for {make_rules(card.rules)!r}; the observations "
            f"of {views.rules!r} have another layout"
        )


def _columns(encoding: Encoding) -> list[tuple[str, tuple[int, ...]]]:
    return [(section.name, section.shape) for section in encoding.sections]


def _encoding_of(card: Card) -> Encoding:
    if card.encoding not in VERSIONS or VERSIONS[card.encoding] != card.encoding_version:
        raise CheckpointError(
            f"checkpoint {card.name!r} reads encoding {card.encoding!r} version "
            f"{card.encoding_version}; this version writes {VERSIONS}: retrain it, or install the "
            f"version that made it"
        )
    try:
        encoding = Encoding(card.encoding, make_rules(card.rules), card.episode, card.memory)
    except RulesError as error:
        raise CheckpointError(f"checkpoint {card.name!r}: {error}") from None
    layout = encoding.layout()
    if "facts" not in layout or layout["facts"].start != card.network.state_size:
        raise CheckpointError(
            f"checkpoint {card.name!r}: its network takes {card.network.state_size} state columns; "
            f"encoding {card.encoding!r} under its rules has other ones"
        )
    return encoding
