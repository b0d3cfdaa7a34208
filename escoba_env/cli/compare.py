"""``escoba evaluate``, ``tournament``, ``crossplay``, ``ladder`` and ``quality``."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.table import Table

from escoba_env.cli.common import (
    REFUSALS,
    AsJson,
    Deals,
    DrawnSeed,
    Episode,
    Folder,
    Partnership,
    Players,
    Preset,
    Ray,
    RuleChanges,
    Workers,
    app,
    changes_text,
    fail,
    give_or_take,
    interval_text,
    measure,
    print_json,
    print_table,
    read_fields,
    read_number,
    read_rules,
    read_whole,
    workers_of,
)
from escoba_env.evaluation import (
    LADDERS,
    CrossPlay,
    Evaluation,
    LadderScore,
    Quality,
    Tournament,
    cross_play,
    decision_quality,
    evaluate,
    ladder,
    tournament,
)
from escoba_env.evaluation.plots import check_plot
from escoba_env.evaluation.quality import QUALITY_DEALS
from escoba_env.evaluation.units import UNIT_DEALS
from escoba_env.rules import Rules, make_rules

DEALS = 1000
PRECISION_DEALS = 1_000_000
"""Most deals that are played for a precision, unless another number is asked for."""

Policies = Annotated[
    list[str],
    typer.Argument(metavar="POLICY...", help="Policies: names (see: escoba policies) or folders."),
]


@app.command("evaluate")
def _evaluate(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="Policy to measure: a name (see: escoba policies) or a folder."
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Policy in every other seat.")],
    preset: Preset = "classic",
    players: Players = None,
    partnership: Partnership = False,
    rule: RuleChanges = None,
    episode: Episode = "round",
    deals: Annotated[
        int | None,
        typer.Option(
            parser=read_whole,
            metavar="N",
            help=f"Number of deals, at least 2; default: {DEALS}, or with --precision up to "
            f"{PRECISION_DEALS}.",
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            parser=read_number,
            metavar="X",
            help="Stop when half of the 95 % interval is this or less.",
        ),
    ] = None,
    seed: DrawnSeed = None,
    workers: Workers = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Play A against B on duplicate deals: each deal once with A on every side."""
    if deals is None:
        deals = DEALS if precision is None else PRECISION_DEALS
    result, code = measure(
        lambda show: evaluate(
            a,
            b,
            read_rules(preset, players, partnership, rule),
            episode=episode,
            deals=deals,
            precision=precision,
            seed=seed,
            workers=workers_of(workers),
            folder=folder,
            on_progress=show,
        ),
        total=deals if precision is None else None,
        block=UNIT_DEALS,
        again=folder is not None,
    )
    _show(result, lambda: [_evaluation_table(result, deals)], as_json, folder is not None)
    if result.complete and result.precision_reached is False:
        typer.echo(f"Note: precision {_not_reached(result)}; more deals: --deals", err=True)
    _end(code)


