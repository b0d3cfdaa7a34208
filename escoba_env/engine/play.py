"""Deals, legality, turns and the end of a round, for one game record.

A turn is one or more picks by the same seat: first the hand card, then, only where a choice is
left, table cards until one capture remains (or ``LAY``). Picks are taken in any order and the turn
completes itself as soon as a single completion is left.
"""

from __future__ import annotations

from escoba_env.cards import LAY
from escoba_env.engine.bits import VALUES, lowest, popcount, single, total
from escoba_env.engine.jit import kernel
from escoba_env.engine.record import (
    AT_END,
    CAPTURE_HAND,
    CAPTURE_OPTIONAL,
    FROM_START,
    GAME_OVER,
    HIDDEN,
    NOBODY,
    NOT_YET,
    PLAYING,
    ROUND_OVER,
)
from escoba_env.engine.rng import random_dealer, shuffle
from escoba_env.engine.score import add_round, winner_of

RANDOM_DEALER = -1


# -- captures -------------------------------------------------------------------------------


@kernel
def reachable(cards, limit):
    """Totals up to ``limit`` that subsets of ``cards`` make, as a bit set (bit 0: none taken)."""
    sums = 1
    while cards:
        sums |= sums << VALUES[lowest(cards)]
        cards &= cards - 1
    return sums & ((1 << (limit + 1)) - 1)


@kernel
def completions(cards, need):
    """Union of all subsets of ``cards`` that total ``need``; 0 if there is none.

    Values are positive, so a single subset is left exactly when the union itself totals ``need``.
    """
    if need <= 0 or (reachable(cards, need) >> need) & 1 == 0:
        return 0
    union = 0
    rest = cards
    while rest:
        card = lowest(rest)
        bit = rest & -rest
        rest ^= bit
        value = VALUES[card]
        if value <= need and (reachable(cards ^ bit, need - value) >> (need - value)) & 1:
            union |= bit
    return union


@kernel
def capturing_cards(spec, hand, table):
    """Cards of a hand that can capture from a table."""
    sums = reachable(table, spec["target_sum"])
    result = 0
    rest = hand
    while rest:
        need = spec["target_sum"] - VALUES[lowest(rest)]
        if need > 0 and (sums >> need) & 1:
            result |= rest & -rest
        rest &= rest - 1
    return result


@kernel
def playable_cards(spec, hand, table):
    """Cards of a hand that may be chosen at the start of a turn."""
    if spec["capture"] == CAPTURE_HAND:
        able = capturing_cards(spec, hand, table)
        if able:
            return able
    return hand


@kernel
def legal_picks(spec, s):
    """Legal actions of a game in play, from its hands, table and the picks so far."""
    if s["played"] == NOBODY:
        return playable_cards(spec, s["hands"][s["turn"]], s["table"])
    picked = s["picked"]
    need = spec["target_sum"] - VALUES[s["played"]] - total(picked)
    legal = completions(s["table"] ^ picked, need)
    if spec["capture"] == CAPTURE_OPTIONAL and picked == 0:
        legal |= single(LAY)
    return legal


# -- deals ----------------------------------------------------------------------------------


@kernel
def deal_hands(spec, s):
    """Deals ``hand_size`` cards to every seat, as one block each, beginning with the eldest."""
    players = spec["players"]
    for i in range(players):
        seat = (s["dealer"] + 1 + i) % players
        hand = 0
        for _ in range(spec["hand_size"]):
            hand |= single(s["stock"][s["stock_next"]])
            s["stock_next"] += 1
        s["hands"][seat] = hand
        s["hand_counts"][seat] = spec["hand_size"]


@kernel
def deal_round(spec, s):
    """Starts a round from the stock as it lies: hands, then the table, the eldest to move."""
    s["set_aside"] = 0
    s["picked"] = 0
    s["played"] = NOBODY
    s["last_capturer"] = NOBODY
    s["phase"] = PLAYING
    s["stock_next"] = 0
    s["stock_size"] = spec["pack_size"]
    s["turn_index"] = 0
    for card in range(len(s["played_at"])):
        s["played_at"][card] = NOT_YET
        s["taken_at"][card] = NOT_YET
    for seat in range(4):
        s["piles"][seat] = 0
        s["escobas"][seat] = 0
        s["hands"][seat] = 0
        s["hand_counts"][seat] = 0
    deal_hands(spec, s)
    table = 0
    for _ in range(spec["table_size"]):
        card = s["stock"][s["stock_next"]]
        s["stock_next"] += 1
        s["played_at"][card] = FROM_START
        table |= single(card)
    s["table"] = table
    s["turn"] = (s["dealer"] + 1) % spec["players"]
    s["legal"] = playable_cards(spec, s["hands"][s["turn"]], table)


@kernel
def shuffle_stock(spec, s):
    """Puts the pack into the stock in the random order of this game's round."""
    for i in range(len(s["stock"])):
        s["stock"][i] = spec["pack_order"][i]
    shuffle(s["stock"], spec["pack_size"], s["seed"], s["game_index"], s["round_index"], 0)


