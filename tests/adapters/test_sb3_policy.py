"""Models of Stable-Baselines3 in memory: they play as they predict, and only what is legal."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

import torch
from sb3_contrib import QRDQN, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecNormalize

from escoba_env import Batch, Encoding, evaluate, load_policy, make_rules
from escoba_env.adapters.onnx import export_policy
from escoba_env.adapters.sb3 import SB3Policy
from escoba_env.encoding import SPACE_KEY
from escoba_env.envs.sb3 import EscobaVecEnv

torch.set_num_threads(1)


def views_of(rules: Any = "classic", count: int = 60, decisions: int = 9, **fields: Any):
    batch = Batch(count, rules, **fields)
    batch.reset(4)
    batch.play_random(decisions * count)
    return batch.views(np.flatnonzero(~batch.over))


def test_maskable_ppo_plays_what_it_predicts():
    model = MaskablePPO("MlpPolicy", EscobaVecEnv(8, opponents="random"), n_steps=64, seed=3)
    model.learn(2000)
    views = views_of()
    observations, masks = views.observe(Encoding("compact", make_rules("classic"), "round"))
    predicted, _ = model.predict(observations, action_masks=masks, deterministic=True)
    policy = load_policy(model)
    np.testing.assert_array_equal(policy.act(views), predicted)
    assert policy.name == "MaskablePPO"


@pytest.mark.parametrize("algorithm", [PPO, A2C, DQN, MaskablePPO])
def test_the_best_legal_action_is_played_whatever_the_model_knows_of_masks(algorithm):
    model = algorithm("MlpPolicy", EscobaVecEnv(2), seed=1, device="cpu")
    # An illegal action would raise.
    assert evaluate(model, "random", deals=20).games == 40


@pytest.mark.parametrize("algorithm", [PPO, DQN, MaskablePPO])
def test_a_model_and_its_export_are_the_same_policy(algorithm, tmp_path):
    policy = load_policy(algorithm("MlpPolicy", EscobaVecEnv(2), seed=2, device="cpu"))
    export_policy(policy, tmp_path / "model.onnx")
    views = views_of()
    np.testing.assert_allclose(
        load_policy(tmp_path / "model.onnx").probabilities(views),
        policy.probabilities(views),
        atol=1e-5,
    )


def test_what_vec_normalize_has_learned_is_part_of_the_policy(tmp_path):
    env = VecNormalize(EscobaVecEnv(8), norm_reward=False)
    model = MaskablePPO("MlpPolicy", env, n_steps=64, seed=3, device="cpu")
    model.learn(1000)
    views = views_of()
    observations, masks = views.observe(Encoding("compact", make_rules("classic"), "round"))
    with torch.no_grad():
        seen, _ = model.policy.obs_to_tensor(env.normalize_obs(observations))
        logits = model.policy.get_distribution(seen).distribution.logits.numpy()
    expected = np.where(masks == 1, logits, -np.inf).argmax(1)
    policy = load_policy(model)
    np.testing.assert_array_equal(policy.act(views), expected)
    export_policy(policy, tmp_path / "model.onnx")
    np.testing.assert_array_equal(load_policy(tmp_path / "model.onnx").act(views), expected)


def test_a_model_of_the_gymnasium_environment_sees_observation_and_mask():
    env = make_vec_env("escoba_env/Escoba-v0", n_envs=1, env_kwargs={"opponents": "random"})
    model = PPO("MultiInputPolicy", env, n_steps=16, seed=1, device="cpu")
    policy = load_policy(model)
    views = views_of()
    observations, masks = views.observe(Encoding("compact", make_rules("classic"), "round"))
    with torch.no_grad():
        seen, _ = model.policy.obs_to_tensor({"observation": observations, "action_mask": masks})
        logits = model.policy.get_distribution(seen).distribution.logits.numpy()
    expected = np.where(masks == 1, logits, -np.inf).argmax(1)
    np.testing.assert_array_equal(policy.act(views), expected)


def test_playing_leaves_the_model_as_it_was():
    model = MaskablePPO("MlpPolicy", EscobaVecEnv(2), seed=1)
    model.policy.set_training_mode(True)
    load_policy(model).act(views_of())
    assert model.policy.training


def test_a_model_is_an_opponent():
    model = MaskablePPO("MlpPolicy", EscobaVecEnv(2), seed=1)
    env = gym.make("escoba_env/Escoba-v0", opponents=model)
    env.reset(seed=0)


def test_a_model_with_a_memory_is_refused():
    model = RecurrentPPO("MlpLstmPolicy", EscobaVecEnv(2), n_steps=8, device="cpu")
    with pytest.raises(ValueError, match="RecurrentPPO is not possible; allowed: PPO, A2C"):
        load_policy(model)


def test_a_model_of_another_kind_is_refused():
    model = QRDQN("MlpPolicy", EscobaVecEnv(2), device="cpu", buffer_size=10)
    with pytest.raises(ValueError, match="QRDQN is not possible"):
        load_policy(model)


class Spaces(gym.Env):
    """Observations as ours, and other actions."""

    def __init__(self, actions):
        size = Encoding("compact", make_rules("classic"), "round").size
        self.observation_space = gym.spaces.Box(0, 1, (size,), np.float32)
        self.action_space = actions


@pytest.mark.parametrize(
    "actions",
    [gym.spaces.Discrete(2), gym.spaces.Discrete(43, start=1), gym.spaces.Box(-1, 1, (43,)),
     gym.spaces.MultiBinary(43)],
    ids=str,
)  # fmt: skip
def test_a_model_of_other_actions_is_refused(actions):
    model = PPO("MlpPolicy", Spaces(actions), device="cpu")
    with pytest.raises(ValueError, match=r"has the action space .* allowed: Discrete\(43\)"):
        SB3Policy(model, Encoding("compact", make_rules("classic"), "round"))


class Negated(ActorCriticPolicy):
    def _get_action_dist_from_latent(self, latent_pi):
        return self.action_dist.proba_distribution(action_logits=-self.action_net(latent_pi))


def test_a_policy_that_changes_its_scores_is_refused():
    model = PPO(Negated, EscobaVecEnv(2), seed=1, device="cpu")
    torch.nn.init.normal_(model.policy.action_net.weight)
    with pytest.raises(ValueError, match="policy Negated whose distribution is not that"):
        load_policy(model)


def test_observations_that_a_wrapper_changes_are_refused():
    def changed(env):
        return gym.wrappers.TransformObservation(env, lambda o: o, env.observation_space)

    env = make_vec_env("escoba_env/Escoba-v0", n_envs=1, wrapper_class=changed)
    model = PPO("MultiInputPolicy", env, n_steps=16, batch_size=16, device="cpu")
    with pytest.raises(ValueError, match="observes through TransformObservation"):
        load_policy(model)


def test_a_model_of_another_environment_is_refused():
    model = PPO("MlpPolicy", gym.make("CartPole-v1"), device="cpu")
    with pytest.raises(ValueError, match="model PPO: encoding None is not possible"):
        load_policy(model)
    model = PPO("MlpPolicy", EscobaVecEnv(2, encoding="tactical"), device="cpu")
    with pytest.raises(ValueError, match=r"PPO observes Box.*has the shape"):
        SB3Policy(model, Encoding("compact", make_rules("classic"), "round"))


@pytest.mark.parametrize("fields", [{}, {"players": 3, "encoding": "tactical", "target": 31}])
def test_a_model_that_was_saved_and_loaded_is_a_policy_as_before(fields, tmp_path):
    env = EscobaVecEnv(2, **fields)
    model = MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, seed=1, device="cpu")
    model.learn(32).save(tmp_path / "m.zip")
    loaded = MaskablePPO.load(tmp_path / "m.zip", device="cpu")
    assert loaded.get_env() is None
    table = {"players": fields.get("players", 2)}
    assert evaluate(loaded, "random", deals=4, **table).games > 0
    views = views_of(**table)
    expected = load_policy(model).probabilities(views)
    np.testing.assert_array_equal(load_policy(loaded).probabilities(views), expected)


def test_a_loaded_model_of_the_gymnasium_environment_is_a_policy(tmp_path):
    env = make_vec_env("escoba_env/Escoba-v0", n_envs=1, env_kwargs={"encoding": "tactical"})
    PPO("MultiInputPolicy", env, n_steps=16, batch_size=16, device="cpu").save(tmp_path / "m.zip")
    policy = load_policy(PPO.load(tmp_path / "m.zip", device="cpu"))
    assert policy.made_for.name == "tactical"
    assert evaluate(policy, "random", deals=4).games > 0


def without_its_encoding(model):
    """As a model of an older version is."""
    vars(model.observation_space).pop(SPACE_KEY)
    model.env = None
    return model


def test_a_model_that_does_not_know_its_encoding_is_told_it():
    model = PPO("MlpPolicy", EscobaVecEnv(2, encoding="tactical"), seed=1, device="cpu")
    expected = load_policy(model).probabilities(views_of())
    model = without_its_encoding(model)
    with pytest.raises(ValueError, match=r"load_policy\(model, encoding='tactical'\)"):
        evaluate(model, "random", deals=2)
    for encoding in ("tactical", Encoding("tactical", "classic")):
        found = load_policy(model, encoding=encoding).probabilities(views_of())
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="encoding 'compact' under its rules has the shape"):
        load_policy(model, encoding="compact")
    for wrong in ("unknown", 5):
        with pytest.raises(ValueError, match=f"{wrong!r} is"):
            load_policy(model, encoding=wrong)


def test_observations_that_were_changed_are_not_taken_for_the_encoding_s(tmp_path):
    env = VecNormalize(EscobaVecEnv(2), norm_reward=False)
    model = MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, device="cpu").learn(32)
    model.save(tmp_path / "m.zip")
    env.save(tmp_path / "normalize.pkl")
    with pytest.raises(ValueError, match=r"VecNormalize or another wrapper has changed"):
        load_policy(MaskablePPO.load(tmp_path / "m.zip", device="cpu"))
    again = VecNormalize.load(tmp_path / "normalize.pkl", EscobaVecEnv(2))
    loaded = MaskablePPO.load(tmp_path / "m.zip", env=again, device="cpu")
    views = views_of()
    expected = load_policy(model).probabilities(views)
    np.testing.assert_array_equal(load_policy(loaded).probabilities(views), expected)


def test_a_model_of_another_version_of_the_encoding_is_refused(tmp_path):
    model = PPO("MlpPolicy", EscobaVecEnv(2), device="cpu")
    vars(model.observation_space)[SPACE_KEY]["version"] = 99
    model.env = None
    with pytest.raises(ValueError, match="'compact' is of version 99; this version writes 1"):
        load_policy(model)


@pytest.mark.parametrize("name", ["m.zip", "m.pt", "m.pkl"])
def test_the_path_of_a_file_that_can_run_code_is_refused_and_says_what_to_do(name, tmp_path):
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"can run code .*MaskablePPO\.load.*export_policy"):
        evaluate(str(tmp_path / name), "random", deals=2)


def test_a_torch_network_is_a_policy(tmp_path):
    class Network(torch.nn.Module):
        def __init__(self, encoding):
            super().__init__()
            self.layer = torch.nn.Linear(encoding.size, 43)
            self.dropout = torch.nn.Dropout(0.9)

        def forward(self, observation, action_mask):
            return self.dropout(self.layer(observation))

    encoding = Encoding("tactical", "classic")
    network = Network(encoding).train()
    policy = load_policy(network, encoding="tactical")
    assert policy.name == "Network"
    assert evaluate(policy, "random", deals=4).games > 0
    views = views_of()
    probabilities = policy.probabilities(views)
    np.testing.assert_array_equal(
        load_policy(network, encoding).probabilities(views), probabilities
    )
    assert network.training
    assert network.dropout.training
    export_policy(policy, tmp_path / "x.onnx")
    np.testing.assert_allclose(
        load_policy(tmp_path / "x.onnx").probabilities(views), probabilities, atol=1e-5
    )
    with pytest.raises(ValueError, match=r"network Network: encoding None is not possible; allow"):
        evaluate(network, "random", deals=2)
    with pytest.raises(ValueError, match="network Network cannot be called with observations"):
        load_policy(network, encoding="planes")


def test_a_policy_of_torchrl_as_it_is_is_refused_and_says_what_is_wanted():
    nn = pytest.importorskip("tensordict.nn")
    module = nn.TensorDictModule(torch.nn.Linear(4, 43), in_keys=["observation"], out_keys=["out"])
    with pytest.raises(ValueError, match="a network inside the policy, or make a FunctionPolicy"):
        load_policy(module, encoding="compact")


def test_a_function_is_told_its_encoding_too_and_what_has_its_own_is_not():
    def first_legal(observation, mask):
        assert observation.ndim == 3
        return int(mask.argmax())

    assert evaluate(load_policy(first_legal, encoding="planes"), "random", deals=2).games > 0
    policy = load_policy(first_legal, Encoding("planes", "classic", memory="visible"))
    assert evaluate(policy, "random", deals=2).games > 0
    for taken in ("greedy", "classic-2p", load_policy("greedy")):
        with pytest.raises(ValueError, match="which has its own or needs none; allowed: with a"):
            load_policy(taken, encoding="compact")
