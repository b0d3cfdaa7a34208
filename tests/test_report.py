"""``Game.report`` against the reference model, and rewards that are paid as they are earned.

Whole random games compare their reports in ``test_engine_against_reference`` too.
"""

from __future__ import annotations

import json
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import (
    CATEGORIES,
    TABLES,
    Fields,
    check_same_report,
    reference_beside,
    reference_move,
)
from reference.presets import PRESETS
from test_engine_against_reference import examples, match_fields, seeds

from escoba_env import Batch, Game
from escoba_env.engine.record import NOBODY
from escoba_env.report import CATEGORIES as ENGINE_CATEGORIES

every_preset = pytest.mark.parametrize("preset", PRESETS)
every_table = pytest.mark.parametrize("table", TABLES)
every_episode = pytest.mark.parametrize("episode", ["round", "match"])


# Reports


@every_preset
@every_table
def test_the_report_of_every_round_of_a_match_is_the_references(preset: str, table: str) -> None:
    fields = {**PRESETS[preset], **TABLES[table], "ties": "split"}
    game, rng = Game(fields, episode="match", seed=11), random.Random(11)
    reference = reference_beside(game, fields)
    assert game.report is None
    while not game.is_over:
        move, rounds = rng.choice(game.legal_moves()), len(reference.reports)
        game.play(move)
        reference.play(reference_move(move))
        if len(reference.reports) > rounds:
            check_same_report(game, reference)
            assert game.report is not None
            assert game.report.as_dict()["totals"] == plain(game.report.totals)
    assert reference.match_over
    game.reset()
    assert game.report is None


def plain(points: tuple[Fraction, ...]) -> list[int | str]:
    """Returns points as JSON has them."""
    return [int(p) if p == int(p) else f"{p.numerator}/{p.denominator}" for p in points]


@examples(60)
@given(match_fields, seeds, st.sampled_from(["round", "match"]))
def test_a_report_adds_up_and_can_be_written(fields: Fields, seed: int, episode: str) -> None:
    game, rng = Game(fields, episode=episode, seed=seed), random.Random(seed)
    before = [Fraction(0)] * game.rules.num_sides
    rounds = 0
    while not game.is_over and rounds < 3:
        last = game.report
        game.step(rng.choice(game.legal_actions()))
        report = game.report
        if report is last:
            continue
        assert report is not None
        assert report.round_index == rounds
        assert ENGINE_CATEGORIES == CATEGORIES
        columns = zip(*(category.points for category in report.categories), strict=True)
        assert tuple(map(sum, columns)) == report.totals
        after = [score + total for score, total in zip(before, report.totals, strict=True)]
        assert list(report.scores) == after
        assert [float(total) for total in report.totals] == game.round_points
        content = json.loads(json.dumps(report.as_dict()))
        assert list(content["categories"]) == list(CATEGORIES)
        for name in CATEGORIES:
            assert content["categories"][name]["counts"] == list(report[name].counts)
            assert content["categories"][name]["points"] == plain(report[name].points)
            shown = any(line.startswith(f"{name}: ") for line in str(report).splitlines())
            assert shown == report[name].counted == content["categories"][name]["counted"]
            assert report[name].counted or not any(report[name].points)
        with pytest.raises(KeyError, match="'elegance' is unknown"):
            report["elegance"]
        before, rounds = after, rounds + 1


def test_a_clone_and_a_copied_state_of_a_finished_game_report_the_same() -> None:
    game, rng = Game("argentine", seed=4), random.Random(4)
    while not game.is_over:
        game.step(rng.choice(game.legal_actions()))
    other = Game("argentine", seed=0)
    other.set_state(game.get_state())
    assert game.clone().report == other.report == game.report
    assert Game.from_text(game.to_text()).report == game.report


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({}, "most_cards most_oros most_sevens seven_of_oros escoba"),
        (
            {"escoba": 0, "most_oros": 0, "all_oros": 0, "setenta": 2},
            "most_cards most_sevens setenta seven_of_oros",
        ),
        (
            {"most_oros": 0, "all_oros": 1, "napola": True},
            "most_cards most_oros most_sevens seven_of_oros napola escoba",
        ),
    ],
)
def test_a_report_shows_what_scores_and_names_who_scored(fields: Fields, counted: str) -> None:
    game, rng = Game(**fields, seed=3, players=4, partnership=True), random.Random(3)
    while not game.is_over:
        game.step(rng.choice(game.legal_actions()))
    report = game.report
    assert report is not None
    assert report.sides == ("player_0+player_2", "player_1+player_3")
    assert [one.name for one in report.categories if one.counted] == counted.split()
    lines = str(report).splitlines()
    assert lines[0] == "player_0+player_2 : player_1+player_3"
    assert [line.partition(":")[0] for line in lines[1:]] == [*counted.split(), "round", "score"]
    assert "side" not in str(report)
    for line in lines[1:-2]:
        for side, name in enumerate(report.sides):
            points = report[line.partition(":")[0]].points[side]
            assert (f"{name} +{points}" in line) == (points > 0)


