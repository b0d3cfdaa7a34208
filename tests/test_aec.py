"""The PettingZoo environments: PettingZoo's own tests, then the contract point by point."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pettingzoo
import pytest
from gymnasium.error import ResetNeeded
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
)
from pettingzoo.test.state_test import state_test
from support.needs import needs

from escoba_env import Game, IllegalActionError, Rules, RulesError, escoba_v0
from escoba_env.cards import NUM_ACTIONS, cards_in
from escoba_env.engine import batch as kernels
from escoba_env.engine.record import GAME_OVER, HIDDEN, NOBODY, STATE
from escoba_env.envs import registration
from escoba_env.render import ansi

SEATS = [
    {"players": 2},
    {"players": 3},
    {"players": 4},
    {"players": 4, "partnership": True},
]
SEAT_NAMES = ["2", "3", "4", "4-partnership"]
each_seating = pytest.mark.parametrize("seats", SEATS, ids=SEAT_NAMES)
each_episode = pytest.mark.parametrize("episode", ["round", "match"])
each_encoding = pytest.mark.parametrize("encoding", ["compact", "tactical"])
each_reward = pytest.mark.parametrize("reward", ["margin", "points", "win"])

# PettingZoo's tests warn about every environment whose observations are a Dict, and some of them
# play illegal actions.
quiet = pytest.mark.filterwarnings("ignore::UserWarning")

# Captures that leave a choice are common where a card may also be laid.
CHOICES = {"capture": "optional"}


def legal(env, agent=None):
    mask = env.observe(agent or env.agent_selection)["action_mask"]
    return [int(action) for action in np.flatnonzero(mask)]


def play(env, rng, steps=10**9):
    """Plays random legal actions, at most ``steps`` of them; returns them."""
    actions = []
    while len(actions) < steps and legal(env):
        actions.append(int(rng.choice(legal(env))))
        env.step(actions[-1])
    return actions


def started(seed=0, **arguments):
    env = escoba_v0.env(**arguments)
    env.reset(seed=seed)
    return env


def mid_turn(**arguments):
    """An environment in the middle of a turn, a card chosen and another picked."""
    for seed in range(1000):
        env = started(seed, **CHOICES, **arguments)
        rng = np.random.default_rng(seed)
        while legal(env):
            if env.game.record["picked"]:
                return env
            play(env, rng, 1)
    raise AssertionError("no such turn was found")


def snapshot(env):
    """All that an environment shows, as comparable values."""
    shown = {agent: env.observe(agent) for agent in env.possible_agents}
    return (
        {
            agent: (o["observation"].tolist(), o["action_mask"].tolist())
            for agent, o in shown.items()
        },
        env.state().tolist(),
        list(env.agents),
        env.agent_selection,
        dict(env.rewards),
        dict(env._cumulative_rewards),
        dict(env.terminations),
        dict(env.truncations),
        copy.deepcopy(env.infos),
        env.game.to_text(),
    )


# -- PettingZoo's own tests -----------------------------------------------------------------


@quiet
@each_seating
@each_episode
@each_encoding
def test_pettingzoo_api_test(seats, episode, encoding):
    api_test(escoba_v0.env(**seats, episode=episode, encoding=encoding), num_cycles=60)


@quiet
@each_seating
@each_episode
def test_pettingzoo_seed_test(seats, episode):
    seed_test(lambda: escoba_v0.env(**seats, episode=episode), num_cycles=60)


@quiet
@each_seating
@each_episode
def test_pettingzoo_state_test(seats, episode):
    arguments = {**seats, "episode": episode}
    state_test(escoba_v0.env(**arguments), escoba_v0.parallel_env(**arguments))


@needs("PIL")
@quiet
@each_seating
def test_pettingzoo_render_test(seats):
    render_test(lambda render_mode: escoba_v0.env(**seats, render_mode=render_mode))


@quiet
@each_seating
@each_episode
def test_pettingzoo_parallel_api_test(seats, episode):
    parallel_api_test(escoba_v0.parallel_env(**seats, episode=episode), num_cycles=500)


@quiet
def test_pettingzoo_parallel_seed_test():
    parallel_seed_test(escoba_v0.parallel_env)


# -- 1: names and arguments -----------------------------------------------------------------


def test_defaults_are_classic_for_two():
    assert escoba_v0.env().rules == Rules()
    assert escoba_v0.env is escoba_v0.raw_env


def test_players_and_partnership_replace_what_rules_say_only_where_given():
    four = Rules(players=4, partnership=True)
    assert escoba_v0.env(four).rules == four
    assert escoba_v0.env(four, partnership=False).rules == Rules(players=4)
    assert escoba_v0.env({"preset": "classic", "players": 3}).rules.players == 3
    assert escoba_v0.env("classic", players=4).possible_agents == [f"player_{i}" for i in range(4)]
    with pytest.raises(RulesError, match="partnership=True"):
        escoba_v0.env(four, players=3)


def test_rule_fields_replace_those_of_the_preset():
    assert escoba_v0.env("classic", target=31, capture="hand").rules == Rules(
        target=31, capture="hand"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rules": "clasic"}, "'clasic'.*allowed: classic"),
        ({"rules": 7}, "rules 7"),
        ({"players": 5}, "players=5.*2, 3 or 4"),
        ({"players": 2.0}, r"players=2\.0.*2, 3 or 4"),
        ({"partnership": True}, "partnership=True.*players=4"),
        ({"episode": "game"}, "'game'.*round, match"),
        ({"reward": "score"}, "'score'.*margin, points, win"),
        ({"encoding": "planes99"}, "'planes99'.*compact"),
        ({"illegal": "ignore"}, "illegal 'ignore'.*terminate, raise"),
        ({"render_mode": "ascii"}, "render_mode='ascii'.*ansi, rgb_array, human"),
        ({"faces": "german"}, "'german'.*spanish"),
        ({"capture": "maybe"}, "capture='maybe'.*optional, card"),
        ({"max_cycles": 500}, "'max_cycles'=500 is unknown"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    for make in (escoba_v0.env, escoba_v0.parallel_env):
        with pytest.raises(ValueError, match=message):
            make(**arguments)


@pytest.mark.skipif(not hasattr(pettingzoo, "make"), reason="PettingZoo before 1.27")
def test_pettingzoo_registry_makes_both_forms():
    registration.register()
    registration.register()
    aec = pettingzoo.make("aec", "escoba/escoba-v0", players=3)
    assert isinstance(aec, escoba_v0.raw_env)
    assert aec.rules.players == 3
    assert isinstance(pettingzoo.make("parallel", "escoba/escoba_v0"), escoba_v0.parallel_env)


def test_registration_imports_no_engine():
    code = (
        "import sys\n"
        "from escoba_env.envs.registration import register\n"
        "register()\n"
        "assert not {'numba', 'torch', 'PIL', 'escoba_env.game'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_metadata():
    assert escoba_v0.raw_env.metadata["name"] == "escoba_v0" == str(escoba_v0.env())
    assert escoba_v0.raw_env.metadata["is_parallelizable"] is False


# -- 2: spaces and masks --------------------------------------------------------------------


@each_seating
@each_encoding
@each_episode
def test_observations_lie_in_their_space(seats, encoding, episode):
    env = started(**seats, encoding=encoding, episode=episode, **CHOICES)
    rng = np.random.default_rng(1)
    for _ in range(120):
        for agent in env.possible_agents:
            observation = env.observe(agent)
            assert env.observation_space(agent).contains(observation)
            assert observation["observation"].dtype == np.float32
            assert observation["observation"].shape == (env.encoding.size,)
        assert env.state_space.contains(env.state())
        if not play(env, rng, 1):
            break


@each_seating
def test_spaces_are_equal_for_all_and_the_same_object_each_time(seats):
    env = escoba_v0.env(**seats)
    first = env.possible_agents[0]
    for agent in env.possible_agents:
        assert env.observation_space(agent) is env.observation_space(agent)
        assert env.action_space(agent) is env.action_space(agent)
        assert env.observation_space(agent) == env.observation_space(first)
        assert env.action_space(agent).n == NUM_ACTIONS == 43


@each_seating
def test_mask_is_int8_and_all_zeros_off_turn_and_after_the_end(seats):
    env = started(**seats, **CHOICES)
    rng = np.random.default_rng(2)
    while not env.terminations[env.agent_selection]:
        for agent in env.agents:
            mask = env.observe(agent)["action_mask"]
            assert mask.dtype == np.int8
            assert mask.shape == (43,)
            expected = env.game.legal_actions() if agent == env.agent_selection else []
            assert list(np.flatnonzero(mask)) == expected
        play(env, rng, 1)
    assert not any(env.observe(agent)["action_mask"].any() for agent in env.possible_agents)


def test_observations_are_new_arrays_each_time():
    env = started()
    first, second = env.observe("player_0"), env.last()[0]
    again = env.observe("player_0")
    kept = copy.deepcopy(first)
    for key in first:
        assert not np.shares_memory(first[key], again[key])
        assert not np.shares_memory(first[key], second[key])
    again["observation"][:] = 7
    again["action_mask"][:] = 7
    play(env, np.random.default_rng(3))
    assert all((first[key] == kept[key]).all() for key in first)


# -- 3: whose turn it is --------------------------------------------------------------------


@each_seating
@each_episode
def test_agent_selection_is_the_seat_to_move_in_the_game(seats, episode):
    env = started(5, **seats, episode=episode)
    game = Game(env.rules, episode=episode, seed=5)
    rng = np.random.default_rng(4)
    for _ in range(300):
        assert env.agent_selection == f"player_{game.turn}"
        for action in play(env, rng, 1):
            game.step(action)
        if game.is_over:
            break


def test_a_seat_moves_again_within_its_turn():
    env = mid_turn()
    assert env.game.record["played"] != NOBODY
    assert env.agent_selection == f"player_{env.game.turn}"
    again = 0
    rng = np.random.default_rng(5)
    while legal(env):
        before = env.agent_selection
        play(env, rng, 1)
        again += env.agent_selection == before
    assert again


def test_the_first_seat_rotates():
    firsts = set()
    for seed in range(40):
        env = started(seed, players=3)
        assert env.agent_selection == f"player_{(env.game.dealer + 1) % 3}"
        firsts.add(env.agent_selection)
    assert firsts == set(env.possible_agents)


# -- 4 and 5: ends and rewards --------------------------------------------------------------


def run_episode(env, rng):
    """Plays to the last dead step; returns the sums of ``last()`` rewards and of ``rewards``."""
    from_last, from_rewards = defaultdict(float), defaultdict(float)
    for agent in env.agent_iter():
        _, reward, terminated, truncated, info = env.last()
        assert type(reward) is float
        assert type(terminated) is bool
        assert truncated is False
        assert info == {}
        from_last[agent] += reward
        env.step(None if terminated else int(rng.choice(legal(env))))
        assert list(env.rewards) == list(env.infos) == list(env.agents)
        assert set(map(type, env.rewards.values())) <= {float}
        for name, value in env.rewards.items():
            from_rewards[name] += value
    return from_last, from_rewards


@each_seating
@each_episode
@each_reward
def test_rewards_of_last_and_of_every_step_add_up_to_the_engines_returns(seats, episode, reward):
    for seed in range(4):
        env = started(seed, **seats, episode=episode, reward=reward, target=8)
        game = Game(env.rules, episode=episode, reward=reward, seed=seed)
        mirror = env.clone()
        rng = np.random.default_rng(seed)
        for action in play(mirror, rng):
            game.step(action)
        assert game.is_over
        from_last, from_rewards = run_episode(env, np.random.default_rng(seed))
        for seat, expected in enumerate(game.returns):
            assert from_last[f"player_{seat}"] == pytest.approx(expected)
            assert from_rewards[f"player_{seat}"] == pytest.approx(expected)
        assert env.game.returns == game.returns


@each_seating
def test_all_seats_terminate_together(seats):
    env = started(**seats)
    rng = np.random.default_rng(6)
    while play(env, rng, 1):
        ends = set(env.terminations.values())
        assert len(ends) == 1
        assert set(env.truncations.values()) == {False}
        assert ends == {env.game.is_over}
    assert env.agents == env.possible_agents


@each_seating
@each_episode
def test_margin_is_zero_sum_over_seats(seats, episode):
    rng = np.random.default_rng(7)
    paid = 0
    for seed in range(6):
        env = started(seed, **seats, episode=episode, target=8)
        while play(env, rng, 1):
            assert sum(env.rewards.values()) == pytest.approx(0)
            paid += any(env.rewards.values())
    assert paid >= 4


@each_reward
@each_episode
def test_seats_of_a_partnership_get_the_same_reward(reward, episode):
    env = started(8, players=4, partnership=True, reward=reward, episode=episode, target=8)
    rng = np.random.default_rng(8)
    while play(env, rng, 1):
        assert env.rewards["player_0"] == env.rewards["player_2"]
        assert env.rewards["player_1"] == env.rewards["player_3"]


@each_seating
def test_win_pays_one_to_the_winners_and_minus_one_to_the_others(seats):
    decided = 0
    for seed in range(12):
        env = started(seed, **seats, reward="win")
        play(env, np.random.default_rng(seed))
        points = env.game.round_points
        best = max(points)
        leaders = points.count(best)
        for seat, agent in enumerate(env.agents):
            won = points[env.rules.side_of(seat)] == best
            assert env.rewards[agent] == pytest.approx(2 / leaders - 1 if won else -1)
        decided += leaders == 1
    assert decided


def test_rewards_wait_for_a_seats_next_step():
    """In a match the round's rewards reach each seat with its next observation, once."""
    env = started(9, episode="match", players=3)
    rng = np.random.default_rng(9)
    while not any(env.rewards.values()):
        play(env, rng, 1)
    earned = dict(env.rewards)
    for _ in env.possible_agents:
        agent = env.agent_selection
        assert env.last()[1] == earned[agent]
        while env.agent_selection == agent:
            play(env, rng, 1)
            if env.agent_selection == agent:
                assert env.last()[1] == 0
    assert env.last()[1] == 0


