"""Loops of the kernels over arrays of games: what ``Game``, ``Batch`` and the policies call.

Nothing here allocates a result: every output is an array of the caller's.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import SEVEN_OF_OROS
from escoba_env.engine.bits import lowest, popcount
from escoba_env.engine.encode import encode, write_mask
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.outlook import WORK, greedy_action
from escoba_env.engine.play import (
    RANDOM_DEALER,
    apply,
    deal_hands,
    deal_round,
    hide,
    is_forced,
    is_last_turn,
    known_legal,
    legal_picks,
    new_game,
    next_round,
    seat_of_block,
)
from escoba_env.engine.record import GAME_OVER, NOBODY, PLAYING, ROUND_OVER
from escoba_env.engine.rng import decision_key, hashed, uniform_of
from escoba_env.engine.score import (
    MARGIN,
    add_rewards,
    count_of,
    escoba_points,
    escobas_of,
    majority_points,
    napola_length,
    napola_points,
    note_paid,
    pile_of,
    seven_of_oros_points,
    share_of,
)

ALL_LEGAL = (1 << 43) - 1


@entry
def start_games(spec, states, games, seed, game_indices, dealers):
    """Starts new games in the slots ``games``; ``dealers`` holds seats or ``RANDOM_DEALER``."""
    for i in range(len(games)):
        new_game(spec[0], states[games[i]], seed, game_indices[i], dealers[i])


@entry
def deal_from_stock(spec, states, game):
    """Deals the round of one game from its stock, dealer and scores as they are."""
    deal_round(spec[0], states[game], 0)


@entry
def first_illegal(states, games, actions):
    """Position of the first action that is not legal in its game, or -1."""
    for i in range(len(games)):
        action = actions[i]
        if action < 0 or action > 42 or (states[games[i]]["legal"] >> action) & 1 == 0:
            return i
    return -1


@entry
def step_games(spec, states, games, actions, skip_forced, kind, as_earned, rewards, over):
    """Applies one legal action in each of ``games``.

    Args:
        skip_forced: Whether decisions with a single legal action are played right away.
        kind: ``MARGIN``, ``POINTS`` or ``WIN``.
        as_earned: Whether escobas are rewarded at once; see ``score.add_rewards``.
        rewards: Float array (len(games), players): what each seat earned in this step.
        over: bool array (len(games),): whether the game is over.
    """
    sp = spec[0]
    paid = np.zeros(4, np.int64)
    for i in range(len(games)):
        s = states[games[i]]
        for seat in range(sp["players"]):
            rewards[i, seat] = 0.0
        if as_earned:
            note_paid(sp, s, paid)
        action = int(actions[i])
        next_rounds = 0
        while True:
            apply(sp, s, action)
            add_rewards(sp, s, kind, as_earned, paid, rewards, i)
            if s["phase"] == GAME_OVER:
                break
            if s["phase"] == ROUND_OVER:
                next_round(sp, s)
                next_rounds += 1
            if not (skip_forced and is_forced(s)):
                break
            if next_rounds and is_last_turn(sp, s):
                # A step ends one round at the most, also of a match in which there is no choice.
                break
            action = lowest(s["legal"])
        over[i] = s["phase"] == GAME_OVER


@entry
def decision_keys(states, games, keys):
    """Writes the key of the present decision of each game; see ``decision_key``."""
    for i in range(len(games)):
        s = states[games[i]]
        keys[i] = decision_key(s["seed"], s["game_index"], decision_number(s))


@entry
def play_random(spec, states, games, decisions, stride, words, returns, finished):
    """Plays random legal picks in ``games``, and the next game of a slot when one is over.

    Two calls one after the other play what one call of as many picks does.

    Args:
        decisions: Number of picks in each game.
        stride: How much higher the index of a slot's next game is.
        words: int64 (len(games),): where each game's random words go on, ``decision_keys`` at
            first; moved on by the number of picks.
        returns: float64 (len(games), players): the margins of rounds that have ended are added.
        finished: int64 (len(games),): the number of games that have ended is added.
    """
    sp = spec[0]
    for i in range(len(games)):
        s = states[games[i]]
        word = words[i]
        for _ in range(decisions):
            legal = s["legal"]
            word += 1
            for _ in range((hashed(word) * popcount(legal)) >> 32):
                legal &= legal - 1
            apply(sp, s, lowest(legal))
            if s["phase"] != PLAYING:
                for seat in range(sp["players"]):
                    returns[i, seat] += share_of(sp, s["round_points"], MARGIN, seat)
                if s["phase"] == ROUND_OVER:
                    next_round(sp, s)
                else:
                    finished[i] += 1
                    new_game(sp, s, s["seed"], s["game_index"] + stride, RANDOM_DEALER)
        words[i] = word


@kernel
def decision_number(s):
    """Number of a decision within its game: no two have the same."""
    picks = popcount(s["picked"]) + (0 if s["played"] == NOBODY else 1)
    return (int(s["round_index"]) << 12) | (int(s["turn_index"]) << 6) | picks


@entry
def settle_games(spec, states, games):
    """Plays the forced decisions at the start of games.

    It stops before a pick that would end the round, forced or not: what is earned then is the
    reward of a step.
    """
    for i in range(len(games)):
        s = states[games[i]]
        while is_forced(s) and not is_last_turn(spec[0], s):
            apply(spec[0], s, lowest(s["legal"]))


@entry
def step_game(spec, states, action, kind, as_earned, paid, rewards):
    """Applies one legal action in a single game, up to the end of its round.

    Args:
        paid: Work array, int64 of shape (4,).
        rewards: float64 (1, players): what each seat earned.

    Returns:
        The phase afterwards.
    """
    sp = spec[0]
    s = states[0]
    for seat in range(sp["players"]):
        rewards[0, seat] = 0.0
    for side in range(4):
        paid[side] = 0
    if as_earned:
        note_paid(sp, s, paid)
    apply(sp, s, action)
    add_rewards(sp, s, kind, as_earned, paid, rewards, 0)
    return s["phase"]


@entry
def apply_pick(spec, states, action):
    """Applies one legal action in a single game and stops where its round ends."""
    apply(spec[0], states[0], action)


@entry
def set_legal(spec, states):
    """Fills in the legal actions of a single game from everything else in its record."""
    s = states[0]
    s["legal"] = known_legal(spec[0], s)


@entry
def hidden_places(spec, states, places):
    """Writes where every card is that is in another hand or in the stock.

    Seats are counted from the one to move. Its own cards, and those that lie open, have place 0;
    one in the hand of seat ``r`` has place ``r``; one that seat ``r`` is dealt after ``d`` other
    deals has place ``players * (d + 1) + r``.

    Args:
        states: Whole games.
        places: uint8 (n, NUM_IDS), by card.
    """
    players, size = spec[0]["players"], spec[0]["hand_size"]
    for i in range(len(states)):
        s = states[i]
        places[i, :] = 0
        for other in range(1, players):
            hand = s["hands"][(s["turn"] + other) % players]
            while hand:
                places[i, lowest(hand)] = other
                hand &= hand - 1
        for at in range(s["stock_next"], s["stock_size"]):
            block = (at - s["stock_next"]) // size
            seat = seat_of_block(spec[0], s, block % players)
            other = (seat + players - s["turn"]) % players
            places[i, s["stock"][at]] = players * (block // players + 1) + other


@entry
def deal_next_hands(spec, states):
    """Deals hands from the stock of a single game whose hands are empty, in the order it is in."""
    s = states[0]
    deal_hands(spec[0], s)
    s["legal"] = legal_picks(spec[0], s)


NUM_CATEGORIES = 7


@entry
def report_round(spec, states, counts, points):
    """Reports what each side of a single game has in each category, and its points for it.

    Args:
        counts: int64 (NUM_CATEGORIES, 4), by category and side.
        points: int64 (NUM_CATEGORIES, 4), in twelfths.
    """
    sp = spec[0]
    s = states[0]
    for side in range(sp["sides"]):
        pile = pile_of(sp, s, side)
        for category in range(4):
            counts[category, side] = count_of(sp, pile, category)
            points[category, side] = majority_points(sp, s, side, category)
        counts[4, side] = (pile >> SEVEN_OF_OROS) & 1
        points[4, side] = seven_of_oros_points(sp, s, side)
        counts[5, side] = napola_length(pile)
        points[5, side] = napola_points(sp, s, side)
        counts[6, side] = escobas_of(sp, s, side)
        points[6, side] = escoba_points(sp, s, side)


@entry
def go_on(spec, states):
    """Deals the next round of a single game whose round is over."""
    if states[0]["phase"] == ROUND_OVER:
        next_round(spec[0], states[0])


@entry
def observe_games(spec, states, games, seats, plan, out, masks):
    """Writes observation and mask of one seat of each of ``games``.

    Args:
        seats: int64 (len(games),): the seat that observes.
        plan: Where the encoding has what, dtype ``encode.PLAN``, shape (1,).
        out: Array (len(games), size); no rows: only masks are written.
        masks: int8 array (len(games), 43); a seat not to move has zeros, and the rows of a game
            that is over have ones; no rows: only observations are written.
    """
    # A record does not keep its array alive: it is taken from it anew in every turn of the loop.
    work = np.empty(1, WORK)
    width = plan[0]["width"]
    for i in range(len(games)):
        s = states[games[i]]
        seat = seats[i]
        if len(out):
            encode(spec[0], s, seat, plan[0], width, out, i, work[0])
        if len(masks):
            if s["phase"] == GAME_OVER:
                legal = ALL_LEGAL
            elif s["turn"] == seat:
                legal = s["legal"]
            else:
                legal = 0
            write_mask(masks, i, legal)


@entry
def observe_game(spec, states, seat, plan, out, mask, work):
    """Writes one seat's observation (1, size) and mask (1, 43) of a single game.

    Unlike ``observe_games`` the mask is all zeros once the game is over.
    """
    s = states[0]
    encode(spec[0], s, seat, plan[0], plan[0]["width"], out, 0, work[0])
    write_mask(mask, 0, s["legal"] if s["turn"] == seat else 0)


@entry
def view_games(spec, states, games, seats, records, keys):
    """Copies games into ``records`` as views of ``seats``, with a decision key for each."""
    for i in range(len(games)):
        s = states[games[i]]
        keys[i] = decision_key(s["seed"], s["game_index"], decision_number(s))
        records[i] = s
        hide(spec[0], records[i], seats[i])


@entry
def random_actions(records, keys, actions):
    """Chooses uniformly among legal actions, by each decision's key."""
    for i in range(len(records)):
        legal = records[i]["legal"]
        number = popcount(legal)
        skip = int(uniform_of(keys[i], 0) * number)
        for _ in range(skip):
            legal &= legal - 1
        actions[i] = lowest(legal)


@entry
def greedy_actions(spec, records, actions):
    """Chooses by ``greedy_action`` for each view."""
    # A record does not keep its array alive: it is taken from it anew in every turn of the loop.
    work = np.empty(1, WORK)
    for i in range(len(records)):
        actions[i] = greedy_action(spec[0], records[i], work[0])


@entry
def sample_actions(probabilities, records, keys, actions):
    """Draws an action for each view from its row of probabilities, by each decision's key."""
    for i in range(len(records)):
        legal = records[i]["legal"]
        mass = 0.0
        for action in range(43):
            if (legal >> action) & 1:
                mass += probabilities[i, action]
        point = uniform_of(keys[i], 0) * mass
        chosen = -1
        for action in range(43):
            if (legal >> action) & 1:
                chosen = action
                point -= probabilities[i, action]
                if point < 0.0:
                    break
        actions[i] = chosen
