"""Training: the learner, runs that stop and go on, their configs and their command line."""

from __future__ import annotations

import csv
import io
import json
import math
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("yaml")
pytest.importorskip("sb3_contrib")

import torch
import yaml

from escoba_env.batch import Batch, Views
from escoba_env.cards import NUM_ACTIONS
from escoba_env.engine.record import STATE, lower
from escoba_env.evaluation import evaluate
from escoba_env.policies import load_policy
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.policies.network import Choices
from training import run_folder, selfplay
from training.config import Config, ConfigError, load_config, load_settings, make_config
from training.distil import DistilConfig
from training.ppo import SelfPlayPPO, frozen_policy, uses_bfloat16
from training.rollout import SeatRolloutBuffer, SelfPlay
from training.run_folder import RunFolder, batch_of

ROOT = Path(__file__).parents[1]
GAMES, STEPS = 32, 8
UPDATE = GAMES * STEPS
"""Decisions of one update."""


def settings(updates: int = 6, **changes: Any) -> dict[str, Any]:
    """Returns a config whose updates take milliseconds."""
    return {
        "name": "tiny",
        "seed": 4,
        "decisions": updates * UPDATE,
        "games": GAMES,
        "steps": STEPS,
        "minibatch": 64,
        "epochs": 2,
        "learning_rate": 3e-3,
        "threads": 1,
        # Whatever the processor can do, so that numbers can be compared.
        "precision": "float32",
        "network": {"hidden": [12, 8], "action_hidden": 8},
        "evaluation": {"every": 10**9, "deals": 4},
        "save_every": 10**9,
        **changes,
    }


def tiny(updates: int = 6, **changes: Any) -> Config:
    return make_config(settings(updates, **changes), "tiny")


