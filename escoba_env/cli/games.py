"""``escoba record``, ``replay`` and ``analyse``: single games and positions."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from escoba_env.analysis import Analysis, analyse
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
from escoba_env.replay import Replay, play_game
from escoba_env.rules import Rules


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
            path = out if games is None else str(Path(out) / f"game-{index}.json")
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


@app.command("replay")
def _replay(
    file: Annotated[str, typer.Argument(metavar="REPLAY", help="File of a replay.")],
    turn: Annotated[
        int | None,
        typer.Option(parser=read_whole, metavar="N", help="Show the table after N turns."),
    ] = None,
    faces: Annotated[str, typer.Option(help="spanish or french.")] = "spanish",
) -> None:
    """Show a game: every move and what each round was worth, or with --turn the table."""
    try:
        replay = Replay.load(file)
        text = _moves_text(replay, faces) if turn is None else _table_text(replay, turn, faces)
    except REFUSALS as error:
        fail(error)
    typer.echo(text)


@app.command("analyse")
def _analyse(
    position: Annotated[
        str,
        typer.Argument(metavar="POSITION|REPLAY", help="Text of a position, or file of a replay."),
    ],
    turn: Annotated[
        int | None,
        typer.Option(
            parser=read_whole,
            metavar="N",
            help="Of a replay, the position after N turns; default: the last one in play.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POLICY",
            help="Policy to ask; repeatable. Default: the checkpoints for these rules.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List every legal move with what policies and the exact solver say of it."""
    try:
        game: str | Game = position
        if not position.startswith("escoba/") or _is_file(position):
            game = _position_of(Replay.load(position), turn)
        elif turn is not None:
            raise ValueError(f"--turn {turn} is not possible with a position; allowed: a replay")
        asked = policy if policy is not None else _checkpoints_for(game)
        result = analyse(game, asked)
    except REFUSALS as error:
        fail(error)
    if as_json:
        print_json(result.as_dict())
        return
    print_table(_analysis_table(result))
    for note in result.notes:
        typer.echo(f"Note: {note}")


def _moves_text(replay: Replay, faces: str) -> str:
    lines = [f"rules: {changes_text(replay.rules) or 'classic'}"]
    if replay.policies is not None:
        lines += [f"player_{seat}: {name}" for seat, name in enumerate(replay.policies)]
    number = 0
    for one, round_played in enumerate(replay.rounds):
        lines.append(f"round {one + 1}, player_{round_played.dealer} deals")
        for place, move in enumerate(round_played.moves):
            seat = (round_played.dealer + 1 + place) % replay.rules.players
            number += 1
            lines.append(f"{number:5}  player_{seat}  {move.text(faces)}")
        last = replay.game(number)
        if last.report is not None and last.report.round_index == one:
            lines += [f"       {line}" for line in str(last.report).splitlines()]
    return "\n".join(lines)


def _table_text(replay: Replay, turn: int, faces: str) -> str:
    game = replay.game(turn)
    board = draw(game.rules, game.episode, game.record, faces=faces)
    return f"After {turn} of {replay.turns} turns\n{board}\n{game.to_text()}"


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        # Text that no file can be called.
        return False


def _position_of(replay: Replay, turn: int | None) -> Game:
    game = replay.game(turn)
    return replay.game(replay.turns - 1) if turn is None and game.is_over else game


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
