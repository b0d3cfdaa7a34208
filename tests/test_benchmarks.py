"""The benchmarks run, whatever they measure here, and their tables say what their JSON says."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks import bars, ours, peers, policies, report, run, runner
from benchmarks.bars import Bar
from benchmarks.runner import Case, Measure, Missing, Ready, Result

ROOT = Path(__file__).resolve().parents[1]
OWN = [case for case in (*ours.calibration(), *ours.cases()) if isinstance(case, Case)]
QUICK = [case for case in OWN if case.name != "self-play"]


def slow(decisions: int) -> int:
    time.sleep(0.002)
    return decisions


def rated(name: str, *rates: float, clock: str = "cpu", wall: float = 1.0) -> Result:
    """A result whose repetitions took a second of processor time each."""
    return Result(
        name,
        "group",
        "decisions/s",
        clock,
        decisions=[int(rate) for rate in rates],
        wall=[wall] * len(rates),
        cpu=[1.0] * len(rates),
    )


@pytest.fixture(scope="module")
def data() -> Any:
    """A file such as a run writes, with something missing and something that is no rate."""
    cases = [
        *ours.calibration(),
        *(case for case in OWN if case.name in ("engine", "batch 64", "batch 1024", "aec")),
        Case("EnvPool Blackjack", "Peers", missing),
        Measure("a game of a batch", "Memory", lambda: ours.bytes_a_game(64), "bytes"),
    ]
    results = runner.run(cases, repeats=2, seconds=0.001)
    return json.loads(report.dump(report.as_dict(results, {"repeats": 2}, peers.PACKAGES)))


def missing() -> Ready:
    raise Missing("not installed: nothing")


# -- cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_own_case_plays_at_least_the_decisions_it_is_asked_for(case: Case) -> None:
    try:
        play = case.setup().play
    except Missing as reason:
        pytest.skip(str(reason))
    assert play(1) >= 1
    assert play(3) >= 3


def test_self_play_case_trains() -> None:
    pytest.importorskip("sb3_contrib")
    changes = {"games": 8, "steps": 4, "minibatch": 16}
    ready = ours.self_play(**changes, network={"hidden": [8], "action_hidden": 8})
    assert ready.play(33) == 64


def test_stock_learner_case_trains() -> None:
    pytest.importorskip("sb3_contrib")
    assert peers.stock_maskable_ppo(envs=8, steps=4, minibatch=16).play(33) == 64


def test_aec_loops_are_the_same_for_peers() -> None:
    pytest.importorskip("rlcard")
    pytest.importorskip("pygame")
    for loop in (ours.documentation_loop, ours.cheap_loop):
        assert loop(peers.pettingzoo_env("texas_holdem_v4")).play(5) >= 5


@pytest.mark.parametrize("name", ["hearts", "crazy_eights"])
def test_openspiel_observer_case_plays(name: str) -> None:
    pytest.importorskip("pyspiel")
    assert peers.openspiel_observer(name).play(5) >= 5


def test_names_of_cases_are_unique_and_those_of_bars_and_readme_exist() -> None:
    names = [case.name for case in (*ours.calibration(), *ours.cases(), *peers.cases())]
    assert len(set(names)) == len(names)
    for bar in bars.BARS:
        assert {*bar.left, *([bar.right] if bar.right else [])} <= set(names)
    assert {name for name, _ in report.README_ROWS} <= set(names)


# -- timing ---------------------------------------------------------------------------------


def test_repetitions_are_interleaved_there_and_back() -> None:
    order: list[str] = []

    def case(name: str) -> Case:
        def play(decisions: int) -> int:
            order.append(name)
            return 10**9

        return Case(name, "group", lambda: Ready(play))

    results = runner.run([case("a"), case("b")], repeats=3, seconds=1e-9)
    assert order[-6:] == ["a", "b", "b", "a", "a", "b"]
    assert [len(result.wall) for result in results] == [3, 3]


def test_a_slow_case_is_repeated_less_often() -> None:
    case = Case("a", "group", lambda: Ready(slow), most_repeats=2)
    (result,) = runner.run([case], repeats=3, seconds=0.001)
    assert len(result.decisions) == 2


def test_ratio_is_the_median_of_rounds() -> None:
    assert runner.ratio(rated("left", 40, 200, 300), rated("right", 10, 100, 100)) == 3


def test_threads_are_timed_by_the_wall_and_what_they_are_compared_with_too() -> None:
    one, two = rated("one", 100, wall=1.25), rated("two", 100, clock="wall", wall=0.625)
    assert (one.median, two.median) == (100, 160)
    assert runner.ratio(two, one) == 2


@pytest.mark.parametrize(("wall", "rate"), [(0.5, 200), (2.0, 100)])
def test_peers_of_several_threads_are_timed_by_the_kinder_clock(wall: float, rate: float) -> None:
    peer = rated("peer", 100, clock="kind", wall=wall)
    assert peer.median == rate
    assert runner.ratio(rated("own", 100, wall=5), peer) == 100 / rate


def test_what_is_missing_is_said_to_be_so_and_has_no_number(data: Any) -> None:
    row = next(row for row in data["results"] if row["name"] == "EnvPool Blackjack")
    assert row["missing"] == "not installed: nothing"
    assert "median" not in row
    assert "not installed: nothing" in report.table(data)


# -- bars -----------------------------------------------------------------------------------


def test_bars_of_ratios_and_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = (Bar(("slow", "fast"), 8, "peer"), Bar(("bytes",), 400), Bar(("gone",), 2, "peer"))
    monkeypatch.setattr(bars, "BARS", checked)
    results = [rated("slow", 70), rated("fast", 80), rated("peer", 10)]
    results.append(Result("bytes", "group", "bytes", values=[401.0]))
    results.append(Result("gone", "group", "decisions/s", missing="not installed"))
    ratio, bound, gone = bars.check(results)
    assert (ratio.value, ratio.holds) == (8, True)
    assert (bound.value, bound.holds) == (401, False)
    assert (gone.value, gone.holds, gone.missing) == (None, None, "gone: not installed")


# -- JSON and README ------------------------------------------------------------------------


def test_json_has_the_fields_that_are_promised(data: Any) -> None:
    assert set(data) == {"format", "date", "machine", "versions", "settings", "results", "bars"}
    assert data["format"] == report.FORMAT
    for row in data["results"]:
        assert {"name", "group", "unit"} <= set(row)
        assert "missing" in row or row["median"] > 0
        if "decisions" in row:
            assert len(row["decisions"]) == len(row["wall"]) == len(row["cpu"]) == 2


def test_results_survive_json(data: Any) -> None:
    assert [result.as_dict() for result in report.results_of(data)] == data["results"]


def test_another_format_is_refused(data: Any) -> None:
    other = copy.deepcopy(data)
    other["format"] = 0
    with pytest.raises(ValueError, match="format 1"):
        report.results_of(other)


def test_readme_table_goes_between_the_markers_and_only_there(data: Any, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{report.START}\nold\n{report.END}\nafter\n", encoding="utf-8")
    report.write_readme(page, data)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{report.START}\n| ")
    assert text.endswith(f"\n{report.END}\nafter\n")
    assert "old" not in text
    assert "| EnvPool Blackjack, its best batch | not installed: nothing |" in text
    report.write_readme(page, data)
    assert page.read_text(encoding="utf-8") == text
    page.write_text("no markers", encoding="utf-8")
    with pytest.raises(ValueError, match="has no lines"):
        report.write_readme(page, data)


def test_readme_shows_the_recorded_run() -> None:
    recorded = json.loads((ROOT / "tests/benchmarks/results.json").read_text(encoding="utf-8"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = text.partition(report.START)[2].partition(report.END)[0]
    assert shown.strip() == report.readme_table(recorded)


# -- the command ----------------------------------------------------------------------------


def test_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    path = ROOT / "tests" / "benchmarks" / "run.py"
    quick = ("--only", "batch 64", "--repeats", "1", "--seconds", "0.001", "--json", str(file))
    done = subprocess.run(
        [sys.executable, str(path), *quick], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == report.table(json.loads(file.read_text(encoding="utf-8"))) + "\n"
    assert "batch 64 " in done.stdout


@pytest.mark.parametrize(("value", "status"), [(400.0, 0), (401.0, 1)])
def test_check_fails_where_a_bar_does(tmp_path: Path, value: float, status: int) -> None:
    file = tmp_path / "results.json"
    results = [Result("a game of a batch", "group", "bytes", values=[value])]
    file.write_text(report.dump(report.as_dict(results, {}, ())), encoding="utf-8")
    assert run.main(["--from", str(file), "--check"]) == status
    assert run.main(["--from", str(file)]) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--only", "chess"], "no case matches"),
        (["--only", "aec", "--readme"], "--readme takes a run of all cases"),
        (["--from", "gone.json"], "gone.json"),
        (["--repeats", "0"], "--repeats is at least 1"),
    ],
)
def test_command_that_cannot_be_run_says_why(
    capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(arguments)
    assert error in capsys.readouterr().err


def test_policies_are_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "SECONDS", 0.01)
    views = policies.sampled_views(0)
    legal = views.records["legal"]
    assert len(views) == 256
    # Every one a choice, at many stages of a round.
    assert (legal & (legal - 1) != 0).all()
    assert len(set(views.records["turn_index"].tolist())) > 20
    assert policies.main(["--rounds", "2", "--policy", "greedy", "--policy", "random"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["policy", "greedy", "random"]
    for arguments in (["--rounds", "0"], ["--policy", "gredy"]):
        with pytest.raises(SystemExit):
            policies.main(arguments)