def test_dead_steps_take_seats_out_one_by_one():
    env = started(players=3)
    play(env, np.random.default_rng(10))
    for left in (3, 2, 1):
        assert len(env.agents) == left == env.num_agents
        agent = env.agent_selection
        observation, _, terminated, _, _ = env.last()
        assert terminated is True
        assert not observation["action_mask"].any()
        for action in (0, 42, np.int64(3), True, "7o"):
            with pytest.raises(ValueError, match=f"{agent}.*allowed: None"):
                env.step(action)
        assert len(env.agents) == left
        env.step(None)
        assert agent not in env.agents
        assert not any(env.rewards.values())
    assert env.agents == []


# -- 6: observe and infos -------------------------------------------------------------------


def test_observe_changes_nothing_and_serves_any_agent_at_any_time():
    env = mid_turn(players=4)
    rng = np.random.default_rng(11)
    while True:
        before = env.get_state()
        for agent in env.possible_agents:
            first, second = env.observe(agent), env.observe(agent)
            assert all((first[key] == second[key]).all() for key in first)
        env.state()
        assert env.get_state() == before
        if not env.agents:
            break
        if not play(env, rng, 1):
            env.step(None)


def test_infos_stay_empty_whatever_a_caller_writes_there():
    env = started()
    env.last()[4]["note"] = 1
    play(env, np.random.default_rng(12), 1)
    assert env.infos == {"player_0": {}, "player_1": {}}


