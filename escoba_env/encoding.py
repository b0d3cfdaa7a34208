"""Encodings: what a seat knows as an array of numbers, section by named section.

An :class:`Encoding` is the table of sections of one observation: which there are for the rules at
hand, where each lies, and what its numbers mean. The kernels of ``engine.encode`` fill them in;
this file holds no rule of the game. ``docs/encodings.md`` is written from these tables by
``escoba_env.encoding_docs``.

Versions: ``VERSIONS`` says which version of each encoding this package writes. A change to what an
index means is a new version, and a policy trained on another version is refused when loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.cards import NUM_ACTIONS, NUM_CARDS, NUM_IDS, card_name, card_set, names_of
from escoba_env.checks import one_of, quoted
from escoba_env.engine import encode as kernels
from escoba_env.engine.outlook import FACTS, NUM_FACTS
from escoba_env.engine.record import EPISODES
from escoba_env.notation import Move
from escoba_env.rules import (
    CHOICES,
    MAX_POINTS,
    MAX_TARGET,
    MAX_TARGET_SUM,
    POINT_FIELDS,
    make_rules,
)

VERSIONS = {
    "compact": 1,
    "tactical": 2,
    "universal": 1,
    "universal_tactical": 2,
    "planes": 1,
    "history": 1,
}
SPACE_KEY = "escoba_encoding"
"""Attribute of an observation space that says what observations are; see ``Encoding.as_dict``."""
MEMORIES = ("perfect", "visible")
DTYPES = ("float32", "uint8")

PLANE = (4, 10)
"""Shape of a plane: suits by ranks, so that a flat plane is 40 cards by id."""
MOST_TURNS = NUM_IDS
"""Turns of a round under any rules: each plays a card of the pack."""
MOST_IN_HAND = NUM_IDS // 2

_SEATS = {
    2: ("self", "next"),
    3: ("self", "next", "previous"),
    4: ("self", "next", "opposite", "previous"),
}
"""Names of relative seats, by number of players."""

_REMEMBERED = (kernels.CAPTURED, kernels.UNSEEN, kernels.ORO_COUNTS, kernels.SEVEN_COUNTS)
"""Sections that take a memory of which cards have been captured."""


_FLAGS = ("partnership", "building", "open_hands", "napola")
"""Rules that are on or off."""


@dataclass(frozen=True)
class Section:
    """One named part of an observation.

    Attributes:
        name: Name, unique within the encoding.
        start: First column; for ``planes`` the first plane.
        shape: Shape of the part in columns (planes); ``stop - start`` is its product.
        meaning: What its numbers say, in words.
        high: Largest value that any of its numbers can take (lowest is 0; of facts, unbounded).
        scale: Factor by which numbers are multiplied; 1 for zeros and ones.
        kind: ``"cards"`` (a card set by card id), ``"card_numbers"`` (a number for each card id),
            ``"one_hot"``, ``"numbers"`` or ``"facts"``.
        labels: What the entries of the first axis stand for (of ``turn_seats``: of the last);
            empty if it is a single one or turns.
    """

    name: str
    start: int
    shape: tuple[int, ...]
    meaning: str
    high: float
    scale: float
    kind: str = "numbers"
    labels: tuple[str, ...] = ()

    @property
    def stop(self) -> int:
        """One past the last column (plane)."""
        return self.start + int(np.prod(self.shape))

    @property
    def slice(self) -> slice:
        """The section's columns: ``observation[section.slice]``; for ``planes`` its planes."""
        return slice(self.start, self.stop)


@dataclass(frozen=True)
class _Part:
    """A section before it is given its place."""

    index: int  # which section of the kernels
    name: str
    meaning: str
    kind: str = "numbers"
    lead: tuple[int, ...] = ()  # shape; of cards, how many card sets
    labels: tuple[str, ...] = ()
    most: float = 1
    unit: float = 1
    values: tuple[float, ...] = ()  # of a section of rules: its constants

    @property
    def by_card(self) -> bool:
        """Whether its last axis is the card ids."""
        return self.kind in ("cards", "card_numbers")


