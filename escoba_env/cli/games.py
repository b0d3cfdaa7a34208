"""``escoba record``, ``replay`` and ``analyse``: single games and positions."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from escoba_env.analysis import (
    GRADER,
    Analysis,
    GameAnalysis,
    analyse,
    analyse_game,
    summarise,
)
from escoba_env.checks import whole
from escoba_env.cli.common import (
    INTERRUPTED,
    REFUSALS,
    AsJson,
    Episode,
    Partnership,
    Preset,
    RuleChanges,
    Seed,
    app,
    changes_text,
    fail,
    print_json,
    print_table,
    read_fields,
    read_whole,
    say_interrupted,
)
from escoba_env.files import check_writable
from escoba_env.game import Game
from escoba_env.policies.checkpoint import (
    find_checkpoint,
    read_card,
    shipped_checkpoints,
    tables_of,
)
from escoba_env.render.ansi import draw
from escoba_env.replay import Replay, game_file, play_game, recorded_games
from escoba_env.report import RoundReport
from escoba_env.rules import Rules

WORST = 5
"""Moves of a game that are listed as the worst."""
WHICH = "allowed: one game; --game N says which"


@app.command("record")
def _record(
    policies: Annotated[
        list[str], typer.Argument(metavar="POLICY...", help="Who plays: a policy for each seat.")
    ],
    out: Annotated[
        str,
        typer.Option(metavar="PATH", help="File of the replay; with --games a folder for them."),
    ],
    preset: Preset = "classic",
    partnership: Partnership = False,
    rule: RuleChanges = None,
    episode: Episode = "round",
    seed: Seed = 0,
    game: Annotated[
        int, typer.Option(parser=read_whole, metavar="N", help="Which game of the seed.")
    ] = 0,
    games: Annotated[
        int | None,
        typer.Option(parser=read_whole, metavar="N", help="How many games, from that one on."),
    ] = None,
) -> None:
    """Play games and write them down; the same deals as in evaluate."""
    written, number = 0, 1 if games is None else games
    try:
        if not 2 <= len(policies) <= 4:
            raise ValueError(
                f"{len(policies)} policies are not possible; allowed: one a seat, 2 to 4"
            )
        fields = read_fields(len(policies), partnership, rule)
        number = whole("games", number, 1, 10**6)
        for index in range(game, game + number):
            path = out if games is None else str(game_file(out, index))
            if index == game:
                check_writable(path)
            replay = play_game(policies, preset, episode=episode, seed=seed, index=index, **fields)
            replay.save(path)
            scores = " : ".join(f"{score:g}" for score in replay.game().scores)
            typer.echo(f"{path}: {replay.turns} turns, {scores}")
            written += 1
    except KeyboardInterrupt:
        say_interrupted(f"{written} of {number} games have been written")
        raise typer.Exit(INTERRUPTED) from None
    except REFUSALS as error:
        fail(error)


ReplayPath = Annotated[
    str,
    typer.Argument(
        metavar="REPLAY", help="File of a replay, or a folder as record --games writes it."
    ),
]
GameNumber = Annotated[
    int | None,
    typer.Option("--game", parser=read_whole, metavar="N", help="Of a folder, the game N alone."),
]


@app.command("replay")
def _replay(
    path: ReplayPath,
    game: GameNumber = None,
    turn: Annotated[
        int | None,
        typer.Option(parser=read_whole, metavar="N", help="Show the table after N turns."),
    ] = None,
    faces: Annotated[str, typer.Option(help="spanish or french.")] = "spanish",
) -> None:
    """Show a game: every move and what each round was worth, or with --turn the table."""
    try:
        files = _files_of(path, game)
        if len(files) > 1:
            if turn is not None:
                raise ValueError(f"--turn {turn} is not possible with {len(files)} games: {WHICH}")
            shown: list[Table | str] = [_games_table(files)]
        else:
            (file,) = files.values()
            replay = Replay.load(file)
            shown = (
                _round_tables(replay, faces) if turn is None else [_table_text(replay, turn, faces)]
            )
    except REFUSALS as error:
        fail(error)
    for item in shown:
        if isinstance(item, str):
            typer.echo(item)
        else:
            print_table(item)


@app.command("analyse")
def _analyse(
    position: Annotated[
        str,
        typer.Argument(
            metavar="POSITION|REPLAY",
            help="Text of a position, file of a replay, or a folder as record --games writes it.",
        ),
    ],
    turn: Annotated[
        int | None,
        typer.Option(
            parser=read_whole,
            metavar="N",
            help="Of a replay, the position after N turns; default: the whole game.",
        ),
    ] = None,
    game: GameNumber = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POLICY",
            help=f"Policy to ask; repeatable. Default: the checkpoints for these rules, and for a "
            f"whole game {GRADER}, by whose values moves are graded.",
        ),
    ] = None,
    worst: Annotated[
        int | None,
        typer.Option(
            parser=read_whole,
            metavar="N",
            help=f"Of a whole game, how many of the worst moves to list; default: {WORST}.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List every legal move of a position, or grade every move of a game.

    A position: what policies and the exact solver say of each legal move. A game, or all games of a
    folder: what each move lost against the best one, the total of each player, the worst moves.
    """
    try:
        if position.startswith("escoba/") and not _is_there(position):
            for option, value in (("--turn", turn), ("--game", game), ("--worst", worst)):
                if value is not None:
                    raise ValueError(
                        f"{option} {value} is not possible with a position; allowed: a replay"
                    )
            _show_position(position, policy, as_json)
            return
        files = _files_of(position, game)
        if turn is None:
            most = WORST if worst is None else whole("--worst", worst, 0, 10**6)
            _show_games(files, [GRADER] if policy is None else policy, most, as_json)
            return
        if worst is not None:
            raise ValueError(f"--worst {worst} is not possible with --turn; allowed: one of them")
        if len(files) > 1:
            raise ValueError(f"--turn {turn} is not possible with {len(files)} games: {WHICH}")
        (file,) = files.values()
        _show_position(Replay.load(file).game(turn), policy, as_json)
    except REFUSALS as error:
        fail(error)


