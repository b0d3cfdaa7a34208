"""The Gymnasium environment: Gymnasium's own checks, and what a learner is promised."""

from __future__ import annotations

import copy
import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from support.needs import needs

from escoba_env import Game, IllegalActionError, Rules, RulesError, escoba_v0, load_policy
from escoba_env.envs import registration
from escoba_env.envs.single import EscobaEnv

registration.register()

ID = "escoba_env/Escoba-v0"
SEATS = [
    {"players": 2},
    {"players": 3},
    {"players": 4},
    {"players": 4, "partnership": True},
]
each_seating = pytest.mark.parametrize("seats", SEATS, ids=["2", "3", "4", "4-partnership"])
each_episode = pytest.mark.parametrize("episode", ["round", "match"])
each_reward = pytest.mark.parametrize("reward", ["margin", "points", "win"])


def choose(observation, rng):
    return int(rng.choice(np.flatnonzero(observation["action_mask"])))


def run_episode(env, rng, seed=None):
    """Plays one episode at random; returns its observations, actions and rewards."""
    observations, actions, rewards = [env.reset(seed=seed)[0]], [], []
    terminated = False
    while not terminated:
        actions.append(choose(observations[-1], rng))
        observation, reward, terminated, truncated, info = env.step(actions[-1])
        assert type(reward) is float
        assert type(terminated) is bool
        assert truncated is False
        assert info == {}
        observations.append(observation)
        rewards.append(reward)
    return observations, actions, rewards


def equal(first, second):
    return all((first[key] == second[key]).all() for key in first)


class Recorder:
    """Plays the lowest legal action and notes the seats it was asked to play."""

    def __init__(self, name="recorder"):
        self.name = name
        self.seats = set()

    def act(self, views):
        assert len(views) == 1
        self.seats.add(int(views.records["viewer"][0]))
        return np.array([int(legal & -legal).bit_length() - 1 for legal in views.records["legal"]])


# -- Gymnasium's own checks -----------------------------------------------------------------


@needs("PIL")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"players": 4, "partnership": True, "episode": "match", "seat": "random"},
        {"players": 3, "encoding": "tactical", "reward": "win", "opponents": "random"},
    ],
    ids=["default", "partnership-match", "tactical-win"],
)
def test_gymnasium_check_env(arguments):
    check_env(gymnasium.make(ID, **arguments).unwrapped)


@needs("PIL")
def test_gymnasium_check_env_finds_nothing_to_warn_about():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(gymnasium.make(ID).unwrapped)
    others = [str(w.message) for w in caught if "illegal" not in str(w.message)]
    assert others == []


def test_make_and_registration_are_idempotent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        registration.register()
        registration.register()
    assert isinstance(gymnasium.make(ID).unwrapped, EscobaEnv)


@each_seating
def test_make_vec_plays_whole_games(seats):
    envs = gymnasium.make_vec(ID, num_envs=3, opponents="random", **seats)
    observations, _ = envs.reset(seed=1)
    assert observations["action_mask"].shape == (3, 43)
    rng = np.random.default_rng(1)
    ended = 0
    for _ in range(90):
        masks = observations["action_mask"]
        actions = [int(rng.choice(np.flatnonzero(m))) if m.any() else 0 for m in masks]
        observations, _, terminated, truncated, _ = envs.step(np.array(actions))
        assert not truncated.any()
        assert (terminated == ~observations["action_mask"].any(axis=1)).all()
        ended += terminated.sum()
    assert ended >= 3
    envs.close()


# -- spaces, turns and rewards --------------------------------------------------------------


@each_seating
def test_spaces_are_those_of_the_aec_environment(seats):
    env, aec = EscobaEnv(**seats), escoba_v0.env(**seats)
    assert env.observation_space == aec.observation_space("player_0")
    assert env.action_space == aec.action_space("player_0")


@each_seating
@each_episode
@each_reward
def test_episode_rewards_add_up_to_the_engines_return_of_the_learner(seats, episode, reward):
    arguments = {**seats, "episode": episode, "reward": reward, "target": 8}
    env = EscobaEnv("random", seat="random", **arguments)
    rng = np.random.default_rng(2)
    for seed in range(4):
        _, actions, rewards = run_episode(env, rng, seed)
        game = Game(env.rules, episode=episode, reward=reward, seed=seed)
        policy = load_policy("random")
        todo = iter(actions)
        while not game.is_over:
            if game.turn == env.seat:
                game.step(next(todo))
            else:
                game.step(int(policy.act(game.view(game.turn))[0]))
        assert sum(rewards) == pytest.approx(game.returns[env.seat])


def test_what_is_earned_before_the_first_decision_is_part_of_its_reward():
    env = EscobaEnv("greedy", "random", initial_table="eldest", reward_timing="as_earned")
    rng = np.random.default_rng(9)
    early = 0
    for seed in range(120):
        env.reset(seed=seed)
        early += any(env.game.returns)
        _, _, rewards = run_episode(env, rng, seed)
        assert sum(rewards) == pytest.approx(env.game.returns[env.seat])
    assert early > 1


