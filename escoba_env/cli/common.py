"""What the commands share: the app, its one-line errors, options, progress and tables."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from typer.core import TyperGroup

from escoba_env.evaluation import Interrupted, RayWorkers, StoreError, WorkerError, cores
from escoba_env.rules import Rules, make_rules
from escoba_env.version import package_version

# What typer raises for an option it cannot read; its home differs between versions.
_UsageError: Any = typer.BadParameter.__base__

REFUSALS = (ValueError, ImportError, WorkerError, StoreError)
"""What the package raises when something cannot be done."""
REFUSED = 2
INTERRUPTED = 130

T = TypeVar("T")


def fail(error: object) -> NoReturn:
    """Prints one line on stderr and ends the command as one that was called wrongly."""
    say_error(error)
    raise typer.Exit(REFUSED)


def say_error(error: object) -> None:
    """Prints what went wrong in one line on stderr."""
    typer.echo(f"Error: {' '.join(str(error).split())}", err=True)


def say_interrupted(what: str) -> None:
    """Prints one line on stderr for Ctrl-C."""
    typer.echo(f"Interrupted: {what}.", err=True)


class _Commands(TyperGroup):
    """Commands whose usage errors are one line too."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Reads the options before the command's name."""
        with _one_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Reads the command's own options and runs it."""
        with _one_line():
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns the command of a name."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            allowed = ", ".join(self.list_commands(ctx))
            fail(f"command {cmd_name!r} is unknown; allowed: {allowed}")
        return command


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        command = error.ctx.command_path if error.ctx else "escoba"
        fail(f"{error.format_message().rstrip('.')}; see: {command} --help")
    except KeyboardInterrupt:
        say_interrupted("nothing was finished")
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        # A reader that has seen enough, such as head, is no fault: click ends quietly.
        if error.errno == errno.EPIPE:
            raise
        _forget_output()
        where = "the output" if error.filename is None else error.filename
        fail(f"{where} cannot be read or written: {error.strerror or error}")


def _forget_output() -> None:
    """Drops what could not be written, which Python would try once more when it ends."""
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    except (OSError, ValueError):
        # Not a file.
        pass


