"""The vector environment answers as Gymnasium's own would, the all-seats one as ``Batch`` does."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from support.needs import needs

from escoba_env import AllSeatsEnv, Batch, Game, IllegalActionError, RulesError, load_policy
from escoba_env.envs.single import EscobaEnv
from escoba_env.envs.vector import EscobaVectorEnv
from escoba_env.policies import RandomPolicy

ID = "escoba_env/Escoba-v0"
TABLES = {
    "default": {},
    "two, any seat": {"seat": "random", "opponents": "random"},
    "three, optional": {"players": 3, "opponents": ["greedy", "random"], "capture": "optional"},
    "partners, as earned": {
        "players": 4,
        "partnership": True,
        "seat": "random",
        "opponents": ["random", "greedy", "random"],
        "reward_timing": "as_earned",
        "initial_table": "eldest",
    },
    "match, win": {"episode": "match", "target": 3, "reward": "win", "seat": 1},
    "planes, visible": {"encoding": "planes", "memory": "visible", "opponents": "random"},
    "building, tactical": {"rules": "tabletop", "encoding": "tactical", "opponents": "random"},
}
each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
each_mode = pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)


def choose(masks, rng):
    """Legal actions at random; 0 where there are none."""
    return np.array([int(rng.choice(np.flatnonzero(m))) if m.any() else 0 for m in masks])


def lowest(masks):
    return masks.argmax(axis=1)


def equal(first, second):
    return all((first[key] == second[key]).all() for key in first)


def play(env, steps, seed, act=lowest):
    """Plays on; returns all that the environment answered."""
    observation, _ = env.reset(seed=seed)
    answers = []
    for _ in range(steps):
        actions = act(observation["action_mask"])
        observation, *rest = env.step(actions)
        answers.append((observation, actions, *rest))
    return answers


class Asked:
    """A built-in policy that is asked, as one that the kernels do not know."""

    def __init__(self, name):
        self.name = name
        self.policy = load_policy(name)
        self.answered = []

    def act(self, views):
        self.answered.append(len(views))
        return self.policy.act(views)


# -- as Gymnasium's own ---------------------------------------------------------------------


@each_table
@each_mode
def test_it_answers_as_gymnasiums_sync_vector_env_does(table, mode):
    ours = EscobaVectorEnv(3, autoreset_mode=mode, **table)
    theirs = SyncVectorEnv([lambda: EscobaEnv(**table)] * 3, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"]
    (seen, info), (expected, _) = ours.reset(seed=5), theirs.reset(seed=5)
    assert equal(seen, expected)
    assert info == {}
    rng = np.random.default_rng(5)
    episodes = 0
    for step in range(90):
        actions = choose(seen["action_mask"], rng)
        if step % 31 == 7:
            actions[1] = 42  # illegal at nearly all times: the game is forfeited
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (seen, *ours_rest), (expected, *their_rest) = ours.step(actions), theirs.step(actions)
        assert equal(seen, expected)
        assert seen["observation"].dtype == expected["observation"].dtype
        assert seen["action_mask"].dtype == expected["action_mask"].dtype
        assert ours_rest[0] == pytest.approx(their_rest[0], abs=1e-6)
        for mine, other in zip(ours_rest[:3], their_rest[:3], strict=True):
            assert mine.dtype == other.dtype
        assert (ours_rest[1] == their_rest[1]).all()
        assert not ours_rest[2].any()
        check_infos(ours_rest[3], their_rest[3])
        ended = ours_rest[1]
        episodes += ended.sum()
        if mode is AutoresetMode.DISABLED and ended.any():
            (seen, _), (expected, _) = (
                env.reset(options={"reset_mask": ended.copy()}) for env in (ours, theirs)
            )
            assert equal(seen, expected)
    assert episodes >= 3


def check_infos(ours, theirs):
    assert ours.keys() == theirs.keys()
    if not ours:
        return
    assert ours["final_info"] == theirs["final_info"]
    for key in ("_final_obs", "_final_info"):
        assert ours[key].dtype == theirs[key].dtype
        assert (ours[key] == theirs[key]).all()
    for mine, other in zip(ours["final_obs"], theirs["final_obs"], strict=True):
        assert (mine is None) == (other is None)
        assert mine is None or equal(mine, other)


def test_make_vec_finds_it_and_still_makes_the_others():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mode in (None, "vector_entry_point"):
            env = gymnasium.make_vec(ID, 2, vectorization_mode=mode, autoreset_mode="SameStep")
            assert isinstance(env.unwrapped, EscobaVectorEnv)
            assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
            assert env.spec.id == ID
        sync = gymnasium.make_vec(ID, 2, vectorization_mode="sync", opponents="random")
        assert gymnasium.make_vec(ID, 2, render_mode=None).render_mode is None
    assert isinstance(sync.unwrapped, SyncVectorEnv)
    assert [p.name for p in env.unwrapped.opponents] == ["greedy"]


@pytest.mark.parametrize(
    "mode",
    [
        "NextStep",
        pytest.param(
            "SameStep",
            marks=pytest.mark.skipif(
                gymnasium.__version__.startswith(("1.1.", "1.2.", "1.3.")),
                reason="Gymnasium before 1.4 takes NextStep for granted, and counts a step too few",
            ),
        ),
    ],
)
def test_gymnasiums_wrappers_count_its_episodes(mode):
    env = RecordEpisodeStatistics(EscobaVectorEnv(4, "random", autoreset_mode=mode))
    seen, _ = env.reset(seed=1)
    returns, lengths = np.zeros(4), np.zeros(4, int)
    fresh = np.zeros(4, bool)
    for _ in range(60):
        seen, rewards, ended, _, info = env.step(lowest(seen["action_mask"]))
        returns += rewards
        lengths += ~fresh
        if ended.any():
            assert info["episode"]["r"][ended] == pytest.approx(returns[ended])
            assert (info["episode"]["l"][ended] == lengths[ended]).all()
            returns[ended], lengths[ended] = 0, 0
        fresh = ended if mode == "NextStep" else np.zeros(4, bool)


def test_its_arguments_are_those_of_the_single_environment():
    single = inspect.signature(EscobaEnv).parameters
    vector = inspect.signature(EscobaVectorEnv).parameters
    assert set(single) - set(vector) == {"render_mode", "faces"}
    assert set(vector) - set(single) == {"num_envs", "dtype", "autoreset_mode"}
    assert all(vector[name] == single[name] for name in set(single) & set(vector))


# -- games, seats and rewards ---------------------------------------------------------------


@pytest.mark.parametrize("reward", ["margin", "points", "win"])
def test_an_episodes_rewards_are_the_engines_return_of_the_learners_seat(reward):
    env = EscobaVectorEnv(
        6, "random", "random", players=4, partnership=True, reward=reward, autoreset_mode="Disabled"
    )
    rng = np.random.default_rng(2)
    seen, _ = env.reset(seed=20)
    seats = env.seats
    assert len(set(seats)) > 1
    actions, returns = [], np.zeros(6)
    ended = np.zeros(6, bool)
    while not ended.any():
        actions.append(choose(seen["action_mask"], rng))
        seen, rewards, ended, *_ = env.step(actions[-1])
        returns += rewards
    policy = load_policy("random")
    for index in np.flatnonzero(ended):
        game = Game(env.rules, reward=reward, seed=20 + int(index))
        mine = iter([row[index] for row in actions])
        while not game.is_over:
            act = next(mine) if game.turn == seats[index] else policy.act(game.view(game.turn))[0]
            game.step(int(act))
        assert returns[index] == pytest.approx(game.returns[seats[index]], abs=1e-6)


def test_what_is_earned_before_the_first_decision_is_not_lost():
    table = {"seat": 0, "opponents": "greedy", "initial_table": "eldest"}
    arguments = {**table, "reward_timing": "as_earned", "autoreset_mode": "SameStep"}
    early = EscobaVectorEnv(200, **arguments)
    late = EscobaVectorEnv(200, **{**arguments, "reward_timing": "round_end"})
    sums = [sum(a[2] for a in play(env, 45, seed=3)) for env in (early, late)]
    ends = [a[3] for a in play(early, 45, seed=3)]
    # Compared where the last step ended an episode: nothing is outstanding there.
    assert ends[-1].any()
    assert sums[0][ends[-1]] == pytest.approx(sums[1][ends[-1]], abs=1e-4)


def test_uint8_observations_are_the_encodings_own():
    env = EscobaVectorEnv(3, "random", dtype="uint8")
    seen, _ = env.reset(seed=1)
    assert seen["observation"].dtype == np.uint8
    assert seen in env.observation_space
    batch = Batch(1, dtype="uint8")
    assert env.single_observation_space["observation"].shape == batch.encoding.shape


def test_answers_are_arrays_of_their_own():
    env = EscobaVectorEnv(2, autoreset_mode="SameStep")
    kept = [
        (answer[0]["observation"], answer[0]["action_mask"], *answer[2:5])
        for answer in play(env, 30, seed=1)
    ]
    arrays = [array for answer in kept for array in answer]
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[i + 1 :])


# -- opponents ------------------------------------------------------------------------------


@each_mode
@pytest.mark.parametrize("players", [2, 3])
def test_a_policy_is_asked_once_for_all_games_that_wait_for_it(mode, players):
    policy = Asked("random")
    env = EscobaVectorEnv(40, policy, "random", players=players, autoreset_mode=mode)
    waiting = []
    views = env._tables.batch.views
    env._tables.batch.views = lambda games: (waiting.append(games), views(games))[1]
    rng = np.random.default_rng(3)
    seen, _ = env.reset(seed=100)
    for _ in range(40):
        waiting.clear()
        policy.answered.clear()
        seen, _, ended, *_ = env.step(choose(seen["action_mask"], rng))
        assert policy.answered == [len(np.unique(games)) for games in waiting]
        if waiting:
            # No more calls than the longest game of this step has decisions of opponents.
            assert len(waiting) == np.bincount(np.concatenate(waiting)).max()
        if mode is AutoresetMode.DISABLED and ended.any():
            seen, _ = env.reset(options={"reset_mask": ended})


@each_mode
@pytest.mark.parametrize("names", [["random"] * 3, ["greedy", "random", "greedy"]], ids=str)
@pytest.mark.parametrize("rules", ["classic", "tabletop", "comodines"])
def test_built_in_policies_play_alike_in_kernels_and_when_asked(rules, names, mode):
    arguments = {
        "seat": "random",
        "rules": rules,
        "players": 4,
        "episode": "match",
        "target": 3,
        "autoreset_mode": mode,
    }
    asked = {name: Asked(name) for name in names}
    mixed = [asked[names[0]], *names[1:]]
    envs = [
        EscobaVectorEnv(6, opponents, **arguments)
        for opponents in (names, [asked[name] for name in names], mixed)
    ]
    rng = np.random.default_rng(7)
    for env in envs:
        seen, _ = env.reset(seed=7)
    for _ in range(60):
        actions = choose(seen["action_mask"], rng)
        answers = [env.step(actions) for env in envs]
        seen, rewards, ended, *_ = answers[0]
        for other in answers[1:]:
            assert equal(seen, other[0])
            assert (rewards == other[1]).all()
            assert (ended == other[2]).all()
        if mode is AutoresetMode.DISABLED and ended.any():
            for env in envs:
                seen, _ = env.reset(options={"reset_mask": ended.copy()})
    assert asked[names[0]].answered


def test_a_class_derived_from_a_built_in_policy_is_asked():
    class Last(RandomPolicy):
        def act(self, views):
            return np.array([int(legal).bit_length() - 1 for legal in views.records["legal"]])

    ours = EscobaVectorEnv(2, Last(), autoreset_mode="SameStep")
    theirs = SyncVectorEnv([lambda: EscobaEnv(Last())] * 2, autoreset_mode="SameStep")
    for mine, other in zip(play(ours, 25, 1), play(theirs, 25, 1), strict=True):
        assert equal(mine[0], other[0])


@needs("torch")
def test_a_network_makes_one_forward_pass_for_all_games_that_wait():
    policy = load_policy("classic-2p")
    rows = []
    policy.network.register_forward_hook(lambda net, inputs, out: rows.append(len(inputs[0])))
    asked = []
    act = policy.act
    policy.act = lambda views: (asked.append(len(views)), act(views))[1]
    env = EscobaVectorEnv(50, policy)
    seen, _ = env.reset(seed=1)
    for _ in range(10):
        seen, *_ = env.step(lowest(seen["action_mask"]))
    assert rows == asked
    # The longest turns take several picks; without batching it would be 50 passes a step.
    assert len(rows) < 10 * 10
    assert max(rows) > 40


def test_a_policy_that_is_named_several_times_is_one_policy():
    env = EscobaVectorEnv(2, ["greedy", "random", "greedy"], players=4)
    assert [policy.name for policy in env.opponents] == ["greedy", "random", "greedy"]
    assert env.opponents[0] is env.opponents[2]


class Stubborn:
    name = "stubborn"

    def __init__(self, answer):
        self.answer = answer

    def act(self, views):
        return self.answer(len(views))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda n: np.full(n, 42), IllegalActionError),
        (lambda n: np.zeros(n + 1, int), ValueError),
        (np.zeros, ValueError),
    ],
    ids=["illegal", "too many", "floats"],
)
def test_an_opponents_bad_answer_names_it_and_stops_play(answer, error):
    env = EscobaVectorEnv(3, Stubborn(answer), 0)
    for seed in (1, 1):
        with pytest.raises(error, match="opponent 'stubborn'"):
            play(env, 3, seed)
        with pytest.raises(ResetNeeded):
            env.step(np.zeros(3, int))


# -- randomness and copies ------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_game_depends_on_its_own_seed_alone(mode):
    arguments = {"opponents": "random", "seat": "random", "players": 3, "autoreset_mode": mode}
    few = play(EscobaVectorEnv(3, **arguments), 40, seed=7)
    many = play(EscobaVectorEnv(8, **arguments), 40, seed=5)
    mixed = play(EscobaVectorEnv(3, **arguments), 40, seed=[9, 7, 8])
    for (seen, _, rewards, ended, *_), wide, other in zip(few, many, mixed, strict=True):
        for key, rows in seen.items():
            assert (rows == wide[0][key][2:5]).all()
            assert (rows == other[0][key][[1, 2, 0]]).all()
        assert (rewards == wide[2][2:5]).all()
        assert (ended == other[3][[1, 2, 0]]).all()


def test_without_a_seed_the_next_games_follow():
    def seen(env, seeds):
        return [env.reset(seed=seed)[0]["observation"].tobytes() for seed in seeds]

    env = EscobaVectorEnv(4, seat="random", players=3)
    runs = [seen(env, [1, None, None]) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 3
    assert seen(env, [[1, 2, 3, 4], [None] * 4]) == runs[0][:2]
    # Not seeded: not the same games in any two slots, nor in two environments.
    fresh = [EscobaVectorEnv(4, seat="random").reset()[0]["observation"] for _ in range(2)]
    assert len({row.tobytes() for rows in fresh for row in rows}) == 8


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))],  # noqa: S301 - its own
    ids=["deepcopy", "pickle"],
)
def test_copies_keep_the_live_games(copied):
    env = EscobaVectorEnv(5, "random", "random", autoreset_mode="SameStep")
    seen = play(env, 12, seed=4)[-1][0]
    other = copied(env)
    for _ in range(30):
        actions = lowest(seen["action_mask"])
        (seen, *rest), (again, *same) = env.step(actions), other.step(actions)
        assert equal(seen, again)
        assert (rest[0] == same[0]).all()
        assert (rest[1] == same[1]).all()


def test_reset_options_reach_every_game():
    env = EscobaVectorEnv(3, seat=1, episode="match", encoding="compact")
    single = EscobaEnv(seat=1, episode="match")
    options = {"dealer": 0, "scores": [3, 4]}
    seen, _ = env.reset(seed=13, options=options)
    for index in range(3):
        expected, _ = single.reset(seed=13 + index, options=options)
        assert equal({key: rows[index] for key, rows in seen.items()}, expected)
    deck = " ".join(f"{rank}{suit}" for rank in "1234567SCR" for suit in "oceb")
    seen, _ = env.reset(options={"deck": deck, "dealer": 0})
    assert (seen["observation"] == seen["observation"][0]).all()


def test_long_runs_keep_no_memory():
    import tracemalloc

    env = EscobaVectorEnv(16, "random", autoreset_mode="SameStep")
    play(env, 60, seed=1)
    tracemalloc.start()
    try:
        play(env, 100, seed=1, act=lowest)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            play(env, 100, seed=1, act=lowest)
        assert tracemalloc.get_traced_memory()[0] - before < 50_000
    finally:
        tracemalloc.stop()


# -- misuse ---------------------------------------------------------------------------------


@each_mode
def test_an_illegal_action_that_raises_changes_no_game(mode):
    env = EscobaVectorEnv(4, "random", illegal="raise", autoreset_mode=mode)
    play(env, 3, seed=6)
    before = env._tables.batch.states.copy()
    actions = lowest(env._observe()["action_mask"])
    for bad in (42, -1, 43, 10**6):
        wrong = actions.copy()
        wrong[2] = bad
        with pytest.raises(IllegalActionError, match=f"environment 2: action {bad} .*may choose"):
            env.step(wrong)
        assert (env._tables.batch.states == before).all()
    env.step(actions)


def test_an_illegal_action_ends_its_own_game_alone():
    env = EscobaVectorEnv(3, "random", target=30, autoreset_mode="SameStep")
    twin = EscobaVectorEnv(3, "random", target=30, autoreset_mode="SameStep")
    actions = lowest(env.reset(seed=1)[0]["action_mask"])
    wrong = actions.copy()
    wrong[1] = 42
    with pytest.warns(UserWarning, match="environment 1: player_0: action 42 .*ended.*cost 30"):
        seen, rewards, ended, _, info = env.step(wrong)
    twin.reset(seed=1)
    expected, *_ = twin.step(actions)
    assert ended.tolist() == info["_final_obs"].tolist() == [False, True, False]
    assert rewards[1] == -30
    assert not info["final_obs"][1]["action_mask"].any()
    assert seen["action_mask"].any(axis=1).all()
    for index in (0, 2):
        assert (seen["observation"][index] == expected["observation"][index]).all()
    with pytest.warns(UserWarning, match="so in 2 more") as caught:
        env.step(np.full(3, 42, np.uint8))
    # Filters go by the file that a warning is about: here the caller's.
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="so in 2 more"):
            env.step(np.full(3, 42))
    # As an error too it left all games in order.
    env.step(lowest(env._observe()["action_mask"]))


@pytest.mark.parametrize("illegal", ["terminate", "raise"])
@pytest.mark.parametrize(
    ("actions", "error"),
    [
        (None, TypeError),
        ([1.0, 2.0], TypeError),
        ([True, False], TypeError),
        (["7o", "7o"], TypeError),
        ([1, 2, 3], ValueError),
        (3, ValueError),
        ([[1], [2]], ValueError),
    ],
    ids=repr,
)
def test_actions_of_another_type_or_shape_are_always_an_error(illegal, actions, error):
    env = EscobaVectorEnv(2, illegal=illegal)
    env.reset(seed=1)
    before = env._tables.batch.states.copy()
    with pytest.raises(error, match=r"actions are of .*allowed"):
        env.step(actions)
    assert (env._tables.batch.states == before).all()


def test_nothing_is_played_before_reset_or_after_the_end():
    env = EscobaVectorEnv(2, autoreset_mode="Disabled")
    with pytest.raises(ResetNeeded, match=r"reset\(\) starts one"):
        env.step(np.zeros(2, int))
    with pytest.raises(ResetNeeded, match="reset_mask"):
        env.reset(options={"reset_mask": np.array([True, False])})
    seen, _ = env.reset(seed=1)
    ended = np.zeros(2, bool)
    while not ended.any():
        seen, _, ended, *_ = env.step(lowest(seen["action_mask"]))
    with pytest.raises(ResetNeeded, match="environment"):
        env.step(lowest(seen["action_mask"]))
    env.close()
    env.close()


def test_numbers_of_any_integer_type_are_those_numbers():
    """What is checked is what is used: an index in a narrow type would have kernels made anew."""
    envs = [
        EscobaVectorEnv(kind(200), seat=kind(1), opponents="random") for kind in (int, np.uint8)
    ]
    for env in envs:
        assert type(env.num_envs) is int
        assert env._tables._all.dtype == env.seats.dtype == np.int64
    seen = [env.reset(seed=np.uint8(7))[0]["observation"] for env in envs]
    assert (seen[0] == seen[1]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs 0.*1 to"),
        ({"num_envs": 2.0}, r"num_envs 2\.0"),
        ({"seat": 2}, "seat 2.*0 to 1"),
        ({"seat": "any"}, "seat 'any'.*'random'"),
        ({"opponents": "gredy"}, "'gredy'"),
        ({"opponents": []}, r"opponents=\[\].*list of 1"),
        ({"players": 4, "opponents": ["greedy"]}, "list of 3"),
        ({"encoding": "none"}, "'none'"),
        ({"dtype": "float64"}, "dtype 'float64'.*float32"),
        ({"illegal": "no"}, "illegal 'no'.*terminate, raise"),
        ({"render_mode": "rgb_array"}, "render_mode='rgb_array'.*None.*'sync'"),
        ({"autoreset_mode": "Never"}, "autoreset_mode='Never'.*'NextStep', 'SameStep'"),
        ({"reward": "win", "reward_timing": "as_earned"}, "reward_timing='as_earned'"),
        ({"nonsense": 1}, "'nonsense'"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        EscobaVectorEnv(**arguments)


@pytest.mark.parametrize(
    ("seed", "options", "message"),
    [
        (-1, None, "seed -1"),
        (1.5, None, r"seed 1\.5"),
        (2**63 - 1, None, "seed"),
        ([1, 2], None, "seed has 2 entries.*3 environments"),
        ([1, 2, "x"], None, "seed 'x'"),
        (None, {"decks": 1}, "'decks'"),
        (4, {"dealer": 5}, "dealer"),
        (None, [1], r"options=\[1\]"),
        (None, {"reset_mask": [True, True, True]}, "reset_mask.*bool array"),
        (None, {"reset_mask": np.zeros(3, bool)}, "at least one True"),
    ],
)
def test_an_impossible_reset_is_refused_and_changes_nothing(seed, options, message):
    env = EscobaVectorEnv(3, "random", "random", players=4)
    play(env, 3, seed=1)
    before, seats = env._tables.batch.states.copy(), env.seats
    with pytest.raises(ValueError, match=message):
        env.reset(seed=seed, options=options)
    assert (env._tables.batch.states == before).all()
    assert (env.seats == seats).all()


# -- all seats ------------------------------------------------------------------------------

each_seating = pytest.mark.parametrize(
    "seats",
    [{"players": 2}, {"players": 3}, {"players": 4, "partnership": True}],
    ids=["2", "3", "4-partnership"],
)


@each_seating
@pytest.mark.parametrize("skip_forced", [False, True])
def test_all_seats_are_paid_what_the_engine_pays_them(seats, skip_forced):
    env = AllSeatsEnv(5, **seats, skip_forced=skip_forced, reward_timing="as_earned")
    rng = np.random.default_rng(8)
    now = env.reset(seed=8)
    assert not now.rewards.any()
    assert not now.over.any()
    returns, actions = {}, {}
    finished = []
    for _ in range(90):
        for episode in now.episodes.tolist():
            returns.setdefault(episode, np.zeros(env.rules.players))
            actions.setdefault(episode, [])
        chosen = choose(now.masks, rng)
        before = now.episodes.tolist()
        now = env.step(chosen)
        for slot, episode in enumerate(before):
            actions[episode].append(int(chosen[slot]))
            returns[episode] += now.rewards[slot]
            # Another episode if, and only if, this one is over.
            assert now.over[slot] == (now.episodes[slot] != episode)
            finished += [episode] * int(now.over[slot])
    assert len(set(finished)) == len(finished) >= 5
    # Each number deals its game again.
    again = Batch(len(finished), env.rules, skip_forced=skip_forced)
    again.reset(8, game_indices=finished)
    for slot, episode in enumerate(finished):
        total = np.zeros(env.rules.players)
        for action in actions[episode]:
            total += again.step([action], [slot])[0][0]
        assert again.over[slot]
        assert total == pytest.approx(returns[episode], abs=1e-5)


@each_seating
def test_all_seats_see_what_the_seat_to_move_sees(seats):
    env = AllSeatsEnv(4, **seats)
    now = env.reset(seed=9)
    movers = set()
    for _ in range(60):
        assert (now.seats == env.batch.turn).all()
        observations, masks = env.batch.observe()
        assert (now.observations == observations).all()
        assert (now.masks == masks).all()
        assert now.masks.any(axis=1).all()
        assert not env.batch.over.any()
        movers |= set(now.seats.tolist())
        now = env.step(lowest(now.masks))
    assert movers == set(range(seats["players"]))


def test_all_seats_write_into_the_callers_buffers():
    env = AllSeatsEnv(3, encoding="planes")
    out = np.empty((3, *env.encoding.shape), np.float32)
    masks = np.empty((3, 43), np.int8)
    now = env.reset(1, out=out, masks=masks)
    assert now.observations is out
    assert now.masks is masks
    now = env.step(lowest(masks), out=out, masks=masks)
    assert now.observations is out
    expected = env.batch.observe()
    assert (out == expected[0]).all()
    assert (masks == expected[1]).all()
    # A buffer that does not fit is found before anything is played.
    before = env.batch.states.copy()
    for wrong in ({"out": out[:2]}, {"masks": masks.astype(bool)}, {"out": out[:, :, ::-1]}):
        with pytest.raises(ValueError, match=r"out|masks"):
            env.step(lowest(masks), **wrong)
        with pytest.raises(ValueError, match=r"out|masks"):
            env.reset(2, **wrong)
        assert (env.batch.states == before).all()


def test_all_seats_play_the_same_games_again():
    def run(env, seed):
        now = env.reset(seed)
        for _ in range(50):
            now = env.step(lowest(now.masks))
        return now.episodes.tolist(), now.observations.tobytes()

    env = AllSeatsEnv(4, players=3)
    first = run(env, 1)
    follow = run(env, None)
    assert run(env, 1) == first
    assert run(env, None) == follow != first
    assert set(first[0]).isdisjoint(follow[0])
    # As in any batch, threads change nothing.
    wide = [run(AllSeatsEnv(600, players=3, threads=threads), 1) for threads in (1, 2)]
    assert wide[0] == wide[1]
    assert run(AllSeatsEnv(4, players=3), None)[1] != run(AllSeatsEnv(4, players=3), None)[1]


def test_all_seats_raise_for_illegal_actions_and_change_nothing():
    env = AllSeatsEnv(3)
    with pytest.raises(ResetNeeded, match="step"):
        env.step([0, 0, 0])
    now = env.reset(1)
    before = env.batch.states.copy()
    for wrong, error in (([42, 42, 42], IllegalActionError), ([0.0] * 3, ValueError)):
        with pytest.raises(error):
            env.step(wrong)
    with pytest.raises(ValueError, match="seed -1"):
        env.reset(-1)
    assert (env.batch.states == before).all()
    env.step(lowest(now.masks))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs 0"),
        ({"encoding": "none"}, "'none'"),
        ({"nonsense": 1}, "'nonsense'"),
        ({"players": 3, "partnership": True}, "partnership"),
    ],
)
def test_all_seats_refuse_impossible_arguments_by_name(arguments, message):
    with pytest.raises((ValueError, RulesError), match=message):
        AllSeatsEnv(**{"num_envs": 2, **arguments})
