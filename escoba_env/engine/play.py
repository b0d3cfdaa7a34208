"""Deals, legality, turns and the end of a round, for one game record.

A turn is one or more picks by the same seat: first the hand card, then, only where a choice is
left, table cards until one capture remains, or a pile to set the card on, or ``LAY``: lay the card
(under optional capture: do not capture with it), or end a capture with a joker. Picks are taken in
any order, and the turn completes itself as soon as a single completion is left.

With building, a *head* stands for its pile: the lowest card id in it.
"""

from __future__ import annotations

from escoba_env.cards import LAY
from escoba_env.engine.bits import (
    JOKER_CARDS,
    RANK_MASKS,
    VALUES,
    lowest,
    popcount,
    single,
    total,
)
from escoba_env.engine.jit import kernel
from escoba_env.engine.record import (
    AT_END,
    BY_VALUE,
    CAPTURE_HAND,
    CAPTURE_OPTIONAL,
    FREE_PILES,
    FROM_START,
    GAME_OVER,
    HIDDEN,
    NOBODY,
    NOT_YET,
    PLAYING,
    ROUND_OVER,
    TABLE_DEALER,
    TABLE_ELDEST,
    TABLE_PLAY,
    TABLE_REDEAL,
    THIRTY_SUM,
)
from escoba_env.engine.rng import DEALER, random_seat, shuffle
from escoba_env.engine.score import add_round, is_last_round

RANDOM_DEALER = -1


# -- captures -------------------------------------------------------------------------------


@kernel
def reachable(cards, limit, values):
    """Totals up to ``limit`` that subsets of ``cards`` make, as a bit set (bit 0: none taken)."""
    sums = 1
    while cards:
        sums |= sums << int(values[lowest(cards)])
        cards &= cards - 1
    return sums & ((1 << (int(limit) + 1)) - 1)


@kernel
def completions(cards, need, values):
    """Union of all subsets of ``cards`` that total ``need``; 0 if there is none.

    Values are positive, so a single subset is left exactly when the union itself totals ``need``.
    """
    if need <= 0 or (reachable(cards, need, values) >> need) & 1 == 0:
        return 0
    union = 0
    rest = cards
    while rest:
        card = lowest(rest)
        bit = rest & -rest
        rest ^= bit
        left = need - int(values[card])
        if left >= 0 and (reachable(cards ^ bit, left, values) >> left) & 1:
            union |= bit
    return union


@kernel
def valued_up_to(cards, limit):
    """Cards of a set whose own value is at most ``limit``."""
    result = 0
    for value in range(1, min(limit, 10) + 1):
        result |= cards & RANK_MASKS[value]
    return result


@kernel
def sum_of(cards, values):
    """Total of the values of a card set."""
    result = 0
    while cards:
        result += int(values[lowest(cards)])
        cards &= cards - 1
    return result


@kernel
def capture_options(spec, s, card, picked):
    """How a capture with ``card``, of which ``picked`` is chosen already, can go on.

    Returns:
        The table cards (building: heads) that may be picked next; the whole capture if a single
        one is left, else 0; and whether it may be ended as it is although more could be picked.
        No card to pick and no single capture: nothing can be captured.
    """
    if spec["jokers"]:
        return joker_options(spec, s, card, picked)
    done = False
    if spec["building"]:
        need = int(spec["target_sum"]) - VALUES[card] - sum_of(picked, s["totals"])
        if need == 0 and picked:
            return 0, picked, done
        union = completions(s["heads"] ^ picked, need, s["totals"])
        whole = sum_of(union, s["totals"])
    else:
        need = int(spec["target_sum"]) - VALUES[card]
        if spec["capture_by"] == BY_VALUE:
            need = VALUES[card]
            singles = s["table"] & RANK_MASKS[need]
            if singles:
                # A single card of that value may only be taken alone.
                if picked:
                    return 0, picked, done
                return singles, (singles if popcount(singles) == 1 else 0), done
        need -= total(picked)
        if need == 0 and picked:
            return 0, picked, done
        union = completions(s["table"] ^ picked, need, VALUES)
        whole = total(union)
    if union and whole == need:
        return union, picked | union, done
    return union, 0, done


