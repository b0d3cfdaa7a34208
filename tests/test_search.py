"""``search`` and ``ismcts``: what they may know, when the solver plays, and how they are asked."""

from __future__ import annotations

from collections import Counter
from math import comb
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference.compare import numbered_game, redeals_for_ever
from test_policies import TABLES, batch_after, chi_square, with_hidden_cards_dealt_anew

from escoba_env import Batch, load_policy
from escoba_env.batch import Records, Views
from escoba_env.cards import cards_in
from escoba_env.engine.record import NOBODY, STATE
from escoba_env.engine.score import points_of
from escoba_env.engine.search import deal_worlds, end_worlds, search_worlds
from escoba_env.envs.single import EscobaEnv
from escoba_env.evaluation import evaluate, play_out
from escoba_env.policies import GreedyPolicy, Policy, SearchPolicy
from escoba_env.policies.search import POINTS_OF_A_LOGIT
from escoba_env.solver import solve_views

SEARCHES = {
    "search": "search:worlds=4",
    "search, random": "search:worlds=3,rollout=random,deals=0",
    "search, greedy": "search:worlds=3,rollout=greedy,deals=20,solver_turns=0",
    "ismcts": "ismcts:iterations=12",
}
CHEATS = ("cheat:search", "cheat:ismcts:iterations=8")


def worlds_of(views: Views, worlds: int, first: int = 0) -> Records:
    out: Records = np.empty(len(views) * worlds, STATE)
    deal_worlds(views.spec, views.records, views.keys, first, worlds, out)
    return out


# -- play-outs ------------------------------------------------------------------------------


@pytest.mark.parametrize("deals", [0, 1, 2, 3])
@pytest.mark.parametrize("fields", [{}, {"players": 4, "partnership": True}], ids=repr)
def test_play_outs_stop_only_where_two_deals_or_more_follow(
    fields: dict[str, Any], deals: int
) -> None:
    """The last two deals of a round are played to the end, whatever ``deals`` says."""
    stopping, whole = (
        load_policy(f"search:worlds=6,solver_turns=0,prior=0,deals={number}")
        for number in (deals, 20)
    )
    assert isinstance(stopping, SearchPolicy)
    assert isinstance(whole, SearchPolicy)
    batch, rng = Batch(12, seed=4, **fields), np.random.default_rng(4)
    for coming in range(batch.rules.deals - 1, -1, -1):
        views = batch.views()
        values = [policy.action_values(views) for policy in (stopping, whole)]
        same = np.array_equal(*values, equal_nan=True)
        # Of the deals to come, ``deals`` are played: one or none left does not pay to estimate.
        assert same == (coming - deals < 2), coming
        for _ in range(batch.rules.players * batch.rules.hand_size):
            turns = batch.states["turn_index"].copy()
            while (games := np.flatnonzero(batch.states["turn_index"] == turns)).size:
                masks = batch.legal_masks(games)
                batch.step((rng.random(masks.shape) * masks).argmax(axis=1), games)
            if batch.over.all():
                break


# -- worlds ---------------------------------------------------------------------------------


def test_worlds_agree_with_everything_that_is_seen_under_all_rules() -> None:
    compared = 0
    for number in range(0, 256, 2):
        fields = numbered_game(number)[3]
        if redeals_for_ever(fields):
            continue
        batch = Batch(8, fields, skip_forced=True, seed=number)
        for _ in range(number % 12):
            live = np.flatnonzero(~batch.over)
            batch.step(load_policy("random").act(batch.views(live)), live)
        live = np.flatnonzero(~batch.over)
        if live.size == 0:
            continue
        views = batch.views(live)
        worlds = worlds_of(views, 3)
        assert (worlds["viewer"] == NOBODY).all()
        for i, record in enumerate(np.repeat(views.records, 3)):
            world = worlds[i]
            seat = int(record["viewer"])
            hidden = 0
            for other in range(batch.rules.players):
                hand = int(world["hands"][other])
                assert hand.bit_count() == record["hand_counts"][other]
                if other == seat or batch.rules.open_hands:
                    assert hand == record["hands"][other]
                else:
                    assert hidden & hand == 0
                    hidden |= hand
            stock = world["stock"][record["stock_next"] : record["stock_size"]].tolist()
            assert len(set(stock)) == len(stock)
            stocked = sum(1 << card for card in stock)
            assert hidden & stocked == 0
            seen = int(record["table"] | record["set_aside"] | record["hands"][seat])
            seen |= int(np.bitwise_or.reduce(record["piles"]))
            if record["played"] != NOBODY:
                seen |= 1 << int(record["played"])
            if batch.rules.open_hands:
                seen |= int(np.bitwise_or.reduce(record["hands"]))
            assert hidden | stocked == batch.rules.pack & ~seen
            for name in STATE.names or ():
                if name not in ("hands", "stock", "viewer"):
                    assert (world[name] == record[name]).all()
            compared += 1
    assert compared > 1000


