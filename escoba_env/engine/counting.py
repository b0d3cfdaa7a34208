"""The ``counting`` policy: what a move takes, less what the cards not yet seen can take back.

One ply deep and without search: every whole move is valued by ``outlook``'s expected best reply,
and the best one is played pick by pick. Moves are listed by the solver's ``list_moves``.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import NUM_IDS
from escoba_env.engine.bits import lowest, single
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.outlook import (
    WORK,
    capture_worth,
    expected_reply,
    greedy_action,
    list_table_after,
    next_hand,
    own_next_capture,
)
from escoba_env.engine.play import apply, cards_of, is_before_last_turn, unseen_by
from escoba_env.engine.record import BY_VALUE, NOBODY
from escoba_env.engine.solve import CARD, NODE, PLACE, PLAN, TAKEN, actions_of, list_moves

MOST_MOVES = 512
"""Moves of one turn that are valued; with more, which takes a table no play leads to, the rest is
left out."""


@kernel
def make_desk():
    """Makes the work space of these kernels, for one thread at a time."""
    return (
        np.empty(1, PLAN),
        np.empty(1, NODE),
        np.empty(1, WORK),
        np.empty((MOST_MOVES, 4), np.int64),
        np.empty(MOST_MOVES),
    )


@kernel
def list_turns(spec, s, desk, alike):
    """Lists the moves that the seat to move can still make in ``desk``.

    Args:
        alike: Whether of moves that do the same, but for the setenta, one will do.

    Returns:
        The number of moves; 0 if there is no room for one that goes on from the picks so far.
    """
    plans, nodes, _, moves, _ = desk
    plan = plans[0]
    node = nodes[0]
    seat = int(s["turn"])
    # Of cards that do the same the seat may have picked another one than the lowest.
    plan["alike"] = 1 if alike and s["picked"] == 0 else 0
    node["turn"] = seat
    node["hands"][seat] = s["hands"][seat] if s["played"] == NOBODY else single(s["played"])
    node["table"] = s["table"]
    node["heads"] = s["heads"]
    if spec["building"]:
        for card in range(NUM_IDS):
            node["pile_of"][card] = s["pile_of"][card]
            node["totals"][card] = s["totals"][card]
    end = list_moves(spec, plan, node, moves, 0)
    if end < 0:
        end = len(moves)
    kept = 0
    for row in range(end):
        if actions_of(s, moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]):
            for column in range(4):
                moves[kept, column] = moves[row, column]
            kept += 1
    return kept


@kernel
def value_of_move(spec, s, card, taken, place, unseen, held, work):
    """The worth of a move to the mover, in points, as ``counting`` sees it.

    It is the worth of what the move takes, less the expected worth of the next opponent's best
    reply; and if that one has no capture, so that the table stays, a share of what the mover's side
    can take then.

    Args:
        card: The card that is played.
        taken: Heads that it captures, or 0.
        place: Where it is put otherwise: a head or ``LAY``.
        unseen: Cards that may be in the next opponent's hand, from ``next_hand``.
        held: How many of them are.
        work: Work space, with ``sweeps_score`` set for the next turn.
    """
    value = capture_worth(spec, s, card, cards_of(spec, s, taken))
    list_table_after(spec, s, card, taken, place, work)
    value -= expected_reply(spec, unseen, held, work)
    stays = work["no_reply"]
    if held and work["size"] + work["jokers"] and stays > 0.0:
        hidden = unseen_by(spec, s, int(s["turn"]))
        value += stays * own_next_capture(spec, s, card, hidden, work)
    return value


@kernel
def value_turns(spec, s, desk, number):
    """Writes the values of the ``number`` moves that are listed in ``desk`` beside them."""
    work = desk[2][0]
    moves = desk[3]
    unseen, held = next_hand(spec, s, 0)
    too_late = spec["capture_by"] == BY_VALUE and is_before_last_turn(spec, s)
    work["sweeps_score"] = 0 if too_late else 1
    for row in range(number):
        card, taken, place = moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]
        desk[4][row] = value_of_move(spec, s, card, taken, place, unseen, held, work)


@kernel
def counted_move(spec, s, desk):
    """The row in ``desk`` of the best move of the seat to move; ties go to the first.

    Returns:
        The row, or -1 if no move was listed.
    """
    # The worth of a card knows no suits but oros.
    number = list_turns(spec, s, desk, True)
    if number <= 1:
        return number - 1
    value_turns(spec, s, desk, number)
    best = 0
    for row in range(1, number):
        # Sums of the same cards in another order differ by rounding: they are a tie.
        if desk[4][row] > desk[4][best] + 1e-9:
            best = row
    return best


@kernel
def counting_action(spec, s, desk):
    """The next pick of the best move; of several that lead to it the lowest."""
    row = counted_move(spec, s, desk)
    if row < 0:
        return greedy_action(spec, s, desk[2][0])
    moves = desk[3]
    return lowest(actions_of(s, moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]))


@kernel
def play_move(spec, s, card, taken, place):
    """Plays a whole move, or what is left of it, pick by pick."""
    apply(spec, s, lowest(actions_of(s, card, taken, place)))
    while s["played"] != NOBODY:
        apply(spec, s, lowest(actions_of(s, card, taken, place)))


@entry
def counting_actions(spec, records, actions):
    """Chooses by ``counting_action`` for each view."""
    desk = make_desk()
    for i in range(len(records)):
        actions[i] = counting_action(spec[0], records[i], desk)


@entry
def counting_values(spec, records, values):
    """Writes what ``counting`` thinks of every legal action: the value of its best move.

    Args:
        values: float64 (n, 43); actions that are not legal, or whose moves were left out, get
            minus infinity.
    """
    desk = make_desk()
    for i in range(len(records)):
        values[i, :] = -np.inf
        number = list_turns(spec[0], records[i], desk, True)
        value_turns(spec[0], records[i], desk, number)
        moves = desk[3]
        for row in range(number):
            card, taken, place = moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]
            actions = actions_of(records[i], card, taken, place)
            while actions:
                action = lowest(actions)
                actions &= actions - 1
                values[i, action] = max(values[i, action], desk[4][row])
