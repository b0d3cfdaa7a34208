"""Measures a trained policy and writes it with its card and learning curve.

    python -m training.ship runs/classic-2p-5                      # to runs/classic-2p-5/shipped
    python -m training.ship runs/classic-2p-5 --to checkpoints     # among the shipped policies
    python -m training.ship runs/classic-2p-5 --quick              # a few deals, to see it work

The card gets, beside what training has written (config, seed, decisions, version of torch):

* ``machine``, and ``label_seconds``, the time that the labels took, all processes together;
* margins over ``counting``, ``greedy`` and the policy that it started from at every table, and its
  score on ladder v1, on deals drawn for this card (:mod:`training.measure`);
* what a trained opponent and a search gain (:mod:`training.best_response`).

A command that is stopped keeps what it has measured, and the same command resumes. Needs the extra
``evaluation`` for the plot.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from escoba_env.evaluation.plots import check_plot
from escoba_env.files import check_writable
from escoba_env.policies.checkpoint import CARD, CheckpointError, read_card, tables_of
from escoba_env.policies.learned import LearnedPolicy

from .best_response import RESULT, best_response, for_card, response_config
from .commands import app_of, one_line, read_path
from .curves import draw, learned
from .labels import about_shard
from .measure import MeasurementError, Plan, Strength, make_plan, measure

LARGEST = 5 * 10**6
"""Bytes that the weights of a shipped policy may have."""
RESPONSE_DEALS = 20_000
"""Duplicate deals that best responses are measured on, at the most."""
DECISIONS = 1_000_000
"""Decisions that the opponent of the best response learns from."""
QUICK_DEALS, QUICK_DECISIONS = 400, 20_000


@dataclass(frozen=True)
class Shipped:
    """Result of :func:`ship`.

    Attributes:
        policy: The policy with its new card.
        strength: What was measured of it.
        best_response: What opponents gain from it, as the card has it.
    """

    policy: LearnedPolicy
    strength: Strength
    best_response: dict[str, Any]


def ship(
    run: Path,
    target: Path,
    plan: Plan,
    *,
    decisions: int = DECISIONS,
    folder: Path | None = None,
    console: Console | None = None,
) -> Shipped:
    """Measures the policy of a run and writes it with its card and curve.

    Whatever could stop it is asked for first.

    Args:
        run: Run folder of ``training.distil`` or ``training.selfplay``.
        target: Folder to write; its name becomes the policy's.
        plan: What is measured; see ``training.measure.make_plan``.
        decisions: Decisions that the opponent of the best response learns from.
        folder: Where results are kept; default: the run folder.
        console: Where results are shown.

    Raises:
        CheckpointError: If the run has no checkpoint, the weights are too large, or the target is
            no folder for a checkpoint.
        ConfigError: If the best response cannot be trained or resumed.
        CurveError: If the run has nothing to draw.
        MeasurementError: If the folder holds results of other weights or another plan.
        ModuleNotFoundError: If there is no matplotlib.
        ValueError: If the target cannot be written.
    """
    console = console or Console(stderr=True)
    folder = folder or run
    checkpoint, response = run / "checkpoint", folder / "best-response"
    policy = LearnedPolicy.load(checkpoint)
    size = sum(value.nbytes for value in policy.weights().values())
    if size > LARGEST:
        raise CheckpointError(
            f"{run}: weights of {size:,} bytes are too large to ship; allowed: {LARGEST:,}"
        )
    rules = tables_of(policy.card)[0].as_dict()
    if target.exists():
        read_card(target)
    check_writable(target / CARD)
    check_plot(target / "curve.png")
    learned(run)
    gain = for_card(response) if (response / RESULT).is_file() else None
    if gain is not None and gain["decisions"] > decisions:
        raise MeasurementError(
            f"{response} is of {gain['decisions']:,} decisions, and decisions={decisions:,}; "
            f"allowed: as many or more, or another folder"
        )
    response_config(str(checkpoint), rules, decisions, seed=1, fresh=False)

    strength = measure(checkpoint, folder / "measurement", plan, console=console)
    if gain is None or gain["decisions"] < decisions:
        # An opponent whose training was stopped is trained to its end.
        best_response(
            str(checkpoint), response, rules=rules, decisions=decisions,
            deals=min(plan.deals, RESPONSE_DEALS), resume=response.is_dir(),
        )  # fmt: skip
        gain = for_card(response)
    console.print(f"best response: {gain}")
    card = policy.card.model_copy(
        update={
            "name": target.name,
            "strength": {**strength.as_card(), "best response": gain},
            "training": {**policy.card.training, "machine": _machine(), **_label_time(run)},
        }
    )
    shipped = LearnedPolicy(card, policy.network)
    shipped.save(target)
    draw(run, target / "curve.png")
    return Shipped(shipped, strength, gain)


def check_name(name: str) -> str:
    """Returns the name of a policy, which is that of its folder too.

    Raises:
        CheckpointError: If it is not one.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise CheckpointError(
            f"name {name[:100]!r} is not possible for a shipped policy; allowed: up to 100 "
            f"letters, digits and . _ -, of which a letter or a digit comes first"
        )
    return name


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


def main(
    run: Annotated[
        Path, typer.Argument(parser=read_path, metavar="RUN", help="Folder of the run.")
    ],
    name: Annotated[str | None, typer.Option(help="Its name; default: the config's.")] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            parser=read_path, metavar="FOLDER", help="Folder to put it into; default: RUN/shipped."
        ),
    ] = None,
    deals: Annotated[
        int | None,
        typer.Option(min=4, help="Duplicate deals of a margin; default: 100,000, matches 10,000."),
    ] = None,
    start_deals: Annotated[
        int | None, typer.Option(min=4, help="Those against its start; default: as many.")
    ] = None,
    decisions: Annotated[
        int | None,
        typer.Option(min=1, help=f"Decisions of the best response; default: {DECISIONS:,}."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            parser=read_path,
            metavar="FOLDER",
            help="Where results are kept; default: RUN, with --quick RUN/quick.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few deals and decisions, and no ladder.")
    ] = False,
) -> None:
    """Measures a trained policy and ships it with its card and learning curve."""
    with one_line("what was measured is kept: the same command resumes"):
        policy = LearnedPolicy.load(run / "checkpoint")
        target = (to or run / "shipped") / check_name(policy.card.name if name is None else name)
        if quick:
            deals = QUICK_DEALS if deals is None else deals
            decisions = QUICK_DECISIONS if decisions is None else decisions
            folder = folder or run / "quick"
        plan = make_plan(policy, deals, start_deals, ladder=not quick)
        decisions = DECISIONS if decisions is None else decisions
        ship(run, target, plan, decisions=decisions, folder=folder)
        print(f"shipped: {target}")


app = app_of(main)

if __name__ == "__main__":
    app()
