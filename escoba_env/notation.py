"""``Move``, a whole turn, and how actions and moves are written.

``7o`` lays the seven of oros, ``7o:5c+3b`` captures the five of copas and the three of bastos with
it, and ``7o>1c+2e`` (building) sets it on the pile of these two cards.
"""

from __future__ import annotations

from dataclasses import dataclass

from escoba_env.cards import LAY, NUM_IDS, card_name, card_set, names_of, parse_card, parse_cards
from escoba_env.checks import integer, quoted, whole

_FORMS = "7o, 7o:5c+3b or 7o>1c+2e"
_LAST_SET = (1 << NUM_IDS) - 1


@dataclass(frozen=True, order=True, init=False, repr=False)
class Move:
    """A whole turn: the card played, and what is done with it.

    ``Move("7o:5c+3b")`` and ``Move(6, card_set([14, 32]))`` are the same move.

    Args:
        card: Id of the card, or the whole move in notation; see :func:`parse_move`.
        taken: As the attribute.
        onto: As the attribute.

    Attributes:
        card: Id of the card played from hand.
        taken: Card set taken from the table; 0 if nothing is captured.
        onto: Building: card set of the pile that the card is set on; 0 if it is on none.

    Raises:
        ValueError: If the text is not a move, a number is no card or card set, or the card is both
            to capture and to be set on a pile.
    """

    card: int
    taken: int = 0
    onto: int = 0

    def __init__(self, card: int | str, taken: int = 0, onto: int = 0) -> None:
        taken = whole("taken", taken, 0, _LAST_SET, "a card set")
        onto = whole("onto", onto, 0, _LAST_SET, "a card set")
        if isinstance(card, str):
            if taken or onto:
                raise ValueError(
                    f"move {quoted(card)} is in notation; allowed: nothing beside it, or an id"
                )
            card, taken, onto = _parts(card)
        elif taken and onto:
            raise ValueError("taken and onto are both given; allowed: one of them")
        # The class is frozen.
        object.__setattr__(self, "card", whole("card", card, 0, NUM_IDS - 1))
        object.__setattr__(self, "taken", taken)
        object.__setattr__(self, "onto", onto)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Move({self.text()!r})"

    def text(self, faces: str = "spanish") -> str:
        """Writes the move, such as ``7o``, ``7o:5c+3b`` or ``7o>1c+2e``."""
        name = card_name(self.card, faces)
        if self.taken:
            return f"{name}:{names_of(self.taken, faces, '+')}"
        if self.onto:
            return f"{name}>{names_of(self.onto, faces, '+')}"
        return name


def parse_move(text: str) -> Move:
    """Reads a move as :meth:`Move.text` writes it with Spanish faces.

    Raises:
        ValueError: If the text is not a move.
    """
    given: object = text
    if not isinstance(given, str):
        raise ValueError(f"move {quoted(given)} is not text; allowed: {_FORMS}")
    return Move(given)


def _parts(text: str) -> tuple[int, int, int]:
    """Reads the card of a move, the card set that it takes, and the one that it is set on.

    Raises:
        ValueError: If the text is not a move.
    """
    text = text.strip()
    separator = ":" if ":" in text else ">"
    name, found, names = text.partition(separator)
    if found and not names:
        raise ValueError(
            f"move {quoted(text)} names no card after {separator!r}; allowed: {_FORMS}"
        )
    named = card_set(parse_cards(names.replace("+", " ")))
    card = parse_card(name)
    if named >> card & 1:
        raise ValueError(f"move {quoted(text)} names the card that it plays twice")
    return (card, named, 0) if separator == ":" else (card, 0, named)


def action_name(action: int, faces: str = "spanish") -> str:
    """Names an action: a card, or ``lay``.

    Raises:
        ValueError: If there is no such action or no such faces.
    """
    # Asked first: arrays and tensors have an ``==`` of their own.
    return "lay" if integer(action) == LAY else card_name(action, faces)