def _files_of(path: str, game: int | None) -> dict[int | None, Path]:
    """The replays that a path and a number stand for; the number of a single file is none."""
    if not _is_there(path) or not Path(path).is_dir():
        if game is not None:
            raise ValueError(f"--game {game} is not possible with a file; allowed: a folder")
        return {None: Path(path)}
    files = recorded_games(path)
    if game is None:
        return {number: file for number, file in files.items()}  # noqa: C416 - keys of a wider type
    if game not in files:
        numbers = f"{min(files)} to {max(files)}" if len(files) > 1 else f"{min(files)}"
        raise ValueError(f"--game {game} is not in {path}; allowed: {numbers}")
    return {game: files[game]}


def _is_there(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        # Text that no file can be called.
        return False


def _show_position(position: str | Game, policies: list[str] | None, as_json: bool) -> None:
    result = analyse(position, _checkpoints_for(position) if policies is None else policies)
    if as_json:
        print_json(result.as_dict())
        return
    print_table(_analysis_table(result))
    for note in result.notes:
        typer.echo(f"Note: {note}")


def _show_games(
    files: dict[int | None, Path], policies: list[str], worst: int, as_json: bool
) -> None:
    loaded = {number: Replay.load(file) for number, file in files.items()}
    total = sum(replay.turns for replay in loaded.values())
    done: dict[int | None, GameAnalysis] = {}

    with _moves_bar(total) as show:
        before = 0
        for number, replay in loaded.items():
            done[number] = analyse_game(replay, policies, show=partial(show, before))
            before += replay.turns
    if as_json and None in done:
        print_json(done[None].as_dict())
        return
    if as_json:
        print_json({"games": {str(number): game.as_dict() for number, game in done.items()}})
        return
    print_table(_players_table(done))
    if worst:
        print_table(_worst_table(done, worst))
    for number, game in done.items():
        for note in game.notes:
            typer.echo(f"Note: {note}" if number is None else f"Note on game {number}: {note}")


@contextmanager
def _moves_bar(total: int) -> Iterator[Callable[[int, int, int], None]]:
    """Shows how many moves are done; gives what to call with those before, and of this game."""
    console = Console(stderr=True)
    columns = (TextColumn("moves"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("moves", total=total)
        yield lambda before, done, _: bar.update(task, completed=before + done)


def _games_table(files: dict[int | None, Path]) -> Table:
    table = Table("game", "players", "turns", "score", title=f"{len(files)} games")
    table.caption = "--game N shows one of them"
    for number, file in files.items():
        replay = Replay.load(file)
        game = replay.game()
        score = " : ".join(f"{score:g}" for score in game.scores) if game.is_over else "not over"
        table.add_row(str(number), ", ".join(replay.policies or ()), str(replay.turns), score)
    return table


def _round_tables(replay: Replay, faces: str) -> list[Table | str]:
    lines = [f"rules: {changes_text(replay.rules) or 'classic'}"]
    if replay.policies is not None:
        lines += [f"player_{seat}: {name}" for seat, name in enumerate(replay.policies)]
    shown: list[Table | str] = ["\n".join(lines)]
    turns = list(replay.played())
    last = replay.game()
    for index, one in enumerate(replay.rounds):
        table = Table("turn", "player", "move", "", title=_round_title(index, one.dealer))
        of_round = [turn for turn in turns if turn.round_index == index]
        first = of_round[0].before if of_round else last
        for seat in range(replay.rules.players):
            escobas = int(first.record["escobas"][seat])
            if escobas:
                table.add_row("", f"player_{seat}", "the first table", _escobas_text(escobas))
        for turn in of_round:
            table.add_row(
                str(turn.number + 1),
                f"player_{turn.seat}",
                turn.move.text(faces),
                _escobas_text(turn.escobas),
            )
        shown.append(table)
        # The report of a round is that of the game after its last turn.
        after = next((turn.before for turn in turns if turn.round_index == index + 1), last)
        if after.report is not None and after.report.round_index == index:
            shown.append(_report_table(after.report))
    return shown


def _round_title(index: int, dealer: int) -> str:
    return f"round {index + 1}, player_{dealer} deals"


def _escobas_text(number: int) -> str:
    return "" if number == 0 else "escoba" if number == 1 else f"{number} escobas"


def _report_table(report: RoundReport) -> Table:
    table = Table("points of the round", *report.sides)
    for category in report.categories:
        if category.counted:
            cells = [
                f"{count} (+{points})" if points else str(count)
                for count, points in zip(category.counts, category.points, strict=True)
            ]
            table.add_row(category.name, *cells)
    table.add_section()
    table.add_row("round", *map(str, report.totals))
    table.add_row("score", *map(str, report.scores))
    return table


def _players_table(games: dict[int | None, GameAnalysis]) -> Table:
    table = Table("player", "policy", title=_counted(len(games), "game"))
    for heading in ("choices", "graded", "lost", "a choice"):
        table.add_column(heading, justify="right")
    table.caption = "lost: points of the round, against the best move of each choice"
    for one in summarise(games.values()):
        each = f"{one.loss / one.graded:.3f}" if one.graded else ""
        cells = (str(one.decisions), str(one.graded), f"{one.loss:.2f}", each)
        table.add_row(f"player_{one.seat}", one.name or "", *cells)
    return table


def _worst_table(games: dict[int | None, GameAnalysis], most: int) -> Table:
    rows = [(number, one) for number, game in games.items() for one in game.worst(most)]
    rows = sorted(rows, key=lambda row: -(row[1].loss or 0.0))[:most]
    several = None not in games
    headings = ["game"] if several else []
    table = Table(*headings, "after turns", "player", "played", "best", title="worst moves")
    for heading in ("lost", "played is worth", "best is worth"):
        table.add_column(heading, justify="right")
    table.add_column("by")
    for number, one in rows:
        table.add_row(
            *([str(number)] if several else []),
            str(one.turn),
            f"player_{one.seat}",
            str(one.move),
            str(one.best),
            f"{one.loss:.2f}",
            f"{one.value:+.2f}",
            f"{one.best_value:+.2f}",
            one.graded_by,
        )
    return table


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _table_text(replay: Replay, turn: int, faces: str) -> str:
    game = replay.game(turn)
    board = draw(game.rules, game.episode, game.record, faces=faces)
    return f"After {turn} of {replay.turns} turns\n{board}\n{game.to_text()}"


def _checkpoints_for(position: str | Game) -> list[str]:
    """The shipped checkpoints that were trained for the rules of a position."""
    if importlib.util.find_spec("torch") is None:
        return []
    rules = _rules_of(position)
    names = []
    for name in shipped_checkpoints():
        folder = find_checkpoint(name)
        if folder is not None and rules in tables_of(read_card(folder)):
            names.append(name)
    return names


def _rules_of(position: str | Game) -> Rules:
    from escoba_env.position import parse_position

    return position.rules if isinstance(position, Game) else parse_position(position)[0]


def _analysis_table(result: Analysis) -> Table:
    table = Table("move", title=f"player_{result.seat} to move")
    table.caption = "values: margin of the round for the side to move"
    valued = [name for name in result.policies if any(name in row.values for row in result.moves)]
    for name in result.policies:
        table.add_column(name, justify="right")
        if name in valued:
            table.add_column(f"{name}: value", justify="right")
    solved = {
        "exact": [row.exact for row in result.moves],
        "all cards known": [row.double_dummy for row in result.moves],
    }
    if None not in solved["exact"]:
        # It says the same.
        del solved["all cards known"]
    solved = {heading: column for heading, column in solved.items() if None not in column}
    for heading in solved:
        table.add_column(heading, justify="right")
    for place, row in enumerate(result.moves):
        cells = [str(row.move)]
        for name in result.policies:
            cells.append(f"{row.probabilities[name]:.1%}")
            if name in valued:
                cells.append(f"{row.values[name]:+.2f}" if name in row.values else "")
        cells += [f"{column[place]:+}" for column in solved.values()]
        table.add_row(*cells)
    return table
