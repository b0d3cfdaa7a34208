"""Rollouts of self-play: which decisions are recorded, and what is credited to each of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

import torch

from escoba_env.batch import Batch, Views
from escoba_env.cards import NUM_ACTIONS
from escoba_env.engine.outlook import NUM_FACTS
from escoba_env.engine.record import HIDDEN
from escoba_env.policies import GreedyPolicy, Policy, RandomPolicy
from escoba_env.policies.network import Choices, choices_of
from escoba_env.rules import Rules
from training.rollout import Act, Floats, SeatRolloutBuffer, SelfPlay

TABLES: dict[str, dict[str, Any]] = {
    "two": {"players": 2},
    "three": {"players": 3, "ties": "split"},
    "four": {"players": 4},
    "pairs": {"players": 4, "partnership": True},
}
GAMES = 12
STEPS = 90
SEED = 5
SCALE = 0.5
Opponents = list[tuple[Policy, float]]


def dense(choices: Choices) -> tuple[Floats, NDArray[np.int8]]:
    """Returns the observations and masks that choices were picked out of."""
    state, rows, actions, facts = (part.numpy() for part in choices[:4])
    of_actions = np.zeros((len(state), NUM_ACTIONS, NUM_FACTS), np.float32)
    of_actions[rows, actions] = facts
    masks = np.zeros((len(state), NUM_ACTIONS), np.int8)
    masks[rows, actions] = 1
    return np.concatenate(
        [state, of_actions.reshape(len(state), NUM_ACTIONS * NUM_FACTS)], axis=1
    ), masks


def all_of(buffer: SeatRolloutBuffer) -> tuple[Floats, NDArray[np.int8]]:
    """Returns the observations and masks of a finished rollout, by step and game."""
    shape = (buffer.buffer_size, buffer.n_envs)
    observations, masks = dense(buffer.choices(torch.arange(shape[0] * shape[1])))
    return observations.reshape(*shape, -1), masks.reshape(*shape, -1)


def act(choices: Choices) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Actions and values that look random and are functions of the observation, bit for bit."""
    observations, masks = dense(choices)
    words = np.ascontiguousarray(observations).view(np.uint32).astype(np.uint64)
    factors = np.random.default_rng(0).integers(1, 2**64, words.shape[1], np.uint64)
    numbers = (words @ factors) >> np.uint64(20)
    number = masks.sum(1, dtype=np.uint64)
    legal_first = np.argsort(masks == 0, axis=1, kind="stable")
    actions = legal_first[np.arange(len(masks)), (numbers % number).astype(np.int64)]
    values = (numbers % np.uint64(1999)).astype(np.float32) / 1000 - 1
    return actions, values, -np.log(number).astype(np.float32)


def act_without_values(choices: Choices) -> tuple[NDArray[np.int64], Floats, Floats]:
    actions, values, log_probs = act(choices)
    return actions, np.zeros_like(values), log_probs


@dataclass
class Rollout:
    """A filled buffer, and everything that it came from."""

    batch: Batch
    play: SelfPlay
    buffer: SeatRolloutBuffer
    opponents: Opponents
    act: Act


def self_play(
    fields: dict[str, Any], opponents: Opponents | None = None, games: int = GAMES, seed: int = SEED
) -> SelfPlay:
    batch = Batch(games, **fields, encoding="tactical", skip_forced=True, seed=seed)
    return SelfPlay(batch, opponents or [], SCALE, seed)


def buffer_for(play: SelfPlay, steps: int = STEPS, gae_lambda: float = 1.0) -> SeatRolloutBuffer:
    encoding = play.batch.encoding
    return SeatRolloutBuffer(
        steps,
        spaces.Box(encoding.low, encoding.high, dtype=np.float32),
        spaces.Discrete(NUM_ACTIONS),
        "cpu",
        gae_lambda=gae_lambda,
        gamma=1.0,
        n_envs=len(play.batch),
        players=play.batch.rules.players,
    )


