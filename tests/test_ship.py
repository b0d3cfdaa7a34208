"""Shipping: cards say what was measured, and curves are drawn of what was learned."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support.networks import make_policy
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("yaml")
pytest.importorskip("sb3_contrib")
pytest.importorskip("matplotlib")

import torch
import yaml

from escoba_env.batch import Batch
from escoba_env.engine.rng import GUESSABLE
from escoba_env.evaluation import cross_play, evaluate, ladder
from escoba_env.evaluation.ladders import V1
from escoba_env.policies.learned import LearnedPolicy
from training import best_response, curves, measure, results, ship
from training.config import make_config, make_settings
from training.curves import CurveError, draw
from training.distil import DistilConfig, distil
from training.run_folder import RunFolder
from training.selfplay import train

torch.set_num_threads(1)

PNG = b"\x89PNG"
SMALL: dict[str, Any] = {
    "games": 8, "steps": 8, "minibatch": 32, "decisions": 128, "precision": "float32",
}  # fmt: skip
NETWORK = {"hidden": [8, 6], "action_hidden": 5}


@pytest.fixture(autouse=True)
def small_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    config = best_response.make_config
    monkeypatch.setattr(
        best_response, "make_config", lambda content, source: config({**content, **SMALL}, source)
    )
    monkeypatch.setattr(best_response, "SEARCH", "search:worlds=2")


def self_play(folder: Path, **settings: Any) -> LearnedPolicy:
    config = {
        "name": "one", "network": NETWORK, "evaluation": {"every": 64, "deals": 10}, **SMALL,
        **settings,
    }  # fmt: skip
    return train(make_config(config, "one"), RunFolder(folder))


def shipped(run: Path, target: Path, deals: int = 20, **named: Any) -> ship.Shipped:
    policy = LearnedPolicy.load(run / "checkpoint")
    plan = measure.make_plan(policy, deals, **{"ladder": False, **named})
    return ship.ship(run, target, plan, decisions=128)


def test_deals_against_the_start_have_a_number_of_their_own(tmp_path: Path) -> None:
    self_play(tmp_path / "first")
    start = str(tmp_path / "first" / "checkpoint")
    with pytest.raises(ValueError, match="start_deals=40 is not possible: one has no start"):
        measure.make_plan(LearnedPolicy.load(start), 20, 40)
    self_play(tmp_path / "second", start=start)
    margins = shipped(tmp_path / "second", tmp_path / "mine", start_deals=40).strength.margins
    assert (margins["counting"].deals, margins[start].deals) == (20, 40)


def test_the_card_says_what_anybody_can_measure_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    self_play(run, rules={"players": 4, "partnership": True})
    shipped(run, tmp_path / "shipped" / "mine")
    policy = LearnedPolicy.load(tmp_path / "shipped" / "mine")
    assert policy.name == "mine"
    strength = policy.card.strength
    seed = strength["seed"]
    rules = {"players": 4, "partnership": True}
    again = evaluate(str(run / "checkpoint"), "greedy", rules, deals=20, seed=seed)
    assert strength["greedy"]["margin"] == pytest.approx(again.margin, abs=1e-4)
    table = cross_play(
        [str(run / "checkpoint"), "counting"], rules, against="counting", deals=20, seed=seed
    )
    mixed = table.margins()[(str(run / "checkpoint"), "counting")]
    assert strength["counting, beside counting"]["margin"] == pytest.approx(mixed, abs=1e-4)
    response = json.loads((run / "best-response" / "best_response.json").read_text())
    assert strength["best response"]["gain"] == pytest.approx(response["gain"], abs=1e-4)
    assert strength["best response"]["seed"] == response["seed"] != seed
    assert response["policy"] == str(run / "checkpoint")
    assert "ladder v1" not in strength
    training = policy.card.training
    assert training["config"]["seed"] == 1
    assert training["decisions"] == 128
    assert "cores" in training["machine"]
    assert policy.card.licence == "MIT"
    assert (tmp_path / "shipped" / "mine" / "curve.png").read_bytes().startswith(PNG)


def test_the_deals_of_a_card_are_drawn_for_it_alone_and_dated(tmp_path: Path) -> None:
    policy = make_policy()
    draws = []
    for name in ("one", "two"):
        policy.save(tmp_path / name)
        plan = measure.make_plan(policy, 4, ladder=False)
        strength = measure.measure(tmp_path / name, tmp_path / f"of-{name}", plan)
        measure.into_card(tmp_path / name, strength)
        card = LearnedPolicy.load(tmp_path / name).card
        draws.append(card.strength["seed"])
        age = datetime.now(timezone.utc) - datetime.fromisoformat(card.strength["seed_drawn"])
        assert timedelta(0) <= age < timedelta(minutes=10)
    assert draws[0] != draws[1]


def test_a_stopped_measurement_goes_on_with_the_same_deals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy()
    policy.save(tmp_path / "one")
    plan = measure.make_plan(policy, 4, ladder=False)
    played: list[tuple[str, int]] = []

    def stops_at_greedy(name: str, opponent: str, *given: Any, **named: Any) -> Any:
        played.append((opponent, named["seed"]))
        if len(played) == 2:
            raise KeyboardInterrupt
        return evaluate(name, opponent, *given, **named)

    monkeypatch.setattr(measure, "evaluate", stops_at_greedy)
    with pytest.raises(KeyboardInterrupt):
        measure.measure(tmp_path / "one", tmp_path / "kept", plan)
    kept = (tmp_path / "kept" / "results.jsonl").read_bytes()
    strength = measure.measure(tmp_path / "one", tmp_path / "kept", plan)
    assert [opponent for opponent, _ in played] == ["counting", "greedy", "counting", "greedy"]
    assert {seed for _, seed in played} == {strength.draw.seed}
    assert (tmp_path / "kept" / "results.jsonl").read_bytes().startswith(kept)
    # Nothing is left to play.
    monkeypatch.setattr(Batch, "step", lambda *_given, **_named: pytest.fail("played again"))
    assert measure.measure(tmp_path / "one", tmp_path / "kept", plan) == strength


def test_once_the_deals_are_drawn_the_policy_may_not_change(tmp_path: Path) -> None:
    policy = make_policy(seed=1)
    policy.save(tmp_path / "one")
    plan = measure.make_plan(policy, 4, ladder=False)
    strength = measure.measure(tmp_path / "one", tmp_path / "kept", plan)
    record = (tmp_path / "kept" / "measurement.json").read_bytes()
    other = measure.make_plan(policy, 6, ladder=False)
    with pytest.raises(ValueError, match=r"holds a measurement with plan .*: measure in another"):
        measure.measure(tmp_path / "one", tmp_path / "kept", other)
    make_policy(seed=2).save(tmp_path / "one")
    with pytest.raises(ValueError, match=r"holds a measurement with weights .*: measure in anoth"):
        measure.measure(tmp_path / "one", tmp_path / "kept", plan)
    with pytest.raises(ValueError, match="has other weights than were measured"):
        measure.into_card(tmp_path / "one", strength)
    assert (tmp_path / "kept" / "measurement.json").read_bytes() == record
    assert LearnedPolicy.load(tmp_path / "one").card.strength == {}


def test_the_ladder_is_played_where_it_is_the_policys_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = dataclasses.replace(V1, deals=2, opponents=(("random", 1), ("greedy", 1)))
    monkeypatch.setattr(measure, "ladder", lambda name, **named: ladder(name, short, **named))
    policy = make_policy()
    policy.save(tmp_path / "one")
    plan = measure.make_plan(policy, 4)
    strength = measure.measure(tmp_path / "one", tmp_path / "kept", plan).as_card()
    score = ladder(str(tmp_path / "one"), short)
    assert strength["ladder v1"]["score"] == pytest.approx(score.score, abs=1e-4)
    assert set(strength["ladder v1"]["margins"]) == {"random", "greedy"}
    assert not measure.make_plan(make_policy(rules={"players": 3}), 4).ladder
    assert not measure.make_plan(make_policy(episode="match"), 4).ladder


def test_a_measurement_into_a_card_keeps_its_best_response(tmp_path: Path) -> None:
    policy = make_policy()
    about = policy.card.model_copy(update={"strength": {"best response": {"gain": 1.0}, "old": 2}})
    LearnedPolicy(about, policy.network).save(tmp_path / "one")
    plan = measure.make_plan(policy, 4, ladder=False)
    measure.into_card(tmp_path / "one", measure.measure(tmp_path / "one", tmp_path / "kept", plan))
    strength = LearnedPolicy.load(tmp_path / "one").card.strength
    assert set(strength) == {"seed", "seed_drawn", "version", "counting", "greedy", "best response"}
    assert strength["best response"] == {"gain": 1.0}


def test_a_policy_of_several_tables_is_measured_at_each_and_its_labels_are_timed(
    tmp_path: Path,
) -> None:
    config = make_settings(
        DistilConfig,
        {
            "name": "two", "tables": [{}, {"players": 3}], "encoding": "universal_tactical",
            "rounds": [{"deals": 80, "teacher": "search:worlds=2"}], "shard_deals": 20,
            "epochs": 2, "minibatch": 64, "network": NETWORK,
            "measure": {"deals": 4, "against": ["random"]},
        },
        "two",
    )  # fmt: skip
    distil(config, tmp_path / "run", workers=1)
    policy = shipped(tmp_path / "run", tmp_path / "two").policy
    assert {"counting at classic, 2 players", 'greedy at {"players": 3}'} <= set(
        policy.card.strength
    )
    assert policy.card.training["label_seconds"] > 0
    lines = (tmp_path / "run" / "round-1" / "learning.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
    assert (tmp_path / "two" / "curve.png").read_bytes().startswith(PNG)


def test_a_match_policy_is_measured_in_matches(tmp_path: Path) -> None:
    run = tmp_path / "run"
    self_play(run, rules={"target": 5}, episode="match", reward="win")
    found = shipped(run, tmp_path / "mine", 10).policy.card.strength["counting"]
    assert found["won"] + found["drawn"] + found["lost"] == 20


def test_weights_too_large_to_ship_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_policy().save(tmp_path / "run" / "checkpoint")
    monkeypatch.setattr(ship, "LARGEST", 1000)
    with pytest.raises(ValueError, match="bytes are too large to ship; allowed: 1,000"):
        shipped(tmp_path / "run", tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_what_ends_shipping_is_found_before_anything_is_played(tmp_path: Path) -> None:
    make_policy().save(tmp_path / "run" / "checkpoint")
    with pytest.raises(CurveError, match="holds no run that can be drawn"):
        shipped(tmp_path / "run", tmp_path / "mine")
    self_play(tmp_path / "one")
    (tmp_path / "mine").mkdir()
    with pytest.raises(ValueError, match="mine"):
        shipped(tmp_path / "one", tmp_path / "mine")
    for name in ("run", "one"):
        assert not (tmp_path / name / "measurement").exists()


def test_shipping_writes_into_the_run_unless_told_otherwise_and_quick_plays_little(
    tmp_path: Path,
) -> None:
    self_play(tmp_path / "run")
    done = CliRunner().invoke(
        ship.app, [str(tmp_path / "run"), "--quick", "--deals", "4", "--decisions", "128"]
    )
    assert done.exit_code == 0, done.output
    card = LearnedPolicy.load(tmp_path / "run" / "shipped" / "one").card
    assert card.strength["counting"]["deals"] == 4
    assert card.strength["best response"]["deals"] == 4
    assert "ladder v1" not in card.strength
    assert (tmp_path / "run" / "quick" / "measurement" / "measurement.json").is_file()
    # A measurement in full is another one.
    assert not (tmp_path / "run" / "measurement").exists()


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".", "..", "a\\b", "-x", "x" * 101, "a\n"])
def test_a_shipped_policy_is_named_as_its_folder_is(name: str, tmp_path: Path) -> None:
    self_play(tmp_path / "run")
    refused = CliRunner().invoke(ship.app, [str(tmp_path / "run"), f"--name={name}", "--quick"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert "is not possible for a shipped policy" in refused.stderr
    assert not (tmp_path / "run" / "quick").exists()


def test_a_best_response_of_more_decisions_is_not_taken_for_one_of_fewer(tmp_path: Path) -> None:
    run = tmp_path / "run"
    self_play(run)
    policy = shipped(run, tmp_path / "mine", 4).policy
    plan = measure.make_plan(policy, 4, ladder=False)
    with pytest.raises(ValueError, match="is of 128 decisions, and decisions=64"):
        ship.ship(run, tmp_path / "mine", plan, decisions=64)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no run that can be drawn"),
        ({"evaluations.jsonl": ""}, "nothing has been measured yet"),
        ({"evaluations.jsonl": "{"}, "line 1, is damaged"),
        ({"evaluations.jsonl": '{"against": "x"}'}, "of another version"),
        ({"round-1/learning.jsonl": '{"epoch": 1}'}, "of another version"),
    ],
)
def test_what_cannot_be_drawn_is_named(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    with pytest.raises(CurveError, match=message):
        draw(tmp_path, tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()


def test_the_curve_command_draws_and_refuses_in_one_line(tmp_path: Path) -> None:
    runner = CliRunner()
    self_play(tmp_path / "run")
    done = runner.invoke(curves.app, [str(tmp_path / "run"), "--plot", str(tmp_path / "c.svg")])
    assert done.exit_code == 0, done.output
    assert "<svg" in (tmp_path / "c.svg").read_text()
    refused = runner.invoke(curves.app, [str(tmp_path / "run"), "--plot", "c.gif"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    refused = runner.invoke(ship.app, [str(tmp_path / "nothing")])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


def test_the_page_of_results_is_what_the_cards_say() -> None:
    """If not: ``python -m training.results``."""
    assert results.PAGE.read_text(encoding="utf-8") == results.page()
    assert f"`{results.cards()[0].name}`" in results.page()


def test_strengths_are_of_many_deals_drawn_for_the_card() -> None:
    for card in results.cards():
        strength = dict(card.strength)
        drawn = datetime.fromisoformat(strength.pop("seed_drawn"))
        assert drawn.tzinfo is not None
        assert strength.pop("seed") >= GUESSABLE
        deals: Counter[str] = Counter()
        for name, one in strength.items():
            if isinstance(one, dict) and "margin" in one:
                deals[name.split(" at ")[0]] += one["deals"]
        assert {"counting", "greedy"} <= set(deals)
        assert min(deals.values()) >= measure.DEALS[card.episode]


def test_every_shipped_policy_has_a_full_card_a_curve_and_a_config_and_is_small() -> None:
    for card in results.cards():
        folder = results.ROOT / "checkpoints" / card.name
        assert {"machine", "seconds", "config", "torch"} <= set(card.training)
        assert {"seed", "best response"} <= set(card.strength)
        assert (folder / "curve.png").read_bytes().startswith(PNG)
        assert (folder / "policy.safetensors").stat().st_size <= ship.LARGEST
        kept = (results.ROOT / "configs" / f"{card.name}.yaml").read_text()
        config = make_settings(DistilConfig, yaml.safe_load(kept), card.name)
        made_by = make_settings(DistilConfig, card.training["config"], card.name)
        assert config == made_by
