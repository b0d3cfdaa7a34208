"""The scripts that adapters are held to are games of the AEC environment."""

import pytest

from escoba_env import escoba_v0
from tests.adapters.scripted import TABLES, script


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_a_script_is_the_same_game_in_the_aec_environment(table):
    played = script(table, 7)
    env = escoba_v0.env(**table)
    env.reset(seed=7)
    returns = dict.fromkeys(env.possible_agents, 0.0)
    for seat, action in zip(played.seats, played.actions, strict=True):
        assert env.agent_selection == f"player_{seat}"
        env.step(action)
        for agent, reward in env.rewards.items():
            returns[agent] += reward
    assert all(env.terminations.values())
    assert tuple(returns.values()) == pytest.approx(played.returns)
