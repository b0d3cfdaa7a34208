"""The game record ``STATE`` and the lowered rules ``SPEC`` that every kernel reads.

Card sets are signed 64-bit integers, of which bits 0 to 41 are used: Numba turns a mix of signed
and unsigned integers into floats, so no field is unsigned. Points are counted in twelfths, which
keeps a point split among two, three or four leaders exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from escoba_env.cards import FULL_PACK, NUM_IDS, SEVEN_OF_OROS, cards_in
from escoba_env.checks import one_of
from escoba_env.rules import CHOICES, Rules

TWELFTHS = 12
NOBODY = -1
HIDDEN = -2
"""In a view: a card of the stock whose identity the viewer does not know."""

PLAYING, ROUND_OVER, GAME_OVER = 0, 1, 2

NOT_YET = -1
"""``played_at`` and ``taken_at`` of a card before it is played or taken."""
FROM_START = -2
"""``played_at`` of the first table cards; ``taken_at`` of those that were won with the deal."""
AT_END = 100
"""``taken_at`` of leftovers."""

STATE = np.dtype(
    [
        ("hands", np.int64, (4,)),  # card set in each seat's hand
        ("piles", np.int64, (4,)),  # card set captured by each seat
        ("table", np.int64),  # face-up cards
        ("set_aside", np.int64),  # face-up cards out of this round
        ("heads", np.int64),  # building: the lowest card of each pile on the table
        ("picked", np.int64),  # table cards (building: heads) picked so far this turn
        ("legal", np.int64),  # legal actions, bit per action id (0..42)
        ("seed", np.int64),  # the random stream's key
        ("game_index", np.int64),  # which game of that stream this is
        ("scores", np.int32, (4,)),  # match score of each side, in twelfths of a point
        ("round_points", np.int32, (4,)),  # last finished round's points of each side, twelfths
        ("round_index", np.int32),  # rounds finished before this one
        ("hand_counts", np.int8, (4,)),  # cards in each hand: known to all, kept in views
        ("escobas", np.int8, (4,)),  # escobas of each seat that score
        ("stock", np.int8, (NUM_IDS,)),  # the pack in the order it is dealt
        ("stock_next", np.int8),  # position of the next card to deal
        ("stock_size", np.int8),  # number of cards in the pack
        ("turn", np.int8),  # seat to move
        ("dealer", np.int8),
        ("last_capturer", np.int8),  # seat, or NOBODY
        ("played", np.int8),  # hand card chosen this turn, or NOBODY before that
        ("phase", np.int8),  # PLAYING, ROUND_OVER or GAME_OVER
        ("viewer", np.int8),  # seat whose view this is, or NOBODY for the whole game
        ("turn_index", np.int8),  # turns finished this round
        ("played_at", np.int8, (NUM_IDS,)),  # turn in which a card was played
        ("taken_at", np.int8, (NUM_IDS,)),  # turn in which a card was captured
        ("pile_of", np.int8, (NUM_IDS,)),  # building: head of the pile a card lies in, or lay in
        ("totals", np.int8, (NUM_IDS,)),  # building: total of that pile
        ("placing", np.int8),  # 1: what is left of this turn is where the card is set or laid
    ],
    align=True,
)
# Whole words without padding: equal games are equal bytes.
assert STATE.itemsize == sum(STATE[name].itemsize for name in STATE.names or ())
"""One game. ``np.zeros(n, STATE)`` is room for ``n`` games; a clone is a copy of the bytes."""

_BYTES = np.dtype((np.void, STATE.itemsize))


def copy_records(records: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.void]]:
    """Returns a copy of game records of shape (n,).

    NumPy copies records field by field, which takes thirty times longer than their bytes do.
    """
    return np.frombuffer(bytearray(records.tobytes()), STATE)


def pick_records(records: np.ndarray[Any, Any], index: Any) -> np.ndarray[Any, np.dtype[np.void]]:
    """Returns ``records[index]``, byte for byte like ``copy_records``."""
    picked: np.ndarray[Any, np.dtype[np.void]] = records.view(_BYTES)[index].view(STATE)
    return picked


SPEC = np.dtype(
    [
        ("pack", np.int64),
        ("pack_order", np.int8, (NUM_IDS,)),
        ("pack_size", np.int8),
        ("players", np.int8),
        ("sides", np.int8),
        ("capture", np.int8),
        ("ties", np.int8),
        ("most_cards", np.int32),
        ("most_oros", np.int32),
        ("all_oros", np.int32),
        ("most_sevens", np.int32),
        ("all_sevens", np.int32),
        ("seven_of_oros", np.int32),
        ("setenta", np.int32),
        ("escoba", np.int32),
        ("target", np.int32),
        ("max_rounds", np.int32),  # a match is over after so many rounds, whatever its scores
        ("hand_size", np.int8),
        ("table_size", np.int8),
        ("target_sum", np.int8),
        ("open_hands", np.int8),
        ("building", np.int8),
        ("jokers", np.int8),
        ("initial_table", np.int8),
        ("initial_thirty", np.int8),
        ("capture_by", np.int8),
        ("napola", np.int8),
        ("plain", np.int8),  # 1: neither building nor jokers nor captures by value
        ("match", np.int8),  # 1: rounds go on until the target, 0: one round is the game
        ("worth", np.float64, (NUM_IDS,)),  # rough value of capturing a card, in points
        ("escoba_worth", np.float64),
    ],
    align=True,
)
"""The rules as the kernels read them."""

CAPTURE_OPTIONAL, CAPTURE_CARD, CAPTURE_HAND = range(3)
TIES_NONE, TIES_ALL, TIES_SPLIT = range(3)
TABLE_PLAY, TABLE_DEALER, TABLE_ELDEST, TABLE_SET_ASIDE, TABLE_REDEAL = range(5)
THIRTY_GROUPS, THIRTY_SUM = range(2)
BY_FIFTEEN, BY_VALUE = range(2)

FREE_PILES = 4
"""Building: with fewer piles than this a card may be laid alone (RULES section 3)."""

SETENTA_SCALE = np.array([16, 12, 13, 14, 15, 18, 21, 10, 10, 10], np.int64)
"""Setenta value of each rank, ace first (RULES section 5)."""

EPISODES = ("round", "match")


def lower(rules: Rules, episode: str = "round") -> np.ndarray[Any, np.dtype[Any]]:
    """Lowers rules to the record that the kernels read.

    Args:
        rules: The rules of the table.
        episode: ``"round"``, one round is the whole game, or ``"match"``.

    Returns:
        Array of shape (1,) and dtype ``SPEC``.

    Raises:
        ValueError: If the episode is unknown, or is a match that nobody can ever score in.
    """
    one_of("episode", episode, EPISODES)
    if episode == "match" and not _can_score(rules):
        raise ValueError(
            f"episode='match' is not possible with {rules!r}: nobody can score, so nobody can win; "
            f"allowed: a pack in which a capture is possible, and points for something in it"
        )
    spec = np.zeros(1, SPEC)
    record = spec[0]
    record["pack"] = rules.pack
    record["pack_order"] = HIDDEN
    record["pack_order"][: rules.pack_size] = list(cards_in(rules.pack))
    record["pack_size"] = rules.pack_size
    record["players"] = rules.players
    record["sides"] = rules.num_sides
    for name in CHOICES:
        record[name] = CHOICES[name].index(getattr(rules, name))
    for name in (
        *("most_cards", "most_oros", "all_oros", "most_sevens", "all_sevens", "seven_of_oros"),
        *("setenta", "escoba", "hand_size", "table_size", "target_sum", "open_hands"),
        *("building", "jokers", "napola"),
    ):
        record[name] = getattr(rules, name)
    record["target"] = rules.match_target
    record["max_rounds"] = rules.max_rounds
    record["match"] = episode == "match"
    record["plain"] = not (rules.building or rules.jokers or rules.capture_by == "value")
    record["worth"], record["escoba_worth"] = card_worth(rules)
    return spec


def _can_score(rules: Rules) -> bool:
    """Whether some capture is possible and some category has points."""
    cards = list(cards_in(rules.pack & FULL_PACK))
    # Totals of single cards, and of two cards or more, as bit sets: a capture takes two.
    single, several = 0, 0
    for card in cards:
        value = card % 10 + 1
        several |= (several | single) << value
        single |= 1 << value
    if rules.capture_by == "value":
        possible = len(cards) > 1 and bool(several & single or len(rules.suits) > 1)
    else:
        possible = bool(several >> rules.target_sum & 1) or rules.jokers > 0
    if not possible:
        return False
    has_oros = any(card < 10 for card in cards)
    return bool(
        rules.most_cards
        or rules.setenta
        or rules.escoba
        or (rules.all_oros and has_oros)
        or (rules.napola and {0, 1, 2} <= set(cards))
        or (rules.all_sevens and 7 in rules.ranks)
        or (rules.seven_of_oros and SEVEN_OF_OROS in cards)
    )


def card_worth(rules: Rules) -> tuple[list[float], float]:
    """Estimates what capturing each card is worth, in points of margin.

    A majority is decided by half of its cards, so each of ``n`` cards is worth ``2 / n`` of the
    category's points; a seven of oros is worth its points in full. Used by the ``greedy`` policy
    and by action features, never by the rules.

    Returns:
        The worth of each card id, and of an escoba.
    """
    cards = list(cards_in(rules.pack))
    oros = [card for card in cards if card < 10]
    sevens = [card for card in cards if card < 40 and card % 10 == 6]
    setenta_total = len(rules.suits) * 21
    worth = [0.0] * NUM_IDS
    for card in cards:
        worth[card] += 2 * rules.most_cards / len(cards)
    if rules.napola and {0, 1, 2} <= set(cards):
        # Three points hang on the first three oros, one more on each that goes on.
        for card in range(3):
            worth[card] += 1
    for card in oros:
        worth[card] += 2 * max(rules.most_oros, rules.all_oros / 2) / len(oros)
    for card in sevens:
        worth[card] += 2 * max(rules.most_sevens, rules.all_sevens / 2) / len(sevens)
    if SEVEN_OF_OROS in cards:
        worth[SEVEN_OF_OROS] += rules.seven_of_oros
    for card in cards:
        if card < 40:
            # What the card adds over a figure, as a share of the best total.
            gain = int(SETENTA_SCALE[card % 10]) - 10
            worth[card] += 2 * rules.setenta * gain / setenta_total
    return worth, float(rules.escoba)
