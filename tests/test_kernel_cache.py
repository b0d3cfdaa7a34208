"""Compiled kernels are kept between runs; whatever is wrong with what is kept, the game plays."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import pytest

from escoba_env import Game, compiling
from escoba_env.compiling import progress
from escoba_env.engine import jit, play

PACKAGE = Path(__file__).resolve().parents[1] / "escoba_env"

SCRIPT = """
from escoba_env import Game
from escoba_env.engine import batch
game = Game(seed=0)
while not game.is_over:
    game.step(game.legal_actions()[0])
print(game.scores, sum(batch.step_game.stats.cache_hits.values()))
"""

KERNELS = """
from escoba_env.engine.jit import entry, kernel

@kernel
def twice(x):
    return 2 * x

@entry
def twice_and_one(x):
    return twice(x) + 1
"""


def run(folder: Path, **variables: str) -> tuple[str, bool]:
    """Plays a game with the package in a folder; returns its scores, and if kernels were kept."""
    env = {**os.environ, "PYTHONPATH": str(folder), **variables}
    env.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=folder,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    scores, _, hits = done.stdout.rpartition(" ")
    return scores, int(hits) > 0


class Source:
    """A source file with two kernels, which every start compiles or takes from its cache."""

    def __init__(self, folder: Path, said: Callable[[], str]) -> None:
        self.folder = folder
        self.path = folder / "kernels.py"
        self.path.write_text(KERNELS, encoding="utf-8")
        self._said = said

    def start(self) -> tuple[int, str]:
        """Calls the kernels as a new process would; returns how many it compiled, what it said."""
        jit._complaints.clear()
        jit._NOT_KEPT.clear()
        compiling._said.clear()
        jit.folders_of.cache_clear()
        names: dict[str, Any] = {"__name__": "kernels"}
        before = progress.compiled
        # A module that is imported anew each time.
        exec(compile(KERNELS, str(self.path), "exec"), names)  # noqa: S102
        assert names["twice_and_one"](20) == 41
        return progress.compiled - before, self._said()

    def files(self) -> list[Path]:
        """The files of both kernels, in the first folder that has some."""
        for folder in jit.folders_of(self.folder):
            found = sorted(folder.glob("kernels.*.nbi"))
            if found:
                return found
        return []


@pytest.fixture
def source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Source:
    if numba.config.DISABLE_JIT:
        pytest.skip("nothing is compiled")
    monkeypatch.delenv(compiling.QUIET, raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "home"))
    # What other tests have compiled in this process is no matter here.
    monkeypatch.setattr(progress, "announced", True)
    (tmp_path / "code").mkdir()

    def said() -> str:
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return Source(tmp_path / "code", said)


def no_folder(path: Path) -> None:
    """Puts a file in a folder's place: unlike permissions it holds for the superuser too."""
    shutil.rmtree(path, ignore_errors=True)
    path.touch()


# -- what is kept ---------------------------------------------------------------------------


def test_a_change_of_a_rule_reaches_kernels_of_other_files_that_were_kept(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "escoba_env", ignore=shutil.ignore_patterns("__pycache__"))
    scores, kept = run(tmp_path)
    assert not kept
    assert run(tmp_path) == (scores, True)
    rule = tmp_path / "escoba_env" / "engine" / "score.py"
    text = rule.read_text(encoding="utf-8")
    changed = text.replace('return TWELFTHS * spec["seven_of_oros"]', "return TWELFTHS * 50")
    assert changed != text
    rule.write_text(changed, encoding="utf-8")
    other_scores, kept = run(tmp_path)
    assert not kept
    assert other_scores != scores


def test_kernels_are_compiled_once_and_kept_beside_their_source(source: Source) -> None:
    assert source.start() == (2, "")
    assert [path.parent for path in source.files()] == [source.folder / "__pycache__"] * 2
    assert source.start() == (0, "")


def test_where_the_source_cannot_be_written_they_are_kept_in_the_user_s_cache(
    source: Source, tmp_path: Path
) -> None:
    no_folder(source.folder / "__pycache__")
    assert source.start() == (2, "")
    assert all(tmp_path / "home" in path.parents for path in source.files())
    assert source.start() == (0, "")


def test_numba_cache_dir_chooses_the_folder(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "chosen"))
    assert source.start() == (2, "")
    assert all(tmp_path / "chosen" in path.parents for path in source.files())
    assert not (source.folder / "__pycache__").exists()


