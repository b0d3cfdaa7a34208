"""Draws how a run has learned, as a plot.

    python -m training.curves runs/one                 # writes runs/one/curve.png
    python -m training.curves runs/one --plot one.svg

Of self-play: the margin over each opponent of its evaluations, with 95 % intervals, by decisions.
Of distillation: the points that are lost in a decision by what the search says, on labels that are
not learned from, epoch by epoch. Needs the extra ``evaluation``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from escoba_env.evaluation.plots import check_plot, save_plot

from .commands import app_of, one_line, read_path
from .distil import CURVE
from .folder import read_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EVALUATIONS = "evaluations.jsonl"
"""In the run folder of self-play."""


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
    evaluations, rounds = learned(run)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    if evaluations:
        _draw_evaluations(axes, evaluations)
    else:
        _draw_rounds(axes, rounds)
    axes.grid(alpha=0.3)
    axes.legend()
    save_plot(figure, plot)


def learned(run: Path) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Reads how a run has learned.

    Returns:
        The evaluations of self-play; or, if it is none, the epochs of each round of distillation.

    Raises:
        CurveError: If there is nothing to draw in the folder.
    """
    evaluations = run / EVALUATIONS
    if evaluations.exists():
        return _lines(evaluations, "decisions", "against"), {}
    rounds = {
        path.parent.name: _lines(path, "epoch") for path in sorted(run.glob(f"round-*/{CURVE}"))
    }
    if not rounds:
        raise CurveError(
            f"{run} holds no run that can be drawn; allowed: a folder of training.selfplay or "
            f"training.distil with an evaluation or an epoch done"
        )
    return [], rounds


def _lines(path: Path, *moment: str) -> list[dict[str, Any]]:
    """Reads the lines of a file, one for each moment: killed runs of old wrote some twice."""
    try:
        lines = {tuple(line[key] for key in moment): line for line in read_lines(path)}
    except ValueError as error:
        raise CurveError(str(error)) from None
    except (KeyError, TypeError) as error:
        raise CurveError(f"{path} is of another version: {error}") from None
    if not lines:
        raise CurveError(f"{path} is empty: nothing has been measured yet")
    return list(lines.values())


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
        raise CurveError(f"{EVALUATIONS} is of another version: {error}") from None
    axes.set_xlabel("decisions")
    axes.set_ylabel("margin per game, 95 % intervals")


def _draw_rounds(axes: Axes, rounds: dict[str, list[dict[str, Any]]]) -> None:
    for name, lines in rounds.items():
        try:
            epochs, lost = zip(
                *((line["epoch"], line["points_lost"]) for line in lines), strict=True
            )
        except (KeyError, TypeError) as error:
            raise CurveError(f"{name}/{CURVE} is of another version: {error}") from None
        axes.plot(epochs, lost, marker="o", label=name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("points lost a decision, labels not learned from")


def main(
    run: Annotated[Path, typer.Argument(parser=read_path, help="Folder of the run.")],
    plot: Annotated[
        Path | None,
        typer.Option(parser=read_path, help="File to write; default: curve.png in the folder."),
    ] = None,
) -> None:
    """Draws how a run has learned."""
    target = plot or run / "curve.png"
    with one_line("nothing was drawn"):
        draw(run, target)
        print(f"drawn: {target}")


app = app_of(main)

if __name__ == "__main__":
    app()
