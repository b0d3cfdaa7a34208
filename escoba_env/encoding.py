"""Encodings: what a seat knows as an array of numbers, section by named section.

An :class:`Encoding` is the table of sections of one observation vector: which there are for the
rules at hand, where each lies, and what its numbers mean. The kernels of ``engine.encode`` fill
them in; this file holds no rule of the game.

Versions: ``VERSIONS`` says which version of each encoding this package writes. A change to what an
index means is a new version, and a policy trained on another version is refused when loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.cards import NUM_ACTIONS, NUM_CARDS, NUM_IDS, card_name
from escoba_env.checks import one_of
from escoba_env.engine import encode as kernels
from escoba_env.engine.outlook import FACTS, NUM_FACTS
from escoba_env.engine.record import EPISODES
from escoba_env.rules import Rules

VERSIONS = {"compact": 1, "tactical": 1}


@dataclass(frozen=True)
class Section:
    """One named part of an observation.

    Attributes:
        name: Name, unique within the encoding.
        start: First column.
        shape: Shape of the part; ``stop - start`` is its product.
        meaning: What its numbers say, in words.
        high: Largest value that any of its numbers can take (lowest is always 0).
        scale: Factor by which counts are multiplied; 1 for zeros and ones.
    """

    name: str
    start: int
    shape: tuple[int, ...]
    meaning: str
    high: float
    scale: float

    @property
    def stop(self) -> int:
        """One past the last column."""
        return self.start + int(np.prod(self.shape))

    @property
    def slice(self) -> slice:
        """The section's columns."""
        return slice(self.start, self.stop)


