"""``Rules``: every choice on which the descriptions of Escoba differ, validated, and the presets.

This file says which rules exist and which values make sense together. What a rule *does* is known
to ``escoba_env.engine`` alone, which reads a lowered copy of these fields.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from escoba_env.cards import FULL_PACK, JOKERS, SUITS, card_set
from escoba_env.checks import flag, integer, quoted

MAX_POINTS = 1000
MAX_TARGET = 100_000
MAX_TARGET_SUM = 60
"""Sums are kept as bits of a 64-bit word in the engine."""


class RulesError(ValueError):
    """Rules that cannot be played: the message names the field, its value and what is allowed."""


def _plain(value: Any, kind: type) -> Any:
    """Returns a whole number of any type as an ``int``, text as it is; ``None`` for what is else.

    ``True == 1`` and ``1.0 == 1``, so it takes more than a comparison to tell what is allowed.
    """
    if kind is int:
        return integer(value)
    return str(value) if isinstance(value, str) else None


def _field(default: Any, meaning: str, allowed: str) -> Any:
    return dataclasses.field(default=default, metadata={"meaning": meaning, "allowed": allowed})


_POINTS = f"a whole number, 0 to {MAX_POINTS}"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of one table. Immutable, hashable, checked when made.

    ``Rules()`` is the preset ``classic``. Use :func:`make_rules` to start from another preset.
    Every field carries its meaning and its allowed values as dataclass metadata.

    Raises:
        RulesError: If a field has an impossible value or two fields do not go together.
    """

    players: int = _field(2, "number of players", "2, 3 or 4")
    partnership: bool = _field(
        False, "seats 0 and 2 play together against 1 and 3", "true or false; true with 4 players"
    )
    capture: str = _field(
        "card",
        "may a player lay a card that could capture: optional, yes; card, no, but any card may be "
        "chosen; hand, a card that can capture must be chosen if there is one",
        "optional, card or hand",
    )
    building: bool = _field(
        False,
        "a card that does not capture is set on a pile of the table, if the two together stay "
        "below fifteen; a pile is captured as one. A card may be laid alone while there are fewer "
        "than four piles. A card that can do neither may not be chosen, unless that is true of "
        "the whole hand: then any is laid as one more pile",
        "true or false",
    )
    initial_table: str = _field(
        "play",
        "what happens when the first table cards make fifteen, or thirty: play, nothing; dealer "
        "or eldest, that seat captures them, an escoba for each fifteen; set_aside, fifteen is "
        "put out of the round; redeal, with fifteen the round is dealt again",
        "play, dealer, eldest, set_aside or redeal",
    )
    initial_thirty: str = _field(
        "groups",
        "what counts as two escobas on the first table: two groups of fifteen, or a sum of thirty",
        "groups or sum",
    )
    ties: str = _field(
        "none",
        "a tie for a majority: nobody scores, every leader scores in full, or the points are split",
        "none, all or split",
    )
    most_cards: int = _field(1, "points for most captured cards", _POINTS)
    most_oros: int = _field(1, "points for most captured oros", _POINTS)
    all_oros: int = _field(
        1, "points instead of most_oros for a side with every oro", "most_oros or more"
    )
    most_sevens: int = _field(1, "points for most captured sevens", _POINTS)
    all_sevens: int = _field(
        1, "points instead of most_sevens for a side with every seven", "most_sevens or more"
    )
    seven_of_oros: int = _field(1, "points for the seven of oros (siete de velo)", _POINTS)
    setenta: int = _field(
        0,
        "points for the best setenta: the best card of each suit, summed (7 is 21, 6 is 18, ace "
        "16, 5 is 15, 4 is 14, 3 is 13, 2 is 12, figures 10); a side without a card of every suit "
        "has none",
        _POINTS,
    )
    escoba: int = _field(1, "points for each escoba (sweep)", _POINTS)
    target: int = _field(21, "points that end a match", f"a whole number, 1 to {MAX_TARGET}")
    partnership_target: int | None = _field(
        None, "points that end a partnership's match; none: target", f"none, or 1 to {MAX_TARGET}"
    )
    jokers: int = _field(
        0,
        "number of jokers in the pack: a joker stands for any value from 1 that completes a "
        "capture, played or taken; a sweep with a joker among its cards is no escoba",
        "0 or 2",
    )
    open_hands: bool = _field(False, "every hand lies face up for everybody", "true or false")
    capture_by: str = _field(
        "fifteen",
        "what a capture is: fifteen, card and table cards total fifteen; value, table cards total "
        "the card's value (Scopa): a single card of that value goes before sums, and the last "
        "card of a round scores no sweep",
        "fifteen or value",
    )
    napola: bool = _field(
        False,
        "a side with ace, 2 and 3 of oros scores the length of its unbroken run of oros from the "
        "ace, a point a card (Scopa)",
        "true or false",
    )
    ranks: tuple[int, ...] = _field(
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
        "ranks of the pack by capture value (8 sota, 9 caballo, 10 rey)",
        "different whole numbers, each 1 to 10",
    )
    suits: tuple[str, ...] = _field(
        SUITS, "suits of the pack", "different names out of oros, copas, espadas, bastos"
    )
    hand_size: int = _field(3, "cards dealt to each player at a time", "a whole number, 1 to 40")
    table_size: int = _field(4, "cards dealt to the table first", "a whole number, 0 to 40")
    target_sum: int = _field(
        15, "the total that a capture makes", f"a whole number, 2 to {MAX_TARGET_SUM}"
    )

    def __post_init__(self) -> None:
        """Checks every field, then what must hold between them."""
        object.__setattr__(self, "ranks", self._members("ranks", int, range(1, 11)))
        object.__setattr__(self, "suits", self._members("suits", str, SUITS))
        self._one_of("players", (2, 3, 4))
        for name in ("partnership", "building", "open_hands", "napola"):
            self._flag(name)
        for name, choices in CHOICES.items():
            self._one_of(name, choices)
        for name in POINT_FIELDS:
            self._whole(name, 0, MAX_POINTS)
        self._whole("target", 1, MAX_TARGET)
        if self.partnership_target is not None:
            self._whole("partnership_target", 1, MAX_TARGET)
        self._one_of("jokers", (0, 2))
        self._whole("hand_size", 1, 40)
        self._whole("table_size", 0, 40)
        self._whole("target_sum", 2, MAX_TARGET_SUM)
        self._check_combinations()

    # -- what follows from the fields -------------------------------------------------------

    @property
    def num_sides(self) -> int:
        """Number of sides that score: 2 for a partnership, else one for each player."""
        return 2 if self.partnership else self.players

    def side_of(self, seat: int) -> int:
        """Returns the side that a seat plays for."""
        return seat % self.num_sides

    @cached_property
    def pack(self) -> int:
        """Card set of the pack, jokers included."""
        suits = [SUITS.index(suit) for suit in self.suits]
        cards = card_set(suit * 10 + rank - 1 for suit in suits for rank in self.ranks)
        return cards | card_set(JOKERS[: self.jokers])

    @property
    def pack_size(self) -> int:
        """Number of cards in the pack, jokers included."""
        return self.pack.bit_count()

    @property
    def deals(self) -> int:
        """Number of times hands are dealt in a round."""
        return (self.pack_size - self.table_size) // (self.players * self.hand_size)

    @property
    def turns(self) -> int:
        """Number of turns in a round (36 with the usual pack)."""
        return self.deals * self.players * self.hand_size

    @property
    def match_target(self) -> int:
        """Points that end a match for the sides as they are."""
        if self.partnership and self.partnership_target is not None:
            return self.partnership_target
        return self.target

    @property
    def max_rounds(self) -> int:
        """Rounds after which a match is over, whatever its scores: 100 a point of the target.

        Every round may be tied, in some small packs by any play, and with optional capture nobody
        need ever capture. A match that is played for points is over long before.
        """
        return 100 * (self.match_target + 10)

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields as plain values, for JSON (tuples as lists); see ``make_rules``."""
        values = dataclasses.asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}

    def changes(self) -> dict[str, Any]:
        """Returns only the fields that differ from the preset ``classic``."""
        default = Rules().as_dict()
        return {key: value for key, value in self.as_dict().items() if value != default[key]}

    def replace(self, **fields: Any) -> Rules:
        """Returns these rules with some fields changed, checked again.

        Raises:
            RulesError: If a field is unknown or the result cannot be played.
        """
        return make_rules(self, **fields)

    @property
    def title(self) -> str:
        """The rules in a few words: the nearest preset, what differs from it, and the players."""
        fields = self.as_dict()
        differing = {name: _differing(fields, preset) for name, preset in PRESETS.items()}
        name, differs = min(differing.items(), key=lambda item: len(item[1]))
        parts = [f"{key}={fields[key]!r}" for key in differs[:MOST_NAMED]]
        if len(differs) > MOST_NAMED:
            parts.append(f"{len(differs) - MOST_NAMED} more")
        changes = f" with {', '.join(parts)}" if parts else ""
        return f"{name}{changes}, {self.players} players{' as partners' * self.partnership}"

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={quoted(value)}" for key, value in self.changes().items())
        return f"Rules({inside})"

    # -- checks -----------------------------------------------------------------------------

    def _refuse(self, name: str, allowed: str | None = None) -> RulesError:
        value = getattr(self, name)
        if allowed is None:
            allowed = self.__dataclass_fields__[name].metadata["allowed"]
        return RulesError(f"rule {name}={quoted(value)} is not possible; allowed: {allowed}")

    def _flag(self, name: str) -> None:
        try:
            value = flag(name, getattr(self, name))
        except ValueError:
            raise self._refuse(name) from None
        object.__setattr__(self, name, value)

    def _one_of(self, name: str, choices: tuple[Any, ...]) -> None:
        value = _plain(getattr(self, name), type(choices[0]))
        if value not in choices:
            raise self._refuse(name)
        object.__setattr__(self, name, value)

    def _whole(self, name: str, low: int, high: int) -> None:
        value = integer(getattr(self, name))
        if value is None or not low <= value <= high:
            raise self._refuse(name)
        object.__setattr__(self, name, value)

    def _members(self, name: str, kind: type, allowed: Any) -> tuple[Any, ...]:
        """Returns a field of the pack in the pack's own order, so that equal packs are equal."""
        value = getattr(self, name)
        if not isinstance(value, list | tuple) or not value:
            raise self._refuse(name)
        items = [_plain(item, kind) for item in value]
        if any(item not in allowed for item in items) or len(set(items)) != len(items):
            raise self._refuse(name)
        return tuple(item for item in allowed if item in items)

    def _always_fifteen(self) -> bool:
        """Whether every choice of first table cards totals ``target_sum``."""
        values = sorted(rank for rank in self.ranks for _ in self.suits)
        lowest, highest = sum(values[: self.table_size]), sum(values[::-1][: self.table_size])
        return not self.jokers and lowest == highest == self.target_sum

    def _check_combinations(self) -> None:
        if self.partnership and self.players != 4:
            raise self._refuse("partnership", f"true only with players=4 (players={self.players})")
        if self.all_oros < self.most_oros:
            raise self._refuse("all_oros", f"at least most_oros={self.most_oros}")
        if self.all_sevens < self.most_sevens:
            raise self._refuse("all_sevens", f"at least most_sevens={self.most_sevens}")
        if self.building and self.jokers:
            raise self._refuse("building", "true only with jokers=0: no source defines both")
        if self.capture_by == "value":
            if self.building:
                raise self._refuse(
                    "building", "true only with capture_by='fifteen': no source defines both"
                )
            if self.jokers:
                raise self._refuse("jokers", "0 with capture_by='value': no source defines both")
            if self.initial_table != "play":
                raise self._refuse(
                    "initial_table", "'play' with capture_by='value': no source defines both"
                )
        if self.initial_table == "redeal" and self._always_fifteen():
            raise self._refuse(
                "initial_table",
                "anything but 'redeal' for a pack of which every first table is fifteen",
            )
        needed = self.table_size + self.players * self.hand_size
        if needed > self.pack_size:
            raise RulesError(
                f"rules ranks={self.ranks!r}, suits={self.suits!r}, players={self.players}, "
                f"hand_size={self.hand_size}, table_size={self.table_size} are not possible "
                f"together: the first deal takes {needed} cards and the pack has "
                f"{self.pack_size}; allowed: table_size + players * hand_size up to the pack's size"
            )


CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "capture": ("optional", "card", "hand"),
        "initial_table": ("play", "dealer", "eldest", "set_aside", "redeal"),
        "initial_thirty": ("groups", "sum"),
        "ties": ("none", "all", "split"),
        "capture_by": ("fifteen", "value"),
    }
)
"""Allowed words of each field that is a choice; the engine numbers them in this order."""

POINT_FIELDS = (
    "most_cards",
    "most_oros",
    "all_oros",
    "most_sevens",
    "all_sevens",
    "seven_of_oros",
    "setenta",
    "escoba",
)
"""Fields that are points."""

_ARGENTINE: dict[str, Any] = {
    "initial_table": "set_aside",
    "most_sevens": 0,
    "all_sevens": 0,
    "setenta": 1,
}

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "classic": {},
        "tabletop": {
            "building": True,
            "all_sevens": 2,
            "target": 15,
            "partnership_target": 30,
        },
        "ludoteka": {"capture": "optional", "initial_table": "dealer", "ties": "all"},
        "argentine": _ARGENTINE,
        "comodines": {**_ARGENTINE, "jokers": 2},
        "escova": {**_ARGENTINE, "target": 31},
        "open_table": {**_ARGENTINE, "open_hands": True},
        "scopa": {
            "capture_by": "value",
            "napola": True,
            "most_sevens": 0,
            "all_sevens": 0,
            "setenta": 1,
            "target": 11,
        },
    }
)
"""Each preset as the fields in which it differs from ``classic``."""

