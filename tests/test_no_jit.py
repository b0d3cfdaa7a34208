"""The kernels as plain Python do what they do compiled, bit for bit and without a warning.

``NUMBA_DISABLE_JIT=1`` is how the engine is debugged and its coverage measured. It is also a check
of the compiled code: where Python raises (an index outside an array) or NumPy warns (a number too
large for its type), compiled code would go on with whatever it found.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from escoba_env import Batch, Encoding, Game, load_policy
from escoba_env.encoding import VERSIONS
from escoba_env.engine.record import STATE
from escoba_env.engine.rng import below, decision_key, philox, uniform_of

# Rules, episode, kind of reward, and whether forced decisions are skipped.
TABLES: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    "two": ({}, "round", "margin", False),
    "three, optional": ({"players": 3, "capture": "optional"}, "round", "points", False),
    "four, hand, skipping": ({"players": 4, "capture": "hand"}, "round", "win", True),
    "partners, open hands": (
        {"players": 4, "partnership": True, "open_hands": True, "setenta": 1, "ties": "split"},
        "round",
        "margin",
        False,
    ),
    "short match": ({"target": 3, "ties": "all", "escoba": 2}, "match", "margin", True),
    "large numbers": (
        {"players": 3, "target_sum": 60, "hand_size": 9, "table_size": 10, "escoba": 1000,
         "most_cards": 1000, "all_oros": 1000, "all_sevens": 1000, "setenta": 1000, "ties": "split",
         "capture": "optional"},
        "round",
        "margin",
        False,
    ),
    "building": ({"preset": "tabletop", "players": 3}, "round", "margin", False),
    "building, optional": (
        {"preset": "tabletop", "capture": "optional", "initial_table": "eldest"},
        "round",
        "margin",
        False,
    ),
    "jokers": ({"preset": "comodines", "capture": "optional"}, "round", "points", False),
    "dealer": (
        {"preset": "ludoteka", "initial_thirty": "sum", "target": 2},
        "match",
        "margin",
        True,
    ),
    "redeal": ({"initial_table": "redeal", "target_sum": 20}, "round", "margin", False),
    "scopa": ({"preset": "scopa", "players": 4, "partnership": True}, "round", "win", True),
    "small sum": ({"target_sum": 6, "capture": "hand"}, "round", "margin", False),
    "small pack": (
        {"ranks": (1, 5, 9, 10), "suits": ("copas", "bastos"), "hand_size": 1, "target_sum": 10},
        "round",
        "points",
        False,
    ),
}  # fmt: skip


def play(fields: dict[str, Any], episode: str, reward: str, skip_forced: bool) -> str:
    """Plays some games and returns a digest of every state, observation, view and reward."""
    seed = 2**63 - 25
    games = 4
    batch = Batch(games, fields, episode=episode, reward=reward, skip_forced=skip_forced)
    batch.reset(seed, game_indices=[0, 1, 2**40, 2**63 - 1])
    encodings = [Encoding(name, batch.rules, episode) for name in VERSIONS]
    policies = [load_policy(name) for name in ("random", "greedy", "counting")]
    digest = hashlib.sha256()
    steps = 0
    while not batch.over.all():
        for seat in range(batch.rules.players):
            views = batch.views(seats=np.full(games, seat))
            digest.update(views.records.tobytes() + views.keys.tobytes())
            # Facts take long as plain Python; each encoding in turn is as good as all.
            for array in views.observe(encodings[steps % len(encodings)]):
                digest.update(array.tobytes())
        playing = np.flatnonzero(~batch.over)
        actions = policies[steps // 2 % 3].act(batch.views(playing))
        rewards, over = batch.step(actions, playing)
        digest.update(actions.tobytes() + rewards.tobytes() + over.tobytes())
        digest.update(batch.states.tobytes())
        steps += 1
    assert steps > 3
    return digest.hexdigest()


def draw() -> list[Any]:
    """Returns numbers of the random streams at the edges of their arguments."""
    top, word = 2**63 - 1, 2**32 - 1
    found: list[Any] = [list(philox(word, word, word, word, word, word))]
    found += [below(number, n) for number in (0, 5, word) for n in (2, 3, 40)]
    found += [decision_key(top, top, counter) for counter in (0, word)]
    found += [uniform_of(key, draw).hex() for key in (0, 1, top) for draw in (0, 9)]
    return found


def search() -> dict[str, list[int]]:
    """Returns what searches choose in some games."""
    found = {}
    for table in ("two", "partners, open hands", "building", "jokers", "scopa"):
        batch = Batch(2, TABLES[table][0], skip_forced=True, seed=3)
        for _ in range(12):
            batch.step(load_policy("random").act(batch.views()))
        for name in (
            "search:worlds=2,deals=0",
            "search:worlds=1,rollout=random",
            "ismcts:iterations=4",
        ):
            found[f"{table}, {name}"] = load_policy(name).act(batch.views()).tolist()
    return found


def refusals() -> list[str]:
    """Gives the engine numbers that are out of range, which it must see before a kernel does.

    Returns:
        What was not refused with a ``ValueError``, and how.
    """
    game, batch = Game(seed=0), Batch(2, seed=0)
    text = game.to_text()
    state = np.frombuffer(game.get_state(), STATE)

    def changed(name: str, value: int) -> bytes:
        record = state.copy()
        record[name] = value
        return bytes(record.tobytes())

    attempts: dict[str, Any] = {}
    for value in (2, 4, 99, 127):
        for key in ("turn", "dealer", "last", "viewer"):
            part = next(word for word in text.split() if word.startswith(f"{key}="))
            other = text.replace(f" {part} ", f" {key}={value} ")
            other = other.removesuffix(part) + f"{key}={value}" if text.endswith(part) else other
            attempts[f"text {key}={value}"] = lambda other=other: Game.from_text(other)
        for name in ("turn", "dealer", "last_capturer", "viewer", "played", "stock_next", "phase"):
            data = changed(name, value)
            attempts[f"state {name}={value}"] = lambda data=data: game.set_state(data)
        seats = np.array([0, value])
        attempts[f"observe {value}"] = lambda seats=seats: batch.observe(seats=seats)
        attempts[f"views {value}"] = lambda seats=seats: batch.views(seats=seats)
        attempts[f"step {value}"] = lambda seats=seats: batch.step([0, 0], seats)
        attempts[f"dealers {value}"] = lambda seats=seats: batch.reset(0, dealers=seats)
        attempts[f"view {value}"] = lambda value=value: game.view(value)
        attempts[f"reset {value}"] = lambda value=value: game.reset(0, dealer=value)
        attempts[f"position {value}"] = lambda value=value: Game.from_position(
            hands=["1o", "2o"], turn=value
        )
    outcomes = {what: outcome_of(attempt) for what, attempt in attempts.items()}
    return [f"{what}: {outcome}" for what, outcome in outcomes.items() if outcome]


def outcome_of(attempt: Callable[[], Any]) -> str:
    """Returns how something went that should be refused; nothing if it was."""
    try:
        attempt()
    except ValueError:
        return ""
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        return f"{type(error).__name__}: {error}"
    return "accepted"


def everything() -> dict[str, Any]:
    """Returns digests of games, numbers of the streams, and what was not refused."""
    games = {name: play(*table) for name, table in TABLES.items()}
    return {**games, "streams": draw(), "searches": search(), "not refused": refusals()}


@pytest.fixture(scope="module")
def as_plain_python() -> dict[str, Any]:
    """What a process without compiler gives; every warning in it is an error."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_there_is_no_compiler_in_the_other_process(as_plain_python: dict[str, Any]) -> None:
    assert as_plain_python["compiled"] is False
    assert hasattr(philox, "py_func")


@pytest.mark.parametrize("table", TABLES)
def test_games_are_the_same_bit_for_bit(as_plain_python: dict[str, Any], table: str) -> None:
    assert play(*TABLES[table]) == as_plain_python[table]


def test_random_streams_are_the_same(as_plain_python: dict[str, Any]) -> None:
    assert draw() == as_plain_python["streams"]


def test_searches_choose_the_same(as_plain_python: dict[str, Any]) -> None:
    assert search() == as_plain_python["searches"]


def test_numbers_out_of_range_are_refused_before_a_kernel_reads_them(
    as_plain_python: dict[str, Any],
) -> None:
    assert as_plain_python["not refused"] == []
    assert refusals() == []


if __name__ == "__main__":
    json.dump({**everything(), "compiled": hasattr(philox, "py_func")}, sys.stdout)
