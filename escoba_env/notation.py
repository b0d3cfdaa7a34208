"""``Move``, a whole turn, and how actions and moves are written.

``7o`` lays the seven of oros, ``7o:5c+3b`` captures the five of copas and the three of bastos with
it, and ``7o>1c+2e`` (building) sets it on the pile of these two cards.
"""

from __future__ import annotations

from dataclasses import dataclass

from escoba_env.cards import LAY, card_name, card_set, names_of, parse_card, parse_cards


@dataclass(frozen=True, order=True)
class Move:
    """A whole turn: the card played, and what is done with it.

    Attributes:
        card: Id of the card played from hand.
        taken: Card set taken from the table; 0 if nothing is captured.
        onto: Building: card set of the pile that the card is set on; 0 if it is on none.
    """

    card: int
    taken: int = 0
    onto: int = 0

    def __str__(self) -> str:
        return self.text()

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
        raise ValueError(f"move {given!r} is not text; allowed: 7o, 7o:5c+3b or 7o>1c+2e")
    text = given.strip()
    separator = ":" if ":" in text else ">"
    card, found, cards = text.partition(separator)
    if found and not cards:
        raise ValueError(
            f"move {text!r} names no card after {separator!r}; allowed: 7o, 7o:5c+3b or 7o>1c+2e"
        )
    named = card_set(parse_cards(cards.replace("+", " ")))
    move = Move(parse_card(card), *((named, 0) if separator == ":" else (0, named)))
    if named >> move.card & 1:
        raise ValueError(f"move {text!r} names the card that it plays twice")
    return move


def action_name(action: int, faces: str = "spanish") -> str:
    """Names an action: a card, or ``lay``."""
    return "lay" if action == LAY else card_name(action, faces)
