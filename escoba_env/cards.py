"""The pack: ids, names and sets of cards, and the notation that names them.

This file knows what cards are called and how they are numbered, and no rule of the game.

A card id is ``suit * 10 + rank - 1`` with the suits in the order oros, copas, espadas, bastos, and
``40`` and ``41`` for the jokers; ids ``0..41`` are also the first actions of every environment.
A *card set* is a Python ``int`` whose bit ``i`` says that card ``i`` is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from escoba_env.checks import integer, quoted

SUITS = ("oros", "copas", "espadas", "bastos")
SUIT_LETTERS = "oceb"
RANK_LETTERS = "1234567SCR"
FRENCH_SUITS = "♦♥♠♣"
FRENCH_RANKS = "A234567JQK"

NUM_CARDS = 40
NUM_IDS = 42
"""Cards and jokers."""
LAY = 42
"""Action id of *lay / done*: lay the chosen card, or end a joker capture."""
NUM_ACTIONS = 43

JOKERS = (40, 41)
FULL_PACK = (1 << NUM_CARDS) - 1

CARD_NAMES = (*(rank + suit for suit in SUIT_LETTERS for rank in RANK_LETTERS), "J1", "J2")
_FRENCH_NAMES = (*(rank + suit for suit in FRENCH_SUITS for rank in FRENCH_RANKS), "★1", "★2")
_NAMES = {"spanish": CARD_NAMES, "french": _FRENCH_NAMES}
_IDS = {name: card for card, name in enumerate(CARD_NAMES)}

SEVEN_OF_OROS = _IDS["7o"]


def card_name(card: int, faces: str = "spanish") -> str:
    """Names a card: ``7o`` with Spanish faces, ``7♦`` with French ones.

    Args:
        card: A card id, 0 to 41.
        faces: ``"spanish"`` or ``"french"``; a matter of display only.

    Raises:
        ValueError: If there is no such card or no such faces.
    """
    number = integer(card)
    if number is None or not 0 <= number < NUM_IDS:
        raise ValueError(f"card id {quoted(card)} is not a card; card ids are 0 to {NUM_IDS - 1}")
    named: object = faces
    if isinstance(named, str) and named in _NAMES:
        return _NAMES[named][number]
    raise ValueError(f"faces {quoted(faces)} is unknown; it is 'spanish' or 'french'")


def parse_card(name: str) -> int:
    """Reads one card in notation, such as ``7o``, ``Re`` or ``J1``, and returns its id.

    Raises:
        ValueError: If the text names no card.
    """
    try:
        return _IDS[name]
    except (KeyError, TypeError):
        raise ValueError(
            f"{quoted(name)} names no card; a card is one of the ranks {RANK_LETTERS} followed by "
            f"one of the suits {SUIT_LETTERS} (7o, Re), or J1, J2"
        ) from None


def parse_cards(names: str | Iterable[str]) -> list[int]:
    """Reads cards in notation, from a list or from text split by spaces or commas, in order.

    Raises:
        ValueError: If one of them names no card, or a card stands twice.
    """
    given: object = names
    if isinstance(names, str):
        names = names.replace(",", " ").split()
    try:
        names = iter(names)
    except Exception:  # noqa: BLE001 - what libraries raise for tensors of no dimension
        raise ValueError(
            f"cards {quoted(given)} are not possible; allowed: cards in notation, 7o Re"
        ) from None
    cards: list[int] = []
    for name in names:
        card = parse_card(name)
        if card in cards:
            raise ValueError(f"card {name} stands twice in the same list")
        cards.append(card)
    return cards


def card_set(cards: Iterable[int]) -> int:
    """Packs card ids into a card set."""
    bits = 0
    for card in cards:
        bits |= 1 << card
    return bits


def cards_in(bits: int) -> Iterator[int]:
    """Yields the card ids of a card set in ascending order."""
    bits = int(bits)
    while bits > 0:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def names_of(bits: int, faces: str = "spanish", separator: str = " ") -> str:
    """Names every card of a card set, in ascending order of id."""
    return separator.join(card_name(card, faces) for card in cards_in(bits))