def roll_out(
    fields: dict[str, Any],
    opponents: Opponents | None = None,
    *,
    steps: int = STEPS,
    gae_lambda: float = 1.0,
    chooser: Act = act,
    seed: int = SEED,
) -> Rollout:
    play = self_play(fields, opponents, seed=seed)
    buffer = buffer_for(play, steps, gae_lambda)
    play.collect(buffer, chooser)
    return Rollout(play.batch, play, buffer, opponents or [], chooser)


# -- the same games, played again one decision at a time -------------------------------------


@dataclass
class Decision:
    """A choice of the learner's, as the test itself has come by it."""

    seat: int
    observation: Floats
    mask: NDArray[np.int8]
    action: int
    value: float
    log_prob: float
    scores: NDArray[np.int64]
    """Points of each side so far, in twelfths."""


@dataclass
class Course:
    """A game from its deal to its end."""

    slot: int
    first_row: int
    decisions: list[Decision]
    scores: NDArray[np.int64]

    def recorded(self, steps: int) -> list[Decision]:
        return self.decisions[: max(steps - self.first_row, 0)]


def replay(rollout: Rollout) -> list[Course]:
    """Plays the games of a rollout again, each to its end, on a batch that skips nothing."""
    buffer = rollout.buffer
    slots = np.arange(buffer.n_envs)
    rows = np.zeros(buffer.n_envs, np.int64)
    courses: list[Course] = []
    generation = 0
    while len(slots := slots[rows[slots] < buffer.buffer_size]):
        again = play_to_the_end(rollout, slots, slots + generation * buffer.n_envs, rows[slots])
        for course in again:
            rows[course.slot] += len(course.decisions)
        courses += again
        generation += 1
    return courses


def play_to_the_end(
    rollout: Rollout,
    slots: NDArray[np.int64],
    indices: NDArray[np.int64],
    first_rows: NDArray[np.int64],
) -> list[Course]:
    source = rollout.batch
    batch = Batch(len(slots), source.rules, episode=source.episode, encoding="tactical")
    batch.reset(SEED, game_indices=indices)
    frozen = frozen_seats(rollout, slots, first_rows)
    courses = [
        Course(int(slot), int(row), [], np.zeros(4, np.int64))
        for slot, row in zip(slots, first_rows, strict=True)
    ]
    live = np.arange(len(slots))
    while len(live):
        masks = batch.legal_masks(live)
        seats = batch.turn[live]
        actions = masks.argmax(1)
        choice = masks.sum(1) > 1
        for number, (policy, _) in enumerate(rollout.opponents):
            theirs = choice & (frozen[live, seats] == number)
            actions[theirs] = policy.act(batch.views(live[theirs]))
        mine = np.flatnonzero(choice & (frozen[live, seats] == -1))
        observations, own_masks = batch.observe(live[mine])
        parts = torch.from_numpy(observations), torch.from_numpy(own_masks)
        chosen, values, log_probs = rollout.act(choices_of(*parts))
        actions[mine] = chosen
        for i, place in enumerate(mine):
            game = live[place]
            courses[game].decisions.append(
                Decision(
                    int(seats[place]),
                    observations[i],
                    own_masks[i],
                    int(chosen[i]),
                    float(values[i]),
                    float(log_probs[i]),
                    batch.states["scores"][game].astype(np.int64),
                )
            )
        batch.step(actions, live)
        live = live[~batch.over[live]]
    for game, course in enumerate(courses):
        course.scores = batch.states["scores"][game].astype(np.int64)
    return courses


