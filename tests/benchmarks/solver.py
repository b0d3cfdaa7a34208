"""Measures the exact solver: time and positions searched, by turns left.

    python tests/benchmarks/solver.py --positions 200

solves numbered positions of some tables and prints, for each number of turns left, the median and
the 95 % quantile of the time in milliseconds and of the positions searched, and the slowest time.
Positions of a whole deal are the deals 0, 1, 2 ... as they begin; later ones follow random play.
Every solution has the margins of all moves. The first run compiles, which is not in the figures.
"""

# ruff: noqa: T201, prints for a person

from __future__ import annotations

import argparse
import random
import time
from typing import Any

import numpy as np

from escoba_env import Game
from escoba_env.solver import SolverLimitError, make_memory, solve

PARTNERS = {"players": 4, "partnership": True}
TABLES: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("classic", {}, (6, 12, 24, 30, 36)),
    ("classic", PARTNERS, (12, 16, 24, 30, 36)),
]
OTHERS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    (preset, table, (12, 24, 36))
    for preset in ("ludoteka", "argentine", "comodines", "scopa", "tabletop")
    for table in ({}, PARTNERS)
]


def position(preset: str, fields: dict[str, Any], turns: int, seed: int) -> Game:
    """Returns a position with so many turns left, after random play."""
    rng = random.Random(seed)
    game = Game(preset, seed=seed, **fields)
    while game.rules.turns - int(game.record["turn_index"]) > turns:
        game.step(rng.choice(game.legal_actions()))
    return game


def main() -> None:
    """Prints a line for each table and number of turns."""
    parser = argparse.ArgumentParser(description="Measure the exact solver.")
    parser.add_argument("--positions", type=int, default=200, help="positions a line (200)")
    parser.add_argument("--all-rules", action="store_true", help="other presets too")
    parser.add_argument(
        "--max-nodes", type=int, default=10**9, help="give a position up after so many positions"
    )
    arguments = parser.parse_args()
    memory = make_memory()
    solve(position("classic", {}, 2, 0), memory=memory)
    print(f"{'':<22}{'':>6}{'time, ms':>33}{'positions searched':>26}{'given':>8}")
    print(
        f"{'rules':<11}{'players':<11}{'turns':>6}"
        f"{'median':>11}{'95 %':>11}{'most':>11}{'median':>13}{'95 %':>13}{'up':>8}"
    )
    for preset, fields, several in TABLES + OTHERS * arguments.all_rules:
        for turns in several:
            times, nodes, given_up = [], [], 0
            for seed in range(arguments.positions):
                game = position(preset, fields, turns, seed)
                start = time.perf_counter()
                try:
                    nodes.append(solve(game, memory=memory, max_nodes=arguments.max_nodes).nodes)
                except SolverLimitError:
                    given_up += 1
                    nodes.append(arguments.max_nodes)
                times.append(1000 * (time.perf_counter() - start))
            middle, high = np.quantile(times, (0.5, 0.95))
            few, many = np.quantile(nodes, (0.5, 0.95))
            players = "partners" if fields else "2"
            print(
                f"{preset:<11}{players:<11}{turns:>6}{middle:>11.3f}{high:>11.3f}{max(times):>11.3f}"
                f"{few:>13,.0f}{many:>13,.0f}{given_up:>8}",
                flush=True,
            )


if __name__ == "__main__":
    main()
