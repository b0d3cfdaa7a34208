"""``rebuild``: plays the round that a record logs once more, from its deal or its start.

A record says most things twice: where the cards are, and in its log how they came there. Here the
second is worked out by the rules, so that the two can be compared. Nothing of the record is trusted
but its ranges, which the caller has checked: ids of cards, seats and turns are such.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import LAY, NUM_IDS
from escoba_env.engine.bits import VALUES, lowest, popcount, single, total
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.play import (
    apply,
    deal_round,
    first_table_fifteens,
    hide,
    playable_cards,
    stock_table,
    unseen_by,
)
from escoba_env.engine.record import (
    AT_END,
    FROM_START,
    GAME_OVER,
    HIDDEN,
    NOBODY,
    NOT_YET,
    PLAYING,
    TABLE_REDEAL,
)
from escoba_env.engine.score import is_last_round

AS_LOGGED, NOT_BEGUN = -1, -2
"""What ``rebuild`` returns when the rules allow every turn, or not even the round's beginning."""


@kernel
def cards_with(times, turn):
    """Card set of the cards that have ``turn`` in ``played_at`` or ``taken_at``."""
    cards = 0
    for card in range(NUM_IDS):
        if times[card] == turn:
            cards |= single(card)
    return cards


@kernel
def captured_in(s, turn):
    """Card set that a turn of the log took from the table."""
    return cards_with(s["taken_at"], turn) & ~cards_with(s["played_at"], turn)


# -- where the log begins -------------------------------------------------------------------


@kernel
def was_dealt(s):
    """Whether the log begins with the deal; else with a position that was set up."""
    return s["viewer"] == NOBODY and s["stock"][0] != HIDDEN


@kernel
def is_decided(spec, out):
    """Whether no round follows on those that came before the one in ``out``.

    A game may begin with any scores: they decide nothing before its first round.
    """
    number = int(out["round_index"])
    return number > 0 and is_last_round(spec, out, number - 1)


@kernel
def is_dealt_again(spec, out):
    """Whether the stock of ``out`` makes a first table with which no round begins."""
    redeals = spec["initial_table"] == TABLE_REDEAL
    return redeals and first_table_fifteens(spec, stock_table(spec, out)) == 1


@kernel
def dealt_before(s):
    """Number of cards of the stock's order that were dealt before the log of ``s`` begins.

    A view does not tell which cards were dealt since. It looks the same if they all were in hand
    from the start, so that is how a view is rebuilt.
    """
    if s["viewer"] == NOBODY:
        number = 0
        while number < s["stock_size"] and s["stock"][number] == HIDDEN:
            number += 1
        return number
    number = int(s["stock_next"])
    if s["phase"] == GAME_OVER and s["last_capturer"] != NOBODY:
        # Leftovers that never lay on the table were in the stock.
        left = cards_with(s["taken_at"], AT_END) & cards_with(s["played_at"], NOT_YET)
        number -= popcount(left)
    return number


@kernel
def set_up_again(spec, s, out):
    """Writes into ``out``, a copy of ``s``, the position that was set up before its log begins.

    What nobody can tell any more stays as ``s`` has it: the piles and the last capturer before the
    log, the dealer, and the cards set aside. Escobas are the caller's.
    """
    players = int(spec["players"])
    turns = int(s["turn_index"])
    from_start = cards_with(s["played_at"], FROM_START)
    not_yet = cards_with(s["played_at"], NOT_YET)
    won = cards_with(s["taken_at"], FROM_START)
    out["viewer"] = NOBODY
    out["phase"] = PLAYING
    out["turn"] = (int(s["turn"]) + turns * (players - 1)) % players
    out["turn_index"] = 0
    out["played"] = NOBODY
    out["picked"] = 0
    out["placing"] = 0
    first = dealt_before(s)
    out["stock_next"] = first
    hidden = 0
    if s["viewer"] != NOBODY:
        # In any order: a card that stays hidden is never played, and is erased in the end.
        hidden = unseen_by(spec, s, s["viewer"])
    hidden |= cards_with(s["taken_at"], AT_END) & not_yet
    stock = 0
    for i in range(first, s["stock_size"]):
        stock |= single(s["stock"][i]) if s["stock"][i] != HIDDEN else 0
    for seat in range(players):
        hand = s["hands"][seat]
        for _ in range(s["hand_counts"][seat] - popcount(hand)):
            hand |= hidden & -hidden
            hidden &= hidden - 1
        for turn in range(turns + (0 if s["played"] == NOBODY else 1)):
            if (out["turn"] + turn) % players == seat:
                hand |= cards_with(s["played_at"], turn)
        hand &= ~stock
        out["hands"][seat] = hand
        out["hand_counts"][seat] = popcount(hand)
        before = not_yet & cards_with(s["taken_at"], NOT_YET)
        out["piles"][seat] = s["piles"][seat] & (before | won)
    if s["viewer"] != NOBODY:
        for i in range(first, s["stock_size"]):
            out["stock"][i] = lowest(hidden) if hidden else 0
            hidden &= hidden - 1
    table = from_start & ~(s["set_aside"] | won)
    out["table"] = table
    for card in range(NUM_IDS):
        out["taken_at"][card] = FROM_START if (won >> card) & 1 else NOT_YET
        out["played_at"][card] = FROM_START if (from_start >> card) & 1 else NOT_YET
    if spec["building"]:
        pile_again(s, out, table)
    out["legal"] = playable_cards(spec, out)