# Rewards as they are earned


@every_preset
@every_table
@every_episode
@pytest.mark.parametrize("reward", ["margin", "points"])
def test_rewards_as_earned_add_up_to_those_at_the_end_and_pay_escobas_at_once(
    preset: str, table: str, episode: str, reward: str
) -> None:
    fields = {**PRESETS[preset], **TABLES[table]}
    options = {"episode": episode, "reward": reward, "seed": 8}
    at_end = Game(fields, **options)
    earned = Game(fields, **options, reward_timing="as_earned")
    rng, paid = random.Random(8), 0
    games = 12 if episode == "round" else 5
    for index in range(games):
        if index:
            at_end.reset()
            earned.reset()
        while not at_end.is_over and at_end.record["round_index"] < 3:
            before = earned.record["escobas"].copy()
            # What came with the deal is paid with the first pick.
            if earned.record["turn_index"] == 0 and earned.record["played"] == NOBODY:
                before[:] = 0
            rounds = int(earned.record["round_index"])
            action = rng.choice(at_end.legal_actions())
            at_end.step(action)
            earned.step(action)
            assert at_end.get_state() == earned.get_state()
            if earned.is_over or earned.record["round_index"] > rounds:
                # Whatever was paid before the end, the round has paid its points and no more.
                assert earned.returns == pytest.approx(at_end.returns, abs=1e-9)
                continue
            new = earned.record["escobas"] - before
            paid += int(new.sum())
            assert earned.rewards == pytest.approx(rewards_of(earned, new, reward), abs=1e-9)
            assert at_end.rewards == [0] * at_end.rules.players
    assert paid > 0


def rewards_of(game: Game, escobas: np.ndarray, reward: str) -> list[float]:
    """Returns what each seat earns for new escobas of the seats."""
    sides = game.rules.num_sides
    points = [0.0] * sides
    for seat in range(game.rules.players):
        points[seat % sides] += game.rules.escoba * int(escobas[seat])
    if reward == "points":
        return [points[seat % sides] for seat in range(game.rules.players)]
    return [
        points[seat % sides] - (sum(points) - points[seat % sides]) / (sides - 1)
        for seat in range(game.rules.players)
    ]


@every_preset
@every_table
@every_episode
@pytest.mark.parametrize("skip_forced", [False, True])
def test_a_batch_pays_as_earned_what_it_pays_at_the_end(
    preset: str, table: str, episode: str, skip_forced: bool
) -> None:
    fields = {**PRESETS[preset], **TABLES[table]}
    options = {"episode": episode, "skip_forced": skip_forced, "seed": 2}
    at_end = Batch(64, fields, **options)
    earned = Batch(64, fields, **options, reward_timing="as_earned")
    rng = np.random.default_rng(2)
    sums = np.zeros((2, 64, at_end.rules.players))
    early = False
    while not at_end.over.all():
        playing = np.flatnonzero(~at_end.over)
        chances = rng.random((64, 43)) * at_end.legal_masks()
        actions = chances.argmax(axis=1)[playing]
        rounds = at_end.states["round_index"][playing].copy()
        paid = [batch.step(actions, playing)[0] for batch in (at_end, earned)]
        sums[0, playing] += paid[0]
        sums[1, playing] += paid[1]
        assert at_end.states.tobytes() == earned.states.tobytes()
        same_round = (at_end.states["round_index"][playing] == rounds) & ~at_end.over[playing]
        assert not paid[0][same_round].any()
        early |= bool(paid[1][same_round].any())
    assert early
    assert sums[1] == pytest.approx(sums[0], abs=1e-4)


@pytest.mark.parametrize("initial_table", ["dealer", "eldest"])
def test_escobas_that_came_with_the_deal_are_paid_with_the_first_pick(initial_table: str) -> None:
    """Fifteen and thirty: one escoba and two, before anybody has played."""
    for table, escobas in (("7o 3c 4b 1e", 1), ("7o Sc Rb 5e", 2)):
        first = table.split()
        game = Game(
            "ludoteka", initial_table=initial_table, reward="points", reward_timing="as_earned"
        )
        rest = [name for name in all_names(game) if name not in first]
        game.reset(0, deck=[*rest[:6], *first, *rest[6:]], dealer=1)
        seat = {"dealer": 1, "eldest": 0}[initial_table]
        wanted = [escobas * (number == seat) for number in range(2)]
        assert game.record["escobas"][:2].tolist() == wanted
        assert game.returns == [0, 0]
        game.step(game.legal_actions()[0])
        assert game.rewards == wanted
        game.step(game.legal_actions()[0])
        assert game.returns == wanted


def all_names(game: Game) -> list[str]:
    """Returns the pack in its own order."""
    return [rank + suit for suit in "oceb" for rank in "1234567SCR"][: game.rules.pack_size]


def test_a_win_cannot_be_paid_before_the_end() -> None:
    for make in (Game, lambda **options: Batch(1, **options)):
        with pytest.raises(ValueError, match="reward_timing='as_earned' is not possible"):
            make(reward="win", reward_timing="as_earned")
