"""Times ``python_escoba`` beside OpenSpiel's own Python games, in one run.

    python tests/benchmarks/openspiel.py
    python tests/benchmarks/openspiel.py --repeats 9 --check      # exit status 1 if it is slower

Random games from Python, chance included: outcomes, legal actions and applied actions, and no
observations. Games take turns within every repetition, in CPU time, and the median counts: only the
ratios mean anything on a machine with other work.
"""

# ruff: noqa: T201, prints for a person

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if not __package__:
    sys.path[:1] = [str(ROOT)]

import open_spiel.python.games  # noqa: E402, F401, registers them
import pyspiel  # noqa: E402

from escoba_env.adapters.openspiel import game_string  # noqa: E402

OURS = (game_string("classic"), "python_escoba(rules=pack6)")
PEERS = (
    "python_kuhn_poker",
    "python_liars_poker",
    "python_tic_tac_toe",
    "python_block_dominoes",
    "python_team_dominoes",
)
CARD_GAMES = ("python_block_dominoes", "python_team_dominoes")
"""Peers with hands, a stock and a table, which ``--check`` compares with."""


def drawn(outcomes: list[tuple[int, float]], point: float) -> int:
    """Returns the outcome of chance at a point from 0 to 1."""
    for outcome, chance in outcomes:
        point -= chance
        if point < 0:
            return outcome
    return outcomes[-1][0]


def applies_per_second(game: Any, seconds: float, rng: random.Random) -> float:
    """Plays random games; returns actions applied a second, those of chance among them."""
    applied, began = 0, time.process_time()
    while (took := time.process_time() - began) < seconds:
        state = game.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                action = drawn(state.chance_outcomes(), rng.random())
            else:
                legal = state.legal_actions()
                action = legal[int(rng.random() * len(legal))]
            state.apply_action(action)
            applied += 1
    return applied / took


def main() -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each game and repetition")
    parser.add_argument("--check", action="store_true", help="exit 1 if a card game is faster")
    args = parser.parse_args()
    games = {name: pyspiel.load_game(name) for name in (*OURS, *PEERS)}
    rates: dict[str, list[float]] = {name: [] for name in games}
    for repeat in range(args.repeats):
        for name, game in games.items():
            rates[name].append(applies_per_second(game, args.seconds, random.Random(repeat)))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ours = medians[OURS[0]]
    print(f"{'game':70} {'applies/s':>10} {'python_escoba is':>17}")
    for name, rate in medians.items():
        print(f"{name:70} {rate:10,.0f} {ours / rate:16.2f}x")
    slower = any(medians[name] > ours for name in CARD_GAMES)
    return 1 if args.check and slower else 0


if __name__ == "__main__":
    sys.exit(main())