def permute_hidden(game, seat, rng):
    """The game as bytes, the cards that a seat cannot see permuted among themselves."""
    record = np.frombuffer(game.get_state(), STATE).copy()
    state = record[0]
    view = game.view(seat).records[0]
    known = int(view["table"]) | int(view["set_aside"]) | int(np.bitwise_or.reduce(view["hands"]))
    known |= int(np.bitwise_or.reduce(view["piles"]))
    if view["played"] != NOBODY:
        known |= 1 << int(view["played"])
    hidden = list(cards_in(game.rules.pack & ~known))
    renamed = dict(zip(hidden, rng.permutation(hidden), strict=True))
    for other in range(game.rules.players):
        cards = [int(renamed.get(card, card)) for card in cards_in(state["hands"][other])]
        state["hands"][other] = sum(1 << card for card in cards)
    state["stock"] = [renamed.get(int(card), card) for card in state["stock"]]
    kernels.set_legal(game.spec, record)
    return record.tobytes()


@each_seating
@each_encoding
def test_what_a_seat_cannot_see_changes_nothing_that_it_is_shown(seats, encoding):
    rng = np.random.default_rng(13)
    changed = 0
    for seed in range(10):
        env = started(seed, **seats, encoding=encoding, **CHOICES)
        play(env, rng, int(rng.integers(1, 30)))
        for seat, agent in enumerate(env.possible_agents):
            other = env.clone()
            game = permute_hidden(env.game, seat, rng)
            other.set_state({**env.get_state(), "game": game})
            assert other.agent_selection == env.agent_selection
            changed += game != env.game.get_state()
            shown, again = env.observe(agent), other.observe(agent)
            assert all((shown[key] == again[key]).all() for key in shown)
            texts = [
                ansi.draw(e.rules, "round", e.game.view(seat).records[0]) for e in (env, other)
            ]
            assert texts[0] == texts[1]
    assert changed > 10


