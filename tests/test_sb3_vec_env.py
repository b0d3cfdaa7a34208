"""The Stable-Baselines3 VecEnv: as its own DummyVecEnv answers, and stock learners run on it."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest

from escoba_env import IllegalActionError
from escoba_env.envs.single import EscobaEnv

pytest.importorskip("sb3_contrib")

from gymnasium.error import ResetNeeded
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from escoba_env.envs.sb3 import EscobaVecEnv

TABLES = {
    "default": {},
    "three, any seat": {"players": 3, "seat": "random", "opponents": ["greedy", "random"]},
    "partners, as earned": {
        "players": 4,
        "partnership": True,
        "opponents": "random",
        "reward_timing": "as_earned",
        "initial_table": "eldest",
    },
    "match, planes": {"episode": "match", "target": 3, "encoding": "planes"},
}


def lowest(masks):
    return masks.argmax(axis=1)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_it_answers_as_dummy_vec_env_does(table):
    ours = EscobaVecEnv(3, **table)
    theirs = DummyVecEnv([lambda: EscobaEnv(**table)] * 3)
    assert ours.observation_space == theirs.observation_space["observation"]
    assert ours.action_space == theirs.action_space
    assert ours.seed(11) == theirs.seed(11)
    seen, expected = ours.reset(), theirs.reset()
    assert (seen == expected["observation"]).all()
    assert ours.reset_infos == theirs.reset_infos
    rng = np.random.default_rng(11)
    ends = 0
    for step in range(80):
        masks = get_action_masks(ours)
        assert masks.dtype == np.bool_
        assert (masks == get_action_masks(theirs)).all()
        assert masks.any(axis=1).all()
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        if step % 29 == 7:
            actions[1] = 42
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen, rewards, dones, infos = ours.step(actions)
            expected, their_rewards, their_dones, their_infos = theirs.step(actions)
        assert (seen == expected["observation"]).all()
        assert rewards.dtype == their_rewards.dtype
        assert rewards == pytest.approx(their_rewards, abs=1e-6)
        assert (dones == their_dones).all()
        for done, info, other in zip(dones, infos, their_infos, strict=True):
            assert bool(done) == ("terminal_observation" in info)
            if done:
                last = other["terminal_observation"]["observation"]
                assert (info["terminal_observation"] == last).all()
                assert info["TimeLimit.truncated"] is other["TimeLimit.truncated"] is False
        ends += dones.sum()
    assert ends >= 3


def test_its_arguments_are_those_of_the_single_environment():
    single = inspect.signature(EscobaEnv).parameters
    vector = inspect.signature(EscobaVecEnv).parameters
    assert set(single) - set(vector) == {"render_mode", "faces"}
    assert set(vector) - set(single) == {"num_envs", "dtype"}
    assert all(vector[name] == single[name] for name in set(single) & set(vector))


def test_masks_come_at_once_or_one_by_one():
    env = EscobaVecEnv(4, "random", seat="random", players=3)
    assert is_masking_supported(env)
    # Also before reset: a softmax over them is defined.
    assert get_action_masks(env).all()
    env.seed(1)
    env.reset()
    masks = env.action_masks()
    assert (get_action_masks(env) == masks).all()
    some = env.env_method("action_masks", indices=[2, 0])
    assert (np.stack(some) == masks[[2, 0]]).all()
    assert (env.get_attr("action_masks", 3)[0]() == masks[3]).all()
    env.step(lowest(masks))
    assert not (env.action_masks() == masks).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_stock_maskable_ppo_learns_evaluates_saves_and_goes_on(tmp_path):
    env = VecMonitor(EscobaVecEnv(8, "random", seat="random", illegal="raise"))
    held_out = VecMonitor(EscobaVecEnv(4, "greedy", illegal="raise"))
    learner = MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=128, n_epochs=1, seed=1)
    callback = MaskableEvalCallback(
        held_out, n_eval_episodes=8, eval_freq=32, best_model_save_path=tmp_path, verbose=0
    )
    learner.learn(512, callback=callback)
    assert callback.n_calls == 64
    assert np.isfinite(callback.last_mean_reward)
    # Every episode of the learner's is a whole round: 18 turns of two players' 36.
    lengths = [info["l"] for info in learner.ep_info_buffer]
    assert lengths
    assert min(lengths) >= 18
    learner.save(tmp_path / "learner")
    again = MaskablePPO.load(tmp_path / "learner", env=env)
    observations = env.reset()
    masks = get_action_masks(env)
    first, _ = learner.predict(observations, action_masks=masks, deterministic=True)
    second, _ = again.predict(observations, action_masks=masks, deterministic=True)
    assert (first == second).all()
    again.set_env(VecMonitor(EscobaVecEnv(8, "greedy", illegal="raise")))
    again.learn(256)
    mean, _ = evaluate_policy(again, held_out, n_eval_episodes=8)
    assert -20 < mean < 20


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_normalised_rewards_and_planes_reach_the_learner(tmp_path):
    env = VecNormalize(EscobaVecEnv(4, "random", illegal="raise", encoding="planes"))
    learner = MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=1, seed=1)
    learner.learn(128)
    env.save(tmp_path / "statistics")
    VecNormalize.load(tmp_path / "statistics", EscobaVecEnv(4, encoding="planes"))


def test_rewards_of_an_episode_add_up_in_vec_monitor():
    env = VecMonitor(EscobaVecEnv(5, "random", reward="points"))
    env.seed(3)
    env.reset()
    totals = np.zeros(5)
    ends = 0
    for _ in range(60):
        _, rewards, dones, infos = env.step(lowest(np.stack(env.env_method("action_masks"))))
        totals += rewards
        for index in np.flatnonzero(dones):
            assert infos[index]["episode"]["r"] == pytest.approx(totals[index], abs=1e-5)
            totals[index] = 0
            ends += 1
    assert ends >= 5


# -- what Stable-Baselines3 asks of environments --------------------------------------------


def test_attributes_and_methods_of_single_games():
    env = EscobaVecEnv(3, seat=1, players=3)
    assert env.get_attr("render_mode") == [None] * 3
    assert env.get_attr("spec", 0) == [None]
    assert env.get_attr("seat", [0, 2]) == [1, 1]
    assert env.has_attr("action_masks")
    assert not env.has_attr("nonsense")
    env.set_attr("note", 5, indices=[1])
    assert env.get_attr("note", 1) == [5]
    assert not hasattr(env.envs[0], "note")
    with pytest.raises(AttributeError, match="nonsense"):
        env.get_attr("nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        env.env_method("nonsense")
    assert env.env_is_wrapped(Monitor) == [False] * 3
    assert env.env_is_wrapped(Monitor, indices=[0]) == [False]
    assert [p.name for p in env.opponents] == ["greedy", "greedy"]


def test_seeds_and_options_are_used_once():
    env = EscobaVecEnv(3, "random", seat="random")
    env.seed(5)
    first = env.reset()
    follow = env.reset()
    assert not (first == follow).all()
    env.seed(5)
    assert (env.reset() == first).all()
    assert (env.reset() == follow).all()
    with pytest.raises(ValueError, match="seed -1"):
        env.seed(-1)
    fixed = {"deck": " ".join(f"{r}{s}" for s in "oceb" for r in "1234567SCR"), "dealer": 0}
    env = EscobaVecEnv(3)
    env.seed(5)
    plain = env.reset()
    env.set_options([{}, fixed, {}])
    env.seed(5)
    mixed = env.reset()
    assert (mixed[[0, 2]] == plain[[0, 2]]).all()
    assert not (mixed[1] == plain[1]).all()
    with pytest.raises(ValueError, match="dealer"):
        env.set_options({"dealer": 7})
    env.set_options(fixed)
    same = env.reset()
    assert (same == mixed[1]).all()
    assert not (env.reset() == same).all()


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))],  # noqa: S301 - its own
    ids=["deepcopy", "pickle"],
)
def test_copies_keep_the_live_games(copied):
    env = EscobaVecEnv(4, "random", "random")
    env.seed(1)
    env.reset()
    for _ in range(12):
        env.step(lowest(env.action_masks()))
    other = copied(env)
    for _ in range(30):
        actions = lowest(env.action_masks())
        (seen, rewards, dones, _), (again, *same) = env.step(actions), other.step(actions)
        assert (seen == again).all()
        assert (rewards == same[0]).all()
        assert (dones == same[1]).all()
        assert (get_action_masks(env) == get_action_masks(other)).all()


def test_misuse_is_an_error_that_changes_nothing():
    env = EscobaVecEnv(2, illegal="raise")
    with pytest.raises(ResetNeeded, match=r"reset\(\) starts one"):
        env.step(np.zeros(2, int))
    env.seed(1)
    env.reset()
    masks = env.action_masks().copy()
    for actions, error in (
        (np.array([42, 42]), IllegalActionError),
        (np.array([1.0, 2.0]), TypeError),
        (np.array([1, 2, 3]), ValueError),
    ):
        with pytest.raises(error):
            env.step(actions)
        assert (env.action_masks() == masks).all()
    env.step(lowest(masks))
    env.close()
    env.close()
    with pytest.raises(ValueError, match="num_envs 0"):
        EscobaVecEnv(0)
    with pytest.raises(ValueError, match="'nonsense'"):
        EscobaVecEnv(1, nonsense=1)


@pytest.mark.parametrize("number", [0, 2, 4])
def test_options_of_another_number_than_games_are_refused(number: int) -> None:
    env = EscobaVecEnv(3, "random")
    with pytest.raises(ValueError, match=r"options are \d.*3 environments"):
        env.set_options([{"dealer": 1}] * number)
    env.reset()


def test_masks_are_the_caller_s_own() -> None:
    env = EscobaVecEnv(3, "random")
    env.reset()
    env.action_masks()[:] = False
    assert env.action_masks().any(axis=1).all()


def test_a_step_is_waited_for_once() -> None:
    env = EscobaVecEnv(2, "random", illegal="raise")
    env.reset()
    with pytest.raises(RuntimeError, match="step_async"):
        env.step_wait()
    env.step(env.action_masks().argmax(axis=1))
    with pytest.raises(RuntimeError, match="step_async"):
        env.step_wait()


def test_a_progress_bar_needs_no_more_than_the_extra(capsys):
    model = MaskablePPO("MlpPolicy", EscobaVecEnv(2), n_steps=8, batch_size=16, device="cpu")
    assert model.learn(16, progress_bar=True).num_timesteps == 16
