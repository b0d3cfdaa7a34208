"""The exact solver's kernels: the best margin of the rest of a round with every card known.

Two sides that move in turn (two players, or partners) and nothing hidden make a zero-sum game of
perfect information: alpha-beta in the form of null windows around a guess (MTD(f): Plaat,
Schaeffer, Pijls and de Bruin, *Best-first fixed-depth minimax algorithms*, 1996), with a table of
positions met before, and bounds from the points that are still open.

The search walks over ``NODE``, a leaner record than ``STATE``: it has the fields under the same
names that the rules' kernels read, so setting, laying and piles are those of ``play``. Captures are
listed whole here, instead of pick by pick; tests compare every list and every turn with ``play``.

With two sides a tie leaves the margin as it is whatever the rule for ties, so margins are whole
points. All values here are margins of the side to move.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import LAY, NUM_ACTIONS, NUM_IDS, SEVEN_OF_OROS
from escoba_env.engine.bits import (
    JOKER_CARDS,
    OROS,
    RANK_MASKS,
    SEVENS,
    VALUES,
    lowest,
    popcount,
    single,
    total,
)
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.play import (
    cards_of,
    deal_hands,
    is_last_deal,
    placements,
    put,
    turns_of_this_deal,
    unseen_by,
    valued_up_to,
)
from escoba_env.engine.record import (
    BY_VALUE,
    CAPTURE_HAND,
    CAPTURE_OPTIONAL,
    NOBODY,
)
from escoba_env.engine.score import (
    CARDS,
    ORO_CARDS,
    SETENTA,
    SEVEN_CARDS,
    count_of,
    escobas_of,
    napola_length,
    pile_of,
)

NODE = np.dtype(
    [
        ("hands", np.int64, (4,)),
        ("piles", np.int64, (2,)),  # by side
        ("table", np.int64),
        ("heads", np.int64),
        ("turn", np.int64),  # seat to move; its side is turn % 2
        ("played", np.int64),  # the card that is put down, while it is
        ("last", np.int64),  # side that captured last, or NOBODY
        ("turns", np.int64),  # turns left in the round
        ("deal", np.int64),  # number of deals since the start of the search
        ("table_total", np.int64),  # value of the table
        ("open_total", np.int64),  # value of table, hands and the hands to come
        ("pile_of", np.int8, (NUM_IDS,)),  # building, as in STATE
        ("totals", np.int8, (NUM_IDS,)),
    ],
    align=True,
)
"""A position of the search: the start of a turn."""

MAX_DEALS = NUM_IDS // 2
MAX_TURNS = NUM_IDS

PLAN = np.dtype(
    [
        ("deals", np.int64, (MAX_DEALS, 4)),  # hands to come, by deal and seat
        ("number_of_deals", np.int64),
        ("in_round", np.int64),  # the pack but for the cards set aside
        ("oros_in_pack", np.int64),
        ("sevens_in_pack", np.int64),
        ("alike", np.int64),  # 1: cards of a rank that are no oros do the same (no setenta)
        ("worth", np.int64, (NUM_IDS,)),  # of capturing a card, in hundredths of a point
        ("use_table", np.int64),
        ("use_bounds", np.int64),
        ("nodes", np.int64),  # positions searched so far
        ("most", np.int64),  # more points than there are
        ("max_nodes", np.int64),  # the search stops when it has searched more
        ("status", np.int64),
        ("item_cards", np.int64, (NUM_IDS,)),  # room to list captures: what can be taken,
        ("item_totals", np.int64, (NUM_IDS,)),  # its value,
        ("item_kinds", np.int64, (NUM_IDS,)),  # its kind, equal for those that do the same,
        ("chosen", np.int64, (NUM_IDS,)),  # and which of it is chosen
    ],
    align=True,
)
"""What a search knows beside its positions."""

SLOT = np.dtype(
    [
        ("hands", np.int64),  # cards in hand, and above them the turns left
        ("table", np.int64),  # cards on the table, and above them a mark of the best move
        ("standing", np.int64),  # what matters of the piles
        ("low", np.int32),  # the margin still to come is at least this
        ("high", np.int32),  # and at most this
    ]
)
"""A position in the table of those met before; no cards in hand: empty."""

SOLVED, NO_ROOM, TOO_MANY_NODES = range(3)

CARD, TAKEN, PLACE, SCORE = range(4)
"""Columns of a list of moves: card, heads taken (0: none), head or ``LAY``, and order of search."""

INFINITE = 1 << 30
NO_VALUE = -INFINITE
"""Value of an action that is not legal."""

_IDS = (1 << NUM_IDS) - 1
_RANKS = (1 << 10) - 1
_BITS = (1 << 63) - 1


# -- captures and moves ---------------------------------------------------------------------


@kernel
def one_of_each_kind(cards):
    """Cards of a set but for those that do the same as a lower one in it: same rank, no oros."""
    first = (cards >> 10) & _RANKS
    second = (cards >> 20) & _RANKS & ~first
    third = (cards >> 30) & _RANKS & ~(first | second)
    jokers = cards & JOKER_CARDS
    return cards & OROS | first << 10 | second << 20 | third << 30 | jokers & -jokers


@kernel
def kinds_of(cards):
    """The same card set for any two that differ only in cards that do the same."""
    first = (cards >> 10) & _RANKS
    second = (cards >> 20) & _RANKS
    third = (cards >> 30) & _RANKS
    one = first | second | third
    two = first & second | first & third | second & third
    jokers = cards & JOKER_CARDS
    if jokers and jokers != JOKER_CARDS:
        jokers = JOKER_CARDS & -JOKER_CARDS
    return cards & OROS | one << 10 | two << 20 | (first & second & third) << 30 | jokers


@kernel
def kind_of_item(spec, plan, node, item):
    """A number for a card, or with building for the pile of a head; equal if they do the same."""
    if spec["building"] == 0:
        return kinds_of(item)
    pile = cards_of(spec, node, item)
    if plan["alike"] == 0 or spec["napola"]:
        return pile
    kind = total(pile) << 6 | popcount(pile)
    kind = kind << 4 | popcount(pile & OROS)
    kind = kind << 3 | popcount(pile & SEVENS)
    return kind << 1 | (pile >> SEVEN_OF_OROS) & 1


@kernel
def list_items(spec, plan, node):
    """Lists what can be taken: cards, or with building heads, from the lowest value up.

    A joker counts 1, the least that it stands for.

    Returns:
        How many there are.
    """
    items = plan["item_cards"]
    totals = plan["item_totals"]
    kinds = plan["item_kinds"]
    size = 0
    if spec["building"]:
        rest = node["heads"]
        while rest:
            head = rest & -rest
            value = int(node["totals"][lowest(head)])
            i = size
            while i > 0 and totals[i - 1] > value:
                items[i] = items[i - 1]
                totals[i] = totals[i - 1]
                kinds[i] = kinds[i - 1]
                i -= 1
            items[i] = head
            totals[i] = value
            kinds[i] = kind_of_item(spec, plan, node, head)
            size += 1
            rest ^= head
        return size
    for value in range(11):
        rest = node["table"] & (RANK_MASKS[value] if value else JOKER_CARDS)
        while rest:
            items[size] = rest & -rest
            totals[size] = max(value, 1)
            kinds[size] = kinds_of(rest & -rest)
            size += 1
            rest &= rest - 1
    return size


@kernel
def cards_for(spec, node, hand, chosen, number, whole):
    """Cards of ``hand`` that capture exactly the ``number`` items ``chosen``, of value ``whole``.

    RULES sections 3, 6 and 7.
    """
    if spec["capture_by"] == BY_VALUE:
        if whole > 10 or (number > 1 and node["table"] & RANK_MASKS[whole]):
            return 0
        return hand & RANK_MASKS[whole]
    need = int(spec["target_sum"]) - whole
    cards = 0
    if spec["jokers"]:
        if need >= 1:
            cards = hand & JOKER_CARDS
        if chosen & JOKER_CARDS:
            return cards | valued_up_to(hand, need)
    if 1 <= need <= 10:
        cards |= hand & RANK_MASKS[need]
    return cards


@kernel
def list_moves(spec, plan, node, moves, start):
    """Lists the moves of the seat to move in rows ``start`` and on.

    With ``plan["alike"]`` they are one of each kind: others that do the same are left out.

    Returns:
        The row after the last, or -1 if there is no room.
    """
    hand = node["hands"][node["turn"]]
    alike = plan["alike"]
    if alike:
        hand = one_of_each_kind(hand)
    end = start
    size = list_items(spec, plan, node)
    items = plan["item_cards"]
    totals = plan["item_totals"]
    kinds = plan["item_kinds"]
    chosen = plan["chosen"]
    limit = 10 if spec["capture_by"] == BY_VALUE else int(spec["target_sum"]) - 1
    able = 0
    taken = 0
    whole = 0
    number = 0
    i = 0
    while True:
        if i < size and whole + totals[i] <= limit:
            taken |= items[i]
            whole += totals[i]
            chosen[number] = i
            number += 1
            cards = cards_for(spec, node, hand, taken, number, whole)
            able |= cards
            while cards:
                if end == len(moves):
                    return -1
                moves[end, CARD] = lowest(cards)
                moves[end, TAKEN] = taken
                moves[end, PLACE] = NOBODY
                end += 1
                cards &= cards - 1
            i += 1
            continue
        # No item that follows fits, as they are in order: another one for the last chosen.
        if number == 0:
            break
        number -= 1
        i = chosen[number]
        taken ^= items[i]
        whole -= totals[i]
        last = i
        i += 1
        while alike and i < size and kinds[i] == kinds[last]:
            i += 1
    if spec["capture"] == CAPTURE_HAND and able:
        return end
    rest = hand if spec["capture"] == CAPTURE_OPTIONAL else hand & ~able
    placeless = 0
    while rest:
        card = lowest(rest)
        places = placements(spec, node, card)
        if places == 0 and (able >> card) & 1 == 0:
            placeless |= rest & -rest
        last = -1
        while places:
            place = lowest(places)
            places &= places - 1
            if alike and place != LAY:
                # Of piles that follow each other and do the same one is enough.
                kind = kind_of_item(spec, plan, node, single(place))
                if kind == last:
                    continue
                last = kind
            if end == len(moves):
                return -1
            moves[end, CARD] = card
            moves[end, TAKEN] = 0
            moves[end, PLACE] = place
            end += 1
        rest &= rest - 1
    if end == start:
        while placeless:
            if end == len(moves):
                return -1
            moves[end, CARD] = lowest(placeless)
            moves[end, TAKEN] = 0
            moves[end, PLACE] = LAY
            end += 1
            placeless &= placeless - 1
    return end


@kernel
def order_moves(spec, plan, node, moves, start, end, hint):
    """Scores moves for the order in which they are searched; no value depends on it.

    Args:
        hint: Mark of the move that was best when this position was met before, or 0.
    """
    turn = node["turn"]
    seat = (turn + 1) % spec["players"]
    reply = node["hands"][seat]
    if reply == 0 and node["deal"] < plan["number_of_deals"]:
        reply = plan["deals"][node["deal"], seat]
    worth = plan["worth"]
    by_value = spec["capture_by"] == BY_VALUE
    escoba = 100 * spec["escoba"]
    for row in range(start, end):
        card = moves[row, CARD]
        taken = moves[row, TAKEN]
        left = node["table_total"]
        if hint and mark_of(moves[row, CARD], taken, moves[row, PLACE]) == hint:
            moves[row, SCORE] = INFINITE
            continue
        if taken:
            cards = cards_of(spec, node, taken)
            score = 50 + worth[card]
            swept = cards == node["table"]
            while cards:
                other = lowest(cards)
                score += worth[other]
                left -= VALUES[other]
                cards &= cards - 1
            if swept:
                score += escoba
        else:
            score = -worth[card]
            left += VALUES[card]
        need = left if by_value else int(spec["target_sum"]) - left
        if left and 1 <= need <= 10 and reply & RANK_MASKS[need]:
            score -= escoba
        moves[row, SCORE] = score


@kernel
def mark_of(card, taken, place):
    """A number, 1 to 2^20, that tells a move from most others; equal for moves that do the same."""
    number = mixed(kinds_of(single(card)) ^ mixed(kinds_of(taken) ^ place << 50))
    return (number >> 40 & 0xFFFFF) + 1


@entry
def take_turn(spec, plan, node, child, card, taken, place):
    """Writes into ``child`` the position after a move.

    Returns:
        Points that the move scores as an escoba.
    """
    # Field by field: most rules have no use for the piles' long fields.
    for seat in range(spec["players"]):
        child["hands"][seat] = node["hands"][seat]
    for side in range(2):
        child["piles"][side] = node["piles"][side]
    child["table"] = node["table"]
    child["heads"] = node["heads"]
    child["last"] = node["last"]
    child["turns"] = node["turns"] - 1
    child["deal"] = node["deal"]
    child["table_total"] = node["table_total"]
    child["open_total"] = node["open_total"]
    if spec["building"]:
        for other in range(NUM_IDS):
            child["pile_of"][other] = node["pile_of"][other]
            child["totals"][other] = node["totals"][other]
    turn = node["turn"]
    gained = 0
    child["hands"][turn] ^= single(card)
    if taken:
        cards = cards_of(spec, node, taken)
        child["table"] &= ~cards
        child["heads"] &= ~taken
        value = total(cards & ~JOKER_CARDS)
        child["table_total"] -= value
        child["open_total"] -= value + VALUES[card]
        cards |= single(card)
        child["piles"][turn & 1] |= cards
        child["last"] = turn & 1
        joker = cards & JOKER_CARDS
        too_late = spec["capture_by"] == BY_VALUE and node["turns"] == 1
        if child["table"] == 0 and not joker and not too_late:
            gained = int(spec["escoba"])
    else:
        child["played"] = card
        child["table_total"] += VALUES[card]
        put(spec, child, place)
    turn = (turn + 1) % spec["players"]
    child["turn"] = turn
    if child["turns"] == 0:
        if child["last"] != NOBODY:
            left = plan["in_round"] & ~(child["piles"][0] | child["piles"][1])
            child["piles"][child["last"]] |= left
    elif child["hands"][turn] == 0:
        for seat in range(spec["players"]):
            child["hands"][seat] = plan["deals"][child["deal"], seat]
        child["deal"] += 1
    return gained


# -- what is decided and what is open -------------------------------------------------------


@kernel
def majority(own, other, points, all_points, in_pack):
    """Margin of a majority category between two sides."""
    if own > other:
        return all_points if own == in_pack else points
    if other > own:
        return -all_points if other == in_pack else -points
    return 0


@kernel
def best_of_suits(pile):
    """The best card for the setenta in each suit of a pile, 4 bits each; 0: none."""
    result = 0
    for suit in range(4):
        cards = (pile >> (10 * suit)) & _RANKS
        # Rank 7, 6, ace, 5, 4, 3, 2, figures: RULES section 5.
        if cards & 0x40:
            best = 8
        elif cards & 0x20:
            best = 7
        elif cards & 1:
            best = 6
        elif cards & 0x1E:
            best = 5
            while cards & (1 << (best - 1)) == 0:
                best -= 1
        else:
            best = 1 if cards else 0
        result = result << 4 | best
    return result


@entry
def prospects(spec, plan, node):
    """What the side to move will have from the categories, escobas left out.

    A category's margin never falls with a card more, so its bounds are those with all open cards on
    one side. It is decided where these are equal.

    Returns:
        The margin that is decided, the lowest and the highest one that is not, and a number that is
        the same for two positions, equal in hands and table, if what is undecided depends on the
        piles in the same way.
    """
    side = node["turn"] & 1
    own = node["piles"][side]
    other = node["piles"][1 - side]
    left = 0
    if node["turns"]:
        left = plan["in_round"] & ~(own | other)
    decided = 0
    low = 0
    high = 0
    standing = int(node["last"]) + 1
    for category in range(4):
        in_pack = plan["oros_in_pack"]
        if category == CARDS:
            points, whole, width = spec["most_cards"], spec["most_cards"], 6
        elif category == ORO_CARDS:
            points, whole, width = spec["most_oros"], spec["all_oros"], 4
        elif category == SEVEN_CARDS:
            points, whole, width = spec["most_sevens"], spec["all_sevens"], 3
            in_pack = plan["sevens_in_pack"]
        else:
            points, whole, width = spec["setenta"], spec["setenta"], 32
        if whole == 0:
            continue
        mine = count_of(spec, own, category)
        theirs = count_of(spec, other, category)
        most_of_theirs = count_of(spec, other | left, category)
        most_of_mine = count_of(spec, own | left, category)
        least = majority(mine, most_of_theirs, points, whole, in_pack)
        most = majority(most_of_mine, theirs, points, whole, in_pack)
        if least == most:
            decided += least
            mark = (1 << width) - 1
        else:
            low += least
            high += most
            mark = mine
            if category == SETENTA:
                mark = best_of_suits(own) << 16 | best_of_suits(other)
        standing = standing << width | mark
    if (own >> SEVEN_OF_OROS) & 1:
        decided += spec["seven_of_oros"]
    elif (other >> SEVEN_OF_OROS) & 1:
        decided -= spec["seven_of_oros"]
    elif (left >> SEVEN_OF_OROS) & 1:
        low -= spec["seven_of_oros"]
        high += spec["seven_of_oros"]
    if spec["napola"]:
        least = napola_length(own) - napola_length(other | left)
        most = napola_length(own | left) - napola_length(other)
        if least == most:
            decided += least
            standing = standing << 11
        else:
            low += least
            high += most
            standing = standing << 11 | 1 << 10 | own & OROS
    return decided, low, high, standing


@kernel
def sweeps_left(spec, node):
    """The most escobas that the side to move and the other one can still score."""
    turns = int(node["turns"])
    mine = (turns + 1) // 2
    theirs = turns // 2
    by_value = spec["capture_by"] == BY_VALUE
    need = int(node["table_total"])
    if not by_value:
        need = int(spec["target_sum"]) - need
    now = node["table"] and 1 <= need <= 10 and node["hands"][node["turn"]] & RANK_MASKS[need]
    if not now:
        mine -= 1
    if by_value or (spec["jokers"] == 0 and node["open_total"] % spec["target_sum"]):
        # The last turn scores none: captures take the same total each, so a table is left.
        if turns % 2 == 0:
            theirs -= 1
        elif now or turns > 1:
            mine -= 1
    if not by_value and spec["jokers"] == 0:
        captures = int(node["open_total"]) // int(spec["target_sum"])
        mine = min(mine, captures)
        theirs = min(theirs, captures)
    return mine, theirs


# -- search ---------------------------------------------------------------------------------


@kernel
def mixed(number):
    """Spreads a number over 63 bits, so that sums of such numbers tell their terms.

    Source: Steele, Lea and Flood, *Fast splittable pseudorandom number generators* (2014), the
    output function of SplitMix, with the constants cut to 63 bits.
    """
    # The addend comes first: without it twice a number would often be mixed to twice the result.
    # Products may wrap to negative numbers; masking gives the right bits all the same.
    number = int(number) + 0x1E3779B97F4A7C15 & _BITS
    number = (number ^ number >> 30) * 0x3F58476D1CE4E5B9 & _BITS
    number = (number ^ number >> 27) * 0x14D049BB133111EB & _BITS
    return number ^ number >> 31


@kernel
def mark_of_piles(spec, plan, node):
    """A number for the piles on the table; the same for two tables that do the same."""
    number = 0
    rest = node["heads"]
    while rest:
        kind = kind_of_item(spec, plan, node, rest & -rest)
        number = (number + mixed(kind)) & _BITS
        rest &= rest - 1
    return number


@entry
def key_of(spec, plan, node, standing):
    """What a position is known by in the table of those met before.

    Two positions of one search with the same key have the same margin to come. Which seat holds
    which card of the hands, and who is to move, follow from the deal and the turns left.

    Args:
        standing: What matters of the piles, from ``prospects``.

    Returns:
        The fields ``hands``, ``table`` and ``standing`` of a ``SLOT``.
    """
    hands = int(node["turns"]) << NUM_IDS
    for seat in range(spec["players"]):
        hands |= node["hands"][seat]
    if spec["building"]:
        # How cards lie in piles is too much to be kept in full. That two tables have the same
        # 63 bits by chance is the one way in which a value could be wrong.
        piles = mark_of_piles(spec, plan, node)
        return hands, piles & _IDS, standing ^ piles >> NUM_IDS
    return hands, kinds_of(node["table"]) if plan["alike"] else node["table"], standing


@kernel
def search(spec, plan, nodes, turns, alpha, beta, slots, moves, start):
    """The margin of the rest of the round for the side to move with ``turns`` turns left.

    The position is ``nodes[turns]``, and those below are work space. All categories count,
    and the escobas from here on.

    Returns:
        The margin if it lies between ``alpha`` and ``beta``, else a bound of it on that side.
    """
    node = nodes[turns]
    plan["nodes"] += 1
    decided, low, high, standing = prospects(spec, plan, node)
    if turns == 0:
        return decided
    if plan["nodes"] > plan["max_nodes"]:
        plan["status"] = TOO_MANY_NODES
        return 0
    if plan["use_bounds"]:
        mine, theirs = sweeps_left(spec, node)
        low = decided + low - theirs * spec["escoba"]
        high = decided + high + mine * spec["escoba"]
        if low >= beta or low == high:
            return low
        if high <= alpha:
            return high
    looked_up = plan["use_table"] and turns > 2
    hands = 0
    table = 0
    row = 0
    hint = 0
    if looked_up:
        hands, table, standing = key_of(spec, plan, node, standing)
        row = mixed(hands ^ mixed(table ^ mixed(standing))) >> 20 & (len(slots) - 2)
        for i in range(row, row + 2):
            slot = slots[i]
            if (
                slot["hands"] == hands
                and slot["standing"] == standing
                and slot["table"] & _IDS == table
            ):
                low = decided + slot["low"]
                high = decided + slot["high"]
                if low >= beta or low == high:
                    return low
                if high <= alpha:
                    return high
                hint = slot["table"] >> NUM_IDS
                break
    end = list_moves(spec, plan, node, moves, start)
    if end < 0:
        plan["status"] = NO_ROOM
        return 0
    if end - start > 1:
        order_moves(spec, plan, node, moves, start, end, hint)
    best = -INFINITE
    mark = 0
    floor = alpha
    for tried in range(start, end):
        at = tried
        for other in range(tried + 1, end):
            if moves[other, SCORE] > moves[at, SCORE]:
                at = other
        card, taken, place = moves[at, CARD], moves[at, TAKEN], moves[at, PLACE]
        if at != tried:
            for column in range(4):
                moves[at, column] = moves[tried, column]
        gained = take_turn(spec, plan, node, nodes[turns - 1], card, taken, place)
        value = gained - search(
            spec, plan, nodes, turns - 1, gained - beta, gained - floor, slots, moves, end
        )
        if plan["status"] != SOLVED:
            return 0
        if value > best:
            best = value
            if looked_up:
                mark = mark_of(card, taken, place)
            floor = max(floor, best)
            if best >= beta:
                break
    if looked_up:
        store(
            slots,
            row,
            hands,
            table,
            standing,
            best - decided,
            alpha - decided,
            beta - decided,
            mark,
        )
    return best


@kernel
def store(slots, row, hands, table, standing, value, alpha, beta, mark):
    """Keeps what a search has found: in the same position's row, or in place of a lesser one."""
    at = row + 1
    found = False
    for i in range(row, row + 2):
        slot = slots[i]
        if (
            slot["hands"] == hands
            and slot["standing"] == standing
            and slot["table"] & _IDS == table
        ):
            at = i
            found = True
            break
    if not found and slots[row]["hands"] >> NUM_IDS <= hands >> NUM_IDS:
        # The one with more turns left took longer to search.
        slots[row + 1] = slots[row]
        at = row
    slot = slots[at]
    if not found:
        slot["hands"] = hands
        slot["standing"] = standing
        slot["low"] = -INFINITE
        slot["high"] = INFINITE
    slot["table"] = table | mark << NUM_IDS
    if value > alpha:
        slot["low"] = value
    if value < beta:
        slot["high"] = value


