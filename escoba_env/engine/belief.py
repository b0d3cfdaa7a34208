"""What the play of others says of the cards they hold.

A world, a deal of the hidden cards that agrees with what a seat sees, is the likelier, the better
what others have played with these cards fits. The turns since hands were dealt last are taken back
one by one in the world, and whoever played is asked how likely that move was: by the values of
``counting``, as a player who errs now and then and the more seldom, the more it costs.
"""

from __future__ import annotations

import math

from escoba_env.cards import NUM_IDS
from escoba_env.engine.bits import single
from escoba_env.engine.counting import list_turns, make_desk, value_turns
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.play import legal_picks, sweep_scores, turns_of_this_deal
from escoba_env.engine.record import NOBODY, NOT_YET
from escoba_env.engine.solve import CARD, TAKEN

TEMPERATURE = 0.25
"""Points of value by which a move is ``e`` times as likely as another one."""
LAPSE = 0.05
"""Share of moves that are made without looking at their value."""


@kernel
def turns_since_deal(spec, s):
    """Finished turns since hands were dealt last."""
    return int(spec["players"]) * int(spec["hand_size"]) - int(turns_of_this_deal(spec, s))


@kernel
def begin_turn(spec, s):
    """Takes back the picks of a turn that is being played."""
    if s["played"] != NOBODY:
        seat = int(s["turn"])
        s["hands"][seat] |= single(s["played"])
        s["hand_counts"][seat] += 1
        s["played_at"][s["played"]] = NOT_YET
        s["played"] = NOBODY
        s["picked"] = 0
        s["placing"] = 0
        s["legal"] = legal_picks(spec, s)


@kernel
def take_back(spec, s):
    """Takes back the last turn of a whole game without building.

    Returns:
        Card and captured table cards of that turn.
    """
    turn = int(s["turn_index"]) - 1
    seat = (int(s["turn"]) + int(spec["players"]) - 1) % int(spec["players"])
    card = 0
    taken = 0
    for other in range(NUM_IDS):
        if s["played_at"][other] == turn:
            card = other
        if s["taken_at"][other] == turn:
            taken |= single(other)
            s["taken_at"][other] = NOT_YET
    own = single(card)
    s["played_at"][card] = NOT_YET
    s["piles"][seat] &= ~taken
    swept = taken and s["table"] == 0
    s["table"] = (s["table"] | taken) & ~own
    s["hands"][seat] |= own
    s["hand_counts"][seat] += 1
    if swept and sweep_scores(spec, s, taken):
        s["escobas"][seat] -= 1
    s["turn"] = seat
    s["turn_index"] = turn
    s["legal"] = legal_picks(spec, s)
    return card, taken & ~own


@kernel
def likelihood(spec, s, seat, desk):
    """How likely others would have played as they did since hands were dealt, in a world.

    Args:
        s: The world, a whole game at the beginning of a turn; it is played back.
        seat: Whoever asks: its own turns say nothing.
    """
    moves = desk[3]
    values = desk[4]
    result = 1.0
    for _ in range(turns_since_deal(spec, s)):
        card, taken = take_back(spec, s)
        if s["turn"] == seat:
            continue
        number = list_turns(spec, s, desk, False)
        if number < 2:
            continue
        value_turns(spec, s, desk, number)
        best = values[0]
        for row in range(1, number):
            best = max(best, values[row])
        total = 0.0
        own = 0.0
        for row in range(number):
            weight = math.exp((values[row] - best) / TEMPERATURE)
            total += weight
            if moves[row, CARD] == card and moves[row, TAKEN] == taken:
                own = weight
        result *= (1.0 - LAPSE) * own / total + LAPSE / number
    return result


@entry
def likelihoods(spec, states, seats, results):
    """Writes :func:`likelihood` of whole games, which are played back to their last deal.

    Args:
        states: Array (n,) of dtype ``STATE``.
        seats: int64 (n,): who asks.
        results: float64 (n,).
    """
    desk = make_desk()
    for i in range(len(states)):
        begin_turn(spec[0], states[i])
        results[i] = likelihood(spec[0], states[i], seats[i], desk)


@kernel
def draw_by_weight(weights, point, drawn):
    """Draws places by their weights: systematic resampling (Kitagawa, 1996).

    Args:
        weights: float64 (n,), not all zero.
        point: Where the first draw falls, 0 to 1.
        drawn: int64 (m,): the places, ascending.
    """
    total = 0.0
    for i in range(len(weights)):
        total += weights[i]
    step = total / len(drawn)
    reached = weights[0]
    place = 0
    for draw in range(len(drawn)):
        mark = (draw + point) * step
        while reached <= mark and place < len(weights) - 1:
            place += 1
            reached += weights[place]
        drawn[draw] = place
