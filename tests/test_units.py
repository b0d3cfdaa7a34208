"""Units of work: results that depend on nothing but the unit, kept and found again."""

from __future__ import annotations

import dataclasses
import errno
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
from support.needs import needs

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
from escoba_env.evaluation.duplicate import duplicate_table
from escoba_env.evaluation.pool import Store, StoreError, UnitOfWork, run_units
from escoba_env.evaluation.units import identify
from escoba_env.policies import BUILTIN, GreedyPolicy, RandomPolicy, load_policy
from escoba_env.policies.checkpoint import find_checkpoint
from escoba_env.rules import PRESETS, make_rules


class Count(UnitOfWork):
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


@needs("openskill")
def test_results_do_not_depend_on_the_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Other processes at once, however little there is to do.
    monkeypatch.setattr(pool, "START_AFTER", 0.0)
    alone = tournament(["random", "greedy"], players=3, deals=350)
    shared = tournament(["random", "greedy"], players=3, deals=350, workers=2, folder=tmp_path)
    assert shared == alone
    assert len(Store(tmp_path)._known) == 2 * 4


@needs("torch")
@needs("openskill")
def test_a_faulty_policy_is_named_by_another_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "START_AFTER", 0.0)
    # A checkpoint for two players at a table of three: known only when it is asked to play.
    with pytest.raises(ValueError, match=r"policy 'classic-2p' was trained for"):
        evaluate("classic-2p", "greedy", players=3, deals=400, workers=2)


@needs("torch")
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


class Dying(UnitOfWork):
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
        # No line of ours that was half written.
        (b"one line, and it is mine", "no file of results"),
        (b'{"format":"other"}\nhalf a li', "no file of results"),
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


def test_half_a_header_is_begun_again(tmp_path: Path) -> None:
    squares(2, Store(tmp_path))
    path = tmp_path / "results.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:9])
    squares(2, Store(tmp_path))
    assert path.read_bytes() == content


@needs("openskill")
@pytest.mark.parametrize("folder", [5, "", "a\0b"])
def test_a_folder_is_a_path(folder: Any) -> None:
    with pytest.raises(ValueError, match=r"folder .* is not possible; allowed: a path"):
        tournament(["greedy", "random"], deals=2, folder=folder)


def test_several_stores_may_write_into_one_folder(tmp_path: Path) -> None:
    # As processes do that start at the same time on a new folder.
    stores = [Store(tmp_path) for _ in range(3)]
    for number in range(6):
        stores[number % 3].put(Count(number), identify, {"square": number})
    content = (tmp_path / "results.jsonl").read_bytes()
    assert content.count(b"escoba-results") == 1
    assert len(Store(tmp_path)._known) == 6
    # One of them is killed while it writes, another goes on.
    (tmp_path / "results.jsonl").write_bytes(content[:-5])
    stores[0].put(Count(6), identify, {"square": 36})
    assert len(Store(tmp_path)._known) == 6
    # Or the file is taken away.
    (tmp_path / "results.jsonl").unlink()
    stores[0].put(Count(7), identify, {"square": 49})
    assert len(Store(tmp_path)._known) == 1


BEGIN = (
    "import sys; from escoba_env.evaluation.pool import Store; sys.stdin.readline(); "
    "Store(sys.argv[1])"
)


