"""The command ``escoba``: evaluates policies, and says which rules and policies there are.

This file reads options and prints results; everything it says comes from the package. Results go
to stdout, progress and errors to stderr. What cannot be done is one line and exit code 2.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from typer.core import TyperGroup

from escoba_env.evaluation import Evaluation, evaluate
from escoba_env.policies import BUILTIN
from escoba_env.policies.checkpoint import find_checkpoint, read_card, shipped_checkpoints
from escoba_env.rules import PRESETS, Rules, RulesError, make_rules
from escoba_env.version import package_version

# What typer raises for an option it cannot read; its home differs between versions.
_UsageError: Any = typer.BadParameter.__base__


def _fail(error: object) -> NoReturn:
    """Prints one line on stderr and ends the command as one that was called wrongly."""
    typer.echo(f"Error: {' '.join(str(error).split())}", err=True)
    raise typer.Exit(2)


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
            _fail(f"command {cmd_name!r} is unknown; allowed: {allowed}")
        return command


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        command = error.ctx.command_path if error.ctx else "escoba"
        _fail(f"{error.format_message().rstrip('.')}; see: {command} --help")


app = typer.Typer(
    cls=_Commands,
    help="Escoba, the Spanish card game, for reinforcement learning.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _whole(text: str) -> int:
    """Reads a whole number; which ones are possible is for the package to say."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}; allowed: a whole number") from None


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


# -- evaluate -------------------------------------------------------------------------------


@app.command("evaluate")
def _evaluate(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="Policy to measure: a name (see: escoba policies) or a folder."
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Policy in every other seat.")],
    preset: Annotated[
        str, typer.Option("--rules", metavar="PRESET", help="Preset (see: escoba rules).")
    ] = "classic",
    players: Annotated[
        int | None,
        typer.Option(
            parser=_whole, metavar="N", help="Number of players; short for --rule players=N."
        ),
    ] = None,
    partnership: Annotated[
        bool, typer.Option("--partnership", help="Two pairs; short for --rule partnership=true.")
    ] = False,
    rule: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUE", help="Change one field of the rules; repeatable."),
    ] = None,
    episode: Annotated[str, typer.Option(help="What a game is: round or match.")] = "round",
    deals: Annotated[
        int, typer.Option(parser=_whole, metavar="N", help="Number of deals, at least 2.")
    ] = 1000,
    seed: Annotated[int, typer.Option(parser=_whole, metavar="N", help="Seed of the deals.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Play A against B on duplicate deals: each deal once with A on every side."""
    try:
        fields = _fields(rule or [])
        if players is not None:
            _set_once(fields, "players", players)
        if partnership:
            _set_once(fields, "partnership", True)
        table = make_rules(preset, **fields)
        with _progress() as progress:
            task = progress.add_task("deals", total=deals, speed="")

            def show(done: int, rounds: int) -> None:
                elapsed = progress.tasks[task].elapsed or 0.0
                speed = f"{rounds / elapsed:,.0f} rounds/s" if elapsed else ""
                progress.update(task, completed=done, speed=speed)

            result = evaluate(
                a, b, table, episode=episode, deals=deals, seed=seed, on_progress=show
            )
    except (ValueError, ImportError) as error:
        _fail(error)
    if as_json:
        typer.echo(json.dumps(result.as_dict(), indent=2, ensure_ascii=False))
    else:
        _print(_table_of(result))


def _fields(options: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or not name:
            raise ValueError(
                f"option --rule {option!r} is not FIELD=VALUE; allowed: such as --rule target=31"
            )
        _set_once(fields, name.strip(), _rule_value(name.strip(), text.strip()))
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


def _table_of(result: Evaluation) -> Table:
    low, high = result.interval
    table = Table(title=f"{result.a} against {result.b}", show_header=False)
    table.add_row("rules", _changes(result.rules) or "classic")
    table.add_row("deals", f"{result.deals:,} (seed {result.seed}), each {result.rotations} times")
    table.add_row(
        f"margin per {result.episode}",
        f"{result.margin:+.3f} ± {result.half_width:.3f} (95 %: {low:+.3f} to {high:+.3f})",
    )
    shares = (result.wins, result.draws, result.losses)
    table.add_row("won, drawn, lost", ", ".join(f"{n / result.games:.1%}" for n in shares))
    table.add_row("points per round", f"{result.points:.3f} against {result.other_points:.3f}")
    if result.escobas is not None:
        table.add_row(
            "escobas per round", f"{result.escobas:.3f} against {result.other_escobas:.3f}"
        )
    table.add_row("rounds", f"{result.rounds:,} in {result.seconds:.1f} s")
    return table


# -- rules and policies ---------------------------------------------------------------------


@app.command("rules")
def _rules(
    preset: Annotated[str | None, typer.Argument(help="Show every field of one preset.")] = None,
) -> None:
    """List the presets, or every field of one preset with what is allowed."""
    if preset is None:
        table = Table("preset", "what differs from classic")
        for name in PRESETS:
            table.add_row(name, _changes(make_rules(name)))
        _print(table)
        typer.echo("All fields: escoba rules PRESET")
        return
    try:
        rules = make_rules(preset)
    except RulesError as error:
        _fail(error)
    changed = rules.changes()
    table = Table(title=f"Rules of {preset}", show_lines=True)
    table.caption = "* differs from classic" if changed else None
    table.add_column("field", no_wrap=True)
    table.add_column("value", overflow="fold", max_width=12)
    table.add_column("meaning and what is allowed")
    for name, value in rules.as_dict().items():
        about = Rules.__dataclass_fields__[name].metadata
        shown = _shown(value) + (" *" if name in changed else "")
        table.add_row(name, shown, f"{about['meaning']}\nallowed: {about['allowed']}")
    _print(table)


@app.command("policies")
def _policies() -> None:
    """List the policies that can be named: the built-in ones and the shipped checkpoints."""
    table = Table("policy", "what it is")
    for name, maker in BUILTIN.items():
        table.add_row(name, (inspect.getdoc(maker) or "").partition("\n")[0])
    try:
        for name in shipped_checkpoints():
            folder = find_checkpoint(name)
            assert folder is not None
            card = read_card(folder)
            rules = _changes(make_rules(card.rules)) or "classic"
            table.add_row(name, f"Checkpoint, trained for: {rules} ({card.episode}).")
    except ValueError as error:
        _fail(error)
    _print(table)
    typer.echo("The folder of a checkpoint is a policy as well.")


def _changes(rules: Rules) -> str:
    """What differs from ``classic``, as ``--rule`` reads it."""
    return ", ".join(f"{name}={_shown(value)}" for name, value in rules.changes().items())


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _print(table: Table) -> None:
    # Names and values are text, whatever brackets and colons are in them.
    Console(markup=False, emoji=False, highlight=False).print(table)
