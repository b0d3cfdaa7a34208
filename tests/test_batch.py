"""``Batch``: many games at once are the games one by one, and bad input changes none of them."""

from __future__ import annotations

import hashlib
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference.compare import Fields
from test_engine_against_reference import (
    examples,
    playable_games,
    seeds,
)

from escoba_env import Batch, Game, IllegalActionError, load_policy
from escoba_env.batch import MAX_SEED
from escoba_env.cards import NUM_ACTIONS
from escoba_env.threads import MIN_ROWS, spread

rewards = st.sampled_from(["margin", "points", "win"])


def any_actions(batch: Batch, games: np.ndarray[Any, Any], rng: np.random.Generator) -> Any:
    """Returns a random legal action for each of some games."""
    return (rng.random((len(games), NUM_ACTIONS)) * batch.legal_masks(games)).argmax(axis=1)


def play_on(batch: Batch, rng: np.random.Generator, steps: int) -> None:
    """Takes up to so many random actions in every game."""
    for _ in range(steps):
        games = np.flatnonzero(~batch.over)
        batch.step(any_actions(batch, games, rng), games)


def everything(batch: Batch) -> tuple[bytes, bytes, bytes]:
    """Returns all that a batch shows of its games."""
    observations, masks = batch.observe()
    return batch.states.tobytes(), observations.tobytes(), masks.tobytes()


# The same games


@examples(60)
@given(playable_games, rewards, seeds)
def test_a_step_of_a_batch_is_the_step_of_each_game(
    rules: tuple[Fields, str], reward: str, seed: int
) -> None:
    fields, episode = rules
    rng = np.random.default_rng(seed)
    batch = Batch(4, fields, episode=episode, reward=reward, seed=seed)
    games = [Game(fields, episode=episode, reward=reward, seed=seed)]
    for _ in range(3):
        games.append(games[-1].clone())
        games[-1].reset()
    for _ in range(100):
        assert batch.states.tobytes() == b"".join(game.get_state() for game in games)
        assert batch.turn.tolist() == [game.turn for game in games]
        assert batch.over.tolist() == [game.is_over for game in games]
        slots = np.flatnonzero(~batch.over)
        if not len(slots):
            break
        # Some of the games, in any order.
        slots = rng.permutation(slots)[: rng.integers(1, len(slots) + 1)]
        masks = batch.legal_masks(slots)
        assert (masks == [games[slot].legal_mask() for slot in slots]).all()
        actions = any_actions(batch, slots, rng)
        earned, over = batch.step(actions, slots)
        for i, slot in enumerate(slots):
            games[slot].step(int(actions[i]))
            assert earned[i].tolist() == pytest.approx(games[slot].rewards, abs=1e-4)
            assert over[i] == games[slot].is_over
    assert earned.dtype == np.float32
    assert over.dtype == np.bool_


@examples(30)
@given(playable_games, seeds, st.lists(st.integers(0, 2**40), min_size=1, max_size=6))
def test_a_game_of_a_seed_is_the_same_in_a_batch_of_any_size(
    rules: tuple[Fields, str], seed: int, indices: list[int]
) -> None:
    fields, episode = rules
    together = Batch(len(indices), fields, episode=episode)
    together.reset(seed, game_indices=indices)
    for slot, index in enumerate(indices):
        alone = Batch(1, fields, episode=episode)
        alone.reset(seed, game_indices=[index])
        assert alone.states[0] == together.states[slot]
        assert together.states["game_index"][slot] == index


def test_the_same_index_twice_is_the_same_deal_twice() -> None:
    batch = Batch(4, seed=3)
    batch.reset(3, game_indices=[5, 5, 6, 5])
    assert batch.states[0] == batch.states[1] == batch.states[3]
    assert batch.states[0] != batch.states[2]


def test_dealers_may_be_given_to_each_game() -> None:
    batch = Batch(4, players=4, seed=0)
    decks = batch.states["stock"].copy()
    batch.reset(0, dealers=[3, 2, 1, 0])
    assert batch.states["dealer"].tolist() == [3, 2, 1, 0]
    assert batch.turn.tolist() == [0, 3, 2, 1]
    assert (batch.states["stock"] == decks).all()