class Encoding:
    """The layout of one observation for given rules.

    ``compact``
        The sections that these rules can use.
    ``tactical``
        ``compact`` followed by the section ``facts`` of shape (43, ``NUM_FACTS``): facts that
        follow from each legal action.
    ``universal``, ``universal_tactical``
        Every section, the rules among them, in one shape with one meaning for all rules, numbers
        of players and episodes; the latter with ``facts`` last.
    ``planes``
        ``compact`` as an image of shape (planes, 4, 10), suits by ranks. A card set is a plane; a
        number fills one, as does each joker of a card set.
    ``history``
        ``compact`` and every turn of the round so far, oldest first: everything public that has
        happened in the round. Of earlier rounds of a match it knows the scores alone; a deal that
        the rule ``redeal`` took back is no part of the round.

    Seats are relative: the observer, the *next* seat to its right, the *opposite* one, the
    *previous* one. Where a section has room for four seats and fewer play (``universal``), those
    that are absent are zeros: three players are observer, next and previous, and of two players the
    other one is *next*, the one who replies.

    With memory ``perfect`` every card that has been seen is known. With memory ``visible`` a seat
    sees what lies there and remembers nothing: of what has been captured, by itself too, it sees
    how many cards each pile has. Left out are ``captured``, ``unseen``, ``oro_counts`` and
    ``seven_counts``, and facts take every card out of sight to be possibly in the next hand.
    ``history`` is memory itself and so always ``perfect``.

    Args:
        name: One of ``VERSIONS``.
        rules: A preset's name, a ``Rules`` or a mapping of fields.
        episode: ``"round"`` or ``"match"``; a match adds the section ``scores``.
        memory: ``"perfect"`` or ``"visible"``.
        dtype: ``"float32"``, in which numbers are scaled to about 1, or ``"uint8"``, in which they
            are written as they are (``scale`` is 1).

    Attributes:
        name: As given.
        version: Version of the encoding.
        rules: The rules of the table.
        episode: As given.
        memory: As given.
        dtype: NumPy type of an observation.
        shape: Shape of an observation: (columns,), or (planes, 4, 10).
        sections: The sections, in the order of their columns.
        card_width: Number of card ids in a card set: 40, or 42 with jokers and in ``universal``.
        plan: The layout as the kernels read it, an array of one ``engine.encode.PLAN``.

    Raises:
        ValueError: If an argument is unknown, if ``history`` is asked for with memory
            ``visible``, or ``uint8`` for a section that has other numbers than 0 to 255.
    """

    def __init__(
        self,
        name: str,
        rules: Any,
        episode: str = "round",
        memory: str = "perfect",
        dtype: str = "float32",
    ) -> None:
        rules = make_rules(rules)
        one_of("encoding", name, VERSIONS)
        one_of("episode", episode, EPISODES)
        one_of("memory", memory, MEMORIES)
        one_of("dtype", dtype, DTYPES)
        if name == "history" and memory == "visible":
            raise ValueError(
                "encoding 'history' is not possible with memory='visible': the turns that it "
                "lists say which cards have been captured; allowed: memory 'perfect'"
            )
        self.name = name
        self.version = VERSIONS[name]
        self.rules = rules
        self.episode = episode
        self.memory = memory
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._universal = name.startswith("universal")
        self.card_width = NUM_IDS if rules.jokers or self._universal else NUM_CARDS
        self.sections, self.plan = self._lay_out()
        self.shape: tuple[int, ...] = (self.sections[-1].stop, *(PLANE if self._is_planes else ()))

    @property
    def _is_planes(self) -> bool:
        return self.name == "planes"

    @property
    def size(self) -> int:
        """Number of values of an observation."""
        return int(np.prod(self.shape))

    @property
    def low(self) -> NDArray[Any]:
        """Lowest value of each entry, an array of the encoding's shape and dtype."""
        low = np.zeros(self.shape, self.dtype)
        for section in self.sections:
            if section.kind == "facts":
                # Worth taken minus the expected reply.
                low[section.slice] = -np.inf
        return low

    @property
    def high(self) -> NDArray[Any]:
        """Highest value of each entry, as :attr:`low`; infinite where unbounded."""
        high = np.empty(self.shape, self.dtype)
        for section in self.sections:
            high[section.slice] = section.high
        return high

    def __repr__(self) -> str:
        options = {"episode": self.episode, "memory": self.memory, "dtype": str(self.dtype)}
        default = {"episode": "round", "memory": "perfect", "dtype": "float32"}
        parts = [f", {key}={value!r}" for key, value in options.items() if value != default[key]]
        return f"Encoding({self.name!r}, {self.rules!r}{''.join(parts)})"

    def as_dict(self) -> dict[str, Any]:
        """Returns what the encoding is made of as plain values, for :meth:`from_dict`."""
        return {
            "name": self.name,
            "version": self.version,
            "rules": self.rules.as_dict(),
            "episode": self.episode,
            "memory": self.memory,
            "dtype": str(self.dtype),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Encoding:
        """Makes the encoding that :meth:`as_dict` described.

        Raises:
            ValueError: If this version does not write it.
        """
        arguments = {key: value for key, value in content.items() if key != "version"}
        try:
            encoding = cls(**arguments)
        except TypeError as error:
            raise ValueError(f"encoding {dict(content)!r:.200} is not possible: {error}") from None
        if content.get("version") != encoding.version:
            raise ValueError(
                f"encoding {encoding.name!r} is of version {content.get('version')!r}; this "
                f"version writes {encoding.version}"
            )
        return encoding

    def layout(self) -> dict[str, Section]:
        """Returns every section by name, in the order of their columns."""
        return {section.name: section for section in self.sections}

    # -- in words ---------------------------------------------------------------------------

    def describe(self, observation: NDArray[Any]) -> str:
        """Says in words what an observation holds: a line for each section, and for each turn.

        Args:
            observation: Array of the encoding's shape.

        Raises:
            ValueError: If it is no array of numbers, or of another shape.
        """
        given: object = observation
        if not isinstance(given, np.ndarray) or given.shape != self.shape:
            found = given.shape if isinstance(given, np.ndarray) else type(given).__name__
            raise ValueError(
                f"observation {found} is not one of encoding {quoted(self.name)}; "
                f"allowed: an array of shape {self.shape}"
            )
        if given.dtype.kind not in "biuf" or not np.isfinite(given).all():
            raise ValueError(f"observation of {given.dtype} is not finite; allowed: finite numbers")
        values = {s.name: self._values_of(s, observation) for s in self.sections}
        lines = [
            f"{section.name}: {_in_words(section, values[section.name])}"
            for section in self.sections
            if not section.name.startswith("turn_")
        ]
        if "turn_seats" in values:
            lines += _turns_in_words(values, self.layout()["turn_seats"].labels)
        return "\n".join(lines)

    def _values_of(self, section: Section, observation: NDArray[Any]) -> NDArray[Any]:
        """A section as if there were no planes: card sets by card id, numbers one by one."""
        values = observation[section.slice]
        if not self._is_planes:
            return values.reshape(section.shape)
        if section.kind not in ("cards", "card_numbers"):
            return values[:, 0, 0].reshape(section.shape)
        sets = values.reshape(-1, 1 + self.card_width - NUM_CARDS, NUM_CARDS)
        by_card = np.concatenate([sets[:, 0], sets[:, 1:, 0]], axis=1)
        return by_card if section.labels else by_card[0]

    # -- layout -----------------------------------------------------------------------------

    def _lay_out(self) -> tuple[tuple[Section, ...], NDArray[np.void]]:
        """Gives every part its place."""
        parts = list(self._parts())
        if self._is_planes:
            # The kernel spreads numbers over their planes from one of these on.
            parts.sort(key=lambda part: not part.by_card)
        step = NUM_CARDS if self._is_planes else 1
        array = np.zeros(1, kernels.PLAN)
        plan = array[0]
        plan["offsets"] = -1
        plan["scales"] = 1
        sections: list[Section] = []
        constants: list[float] = []
        for part in parts:
            start = sections[-1].stop if sections else 0
            if plan["offsets"][part.index] < 0:
                plan["offsets"][part.index] = start * step
            if self.dtype == np.uint8 and part.most > np.iinfo(np.uint8).max:
                raise ValueError(
                    f"dtype 'uint8' is not possible for section {quoted(part.name)} of encoding "
                    f"{quoted(self.name)}, which has other numbers than 0 to 255; allowed: "
                    "'float32'"
                )
            unit = 1 if self.dtype == np.uint8 else part.unit
            plan["scales"][part.index] = 1 / unit
            scale = float(plan["scales"][part.index])
            constants += [value * scale for value in part.values]
            shape = self._shape_of(part)
            high = part.most * scale
            sections.append(
                Section(part.name, start, shape, part.meaning, high, scale, part.kind, part.labels)
            )
            if self._is_planes and part.by_card:
                plan["spread_from"] = sections[-1].stop * step
        size = sections[-1].stop
        players = self.rules.players
        plan["width"] = self.card_width
        plan["step"] = step
        plan["spread_to"] = size * step if self._is_planes else 0
        plan["seats"] = len(self._seats)
        plan["slots"][:players] = [self._seats.index(seat) for seat in _SEATS[players]]
        plan["scored"] = players if self._universal else self.rules.num_sides
        plan["turns"] = self.rules.turns
        plan["forgetful"] = self.memory == "visible"
        if self._universal:
            plan["rules"] = constants
            if players < len(self._seats):
                plan["clear"] = size - NUM_ACTIONS * NUM_FACTS * (sections[-1].kind == "facts")
        return tuple(sections), array

    def _shape_of(self, part: _Part) -> tuple[int, ...]:
        if not part.by_card:
            return part.lead or (1,)
        if not self._is_planes:
            return (*part.lead, self.card_width)
        jokers = self.card_width - NUM_CARDS
        return (*part.lead, 1 + jokers) if jokers else part.lead or (1,)

    @property
    def _seats(self) -> tuple[str, ...]:
        return _SEATS[4 if self._universal else self.rules.players]

    def _parts(self) -> Iterator[_Part]:
        """Yields the parts of this encoding, in order."""
        parts = [*self._card_parts(), *self._number_parts()]
        if self.memory == "visible":
            parts = [part for part in parts if part.index not in _REMEMBERED]
        yield from parts
        if self._universal:
            yield from self._rule_parts()
        if self.name == "history":
            yield from self._turn_parts()
        if self.name.endswith("tactical"):
            meaning = "facts that follow from each action: " + "; ".join(FACTS)
            shape = (NUM_ACTIONS, NUM_FACTS)
            yield _Part(kernels.FACTS, "facts", meaning, "facts", shape, most=np.inf)

    def _card_parts(self) -> Iterator[_Part]:
        """Yields the parts that say where cards are, and ``placing`` beside the piles."""
        rules, seats, everything = self.rules, self._seats, self._universal
        for index, name, meaning in (
            (kernels.HAND, "hand", "own cards in hand"),
            (kernels.TABLE, "table", "face-up cards on the table"),
            (kernels.PLAYED, "played", "hand card chosen this turn, by whoever moves"),
            (kernels.PICKED, "picked", "table cards picked so far this turn"),
        ):
            yield _Part(index, name, meaning, "cards")
        meaning = "cards captured by each seat"
        yield _Part(kernels.CAPTURED, "captured", meaning, "cards", (len(seats),), seats)
        yield _Part(kernels.UNSEEN, "unseen", "cards in other hands or in the stock", "cards")
        if everything or rules.initial_table == "set_aside":
            meaning = "first table cards out of the round"
            yield _Part(kernels.SET_ASIDE, "set_aside", meaning, "cards")
        if everything or rules.building:
            meaning = "total of each pile, at the lowest card in it"
            # A card above the target may lie there too.
            whole, most = rules.target_sum, max(rules.target_sum, 10)
            if everything:
                meaning += "; without building every card is a pile"
                whole, most = 15, MAX_TARGET_SUM
            kind = "card_numbers"
            yield _Part(kernels.PILE_TOTALS, "pile_totals", meaning, kind, most=most, unit=whole)
            meaning = "for each card on the table, 1 + the lowest card id in its pile"
            ids = self.card_width
            yield _Part(kernels.PILE_HEADS, "pile_heads", meaning, kind, most=ids, unit=ids)
            meaning = "the chosen card does not capture: its place is asked for"
            yield _Part(kernels.PLACING, "placing", meaning)
        if everything or rules.open_hands:
            closed = " (zeros unless hands are open)" if everything else ""
            meaning = f"cards in each other seat's hand{closed}"
            others = seats[1:]
            yield _Part(kernels.OPEN_HANDS, "open_hands", meaning, "cards", (len(others),), others)

    def _number_parts(self) -> Iterator[_Part]:
        """Yields the parts that count, and those that say which seat has which role."""
        rules, seats = self.rules, self._seats
        oros = sum(card < 10 for card in range(NUM_CARDS) if rules.pack >> card & 1)
        sevens = sum(card % 10 == 6 for card in range(NUM_CARDS) if rules.pack >> card & 1)
        hand, most_in_hand = rules.hand_size, rules.hand_size
        size, most_cards = rules.pack_size, rules.pack_size
        deals, most_deals = rules.deals, rules.deals
        escobas = rules.turns
        if rules.initial_table in ("dealer", "eldest"):
            escobas += 2
        if self._universal:
            # Those of the usual pack, so that a number means the same under all rules.
            hand, most_in_hand = 3, MOST_IN_HAND
            size, most_cards = NUM_CARDS, NUM_IDS
            deals, most_deals = 6, MOST_TURNS // 2
            oros, sevens, escobas = 10, 4, MOST_TURNS
        for index, name, meaning, most, unit in (
            (kernels.HAND_COUNTS, "hand_counts", "cards in each hand", most_in_hand, hand),
            (kernels.CARD_COUNTS, "card_counts", "cards captured by each seat", most_cards, size),
            (kernels.ORO_COUNTS, "oro_counts", "oros captured by each seat", oros, oros),
            (kernels.SEVEN_COUNTS, "seven_counts", "sevens captured by each seat", sevens, sevens),
            (kernels.ESCOBAS, "escobas", "escobas of each seat", escobas, 4),
        ):
            # A pack may have no oro or no seven.
            if most:
                shape = (len(seats),)
                yield _Part(index, name, meaning, "numbers", shape, seats, most, unit)
        for index, name, meaning in (
            (kernels.LAST_CAPTURER, "last_capturer", "seat that captured last (none: all zeros)"),
            (kernels.DEALER, "dealer", "seat that dealt"),
            (kernels.TO_MOVE, "to_move", "seat to move (over: all zeros)"),
        ):
            yield _Part(index, name, meaning, "one_hot", (len(seats),), seats)
        meaning = "deals of hands still to come this round"
        yield _Part(kernels.DEALS_LEFT, "deals_left", meaning, most=most_deals, unit=deals)
        if self._universal or self.episode == "match":
            owners, meaning = seats, "match score of each seat's side, as a share of the target"
            if not self._universal:
                owners = seats if rules.num_sides == len(seats) else ("own", "other")
                meaning = "match score of each side, own side first"
            shape, target = (len(owners),), rules.match_target
            yield _Part(kernels.SCORES, "scores", meaning, "numbers", shape, owners, np.inf, target)

    def _rule_parts(self) -> Iterator[_Part]:
        """Yields the rules themselves: constants, in the order of the kernels' ``RULES``."""
        rules, index = self.rules, kernels.RULES
        values = tuple(float(rules.pack >> card & 1) for card in range(NUM_IDS))
        meaning = "cards of the pack, jokers included"
        yield _Part(index, "rules_pack", meaning, "cards", values=values)
        choices: dict[str, tuple[Any, ...]] = {"players": (2, 3, 4), **CHOICES}
        for name, allowed in choices.items():
            values = tuple(float(getattr(rules, name) == choice) for choice in allowed)
            labels, shape = tuple(map(str, allowed)), (len(allowed),)
            meaning = f"rule {name}"
            yield _Part(index, f"rules_{name}", meaning, "one_hot", shape, labels, values=values)
        flags = {name: getattr(rules, name) for name in _FLAGS}
        flags["match"] = self.episode == "match"
        meaning = "rules that are on, and whether a match is played"
        labels, shape = tuple(flags), (len(flags),)
        values = tuple(map(float, flags.values()))
        yield _Part(index, "rules_flags", meaning, "numbers", shape, labels, values=values)
        values = tuple(float(getattr(rules, name)) for name in POINT_FIELDS)
        shape, meaning, most = (len(POINT_FIELDS),), "points of each category", MAX_POINTS
        yield _Part(
            index, "rules_points", meaning, "numbers", shape, POINT_FIELDS, most, values=values
        )
        for name, meaning, value, most, unit in (
            ("hand_size", "cards dealt to each seat at a time", rules.hand_size, MOST_IN_HAND, 3),
            ("table_size", "cards dealt to the table first", rules.table_size, NUM_CARDS, 4),
            ("target_sum", "the total that a capture makes", rules.target_sum, MAX_TARGET_SUM, 15),
            ("target", "points that end a match", rules.match_target, MAX_TARGET, 21),
        ):
            values = (float(value),)
            yield _Part(index, f"rules_{name}", meaning, most=most, unit=unit, values=values)

    def _turn_parts(self) -> Iterator[_Part]:
        """Yields the parts of ``history`` that ``compact`` lacks."""
        rules, turns = self.rules, self.rules.turns
        meaning = "cards that were dealt to the table"
        yield _Part(kernels.FIRST_TABLE, "first_table", meaning, "cards")
        if rules.initial_table in ("dealer", "eldest"):
            meaning = f"first table cards that the {rules.initial_table} won with the deal"
            yield _Part(kernels.WON_WITH_DEAL, "won_with_deal", meaning, "cards")
        meaning = "cards that the last capturer was given at the end of the round"
        yield _Part(kernels.LEFTOVERS, "leftovers", meaning, "cards")
        seats, shape = self._seats, (turns, len(self._seats))
        meaning = "for each turn, oldest first, the seat that played (still to come: all zeros)"
        yield _Part(kernels.TURN_SEATS, "turn_seats", meaning, "one_hot", shape, seats)
        for index, name, meaning in (
            (kernels.TURN_CARDS, "turn_cards", "card played in each turn"),
            (kernels.TURN_CAPTURES, "turn_captures", "table cards captured in each turn"),
            (kernels.TURN_PILES, "turn_piles", "pile that the card of each turn was set on"),
        ):
            if index != kernels.TURN_PILES or rules.building:
                yield _Part(index, name, meaning, "cards", (turns,))
        meaning = "whether each turn was an escoba that scores"
        yield _Part(kernels.TURN_ESCOBAS, "turn_escobas", meaning, lead=(turns,))


def _in_words(section: Section, values: NDArray[Any]) -> str:
    if section.kind == "facts":
        return _describe_facts(values)
    if section.kind == "one_hot":
        return " ".join(section.labels[i] for i in np.flatnonzero(values)) or "-"
    if section.kind == "card_numbers":
        cards = np.flatnonzero(values)
        pairs = [f"{card_name(int(card))} {values[card] / section.scale:g}" for card in cards]
        return ", ".join(pairs) or "-"
    if section.kind == "cards":
        texts = [names_of(_cards_of(row)) or "-" for row in values.reshape(-1, values.shape[-1])]
    else:
        texts = [f"{value / section.scale:g}" for value in values]
    if section.labels:
        texts = [f"{name} {text}" for name, text in zip(section.labels, texts, strict=True)]
    return ", ".join(texts)


def _turns_in_words(values: dict[str, NDArray[Any]], seats: tuple[str, ...]) -> Iterator[str]:
    """Yields a line for each turn that has been played."""
    for turn, seat in enumerate(values["turn_seats"]):
        if seat.any():
            card, taken, onto = (
                _cards_of(values[name][turn]) if name in values else 0
                for name in ("turn_cards", "turn_captures", "turn_piles")
            )
            move = Move(card.bit_length() - 1, taken, 0 if taken else onto) if card else "?"
            escoba = ", escoba" if values["turn_escobas"][turn] else ""
            yield f"turn {turn + 1}: {seats[int(seat.argmax())]} {move}{escoba}"


def _cards_of(values: NDArray[Any]) -> int:
    return card_set(int(card) for card in np.flatnonzero(values))


def _describe_facts(values: NDArray[Any]) -> str:
    rows = []
    for action in np.flatnonzero(values[:, 0]):
        name = card_name(int(action)) if action < NUM_IDS else "lay"
        rows.append(f"{name} [{' '.join(f'{value:.2f}' for value in values[action])}]")
    return ", ".join(rows) or "-"
