"""``escoba rules`` and ``escoba policies``: what there is."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer
from rich.table import Table

from escoba_env.cli.common import app, changes_text, fail, print_table, shown
from escoba_env.policies import BUILTIN
from escoba_env.policies.checkpoint import find_checkpoint, read_card, shipped_checkpoints
from escoba_env.rules import PRESETS, Rules, RulesError, make_rules


@app.command("rules")
def _rules(
    preset: Annotated[str | None, typer.Argument(help="Show every field of one preset.")] = None,
) -> None:
    """List the presets, or every field of one preset with what is allowed."""
    if preset is None:
        table = Table("preset", "what differs from classic")
        for name in PRESETS:
            table.add_row(name, changes_text(make_rules(name)))
        print_table(table)
        typer.echo("All fields: escoba rules PRESET")
        return
    try:
        rules = make_rules(preset)
    except RulesError as error:
        fail(error)
    changed = rules.changes()
    table = Table(title=f"Rules of {preset}", show_lines=True)
    table.caption = "* differs from classic" if changed else None
    table.add_column("field", no_wrap=True)
    table.add_column("value", overflow="fold", max_width=12)
    table.add_column("meaning and what is allowed")
    for name, value in rules.as_dict().items():
        about = Rules.__dataclass_fields__[name].metadata
        text = shown(value) + (" *" if name in changed else "")
        table.add_row(name, text, f"{about['meaning']}\nallowed: {about['allowed']}")
    print_table(table)


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
            rules = changes_text(make_rules(card.rules)) or "classic"
            table.add_row(name, f"Checkpoint, trained for: {rules} ({card.episode}).")
    except ValueError as error:
        fail(error)
    print_table(table)
    typer.echo("The folder of a checkpoint is a policy as well.")