def test_worlds_are_uniform() -> None:
    """A small pack: every hand, and every order of the stock, as often as every other."""
    batch = Batch(
        1, ranks=(1, 2, 3, 4, 5), suits=("oros", "copas"), hand_size=2, table_size=2, target_sum=6
    )
    views = batch.views()
    number = 20_000
    worlds = worlds_of(views, number)
    other = 1 - int(views.records["turn"][0])
    start, size = int(worlds["stock_next"][0]), int(worlds["stock_size"][0])
    # 6 cards are hidden: a hand of 2 and a stock of 4, of which two follow each other.
    hands = Counter(worlds["hands"][:, other].tolist())
    orders = Counter(map(tuple, worlds["stock"][:, start : start + 2].tolist()))
    assert size - start == 4
    for found, cases in ((hands, comb(6, 2)), (orders, 6 * 5)):
        assert len(found) == cases
        counts = np.array(list(found.values()))
        statistic, limit = chi_square(counts, np.full(cases, number / cases))
        assert statistic < limit


def test_worlds_follow_from_the_key_and_their_number() -> None:
    views = batch_after(4, games=5).views()
    worlds = worlds_of(views, 6)
    assert worlds_of(views, 6).tobytes() == worlds.tobytes()
    later = worlds_of(views, 2, first=4)
    assert (
        later.tobytes()
        == np.concatenate([worlds[i + 4 : i + 6] for i in range(0, 30, 6)]).tobytes()
    )
    assert len(set(map(bytes, worlds["stock"]))) == 30
    other = Views(views.rules, views.episode, views.spec, views.records, views.keys + 1)
    assert worlds_of(other, 6).tobytes() != worlds.tobytes()


def test_a_whole_game_is_its_own_only_world() -> None:
    games = batch_after(4, games=5).whole_games()
    assert worlds_of(games, 2).tobytes() == np.repeat(games.records, 2).tobytes()


# -- what a search knows --------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_hidden_cards_change_no_decision(search: str, table: str) -> None:
    policy = load_policy(search)
    for steps in (1, 8):
        batch = batch_after(steps, games=12, **TABLES[table])
        other = with_hidden_cards_dealt_anew(batch)
        assert (policy.act(other.views()) == policy.act(batch.views())).all()


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_decision_depends_on_its_view_and_key_alone(search: str) -> None:
    policy = load_policy(search)
    views = batch_after(5, games=24).views()
    before = views.records.tobytes(), views.keys.tobytes()
    together = policy.act(views)
    assert together.dtype == np.int64
    assert (views.records.tobytes(), views.keys.tobytes()) == before
    assert (policy.act(views[::-1]) == together[::-1]).all()
    assert [int(policy.act(views[i : i + 1])[0]) for i in range(24)] == together.tolist()
    assert (load_policy(f"{search},threads=3").act(views) == together).all()
    assert policy.act(views[:0]).shape == (0,)


@pytest.mark.parametrize("search", CHEATS)
def test_what_cheats_sees_the_hidden_cards(search: str) -> None:
    policy = load_policy(search)
    batch = batch_after(4)
    other = with_hidden_cards_dealt_anew(batch)
    changed = policy.act(batch.whole_games()) != policy.act(other.whole_games())
    assert changed.mean() > 0.1
    whole = batch.whole_games()
    assert whole.records.tobytes() == batch.states.tobytes()
    assert (whole.keys == batch.views().keys).all()


@pytest.mark.parametrize("search", CHEATS)
def test_what_cheats_is_no_opponent_and_refuses_views(search: str) -> None:
    policy = load_policy(search)
    with pytest.raises(ValueError, match="cannot play by views; allowed: whole games"):
        policy.act(batch_after(1).views())
    with pytest.raises(ValueError, match=rf"opponent '{policy.name}' sees hidden cards; allowed"):
        EscobaEnv(opponents=policy)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_what_does_not_cheat_refuses_whole_games(search: str) -> None:
    with pytest.raises(ValueError, match="cannot play by whole games; allowed: views"):
        load_policy(search).act(batch_after(1).whole_games())


