"""The command ``escoba``: results on stdout, errors as one line on stderr with exit code 2."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from support.needs import needs
from typer.testing import CliRunner

from escoba_env.analysis import analyse, analyse_game
from escoba_env.cli import app
from escoba_env.cli.common import _Pace
from escoba_env.evaluation import (
    Interrupted,
    Ladder,
    StoreError,
    cross_play,
    decision_quality,
    evaluate,
    ladder,
    tournament,
)
from escoba_env.game import Game
from escoba_env.policies import BUILTIN, GreedyPolicy
from escoba_env.replay import Replay, play_game
from escoba_env.rules import PRESETS, Rules, make_rules


def escoba(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), prog_name="escoba")


# -- results --------------------------------------------------------------------------------


def test_json_is_what_evaluate_returns_and_nothing_else_is_on_stdout() -> None:
    result = escoba("evaluate", "greedy", "random", "--deals", "20", "--seed", "7", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    values = json.loads(result.stdout)
    expected = evaluate("greedy", "random", deals=20, seed=7).as_dict()
    del values["seconds"], expected["seconds"]
    assert values == expected


def test_options_reach_the_rules() -> None:
    result = escoba(
        *("evaluate", "greedy", "random", "--rules", "argentine", "--players", "4"),
        *("--partnership", "--rule", "initial_table=play", "--rule", "ties=split"),
        *("--rule", "open_hands=true", "--rule", "ranks=1,2,3,4,5,6,7,8"),
        *("--rule", "partnership_target=none", "--episode", "match", "--deals", "5", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    values = json.loads(result.stdout)
    assert make_rules(values["rules"]) == make_rules(
        "argentine",
        players=4,
        partnership=True,
        initial_table="play",
        ties="split",
        open_hands=True,
        ranks=(1, 2, 3, 4, 5, 6, 7, 8),
    )
    assert values["episode"] == "match"
    assert (values["rotations"], values["games"]) == (2, 10)


def test_a_single_rank_is_a_list_too() -> None:
    result = escoba(
        *("evaluate", "greedy", "random", "--rule", "ranks=5", "--rule", "hand_size=1"),
        *("--rule", "table_size=2", "--deals", "2", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["rules"]["ranks"] == [5]


def test_the_table_shows_margin_interval_and_shares() -> None:
    result = escoba("evaluate", "greedy", "random", "--deals", "20", "--players", "3")
    assert result.exit_code == 0
    assert result.stderr == ""
    expected = evaluate("greedy", "random", players=3, deals=20)  # the same seed: see conftest
    for text in (
        "greedy against random",
        "players=3",
        f"20 (seed {expected.seed}), each 3 times",
        f"{expected.margin:+.3f} ± {expected.half_width:.3f}",
        f"{expected.wins / expected.games:.1%}",
        "escobas per round",
    ):
        assert text in result.stdout


def test_names_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    # Brackets and colons would be markup and emoji.
    name = "[bold]runs:cat:"
    monkeypatch.setattr("escoba_env.policies.loading.BUILTIN", {name: BUILTIN["greedy"], **BUILTIN})
    result = escoba("evaluate", name, "random", "--deals", "2")
    assert result.exit_code == 0
    assert f"{name} against random" in result.stdout


def test_rules_lists_every_preset() -> None:
    result = escoba("rules")
    assert result.exit_code == 0
    for name in PRESETS:
        assert name in result.stdout


@pytest.mark.parametrize("preset", PRESETS)
def test_rules_of_a_preset_lists_every_field(preset: str) -> None:
    result = escoba("rules", preset)
    assert result.exit_code == 0
    for name in Rules.__dataclass_fields__:
        assert f" {name} " in result.stdout
    assert ("* differs from classic" in result.stdout) == bool(make_rules(preset).changes())


def test_policies_lists_what_can_be_named() -> None:
    result = escoba("policies")
    assert result.exit_code == 0, result.stderr
    for name in BUILTIN:
        assert name in result.stdout


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], [], ["evaluate", "--help"]])
def test_asking_is_no_error(arguments: list[str]) -> None:
    result = escoba(*arguments)
    assert result.exit_code == 0
    assert "escoba" in result.stdout
    assert result.stderr == ""


def test_python_m_escoba_env_is_the_same_command() -> None:
    command = [sys.executable, "-m", "escoba_env"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, "rules", "nope"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == escoba("rules", "nope").stderr
    done = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.startswith("escoba-env ")


# -- tournaments, ladders, games ------------------------------------------------------------

SMALL = Ladder(
    name="small",
    preset="classic",
    episode="round",
    seed=99,
    deals=20,
    opponents=(("random", 1), ("greedy", 1)),
)


@pytest.fixture
def _ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    ladders = {"small": SMALL}
    monkeypatch.setattr("escoba_env.evaluation.ladders.LADDERS", ladders)
    monkeypatch.setattr("escoba_env.cli.compare.LADDERS", ladders)


def as_json(*arguments: str) -> Any:
    result = escoba(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    values = json.loads(result.stdout)
    values.pop("seconds", None)
    return values


def without_seconds(values: dict[str, Any]) -> Any:
    return json.loads(json.dumps({k: v for k, v in values.items() if k != "seconds"}))


@needs("openskill")
def test_a_tournament_prints_json_and_fills_its_folder(tmp_path: Path) -> None:
    command = ("tournament", "random", "greedy", "--deals", "10", "--seed", "3")
    folder, plot = tmp_path / "run", tmp_path / "plot.svg"
    values = as_json(*command, "--folder", str(folder), "--plot", str(plot))
    expected = tournament(["random", "greedy"], deals=10, seed=3)
    assert values == without_seconds(expected.as_dict())
    assert {path.name for path in folder.iterdir()} == {
        *("results.jsonl", "tournament.json", "standings.csv", "cross_table.csv")
    }
    assert plot.read_text().startswith("<?xml")
    shown = escoba(*command, "--folder", str(folder))
    assert shown.exit_code == 0
    for standing in expected.standings:
        assert f"{standing.margin:+.3f} ± {standing.half_width:.3f}" in shown.stdout


def test_crossplay_and_quality_print_what_the_library_says() -> None:
    values = as_json("crossplay", "random", "greedy", "--deals", "5", "--rules", "argentine")
    expected = cross_play(["random", "greedy"], "argentine", deals=5)
    assert values == without_seconds(expected.as_dict())
    shown = escoba("crossplay", "random", "greedy", "--deals", "5", "--rules", "argentine")
    assert f"{expected.gap:+.3f} ± {expected.gap_half_width:.3f}" in shown.stdout
    values = as_json("quality", "random", "--deals", "3", "--against", "random")
    quality = decision_quality("random", deals=3, against="random")
    assert values == without_seconds(quality.as_dict())
    shown = escoba("quality", "random", "--deals", "3", "--against", "random")
    assert f"{quality.regret:.3f} ± {quality.regret_half_width:.3f}" in shown.stdout
    shown = escoba("quality", "random", "--deals", "2", "--partnership")
    assert "never are all cards known by counting" in shown.stdout


@pytest.mark.usefixtures("_ladder")
def test_ladder_prints_the_score(tmp_path: Path) -> None:
    command = ("ladder", "greedy", "--ladder", "small", "--folder", str(tmp_path))
    values = as_json(*command)
    expected = ladder("greedy", SMALL)
    assert values == without_seconds(expected.as_dict())
    shown = escoba(*command)
    assert f"{expected.score:+.3f} ± {expected.half_width:.3f}" in shown.stdout
    assert "greedy on ladder small" in shown.stdout


def test_a_seed_that_was_drawn_is_shown_and_repeats_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = iter([2**62 + 1, 2**62 + 2])
    monkeypatch.setattr("escoba_env.evaluation.seeds.draw_seed", lambda: next(drawn))
    command = ("evaluate", "greedy", "random", "--deals", "4")
    assert f"(seed {2**62 + 1})" in escoba(*command).stdout
    values = as_json(*command)
    assert values["seed"] == 2**62 + 2
    assert as_json(*command, "--seed", str(2**62 + 2)) == values


@pytest.mark.usefixtures("_ladder")
def test_a_fresh_ladder_shows_both_and_their_difference() -> None:
    shown = escoba("ladder", "random", "--ladder", "small", "--fresh").stdout
    expected = ladder("random", SMALL, fresh=True)
    assert expected.fresh is not None
    assert expected.gap is not None
    for score in (expected.score, expected.fresh.score, expected.gap):
        assert f"{score:+.3f} ± " in shown
    assert "random on ladder small, fresh deals" in shown
    values = as_json("ladder", "random", "--ladder", "small", "--fresh")
    wanted = without_seconds(expected.as_dict())
    del values["fresh"]["seconds"], wanted["fresh"]["seconds"]
    assert values == wanted


def test_an_evaluation_with_a_folder_goes_on(tmp_path: Path) -> None:
    command = ("evaluate", "greedy", "random", "--folder", str(tmp_path))
    first = as_json(*command, "--deals", "4")
    kept = (tmp_path / "results.jsonl").read_bytes()
    assert as_json(*command, "--deals", "4") == first
    assert (tmp_path / "results.jsonl").read_bytes() == kept


def test_a_precision_that_was_not_reached_is_told() -> None:
    command = ("evaluate", "greedy", "random", "--deals", "210", "--precision", "0.001")
    result = escoba(*command)
    assert result.exit_code == 0
    assert "0.001 was not reached in 210 deals" in result.stdout
    assert "Note: precision 0.001 was not reached in 210 deals" in result.stderr
    assert json.loads(escoba(*command, "--json").stdout)["precision_reached"] is False
    reached = escoba(*command[:-2], "--precision", "3")
    assert "reached" not in reached.stdout + reached.stderr


def test_precision_stops_early() -> None:
    values = as_json("evaluate", "greedy", "random", "--precision", "0.2")
    assert values["half_width"] <= values["precision"] == 0.2
    assert values["deals"] < 1000


def test_a_game_is_recorded_shown_and_analysed(tmp_path: Path) -> None:
    file = str(tmp_path / "game.json")
    result = escoba("record", "greedy", "random", "random", "--out", file, "--game", "4")
    assert result.exit_code == 0, result.stderr
    replay = Replay.load(file)
    assert replay == play_game(["greedy", "random", "random"], index=4, players=3)
    shown = escoba("replay", file).stdout
    for move in replay.rounds[0].moves:
        assert str(move) in shown
    assert "player_0: greedy" in shown
    assert "seven_of_oros" in shown
    shown = escoba("replay", file, "--turn", "5").stdout
    assert replay.game(5).to_text() in shown
    values = as_json("analyse", file, "--turn", "5", "--policy", "greedy")
    assert values == json.loads(json.dumps(analyse(replay.game(5), ["greedy"]).as_dict()))
    assert as_json("analyse", replay.game(5).to_text(), "--policy", "greedy") == values
    shown = escoba("analyse", file, "--policy", "greedy").stdout
    assert "worst moves" in shown


def test_several_games_are_recorded_into_a_folder(tmp_path: Path) -> None:
    command = ("record", "greedy", "random", "--out", str(tmp_path / "games"), "--seed", "3")
    result = escoba(*command, "--game", "5", "--games", "3")
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 3
    for index in (5, 6, 7):
        replay = Replay.load(tmp_path / "games" / f"game-{index}.json")
        assert replay == play_game(["greedy", "random"], seed=3, index=index)
    folder = str(tmp_path / "games")
    listed = escoba("replay", folder).stdout
    assert all(f" {index} " in listed for index in (5, 6, 7))
    file = str(tmp_path / "games" / "game-6.json")
    assert escoba("replay", folder, "--game", "6").stdout == escoba("replay", file).stdout
    options = ("--turn", "20", "--policy", "greedy")
    assert as_json("analyse", folder, "--game", "6", *options) == as_json("analyse", file, *options)
    for command, part in (
        (("replay", folder, "--game", "8"), f"--game 8 is not in {folder}; allowed: 5 to 7"),
        (("replay", file, "--game", "6"), "--game 6 is not possible with a file"),
        (("replay", folder, "--turn", "3"), "--turn 3 is not possible with 3 games"),
        (("analyse", folder, "--turn", "3"), "--turn 3 is not possible with 3 games"),
        (("analyse", file, "--turn", "3", "--worst", "2"), "--worst 2 is not possible with --turn"),
        (("analyse", POSITION, "--worst", "2"), "--worst 2 is not possible with a position"),
    ):
        refused = escoba(*command)
        assert refused.exit_code == 2
        assert part in refused.stderr.replace("\n", " ")


def test_a_whole_game_is_graded_on_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "games"
    for index in (0, 1):
        play_game(["random", "greedy"], index=index).save(folder / f"game-{index}.json")
    file = str(folder / "game-1.json")
    expected = analyse_game(Replay.load(file), ["search:worlds=4"])
    grader = ("--policy", "search:worlds=4")
    assert as_json("analyse", file, *grader) == json.loads(json.dumps(expected.as_dict()))
    both = as_json("analyse", str(folder), *grader)
    assert list(both["games"]) == ["0", "1"]
    assert both["games"]["1"] == json.loads(json.dumps(expected.as_dict()))
    shown = escoba("analyse", file, *grader, "--worst", "2").stdout
    for one in expected.worst(2):
        assert f" {one.turn} " in shown
        assert str(one.move) in shown
        assert f"{one.loss:.2f}" in shown
    for player in expected.players:
        assert f"{player.loss:.2f}" in shown
    assert "random" in shown
    assert "2 games" in escoba("analyse", str(folder), *grader, "--worst", "0").stdout


def test_a_replay_names_players_marks_escobas_and_shows_what_scores(tmp_path: Path) -> None:
    file = tmp_path / "game.json"
    replay = play_game(["greedy", "random"], seed=1, episode="match", target=8)
    replay.save(file)
    shown = escoba("replay", str(file)).stdout
    assert "side" not in shown
    assert "napola" not in shown
    assert "setenta" not in shown
    lines = shown.splitlines()
    for turn in replay.played():
        (line,) = [one for one in lines if one.split()[1:2] == [str(turn.number + 1)]]
        assert f"player_{turn.seat}" in line
        assert str(turn.move) in line
        assert ("escoba" in line) == bool(turn.escobas)
    assert f"round {len(replay.rounds)}, player_" in shown


@needs("torch")
def test_the_checkpoints_for_the_rules_are_asked() -> None:
    values = as_json("analyse", Game(seed=1).to_text())
    assert values["policies"] == ["classic-2p", "classic-2p-match", "universal"]
    shown = escoba("analyse", Game(seed=1).to_text()).stdout
    assert "classic-2p" in shown
    assert "all cards known" in shown
    scopa = as_json("analyse", Game("scopa", players=3, seed=1).to_text())
    assert scopa["policies"] == ["universal"]
    other = as_json("analyse", Game(seed=1, players=3, target=5).to_text())
    assert other["policies"] == []


def test_ctrl_c_prints_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    part = dataclasses.replace(evaluate("greedy", "random", deals=100), complete=False)

    def stopped(*arguments: Any, **options: Any) -> Any:
        raise Interrupted(part)

    monkeypatch.setattr("escoba_env.cli.compare.evaluate", stopped)
    result = escoba("evaluate", "greedy", "random")
    assert result.exit_code == 130
    assert "Interrupted" in result.stderr
    assert f"{part.margin:+.3f}" in result.stdout
    assert "100 of 1,000, interrupted" in result.stdout

    def at_once(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("escoba_env.cli.compare.evaluate", at_once)
    result = escoba("evaluate", "greedy", "random")
    assert (result.exit_code, result.stdout) == (130, "")
    assert "too little was finished" in result.stderr


@needs("openskill")
def test_a_disk_that_fills_up_leaves_the_result_so_far(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    part = tournament(["greedy", "random"], deals=100)

    def full(*arguments: Any, **options: Any) -> Any:
        error = StoreError("results.jsonl cannot be written: No space left on device")
        error.result = part
        raise error

    monkeypatch.setattr("escoba_env.cli.compare.tournament", full)
    result = escoba("tournament", "greedy", "random", "--folder", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "No space left on device; the result is that of the deals finished" in result.stderr
    assert f"{part.standings[0].margin:+.3f}" in result.stdout


@needs("openskill")
def test_a_result_is_shown_whatever_becomes_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "tournament.json").mkdir()
    result = escoba("tournament", "greedy", "random", "--deals", "4", "--folder", str(tmp_path))
    assert result.exit_code == 2
    assert "tournament.json cannot be written" in result.stderr
    assert "greedy" in result.stdout
    (tmp_path / "crossplay.json").mkdir()
    command = ("crossplay", "greedy", "random", "--deals", "4", "--folder", str(tmp_path))
    result = escoba(*command, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["deals"] == 4


@pytest.mark.parametrize("command", [("policies",), ("--version",), ("rules", "classic")])
def test_an_output_that_is_full_is_one_clear_line(command: tuple[str, ...]) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs the files of Linux")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with full.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "escoba_env", *command],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "Error: the output cannot be read or written: No space left on device\n"


def test_ctrl_c_while_games_are_recorded_says_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(*arguments: Any, index: int, **options: Any) -> Any:
        if index == 2:
            raise KeyboardInterrupt
        return play_game(*arguments, index=index, **options)

    monkeypatch.setattr("escoba_env.cli.games.play_game", stopped)
    result = escoba("record", "greedy", "random", "--games", "5", "--out", str(tmp_path))
    assert result.exit_code == 130
    assert result.stderr == "Interrupted: 2 of 5 games have been written.\n"
    assert len(result.stdout.splitlines()) == len(list(tmp_path.iterdir())) == 2


def test_ctrl_c_elsewhere_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("escoba_env.cli.games.analyse", stopped)
    result = escoba("analyse", POSITION)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "Interrupted: nothing was finished.\n"


@pytest.mark.parametrize(("sign", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")
def test_a_signal_ends_a_command_with_its_processes_in_one_line(
    tmp_path: Path, sign: str, status: int
) -> None:
    begin = "from escoba_env import __main__ as m; from escoba_env.evaluation import pool; "
    command = [
        *(sys.executable, "-c", f"{begin}pool.START_AFTER = 0.0; m.main()"),
        *("evaluate", "random", "greedy", "--deals", "10000000", "--workers", "2"),
        *("--folder", str(tmp_path)),
    ]
    running = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    results = tmp_path / "results.jsonl"
    deadline = time.monotonic() + 180
    # The header, the seed, a unit of this process and three of the others.
    while not results.exists() or results.read_bytes().count(b"\n") < 6:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(getattr(signal, sign))
    stdout, stderr = running.communicate()
    assert running.returncode == status
    assert stderr == (
        "Interrupted: the result is that of the deals finished so far; the same command goes on "
        "from here.\n"
    )
    assert re.search(r"of 10,000,000, interrupted \(seed \d{10,}", stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "greedy", "random"),
        ("tournament", "greedy", "random"),
        ("crossplay", "greedy", "random"),
        ("ladder", "greedy"),
        ("quality", "greedy"),
        ("record", "greedy", "random", "--out", "x"),
        ("replay", "x"),
        ("analyse", "x"),
        ("rules",),
        ("policies",),
        ("export", "classic-2p", "x.onnx"),
    ],
    ids=lambda value: value[0],
)
def test_ctrl_c_ends_every_command_with_130(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group: Any = typer.main.get_command(app)
    assert arguments[0] in group.commands

    def stopped(**options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(group.commands[arguments[0]], "callback", stopped)
    with pytest.raises(SystemExit) as end:
        group.main(list(arguments), prog_name="escoba")
    assert end.value.code == 130
    assert capsys.readouterr() == ("", "Interrupted: nothing was finished.\n")


# -- outputs of any kind --------------------------------------------------------------------


@pytest.mark.parametrize("charset", ["ascii", "cp1252", "utf-8"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "{name}", "random", "--deals", "2"),
        ("tournament", "{name}", "random", "--deals", "2"),
        ("crossplay", "{name}", "random", "--deals", "2"),
        ("quality", "{name}", "--deals", "2"),
        ("policies",),
        ("rules", "classic"),
        ("evaluate", "--help"),
    ],
    ids=lambda value: " ".join(value)[:12],
)
def test_no_encoding_of_the_output_fails(
    charset: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A letter of cp1252, one that is of neither, and half of a character.
    name = "ñ中\udcff"
    monkeypatch.setattr("escoba_env.policies.loading.BUILTIN", {**BUILTIN, name: GreedyPolicy})
    monkeypatch.setattr("escoba_env.cli.lists.BUILTIN", {**BUILTIN, name: GreedyPolicy})
    command = [one.format(name=name) for one in arguments]
    result = CliRunner(charset=charset).invoke(app, command, prog_name="escoba")
    assert result.exit_code == 0, result.exception
    text = result.stdout_bytes.decode(charset)
    if "{name}" in arguments:
        assert ("±" in text) == (charset != "ascii")
        assert (" +- " in text) == (charset == "ascii")
        assert ("ñ" in text) == (charset != "ascii")
        result = CliRunner(charset=charset).invoke(app, [*command, "--json"], prog_name="escoba")
        assert result.exit_code == 0, result.exception
        assert name in json.dumps(
            json.loads(result.stdout_bytes.decode(charset)), ensure_ascii=False
        )


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes of POSIX")
@pytest.mark.parametrize("output", ["full", "closed", "left by its reader"])
def test_a_result_that_stdout_does_not_take_goes_to_stderr(output: str) -> None:
    command = ["-m", "escoba_env", "evaluate", "greedy", "random", "--deals", "4"]
    reader, writer = os.pipe()
    # Before anything is written: then what is written fails, and nothing waits in a buffer.
    os.close(reader)
    if output == "full":
        if not Path("/dev/full").exists():
            pytest.skip("needs the files of Linux")
        os.close(writer)
        writer = os.open("/dev/full", os.O_WRONLY)
    elif output == "closed":
        run = f"import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, *{command}])"
        command = ["-c", run]
    done = subprocess.run(
        [sys.executable, *command],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    os.close(writer)
    first, *rest = done.stderr.splitlines()
    assert json.loads(first)["games"] == 8
    expected = {
        "full": (2, ["Error: the output cannot be read or written: No space left on device"]),
        "closed": (2, ["Error: the output cannot be read or written: it is closed"]),
        "left by its reader": (1, []),
    }
    assert (done.returncode, rest) == expected[output]


def test_files_are_written_before_a_result_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("escoba_env.cli.compare.print_table", full)
    result = escoba("tournament", "greedy", "random", "--deals", "4", "--folder", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert json.loads((tmp_path / "tournament.json").read_text())["deals"] == 4


def test_a_tilde_is_the_home_folder_in_every_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for option in (["--folder=~/a"], ["--folder", "~/b"]):
        assert escoba("tournament", "greedy", "random", "--deals", "2", *option).exit_code == 0
    assert escoba("record", "greedy", "random", "--out=~/c.json").exit_code == 0
    assert escoba("replay", "~/c.json").exit_code == 0
    result = escoba("evaluate", "search:rollout=~/d", "random")
    assert f"policy '{tmp_path}/d' is unknown" in result.stderr.replace("\\", "/")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c.json", "here"]
    assert list((tmp_path / "here").iterdir()) == []


def test_no_switch_is_shown_with_a_type() -> None:
    for page in (("--help",), ("evaluate", "--help"), ("record", "--help")):
        shown = escoba(*page).stdout
        assert "--help" in shown
        assert "bool" not in shown.lower()


def test_the_time_that_is_left_is_reckoned_from_whole_blocks() -> None:
    pace = _Pace(total=100, block=10, now=0.0)
    # Blocks of a quick opponent, 5 deals in no time, and a slow one, 5 deals in 4 seconds.
    assert pace.left(0.0) is None
    left = []
    for block in range(10):
        pace.note(10 * block + 5, 4.0 * block)
        pace.note(10 * block + 10, 4.0 * block + 4)
        left.append(pace.left(4.0 * block + 4))
    assert left == pytest.approx([36 - 4 * block for block in range(10)])
    assert pace.left(99.0) == 0
    assert _Pace(None, 10, 0.0).left(1.0) is None
    # Results that were kept come at once, and say nothing about those that are played.
    pace = _Pace(total=100, block=10, now=0.0)
    pace.note(50, 0.001)
    pace.note(60, 4.001)
    assert pace.left(4.001) == pytest.approx(16)
    assert pace.left(5.001) == pytest.approx(15)


IMPORTS_ARE_STOPPED = """
import os, signal, sys
from escoba_env import __main__ as command