# -- full information -----------------------------------------------------------------------


@each_seating
@each_episode
def test_state_tells_every_cards_place_seat_by_seat(seats, episode):
    env = started(14, **seats, episode=episode, **CHOICES)
    rng = np.random.default_rng(14)
    layout = env.state_layout()
    assert [s.start for s in layout.values()][1:] == [s.stop for s in layout.values()][:-1]
    for _ in range(150):
        record, values = env.game.record, env.state()
        assert values.dtype == np.float32
        assert values.shape == env.state_space.shape
        part = {n: values[s.slice].reshape(s.shape) for n, s in layout.items()}
        for seat in range(env.rules.players):
            assert list(np.flatnonzero(part["hands"][seat])) == env.game.hand(seat)
            assert list(np.flatnonzero(part["captured"][seat])) == env.game.pile(seat)
            assert part["escobas"][seat] * 4 == record["escobas"][seat]
            size = env.rules.hand_size
            assert round(part["hand_counts"][seat] * size) == record["hand_counts"][seat]
            assert round(part["card_counts"][seat] * 40) == len(env.game.pile(seat))
            oros = sum(card < 10 for card in env.game.pile(seat))
            assert round(part["oro_counts"][seat] * 10) == oros
        assert list(np.flatnonzero(part["table"])) == env.game.table
        assert list(np.flatnonzero(part["picked"])) == list(cards_in(record["picked"]))
        order = [int(c) for c in record["stock"][record["stock_next"] : record["stock_size"]]]
        assert sorted(order) == list(np.flatnonzero(part["stock"]))
        assert [round(float(part["stock_order"][card]) * 40) for card in order] == [
            i + 1 for i in range(len(order))
        ]
        whole = part["hands"].sum(0) + part["captured"].sum(0) + part["table"] + part["played"]
        assert (whole + part["stock"] + part["set_aside"] == 1).all()
        over = record["phase"] == GAME_OVER
        assert list(np.flatnonzero(part["to_move"])) == ([] if over else [env.game.turn])
        assert list(np.flatnonzero(part["dealer"])) == [env.game.dealer]
        if episode == "match":
            assert part["scores"] * 21 == pytest.approx(env.game.scores, abs=1e-4)
        if not play(env, rng, 1):
            break


