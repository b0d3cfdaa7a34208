"""The kernels of ``search``: hidden cards dealt at random, and every move played out in each deal.

Determinised search, or perfect-information Monte Carlo: Ginsberg, *GIB: Imperfect information in a
computationally challenging game* (2001). All moves are compared in the same deals, called *worlds*
here. Every seat of a play-out moves by what it would know itself; from some turns before the end of
the round the exact solver takes the place of the play-out, and far from it an estimate.

Of a view nothing is read but what a view holds. A whole game (``viewer`` is ``NOBODY``) is its own
only world: that is what the ``cheat`` policies search.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import NUM_ACTIONS, NUM_IDS, SEVEN_OF_OROS
from escoba_env.engine.belief import begin_turn, draw_by_weight, likelihood, turns_since_deal
from escoba_env.engine.bits import OROS, SEVENS, SUIT_MASKS, lowest, popcount, single
from escoba_env.engine.counting import (
    MOST_MOVES,
    counted_move,
    list_turns,
    make_desk,
    play_move,
    value_turns,
)
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.outlook import expected_reply, greedy_action, list_items, pickable
from escoba_env.engine.play import apply, turns_of_this_deal, unseen_by
from escoba_env.engine.record import NOBODY, PLAYING, SETENTA_SCALE, STATE
from escoba_env.engine.rng import hashed, shuffle
from escoba_env.engine.score import MARGIN, escobas_of, napola_length, pile_of, share_of
from escoba_env.engine.solve import (
    CARD,
    MAX_TURNS,
    NODE,
    PLACE,
    PLAN,
    SLOT,
    SOLVED,
    TAKEN,
    actions_of,
    fill_in,
    solve_margin,
    solve_moves,
)

ROLLOUTS = ("counting", "greedy", "random")
"""Policies that the kernels play out by."""
COUNTING, GREEDY, RANDOM = range(3)

CLUMP_OF_CARDS, CLUMP_OF_OROS = 3.0, 1.2
"""About how many cards, and oros, one capture takes."""

BLOCK = 8
"""Worlds that are drawn together by what others have played,"""
CANDIDATES = 8
"""each from so many deals."""

SLOTS = 1 << 16
LEAF_MOVES = 1024
LEAF_NODES = 100_000
"""Positions that the solver may search in the place of a play-out, before it is one after all."""
ROOT_NODES = 2_000_000
"""The same where a view can be solved exactly, before it is searched like any other."""


# -- worlds ---------------------------------------------------------------------------------


@kernel
def turns_left(spec, s):
    """Turns that are left of the round, the one that is being played among them."""
    each = int(spec["players"]) * int(spec["hand_size"])
    deals = (int(s["stock_size"]) - int(s["stock_next"])) // each
    return int(turns_of_this_deal(spec, s)) + deals * each


@kernel
def deal_world(spec, s, order, key, world):
    """Deals the cards that a view hides at random: other hands, and the order of the stock.

    All deals that agree with what its seat sees are equally likely: nothing is concluded from how
    others have played.

    Args:
        s: A copy of a view, which becomes a whole game. A whole game stays as it is.
        order: Work array, int8 (NUM_IDS,).
        key: The decision's key, which the deal follows from, together with
        world: The number of the deal.
    """
    viewer = s["viewer"]
    if viewer == NOBODY:
        return
    unseen = unseen_by(spec, s, viewer)
    number = 0
    while unseen:
        order[number] = lowest(unseen)
        unseen &= unseen - 1
        number += 1
    shuffle(order, number, key, world, 0, 0)
    at = 0
    if spec["open_hands"] == 0:
        for seat in range(spec["players"]):
            if seat != viewer:
                hand = 0
                for _ in range(s["hand_counts"][seat]):
                    hand |= single(order[at])
                    at += 1
                s["hands"][seat] = hand
    for i in range(s["stock_next"], s["stock_size"]):
        s["stock"][i] = order[at]
        at += 1
    s["viewer"] = NOBODY


@entry
def deal_worlds(spec, records, keys, first, worlds, out):
    """Writes the worlds ``first`` and on of each view: record ``i * worlds + w`` of ``out``."""
    order = np.empty(NUM_IDS, np.int8)
    for i in range(len(records)):
        for w in range(worlds):
            out[i * worlds + w] = records[i]
            deal_world(spec[0], out[i * worlds + w], order, keys[i], first + w)


# -- play-outs ------------------------------------------------------------------------------


@kernel
def make_kit():
    """Makes the work space of these kernels, for one thread at a time."""
    return (
        make_desk(),
        np.empty(1, PLAN),
        np.empty(MAX_TURNS + 1, NODE),
        np.empty(1, STATE),
        np.empty(SLOTS, SLOT),
        np.empty((LEAF_MOVES, 4), np.int64),
        np.empty(NUM_IDS, np.int8),
    )


@kernel
def chance_of(points, own, other, left, spread):
    """Expected margin of a majority category between two sides, roughly.

    As if each card that is left went to either side by the toss of a coin, in clumps: the lead at
    the end is about normal, and ``x / sqrt(1 + x * x)`` close to its distribution function.

    Args:
        points: What the category scores.
        own: Cards that count, of the side that asks.
        other: Those of the other side.
        left: Those of nobody yet.
        spread: Mean size of a clump: how many of them go in one capture.
    """
    lead = own - other
    if abs(lead) > left:
        return float(points if lead > 0 else -points)
    if left == 0:
        return 0.0
    x = 0.8 * lead / np.sqrt(left * spread)
    return points * x / np.sqrt(1.0 + x * x)


@kernel
def suits_total(spec, pile):
    """Setenta total of a pile with 0 for a suit that it lacks: how far it has come."""
    whole = 0
    for suit in range(4):
        best = 0
        cards = pile & spec["pack"] & SUIT_MASKS[suit]
        while cards:
            best = max(best, SETENTA_SCALE[lowest(cards) % 10])
            cards &= cards - 1
        whole += best
    return whole


@kernel
def estimated_margin(spec, s, seat, work):
    """Estimates the round's margin of a seat's side in the middle of it, at the start of a turn.

    What is scored is scored; majorities by ``chance_of``; and the side to move has its expected
    best capture from the table. With more than two sides the mean over the others.
    """
    sides = int(spec["sides"])
    side = seat % sides
    own = pile_of(spec, s, side)
    captured = 0
    for other in range(sides):
        captured |= pile_of(spec, s, other)
    left = spec["pack"] & ~(captured | s["set_aside"])
    sevens = max(spec["most_sevens"], spec["all_sevens"] / 2)
    oros = max(spec["most_oros"], spec["all_oros"] / 2)
    value = 0.0
    for other in range(sides):
        if other == side:
            continue
        pile = pile_of(spec, s, other)
        value += chance_of(
            spec["most_cards"], popcount(own), popcount(pile), popcount(left), CLUMP_OF_CARDS
        )
        value += chance_of(
            oros, popcount(own & OROS), popcount(pile & OROS), popcount(left & OROS), CLUMP_OF_OROS
        )
        value += chance_of(
            sevens, popcount(own & SEVENS), popcount(pile & SEVENS), popcount(left & SEVENS), 1.0
        )
        if spec["setenta"]:
            # A card more is worth some points of the total.
            lead = suits_total(spec, own) - suits_total(spec, pile)
            value += chance_of(spec["setenta"], lead / 5, 0, popcount(left), 1.0)
        if spec["napola"]:
            value += napola_length(own) - napola_length(pile)
        value += spec["seven_of_oros"] * ((own >> SEVEN_OF_OROS & 1) - (pile >> SEVEN_OF_OROS & 1))
        value += spec["escoba"] * (escobas_of(spec, s, side) - escobas_of(spec, s, other))
    value /= sides - 1
    work["sweeps_score"] = 1
    list_items(spec, s, pickable(spec, s), work)
    reply = expected_reply(spec, left & ~s["table"], int(spec["hand_size"]), work)
    return value + (reply if s["turn"] % sides == side else -reply / (sides - 1))


@kernel
def last_stock(spec, s, deals):
    """How far the stock may be dealt in play-outs from a decision: ``stop`` of ``is_decided``.

    Where it would be one deal from the end of the round, there is no limit.
    """
    each = int(spec["players"]) * int(spec["hand_size"])
    stop = int(s["stock_next"]) + deals * each
    return stop if int(s["stock_size"]) - stop >= 2 * each else NUM_IDS


@kernel
def word_of(key, world):
    """Where the random play of a world is drawn from; the same for all its moves."""
    return (int(key) & 0xFFFFFFFF) + (world << 8)


@kernel
def is_decided(spec, s, stop, solver_turns, kit, margins):
    """Whether a play-out may end here; then the margin of every side is written.

    It ends with the round; where cards have been dealt beyond position ``stop`` of the stock; and
    where the solver has an answer, for two sides with ``solver_turns`` turns left or fewer.

    Args:
        margins: float64 (4,), by side.
    """
    sides = int(spec["sides"])
    if s["phase"] != PLAYING:
        for side in range(sides):
            margins[side] = share_of(spec, s["round_points"], MARGIN, side)
        return True
    if s["played"] != NOBODY:
        return False
    if s["stock_next"] > stop:
        for side in range(sides):
            margins[side] = estimated_margin(spec, s, side, kit[0][2][0])
        return True
    if sides == 2 and turns_left(spec, s) <= solver_turns:
        _, plans, nodes, scratch, slots, moves, _ = kit
        status, value = solve_margin(spec, s, plans[0], nodes, scratch, slots, moves, LEAF_NODES)
        if status == SOLVED:
            side = int(s["turn"]) % 2
            margins[side] = value
            margins[1 - side] = -value
            return True
    return False


@kernel
def play_turn(spec, s, rollout, word, desk):
    """Plays a turn, or a pick, as a policy does; random play draws from ``word``."""
    row = counted_move(spec, s, desk) if rollout == COUNTING else -1
    if row >= 0:
        moves = desk[3]
        play_move(spec, s, moves[row, CARD], moves[row, TAKEN], moves[row, PLACE])
    elif rollout == RANDOM:
        legal = s["legal"]
        for _ in range((hashed(word) * popcount(legal)) >> 32):
            legal &= legal - 1
        apply(spec, s, lowest(legal))
    else:
        apply(spec, s, greedy_action(spec, s, desk[2][0]))


@kernel
def play_on(spec, s, rollout, stop, solver_turns, word, kit, margins):
    """Plays a whole game on until it is decided.

    Args:
        rollout: ``COUNTING``, ``GREEDY`` or ``RANDOM``: how every seat plays.
        stop: See ``is_decided``, like all that is not named here.
        word: Where random play is drawn from.
    """
    while not is_decided(spec, s, stop, solver_turns, kit, margins):
        word += 1
        play_turn(spec, s, rollout, word, kit[0])


# -- search ---------------------------------------------------------------------------------


@kernel
def list_root_moves(spec, s, desk):
    """Lists the moves that are compared in ``desk``; returns their number."""
    # The setenta asks for suits.
    return list_turns(spec, s, desk, spec["setenta"] == 0)


@kernel
def settled_action(spec, s, solver_turns, kit, copies, values):
    """The action of a decision that takes no search, or -1.

    That is a forced one, and one that the solver settles: of a view that hides nothing, or of a
    whole game with so few turns left.
    """
    if popcount(s["legal"]) == 1:
        return lowest(s["legal"])
    if spec["sides"] != 2 or (s["viewer"] == NOBODY and turns_left(spec, s) > solver_turns):
        return -1
    copies[0] = s
    if not fill_in(spec, copies[0]):
        return -1
    _, plans, nodes, scratch, slots, _, _ = kit
    status, _, _, _ = solve_moves(
        spec, copies[0], plans[0], nodes, scratch, slots, True, True, ROOT_NODES, values, 0
    )
    if status != SOLVED:
        return -1
    best = lowest(s["legal"])
    for action in range(NUM_ACTIONS):
        if values[0, action] > values[0, best]:
            best = action
    return best


@kernel
def guide_moves(s, desk, number, guide):
    """Puts what a guide says of moves in the place of what ``counting`` does.

    The best that ``counting`` expects stays what the best move is worth.

    Args:
        desk: Moves and their worths.
        guide: See ``begin_search``.
    """
    moves, worths = desk[3], desk[4]
    most = worths[0]
    for row in range(1, number):
        most = max(most, worths[row])
    for row in range(number):
        best = -np.inf
        rest = actions_of(s, moves[row, CARD], moves[row, TAKEN], moves[row, PLACE])
        while rest:
            best = max(best, guide[lowest(rest)])
            rest &= rest - 1
        worths[row] = most + best


@entry
def begin_search(spec, records, solver_turns, prior, guide, numbers, sums, actions):
    """Settles the decisions that take no search, and begins the others.

    Args:
        records: Views of the seat to move, or whole games.
        solver_turns: See ``settled_action``.
        prior: As many worlds the value that ``counting`` gives a move counts for.
        guide: float64 (n, NUM_ACTIONS): how much less than the best move that of an action is
            worth, which takes the place of what ``counting`` says of it; or (0, 0).
        numbers: int64 (n,): the number of moves to compare, 0 where the decision is settled.
        sums: float64 (n, MOST_MOVES): what each move begins with.
        actions: int64 (n,): the action, where it is settled.
    """
    kit = make_kit()
    desk = kit[0]
    copies = np.empty(1, STATE)
    values = np.empty((1, NUM_ACTIONS), np.int64)
    for i in range(len(records)):
        s = records[i]
        numbers[i] = 0
        actions[i] = settled_action(spec[0], s, solver_turns, kit, copies, values)
        if actions[i] >= 0:
            continue
        numbers[i] = list_root_moves(spec[0], s, desk)
        value_turns(spec[0], s, desk, numbers[i])
        worths = desk[4]
        if len(guide):
            guide_moves(s, desk, numbers[i], guide[i])
        for row in range(numbers[i]):
            sums[i, row] = prior * worths[row]
        if numbers[i] == 0:
            actions[i] = greedy_action(spec[0], s, desk[2][0])


@kernel
def start_world(spec, s, key, world, desk, order, moves, copies):
    """Deals a world of a decision into ``copies[0]``, and its moves into ``moves``.

    Returns:
        The number of moves.
    """
    number = list_root_moves(spec, s, desk)
    for row in range(number):
        for column in range(4):
            moves[row, column] = desk[3][row, column]
    copies[0] = s
    deal_world(spec, copies[0], order, key, world)
    return number


@entry
def believe_worlds(spec, records, keys, first, numbers, chosen):
    """Chooses worlds by how well what others have played fits the cards they would hold.

    Of ``CANDIDATES`` times as many deals each block of worlds is drawn by ``belief.likelihood``.

    Args:
        records: As for ``begin_search``, like all that is not named here.
        keys: int64 (n,): the keys of the decisions.
        first: The first world's number, a multiple of ``BLOCK``.
        chosen: int64 (n, worlds): the numbers of the deals.
    """
    desk = make_desk()
    order = np.empty(NUM_IDS, np.int8)
    copies = np.empty(1, STATE)
    weights = np.empty(BLOCK * CANDIDATES)
    worlds = chosen.shape[1]
    for i in range(len(records)):
        if numbers[i] == 0:
            continue
        s = records[i]
        # Nobody has played yet since hands were dealt; or turns cannot be taken back.
        silent = s["viewer"] == NOBODY or turns_since_deal(spec[0], s) == 0
        for begin in range(0, worlds, BLOCK):
            end = min(begin + BLOCK, worlds)
            start = (first + begin) * CANDIDATES
            number = (end - begin) * CANDIDATES
            if silent or spec[0]["building"]:
                for w in range(begin, end):
                    chosen[i, w] = start + w - begin
                continue
            for k in range(number):
                copies[0] = s
                deal_world(spec[0], copies[0], order, keys[i], start + k)
                begin_turn(spec[0], copies[0])
                weights[k] = likelihood(spec[0], copies[0], int(s["turn"]), desk)
            point = hashed(word_of(keys[i], start)) / 4294967296.0
            draw_by_weight(weights[:number], point, chosen[i, begin:end])
            for w in range(begin, end):
                chosen[i, w] += start


@kernel
def place_of(margin, size):
    """Where a margin lies in a table of those from -k to k: the place below, and how far beyond."""
    place = min(max(margin + (size - 1) // 2, 0.0), size - 1.0)
    low = min(int(place), size - 2)
    return low, place - low


@kernel
def worth_at(bends, i, margin):
    """What a margin is worth in decision ``i``: between two whole margins, in proportion."""
    if bends.shape[0] == 0:
        return margin
    low, share = place_of(margin, bends.shape[1])
    return bends[i, low] * (1.0 - share) + bends[i, low + 1] * share


@kernel
def note_margin(spread, i, row, margin):
    """Counts a margin of a move: between two whole margins, some of either, as ``worth_at``."""
    low, share = place_of(margin, spread.shape[2])
    spread[i, row, low] += 1.0 - share
    spread[i, row, low + 1] += share


@entry
def search_worlds(
    spec, records, keys, chosen, rollout, deals, solver_turns, bends, spread, numbers, sums
):
    """Plays every move out in some worlds and adds the margins up, or what they are worth.

    Args:
        records: As for ``begin_search``, like all that is not named here.
        keys: int64 (n,): the keys of the decisions.
        chosen: int64 (n, worlds): the numbers of the worlds.
        rollout: As for ``play_on``.
        deals: Deals that a play-out goes on for, after the present one.
        bends: float64 (n, 2 * k + 1): what margins from -k to k are worth in each decision, or
            (0, 0) for the margins themselves.
        spread: float64 (n, most moves, 2 * k + 1): how often each move came to each margin from -k
            to k is added, or (0, 0, 0).
    """
    kit = make_kit()
    copies = np.empty(2, STATE)
    margins = np.empty(4)
    moves = np.empty((MOST_MOVES, 4), np.int64)
    found = np.empty(MOST_MOVES)
    for i in range(len(records)):
        if numbers[i] == 0:
            continue
        s = records[i]
        side = int(s["turn"]) % spec[0]["sides"]
        stop = last_stock(spec[0], s, deals)
        for place in range(chosen.shape[1]):
            w = int(chosen[i, place])
            if place and w == chosen[i, place - 1]:
                for row in range(numbers[i]):
                    sums[i, row] += worth_at(bends, i, found[row])
                    if len(spread):
                        note_margin(spread, i, row, found[row])
                continue
            number = start_world(spec[0], s, keys[i], w, kit[0], kit[6], moves, copies)
            word = word_of(keys[i], w)
            for row in range(number):
                copies[1] = copies[0]
                play_move(
                    spec[0], copies[1], moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]
                )
                play_on(spec[0], copies[1], rollout, stop, solver_turns, word, kit, margins)
                found[row] = margins[side]
                sums[i, row] += worth_at(bends, i, found[row])
                if len(spread):
                    note_margin(spread, i, row, found[row])


@entry
def end_search(spec, records, numbers, sums, actions):
    """Writes the lowest action that leads to the move of the highest sum."""
    desk = make_desk()
    moves = desk[3]
    for i in range(len(records)):
        if numbers[i] == 0:
            continue
        s = records[i]
        best = 0
        for row in range(list_root_moves(spec[0], s, desk)):
            # Sums of the same margins in another order differ by rounding: they are a tie.
            if sums[i, row] > sums[i, best] + 1e-9:
                best = row
        actions[i] = lowest(
            actions_of(s, moves[best, CARD], moves[best, TAKEN], moves[best, PLACE])
        )


@entry
def action_margins(spec, records, numbers, sums, weight, margins):
    """Writes the best mean of the moves that each action leads to, where there was a search.

    Args:
        weight: What sums are divided by: worlds, and those that ``counting`` counts for.
        margins: float64 (n, NUM_ACTIONS), of the others nothing is written.
    """
    desk = make_desk()
    moves = desk[3]
    for i in range(len(records)):
        if numbers[i] == 0:
            continue
        s = records[i]
        for row in range(list_root_moves(spec[0], s, desk)):
            mean = sums[i, row] / weight
            rest = actions_of(s, moves[row, CARD], moves[row, TAKEN], moves[row, PLACE])
            while rest:
                action = lowest(rest)
                if not margins[i, action] >= mean:
                    margins[i, action] = mean
                rest &= rest - 1


# -- play-outs by a policy outside the kernels ----------------------------------------------


@entry
def start_worlds(spec, records, keys, chosen, deals, numbers, states, seats, stops):
    """Writes the games that a policy plays out: one for each decision, world and move, in order.

    Args:
        states: ``STATE`` (sum of numbers * worlds,): the games, the move played.
        seats: int64: whose margin is asked for, in each.
        stops: int64: see ``is_decided``.
    """
    desk = make_desk()
    order = np.empty(NUM_IDS, np.int8)
    copies = np.empty(1, STATE)
    moves = np.empty((MOST_MOVES, 4), np.int64)
    at = 0
    for i in range(len(records)):
        if numbers[i] == 0:
            continue
        for place in range(chosen.shape[1]):
            w = int(chosen[i, place])
            number = start_world(spec[0], records[i], keys[i], w, desk, order, moves, copies)
            for row in range(number):
                states[at] = copies[0]
                # A stream of its own, the same for all moves of a world.
                states[at]["seed"] = keys[i]
                states[at]["game_index"] = w
                play_move(
                    spec[0], states[at], moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]
                )
                seats[at] = records[i]["turn"]
                stops[at] = last_stock(spec[0], records[i], deals)
                at += 1


@entry
def end_worlds(spec, states, games, seats, stops, solver_turns, margins, over):
    """Looks which of the games ``games`` may end, and writes their margins."""
    kit = make_kit()
    of_sides = np.empty(4)
    for game in games:
        s = states[game]
        over[game] = is_decided(spec[0], s, stops[game], solver_turns, kit, of_sides)
        margins[game] = of_sides[seats[game] % spec[0]["sides"]]


@entry
def play_picks(spec, states, games, actions):
    """Applies one legal action in each of some games."""
    for i in range(len(games)):
        apply(spec[0], states[games[i]], actions[i])
