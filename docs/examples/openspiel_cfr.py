"""OpenSpiel: solve a small pack by CFR+, and measure policies by exact exploitability.

    pip install 'escoba-env[openspiel]'
    python docs/examples/openspiel_cfr.py
    python docs/examples/openspiel_cfr.py --out cfr.json
    python docs/examples/openspiel_cfr.py --load cfr.json --policy runs/pack6-1/checkpoint

``pack6`` is Escoba with six cards, ace to three of oros and copas: two in each hand, one on the
table and one that is never dealt, captures total four. Its tree has 3,391 nodes and 1,560
information states, so what the best reply wins from a policy is counted, not sampled: the average
over both seats of that is its exploitability, in points a round, and zero for a perfect policy.

The program runs OpenSpiel's CFR+ and shows how exploitability falls, plays the average policy here
against ``random``, and computes the exploitability of policies of this package, a checkpoint that
``python -m training.selfplay configs/pack6.yaml`` has trained among them if ``--policy`` names it.

Measured: ``random`` 0.661, ``greedy`` 0.317, ``counting`` 0.261, that checkpoint 0.028 (0.035 with
``:sample=true``, drawing from its probabilities), CFR+ after 10 iterations 0.021 and after 100,
in 10 seconds, 0.0002. The average policy wins 0.47 points a round from ``random``. Policies of this
package that draw at random in other ways are measured with their draws fixed for each situation.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from escoba_env.adapters import require

require("pyspiel", "openspiel", at_least="2.0")

import pyspiel
from open_spiel.python.algorithms.exploitability import exploitability

from escoba_env.adapters.openspiel import EscobaPolicy, OpenSpielPolicy
from escoba_env.evaluation import evaluate
from escoba_env.files import check_writable, write_whole

POLICIES = ("random", "greedy", "counting")


def solve(game: Any, iterations: int) -> Any:
    """Runs CFR+ and returns the average policy, a ``pyspiel.TabularPolicy``."""
    solver = pyspiel.CFRPlusSolver(game)
    shown = {1, 3, 10, 30, 100, 300, 1000, iterations}
    began = time.perf_counter()
    for iteration in range(1, iterations + 1):
        solver.evaluate_and_update_policy()
        if iteration in shown:
            found = pyspiel.exploitability(game, solver.tabular_average_policy())
            seconds = time.perf_counter() - began
            print(f"CFR+ iteration {iteration:5}: exploitability {found:.5f}, {seconds:5.1f} s")
    return solver.tabular_average_policy()


def save(policy: Any, game: Any, file: Path) -> None:
    """Writes a table of probabilities as JSON."""
    table = {"game": str(game), "policy": policy.policy_table()}
    write_whole(file, json.dumps(table))


def load(game: Any, file: Path) -> Any:
    """Reads what :func:`save` has written.

    Raises:
        ValueError: If it was solved for another game.
    """
    table = json.loads(file.read_text(encoding="utf-8"))
    if table["game"] != str(game):
        raise ValueError(f"{file} is for {table['game']}; allowed: {game}")
    rows = {state: [tuple(pair) for pair in row] for state, row in table["policy"].items()}
    return pyspiel.TabularPolicy(rows)


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--iterations", type=int, default=100, help="iterations of CFR+")
    parser.add_argument("--pack", default="pack6", help="pack6, or pack8, which takes minutes")
    parser.add_argument("--deals", type=int, default=1000, help="deals against random")
    parser.add_argument("--seed", type=int, default=0, help="seed of those deals")
    parser.add_argument(
        "--policy", action="append", default=[], help="more policies to measure; repeatable"
    )
    parser.add_argument("--out", type=Path, help="write the average policy to this JSON file")
    parser.add_argument("--load", type=Path, help="take the policy from there and solve nothing")
    args = parser.parse_args()

    if args.out:
        check_writable(args.out)
    game = pyspiel.load_game(f"python_escoba(rules={args.pack})")
    measured = [(name, EscobaPolicy(game, name)) for name in (*POLICIES, *args.policy)]
    policy = load(game, args.load) if args.load else solve(game, args.iterations)
    if args.out:
        save(policy, game, args.out)
    here = OpenSpielPolicy(game, policy, "cfr")
    for opponent in POLICIES:
        found = evaluate(here, opponent, game.rules, deals=args.deals, seed=args.seed)
        print(f"cfr against {opponent}: {found.margin:+.3f} +- {found.half_width:.3f} points")
    print(f"exploitability of cfr: {pyspiel.exploitability(game, policy):.5f}")
    for name, one in measured:
        found = exploitability(game, one)
        print(f"exploitability of {name}: {found:.5f}")


if __name__ == "__main__":
    main()