def test_an_environment_plays_against_a_search() -> None:
    env = EscobaEnv(opponents="search:worlds=2")
    observation, _ = env.reset(seed=1)
    for _ in range(3):
        action = int(np.flatnonzero(observation["action_mask"])[0])
        observation, _, over, _, _ = env.step(action)
        assert not over


# -- playing --------------------------------------------------------------------------------


@pytest.mark.parametrize("search", [*SEARCHES.values(), *CHEATS])
def test_searches_play_legally_under_all_rules(search: str) -> None:
    # ``evaluate`` raises an error for an action that is not legal.
    played = 0
    for number in range(3, 256, 17):
        _, _, _, fields, episode = numbered_game(number)
        if not redeals_for_ever(fields) and fields["target_sum"] <= 20:
            target = {"target": 2, "partnership_target": None} if episode == "match" else {}
            evaluate(search, "random", fields | target, deals=2, seed=number)
            played += 1
    assert played > 8


def last_deal(games: int = 60, **fields: Any) -> Views:
    """Returns views in which everything follows by counting, and there is a choice."""
    batch = batch_after(0, games=games, seed=3, **fields)
    counting = load_policy("counting")
    while (live := np.flatnonzero(~batch.over)).size:
        states = batch.states[live]
        if (states["stock_size"] == states["stock_next"]).all():
            break
        waiting = live[states["stock_size"] != states["stock_next"]]
        batch.step(counting.act(batch.views(waiting)), waiting)
    return batch.views(live)


@pytest.mark.parametrize("search", ["search:worlds=1", "ismcts:iterations=1"])
@pytest.mark.parametrize("rules", ["classic", "tabletop", "ludoteka", "scopa"])
def test_the_solver_plays_where_everything_is_known(search: str, rules: str) -> None:
    views = last_deal(rules=rules)
    assert len(views) > 40
    solved = solve_views(views)
    actions = load_policy(search).act(views)
    assert (solved.actions[np.arange(len(views)), actions] == solved.values).all()


def test_cheating_with_the_solver_alone_is_perfect_play() -> None:
    batch = Batch(6, ranks=(1, 2, 3, 5, 7, 8), hand_size=2, seed=5)
    first = batch.clone()
    perfect = load_policy("cheat:search:solver_turns=42")
    values = solve_whole(first)
    seats = first.turn
    played = play_out(batch, [perfect], np.zeros((6, 2), np.int64))
    margins = played.points[np.arange(6), seats] - played.points[np.arange(6), 1 - seats]
    assert (margins == values).all()


def solve_whole(batch: Batch) -> NDArray[np.float64]:
    """Values of games with all cards known."""
    return solve_views(batch.whole_games()).values.astype(np.float64)


def test_sums_are_of_margins_played_to_the_end() -> None:
    """With one move to compare and play-outs by ``greedy``, the sum is what ``play_out`` gives."""
    batch = batch_after(6, games=40)
    views = batch.views()
    worlds = worlds_of(views, 1)
    numbers = np.ones(40, np.int64)
    sums = np.zeros((40, 512))
    greedy = 1
    chosen = np.zeros((len(views), 1), np.int64)
    search_worlds(
        *(views.spec, views.records, views.keys, chosen, greedy, 20, 0, np.empty((0, 0))),
        *(np.empty((0, 0, 0)), numbers, sums),
    )
    for i in range(40):
        moves = np.flatnonzero(sums[i])
        game = Batch(1)
        game.states = worlds[i : i + 1].copy()
        seat = int(game.turn[0])
        found = set()
        for action in cards_in(int(game.states["legal"][0])):
            other = game.clone()
            other.step([action])
            points = play_out(other, [load_policy("greedy")], np.zeros((1, 2), np.int64)).points[0]
            found.add(points[seat] - points[1 - seat])
        # Where the first pick leaves a choice, ``greedy`` has made it.
        assert found <= {*sums[i, moves].tolist(), 0.0}