def write_config(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def weights(network: torch.nn.Module) -> bytes:
    """All weights, bit for bit."""
    return b"".join(value.numpy().tobytes() for value in network.state_dict().values())


def some_views(**fields: Any) -> Views:
    batch = Batch(100, **fields, skip_forced=True, seed=77)
    for _ in range(5):
        batch.step(load_policy("random").act(batch.views()))
    return batch.views()


@pytest.fixture
def learner() -> Callable[..., tuple[SelfPlayPPO, SelfPlay]]:
    """Makes a learner and its games."""

    def make(config: Config, opponents: Any = ()) -> tuple[SelfPlayPPO, SelfPlay]:
        torch.set_num_threads(1)
        batch = batch_of(config)
        model = SelfPlayPPO(config, batch)
        return model, SelfPlay(batch, list(opponents), config.reward_scale, config.seed)

    return make


@pytest.fixture
def after_update(monkeypatch: pytest.MonkeyPatch) -> list[Callable[..., object]]:
    """Functions that are called with the learner and its games after each update."""
    listeners: list[Callable[..., object]] = []
    update = SelfPlayPPO.update

    def observed(self: SelfPlayPPO, play: SelfPlay, total: int) -> None:
        update(self, play, total)
        for listener in listeners:
            listener(self, play)

    monkeypatch.setattr(SelfPlayPPO, "update", observed)
    return listeners


TABLES: dict[str, dict[str, Any]] = {
    "two": {},
    "three": {"rules": {"players": 3}},
    "four": {"rules": {"players": 4}},
    "pairs": {"rules": {"players": 4, "partnership": True}},
    "argentine": {"rules": {"setenta": 1, "most_sevens": 0, "all_sevens": 0}},
    "match": {"rules": {"target": 5}, "episode": "match", "reward": "win"},
    "against others": {"opponents": {"past": 0.25, "greedy": 0.25, "random": 0.25}},
}


# -- the learner ----------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["two", "pairs", "match"])
def test_the_first_minibatch_of_an_update_has_probability_ratio_one(
    learner: Callable[..., tuple[SelfPlayPPO, SelfPlay]], table: str
) -> None:
    model, play = learner(tiny(**TABLES[table]), [(load_policy("greedy"), 0.5)])
    buffer = model.rollout_buffer
    assert isinstance(buffer, SeatRolloutBuffer)
    get, evaluate_actions = buffer.get, model.policy.evaluate_actions
    samples: list[Any] = []
    ratios: list[NDArray[Any]] = []

    def watched_get(size: int | None = None) -> Iterator[Any]:
        for sample in get(size):
            samples.append(sample)
            yield sample

    def watched_evaluate(*args: Any, **kwargs: Any) -> Any:
        values, log_probs, entropies = evaluate_actions(*args, **kwargs)
        sample = samples[-1]
        ratios.append(torch.exp(log_probs - sample.old_log_prob).detach().numpy())
        if len(ratios) == 1:
            # Nothing has been learned yet, so values too are those of the rollout.
            assert np.abs(values.detach().numpy() - sample.old_values.numpy()).max() < 1e-4
        return values, log_probs, entropies

    buffer.get = watched_get  # type: ignore[method-assign]
    model.policy.evaluate_actions = watched_evaluate  # type: ignore[method-assign]
    for _ in range(3):
        ratios.clear()
        model.update(play, 10 * UPDATE)
        assert len(ratios) == 2 * UPDATE // 64
        assert np.abs(ratios[0] - 1).max() < 1e-4
        assert np.abs(ratios[-1] - 1).max() > 1e-3
    masks = masks_of(samples[-1].observations)
    assert masks.shape == (64, NUM_ACTIONS)
    assert 2 <= masks.sum(1).min() <= masks.sum(1).max() < 20


def masks_of(choices: Choices) -> NDArray[np.int8]:
    """Returns action masks (n, 43) of decisions."""
    masks = np.zeros((len(choices.state), NUM_ACTIONS), np.int8)
    masks[choices.rows, choices.actions] = 1
    return masks


def rows_of_choices(
    learner: Callable[..., tuple[SelfPlayPPO, SelfPlay]], updates: int, **settings: Any
) -> tuple[SelfPlayPPO, SelfPlay, SeatRolloutBuffer, Choices]:
    """Trains for some updates, plays one more rollout and returns all its decisions."""
    rules = {"capture": "optional"}
    model, play = learner(tiny(rules=rules, learning_rate=0.02, entropy=0.0, **settings))
    for _ in range(updates):
        model.update(play, 1000 * UPDATE)
    buffer = model.rollout_buffer
    assert isinstance(buffer, SeatRolloutBuffer)
    play.collect(buffer, model.act)
    return model, play, buffer, buffer.choices(torch.arange(UPDATE))


@pytest.mark.parametrize("updates", [0, 25])
def test_probabilities_and_entropies_are_over_legal_actions_alone(
    learner: Callable[..., tuple[SelfPlayPPO, SelfPlay]], updates: int
) -> None:
    model, _, buffer, choices = rows_of_choices(learner, updates)
    masks = masks_of(choices)
    actions = torch.from_numpy(buffer.actions.reshape(-1))
    with torch.no_grad():
        logits = model.network.score(choices)[0].double().numpy()
        _, log_probs, entropies = model.policy.evaluate_actions(choices, actions)
    for row in range(UPDATE):
        legal = np.flatnonzero(masks[row])
        chances = np.exp(logits[row, legal] - logits[row, legal].max())
        chances /= chances.sum()
        place = int(np.flatnonzero(legal == actions[row].item())[0])
        assert log_probs[row].item() == pytest.approx(math.log(chances[place]), abs=1e-4)
        entropy = -sum(p * math.log(p) for p in chances if p > 0)
        assert entropies[row].item() == pytest.approx(entropy, abs=1e-4)
        assert entropies[row].item() <= math.log(len(legal)) + 1e-4
    if updates == 0:
        # The first policy is near uniform.
        assert entropies.numpy() == pytest.approx(np.log(masks.sum(1)), abs=0.01)
    else:
        assert (entropies.numpy() < np.log(masks.sum(1)) - 0.05).mean() > 0.3


@pytest.mark.parametrize("updates", [0, 25])
def test_illegal_actions_are_never_drawn_and_have_no_probability(
    learner: Callable[..., tuple[SelfPlayPPO, SelfPlay]], updates: int
) -> None:
    model, play, _, choices = rows_of_choices(learner, updates)
    masks = masks_of(choices)
    drawn = np.array([model.act(choices)[0] for _ in range(40)])
    assert masks[np.arange(UPDATE), drawn].all()
    assert len({tuple(row) for row in drawn}) == 40
    with torch.no_grad():
        best = model.policy(choices, deterministic=True)
    assert masks[np.arange(UPDATE), best[0].numpy()].all()
    config = tiny(rules={"capture": "optional"})
    policy = frozen_policy(config, play.batch, model)
    probabilities = policy.probabilities(play.batch.views())
    legal = play.batch.legal_masks().astype(np.bool_)
    assert (probabilities[~legal] == 0).all()
    assert probabilities.sum(1) == pytest.approx(np.ones(GAMES), abs=1e-5)


def test_a_rollout_keeps_all_that_the_network_reads_of_its_observations(
    learner: Callable[..., tuple[SelfPlayPPO, SelfPlay]],
) -> None:
    model, play = learner(tiny(), [(load_policy("greedy"), 0.5)])
    buffer = model.rollout_buffer
    assert isinstance(buffer, SeatRolloutBuffer)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def act(choices: Choices) -> Any:
        if not buffer.full:
            observations, masks = play.batch.observe()
            seen.append((torch.from_numpy(observations), torch.from_numpy(masks)))
        return model.act(choices)

    play.collect(buffer, act)
    dense, masks = (torch.cat(parts) for parts in zip(*seen, strict=True))
    rows = torch.randperm(UPDATE)
    with torch.no_grad():
        wanted = model.network(dense[rows], masks[rows])
        found = model.network.score(buffer.choices(rows))
    torch.testing.assert_close(found, wanted)


def test_low_precision_is_of_the_layers_alone(
    learner: Callable[..., tuple[SelfPlayPPO, SelfPlay]],
) -> None:
    model, _, buffer, choices = rows_of_choices(learner, 2, precision="bfloat16")
    for parameter in model.network.parameters():
        assert parameter.dtype == torch.float32
    actions = torch.from_numpy(buffer.actions.reshape(-1))
    found = model.policy.evaluate_actions(choices, actions)
    model.policy.low_precision = False  # type: ignore[assignment]
    for low, full in zip(found, model.policy.evaluate_actions(choices, actions), strict=True):
        assert low.dtype == full.dtype == torch.float32
        difference = (low - full).abs().max().item()
        assert 0 < difference < 0.1


def test_automatic_precision_asks_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    for supported in (False, True):
        for feature in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
            monkeypatch.setattr(torch.cpu, feature, lambda supported=supported: supported)
        assert uses_bfloat16("auto") is supported
        assert uses_bfloat16("bfloat16")
        assert not uses_bfloat16("float32")


def test_the_learning_rate_falls_linearly_to_its_end(
    learner: Callable[..., tuple[SelfPlayPPO, SelfPlay]],
) -> None:
    model, play = learner(tiny(learning_rate=0.8e-3, final_learning_rate=0.4e-3))
    rates = []
    for _ in range(5):
        model.update(play, 4 * UPDATE)
        rates.append(model.policy.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.7e-3, 0.6e-3, 0.5e-3, 0.4e-3, 0.4e-3])
    assert model.num_timesteps == 5 * UPDATE


def test_rewards_are_scaled_inside_the_learner_alone(
    learner: Callable[..., tuple[SelfPlayPPO, SelfPlay]],
) -> None:
    earned = []
    for scale in (0.5, 2.0):
        model, play = learner(tiny(reward_scale=scale, steps=40))
        buffer = model.rollout_buffer
        assert isinstance(buffer, SeatRolloutBuffer)
        play.collect(buffer, model.act)
        earned.append(buffer.earned.copy())
    assert np.abs(earned[0]).sum() > 0
    assert earned[1] == pytest.approx(4 * earned[0])


