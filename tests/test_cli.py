"""The command ``escoba``: results on stdout, errors as one line on stderr with exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from escoba_env.cli import app
from escoba_env.evaluation import evaluate
from escoba_env.policies import BUILTIN
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
    expected = evaluate("greedy", "random", players=3, deals=20)
    for text in (
        "greedy against random",
        "players=3",
        "20 (seed 0), each 3 times",
        f"{expected.margin:+.3f} ± {expected.half_width:.3f}",
        f"{expected.wins / expected.games:.1%}",
        "escobas per round",
    ):
        assert text in result.stdout


def test_names_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    # Brackets and colons would be markup and emoji.
    name = "[bold]runs:cat:"
    monkeypatch.setattr("escoba_env.policies.BUILTIN", {name: BUILTIN["greedy"], **BUILTIN})
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


# -- errors ---------------------------------------------------------------------------------

PLAY = ("evaluate", "greedy", "random")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("evaluate", "gredy", "random"), ("policy 'gredy'", "random, greedy")),
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
        (("rules", "nope"), ("preset 'nope'", "classic, tabletop")),
        (("play",), ("'play'", "evaluate, tournament, crossplay")),
        (("--nope",), ("--nope", "--help")),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    result = escoba(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr
