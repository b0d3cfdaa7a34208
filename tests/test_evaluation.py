"""Evaluation: duplicate deals, seatings, intervals and tallies."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from escoba_env.batch import Batch, IllegalActionError, Views
from escoba_env.engine.record import NOBODY
from escoba_env.evaluation import PlayOut, evaluate, mean_interval, play_out, seatings, units
from escoba_env.game import Game
from escoba_env.policies import GreedyPolicy, Policy, RandomPolicy
from escoba_env.rules import Rules, RulesError, make_rules

TABLES: dict[str, dict[str, Any]] = {
    "two": {"players": 2},
    "three": {"players": 3},
    "four": {"players": 4},
    "pairs": {"players": 4, "partnership": True},
    "split": {"players": 3, "ties": "split"},
    "optional": {"players": 2, "capture": "optional"},
    "match": {"players": 2, "episode": "match", "target": 5},
    "match of pairs": {"players": 4, "partnership": True, "episode": "match", "target": 5},
}
TWO_SIDES = ["two", "pairs", "optional", "match", "match of pairs"]


class Recorder:
    """Plays as another policy does and keeps every view it was shown."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.name = f"recorded {inner.name}"
        self.calls: list[Views] = []

    def act(self, views: Views) -> NDArray[np.int64]:
        self.calls.append(views)
        return self.inner.act(views)

    @property
    def records(self) -> NDArray[np.void]:
        return np.concatenate([views.records for views in self.calls])


class Fixed:
    """Answers with whatever it is told to."""

    def __init__(self, answer: Any) -> None:
        self.name = "fixed"
        self.answer = answer

    def act(self, views: Views) -> Any:
        return self.answer(len(views))


# -- symmetry -------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("policy", ["greedy", "random"])
def test_a_policy_wins_exactly_nothing_from_itself(table: str, policy: str) -> None:
    result = evaluate(policy, policy, deals=40, **TABLES[table])
    assert result.margin == 0
    assert result.interval == (0, 0)
    if table in TWO_SIDES:
        assert result.wins == result.losses
        assert result.points == result.other_points
        assert result.escobas == result.other_escobas


@pytest.mark.parametrize("table", TWO_SIDES)
def test_with_two_sides_a_against_b_is_exactly_minus_b_against_a(table: str) -> None:
    forth = evaluate("greedy", "random", deals=60, **TABLES[table])
    back = evaluate("random", "greedy", deals=60, **TABLES[table])
    assert forth.margin == -back.margin != 0
    assert forth.half_width == back.half_width > 0
    assert (forth.wins, forth.draws, forth.losses) == (back.losses, back.draws, back.wins)
    assert (forth.points, forth.other_points) == (back.other_points, back.points)
    assert (forth.escobas, forth.other_escobas) == (back.other_escobas, back.escobas)


@pytest.mark.parametrize("table", TABLES)
def test_greedy_beats_random_at_every_table(table: str) -> None:
    result = evaluate("greedy", "random", deals=400, **TABLES[table])
    assert result.interval[0] > 0
    assert result.points > result.other_points


# -- what must not matter -------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_chunk_size_changes_nothing(table: str) -> None:
    whole = evaluate("greedy", "random", deals=30, chunk=30, **TABLES[table])
    assert evaluate("greedy", "random", deals=30, chunk=1, **TABLES[table]) == whole
    assert evaluate("greedy", "random", deals=30, chunk=7, **TABLES[table]) == whole


def test_a_game_ends_alike_whatever_it_is_played_beside() -> None:
    policies = [RandomPolicy(), GreedyPolicy()]
    indices = np.array([5, 0, 5, 9, 3])
    seating = np.array([[0, 1], [1, 0], [1, 0], [0, 0], [1, 1]])

    def play(rows: list[int], skip_forced: bool) -> PlayOut:
        batch = Batch(len(rows), skip_forced=skip_forced)
        batch.reset(4, game_indices=indices[rows])
        return play_out(batch, policies, seating[rows])

    together = play([0, 1, 2, 3, 4], True)
    for rows in ([4, 2, 0, 1, 3], [1], [2, 4]):
        for skip_forced in (True, False):
            other = play(rows, skip_forced)
            assert (other.twelfths == together.twelfths[rows]).all()
            assert other.escobas is not None
            assert together.escobas is not None
            assert (other.escobas == together.escobas[rows]).all()


def test_seeds_are_other_deals_and_the_same_seed_the_same() -> None:
    first = evaluate("greedy", "random", deals=50, seed=1)
    assert evaluate("greedy", "random", deals=50, seed=1) == first
    assert evaluate("greedy", "random", deals=50, seed=2).margin != first.margin


