"""Loops of the kernels that environments with learners and opponents need beside ``Batch``'s."""

from __future__ import annotations

from escoba_env.engine.jit import kernel
from escoba_env.engine.play import RANDOM_DEALER, new_game
from escoba_env.engine.record import GAME_OVER
from escoba_env.engine.rng import LEARNER_SEAT, random_seat

LEARNER = -1
"""In ``chairs``: the seat is not played by a policy."""


@kernel
def start_streams(spec, states, games, seeds, game_indices):
    """Starts new games in the slots ``games``, each of a seed of its own."""
    for i in range(len(games)):
        new_game(spec[0], states[games[i]], seeds[i], game_indices[i], RANDOM_DEALER)


@kernel
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


@kernel
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


@kernel
def add_rows(totals, games, rows):
    """Adds row ``i`` of ``rows`` to row ``games[i]`` of ``totals``."""
    for i in range(len(games)):
        for seat in range(rows.shape[1]):
            totals[games[i], seat] += rows[i, seat]


@kernel
def take_earned(earned, games, seats, skipped, rewards):
    """Moves what the learner has earned from ``earned`` into ``rewards``, but in ``skipped``."""
    for i in range(len(games)):
        game = games[i]
        if not skipped[game]:
            rewards[game] = earned[game, seats[game]]
            for seat in range(earned.shape[1]):
                earned[game, seat] = 0.0