@kernel
def joker_options(spec, s, card, picked):
    """``capture_options`` for a pack with jokers.

    A joker in a capture stands for what is missing, at least 1 each, so the other cards of the
    capture total at most the target less the number of its jokers (RULES section 6).
    """
    target = int(spec["target_sum"])
    jokers = popcount((picked | single(card)) & JOKER_CARDS)
    free_jokers = s["table"] & JOKER_CARDS & ~picked
    others = s["table"] & ~JOKER_CARDS & ~picked
    need = target - VALUES[card] - total(picked)
    if jokers:
        picks = valued_up_to(others, need - jokers)
        if need - jokers >= 1:
            picks |= free_jokers
        if picks == 0:
            return 0, picked, False
        if picked == 0:
            return picks, (picks if popcount(picks) == 1 else 0), False
        return picks, 0, True
    if need == 0 and picked:
        return 0, picked, False
    union = completions(others, need, VALUES)
    if free_jokers == 0 or need < 1:
        if union and total(union) == need:
            return union, picked | union, False
        return union, 0, False
    # The capture may also end with a joker, after cards that leave it something to stand for.
    before_joker = valued_up_to(others, need - 1)
    alone = union == 0 and before_joker == 0 and popcount(free_jokers) == 1
    return union | before_joker | free_jokers, (picked | free_jokers if alone else 0), False


# -- setting and laying ---------------------------------------------------------------------


@kernel
def placements(spec, s, card):
    """Where a card may be set or laid: heads, and ``LAY`` where it may lie alone.

    0 only with building, where four or more piles may leave no place (RULES section 3).
    """
    if spec["building"] == 0:
        return single(LAY)
    result = 0
    rest = s["heads"]
    room = int(spec["target_sum"]) - VALUES[card]
    while rest:
        if s["totals"][lowest(rest)] < room:
            result |= rest & -rest
        rest &= rest - 1
    if popcount(s["heads"]) < FREE_PILES:
        result |= single(LAY)
    return result


@kernel
def playable_cards(spec, s):
    """Cards that the seat to move may choose at the start of its turn."""
    if spec["capture"] == CAPTURE_HAND or spec["building"]:
        return cards_with_a_play(spec, s)
    return s["hands"][s["turn"]]


@kernel
def cards_with_a_play(spec, s):
    """``playable_cards`` where the table has a say in which cards of the hand may be chosen."""
    hand = s["hands"][s["turn"]]
    if spec["capture"] == CAPTURE_HAND:
        able = 0
        rest = hand
        while rest:
            picks, _, _ = capture_options(spec, s, lowest(rest), 0)
            if picks:
                able |= rest & -rest
            rest &= rest - 1
        if able:
            return able
    if spec["building"] and popcount(s["heads"]) >= FREE_PILES:
        target = int(spec["target_sum"])
        sums = reachable(s["heads"], target, s["totals"])
        able = 0
        rest = hand
        while rest:
            card = lowest(rest)
            need = target - VALUES[card]
            if (need > 0 and (sums >> need) & 1) or placements(spec, s, card):
                able |= rest & -rest
            rest &= rest - 1
        if able:
            return able
    return hand


@kernel
def legal_picks(spec, s):
    """Legal actions of a game in play, from its hands, table and the picks so far."""
    if s["played"] == NOBODY:
        return playable_cards(spec, s)
    if s["placing"]:
        return placements(spec, s, s["played"])
    picks, _, done = capture_options(spec, s, s["played"], s["picked"])
    if done:
        return picks | single(LAY)
    optional = spec["capture"] == CAPTURE_OPTIONAL and s["picked"] == 0
    if optional and placements(spec, s, s["played"]):
        return picks | single(LAY)
    return picks


@kernel
def known_legal(spec, s):
    """``legal_picks`` of a game in play for the seat to move, or whoever sees all; else none."""
    if s["phase"] == PLAYING and (s["viewer"] == NOBODY or s["viewer"] == s["turn"]):
        return legal_picks(spec, s)
    return 0


# -- deals ----------------------------------------------------------------------------------


@kernel
def seat_of_block(spec, s, i):
    """The seat that block ``i`` of a deal goes to: the eldest is first."""
    return (s["dealer"] + 1 + i) % spec["players"]


@kernel
def deal_hands(spec, s):
    """Deals ``hand_size`` cards to every seat, as one block each, beginning with the eldest."""
    players = spec["players"]
    for i in range(players):
        seat = seat_of_block(spec, s, i)
        hand = 0
        for _ in range(spec["hand_size"]):
            hand |= single(s["stock"][s["stock_next"]])
            s["stock_next"] += 1
        s["hands"][seat] = hand
        s["hand_counts"][seat] = spec["hand_size"]


@kernel
def first_table_fifteens(spec, table):
    """How many escobas the first table cards are: 1 for fifteen, 2 for thirty, else 0."""
    if table == 0 or table & JOKER_CARDS:
        return 0
    target = int(spec["target_sum"])
    whole = total(table)
    if whole == target:
        return 1
    if whole != 2 * target:
        return 0
    if spec["initial_thirty"] == THIRTY_SUM or (reachable(table, target, VALUES) >> target) & 1:
        return 2
    return 0


