"""Measures the TorchRL environments against TorchRL's own ``PettingZooWrapper``.

    python tests/benchmarks/torchrl_envs.py

All play random legal actions by ``rand_action`` and ``step_and_maybe_reset``, on one thread.
Repetitions are interleaved; medians of steps a second, one step being one action in one game, and
of the ratios to the wrapper in the same repetition. Fails if an environment of many games is not
``--at-least`` so many times as fast as the wrapper.
"""

# ruff: noqa: T201, prints for a person

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from typing import Any

import torch
from torchrl.envs.libs.pettingzoo import PettingZooWrapper

from escoba_env import escoba_v0
from escoba_env.adapters.torchrl import EscobaEnv, EscobaSelfPlayEnv


def steps_per_second(env: Any, calls: int) -> float:
    """Steps an environment on from a reset; actions of all its games are counted."""
    env.set_seed(0)
    now = env.reset()
    start = time.perf_counter()
    for _ in range(calls):
        _, now = env.step_and_maybe_reset(env.rand_action(now))
    return calls * env.numel() / (time.perf_counter() - start)


def main() -> None:
    """Prints a line for each environment."""
    parser = argparse.ArgumentParser(description="Measure the TorchRL environments.")
    parser.add_argument("--games", type=int, default=1024, help="games of a native one (1024)")
    parser.add_argument("--repetitions", type=int, default=5, help="repetitions of each (5)")
    parser.add_argument("--wrapper-steps", type=int, default=300, help="in a repetition (300)")
    parser.add_argument("--native-calls", type=int, default=50, help="in a repetition (50)")
    parser.add_argument("--at-least", type=float, default=50, help="ratio that is demanded (50)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "PettingZoo in TorchRL")
    games = arguments.games
    cases = [
        ("PettingZooWrapper", PettingZooWrapper(escoba_v0.env(), use_mask=True), 1),
        ("EscobaEnv of one game", EscobaEnv(1, "random"), 1),
        (f"EscobaEnv({games}), random", EscobaEnv(games, "random"), games),
        (f"EscobaEnv({games}), greedy", EscobaEnv(games, "greedy"), games),
        (f"EscobaSelfPlayEnv({games})", EscobaSelfPlayEnv(games), games),
    ]
    rates: dict[str, list[float]] = {name: [] for name, _, _ in cases}
    for repetition in range(arguments.repetitions + 1):
        for name, env, number in cases:
            calls = arguments.wrapper_steps if number == 1 else arguments.native_calls
            rate = steps_per_second(env, calls)
            # The first one compiles.
            if repetition:
                rates[name].append(rate)
    base = rates["PettingZooWrapper"]
    print(f"{'':<28}{'steps/s':>12}{'times the wrapper':>20}")
    slow = []
    for name, _, number in cases:
        found = rates[name]
        ratio = statistics.median(rate / own for rate, own in zip(found, base, strict=True))
        print(f"{name:<28}{statistics.median(found):>12,.0f}{ratio:>20,.1f}")
        if number > 1 and ratio < arguments.at_least:
            slow.append(name)
    if slow:
        sys.exit(f"less than {arguments.at_least:g} times as fast as the wrapper: {slow}")


if __name__ == "__main__":
    main()
