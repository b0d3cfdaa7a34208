"""Shipping: cards say what was measured, and curves are drawn of what was learned."""

from __future__ import annotations

import json
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

from escoba_env.evaluation import cross_play, evaluate
from escoba_env.policies.learned import LearnedPolicy
from training import best_response, curves, results, ship
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
    measure = best_response.best_response
    monkeypatch.setattr(
        ship, "best_response", lambda *given, **named: measure(*given, **named, deals=10)
    )


def self_play(folder: Path, **settings: Any) -> LearnedPolicy:
    config = {
        "name": "one", "network": NETWORK, "evaluation": {"every": 64, "deals": 10}, **SMALL,
        **settings,
    }  # fmt: skip
    return train(make_config(config, "one"), RunFolder(folder))


def test_deals_against_the_start_have_a_number_of_their_own(tmp_path: Path) -> None:
    self_play(tmp_path / "first")
    start = str(tmp_path / "first" / "checkpoint")
    with pytest.raises(ValueError, match=r"start_deals=40: .*first has no start to be measured"):
        ship.ship(tmp_path / "first", tmp_path / "shipped", deals=20, start_deals=40)
    self_play(tmp_path / "second", start=start)
    shipped = ship.ship(
        tmp_path / "second", tmp_path / "shipped" / "mine", deals=20, start_deals=40, decisions=128
    )
    strength = shipped.card.strength
    assert (strength["counting"]["deals"], strength[start]["deals"]) == (20, 40)


def test_the_card_says_what_anybody_can_measure_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    self_play(run, rules={"players": 4, "partnership": True})
    ship.ship(run, tmp_path / "shipped" / "mine", deals=20, decisions=128)
    policy = LearnedPolicy.load(tmp_path / "shipped" / "mine")
    assert policy.name == "mine"
    strength = policy.card.strength
    rules = {"players": 4, "partnership": True}
    again = evaluate(str(run / "checkpoint"), "greedy", rules, deals=20, seed=ship.SEED)
    assert strength["greedy"]["margin"] == pytest.approx(again.margin, abs=1e-4)
    table = cross_play(
        [str(run / "checkpoint"), "counting"], rules, against="counting", deals=20, seed=ship.SEED
    )
    mixed = table.margins()[(str(run / "checkpoint"), "counting")]
    assert strength["counting, beside counting"]["margin"] == pytest.approx(mixed, abs=1e-4)
    response = json.loads((run / "best-response" / "best_response.json").read_text())
    assert strength["best response"]["gain"] == pytest.approx(response["gain"], abs=1e-4)
    assert response["policy"] == str(run / "checkpoint")
    assert "ladder v1" not in strength
    training = policy.card.training
    assert training["config"]["seed"] == 1
    assert training["decisions"] == 128
    assert "cores" in training["machine"]
    assert policy.card.licence == "MIT"
    assert (tmp_path / "shipped" / "mine" / "curve.png").read_bytes().startswith(PNG)


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
    policy = ship.ship(tmp_path / "run", tmp_path / "two", deals=20, decisions=128)
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
    policy = ship.ship(run, tmp_path / "mine", deals=10, decisions=128)
    found = policy.card.strength["counting"]
    assert found["won"] + found["drawn"] + found["lost"] == 20


def test_weights_too_large_to_ship_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_policy().save(tmp_path / "run" / "checkpoint")
    monkeypatch.setattr(ship, "LARGEST", 1000)
    with pytest.raises(ValueError, match="bytes are too large to ship; allowed: 1,000"):
        ship.ship(tmp_path / "run", tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no run that can be drawn"),
        ({"evaluations.jsonl": ""}, "nothing has been measured yet"),
        ({"evaluations.jsonl": "{"}, "cannot be read"),
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
