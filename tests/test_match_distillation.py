"""Matches: labels of teachers that play for the match, and policies distilled from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_distil import tiny
from test_match_odds import views_at

from escoba_env import load_policy, make_rules
from escoba_env.evaluation import evaluate
from escoba_env.policies.match_odds import bend, bends_of
from escoba_env.solver import solvable, solve_views
from training.config import ConfigError
from training.distil import distil
from training.labels import TEACHER, LabelUnit, label, load_shard

WIN = {"reward": "win", "rounds": [{"deals": 8, "teacher": "search:worlds=2,utility=win"}]}


def test_labels_at_further_scores_are_the_teachers_there(tmp_path: Path) -> None:
    """A decision is followed by the same one at other scores, each with its own labels."""
    unit = LabelUnit(
        path=str(tmp_path / "labels.safetensors"), rules=make_rules("classic", target=5),
        teacher="search:worlds=4,utility=win", behaviour=TEACHER, explore=0.1, seed=3, first=0,
        deals=4, episode="match", scores=2,
    )  # fmt: skip
    unit.play(load_policy)
    shard = load_shard(Path(unit.path))
    records = shard.records
    exact = solvable(shard.views(np.arange(len(records))))
    assert exact.any()
    assert not exact.all()
    bare = records.copy()
    bare["scores"] = 0
    _, counts = np.unique(bare, return_counts=True)
    assert (counts % 3 == 0).mean() > 0.95
    assert len(np.unique(records["scores"], axis=0)) > 10
    for place in np.flatnonzero(exact):
        views = shard.views([place])
        values = np.where(
            shard.views([place]).records["legal"][0] >> np.arange(43) & 1,
            solve_views(views).actions[0],
            np.nan,
        )
        expected = bend(bends_of(views), values[None])
        np.testing.assert_allclose(shard.values[place], expected[0], rtol=1e-5)


def test_labels_of_matches_are_worths_also_where_they_are_exact() -> None:
    views = views_at(14, 20, turns=31, games=60)
    rows = np.flatnonzero(solvable(views))
    assert len(rows) > 20
    exact = solve_views(views[rows]).actions.astype(float)
    found = label(load_policy("search:worlds=2,utility=win"), views)[rows]
    expected = bend(bends_of(views[rows]), np.where(np.isnan(found), np.nan, exact))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_policy_of_matches_is_distilled_from_matches(tmp_path: Path) -> None:
    policy = distil(tiny(**WIN, shard_deals=2), tmp_path / "run", workers=1)
    assert policy.card.episode == "match"
    shard = load_shard(tmp_path / "run" / "round-1" / "labels" / "0000-00.safetensors")
    assert shard.episode == "match"
    assert shard.records["scores"].any()
    views = shard.views(np.arange(5))
    assert views.episode == "match"
    policy.act(views)
    assert evaluate(policy, "random", episode="match", deals=2).games == 4


@pytest.mark.parametrize(
    "settings",
    [
        {**WIN, "reward": "margin"},
        {**WIN, "rounds": [{"deals": 8, "teacher": "search:worlds=2"}]},
    ],
)
def test_a_teacher_that_values_something_else_is_refused(settings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not value what reward="):
        distil(tiny(**settings, shard_deals=2), tmp_path / "run", workers=1)