@pytest.mark.parametrize("table", TABLES)
def test_a_run_learns_saves_and_its_policy_plays(tmp_path: Path, table: str) -> None:
    config = tiny(2, **TABLES[table])
    folder = RunFolder(tmp_path / "run")
    policy = selfplay.train(config, folder)
    untrained = SelfPlayPPO(config, batch_of(config))
    before, after = untrained.network.state_dict(), policy.network.state_dict()
    for key, value in after.items():
        assert torch.isfinite(value).all()
        if key != "action_head.bias":
            # (One number for all actions alike, which moves no probability.)
            assert not torch.equal(value, before[key]), key
    loaded = load_policy(str(folder.checkpoint))
    assert isinstance(loaded, LearnedPolicy)
    assert weights(loaded.network) == weights(policy.network)
    assert loaded.card.rules == config.table().as_dict()
    assert loaded.card.training["decisions"] == 2 * UPDATE
    assert set(loaded.card.strength) == {"greedy"}
    evaluate(loaded, "random", config.table(), episode=config.episode, deals=3)
    with (folder.log / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["time/decisions_per_second"]) > 0 for row in rows] == [True, True]
    assert all(math.isfinite(float(row["train/loss"])) for row in rows)


def test_a_short_run_beats_greedy_clearly(tmp_path: Path) -> None:
    config = tiny(
        decisions=65_536,
        games=256,
        steps=64,
        minibatch=2048,
        epochs=4,
        learning_rate=1e-3,
        network={"hidden": [64, 64], "action_hidden": 64},
    )
    policy = selfplay.train(config, RunFolder(tmp_path / "run"))
    result = evaluate(policy, "greedy", deals=400)
    assert result.interval[0] > 0.25


# -- frozen policies ------------------------------------------------------------------------


def test_a_frozen_policy_stays_as_it_is_while_the_learner_learns(
    learner: Callable[..., tuple[SelfPlayPPO, SelfPlay]],
) -> None:
    config = tiny()
    model, play = learner(config)
    frozen = frozen_policy(config, play.batch, model)
    views = some_views()
    before = frozen.probabilities(views)
    for _ in range(3):
        model.update(play, 10 * UPDATE)
    assert (frozen.probabilities(views) == before).all()
    now = frozen_policy(config, play.batch, model)
    assert np.abs(now.probabilities(views) - before).max() > 1e-3
    assert weights(now.network) == weights(model.network)


@pytest.mark.parametrize("stop", [None, 4])
def test_past_is_the_learner_at_the_last_refresh(
    tmp_path: Path, after_update: list[Callable[..., object]], stop: int | None
) -> None:
    config = tiny(
        8, past_every=3, opponents={"random": 0.25, "past": 0.5}, final_learning_rate=1e-3
    )
    learned: list[bytes] = []
    past: list[bytes] = []

    def listen(model: SelfPlayPPO, play: SelfPlay) -> None:
        learned.append(weights(model.network))
        opponent = play.policies[1]
        assert isinstance(opponent, LearnedPolicy)
        past.append(weights(opponent.network))
        if len(learned) == stop:
            signal.raise_signal(signal.SIGINT)

    after_update.append(listen)
    selfplay.train(config, RunFolder(tmp_path / "run"))
    if stop:
        assert len(learned) == stop
        selfplay.train(config, RunFolder(tmp_path / "run"), resume=True)
    first = weights(SelfPlayPPO(config, batch_of(config)).network)
    # During updates 1 to 3 it is the first learner, then the one after update 3, then after 6.
    assert len(set(learned)) == 8
    assert past == [first] * 3 + [learned[2]] * 3 + [learned[5]] * 2


def test_a_checkpoint_as_opponent_stays_as_it_is(
    tmp_path: Path, after_update: list[Callable[..., object]]
) -> None:
    teacher = selfplay.train(tiny(2), RunFolder(tmp_path / "teacher"))
    folder = tmp_path / "teacher" / "checkpoint"
    seen: list[bytes] = []
    after_update.append(lambda model, play: seen.append(weights(play.policies[0].network)))
    selfplay.train(tiny(4, opponents={str(folder): 0.5}), RunFolder(tmp_path / "run"))
    assert seen == [weights(teacher.network)] * 4
    loaded = load_policy(str(folder))
    assert isinstance(loaded, LearnedPolicy)
    assert weights(loaded.network) == weights(teacher.network)


def test_the_opponents_of_a_run_are_those_of_its_config(
    tmp_path: Path, after_update: list[Callable[..., object]]
) -> None:
    selfplay.train(tiny(1), RunFolder(tmp_path / "teacher"))
    folder = tmp_path / "teacher" / "checkpoint"
    shares = {"greedy": 0.25, "past": 0.25, f"{folder}:sample=true": 0.25}
    names: list[list[str]] = []
    games: list[list[int]] = []

    def listen(model: SelfPlayPPO, play: SelfPlay) -> None:
        names.append([policy.name for policy in play.policies])
        games.append([int((play.opponent_of == number).any(1).sum()) for number in (0, 1, 2, -1)])
        assert isinstance(play.policies[2], LearnedPolicy)
        assert play.policies[2].sample

    after_update.append(listen)
    selfplay.train(tiny(2, name="mine", opponents=shares), RunFolder(tmp_path / "run"))
    assert names == [["greedy", "mine", "tiny"]] * 2
    # The learner plays in every game, alone in a quarter of them.
    assert games == [[8, 8, 8, 32]] * 2


# -- runs that stop and go on ---------------------------------------------------------------


