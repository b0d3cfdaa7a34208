"""Matches: what a margin is worth at the score, and searches and policies that play for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.needs import needs

from escoba_env import Batch, load_policy, make_rules
from escoba_env.batch import Views
from escoba_env.engine.record import TWELFTHS
from escoba_env.policies import match_odds as module
from escoba_env.policies.match_odds import (
    FAR,
    bend,
    bends_of,
    match_odds,
    mean_point,
    points_of,
    score_shares,
)

CLASSIC = make_rules("classic")


def views_at(own: int, other: int, turns: int = 8, games: int = 20) -> Views:
    """Views of the first round of matches, as if it began at another score."""
    batch = Batch(games, episode="match", skip_forced=True, seed=1)
    counting = load_policy("counting")
    while (batch.states["turn_index"] < turns).any():
        early = np.flatnonzero(batch.states["turn_index"] < turns)
        batch.step(counting.act(batch.views(early)), early)
    sides = batch.turn
    batch.states["scores"][np.arange(games), sides] = own * TWELFTHS
    batch.states["scores"][np.arange(games), 1 - sides] = other * TWELFTHS
    return batch.views()


@pytest.fixture
def coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds in which either side wins one point, or in a quarter of them nobody any."""
    rounds = np.array([[1, 0]] * 3 + [[0, 1]] * 3 + [[0, 0]] * 2)
    monkeypatch.setattr(module, "_results", lambda rules: rounds)
    for cached in (module._solved, module._bends, module.score_shares):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    for cached in (module._solved, module._bends, module.score_shares):
        cached.cache_clear()
    yield
    for cached in (module._solved, module._bends, module.score_shares):
        cached.cache_clear()


@pytest.mark.usefixtures("coin")
def test_odds_of_a_race_by_single_points_are_those_of_tossing_a_coin() -> None:
    odds = match_odds(make_rules("classic", target=3))
    expected = [[1 / 2, 5 / 16, 1 / 8], [11 / 16, 1 / 2, 1 / 4], [7 / 8, 3 / 4, 1 / 2]]
    np.testing.assert_allclose(odds, expected)


def test_rules_under_which_nobody_scores_have_no_odds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_results", lambda rules: np.zeros((10, 2), np.int64))
    with pytest.raises(ValueError, match=r"utility='win' is not possible under rules.*nobody sco"):
        match_odds(CLASSIC)


@pytest.mark.parametrize(
    "rules", [CLASSIC, make_rules("tabletop", players=4, partnership=True)], ids=["2", "partners"]
)
def test_odds_are_fair_and_rise_with_the_own_score(rules) -> None:
    odds = match_odds(rules)
    assert odds.shape == (rules.match_target, rules.match_target)
    np.testing.assert_allclose(odds + odds.T, 1)
    assert (np.diff(odds, axis=0) > -1e-12).all()
    assert odds[-1, 0] > 0.95


def test_odds_are_what_matches_of_counting_come_to() -> None:
    """From 4 to 0 in a match to 8, over matches in which a side led so after some round."""
    rules = make_rules("classic", target=8)
    batch = Batch(4000, rules, episode="match", skip_forced=True, seed=2)
    counting = load_policy("counting")
    led = np.full(4000, -1)
    while not batch.over.all():
        live = np.flatnonzero(~batch.over)
        scores = batch.states["scores"][:, :2]
        for side in (0, 1):
            now = (scores[:, side] == 4 * TWELFTHS) & (scores[:, 1 - side] == 0) & (led < 0)
            led[now & ~batch.over] = side
        batch.step(counting.act(batch.views(live)), live)
    rows = np.flatnonzero(led >= 0)
    assert len(rows) > 150
    final = batch.states["scores"][rows, :2]
    won = final[np.arange(len(rows)), led[rows]] > final[np.arange(len(rows)), 1 - led[rows]]
    error = 3 * np.sqrt(0.25 / len(rows))
    assert won.mean() == pytest.approx(match_odds(rules)[4, 0], abs=error)


