"""What follows from a pick, as far as the seat to move can know: facts for policies.

Everything here reads only the table, the piles, the mover's own hand and the set of cards it has
not seen, so it is the same for a game and for the mover's view of it.
"""

from __future__ import annotations

from escoba_env.cards import LAY, NUM_ACTIONS, SEVEN_OF_OROS
from escoba_env.engine.bits import OROS, RANK_MASKS, SEVENS, VALUES, lowest, popcount, single, total
from escoba_env.engine.jit import kernel
from escoba_env.engine.play import unseen_by
from escoba_env.engine.record import NOBODY

NUM_FACTS = 16
FACTS = (
    "legal",
    "captures",
    "cards taken / 10",
    "oros taken / 5",
    "sevens taken / 2",
    "takes the seven of oros",
    "escoba",
    "worth taken",
    "total left on the table / target sum",
    "cards left on the table / 8",
    "worth left on the table",
    "probability that the next opponent can sweep what is left",
    "unseen cards that would sweep what is left / 4",
    "expected worth of the next opponent's best reply",
    "worth taken minus expected reply",
    "worth of the hand card",
)
"""Meaning of each action feature; worth is in points, see ``record.card_worth``."""
assert len(FACTS) == NUM_FACTS

SCRATCH = 64
"""Length of the work arrays that these kernels take: totals up to the largest target sum."""


@kernel
def best_subsets(spec, cards, limit, best, chosen):
    """For every total up to ``limit``, the subset of ``cards`` of highest worth that makes it.

    Args:
        best: Work array, float64 of length ``SCRATCH``; afterwards ``best[t]`` is the worth of the
            best subset that totals ``t``, or -1 if there is none.
        chosen: Work array, int64 of length ``SCRATCH``; afterwards ``chosen[t]`` is that subset.
    """
    best[0] = 0.0
    chosen[0] = 0
    for t in range(1, limit + 1):
        best[t] = -1.0
    while cards:
        card = lowest(cards)
        value = VALUES[card]
        worth = spec["worth"][card]
        for t in range(limit, value - 1, -1):
            if best[t - value] >= 0.0 and best[t - value] + worth > best[t]:
                best[t] = best[t - value] + worth
                chosen[t] = chosen[t - value] | single(card)
        cards &= cards - 1


@kernel
def best_capture(spec, s, action, best, chosen):
    """The table cards that a legal pick takes with its best completion; 0 if it lays the card."""
    if action == LAY:
        return 0
    if s["played"] == NOBODY:
        picked = 0
        need = spec["target_sum"] - VALUES[action]
    else:
        picked = s["picked"] | single(action)
        need = spec["target_sum"] - VALUES[s["played"]] - total(picked)
    if need == 0 and picked:
        return picked
    if need <= 0:
        return 0
    best_subsets(spec, s["table"] ^ picked, need, best, chosen)
    if best[need] < 0.0:
        return 0
    return picked | chosen[need]


@kernel
def worth_of(spec, cards):
    """Summed worth of a card set."""
    result = 0.0
    while cards:
        result += spec["worth"][lowest(cards)]
        cards &= cards - 1
    return result


@kernel
def capture_worth(spec, table, card, taken):
    """Worth of capturing ``taken`` from a table with a card, the escoba included; 0 for laying."""
    if taken == 0:
        return 0.0
    worth = spec["worth"][card] + worth_of(spec, taken)
    if taken == table:
        worth += spec["escoba_worth"]
    return worth


@kernel
def none_of(marked, cards, drawn):
    """Probability that ``drawn`` of ``cards`` cards, without replacement, hit no marked one."""
    probability = 1.0
    for i in range(marked):
        if cards - drawn - i <= 0:
            return 0.0
        probability *= (cards - drawn - i) / (cards - i)
    return probability


@kernel
def next_hand(spec, s):
    """What the seat to move knows of the next seat's next hand.

    Returns:
        The cards that it may hold, and how many of them it will hold when it moves.
    """
    seat = s["turn"]
    other = (seat + 1) % spec["players"]
    held = int(s["hand_counts"][other])
    if held and spec["open_hands"]:
        return s["hands"][other], held
    unseen = unseen_by(spec, s, seat)
    if held == 0:
        stock = int(s["stock_size"]) - int(s["stock_next"])
        if stock >= spec["players"] * spec["hand_size"]:
            held = int(spec["hand_size"])
    return unseen, held