@examples(40)
@given(playable_games, rewards, seeds)
def test_a_clone_has_the_same_future_and_leaves_the_batch_alone(
    rules: tuple[Fields, str], reward: str, seed: int
) -> None:
    batch = Batch(3, rules[0], episode=rules[1], reward=reward, seed=seed)
    play_on(batch, np.random.default_rng(seed), 9)
    clone = batch.clone()
    before = everything(batch)
    play_on(clone, np.random.default_rng(1), 40)
    clone.restart()
    assert everything(batch) == before
    play_on(batch, np.random.default_rng(1), 40)
    batch.restart()
    assert everything(batch) == everything(clone)


def test_restart_puts_the_next_games_of_the_seed_into_slots() -> None:
    batch = Batch(3, seed=8)
    play_on(batch, np.random.default_rng(0), 100)
    assert batch.over.all()
    batch.restart()
    assert batch.states["game_index"].tolist() == [3, 4, 5]
    later = Batch(6, seed=8)
    assert batch.states.tobytes() == later.states[3:].tobytes()
    batch.restart([1])
    assert batch.states["game_index"].tolist() == [3, 7, 5]
    batch.restart(np.array([True, False, True]))
    assert batch.states["game_index"].tolist() == [6, 7, 8]
    before = batch.states.tobytes()
    batch.restart()
    assert batch.states.tobytes() == before


def test_restart_leaves_games_alone_that_are_not_over() -> None:
    batch = Batch(2, seed=8)
    for _ in range(100):
        if not batch.over[0]:
            batch.step(any_actions(batch, np.array([0]), np.random.default_rng(0)), [0])
    assert batch.over.tolist() == [True, False]
    kept = batch.states[1].copy()
    batch.restart()
    assert batch.states["game_index"].tolist() == [2, 1]
    assert batch.states[1] == kept


# Forced decisions


@examples(80)
@given(playable_games, rewards, seeds)
def test_skipping_forced_decisions_is_taking_them_by_hand(
    rules: tuple[Fields, str], reward: str, seed: int
) -> None:
    """What is earned on the way is added to the step; at the start no round is ended."""
    fields, episode = rules
    # With one card in hand a match may be all forced, and end with the step that begins it.
    assume(episode == "round" or fields.get("hand_size", 3) > 1)
    flag: Any = np.bool_(True)
    skipping = Batch(4, fields, episode=episode, reward=reward, seed=seed, skip_forced=flag)
    assert skipping.step_settings[0] is skipping.skip_forced is True
    by_hand = Batch(4, fields, episode=episode, reward=reward, seed=seed)
    rng = np.random.default_rng(seed)

    for slot in range(4):
        while is_forced(by_hand, slot) and not is_last_turn(by_hand, slot):
            earned, _ = by_hand.step(only_action(by_hand, slot), [slot])
            assert not earned.any()
    for _ in range(25):
        assert skipping.states.tobytes() == by_hand.states.tobytes()
        slots = np.flatnonzero(~skipping.over)
        if not len(slots):
            break
        actions = any_actions(skipping, slots, rng)
        earned, over = skipping.step(actions, slots)
        wanted, _ = by_hand.step(actions, slots)
        wanted = wanted.astype(np.float64)
        for i, slot in enumerate(slots):
            while is_forced(by_hand, slot):
                more, _ = by_hand.step(only_action(by_hand, slot), [slot])
                wanted[i] += more[0]
        assert earned == pytest.approx(wanted, rel=1e-5, abs=1e-3)
        assert over.tolist() == by_hand.over[slots].tolist()


def is_forced(batch: Batch, slot: int) -> bool:
    """Tells whether a game goes on with a single legal action."""
    return not batch.over[slot] and int(batch.states["legal"][slot]).bit_count() == 1


def is_last_turn(batch: Batch, slot: int) -> bool:
    """Tells whether the round ends with the present turn."""
    state, rules = batch.states[slot], batch.rules
    stock = state["stock_size"] - state["stock_next"]
    left = state["hand_counts"].sum() + (state["played"] >= 0)
    return bool(left == 1 and stock < rules.players * rules.hand_size)