class Encoding:
    """The layout of one observation vector for given rules.

    ``compact`` has the sections that these rules can use; ``tactical`` is ``compact`` followed by
    the section ``facts`` of shape (43, ``NUM_FACTS``): facts that follow from each legal action.

    Args:
        name: ``"compact"`` or ``"tactical"``.
        rules: The rules of the table.
        episode: ``"round"`` or ``"match"``; a match adds the section ``scores``.

    Raises:
        ValueError: If the name or the episode is unknown.
    """

    def __init__(self, name: str, rules: Rules, episode: str = "round") -> None:
        one_of("encoding", name, VERSIONS)
        one_of("episode", episode, EPISODES)
        self.name = name
        self.version = VERSIONS[name]
        self.rules = rules
        self.episode = episode
        self.card_width = NUM_IDS if rules.jokers else NUM_CARDS
        self.sections: tuple[Section, ...] = ()
        self.offsets: NDArray[np.int64] = np.full(kernels.NUM_SECTIONS, -1, np.int64)
        self.scales: NDArray[np.float32] = np.ones(kernels.NUM_SECTIONS, np.float32)
        self._lay_out()

    @property
    def size(self) -> int:
        """Number of columns of an observation."""
        return self.sections[-1].stop

    @property
    def low(self) -> NDArray[np.float32]:
        """Lowest value of each column, float32 of shape (size,)."""
        low = np.zeros(self.size, np.float32)
        for section in self.sections:
            if section.name == "facts":
                # Worth taken minus the expected reply.
                low[section.slice] = -np.inf
        return low

    @property
    def high(self) -> NDArray[np.float32]:
        """Highest value of each column, float32 of shape (size,); infinite where unbounded."""
        high = np.empty(self.size, np.float32)
        for section in self.sections:
            high[section.slice] = section.high
        return high

    def layout(self) -> dict[str, Section]:
        """Returns every section by name, in the order of their columns."""
        return {section.name: section for section in self.sections}

    def describe(self, observation: NDArray[Any]) -> str:
        """Says in words what an observation holds, a line for each section.

        Args:
            observation: Array of shape (size,).

        Raises:
            ValueError: If the shape is another one.
        """
        if observation.shape != (self.size,):
            raise ValueError(
                f"observation of shape {observation.shape} is not one of encoding {self.name!r}; "
                f"allowed: ({self.size},)"
            )
        lines = []
        for section in self.sections:
            values = observation[section.slice].reshape(section.shape)
            if section.name == "facts":
                text = _describe_facts(values)
            elif section.shape[-1] == self.card_width:
                text = " / ".join(_describe_cards(v) for v in values.reshape(-1, self.card_width))
            else:
                text = " ".join(f"{value / section.scale:g}" for value in values)
            lines.append(f"{section.name}: {text}")
        return "\n".join(lines)

    def _lay_out(self) -> None:
        rules, width, seats = self.rules, self.card_width, self.rules.players
        oros = sum(card < 10 for card in range(NUM_CARDS) if rules.pack >> card & 1)
        sevens = sum(card % 10 == 6 for card in range(NUM_CARDS) if rules.pack >> card & 1)
        add = self._adder()
        add(kernels.HAND, "hand", (width,), "own cards in hand")
        add(kernels.TABLE, "table", (width,), "face-up cards on the table")
        add(kernels.PLAYED, "played", (width,), "hand card chosen this turn, by whoever moves")
        add(kernels.PICKED, "picked", (width,), "table cards picked so far this turn")
        add(kernels.CAPTURED, "captured", (seats, width), "cards captured by each seat")
        add(kernels.UNSEEN, "unseen", (width,), "cards in other hands or in the stock")
        if rules.open_hands:
            shape = (seats - 1, width)
            add(kernels.OPEN_HANDS, "open_hands", shape, "cards in each other seat's hand")
        hand = rules.hand_size
        add(kernels.HAND_COUNTS, "hand_counts", (seats,), "cards in each hand", hand, hand)
        size = rules.pack_size
        add(kernels.CARD_COUNTS, "card_counts", (seats,), "cards captured by each seat", size, size)
        if oros:
            meaning = "oros captured by each seat"
            add(kernels.ORO_COUNTS, "oro_counts", (seats,), meaning, oros, oros)
        if sevens:
            meaning = "sevens captured by each seat"
            add(kernels.SEVEN_COUNTS, "seven_counts", (seats,), meaning, sevens, sevens)
        meaning = "escobas of each seat"
        add(kernels.ESCOBAS, "escobas", (seats,), meaning, rules.turns, 4)
        meaning = "seat that captured last (none: all zeros)"
        add(kernels.LAST_CAPTURER, "last_capturer", (seats,), meaning)
        add(kernels.DEALER, "dealer", (seats,), "seat that dealt")
        add(kernels.TO_MOVE, "to_move", (seats,), "seat to move (over: all zeros)")
        meaning = "deals of hands still to come this round"
        add(kernels.DEALS_LEFT, "deals_left", (1,), meaning, rules.deals, rules.deals)
        if self.episode == "match":
            target = rules.match_target
            meaning = "match score of each side, own side first"
            add(kernels.SCORES, "scores", (rules.num_sides,), meaning, np.inf, target)
        if self.name == "tactical":
            meaning = "facts that follow from each action: " + "; ".join(FACTS)
            add(kernels.FACTS, "facts", (NUM_ACTIONS, NUM_FACTS), meaning, np.inf)

    def _adder(self) -> Callable[..., None]:
        sections: list[Section] = []

        def add(
            index: int,
            name: str,
            shape: tuple[int, ...],
            meaning: str,
            most: float = 1,
            unit: float = 1,
        ) -> None:
            start = sections[-1].stop if sections else 0
            self.offsets[index] = start
            self.scales[index] = 1 / unit
            scale = float(self.scales[index])
            sections.append(Section(name, start, shape, meaning, most * scale, scale))
            self.sections = tuple(sections)

        return add


def _describe_cards(values: NDArray[Any]) -> str:
    return " ".join(card_name(int(card)) for card in np.flatnonzero(values)) or "-"


def _describe_facts(values: NDArray[Any]) -> str:
    rows = []
    for action in np.flatnonzero(values[:, 0]):
        name = card_name(int(action)) if action < NUM_IDS else "lay"
        rows.append(f"{name} [{' '.join(f'{value:.2f}' for value in values[action])}]")
    return ", ".join(rows) or "-"