def test_processes_that_start_together_write_one_header(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", BEGIN, str(tmp_path / "new")]
    running = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        process.communicate()
        assert process.returncode == 0
    assert (tmp_path / "new" / "results.jsonl").read_bytes().count(b"\n") == 1


def edited(folder: Path, change: Any) -> None:
    """Changes the result in the second line of a file of results."""
    path = folder / "results.jsonl"
    header, second, *rest = path.read_text().splitlines()
    entry = json.loads(second)
    change(entry["result"])
    path.write_text("\n".join([header, json.dumps(entry), *rest]) + "\n")


@needs("openskill")
@pytest.mark.parametrize("episode", ["round", "match"])
@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.clear(),
        lambda r: r.update(more=1),
        lambda r: r.update(rounds=0),
        lambda r: r.update(rounds=-3),
        lambda r: r.update(rounds=4.0),
        lambda r: r.update(rounds=True),
        lambda r: r.update(rounds="4"),
        lambda r: r.update(rounds=10**30),
        lambda r: r.update(twelfths=None),
        lambda r: r.update(twelfths=[]),
        lambda r: r["twelfths"].pop(),
        lambda r: r["twelfths"].append(0),
        lambda r: r["twelfths"].__setitem__(0, -12),
        lambda r: r["twelfths"].__setitem__(0, 12.0),
        lambda r: r["twelfths"].__setitem__(0, None),
        lambda r: r["twelfths"].__setitem__(0, 2**31),
        lambda r: r["twelfths"].__setitem__(0, 10**7),
        lambda r: r.update(escobas=[[0, 0]]),
        lambda r: r.update(escobas=[[0, -1], [0, 0]]),
        lambda r: r.update(escobas=[[0, 10**6], [0, 0]]),
        lambda r: r.update(escobas=[[0, 0.5], [0, 0]]),
        lambda r: r.update(escobas=5),
    ],
)
def test_a_result_that_cannot_be_is_refused_by_its_line(
    tmp_path: Path, change: Any, episode: str
) -> None:
    def play() -> Any:
        # With a seed that is given, the second line is a result.
        return tournament(["greedy", "random"], deals=2, seed=0, episode=episode, folder=tmp_path)

    play()
    play()
    edited(tmp_path, change)
    with pytest.raises(ValueError, match=r"results\.jsonl, line 2, is damaged"):
        play()


@needs("openskill")
def test_a_match_that_nobody_has_won_is_refused(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"deals": 2, "seed": 0, "episode": "match", "folder": tmp_path}
    tournament(["greedy", "random"], **fields)
    edited(tmp_path, lambda r: r.update(twelfths=[0] * len(r["twelfths"])))
    with pytest.raises(ValueError, match=r"results\.jsonl, line 2, is damaged"):
        tournament(["greedy", "random"], **fields)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("players", [2, 3, 4])
@pytest.mark.parametrize("episode", ["round", "match"])
def test_results_as_they_are_played_fit(preset: str, players: int, episode: str) -> None:
    for fields in ({}, {"ties": "split"}, {"partnership": True})[: 3 if players == 4 else 2]:
        rules = make_rules(preset, players=players, **fields)
        table = duplicate_table("greedy", "random", rules, episode)
        unit = units.Unit(table, 1, 5, 4, 100)
        assert unit.fits(json.loads(json.dumps(unit.play(load_policy))))


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


@needs("openskill")
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
    part = stop.value.result
    assert not part.complete
    assert dataclasses.replace(part, complete=True) == evaluate("greedy", "random", deals=300)


def test_ctrl_c_before_anything_is_done_is_ctrl_c() -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupted_after(patch, 0)
        with pytest.raises(KeyboardInterrupt) as stop:
            evaluate("greedy", "random")
        assert not isinstance(stop.value, Interrupted)


@needs("openskill")
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


@needs("openskill")
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
    # The seed that the killed one has drawn.
    again = tournament(["random", "greedy"], deals=100 * kept + 50, seed=resumed.seed)
    assert resumed == again


# -- work that takes long -------------------------------------------------------------------


class SlowPolicy(GreedyPolicy):
    """Asks for few deals at a time."""

    name = "slow"
    deals_at_once = 3


@pytest.fixture
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("escoba_env.policies.loading.BUILTIN", {**BUILTIN, "slow": SlowPolicy})