@kernel
def value_of(spec, plan, nodes, turns, guess, slots, moves, start):
    """The exact margin for the side to move at ``nodes[turns]``, by null windows from a guess."""
    low = -plan["most"]
    high = plan["most"]
    if plan["use_table"] == 0:
        return search(spec, plan, nodes, turns, low, high, slots, moves, start)
    while low < high and plan["status"] == SOLVED:
        beta = guess + 1 if guess == low else guess
        guess = search(spec, plan, nodes, turns, beta - 1, beta, slots, moves, start)
        if guess < beta:
            high = guess
        else:
            low = guess
    return guess


@entry
def set_out(spec, s, scratch, plan, nodes):
    """Writes the position of a game record, as it was at the start of the turn.

    Returns:
        Turns left, which is where in ``nodes`` the position is.
    """
    scratch[0] = s
    deal = 0
    coming = 0
    while not is_last_deal(spec, scratch[0]):
        deal_hands(spec, scratch[0])
        for seat in range(spec["players"]):
            plan["deals"][deal, seat] = scratch[0]["hands"][seat]
            coming += total(scratch[0]["hands"][seat] & ~JOKER_CARDS)
        deal += 1
    plan["number_of_deals"] = deal
    plan["in_round"] = spec["pack"] & ~s["set_aside"]
    plan["oros_in_pack"] = popcount(spec["pack"] & OROS)
    plan["sevens_in_pack"] = popcount(spec["pack"] & SEVENS)
    plan["alike"] = spec["setenta"] == 0
    for card in range(NUM_IDS):
        plan["worth"][card] = int(100 * spec["worth"][card])
    turns = int(turns_of_this_deal(spec, s)) + deal * int(spec["players"]) * int(spec["hand_size"])
    node = nodes[turns]
    for seat in range(4):
        node["hands"][seat] = s["hands"][seat]
    if s["played"] != NOBODY:
        node["hands"][s["turn"]] |= single(s["played"])
    for seat in range(4):
        coming += total(node["hands"][seat] & ~JOKER_CARDS)
    node["piles"][0] = pile_of(spec, s, 0)
    node["piles"][1] = pile_of(spec, s, 1)
    node["table"] = s["table"]
    node["heads"] = s["heads"]
    node["turn"] = s["turn"]
    node["last"] = NOBODY if s["last_capturer"] == NOBODY else s["last_capturer"] & 1
    node["turns"] = turns
    node["deal"] = 0
    node["table_total"] = total(s["table"] & ~JOKER_CARDS)
    node["open_total"] = coming + node["table_total"]
    # More than all points together: an escoba takes a turn, a run of ten oros scores ten.
    plan["most"] = (
        11 + turns * int(spec["escoba"]) + int(spec["most_cards"]) + int(spec["all_oros"])
    )
    plan["most"] += int(spec["all_sevens"]) + int(spec["seven_of_oros"]) + int(spec["setenta"])
    for card in range(NUM_IDS):
        node["pile_of"][card] = s["pile_of"][card]
        node["totals"][card] = s["totals"][card]
    return turns