@app.command("tournament")
def _tournament(
    policies: Policies,
    preset: Preset = "classic",
    players: Players = None,
    partnership: Partnership = False,
    rule: RuleChanges = None,
    episode: Episode = "round",
    deals: Deals = DEALS,
    seed: DrawnSeed = None,
    workers: Workers = None,
    ray: Ray = None,
    folder: Folder = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw the result: a .png, .svg or .pdf file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play every policy against every other: standings, ratings and cross table.

    With --folder, a tournament that was stopped or killed goes on, more policies or deals can be
    added, and tournament.json, standings.csv and cross_table.csv are written there.
    """
    try:
        rules = read_rules(preset, players, partnership, rule)
        if plot is not None:
            check_plot(plot)
    except REFUSALS as error:
        fail(error)
    pairs = len(policies) * (len(policies) - 1) // (2 if rules.num_sides == 2 else 1)
    result, code = measure(
        lambda show: tournament(
            policies,
            rules,
            episode=episode,
            deals=deals,
            seed=seed,
            workers=workers_of(workers, ray),
            folder=folder,
            on_progress=show,
        ),
        total=deals * pairs,
        block=UNIT_DEALS * pairs,
        again=folder is not None,
    )
    with _files_first() as written:
        if folder is not None:
            written(lambda: result.save(folder))
        if plot is not None:
            written(lambda: result.plot(plot))
        _show(result, lambda: _tournament_tables(result, deals), as_json, folder is not None)
    _end(code)


@app.command("crossplay")
def _crossplay(
    policies: Policies,
    against: Annotated[
        str, typer.Option(metavar="POLICY", help="Policy in both seats of the other side.")
    ] = "greedy",
    preset: Preset = "classic",
    rule: RuleChanges = None,
    episode: Episode = "round",
    deals: Deals = DEALS,
    seed: DrawnSeed = None,
    workers: Workers = None,
    ray: Ray = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Play every policy as the partner of every other and of itself, against one side.

    With --folder, crossplay.json and crossplay.csv are written there too.
    """
    pairs = len(policies) * (len(policies) + 1) // 2
    result, code = measure(
        lambda show: cross_play(
            policies,
            preset,
            against=against,
            episode=episode,
            deals=deals,
            seed=seed,
            workers=workers_of(workers, ray),
            folder=folder,
            on_progress=show,
            **read_fields(None, False, rule),
        ),
        total=deals * pairs,
        block=UNIT_DEALS * pairs,
        again=folder is not None,
    )
    with _files_first() as written:
        if folder is not None:
            written(lambda: result.save(folder))
        _show(result, lambda: _crossplay_tables(result, deals), as_json, folder is not None)
    _end(code)


@app.command("ladder")
def _ladder(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="Policy to measure: a name or a folder.")
    ],
    version: Annotated[
        str, typer.Option("--ladder", help=f"Which ladder: {', '.join(LADDERS)}.")
    ] = "v1",
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Measure it on as many deals drawn now too: a policy may know the ladder's.",
        ),
    ] = False,
    workers: Workers = None,
    ray: Ray = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Measure a policy on the standard test: fixed deals and opponents, one score."""
    chosen = LADDERS.get(version)
    opponents = len(chosen.opponents) if chosen else 1
    result, code = measure(
        lambda show: ladder(
            policy,
            version,
            fresh=fresh,
            workers=workers_of(workers, ray),
            folder=folder,
            on_progress=show,
        ),
        total=chosen.deals * opponents * (2 if fresh else 1) if chosen else None,
        block=UNIT_DEALS * opponents,
        again=folder is not None,
    )
    _show(result, lambda: _ladder_tables(result, fresh), as_json, folder is not None)
    _end(code)


@app.command("quality")
def _quality(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="Policy to measure: a name or a folder.")
    ],
    against: Annotated[
        str, typer.Option(metavar="POLICY", help="Policy in the other side's seats.")
    ] = "greedy",
    preset: Preset = "classic",
    partnership: Annotated[
        bool, typer.Option("--partnership", help="Four players in two pairs.")
    ] = False,
    rule: RuleChanges = None,
    deals: Deals = 100,
    seed: DrawnSeed = None,
    workers: Workers = None,
    ray: Ray = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Measure what a policy's decisions cost it, by the exact solver."""
    result, code = measure(
        lambda show: decision_quality(
            policy,
            read_rules(preset, 4 if partnership else None, partnership, rule),
            against=against,
            deals=deals,
            seed=seed,
            workers=workers_of(workers, ray),
            folder=folder,
            on_progress=show,
        ),
        total=deals,
        block=QUALITY_DEALS,
        again=folder is not None,
    )
    _show(result, lambda: [_quality_table(result, deals)], as_json, folder is not None)
    _end(code)


# -- results --------------------------------------------------------------------------------


def _show(result: Any, tables: Callable[[], list[Table]], as_json: bool, kept: bool) -> None:
    """Prints a result; one that is kept nowhere goes to stderr if stdout does not take it."""
    try:
        _print(result, tables, as_json)
    except OSError:
        if not kept:
            typer.echo(json.dumps(result.as_dict()), err=True)
        raise


def _print(result: Any, tables: Callable[[], list[Table]], as_json: bool) -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    if as_json:
        print_json(result.as_dict())
    else:
        for table in tables():
            print_table(table)