@kernel
def stock_table(spec, s):
    """Card set that the stock's order puts on the table first."""
    start = spec["players"] * spec["hand_size"]
    table = 0
    for i in range(start, start + spec["table_size"]):
        table |= single(s["stock"][i])
    return table


@kernel
def deal_round(spec, s, block):
    """Starts a round from the stock as it lies: hands, then the table, the eldest to move.

    With ``redeal`` a table of fifteen is shuffled again, from ``block`` of the round's stream on.
    """
    if spec["initial_table"] == TABLE_REDEAL:
        while first_table_fifteens(spec, stock_table(spec, s)) == 1:
            block = shuffle_stock(spec, s, block)
    s["set_aside"] = 0
    s["picked"] = 0
    s["played"] = NOBODY
    s["placing"] = 0
    s["last_capturer"] = NOBODY
    s["phase"] = PLAYING
    s["stock_next"] = 0
    s["stock_size"] = spec["pack_size"]
    s["turn_index"] = 0
    for card in range(len(s["played_at"])):
        s["played_at"][card] = NOT_YET
        s["taken_at"][card] = NOT_YET
    if spec["building"]:
        for card in range(len(s["pile_of"])):
            s["pile_of"][card] = card
            s["totals"][card] = VALUES[card]
    for seat in range(4):
        s["piles"][seat] = 0
        s["escobas"][seat] = 0
        s["hands"][seat] = 0
        s["hand_counts"][seat] = 0
    deal_hands(spec, s)
    table = stock_table(spec, s)
    s["stock_next"] += spec["table_size"]
    rest = table
    while rest:
        s["played_at"][lowest(rest)] = FROM_START
        rest &= rest - 1
    s["table"] = table
    s["turn"] = (s["dealer"] + 1) % spec["players"]
    if spec["initial_table"] != TABLE_PLAY:
        settle_first_table(spec, s)
    s["heads"] = s["table"] if spec["building"] else 0
    s["legal"] = playable_cards(spec, s)


@kernel
def settle_first_table(spec, s):
    """Gives away or sets aside first table cards that make fifteen (RULES section 4)."""
    table = s["table"]
    fifteens = first_table_fifteens(spec, table)
    rule = spec["initial_table"]
    if fifteens == 0 or rule == TABLE_REDEAL:
        return
    if rule in (TABLE_DEALER, TABLE_ELDEST):
        seat = s["dealer"] if rule == TABLE_DEALER else s["turn"]
        s["piles"][seat] = table
        s["escobas"][seat] = fifteens
        s["last_capturer"] = seat
        s["table"] = 0
        while table:
            s["taken_at"][lowest(table)] = FROM_START
            table &= table - 1
    elif fifteens == 1:
        s["set_aside"] = table
        s["table"] = 0


@kernel
def shuffle_stock(spec, s, block):
    """Puts the pack into the stock in random order, from a block of the round's stream on.

    Returns:
        The next block that has not been used.
    """
    for i in range(len(s["stock"])):
        s["stock"][i] = spec["pack_order"][i]
    return shuffle(
        s["stock"], spec["pack_size"], s["seed"], s["game_index"], s["round_index"], block
    )


@kernel
def shuffle_and_deal(spec, s):
    """Starts a round with a shuffled pack."""
    deal_round(spec, s, shuffle_stock(spec, s, 0))


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
        dealer = random_seat(seed, game_index, spec["players"], DEALER)
    s["dealer"] = dealer
    shuffle_and_deal(spec, s)


@kernel
def next_round(spec, s):
    """Starts the next round of a match: the deal passes one seat to the right."""
    s["round_index"] += 1
    s["dealer"] = (s["dealer"] + 1) % spec["players"]
    shuffle_and_deal(spec, s)


# -- turns ----------------------------------------------------------------------------------


@kernel
def cards_of(spec, s, heads):
    """Cards of a set of piles; without building a pile is its one card."""
    if spec["building"] == 0:
        return heads
    cards = 0
    rest = s["table"]
    while rest:
        if (heads >> int(s["pile_of"][lowest(rest)])) & 1:
            cards |= rest & -rest
        rest &= rest - 1
    return cards


@kernel
def sweep_scores(spec, s, cards):
    """Whether a capture of ``cards``, the played one among them, scores if it clears the table."""
    if spec["jokers"] and cards & JOKER_CARDS:
        return False
    # In Scopa the last card of a round does not; making fifteen, it never sweeps a full pack.
    return spec["capture_by"] != BY_VALUE or not is_last_turn(spec, s)


