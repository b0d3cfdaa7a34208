"""What the commands share: the app, its one-line errors, options, progress and tables."""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from escoba_env.checks import quoted, suggestion
from escoba_env.evaluation import Interrupted, RayWorkers, StoreError, WorkerError, cores
from escoba_env.rules import Rules, make_rules
from escoba_env.version import package_version

# What typer raises for an option it cannot read; its home differs between versions.
_UsageError: Any = typer.BadParameter.__base__

REFUSALS = (ValueError, ImportError, WorkerError, StoreError)
"""What the package raises when something cannot be done."""
REFUSED = 2
INTERRUPTED = 130
LONGEST = 400
"""Characters of a message about options: some quote what was given, however long it is."""

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
    """Commands whose usage errors are one line too, and which print on any stream."""

    def make_context(self, info_name: Any, args: list[str], *rest: Any, **extra: Any) -> Any:
        """Reads the options before the command's name."""
        _print_anywhere()
        with _one_line():
            return super().make_context(info_name, list(map(_at_home, args)), *rest, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Reads the command's own options and runs it."""
        with _one_line():
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns the command of a name."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            known = self.list_commands(ctx)
            hint = suggestion(cmd_name, known)
            fail(f"command {quoted(cmd_name)} is unknown; allowed: {', '.join(known)}{hint}")
        _without_types(command, ctx)
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help page of the app itself."""
        _without_types(self, ctx)
        super().format_help(ctx, formatter)


def _without_types(command: Any, ctx: Any) -> None:
    """Leaves the type of switches out of a help page: they take no value."""
    for parameter in command.get_params(ctx):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""


def _at_home(argument: str) -> str:
    """Replaces a ``~`` where a path begins: a shell does so with few of these places."""

    def home(found: re.Match[str]) -> str:
        # Unlike that of a path it leaves the name of a user who is not there as it is.
        return found[1] + os.path.expanduser(found[2])  # noqa: PTH111

    return re.sub(r"(^|=)(~[^/\\=]*)", home, argument)


_STAND_INS = {"±": "+-", "…": "...", "♦": "d", "♥": "h", "♠": "s", "♣": "c", "★": "*"}


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    """Writes what a stream cannot, as a handler of encoding errors."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    written = (_STAND_INS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in text)
    return "".join(written), error.end


codecs.register_error("escoba", _stand_in)


def _print_anywhere() -> None:
    """Lets no character end a command, whatever the encoding of the output is."""
    for stream in (sys.stdout, sys.stderr):
        # One that is closed is None, and one that somebody has put in place may be of any kind.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="escoba")


def can_print(text: str) -> bool:
    """Whether stdout can encode a text."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        command = error.ctx.command_path if error.ctx else "escoba"
        message = error.format_message().rstrip(".")
        if len(message) > LONGEST:
            message = f"{message[:LONGEST]}..."
        fail(f"{message}; see: {command} --help")
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
    except (OSError, ValueError, AttributeError):
        # Not a file, or closed.
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
        # Python reads no more than 4,300 digits.
        raise typer.BadParameter(f"{quoted(text)}; allowed: a whole number") from None


def read_number(text: str) -> float:
    """Reads a number; which ones are possible is for the package to say."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{quoted(text)}; allowed: a number") from None


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
DrawnSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        parser=read_whole,
        metavar="N",
        help="Seed of the deals; default: that of the folder, or one that is drawn anew and shown.",
    ),
]
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
                f"option --rule {quoted(option)} is not FIELD=VALUE; allowed: such as --rule "
                f"target=31"
            )
        _set_once(fields, name.strip(), _rule_value(name.strip(), text.strip()))
    if players is not None:
        _set_once(fields, "players", players)
    if partnership:
        _set_once(fields, "partnership", True)
    return fields