class Stops:
    def find_spec(self, name, *rest):
        if name == "escoba_env.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Stops())
command.main()
"""


def test_ctrl_c_during_imports_leaves_no_traceback() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS_ARE_STOPPED, "--version"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "Interrupted: nothing was finished.\n"


def test_a_file_is_a_replay_whatever_its_folder_is_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    play_game(["greedy", "random"], seed=2).save("escoba/g.json")
    values = as_json("analyse", "escoba/g.json", "--turn", "30", "--policy", "greedy")
    assert values["position"].startswith("escoba/1 ")
    result = escoba("analyse", "escoba/none.json")
    assert result.exit_code == 2
    assert "a position begins with" in result.stderr


@needs("openskill")
def test_names_that_begin_alike_differ_where_there_is_little_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"search:worlds={number},deals=0,solver_turns=0" for number in (1, 2, 3)]
    shown = escoba("tournament", *names, "greedy", "random", "--deals", "2").stdout
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    standings, cross = shown.split("margin of row against column")
    for name in (*names, "greedy", "random"):
        assert name in column(standings, 0)
        assert name in column(cross, 1)


def column(table: str, place: int) -> str:
    """What stands in a column, line after line."""
    rows = [line.split("│")[1:-1] for line in table.splitlines() if "│" in line]
    return "".join(row[place].strip() for row in rows)


# -- errors ---------------------------------------------------------------------------------

PLAY = ("evaluate", "greedy", "random")
TOURNAMENT = ("tournament", "greedy", "random")
POSITION = Game(seed=1).to_text()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("evaluate", "gredy", "random"), ("'gredy'", "random, greedy", "did you mean 'greedy'")),
        (("evaluate", "search:wrlds=3", "random"), ("'wrlds'", "did you mean 'worlds'")),
        (("evaluate", "cheat:serch", "random"), ("did you mean 'cheat:search'",)),
        (("evaluat",), ("command 'evaluat'", "did you mean 'evaluate'")),
        ((*PLAY, "--deals", "9" * 5000), ("--deals", "a whole number")),
        ((*PLAY, "--precision", "9" * 5000), ("precision inf",)),
        ((*PLAY, "--seed", "9" * 4000), ("seed <a whole number of some", "a whole number, 0 to")),
        ((*PLAY, "--folder", "x" * 3000), ("results cannot be kept in 'xx", "too long")),
        ((*TOURNAMENT, "--plot", "x" * 3000), ("plot 'xx", ".png, .svg or .pdf")),
        ((*PLAY, "--rule", "x" * 5000), ("--rule 'xx", "FIELD=VALUE")),
        ((*PLAY, "--" + "x" * 5000), ("No such option",)),
        (("x" * 5000,), ("command 'xx",)),
        (("evaluate", "x" * 5000, "random"), ("policy 'xx", "random, greedy")),
        (("evaluate", "search:worlds=" + "9" * 5000, "random"), ("option worlds '99",)),
        (("evaluate", "search:" + "x" * 5000 + "=1", "random"), ("policy option 'xx",)),
        (("evaluate", "greedy:x=1", "random"), ("'greedy'", "options", "x")),
        (("evaluate", "greedy"), ("Missing argument 'B'",)),
        ((*PLAY, "--rules", "nope"), ("preset 'nope'", "classic, tabletop")),
        ((*PLAY, "--players", "5"), ("players=5", "2, 3 or 4")),
        ((*PLAY, "--players", "two"), ("--players", "'two'", "a whole number")),
        ((*PLAY, "--partnership"), ("partnership=True", "players=4")),
        ((*PLAY, "--rule", "target"), ("--rule 'target'", "FIELD=VALUE")),
        ((*PLAY, "--rule", "tarjet=3"), ("'tarjet'", "did you mean 'target'")),
        ((*PLAY, "--rule", "target=high"), ("target='high'", "1 to 100000")),
        ((*PLAY, "--rule", "ranks=1,x"), ("ranks=[1, 'x']", "each 1 to 10")),
        ((*PLAY, "--rule", "ties=all", "--rule", "ties=none"), ("ties", "twice")),
        ((*PLAY, "--rule", "players=3", "--players", "2"), ("players=2", "twice")),
        ((*PLAY, "--episode", "day"), ("episode 'day'", "round, match")),
        ((*PLAY, "--deals", "1"), ("deals 1", "a whole number, 2 to")),
        ((*PLAY, "--deals", "1.5"), ("--deals", "'1.5'", "a whole number")),
        ((*PLAY, "--seed", "-1"), ("seed -1", "a whole number, 0 to")),
        ((*PLAY, "--dealz", "3"), ("--dealz", "--deals")),
        ((*PLAY, "--precision", "x"), ("--precision", "'x'", "a number")),
        ((*PLAY, "--precision", "0"), ("precision 0.0", "a number above 0")),
        ((*PLAY, "--precision", "nan"), ("precision nan", "a number above 0")),
        ((*PLAY, "--workers", "0"), ("workers 0", "a whole number, 1 to")),
        (("tournament",), ("Missing argument",)),
        (("tournament", "greedy"), ("number of policies 1", "a whole number, 2 to")),
        (("tournament", "greedy", "greedy"), ("'greedy'", "twice")),
        (("tournament", "greedy", "gredy"), ("policy 'gredy'", "random, greedy")),
        ((*TOURNAMENT, "--plot", "a.gif"), ("plot 'a.gif'", ".png, .svg or .pdf")),
        pytest.param(
            (*TOURNAMENT, "--plot", f"{__file__}/a.png"),
            ("a.png cannot be written",),
            marks=needs("matplotlib"),
        ),
        pytest.param(
            (*TOURNAMENT, "--folder", ""),
            ("folder '' is not possible",),
            marks=needs("openskill"),
        ),
        (("record", "greedy", "random", "--out", f"{__file__}/x"), ("cannot be written",)),
        ((*TOURNAMENT, "--ray", "auto", "--workers", "2"), ("--workers and --ray",)),
        pytest.param(
            (*TOURNAMENT, "--folder", __file__),
            ("results cannot be kept", "test_cli.py"),
            marks=needs("openskill"),
        ),
        ((*TOURNAMENT, "--players", "9"), ("players=9", "2, 3 or 4")),
        (("crossplay", "greedy", "random", "--against", "x"), ("policy 'x'", "random, greedy")),
        (("crossplay", "greedy", "random", "--rule", "players=2"), ("partnership=True",)),
        (("ladder", "greedy", "--ladder", "v0"), ("ladder 'v0'", "v1")),
        (("ladder", "gredy"), ("policy 'gredy'", "random, greedy")),
        (("quality", "greedy", "--rule", "players=3"), ("players=3", "two sides")),
        (("quality", "greedy", "--deals", "0"), ("deals 0", "a whole number, 2 to")),
        (("record", "greedy", "random"), ("Missing option", "--out")),
        (("record", "greedy", "--out", "x"), ("1 policies", "2 to 4")),
        (("record", "greedy", "random", "--out", "/"), ("/ cannot be written",)),
        (("record", "greedy", "random", "--out", "x", "--game", "-1"), ("index -1",)),
        (("record", "greedy", "random", "--out", "x", "--games", "0"), ("games 0", "1 to")),
        (("replay", "none.json"), ("none.json cannot be read", "No such file")),
        (("replay", __file__), ("test_cli.py is not JSON",)),
        (("analyse", "none.json"), ("none.json cannot be read", "No such file")),
        (("analyse", "escoba/1 rules={}"), ("position parts",)),
        (("analyse", POSITION, "--turn", "3"), ("--turn 3", "a replay")),
        (("warmup", "--part", "gmaes"), ("part 'gmaes' is unknown", "games, batches")),
        (("analyse", POSITION, "--policy", "gredy"), ("policy 'gredy'", "random, greedy")),
        (("rules", "nope"), ("preset 'nope'", "classic, tabletop")),
        (("play",), ("'play'", "evaluate, tournament, crossplay")),
        (("--nope",), ("--nope", "--help")),
    ],
    ids=lambda value: " ".join(value)[:60],
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    result = escoba(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 1200
    for part in parts:
        assert part in result.stderr