def frozen_seats(
    rollout: Rollout, slots: NDArray[np.int64], first_rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Which opponent plays a seat, and -1 for the learner: (games, players)."""
    rules = rollout.batch.rules
    result = np.full((len(slots), rules.players), -1)
    shares = np.cumsum([share for _, share in rollout.opponents]) * len(rollout.batch)
    for place, (slot, row) in enumerate(zip(slots, first_rows, strict=True)):
        number = int((slot >= shares).sum())
        if number < len(shares):
            learner = rules.side_of(int(rollout.buffer.seats[row, slot]))
            for seat in range(rules.players):
                if rules.side_of(seat) != learner:
                    result[place, seat] = number
    return result


def worth(rules: Rules, reward: str, scores: NDArray[np.int64], seat: int, over: bool) -> float:
    """What a seat has earned in a game so far, from the points of each side."""
    points = scores[: rules.num_sides] / 12
    own = points[rules.side_of(seat)]
    if reward == "points":
        return float(own)
    if reward == "margin":
        return float(own - (points.sum() - own) / (rules.num_sides - 1))
    if not over:
        return 0.0
    leaders = int((points == points.max()).sum())
    return 2 / leaders - 1 if own == points.max() else -1.0


def expected_gae(
    rollout: Rollout, course: Course, reward: str, gae_lambda: float
) -> list[tuple[float, float]]:
    """Advantage and return of each recorded decision of a game, seat by seat and backwards."""
    rules = rollout.batch.rules
    recorded = course.recorded(rollout.buffer.buffer_size)
    result = [(0.0, 0.0)] * len(recorded)
    for seat in range(rules.players):
        own = [i for i, decision in enumerate(course.decisions) if decision.seat == seat]
        for place in reversed([k for k, i in enumerate(own) if i < len(recorded)]):
            here = course.decisions[own[place]]
            before = worth(rules, reward, here.scores, seat, over=False)
            if place + 1 < len(own):
                follower = course.decisions[own[place + 1]]
                after = worth(rules, reward, follower.scores, seat, over=False)
                value = follower.value
            else:
                after = worth(rules, reward, course.scores, seat, over=True)
                value = 0.0
            advantage = SCALE * (after - before) + value - here.value
            if place + 1 < len(own) and own[place + 1] < len(recorded):
                advantage += gae_lambda * result[own[place + 1]][0]
            result[own[place]] = advantage, advantage + here.value
    return result


# -- what is credited -----------------------------------------------------------------------


@pytest.mark.parametrize("reward", ["margin", "points", "win"])
@pytest.mark.parametrize("episode", ["round", "match"])
@pytest.mark.parametrize("table", TABLES)
def test_without_values_a_return_is_what_the_seat_earns_until_the_end_of_its_game(
    table: str, episode: str, reward: str
) -> None:
    fields = {**TABLES[table], "episode": episode, "reward": reward, "target": 3}
    rollout = roll_out(fields, chooser=act_without_values)
    rules, buffer = rollout.batch.rules, rollout.buffer
    returns = []
    for course in replay(rollout):
        if course.first_row + len(course.decisions) <= STEPS:
            for row, decision in enumerate(course.decisions, course.first_row):
                seat = decision.seat
                before = worth(rules, reward, decision.scores, seat, over=False)
                earned = worth(rules, reward, course.scores, seat, over=True) - before
                assert buffer.returns[row, course.slot] == pytest.approx(SCALE * earned, abs=1e-5)
                returns.append(SCALE * earned)
    assert len(returns) > GAMES * STEPS / 4
    assert len(set(returns)) >= (2 if reward == "win" else 4)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.6])
@pytest.mark.parametrize("against", ["nobody", "some", "all"])
@pytest.mark.parametrize("table", TABLES)
def test_advantages_follow_each_seats_own_decisions(
    table: str, against: str, gae_lambda: float
) -> None:
    opponents: dict[str, Opponents] = {
        "nobody": [],
        "some": [(RandomPolicy(), 0.25), (GreedyPolicy(), 0.5)],
        "all": [(GreedyPolicy(), 0.5), (RandomPolicy(), 0.5)],
    }
    fields = {**TABLES[table], "episode": "match", "target": 3}
    rollout = roll_out(fields, opponents[against], gae_lambda=gae_lambda)
    buffer = rollout.buffer
    rows_left_open = 0
    for course in replay(rollout):
        recorded = course.recorded(STEPS)
        rows_left_open += len(recorded) < len(course.decisions)
        found = expected_gae(rollout, course, "margin", gae_lambda)
        for row, (advantage, target) in enumerate(found, course.first_row):
            assert buffer.advantages[row, course.slot] == pytest.approx(advantage, abs=1e-4)
            assert buffer.returns[row, course.slot] == pytest.approx(target, abs=1e-4)
    # The look-ahead past the last row was needed.
    assert rows_left_open >= GAMES / 2


@pytest.mark.parametrize("steps", [2, 40])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("table", TABLES)
def test_where_a_rollout_is_cut_does_not_change_one_step_returns(
    table: str, share: float, steps: int
) -> None:
    opponents: Opponents = [(RandomPolicy(), share)] if share else []
    short = roll_out(TABLES[table], opponents, steps=steps, gae_lambda=0.0).buffer
    long = roll_out(TABLES[table], opponents, steps=STEPS, gae_lambda=0.0).buffer
    assert (short.values == long.values[:steps]).all()
    assert short.returns == pytest.approx(long.returns[:steps], abs=1e-5)
    assert len(np.unique(short.returns)) > GAMES


def a_choice_each(games: int) -> Choices:
    """Returns observations of games in each of which the first action is legal."""
    observations = torch.zeros((games, NUM_ACTIONS * NUM_FACTS + 1))
    masks = torch.zeros((games, NUM_ACTIONS), dtype=torch.int8)
    masks[:, 0] = 1
    return choices_of(observations, masks)


def worked_out_buffer(over_after_row_1: bool, gae_lambda: float) -> SeatRolloutBuffer:
    """Seats 0, 1, 1, 0 decide in one game; see the two tests below."""
    box = spaces.Box(0, 1, (NUM_ACTIONS * NUM_FACTS + 1,), np.float32)
    buffer = SeatRolloutBuffer(
        4, box, spaces.Discrete(NUM_ACTIONS), "cpu", gae_lambda, 1.0, n_envs=1, players=2
    )
    buffer.reset()
    rewards = [(0.5, -0.5), (1.0, -1.0), (0.0, 0.0), (-2.0, 2.0)]
    for row, (seat, value) in enumerate(zip((0, 1, 1, 0), (1, 2, 3, 4), strict=True)):
        buffer.add_step(
            a_choice_each(1),
            np.array([seat]),
            np.array([0]),
            np.array([value], np.float32),
            np.array([0], np.float32),
        )
        over = np.array([over_after_row_1 and row == 1])
        buffer.credit(np.array([0]), np.array([rewards[row]], np.float32), over)
    next_values = np.array([[5, 6]], np.float32)
    buffer.finish(next_values, np.array([[0.25, -0.25]], np.float32))
    return buffer


def test_the_next_state_of_a_seat_is_its_own_next_decision() -> None:
    one_step = worked_out_buffer(over_after_row_1=False, gae_lambda=0.0)
    # Row 0: 0.5 + 1 + 0 and the value 4 of row 3. Row 1: -1 and the value 3 of row 2. Rows 2 and
    # 3: what comes until the decisions after the rollout, and their values 6 and 5.
    assert one_step.returns[:, 0].tolist() == [5.5, 2.0, 7.75, 3.25]
    whole = worked_out_buffer(over_after_row_1=False, gae_lambda=1.0)
    assert whole.returns[:, 0].tolist() == [4.75, 6.75, 7.75, 3.25]
    assert whole.advantages[:, 0].tolist() == [3.75, 4.75, 4.75, -0.75]


@pytest.mark.parametrize("gae_lambda", [0.0, 1.0])
def test_nothing_is_credited_across_the_end_of_a_game(gae_lambda: float) -> None:
    buffer = worked_out_buffer(over_after_row_1=True, gae_lambda=gae_lambda)
    assert buffer.returns[:, 0].tolist() == [1.5, -1.0, 7.75, 3.25]


def test_what_a_new_game_brings_before_its_first_row_is_nobodys_credit() -> None:
    box = spaces.Box(0, 1, (NUM_ACTIONS * NUM_FACTS + 1,), np.float32)
    buffer = SeatRolloutBuffer(
        2, box, spaces.Discrete(NUM_ACTIONS), "cpu", 1.0, 1.0, n_envs=2, players=2
    )
    buffer.reset()
    zeros = np.zeros(2, np.float32)
    both = np.arange(2)
    buffer.add_step(a_choice_each(2), np.array([0, 1]), both, zeros, zeros)
    # Game 0 goes on, game 1 is over, and another game of its slot passes without a choice.
    buffer.credit(both, np.array([[1, -1], [2, -2]], np.float32), np.array([False, True]))
    buffer.credit(both, np.array([[3, -3], [8, -8]], np.float32), np.array([False, True]))
    buffer.credit(np.array([1]), np.array([[9, -9]], np.float32), np.array([False]))
    buffer.credit(np.array([0]), np.array([[4, -4]], np.float32), np.array([True]))
    assert buffer.over[0].tolist() == [True, True]
    buffer.add_step(a_choice_each(2), np.array([0, 1]), both, zeros, zeros)
    buffer.credit(both, np.array([[5, -5], [6, -6]], np.float32), np.array([False, False]))
    buffer.finish(np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32))
    assert buffer.returns.tolist() == [[8, -2], [5, -6]]


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("episode", ["round", "match"])
@pytest.mark.parametrize("table", TABLES)
def test_all_points_of_all_games_are_credited_once(table: str, episode: str, share: float) -> None:
    opponents: Opponents = [(GreedyPolicy(), share)] if share else []
    fields = {**TABLES[table], "episode": episode, "target": 3, "reward": "points"}
    rollout = roll_out(fields, opponents)
    rules = rollout.batch.rules
    scored = np.zeros((GAMES, rules.num_sides))
    for course in replay(rollout):
        if course.first_row + len(course.decisions) <= STEPS:
            # Opponents may have scored before the learner's first decision: nobody's credit.
            gained = course.scores - course.decisions[0].scores
            scored[course.slot] += gained[: rules.num_sides] / 12
    running = rollout.batch.states["scores"][:, : rules.num_sides] / 12
    credited = rollout.buffer.earned.sum(0) / SCALE
    for seat in range(rules.players):
        side = rules.side_of(seat)
        assert credited[:, seat] == pytest.approx(scored[:, side] + running[:, side], abs=1e-4)
    assert scored.sum() > GAMES


# -- what is recorded -----------------------------------------------------------------------


@pytest.mark.parametrize("against", ["nobody", "some", "all"])
@pytest.mark.parametrize("episode", ["round", "match"])
@pytest.mark.parametrize("table", TABLES)
def test_every_choice_of_the_learner_is_a_row_and_nothing_else_is(
    table: str, episode: str, against: str
) -> None:
    opponents: dict[str, Opponents] = {
        "nobody": [],
        "some": [(RandomPolicy(), 0.25), (GreedyPolicy(), 0.5)],
        "all": [(RandomPolicy(), 1.0)],
    }
    fields = {**TABLES[table], "episode": episode, "target": 3}
    rollout = roll_out(fields, opponents[against])
    buffer = rollout.buffer
    observations, masks = all_of(buffer)
    filled = np.zeros((STEPS, GAMES), np.bool_)
    for course in replay(rollout):
        for row, decision in enumerate(course.recorded(STEPS), course.first_row):
            at = row, course.slot
            assert buffer.seats[at] == decision.seat
            assert (observations[at] == decision.observation).all()
            assert (masks[at] == decision.mask).all()
            assert buffer.actions[at] == decision.action
            assert buffer.values[at] == np.float32(decision.value)
            assert buffer.log_probs[at] == np.float32(decision.log_prob)
            filled[at] = True
        ends = course.first_row + len(course.decisions) - 1
        if ends < STEPS:
            assert buffer.over[course.first_row : ends + 1, course.slot].tolist() == [
                *([False] * (ends - course.first_row)),
                True,
            ]
        else:
            assert not buffer.over[course.first_row :, course.slot].any()
    assert filled.all()
    assert masks.sum(2).min() >= 2


def test_a_rollout_goes_on_where_the_last_one_stopped() -> None:
    opponents: Opponents = [(RandomPolicy(), 0.5)]
    play = self_play({"players": 3}, opponents)
    parts = []
    for _ in range(3):
        buffer = buffer_for(play, STEPS // 3)
        play.collect(buffer, act)
        parts.append(buffer)
    whole = roll_out({"players": 3}, opponents).buffer
    for name in ("actions", "seats", "values", "over"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert (joined == getattr(whole, name)).all()
    for joined, wanted in zip(zip(*map(all_of, parts), strict=True), all_of(whole), strict=True):
        assert (np.concatenate(joined) == wanted).all()


def test_a_buffer_that_is_used_again_keeps_nothing_of_the_last_rollout() -> None:
    play, again = self_play({"players": 2}), self_play({"players": 2})
    used = buffer_for(play, gae_lambda=0.6)
    for _ in range(3):
        play.collect(used, act)
        fresh = buffer_for(again, gae_lambda=0.6)
        again.collect(fresh, act)
        for name in ("earned", "over", "returns", "advantages", "seats"):
            assert (getattr(used, name) == getattr(fresh, name)).all()
        for found, wanted in zip(all_of(used), all_of(fresh), strict=True):
            assert (found == wanted).all()


def test_a_minibatch_is_rows_of_the_rollout_and_each_row_comes_once() -> None:
    rollout = roll_out({"players": 2}, steps=10)
    buffer = rollout.buffer
    observations, masks = all_of(buffer)
    buffer.log_probs[:] = np.arange(120).reshape(10, GAMES)
    batches = list(buffer.get(24))
    assert [len(batch.actions) for batch in batches] == [24] * 5
    rows = np.concatenate([batch.old_log_prob.numpy() for batch in batches]).astype(int)
    assert sorted(rows) == list(range(120))
    assert rows.tolist() != sorted(rows)
    for batch in batches:
        at = np.unravel_index(batch.old_log_prob.numpy().astype(int), (10, GAMES))
        found = dense(batch.observations)  # type: ignore[arg-type]
        assert (found[0] == observations[at]).all()
        assert (found[1] == masks[at]).all()
        assert (batch.actions.numpy() == buffer.actions[at]).all()
        assert (batch.old_values.numpy() == buffer.values[at]).all()
        assert (batch.advantages.numpy() == buffer.advantages[at]).all()
        assert (batch.returns.numpy() == buffer.returns[at]).all()


def test_an_unfinished_rollout_yields_no_minibatch() -> None:
    buffer = buffer_for(self_play({"players": 2}))
    with pytest.raises(AssertionError):
        next(buffer.get(24))


# -- opponents ------------------------------------------------------------------------------


class Recorder:
    """Plays as another policy does and keeps every view it was shown."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.name = inner.name
        self.calls: list[Views] = []

    def act(self, views: Views) -> NDArray[np.int64]:
        self.calls.append(views)
        return self.inner.act(views)


@pytest.mark.parametrize("table", TABLES)
def test_against_opponents_one_side_learns_in_each_game_and_all_sides_in_turn(table: str) -> None:
    play = self_play(TABLES[table], [(RandomPolicy(), 0.25), (GreedyPolicy(), 0.5)], games=96)
    buffer = buffer_for(play, STEPS)
    play.collect(buffer, act)
    rules = play.batch.rules
    seats_of_a_game: Counter[frozenset[int]] = Counter()
    all_seats = frozenset(range(rules.players))
    games_of_self_play = slots_of_many_sides = 0
    for slot in range(96):
        in_slot = set()
        ends = np.flatnonzero(buffer.over[:, slot])
        for first, last in zip([0, *(ends[:-1] + 1)], ends, strict=True):
            seats = frozenset(buffer.seats[first : last + 1, slot].tolist())
            if slot < 72:
                seats_of_a_game[seats] += 1
                in_slot.add(seats)
            else:
                assert seats == all_seats
                games_of_self_play += 1
        slots_of_many_sides += len(in_slot) > 1
    # It is drawn anew for each game.
    assert slots_of_many_sides > 72 / 3
    sides = [
        frozenset(seat for seat in all_seats if rules.side_of(seat) == side)
        for side in range(rules.num_sides)
    ]
    assert set(seats_of_a_game) == set(sides)
    games = seats_of_a_game.total()
    for side in sides:
        # Five standard deviations of a fair draw.
        fair = games / len(sides)
        assert abs(seats_of_a_game[side] - fair) < 5 * (fair * (1 - 1 / len(sides))) ** 0.5
    assert games_of_self_play >= 24


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([], [0, 0]),
        ([0.25], [24, 0]),
        ([0.25, 0.5], [24, 48]),
        ([0.5, 0.5], [48, 48]),
        ([1 / 3, 1 / 3], [32, 32]),
        ([1.0], [96, 0]),
        ([0.004], [0, 0]),
    ],
)
def test_each_opponent_plays_its_share_of_the_games(
    shares: list[float], expected: list[int]
) -> None:
    policies = [Recorder(RandomPolicy()), Recorder(GreedyPolicy())]
    play = self_play({"players": 2}, list(zip(policies, shares, strict=False)), games=96)
    played = [sum((play.opponent_of == number).any(1)) for number in range(len(policies))]
    assert played == expected
    buffer = buffer_for(play, 30)
    play.collect(buffer, act)
    for policy, games in zip(policies, expected, strict=True):
        # No call shows more views than the policy has games, and some show about as many.
        most = max((len(views) for views in policy.calls), default=0)
        assert games / 3 <= most <= games


@pytest.mark.parametrize("table", TABLES)
def test_opponents_see_views_of_their_own_seat_and_nothing_hidden(table: str) -> None:
    policy = Recorder(RandomPolicy())
    play = self_play(TABLES[table], [(policy, 0.5)])
    play.collect(buffer_for(play), act)
    records = np.concatenate([views.records for views in policy.calls])
    assert len(records) > 100
    assert all(type(views) is Views for views in policy.calls)
    assert (records["viewer"] == records["turn"]).all()
    own = np.arange(4) == records["viewer"][:, None]
    assert (records["hands"][~own] == 0).all()
    assert (records["stock"] == HIDDEN).all()
    assert (records["seed"] == 0).all()
    assert (records["game_index"] == 0).all()


def test_each_opponent_is_asked_for_all_of_its_games_at_once() -> None:
    policy = Recorder(GreedyPolicy())
    play = self_play({"players": 2}, [(policy, 1.0)], games=96)
    play.collect(buffer_for(play, 30), act)
    # With a call for each game there would be 96 times as many.
    assert len(policy.calls) < 300
    assert max(len(views) for views in policy.calls) > 30


@pytest.mark.parametrize("table", TABLES)
def test_when_asked_the_learner_is_to_move_in_every_game(table: str) -> None:
    play = self_play(TABLES[table], [(RandomPolicy(), 0.75)])
    asked = []

    def chooser(choices: Choices) -> tuple[NDArray[np.int64], Floats, Floats]:
        if len(asked) < STEPS:
            movers = play.opponent_of[np.arange(GAMES), play.batch.turn]
            assert (movers == -1).all()
        asked.append(len(choices.state))
        return act(choices)

    play.collect(buffer_for(play), chooser)
    assert asked[:STEPS] == [GAMES] * STEPS
    # The look-ahead asks as well, about the games whose seats have not decided again.
    assert STEPS < len(asked) < STEPS + 40


