"""What follows from a pick, as far as the seat to move can know: facts for policies.

Everything here reads only the table, the piles, the mover's own hand and the set of cards it has
not seen, so it is the same for a game and for the mover's view of it.

A table is worked on as a list of *items*, each with a total and a worth: a card, or with building a
pile. What a play does to the table is worked out on that list.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import LAY, NUM_ACTIONS, SEVEN_OF_OROS
from escoba_env.engine.bits import (
    JOKER_CARDS,
    OROS,
    RANK_MASKS,
    SEVENS,
    VALUES,
    fill,
    lowest,
    popcount,
    single,
    total,
    uppermost,
)
from escoba_env.engine.jit import kernel
from escoba_env.engine.play import (
    capture_options,
    cards_of,
    is_before_last_turn,
    placements,
    sweep_scores,
    unseen_by,
)
from escoba_env.engine.record import BY_VALUE, NOBODY

NUM_FACTS = 38
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
    "probability that the next opponent takes nothing",
    "expected worth of the own side's next capture, if so",
    *(
        f"worth of the best capture then with a card of value {value}, or -1"
        for value in range(1, 11)
    ),
    *(f"cards of value {value} on the table then" for value in range(1, 11)),
)
"""Meaning of each action feature; worth is in points, see ``record.card_worth``."""
assert len(FACTS) == NUM_FACTS

SCRATCH = 64
"""Length of the work arrays that these kernels take: totals up to the largest target sum."""

WORK = np.dtype(
    [
        ("size", np.int64),  # number of items on the table
        ("jokers", np.int64),  # number of jokers on the table, which are no items
        ("joker_worth", np.float64),  # worth of those jokers
        ("head", np.int64, (SCRATCH,)),  # card set that names each item: the card, or the head
        ("total", np.int64, (SCRATCH,)),  # its total
        ("worth", np.float64, (SCRATCH,)),  # worth of its cards
        ("best", np.float64, (SCRATCH,)),  # by total: worth of the best subset that makes it, or -1
        ("chosen", np.int64, (SCRATCH,)),  # by total: that subset, as a set of heads
        ("sweeps_score", np.int64),  # whether a sweep by the next seat scores
        ("singles", np.float64, (11,)),  # by value: worth of the best single card, or -1
        ("reply_by_value", np.float64, (11,)),  # by value: worth of the best reply with such a card
        ("reply", np.float64, (22,)),  # worth of each kind of reply, best first
        ("count", np.int64, (22,)),  # number of unseen cards that make it
        ("no_reply", np.float64),  # probability that the hand has none of them
        ("played_in", np.int64, (SCRATCH,)),  # by turn: card set of the card played in it
        ("taken_in", np.int64, (SCRATCH,)),  # by turn: cards captured in it
    ],
    align=True,
)
"""Work space of these kernels: an array of one such record, the caller's."""


@kernel
def worth_of(spec, cards):
    """Summed worth of a card set."""
    result = 0.0
    while cards:
        result += spec["worth"][lowest(cards)]
        cards &= cards - 1
    return result


@kernel
def add_item(spec, work, head, whole, cards):
    """Adds one card or pile to the list of items; a joker is only counted."""
    if cards & JOKER_CARDS:
        work["jokers"] += 1
        work["joker_worth"] += worth_of(spec, cards)
        return
    i = work["size"]
    work["head"][i] = head
    work["total"][i] = whole
    work["worth"][i] = worth_of(spec, cards)
    work["size"] = i + 1


@kernel
def list_items(spec, s, heads, work):
    """Lists the cards (building: piles) ``heads`` of a table as items."""
    work["size"] = 0
    work["jokers"] = 0
    work["joker_worth"] = 0.0
    while heads:
        head = lowest(heads)
        bit = heads & -heads
        if spec["building"]:
            add_item(spec, work, bit, int(s["totals"][head]), cards_of(spec, s, bit))
        else:
            add_item(spec, work, bit, VALUES[head], bit)
        heads ^= bit


@kernel
def best_subsets(work, limit):
    """For every total up to ``limit``, finds the items of highest worth that make it.

    ``work["best"][t]`` becomes their worth, or -1 if there are none, ``work["chosen"][t]`` their
    heads.
    """
    best = work["best"]
    chosen = work["chosen"]
    best[0] = 0.0
    chosen[0] = 0
    for t in range(1, limit + 1):
        best[t] = -1.0
    within = (1 << (max(int(limit), 0) + 1)) - 1
    reached = 1
    for i in range(work["size"]):
        whole = work["total"][i]
        worth = work["worth"][i]
        head = work["head"][i]
        totals = (reached << whole) & within
        reached |= totals
        # From the highest down, so that no item is taken twice.
        while totals:
            t = uppermost(totals)
            totals ^= single(t)
            if best[t - whole] + worth > best[t]:
                best[t] = best[t - whole] + worth
                chosen[t] = chosen[t - whole] | head