LONG: dict[str, dict[str, Any]] = {
    "self-play": {},
    "opponents": {"opponents": {"past": 0.25, "greedy": 0.25, "random": 0.25}, "past_every": 2},
    "saves and evaluations": {
        "save_every": 2 * UPDATE,
        "evaluation": {"every": 2 * UPDATE, "deals": 4, "against": ["greedy", "random"]},
    },
    "three players": {"rules": {"players": 3}, "episode": "match"},
}


def stopped_after(
    after_update: list[Callable[..., object]],
    config: Config,
    folder: RunFolder,
    stops: tuple[int, ...],
) -> LearnedPolicy:
    """Trains with Ctrl-C after some updates, resuming each time."""
    done: list[int] = []

    def listen(model: SelfPlayPPO, play: SelfPlay) -> None:
        done.append(model.num_timesteps // UPDATE)
        if done[-1] in stops:
            signal.raise_signal(signal.SIGINT)

    after_update.append(listen)
    for number in range(len(stops) + 1):
        policy = selfplay.train(config, folder, resume=number > 0)
        assert done[-1] == (*stops, 6)[number]
    # Nothing has been done twice, and nothing left out.
    assert done == [1, 2, 3, 4, 5, 6]
    after_update.remove(listen)
    return policy


@pytest.mark.parametrize("stops", [(3,), (1, 2, 4)])
@pytest.mark.parametrize("kind", LONG)
def test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not(
    tmp_path: Path, after_update: list[Callable[..., object]], kind: str, stops: tuple[int, ...]
) -> None:
    config = tiny(6, **LONG[kind])
    whole = selfplay.train(config, RunFolder(tmp_path / "whole"))
    parts = stopped_after(after_update, config, RunFolder(tmp_path / "parts"), stops)
    assert weights(parts.network) == weights(whole.network)


def test_the_weights_of_a_run_do_not_depend_on_saves_and_evaluations(tmp_path: Path) -> None:
    few = selfplay.train(tiny(6), RunFolder(tmp_path / "few"))
    many = selfplay.train(
        tiny(6, save_every=1, evaluation={"every": 1, "deals": 4}), RunFolder(tmp_path / "many")
    )
    assert weights(few.network) == weights(many.network)


def test_two_runs_of_one_seed_are_alike_and_of_another_are_not(tmp_path: Path) -> None:
    config = tiny(2, **LONG["opponents"])
    first, again, other = (
        weights(selfplay.train(c, RunFolder(tmp_path / str(i))).network)
        for i, c in enumerate([config, config, tiny(2, seed=5, **LONG["opponents"])])
    )
    assert first == again != other


@pytest.mark.parametrize("stops", [(3,), (1, 2, 4)])
def test_an_interrupted_run_is_evaluated_when_one_that_was_not_is(
    tmp_path: Path, after_update: list[Callable[..., object]], stops: tuple[int, ...]
) -> None:
    config = tiny(6, **LONG["saves and evaluations"])
    whole, parts = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "parts")
    selfplay.train(config, whole)
    stopped_after(after_update, config, parts, stops)

    def evaluated(folder: RunFolder) -> list[tuple[int, str]]:
        lines = folder.evaluations.read_text().splitlines()
        return [(e["decisions"] // UPDATE, e["against"]) for e in map(json.loads, lines)]

    expected = [(n, against) for n in (2, 4, 6) for against in ("greedy", "random")]
    assert evaluated(whole) == expected
    assert evaluated(parts) == expected


def test_a_resumed_run_keeps_the_log_of_what_went_before(
    tmp_path: Path, after_update: list[Callable[..., object]]
) -> None:
    folder = RunFolder(tmp_path / "run")
    stopped_after(after_update, tiny(6), folder, (4,))
    text = "".join(p.read_text() for p in sorted(folder.log.rglob("*.csv")))
    assert text.count("train/loss") >= 1
    # Six updates, a line each, under one or more headings.
    assert len(text.splitlines()) - text.count("train/loss") == 6


def test_resuming_a_finished_run_changes_nothing_about_its_policy(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    before = selfplay.train(tiny(2), folder)
    after = selfplay.train(tiny(2), folder, resume=True)
    assert weights(after.network) == weights(before.network)
    assert before.card.strength["greedy"]["decisions"] == 2 * UPDATE
    assert after.card.strength == before.card.strength
    assert LearnedPolicy.load(folder.checkpoint).card.strength == before.card.strength


def test_a_run_may_be_made_longer(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    short = selfplay.train(tiny(2), folder)
    long = selfplay.train(tiny(5), folder, resume=True)
    assert long.card.training["decisions"] == 5 * UPDATE
    assert weights(long.network) != weights(short.network)


def test_ctrl_c_stops_after_the_update_saves_and_says_so(
    tmp_path: Path, after_update: list[Callable[..., object]], capsys: pytest.CaptureFixture[str]
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    after_update.append(lambda model, play: signal.raise_signal(signal.SIGINT))
    folder = RunFolder(tmp_path / "run")
    policy = selfplay.train(tiny(6), folder)
    assert signal.getsignal(signal.SIGINT) is handler
    assert policy.card.training["decisions"] == UPDATE
    assert LearnedPolicy.load(folder.checkpoint).card == policy.card
    assert torch.load(folder.resume, weights_only=True)["decisions"] == UPDATE
    message = " ".join(capsys.readouterr().err.split())
    assert "stopping after this update" in message
    assert f"stopped at {UPDATE} decisions; go on with --resume" in message


def test_a_second_ctrl_c_stops_at_once_and_the_run_goes_on_from_its_last_save(
    tmp_path: Path, after_update: list[Callable[..., object]]
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    config = tiny(6, save_every=2 * UPDATE)
    folder = RunFolder(tmp_path / "run")

    def listen(model: SelfPlayPPO, play: SelfPlay) -> None:
        if model.num_timesteps == 3 * UPDATE:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    after_update.append(listen)
    with pytest.raises(KeyboardInterrupt):
        selfplay.train(config, folder)
    assert signal.getsignal(signal.SIGINT) is handler
    assert torch.load(folder.resume, weights_only=True)["decisions"] == 2 * UPDATE
    after_update.clear()
    parts = selfplay.train(config, folder, resume=True)
    whole = selfplay.train(config, RunFolder(tmp_path / "whole"))
    assert weights(parts.network) == weights(whole.network)


def test_a_run_that_failed_before_its_first_save_begins_again(
    tmp_path: Path, after_update: list[Callable[..., object]]
) -> None:
    folder = RunFolder(tmp_path / "run")

    def fail(model: SelfPlayPPO, play: SelfPlay) -> None:
        raise OSError("the lights went out")

    after_update.append(fail)
    with pytest.raises(OSError, match="lights"):
        selfplay.train(tiny(3), folder)
    after_update.clear()
    parts = selfplay.train(tiny(3), folder, resume=True)
    whole = selfplay.train(tiny(3), RunFolder(tmp_path / "whole"))
    assert weights(parts.network) == weights(whole.network)


@pytest.mark.parametrize(("fails", "saved"), [("resume.pt", 2), ("checkpoint", 4)])
def test_a_save_that_fails_half_way_leaves_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, saved: int
) -> None:
    """The resume point is written first: with it the save is done."""
    config = tiny(6, save_every=2 * UPDATE)
    folder = RunFolder(tmp_path / "run")
    saves: list[str] = []
    write, save = run_folder.write_resume_point, LearnedPolicy.save

    def failing(name: str, original: Callable[..., None]) -> Callable[..., None]:
        def once(*args: Any) -> None:
            saves.append(name)
            if name == fails and saves.count(name) == 2:
                raise OSError("disk full")
            original(*args)

        return once

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "write_resume_point", failing("resume.pt", write))
        patch.setattr(LearnedPolicy, "save", failing("checkpoint", save))
        with pytest.raises(OSError, match="disk full"):
            selfplay.train(config, folder)
    assert torch.load(folder.resume, weights_only=True)["decisions"] == saved * UPDATE
    assert LearnedPolicy.load(folder.checkpoint).card.training["decisions"] == 2 * UPDATE
    parts = selfplay.train(config, folder, resume=True)
    whole = selfplay.train(config, RunFolder(tmp_path / "whole"))
    assert weights(parts.network) == weights(whole.network)


# -- in a process of its own ----------------------------------------------------------------


def start(config: Path, run: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "training.selfplay", config, "--run", run, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Waits until a run has written a file."""
    for _ in range(6000):
        if path.exists():
            return
        if process.poll() is not None:
            pytest.fail(f"the run ended early: {process.communicate()}")
        time.sleep(0.01)
    process.kill()
    pytest.fail(f"no {path} after a minute")


LIVE_UPDATE = 64 * 16
LIVE = {
    "games": 64,
    "steps": 16,
    "minibatch": 256,
    "save_every": 3 * LIVE_UPDATE,
    "decisions": 60 * LIVE_UPDATE,
}


def test_a_killed_run_goes_on_from_its_last_save(tmp_path: Path) -> None:
    content = settings(**LIVE)
    config = write_config(tmp_path / "tiny.yaml", content)
    process = start(config, tmp_path / "run")
    wait_for(tmp_path / "run" / "resume.pt", process)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    saved = torch.load(tmp_path / "run" / "resume.pt", weights_only=True)["decisions"]
    assert 3 * LIVE_UPDATE <= saved < 60 * LIVE_UPDATE
    parts = selfplay.train(load_config(config), RunFolder(tmp_path / "run"), resume=True)
    whole = selfplay.train(load_config(config), RunFolder(tmp_path / "whole"))
    assert weights(parts.network) == weights(whole.network)
    assert parts.card.training["decisions"] == whole.card.training["decisions"] == 60 * LIVE_UPDATE


def test_a_run_stopped_by_ctrl_c_ends_well_and_goes_on(tmp_path: Path) -> None:
    config = write_config(tmp_path / "tiny.yaml", settings(**LIVE))
    process = start(config, tmp_path / "run")
    wait_for(tmp_path / "run" / "resume.pt", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    # The next command of a shell's && does not run.
    assert process.returncode == 130
    assert out.split() == ["policy:", str(tmp_path / "run" / "checkpoint")]
    assert re.search(r"stopped at [\d,]+ decisions; go on with --resume", " ".join(err.split()))
    assert "Traceback" not in err
    saved = torch.load(tmp_path / "run" / "resume.pt", weights_only=True)["decisions"]
    assert 3 * LIVE_UPDATE <= saved < 60 * LIVE_UPDATE
    policy = LearnedPolicy.load(tmp_path / "run" / "checkpoint")
    assert policy.card.training["decisions"] == saved
    longer = ("--decisions", saved + LIVE_UPDATE)
    assert command(config, "--run", tmp_path / "run", "--resume", *longer).exit_code == 0
    policy = LearnedPolicy.load(tmp_path / "run" / "checkpoint")
    assert policy.card.training["decisions"] == saved + LIVE_UPDATE


# -- the command line -----------------------------------------------------------------------


def command(*arguments: object) -> Any:
    return CliRunner().invoke(selfplay.app, [str(argument) for argument in arguments])


def fault(*arguments: object) -> str:
    """Runs a command that must fail as a person's mistakes do; returns what it says."""
    result = command(*arguments)
    assert result.exit_code == 2, (result.exit_code, result.exception)
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return str(result.stderr)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path / "tiny.yaml", settings(2))


@pytest.fixture
def run(tmp_path: Path, config: Path) -> Path:
    """A run that has been stopped half way."""
    selfplay.train(load_config(config, decisions=UPDATE), RunFolder(tmp_path / "run"))
    return tmp_path / "run"


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_the_command_trains_and_says_where_the_policy_is(tmp_path: Path, config: Path) -> None:
    result = command(config, "--run", tmp_path / "run")
    assert result.exit_code == 0
    assert result.stdout.split() == ["policy:", str(tmp_path / "run" / "checkpoint")]
    load_policy(str(tmp_path / "run" / "checkpoint"))


def test_a_run_folder_is_named_by_name_and_seed(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(config, "--seed", 12, "--decisions", UPDATE).exit_code == 0
    card = LearnedPolicy.load("runs/tiny-12/checkpoint").card
    assert card.training["config"]["seed"] == 12
    assert card.training["decisions"] == UPDATE


def test_a_run_folder_that_is_not_empty_is_not_touched_without_resume(
    config: Path, run: Path
) -> None:
    before = contents(run)
    message = fault(config, "--run", run)
    assert f"run folder {run} is not empty" in message
    assert "--resume" in message
    assert contents(run) == before


def test_a_file_in_place_of_the_run_folder_is_refused(tmp_path: Path, config: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert str(tmp_path / "file") in fault(config, "--run", tmp_path / "file")
    assert str(tmp_path / "file") in fault(config, "--run", tmp_path / "file", "--resume")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_there_is_nothing_to_resume_in_an_empty_or_missing_folder(
    tmp_path: Path, config: Path, kind: str
) -> None:
    if kind == "empty":
        (tmp_path / "run").mkdir()
    message = fault(config, "--run", tmp_path / "run", "--resume")
    assert f"there is no run to resume in {tmp_path / 'run'}" in message
    assert not (tmp_path / "run").exists() or not any((tmp_path / "run").iterdir())


@pytest.mark.parametrize(
    "changes",
    [
        {"learning_rate": 0.1},
        {"seed": 9},
        {"rules": {"players": 3}},
        {"network": {"hidden": [12], "action_hidden": 8}, "clip": 0.1},
        {"opponents": {"past": 0.5}},
    ],
)
def test_resuming_with_another_config_is_refused_by_what_differs(
    tmp_path: Path, run: Path, changes: dict[str, Any]
) -> None:
    other = write_config(tmp_path / "other.yaml", settings(2, **changes))
    before = contents(run)
    message = fault(other, "--run", run, "--resume")
    assert f"another config: {', '.join(sorted(changes))} differ" in message
    assert contents(run) == before


def test_a_config_that_says_the_same_in_other_words_resumes(tmp_path: Path, run: Path) -> None:
    other = write_config(
        tmp_path / "other.yaml",
        {**settings(3), "learning_rate": 0.003, "clip": 0.2, "opponents": {}, "rules": {}},
    )
    assert command(other, "--run", run, "--resume").exit_code == 0


@pytest.mark.parametrize("content", [b"", b"- 1", b"name: tiny", b"\xff\xfe"])
def test_a_damaged_config_in_the_run_folder_is_refused(
    config: Path, run: Path, content: bytes
) -> None:
    (run / "config.yaml").write_bytes(content)
    assert "config" in fault(config, "--run", run, "--resume")


class Payload:
    """Creates a file where it is unpickled."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.witness,)


def torch_file(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def damaged(kind: str, path: Path, witness: Path) -> bytes:
    whole = path.read_bytes()
    content = torch.load(path, weights_only=True)
    if kind.startswith("truncated"):
        return whole[: int(kind.split()[1])]
    if kind == "garbage":
        return b"resume me" * 100
    if kind == "a pickle":
        return pickle.dumps(Payload(witness))
    if kind == "a torch file with a payload":
        return torch_file({**content, "policy": Payload(witness)})
    if kind == "an old torch file with a payload":
        buffer = io.BytesIO()
        torch.save(Payload(witness), buffer, _use_new_zipfile_serialization=False)
        return buffer.getvalue()
    if kind == "no mapping":
        return torch_file([1, 2, 3])
    if kind == "a number":
        return torch_file(5)
    key, _, what = kind.partition(" ")
    if what == "missing":
        del content[key]
    elif what == "of another type":
        content[key] = 1.5
    elif what == "nothing":
        content[key] = None
    elif what == "shorter":
        content[key] = content[key][:-1]
    elif what == "empty":
        content[key] = {}
    elif key == "games":
        field, value = what.split("=")
        games = np.frombuffer(content["games"].numpy().tobytes(), STATE).copy()
        games[field][7] = int(value)
        content["games"] = torch.from_numpy(np.frombuffer(games.tobytes(), np.uint8).copy())
    elif key in CHANGES:
        content[key] = CHANGES[key][what](content[key])
    return torch_file(content)


def _weights_like(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    """Changes one tensor of a state dict."""

    def changed(given: Any) -> Any:
        key = next(iter(given))
        return {**given, key: change(given[key])}

    return changed


def _moments_like(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Changes Adam's moments of one weight."""

    def changed(given: Any) -> Any:
        return {**given, "state": {**given["state"], 0: change(given["state"][0])}}

    return changed


def _filled(value: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda given: torch.full_like(given, value)


CHANGES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "policy": {
        "nan": _weights_like(lambda value: value * float("nan")),
        "double": _weights_like(lambda value: value.double()),
        "wider": _weights_like(lambda value: torch.cat([value, value])),
    },
    "optimizer": {
        "wider": _moments_like(lambda m: {**m, "exp_avg": torch.cat([m["exp_avg"]] * 2)}),
        "negative": _moments_like(lambda m: {**m, "exp_avg_sq": m["exp_avg_sq"] - 1}),
        "nan": _moments_like(lambda m: {**m, "exp_avg": m["exp_avg"] * float("nan")}),
        "strange": _moments_like(lambda m: {**m, "hessian": m["exp_avg"]}),
        "farther": lambda given: {**given, "state": {10**6: given["state"][0]}},
    },
    "opponent_of": {"far": _filled(5), "negative": _filled(-7), "double": lambda v: v.double()},
    "league_games": {"member": _filled(0), "wider": lambda value: value.repeat(1, 2)},
    "seconds": {"nan": lambda _: float("nan"), "negative": lambda _: -1.0},
    "decisions": {"negative": lambda _: -1, "huge": lambda _: 10**30, "double": lambda _: 2.5},
    "strength": {
        "deep": lambda _: "[" * 10**5,
        "a list": lambda _: "[1]",
        "to come": lambda _: '{"greedy": {"margin": 1.0, "decisions": 1000000}}',
        "endless": lambda _: '{"greedy": {"margin": Infinity, "decisions": 0}}',
    },
    "best": {"to come": lambda _: {"decisions": 10**9, "worth": 1.0}, "a list": lambda _: [1]},
    "random": {"huge": lambda given: given.replace('"inc": ', '"inc": 9999999999999999999')},
}


@pytest.mark.parametrize(
    "kind",
    [
        "truncated 0",
        "truncated 1",
        "truncated 500",
        "truncated -1",
        "truncated -5000",
        "garbage",
        "a pickle",
        "a torch file with a payload",
        "an old torch file with a payload",
        "no mapping",
        "a number",
        "policy missing",
        "policy of another type",
        "policy empty",
        "optimizer missing",
        "optimizer of another type",
        "optimizer empty",
        "games missing",
        "games of another type",
        "games nothing",
        "games shorter",
        "opponent_of shorter",
        "opponent_of of another type",
        "random missing",
        "random of another type",
        "torch_random of another type",
        "torch_random shorter",
        "decisions nothing",
        "games turn=100",
        "games legal=-1",
        "games hands=-1",
        "games stock_next=100",
        "games phase=2",
        *(f"{key} {what}" for key, changes in CHANGES.items() for what in changes),
    ],
)
def test_a_damaged_resume_point_is_refused_and_nothing_in_it_is_run(
    tmp_path: Path, config: Path, run: Path, kind: str
) -> None:
    witness = tmp_path / "witness"
    (run / "resume.pt").write_bytes(damaged(kind, run / "resume.pt", witness))
    before = contents(run)
    message = fault(config, "--run", run, "--resume")
    assert f"{run / 'resume.pt'} cannot be resumed from" in message
    assert message.count("\n") == 1
    assert len(message) < 1000
    assert not witness.exists()
    after = contents(run)
    for name in ("resume.pt", "config.yaml", "checkpoint/card.json"):
        assert after[name] == before[name]


def test_the_payload_of_these_tests_works(tmp_path: Path) -> None:
    for content in (pickle.dumps(Payload(tmp_path / "a")), torch_file(Payload(tmp_path / "b"))):
        if content.startswith(b"PK"):
            torch.load(io.BytesIO(content), weights_only=False)
        else:
            pickle.loads(content)  # noqa: S301
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opponents": {"gredy": 0.5}}, "gredy"),
        ({"opponents": {"runs/nobody/checkpoint": 0.5}}, "runs/nobody/checkpoint"),
        ({"opponents": {"greedy:depth=2": 0.5}}, "depth"),
        ({"evaluation": {"against": ["greedy", "gredy"]}}, "gredy"),
        ({"evaluation": {"against": ["past"]}}, "past"),
        ({"rules": {"preset": "mus"}}, "mus"),
        ({"opponents": {"greedy": 0.7, "random": 0.7}}, "1.4"),
        ({"decisions": 0}, "decisions"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    content = settings(2)
    for key, value in changes.items():
        content[key] = {**content[key], **value} if key == "evaluation" else value
    config = write_config(tmp_path / "other.yaml", content)
    assert message in fault(config, "--run", tmp_path / "run")
    assert not (tmp_path / "run").exists() or not any((tmp_path / "run").iterdir())


def test_an_opponent_for_another_table_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    selfplay.train(tiny(1, rules={"players": 3}), RunFolder(tmp_path / "teacher"))
    teacher = tmp_path / "teacher" / "checkpoint"
    config = write_config(tmp_path / "other.yaml", settings(2, opponents={str(teacher): 0.5}))
    assert str(teacher) in fault(config, "--run", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_missing_config_is_refused(tmp_path: Path) -> None:
    assert str(tmp_path / "nothing.yaml") in fault(tmp_path / "nothing.yaml")
    assert str(tmp_path) in fault(tmp_path)


@pytest.mark.parametrize(
    "option", [("--seed", -1), ("--decisions", 0), ("--seed", 2**31), ("--decisions", -5)]
)
def test_an_impossible_option_is_refused_by_name(
    tmp_path: Path, config: Path, option: tuple[str, int]
) -> None:
    name, value = option
    assert f"{name[2:]}={value}" in fault(config, name, value, "--run", tmp_path / "run")
    assert not (tmp_path / "run").exists()


# -- configs --------------------------------------------------------------------------------


CONFIGS = sorted(ROOT.glob("configs/**/*.y*ml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name)
def test_every_config_of_the_repository_can_be_run(path: Path) -> None:
    if "rounds:" in path.read_text():
        distilled = load_settings(DistilConfig, path)
        assert all(encoding.layout()["facts"] for encoding in distilled.encodings())
        names = {*distilled.measure.against, *(of.teacher for of in distilled.rounds)}
    else:
        config = load_config(path)
        lower(config.table(), config.episode)
        names = {*config.opponents, *config.evaluation.against, *config.teammates} - {"past"}
        names |= set() if config.start is None else {config.start}
    for name in names:
        load_policy(name)
    assert yaml.safe_load(path.read_text())["name"] == path.stem


def test_there_are_configs() -> None:
    assert (ROOT / "configs" / "quick.yaml").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rte": 0.1}, "unknown key 'learning_rte' (known: name, rules, episode,"),
        ({"network": {"depth": 3}}, "unknown key 'network.depth'"),
        ({"evaluation": {"evry": 3}}, "unknown key 'evaluation.evry'"),
        ({"decisions": "many"}, "decisions='many': Input should be a valid integer"),
        ({"decisions": 2.5}, "decisions=2.5"),
        ({"decisions": None}, "decisions=None"),
        ({"decisions": 0}, "decisions=0: Input should be greater than or equal to 1"),
        ({"name": ""}, "name=''"),
        ({"name": "../up"}, "name='../up'"),
        ({"name": "a/b"}, "name='a/b'"),
        ({"name": "line\nbreak"}, "name='line"),
        ({"name": 5}, "name=5"),
        ({"episode": "game"}, "episode='game': Input should be 'round' or 'match'"),
        ({"reward": "money"}, "reward='money'"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**31}, f"seed={2**31}"),
        ({"games": 0}, "games=0"),
        ({"steps": 1}, "steps=1"),
        ({"epochs": 0}, "epochs=0"),
        ({"minibatch": 1}, "minibatch=1"),
        ({"learning_rate": 0}, "learning_rate=0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"learning_rate": float("inf")}, "learning_rate=inf"),
        ({"final_learning_rate": -1e-9}, "final_learning_rate=-1e-09"),
        ({"gae_lambda": 1.1}, "gae_lambda=1.1"),
        ({"clip": 0}, "clip=0"),
        ({"entropy": -0.1}, "entropy=-0.1"),
        ({"value_weight": -1}, "value_weight=-1"),
        ({"reward_scale": 0}, "reward_scale=0"),
        ({"max_gradient": 0}, "max_gradient=0"),
        ({"past_every": 0}, "past_every=0"),
        ({"save_every": 0}, "save_every=0"),
        ({"threads": 0}, "threads=0"),
        ({"network": {"hidden": []}}, "network.hidden=[]"),
        ({"network": {"hidden": [8, 0]}}, "network.hidden.1=0"),
        ({"network": {"hidden": 8}}, "network.hidden=8"),
        ({"network": {"action_hidden": 0}}, "network.action_hidden=0"),
        ({"evaluation": {"deals": 1}}, "evaluation.deals=1"),
        ({"evaluation": {"every": 0}}, "evaluation.every=0"),
        ({"evaluation": {"seed": -1}}, "evaluation.seed=-1"),
        ({"rules": "classic"}, "rules='classic'"),
        ({"rules": {"players": 5}}, "rule players=5 is not possible; allowed: 2, 3 or 4"),
        ({"rules": {"player": 3}}, "rule 'player'=3 is unknown (did you mean 'players'?)"),
        ({"rules": {"preset": "mus"}}, "preset 'mus' is unknown; allowed: classic"),
        ({"rules": {"partnership": True}}, "rule partnership=True is not possible"),
        ({"opponents": {"greedy": 0}}, "opponents.greedy=0.0 is not a share"),
        ({"opponents": {"greedy": 1.5}}, "opponents.greedy=1.5 is not a share"),
        ({"opponents": {"greedy": -0.5}}, "opponents.greedy=-0.5 is not a share"),
        ({"opponents": {"greedy": "half"}}, "opponents.greedy='half'"),
        ({"opponents": ["greedy"]}, "opponents=['greedy']"),
        ({"opponents": {"greedy": 0.6, "past": 0.5}}, "shares of opponents add up to 1.1"),
        ({"minibatch": UPDATE + 1}, f"minibatch={UPDATE + 1} is more than games * steps={UPDATE}"),
    ],
)
def test_an_impossible_value_is_refused_by_its_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        tiny(2, **changes)
    assert str(refused.value).startswith("config tiny: ")
    assert message in str(refused.value)


def test_all_faults_of_a_config_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        tiny(2, learning_rte=1, games=0, reward="money")
    for part in ("learning_rte", "games=0", "reward='money'"):
        assert part in str(refused.value)


@pytest.mark.parametrize("key", ["name", "decisions"])
def test_a_missing_key_is_named(key: str) -> None:
    content = settings()
    del content[key]
    with pytest.raises(ConfigError, match=rf"{key}.*: Field required"):
        make_config(content, "tiny")


def test_shares_of_opponents_may_add_up_to_one_exactly() -> None:
    tiny(opponents={"greedy": 0.1, "random": 0.2, "past": 0.7})
    tiny(opponents={"greedy": 1.0})
    tiny(minibatch=UPDATE)


def test_a_config_is_read_from_its_file_with_changes(tmp_path: Path) -> None:
    path = write_config(tmp_path / "tiny.yaml", settings())
    assert load_config(path) == tiny()
    assert load_config(str(path), seed=9) == tiny(seed=9)
    with pytest.raises(ConfigError, match="unknown key 'sed'"):
        load_config(path, sed=9)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"- name: tiny",
        b"tiny",
        b"name: [",
        b"name: tiny\n\tgames: 3",
        b"\xff\xfe\xfa",
        b"name: !!python/object/apply:os.mkdir [WITNESS]",
        b"name: !!python/name:os.system",
    ],
)
def test_a_file_that_is_no_mapping_is_refused_and_nothing_in_it_is_run(
    tmp_path: Path, content: bytes
) -> None:
    witness = tmp_path / "witness"
    if b"WITNESS" in content:
        content = content.replace(b"WITNESS", bytes(witness))
        # The payload works.
        yaml.unsafe_load(content)
        witness.rmdir()
    (tmp_path / "bad.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"config {re.escape(str(tmp_path))}/bad.yaml"):
        load_config(tmp_path / "bad.yaml")
    assert not witness.exists()


def test_a_config_survives_its_own_file(tmp_path: Path) -> None:
    config = tiny(
        name="1.0",
        learning_rate=1e-7,
        final_learning_rate=1.5e-300,
        rules={"players": 3, "ranks": [1, 2, 3, 4, 5, 6, 7, 10], "ties": "split"},
        opponents={"greedy:x=1": 1 / 3, "null": 0.1},
    )
    RunFolder(tmp_path / "run").start(config)
    assert load_config(tmp_path / "run" / "config.yaml") == config
    RunFolder(tmp_path / "run").reopen(config)