def only_action(batch: Batch, slot: int) -> list[int]:
    """Returns the single legal action of a game, for a step."""
    return [int(batch.states["legal"][slot]).bit_length() - 1]


def test_where_every_decision_is_forced_the_reward_of_the_round_is_not_lost() -> None:
    """One card at a time and one capture at most: the game begins with its last decision."""
    fields: Fields = {"ranks": (7, 8), "hand_size": 1, "table_size": 0}
    batch = Batch(50, fields, seed=0, skip_forced=True, reward="points")
    by_hand = Batch(50, fields, seed=0, reward="points")
    total = np.zeros((50, 2))
    play = np.random.default_rng(0)
    while not by_hand.over.all():
        slots = np.flatnonzero(~by_hand.over)
        earned, _ = by_hand.step(any_actions(by_hand, slots, play), slots)
        total[slots] += earned
    forced = [slot for slot in range(50) if is_forced(batch, slot)]
    assert forced
    earned, over = batch.step([only_action(batch, slot)[0] for slot in forced], forced)
    assert over.all()
    assert (earned == total[forced]).all()


# Observing


@examples(40)
@given(playable_games, seeds, st.sampled_from(["compact", "tactical"]))
def test_masks_are_legal_actions_zeros_for_others_and_ones_after_the_end(
    rules: tuple[Fields, str], seed: int, encoding: str
) -> None:
    batch = Batch(4, rules[0], episode=rules[1], seed=seed, encoding=encoding)
    rng = np.random.default_rng(seed)
    for _ in range(30):
        masks = batch.observe()[1]
        assert masks.dtype == np.int8
        assert (masks == batch.legal_masks()).all()
        for seat in range(batch.rules.players):
            seats = np.full(4, seat)
            masks = batch.observe(seats=seats)[1]
            assert (masks == batch.views(seats=seats).observe(batch.encoding)[1]).all()
            for slot in range(4):
                legal = [int(batch.states["legal"][slot]) >> a & 1 for a in range(NUM_ACTIONS)]
                if batch.over[slot]:
                    legal = [1] * NUM_ACTIONS
                elif batch.turn[slot] != seat:
                    legal = [0] * NUM_ACTIONS
                assert masks[slot].tolist() == legal
        play_on(batch, rng, 2)


def test_observations_are_written_into_the_arrays_that_are_given() -> None:
    batch = Batch(5, seed=1, encoding="tactical")
    wanted = batch.observe([3, 1], [0, 1])
    out = np.full((2, batch.encoding.size), 77, np.float32)
    masks = np.full((2, NUM_ACTIONS), 77, np.int8)
    given = batch.observe([3, 1], [0, 1], out=out, masks=masks)
    assert given[0] is out
    assert given[1] is masks
    assert (out == wanted[0]).all()
    assert (masks == wanted[1]).all()
    # Rows of a larger array, as a rollout buffer has them.
    buffer = np.full((2, 3, batch.encoding.size), 77, np.float32)
    batch.observe([3, 1], [0, 1], out=buffer[:, 1])
    assert (buffer[:, 1] == wanted[0]).all()
    assert (buffer[:, [0, 2]] == 77).all()


def test_games_are_chosen_by_slots_or_by_a_mask() -> None:
    batch = Batch(4, seed=1)
    by_slot, by_mask = batch.observe([1, 3]), batch.observe(np.array([False, True, False, True]))
    assert by_slot[0].tobytes() == by_mask[0].tobytes()
    assert (batch.observe([3, 1])[0] == by_slot[0][::-1]).all()
    assert batch.observe([])[0].shape == (0, batch.encoding.size)
    assert len(batch.views([])) == 0
    assert batch.step(np.array([], np.int64), [])[0].shape == (0, 2)


def test_looking_changes_nothing() -> None:
    batch = Batch(3, seed=1)
    before = batch.states.tobytes()
    batch.observe()
    batch.views()
    batch.legal_masks()
    repr(batch)
    assert batch.states.tobytes() == before


# Bad input


