"""Plots as files. Needs matplotlib, the extra ``evaluation``, once something is drawn."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from escoba_env.adapters import require
from escoba_env.checks import path_of, quoted
from escoba_env.files import check_writable, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_plot(path: str | Path) -> None:
    """Checks that a plot can be drawn into a file, before anything is played for it.

    Raises:
        ImportError: If there is no matplotlib, or one that is too old; the message says what to
            install.
        ValueError: If the format is another one than png, svg or pdf, or the file cannot be
            written.
    """
    if path_of("plot", path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(
            f"plot {quoted(str(path))} is not possible; allowed: a .png, .svg or .pdf file"
        )
    # What is drawn with is imported: a broken installation shows now, not after the games.
    require("matplotlib.figure", "evaluation", at_least="3.8")
    check_writable(path)


def save_plot(figure: Figure, path: str | Path) -> None:
    """Writes a figure as a file that is the same whenever it is drawn.

    Raises:
        ValueError: If it cannot be written there.
    """
    kind = Path(path).suffix[1:].lower()
    no_date = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else {}
    image = io.BytesIO()
    figure.savefig(image, format=kind, dpi=150, metadata=no_date)
    write_whole(path, image.getvalue())