# -- copies ---------------------------------------------------------------------------------


def via_state(env):
    other = escoba_v0.env(env.rules, episode=env.game.episode)
    other.set_state(pickle.loads(pickle.dumps(env.get_state())))  # noqa: S301 - its own
    return other


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),  # noqa: S301 - its own
    "clone": lambda env: env.clone(),
    "state": via_state,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@each_episode
def test_copies_keep_the_live_game(copied, episode):
    env = mid_turn(players=3, episode=episode)
    rng = np.random.default_rng(15)
    # In a match: on to where rewards of the first round wait for two seats.
    while episode == "match" and not any(env.rewards.values()):
        play(env, rng, 1)
    play(env, rng, 1)
    other = copied(env)
    before = snapshot(env)
    assert snapshot(other) == before
    ours = play(env.clone(), np.random.default_rng(16), 200)
    assert play(other, np.random.default_rng(16), 200) == ours
    assert snapshot(env) == before
    play(env, np.random.default_rng(16), 200)
    assert snapshot(other) == snapshot(env)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_keep_dead_steps_and_illegal_ends(copied):
    env = started(17, players=3)
    with pytest.warns(UserWarning, match="illegal"):
        env.step(42)
    env.step(None)
    other = copied(env)
    assert snapshot(other) == snapshot(env)
    while env.agents:
        env.step(None)
        other.step(None)
        assert snapshot(other) == snapshot(env)
    assert snapshot(copied(env)) == snapshot(env)