def check_refused(batch: Batch, act: Callable[[], Any], named: str) -> None:
    """Checks that something is refused by name and that no game changes, now or later."""
    before = everything(batch)
    with pytest.raises(ValueError, match=re.escape(named)):
        act()
    assert everything(batch) == before
    after, same = batch.clone(), Batch(len(batch), batch.rules, seed=4)
    after.restart()
    same.states[:] = batch.states
    same.restart()
    assert after.states.tobytes() == same.states.tobytes()


def mid_game() -> Batch:
    """Returns three games, of which the last is over."""
    batch = Batch(3, seed=4)
    play_on(batch, np.random.default_rng(0), 6)
    while not batch.over[2]:
        batch.step(any_actions(batch, np.array([2]), np.random.default_rng(0)), [2])
    return batch


@examples(40)
@given(playable_games, seeds, st.integers(0, 3), st.integers(-3, 46))
def test_an_illegal_action_leaves_all_games_unchanged(
    rules: tuple[Fields, str], seed: int, slot: int, action: int
) -> None:
    batch = Batch(4, rules[0], episode=rules[1], seed=seed)
    play_on(batch, np.random.default_rng(seed), 5)
    assume(not batch.over.any())
    actions = any_actions(batch, np.arange(4), np.random.default_rng(1))
    actions[slot] = action
    assume(not (0 <= action < NUM_ACTIONS and batch.legal_masks()[slot, action]))
    before = everything(batch)
    with pytest.raises(IllegalActionError, match=f"game {slot}: action {action} "):
        batch.step(actions)
    assert everything(batch) == before


def test_a_game_that_is_over_takes_no_action() -> None:
    batch = mid_game()
    legal = any_actions(batch, np.arange(3), np.random.default_rng(0))
    check_refused(batch, lambda: batch.step(legal), "game 2")
    check_refused(batch, lambda: batch.step([0], [2]), "the game is over")


LEGAL = "one legal action for each game"
BAD_STEPS: dict[str, tuple[Any, Any, str]] = {
    "a slot twice": (LEGAL, [0, 0], "[0, 0]"),
    "a slot that does not exist": (LEGAL, [0, 3], "[0, 3]"),
    "a negative slot": (LEGAL, [0, -1], "[0, -1]"),
    "half a slot": (LEGAL, [0.0, 0.5], "[0.0, 0.5]"),
    "slots of words": (LEGAL, ["a", "b"], "'a'"),
    "one slot": (LEGAL, 0, "games 0"),
    "a table of slots": (LEGAL, [[0, 1]], "[[0, 1]]"),
    "a mask too short": (LEGAL, np.array([True, True]), "True"),
    "a mask too long": (LEGAL, np.array([True, True, False, False]), "True"),
    "too few actions": ([0], [0, 1], "(1,)"),
    "too many actions": ([0, 1, 2], [0, 1], "(3,)"),
    "a table of actions": ([[0, 1]], [0, 1], "(1, 2)"),
    "half actions": ([0.5, 1.0], [0, 1], "float64"),
    "actions of truth": ([True, False], [0, 1], "bool"),
    "actions of words": (["a", "b"], [0, 1], "<U1"),
    "no actions": (None, [0, 1], "object"),
    "a huge action": ([2**62, 0], [0, 1], str(2**62)),
    "an action too huge": ([2**70, 0], [0, 1], "object"),
    "an unsigned action": (np.array([2**63, 0], np.uint64), [0, 1], "is not an action"),
}


@pytest.mark.parametrize(("actions", "games", "named"), BAD_STEPS.values(), ids=BAD_STEPS)
def test_a_step_of_bad_arguments_is_refused(actions: Any, games: Any, named: str) -> None:
    batch = mid_game()
    if actions is LEGAL:
        actions = any_actions(batch, np.array([0, 1]), np.random.default_rng(0))
    check_refused(batch, lambda: batch.step(actions, games), named)


BAD_SEATS: dict[str, tuple[Any, str]] = {
    "a seat too high": ([0, 1, 2], "2"),
    "a seat far too high": ([0, 1, 10**6], "1000000"),
    "a negative seat": ([0, -1, 0], "-1"),
    "too few": ([0, 1], "(2,)"),
    "too many": ([0, 1, 0, 1], "(4,)"),
    "one for all": (0, "()"),
    "half a seat": ([0.5, 0, 1], "0.5"),
    "words": (["a", "b", "c"], "a"),
}


