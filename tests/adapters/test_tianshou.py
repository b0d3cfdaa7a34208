"""Tianshou plays games of the engine, through its ``PettingZooEnv`` and our vector environment."""

# ruff: noqa: E402, what is not installed skips the file before it is imported

from __future__ import annotations

import importlib
import importlib.metadata
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tianshou")

from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.multiagent.marl import MultiAgentOffPolicyAlgorithm
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.algorithm.random import MARLRandomDiscreteMaskedOffPolicyAlgorithm
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step

from escoba_env import Game, IllegalActionError, escoba_v0
from escoba_env.adapters.tianshou import EscobaVectorEnv
from escoba_env.envs.vector import EscobaVectorEnv as GymnasiumVectorEnv
from escoba_env.policies import Policy
from tests.adapters.scripted import TABLES, script

each_table = pytest.mark.parametrize("table", TABLES, ids=str)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def wrapped(**table):
    return PettingZooEnv(escoba_v0.env(illegal="raise", **table))


def random_policy(env):
    return MARLRandomDiscreteMaskedOffPolicyAlgorithm(env.action_space)


def dqn(env, epsilon):
    size = env.observation_space["observation"].shape if isinstance(env, PettingZooEnv) else None
    space = env.action_space if size else env.action_space[0]
    size = size or env.encoding.shape
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=size, action_shape=43, hidden_sizes=[16]),
        action_space=space,
        eps_training=epsilon,
        eps_inference=epsilon,
    )
    return DQN(policy=policy, optim=AdamOptimizerFactory(), target_update_freq=10)


class Scripted(Policy):
    """Plays a script: knows by its view which move of it is due."""

    name = "scripted"

    def __init__(self, played):
        self.moves = {}
        game = Game(played.rules, episode="round", reward="margin")
        game.reset(played.seed)
        for action in played.actions:
            self.moves[game.view(game.turn).records[0].tobytes()] = action
            game.step(action)

    def act(self, views):
        return np.array([self.moves[record.tobytes()] for record in views.records])


# -- PettingZooEnv ----------------------------------------------------------------------------


@each_table
def test_every_seat_gets_the_script_s_return_through_petting_zoo_env(table):
    played = script(table, 7)
    env = DummyVectorEnv([lambda: wrapped(**table)])
    observation, _ = env.reset(seed=7)
    returns = np.zeros(played.rules.players)
    for seat, action in zip(played.seats, played.actions, strict=True):
        assert observation[0]["agent_id"] == f"player_{seat}"
        assert observation[0]["mask"][action]
        observation, rewards, terminated, truncated, _ = env.step(np.array([action]))
        returns += rewards[0]
    assert terminated[0]
    assert not truncated[0]
    assert returns == pytest.approx(played.returns)


def test_a_thousand_masked_random_games_through_petting_zoo_env_have_no_illegal_action():
    env = wrapped(rules="comodines")
    rng = np.random.default_rng(0)
    for game in range(1000):
        observation, _ = env.reset(seed=game)
        over = False
        while not over:
            legal = np.flatnonzero(observation["mask"])
            observation, rewards, over, _, _ = env.step(int(legal[rng.integers(len(legal))]))
        assert sum(rewards) == pytest.approx(0)


def test_multi_agent_dqn_collects_and_updates_through_petting_zoo_env():
    env = wrapped()
    algorithm = MultiAgentOffPolicyAlgorithm(
        algorithms=[dqn(env, 0.2), random_policy(env)], env=env
    )
    envs = DummyVectorEnv([wrapped] * 4)
    collector = Collector(algorithm, envs, VectorReplayBuffer(1000, 4), exploration_noise=True)
    stats = collector.collect(n_episode=8, reset_before_collect=True)
    assert stats.n_collected_episodes == 8
    # Margins of both seats add up to nothing.
    assert stats.returns.sum(axis=1) == pytest.approx(0)
    assert stats.returns.any()
    learner = algorithm.get_algorithm("player_0").policy
    before = [parameter.clone() for parameter in learner.parameters()]
    with policy_within_training_step(algorithm.policy):
        algorithm.update(buffer=collector.buffer, sample_size=64)
    assert any((a != b).any() for a, b in zip(before, learner.parameters(), strict=True))