def test_a_fresh_environment_takes_a_state_without_reset():
    env = mid_turn()
    other = escoba_v0.env(env.rules)
    other.set_state(env.get_state())
    assert snapshot(other) == snapshot(env)


def test_impossible_states_are_refused_and_change_nothing():
    env = mid_turn()
    good = env.get_state()
    before = snapshot(env)
    for bad in (
        None,
        {},
        {**good, "extra": 1},
        {**good, "game": b"short"},
        {**good, "game": bytes(len(good["game"]))},
        {**good, "agents": ["player_0"]},
        {**good, "agents": ["player_1", "player_0"]},
        {**good, "agents": "player_0"},
        {**good, "agent_selection": "player_9"},
        {**good, "rewards": {}},
        {**good, "cumulative_rewards": [0, 0]},
        {**good, "forfeit": None},
    ):
        with pytest.raises(ValueError, match=r"state|game|stock|forfeit|hand"):
            env.set_state(bad)
        assert snapshot(env) == before


def test_a_live_game_has_all_its_agents():
    """They all end together, so a state of which some are gone is one of no live game."""
    env = mid_turn()
    good = env.get_state()
    before, mover = snapshot(env), env.agent_selection
    one = {**good, "agents": [mover], "rewards": {mover: 0}, "cumulative_rewards": {mover: 0}}
    with pytest.raises(ValueError, match="all agents until the game is over"):
        env.set_state(one)
    for name in ("rewards", "cumulative_rewards"):
        for value in ("much", None, float("nan"), [0]):
            with pytest.raises(ValueError, match=f"state {name}"):
                env.set_state({**good, name: {**good[name], mover: value}})
    assert snapshot(env) == before
    while env.agents and not any(env.terminations.values()):
        play(env, np.random.default_rng(0), 1)
    over = env.get_state()
    with pytest.raises(ValueError, match=r"forfeit='player_0: .*does not fit its game"):
        env.set_state({**over, "forfeit": "player_0: illegal"})
    env.set_state(over)


# -- 7: reset -------------------------------------------------------------------------------


@each_episode
def test_same_seed_same_game_whatever_else_draws_random_numbers(episode):
    texts = []
    for noise in range(3):
        np.random.seed(noise)  # noqa: NPY002 - the global generator is what must not matter
        env = escoba_v0.env(episode=episode)
        env.action_space("player_0").seed(noise)
        for _ in range(noise):
            env.reset(seed=100 + noise)
            play(env, np.random.default_rng(noise), 5)
        env.reset(seed=21)
        rng = np.random.default_rng(22)
        lines = []
        for _ in range(80):
            np.random.random(noise)  # noqa: NPY002 - as above
            env.action_space("player_0").sample()
            lines.append(env.game.to_text())
            play(env, rng, 1)
        texts.append(lines)
    assert texts[0] == texts[1] == texts[2]


def test_reset_without_a_seed_goes_on_with_the_stream():
    def games():
        env = started(23)
        texts = [env.game.to_text()]
        for _ in range(3):
            env.reset()
            texts.append(env.game.to_text())
        return texts

    assert games() == games()
    assert len(set(games())) == 4


def test_reset_options_deal_dealer_and_scores():
    env = started(24, episode="match")
    deck = [int(card) for card in env.game.record["stock"][:40]]
    names = [ansi.card_name(card) for card in reversed(deck)]
    options = {"deck": names, "dealer": 1, "scores": [20, 3.5]}
    env.reset(options=options)
    assert env.game.dealer == 1
    assert env.agent_selection == "player_0"
    assert env.game.scores == [20, 3.5]
    assert sorted(names[:3]) == sorted(ansi.card_name(card) for card in env.game.hand(0))
    first = env.game.get_state()[:80]
    env.reset(seed=99, options={**options, "deck": " ".join(names)})
    assert env.game.get_state()[:80] == first