# -- duplicate deals ------------------------------------------------------------------------


@pytest.mark.parametrize("episode", ["round", "match"])
def test_both_sides_are_dealt_the_same_hands_in_the_same_seats(episode: str) -> None:
    a, b = Recorder(GreedyPolicy()), Recorder(RandomPolicy())
    evaluate(a, b, deals=20, episode=episode, target=1)

    def dealt(records: NDArray[np.void]) -> Counter[tuple[int, ...]]:
        # The eldest hand whenever hands are dealt: it does not depend on what was played.
        new = (records["turn_index"] % 6 == 0) & (records["played"] == NOBODY)
        new &= records["round_index"] == 0
        return Counter(
            (int(r["turn_index"]), int(r["viewer"]), int(r["hands"][r["viewer"]]))
            for r in records[new]
        )

    assert dealt(a.records) == dealt(b.records)
    assert dealt(a.records).total() == 20 * 6
    first = a.records[a.records["turn_index"] == 0]
    assert len({int(table) for table in first["table"]}) > 15


def test_the_same_play_leads_to_the_same_views_in_both_seatings() -> None:
    a, b = Recorder(GreedyPolicy()), Recorder(GreedyPolicy())
    evaluate(a, b, deals=10)
    assert Counter(r.tobytes() for r in a.records) == Counter(r.tobytes() for r in b.records)


def test_each_policy_is_asked_at_most_once_a_step() -> None:
    a, b = Recorder(GreedyPolicy()), Recorder(RandomPolicy())
    evaluate(a, b, deals=200, chunk=200)
    # 36 turns of at most a few picks each, and not one call a game.
    assert len(a.calls) < 100
    assert max(len(views) for views in a.calls) > 100