# -- EscobaVectorEnv --------------------------------------------------------------------------


@each_table
def test_the_learner_gets_the_script_s_return_from_every_seat(table):
    played = script(table, 7)
    for seat in range(played.rules.players):
        env = EscobaVectorEnv(1, Scripted(played), seat, illegal="raise", **table)
        env.seed(7)
        observation, _ = env.reset()
        earned = 0.0
        over = np.array([False])
        for mover, action in zip(played.seats, played.actions, strict=True):
            if mover == seat:
                assert not over[0]
                assert observation.mask[0, action]
                observation, rewards, over, truncated, _ = env.step([action])
                earned += rewards[0]
        assert over[0]
        assert not truncated[0]
        assert earned == pytest.approx(played.returns[seat])


def test_games_are_those_of_the_gymnasium_vector_environment():
    settings = {"opponents": ["greedy", "random"], "seat": "random", "players": 3}
    env = EscobaVectorEnv(5, **settings)
    peer = GymnasiumVectorEnv(5, autoreset_mode=AutoresetMode.DISABLED, **settings)
    assert env.seed(11) == [11, 12, 13, 14, 15]
    seen, _ = env.reset()
    assert len(env.observation_space) == 5
    assert env.observation_space[0].contains({"obs": seen.obs[0], "mask": seen.mask[0]})
    expected, _ = peer.reset(seed=11)
    ended = 0
    for _ in range(60):
        assert (seen.obs == expected["observation"]).all()
        assert (seen.mask == expected["action_mask"]).all()
        assert (env.seats == peer.seats).all()
        actions = seen.mask.argmax(axis=1)
        seen, rewards, over, _, infos = env.step(actions)
        expected, their_rewards, their_over, _, _ = peer.step(actions)
        assert rewards == pytest.approx(their_rewards)
        assert (over == their_over).all()
        assert [info["env_id"] for info in infos] == [0, 1, 2, 3, 4]
        if over.any():
            assert seen.mask[over].all()
            fresh, _ = env.reset(np.flatnonzero(over))
            seen[over] = fresh
            expected, _ = peer.reset(options={"reset_mask": over})
        ended += over.sum()
    assert ended > 5


def test_a_collector_has_no_illegal_action_in_a_thousand_masked_random_games():
    env = EscobaVectorEnv(64, "random", rules="comodines", illegal="raise")
    collector = Collector(MARLRandomDiscreteMaskedOffPolicyAlgorithm(env.action_space[0]), env)
    stats = collector.collect(n_episode=1000, reset_before_collect=True)
    assert stats.n_collected_episodes == 1000
    assert len(stats.returns) == 1000


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_dqn_takes_legal_actions(epsilon):
    env = EscobaVectorEnv(8, "random", illegal="raise")
    collector = Collector(dqn(env, epsilon), env, exploration_noise=True)
    collector.collect(n_step=800, reset_before_collect=True)
    rows = collector.buffer[:]
    assert len(rows) == 800
    assert rows.obs.mask[np.arange(800), rows.act].all()
    # What follows a row is the next row, unless its game is over.
    rows = collector.buffer.buffers[3][:]
    going_on = ~rows.done[:-1]
    assert not going_on.all()
    assert (rows.obs_next.obs[:-1][going_on] == rows.obs.obs[1:][going_on]).all()
    assert not (rows.obs_next.obs[:-1][~going_on] == rows.obs.obs[1:][~going_on]).all(-1).any()


