"""Game records from files: whatever a kernel could not take is refused before it sees it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from escoba_env import Game
from escoba_env.batch import Batch, Records
from escoba_env.engine.record import PLAYING, STATE, copy_records
from escoba_env.position import check_position
from escoba_env.records import check_records
from escoba_env.rules import PRESETS, Rules, make_rules

HARMFUL = [
    *(("turn", 100), ("turn", -1), ("dealer", 9), ("last_capturer", 50), ("viewer", 100)),
    *(("legal", -1), ("legal", 1 << 42), ("hands", -1), ("piles", -1), ("table", -1)),
    *(("heads", -1), ("picked", -1), ("set_aside", 1 << 60), ("played", 100), ("played", -5)),
    *(("stock_next", 100), ("stock_next", -1), ("stock_size", 120), ("stock", 120)),
    *(("stock", -100), ("hand_counts", 100), ("hand_counts", -1), ("escobas", -7)),
    *(("phase", 1), ("phase", 9), ("turn_index", 120), ("turn_index", -1), ("placing", 1)),
    *(("played_at", 90), ("taken_at", 90), ("pile_of", 120), ("totals", -128), ("seed", -1)),
    *(("game_index", -1), ("scores", -12), ("round_points", 1 << 30 | 1), ("round_index", -1)),
]
"""A field, and a number that every one of its places is set to."""


def played(rules: Rules, episode: str = "round", games: int = 8, steps: int = 40) -> Records:
    """Whole games after every number of random picks."""
    batch = Batch(games, rules, episode=episode, seed=5)
    rng = np.random.default_rng(5)
    found = [copy_records(batch.states)]
    for _ in range(steps):
        live = np.flatnonzero(~batch.over)
        if not live.size:
            break
        masks = batch.legal_masks(live)
        batch.step([rng.choice(np.flatnonzero(mask)) for mask in masks], live)
        found.append(copy_records(batch.states))
    return np.concatenate(found)


def views_of(rules: Rules, records: Records) -> Records:
    batch = Batch(len(records), rules)
    batch.states = copy_records(records)
    return batch.views(np.flatnonzero(~batch.over)).records


@pytest.mark.parametrize("name", PRESETS)
def test_games_and_views_of_play_are_accepted(name: str) -> None:
    rules = make_rules(name)
    for episode in ("round", "match"):
        records = played(rules, episode)
        check_records(rules, records, views=False)
        check_records(rules, views_of(rules, records), views=True)


@pytest.mark.parametrize(("field", "number"), HARMFUL)
@pytest.mark.parametrize("name", ["classic", "tabletop"])
def test_a_record_that_would_end_the_process_is_refused_by_its_position(
    name: str, field: str, number: int
) -> None:
    rules = make_rules(name)
    games = played(rules, steps=0)
    for views, records in ((False, games), (True, views_of(rules, games))):
        records[3:5][field] = number
        with pytest.raises(ValueError, match="game record 3 is not possible: "):
            check_records(rules, records, views=views)


def test_a_view_is_no_game_and_a_game_is_no_view() -> None:
    rules = make_rules("classic")
    games = played(rules, steps=3)
    with pytest.raises(ValueError, match="game record 0 is not possible: it is no view of the"):
        check_records(rules, games, views=True)
    with pytest.raises(ValueError, match="game record 0 is not possible: it is no whole game"):
        check_records(rules, views_of(rules, games), views=False)


def test_a_view_whose_hidden_cards_do_not_add_up_is_refused() -> None:
    rules = make_rules("classic")
    views = views_of(rules, played(rules, steps=0))
    views["stock_next"] -= 1
    with pytest.raises(ValueError, match="game record 0 is not possible: "):
        check_records(rules, views, views=True)


@pytest.mark.parametrize(
    "given", [b"abc", [1], np.zeros(3), np.zeros((2, 2), STATE), np.zeros(3, "u1")]
)
def test_what_is_no_array_of_records_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="allowed: an array of one dimension and the dtype STATE"):
        check_records(make_rules("classic"), given, views=False)


def test_read_only_records_are_checked_where_they_are() -> None:
    rules = make_rules("classic")
    records = np.frombuffer(played(rules, steps=2).tobytes(), STATE)
    check_records(rules, records, views=False)
    check_records(rules, records[:0], views=False)


@pytest.mark.parametrize("name", PRESETS)
def test_changed_records_are_refused_or_can_be_played(name: str) -> None:
    """With a field or two changed; none is refused that ``check_position`` accepts."""
    rules = make_rules(name)
    batch = Batch(1, rules)
    games = played(rules, steps=45)
    rng = np.random.default_rng(len(name))
    refused = 0
    for views, records in ((False, games), (True, views_of(rules, games))):
        for _ in range(60):
            record = copy_records(records[rng.integers(len(records))][None])
            for _ in range(rng.integers(1, 3)):
                _change(record, rng)
            found = _refused(check_records, rules, record, views=views)
            refused += found
            if found and not views and record["viewer"][0] < 0:
                assert _refused(check_position, rules, record[0])
            elif not found and not views and record["phase"][0] == PLAYING:
                batch.states[:] = record
                batch.play_random(100)
    assert 20 < refused < 120


def _change(record: Records, rng: np.random.Generator) -> None:
    places = record[rng.choice(STATE.names)].reshape(-1)
    at = rng.integers(places.size)
    change = int(rng.integers(3))
    limits = np.iinfo(places.dtype)
    number = [int(places[at]) + int(rng.integers(-2, 3)), int(rng.integers(-3, 45))]
    number.append(int(places[at]) ^ 1 << int(rng.integers(42)))
    places[at] = min(max(number[change], limits.min), limits.max)


def _refused(check: Any, *args: Any, **kwargs: Any) -> bool:
    try:
        check(*args, **kwargs)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("field", ["turn", "stock_next"])
def test_a_pickle_with_an_impossible_game_is_refused(field: str) -> None:
    game, batch = Game(seed=1), Batch(3, seed=1)
    assert pickle.loads(pickle.dumps(game)).to_text() == game.to_text()  # noqa: S301
    again = pickle.loads(pickle.dumps(batch))  # noqa: S301
    assert again.states.tobytes() == batch.states.tobytes()
    assert copy.deepcopy(batch).states.tobytes() == batch.states.tobytes()
    game.states[field] = 100
    batch.states[field][1] = 100
    for made, at in ((game, 0), (batch, 1)):
        content = pickle.dumps(made)
        with pytest.raises(ValueError, match=f"game record {at} is not possible: .*{field}=100"):
            pickle.loads(content)  # noqa: S301
