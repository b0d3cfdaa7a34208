"""What a decision of a batch costs, part by part, in nanoseconds of one core.

    python tests/benchmarks/parts.py

Processor time, medians of several repetitions over 1,024 games in mid-round; ``docs/speed.md``
quotes its figures.
"""

# ruff: noqa: T201, prints for a person

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from escoba_env import Batch, load_policy
from escoba_env.encoding import VERSIONS
from escoba_env.engine import batch as kernels

GAMES = 1024
REPEATS = 9


def nanoseconds(call: Callable[[], object], rows: int = GAMES) -> float:
    """Median processor time of a call, by row."""
    call()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(100):
            call()
        times.append(time.process_time() - start)
    return float(np.median(times)) / 100 / rows * 1e9


def playing(decisions: int) -> list[tuple[str, float]]:
    """Costs of stepping, starting and drawing, over whole games."""
    batch = Batch(GAMES, seed=1)
    keys = np.arange(GAMES)
    actions = np.zeros(GAMES, np.int64)
    spent = {"random_actions": 0.0, "step": 0.0, "restart": 0.0}
    for _ in range(decisions):
        start = time.process_time()
        kernels.random_actions(batch.states, keys, actions)
        keys += 1
        drawn = time.process_time()
        over = batch.step(actions)[1]
        stepped = time.process_time()
        batch.restart(np.flatnonzero(over))
        spent["random_actions"] += drawn - start
        spent["step"] += stepped - drawn
        spent["restart"] += time.process_time() - stepped
    return [(name, seconds / decisions / GAMES * 1e9) for name, seconds in spent.items()]


def main() -> None:
    """Prints the table."""
    playing(10)
    for name, cost in playing(1500):
        print(f"{name:<28}{cost:8.1f}")
    batch = Batch(GAMES)
    cost = nanoseconds(lambda: batch.play_random(50), 50 * GAMES)
    print(f"{'play_random':<28}{cost:8.1f}")
    policy = load_policy("random")
    for encoding in VERSIONS:
        for dtype in ("float32", "uint8") if encoding == "compact" else ("float32",):
            batch = Batch(GAMES, encoding=encoding, dtype=dtype, seed=2)
            for _ in range(11):
                batch.step(policy.act(batch.views()))
            out, masks = batch.observe()
            cost = nanoseconds(lambda b=batch, o=out, m=masks: b.observe(out=o, masks=m))
            print(f"{f'observe {encoding} {dtype}':<28}{cost:8.1f}   {batch.encoding.size} numbers")
    cost = nanoseconds(batch.legal_masks)
    print(f"{'legal_masks':<28}{cost:8.1f}")
    cost = nanoseconds(batch.views)
    print(f"{'views':<28}{cost:8.1f}")


if __name__ == "__main__":
    main()
