"""RLlib: the environment as its episodes record it, its masking module, and self-play training."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from escoba_env import Game, IllegalActionError, evaluate, load_policy
from escoba_env.cards import NUM_ACTIONS
from tests.adapters.scripted import TABLES, script

IDS = [f"{t['rules']}-{t['players']}{'p' * t.get('partnership', False)}" for t in TABLES]


pytest.importorskip("tree", reason="RLlib is not installed")
pytest.importorskip("ray.rllib", reason="RLlib is not installed")
torch = pytest.importorskip("torch")

import gymnasium  # noqa: E402
import ray  # noqa: E402
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec  # noqa: E402
from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: E402
from ray.rllib.env.env_context import EnvContext  # noqa: E402
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner  # noqa: E402
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode  # noqa: E402
from ray.rllib.utils.pre_checks.env import check_multiagent_environments  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from escoba_env.adapters.rllib import (  # noqa: E402
    LEARNER,
    PAST,
    EscobaMultiAgentEnv,
    EscobaTorchRLModule,
    module_of,
)
from escoba_env.policies.learned import LearnedPolicy  # noqa: E402
from training import rllib_selfplay  # noqa: E402
from training.config import ConfigError, make_config  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    torch.set_num_threads(1)
    ray.init(
        num_cpus=2, include_dashboard=False, object_store_memory=200_000_000, log_to_driver=False
    )
    yield
    ray.shutdown()


# -- the environment ------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES, ids=IDS)
def test_the_environment_check_passes(table: dict[str, Any]) -> None:
    env = EscobaMultiAgentEnv(table)
    with warnings.catch_warnings():
        # It plays an action that is not masked.
        warnings.simplefilter("ignore")
        check_multiagent_environments(env)


@pytest.mark.parametrize("timing", ["round_end", "as_earned"])
@pytest.mark.parametrize("table", TABLES, ids=IDS)
def test_every_seat_earns_in_an_episode_what_it_earns_in_the_engine(
    table: dict[str, Any], timing: str
) -> None:
    for seed in range(5):
        game = script(table, seed)
        env = EscobaMultiAgentEnv({**table, "reward_timing": timing})
        observations, infos = env.reset(seed=seed)
        episode = MultiAgentEpisode(agent_to_module_mapping_fn=module_of)
        episode.add_env_reset(observations=observations, infos=infos)
        given = dict.fromkeys(env.possible_agents, 0.0)
        for seat, action in zip(game.seats, game.actions, strict=True):
            assert list(observations) == [f"player_{seat}"]
            actions = {f"player_{seat}": action}
            observations, rewards, terminateds, truncateds, infos = env.step(actions)
            for agent, reward in rewards.items():
                given[agent] += reward
            episode.add_env_step(
                observations,
                actions,
                rewards,
                infos,
                terminateds=terminateds,
                truncateds=truncateds,
            )
        assert episode.is_done
        recorded = {a: one.get_return() for a, one in episode.agent_episodes.items()}
        wanted = {f"player_{seat}": value for seat, value in enumerate(game.returns)}
        assert given == pytest.approx(wanted)
        assert recorded == pytest.approx(wanted)


def test_an_episode_that_samples_cut_keeps_every_reward_and_decision() -> None:
    ended: dict[str, dict[str, float]] = {}
    decided: Counter[tuple[str, str]] = Counter()

    def note(*, episode: Any, env: Any, env_index: int, **_: Any) -> None:
        inner = env.envs[env_index].unwrapped
        returns = inner.aec_env.game.returns
        ended[episode.id_] = dict(zip(inner.possible_agents, returns, strict=True))

    config = _ppo({"players": 3, "reward_timing": "as_earned"}, num_envs=3)
    config.callbacks(on_episode_end=note)
    runner = MultiAgentEnvRunner(config=config)
    earned: dict[str, Counter[str]] = {}
    for _ in range(60):
        for episode in runner.sample(num_timesteps=11, explore=True):
            for agent, part in episode.agent_episodes.items():
                earned.setdefault(episode.id_, Counter())[agent] += part.get_return()
                decided[episode.id_, agent] += len(part.get_actions())
    assert len(ended) > 10
    for number, returns in ended.items():
        assert {agent: earned[number][agent] for agent in returns} == pytest.approx(returns)
        # 36 cards are played from hand, and some need more than one decision.
        assert sum(decided[number, agent] for agent in returns) >= 36


def test_a_thousand_random_games_by_the_mask_have_no_illegal_action() -> None:
    env = EscobaMultiAgentEnv({"illegal": "raise"})
    rng = np.random.default_rng(1)
    env.reset(seed=3)
    for number in range(1000):
        observations, _ = env.reset()
        over = False
        while not over:
            ((agent, seen),) = observations.items()
            if number < 5:
                assert env.observation_spaces[agent].contains(seen)
            action = int(rng.choice(np.flatnonzero(seen["action_mask"])))
            observations, _, terminateds, _, _ = env.step({agent: action})
            over = terminateds["__all__"]
        assert list(observations) == env.agents
        assert all((seen["action_mask"] == 1).all() for seen in observations.values())


def test_agents_are_in_a_stable_order_with_spaces_of_their_own() -> None:
    env = EscobaMultiAgentEnv({"players": 4, "opponents": {PAST: 0.5}})
    assert env.possible_agents == [f"player_{i}" for i in range(4)] + [
        f"past_{i}" for i in range(4)
    ]
    assert list(env.observation_spaces) == env.possible_agents
    assert env.get_observation_space("past_3")["action_mask"].dtype == np.float32
    assert env.get_action_space("player_2") == gymnasium.spaces.Discrete(NUM_ACTIONS)


def test_a_seed_gives_the_same_games_again() -> None:
    config = {"opponents": {"random": 0.4, PAST: 0.3}, "skip_forced": True}

    def play() -> list[Any]:
        env = EscobaMultiAgentEnv(config)
        observations, _ = env.reset(seed=11)
        course: list[Any] = []
        for _ in range(20):
            over = False
            while not over:
                ((agent, seen),) = observations.items()
                action = int(seen["action_mask"].argmax())
                observations, rewards, terminateds, _, _ = env.step({agent: action})
                course.append((agent, action, tuple(rewards.items())))
                over = terminateds["__all__"]
            observations, _ = env.reset()
        return course

    assert play() == play()


def test_env_runners_are_not_dealt_the_same_games() -> None:
    def hands(worker: int, seed: int) -> Any:
        context = EnvContext({}, worker_index=worker)
        env = EscobaMultiAgentEnv(context if worker else {})
        env.reset(seed=seed)
        return env.aec_env.game.record["hands"].tolist()

    # Seeds of two games of each of two runners, as RLlib gives them out.
    dealt = [hands(worker, 7 + worker + slot) for worker in (1, 2) for slot in (0, 1)]
    assert len({tuple(hand) for hand in dealt}) == 4
    game = Game("classic")
    game.reset(7)
    assert hands(0, 7) == game.record["hands"].tolist()


def test_opponents_have_their_share_of_games_and_one_side_learns() -> None:
    env = EscobaMultiAgentEnv(
        {"players": 4, "partnership": True, "opponents": {"greedy": 0.25, PAST: 0.25}}
    )
    env.reset(seed=5)
    kinds: Counter[tuple[str, ...]] = Counter()
    for _ in range(2000):
        env.reset()
        kinds[tuple(env.agents)] += 1
    inside = [("player_0", "player_2"), ("player_1", "player_3")]
    past = [
        ("player_0", "past_1", "player_2", "past_3"),
        ("past_0", "player_1", "past_2", "player_3"),
    ]
    assert set(kinds) == {tuple(env.possible_agents[:4]), *inside, *past}
    for pair in (inside, past):
        assert all(0.09 < kinds[kind] / 2000 < 0.16 for kind in pair)


def test_a_learner_earns_against_an_opponent_what_the_engine_says() -> None:
    env = EscobaMultiAgentEnv({"players": 3, "opponents": {"greedy": 1.0}, "skip_forced": True})
    for seed in range(20):
        observations, _ = env.reset(seed=seed)
        (learner,) = env.agents
        total, over = 0.0, False
        while not over:
            assert list(observations) == [learner]
            mask = observations[learner]["action_mask"]
            assert mask.sum() > 1
            observations, rewards, terminateds, _, _ = env.step({learner: int(mask.argmax())})
            total += rewards[learner]
            over = terminateds["__all__"]
        seat = int(learner[-1])
        assert total == pytest.approx(env.aec_env.game.returns[seat])


def test_an_illegal_action_raises_and_leaves_the_game_or_ends_it() -> None:
    env = EscobaMultiAgentEnv({"illegal": "raise"})
    observations, _ = env.reset(seed=2)
    ((agent, seen),) = observations.items()
    wrong = int(seen["action_mask"].argmin())
    before = env.aec_env.get_state()
    with pytest.raises(IllegalActionError, match="is illegal"):
        env.step({agent: wrong})
    other = "player_1" if agent == "player_0" else "player_0"
    for actions in ({}, {other: 1}, {agent: 1, other: 1}):
        with pytest.raises(ValueError, match="who is to decide"):
            env.step(actions)
    assert env.aec_env.get_state() == before
    env = EscobaMultiAgentEnv()
    env.reset(seed=2)
    with pytest.warns(UserWarning, match="is illegal"):
        observations, rewards, terminateds, _, _ = env.step({agent: wrong})
    assert terminateds == {"player_0": True, "player_1": True, "__all__": True}
    assert rewards == {agent: -21.0, other: 21.0}
    assert set(observations) == {"player_0", "player_1"}
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step({agent: 1})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"playrs": 3}, "playrs"),
        ({"opponents": "greedy"}, "opponents='greedy'"),
        ({"opponents": {"greedy": 0.7, "random": 0.5}}, "add up to 1 at most"),
        ({"opponents": {"greedy": 0}}, "above 0"),
        ({"opponents": {"nobody": 0.5}}, "'nobody' is unknown"),
        ({"opponents": {"cheat:search": 0.5}}, "sees hidden cards"),
        ({"skip_forced": 1}, "skip_forced=1"),
    ],
)
def test_what_is_not_possible_is_named(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        EscobaMultiAgentEnv(config)


# -- modules --------------------------------------------------------------------------------


def _ppo(
    env_config: dict[str, Any], num_envs: int, module: RLModuleSpec | None = None
) -> PPOConfig:
    """A learner whose updates take a moment, all in this process; illegal actions raise."""
    if module is None:
        env_config = {"encoding": "tactical", **env_config}
        shape = {"hidden": (8,), "action_hidden": 4}
        module = RLModuleSpec(module_class=EscobaTorchRLModule, model_config=shape)
    return (
        PPOConfig()
        .environment(
            EscobaMultiAgentEnv,
            env_config={**env_config, "illegal": "raise"},
            disable_env_checking=True,
        )
        .env_runners(num_env_runners=0, num_envs_per_env_runner=num_envs)
        .multi_agent(policies={LEARNER}, policy_mapping_fn=module_of)
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={LEARNER: module}))
        .training(gamma=1.0, train_batch_size_per_learner=256, minibatch_size=64, num_epochs=1)
        .debugging(seed=1, log_level="ERROR")
    )


def test_rllibs_own_masking_module_plays_and_learns_without_an_illegal_action() -> None:
    from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule

    module = RLModuleSpec(
        module_class=ActionMaskingTorchRLModule,
        model_config={"head_fcnet_hiddens": [8], "fcnet_hiddens": [8]},
    )
    algorithm = _ppo({}, 4, module).build_algo()
    result = algorithm.train()
    algorithm.stop()
    assert result["learners"][LEARNER]["entropy"] > 0


def test_the_module_learns_and_its_network_is_the_learners() -> None:
    algorithm = _ppo({}, 4).build_algo()
    before = {k: v.clone() for k, v in algorithm.get_module(LEARNER).network.state_dict().items()}
    result = algorithm.train()
    network = algorithm.get_module(LEARNER).network
    learned = algorithm.learner_group.get_weights([LEARNER])[LEARNER]
    algorithm.stop()
    assert np.isfinite(result["learners"][LEARNER]["total_loss"])
    for key, value in network.state_dict().items():
        assert np.array_equal(value.numpy(), learned[f"network.{key}"])
    assert any(not torch.equal(before[key], value) for key, value in network.state_dict().items())


def test_an_encoding_without_facts_is_refused() -> None:
    env = EscobaMultiAgentEnv()
    with pytest.raises(ValueError, match="'tactical' or 'universal_tactical'"):
        EscobaTorchRLModule(
            observation_space=env.observation_spaces["player_0"],
            action_space=env.action_spaces["player_0"],
            model_config={},
        )


# -- self-play ------------------------------------------------------------------------------


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "name": "tiny",
        "decisions": 512,
        "games": 8,
        "steps": 32,
        "minibatch": 64,
        "epochs": 1,
        "network": {"hidden": [12, 8], "action_hidden": 8},
        "opponents": {"greedy": 0.25, "past": 0.25},
        "past_every": 1,
        "evaluation": {"every": 256, "deals": 4, "against": ["random"]},
        "save_every": 256,
        **changes,
    }


def test_a_run_saves_a_checkpoint_goes_on_and_is_as_long_as_asked_for(tmp_path: Path) -> None:
    folder = rllib_selfplay.RunFolder(tmp_path / "run")
    rllib_selfplay.train(make_config(settings(), "tiny"), folder, env_runners=0)
    first = LearnedPolicy.load(folder.checkpoint)
    assert 512 <= first.card.training["decisions"] < 600
    same = rllib_selfplay.train(make_config(settings(), "tiny"), folder, env_runners=0, resume=True)
    assert same.card == first.card
    for found, saved in zip(same.network.parameters(), first.network.parameters(), strict=True):
        assert torch.equal(found, saved)
    longer = make_config(settings(decisions=1024), "tiny")
    with pytest.raises(ConfigError, match="is not empty"):
        rllib_selfplay.train(longer, folder, env_runners=0)
    policy = rllib_selfplay.train(longer, folder, env_runners=2, resume=True)
    card = load_policy(str(folder.checkpoint)).card  # type: ignore[attr-defined]
    assert 1024 <= card.training["decisions"] < 1200
    assert card == policy.card
    lines = folder.evaluations.read_text().splitlines()
    done = [json.loads(line)["decisions"] for line in lines]
    assert done == sorted(set(done))
    assert len(done) == 4
    assert evaluate(str(folder.checkpoint), "random", deals=4).games == 8
    other = make_config(settings(decisions=1024, seed=2), "tiny")
    with pytest.raises(ConfigError, match="seed differ"):
        rllib_selfplay.train(other, folder, resume=True)
    folder.progress.write_text("{")
    with pytest.raises(ConfigError, match="cannot be resumed from"):
        rllib_selfplay.train(longer, folder, env_runners=0, resume=True)


def test_past_is_a_copy_of_the_learner_with_learner_and_env_runners_and_stays_behind() -> None:
    config = rllib_selfplay.algorithm_config(make_config(settings(), "tiny"), 1)
    algorithm = config.build_algo()

    def weights(runner: Any) -> dict[str, bytes]:
        return {
            name: b"".join(v.numpy().tobytes() for v in module.network.state_dict().values())
            for name, module in runner.module.items()
        }

    def everywhere() -> list[dict[str, bytes]]:
        runners = algorithm.env_runner_group.foreach_env_runner(weights)
        assert len(runners) == 2
        return runners

    assert all(found[PAST] != found[LEARNER] for found in everywhere())
    rllib_selfplay.bring_past_up_to_date(algorithm)
    start = everywhere()
    assert all(found[PAST] == found[LEARNER] for found in start)
    algorithm.train()
    algorithm.train()
    for found, before in zip(everywhere(), start, strict=True):
        assert found[PAST] == before[PAST]
        assert found[LEARNER] != before[LEARNER]
    algorithm.stop()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"opponents": {"nobody": 0.5}}, "policy nobody"),
        ({"precision": "bfloat16"}, "precision='bfloat16'"),
        ({"games": 9}, "games=9"),
    ],
)
def test_a_config_that_cannot_be_run_is_named_before_anything_is_made(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    import yaml

    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings(**changes)))
    run = tmp_path / "run"
    result = CliRunner().invoke(rllib_selfplay.app, [str(path), "--run", str(run)])
    assert result.exit_code == 2
    assert said in result.output
    assert not run.exists()


def test_ctrl_c_saves_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    folder = rllib_selfplay.RunFolder(tmp_path / "run")
    update = rllib_selfplay._Run._update

    def interrupted(run: Any) -> float:
        rate = update(run)
        os.kill(os.getpid(), signal.SIGINT)
        return rate

    monkeypatch.setattr(rllib_selfplay._Run, "_update", interrupted)
    policy = rllib_selfplay.train(make_config(settings(), "tiny"), folder, env_runners=0)
    assert 256 <= policy.card.training["decisions"] < 300
    monkeypatch.setattr(rllib_selfplay._Run, "_update", update)
    policy = rllib_selfplay.train(
        make_config(settings(), "tiny"), folder, env_runners=0, resume=True
    )
    assert policy.card.training["decisions"] >= 512