@pytest.mark.parametrize(("seats", "named"), BAD_SEATS.values(), ids=BAD_SEATS)
def test_seats_that_do_not_exist_see_nothing(seats: Any, named: str) -> None:
    batch = mid_game()
    check_refused(batch, lambda: batch.observe(seats=seats), named)
    check_refused(batch, lambda: batch.views(seats=seats), named)


@pytest.mark.parametrize("games", [[3], [-1], [0.5], "a", 0, [[0]]], ids=repr)
def test_games_that_do_not_exist_are_not_seen(games: Any) -> None:
    batch = mid_game()
    for look in (batch.observe, batch.views, batch.legal_masks, batch.restart):
        check_refused(batch, lambda look=look: look(games), repr(games))


@pytest.mark.parametrize(
    ("out", "named"),
    [
        (np.zeros((2, 5), np.float32), "(2, 5)"),
        (np.zeros((3, 5), np.float32), "(3, 5)"),
        (np.zeros(5, np.float32), "(5,)"),
        ("float64", "float64"),
        ("int8", "int8"),
        ([[0.0]], "[[0.0]]"),
        ("read-only", "read-only"),
    ],
    ids=str,
)
def test_an_array_of_another_shape_or_type_is_not_written(out: Any, named: str) -> None:
    batch = mid_game()
    for name, width in (("out", batch.encoding.size), ("masks", NUM_ACTIONS)):
        array = out
        if isinstance(out, str):
            right = np.float32 if name == "out" else np.int8
            if out == np.dtype(right).name:
                continue
            array = np.zeros((3, width), right if out == "read-only" else out)
            array.flags.writeable = out != "read-only"
        check_refused(batch, lambda array=array, name=name: batch.observe(**{name: array}), named)


BAD_STARTS: dict[str, tuple[Fields, str]] = {
    "a negative seed": ({"seed": -1}, "-1"),
    "half a seed": ({"seed": 0.5}, "0.5"),
    "no seed": ({"seed": None}, "None"),
    "too few indices": ({"game_indices": [1, 2]}, "(2,)"),
    "a negative index": ({"game_indices": [0, -1, 2]}, "-1"),
    "half an index": ({"game_indices": [0.5, 1, 2]}, "0.5"),
    "a huge index": ({"game_indices": [2**70, 1, 2]}, str(2**70)),
    "indices of words": ({"game_indices": ["a", "b", "c"]}, "a"),
    "too few dealers": ({"dealers": [0]}, "(1,)"),
    "a dealer too high": ({"dealers": [0, 1, 2]}, "2"),
    "a negative dealer": ({"dealers": [0, 1, -1]}, "-1"),
    "half a dealer": ({"dealers": [0.5, 1, 0]}, "0.5"),
    "dealers of words": ({"dealers": ["a", "b", "c"]}, "a"),
}