@kernel
def actions_of(s, card, taken, place):
    """Actions by which the seat to move can go on to a move, as a bit set; 0: it cannot."""
    played = s["played"]
    if played == NOBODY:
        return single(card)
    if card != played:
        return 0
    if s["placing"]:
        return 0 if taken else single(place)
    if taken == 0:
        return 0 if s["picked"] else single(LAY)
    if s["picked"] & ~taken:
        return 0
    rest = taken & ~s["picked"]
    return rest or single(LAY)


@kernel
def rows_for(spec, turns, slots):
    """How many rows of the table a search clears and uses: about as many as it has positions."""
    size = 3 + turns // 3
    if spec["players"] == 4:
        size += 3
    if spec["capture"] == CAPTURE_OPTIONAL or spec["jokers"]:
        size += 3
    if spec["building"]:
        size += 6
    rows = 1 << size
    while rows > len(slots):
        rows >>= 1
    return rows


@kernel
def solve_margin(spec, s, plan, nodes, scratch, slots, moves, max_nodes):
    """Finds the margin of one record at the start of a turn, for the side to move.

    Args:
        s: As for ``solve_moves``, like all that is not named here.
        moves: Work space, int64 (rows, 4).
        max_nodes: The search is given up when it has searched more positions.

    Returns:
        ``SOLVED``, ``NO_ROOM`` if there are too few rows, or ``TOO_MANY_NODES``; and the margin.
    """
    plan["use_table"] = 1
    plan["use_bounds"] = 1
    plan["max_nodes"] = max_nodes
    plan["nodes"] = 0
    plan["status"] = SOLVED
    turns = set_out(spec, s, scratch, plan, nodes)
    side = int(s["turn"]) & 1
    ahead = escobas_of(spec, s, side) - escobas_of(spec, s, 1 - side)
    rows = rows_for(spec, turns, slots)
    for i in range(rows):
        slots[i]["hands"] = 0
    guess, start = np.int64(0), np.int64(0)
    value = value_of(spec, plan, nodes, turns, guess, slots[:rows], moves, start)
    return plan["status"], value + int(ahead) * int(spec["escoba"])


