"""Expert iteration: labels are what the search says, and the student learns them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("yaml")

import torch

from escoba_env import Batch, load_policy, make_rules
from escoba_env.cards import NUM_ACTIONS
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.policies.match_odds import mean_point, points_of
from escoba_env.solver import solve_views
from training import distil as module
from training.config import ConfigError, make_settings
from training.distil import DistilConfig, Learner, distil, label_units
from training.labels import TEACHER, LabelError, LabelUnit, Shard, joined, label, load_shard

torch.set_num_threads(1)

TINY: dict[str, Any] = {
    "name": "tiny",
    "rounds": [{"deals": 40, "teacher": "search:worlds=4"}],
    "shard_deals": 10,
    "minibatch": 64,
    "network": {"hidden": [16], "action_hidden": 8},
    "measure": {"deals": 4, "against": ["random"]},
}


def tiny(**changes: Any) -> DistilConfig:
    return make_settings(DistilConfig, {**TINY, **changes}, "tiny")


def unit(path: Path, **changes: Any) -> LabelUnit:
    settings: dict[str, Any] = {
        "path": str(path), "rules": make_rules("classic"), "teacher": "search:worlds=4",
        "behaviour": TEACHER, "explore": 0.1, "seed": 5, "first": 0, "deals": 6,
    }  # fmt: skip
    return LabelUnit(**{**settings, **changes})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distil") / "run"
    distil(tiny(), folder, workers=1)
    return folder


# -- labels ---------------------------------------------------------------------------------


def test_labels_are_the_values_of_the_search():
    batch = Batch(30)
    batch.reset(3)
    views = batch.views()
    teacher = load_policy("search:worlds=8")
    found = label(teacher, views)
    np.testing.assert_allclose(found, teacher.action_values(views), rtol=1e-6)
    legal = batch.legal_masks() == 1
    assert not (np.isfinite(found) & ~legal).any()
    assert np.isfinite(found).any(1).all()


def test_the_end_is_labelled_by_exact_values():
    batch = Batch(60, skip_forced=True)
    batch.reset(3)
    policy = load_policy("counting")
    while (batch.states["turn_index"] < 32)[~batch.over].any():
        live = np.flatnonzero(~batch.over & (batch.states["turn_index"] < 32))
        batch.step(policy.act(batch.views(live)), live)
    live = np.flatnonzero(~batch.over)
    views = batch.views(live)
    assert len(views) > 20
    found = label(load_policy("search:worlds=4"), views)
    exact = solve_views(views).actions
    legal = batch.legal_masks(live) == 1
    np.testing.assert_array_equal(found[legal], exact[legal])
    assert np.isnan(found[~legal]).all()


def test_a_policy_that_says_no_values_is_no_teacher():
    batch = Batch(1)
    batch.reset(0)
    with pytest.raises(LabelError, match="teacher 'greedy' is not possible; allowed: policies"):
        label(load_policy("greedy"), batch.views())


def test_a_shard_is_read_as_it_was_written(tmp_path):
    work = unit(tmp_path / "a.safetensors")
    about = work.play(load_policy)
    shard = load_shard(tmp_path / "a.safetensors")
    assert shard.rules == make_rules("classic")
    assert len(shard.records) == len(shard.values) == about["labelled"]
    assert shard.about["teacher"] == "search:worlds=4"
    # A decision is a choice, and its labels are of legal actions.
    masks = (shard.records["legal"][:, None] >> np.arange(NUM_ACTIONS)) & 1
    assert ((masks == 1) | np.isnan(shard.values)).all()
    assert ((~np.isnan(shard.values)).sum(1) >= 2).all()
    assert about["noise"] > 0


def test_an_endgame_shard_holds_exact_labels_of_the_last_decisions_alone(tmp_path):
    work = unit(tmp_path / "a", behaviour="counting", endgame=True, deals=30)
    assert work.play(load_policy)["noise"] == 0
    shard = load_shard(tmp_path / "a")
    left = shard.records["stock_size"] - shard.records["stock_next"]
    assert len(left) > 60
    assert (left < 6).all()
    views = shard.views(np.arange(len(left)))
    exact = solve_views(views).actions
    labelled = ~np.isnan(shard.values)
    np.testing.assert_array_equal(shard.values[labelled], exact[labelled])


def test_endgame_deals_are_learned_from_beside_the_others(tmp_path):
    rounds = [{"deals": 20, "teacher": "search:worlds=2", "endgame_deals": 30}]
    policy = distil(tiny(rounds=rounds), tmp_path / "run", workers=1)
    labels = {
        path.name: len(load_shard(path).records) for path in tmp_path.rglob("*0*.safetensors")
    }
    assert sum(name.startswith("end-") for name in labels) == 3
    # All but the last whole shard, which is for validation.
    assert policy.card.training["labels"] == sum(labels.values()) - labels["0001-00.safetensors"]


def test_endgame_deals_are_played_at_the_tables_of_two_players_alone(tmp_path):
    tables = [{"players": 3}, {}, {"players": 4}, {"preset": "scopa"}]
    rounds = [{"deals": 80, "teacher": "search", "endgame_deals": 40}]
    config = tiny(encoding="universal_tactical", tables=tables, rounds=rounds)
    units = [unit for unit in label_units(config, 0, tmp_path, None) if unit.endgame]
    assert [(unit.rules.players, unit.first, unit.deals) for unit in units] == [
        (2, 0, 10), (2, 0, 10), (2, 10, 10), (2, 10, 10),
    ]  # fmt: skip
    assert [unit.rules.setenta for unit in units[:2]] == [0, 1]


def test_a_shard_depends_on_what_it_says_alone(tmp_path):
    for name in "ab":
        unit(tmp_path / name).play(load_policy)
    unit(tmp_path / "c", seed=6).play(load_policy)
    a, b, c = (load_shard(tmp_path / name) for name in "abc")
    assert a.records.tobytes() == b.records.tobytes()
    np.testing.assert_array_equal(a.values, b.values)
    assert a.records.tobytes() != c.records.tobytes()


def test_views_of_a_shard_hide_what_a_seat_does_not_know(tmp_path):
    unit(tmp_path / "a").play(load_policy)
    records = load_shard(tmp_path / "a").records
    assert (records["viewer"] == records["turn"]).all()


def test_more_exploration_makes_other_positions(tmp_path):
    unit(tmp_path / "a", explore=0.0).play(load_policy)
    unit(tmp_path / "b", explore=1.0).play(load_policy)
    a, b = load_shard(tmp_path / "a"), load_shard(tmp_path / "b")
    assert a.records.tobytes() != b.records.tobytes()


def test_a_behaviour_moves_where_it_is_named(tmp_path):
    unit(tmp_path / "a", behaviour="random", explore=0.0).play(load_policy)
    unit(tmp_path / "b", behaviour=TEACHER, explore=0.0).play(load_policy)
    assert (
        load_shard(tmp_path / "a").records.tobytes() != load_shard(tmp_path / "b").records.tobytes()
    )


@pytest.mark.parametrize("damage", ["cut", "foreign", "layout", "shape", "rules"])
def test_a_damaged_shard_is_refused(damage, tmp_path):
    path = tmp_path / "a.safetensors"
    unit(path).play(load_policy)
    content = path.read_bytes()
    tensors = load_file(path)
    metadata = {"layout": load_shard.__globals__["_LAYOUT"], "about": "{}", "rules": "{}"}
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "foreign":
        path.write_bytes(b"no shard")
    elif damage == "layout":
        save_file(tensors, path, {**metadata, "layout": "other"})
    elif damage == "shape":
        save_file({**tensors, "values": tensors["values"][:, :3].copy()}, path, metadata)
    else:
        save_file(tensors, path, {**metadata, "rules": '{"players": 9}'})
    with pytest.raises(LabelError, match=r"a\.safetensors"):
        load_shard(path)


# -- learning -------------------------------------------------------------------------------


def test_a_student_learns_what_the_labels_say(tmp_path):
    """With labels that a simple rule gives, the loss falls and choices follow the rule."""
    for place in range(3):
        unit(tmp_path / str(place), behaviour="counting", first=place * 40, deals=40).play(
            load_policy
        )
    shards = joined([load_shard(tmp_path / str(place)) for place in range(3)])
    config = tiny(epochs=6, learning_rate=3e-3, network={"hidden": [32], "action_hidden": 32})
    learner = Learner(config, 0, None)
    total = learner.steps_of(sum(len(shard.records) for shard in shards)) * config.epochs
    before, _ = learner.validate(shards)
    losses = [learner.epoch(shards, epoch, total, lambda _: None) for epoch in range(6)]
    after, _ = learner.validate(shards)
    assert losses[-1] < 0.7 * losses[0]
    assert after < 0.6 * before


def test_the_policy_of_a_run_loads_and_says_how_it_was_made(run):
    policy = load_policy(str(run / "checkpoint"))
    assert isinstance(policy, LearnedPolicy)
    assert policy.card.training["method"] == "training.distil"
    assert policy.card.strength["random"]["deals"] == 4
    assert policy.expects_margins
    batch = Batch(4)
    batch.reset(0)
    assert np.isfinite(policy.margins(batch.views())).all()


def test_the_same_config_gives_the_same_policy(run, tmp_path):
    distil(tiny(), tmp_path / "again", workers=1)
    a, b = (load_file(p / "checkpoint" / "policy.safetensors") for p in (run, tmp_path / "again"))
    assert all(np.array_equal(a[key], b[key]) for key in a)


def test_a_killed_run_goes_on_where_it_was(run, tmp_path, monkeypatch):
    """Killed after the first epoch: shards and that epoch are not done again."""
    folder = tmp_path / "killed"

    save = Learner.save

    def save_and_stop(self: Learner, path: Path, epochs: int) -> None:
        save(self, path, epochs)
        if epochs == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Learner, "save", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        distil(tiny(), folder, workers=1)
    monkeypatch.undo()
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    assert times
    distil(tiny(), folder, resume=True, workers=1)
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    a, b = (load_file(p / "checkpoint" / "policy.safetensors") for p in (run, folder))
    assert all(np.array_equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize(("once", "times"), [(True, 1), (False, 3)])
def test_labels_of_the_endgame_are_learned_from_once_if_asked(tmp_path, monkeypatch, once, times):
    rounds = [{"deals": 20, "teacher": "search:worlds=1", "endgame_deals": 40}]
    config = tiny(rounds=rounds, epochs=3, endgame_once=once, minibatch=64)
    epoch_of = Learner.epoch
    seen: list[list[bytes]] = []
    steps: list[int] = []

    def noted(self: Learner, data: list[Shard], epoch: int, total: int, note: Any) -> float:
        seen.append([row.tobytes() for shard in data for row in shard.records])
        steps.append(total)
        return epoch_of(self, data, epoch, total, note)

    monkeypatch.setattr(Learner, "epoch", noted)
    done = []
    monkeypatch.setattr(Learner, "validate", lambda self, _: done.append(self.step) or (0.0, 0.0))
    distil(config, tmp_path / "run", workers=1)
    assert len(seen) == 3
    # The learning rate falls over as many steps as are taken.
    assert set(steps) == {done[-1]}
    counts = Counter(record for epoch in seen for record in set(epoch))
    ends = [load_shard(path) for path in (tmp_path / "run/round-1/labels").glob("end-*")]
    of_the_end = {row.tobytes() for shard in ends for row in shard.records}
    whole = {
        row.tobytes()
        for row in load_shard(tmp_path / "run/round-1/labels/0000-00.safetensors").records
    }
    assert {counts[record] for record in of_the_end - whole} == {times}
    assert {counts[record] for record in whole} == {3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": 2, "teacher": "search:time=0.01,utility=win"}, "time=0.01"),
        ({"scores": 2, "teacher": "search:utility=win,rollout=classic-2p"}, "rollout='classic-2p'"),
        ({"teacher": "search:utility=win,worlds=1,policy=classic-3p"}, "another layout"),
        ({"teacher": "search:utility=win,worlds=1", "behaviour": "classic-3p"}, "another layout"),
    ],
)
def test_a_teacher_that_cannot_label_is_refused_before_anything_is_written(
    tmp_path, changes, message
):
    config = tiny(reward="win", rounds=[{"deals": 20, **changes}])
    with pytest.raises(ConfigError, match=rf"round 1 is not possible at table.*{message}"):
        distil(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_each_epoch_sees_labels_of_the_endgame_of_every_table(tmp_path, monkeypatch):
    rounds = [{"deals": 40, "teacher": "search:worlds=1", "endgame_deals": 80}]
    config = tiny(rounds=rounds, tables=[{}, {"escoba": 2}], epochs=2, endgame_once=True)
    seen = []
    epoch_of = Learner.epoch

    def noted(self, data, *given):
        seen.append(sorted(shard.rules.escoba for shard in data))
        return epoch_of(self, data, *given)

    monkeypatch.setattr(Learner, "epoch", noted)
    distil(config, tmp_path / "run", workers=1)
    assert seen == [[1, 1, 2, 2]] * 2


def test_in_matches_decisions_weigh_what_a_point_is_worth_at_their_score(tmp_path):
    teacher = "search:worlds=1,utility=win"
    for name, changes in (("match", {"episode": "match", "teacher": teacher}), ("round", {})):
        unit(tmp_path / name, deals=2, **changes).play(load_policy)
        shard = load_shard(tmp_path / name)
        rows = np.arange(len(shard.records))
        config = tiny(
            reward="win" if name == "match" else "margin",
            rounds=[{"deals": 20, "teacher": teacher}],
        )
        learner = Learner(config, 0, None)
        choices, targets, values, weights = learner._gather([shard], {0: rows})
        if name == "round":
            assert (weights == 1).all()
            continue
        expected = points_of(shard.views(rows)) / mean_point(shard.rules)
        assert len(np.unique(expected)) > 3
        np.testing.assert_allclose(weights, expected, rtol=1e-6)
        with torch.no_grad():
            logits, expected_values = learner.network.score(choices)
        whole = learner._losses(logits, expected_values, targets, values, weights)
        each = [
            learner._losses(
                *(part[[i]] for part in (logits, expected_values, targets, values)), torch.ones(1)
            )
            for i in range(50)
        ]
        some = learner._losses(
            *(part[:50] for part in (logits, expected_values, targets, values, weights))
        )
        for k in range(2):
            mean = sum(float(weights[i] * each[i][k]) for i in range(50)) / 50
            assert float(some[k]) == pytest.approx(mean, rel=1e-4)
            assert float(whole[k]) > 0


def test_learned_weights_are_averaged_with_those_of_the_start_if_asked(tmp_path, monkeypatch):
    distil(tiny(), tmp_path / "start", workers=1)
    start = str(tmp_path / "start" / "checkpoint")
    config = tiny(start=start, seed=8, average=0.25)
    distil(config, tmp_path / "mean", workers=1)
    monkeypatch.setattr(Learner, "average", lambda self: None)
    distil(config, tmp_path / "learned", workers=1)
    first, mean, learned = (
        load_file(tmp_path / name / "checkpoint" / "policy.safetensors")
        for name in ("start", "mean", "learned")
    )
    for key in first:
        np.testing.assert_allclose(mean[key], 0.75 * first[key] + 0.25 * learned[key], atol=1e-6)
    assert any((first[key] != learned[key]).any() for key in first)


def test_a_round_can_use_the_policy_of_the_round_before(tmp_path):
    rounds = [
        {"deals": 20, "teacher": "search:worlds=2"},
        {"deals": 20, "teacher": "search:worlds=2,rollout={policy}", "behaviour": "{policy}"},
    ]
    distil(tiny(rounds=rounds), tmp_path / "run", workers=1)
    about = load_shard(next((tmp_path / "run/round-2/labels").glob("*"))).about
    assert about["behaviour"] == str(tmp_path / "run/round-1/checkpoint")
    assert about["teacher"].endswith(f"rollout={about['behaviour']}")


def test_one_policy_for_tables_of_all_kinds(tmp_path):
    tables = [{}, {"preset": "comodines", "players": 3}, {"players": 4, "partnership": True}]
    config = tiny(
        tables=tables, encoding="universal_tactical",
        rounds=[{"deals": 60, "teacher": "search:worlds=2"}],
    )  # fmt: skip
    policy = distil(config, tmp_path / "run", workers=1)
    assert set(policy.card.strength) == {
        "random at table 1",
        "random at table 2",
        "random at table 3",
    }


def test_no_two_rounds_tables_or_seeds_share_a_deal():
    seeds = set()
    for seed in (1, 2):
        config = tiny(
            seed=seed,
            tables=[{}, {"escoba": 2}],
            rounds=[{"deals": 40, "teacher": "search:worlds=2"}] * 2,
        )
        for number in range(2):
            units = label_units(config, number, Path("x"), None)
            places = [(u.seed, u.first) for u in units]
            assert len(set(places)) == len(places)
            seeds |= {u.seed for u in units}
    assert len(seeds) == 8
    # Nor with the ladder's or the evaluations'.
    assert min(seeds) > 2**40


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tables": [{"players": 9}]}, "players"),
        ({"tables": [{}, {"players": 3}]}, "different layouts"),
        ({"rounds": []}, "rounds"),
        ({"rounds": [{"deals": 20, "teacher": "search:rollout={policy}"}]}, "none before it"),
        ({"rounds": [{"deals": 10, "teacher": "search"}]}, "fewer than 2 shards"),
        ({"rounds": [{"deals": 40, "teacher": "search", "explore": 1.5}]}, "explore"),
        ({"epochs": 0}, "epochs"),
        ({"average": 0.5}, "average=0.5 takes a start to average with"),
        (
            {"average": 0.5, "start": "x", "rounds": [{"deals": 40, "teacher": "search"}] * 2},
            "and one round alone",
        ),
        ({"reward": "win", "tables": [{"players": 3}]}, "reward: win is possible at tables of two"),
        ({"rounds": [{"deals": 40, "teacher": "search", "scores": 2}]}, "scores=2 of round 1 take"),
        (
            {
                "tables": [{"players": 3}],
                "rounds": [{"deals": 40, "teacher": "search", "endgame_deals": 40}],
            },
            "endgame_deals=40 of round 1 take a table of two players; tables has none",
        ),
        (
            {
                "encoding": "universal_tactical",
                "tables": [{}, {"preset": "scopa"}],
                "rounds": [{"deals": 40, "teacher": "search", "endgame_deals": 10}],
            },
            "endgame_deals=10 of round 1 are fewer .* of 2 tables .* allowed: 0, or more than 10",
        ),
        (
            {
                "rounds": [
                    {
                        "deals": 40,
                        "teacher": "search",
                        "endgame_deals": 40,
                        "endgame_behaviour": "teacher",
                    }
                ]
            },
            "endgame_deals=40 of round 1 take an endgame_behaviour other than 'teacher'",
        ),
        ({"surprise": 1}, "unknown key 'surprise'"),
    ],
)
def test_a_config_that_cannot_be_run_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        tiny(**changes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"teacher": "counting"}, "'counting' of round 1 does not say what every action is worth"),
        ({"teacher": "nobody"}, "teacher of round 1: policy 'nobody' is unknown"),
        ({"teacher": "search", "behaviour": "nobody"}, "behaviour of round 1: policy 'nobody'"),
    ],
)
def test_a_teacher_that_cannot_teach_is_refused_before_anything_is_done(
    settings, message, tmp_path
):
    with pytest.raises(ConfigError, match=message):
        distil(tiny(rounds=[{"deals": 20, **settings}]), tmp_path / "run", workers=1)
    assert not list((tmp_path / "run").glob("round-*"))


def test_a_start_of_another_network_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="'classic-2p' is of another network"):
        distil(tiny(start="classic-2p"), tmp_path / "run", workers=1)


def test_another_config_does_not_go_on_with_a_run(run):
    with pytest.raises(ConfigError, match="epochs differ"):
        distil(tiny(epochs=3), run, resume=True)
    with pytest.raises(ConfigError, match="is not empty: go on with --resume"):
        distil(tiny(), run)


def test_the_command_says_in_one_line_what_is_wrong(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(json.dumps({**TINY, "epochs": 0}))
    result = CliRunner().invoke(module.app, [str(path), "--run", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