# -- seatings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"players": 2}, [[0, 1], [1, 0]]),
        ({"players": 3}, [[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
        ({"players": 4}, [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]),
        ({"players": 4, "partnership": True}, [[0, 1, 0, 1], [1, 0, 1, 0]]),
    ],
)
def test_a_takes_every_side_once(fields: dict[str, Any], expected: list[list[int]]) -> None:
    assert seatings(make_rules(**fields)).tolist() == expected
    result = evaluate("greedy", "random", deals=3, **fields)
    assert result.rotations == len(expected)
    assert result.games == result.rounds == 3 * len(expected)


def test_each_policy_sees_only_its_own_seats() -> None:
    batch = Batch(3, players=3, skip_forced=True)
    policies = [Recorder(GreedyPolicy()), Recorder(GreedyPolicy()), Recorder(GreedyPolicy())]
    play_out(batch, policies, [[0, 1, 2]] * 3)
    for seat, policy in enumerate(policies):
        assert set(policy.records["viewer"].tolist()) == {seat}
        assert set(policy.records["turn"].tolist()) == {seat}


@pytest.mark.parametrize(
    ("seating", "message"),
    [
        ([[0, 1]], r"seating is int64 \(1, 2\); allowed: integers \(2, 2\)"),
        ([[0.0, 1.0]] * 2, r"seating is float64"),
        ([[0, 2], [1, 0]], r"seating has policies \[0, 1, 2\]; allowed: 0 to 1"),
        ([[0, -1], [1, 0]], r"allowed: 0 to 1"),
    ],
)
def test_impossible_seatings_are_refused(seating: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        play_out(Batch(2), [GreedyPolicy(), RandomPolicy()], seating)


# -- numbers --------------------------------------------------------------------------------


def test_the_interval_of_a_constructed_sample() -> None:
    samples = [1.0, 2.0, 3.0, 6.0]
    mean, half_width = mean_interval(np.array(samples))
    z = statistics.NormalDist().inv_cdf(0.975)
    assert mean == 3.0
    assert half_width == pytest.approx(z * statistics.stdev(samples) / 2)


def test_the_interval_shrinks_with_the_root_of_the_deals() -> None:
    few = evaluate("greedy", "random", deals=200)
    many = evaluate("greedy", "random", deals=200 * 16)
    assert 3 < few.half_width / many.half_width < 5


def test_the_interval_covers_the_truth_in_about_95_of_100_runs() -> None:
    truth = evaluate("greedy", "random", deals=20_000, seed=1_000_000).margin
    runs = [evaluate("greedy", "random", deals=60, seed=seed) for seed in range(200)]
    covered = sum(run.interval[0] <= truth <= run.interval[1] for run in runs)
    assert 0.90 <= covered / len(runs) <= 0.99


def test_margins_wins_and_shares_of_constructed_games(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two deals for three players; A sits in seat 0, 1, 2 in turn. Points by seat, in points:
    points = [
        *([3, 1, 2], [4, 4, 0], [0, 3, 1]),  # A: 3 alone in the lead; 4, shared; 1, second
        *([0, 0, 0], [1, 5, 3], [2, 2, 1]),  # A: 0, shared by all; 5, alone; 1, below two leaders
    ]
    escobas = [[2, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 3, 0], [1, 1, 0]]

    def constructed(batch: Batch, policies: Any, seating: NDArray[np.int64]) -> PlayOut:
        assert batch.states["game_index"].tolist() == [0, 0, 0, 1, 1, 1]
        assert seating.tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]] * 2
        return PlayOut(12 * np.array(points), np.ones(6, np.int64), np.array(escobas))

    monkeypatch.setattr(units, "play_out", constructed)
    result = evaluate("greedy", "random", deals=2, players=3)
    assert (result.wins, result.draws, result.losses) == (2, 2, 2)
    # Margins 3 - 1.5, 4 - 2, 1 - 1.5 and 0, 5 - 2, 1 - 2: means 1 and 2/3.
    assert result.margin == pytest.approx(5 / 6)
    assert result.half_width == pytest.approx(1.959964 * (1 / 3 / 2**0.5) / 2**0.5)
    assert result.points == pytest.approx((3 + 4 + 1 + 0 + 5 + 1) / 6)
    assert result.other_points == pytest.approx((1.5 + 2 + 1.5 + 0 + 2 + 2) / 6)
    assert result.escobas == pytest.approx((2 + 1 + 0 + 0 + 3 + 0) / 6)
    assert result.other_escobas == pytest.approx((0.5 + 0 + 0 + 0 + 0 + 1) / 6)


def test_a_game_that_can_be_worked_out_by_hand() -> None:
    # Two sevens and two eights, one card each and two on the table. Whatever lies there, the
    # eldest hand takes one card of it and the dealer sweeps the other: one escoba to nil.
    nothing = dict.fromkeys(
        ("most_cards", "most_oros", "all_oros", "most_sevens", "all_sevens", "seven_of_oros"), 0
    )
    result = evaluate(
        "greedy",
        "random",
        deals=25,
        ranks=(7, 8),
        suits=("oros", "copas"),
        hand_size=1,
        table_size=2,
        **nothing,
    )
    assert (result.wins, result.draws, result.losses) == (25, 0, 25)
    assert (result.margin, result.half_width) == (0, 0)
    assert (result.points, result.other_points) == (0.5, 0.5)
    assert (result.escobas, result.other_escobas) == (0.5, 0.5)


@pytest.mark.parametrize("table", TABLES)
def test_margins_are_those_of_games_played_one_at_a_time(table: str) -> None:
    policies = [GreedyPolicy(), RandomPolicy()]
    fields = TABLES[table]
    margins = []
    for seating in seatings(make_rules(**{k: v for k, v in fields.items() if k != "episode"})):
        game = Game(**fields, seed=11)
        for _ in range(6):
            while not game.is_over:
                game.step(int(policies[seating[game.turn]].act(game.view(game.turn))[0]))
            margins.append(game.returns[int(np.flatnonzero(seating == 0)[0])])
            game.reset()
    samples = np.array(margins).reshape(-1, 6).mean(0)
    result = evaluate("greedy", "random", deals=6, seed=11, **fields)
    assert (result.margin, result.half_width) == pytest.approx(mean_interval(samples))


def test_points_are_what_the_games_rewards_add_up_to() -> None:
    batch = Batch(20, players=3, ties="split", reward="points")
    batch.reset(3)
    again = batch.clone()
    result = play_out(batch, [GreedyPolicy()], np.zeros((20, 3), np.int64))
    total = np.zeros((20, 3))
    live = np.arange(20)
    while live.size:
        rewards, over = again.step(GreedyPolicy().act(again.views(live)), live)
        total[live] += rewards
        live = live[~over]
    assert result.points == pytest.approx(total)
    assert batch.over.all()


def test_a_match_is_won_or_lost_and_counts_its_rounds() -> None:
    result = evaluate("greedy", "random", deals=50, episode="match", target=11)
    assert result.draws == 0
    assert result.wins + result.losses == result.games == 100
    assert result.rounds > 2 * result.games
    assert result.escobas is None
    assert result.other_escobas is None
    # Per match and per round: the same points.
    per_match = (result.points - result.other_points) * result.rounds / result.games
    assert result.margin == pytest.approx(per_match)


def test_progress_counts_deals_and_rounds() -> None:
    seen: list[tuple[int, int]] = []
    evaluate(
        "greedy",
        "random",
        players=3,
        deals=5,
        chunk=2,
        on_progress=lambda deals, rounds: seen.append((deals, rounds)),
    )
    assert seen == [(2, 6), (4, 12), (5, 15)]


def test_json_round_trip() -> None:
    result = evaluate("greedy", "random", "argentine", initial_table="play", players=3, deals=20)
    values = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert values == result.as_dict()
    again = evaluate(
        values["a"],
        values["b"],
        values["rules"],
        episode=values["episode"],
        deals=values["deals"],
        seed=values["seed"],
    )
    assert again == result
    assert values["interval"] == [*result.interval]


def test_policies_are_reported_as_they_were_asked_for() -> None:
    result = evaluate(Recorder(GreedyPolicy()), "random", Rules(players=3), deals=2)
    assert (result.a, result.b) == ("recorded greedy", "random")
    assert result.rules == Rules(players=3)


# -- precision ------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [50, 100, 130])
def test_a_precision_stops_after_the_first_chunk_that_reaches_it(chunk: int) -> None:
    fields: dict[str, Any] = {"players": 3, "ties": "split", "chunk": chunk}
    result = evaluate("greedy", "random", deals=5000, precision=0.15, **fields)
    assert result.half_width <= result.precision == 0.15
    assert result.deals % chunk == 0
    assert 200 <= result.deals < 5000
    before = evaluate("greedy", "random", deals=result.deals - chunk, **fields)
    assert before.deals < 200 or before.half_width > 0.15
    # But for what was asked for, it is the evaluation of as many deals.
    plain = evaluate("greedy", "random", deals=result.deals, **fields)
    assert dataclasses.replace(plain, precision=0.15) == result


def test_a_precision_is_given_up_with_the_deals() -> None:
    result = evaluate("greedy", "random", deals=250, precision=1e-9)
    assert result.deals == 250
    assert result.half_width > 1e-9


def test_a_certain_margin_takes_the_fewest_deals() -> None:
    result = evaluate("greedy", "greedy", deals=5000, precision=0.01)
    assert (result.deals, result.half_width) == (200, 0)


@pytest.mark.parametrize(
    "value",
    [0, -0.1, float("nan"), float("inf"), "x", True, 10**400, 10**5000, -(10**400)],
    ids=type,
)
def test_impossible_precisions_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"precision .* allowed: a number above 0") as refused:
        evaluate("greedy", "random", precision=value)
    assert len(str(refused.value)) < 300


