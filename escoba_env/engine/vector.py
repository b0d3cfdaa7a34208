"""Loops of the kernels that environments of many games need beside those of ``Batch``."""

from __future__ import annotations

from escoba_env.engine.jit import kernel
from escoba_env.engine.play import RANDOM_DEALER, new_game
from escoba_env.engine.rng import LEARNER_SEAT, random_seat


@kernel
def start_streams(spec, states, games, seeds, game_indices):
    """Starts new games in the slots ``games``, each of a seed of its own."""
    for i in range(len(games)):
        new_game(spec[0], states[games[i]], seeds[i], game_indices[i], RANDOM_DEALER)


@kernel
def draw_learners(seeds, game_indices, players, seats):
    """Draws the seat of the learner in each of some games."""
    for i in range(len(seats)):
        seats[i] = random_seat(seeds[i], game_indices[i], players, LEARNER_SEAT)