@kernel
def pickable(spec, s):
    """What can be picked from the table: its cards, or with building its heads."""
    return s["heads"] if spec["building"] else s["table"]


@kernel
def best_capture(spec, s, action, work):
    """The heads that a legal pick takes with its best completion; 0 if it puts the card down."""
    if s["placing"]:
        return 0
    if action == LAY:
        return s["picked"]
    if s["played"] == NOBODY:
        card = action
        picked = 0
    else:
        card = int(s["played"])
        picked = s["picked"] | single(action)
    picks, sole, _ = capture_options(spec, s, card, picked)
    if sole:
        return sole
    if picks == 0:
        return 0
    if spec["capture_by"] == BY_VALUE and VALUES[lowest(picks)] == VALUES[card]:
        return dearest(spec, picks)
    list_items(spec, s, pickable(spec, s) & ~picked & ~JOKER_CARDS, work)
    if spec["capture_by"] == BY_VALUE:
        need = VALUES[card] - total(picked)
    elif spec["building"]:
        need = int(spec["target_sum"]) - VALUES[card]
        rest = picked
        while rest:
            need -= int(s["totals"][lowest(rest)])
            rest &= rest - 1
    else:
        need = int(spec["target_sum"]) - VALUES[card] - total(picked)
    best_subsets(work, need)
    result = -1
    highest = -1.0
    if need >= 0 and work["best"][need] >= 0.0 and (picked | single(card)) & JOKER_CARDS == 0:
        highest = work["best"][need]
        result = work["chosen"][need]
    if spec["jokers"]:
        # Captures with a joker: k of the table's, after others that leave each of them 1.
        inside = popcount((picked | single(card)) & JOKER_CARDS)
        free = s["table"] & JOKER_CARDS & ~picked
        added = 0
        worth = 0.0
        while True:
            if inside:
                for t in range(need - inside + 1):
                    if t == 0 and picked | added == 0:
                        continue
                    if work["best"][t] >= 0.0 and work["best"][t] + worth > highest:
                        highest = work["best"][t] + worth
                        result = work["chosen"][t] | added
            if free == 0:
                break
            added |= free & -free
            worth += spec["worth"][lowest(free)]
            free &= free - 1
            inside += 1
    return picked | result


@kernel
def dearest(spec, cards):
    """The single card of a set that is worth most, as a card set."""
    result = cards & -cards
    while cards:
        if spec["worth"][lowest(cards)] > spec["worth"][lowest(result)]:
            result = cards & -cards
        cards &= cards - 1
    return result


@kernel
def capture_worth(spec, s, card, taken):
    """Worth of capturing the card set ``taken`` with a card, a sweep included; 0 if it is empty."""
    if taken == 0:
        return 0.0
    worth = spec["worth"][card] + worth_of(spec, taken)
    if taken == s["table"] and sweep_scores(spec, s, taken | single(card)):
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
def next_hand(spec, s, forgotten):
    """What the seat to move knows of the next seat's next hand.

    Args:
        forgotten: Captured cards that the seat does not remember: they may be in that hand.

    Returns:
        The cards that it may hold, and how many of them it will hold when it moves.
    """
    seat = s["turn"]
    other = (seat + 1) % spec["players"]
    held = int(s["hand_counts"][other])
    if held and spec["open_hands"]:
        return s["hands"][other], held
    unseen = unseen_by(spec, s, seat) | forgotten
    if held == 0:
        stock = int(s["stock_size"]) - int(s["stock_next"])
        if stock >= spec["players"] * spec["hand_size"]:
            held = int(spec["hand_size"])
    return unseen, held


@kernel
def list_table_after(spec, s, card, taken, place, work):
    """Lists the table that a play leaves: after taking heads, or putting the card down.

    Args:
        taken: Heads that are captured; 0: the card is put on ``place``.
        place: Head that the card is set on, or ``LAY``.
    """
    if taken:
        list_items(spec, s, pickable(spec, s) & ~taken, work)
        return
    if place == LAY:
        list_items(spec, s, pickable(spec, s), work)
        add_item(spec, work, single(card), VALUES[card], single(card))
        return
    list_items(spec, s, pickable(spec, s) & ~single(place), work)
    pile = cards_of(spec, s, single(place)) | single(card)
    add_item(spec, work, single(place), total(pile), pile)