def test_an_estimate_is_the_margin_when_nothing_is_left_to_capture() -> None:
    batch = batch_after(0, games=50)
    rng = np.random.default_rng(0)
    expected = []
    for game in batch.states:
        owner = rng.random(40) < 0.5
        cards = 1 << np.arange(40)
        game["table"] = game["hands"] = 0
        game["piles"][0], game["piles"][1] = int(cards[owner].sum()), int(cards[~owner].sum())
        game["escobas"][:2] = rng.integers(0, 4, 2)
        own, other = (points_of(batch.spec[0], game, side) for side in range(2))
        expected.append((own - other) / 12)
    margins, over = np.empty(50), np.zeros(50, np.bool_)
    games, seats, beyond = np.arange(50), np.zeros(50, np.int64), np.full(50, -1)
    end_worlds(batch.spec, batch.states, games, seats, beyond, 0, margins, over)
    assert over.all()
    assert margins == pytest.approx(np.array(expected))


STRONGER = [
    ("search:worlds=16", "counting", {}, 100, 0.0),
    ("search:worlds=16", "greedy", {"players": 4, "partnership": True}, 40, 0.5),
    ("ismcts:iterations=100", "greedy", {}, 60, 0.5),
    ("cheat:search", "counting", {}, 60, 1.5),
    ("cheat:search:rollout=greedy", "greedy", {"players": 3}, 60, 0.5),
]


@pytest.mark.parametrize(("a", "b", "fields", "deals", "margin"), STRONGER)
def test_searches_are_stronger(
    a: str, b: str, fields: dict[str, Any], deals: int, margin: float
) -> None:
    """Far below what they win on average, and the deals are always the same."""
    assert evaluate(a, b, deals=deals, **fields).margin > margin


def test_time_is_a_budget_of_each_decision() -> None:
    views = batch_after(2, games=4).views()
    actions = load_policy("search:time=0.002").act(views)
    assert (views.records["legal"] >> actions & 1 == 1).all()


def test_a_learned_policy_plays_out_and_leads_a_tree() -> None:
    pytest.importorskip("torch")
    views = batch_after(6, games=6).views()
    for search in (
        "search:worlds=3,rollout=classic-2p",
        "ismcts:iterations=6,policy=classic-2p",
        "ismcts:iterations=6,policy=classic-2p,rollout=counting",
    ):
        policy = load_policy(search)
        together = policy.act(views)
        assert (views.records["legal"] >> together & 1 == 1).all()
        assert [int(policy.act(views[i : i + 1])[0]) for i in range(6)] == together.tolist()
        other = with_hidden_cards_dealt_anew(batch_after(6, games=6)).views()
        assert (policy.act(other) == together).all()


def test_a_learned_prior_counts_as_many_worlds_as_it_is_told() -> None:
    """With a prior that outweighs all worlds its likeliest action is taken, and with none it is
    as if it were not there.
    """
    pytest.importorskip("torch")
    views = batch_after(6, games=200).views()
    learned = load_policy("classic-2p")

    def values(text: str) -> NDArray[np.float64]:
        return load_policy(f"search:worlds=8,{text}").action_values(views)

    alone = values("prior=1000000,policy=classic-2p")
    logits = np.log(np.maximum(learned.probabilities(views), 1e-20))
    searched = ~np.isnan(alone)
    several = searched.sum(1) > 1
    best = np.where(searched, logits, -np.inf).max(1, keepdims=True)
    behind = np.where(searched, alone - np.nanmax(alone, 1, keepdims=True), 0)[several]
    expected = np.where(searched, POINTS_OF_A_LOGIT * (logits - best), 0)[several]
    # A move is worth what the likeliest of the picks that can begin it is.
    assert (behind > expected - 1e-3).all()
    assert np.isclose(behind, expected, atol=1e-3).mean() > 0.95
    likeliest = np.where(searched, logits, -np.inf).argmax(1)[several]
    assert np.abs(behind[np.arange(len(behind)), likeliest]).max() < 1e-3
    np.testing.assert_array_equal(values("prior=0,policy=classic-2p"), values("prior=0"))
    # In between, worlds and prior are weighed by their numbers, move by move.
    mixed = values("prior=24,policy=classic-2p")
    weighed = (8 * values("prior=0") + 24 * alone) / 32
    close = np.isclose(mixed, weighed, atol=1e-3, equal_nan=True)
    assert close.mean() > 0.99
    assert (mixed[~close] < weighed[~close]).all()