@pytest.mark.parametrize(
    ("seed", "options", "message"),
    [
        (-1, None, "seed -1.*0 to"),
        (1.5, None, r"seed 1\.5"),
        (True, None, "seed True"),
        ("7", None, "seed '7'"),
        (2**63, None, "seed"),
        (None, {"decks": []}, "'decks'.*allowed: deck, dealer, scores"),
        (None, {"seed": 1}, "'seed'=1.*allowed: deck"),
        (None, ["deck"], "options=.*list.*deck"),
        (None, 7, "options=7.*int"),
        (None, {"deck": 5}, "deck"),
        (None, {"deck": ["7o"]}, "deck has 1 cards.*40"),
        (None, {"deck": ["7x"]}, "'7x' names no card"),
        (None, {"deck": range(40)}, "names no card"),
        (None, {"dealer": 2}, "dealer 2.*0 to 1"),
        (None, {"dealer": "player_0"}, "dealer 'player_0'"),
        (None, {"dealer": True}, "dealer True"),
        (None, {"scores": [1]}, r"scores=\[1\]"),
        (None, {"scores": 3}, "scores"),
        (None, {"scores": [None, 0]}, "scores"),
        (None, {"scores": [float("inf"), 0]}, "scores"),
        (None, {"scores": [0.1, 0]}, "scores"),
    ],
)
def test_impossible_reset_is_refused_and_changes_nothing(seed, options, message):
    env = mid_turn()
    before = snapshot(env)
    with pytest.raises(ValueError, match=message):
        env.reset(seed=seed, options=options)
    assert snapshot(env) == before


# -- 8: illegal actions and other misuse ----------------------------------------------------


def illegal_actions(env):
    return [a for a in (*range(NUM_ACTIONS), 43, -1, 10**30) if a not in legal(env)]


def test_raise_says_why_and_leaves_the_environment_unchanged():
    env = mid_turn(illegal="raise")
    before = snapshot(env)
    for action in illegal_actions(env):
        with pytest.raises(IllegalActionError, match=f"action {action} .*may choose"):
            env.step(action)
        assert snapshot(env) == before


@each_seating
@each_episode
@each_reward
def test_terminate_ends_the_game_for_all_with_a_zero_sum_penalty(seats, episode, reward):
    env = started(31, **seats, episode=episode, reward=reward)
    play(env, np.random.default_rng(31), 3)
    offender = env.agent_selection
    with pytest.warns(UserWarning, match=f"{offender}: action 42 .lay. is illegal.*may choose"):
        env.step(42)
    assert set(env.terminations.values()) == {True}
    assert env.agents == env.possible_agents
    assert sum(env.rewards.values()) == pytest.approx(0)
    penalty = 1 if reward == "win" else env.rules.match_target
    side = env.rules.side_of(int(offender[-1]))
    for seat, agent in enumerate(env.agents):
        if env.rules.side_of(seat) == side:
            assert env.rewards[agent] == -penalty
        else:
            assert env.rewards[agent] == pytest.approx(penalty / (env.rules.num_sides - 1))
        assert env.infos[agent] == {}
        assert not env.observe(agent)["action_mask"].any()
    total = defaultdict(float)
    for agent in env.agent_iter():
        total[agent] += env.last()[1]
        env.step(None)
    assert sum(total.values()) == pytest.approx(0)
    env.reset(seed=1)
    assert legal(env)


@pytest.mark.parametrize("illegal", ["terminate", "raise"])
@pytest.mark.parametrize(
    "action",
    [
        *(None, True, False, np.True_, 1.0, np.float32(1), "7o", "7", b"7", [7], (7,), {}),
        *(np.array([7]), np.array(7.0), np.array(True), np.array([], np.int64), float("nan")),
    ],
    ids=repr,
)
def test_what_is_not_a_whole_number_is_always_an_error(illegal, action):
    env = mid_turn(illegal=illegal)
    before = snapshot(env)
    with pytest.raises(TypeError, match=f"type {type(action).__name__}.*0 to 42"):
        env.step(action)
    assert snapshot(env) == before


@pytest.mark.parametrize(
    "cast", [int, np.int8, np.uint8, np.int32, np.uint64, np.int64, np.array, np.intp], ids=repr
)
def test_any_integer_type_is_an_action(cast):
    env, other = started(32), started(32)
    action = legal(env)[0]
    env.step(cast(action))
    other.step(action)
    assert snapshot(env) == snapshot(other)