assert Rules().pack == FULL_PACK


MOST_NAMED = 4
"""Fields that ``Rules.title`` names."""


def _differing(fields: Mapping[str, Any], preset: Mapping[str, Any]) -> list[str]:
    """Names of the fields in which rules differ from a preset, but for the players."""
    wanted = {**Rules().as_dict(), **preset}
    return [
        name
        for name, value in fields.items()
        if name not in ("players", "partnership") and value != wanted[name]
    ]


def make_rules(rules: str | Rules | Mapping[str, Any] = "classic", **fields: Any) -> Rules:
    """Makes rules from a preset's name, other rules or a mapping of fields, with some changed.

    Args:
        rules: A name out of ``PRESETS``, a ``Rules``, or a mapping of fields (which may have a
            key ``preset``), as ``Rules.as_dict`` returns it.
        **fields: Fields of ``Rules`` that replace the preset's.

    Raises:
        RulesError: If the preset or a field is unknown, or the result cannot be played.
    """
    base: dict[str, Any]
    if isinstance(rules, Rules):
        base = rules.as_dict()
    elif isinstance(rules, str):
        base = dict(_preset(rules))
    elif isinstance(rules, Mapping):
        base = dict(rules)
        if "preset" in base:
            base = {**_preset(base.pop("preset")), **base}
    else:
        raise RulesError(
            f"rules {quoted(rules)} are of type {type(rules).__name__}; allowed: a preset's name "
            f"({', '.join(PRESETS)}), a Rules or a mapping of fields"
        )
    base.update(fields)
    known = Rules.__dataclass_fields__
    for name in base:
        if name not in known:
            close = difflib.get_close_matches(quoted(name).strip("'"), known, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise RulesError(
                f"rule {quoted(name)}={quoted(base[name])} is unknown{hint}; allowed: "
                f"{', '.join(known)}"
            )
    return Rules(**base)


def _preset(name: Any) -> Mapping[str, Any]:
    if not isinstance(name, str) or name not in PRESETS:
        raise RulesError(f"preset {quoted(name)} is unknown; allowed: {', '.join(PRESETS)}")
    return PRESETS[name]
