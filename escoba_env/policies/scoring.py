"""``ScoringPolicy``: what all policies share that score every action of an observation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Views
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import flag, quoted
from escoba_env.encoding import VERSIONS, Encoding
from escoba_env.engine.batch import sample_actions
from escoba_env.policies.checkpoint import CheckpointError, PolicyCard
from escoba_env.rules import RulesError, make_rules


class ScoringPolicy(ABC):
    """Plays by scores for actions that something gives to observations.

    It plays any rules whose observations have the layout of those it was made for: with
    ``universal`` encodings all rules; with the others scoring and target may differ, the number of
    players and the pack may not.

    Args:
        name: Its name.
        encoding: The observations that it reads.
        sample: Draw actions from the policy's probabilities instead of taking the likeliest.

    Attributes:
        made_for: The observations that it was made for; ``encoding`` is of the last rules played.

    Raises:
        ValueError: If ``sample`` is not a bool.
    """

    def __init__(self, name: str, encoding: Encoding, *, sample: bool = False) -> None:
        self.name = name
        self.sample = flag("option sample", sample)
        self.encoding = encoding
        self.made_for = encoding
        self._table = (encoding.rules, encoding.episode)

    def __repr__(self) -> str:
        kind, sample = type(self).__name__, ", sample=True" * self.sample
        return f"<{kind} {quoted(self.name)}: encoding {self.made_for.name!r}{sample}>"

    @abstractmethod
    def score(
        self, observations: NDArray[np.float32], masks: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Scores actions.

        Args:
            observations: float32 (n, *encoding.shape).
            masks: bool (n, 43).

        Returns:
            Logits (n, 43), whatever they are where illegal; values of the return (n,), or ``None``
            if it has none.
        """

    def probabilities(self, views: Views) -> NDArray[np.float32]:
        """Returns the probability of every action for each view, float32 (n, 43)."""
        logits = self._logits(views)
        weights = np.exp(logits - logits.max(1, keepdims=True))
        result: NDArray[np.float32] = weights / weights.sum(1, keepdims=True)
        return result

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view; see ``Policy.act``."""
        if len(views) == 0:
            return np.empty(0, np.int64)
        if not self.sample:
            best: NDArray[np.int64] = self._logits(views).argmax(1)
            return best
        actions = np.empty(len(views), np.int64)
        sample_actions(self.probabilities(views), views.records, views.keys, actions)
        return actions

    def observe(self, views: Views) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Encodes views as it was made to read them.

        Returns:
            Observations float32 (n, *encoding.shape) and masks bool (n, 43).

        Raises:
            ValueError: If observations of their rules have another layout.
        """
        if (views.rules, views.episode) != self._table:
            self.encoding = self._encoding_for(views)
            self._table = (views.rules, views.episode)
        observations, masks = views.observe(self.encoding)
        return observations, masks.astype(np.bool_)

    def _logits(self, views: Views) -> NDArray[np.float32]:
        """Logits of legal actions, minus infinity elsewhere, float32 (n, 43)."""
        if len(views) == 0:
            return np.empty((0, NUM_ACTIONS), np.float32)
        observations, masks = self.observe(views)
        logits, _ = self.score(observations, masks)
        if not np.isfinite(logits[masks]).all():
            raise ValueError(
                f"policy {quoted(self.name)} scores a legal action with something that is not "
                "finite"
            )
        # Whatever it says of a legal action, an illegal one is never better.
        result: NDArray[np.float32] = np.where(masks, logits, -np.inf).astype(np.float32)
        return result

    def _encoding_for(self, views: Views) -> Encoding:
        """Makes the encoding that it reads for another table.

        Raises:
            ValueError: If that has another layout.
        """
        made_for = self.made_for
        # A policy that was trained on rounds knows no scores, and plays a match without them.
        for episode in (views.episode, made_for.episode):
            encoding = Encoding(made_for.name, views.rules, episode, made_for.memory)
            if _columns(encoding) == _columns(made_for):
                return encoding
        raise ValueError(
            f"policy {quoted(self.name)} was trained for {made_for.rules!r}; the observations "
            f"of {views.rules!r} have another layout"
        )


class CardPolicy(ScoringPolicy):
    """A ``ScoringPolicy`` with a card, which says what it was trained for and how.

    Args:
        card: Its card.
        sample: As for ``ScoringPolicy``.

    Raises:
        CheckpointError: If the card's encoding is not one that this version writes.
    """

    def __init__(self, card: PolicyCard, *, sample: bool = False) -> None:
        super().__init__(card.name, encoding_of(card), sample=sample)
        self.card = card

    @property
    def expects_margins(self) -> bool:
        """Whether its card says that it was trained to expect the margin of a round."""
        config = self.card.training.get("config", {})
        return (
            self.card.episode == "round"
            and isinstance(config, dict)
            and config.get("reward") == "margin"
            and config.get("reward_timing", "round_end") == "round_end"
            and _is_scale(config.get("reward_scale"))
        )

    def margins(self, views: Views) -> NDArray[np.float32]:
        """Returns the margin of the round that each view's side expects, float32 (n,).

        Raises:
            ValueError: Unless it ``expects_margins``.
        """
        values = self.values(*self.observe(views)) if self.expects_margins else None
        if values is None:
            raise ValueError(
                f"policy {quoted(self.name)} was not trained for the margin of a round"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"policy {quoted(self.name)} expects a margin that is not finite")
        scale: Any = self.card.training["config"]["reward_scale"]
        result: NDArray[np.float32] = values / scale
        return result

    def values(
        self, observations: NDArray[np.float32], masks: NDArray[np.bool_]
    ) -> NDArray[np.float32] | None:
        """Estimates the return alone; as for ``score``."""
        return self.score(observations, masks)[1]


def as_encoding(encoding: Encoding | str | None, called: str) -> Encoding:
    """Returns an encoding; a name stands for that of ``classic``, two players, rounds.

    Args:
        encoding: An encoding, or a name of one.
        called: What reads it, for messages.

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(encoding, str):
        return Encoding(encoding, make_rules("classic"))
    if isinstance(encoding, Encoding):
        return encoding
    raise ValueError(
        f"{called}: encoding {encoding!r:.80} is not possible; allowed: what it observes, as in "
        f"load_policy(model, encoding='tactical') for classic with two players, or an Encoding, "
        f"such as env.encoding, for other rules"
    )


def random_rows(encoding: Encoding, rows: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Makes observations and masks to try a network with; no game's."""
    rng = np.random.default_rng(rows)
    observations = rng.random((rows, *encoding.shape), np.float32)
    masks = rng.random((rows, NUM_ACTIONS)) < 0.2
    masks[:, rows] = True
    return observations, masks


def encoding_of(card: PolicyCard) -> Encoding:
    """Makes the encoding that a card asks for.

    Raises:
        CheckpointError: If this version does not write it, or the card's rules are not possible.
    """
    if card.encoding not in VERSIONS or VERSIONS[card.encoding] != card.encoding_version:
        raise CheckpointError(
            f"checkpoint {quoted(card.name)} reads encoding {quoted(card.encoding)} version "
            f"{card.encoding_version}; this version writes {VERSIONS}: retrain it, or install the "
            f"version that made it"
        )
    try:
        return Encoding(card.encoding, make_rules(card.rules), card.episode, card.memory)
    except RulesError as error:
        raise CheckpointError(f"checkpoint {quoted(card.name)}: {error}") from None


def _is_scale(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 < value < float("inf")


def _columns(encoding: Encoding) -> list[tuple[str, tuple[int, ...]]]:
    return [(section.name, section.shape) for section in encoding.sections]