def test_what_an_installation_has_compiled_is_used_where_nothing_can_be_written(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.start()

    def full(*_arguments: Any) -> None:
        raise ValueError("cannot be written: Read-only file system")

    monkeypatch.setattr(jit, "write_whole", full)
    assert source.start() == (0, "")


def test_what_the_kernels_were_before_is_removed(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.start()
    before = source.files()
    numba_s = source.folder / "__pycache__" / f"kernels.twice-4.{jit._PYTHON}.nbi"
    other = source.folder / "__pycache__" / "kernels.twice_too-4.nbi"
    for path in (numba_s, other):
        path.touch()
    monkeypatch.setattr(jit, "_STAMP", "f" * 64)
    monkeypatch.setattr(jit, "_VERSIONS", ("f" * 64, *jit._VERSIONS[1:]))
    assert source.start() == (2, "")
    assert not any(path.exists() for path in (*before, numba_s))
    assert other.exists()


# -- what can be wrong with it --------------------------------------------------------------


def cut_to(size: int) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def one_byte_changed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


FAULTS: dict[str, Callable[[Path], Any]] = {
    "empty": cut_to(0),
    "cut in its head": cut_to(20),
    "cut in the middle": cut_to(3000),
    "random bytes": lambda path: path.write_bytes(os.urandom(5000)),
    "a pickle of something else": lambda path: path.write_bytes(pickle.dumps(["0.1", {}])),
    "numba's own format": lambda path: path.write_bytes(pickle.dumps(numba.__version__) + b"x"),
    "one byte changed": one_byte_changed,
    "a folder": a_folder,
    "endless": endless,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_damaged_is_compiled_again_with_one_line_that_says_so(
    source: Source, fault: str
) -> None:
    if fault == "endless" and not Path("/dev/zero").exists():
        pytest.skip("there is no such device")
    source.start()
    for path in source.files():
        FAULTS[fault](path)
    compiled, said = source.start()
    assert compiled == 2
    assert said.startswith("Compiled kernels could not be used and were compiled again: ")
    assert said.count("\n") == 1
    # It has been mended, in its place or, for a folder, elsewhere.
    assert source.start() == (0, "")


def test_a_kernel_is_never_taken_for_another_one(source: Source) -> None:
    source.start()
    inner, outer = source.files()
    outer.write_bytes(inner.read_bytes())
    compiled, said = source.start()
    assert compiled == 1
    assert "it is of another kernel" in said
    assert source.start() == (0, "")


def test_without_a_place_to_keep_them_the_kernels_run_and_one_line_says_so(
    source: Source, tmp_path: Path
) -> None:
    no_folder(source.folder / "__pycache__")
    (tmp_path / "home").touch()
    for _ in range(2):
        compiled, said = source.start()
        assert compiled == 2
        assert said.startswith("Compiled kernels cannot be kept, so every start compiles them")
        assert "NUMBA_CACHE_DIR chooses another folder" in said
        assert f"{source.folder / '__pycache__'}: " in said
        assert f"{tmp_path / 'home'}" in said
        assert said.count("\n") == 1
        assert jit.not_kept() is not None


def test_a_full_disk_is_no_reason_to_fail(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise ValueError(f"{path} cannot be written: No space left on device")

    monkeypatch.setattr(jit, "write_whole", full)
    compiled, said = source.start()
    assert compiled == 2
    assert "No space left on device" in said
    assert said.count("\n") == 1


def test_another_version_of_numba_compiles_anew_and_says_nothing(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.start()
    monkeypatch.setattr(jit, "_VERSIONS", (*jit._VERSIONS[:2], "0.0", "0.0"))
    assert source.start() == (2, "")
    monkeypatch.undo()


def test_two_that_write_at_once_leave_files_that_both_can_read(source: Source) -> None:
    script = source.folder / "use.py"
    script.write_text(KERNELS + "\nassert twice_and_one(20) == 41\n", encoding="utf-8")
    command = [sys.executable, str(script)]
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), compiling.QUIET: ""}

    def start(_: int) -> str:
        done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        # Compiling takes as long as the machine has other work.
        return "".join(line for line in done.stderr.splitlines() if "Compiling" not in line)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(start, range(3))) == ["", "", ""]
    files = sorted((source.folder / "__pycache__").glob("use.*.nbi"))
    assert len(files) == 2
    times = [path.stat().st_mtime_ns for path in files]
    assert start(0) == ""
    assert [path.stat().st_mtime_ns for path in files] == times


def test_a_kernel_without_a_way_in_from_python_says_so() -> None:
    """Numba itself would crash the process."""
    game = Game(seed=1)
    before = game.get_state()
    with pytest.raises(TypeError, match=r"kernel apply .*entries"):
        play.apply(game.spec[0], game.record, game.legal_actions()[0])
    assert game.get_state() == before