@kernel
def capture(spec, s, taken):
    """Captures ``taken`` (building: heads) with the played card."""
    seat = s["turn"]
    if spec["building"]:
        s["heads"] &= ~taken
        taken = cards_of(spec, s, taken)
    cards = taken | single(s["played"])
    s["table"] &= ~taken
    if s["table"] == 0 and sweep_scores(spec, s, cards):
        s["escobas"][seat] += 1
    s["piles"][seat] |= cards
    s["last_capturer"] = seat
    while cards:
        s["taken_at"][lowest(cards)] = s["turn_index"]
        cards &= cards - 1


@kernel
def put(spec, s, place):
    """Lays the played card alone (``LAY``), or sets it on a pile's head."""
    card = int(s["played"])
    s["table"] |= single(card)
    if spec["building"]:
        if place == LAY:
            s["heads"] |= single(card)
        else:
            pile = cards_of(spec, s, single(place)) | single(card)
            head = lowest(pile)
            whole = total(pile)
            s["heads"] = (s["heads"] ^ single(place)) | single(head)
            while pile:
                member = lowest(pile)
                s["pile_of"][member] = head
                s["totals"][member] = whole
                pile &= pile - 1


@kernel
def end_turn(spec, s):
    """Passes the turn on: the next seat, new hands if all are empty, or the end of the round."""
    s["played"] = NOBODY
    s["picked"] = 0
    s["placing"] = 0
    s["turn_index"] += 1
    turn = (s["turn"] + 1) % spec["players"]
    s["turn"] = turn
    # Everyone has equally many cards, or one less: the next seat's hand empties last.
    if s["hands"][turn] == 0:
        if is_last_deal(spec, s):
            end_round(spec, s)
            return
        deal_hands(spec, s)
    s["legal"] = playable_cards(spec, s)


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
        s["heads"] = 0
        s["stock_next"] = s["stock_size"]
        while left:
            s["taken_at"][lowest(left)] = AT_END
            left &= left - 1
    add_round(spec, s)
    s["phase"] = GAME_OVER if is_last_round(spec, s, s["round_index"]) else ROUND_OVER


@kernel
def apply(spec, s, action):
    """Applies a legal pick. The caller has made sure that the action's bit is set in ``legal``."""
    taken = 0
    place = NOBODY
    if s["played"] == NOBODY:
        seat = s["turn"]
        s["hands"][seat] ^= single(action)
        s["hand_counts"][seat] -= 1
        s["played"] = action
        s["played_at"][action] = s["turn_index"]
        if spec["plain"]:
            need = int(spec["target_sum"]) - VALUES[action]
            picks = completions(s["table"], need, VALUES)
            if picks and total(picks) == need:
                taken = picks
        else:
            picks, taken, done = capture_options(spec, s, action, 0)
        if picks == 0:
            place = place_or_ask(spec, s)
        elif spec["capture"] == CAPTURE_OPTIONAL and placements(spec, s, action):
            taken = 0
            s["legal"] = picks | single(LAY)
        else:
            s["legal"] = picks
    elif s["placing"]:
        place = action
    elif action == LAY:
        taken = s["picked"]
        if taken == 0:
            place = place_or_ask(spec, s)
    else:
        picked = s["picked"] | single(action)
        picks, taken, done = capture_options(spec, s, s["played"], picked)
        s["picked"] = picked
        s["legal"] = picks | single(LAY) if done else picks
    if taken:
        capture(spec, s, taken)
    elif place != NOBODY:
        put(spec, s, place)
    else:
        return
    end_turn(spec, s)


@kernel
def place_or_ask(spec, s):
    """Where a card that does not capture is put; NOBODY if its seat is asked."""
    places = placements(spec, s, s["played"])
    if places == 0:
        # No card in hand had a place: it is laid as an extra pile.
        return LAY
    if popcount(places) == 1:
        return lowest(places)
    s["placing"] = 1
    s["legal"] = places
    return NOBODY


@kernel
def is_forced(s):
    """Whether the seat to move has a single legal action."""
    return popcount(s["legal"]) == 1


@kernel
def turns_of_this_deal(spec, s):
    """Turns that are left until the hands are empty, the one that is being played among them."""
    left = 0 if s["played"] == NOBODY else 1
    for seat in range(spec["players"]):
        left += s["hand_counts"][seat]
    return left


@kernel
def is_last_deal(spec, s):
    """Whether no hands can be dealt any more."""
    return s["stock_size"] - s["stock_next"] < spec["players"] * spec["hand_size"]


@kernel
def is_last_turn(spec, s):
    """Whether the round ends with the turn that is being played."""
    return turns_of_this_deal(spec, s) == 1 and is_last_deal(spec, s)


@kernel
def is_before_last_turn(spec, s):
    """Whether the round ends with the turn after the one that is being played."""
    return turns_of_this_deal(spec, s) == 2 and is_last_deal(spec, s)


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