def test_calls_are_about_the_games_they_name():
    env = EscobaVectorEnv(4, "random")
    env.seed([7, 7, 8, 8])
    everything, _ = env.reset()
    assert (everything.obs[0] == everything.obs[1]).all()
    seen, rewards, over, _, infos = env.step(everything.mask[[2, 0]].argmax(axis=1), [2, 0])
    assert seen.obs.shape[0] == len(rewards) == len(over) == 2
    assert [info["env_id"] for info in infos] == [2, 0]
    rest, _, _, _, _ = env.step(everything.mask[[3, 1]].argmax(axis=1), np.array([3, 1]))
    # Games of the same seed with the same actions.
    assert (rest.obs == seen.obs).all()
    again, infos = env.reset(env_id=2, seed=7)
    assert len(infos) == 1
    fresh = EscobaVectorEnv(4, "random").reset(seed=7)[0]
    assert (again.obs[0] == fresh.obs[2]).all()


def test_options_of_a_reset_are_the_environment_s():
    env = EscobaVectorEnv(2, "random")
    with pytest.raises(ValueError, match="dealer"):
        env.reset(seed=3, options={"dealer": 9})
    env.reset(options={"dealer": 1})
    assert (env._tables.batch.states["dealer"] == 1).all()


def test_observations_that_were_given_out_are_not_written_into():
    env = EscobaVectorEnv(3)
    first, _ = env.reset(seed=0)
    kept = Batch(obs=first.obs.copy(), mask=first.mask.copy())
    env.step(first.mask.argmax(axis=1))
    assert (kept.obs == first.obs).all()
    assert (kept.mask == first.mask).all()


# -- errors -----------------------------------------------------------------------------------


def test_what_is_not_possible_is_named_and_changes_nothing():
    with pytest.raises(ValueError, match="num_envs 0"):
        EscobaVectorEnv(0)
    env = EscobaVectorEnv(3, illegal="raise")
    with pytest.raises(ResetNeeded, match="reset"):
        env.step([0, 0, 0])
    seen, _ = env.reset(seed=5)
    legal = seen.mask.argmax(axis=1)
    wrong = legal.copy()
    wrong[1] = seen.mask[1].argmin()
    before = env._tables.batch.states.tobytes()
    for action, games, error, words in [
        (wrong, None, IllegalActionError, "illegal"),
        (legal[:2], None, ValueError, "shape"),
        (legal.astype(float), None, TypeError, "float64"),
        (legal, [0, 1, 3], ValueError, "id"),
        (legal, [0, 1, 1], ValueError, "twice"),
    ]:
        with pytest.raises(error, match=words):
            env.step(action, games)
    with pytest.raises(ValueError, match="seed"):
        env.reset(seed=-1)
    with pytest.raises(ValueError, match="seed"):
        env.seed([1, 2])
    assert env._tables.batch.states.tobytes() == before
    with pytest.raises(AttributeError, match="nothing"):
        env.get_env_attr("nothing")
    with pytest.raises(AttributeError, match="cannot be set"):
        env.set_env_attr("spec", 1)
    with pytest.raises(NotImplementedError, match="drawn"):
        env.render()
    env.step(legal)


def test_a_game_that_is_over_is_not_stepped():
    env = EscobaVectorEnv(2, "random")
    seen, _ = env.reset(seed=5)
    over = np.zeros(2, bool)
    while not over.any():
        seen, _, over, _, _ = env.step(seen.mask.argmax(axis=1))
    with pytest.raises(ResetNeeded, match=f"environment {over.argmax()}"):
        env.step([0, 0])


def import_anew(monkeypatch):
    monkeypatch.delitem(sys.modules, "escoba_env.adapters.tianshou")
    importlib.import_module("escoba_env.adapters.tianshou")


def test_a_missing_tianshou_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tianshou", None)
    with pytest.raises(ModuleNotFoundError, match=r"tianshou is not installed.*\[tianshou\]"):
        import_anew(monkeypatch)


@pytest.mark.parametrize("version", ["1.1.0", "3.0"])
def test_another_version_of_tianshou_is_named(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    allowed = r"allowed: 2\.0 or newer, below 3"
    with pytest.raises(ImportError, match=rf"tianshou {version} is installed; {allowed}"):
        import_anew(monkeypatch)
