"""Games that every adapter must play as the engine does: the same moves, the same returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from escoba_env import Game, make_rules
from escoba_env.rules import Rules

TABLES: list[dict[str, Any]] = [
    {"rules": "classic", "players": 2},
    {"rules": "classic", "players": 3},
    {"rules": "classic", "players": 4},
    {"rules": "classic", "players": 4, "partnership": True},
    {"rules": "argentine", "players": 4, "partnership": True},
    {"rules": "comodines", "players": 2},
]
"""Arguments of ``escoba_v0.env``: cutthroat and partnership, jokers and building."""


@dataclass(frozen=True)
class Script:
    """A whole game.

    Attributes:
        rules: Its rules.
        seed: What it was reset with.
        seats: Who moved, pick by pick.
        actions: What they picked.
        returns: What every seat earned, float (players,): margins of the round.
    """

    rules: Rules
    seed: int
    seats: tuple[int, ...]
    actions: tuple[int, ...]
    returns: tuple[float, ...]


def script(table: dict[str, Any], seed: int) -> Script:
    """Plays a game at random by the engine alone."""
    fields = dict(table)
    rules = make_rules(fields.pop("rules"), **fields)
    game = Game(rules, episode="round", reward="margin")
    game.reset(seed)
    rng = np.random.default_rng(seed)
    seats, actions = [], []
    while not game.is_over:
        seats.append(game.turn)
        actions.append(int(rng.choice(game.legal_actions())))
        game.step(actions[-1])
    return Script(rules, seed, tuple(seats), tuple(actions), tuple(game.returns))