@kernel
def reply_to(spec, work, whole, value):
    """Worth of what the best capture with an ordinary card of some value takes; -1 if none.

    The reply's own card is not in it. ``work`` holds the items and ``best_subsets`` of them.

    Args:
        whole: Total of the items.
        value: Value of the card played.
    """
    if spec["capture_by"] == BY_VALUE:
        need = value
        worth = work["singles"][need]
        if worth < 0.0:
            worth = work["best"][need]
    else:
        need = int(spec["target_sum"]) - value
        if need <= 0:
            return -1.0
        worth = work["best"][need]
    if worth >= 0.0 and whole == need and work["jokers"] == 0 and work["sweeps_score"]:
        worth += spec["escoba_worth"]
    jokers = work["jokers"]
    for used in range(1, jokers + 1):
        for t in range(need - used + 1):
            if work["best"][t] >= 0.0:
                share = work["joker_worth"] * used / jokers
                worth = max(worth, work["best"][t] + share)
    return worth


@kernel
def joker_reply(spec, work):
    """Worth of what the best capture with a joker takes; -1 if the table is empty."""
    worth = -1.0
    target = int(spec["target_sum"])
    jokers = work["jokers"]
    for used in range(jokers + 1):
        for t in range(target - used):
            if t + used and work["best"][t] >= 0.0:
                share = work["joker_worth"] * used / jokers if used else 0.0
                worth = max(worth, work["best"][t] + share)
    return worth


@kernel
def expected_reply(spec, unseen, held, work):
    """Expected worth of the best single reply to the table in ``work`` by a hand out of ``unseen``.

    The hand is ``held`` cards, all equally likely; the reply is the capture of highest worth among
    them, or 0. ``work["no_reply"]`` becomes the probability that there is none.
    """
    work["no_reply"] = 1.0
    if held == 0 or work["size"] + work["jokers"] == 0:
        return 0.0
    # By value, what is needed is up to 10, whatever the target.
    limit = int(spec["target_sum"])
    if spec["capture_by"] == BY_VALUE:
        limit = max(limit, 10)
    best_subsets(work, limit)
    whole = 0
    for i in range(work["size"]):
        whole += work["total"][i]
    if spec["capture_by"] == BY_VALUE:
        singles = work["singles"]
        for value in range(11):
            singles[value] = -1.0
        for i in range(work["size"]):
            value = work["total"][i]
            singles[value] = max(singles[value], work["worth"][i])
    by_value = work["reply_by_value"]
    by_value[0] = joker_reply(spec, work) if spec["jokers"] else -1.0
    for value in range(1, 11):
        by_value[value] = reply_to(spec, work, whole, value)
    replies = work["reply"]
    counts = work["count"]
    size = 0
    for value in range(11):
        if by_value[value] < 0.0:
            continue
        cards = unseen & RANK_MASKS[value] if value else unseen & JOKER_CARDS
        # Within a rank only oros differ in worth.
        for part in range(2):
            group = cards & OROS if part == 0 else cards & ~OROS
            if group:
                reply = by_value[value] + spec["worth"][lowest(group)]
                i = size
                while i > 0 and replies[i - 1] < reply:
                    replies[i] = replies[i - 1]
                    counts[i] = counts[i - 1]
                    i -= 1
                replies[i] = reply
                counts[i] = popcount(group)
                size += 1
    expected = 0.0
    none_better = 1.0
    left = popcount(unseen)
    for i in range(size):
        none = none_of(counts[i], left, held)
        expected += none_better * (1.0 - none) * replies[i]
        none_better *= none
        left -= counts[i]
        if none_better == 0.0:
            break
    work["no_reply"] = none_better
    return expected


@kernel
def sweepers(spec, work, unseen):
    """Cards out of ``unseen`` that would sweep the table in ``work``, and score for it."""
    if work["size"] == 0 or work["jokers"] or work["sweeps_score"] == 0:
        return 0
    whole = 0
    for i in range(work["size"]):
        whole += work["total"][i]
    value = whole if spec["capture_by"] == BY_VALUE else int(spec["target_sum"]) - whole
    if 0 < value <= 10:
        return popcount(unseen & RANK_MASKS[value])
    return 0


@kernel
def place_of(spec, s, action, card):
    """Where a pick that does not capture puts its card: a head or ``LAY``.

    A hand card that may still be put in several places counts as laid, or else as set on the
    lowest head that it may be set on.
    """
    if s["placing"]:
        return action
    places = placements(spec, s, card)
    if places == 0 or (places >> LAY) & 1:
        return LAY
    return lowest(places)


OWN_NEXT = 0.7
"""Two players: share of the worth of the mover's own next capture that counts."""
PARTNER_NEXT = 0.2
"""Partners: share of the expected worth of the partner's next capture that counts."""
# Both were tuned on duplicate deals against 0. Two players: 0.25 to 0.9 win 0.03 to 0.05 points a
# round (20,000 deals, +-0.01); partners: 0.2 wins 0.01 (16,000 deals, +-0.01), 0.4 and more lose.
# A term for the opponents after the next one, with three players and more, won nothing.


