"""Tournaments, cross-play and the ladder: every number from the same duplicate deals."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.needs import needs

from escoba_env.batch import Batch
from escoba_env.evaluation import (
    LADDERS,
    Ladder,
    cross_play,
    evaluate,
    ladder,
    mean_interval,
    play_out,
    tournament,
)
from escoba_env.evaluation.plots import check_plot
from escoba_env.evaluation.tournaments import _ratings
from escoba_env.policies import BUILTIN, GreedyPolicy, RandomPolicy, load_policy

TABLES: dict[str, dict[str, Any]] = {
    "two": {"players": 2},
    "three": {"players": 3},
    "four": {"players": 4},
    "pairs": {"players": 4, "partnership": True},
    "match": {"players": 2, "episode": "match", "target": 5},
}


class LowestPolicy:
    """A third player: always the lowest action."""

    name = "lowest"

    def act(self, views: Any) -> Any:
        legal = views.records["legal"]
        return np.array([int(x & -x).bit_length() - 1 for x in legal.tolist()], np.int64)


@pytest.fixture(autouse=True)
def _third(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("escoba_env.policies.loading.BUILTIN", {**BUILTIN, "lowest": LowestPolicy})


NAMES = ["random", "greedy", "lowest"]

# -- tournament -----------------------------------------------------------------------------


@needs("openskill")
@pytest.mark.parametrize("table", TABLES)
def test_every_pairing_is_what_evaluate_measures(table: str) -> None:
    result = tournament(NAMES, deals=30, seed=4, **TABLES[table])
    assert [(p.a, p.b) for p in result.pairings] == [(a, b) for a in NAMES for b in NAMES if a != b]
    for pairing in result.pairings:
        alone = evaluate(pairing.a, pairing.b, deals=30, seed=4, **TABLES[table])
        assert (pairing.margin, pairing.half_width) == (alone.margin, alone.half_width)
        assert (pairing.wins, pairing.draws) == (alone.wins, alone.draws)
        assert pairing.losses == alone.losses


@needs("openskill")
@pytest.mark.parametrize("table", TABLES)
def test_what_is_won_is_lost_by_others(table: str) -> None:
    result = tournament(NAMES, deals=30, **TABLES[table])
    assert sum(standing.margin for standing in result.standings) == pytest.approx(0)
    margins = [standing.margin for standing in result.standings]
    assert margins == sorted(margins, reverse=True)
    assert result.complete


@needs("openskill")
@pytest.mark.parametrize("table", TABLES)
def test_the_order_of_the_policies_changes_no_margin(table: str) -> None:
    forth = tournament(NAMES, deals=20, **TABLES[table])
    back = tournament(NAMES[::-1], deals=20, **TABLES[table])
    for one in forth.standings:
        other = next(s for s in back.standings if s.policy == one.policy)
        assert (other.margin, other.half_width) == pytest.approx((one.margin, one.half_width))


@needs("openskill")
def test_two_policies_have_opposite_standings() -> None:
    for fields in TABLES.values():
        first, second = tournament(["random", "greedy"], deals=50, **fields).standings
        assert (first.policy, second.policy) == ("greedy", "random")
        assert first.margin == -second.margin > 0
        assert first.half_width == second.half_width > 0
        assert first.rating - 25 == pytest.approx(25 - second.rating)
        assert first.rating > 25
        assert first.deviation == pytest.approx(second.deviation)


@needs("openskill")
def test_an_interval_comes_from_the_mean_over_opponents_in_each_deal() -> None:
    result = tournament(NAMES, deals=40)
    greedy = next(s for s in result.standings if s.policy == "greedy")
    samples = []
    for opponent in ("random", "lowest"):
        margins = []
        for row in ([0, 1], [1, 0]):
            batch = Batch(40, skip_forced=True)
            batch.reset(0)
            played = play_out(batch, [GreedyPolicy(), load_policy(opponent)], [row] * 40)
            own = row.index(0)
            margins.append(played.points[:, own] - played.points[:, 1 - own])
        samples.append(np.mean(margins, 0))
    assert (greedy.margin, greedy.half_width) == pytest.approx(mean_interval(np.mean(samples, 0)))


@needs("openskill")
def test_json_csv_and_plot_say_the_same(tmp_path: Path) -> None:
    result = tournament(NAMES, deals=20)
    result.save(tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    assert json.loads((folder / "tournament.json").read_text()) == json.loads(
        json.dumps(result.as_dict(), allow_nan=False)
    )
    standings = list(csv.DictReader(io.StringIO((folder / "standings.csv").read_text())))
    assert [s["policy"] for s in standings] == [s.policy for s in result.standings]
    assert [float(s["margin"]) for s in standings] == [s.margin for s in result.standings]
    rows = list(csv.DictReader(io.StringIO((folder / "cross_table.csv").read_text())))
    cells = {(row["policy"], b): row[b] for row in rows for b in NAMES}
    for pairing in result.pairings:
        assert float(cells[pairing.a, pairing.b]) == pairing.margin
    assert all(cells[name, name] == "" for name in NAMES)
    pytest.importorskip("matplotlib")
    for suffix, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        path = tmp_path / f"plot.{suffix}"
        result.plot(path)
        assert path.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": ["greedy"]}, "number of policies 1 is not possible"),
        ({"policies": []}, "number of policies 0 is not possible"),
        ({"policies": ["greedy", "greedy"]}, "policy 'greedy' is given twice"),
        ({"policies": ["greedy", "gredy"]}, "policy 'gredy' is unknown"),
        ({"policies": None}, "policy None is not possible; allowed: a list of names or folders"),
        ({"policies": "greedy"}, "policy 'greedy' is not possible; allowed: a list"),
        ({"policies": 3}, "policy 3 is not possible; allowed: a list"),
        ({"deals": 1}, "deals 1 is not possible"),
        ({"episode": "day"}, "episode 'day' is unknown"),
        ({"seed": -1}, "seed -1 is not possible"),
        ({"players": 7}, "players=7"),
    ],
)
def test_impossible_tournaments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tournament(**{"policies": NAMES, "deals": 4, **arguments})


def test_a_plot_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "a.png", tmp_path / "file" / "b" / "a.png"):
        with pytest.raises(ValueError, match=r"a\.png cannot be written"):
            check_plot(path)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ValueError, match="it is a folder"):
        check_plot(tmp_path / "folder.png")
    for bad in ("a\0b.png", None, ""):
        with pytest.raises(ValueError, match=r"plot .* is not possible; allowed: a path"):
            check_plot(bad)  # type: ignore[arg-type]
    check_plot(tmp_path / "new" / "folder" / "a.PNG")
    assert not (tmp_path / "new").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder.png"}
    tournament(NAMES, deals=2).plot(tmp_path / "new" / "a.PNG")
    assert (tmp_path / "new" / "a.PNG").read_bytes().startswith(b"\x89PNG")


def test_missing_libraries_are_named_before_anything_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module, part in (("openskill", "models"), ("matplotlib", "figure")):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(sys.modules, f"{module}.{part}", raising=False)
    with pytest.raises(
        ModuleNotFoundError, match=r"openskill is not installed: pip install .*\[evaluation\]"
    ):
        tournament(NAMES, deals=4)
    with pytest.raises(
        ModuleNotFoundError, match=r"matplotlib is not installed: pip install .*\[evaluation\]"
    ):
        check_plot("a.png")
    with pytest.raises(ValueError, match=r"plot 'a.gif' is not possible; allowed: a .png"):
        check_plot("a.gif")


@needs("openskill")
def test_drawn_deals_leave_two_ratings_equal() -> None:
    """OpenSkill 6.0.0 and 6.1.3 rate one of them 48.5 and the other 1.5, or both 148."""
    drawn = {("a", "b"): np.zeros(200), ("b", "a"): np.zeros(200)}
    (a, deviation), (b, other) = _ratings(["a", "b"], drawn).values()
    assert a == pytest.approx(25, abs=1e-6)
    assert b == pytest.approx(25, abs=1e-6)
    assert deviation == pytest.approx(other)


# -- cross-play -----------------------------------------------------------------------------


def test_partners_are_measured_over_all_seats() -> None:
    result = cross_play(["random", "greedy"], against="lowest", deals=25, seed=3)
    policies = [RandomPolicy(), GreedyPolicy(), LowestPolicy()]

    def margins(rows: list[list[int]]) -> Any:
        each = []
        for row in rows:
            batch = Batch(25, players=4, partnership=True, skip_forced=True)
            batch.reset(3)
            points = play_out(batch, policies, [row] * 25).points
            side = 0 if row[0] != 2 else 1
            each.append(points[:, side] - points[:, 1 - side])
        return np.mean(each, 0)

    mixed = margins([[0, 2, 1, 2], [1, 2, 0, 2], [2, 0, 2, 1], [2, 1, 2, 0]])
    randoms = margins([[0, 2, 0, 2], [2, 0, 2, 0]])
    greedies = margins([[1, 2, 1, 2], [2, 1, 2, 1]])
    expected = {
        ("random", "random"): randoms,
        ("random", "greedy"): mixed,
        ("greedy", "greedy"): greedies,
    }
    assert [(p.a, p.b) for p in result.partners] == list(expected)
    for one in result.partners:
        assert (one.margin, one.half_width) == pytest.approx(mean_interval(expected[one.a, one.b]))
    together = (randoms + greedies) / 2
    assert (result.gap, result.gap_half_width) == pytest.approx(mean_interval(together - mixed))
    assert result.self_play == pytest.approx(together.mean())
    assert result.with_others == pytest.approx(mixed.mean())


def test_a_policy_with_itself_against_itself_wins_nothing(tmp_path: Path) -> None:
    result = cross_play(["greedy", "random"], against="greedy", deals=20, folder=tmp_path)
    assert result.margins()["greedy", "greedy"] == 0
    assert result.margins()["greedy", "random"] == result.margins()["random", "greedy"] < 0
    result.save(tmp_path)
    assert json.loads((tmp_path / "crossplay.json").read_text())["gap"] == result.gap
    rows = list(csv.reader(io.StringIO((tmp_path / "crossplay.csv").read_text())))
    assert rows[0] == ["policy", "greedy", "random"]
    assert float(rows[1][1]) == 0
    assert rows[1][2] == rows[2][1]
    assert cross_play(["greedy", "random"], deals=20, folder=tmp_path) == result


def test_cross_play_is_for_partners() -> None:
    with pytest.raises(ValueError, match="partnership=False is not possible"):
        cross_play(["greedy", "random"], partnership=False)
    with pytest.raises(ValueError, match="number of policies 1 is not possible"):
        cross_play(["greedy"])
    with pytest.raises(ValueError, match="policy 'nobody' is unknown"):
        cross_play(["greedy", "random"], against="nobody")


# -- ladder ---------------------------------------------------------------------------------

SMALL = Ladder(
    name="small",
    preset="classic",
    episode="round",
    seed=99,
    deals=60,
    opponents=(("random", 1), ("greedy", 3)),
)


def test_a_ladder_keeps_its_numbers_as_plain_ones() -> None:
    same = dataclasses.replace(SMALL, seed=np.uint8(99), deals=np.int16(60))
    assert same == SMALL
    assert (type(same.seed), type(same.deals)) == (int, int)


def test_ladder_numbers_are_fixed() -> None:
    # Should these ever differ, so do all numbers that were published, and v1 is another ladder.
    greedy, random = ladder("greedy", SMALL), ladder("random", SMALL)
    assert greedy.rungs[0].margin == -random.rungs[1].margin == 2.45
    assert greedy.rungs[1].margin == random.rungs[0].margin == 0
    assert greedy.score == pytest.approx(2.45 / 4)
    assert random.score == pytest.approx(-3 * 2.45 / 4)
    assert greedy.half_width == pytest.approx(greedy.rungs[0].half_width / 4)


def test_the_score_is_the_weighted_mean_with_an_interval_over_deals() -> None:
    result = ladder("lowest", SMALL)
    margins = [evaluate("lowest", b, deals=60, seed=99).margin for b, _ in SMALL.opponents]
    assert [rung.margin for rung in result.rungs] == margins
    assert result.score == pytest.approx((margins[0] + 3 * margins[1]) / 4)
    low, high = result.interval
    assert low < result.score < high
    values = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert values["ladder"]["opponents"] == {"random": 1, "greedy": 3}
    assert values["interval"] == [low, high]


def test_a_ladder_goes_on(tmp_path: Path) -> None:
    first = ladder("greedy", SMALL, folder=tmp_path)
    lines = (tmp_path / "results.jsonl").read_text()
    assert ladder("greedy", SMALL, folder=tmp_path) == first
    assert (tmp_path / "results.jsonl").read_text() == lines


def test_shipped_ladders_are_what_was_published() -> None:
    v1 = LADDERS["v1"]
    assert (v1.name, v1.preset, v1.episode) == ("v1", "classic", "round")
    assert (v1.seed, v1.deals) == (1_515_151_515, 2000)
    assert [name.partition(":")[0] for name, _ in v1.opponents] == [
        "random",
        "greedy",
        "counting",
        "search",
    ]
    assert {weight for _, weight in v1.opponents} == {1}


def test_ladder_v1_never_changes() -> None:
    # The first of its deals. Another margin is another ladder, whatever the reason.
    first = dataclasses.replace(LADDERS["v1"], deals=20)
    assert [rung.margin for rung in ladder("greedy", first).rungs] == [2.325, 0.0, -1.075, -1.325]


def test_unknown_ladders_and_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="ladder 'v0' is unknown; allowed: v1"):
        ladder("greedy", "v0")
    with pytest.raises(ValueError, match="policy 'gredy' is unknown"):
        ladder("gredy", SMALL)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "name '' of a ladder"),
        ({"name": 5}, "name 5 of a ladder"),
        ({"preset": "nope"}, "preset 'nope' is unknown; allowed: classic"),
        ({"episode": "day"}, "episode 'day' is unknown"),
        ({"seed": -1}, "seed -1 is not possible"),
        ({"deals": 0}, "deals 0 is not possible"),
        ({"deals": -3}, "deals -3 is not possible"),
        ({"deals": 2.5}, "deals 2.5 is not possible"),
        ({"deals": 1}, "deals 1 is not possible; allowed: a whole number, 2 to"),
        ({"opponents": ()}, r"opponents \(\) are not possible; allowed: a tuple of at least one"),
        ({"opponents": None}, "opponents None are not possible"),
        ({"opponents": ("greedy",)}, "opponents .'greedy',. are not possible"),
        ({"opponents": (("greedy", 0), ("random", 0))}, "weights of opponents sum to 0; allowed"),
        ({"opponents": (("greedy", -1),)}, "weight -1 of opponent 'greedy'"),
        ({"opponents": (("greedy", float("nan")),)}, "weight nan of opponent 'greedy'"),
        ({"opponents": (("greedy", float("inf")),)}, "weights of opponents sum to inf"),
        ({"opponents": (("greedy", 10**400),)}, "weights of opponents sum to 10000"),
        ({"opponents": (("greedy", 10**5000),)}, "weights of opponents sum to <a whole number of"),
        ({"opponents": (("greedy", "1"),)}, "weight '1' of opponent 'greedy'"),
        ({"opponents": (("greedy", True),)}, "weight True of opponent 'greedy'"),
    ],
)
def test_impossible_ladders_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **fields)