def _set_once(fields: dict[str, Any], name: str, value: Any) -> None:
    if name in fields:
        raise ValueError(f"rule {name}={quoted(value)} is given twice; allowed: once")
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
    work: Callable[[Callable[[int, int], None]], T],
    total: int | None,
    block: int,
    again: bool = False,
) -> tuple[T, int]:
    """Does work that takes a while, with a progress bar; refusals end the command.

    Args:
        work: Does it, given a function to call with the deals and rounds finished so far.
        total: How many deals there are in all; none: nobody knows.
        block: Deals after which the work begins again with the same opponents, some of whom take
            longer than others: how long is left is reckoned from whole blocks.
        again: Whether the same command goes on where it was stopped.

    Returns:
        What came out, and the exit code to end with: not 0 if something stopped it before it was
        complete; then it is what was done.
    """
    hint = "; the same command goes on from here" if again else ""
    pace = _Pace(total, block, time.monotonic())
    try:
        with _progress(pace) as progress:
            task = progress.add_task("deals", total=total, speed="")

            def show(done: int, rounds: int) -> None:
                elapsed = progress.tasks[task].elapsed or 0.0
                speed = f"{rounds / elapsed:,.0f} rounds/s" if elapsed else ""
                pace.note(done, time.monotonic())
                progress.update(task, completed=done, speed=speed)

            return work(show), 0
    except Interrupted as stop:
        result: T = stop.result
        say_interrupted(f"the result is that of the deals finished so far{hint}")
        return result, INTERRUPTED
    except KeyboardInterrupt:
        say_interrupted(f"too little was finished for a result{hint}")
        raise typer.Exit(INTERRUPTED) from None
    except REFUSALS as error:
        if isinstance(error, StoreError) and error.result is not None:
            say_error(f"{error}; the result is that of the deals finished so far")
            return error.result, REFUSED
        fail(error)


class _Pace:
    """Reckons how long work will take, from the blocks of it that are done.

    Args:
        total: Deals in all; none: nobody knows.
        block: Deals of a block. All blocks take about as long, unlike the parts of one.
        now: The time, in seconds.
    """

    def __init__(self, total: int | None, block: int, now: float) -> None:
        self._total = total
        self._block = block
        self._at = now
        self._blocks = 0
        self._seconds: list[float] = []

    def note(self, done: int, now: float) -> None:
        """Notes how many deals are done."""
        blocks = done // self._block
        new = blocks - self._blocks
        if new > 0:
            self._seconds += [(now - self._at) / new] * new
            self._blocks, self._at = blocks, now

    def left(self, now: float) -> float | None:
        """Returns the seconds that are left; none before a block has been played."""
        # Blocks whose results were kept from before take next to no time.
        played = [one for one in self._seconds if one > 0.01 * max(self._seconds)]
        if self._total is None or not played:
            return None
        rest = self._total - self._blocks * self._block
        seconds = sum(played) / len(played) * rest / self._block
        return max(0.0, seconds - (now - self._at))


class _TimeLeft(ProgressColumn):
    def __init__(self, pace: _Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> Text:  # noqa: ARG002  (one bar shows one piece of work)
        left = self._pace.left(time.monotonic())
        if left is None:
            return Text("-:--:--")
        minutes, seconds = divmod(round(left), 60)
        return Text(f"{minutes // 60}:{minutes % 60:02}:{seconds:02}")


def _progress(pace: _Pace) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        _TimeLeft(pace),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


# -- results --------------------------------------------------------------------------------


def print_json(content: dict[str, Any]) -> None:
    """Prints a result as JSON."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # A stand-in for a character would be another text, or no JSON.
    typer.echo(text if can_print(text) else json.dumps(content, indent=2))


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Tells the caller, who may have a result to save; Rich would end the process."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def print_table(table: Table) -> None:
    """Prints a table."""
    # Where there is little room, names that begin alike must still differ.
    for column in table.columns:
        column.overflow = "fold"
    # Names and values are text, whatever brackets and colons are in them.
    _Output(markup=False, emoji=False, highlight=False).print(table)


def interval_text(margin: float, half_width: float) -> str:
    """Writes a margin with its interval."""
    low, high = margin - half_width, margin + half_width
    return (
        f"{give_or_take(f'{margin:+.3f}', f'{half_width:.3f}')} (95 %: {low:+.3f} to {high:+.3f})"
    )


def give_or_take(value: str, half_width: str) -> str:
    """Writes a value and how sure it is, with a sign that stdout has, so that columns stay even."""
    return f"{value} {'±' if can_print('±') else '+-'} {half_width}"


def changes_text(rules: Rules) -> str:
    """What differs from ``classic``, as ``--rule`` reads it."""
    return ", ".join(f"{name}={rule_text(value)}" for name, value in rules.changes().items())


def rule_text(value: Any) -> str:
    """Writes the value of a rule as ``--rule`` reads it."""
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