@kernel
def pile_again(s, out, table):
    """Lays the cards ``table`` of ``out`` in piles as they lie, or lay, in ``s``."""
    out["heads"] = 0
    for card in range(NUM_IDS):
        out["pile_of"][card] = card
        out["totals"][card] = VALUES[card]
    rest = table
    while rest:
        pile = table & cards_with(s["pile_of"], s["pile_of"][lowest(rest)])
        rest &= ~pile
        head = lowest(pile)
        whole = total(pile)
        out["heads"] |= single(head)
        while pile:
            out["pile_of"][lowest(pile)] = head
            out["totals"][lowest(pile)] = whole
            pile &= pile - 1


# -- turns ----------------------------------------------------------------------------------


@kernel
def choose_again(spec, s, out, turn):
    """Chooses in ``out`` the hand card of a turn of the log; False if the rules forbid it."""
    card = cards_with(s["played_at"], turn)
    # Whether another card had to be chosen hangs on cards that a view hides.
    choices = out["legal"] if s["viewer"] == NOBODY else out["hands"][out["turn"]]
    if out["phase"] != PLAYING or card == 0 or card & ~choices:
        return False
    apply(spec, out, lowest(card))
    return True


@kernel
def heads_in(spec, out, cards):
    """The heads in ``out`` of the piles that some cards of its table lie in."""
    if spec["building"] == 0:
        return cards
    heads = 0
    while cards:
        heads |= single(out["pile_of"][lowest(cards)])
        cards &= cards - 1
    return heads


@kernel
def turn_again(spec, s, out, turn):
    """Plays in ``out`` a finished turn of the log; False if the rules forbid it."""
    if not choose_again(spec, s, out, turn):
        return False
    captured = captured_in(s, turn)
    while out["turn_index"] == turn:
        action = LAY
        if out["placing"]:
            beside = cards_with(s["pile_of"], s["pile_of"][out["played"]])
            place = heads_in(spec, out, out["table"] & beside)
            if place:
                action = lowest(place)
        elif captured:
            rest = heads_in(spec, out, out["table"] & captured)
            rest &= out["legal"] & ~out["picked"]
            if rest:
                action = lowest(rest)
        if (out["legal"] >> action) & 1 == 0:
            return False
        apply(spec, out, action)
    return True


@kernel
def picks_again(spec, s, out):
    """Makes in ``out`` the picks of the turn that ``s`` is in; False if the rules forbid them."""
    turn = s["turn_index"]
    if not choose_again(spec, s, out, turn):
        return False
    if s["placing"] and out["turn_index"] == turn and out["placing"] == 0:
        if (out["legal"] >> LAY) & 1 == 0:
            return False
        apply(spec, out, LAY)
    while out["turn_index"] == turn and out["placing"] == 0:
        rest = s["picked"] & out["legal"] & ~out["picked"]
        if rest == 0:
            break
        apply(spec, out, lowest(rest))
    return out["turn_index"] == turn


# -- the whole log --------------------------------------------------------------------------


@kernel
def log_again(spec, s, out):
    """Plays in ``out`` the turns that ``s`` logs, and the picks of the one that it is in.

    Returns:
        The first turn that the rules forbid, or ``AS_LOGGED``.
    """
    turns = int(s["turn_index"])
    for turn in range(turns):
        if not turn_again(spec, s, out, turn):
            return turn
    if s["played"] != NOBODY and not picks_again(spec, s, out):
        return turns
    return AS_LOGGED


@entry
def rebuild(spec, states, out):
    """Works out a record from where its log begins, and from the log.

    Args:
        spec: The rules, and whether the game is a round or a match.
        states: A game, or the view of one, ``STATE`` (1,).
        out: Gets what the first should be, ``STATE`` (1,).

    Returns:
        The first turn that the rules forbid, ``AS_LOGGED`` or ``NOT_BEGUN``.
    """
    sp, s, again = spec[0], states[0], out[0]
    dealt = was_dealt(s)
    scored = s["escobas"].astype(np.int64)
    forbidden = AS_LOGGED
    # How many escobas a position was set up with is seen once the log has been played from none.
    for _ in range(1 if dealt else 2):
        out[0] = states[0]
        if s["phase"] == GAME_OVER:
            for side in range(sp["sides"]):
                again["scores"][side] -= s["round_points"][side]
        if is_decided(sp, again) or (dealt and is_dealt_again(sp, again)):
            return NOT_BEGUN
        if dealt:
            deal_round(sp, again, 0)
        else:
            set_up_again(sp, s, again)
            for seat in range(sp["players"]):
                again["escobas"][seat] = max(0, s["escobas"][seat] - scored[seat])
        forbidden = log_again(sp, s, again)
        if forbidden != AS_LOGGED:
            return forbidden
        for seat in range(sp["players"]):
            scored[seat] = again["escobas"][seat]
    if s["viewer"] != NOBODY:
        hide(sp, again, s["viewer"])
    return forbidden
