"""Loops of the kernels that environments with learners and opponents need beside ``Batch``'s."""

from __future__ import annotations

import numpy as np

from escoba_env.engine.batch import (
    decision_number,
    greedy_actions,
    random_actions,
    step_games,
    view_games,
)
from escoba_env.engine.bits import lowest
from escoba_env.engine.jit import entry
from escoba_env.engine.play import RANDOM_DEALER, is_forced, new_game
from escoba_env.engine.record import GAME_OVER, STATE
from escoba_env.engine.rng import LEARNER_SEAT, decision_key, random_seat

LEARNER = -1
"""In ``chairs``: the seat is not played by a policy."""

ASKED, RANDOM, GREEDY = range(3)
"""How a policy plays: it is asked, or it is one of those that kernels can play."""


@entry
def start_streams(spec, states, games, seeds, game_indices):
    """Starts new games in the slots ``games``, each of a seed of its own."""
    for i in range(len(games)):
        new_game(spec[0], states[games[i]], seeds[i], game_indices[i], RANDOM_DEALER)


@entry
def seat_learners(spec, states, games, fixed, order, seats, chairs):
    """Seats the learner and the policies in some games.

    Args:
        fixed: Seat of the learner, or -1: drawn from the game's stream.
        order: int64 (players,): the policies in the order of play, from the learner's seat on.
        seats: int64 (num_games,): the learner's seat.
        chairs: int64 (num_games, players): the policy in each seat.
    """
    players = spec[0]["players"]
    for i in range(len(games)):
        game = games[i]
        seat = fixed
        if seat < 0:
            s = states[game]
            seat = random_seat(s["seed"], s["game_index"], players, LEARNER_SEAT)
        seats[game] = seat
        for step in range(players):
            chairs[game, (seat + step) % players] = order[step]


@entry
def find_movers(states, chairs, movers):
    """Writes the policy that is to move in each game, or ``LEARNER``, also where it is over.

    Returns:
        How many games wait for policies.
    """
    waiting = 0
    for game in range(len(states)):
        s = states[game]
        movers[game] = LEARNER
        if s["phase"] != GAME_OVER:
            movers[game] = chairs[game, s["turn"]]
        if movers[game] != LEARNER:
            waiting += 1
    return waiting


@entry
def play_unasked(spec, states, chairs, ways, skip_forced, kind, as_earned, earned, ended):
    """Plays the decisions of policies for which they need not be asked.

    Those with a single legal action, and all of the built-in policies, which decide as they do from
    views; see ``policies.builtin``. It stops where another policy or the learner is to decide.

    Args:
        chairs: int64 (num_games, players): the policy in each seat, or ``LEARNER``.
        ways: int64 (policies,): ``ASKED``, ``RANDOM`` or ``GREEDY``.
        skip_forced: As for ``step_games``, like the next two.
        earned: Float array (num_games, players) to which is added what every seat earns.
        ended: Work array, int64 (num_games,): its first entries become the games that have ended.

    Returns:
        How many games have ended.
    """
    players = spec[0]["players"]
    game = np.zeros(1, np.int64)
    seat = np.zeros(1, np.int64)
    view = np.empty(1, STATE)
    key = np.zeros(1, np.int64)
    action = np.zeros(1, np.int64)
    rewards = np.zeros((1, players), np.float32)
    over = np.zeros(1, np.bool_)
    count = 0
    for g in range(len(states)):
        game[0] = g
        over[0] = states[g]["phase"] == GAME_OVER
        while not over[0]:
            seat[0] = states[g]["turn"]
            policy = chairs[g, seat[0]]
            if policy == LEARNER:
                break
            if is_forced(states[g]):
                action[0] = lowest(states[g]["legal"])
            elif ways[policy] == ASKED:
                break
            elif ways[policy] == RANDOM:
                # It looks at what is legal and at nothing else, which is the same in a view.
                s = states[g]
                key[0] = decision_key(s["seed"], s["game_index"], decision_number(s))
                random_actions(states[g : g + 1], key, action)
            else:
                view_games(spec, states, game, seat, view, key)
                greedy_actions(spec, view, action)
            step_games(spec, states, game, action, skip_forced, kind, as_earned, rewards, over)
            for other in range(players):
                earned[g, other] += rewards[0, other]
            if over[0]:
                ended[count] = g
                count += 1
    return count


@entry
def add_rows(totals, games, rows):
    """Adds row ``i`` of ``rows`` to row ``games[i]`` of ``totals``."""
    for i in range(len(games)):
        for seat in range(rows.shape[1]):
            totals[games[i], seat] += rows[i, seat]


@entry
def take_earned(earned, games, seats, skipped, rewards):
    """Moves what the learner has earned from ``earned`` into ``rewards``, but in ``skipped``."""
    for i in range(len(games)):
        game = games[i]
        if not skipped[game]:
            rewards[game] = earned[game, seats[game]]
            for seat in range(earned.shape[1]):
                earned[game, seat] = 0.0
