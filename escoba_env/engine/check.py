"""Which game records the kernels can take: records that come from a file may hold anything.

The kernels index arrays by what a record says and never check it. This finds the first record among
many that they could not take, in a microsecond a record. ``position.check_position`` checks one
record for all that must agree in it, and says in words what does not.
"""

from __future__ import annotations

from escoba_env.cards import NUM_CARDS, NUM_IDS
from escoba_env.engine.bits import lowest, popcount, single, total
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.play import known_legal
from escoba_env.engine.record import (
    AT_END,
    FROM_START,
    GAME_OVER,
    HIDDEN,
    NOBODY,
    NOT_YET,
    PLAYING,
)


@entry
def first_impossible(spec, states, most_points, most_rounds):
    """Position of the first record that is no possible game or view, or -1.

    Args:
        spec: Lowered rules, dtype ``SPEC``, shape (1,).
        states: Records of dtype ``STATE``, shape (n,), with any content.
        most_points: Highest score, in twelfths.
        most_rounds: Highest number of rounds.
    """
    for i in range(len(states)):
        if not is_possible(spec[0], states[i], most_points, most_rounds):
            return i
    return -1


@kernel
def is_possible(spec, s, most_points, most_rounds):
    """Whether a record is a possible game or view. Each check relies on those before it."""
    return (
        numbers_fit(spec, s, most_points, most_rounds)
        and cards_fit(spec, s)
        and piles_fit(spec, s)
        and hands_fit(spec, s)
        and log_fits(s)
        and legal_fits(spec, s)
    )


@kernel
def numbers_fit(spec, s, most_points, most_rounds):
    """Whether seats, phase, counts and scores are in their ranges."""
    players = spec["players"]
    if not (0 <= s["turn"] < players and 0 <= s["dealer"] < players):
        return False
    if not (NOBODY <= s["last_capturer"] < players and NOBODY <= s["viewer"] < players):
        return False
    # No game stands between two rounds.
    if s["phase"] != PLAYING and s["phase"] != GAME_OVER:
        return False
    if not NOBODY <= s["played"] < NUM_IDS:
        return False
    if s["seed"] < 0 or s["game_index"] < 0:
        return False
    if not (0 <= s["round_index"] <= most_rounds and 0 <= s["turn_index"] <= NUM_IDS):
        return False
    for seat in range(4):
        cards = NUM_CARDS if seat < players else 0
        if not (0 <= s["hand_counts"][seat] <= cards and 0 <= s["escobas"][seat] <= cards):
            return False
        if seat >= players and (s["hands"][seat] or s["piles"][seat]):
            return False
        points = most_points if seat < spec["sides"] else 0
        if not (0 <= s["scores"][seat] <= points and 0 <= s["round_points"][seat] <= points):
            return False
    return True


@kernel
def cards_fit(spec, s):
    """Whether every card of the pack, and no other, is in one place."""
    pack = spec["pack"]
    size = int(s["stock_size"])
    start = int(s["stock_next"])
    if size != spec["pack_size"] or not 0 <= start <= size:
        return False
    if s["table"] & s["set_aside"]:
        return False
    seen = s["table"] | s["set_aside"]
    for seat in range(spec["players"]):
        for cards in (s["hands"][seat], s["piles"][seat]):
            if cards & seen:
                return False
            seen |= cards
    if s["played"] != NOBODY:
        if seen & single(s["played"]):
            return False
        seen |= single(s["played"])
    view = s["viewer"] != NOBODY
    for i in range(NUM_IDS):
        card = int(s["stock"][i])
        if i >= size or view:
            if card != HIDDEN:
                return False
        elif i >= start:
            if not 0 <= card < NUM_IDS or (seen >> card) & 1:
                return False
            seen |= single(card)
        elif card != HIDDEN and (not 0 <= card < NUM_IDS or (pack >> card) & 1 == 0):
            return False
    if seen & ~pack:
        return False
    unseen = 0
    if view:
        unseen = size - start
        for seat in range(spec["players"]):
            if s["hands"][seat] == 0:
                unseen += s["hand_counts"][seat]
    if popcount(seen) + unseen != popcount(pack):
        return False
    if s["placing"] and (spec["building"] == 0 or s["played"] == NOBODY or s["picked"]):
        return False
    if s["placing"] != 0 and s["placing"] != 1:
        return False
    return s["picked"] & ~s["table"] == 0 and (s["picked"] == 0 or s["played"] != NOBODY)


