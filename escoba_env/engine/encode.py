"""Observations: writes the sections of an encoding into a caller's buffer.

Which sections an encoding has, and where, is data: ``offsets[SECTION]`` is the first column of a
section, or -1 where the encoding does without it. ``escoba_env.encoding`` makes those tables and
documents them; this file knows only how each section is filled.

Seats are relative to the seat that observes: itself, then to its right.
"""

from __future__ import annotations

from escoba_env.cards import NUM_ACTIONS
from escoba_env.engine.bits import OROS, SEVENS, popcount, single
from escoba_env.engine.jit import kernel
from escoba_env.engine.outlook import NUM_FACTS, write_facts
from escoba_env.engine.play import unseen_by
from escoba_env.engine.record import GAME_OVER, NOBODY, TWELFTHS

(
    HAND,
    TABLE,
    PLAYED,
    PICKED,
    CAPTURED,
    UNSEEN,
    OPEN_HANDS,
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
    FACTS,
) = range(18)
NUM_SECTIONS = 18


@kernel
def write_cards(out, row, start, cards, width):
    """Writes a card set as ``width`` zeros and ones."""
    for i in range(width):
        out[row, start + i] = (cards >> i) & 1


@kernel
def write_seat(out, row, start, players, seat, marked):
    """Writes a one-hot over relative seats; all zeros for NOBODY."""
    for i in range(players):
        out[row, start + i] = 0
    if marked >= 0:
        out[row, start + (marked - seat + players) % players] = 1


@kernel
def encode(spec, s, seat, offsets, scales, width, out, row, best, chosen, values, counts):
    """Writes one observation.

    Args:
        spec: Lowered rules, a ``SPEC`` record.
        s: Game record or view.
        seat: Seat that observes.
        offsets: int64 of shape (NUM_SECTIONS,): first column of each section, or -1.
        scales: float32 of shape (NUM_SECTIONS,): factor of each section of counts.
        width: Number of columns of a card set: 40, or 42 with jokers.
        out: Array of shape (rows, size), float32 or uint8; row ``row`` is written in full.
        row: Row to write.
        best, chosen, values, counts: Work arrays, see ``outlook``.
    """
    players = int(spec["players"])
    sides = int(spec["sides"])
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
    for i in range(players):
        other = (seat + i) % players
        pile = s["piles"][other]
        if offsets[CAPTURED] >= 0:
            write_cards(out, row, offsets[CAPTURED] + i * width, pile, width)
        if offsets[OPEN_HANDS] >= 0 and i > 0:
            write_cards(out, row, offsets[OPEN_HANDS] + (i - 1) * width, s["hands"][other], width)
        if offsets[HAND_COUNTS] >= 0:
            out[row, offsets[HAND_COUNTS] + i] = s["hand_counts"][other] * scales[HAND_COUNTS]
        if offsets[CARD_COUNTS] >= 0:
            out[row, offsets[CARD_COUNTS] + i] = popcount(pile) * scales[CARD_COUNTS]
        if offsets[ORO_COUNTS] >= 0:
            out[row, offsets[ORO_COUNTS] + i] = popcount(pile & OROS) * scales[ORO_COUNTS]
        if offsets[SEVEN_COUNTS] >= 0:
            out[row, offsets[SEVEN_COUNTS] + i] = popcount(pile & SEVENS) * scales[SEVEN_COUNTS]
        if offsets[ESCOBAS] >= 0:
            out[row, offsets[ESCOBAS] + i] = s["escobas"][other] * scales[ESCOBAS]
    if offsets[LAST_CAPTURER] >= 0:
        write_seat(out, row, offsets[LAST_CAPTURER], players, seat, int(s["last_capturer"]))
    if offsets[DEALER] >= 0:
        write_seat(out, row, offsets[DEALER], players, seat, int(s["dealer"]))
    if offsets[TO_MOVE] >= 0:
        turn = NOBODY if s["phase"] == GAME_OVER else int(s["turn"])
        write_seat(out, row, offsets[TO_MOVE], players, seat, turn)
    if offsets[DEALS_LEFT] >= 0:
        stock = int(s["stock_size"]) - int(s["stock_next"])
        deals = stock // (players * int(spec["hand_size"]))
        out[row, offsets[DEALS_LEFT]] = deals * scales[DEALS_LEFT]
    if offsets[SCORES] >= 0:
        for i in range(sides):
            score = s["scores"][(seat + i) % sides]
            out[row, offsets[SCORES] + i] = score / TWELFTHS * scales[SCORES]
    if offsets[FACTS] >= 0:
        start = offsets[FACTS]
        if s["turn"] == seat and s["phase"] != GAME_OVER:
            write_facts(spec, s, out, row, start, best, chosen, values, counts)
        else:
            for i in range(start, start + NUM_ACTIONS * NUM_FACTS):
                out[row, i] = 0


@kernel
def write_mask(out, row, legal):
    """Writes a set of legal actions as zeros and ones."""
    for i in range(out.shape[1]):
        out[row, i] = (legal >> i) & 1


@kernel
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
        write_seat(out, row, o, players, 0, int(s["last_capturer"]))
        o += players
        write_seat(out, row, o, players, 0, int(s["dealer"]))
        o += players
        write_seat(out, row, o, players, 0, NOBODY if s["phase"] == GAME_OVER else int(s["turn"]))
        o += players
        out[row, o] = ((stock_size - stock_next) // deal) / ((pack_size - sp["table_size"]) // deal)
        o += 1
        if sp["match"]:
            for side in range(sp["sides"]):
                out[row, o + side] = s["scores"][side] / TWELFTHS / sp["target"]