@kernel
def expected_reply(spec, table, unseen, held, best, chosen, values, counts):
    """Expected worth of the best single reply to a table by a hand drawn from ``unseen``.

    The hand is ``held`` cards out of ``unseen``, all equally likely; the reply is the capture of
    highest worth among them, or 0.

    Args:
        values: Work array, float64 of length ``SCRATCH``.
        counts: Work array, int64 of length ``SCRATCH``.
    """
    if held == 0 or table == 0:
        return 0.0
    target = int(spec["target_sum"])
    best_subsets(spec, table, target, best, chosen)
    whole = total(table)
    size = 0
    left = popcount(unseen)
    for value in range(1, min(11, target)):
        need = target - value
        if best[need] < 0.0:
            continue
        worth = best[need]
        if whole == need:
            worth += spec["escoba_worth"]
        rank = unseen & RANK_MASKS[value]
        # Within a rank only oros differ in worth.
        for part in range(2):
            cards = rank & OROS if part == 0 else rank & ~OROS
            if cards:
                reply = worth + spec["worth"][lowest(cards)]
                i = size
                while i > 0 and values[i - 1] < reply:
                    values[i] = values[i - 1]
                    counts[i] = counts[i - 1]
                    i -= 1
                values[i] = reply
                counts[i] = popcount(cards)
                size += 1
    expected = 0.0
    none_better = 1.0
    for i in range(size):
        none = none_of(counts[i], left, held)
        expected += none_better * (1.0 - none) * values[i]
        none_better *= none
        left -= counts[i]
        if none_better == 0.0:
            break
    return expected


@kernel
def write_facts(spec, s, out, row, start, best, chosen, values, counts):
    """Writes the action features of the seat to move: ``NUM_FACTS`` floats for each action.

    Args:
        out: Float array of shape (rows, size); row ``row`` is written from column ``start`` on.
            Features of actions that are not legal are zeros.
    """
    for i in range(start, start + NUM_ACTIONS * NUM_FACTS):
        out[row, i] = 0
    unseen, held = next_hand(spec, s)
    left = popcount(unseen)
    legal = s["legal"]
    table = s["table"]
    while legal:
        action = lowest(legal)
        legal &= legal - 1
        card = action if s["played"] == NOBODY else int(s["played"])
        taken = best_capture(spec, s, action, best, chosen)
        worth = capture_worth(spec, table, card, taken)
        after = table ^ taken if taken else table | single(card)
        left_total = total(after)
        sweepers = 0
        value = spec["target_sum"] - left_total
        if after and 0 < value <= 10:
            sweepers = popcount(unseen & RANK_MASKS[value])
        reply = expected_reply(spec, after, unseen, held, best, chosen, values, counts)
        o = start + action * NUM_FACTS
        out[row, o] = 1
        if taken:
            cards = taken | single(card)
            out[row, o + 1] = 1
            out[row, o + 2] = popcount(cards) / 10
            out[row, o + 3] = popcount(cards & OROS) / 5
            out[row, o + 4] = popcount(cards & SEVENS) / 2
            out[row, o + 5] = (cards >> SEVEN_OF_OROS) & 1
            out[row, o + 6] = 1 if after == 0 else 0
            out[row, o + 7] = worth
        out[row, o + 8] = left_total / spec["target_sum"]
        out[row, o + 9] = popcount(after) / 8
        out[row, o + 10] = worth_of(spec, after)
        out[row, o + 11] = 1.0 - none_of(sweepers, left, held)
        out[row, o + 12] = sweepers / 4
        out[row, o + 13] = reply
        out[row, o + 14] = worth - reply
        out[row, o + 15] = spec["worth"][card]


@kernel
def greedy_action(spec, s, best, chosen):
    """The pick whose best completion has the highest worth now; else the card of least worth.

    Ties go to the lowest action id.
    """
    result = -1
    highest = 0.0
    legal = s["legal"]
    while legal:
        action = lowest(legal)
        legal &= legal - 1
        card = action if s["played"] == NOBODY else int(s["played"])
        taken = best_capture(spec, s, action, best, chosen)
        worth = capture_worth(spec, s["table"], card, taken)
        if taken == 0:
            # Below every capture, even of cards that are worth nothing.
            worth = -1.0 - spec["worth"][card]
        # Sums of the same cards in another order differ by rounding: they are a tie.
        if result < 0 or worth > highest + 1e-9:
            result = action
            highest = worth
    return result