@entry
def list_root(spec, s, plan, node, moves):
    """Lists the moves by which the seat to move can go on, those that do the same too.

    Returns:
        The row after the last, or -1 if there is no room.
    """
    # As constants of Python these would have the kernels compiled once more, just for them.
    start, no_hint = np.int64(0), np.int64(0)
    alike = plan["alike"]
    plan["alike"] = 0
    end = list_moves(spec, plan, node, moves, start)
    plan["alike"] = alike
    kept = start
    for row in range(end):
        if actions_of(s, moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]):
            for column in range(4):
                moves[kept, column] = moves[row, column]
            kept += 1
    order_moves(spec, plan, node, moves, start, kept, no_hint)
    return kept if end >= 0 else end


@kernel
def solve_moves(
    spec, s, plan, nodes, scratch, slots, use_table, use_bounds, max_nodes, values, row
):
    """Finds the margin of every way to go on from one record.

    Args:
        s: A record in play of which nothing is hidden, at any pick of a turn.
        plan: Work space, ``PLAN``.
        nodes: Work space, ``NODE`` (MAX_TURNS + 1,).
        scratch: Work space, ``STATE`` (1,).
        slots: Work space, ``SLOT`` (a power of two from 2,): the table of positions.
        use_table: Whether positions are looked up, and values found by null windows.
        use_bounds: Whether the points that are open bound values.
        max_nodes: The search is given up when it has searched more positions.
        values: int64 (rows, NUM_ACTIONS); row ``row`` gets the margin of each legal action, and
            ``NO_VALUE`` for others.

    Returns:
        ``SOLVED`` or ``TOO_MANY_NODES``; number of positions searched; number of moves; and the
        moves, with their margins in place of the order of search.
    """
    plan["use_table"] = use_table
    plan["use_bounds"] = use_bounds
    plan["max_nodes"] = max_nodes
    plan["nodes"] = 0
    turns = set_out(spec, s, scratch, plan, nodes)
    side = int(s["turn"]) & 1
    ahead = escobas_of(spec, s, side) - escobas_of(spec, s, 1 - side)
    scored = int(ahead) * int(spec["escoba"])
    rows = rows_for(spec, turns, slots)
    if use_table:
        for i in range(rows):
            slots[i]["hands"] = 0
    for action in range(NUM_ACTIONS):
        values[row, action] = NO_VALUE
    room = 256
    while True:
        moves = np.empty((room, 4), np.int64)
        plan["status"] = SOLVED
        end = list_root(spec, s, plan, nodes[turns], moves)
        value = np.int64(0)
        for i in range(end):
            card, taken, place = moves[i, CARD], moves[i, TAKEN], moves[i, PLACE]
            gained = take_turn(spec, plan, nodes[turns], nodes[turns - 1], card, taken, place)
            # The value of the move before is a good guess.
            value = gained - value_of(
                spec, plan, nodes, turns - 1, gained - value, slots[:rows], moves, end
            )
            if plan["status"] != SOLVED:
                break
            moves[i, SCORE] = value + scored
            actions = actions_of(s, card, taken, place)
            for action in range(NUM_ACTIONS):
                if (actions >> action) & 1:
                    values[row, action] = max(values[row, action], value + scored)
        if end >= 0 and plan["status"] != NO_ROOM:
            return plan["status"], plan["nodes"], end, moves
        room *= 4


