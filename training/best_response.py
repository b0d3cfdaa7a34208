"""Trains a fresh opponent against a frozen policy, and says what it gains.

    python -m training.best_response classic-2p
    python -m training.best_response runs/one/checkpoint --decisions 5000000 --seed 2

What a trained opponent wins from a policy is a lower bound on how far the policy can be exploited
(Lockhart et al., Computing Approximate Equilibria in Sequential Adversarial Games by Exploitability
Descent, 2019; Timbers et al., Approximate Exploitability, 2022): a best response wins at least as
much. The learner plays one side, and the policy plays all others, deterministically as it does
everywhere. It begins from the policy's own weights where it is such a network, which beats a
learner that has to find out everything by itself, and from new ones with ``--fresh``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from escoba_env.evaluation import Evaluation, evaluate
from escoba_env.files import write_whole
from escoba_env.policies import load_policy
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.rules import make_rules
from training.config import Config, ConfigError, make_config
from training.run_folder import RunFolder
from training.selfplay import train

EVALUATION_SEED = 2_000_003
"""Seed of the deals that the gain is measured on, apart from those that are learned from."""

app = typer.Typer(add_completion=False)


def best_response(
    policy: str,
    folder: Path,
    *,
    rules: dict[str, Any] | None = None,
    decisions: int = 2_000_000,
    seed: int = 1,
    deals: int = 20_000,
    fresh: bool = False,
    resume: bool = False,
) -> Evaluation:
    """Trains an opponent of a policy and measures what it gains.

    Args:
        policy: Name, file or folder of the policy.
        folder: Run folder of the opponent; the result is written there as ``best_response.json``.
        rules: The table; default: the one that the policy was trained for, or two-player classic.
        decisions: Decisions that the opponent learns from.
        seed: Seed of its training.
        deals: Duplicate deals that its gain is measured on.
        fresh: Begin from new weights, also where the policy has weights to begin from.
        resume: Go on with the run that is there.

    Returns:
        The opponent against the policy: its ``margin`` is the gain, in points per round.

    Raises:
        ConfigError: If an argument is not possible, or the folder does not fit.
    """
    config = response_config(policy, rules, decisions, seed, fresh)
    train(config, RunFolder(folder), resume=resume)
    result = evaluate(
        str(folder / "checkpoint"),
        policy,
        config.table(),
        episode=config.episode,
        deals=deals,
        seed=EVALUATION_SEED,
    )
    content = {
        "policy": policy,
        "gain": result.margin,
        "half_width": result.half_width,
        "deals": deals,
        "seed": EVALUATION_SEED,
        "decisions": decisions,
        "training_seed": seed,
        "from_the_policys_weights": config.start is not None,
        "version": result.version,
    }
    write_whole(folder / "best_response.json", json.dumps(content, indent=2) + "\n")
    return result


def response_config(
    policy: str, rules: dict[str, Any] | None, decisions: int, seed: int, fresh: bool
) -> Config:
    """Returns the settings of a run against a policy.

    Raises:
        ConfigError: If there is no such policy, or it cannot be trained against.
    """
    try:
        loaded = load_policy(policy)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if getattr(loaded, "cheats", False):
        raise ConfigError(
            f"policy {policy!r} sees hidden cards; allowed: policies that play by what they know"
        )
    about: dict[str, Any] = {}
    table: dict[str, Any] = {}
    if isinstance(loaded, LearnedPolicy):
        card = loaded.card
        table = card.rules
        about = {
            "encoding": card.encoding,
            "memory": card.memory,
            "episode": card.episode,
            "network": card.network.model_dump(exclude={"kind", "state_size"}),
        }
        if not fresh and (rules is None or make_rules(rules) == make_rules(table)):
            about["start"] = policy
    return make_config(
        {
            "name": "best-response",
            "rules": table if rules is None else rules,
            "seed": seed,
            "decisions": decisions,
            "opponents": {policy: 1.0},
            "learning_rate": 3e-4,
            "entropy": 0.003,
            "evaluation": {"every": max(1, decisions // 4), "deals": 2000, "against": [policy]},
            **about,
        },
        f"of a best response to {policy}",
    )


@app.command()
def main(
    policy: Annotated[str, typer.Argument(help="The policy: a name, a file or a folder.")],
    decisions: Annotated[int, typer.Option(min=1, help="Decisions to learn from.")] = 2_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 1,
    deals: Annotated[int, typer.Option(min=2, help="Duplicate deals to measure on.")] = 20_000,
    fresh: Annotated[bool, typer.Option(help="Begin from new weights.")] = False,
    run: Annotated[Path | None, typer.Option(help="Run folder.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run that is there.")] = False,
) -> None:
    """Trains a fresh opponent against a frozen policy and says what it gains."""
    folder = run or Path("runs") / f"best-response-{Path(policy.partition(':')[0]).name}-{seed}"
    try:
        result = best_response(
            policy, folder, decisions=decisions, seed=seed, deals=deals, fresh=fresh, resume=resume
        )
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    low, high = result.interval
    Console().print(
        f"gain over {policy}: {result.margin:+.3f} ± {result.half_width:.3f} points per round "
        f"({low:+.3f} to {high:+.3f}, {deals:,} duplicate deals); in {folder}"
    )


if __name__ == "__main__":
    app()