def test_a_policy_object_plays_out_as_its_kernel_does() -> None:
    """Play-outs in Python and in the kernels are the same."""
    views = batch_after(5, games=20).views()
    inside = SearchPolicy(worlds=4, rollout="greedy")
    outside = SearchPolicy(worlds=4, rollout=GreedyPolicy())
    assert (inside.act(views) == outside.act(views)).all()


@pytest.mark.parametrize("at_once", [1, 10, 50, 300])
def test_worlds_are_played_out_in_slices_with_the_same_sums(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = batch_after(5, games=6).views()
    policy = SearchPolicy(worlds=23, rollout=GreedyPolicy())
    whole = policy.action_values(views)
    monkeypatch.setattr("escoba_env.policies.search.GAMES_AT_ONCE", at_once)
    sizes = []
    play_out = SearchPolicy._play_out

    def watched(self: Any, player: Any, views: Views, first: int, worlds: int, *rest: Any) -> None:
        sizes.append((len(views), worlds, int(rest[0].sum()) * worlds))
        play_out(self, player, views, first, worlds, *rest)

    monkeypatch.setattr(SearchPolicy, "_play_out", watched)
    # To the last bit: estimates are no whole numbers, and worlds are added one after the other.
    assert np.array_equal(policy.action_values(views), whole, equal_nan=True)
    assert all(size <= at_once or (number == 1 and worlds <= 8) for number, worlds, size in sizes)


def test_a_play_out_by_a_policy_that_plays_illegally_is_refused() -> None:
    class Illegal(GreedyPolicy):
        name = "illegal"

        def act(self, views: Views) -> NDArray[np.int64]:
            return np.full(len(views), 42)

    with pytest.raises(ValueError, match="policy 'illegal': action 42"):
        SearchPolicy(worlds=2, rollout=Illegal()).act(batch_after(5, games=2).views())


# -- asking ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("search:world=3", "policy option 'world' is unknown; allowed for 'search': worlds, roll"),
        ("search:worlds=0", "option worlds 0 is not possible; allowed: a whole number, 1 to"),
        ("search:worlds=1.5", "option worlds 1.5 is not possible"),
        ("search:worlds=null", "option worlds 'null' is not possible"),
        ("search:worlds=[3]", r"option worlds '\[3\]' is not possible"),
        ("search:time=null", "option time 'null' is not possible"),
        ("ismcts:policy=null", r"option policy 'null' is not possible \(policy 'null' is unknown"),
        ("ismcts:rollout=null", "option rollout 'null' is unknown; allowed: counting"),
        ("search:worlds=3,time=1", "worlds=3 and time=1; allowed: one of them"),
        ("search:time=0", "option time 0 is not possible; allowed: seconds"),
        ("search:time=true", "option time True is not possible"),
        ("search:rollout=nobody", "option rollout 'nobody' is not possible .*allowed: counting"),
        ("search:rollout=search", "option rollout 'search' is a search itself; allowed: counting"),
        ("search:rollout=5", "option rollout 5 is not possible"),
        ("search:policy=nobody", "option policy 'nobody' is not possible .*unknown"),
        (
            "search:policy=greedy",
            "option policy 'greedy' gives no probabilities; allowed: the name",
        ),
        ("search:policy=search", "option policy 'search' is a search itself; allowed: the name"),
        ("search:deals=-1", "option deals -1 is not possible; allowed: a whole number, 0 to 20"),
        ("search:solver_turns=99", "option solver_turns 99 is not possible"),
        ("search:threads=0", "option threads 0 is not possible"),
        ("ismcts:iterations=none", "option iterations 'none' is not possible"),
        ("ismcts:exploration=-1", "option exploration -1 is not possible; allowed: 0 to 1000"),
        ("ismcts:rollout=classic-2p", "option rollout 'classic-2p' is unknown; allowed: counting"),
        ("ismcts:policy=greedy", "option policy 'greedy' gives no probabilities; allowed"),
        ("cheat:search:worlds=3", "policy option 'worlds' is unknown; allowed for 'cheat:search'"),
        ("cheat:ismcts:x=3", "policy option 'x' is unknown; allowed for 'cheat:ismcts'"),
    ],
)
def test_impossible_options_are_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_policy(text)


def test_searches_are_policies() -> None:
    for name in ("search", "ismcts", "cheat:search", "cheat:ismcts"):
        policy = load_policy(name)
        assert isinstance(policy, Policy)
        assert policy.name == name
        assert getattr(policy, "cheats", None) is name.startswith("cheat")