@pytest.mark.parametrize(("arguments", "named"), BAD_STARTS.values(), ids=BAD_STARTS)
def test_a_reset_of_bad_arguments_is_refused(arguments: Fields, named: str) -> None:
    """The next games too are those of the seed as it was."""
    batch = mid_game()
    check_refused(batch, lambda: batch.reset(**{"seed": 9, **arguments}), named)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"num_games": 0}, "0"),
        ({"num_games": -1}, "-1"),
        ({"num_games": 2.5}, "2.5"),
        ({"num_games": "3"}, "'3'"),
        ({"num_games": None}, "None"),
        ({"num_games": True}, "True"),
        ({"episode": "season"}, "'season'"),
        ({"reward": "money"}, "'money'"),
        ({"encoding": "planets"}, "'planets'"),
        ({"encoding": None}, "None"),
        ({"encoding": ["compact"]}, "['compact']"),
        ({"threads": 0}, "threads 0"),
        ({"skip_forced": "yes"}, "skip_forced 'yes'"),
        ({"skip_forced": np.zeros(2)}, "skip_forced"),
        ({"threads": 1.5}, "1.5"),
        ({"seed": -1}, "-1"),
        ({"seed": True}, "True"),
        ({"rules": 3}, "3"),
        ({"players": 9}, "players=9"),
        ({"playrs": 2}, "'playrs'"),
    ],
    ids=repr,
)
def test_a_batch_of_impossible_arguments_is_refused(arguments: Fields, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        Batch(**{"num_games": 2, **arguments})


def test_a_batch_says_what_it_holds() -> None:
    batch = mid_game()
    assert len(batch) == 3
    assert repr(batch) == "<Batch classic, 2 players, round: 3 games, 1 over>"


def test_numbers_of_any_integer_type_are_taken() -> None:
    wanted = Batch(3, seed=4)
    for kind in (np.int8, np.int32, np.int64, np.uint8, np.uint64):
        batch = Batch(int(kind(3)), seed=kind(4))
        actions = any_actions(batch, np.arange(3), np.random.default_rng(0))
        batch.reset(kind(4), game_indices=np.arange(3, dtype=kind), dealers=wanted.states["dealer"])
        batch.step(actions.astype(kind), np.array([2, 0, 1], kind)[np.argsort([2, 0, 1])])
        same = wanted.clone()
        same.step(actions, [0, 1, 2])
        assert batch.states.tobytes() == same.states.tobytes()


def test_games_of_a_batch_do_not_depend_on_the_order_in_which_they_are_stepped() -> None:
    one, two = (
        Batch(6, seed=2, episode="match", target=3),
        Batch(6, seed=2, episode="match", target=3),
    )
    rng, choices = random.Random(0), np.random.default_rng(0)
    while not one.over.all():
        playing = np.flatnonzero(~one.over)
        actions = any_actions(one, playing, choices)
        one.step(actions, playing)
        for i in rng.sample(range(len(playing)), len(playing)):
            two.step(actions[i : i + 1], playing[i : i + 1])
        assert one.states.tobytes() == two.states.tobytes()


def test_a_step_ends_where_every_decision_of_a_match_is_forced() -> None:
    """All eight cards would make twelve, and two of them are never dealt: nobody ever scores.

    In a process of its own, as a kernel that runs on cannot be interrupted.
    """
    script = """
from escoba_env import Batch
try:
    batch = Batch(
        1, ranks=[1, 2], players=3, hand_size=1, table_size=0, target_sum=12,
        episode="match", skip_forced=True,
    )
except ValueError as error:
    assert "match" in str(error)
else:
    batch.step([int(batch.states["legal"][0]).bit_length() - 1])
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


# Threads, and random play in the engine


@pytest.mark.parametrize("skip_forced", [False, True])
def test_results_do_not_depend_on_the_number_of_threads(skip_forced: bool) -> None:
    def played(threads: int) -> list[bytes]:
        batch = Batch(700, "tabletop", threads=threads, skip_forced=skip_forced, seed=8)
        seen: list[bytes] = []
        for number in range(60):
            observations, masks = batch.observe()
            views = batch.views()
            actions = load_policy("random").act(views)
            rewards, over = batch.step(actions)
            batch.restart()
            arrays = (observations, masks, views.records, views.keys, rewards, over)
            seen += [hashlib.sha256(array.tobytes()).digest() for array in arrays]
            if number % 20 == 0:
                seen += [array.tobytes() for array in batch.play_random(7)]
        return [*seen, batch.states.tobytes()]

    assert played(1) == played(2) == played(3)


def test_an_error_in_any_thread_is_raised_after_all_are_done() -> None:
    done: list[int] = []

    def work(start: int, end: int) -> None:
        if start in (0, 2 * MIN_ROWS):
            raise RuntimeError(f"part {start}")
        done.append(start)

    for failing in (4, 3):
        done.clear()
        with pytest.raises(RuntimeError, match="part"):
            spread(work, failing * MIN_ROWS, failing)
        assert len(done) == failing - 2


@examples(30)
@given(playable_games, seeds)
def test_random_play_is_a_legal_action_of_each_game_and_then_the_next_game(
    game: tuple[Fields, str], seed: int
) -> None:
    fields, episode = game
    batch = Batch(2, fields, episode=episode, seed=seed)
    for _ in range(45):
        before = batch.clone()
        margins, finished = batch.play_random(1)
        for slot in range(2):
            after = []
            for action in np.flatnonzero(before.legal_masks([slot])[0]):
                trial = before.clone()
                earned, _ = trial.step([action], [slot])
                trial.restart()
                after.append((trial.states[slot].tobytes(), earned[0].tolist()))
            # Where a game has ended the next one is the same whatever its last action was.
            state = batch.states[slot].tobytes()
            assert any(
                np.allclose(margins[slot], earned, rtol=1e-6)
                for found, earned in after
                if found == state
            )
        assert (
            finished.tolist()
            == ((batch.states["game_index"] - before.states["game_index"]) // 2).tolist()
        )


def test_random_play_of_many_decisions_is_as_long_as_games_are() -> None:
    batch = Batch(64, seed=4)
    margins, finished = batch.play_random(2000)
    assert margins.shape == (64, 2)
    # A round of 36 turns has 36 picks, and some more where there is a choice of captures.
    assert 2000 / 55 < finished.mean() < 2000 / 36
    np.testing.assert_allclose(margins.sum(axis=1), 0, atol=1e-9)


def test_random_play_picks_every_legal_action_equally_often() -> None:
    batch = Batch(6000, seed=5)
    hands = batch.legal_masks()
    batch.play_random(1)
    played = np.argsort(-hands, axis=1, kind="stable")[:, :3]
    chosen = batch.states["played_at"] == 0
    # A card that has to choose among captures has been played too.
    counts = [int(chosen[np.arange(6000), played[:, place]].sum()) for place in range(3)]
    assert sum(counts) == 6000
    assert all(abs(count - 2000) < 4 * np.sqrt(6000 * 2 / 9) for count in counts)


@pytest.mark.parametrize("decisions", [0, -1, 1.5, "3", True])
def test_random_play_of_no_number_of_decisions_is_refused(decisions: Any) -> None:
    with pytest.raises(ValueError, match="decisions"):
        Batch(2).play_random(decisions)


def test_random_play_needs_games_that_are_not_over() -> None:
    batch = Batch(2)
    play_on(batch, np.random.default_rng(1), 60)
    state = batch.states.tobytes()
    with pytest.raises(ValueError, match="game 0 is over"):
        batch.play_random(1)
    assert batch.states.tobytes() == state


def test_threads_are_shared_by_calls_of_any_size() -> None:
    batch = Batch(4096, threads=4)
    for number in range(256, 4096, 640):
        batch.legal_masks(np.arange(number))
    helpers = [thread for thread in threading.enumerate() if thread.name.startswith("escoba")]
    assert len(helpers) <= 3


def test_random_play_in_short_calls_is_that_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def played() -> list[bytes]:
        batch = Batch(50, "tabletop", episode="match", seed=3)
        found = batch.play_random(300)
        return [*(array.tobytes() for array in found), batch.states.tobytes()]

    at_once = played()
    monkeypatch.setattr("escoba_env.batch.GAMES_AT_ONCE", 16)
    monkeypatch.setattr("escoba_env.batch.DECISIONS_AT_ONCE", 100)
    assert played() == at_once


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.parametrize("threads", [1, 3])
def test_random_play_is_interrupted_at_once(threads: int) -> None:
    batch = Batch(3 * MIN_ROWS, threads=threads)
    batch.play_random(1)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    started = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            batch.play_random(2**31)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # A second is what is promised; the rest is for a machine that has other work.
    assert time.perf_counter() - started < 5
    state = batch.states.tobytes()
    time.sleep(0.05)
    assert batch.states.tobytes() == state, "a thread still plays"
    batch.play_random(10)


def test_the_last_game_of_a_seed_is_followed_by_none() -> None:
    batch = Batch(2)
    batch.reset(1, game_indices=[0, MAX_SEED])
    state = batch.states.tobytes()
    with pytest.raises(ValueError, match="game 1 is the last one of its seed"):
        batch.restart([0, 1])
    assert batch.states.tobytes() == state
