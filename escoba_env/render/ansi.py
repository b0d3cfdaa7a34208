"""A game or a view as text, for a terminal, a log or a test.

Reads a game record and says what is in it; it knows no rule of the game.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from escoba_env.cards import card_name, card_set, names_of
from escoba_env.engine.record import AT_END, GAME_OVER, NOBODY, TWELFTHS
from escoba_env.notation import Move
from escoba_env.position import logged_move, table_text
from escoba_env.report import side_name
from escoba_env.rules import Rules

OROS = card_set(range(10))
SEVENS = card_set(range(6, 40, 10))


def draw(rules: Rules, episode: str, record: Any, *, faces: str = "spanish", note: str = "") -> str:
    """Writes the table as lines of text: hands, piles, table, last move, turn and scores.

    Args:
        rules: Rules of the table.
        episode: ``"round"`` or ``"match"``.
        record: A game record, or the view of one seat, in which each hidden card is a ``?``.
        faces: ``"spanish"`` or ``"french"``.
        note: A last line to add.
    """
    over = int(record["phase"]) == GAME_OVER
    rows = [("", "hand", "pile", "oros", "sevens", "escobas")]
    for seat in range(rules.players):
        to_move = not over and seat == int(record["turn"])
        pile = int(record["piles"][seat])
        rows.append(
            (
                f"{'>' if to_move else ' '} {seat_name(record, seat)}",
                hand_text(record, seat, faces),
                str(pile.bit_count()),
                str((pile & OROS).bit_count()),
                str((pile & SEVENS).bit_count()),
                str(int(record["escobas"][seat])),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = [headline(rules, episode, record)]
    for row in rows:
        left = [row[column].ljust(widths[column]) for column in (0, 1)]
        right = [row[column].rjust(widths[column]) for column in (2, 3, 4, 5)]
        lines.append("  ".join([*left, *right]))
    facts = {
        "stock": str(stock_count(record)),
        "table": table_text(record, faces, " "),
        "set aside": names_of(record["set_aside"], faces),
        "last move": last_move_text(rules, record, faces),
        "leftovers": leftovers_text(record, faces),
        "to move": turn_text(record, faces),
        "score": score_text(rules, episode, record),
        "note": note,
    }
    lines += [f"  {name.ljust(9)}  {text}" for name, text in facts.items() if text]
    return "\n".join(lines)


def summary(rules: Rules, episode: str, record: Any) -> str:
    """Writes a game or a view on one line, for its ``repr``.

    It tells the rules, the score of a match, whose turn it is, one hand and the table: the hand of
    the seat whose view it is, and of a whole game that of the seat to move.
    """
    viewer = int(record["viewer"])
    seat = int(record["turn"]) if viewer == NOBODY else viewer
    parts = []
    if int(record["phase"]) == GAME_OVER:
        parts.append(f"over, {score_text(rules, episode, record)}")
    else:
        if episode == "match":
            parts.append(f"round {int(record['round_index']) + 1}")
            parts.append(f"score {score_text(rules, episode, record)}")
        chosen = turn_text(record, "spanish")
        parts.append(chosen if "," in chosen else f"{chosen} to move")
        of_seat = "" if viewer == NOBODY else f" of player_{seat}"
        parts.append(f"hand{of_seat} {hand_text(record, seat, 'spanish')}")
        parts.append(f"table {table_text(record, separator=' ')}")
        parts.append(f"{stock_count(record)} in the stock")
    return f"{rules.title}, {episode}: {', '.join(parts)}"


def headline(rules: Rules, episode: str, record: Any) -> str:
    """Says what is being played."""
    if episode == "match":
        return f"Round {int(record['round_index']) + 1} of a match to {rules.match_target}"
    return "One round"


def stock_count(record: Any) -> int:
    """Number of cards that have not been dealt yet."""
    return int(record["stock_size"]) - int(record["stock_next"])


def seat_name(record: Any, seat: int) -> str:
    """Names a seat, the dealer as such."""
    return f"player_{seat}{' (dealer)' if seat == int(record['dealer']) else ''}"


def hand_text(record: Any, seat: int, faces: str) -> str:
    """Names the cards in a hand, ``?`` for each that is hidden."""
    count = int(record["hand_counts"][seat])
    return names_of(record["hands"][seat], faces) or " ".join("?" * count) or "-"


def last_move(record: Any) -> Move | None:
    """The turn that ended last in this round; ``None`` before the first."""
    turn_index = int(record["turn_index"]) - 1
    return logged_move(record, turn_index) if turn_index >= 0 else None


def last_mover(rules: Rules, record: Any) -> int:
    """Seat whose turn ended last in this round."""
    return (int(record["turn"]) - 1) % rules.players


def leftovers(record: Any) -> int:
    """Card set that the last capturer got at the end of the round."""
    return card_set(int(card) for card in np.flatnonzero(record["taken_at"] == AT_END))


def swept_table(record: Any) -> bool:
    """Whether the turn that ended last took every card on the table."""
    move = last_move(record)
    # The leftovers leave an empty table too.
    return move is not None and move.taken != 0 and not record["table"] and not leftovers(record)


def last_move_text(rules: Rules, record: Any, faces: str) -> str:
    """Says who did what in the turn that ended last; empty before the first."""
    move = last_move(record)
    if move is None:
        return ""
    who = f"player_{last_mover(rules, record)}"
    card = card_name(move.card, faces)
    if move.onto:
        return f"{who} set {card} on {names_of(move.onto, faces, '+')}"
    if not move.taken:
        return f"{who} laid {card}"
    sweep = " and swept the table" if swept_table(record) else ""
    return f"{who} took {names_of(move.taken, faces)} with {card}{sweep}"


def leftovers_text(record: Any, faces: str) -> str:
    """Says who got the leftovers of the round; empty before its end."""
    cards = leftovers(record)
    return f"player_{int(record['last_capturer'])} got {names_of(cards, faces)}" if cards else ""


def turn_text(record: Any, faces: str) -> str:
    """Says whose turn it is and what has been picked in it."""
    if int(record["phase"]) == GAME_OVER:
        return "nobody, the game is over"
    who = f"player_{int(record['turn'])}"
    if int(record["played"]) == NOBODY:
        return who
    chosen = f"{who}, has chosen {card_name(int(record['played']), faces)}"
    picked = names_of(record["picked"], faces)
    return f"{chosen} and picked {picked}" if picked else chosen


def score_text(rules: Rules, episode: str, record: Any) -> str:
    """Says the score of each side; empty while a single round goes on."""
    if episode == "match":
        text = _points(rules, record["scores"])
        if int(record["round_index"]) > 0:
            text += f"; last round: {_points(rules, record['round_points'])}"
        return text
    if int(record["phase"]) == GAME_OVER:
        return _points(rules, record["round_points"])
    return ""


def _points(rules: Rules, twelfths: Any) -> str:
    return ", ".join(
        f"{side_name(rules, side)} {int(twelfths[side]) / TWELFTHS:g}"
        for side in range(rules.num_sides)
    )
