"""The league: who is met how often, who makes place, and that runs go on with it as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")
pytest.importorskip("yaml")

import torch

from escoba_env import Batch
from escoba_env.policies import GreedyPolicy, RandomPolicy
from training.config import ConfigError, make_config
from training.league import LEAST, League
from training.rollout import LEARNER, SelfPlay
from training.run_folder import RunFolder
from training.selfplay import train

torch.set_num_threads(1)

SMALL: dict[str, Any] = {
    "name": "small", "decisions": 4096, "games": 64, "steps": 16, "minibatch": 256, "epochs": 1,
    "network": {"hidden": [16], "action_hidden": 8}, "precision": "float32",
    "evaluation": {"every": 100_000, "deals": 4}, "save_every": 1024,
}  # fmt: skip


def play(batch: Batch, **settings: Any) -> SelfPlay:
    return SelfPlay(batch, [], 1.0, 3, **settings)


def batch_of(games: int = 400, **rules: Any) -> Batch:
    return Batch(games, skip_forced=True, encoding="tactical", seed=1, **rules)


def step_random(self_play: SelfPlay, rng: np.random.Generator) -> None:
    """One decision of the learner at random in every game."""
    batch = self_play.batch
    masks = batch.legal_masks()
    actions = np.where(masks == 1, rng.random(masks.shape), -1).argmax(1)
    _, over = batch.step(actions)
    self_play._restart(self_play.games[over])
    self_play._let_opponents_move(None)


# -- who is met -----------------------------------------------------------------------------


def test_harder_members_are_met_more_often():
    league = League([RandomPolicy(), GreedyPolicy()], 0, power=1.0)
    league.scores[:] = [0.9, 0.5]
    np.testing.assert_allclose(league.shares(), [0.1 / 0.6, 0.5 / 0.6])
    drawn = np.bincount(league.draw(6000, np.random.default_rng(0)), minlength=2) / 6000
    np.testing.assert_allclose(drawn, league.shares(), atol=0.03)


def test_without_power_all_are_met_alike_and_nobody_is_forgotten():
    league = League([RandomPolicy(), GreedyPolicy()], 0, power=0.0)
    league.scores[:] = [1.0, 0.0]
    np.testing.assert_allclose(league.shares(), [0.5, 0.5])
    league.power = 1.0
    np.testing.assert_allclose(league.shares(), [LEAST / (1 + LEAST), 1 / (1 + LEAST)])


def test_an_empty_league_is_self_play():
    league = League([], 3, power=1.0)
    np.testing.assert_array_equal(league.draw(4, np.random.default_rng(0)), [-1] * 4)
    self_play = play(batch_of(), league=league, league_share=1.0)
    assert (self_play.opponent_of == LEARNER).all()


def test_a_past_self_takes_the_place_of_the_easiest():
    league = League([GreedyPolicy()], 2, power=1.0)
    first, second, third = (RandomPolicy() for _ in range(3))
    assert [league.add(first), league.add(second)] == [1, 2]
    league.scores[:] = [0.99, 0.3, 0.8]
    assert league.add(third) == 2
    assert league.policies == [league.policies[0], first, third]
    assert league.scores.tolist() == [0.99, 0.3, 0.5]


def test_scores_are_of_the_games_that_were_played():
    """A learner that plays at random scores half against itself, and less against greedy."""
    league = League([RandomPolicy(), GreedyPolicy()], 0, power=0.0)
    self_play = play(batch_of(), league=league, league_share=1.0)
    rng = np.random.default_rng(2)
    for _ in range(120):
        step_random(self_play, rng)
    assert 0.42 < league.scores[0] < 0.58
    assert league.scores[1] < 0.35


@pytest.mark.parametrize("rules", [{"players": 3}, {"players": 4, "partnership": True}])
def test_in_games_against_the_league_one_side_learns(rules):
    batch = batch_of(**rules)
    self_play = play(batch, league=League([GreedyPolicy()], 1, 1.0), league_share=0.5)
    sides = batch.rules.num_sides
    against = self_play.league_games[:, 0] >= 0
    assert against.sum() == 200
    for game in np.flatnonzero(against):
        learning = {s % sides for s in range(batch.rules.players)
                    if self_play.opponent_of[game, s] == LEARNER}  # fmt: skip
        assert learning == {self_play.league_games[game, 1]}
    assert (self_play.opponent_of[~against] == LEARNER).all()


def test_teammates_sit_opposite_a_learner():
    batch = batch_of(players=4, partnership=True)
    self_play = play(batch, teammates=[(GreedyPolicy(), 0.25), (RandomPolicy(), 0.25)])
    learns = self_play.opponent_of == LEARNER
    # Every side has a learner; a quarter of the sides has each teammate.
    assert (learns[:, 0] | learns[:, 2]).all()
    assert (learns[:, 1] | learns[:, 3]).all()
    for number in (0, 1):
        assert 150 < (self_play.opponent_of == number).sum() < 250


def test_teammates_of_opponents_are_opponents():
    batch = batch_of(players=4, partnership=True)
    self_play = SelfPlay(batch, [(RandomPolicy(), 1.0)], 1.0, 3, teammates=[(GreedyPolicy(), 1.0)])
    for seats in self_play.opponent_of:
        assert sorted(seats.tolist()) == [LEARNER, 0, 0, 1]


# -- runs -----------------------------------------------------------------------------------

LEAGUE = {**SMALL, "league": {"share": 0.5, "members": ["greedy"], "size": 2, "every": 1024}}


def test_the_same_run_with_a_league_gives_the_same_policy(tmp_path):
    first, second = RunFolder(tmp_path / "first"), RunFolder(tmp_path / "second")
    for folder in (first, second):
        train(make_config(LEAGUE, "x"), folder)
    a, b = (load_file(f.checkpoint / "policy.safetensors") for f in (first, second))
    assert all(np.array_equal(a[key], b[key]) for key in a)


def test_a_run_that_was_stopped_has_its_past_selves_again(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    config = make_config({**LEAGUE, "learning_rate": 1e-3, "final_learning_rate": 1e-3}, "x")
    seen: list[Any] = []
    restore = RunFolder.restore

    def watch(self: RunFolder, model: Any, play: SelfPlay, *rest: Any) -> Any:
        result = restore(self, model, play, *rest)
        seen.append([p is not None for p in play.league.policies])
        seen.append(play.league.scores.copy())
        return result

    train(make_config({**config.model_dump(), "decisions": 2048}, "x"), folder)
    monkeypatch.setattr(RunFolder, "restore", watch)
    train(config, folder, resume=True)
    assert seen[0] == [True, True, True]
    assert (seen[1] != 0.5).any()
    whole = RunFolder(tmp_path / "whole")
    train(config, whole)
    a, b = (load_file(f.checkpoint / "policy.safetensors") for f in (whole, folder))
    assert all(np.array_equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"league": {"members": ["nobody"]}}, "policy nobody"),
        ({"league": {"members": [], "size": 0}}, "is empty"),
        ({"league": {"share": 0.6}, "opponents": {"greedy": 0.5}}, "add up to 1.1"),
        ({"teammates": {"greedy": 0.5}}, "in a partnership alone"),
        ({"league": {"share": 0.0}}, "league.share"),
    ],
)
def test_a_league_that_is_not_possible_is_refused(changes, message, tmp_path: Path):
    with pytest.raises(ConfigError, match=message):
        train(make_config({**SMALL, **changes}, "x"), RunFolder(tmp_path / "run"))
