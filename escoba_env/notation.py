"""``Move``, a whole turn, and how actions and moves are written.

``7o`` lays the seven of oros (or, where a capture remains to be chosen, begins one), and
``7o:5c+3b`` captures the five of copas and the three of bastos with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from escoba_env.cards import LAY, card_name, card_set, names_of, parse_card, parse_cards


@dataclass(frozen=True, order=True)
class Move:
    """A whole turn: the card played, and the cards it captures.

    Attributes:
        card: Id of the card played from hand.
        taken: Card set taken from the table; 0 if the card is laid.
    """

    card: int
    taken: int = 0

    def __str__(self) -> str:
        return self.text()

    def text(self, faces: str = "spanish") -> str:
        """Writes the move, such as ``7o`` or ``7o:5c+3b``."""
        name = card_name(self.card, faces)
        return f"{name}:{names_of(self.taken, faces, '+')}" if self.taken else name


def parse_move(text: str) -> Move:
    """Reads a move as :meth:`Move.text` writes it with Spanish faces.

    Raises:
        ValueError: If the text is not a move.
    """
    card, colon, taken = text.strip().partition(":")
    if colon and not taken:
        raise ValueError(f"move {text!r} names no captured card after ':'; allowed: 7o or 7o:5c+3b")
    move = Move(parse_card(card), card_set(parse_cards(taken.replace("+", " "))))
    if move.taken >> move.card & 1:
        raise ValueError(f"move {text!r} captures the card that it plays")
    return move


def action_name(action: int, faces: str = "spanish") -> str:
    """Names an action: a card, or ``lay``."""
    return "lay" if action == LAY else card_name(action, faces)
