"""``escoba rules``, ``policies`` and ``export``: what there is, and policies as files."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer
from rich.table import Table

from escoba_env.cli.common import REFUSALS, app, changes_text, fail, print_table, rule_text
from escoba_env.policies import BUILTIN, load_policy, registered_policies
from escoba_env.policies.checkpoint import (
    find_checkpoint,
    read_card,
    shipped_checkpoints,
    tables_of,
)
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
        text = rule_text(value) + (" *" if name in changed else "")
        table.add_row(name, text, f"{about['meaning']}\nallowed: {about['allowed']}")
    print_table(table)


@app.command("policies")
def _policies() -> None:
    """List the policies that have a name: built-in, shipped, and those of installed packages."""
    table = Table("policy", "what it is")
    for name, maker in BUILTIN.items():
        table.add_row(name, (inspect.getdoc(maker) or "").partition("\n")[0])
    try:
        for name in shipped_checkpoints():
            folder = find_checkpoint(name)
            assert folder is not None
            card = read_card(folder)
            tables = tables_of(card)
            rules = changes_text(tables[0]) or "classic"
            if len(tables) > 1:
                rules = f"{len(tables)} tables"
            table.add_row(name, f"Checkpoint, trained for: {rules} ({card.episode}).")
    except ValueError as error:
        fail(error)
    for name, entry in registered_policies().items():
        table.add_row(name, f"Of an installed package: {entry.value}")
    print_table(table)
    typer.echo(
        "So are the folder of a checkpoint, a file NAME.onnx, and package.module:factory.\n"
        "Options follow a colon: search:worlds=64,rollout=greedy"
    )


@app.command("export")
def _export(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="A trained policy.")],
    file: Annotated[str, typer.Argument(metavar="FILE.onnx", help="Where to write it.")],
) -> None:
    """Write a trained policy as an ONNX file, which is a policy as well."""
    try:
        from escoba_env.adapters.onnx import check_export, export_policy

        check_export(file)
        export_policy(load_policy(policy), file)
    except REFUSALS as error:
        fail(error)
    typer.echo(f"Written: {file}. It is a policy: escoba evaluate {file} greedy")
