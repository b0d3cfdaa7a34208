"""``Tables`` steps the games it is told to, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from escoba_env.envs.tables import Tables

SETTINGS = {
    "players": None,
    "partnership": None,
    "episode": "round",
    "reward": "margin",
    "encoding": "compact",
    "memory": "perfect",
    "dtype": "float32",
    "reward_timing": "round_end",
    "illegal": "raise",
    "fields": {},
}


def tables(mode):
    made = Tables(4, "random", "random", "classic", autoreset_mode=mode, **SETTINGS)
    made.start(np.arange(4), np.arange(4))
    made.settle()
    return made


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_a_step_of_some_games_is_theirs_alone(mode):
    some, everything = tables(mode), tables(mode)
    games = np.array([True, False, False, True])
    for _ in range(3):
        chosen = some.observe()[1].argmax(axis=1)
        before = some.batch.states.copy()
        # The actions of the others are not looked at.
        outcome = some.step(np.where(games, chosen, 42), games)
        expected = everything.step(everything.observe()[1].argmax(axis=1))
        assert (some.batch.states[~games] == before[~games]).all()
        assert (some.batch.states[games] == everything.batch.states[games]).all()
        assert not outcome.rewards[~games].any()
        assert (outcome.rewards[games] == expected.rewards[games]).all()


def test_a_game_that_is_over_stops_a_step_only_if_it_is_named():
    some = tables(AutoresetMode.DISABLED)
    while not some.over.any():
        some.step(some.observe()[1].argmax(axis=1))
    playing = ~some.over
    before = some.batch.states.copy()
    with pytest.raises(ResetNeeded, match=f"environment {some.over.argmax()}"):
        some.step(some.observe()[1].argmax(axis=1), np.ones(4, bool))
    assert (some.batch.states == before).all()
    if not playing.any():
        pytest.fail("all games of these seeds end at once; take others")
    some.step(some.observe()[1].argmax(axis=1), playing)
    assert (some.batch.states[~playing] == before[~playing]).all()
    assert (some.batch.states[playing] != before[playing]).all()
