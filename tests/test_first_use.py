"""What a newcomer tries: names that mean two things, and values of the nearly right type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.needs import needs

from escoba_env import Game, evaluate, load_policy, parse_move
from escoba_env.policies.checkpoint import CheckpointError


@needs("torch")
def test_a_shipped_name_is_the_shipped_policy_whatever_folders_lie_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "classic-2p").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_policy("classic-2p").name == "classic-2p"
    with pytest.raises(CheckpointError, match="classic-2p is not a checkpoint"):
        load_policy("./classic-2p")


def test_no_name_is_no_policy() -> None:
    with pytest.raises(ValueError, match="policy '' is unknown"):
        load_policy("")


@needs("torch")
def test_the_folder_of_a_run_points_to_the_policy_in_it(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(CheckpointError, match=re.escape(str(tmp_path / "checkpoint"))):
        load_policy(tmp_path)


@pytest.mark.parametrize("deals", [10**12, 10**20])
def test_more_deals_than_can_be_kept_are_refused(deals: int) -> None:
    with pytest.raises(ValueError, match=f"deals {deals} is not possible; allowed"):
        evaluate("random", "greedy", deals=deals)


@pytest.mark.parametrize("scores", [{1: 2, 3: 4}, {5, 7}], ids=["mapping", "set"])
def test_scores_belong_to_sides_in_order(scores: Any) -> None:
    with pytest.raises(ValueError, match=r"scores=\{"):
        Game(episode="match", seed=1).reset(1, scores=scores)


def test_a_position_asks_for_a_seed_that_is_a_number() -> None:
    with pytest.raises(ValueError, match="seed None is not possible"):
        Game.from_position(hands=["1o", "2o"], seed=None)  # type: ignore[arg-type]


def test_what_is_no_text_is_no_move() -> None:
    with pytest.raises(ValueError, match="move None is not text"):
        parse_move(None)  # type: ignore[arg-type]


def test_a_seat_of_any_integer_type_is_taken() -> None:
    env = gymnasium.make("escoba_env/Escoba-v0", seat=np.int64(1))
    env.reset(seed=0)
    assert env.unwrapped.seat == 1  # type: ignore[attr-defined]