def test_torch_integers_are_actions_and_torch_booleans_are_not():
    torch = pytest.importorskip("torch")
    env, other = started(33), started(33)
    with pytest.raises(TypeError, match="type Tensor"):
        env.step(torch.tensor(True))
    action = legal(env)[0]
    env.step(torch.tensor(action))
    other.step(action)
    assert snapshot(env) == snapshot(other)


def test_nothing_works_before_the_first_reset_and_says_so():
    env = escoba_v0.env(render_mode="ansi")
    for call in (
        lambda: env.step(0),
        lambda: env.step(None),
        env.last,
        lambda: env.observe("player_0"),
        env.state,
        env.agent_iter,
        env.render,
        env.get_state,
    ):
        with pytest.raises(ResetNeeded, match=r"reset\(\) starts one"):
            call()
    assert env.agents == []
    env.close()


def test_acting_after_every_seat_has_left_says_so():
    env = started()
    run_episode(env, np.random.default_rng(34))
    before = snapshot(env)
    for call in (lambda: env.step(0), lambda: env.step(None), env.last):
        with pytest.raises(ResetNeeded, match=r"reset\(\) starts one"):
            call()
    assert list(env.agent_iter()) == []
    assert snapshot(env) == before


@pytest.mark.parametrize("agent", ["player_2", "Player_0", "", 0, None, ["player_0"]])
def test_unknown_agents_are_refused_by_name(agent):
    env = started()
    for call in (env.observe, env.observation_space, env.action_space):
        with pytest.raises(ValueError, match=r"agent .* unknown; allowed: player_0, player_1"):
            call(agent)


# -- the parallel form ----------------------------------------------------------------------


@each_seating
@each_episode
@each_reward
def test_parallel_form_plays_the_same_game(seats, episode, reward):
    arguments = {**seats, "episode": episode, "reward": reward, "target": 8}
    aec = started(41, **arguments)
    parallel = escoba_v0.parallel_env(**arguments)
    observations, infos = parallel.reset(seed=41)
    rng = np.random.default_rng(41)
    assert infos == {agent: {} for agent in parallel.possible_agents}
    total = defaultdict(float)
    while parallel.agents:
        movers = [agent for agent, o in observations.items() if o["action_mask"].any()]
        assert movers == [aec.agent_selection]
        (action,) = play(aec, rng, 1)
        actions = {agent: action if agent in movers else 0 for agent in parallel.agents}
        observations, rewards, terminations, truncations, infos = parallel.step(actions)
        assert rewards == aec.rewards
        assert terminations == aec.terminations
        assert truncations == aec.truncations
        assert infos == aec.infos
        for agent, reward_of_step in rewards.items():
            total[agent] += reward_of_step
        for agent, observation in observations.items():
            expected = aec.observe(agent)
            assert all((observation[key] == expected[key]).all() for key in expected)
    assert list(total.values()) == pytest.approx(aec.game.returns)


def test_parallel_misuse_is_refused_and_changes_nothing():
    env = escoba_v0.parallel_env(illegal="raise")
    with pytest.raises(ResetNeeded):
        env.step({"player_0": 0})
    env.reset(seed=42)
    before = snapshot(env.aec_env)
    mover = env.aec_env.agent_selection
    other = next(agent for agent in env.agents if agent != mover)
    with pytest.raises(ValueError, match=f"lack '{mover}'"):
        env.step({other: 0})
    with pytest.raises(TypeError, match="type NoneType"):
        env.step(dict.fromkeys(env.agents))
    with pytest.raises(IllegalActionError):
        env.step(dict.fromkeys(env.agents, 42))
    with pytest.raises(ValueError, match="unknown"):
        env.observation_space("player_7")
    assert snapshot(env.aec_env) == before
    while env.agents:
        env.step({env.aec_env.agent_selection: legal(env.aec_env)[0]})
    with pytest.raises(ResetNeeded):
        env.step({})


def test_views_hide_what_the_permutation_test_permutes():
    """Guards the test above: a view has no stock, and no hand but its own."""
    view = started(50).game.view(0).records[0]
    assert (view["stock"] == HIDDEN).all()
    assert view["hands"][1] == 0