# -- faults ---------------------------------------------------------------------------------


def test_an_illegal_action_names_the_policy_and_what_is_legal() -> None:
    lays = Fixed(lambda n: np.full(n, 42))
    with pytest.raises(IllegalActionError, match=r"policy 'fixed': .*illegal.*may choose"):
        evaluate("greedy", lays, deals=5)
    # And the deals, which can then be played again.
    with pytest.raises(IllegalActionError, match=r"\(deals 0 to 3 of seed 11\)$"):
        evaluate("greedy", lays, deals=10, chunk=4, seed=11)


@pytest.mark.parametrize(
    "answer",
    [
        np.zeros,
        lambda n: np.zeros(n + 1, np.int64),
        lambda n: np.zeros((n, 1), np.int64),
        lambda n: None,
    ],
    ids=["floats", "one too many", "two-dimensional", "nothing"],
)
def test_answers_of_another_shape_name_the_policy(answer: Any) -> None:
    with pytest.raises(ValueError, match=r"(?s)policy 'fixed': actions .*allowed: integers"):
        evaluate(Fixed(answer), "greedy", deals=5)


@pytest.mark.parametrize(
    "value",
    [1, 0, -3, 2.5, "many", True, None, 10**400, 10**5000, "x" * 9000, [10**5000]],
    ids=type,
)
def test_impossible_numbers_of_deals_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"deals .* allowed: a whole number, 2 to") as refused:
        evaluate("greedy", "random", deals=value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_impossible_chunks_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"chunk .* allowed: a whole number, 1 to"):
        evaluate("greedy", "random", chunk=value)


def test_other_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"policy 'gredy' is unknown; allowed: random, greedy"):
        evaluate("gredy", "random")
    with pytest.raises(ValueError, match=r"episode 'day' is unknown; allowed: round, match"):
        evaluate("greedy", "random", episode="day")
    with pytest.raises(ValueError, match=r"seed -1 is not possible"):
        evaluate("greedy", "random", seed=-1)
    with pytest.raises(RulesError, match=r"rule players=5 is not possible; allowed: 2, 3 or 4"):
        evaluate("greedy", "random", players=5)