@needs("openskill")
@pytest.mark.usefixtures("_slow")
def test_slow_policies_are_played_in_small_parts_with_the_same_result(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    result = evaluate(
        "slow", "random", deals=110, on_progress=lambda deals, rounds: seen.append((deals, rounds))
    )
    # Blocks of 100 and 10.
    assert [deals for deals, _ in seen] == [*range(3, 100, 3), 100, 103, 106, 109, 110]
    assert dataclasses.replace(result, a="greedy") == evaluate("greedy", "random", deals=110)
    kept = tournament(["slow", "random"], deals=110, folder=tmp_path)
    assert len(Store(tmp_path)._known) == len(seen)
    assert kept.pairings[0].margin == result.margin
    assert evaluate(SlowPolicy(), "random", deals=110).margin == result.margin


@needs("openskill")
@pytest.mark.usefixtures("_slow")
def test_what_was_kept_before_in_large_units_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(SlowPolicy, "deals_at_once", 10**6)
        tournament(["slow", "random"], deals=200, folder=tmp_path)
    assert len(Store(tmp_path)._known) == 2
    with monkeypatch.context() as patch:
        played = interrupted_after(patch, 1000)
        tournament(["slow", "random"], deals=206, folder=tmp_path)
    assert [(unit.first, unit.deals) for unit in played] == [(200, 3), (203, 3)]


@pytest.mark.usefixtures("_slow")
def test_ctrl_c_loses_a_part_alone() -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupted_after(patch, 36)
        with pytest.raises(Interrupted) as stop:
            evaluate("slow", "random", deals=1000)
    part = dataclasses.replace(stop.value.result, complete=True)
    assert part == evaluate("slow", "random", deals=106)


@needs("torch")
@needs("openskill")
def test_searches_ask_for_few_deals_the_longer_they_take() -> None:
    for slow, fast in (
        ("search:worlds=1024", "search:worlds=16"),
        ("search:time=1", "search:worlds=16"),
        ("search:worlds=64,rollout=classic-2p", "search:worlds=64"),
        ("ismcts:iterations=100000", "ismcts"),
    ):
        few, many = (load_policy(name).deals_at_once for name in (slow, fast))  # type: ignore[attr-defined]
        assert 1 <= few < many <= 100


@pytest.mark.parametrize("said", [0, 1.5, None, "3"])
def test_an_impossible_number_of_deals_at_once_is_refused(
    said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RandomPolicy, "deals_at_once", said, raising=False)
    with pytest.raises(ValueError, match="deals_at_once of policy 'random'"):
        evaluate("random", "greedy", deals=2)


# -- what cannot be written -----------------------------------------------------------------


def full_after(patch: pytest.MonkeyPatch, number: int) -> None:
    """Makes a disk full after a number of results."""
    write = pool._write
    written = []

    def fails(file: Any, entry: Any) -> None:
        if len(written) == number:
            file.write(b'{"half a l')
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(entry)
        write(file, entry)

    patch.setattr(pool, "_write", fails)


@needs("openskill")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_leaves_the_result_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    names = ["random", "greedy"]
    monkeypatch.setattr(pool, "START_AFTER", 0.0)
    with monkeypatch.context() as patch:
        # The header too is written.
        full_after(patch, 4)
        with pytest.raises(StoreError, match=r"results\.jsonl cannot be written: No space") as stop:
            tournament(names, deals=1000, seed=0, folder=tmp_path, workers=workers)
    assert stop.value.result.deals == 300
    assert not stop.value.result.complete
    assert stop.value.result.standings == tournament(names, deals=300).standings
    assert tournament(names, deals=600, folder=tmp_path) == tournament(names, deals=600)
    with monkeypatch.context() as patch:
        full_after(patch, 1)
        with pytest.raises(StoreError) as stop:
            tournament(names, deals=1000, seed=0, folder=tmp_path / "new")
    assert stop.value.result is None


# -- the end of the process that has others work --------------------------------------------


class Sleeping(UnitOfWork):
    """Says which process it is in, and works for ever if that is another one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def key(self, identify: Any) -> dict[str, Any]:
        return {}

    def play(self, load: Any) -> dict[str, Any]:
        if multiprocessing.parent_process() is not None:
            (Path(self.folder) / str(os.getpid())).touch()
            time.sleep(600)
        return {}


WORK_FOR_EVER = """
import sys
from escoba_env.evaluation import pool
from test_units import Sleeping, identify
pool.START_AFTER = 0.0
if __name__ == "__main__":
    list(pool.run_units([Sleeping(sys.argv[1])] * 9, workers=2, identify=identify))
"""


def is_running(process: int) -> bool:
    # One that has ended may wait for somebody to ask for its exit code.
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs the files of Linux")
def test_processes_end_with_the_one_that_has_started_them(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(WORK_FOR_EVER)
    folder = tmp_path / "running"
    folder.mkdir()
    paths = [str(Path(__file__).parent), *sys.path]
    main = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    deadline = time.monotonic() + 120
    while len(list(folder.iterdir())) < 2:
        assert main.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    main.kill()
    main.wait()
    others = [int(path.name) for path in folder.iterdir()]
    while any(map(is_running, others)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs("openskill")
def test_an_illegal_action_is_still_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomPolicy, "act", lambda self, views: [42] * len(views))
    with pytest.raises(IllegalActionError, match="policy 'random'"):
        tournament(["random", "greedy"], deals=4)
