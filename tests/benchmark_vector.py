"""Measures the environments of many games beside the batch that they are views of.

    python tests/benchmark_vector.py --envs 1024 --players 2

All play at random on one thread, and decisions of all seats are counted: of a learner's and its
opponents' decisions the learner's are one in as many as there are players, as all seats play alike.
Each figure is the best of some runs in CPU time, so that other work on the machine counts little.

* ``batch``: observe every decision into given arrays, draw actions, step, restart.
* ``VectorEnv`` (same-step autoreset) and ``VecEnv``: a learner's, with ``--opponents``.
* ``VecEnv, masks one by one``: as sb3-contrib takes them, with ``get_action_masks``.
* ``AllSeatsEnv``: as ``batch``, through its step.
"""

# ruff: noqa: T201, prints for a person

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numba import njit
from sb3_contrib.common.maskable.utils import get_action_masks

from escoba_env import AllSeatsEnv, Batch
from escoba_env.envs.sb3 import EscobaVecEnv
from escoba_env.envs.vector import EscobaVectorEnv


@njit
def draw(masks, uniform, actions):
    """Draws a legal action in each row."""
    for row in range(len(masks)):
        skip = int(uniform[row] * masks[row].sum())
        for action in range(masks.shape[1]):
            if masks[row, action]:
                if skip == 0:
                    actions[row] = action
                    break
                skip -= 1


def rate(step: Callable[[], None], decisions: float, steps: int, runs: int) -> float:
    """Decisions a second of CPU time."""
    best = np.inf
    for _ in range(runs):
        began = time.process_time()
        for _ in range(steps):
            step()
        best = min(best, time.process_time() - began)
    return steps * decisions / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, default=1024)
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--opponents", default="random")
    parser.add_argument("--encoding", default="compact")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    table = {"players": options.players, "encoding": options.encoding}
    number = options.envs
    random = np.random.default_rng(0)
    actions = np.zeros(number, np.int64)

    batch = Batch(number, **table)
    out, masks = batch.observe()

    def step_batch() -> None:
        batch.observe(out=out, masks=masks)
        draw(masks, random.random(number), actions)
        _, over = batch.step(actions)
        if over.any():
            batch.restart(np.flatnonzero(over))

    all_seats = AllSeatsEnv(number, **table)
    now = all_seats.reset(0)

    def step_all_seats() -> None:
        draw(now.masks, random.random(number), actions)
        all_seats.step(actions, out=now.observations, masks=now.masks)

    sb3 = EscobaVecEnv(number, options.opponents, **table)
    sb3.seed(0)
    sb3.reset()

    def step_sb3() -> None:
        draw(sb3.action_masks(), random.random(number), actions)
        sb3.step(actions)

    def step_sb3_one_by_one() -> None:
        draw(get_action_masks(sb3), random.random(number), actions)
        sb3.step(actions)

    vector = EscobaVectorEnv(number, options.opponents, autoreset_mode="SameStep", **table)
    seen = vector.reset(seed=0)[0]

    def step_vector() -> None:
        draw(seen["action_mask"], random.random(number), actions)
        seen.update(vector.step(actions)[0])

    whole = 0.0
    for name, step, seats in (
        ("batch", step_batch, 1),
        ("AllSeatsEnv", step_all_seats, 1),
        ("VectorEnv", step_vector, options.players),
        ("VecEnv", step_sb3, options.players),
        ("VecEnv, masks one by one", step_sb3_one_by_one, options.players),
    ):
        for _ in range(20):
            step()
        speed = rate(step, number * seats, options.steps, options.runs)
        whole = whole or speed
        print(f"{name:26} {speed:12,.0f} decisions/s {speed / whole:7.1%}", flush=True)


if __name__ == "__main__":
    main()