@contextmanager
def _files_first() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Writes files before a result is shown; what cannot be written is told after it.

    Yields:
        A function that calls another one, which writes a file.
    """
    faults: list[Exception] = []

    def written(write: Callable[[], None]) -> None:
        try:
            write()
        except REFUSALS as error:
            faults.append(error)

    yield written
    if faults:
        fail(faults[0])


def _end(code: int) -> None:
    if code:
        raise typer.Exit(code)


def _rules_text(rules: Rules) -> str:
    return changes_text(rules) or "classic"


def _deals_text(result: Any, asked: int) -> str:
    """Says how many deals a result is of, and whether something stopped it before the rest."""
    if result.complete:
        return f"{result.deals:,}"
    return f"{result.deals:,} of {asked:,}, interrupted"


def _not_reached(result: Evaluation) -> str:
    return f"{result.precision:g} was not reached in {result.deals:,} deals"


def _evaluation_table(result: Evaluation, asked: int) -> Table:
    table = Table(title=f"{result.a} against {result.b}", show_header=False)
    table.add_row("rules", _rules_text(result.rules))
    table.add_row(
        "deals",
        f"{_deals_text(result, asked)} (seed {result.seed}), each {result.rotations} times",
    )
    if result.precision_reached is False:
        table.add_row("precision", _not_reached(result))
    table.add_row(f"margin per {result.episode}", interval_text(result.margin, result.half_width))
    table.add_row("won, drawn, lost", _shares(result.wins, result.draws, result.losses))
    table.add_row("points per round", f"{result.points:.3f} against {result.other_points:.3f}")
    if result.escobas is not None:
        table.add_row(
            "escobas per round", f"{result.escobas:.3f} against {result.other_escobas:.3f}"
        )
    table.add_row("rounds", f"{result.rounds:,} in {result.seconds:.1f} s")
    return table


def _shares(*numbers: int) -> str:
    return ", ".join(f"{number / sum(numbers):.1%}" for number in numbers)


def _tournament_tables(result: Tournament, asked: int) -> list[Table]:
    standings = Table("policy", f"margin per {result.episode}", "rating")
    standings.title = f"Tournament: {_deals_text(result, asked)} deals a pair (seed {result.seed})"
    standings.caption = (
        f"rules: {_rules_text(result.rules)}; "
        f"ratings: OpenSkill, {give_or_take('', 'one deviation').strip()}"
    )
    for one in result.standings:
        standings.add_row(
            one.policy,
            interval_text(one.margin, one.half_width),
            give_or_take(f"{one.rating:.1f}", f"{one.deviation:.1f}"),
        )
    names = [one.policy for one in result.standings]
    cells = {(p.a, p.b): _margin_text(p.margin, p.half_width) for p in result.pairings}
    return [standings, _square("margin of row against column", names, cells)]


def _margin_text(margin: float, half_width: float) -> str:
    return give_or_take(f"{margin:+.3f}", f"{half_width:.3f}")


def _square(title: str, names: list[str], cells: dict[tuple[str, str], str]) -> Table:
    # Columns have the numbers of the rows: there is no room for as many names.
    table = Table("", "policy", *map(str, range(1, len(names) + 1)), title=title)
    for number, row in enumerate(names, 1):
        table.add_row(str(number), row, *(cells.get((row, column), "") for column in names))
    return table


def _crossplay_tables(result: CrossPlay, asked: int) -> list[Table]:
    names = list(dict.fromkeys(p.a for p in result.partners))
    cells = {}
    for one in result.partners:
        text = _margin_text(one.margin, one.half_width)
        cells[one.a, one.b] = cells[one.b, one.a] = text
    summary = Table(title=f"Partners against {result.against}", show_header=False)
    summary.add_row("rules", _rules_text(result.rules))
    summary.add_row("deals", f"{_deals_text(result, asked)} a pair (seed {result.seed})")
    summary.add_row("with itself", interval_text(result.self_play, result.self_play_half_width))
    summary.add_row("with others", interval_text(result.with_others, result.with_others_half_width))
    summary.add_row("gap", interval_text(result.gap, result.gap_half_width))
    return [_square(f"margin per {result.episode} of row and column", names, cells), summary]


def _ladder_tables(result: LadderScore, fresh: bool) -> list[Table]:
    tables = [_ladder_table(result)]
    if result.fresh is not None:
        tables.append(_ladder_table(result.fresh))
    if result.gap is not None and result.gap_half_width is not None:
        tables[-1].add_row("ladder less fresh", interval_text(result.gap, result.gap_half_width))
    elif fresh:
        tables[-1].add_row("fresh deals", "interrupted: too few were finished")
    return tables


def _ladder_table(result: LadderScore) -> Table:
    test = result.ladder
    table = Table("opponent", f"margin per {test.episode}", "won, drawn, lost")
    table.title = f"{result.policy} on ladder {test.name}"
    for rung in result.rungs:
        shares = _shares(rung.wins, rung.draws, rung.losses)
        table.add_row(rung.b, interval_text(rung.margin, rung.half_width), shares)
    name = f"ladder {test.name}" if result.complete else "interrupted"
    table.add_row(name, interval_text(result.score, result.half_width), "", style="bold")
    rules = _rules_text(make_rules(test.preset))
    table.caption = (
        f"rules: {rules}; {_deals_text(result, test.deals)} deals each (seed {test.seed})"
    )
    return table


def _quality_table(result: Quality, asked: int) -> Table:
    regret = give_or_take(f"{result.regret:.3f}", f"{result.regret_half_width:.3f}")
    table = Table(title=f"Decisions of {result.policy} against {result.against}", show_header=False)
    table.add_row("rules", _rules_text(result.rules))
    table.add_row("deals", f"{_deals_text(result, asked)} (seed {result.seed}), each on both sides")
    if result.optimal_share is None:
        table.add_row("endgame", "never are all cards known by counting")
    else:
        table.add_row(
            "endgame",
            f"{result.optimal_share:.1%} of {result.endgame_decisions:,} decisions optimal, "
            f"{result.lost_per_decision:.4f} points lost per decision",
        )
    unsolved = f", {result.unsolved:,} more not solved" if result.unsolved else ""
    table.add_row(
        "double-dummy regret",
        f"{regret} points per round ({result.decisions:,} decisions{unsolved})",
    )
    return table
