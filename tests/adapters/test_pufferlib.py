"""PufferLib: rows, masks in the observation, buffers written in place.

Against the real package where it is installed, which few environments allow; else against a
stand-in that keeps to what PufferLib says of native environments: they set their spaces and their
number of agents, call the base class with the buffers they are given, and write into these.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from escoba_env import IllegalActionError
from escoba_env.cards import NUM_ACTIONS
from tests.adapters.scripted import TABLES, script
from tests.entry_points import HUGE, LONG, NO_WHOLES, NOTHING, Entry, accept, refuse

ROOT = Path(__file__).parents[2]
IDS = [f"{t['rules']}-{t['players']}{'p' * t.get('partnership', False)}" for t in TABLES]
BUFFERS = ("observations", "rewards", "terminals", "truncations", "masks", "actions")
REAL = importlib.util.find_spec("pufferlib") is not None


class _StandIn:
    def __init__(self, buf: Any = None) -> None:
        space, agents = self.single_observation_space, self.num_agents
        assert isinstance(space, spaces.Box)
        assert isinstance(self.single_action_space, spaces.Discrete)
        assert not hasattr(self, "observation_space")
        buffers = buf or buffers_for(space, agents)
        for name in BUFFERS:
            setattr(self, name, buffers[name])


def buffers_for(space: spaces.Box, agents: int) -> dict[str, Any]:
    return {
        "observations": np.zeros((agents, *space.shape), space.dtype),
        "rewards": np.zeros(agents, np.float32),
        "terminals": np.zeros(agents, np.bool_),
        "truncations": np.zeros(agents, np.bool_),
        "masks": np.ones(agents, np.bool_),
        "actions": np.zeros(agents, np.int32),
    }


@pytest.fixture(scope="module")
def env_class() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        if not REAL:
            module = types.ModuleType("pufferlib")
            module.PufferEnv = _StandIn  # type: ignore[attr-defined]
            patch.setitem(sys.modules, "pufferlib", module)
        from escoba_env.adapters.pufferlib import EscobaPufferEnv

        yield EscobaPufferEnv
        patch.delitem(sys.modules, "escoba_env.adapters.pufferlib")


@pytest.mark.skipif(REAL, reason="PufferLib is installed")
def test_without_pufferlib_the_error_says_how_to_get_it() -> None:
    code = (
        "try: import escoba_env.adapters.pufferlib\n"
        "except ModuleNotFoundError as error: print(error, error.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "pufferlib is not installed" in done.stdout
    assert "pip install --no-deps pufferlib pufferlib" in done.stdout


@pytest.mark.parametrize("timing", ["round_end", "as_earned"])
@pytest.mark.parametrize("table", TABLES, ids=IDS)
def test_every_row_earns_what_its_seat_earns_in_the_engine(
    env_class: Any, table: dict[str, Any], timing: str
) -> None:
    for seed in range(5):
        game = script(table, seed)
        env = env_class(**table, reward_timing=timing)
        env.reset(seed)
        players = env.num_agents
        earned = np.zeros(players)
        for number, (seat, action) in enumerate(zip(game.seats, game.actions, strict=True)):
            assert env.masks.tolist() == [row == seat for row in range(players)]
            assert env.observations[seat, -NUM_ACTIONS + action] == 1
            actions = np.full(players, 7, np.int32)
            actions[seat] = action
            _, rewards, terminals, _, infos = env.step(actions)
            earned += rewards
            assert terminals.tolist() == [number + 1 == len(game.actions)] * players
        assert earned == pytest.approx(game.returns)
        wanted = {f"player_{seat}": value for seat, value in enumerate(game.returns)}
        assert infos == [pytest.approx(wanted)]


def test_buffers_that_are_given_are_written_in_place(env_class: Any) -> None:
    made = env_class(3, players=3, encoding="tactical")
    buffers = buffers_for(made.single_observation_space, made.num_agents)
    env = env_class(3, players=3, encoding="tactical", buf=buffers, seed=4)
    observations, infos = env.reset()
    assert observations is buffers["observations"]
    assert infos == []
    for _ in range(120):
        seen = buffers["observations"].copy()
        mask = seen[:, -NUM_ACTIONS:]
        out = env.step(mask.argmax(1))
        assert [out[i] is buffers[name] for i, name in enumerate(BUFFERS[:4])] == [True] * 4
        assert (buffers["observations"] != seen).any()
        assert buffers["masks"].reshape(3, 3).sum(1).tolist() == [1, 1, 1]
        assert env.single_observation_space.contains(buffers["observations"][0])


def test_rows_say_what_the_batch_says_of_each_seat(env_class: Any) -> None:
    env = env_class(4, players=4, encoding="planes")
    env.reset(9)
    rng = np.random.default_rng(0)
    for _ in range(60):
        for game in range(4):
            for seat in range(4):
                row = env.observations[4 * game + seat]
                seen, mask = env.batch.observe([game], [seat])
                assert np.array_equal(row[:-NUM_ACTIONS], seen.reshape(-1))
                if seat == env.batch.turn[game]:
                    assert np.array_equal(row[-NUM_ACTIONS:], mask[0])
                else:
                    assert np.flatnonzero(row[-NUM_ACTIONS:]).tolist() == [NUM_ACTIONS - 1]
        env.step(_random(rng, env.observations[:, -NUM_ACTIONS:]))


def _random(rng: np.random.Generator, masks: Any) -> Any:
    return (rng.random(masks.shape) * masks).argmax(1)


def test_a_thousand_random_games_by_the_mask_have_no_illegal_action(env_class: Any) -> None:
    env = env_class(100, illegal="raise", skip_forced=True)
    env.reset(1)
    rng = np.random.default_rng(1)
    ended = 0
    while ended < 1000:
        *_, infos = env.step(_random(rng, env.observations[:, -NUM_ACTIONS:]))
        ended += len(infos)
        assert all(sum(returns.values()) == pytest.approx(0) for returns in infos)


def test_an_illegal_action_raises_and_changes_nothing_or_ends_that_game(env_class: Any) -> None:
    env = env_class(2, players=4, partnership=True, illegal="raise")
    env.reset(3)
    before, seen = env.batch.states.copy(), env.observations.copy()
    actions = env.observations[:, -NUM_ACTIONS:].argmax(1)
    mover = int(np.flatnonzero(env.masks)[1])
    actions[mover] = NUM_ACTIONS - 1
    with pytest.raises(IllegalActionError, match=r"game 1: .* is illegal"):
        env.step(actions)
    for wrong in (actions[:3], actions.astype(float)):
        with pytest.raises(ValueError, match="allowed: whole numbers of shape"):
            env.step(wrong)
    assert np.array_equal(env.batch.states, before)
    assert np.array_equal(env.observations, seen)
    env = env_class(2, players=4, partnership=True)
    env.reset(3)
    with pytest.warns(UserWarning, match=r"game 1: .* is illegal"):
        _, rewards, terminals, _, infos = env.step(actions)
    side = (mover % 4) % 2
    penalty = float(env.batch.rules.match_target)
    wanted = [-penalty if seat % 2 == side else penalty for seat in range(4)]
    assert rewards.tolist() == [0.0] * 4 + wanted
    assert terminals.tolist() == [False] * 4 + [True] * 4
    assert len(infos) == 1
    env.step(env.observations[:, -NUM_ACTIONS:].argmax(1))


def test_a_seed_gives_the_same_games_and_no_seed_the_next_ones(env_class: Any) -> None:
    env = env_class(4, seed=8)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(8, np.int32))
    first = env.reset()[0].copy()
    assert not np.array_equal(env.reset()[0], first)
    assert np.array_equal(env.reset(8)[0], first)


def test_a_number_of_games_of_any_integer_type_is_that_many(env_class: Any) -> None:
    env = env_class(np.uint8(200))
    assert env.num_agents == 400
    assert env.reset(1)[0].shape[0] == 400


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"num_games": 0}, "num_games"),
        ({"illegal": "skip"}, "illegal 'skip'"),
        ({"encoding": "no"}, "'no'"),
        ({"playrs": 2}, "playrs"),
    ],
)
def test_what_is_not_possible_is_named(env_class: Any, arguments: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        env_class(**arguments)


@pytest.mark.skipif(not REAL, reason="PufferLib is not installed")
def test_pufferlibs_own_vectorisation_plays_it(env_class: Any) -> None:
    import pufferlib.vector

    vector = pufferlib.vector.make(
        env_class,
        env_kwargs={"num_games": 5, "illegal": "raise"},
        backend=pufferlib.vector.Serial,
        num_envs=3,
        seed=1,
    )
    observations, _ = vector.reset(seed=1)
    rng = np.random.default_rng(2)
    assert observations.shape == (30, vector.single_observation_space.shape[0])
    ended = 0
    for _ in range(200):
        actions = _random(rng, observations[:, -NUM_ACTIONS:])
        observations, _, terminals, _, _ = vector.step(actions)
        ended += int(terminals.sum())
    assert ended > 30
    vector.close()


def test_bad_arguments_are_named_and_change_nothing(env_class: Any) -> None:
    def begun() -> Any:
        env = env_class(2, illegal="raise")
        env.reset(seed=1)
        env.step(env.observations[:, -NUM_ACTIONS:].argmax(1))
        return env

    wrong = [LONG, [1, 2], [1.0] * 4, [True] * 4, [HUGE] * 4, None, *NOTHING]
    seed = Entry("seed", begun, lambda e, x: e.reset(seed=x), [*NO_WHOLES, 2**63], "seed", 9)
    refuse(seed)
    accept(seed)
    refuse(Entry("step", begun, lambda e, x: e.step(x), wrong, "actions"))
    number = Entry("num_games", lambda: None, lambda _, x: env_class(x), [*NO_WHOLES, 0])
    refuse(number)
    for kind in (np.int8, np.uint8, np.array):
        assert env_class(kind(100), players=3).num_agents == 300