# -- reproducibility ------------------------------------------------------------------------


def test_the_same_seed_makes_the_same_rollout_and_another_seed_another() -> None:
    opponents: Opponents = [(RandomPolicy(), 0.5)]
    first, again, other = (roll_out({"players": 3}, opponents, seed=s).buffer for s in (5, 5, 6))
    for name in ("actions", "seats", "returns", "advantages", "earned"):
        assert (getattr(first, name) == getattr(again, name)).all()
    for found, wanted in zip(all_of(first), all_of(again), strict=True):
        assert (found == wanted).all()
    assert (first.actions != other.actions).any()
    assert (first.seats != other.seats).any()


def test_the_seed_alone_draws_which_side_learns() -> None:
    seated = []
    for global_seed in (1, 2):
        np.random.seed(global_seed)  # noqa: NPY002  the generator that must not be used
        seated.append(self_play({"players": 4}, [(RandomPolicy(), 1.0)], games=64).opponent_of)
    assert (seated[0] == seated[1]).all()


def test_the_look_ahead_leaves_the_games_as_they_are() -> None:
    play = self_play({"players": 2}, [(GreedyPolicy(), 0.5)])
    before: list[bytes] = []

    def chooser(choices: Choices) -> tuple[NDArray[np.int64], Floats, Floats]:
        before.append(play.batch.states.tobytes())
        return act(choices)

    play.collect(buffer_for(play), chooser)
    assert len(before) > STEPS
    assert set(before[STEPS:]) == {play.batch.states.tobytes()}
    assert before[STEPS - 1] != before[STEPS]
