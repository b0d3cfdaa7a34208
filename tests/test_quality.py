"""Decision quality: what decisions cost, by the exact solver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from escoba_env.batch import Views
from escoba_env.evaluation import decision_quality, quality
from escoba_env.game import Game
from escoba_env.policies import BUILTIN, GreedyPolicy, RandomPolicy
from escoba_env.solver import solve, solve_view


class PerfectPolicy:
    """Plays as the solver says where that is known, else greedily."""

    name = "perfect"

    def act(self, views: Views) -> NDArray[np.int64]:
        actions = GreedyPolicy().act(views)
        for i in range(len(views)):
            try:
                actions[i] = solve_view(views[i : i + 1]).best_actions[-1]
            except ValueError:
                continue
        return actions


@pytest.fixture(autouse=True)
def _perfect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "escoba_env.policies.loading.BUILTIN", {**BUILTIN, "perfect": PerfectPolicy}
    )


@pytest.mark.parametrize("fields", [{}, {"rules": "scopa"}, {"rules": "tabletop"}])
def test_who_follows_the_solver_loses_nothing_in_the_endgame(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Enough for endgames; with building a whole deal takes millions.
    monkeypatch.setattr(quality, "MAX_NODES", 20_000)
    result = decision_quality("perfect", deals=6, **fields)
    assert result.endgame_decisions > 10
    assert result.endgame_optimal == result.endgame_decisions
    assert result.endgame_lost == 0
    assert (result.optimal_share, result.lost_per_decision) == (1, 0)


def test_others_lose_something_and_random_loses_most() -> None:
    random, greedy = (decision_quality(name, deals=30) for name in ("random", "greedy"))
    for result in (random, greedy):
        assert result.optimal_share is not None
        assert 0.5 < result.optimal_share < 1
        assert result.endgame_lost > 0
    assert random.regret - random.regret_half_width > greedy.regret + greedy.regret_half_width


def test_regret_is_what_the_solver_says_of_each_choice() -> None:
    policies = [GreedyPolicy(), RandomPolicy()]
    regrets, decisions, endgame = [], 0, [0, 0, 0]
    for index in range(3):
        lost = 0
        for chairs in ([0, 1], [1, 0]):
            game = Game(seed=5)
            game.reset(5, index=index)
            while not game.is_over:
                action = int(policies[chairs[game.turn]].act(game.view(game.turn))[0])
                if chairs[game.turn] == 0 and len(game.legal_actions()) > 1:
                    solution = solve(game)
                    lost += solution.value - solution.actions[action]
                    decisions += 1
                    if game.record["turn_index"] >= 30:
                        known = solve_view(game.view(game.turn))
                        cost = known.value - known.actions[action]
                        endgame = [endgame[0] + 1, endgame[1] + (cost == 0), endgame[2] + cost]
                game.step(action)
        regrets.append(lost / 2)
    result = decision_quality("greedy", against="random", deals=3, seed=5)
    assert result.regret == pytest.approx(np.mean(regrets))
    assert result.decisions == decisions
    assert [result.endgame_decisions, result.endgame_optimal, result.endgame_lost] == endgame


def test_partners_have_regret_and_no_endgame() -> None:
    result = decision_quality("greedy", deals=2, players=4, partnership=True)
    assert result.endgame_decisions == 0
    assert result.optimal_share is None
    assert result.lost_per_decision is None
    assert result.decisions + result.unsolved > 10


def test_decisions_that_take_too_long_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decision_quality("greedy", deals=3)
    monkeypatch.setattr(quality, "MAX_NODES", 50)
    part = decision_quality("greedy", deals=3)
    assert whole.unsolved == 0
    assert part.unsolved > 0
    assert part.decisions + part.unsolved == whole.decisions
    assert part.regret <= whole.regret


def test_results_are_kept_and_written_as_json(tmp_path: Path) -> None:
    first = decision_quality("greedy", deals=4, folder=tmp_path)
    size = (tmp_path / "results.jsonl").stat().st_size
    assert decision_quality("greedy", deals=4, folder=tmp_path) == first
    assert (tmp_path / "results.jsonl").stat().st_size == size
    values = json.loads(json.dumps(first.as_dict(), allow_nan=False))
    assert values["optimal_share"] == first.optimal_share


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.clear(),
        lambda r: r.update(regret=[1]),
        lambda r: r.update(regret=[1, -1]),
        lambda r: r.update(regret=[1, 0.5]),
        lambda r: r.update(regret=[10**9, 0]),
        lambda r: r.update(decisions=0),
        lambda r: r.update(decisions=-1),
        lambda r: r.update(decisions=10**9),
        lambda r: r.update(unsolved=None),
        lambda r: r.update(endgame=[1, 2, 0]),
        lambda r: r.update(endgame=[2, 2, 5]),
        lambda r: r.update(endgame=[10**6, 2, 5]),
        lambda r: r.update(endgame=[1, 1]),
    ],
)
def test_a_result_that_cannot_be_is_refused_by_its_line(tmp_path: Path, change: Any) -> None:
    decision_quality("random", deals=4, seed=0, folder=tmp_path)
    path = tmp_path / "results.jsonl"
    header, first, second = path.read_text().splitlines()
    entry = json.loads(second)
    change(entry["result"])
    path.write_text("\n".join([header, first, json.dumps(entry)]) + "\n")
    with pytest.raises(ValueError, match=r"results\.jsonl, line 3, is damaged"):
        decision_quality("random", deals=4, folder=tmp_path)


def test_a_policy_that_plays_illegally_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for answer, message in (
        ([99], r"policy 'perfect': action 99 is not an action"),
        ([float("nan")], r"policy 'perfect': actions \[nan.* allowed: integers"),
    ):
        monkeypatch.setattr(
            PerfectPolicy, "act", lambda self, views, answer=answer: answer * len(views)
        )
        with pytest.raises(ValueError, match=message):
            decision_quality("perfect", deals=2)


def test_forced_decisions_are_none() -> None:
    # Hands of one card, and one way to make fifteen.
    fields = {"ranks": (1, 2, 7, 8), "suits": ("oros",), "hand_size": 1, "table_size": 2}
    result = decision_quality("greedy", deals=4, **fields)
    assert (result.decisions, result.endgame_decisions, result.regret) == (0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"players": 3}, "players=3, partnership=False is not possible: the solver is for two"),
        ({"deals": 1}, "deals 1 is not possible"),
        ({"against": "nobody"}, "policy 'nobody' is unknown"),
        ({"workers": 0}, "workers 0 is not possible"),
        ({"folder": 5, "deals": 2}, "folder 5 is not possible; allowed: a path"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decision_quality("greedy", **arguments)