app = typer.Typer(
    cls=_Commands,
    help="Escoba, the Spanish card game, for reinforcement learning.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"escoba-env {package_version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _escoba(
    ctx: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


# -- options --------------------------------------------------------------------------------


def read_whole(text: str) -> int:
    """Reads a whole number; which ones are possible is for the package to say."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}; allowed: a whole number") from None


def read_number(text: str) -> float:
    """Reads a number; which ones are possible is for the package to say."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}; allowed: a number") from None


Preset = Annotated[
    str, typer.Option("--rules", metavar="PRESET", help="Preset (see: escoba rules).")
]
Players = Annotated[
    int | None,
    typer.Option(
        parser=read_whole, metavar="N", help="Number of players; short for --rule players=N."
    ),
]
Partnership = Annotated[
    bool, typer.Option("--partnership", help="Two pairs; short for --rule partnership=true.")
]
RuleChanges = Annotated[
    list[str] | None,
    typer.Option(
        "--rule", metavar="FIELD=VALUE", help="Change one field of the rules; repeatable."
    ),
]
Episode = Annotated[str, typer.Option(help="What a game is: round or match.")]
Deals = Annotated[
    int, typer.Option(parser=read_whole, metavar="N", help="Number of deals, at least 2.")
]
Seed = Annotated[int, typer.Option(parser=read_whole, metavar="N", help="Seed of the deals.")]
Workers = Annotated[
    int | None,
    typer.Option(
        parser=read_whole,
        metavar="N",
        help="Processes that play; default: one a core. Results do not depend on it.",
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Play on Ray instead: local, auto, or the address of a cluster.",
    ),
]
Folder = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Keep results there; what is there already is not played again.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def read_rules(
    preset: str, players: int | None, partnership: bool, changes: list[str] | None
) -> Rules:
    """Makes rules from the options.

    Raises:
        ValueError: If they are not possible.
    """
    return make_rules(preset, **read_fields(players, partnership, changes))


def read_fields(
    players: int | None, partnership: bool, changes: list[str] | None
) -> dict[str, Any]:
    """Reads the fields of the rules that options change.

    Raises:
        ValueError: If one is not FIELD=VALUE, or stands twice.
    """
    fields: dict[str, Any] = {}
    for option in changes or []:
        name, equals, text = option.partition("=")
        if not equals or not name:
            raise ValueError(
                f"option --rule {option!r} is not FIELD=VALUE; allowed: such as --rule target=31"
            )
        _set_once(fields, name.strip(), _rule_value(name.strip(), text.strip()))
    if players is not None:
        _set_once(fields, "players", players)
    if partnership:
        _set_once(fields, "partnership", True)
    return fields


def _set_once(fields: dict[str, Any], name: str, value: Any) -> None:
    if name in fields:
        raise ValueError(f"rule {name}={value!r} is given twice; allowed: once")
    fields[name] = value


def _rule_value(name: str, text: str) -> Any:
    """Reads a rule's value; whether it is possible is for ``Rules`` to say."""
    field = Rules.__dataclass_fields__.get(name)
    if field is not None and isinstance(field.default, tuple):
        return [_plain_value(part.strip()) for part in text.split(",")]
    return _plain_value(text)


def _plain_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text in words:
        return words[text]
    try:
        return int(text)
    except ValueError:
        return text


def workers_of(workers: int | None, ray: str | None = None) -> int | RayWorkers:
    """Those who play, as options ask for them; by default a process for each core.

    Raises:
        ValueError: If processes and Ray are asked for.
        ModuleNotFoundError: If there is no Ray.
    """
    if ray is None:
        return cores() if workers is None else workers
    if workers is not None:
        raise ValueError("--workers and --ray are not possible together; allowed: one of them")
    return RayWorkers(ray)


# -- work -----------------------------------------------------------------------------------


def measure(
    work: Callable[[Callable[[int, int], None]], T], total: int | None, again: bool = False
) -> tuple[T, int]:
    """Does work that takes a while, with a progress bar; refusals end the command.

    Args:
        work: Does it, given a function to call with the deals and rounds finished so far.
        total: How many deals there are in all; none: nobody knows.
        again: Whether the same command goes on where it was stopped.

    Returns:
        What came out, and the exit code to end with: not 0 if something stopped it before it was
        complete; then it is what was done.
    """
    try:
        with _progress() as progress:
            task = progress.add_task("deals", total=total, speed="")

            def show(done: int, rounds: int) -> None:
                elapsed = progress.tasks[task].elapsed or 0.0
                speed = f"{rounds / elapsed:,.0f} rounds/s" if elapsed else ""
                progress.update(task, completed=done, speed=speed)

            return work(show), 0
    except Interrupted as stop:
        result: T = stop.result
        hint = "; the same command goes on from here" if again else ""
        say_interrupted(f"the result is that of the deals finished so far{hint}")
        return result, INTERRUPTED
    except KeyboardInterrupt:
        say_interrupted("too little was finished for a result")
        raise typer.Exit(INTERRUPTED) from None
    except REFUSALS as error:
        if isinstance(error, StoreError) and error.result is not None:
            say_error(f"{error}; the result is that of the deals finished so far")
            return error.result, REFUSED
        fail(error)


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


# -- results --------------------------------------------------------------------------------


def print_json(content: dict[str, Any]) -> None:
    """Prints a result as JSON."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def print_table(table: Table) -> None:
    """Prints a table."""
    # Where there is little room, names that begin alike must still differ.
    for column in table.columns:
        column.overflow = "fold"
    # Names and values are text, whatever brackets and colons are in them.
    Console(markup=False, emoji=False, highlight=False).print(table)


def interval_text(margin: float, half_width: float) -> str:
    """Writes a margin with its interval."""
    low, high = margin - half_width, margin + half_width
    return f"{margin:+.3f} ± {half_width:.3f} (95 %: {low:+.3f} to {high:+.3f})"


def changes_text(rules: Rules) -> str:
    """What differs from ``classic``, as ``--rule`` reads it."""
    return ", ".join(f"{name}={shown(value)}" for name, value in rules.changes().items())


def shown(value: Any) -> str:
    """Writes the value of a rule as ``--rule`` reads it."""
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
