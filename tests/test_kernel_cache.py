"""Compiled kernels are kept between runs until any file that they are made of changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from escoba_env import Game
from escoba_env.engine import play

PACKAGE = Path(__file__).resolve().parents[1] / "escoba_env"

SCRIPT = """
from escoba_env import Game
from escoba_env.engine import batch
game = Game(seed=0)
while not game.is_over:
    game.step(game.legal_actions()[0])
print(game.scores, sum(batch.step_game.stats.cache_hits.values()))
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


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep caches elsewhere")
def test_where_the_package_cannot_be_written_kernels_are_kept_in_the_user_s_cache(
    tmp_path: Path,
) -> None:
    package, cache = tmp_path / "escoba_env", tmp_path / "cache"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    # A file in the folder's place: unlike permissions it holds for the superuser too.
    (package / "engine" / "__pycache__").touch()
    scores, kept = run(tmp_path, XDG_CACHE_HOME=str(cache))
    assert not kept
    assert any(cache.rglob("*.nbi"))
    assert run(tmp_path, XDG_CACHE_HOME=str(cache)) == (scores, True)


def test_a_kernel_without_a_way_in_from_python_says_so() -> None:
    """Numba itself would crash the process."""
    game = Game(seed=1)
    before = game.get_state()
    with pytest.raises(TypeError, match=r"kernel apply .*entries"):
        play.apply(game.spec[0], game.record, game.legal_actions()[0])
    assert game.get_state() == before
