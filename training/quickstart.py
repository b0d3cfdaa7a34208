"""The main job from nothing to a learned opponent: train, evaluate, load back, play.

    python tasks.py quickstart                  # also makes the environment
    python -m training.quickstart --seed 2      # where it is made already

Trains ``configs/quick.yaml`` by self-play, measures the policy against ``random`` and ``greedy`` on
duplicate deals, and puts the checkpoint it wrote into the Gymnasium environment as the opponent of
``greedy``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import gymnasium
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import escoba_env
from escoba_env.envs.single import EscobaEnv
from escoba_env.evaluation import evaluate, mean_interval

from .config import ConfigError, load_config
from .selfplay import run_path, train

ROOT = Path(__file__).resolve().parents[1]
app = typer.Typer(add_completion=False)


@app.command()
def main(
    config: Annotated[Path, typer.Option(help="A YAML file.")] = ROOT / "configs" / "quick.yaml",
    seed: Annotated[int | None, typer.Option(help="Seed in place of the config's.")] = None,
    deals: Annotated[int, typer.Option(min=2, help="Duplicate deals of each evaluation.")] = 4000,
    run: Annotated[Path | None, typer.Option(help="Run folder.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run that is there.")] = False,
) -> None:
    """Trains, evaluates, and loads the result back as an opponent."""
    console = Console()
    start = time.perf_counter()
    try:
        settings = load_config(config, **({} if seed is None else {"seed": seed}))
        folder = run_path(settings, run)
        console.print(f"training {settings.name} for {settings.decisions:,} decisions ...")
        policy = train(settings, folder, resume=resume)
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    trained = time.perf_counter() - start

    table = Table(title=f"{policy.name}: points per round over {deals:,} duplicate deals")
    for column in ("against", "margin", "95 % interval", "wins", "draws", "losses"):
        table.add_column(column, justify="right")
    for name in ("random", "greedy"):
        result = evaluate(
            str(folder.checkpoint), name, settings.table(), episode=settings.episode, deals=deals
        )
        low, high = result.interval
        counts = (f"{n / result.games:.1%}" for n in (result.wins, result.draws, result.losses))
        table.add_row(name, f"{result.margin:+.2f}", f"{low:+.2f} to {high:+.2f}", *counts)
    console.print(table)

    margin, half = play_against(folder.checkpoint, settings.rules, rounds=400)
    console.print(
        f"greedy in gymnasium.make('escoba_env/Escoba-v0', opponents={str(folder.checkpoint)!r}): "
        f"{margin:+.2f} ± {half:.2f} a round"
    )
    console.print(
        f"trained in {trained:.0f} s, all done in {time.perf_counter() - start:.0f} s; "
        f"the policy is in {folder.checkpoint}"
    )


def play_against(checkpoint: Path, rules: dict[str, object], rounds: int) -> tuple[float, float]:
    """Lets ``greedy`` play the learner's seat of the environment against a checkpoint.

    Returns:
        Mean return of ``greedy`` per round, and half of its 95 % interval.
    """
    env = gymnasium.make(
        "escoba_env/Escoba-v0", opponents=str(checkpoint), seat="random", rules=rules
    )
    table = env.unwrapped
    assert isinstance(table, EscobaEnv)
    greedy = escoba_env.load_policy("greedy")
    returns = np.zeros(rounds)
    for number in range(rounds):
        env.reset(seed=0 if number == 0 else None)
        over = False
        while not over:
            action = greedy.act(table.game.view(table.seat))[0]
            _, reward, over, _, _ = env.step(action)
            returns[number] += float(reward)
    return mean_interval(returns)


if __name__ == "__main__":
    app()
