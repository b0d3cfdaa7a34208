"""Draws how a run has learned, as a plot.

    python -m training.curves runs/one                 # writes runs/one/curve.png
    python -m training.curves runs/one --plot one.svg

Of self-play: the margin over each opponent of its evaluations, with 95 % intervals, by decisions.
Of distillation: the points that are lost in a decision by what the search says, on labels that are
not learned from, epoch by epoch. Needs the extra ``evaluation``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from escoba_env.evaluation.plots import check_plot, save_plot
from escoba_env.files import MAX_LINES, read_whole
from training.distil import CURVE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

app = typer.Typer(add_completion=False)


class CurveError(ValueError):
    """A folder that holds no run with something to draw."""


def draw(run: Path, plot: Path) -> None:
    """Draws the learning curve of a run.

    Args:
        run: Its folder.
        plot: File to write: png, svg or pdf.

    Raises:
        CurveError: If there is nothing to draw in the folder.
        ModuleNotFoundError: If there is no matplotlib.
        ValueError: If the file cannot be written, or the format is another one.
    """
    check_plot(plot)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    evaluations = run / "evaluations.jsonl"
    rounds = sorted(run.glob(f"round-*/{CURVE}"))
    if evaluations.exists():
        _draw_evaluations(axes, _lines(evaluations))
    elif rounds:
        _draw_rounds(axes, rounds)
    else:
        raise CurveError(
            f"{run} holds no run that can be drawn; allowed: a folder of training.selfplay or "
            f"training.distil with an evaluation or an epoch done"
        )
    axes.grid(alpha=0.3)
    axes.legend()
    save_plot(figure, plot)


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        lines = [json.loads(line) for line in read_whole(path, MAX_LINES).splitlines()]
    except ValueError as error:
        raise CurveError(f"{path} cannot be read: {error}") from None
    if not lines:
        raise CurveError(f"{path} is empty: nothing has been measured yet")
    return lines


def _draw_evaluations(axes: Axes, lines: list[dict[str, Any]]) -> None:
    try:
        for name in sorted({line["against"] for line in lines}):
            of_name = [line for line in lines if line["against"] == name]
            axes.errorbar(
                [line["decisions"] for line in of_name],
                [line["margin"] for line in of_name],
                yerr=[line["half_width"] for line in of_name],
                marker="o",
                capsize=3,
                label=f"over {name}",
            )
    except (KeyError, TypeError) as error:
        raise CurveError(f"evaluations.jsonl is of another version: {error}") from None
    axes.set_xlabel("decisions")
    axes.set_ylabel("margin per game, 95 % intervals")


def _draw_rounds(axes: Axes, paths: list[Path]) -> None:
    for path in paths:
        lines = _lines(path)
        try:
            epochs, lost = zip(
                *((line["epoch"], line["points_lost"]) for line in lines), strict=True
            )
        except (KeyError, TypeError) as error:
            raise CurveError(f"{path} is of another version: {error}") from None
        axes.plot(epochs, lost, marker="o", label=path.parent.name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("points lost a decision, labels not learned from")


@app.command()
def main(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")],
    plot: Annotated[
        Path | None, typer.Option(help="File to write; default: curve.png in the folder.")
    ] = None,
) -> None:
    """Draws how a run has learned."""
    target = plot or run / "curve.png"
    try:
        draw(run, target)
    except (ValueError, ModuleNotFoundError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    print(f"drawn: {target}")


if __name__ == "__main__":
    app()