@each_seating
def test_the_learner_sees_its_own_seat_at_its_own_decisions(seats):
    for seat in range(seats["players"]):
        env = EscobaEnv("random", seat=seat, **seats)
        rng = np.random.default_rng(3)
        observation, _ = env.reset(seed=seat)
        terminated = False
        while not terminated:
            assert env.game.turn == seat
            assert env.observation_space.contains(observation)
            expected = env.game.view(seat).observe(env.encoding)
            assert (observation["observation"] == expected[0][0]).all()
            assert list(np.flatnonzero(observation["action_mask"])) == env.game.legal_actions()
            assert (env.action_masks() == observation["action_mask"].astype(bool)).all()
            assert env.action_masks().dtype == np.bool_
            observation, _, terminated, _, _ = env.step(choose(observation, rng))
        assert env.game.is_over
        assert env.observation_space.contains(observation)
        assert not observation["action_mask"].any()
        assert not env.action_masks().any()


def test_observations_are_new_arrays_each_time():
    env = EscobaEnv()
    observations, _, _ = run_episode(env, np.random.default_rng(4), seed=4)
    arrays = [o[key] for o in observations for key in o]
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[i + 1 :])


# -- opponents and seats --------------------------------------------------------------------


@pytest.mark.parametrize("seat", [0, 1, 2, 3])
def test_opponents_sit_in_the_order_next_opposite_previous(seat):
    policies = [Recorder("next"), Recorder("opposite"), Recorder("previous")]
    env = EscobaEnv(policies, seat=seat, players=4, partnership=True)
    run_episode(env, np.random.default_rng(5))
    assert [p.seats for p in policies] == [{(seat + i) % 4} for i in (1, 2, 3)]
    # The opposite one is the learner's partner.
    assert env.rules.side_of(policies[1].seats.pop()) == env.rules.side_of(seat)


def test_three_players_have_a_next_and_a_previous():
    policies = [Recorder("next"), Recorder("previous")]
    run_episode(EscobaEnv(tuple(policies), seat=2, players=3), np.random.default_rng(6))
    assert [p.seats for p in policies] == [{0}, {1}]


def test_one_policy_plays_all_other_seats():
    policy = Recorder()
    env = EscobaEnv(policy, seat=1, players=4)
    run_episode(env, np.random.default_rng(7))
    assert policy.seats == {0, 2, 3}
    assert [p.name for p in EscobaEnv("greedy", players=4).opponents] == ["greedy"] * 3


def test_random_seat_is_drawn_from_the_seeded_stream():
    def seats(seed):
        env = EscobaEnv(seat="random", players=4)
        env.reset(seed=seed)
        drawn = [env.seat]
        for _ in range(30):
            env.reset()
            drawn.append(env.seat)
        return drawn

    assert seats(8) == seats(8) != seats(9)
    assert set(seats(8)) == {0, 1, 2, 3}


def test_an_opponents_illegal_action_names_the_opponent():
    class Stubborn:
        name = "stubborn"

        def act(self, views):
            return np.full(len(views), 42)

    env = EscobaEnv(Stubborn())
    with pytest.raises(IllegalActionError, match="opponent 'stubborn' as player_1: action 42"):
        run_episode(env, np.random.default_rng(10), seed=10)


# -- randomness and copies ------------------------------------------------------------------


@each_seating
def test_same_seed_same_episode_whatever_else_draws_random_numbers(seats):
    runs = []
    for noise in range(3):
        np.random.seed(noise)  # noqa: NPY002 - the global generator is what must not matter
        env = EscobaEnv("random", seat="random", **seats)
        env.action_space.seed(noise)
        for _ in range(noise):
            run_episode(env, np.random.default_rng(noise))
        runs.append([run_episode(env, np.random.default_rng(11), seed=11) for _ in range(2)])
    for observations, actions, rewards in [episode for run in runs for episode in run]:
        assert actions == runs[0][0][1]
        assert rewards == runs[0][0][2]
        assert all(map(equal, observations, runs[0][0][0]))


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))],  # noqa: S301 - its own
    ids=["deepcopy", "pickle"],
)
def test_copies_keep_the_live_game(copied):
    env = EscobaEnv("random", seat="random", players=3, episode="match")
    observation, _ = env.reset(seed=12)
    rng = np.random.default_rng(12)
    for _ in range(20):
        observation, *_ = env.step(choose(observation, rng))
    other = copied(env)
    assert other.seat == env.seat
    assert (other.action_masks() == env.action_masks()).all()
    for _ in range(40):
        action = choose(observation, rng)
        (observation, *rest), (again, *same) = env.step(action), other.step(action)
        assert equal(observation, again)
        assert rest == same
    # The stream from which later seats are drawn is kept too.
    for _ in range(5):
        assert equal(env.reset()[0], other.reset()[0])
        assert env.seat == other.seat


