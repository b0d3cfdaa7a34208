"""``escoba warmup``: compiles ahead what would be compiled on first use."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from escoba_env.cli.common import INTERRUPTED, REFUSALS, app, fail, say_interrupted


@app.command("warmup")
def _warmup(
    part: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Compile this part alone; repeatable. Default: all."),
    ] = None,
) -> None:
    """Compile the game's kernels now, so that nothing waits for it later.

    They are kept beside the package or, where that cannot be written, in the user's cache;
    NUMBA_CACHE_DIR chooses another folder. What is there already is not compiled again.
    """
    # The compiler is loaded by this command alone.
    from escoba_env.warming import warmup

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[compiled]} kernels compiled"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    compiled = 0
    try:
        with bar:
            task = bar.add_task("", total=None, compiled=0)

            def show(name: str, done: int, parts: int, number: int) -> None:
                nonlocal compiled
                if number and not compiled and not console.is_terminal:
                    typer.echo("Compiling kernels, which takes some minutes.", err=True)
                compiled = number
                bar.update(task, description=name, completed=done, total=parts, compiled=number)

            result = warmup(part, show)
    except KeyboardInterrupt:
        say_interrupted(f"{compiled} kernels have been compiled and kept")
        raise typer.Exit(INTERRUPTED) from None
    except REFUSALS as error:
        fail(error)
    if result.fault is not None:
        fail(f"compiled {result.compiled} kernels, but they {result.fault}")
    if result.folder is None:
        typer.echo("Nothing to compile: NUMBA_DISABLE_JIT is set.")
        return
    done = f"Compiled {result.compiled} kernels" if result.compiled else "Nothing to compile"
    typer.echo(f"{done} ({result.seconds:.1f} s). They are kept in {result.folder}.")
