"""The main job from nothing to a learned opponent: train, evaluate, load back, play.

    python tasks.py quickstart                  # also makes the environment
    python -m training.quickstart --seed 2      # where it is made already

Trains ``configs/quick.yaml`` by self-play, measures the policy against ``random`` and ``greedy`` on
duplicate deals, and puts the checkpoint it wrote into the Gymnasium environment as the opponent of
``greedy``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import gymnasium
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import escoba_env
from escoba_env.checks import whole
from escoba_env.cli.common import read_whole
from escoba_env.envs.single import EscobaEnv
from escoba_env.evaluation import evaluate, mean_interval
from escoba_env.evaluation.duplicate import MAX_DEALS

from .commands import Resume, Run, Seed, app_of, given, one_line, read_name
from .config import Config, load_config
from .run_folder import RunFolder
from .selfplay import run_path, train


def main(
    config: Annotated[
        str,
        typer.Option(parser=read_name, metavar="CONFIG", help="A config's name, or a YAML file."),
    ] = "quick",
    seed: Seed = None,
    deals: Annotated[
        int,
        typer.Option(parser=read_whole, metavar="N", help="Duplicate deals of each evaluation."),
    ] = 4000,
    run: Run = None,
    resume: Resume = False,
) -> None:
    """Trains, evaluates, and loads the result back as an opponent."""
    with one_line("what was saved is kept: go on with --resume"):
        settings = load_config(config, **given(seed=seed))
        whole("deals", deals, 2, MAX_DEALS)
        quickstart(settings, run_path(settings, run), deals, resume=resume)


def quickstart(settings: Config, folder: RunFolder, deals: int, *, resume: bool) -> None:
    """Trains, evaluates, and loads the result back as an opponent; prints what comes of it.

    Raises:
        KeyboardInterrupt: If training was stopped; nothing is measured then.
    """
    console = Console()
    start = time.perf_counter()
    console.print(f"training {settings.name} for {settings.decisions:,} decisions ...")
    policy = train(settings, folder, resume=resume)
    if folder.stopped:
        raise KeyboardInterrupt
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


app = app_of(main)

if __name__ == "__main__":
    app()