@entry
def solve_games(
    spec, records, plans, nodes, scratch, slots, use_table, use_bounds, max_nodes, values, searched
):
    """Finds the margin of every legal action of many records; see ``solve_moves``.

    Args:
        records: Records in play of which nothing is hidden, ``STATE`` (n,). A view in which hands
            and stock have been filled in will do: nothing else of what views lack is read.
        plans: Work space, ``PLAN`` (1,).
        nodes: As for ``solve_moves``, like all that is not named here.
        max_nodes: For each record.
        values: int64 (n, NUM_ACTIONS).
        searched: int64 (n,): number of positions searched.

    Returns:
        The first record whose search was given up, or -1; those after it are not solved.
    """
    for i in range(len(records)):
        status, number, _, _ = solve_moves(
            spec[0],
            records[i],
            plans[0],
            nodes,
            scratch,
            slots,
            use_table,
            use_bounds,
            max_nodes,
            values,
            i,
        )
        searched[i] = number
        if status != SOLVED:
            return i
    return -1


@entry
def solve_game(
    spec, records, plans, nodes, scratch, slots, use_table, use_bounds, max_nodes, values
):
    """Finds the margin of every move of one record, ``STATE`` (1,); see ``solve_moves``."""
    first = np.int64(0)
    return solve_moves(
        spec[0],
        records[first],
        plans[0],
        nodes,
        scratch,
        slots,
        use_table,
        use_bounds,
        max_nodes,
        values,
        first,
    )


@kernel
def fill_in(spec, s):
    """Fills in a view's hidden cards if there is one way to.

    There is if they are a single hand, or the stock and no hands can be dealt from it.

    Returns:
        Whether nothing is hidden any more.
    """
    viewer = s["viewer"]
    if viewer == NOBODY:
        return True
    hidden = 0
    holder = NOBODY
    for seat in range(spec["players"]):
        if seat != viewer and s["hand_counts"][seat] and not spec["open_hands"]:
            hidden += 1
            holder = seat
    start = int(s["stock_next"])
    end = int(s["stock_size"])
    unseen = unseen_by(spec, s, viewer)
    if hidden == 1 and start == end:
        s["hands"][holder] = unseen
    elif hidden == 0 and is_last_deal(spec, s):
        # Their order does not matter: they go to a pile together.
        for i in range(start, end):
            s["stock"][i] = lowest(unseen)
            unseen &= unseen - 1
    else:
        return False
    s["viewer"] = NOBODY
    return True


@entry
def fill_in_views(spec, records, filled):
    """Fills in many views, and writes of which of them nothing stays hidden: bool (n,)."""
    for i in range(len(records)):
        filled[i] = fill_in(spec[0], records[i])
