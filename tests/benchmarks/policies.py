"""Measures policies: decisions a second of one core, each call with 256 views.

    python tests/benchmarks/policies.py --rounds 9
    python tests/benchmarks/policies.py --policy ismcts --policy classic-2p

The views are of ``classic`` games of two players at every stage of random play, each with a choice.
Rounds of all policies are interleaved, and the table has the median of the rounds, with half the
distance of its quartiles. Rates are by processor time. Compiling is not in the figures.
"""

# ruff: noqa: T201, E402, prints for a person; sets the path up first

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
if not __package__:
    # Run as a file: its own folder would give these modules a second name.
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.runner import Case, Ready, run
from escoba_env import Batch, load_policy
from escoba_env.batch import Views

POLICIES = ("random", "greedy", "counting", "search:worlds=16")
VIEWS = 256
BATCHES = 8
SECONDS = 0.5


def sampled_views(seed: int) -> Views:
    """Returns views of the games of a seed, as many decisions of random play into them each.

    A game is left where its number says, or at its last choice.
    """
    batch = Batch(VIEWS, skip_forced=True, seed=seed)
    policy = load_policy("random")
    goal = np.random.default_rng(seed).integers(0, 36, VIEWS)
    for number in range(36):
        going = np.flatnonzero(goal > number)
        after = batch.clone()
        after.step(policy.act(batch.views(going)), going)
        # Those that would be over stay.
        over = after.over
        after.states[over] = batch.states[over]
        batch = after
    return batch.views()


def case_of(policy: str) -> Case:
    """Returns the timing of a policy."""

    def setup() -> Ready:
        loaded = load_policy(policy)
        samples = itertools.cycle([sampled_views(seed) for seed in range(BATCHES)])

        def play(decisions: int) -> int:
            done = 0
            while done < decisions:
                done += len(loaded.act(next(samples)))
            return done

        return Ready(play)

    return Case(policy, "policies", setup)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each policy."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n\n")[0],
        epilog=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument(
        "--policy",
        action="append",
        metavar="POLICY",
        help=f"policy to measure; repeatable (default: {', '.join(POLICIES)})",
    )
    args = parser.parse_args(arguments)
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds} is not possible; allowed: at least 1")
    names = args.policy or POLICIES
    try:
        for name in names:
            load_policy(name)
    except (ValueError, ImportError) as error:
        parser.error(str(error))
    results = run([case_of(name) for name in names], args.rounds, SECONDS)
    width = max(map(len, names))
    print(f"{'policy':<{width}}{'decisions/s':>14}{'spread':>9}{'us each':>12}")
    for result in results:
        print(
            f"{result.name:<{width}}{result.median:>14,.0f}{result.spread:>8.1%}"
            f"{1e6 / result.median:>13,.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
