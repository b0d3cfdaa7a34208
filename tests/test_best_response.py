"""Best responses: trained against the frozen policy alone, from its weights or from new ones."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.networks import make_policy
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")
pytest.importorskip("yaml")

import torch

from escoba_env import Batch, load_policy, make_rules
from escoba_env.evaluation import Evaluation, evaluate
from escoba_env.policies.learned import LearnedPolicy
from training import best_response as module
from training import results, selfplay
from training.best_response import best_response, into_card, response_config
from training.config import ConfigError, make_config
from training.run_folder import RunFolder
from training.selfplay import train

torch.set_num_threads(1)

SMALL = {"games": 8, "steps": 8, "minibatch": 32, "decisions": 64}


@pytest.fixture
def policy(tmp_path: Path) -> str:
    folder = tmp_path / "policy"
    make_policy(1, hidden=(8, 6), action_hidden=5).save(folder)
    return str(folder)


def test_the_result_says_what_was_measured(policy, tmp_path, monkeypatch):
    config = module.make_config

    def small(content, source):
        evaluation = {**content["evaluation"], "every": 64, "deals": 10}
        return config({**content, **SMALL, "decisions": 192, "evaluation": evaluation}, source)

    monkeypatch.setattr(module, "make_config", small)
    monkeypatch.setattr(module, "SEARCH", "search:worlds=2")
    result = best_response(policy, tmp_path / "run", decisions=192, deals=10, workers=1)
    written = json.loads((tmp_path / "run" / "best_response.json").read_text())
    trained, search = result.trained, result.search
    assert (written["gain"], written["deals"]) == (trained.margin, 10)
    assert written["search"] == {
        "opponent": "search:worlds=2", "gain": search.margin, "half_width": search.half_width,
        "deals": 10,
    }  # fmt: skip
    assert result.bound == max(trained.margin, search.margin)
    assert written["from_the_policys_weights"] is True
    # The frozen policy is measured, and is as it was; so is the best of its opponents.
    assert trained.b == search.b == policy
    assert trained.a == str(tmp_path / "run" / "best")
    lines = (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()
    margins = {line["decisions"]: line["margin"] for line in map(json.loads, lines)}
    assert sorted(margins) == [0, 64, 128, 192]
    assert margins[0] == 0
    assert margins[written["best_after"]] == max(margins.values())
    # And into the card of the policy, whose weights stay as they are.
    before = load_file(Path(policy) / "policy.safetensors")
    into_card(Path(policy), policy, tmp_path / "run")
    card = LearnedPolicy.load(policy).card
    assert card.strength["best response"]["gain"] == pytest.approx(trained.margin, abs=1e-4)
    assert card.strength["best response"]["search"]["opponent"] == "search:worlds=2"
    after = load_file(Path(policy) / "policy.safetensors")
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_the_best_policy_of_a_run_is_kept_and_goes_on_with_it(policy, tmp_path, monkeypatch):
    found = iter([0.0, -0.5, 0.75, 0.25, 0.5])

    def evaluated(*_: Any, **__: Any) -> Evaluation:
        return replace(result, margin=next(found))

    result = evaluate("greedy", "random", deals=2)
    monkeypatch.setattr(selfplay, "evaluate", evaluated)
    settings = {
        "name": "x", "start": policy, "network": {"hidden": [8, 6], "action_hidden": 5},
        "evaluation": {"every": 64, "against": [policy], "keep_best": True}, **SMALL,
        "decisions": 128,
    }  # fmt: skip
    folder = RunFolder(tmp_path / "run")
    train(make_config(settings, "x"), folder)
    kept = load_file(folder.best / "policy.safetensors")
    last = load_file(folder.checkpoint / "policy.safetensors")
    assert all(np.array_equal(kept[key], last[key]) for key in kept)
    train(make_config({**settings, "decisions": 256}, "x"), folder, resume=True)
    best = LearnedPolicy.load(folder.best).card
    assert (best.training["decisions"], best.strength[policy]["margin"]) == (128, 0.75)
    later = load_file(folder.checkpoint / "policy.safetensors")
    assert not all(np.array_equal(kept[key], later[key]) for key in kept)


def test_of_a_policy_of_matches_it_is_matches_that_are_won(tmp_path, monkeypatch):
    make_policy(1, hidden=(8, 6), action_hidden=5, episode="match").save(tmp_path / "policy")
    name = str(tmp_path / "policy")
    config = module.make_config
    asked = {}

    def small(content, source):
        asked.update(content)
        evaluation = {**content["evaluation"], "every": 64, "deals": 6}
        return config({**content, **SMALL, "evaluation": evaluation}, source)

    monkeypatch.setattr(module, "make_config", small)
    monkeypatch.setattr(module, "SEARCH", "search:worlds=2")
    command = [name, "--run", str(tmp_path / "run"), "--decisions", "64", "--deals", "8"]
    result = CliRunner().invoke(module.app, [*command, "--card", name])
    assert result.exit_code == 0, result.output
    assert (asked["episode"], asked["reward"]) == ("match", "win")
    kept = LearnedPolicy.load(name).card.strength["best response"]
    assert kept["search"]["opponent"] == "search:worlds=2,utility=win"
    for found in (kept, kept["search"]):
        assert found["won"] + found["drawn"] + found["lost"] == 2 * found["deals"]
        assert f"{found['won']:,} won and {found['lost']:,} lost" in " ".join(result.output.split())
    text = f"{kept['won']} matches won, {kept['lost']} lost"
    assert text in "; ".join(results._results(kept, "gain"))


def test_the_best_of_a_run_that_learns_to_win_is_the_one_that_wins_most(tmp_path, monkeypatch):
    """Not the one of the highest margin."""
    played = iter([(0.0, 50, 50), (9.0, 40, 60), (-1.0, 60, 40), (5.0, 55, 35), (8.0, 45, 45)])

    def evaluated(*_: Any, **__: Any) -> Evaluation:
        margin, wins, losses = next(played)
        return replace(result, margin=margin, wins=wins, draws=100 - wins - losses, losses=losses)

    result = evaluate("greedy", "random", deals=2)
    monkeypatch.setattr(selfplay, "evaluate", evaluated)
    settings = {
        "name": "x", "episode": "match", "reward": "win",
        "network": {"hidden": [8, 6], "action_hidden": 5},
        "evaluation": {"every": 64, "against": ["greedy"], "keep_best": True}, **SMALL,
    }  # fmt: skip
    folder = RunFolder(tmp_path / "run")
    train(make_config({**settings, "decisions": 128}, "x"), folder)
    train(make_config({**settings, "decisions": 256}, "x"), folder, resume=True)
    best = LearnedPolicy.load(folder.best).card
    assert (best.training["decisions"], best.strength["greedy"]["won"]) == (128, 60)


def test_a_best_response_that_was_stopped_is_not_measured(policy, tmp_path, monkeypatch):
    class Stopped:
        card = make_policy(1).card.model_copy(update={"training": {"decisions": 128}})

    monkeypatch.setattr(module, "train", lambda *_, **__: Stopped)
    command = [policy, "--decisions", "640", "--run", str(tmp_path / "run"), "--card", policy]
    before = (Path(policy) / "card.json").read_bytes()
    result = CliRunner().invoke(module.app, command)
    assert result.exit_code == 130
    assert "resume with --resume" in result.output
    assert not (tmp_path / "run").exists()
    assert (Path(policy) / "card.json").read_bytes() == before


def test_a_result_goes_into_no_card_but_the_policys_own(policy, tmp_path):
    make_policy(2, hidden=(8, 6), action_hidden=5).save(tmp_path / "other")
    command = [policy, "--run", str(tmp_path / "run"), "--card", str(tmp_path / "other")]
    result = CliRunner().invoke(module.app, command)
    assert result.exit_code == 2
    assert "is not of policy" in result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"gain": 0.1}'])
def test_a_result_of_another_version_is_refused_by_name(text, tmp_path):
    (tmp_path / "best_response.json").write_text(text)
    with pytest.raises(ConfigError, match=r"best_response\.json is damaged or of another version"):
        module.for_card(tmp_path)


def test_a_run_killed_before_its_first_save_begins_from_its_start_again(policy, tmp_path):
    settings = {
        "name": "x", "start": policy, "network": {"hidden": [8, 6], "action_hidden": 5},
        "precision": "float32", "evaluation": {"deals": 2}, **SMALL,
    }  # fmt: skip
    config = make_config(settings, "x")
    whole = train(config, RunFolder(tmp_path / "a")).weights()
    RunFolder(tmp_path / "b").start(config)
    again = train(config, RunFolder(tmp_path / "b"), resume=True).weights()
    assert all(np.array_equal(whole[key], again[key]) for key in whole)


def test_a_run_stopped_in_its_last_update_is_evaluated_when_it_goes_on(
    policy, tmp_path, monkeypatch
):
    settings = {
        "name": "x", "start": policy, "network": {"hidden": [8, 6], "action_hidden": 5},
        "evaluation": {"every": 128, "against": [policy], "keep_best": True, "deals": 2},
        **SMALL, "decisions": 192,
    }  # fmt: skip
    folder = RunFolder(tmp_path / "run")
    update = selfplay.SelfPlayPPO.update
    stop = []

    def last(self, play, total):
        update(self, play, total)
        if self.num_timesteps >= 192:
            stop.append(True)

    @contextmanager
    def interrupted():
        yield lambda: bool(stop)

    with monkeypatch.context() as patch:
        patch.setattr(selfplay.SelfPlayPPO, "update", last)
        patch.setattr(selfplay, "interrupts", interrupted)
        train(make_config(settings, "x"), folder)
    train(make_config(settings, "x"), folder, resume=True)
    lines = [json.loads(line) for line in folder.evaluations.read_text().splitlines()]
    assert [line["decisions"] for line in lines] == [0, 128, 192]
    # And a damaged best is an error that names it.
    (folder.best / "card.json").write_text("{")
    with pytest.raises(ConfigError, match="best cannot be gone on with"):
        train(make_config({**settings, "decisions": 256}, "x"), folder, resume=True)


def test_a_kept_best_that_played_no_game_is_refused_by_name(tmp_path):
    played = {"margin": 0.5, "won": 0, "drawn": 0, "lost": 0}
    make_policy(1, strength={"greedy": played}).save(tmp_path / "best")
    assert selfplay._best_of(tmp_path / "best", "greedy", "margin") == 0.5
    with pytest.raises(ConfigError, match="best cannot be gone on with, its card is damaged"):
        selfplay._best_of(tmp_path / "best", "greedy", "win")


def test_an_opponent_can_learn_on_from_more_decisions(policy, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.start(response_config(policy, None, 500, 1, fresh=False))
    folder.reopen(response_config(policy, None, 1_000_000, 1, fresh=False))


def test_the_best_of_nobody_cannot_be_kept():
    settings = {"name": "x", **SMALL, "evaluation": {"against": [], "keep_best": True}}
    with pytest.raises(ConfigError, match="keep_best takes somebody to measure against"):
        make_config(settings, "x")


def test_the_opponent_plays_every_game_and_never_learns(policy):
    config = response_config(policy, None, 1000, 1, fresh=False)
    assert config.opponents == {policy: 1.0}
    assert config.start == policy
    assert response_config(policy, None, 1000, 1, fresh=True).start is None
    # At another table the policy's weights do not fit.
    assert response_config(policy, {"players": 3}, 1000, 1, fresh=False).start is None
    assert response_config("counting", None, 1000, 1, fresh=False).table() == make_rules("classic")


def test_learning_begins_from_the_weights_of_start(policy, tmp_path):
    settings = {
        "name": "x",
        "start": policy,
        "network": {"hidden": [8, 6], "action_hidden": 5},
        "learning_rate": 1e-12,
        "precision": "float32",
        "evaluation": {"deals": 2},
        **SMALL,
    }
    train(make_config(settings, "x"), RunFolder(tmp_path / "run"))
    before = load_file(Path(policy) / "policy.safetensors")
    after = load_file(tmp_path / "run" / "checkpoint" / "policy.safetensors")
    assert all(np.allclose(before[key], after[key], atol=1e-6) for key in before)


@pytest.mark.parametrize("head", [{}, {"state_to_head": True}])
def test_a_policy_of_matches_begins_as_the_policy_of_rounds_that_it_starts_from(head, tmp_path):
    """The scores, which that has never seen, count for nothing at first."""
    start = make_policy(1, hidden=(8, 6), action_hidden=5, head=head)
    start.save(tmp_path / "start")
    settings = {
        "name": "x",
        "start": str(tmp_path / "start"),
        "episode": "match",
        "reward": "win",
        "network": {"hidden": [8, 6], "action_hidden": 5, **head},
        "learning_rate": 1e-12,
        "precision": "float32",
        "evaluation": {"deals": 2},
        **SMALL,
    }
    learned = train(make_config(settings, "x"), RunFolder(tmp_path / "run"))
    batch = Batch(50, episode="match", skip_forced=True, seed=1)
    counting = load_policy("counting")
    for _ in range(150):
        playing = np.flatnonzero(~batch.over)
        batch.step(counting.act(batch.views(playing)), playing)
    views = batch.views(np.flatnonzero(~batch.over))
    assert views.records["scores"].any()
    difference = learned.probabilities(views) - start.probabilities(views)
    assert np.abs(difference).max() < 1e-4


def test_a_start_that_sees_what_the_learner_does_not_is_refused(tmp_path):
    make_policy(1, hidden=(8, 6), action_hidden=5, episode="match").save(tmp_path / "start")
    settings = {
        "name": "x",
        "start": str(tmp_path / "start"),
        "network": {"hidden": [8, 6], "action_hidden": 5},
        **SMALL,
    }
    with pytest.raises(ConfigError, match="is of another network"):
        train(make_config(settings, "x"), RunFolder(tmp_path / "run"))


@pytest.mark.parametrize("start", ["greedy", "nobody", "classic-2p"])
def test_a_start_that_does_not_fit_is_refused(start, tmp_path):
    config = make_config({"name": "x", "start": start, **SMALL}, "x")
    if start == "classic-2p":
        config = make_config({**config.model_dump(), "network": {"hidden": [8]}}, "x")
    with pytest.raises(ConfigError, match=f"start.*{start}"):
        train(config, RunFolder(tmp_path / "run"))


@pytest.mark.parametrize("name", ["nobody", "cheat:search"])
def test_a_policy_that_cannot_be_trained_against_is_refused(name, tmp_path):
    result = CliRunner().invoke(module.app, [name, "--run", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert name in result.stderr
