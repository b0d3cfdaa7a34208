"""AgileRL: masks in the infos, and AgileRL's own agents playing by them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from escoba_env import IllegalActionError
from escoba_env.adapters.agilerl import masked_vector_env, parallel_env, vector_env
from escoba_env.cards import NUM_ACTIONS
from escoba_env.envs.vector import EscobaVectorEnv
from tests.adapters.scripted import TABLES, script

ROOT = Path(__file__).parents[2]
IDS = [f"{t['rules']}-{t['players']}{'p' * t.get('partnership', False)}" for t in TABLES]


@pytest.mark.parametrize("timing", ["round_end", "as_earned"])
@pytest.mark.parametrize("table", TABLES, ids=IDS)
def test_every_seat_earns_what_it_earns_in_the_engine(table: dict[str, Any], timing: str) -> None:
    for seed in range(5):
        game = script(table, seed)
        env = parallel_env(**table, reward_timing=timing)
        _, infos = env.reset(seed)
        earned = dict.fromkeys(env.possible_agents, 0.0)
        for seat, action in zip(game.seats, game.actions, strict=True):
            mover = f"player_{seat}"
            for agent, info in infos.items():
                assert info["action_mask"].dtype == np.int8
                assert (info["action_mask"].sum() == NUM_ACTIONS) == (agent != mover)
            assert infos[mover]["action_mask"][action] == 1
            actions = dict.fromkeys(env.agents, 3) | {mover: action}
            _, rewards, terminations, _, infos = env.step(actions)
            for agent, reward in rewards.items():
                earned[agent] += reward
        assert all(terminations.values())
        assert env.agents == []
        assert list(earned.values()) == pytest.approx(game.returns)


def test_pettingzoos_parallel_test_passes() -> None:
    with pytest.warns(UserWarning, match="is illegal"):
        # It plays actions that are not masked.
        parallel_api_test(parallel_env(players=3), num_cycles=50)


def test_observations_are_boxes_without_the_mask() -> None:
    env = parallel_env(encoding="tactical", players=3)
    observations, _ = env.reset(1)
    for agent in env.possible_agents:
        space = env.observation_space(agent)
        assert isinstance(space, gymnasium.spaces.Box)
        assert space is env.observation_space(agent)
        assert space.contains(observations[agent])
    with pytest.raises(ValueError, match="'nobody' is unknown"):
        env.observation_space("nobody")


def test_a_thousand_random_games_by_the_mask_have_no_illegal_action() -> None:
    env = parallel_env(illegal="raise")
    rng = np.random.default_rng(1)
    env.reset(2)
    for _ in range(1000):
        _, infos = env.reset()
        while env.agents:
            actions = {
                agent: int(rng.choice(np.flatnonzero(info["action_mask"])))
                for agent, info in infos.items()
            }
            _, _, _, _, infos = env.step(actions)


def test_an_illegal_action_raises_and_changes_nothing() -> None:
    env = parallel_env(illegal="raise")
    _, infos = env.reset(2)
    before = env.game.aec_env.get_state()
    wrong = {agent: int(info["action_mask"].argmin()) for agent, info in infos.items()}
    with pytest.raises(IllegalActionError, match="is illegal"):
        env.step(wrong)
    assert env.game.aec_env.get_state() == before


def test_the_masked_vector_env_plays_the_games_of_the_vector_env() -> None:
    arguments: dict[str, Any] = {"opponents": "greedy", "seat": "random", "encoding": "tactical"}
    ours = masked_vector_env(7, **arguments)
    theirs = EscobaVectorEnv(7, autoreset_mode="SameStep", **arguments)
    rng = np.random.default_rng(3)
    observations, info = ours.reset(seed=5)
    seen, _ = theirs.reset(seed=5)
    ends = 0
    for _ in range(80):
        assert np.array_equal(observations, seen["observation"])
        assert np.array_equal(info["action_mask"], seen["action_mask"])
        assert info["action_mask"].any(axis=1).all()
        actions = (rng.random((7, NUM_ACTIONS)) * info["action_mask"]).argmax(1)
        observations, rewards, terminations, truncations, info = ours.step(actions)
        seen, wanted, ended, _, told = theirs.step(actions)
        assert np.array_equal(rewards, wanted)
        assert np.array_equal(terminations, ended)
        assert not truncations.any()
        for slot in np.flatnonzero(ended):
            ends += 1
            assert np.array_equal(info["final_obs"][slot], told["final_obs"][slot]["observation"])
    assert ends > 10


def test_what_is_not_possible_is_named() -> None:
    with pytest.raises(ValueError, match="autoreset_mode"):
        masked_vector_env(2, autoreset_mode="NextStep")
    with pytest.raises(ValueError, match="num_envs"):
        vector_env(0)
    with pytest.raises(ValueError, match="playrs"):
        vector_env(2, playrs=3)


def test_without_agilerl_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['agilerl'] = None\n"
        "from escoba_env.adapters.agilerl import vector_env\n"
        "try: vector_env(2)\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "pip install 'escoba-env[agilerl]'" in done.stdout


def test_masks_can_be_lists() -> None:
    _, arrays = parallel_env(players=3).reset(4)
    _, lists = parallel_env(players=3, mask_lists=True).reset(4)
    assert lists == {
        agent: {"action_mask": info["action_mask"].tolist()} for agent, info in arrays.items()
    }


# -- AgileRL's own --------------------------------------------------------------------------


def _spaces(env: Any) -> dict[str, Any]:
    agents = env.possible_agents
    return {
        "observation_spaces": [env.observation_space(agent) for agent in agents],
        "action_spaces": [env.action_space(agent) for agent in agents],
        "agent_ids": agents,
    }


def test_maddpg_plays_many_games_without_an_illegal_action() -> None:
    pytest.importorskip("agilerl")
    from agilerl.algorithms import MADDPG

    learner = MADDPG(**_spaces(parallel_env()))
    env = vector_env(2, illegal="raise")
    try:
        observations, infos = env.reset(seed=1)
        ends = 0
        for _ in range(100):
            actions, _ = learner.get_action(obs=observations, infos=infos)
            observations, rewards, terminations, _, infos = env.step(actions)
            ends += int(terminations["player_0"].sum())
            assert rewards["player_0"] == pytest.approx(-rewards["player_1"])
        assert ends >= 2
    finally:
        env.close()


def test_ippo_plays_without_an_illegal_action_and_learns() -> None:
    pytest.importorskip("agilerl")
    from agilerl.algorithms import IPPO
    from agilerl.vector.dummy_vec_env import PzDummyVecEnv

    game = parallel_env(illegal="raise", mask_lists=True)
    agents = game.possible_agents
    learner = IPPO(**_spaces(game), batch_size=16, learn_step=64, gamma=1.0)
    learner.set_training_mode(True)
    env = PzDummyVecEnv(game)
    observations, infos = env.reset(seed=1)
    (actor,) = learner.actors.values()
    before = [weights.detach().clone() for weights in actor.parameters()]
    kept: list[dict[str, Any]] = [{agent: [] for agent in agents} for _ in range(6)]
    done = {agent: np.zeros(1) for agent in agents}
    ends = 0
    for _ in range(100):
        actions, log_probs, _, values = learner.get_action(obs=observations, infos=infos)
        following, rewards, terminations, _, infos = env.step(actions)
        parts = (observations, actions, log_probs, rewards, done, values)
        for part, new in zip(kept, parts, strict=True):
            for agent in agents:
                part[agent].append(new[agent])
        done = {agent: np.array(terminations[agent], float) for agent in agents}
        observations = following
        if done["player_0"][0]:
            # The wrapper's own reset leaves the infos of the game that has ended.
            ends += 1
            observations, infos = env.reset()
    assert ends >= 1
    learner.learn((*kept, observations, done))
    after = list(actor.parameters())
    assert any(not (old == new).all() for old, new in zip(before, after, strict=True))


def test_ppo_plays_and_learns_by_the_mask_without_an_illegal_action() -> None:
    pytest.importorskip("agilerl")
    from agilerl.algorithms import PPO
    from agilerl.rollouts import collect_rollouts

    env = masked_vector_env(4, opponents="random", illegal="raise")
    learner = PPO(
        env.single_observation_space,
        env.single_action_space,
        num_envs=4,
        learn_step=160,
        batch_size=32,
        gamma=1.0,
    )
    learner.set_training_mode(True)
    scores, *_ = collect_rollouts(learner, env, 40)
    assert len(scores) >= 4
    kept = learner.rollout_buffer.buffer["action_masks"]
    taken = learner.rollout_buffer.buffer["actions"].long().reshape(*kept.shape[:-1], 1)
    assert kept.gather(-1, taken).all()
    assert not kept.all()
    assert np.isfinite(learner.learn())