@kernel
def own_next_capture(spec, s, card, unseen, work):
    """What the mover's side can take from the table in ``work`` after the next opponent.

    With two players it is the best capture with the rest of the mover's hand, with partners the
    expected best one of the partner; weighted as it counts, and 0 for anybody else.

    Args:
        card: The card that is played.
        unseen: Cards that the mover does not know the place of.
        work: As ``expected_reply`` has left it for a table that is not empty.
    """
    seat = int(s["turn"])
    players = int(spec["players"])
    partners = spec["sides"] < players
    if players > 2 and not partners:
        return 0.0
    other = (seat + 2) % players
    hand = s["hands"][other] & ~single(card)
    if hand and (players == 2 or spec["open_hands"]):
        best = 0.0
        while hand:
            own = lowest(hand)
            hand &= hand - 1
            # Jokers, whose value is 0, are replies of their own.
            taken = work["reply_by_value"][VALUES[own]]
            if taken >= 0.0:
                best = max(best, taken + spec["worth"][own])
    else:
        held = 0 if players == 2 else int(s["hand_counts"][other])
        stock = int(s["stock_size"]) - int(s["stock_next"])
        if held == 0 and stock >= players * spec["hand_size"]:
            held = int(spec["hand_size"])
        best = expected_reply(spec, unseen, held, work)
    return (PARTNER_NEXT if partners else OWN_NEXT) * best


@kernel
def write_facts(spec, s, out, row, start, work, forgotten):
    """Writes the action features of the seat to move: ``NUM_FACTS`` floats for each action.

    Args:
        out: Float array of shape (rows, size); row ``row`` is written from column ``start`` on.
            Features of actions that are not legal are zeros.
        work: Work space, a ``WORK`` record.
        forgotten: As for ``next_hand``.
    """
    fill(out, row, start, NUM_ACTIONS * NUM_FACTS, 0)
    unseen, held = next_hand(spec, s, forgotten)
    # An open hand is known to be the next opponent's: no deal to come is of its cards.
    hidden = unseen_by(spec, s, int(s["turn"])) | forgotten
    left = popcount(unseen)
    legal = s["legal"]
    table = s["table"]
    by_value = spec["capture_by"] == BY_VALUE
    work["sweeps_score"] = 0 if by_value and is_before_last_turn(spec, s) else 1
    while legal:
        action = lowest(legal)
        legal &= legal - 1
        card = action if s["played"] == NOBODY else int(s["played"])
        heads = best_capture(spec, s, action, work)
        taken = cards_of(spec, s, heads)
        worth = capture_worth(spec, s, card, taken)
        after = table ^ taken if taken else table | single(card)
        place = LAY if taken else place_of(spec, s, action, card)
        list_table_after(spec, s, card, heads, place, work)
        sweeping = sweepers(spec, work, unseen)
        reply = expected_reply(spec, unseen, held, work)
        o = start + action * NUM_FACTS
        out[row, o] = 1
        if taken:
            cards = taken | single(card)
            out[row, o + 1] = 1
            out[row, o + 2] = popcount(cards) / 10
            out[row, o + 3] = popcount(cards & OROS) / 5
            out[row, o + 4] = popcount(cards & SEVENS) / 2
            out[row, o + 5] = (cards >> SEVEN_OF_OROS) & 1
            out[row, o + 6] = 1 if after == 0 and sweep_scores(spec, s, cards) else 0
            out[row, o + 7] = worth
        out[row, o + 8] = total(after) / spec["target_sum"]
        out[row, o + 9] = popcount(after) / 8
        out[row, o + 10] = worth_of(spec, after)
        out[row, o + 11] = 1.0 - none_of(sweeping, left, held)
        out[row, o + 12] = sweeping / 4
        out[row, o + 13] = reply
        out[row, o + 14] = worth - reply
        out[row, o + 15] = spec["worth"][card]
        stays = work["no_reply"]
        out[row, o + 16] = stays
        if held and work["size"] + work["jokers"] and stays > 0.0:
            out[row, o + 17] = own_next_capture(spec, s, card, hidden, work)
        known = held > 0 and work["size"] + work["jokers"] > 0
        for value in range(1, 11):
            out[row, o + 17 + value] = work["reply_by_value"][value] if known else -1.0
            out[row, o + 27 + value] = popcount(after & RANK_MASKS[value])


@kernel
def greedy_action(spec, s, work):
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
        taken = cards_of(spec, s, best_capture(spec, s, action, work))
        worth = capture_worth(spec, s, card, taken)
        if taken == 0:
            # Below every capture, even of cards that are worth nothing.
            worth = -1.0 - spec["worth"][card]
        # Sums of the same cards in another order differ by rounding: they are a tie.
        if result < 0 or worth > highest + 1e-9:
            result = action
            highest = worth
    return result
