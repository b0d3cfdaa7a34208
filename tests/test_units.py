"""Units of work: results that depend on nothing but the unit, kept and found again."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from escoba_env.batch import IllegalActionError
from escoba_env.evaluation import (
    Interrupted,
    RayWorkers,
    WorkerError,
    evaluate,
    pool,
    tournament,
    units,
)
from escoba_env.evaluation.pool import Store, run_units
from escoba_env.evaluation.units import identify
from escoba_env.policies import RandomPolicy
from escoba_env.policies.checkpoint import find_checkpoint


class Count:
    """Work that takes no time: counts how often it is done, and may be interrupted."""

    done = 0
    stop_at = -1

    def __init__(self, number: int) -> None:
        self.number = number

    def key(self, identify: Any) -> dict[str, Any]:
        return {"count": self.number, "by": identify("greedy")}

    def play(self, load: Any) -> dict[str, Any]:
        if self.number == Count.stop_at:
            raise KeyboardInterrupt
        Count.done += 1
        return {"square": self.number**2}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Count.done = 0
    Count.stop_at = -1


def squares(count: int, store: Store | None) -> list[int]:
    work = run_units([Count(i) for i in range(count)], store=store, identify=identify)
    return [result["square"] for result in work]


# -- workers --------------------------------------------------------------------------------


def test_results_do_not_depend_on_the_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Other processes at once, however little there is to do.
    monkeypatch.setattr(pool, "START_AFTER", 0.0)
    alone = tournament(["random", "greedy"], players=3, deals=350)
    shared = tournament(["random", "greedy"], players=3, deals=350, workers=2, folder=tmp_path)
    assert shared == alone
    assert len(Store(tmp_path)._known) == 2 * 4


def test_a_faulty_policy_is_named_by_another_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "START_AFTER", 0.0)
    # A checkpoint for two players at a table of three: known only when it is asked to play.
    with pytest.raises(ValueError, match=r"policy 'classic-2p' was trained for"):
        evaluate("classic-2p", "greedy", players=3, deals=400, workers=2)


def test_ray_plays_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(pool, "START_AFTER", 0.0)
    alone = tournament(["random", "greedy"], deals=450)
    shared = tournament(["random", "greedy"], deals=450, workers=RayWorkers(), folder=tmp_path)
    assert shared == alone
    assert len(Store(tmp_path)._known) == 5
    with pytest.raises(ValueError, match=r"^policy 'classic-2p' was trained for"):
        evaluate("classic-2p", "greedy", players=3, deals=400, workers=RayWorkers())
    with pytest.raises(WorkerError, match="no Ray at 'auto'"):
        evaluate("random", "greedy", deals=400, workers=RayWorkers("auto"))


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'escoba-env\[ray\]'"):
        RayWorkers()


class Dying:
    """Work whose process is killed."""

    def key(self, identify: Any) -> dict[str, Any]:
        return {}

    def play(self, load: Any) -> dict[str, Any]:
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return {}


def test_a_killed_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "START_AFTER", 0.0)
    with pytest.raises(WorkerError, match="has been killed"):
        list(run_units([Dying() for _ in range(9)], workers=2, identify=identify))


def test_objects_are_refused_where_names_are_needed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"workers=2 is not possible; allowed: names and folders"):
        evaluate(RandomPolicy(), "greedy", workers=2)
    with pytest.raises(ValueError, match=r"policy .*RandomPolicy.*; allowed: a name or a folder"):
        tournament([RandomPolicy(), "greedy"])  # type: ignore[list-item]


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_impossible_numbers_of_workers_are_refused(workers: Any) -> None:
    with pytest.raises(ValueError, match=r"workers .* allowed: a whole number, 1 to"):
        evaluate("greedy", "random", deals=4, workers=workers)
    with pytest.raises(ValueError, match=r"workers .* allowed: a whole number, 1 to"):
        tournament(["greedy", "random"], deals=4, workers=workers)


def test_there_is_at_least_one_core() -> None:
    assert pool.cores() >= 1


# -- the store ------------------------------------------------------------------------------


def test_what_is_kept_is_not_done_again(tmp_path: Path) -> None:
    assert squares(5, Store(tmp_path)) == [0, 1, 4, 9, 16]
    assert Count.done == 5
    assert squares(7, Store(tmp_path)) == [0, 1, 4, 9, 16, 25, 36]
    assert Count.done == 7


def test_half_a_line_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    squares(3, Store(tmp_path))
    path = tmp_path / "results.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    assert squares(3, Store(tmp_path)) == [0, 1, 4]
    assert Count.done == 4
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}\n", "no file of results"),
        (b"nonsense\n", "no file of results"),
        (b'{"format":"escoba-results","version":2}\n', "no file of results that this version"),
        (b'{"format":"escoba-results","version":1}\n{"key":{}\n', "line 2, is damaged"),
        (b'{"format":"escoba-results","version":1}\n[]\n', "line 2, is damaged"),
    ],
)
def test_a_file_that_is_something_else_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "results.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Store(tmp_path)
    assert (tmp_path / "results.jsonl").read_bytes() == content


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="results cannot be kept in"):
        Store(tmp_path / "file")


def test_a_checkpoint_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    shipped = find_checkpoint("classic-2p")
    assert shipped is not None
    folder = tmp_path / "mine"
    folder.mkdir()
    for file in shipped.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    before = identify(folder)
    assert before.startswith(str(folder))
    assert identify(str(folder) + ":sample=true") != before
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps({**card, "licence": "other"}))
    assert identify(folder) != before
    assert identify("greedy") == "greedy"
    # A checkpoint in an option, whether or not there is such a policy.
    assert identify(f"search:rollout={folder}").startswith(f"search:rollout={folder} sha256=")


def test_keys_tell_everything_apart_that_matters(tmp_path: Path) -> None:
    # One folder for evaluations that differ in one thing each: none finds another's results.
    plays = []
    play = units.Unit.play

    def counted(unit: units.Unit, load: Any) -> dict[str, Any]:
        plays.append(unit)
        return play(unit, load)

    names = ["greedy", "random"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units.Unit, "play", counted)
        for number, changes in enumerate(
            [{}, {"seed": 1}, {"ties": "all"}, {"players": 3}, {"episode": "match", "target": 3}], 1
        ):
            tournament(names, deals=2, folder=tmp_path, **changes)
            assert len({json.dumps(unit.key(identify)) for unit in plays}) == len(plays)
            assert len(plays) >= number
        before = len(plays)
        tournament(names, deals=2, folder=tmp_path)
        assert len(plays) == before
        tournament(names, deals=2, folder=tmp_path, target=3)
        assert len(plays) > before


# -- stopping -------------------------------------------------------------------------------


def interrupted_after(patch: pytest.MonkeyPatch, number: int) -> list[units.Unit]:
    """Makes Ctrl-C come after a number of units; returns what will have been played."""
    played: list[units.Unit] = []
    play = units.Unit.play

    def stopped(unit: units.Unit, load: Any) -> dict[str, Any]:
        if len(played) == number:
            raise KeyboardInterrupt
        played.append(unit)
        return play(unit, load)

    patch.setattr(units.Unit, "play", stopped)
    return played


def test_ctrl_c_keeps_what_is_done() -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupted_after(patch, 3)
        with pytest.raises(Interrupted) as stop:
            evaluate("greedy", "random", deals=1000)
    assert isinstance(stop.value, KeyboardInterrupt)
    assert stop.value.result == evaluate("greedy", "random", deals=300)


def test_ctrl_c_before_anything_is_done_is_ctrl_c() -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupted_after(patch, 0)
        with pytest.raises(KeyboardInterrupt) as stop:
            evaluate("greedy", "random")
        assert not isinstance(stop.value, Interrupted)


def test_a_stopped_tournament_counts_what_all_tables_have_and_goes_on(tmp_path: Path) -> None:
    names = ["greedy", "random"]
    with pytest.MonkeyPatch.context() as patch:
        # Two tables of three players each way: the third block is begun and not finished.
        interrupted_after(patch, 5)
        with pytest.raises(Interrupted) as stop:
            tournament(names, players=3, deals=500, folder=tmp_path)
    part = stop.value.result
    assert (part.deals, part.complete) == (200, False)
    assert part.standings == tournament(names, players=3, deals=200).standings
    with pytest.MonkeyPatch.context() as patch:
        played = interrupted_after(patch, 100)
        whole = tournament(names, players=3, deals=500, folder=tmp_path)
    assert len(played) == 2 * 5 - 5
    assert whole == tournament(names, players=3, deals=500)


def test_a_killed_tournament_resumes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "escoba_env", "tournament", "random", "greedy"]
    options = ["--deals", "1000000", "--folder", str(tmp_path), "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen(
        [*command, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    results = tmp_path / "results.jsonl"
    deadline = time.monotonic() + 120
    while not results.exists() or results.read_bytes().count(b"\n") < 5:
        assert running.poll() is None, running.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.kill()
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    kept = len(Store(tmp_path)._known)
    with pytest.MonkeyPatch.context() as patch:
        played = interrupted_after(patch, 1000)
        resumed = tournament(["random", "greedy"], deals=100 * kept + 50, folder=tmp_path)
    assert [(unit.first, unit.deals) for unit in played] == [(100 * kept, 50)]
    assert resumed == tournament(["random", "greedy"], deals=100 * kept + 50)


def test_an_illegal_action_is_still_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomPolicy, "act", lambda self, views: [42] * len(views))
    with pytest.raises(IllegalActionError, match="policy 'random'"):
        tournament(["random", "greedy"], deals=4)