def test_reset_options_reproduce_a_deal():
    env = EscobaEnv(seat=1, episode="match")
    observation, _ = env.reset(seed=13, options={"dealer": 0, "scores": [3, 4]})
    assert env.game.dealer == 0
    assert env.game.turn == 1
    assert env.game.scores == [3, 4]
    deck = " ".join(str(load) for load in _deck(env.game))
    again, _ = env.reset(seed=14, options={"deck": deck, "dealer": 0, "scores": [3, 4]})
    assert equal(observation, again)


def _deck(game):
    from escoba_env.cards import card_name

    return [card_name(int(card)) for card in game.record["stock"][:40]]


# -- misuse ---------------------------------------------------------------------------------


def test_terminate_is_the_default_and_pays_the_penalty():
    env = EscobaEnv()
    env.reset(seed=15)
    with pytest.warns(UserWarning, match="player_0: action 42 .* is illegal.*may choose"):
        observation, reward, terminated, truncated, info = env.step(42)
    assert (reward, terminated, truncated, info) == (-21.0, True, False, {})
    assert not observation["action_mask"].any()
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset()
    assert env.action_masks().any()


def test_raise_leaves_the_environment_unchanged():
    env = EscobaEnv(illegal="raise")
    observation, _ = env.reset(seed=16)
    before = env.game.to_text()
    for action in set(range(-1, 44)) - set(np.flatnonzero(observation["action_mask"])):
        with pytest.raises(IllegalActionError, match=f"action {action} "):
            env.step(action)
        assert env.game.to_text() == before
    env.step(choose(observation, np.random.default_rng(16)))


@pytest.mark.parametrize("illegal", ["terminate", "raise"])
@pytest.mark.parametrize("action", [None, True, 1.0, "7o", [3], np.array([3])], ids=repr)
def test_what_is_not_a_whole_number_is_always_an_error(illegal, action):
    env = EscobaEnv(illegal=illegal)
    env.reset(seed=17)
    before = env.game.to_text()
    with pytest.raises(TypeError, match="0 to 42"):
        env.step(action)
    assert env.game.to_text() == before


def test_nothing_works_before_reset_or_after_the_end():
    env = EscobaEnv(render_mode="ansi")
    for call in (lambda: env.step(0), env.action_masks, env.render):
        with pytest.raises(ResetNeeded, match=r"reset\(\) starts one"):
            call()
    run_episode(env, np.random.default_rng(18))
    with pytest.raises(ResetNeeded, match=r"reset\(\) starts one"):
        env.step(0)
    env.close()
    env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seat": 2}, "seat 2.*0 to 1"),
        ({"seat": -1}, "seat -1"),
        ({"seat": True}, "seat True"),
        ({"seat": "any"}, "seat 'any'.*'random'"),
        ({"opponents": "gredy"}, "'gredy'"),
        ({"opponents": 5}, "opponents=5: policy 5 is not possible"),
        ({"opponents": []}, r"opponents=\[\].*list of 1"),
        ({"opponents": ["greedy", "greedy"]}, "list of 1"),
        ({"opponents": [5]}, "policy 5"),
        ({"players": 4, "opponents": ["greedy"]}, "list of 3"),
        ({"encoding": "none"}, "'none'"),
        ({"illegal": "no"}, "illegal 'no'"),
        ({"render_mode": "svg"}, "render_mode='svg'"),
        ({"nonsense": 1}, "'nonsense'"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        EscobaEnv(**arguments)


def test_rules_players_and_fields_work_as_in_the_aec_environment():
    four = Rules(players=4, partnership=True)
    assert EscobaEnv(rules=four).rules == four
    assert EscobaEnv(rules=four, partnership=False).rules == Rules(players=4)
    assert EscobaEnv(target=31).rules.target == 31
    with pytest.raises(RulesError, match="partnership"):
        EscobaEnv(rules=four, players=2)


@pytest.mark.parametrize(
    ("seed", "options"), [(-1, None), (1.5, None), (None, {"decks": 1}), (None, {"dealer": 5})]
)
def test_impossible_reset_is_refused_and_changes_nothing(seed, options):
    env, other = (EscobaEnv(seat="random", players=4) for _ in range(2))
    env.reset(seed=19)
    other.reset(seed=19)
    with pytest.raises(ValueError, match=r"seed|option|dealer"):
        env.reset(seed=seed, options=options)
    assert env.game.to_text() == other.game.to_text()
    for _ in range(5):
        assert equal(env.reset()[0], other.reset()[0])
        assert env.seat == other.seat


# -- sb3-contrib ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_maskable_ppo_finds_the_masks_and_learns():
    maskable = pytest.importorskip("sb3_contrib")
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
    from stable_baselines3.common.vec_env import DummyVecEnv

    envs = DummyVecEnv([lambda: gymnasium.make(ID, illegal="raise", opponents="random")] * 2)
    assert is_masking_supported(envs)
    envs.reset()
    assert get_action_masks(envs).shape == (2, 43)
    learner = maskable.MaskablePPO("MultiInputPolicy", envs, n_steps=32, batch_size=32, seed=1)
    learner.learn(128)
