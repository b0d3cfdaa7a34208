"""Measures a trained policy and puts it among the shipped ones, with its card and learning curve.

    python -m training.ship runs/classic-2p-5
    python -m training.ship runs/classic-2p-5 --name mine --to elsewhere --decisions 500000

Writes ``checkpoints/NAME``: the weights, ``card.json`` and ``curve.png``. The card gets, beside
what training has written (config, seed, decisions, version of torch):

* ``machine``, and ``label_seconds``, the time that the labels took, all processes together;
* margins over ``counting``, ``greedy`` and the policy that it started from at every table, on
  duplicate deals of a seed of their own; for matches, matches won and lost; in partnership,
  margins beside ``counting`` too;
* its score on ladder v1, where that is its game;
* what a trained opponent and a search gain (:mod:`training.best_response`).

Needs the extra ``evaluation`` for the plot.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from escoba_env.evaluation import Evaluation, cores, cross_play, evaluate, ladder
from escoba_env.evaluation.plots import check_plot
from escoba_env.policies.checkpoint import CheckpointError, tables_of
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.rules import Rules, make_rules

from .best_response import RESULT, best_response, for_card
from .curves import draw
from .labels import about_shard
from .selfplay import games_of

SEED = 3_000_017
"""Seed of the deals that shipped policies are measured on, apart from all that are learned from."""
OPPONENTS = ("counting", "greedy")
LARGEST = 5 * 10**6
"""Bytes that the weights of a shipped policy may have."""

ROOT = Path(__file__).resolve().parents[1]
app = typer.Typer(add_completion=False)


def ship(
    run: Path,
    target: Path,
    *,
    deals: int = 20_000,
    start_deals: int | None = None,
    decisions: int = 1_000_000,
    console: Console | None = None,
) -> LearnedPolicy:
    """Measures the policy of a run and writes it with its card and curve.

    Args:
        run: Run folder of ``training.distil`` or ``training.selfplay``.
        target: Folder to write; its name becomes the policy's.
        deals: Duplicate deals of each margin, for a policy of several tables shared among them.
        start_deals: Those against the policy that it started from; default: as many.
        decisions: Decisions that the opponent of the best response learns from.
        console: Where results are shown.

    Returns:
        The policy with its new card.

    Raises:
        CheckpointError: If the run has no checkpoint, or the weights are too large.
        ConfigError: If the best response cannot be trained or gone on with.
        CurveError: If the run has nothing to draw.
    """
    console = console or Console(stderr=True)
    check_plot(target / "curve.png")
    if (run / "best-response" / RESULT).is_file():
        for_card(run / "best-response")
    policy = LearnedPolicy.load(run / "checkpoint")
    size = sum(value.nbytes for value in policy.weights().values())
    if size > LARGEST:
        raise CheckpointError(
            f"{run}: weights of {size:,} bytes are too large to ship; allowed: {LARGEST:,}"
        )
    card = policy.card
    if start_deals is not None and not card.training["config"].get("start"):
        raise ValueError(f"start_deals={start_deals}: {run} has no start to be measured against")
    tables = tables_of(card)
    name = str(run / "checkpoint")
    strength: dict[str, Any] = {"seed": SEED}
    for rules in tables:
        key = "" if len(tables) == 1 else f" at {_table_name(rules)}"
        start = card.training["config"].get("start")
        for opponent in (*OPPONENTS, *([start] if start else [])):
            number = deals
            if opponent == start and start_deals is not None:
                number = start_deals
            result = evaluate(
                name, opponent, rules, episode=card.episode, seed=SEED, workers=cores(),
                deals=max(2, number // len(tables)),
            )  # fmt: skip
            strength[f"{opponent}{key}"] = _margin(result)
            console.print(f"{result.margin:+.3f} ± {result.half_width:.3f} over {opponent}{key}")
        if rules.partnership and len(tables) == 1:
            strength["counting, beside counting"] = _beside(name, rules, card.episode, deals)
            console.print(f"beside counting: {strength['counting, beside counting']}")
    if tables == [make_rules("classic")] and card.episode == "round":
        score = ladder(name, workers=cores())
        strength["ladder v1"] = {
            "score": round(score.score, 4),
            "half_width": round(score.half_width, 4),
            "margins": {rung.b: round(rung.margin, 4) for rung in score.rungs},
        }
        console.print(f"ladder v1: {score.score:+.3f} ± {score.half_width:.3f}")
    gain = _best_response(name, run / "best-response", tables[0], decisions)
    strength["best response"] = gain
    console.print(f"best response: {gain}")
    training = {**card.training, "machine": _machine(), **_label_time(run)}
    about = card.model_copy(
        update={"name": target.name, "strength": strength, "training": training}
    )
    shipped = LearnedPolicy(about, policy.network)
    shipped.save(target)
    draw(run, target / "curve.png")
    return shipped


def _table_name(rules: Rules) -> str:
    return json.dumps(rules.changes()) if rules.changes() else "classic, 2 players"


def _margin(result: Evaluation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "margin": round(result.margin, 4),
        "half_width": round(result.half_width, 4),
        "deals": result.deals,
    }
    if result.episode == "match":
        found |= games_of(result)
    return found


def _beside(name: str, rules: Rules, episode: str, deals: int) -> dict[str, Any]:
    """What the policy and ``counting``, as partners, win from two of ``counting``."""
    played = cross_play(
        [name, "counting"], rules, against="counting", episode=episode, deals=deals,
        seed=SEED, workers=cores(),
    )  # fmt: skip
    (mixed,) = [pair for pair in played.partners if pair.a != pair.b]
    return {
        "margin": round(mixed.margin, 4),
        "half_width": round(mixed.half_width, 4),
        "deals": played.deals,
    }


def _best_response(name: str, folder: Path, rules: Rules, decisions: int) -> dict[str, Any]:
    if not (folder / RESULT).is_file():
        # An opponent whose training was stopped is trained to its end.
        best_response(
            name, folder, rules=rules.as_dict(), decisions=decisions, resume=folder.is_dir()
        )
    return for_card(folder)


def _machine() -> str:
    """What the machine is, in words."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores"


def _label_time(run: Path) -> dict[str, Any]:
    shards = sorted(run.glob("round-*/labels/*.safetensors"))
    if not shards:
        return {}
    return {"label_seconds": round(sum(about_shard(path)["seconds"] for path in shards), 1)}


@app.command()
def main(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")],
    name: Annotated[str | None, typer.Option(help="Its name; default: the config's.")] = None,
    to: Annotated[Path, typer.Option(help="Where it goes.")] = ROOT / "checkpoints",
    deals: Annotated[int, typer.Option(min=4, help="Duplicate deals of a margin.")] = 20_000,
    start_deals: Annotated[
        int | None, typer.Option(min=4, help="Those against its start; default: as many.")
    ] = None,
    decisions: Annotated[
        int, typer.Option(min=1, help="Decisions of the best response.")
    ] = 1_000_000,
) -> None:
    """Measures a trained policy and ships it with its card and learning curve."""
    try:
        policy = LearnedPolicy.load(run / "checkpoint")
        ship(
            run, to / (name or policy.card.name), deals=deals, start_deals=start_deals,
            decisions=decisions,
        )  # fmt: skip
    except (ValueError, ModuleNotFoundError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        print("stopped: nothing was shipped", file=sys.stderr)
        raise typer.Exit(130) from None
    print(f"shipped: {to / (name or policy.card.name)}")


if __name__ == "__main__":
    app()
