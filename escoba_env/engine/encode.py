"""Observations: writes the sections of an encoding into a caller's buffer.

Which sections an encoding has, and where, is data, the record ``PLAN``: ``offsets[SECTION]`` is the
first column of a section, or -1 where the encoding does without it. ``escoba_env.encoding`` makes
that record and documents it; this file knows only how each section is filled.

Seats are relative to the seat that observes: itself, then to its right.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import NUM_ACTIONS, NUM_CARDS, NUM_IDS
from escoba_env.engine.bits import (
    JOKER_CARDS,
    OROS,
    SEVENS,
    VALUES,
    fill,
    lowest,
    popcount,
    single,
    write_forty,
)
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.outlook import NUM_FACTS, pickable, write_facts
from escoba_env.engine.play import unseen_by
from escoba_env.engine.record import (
    AT_END,
    BY_VALUE,
    FROM_START,
    GAME_OVER,
    NOBODY,
    PLAYING,
    TWELFTHS,
)

(
    HAND,
    TABLE,
    PLAYED,
    PICKED,
    CAPTURED,
    UNSEEN,
    SET_ASIDE,
    OPEN_HANDS,
    PILE_TOTALS,
    PILE_HEADS,
    PLACING,
    HAND_COUNTS,
    CARD_COUNTS,
    ORO_COUNTS,
    SEVEN_COUNTS,
    ESCOBAS,
    LAST_CAPTURER,
    DEALER,
    TO_MOVE,
    DEALS_LEFT,
    SCORES,
    RULES,
    FIRST_TABLE,
    WON_WITH_DEAL,
    LEFTOVERS,
    TURN_SEATS,
    TURN_CARDS,
    TURN_CAPTURES,
    TURN_PILES,
    TURN_ESCOBAS,
    FACTS,
) = range(31)
NUM_SECTIONS = 31

NUM_RULES = 77
"""Columns of the section ``RULES``."""

PLAN = np.dtype(
    [
        ("offsets", np.int64, (NUM_SECTIONS,)),  # first column of each section, or -1
        ("scales", np.float32, (NUM_SECTIONS,)),  # factor of each section of numbers
        ("width", np.int64),  # card ids in a card set: 40, or 42 with jokers
        ("step", np.int64),  # columns of one number: 1, or the 40 of a constant plane
        ("spread_from", np.int64),  # first column of the constant planes
        ("spread_to", np.int64),  # one past their last column; 0 without planes
        ("seats", np.int64),  # seats that sections have room for
        ("slots", np.int64, (4,)),  # place of each seat in them, the observer first
        ("scored", np.int64),  # numbers of SCORES that are written
        ("turns", np.int64),  # turns that the sections of turns have room for
        ("forgetful", np.int64),  # 1: facts too know nothing of captured cards
        ("clear", np.int64),  # columns that are zeroed before anything is written
        ("rules", np.float32, (NUM_RULES,)),  # columns of RULES
    ],
    align=True,
)
"""Where an encoding has what: an array of one such record."""


@kernel
def write_cards(out, row, start, cards, width):
    """Writes a card set as ``width`` zeros and ones, 40 or more."""
    write_forty(out, row, start, cards)
    for i in range(NUM_CARDS, width):
        out[row, start + i] = (cards >> i) & 1


@kernel
def write_one_hot(out, row, start, size, step, hot):
    """Writes a one-hot; all zeros for NOBODY."""
    for i in range(size):
        out[row, start + i * step] = 0
    if hot >= 0:
        out[row, start + hot * step] = 1


@kernel
def slot_of(plan, players, seat, other):
    """Place of a seat in sections that have one for each, as ``seat`` sees it; NOBODY has none."""
    if other < 0:
        return NOBODY
    place = other - seat
    return plan["slots"][place + players if place < 0 else place]


@kernel
def write_piles(spec, s, plan, out, row):
    """Writes the piles of a table: totals at heads, and the head of every card.

    Without building every pile is one card.
    """
    offsets = plan["offsets"]
    scales = plan["scales"]
    building = spec["building"]
    heads = pickable(spec, s)
    for card in range(plan["width"]):
        head = int(s["pile_of"][card]) if building else card
        total = int(s["totals"][card]) if building else int(VALUES[card])
        at_head = (heads >> card) & 1
        on_table = (s["table"] >> card) & 1
        out[row, offsets[PILE_TOTALS] + card] = total * scales[PILE_TOTALS] if at_head else 0
        out[row, offsets[PILE_HEADS] + card] = (head + 1) * scales[PILE_HEADS] if on_table else 0
    out[row, offsets[PLACING]] = s["placing"]


@kernel
def write_turns(spec, s, seat, plan, out, row, work):
    """Writes the round's log: first table, every finished turn, leftovers.

    A turn's slot is its number. Slots of turns to come are zeros. Turns beyond the last slot,
    which only a position with larger hands than are ever dealt can have, are left out.
    """
    offsets = plan["offsets"]
    width = plan["width"]
    seats = plan["seats"]
    players = int(spec["players"])
    slots = int(plan["turns"])
    played_in = work["played_in"]
    taken_in = work["taken_in"]
    for t in range(slots):
        played_in[t] = 0
        taken_in[t] = 0
    first = 0
    won = 0
    leftovers = 0
    for card in range(NUM_IDS):
        played_at = int(s["played_at"][card])
        taken_at = int(s["taken_at"][card])
        if played_at == FROM_START:
            first |= single(card)
        elif 0 <= played_at < slots:
            played_in[played_at] |= single(card)
        if taken_at == FROM_START:
            won |= single(card)
        elif taken_at == AT_END:
            leftovers |= single(card)
        elif 0 <= taken_at < slots:
            taken_in[taken_at] |= single(card)
    write_cards(out, row, offsets[FIRST_TABLE], first, width)
    if offsets[WON_WITH_DEAL] >= 0:
        write_cards(out, row, offsets[WON_WITH_DEAL], won, width)
    write_cards(out, row, offsets[LEFTOVERS], leftovers, width)
    finished = int(s["turn_index"])
    earlier = first
    table = first & ~won & ~s["set_aside"]
    for t in range(slots):
        card = played_in[t] if t < finished else 0
        cards = taken_in[t] if t < finished else 0
        taken = cards & ~card
        mover = NOBODY
        if t < finished:
            mover = (int(s["turn"]) - finished + t) % players
        slot = slot_of(plan, players, seat, mover)
        write_one_hot(out, row, offsets[TURN_SEATS] + t * seats, seats, 1, slot)
        write_cards(out, row, offsets[TURN_CARDS] + t * width, card, width)
        write_cards(out, row, offsets[TURN_CAPTURES] + t * width, taken, width)
        if offsets[TURN_PILES] >= 0:
            onto = 0
            rest = earlier if card and cards == 0 else 0
            while rest:
                if s["pile_of"][lowest(rest)] == s["pile_of"][lowest(card)]:
                    onto |= rest & -rest
                rest &= rest - 1
            write_cards(out, row, offsets[TURN_PILES] + t * width, onto, width)
        earlier |= card
        table = (table | card) & ~cards
        swept = cards != 0 and table == 0 and cards & JOKER_CARDS == 0
        if spec["capture_by"] == BY_VALUE and s["phase"] != PLAYING and t == finished - 1:
            swept = False
        out[row, offsets[TURN_ESCOBAS] + t] = 1 if swept else 0


@kernel
def spread_planes(plan, out, row):
    """Fills every constant plane with the number that stands in its first column.

    Jokers too are constant planes; they stand behind the 40 cards of their set, the second where
    the second column of the first one's plane is.
    """
    start = plan["spread_from"]
    if plan["width"] > NUM_CARDS:
        for jokers in range(NUM_CARDS, start, 3 * NUM_CARDS):
            out[row, jokers + NUM_CARDS] = out[row, jokers + 1]
            for i in range(jokers, jokers + 2 * NUM_CARDS, NUM_CARDS):
                fill(out, row, i, NUM_CARDS, out[row, i])
    for i in range(start, plan["spread_to"], NUM_CARDS):
        fill(out, row, i, NUM_CARDS, out[row, i])


@kernel
def encode(spec, s, seat, plan, width, out, row, work):
    """Writes one observation.

    Args:
        spec: Lowered rules, a ``SPEC`` record.
        s: Game record or view.
        seat: Seat that observes.
        plan: A ``PLAN`` record, made for these rules.
        width: Its ``width``: a loop over games that reads it once is a tenth faster.
        out: Array of shape (rows, size), float32 or uint8; row ``row`` is written in full.
        row: Row to write.
        work: Work space, an ``outlook.WORK`` record.
    """
    offsets = plan["offsets"]
    scales = plan["scales"]
    step = plan["step"]
    seats = plan["seats"]
    players = int(spec["players"])
    sides = int(spec["sides"])
    if plan["clear"]:
        fill(out, row, 0, plan["clear"], 0)
    if offsets[HAND] >= 0:
        write_cards(out, row, offsets[HAND], s["hands"][seat], width)
    if offsets[TABLE] >= 0:
        write_cards(out, row, offsets[TABLE], s["table"], width)
    if offsets[PLAYED] >= 0:
        played = 0 if s["played"] == NOBODY else single(s["played"])
        write_cards(out, row, offsets[PLAYED], played, width)
    if offsets[PICKED] >= 0:
        write_cards(out, row, offsets[PICKED], s["picked"], width)
    if offsets[UNSEEN] >= 0:
        write_cards(out, row, offsets[UNSEEN], unseen_by(spec, s, seat), width)
    if offsets[SET_ASIDE] >= 0:
        write_cards(out, row, offsets[SET_ASIDE], s["set_aside"], width)
    if offsets[PILE_TOTALS] >= 0:
        write_piles(spec, s, plan, out, row)
    card_set = NUM_CARDS + (width - NUM_CARDS) * step
    for i in range(players):
        # Cheaper than a remainder.
        other = seat + i
        if other >= players:
            other -= players
        slot = plan["slots"][i]
        at = slot * step
        pile = s["piles"][other]
        if offsets[CAPTURED] >= 0:
            write_cards(out, row, offsets[CAPTURED] + slot * card_set, pile, width)
        if offsets[OPEN_HANDS] >= 0 and i > 0:
            # A game's record holds every hand, whatever the rules.
            hand = s["hands"][other] if spec["open_hands"] else 0
            write_cards(out, row, offsets[OPEN_HANDS] + (slot - 1) * card_set, hand, width)
        if offsets[HAND_COUNTS] >= 0:
            out[row, offsets[HAND_COUNTS] + at] = s["hand_counts"][other] * scales[HAND_COUNTS]
        if offsets[CARD_COUNTS] >= 0:
            out[row, offsets[CARD_COUNTS] + at] = popcount(pile) * scales[CARD_COUNTS]
        if offsets[ORO_COUNTS] >= 0:
            out[row, offsets[ORO_COUNTS] + at] = popcount(pile & OROS) * scales[ORO_COUNTS]
        if offsets[SEVEN_COUNTS] >= 0:
            out[row, offsets[SEVEN_COUNTS] + at] = popcount(pile & SEVENS) * scales[SEVEN_COUNTS]
        if offsets[ESCOBAS] >= 0:
            out[row, offsets[ESCOBAS] + at] = s["escobas"][other] * scales[ESCOBAS]
    if offsets[LAST_CAPTURER] >= 0:
        slot = slot_of(plan, players, seat, int(s["last_capturer"]))
        write_one_hot(out, row, offsets[LAST_CAPTURER], seats, step, slot)
    if offsets[DEALER] >= 0:
        slot = slot_of(plan, players, seat, int(s["dealer"]))
        write_one_hot(out, row, offsets[DEALER], seats, step, slot)
    if offsets[TO_MOVE] >= 0:
        turn = NOBODY if s["phase"] == GAME_OVER else int(s["turn"])
        slot = slot_of(plan, players, seat, turn)
        write_one_hot(out, row, offsets[TO_MOVE], seats, step, slot)
    if offsets[DEALS_LEFT] >= 0:
        stock = int(s["stock_size"]) - int(s["stock_next"])
        deals = stock // (players * int(spec["hand_size"]))
        out[row, offsets[DEALS_LEFT]] = deals * scales[DEALS_LEFT]
    if offsets[SCORES] >= 0:
        for i in range(plan["scored"]):
            score = s["scores"][(seat + i) % sides]
            at = plan["slots"][i] * step
            out[row, offsets[SCORES] + at] = score / TWELFTHS * scales[SCORES]
    if offsets[RULES] >= 0:
        for i in range(NUM_RULES):
            out[row, offsets[RULES] + i] = plan["rules"][i]
    if offsets[TURN_SEATS] >= 0:
        write_turns(spec, s, seat, plan, out, row, work)
    if plan["spread_to"]:
        spread_planes(plan, out, row)
    if offsets[FACTS] >= 0:
        start = offsets[FACTS]
        if s["turn"] == seat and s["phase"] != GAME_OVER:
            forgotten = 0
            if plan["forgetful"]:
                for other in range(players):
                    forgotten |= s["piles"][other]
            write_facts(spec, s, out, row, start, work, forgotten)
        else:
            fill(out, row, start, NUM_ACTIONS * NUM_FACTS, 0)


@kernel
def write_mask(out, row, legal):
    """Writes a set of legal actions as zeros and ones."""
    write_cards(out, row, 0, legal, NUM_ACTIONS)


@entry
def encode_states(spec, states, width, out):
    """Writes everything that is true of whole games, seats in their own order.

    Sections follow each other as ``escoba_env.envs.state`` lists them.

    Args:
        spec: Lowered rules, dtype ``SPEC``, shape (1,).
        states: Game records, not views, shape (rows,).
        width: Number of columns of a card set: 40, or 42 with jokers.
        out: Float array of shape (rows, size), written in full.
    """
    sp = spec[0]
    players = int(sp["players"])
    pack_size = int(sp["pack_size"])
    hand_size = int(sp["hand_size"])
    deal = players * hand_size
    oros = max(1, popcount(sp["pack"] & OROS))
    sevens = max(1, popcount(sp["pack"] & SEVENS))
    for row in range(len(states)):
        s = states[row]
        stock_next = int(s["stock_next"])
        stock_size = int(s["stock_size"])
        o = 0
        for seat in range(players):
            write_cards(out, row, o, s["hands"][seat], width)
            o += width
        for seat in range(players):
            write_cards(out, row, o, s["piles"][seat], width)
            o += width
        write_cards(out, row, o, s["table"], width)
        o += width
        write_cards(out, row, o, 0 if s["played"] == NOBODY else single(s["played"]), width)
        o += width
        write_cards(out, row, o, s["picked"], width)
        o += width
        write_cards(out, row, o, s["set_aside"], width)
        o += width
        for i in range(2 * width):
            out[row, o + i] = 0
        for i in range(stock_next, stock_size):
            card = int(s["stock"][i])
            out[row, o + card] = 1
            out[row, o + width + card] = (i - stock_next + 1) / pack_size
        o += 2 * width
        for seat in range(players):
            pile = s["piles"][seat]
            out[row, o + seat] = s["hand_counts"][seat] / hand_size
            out[row, o + players + seat] = popcount(pile) / pack_size
            out[row, o + 2 * players + seat] = popcount(pile & OROS) / oros
            out[row, o + 3 * players + seat] = popcount(pile & SEVENS) / sevens
            out[row, o + 4 * players + seat] = s["escobas"][seat] / 4
        o += 5 * players
        write_one_hot(out, row, o, players, 1, int(s["last_capturer"]))
        o += players
        write_one_hot(out, row, o, players, 1, int(s["dealer"]))
        o += players
        write_one_hot(
            out, row, o, players, 1, NOBODY if s["phase"] == GAME_OVER else int(s["turn"])
        )
        o += players
        out[row, o] = ((stock_size - stock_next) // deal) / ((pack_size - sp["table_size"]) // deal)
        o += 1
        if sp["building"]:
            for card in range(width):
                on_table = (s["table"] >> card) & 1
                out[row, o + card] = (s["pile_of"][card] + 1) / width if on_table else 0
            out[row, o + width] = s["placing"]
            o += width + 1
        if sp["match"]:
            for side in range(sp["sides"]):
                out[row, o + side] = s["scores"][side] / TWELFTHS / sp["target"]