@kernel
def new_game(spec, s, seed, game_index, dealer):
    """Starts a game: scores at nil, the first dealer drawn unless given, the first round dealt."""
    s["seed"] = seed
    s["game_index"] = game_index
    s["round_index"] = 0
    s["viewer"] = NOBODY
    for side in range(4):
        s["scores"][side] = 0
        s["round_points"][side] = 0
    if dealer == RANDOM_DEALER:
        dealer = random_dealer(seed, game_index, spec["players"])
    s["dealer"] = dealer
    shuffle_stock(spec, s)
    deal_round(spec, s)


@kernel
def next_round(spec, s):
    """Starts the next round of a match: the deal passes one seat to the right."""
    s["round_index"] += 1
    s["dealer"] = (s["dealer"] + 1) % spec["players"]
    shuffle_stock(spec, s)
    deal_round(spec, s)


# -- turns ----------------------------------------------------------------------------------


@kernel
def capture(s, taken):
    """Ends a turn with a capture of the card sets played and ``taken``."""
    seat = s["turn"]
    cards = taken | single(s["played"])
    s["piles"][seat] |= cards
    s["table"] &= ~taken
    s["last_capturer"] = seat
    if s["table"] == 0:
        s["escobas"][seat] += 1
    while cards:
        s["taken_at"][lowest(cards)] = s["turn_index"]
        cards &= cards - 1


@kernel
def lay(s):
    """Ends a turn by laying the chosen card on the table."""
    s["table"] |= single(s["played"])


@kernel
def end_turn(spec, s):
    """Passes the turn on: the next seat, new hands if all are empty, or the end of the round."""
    s["played"] = NOBODY
    s["picked"] = 0
    s["turn_index"] += 1
    turn = (s["turn"] + 1) % spec["players"]
    s["turn"] = turn
    # Everyone has equally many cards, or one less: the next seat's hand empties last.
    if s["hands"][turn] == 0:
        if s["stock_size"] - s["stock_next"] < spec["players"] * spec["hand_size"]:
            end_round(spec, s)
            return
        deal_hands(spec, s)
    s["legal"] = playable_cards(spec, s["hands"][turn], s["table"])


@kernel
def end_round(spec, s):
    """Gives the leftovers to the last capturer, scores the round, and sees whether that is all."""
    s["legal"] = 0
    seat = s["last_capturer"]
    if seat != NOBODY:
        left = s["table"]
        for i in range(s["stock_next"], s["stock_size"]):
            left |= single(s["stock"][i])
        s["piles"][seat] |= left
        s["table"] = 0
        s["stock_next"] = s["stock_size"]
        while left:
            s["taken_at"][lowest(left)] = AT_END
            left &= left - 1
    add_round(spec, s)
    over = spec["match"] == 0 or winner_of(spec, s["scores"], spec["target"]) != NOBODY
    s["phase"] = GAME_OVER if over else ROUND_OVER


@kernel
def apply(spec, s, action):
    """Applies a legal pick. The caller has made sure that the action's bit is set in ``legal``."""
    target = spec["target_sum"]
    if s["played"] == NOBODY:
        bit = single(action)
        seat = s["turn"]
        s["hands"][seat] ^= bit
        s["hand_counts"][seat] -= 1
        s["played"] = action
        s["played_at"][action] = s["turn_index"]
        need = target - VALUES[action]
        union = completions(s["table"], need)
        if union == 0:
            lay(s)
            end_turn(spec, s)
        elif spec["capture"] == CAPTURE_OPTIONAL:
            s["legal"] = union | single(LAY)
        elif total(union) == need:
            capture(s, union)
            end_turn(spec, s)
        else:
            s["legal"] = union
    elif action == LAY:
        lay(s)
        end_turn(spec, s)
    else:
        picked = s["picked"] | single(action)
        need = target - VALUES[s["played"]] - total(picked)
        union = completions(s["table"] ^ picked, need)
        # With nothing needed the union is empty and totals nothing.
        if total(union) == need:
            capture(s, picked | union)
            end_turn(spec, s)
        else:
            s["picked"] = picked
            s["legal"] = union


@kernel
def is_forced(s):
    """Whether the seat to move has a single legal action."""
    return popcount(s["legal"]) == 1


@kernel
def is_last_turn(spec, s):
    """Whether the round ends with the turn that is being played."""
    left = 0 if s["played"] == NOBODY else 1
    for seat in range(spec["players"]):
        left += s["hand_counts"][seat]
    return left == 1 and s["stock_size"] - s["stock_next"] < spec["players"] * spec["hand_size"]


# -- views ----------------------------------------------------------------------------------


@kernel
def unseen_by(spec, s, seat):
    """Cards whose place a seat does not know: other hands and the stock."""
    seen = s["table"] | s["set_aside"] | s["hands"][seat]
    if s["played"] != NOBODY:
        seen |= single(s["played"])
    for other in range(spec["players"]):
        seen |= s["piles"][other]
        if spec["open_hands"]:
            seen |= s["hands"][other]
    return spec["pack"] & ~seen


@kernel
def hide(spec, s, seat):
    """Turns a copy of a game record into the view of a seat: erases what the seat cannot know."""
    # The whole order, not just what is left: the dealt part tells who was dealt which card.
    for i in range(len(s["stock"])):
        s["stock"][i] = HIDDEN
    if spec["open_hands"] == 0:
        for other in range(4):
            if other != seat:
                s["hands"][other] = 0
    if s["turn"] != seat:
        s["legal"] = 0
    s["seed"] = 0
    s["game_index"] = 0
    s["viewer"] = seat