@kernel
def piles_fit(spec, s):
    """Whether heads and totals are those of the piles on the table; no piles without building."""
    if spec["building"] == 0:
        found = s["heads"]
        for card in range(NUM_IDS):
            found |= s["pile_of"][card] | s["totals"][card]
        return found == 0
    heads = 0
    for head in range(NUM_IDS):
        pile = 0
        for card in range(NUM_IDS):
            if s["pile_of"][card] == head:
                pile |= single(card)
        if pile == 0:
            continue
        if lowest(pile) != head:
            return False
        whole = total(pile)
        on_table = pile & s["table"]
        if on_table:
            heads |= single(head)
        if popcount(pile) > 1 and (whole >= spec["target_sum"] or (on_table and on_table != pile)):
            return False
        while pile:
            if s["totals"][lowest(pile)] != whole:
                return False
            pile &= pile - 1
    for card in range(NUM_IDS):
        if not 0 <= s["pile_of"][card] < NUM_IDS:
            return False
    return s["heads"] == heads


@kernel
def hands_fit(spec, s):
    """Whether each hand has its number of cards, and the numbers fit whose turn it is."""
    players = int(spec["players"])
    for seat in range(players):
        hidden = s["viewer"] != NOBODY and s["viewer"] != seat and spec["open_hands"] == 0
        if popcount(s["hands"][seat]) != (0 if hidden else s["hand_counts"][seat]):
            return False
    if s["phase"] != PLAYING:
        left = 0
        for seat in range(players):
            left += s["hand_counts"][seat]
        return left == 0
    # The seat to move and those after it have equally many, then those that moved have one less.
    most = int(s["hand_counts"][s["turn"]]) + (s["played"] != NOBODY)
    before = most
    for i in range(1, players):
        count = int(s["hand_counts"][(s["turn"] + i) % players])
        if count > before or most - count > 1:
            return False
        before = count
    return most >= 1


@kernel
def log_fits(s):
    """Whether the log of the round's turns fits where the cards are."""
    turns = int(s["turn_index"])
    logged = turns
    if s["played"] != NOBODY:
        logged += 1
        if s["played_at"][s["played"]] != turns:
            return False
    seen = 0
    for card in range(NUM_IDS):
        turn = int(s["played_at"][card])
        if turn not in (NOT_YET, FROM_START):
            if not 0 <= turn < logged or (seen >> turn) & 1:
                return False
            seen |= single(turn)
    if seen != single(logged) - 1:
        return False
    piles = s["piles"][0] | s["piles"][1] | s["piles"][2] | s["piles"][3]
    down = s["table"] | s["set_aside"]
    for card in range(NUM_IDS):
        if not card_log_fits(s, card, (piles >> card) & 1, (down >> card) & 1):
            return False
    return True


@kernel
def card_log_fits(s, card, captured, down):
    """Whether what the log says of one card fits where it is.

    Args:
        captured: Whether it lies in some seat's pile.
        down: Whether it lies on the table or is set aside.
    """
    played = int(s["played_at"][card])
    taken = int(s["taken_at"][card])
    if taken == NOT_YET:
        # A pile may hold cards from before the log began, see Game.from_position.
        return card == s["played"] or (played != NOT_YET) == (down == 1)
    if captured == 0:
        return False
    if taken == FROM_START:
        return played == FROM_START
    if taken == AT_END:
        return s["phase"] != PLAYING
    if not 0 <= taken < s["turn_index"]:
        return False
    # The card that captured, and at least one that it took.
    number = 0
    by = NOBODY
    for other in range(NUM_IDS):
        number += s["taken_at"][other] == taken
        if s["played_at"][other] == taken:
            by = other
    if number < 2 or s["taken_at"][by] != taken:
        return False
    return played < taken or by == card


@kernel
def legal_fits(spec, s):
    """Whether the legal actions are those of the position, and there is one where one is due."""
    legal = known_legal(spec, s)
    if s["legal"] != legal:
        return False
    to_move = s["viewer"] == NOBODY or s["viewer"] == s["turn"]
    return legal != 0 or s["phase"] != PLAYING or not to_move