def test_far_from_the_end_a_margin_is_worth_itself_and_at_the_end_winning_is_all() -> None:
    early, late = bends_of(views_at(0, 0))[0], bends_of(views_at(20, 20))[0]
    margins = np.arange(-FAR, FAR + 1)
    assert early[FAR - 3 : FAR + 4] == pytest.approx(margins[FAR - 3 : FAR + 4], abs=0.25)
    assert (np.sign(late) == np.sign(margins)).all()
    assert np.ptp(late[FAR + 1 :]) == pytest.approx(0, abs=1e-9)
    # Behind at the end, a round that is not won by enough is lost.
    behind = bends_of(views_at(14, 20))[0]
    assert behind[FAR] == 0
    assert behind[FAR + 7] > 20 * behind[FAR + 3]
    assert (np.diff([early, late, behind]) >= 0).all()


def test_scores_are_those_of_the_seat_to_move_and_beyond_the_target_as_before_it() -> None:
    ahead, behind = bends_of(views_at(18, 9)), bends_of(views_at(9, 18))
    np.testing.assert_allclose(ahead, -behind[:, ::-1], atol=1e-9)
    np.testing.assert_array_equal(bends_of(views_at(23, 23)), bends_of(views_at(20, 20)))


def test_a_point_is_worth_most_where_it_decides_and_next_to_nothing_where_all_is_decided() -> None:
    scores = [(20, 20), (15, 15), (0, 0), (20, 10), (20, 3)]
    points = [float(points_of(views_at(own, other))[0]) for own, other in scores]
    assert points == sorted(points, reverse=True)
    assert points[0] > 100 * points[-1]
    assert points_of(views_at(12, 17))[0] == pytest.approx(points_of(views_at(17, 12))[0])
    shares = score_shares(CLASSIC)
    table = np.array(
        [[points_of(views_at(a, b, games=1))[0] for b in range(21)] for a in range(21)]
    )
    assert mean_point(CLASSIC) == pytest.approx((shares * table).sum())


@pytest.mark.usefixtures("coin")
def test_worths_times_what_a_point_is_worth_are_odds() -> None:
    """In a race to 3 by single points: a point more is worth half of what winning it brings."""
    odds = match_odds(make_rules("classic", target=3))
    bends, points = module._bends(make_rules("classic", target=3))
    for own, other in ((0, 0), (1, 0), (1, 1)):
        gained = odds[own + 1, other] - odds[own, other]
        assert bends[own, other, FAR + 1] * points[own, other] == pytest.approx(gained)


def test_between_whole_margins_the_worth_is_in_proportion_and_beyond_all_it_is_the_last() -> None:
    table = np.arange(2 * FAR + 1, dtype=float)[None] ** 2
    found = bend(table, np.array([[-FAR - 5.0, 0.25, FAR + 9.0, np.nan]]))
    expected = [0, 0.75 * FAR**2 + 0.25 * (FAR + 1) ** 2, (2 * FAR) ** 2]
    np.testing.assert_allclose(found[0, :3], expected)
    assert np.isnan(found[0, 3])


@pytest.mark.parametrize("rollout", ["counting", pytest.param("classic-2p", marks=needs("torch"))])
def test_a_search_for_wins_values_what_margins_are_worth(rollout: str) -> None:
    """In one world, that is the worth of the margin."""
    views = views_at(14, 20)
    options = f"worlds=1,prior=0,rollout={rollout}"
    plain = load_policy(f"search:{options}").action_values(views)
    found = load_policy(f"search:utility=win,{options}").action_values(views)
    np.testing.assert_allclose(found, bend(bends_of(views), plain), atol=1e-9)
    assert np.nanmax(np.abs(found - plain)) > 1


