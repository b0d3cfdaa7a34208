"""What a newcomer meets: kernels that compile, names that mean two things, values of nearly the
right type.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.needs import needs

from escoba_env import Game, compiling, evaluate, load_policy, parse_move
from escoba_env.compiling import QUIET, _Compiling
from escoba_env.engine import jit
from escoba_env.policies.checkpoint import CheckpointError
from escoba_env.warming import warmup


@needs("torch")
def test_a_shipped_name_is_the_shipped_policy_whatever_folders_lie_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "classic-2p").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_policy("classic-2p").name == "classic-2p"
    with pytest.raises(CheckpointError, match="classic-2p is not a checkpoint"):
        load_policy("./classic-2p")


def test_no_name_is_no_policy() -> None:
    with pytest.raises(ValueError, match="policy '' is unknown"):
        load_policy("")


@needs("torch")
def test_the_folder_of_a_run_points_to_the_policy_in_it(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(CheckpointError, match=re.escape(str(tmp_path / "checkpoint"))):
        load_policy(tmp_path)


@pytest.mark.parametrize("deals", [10**12, 10**20])
def test_more_deals_than_can_be_kept_are_refused(deals: int) -> None:
    with pytest.raises(ValueError, match=f"deals {deals} is not possible; allowed"):
        evaluate("random", "greedy", deals=deals)


@pytest.mark.parametrize("scores", [{1: 2, 3: 4}, {5, 7}], ids=["mapping", "set"])
def test_scores_belong_to_sides_in_order(scores: Any) -> None:
    with pytest.raises(ValueError, match=r"scores=\{"):
        Game(episode="match", seed=1).reset(1, scores=scores)


def test_a_position_asks_for_a_seed_that_is_a_number() -> None:
    with pytest.raises(ValueError, match="seed None is not possible"):
        Game.from_position(hands=["1o", "2o"], seed=None)  # type: ignore[arg-type]


def test_what_is_no_text_is_no_move() -> None:
    with pytest.raises(ValueError, match="move None is not text"):
        parse_move(None)  # type: ignore[arg-type]


def test_a_seat_of_any_integer_type_is_taken() -> None:
    env = gymnasium.make("escoba_env/Escoba-v0", seat=np.int64(1))
    env.reset(seed=0)
    assert env.unwrapped.seat == 1  # type: ignore[attr-defined]


# -- compiling ------------------------------------------------------------------------------


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> _Compiling:
    """The compiling of a process that has said nothing yet, and whose every kernel takes long."""
    monkeypatch.delenv(QUIET, raising=False)
    monkeypatch.setattr(compiling, "PATIENCE", 0.0)
    monkeypatch.setattr(compiling, "_said", set())
    return _Compiling()


def compile_two(first: _Compiling) -> None:
    """Compiles a kernel, and inside that another one."""
    with first.call():
        first.begin_kernel()
        with first.call():
            first.begin_kernel()
            first.end_kernel()
        first.end_kernel()


def test_compiling_says_so_once_on_stderr(
    first: _Compiling, capsys: pytest.CaptureFixture[str]
) -> None:
    compile_two(first)
    compile_two(first)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Compiling kernels")
    assert "escoba warmup" in err
    assert err.count("\n") == 1
    assert first.compiled == 4


def test_what_was_kept_and_what_takes_no_second_is_not_worth_a_line(
    first: _Compiling, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with first.call():
        pass
    monkeypatch.setattr(compiling, "PATIENCE", 60.0)
    compile_two(first)
    assert capsys.readouterr() == ("", "")


def test_short_compiling_adds_up(
    first: _Compiling, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "PATIENCE", 60.0)
    compile_two(first)
    first.seconds = 61.0
    compile_two(first)
    assert capsys.readouterr().err.count("Compiling kernels") == 1


@pytest.mark.parametrize(("value", "lines"), [("1", 0), ("yes", 0), ("0", 1), ("", 1)])
def test_a_variable_turns_the_messages_off(
    first: _Compiling,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    lines: int,
) -> None:
    monkeypatch.setenv(QUIET, value)
    compile_two(first)
    assert capsys.readouterr().err.count("\n") == lines


def test_a_worker_process_says_nothing(
    first: _Compiling, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiprocessing.parent_process", object)
    compile_two(first)
    assert capsys.readouterr() == ("", "")


class Broken(io.StringIO):
    """An output that cannot be written any more."""

    def write(self, _text: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stderr", [None, Broken()], ids=["none", "broken"])
def test_without_an_output_kernels_compile_in_silence(
    first: _Compiling,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    stderr: Any,
) -> None:
    monkeypatch.setattr(sys, "stderr", stderr)
    compile_two(first)
    assert capsys.readouterr().out == ""
    assert first.compiled == 2


class Terminal(io.StringIO):
    """An output that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_counts_kernels_while_they_compile(
    first: _Compiling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    before = sys.stdout
    compile_two(first)
    shown = terminal.getvalue()
    assert shown.startswith("Compiling kernels")
    assert "2 kernels compiled" in shown
    assert sys.stdout is before
    # Under somebody else's bar it is the line alone.
    monkeypatch.setattr(compiling, "_said", set())
    under = Terminal()
    under.rich_proxied_file = terminal  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stderr", under)
    compile_two(_Compiling())
    assert under.getvalue().count("\n") == 1


def test_importing_the_package_loads_neither_the_compiler_nor_rich() -> None:
    script = "import sys, escoba_env; print(sorted({'numba', 'rich', 'torch'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


# -- warmup ---------------------------------------------------------------------------------


def test_parts_that_there_are_not_are_refused() -> None:
    with pytest.raises(ValueError, match="part 'gmaes' is unknown; allowed: games, batches"):
        warmup(["gmaes"])
    with pytest.raises(ValueError, match="parts 'games' are not possible; allowed: a list"):
        warmup("games")


def test_a_warm_up_shows_what_it_does_and_is_soon_over_the_second_time() -> None:
    warmup(["games", "policies"])
    shown: list[tuple[str, int, int, int]] = []
    result = warmup(["games", "policies"], lambda *what: shown.append(what))
    assert result.compiled == 0
    assert result.fault is None
    assert shown == [("games", 0, 2, 0), ("policies", 1, 2, 0), ("", 2, 2, 0)]
    if jit.ENTRIES:
        assert result.folder in jit.folders_of(Path(jit.__file__).parent)