def test_a_search_values_actions_at_other_scores_as_if_it_were_asked_there() -> None:
    """From the same worlds: but for rounding the values are the same."""
    search = load_policy("search:utility=win,worlds=24,prior=8,belief=true")
    scores = [(14, 20), (20, 14), (0, 0), (20, 20)]
    found = search.action_values_at(views_at(3, 5), np.tile(scores, (20, 1, 1)))
    assert found.shape == (20, 4, 43)
    for k, (own, other) in enumerate(scores):
        expected = search.action_values(views_at(own, other))
        np.testing.assert_allclose(found[:, k], expected, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        "worlds=4",
        "utility=win,time=0.01",
        pytest.param("utility=win,worlds=4,rollout=classic-2p", marks=needs("torch")),
    ],
)
def test_other_scores_are_refused_where_play_outs_cannot_be_shared(options: str) -> None:
    search = load_policy(f"search:{options}")
    with pytest.raises(ValueError, match=r"values at other scores are not possible.*allowed: util"):
        search.action_values_at(views_at(3, 5), np.zeros((20, 1, 2), np.int64))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.full((20, 1, 2), 30), "score 30 is not possible; allowed: 0 to 20"),
        (np.full((20, 1, 2), -3), "score -3 is not possible; allowed: 0 to 20"),
        (np.zeros((20, 2), np.int64), r"scores of shape \(20, 2\)"),
        (np.zeros((19, 1, 2), np.int64), r"scores of shape \(19, 1, 2\)"),
        (np.zeros((20, 1, 2)), "dtype float64 are not possible"),
    ],
)
def test_impossible_scores_are_refused(scores, message) -> None:
    search = load_policy("search:worlds=1,utility=win")
    with pytest.raises(ValueError, match=message):
        search.action_values_at(views_at(3, 5), scores)


def test_odds_of_three_sides_are_refused() -> None:
    for find in (match_odds, score_shares, mean_point):
        with pytest.raises(ValueError, match="odds of matches of 3 sides are not possible"):
            find(make_rules("classic", players=3))


def test_rounds_begin_at_scores_as_often_as_in_matches_of_counting() -> None:
    rules = make_rules("classic", target=8)
    shares = score_shares(rules)
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(shares, shares.T)
    batch = Batch(2000, rules, episode="match", skip_forced=True, seed=4)
    counting = load_policy("counting")
    begun = np.zeros((8, 8))
    last = np.full(2000, -1)
    while not batch.over.all():
        live = np.flatnonzero(~batch.over)
        new = live[batch.states["round_index"][live] != last[live]]
        last[new] = batch.states["round_index"][new]
        own, other = batch.states["scores"][new, :2].T // TWELFTHS
        below = (own < 8) & (other < 8)
        np.add.at(begun, (own[below], other[below]), 1)
        batch.step(counting.act(batch.views(live)), live)
    np.testing.assert_allclose(begun / begun.sum(), shares, atol=0.008)


def test_a_search_for_wins_chooses_by_that() -> None:
    views = views_at(14, 20, games=200)
    plain, wins = (load_policy(f"search:worlds=16,utility={u}") for u in ("margin", "win"))
    values = wins.action_values(views)
    chosen = values[np.arange(len(views)), wins.act(views)]
    assert (chosen >= np.nanmax(values, axis=1) - 1e-9).all()
    assert (plain.act(views) != wins.act(views)).any()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"episode": "round"}, "in single rounds of 2 sides; allowed: matches between two"),
        ({"episode": "match", "players": 3}, "in a match of 3 sides; allowed: matches between"),
    ],
)
def test_where_there_is_no_match_between_two_the_option_is_refused(table, message) -> None:
    batch = Batch(2, skip_forced=True, **table)
    for policy in ("search:utility=win", "search:utility=win,rollout=greedy"):
        with pytest.raises(ValueError, match=message):
            load_policy(policy).act(batch.views())
    with pytest.raises(ValueError, match="option utility 'points' is unknown; allowed: margin, w"):
        load_policy("search:utility=points")
