"""Seeds of evaluations: drawn anew, kept with results, and not to be read off a policy's keys."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from escoba_env.batch import MAX_SEED, Batch
from escoba_env.engine.rng import DECISION, GUESSABLE, philox
from escoba_env.evaluation import (
    Interrupted,
    Ladder,
    cross_play,
    decision_quality,
    evaluate,
    ladder,
    tournament,
    units,
)
from escoba_env.evaluation.seeds import draw_seed

NAMES = ["greedy", "random"]
SMALL = Ladder(
    name="small", preset="classic", episode="round", seed=99, deals=4, opponents=(("greedy", 1),)
)


@pytest.fixture
def _drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws the seeds 1000, 1001, 1002 ..."""
    numbers = iter(range(1000, 2000))
    monkeypatch.setattr("escoba_env.evaluation.seeds.draw_seed", lambda: next(numbers))


def test_drawn_seeds_are_of_63_bits_and_differ() -> None:
    # Taken at import, before all tests are given the same seed.
    seeds = {draw_seed() for _ in range(200)}
    assert len(seeds) == 200
    assert min(seeds) >= GUESSABLE
    assert 2**62 < max(seeds) <= MAX_SEED


@pytest.mark.usefixtures("_drawn")
def test_a_seed_is_drawn_unless_one_is_given_and_repeats_the_result() -> None:
    plays: tuple[Any, ...] = (
        lambda **seed: evaluate("greedy", "random", deals=4, **seed),
        lambda **seed: tournament(NAMES, deals=4, **seed),
        lambda **seed: cross_play(NAMES, deals=2, **seed),
        lambda **seed: decision_quality("greedy", deals=2, **seed),
    )
    for number, play in enumerate(plays):
        result = play()
        assert result.seed == result.as_dict()["seed"] == 1000 + number
        assert play(seed=result.seed) == result


@pytest.mark.usefixtures("_drawn")
def test_a_folder_keeps_the_seed_that_was_drawn_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tournament(NAMES, deals=4, folder=tmp_path)
    played: list[Any] = []
    play = units.Unit.play
    monkeypatch.setattr(
        units.Unit, "play", lambda unit, load: played.append(unit) or play(unit, load)
    )
    assert tournament(NAMES, deals=4, folder=tmp_path) == first
    assert played == []
    assert evaluate(*NAMES, deals=4, folder=tmp_path).seed == first.seed == 1000
    # Another one can be asked for, and is that of one evaluation.
    assert tournament(NAMES, deals=4, seed=5, folder=tmp_path).seed == 5
    assert cross_play(NAMES, deals=2, folder=tmp_path).seed == first.seed
    assert evaluate(*NAMES, deals=4, folder=tmp_path / "other").seed == 1001


@pytest.mark.usefixtures("_drawn")
def test_a_folder_from_before_seeds_were_drawn_goes_on_with_its_own(tmp_path: Path) -> None:
    # So are folders of before, where the seed was 0 unless another one was given.
    tournament(NAMES, deals=4, seed=0, folder=tmp_path)
    assert "seed of" not in (tmp_path / "results.jsonl").read_text()
    assert tournament(NAMES, deals=8, folder=tmp_path).seed == 0


def test_a_folder_of_several_seeds_asks_for_one(tmp_path: Path) -> None:
    for seed in (3, 7):
        evaluate(*NAMES, deals=2, seed=seed, folder=tmp_path)
    before = (tmp_path / "results.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"results of several seeds; allowed: .* one of 3, 7"):
        evaluate(*NAMES, deals=2, folder=tmp_path)
    assert (tmp_path / "results.jsonl").read_bytes() == before


@pytest.mark.parametrize("seed", [-1, 1.5, "3", None, 2**63, True])
def test_a_kept_seed_that_is_none_is_refused(tmp_path: Path, seed: Any) -> None:
    evaluate(*NAMES, deals=2, folder=tmp_path)
    file = tmp_path / "results.jsonl"
    lines = file.read_text().splitlines()
    lines[1] = json.dumps({"key": {"seed of": {"of": "folder"}}, "result": seed})
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="line 2, is damaged"):
        evaluate(*NAMES, deals=2, folder=tmp_path)


def test_a_seed_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    for play in (tournament, cross_play):
        with pytest.raises(ValueError, match="seed -1"):
            play(NAMES, deals=2, seed=-1, folder=tmp_path / "new")
    for measure in (lambda **o: evaluate(*NAMES, **o), lambda **o: decision_quality("greedy", **o)):
        with pytest.raises(ValueError, match="seed -1"):
            measure(deals=2, seed=-1, folder=tmp_path / "new")
    assert not (tmp_path / "new").exists()


# -- ladders on fresh deals -----------------------------------------------------------------


@pytest.mark.usefixtures("_drawn")
def test_a_fresh_ladder_is_the_ladder_and_the_same_on_drawn_deals() -> None:
    seen: list[tuple[int, int]] = []
    result = ladder(
        "random", SMALL, fresh=True, on_progress=lambda deals, rounds: seen.append((deals, rounds))
    )
    assert dataclasses.replace(result, fresh=None) == ladder("random", SMALL)
    assert result.fresh is not None
    expected = evaluate("random", "greedy", deals=4, seed=1000)
    assert (result.fresh.score, result.fresh.half_width) == (expected.margin, expected.half_width)
    assert result.fresh.ladder.seed == 1000
    assert result.gap == result.score - result.fresh.score
    assert result.gap_half_width == pytest.approx(
        (result.half_width**2 + result.fresh.half_width**2) ** 0.5
    )
    assert seen == [(4, 8), (8, 16)]
    values = json.loads(json.dumps(result.as_dict()))
    assert values["fresh"]["ladder"]["seed"] == 1000
    assert values["gap"] == result.gap


@pytest.mark.usefixtures("_drawn")
def test_fresh_deals_are_kept_for_one_policy_and_nothing_else(tmp_path: Path) -> None:
    first = ladder("random", SMALL, fresh=True, folder=tmp_path)
    assert ladder("random", SMALL, fresh=True, folder=tmp_path) == first
    other = ladder("greedy", SMALL, fresh=True, folder=tmp_path)
    assert (first.fresh.ladder.seed, other.fresh.ladder.seed) == (1000, 1001)  # type: ignore[union-attr]
    # A tournament there is played on deals of its own, not on those that everybody knows.
    assert tournament(NAMES, deals=2, folder=tmp_path).seed == 1002


def test_ctrl_c_during_the_fresh_deals_leaves_the_ladder() -> None:
    def stop(deals: int, rounds: int) -> None:
        if deals > 4:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        ladder("random", dataclasses.replace(SMALL, deals=4), fresh=True, on_progress=stop)
    result = stopped.value.result
    assert result.complete
    assert result.score == ladder("random", SMALL).score


def test_fresh_is_true_or_false() -> None:
    with pytest.raises(ValueError, match=r"fresh 'yes' is not possible; allowed: True or False"):
        ladder("random", SMALL, fresh="yes")  # type: ignore[arg-type]


# -- keys -----------------------------------------------------------------------------------


def test_keys_are_not_drawn_with_the_seed_that_deals_the_cards() -> None:
    def keys_of(seed: int) -> list[int]:
        batch = Batch(50)
        batch.reset(seed)
        keys: list[int] = batch.views().keys.tolist()
        return keys

    def with_the_games_seed(seed: int) -> list[int]:
        # The first decision of each game.
        words = [philox(DECISION << 28, 0, g, 0, seed % 2**32, seed >> 32) for g in range(50)]
        return [(int(a) << 31) ^ int(b) for a, b, _, _ in words]

    for seed in (GUESSABLE, 3 * GUESSABLE + 5, MAX_SEED):
        keys = keys_of(seed)
        assert len(set(keys)) == 50
        assert min(keys) >= 0
        assert not set(keys) & set(with_the_games_seed(seed))
    # Results of small seeds, such as a ladder's, stay what they were.
    for seed in (3, 1_515_151_515, GUESSABLE - 1):
        assert keys_of(seed) == with_the_games_seed(seed)


def test_keys_are_those_of_the_game_and_the_decision_alone() -> None:
    few, many = Batch(2), Batch(7)
    few.reset(3, game_indices=np.array([5, 2]))
    many.reset(3)
    assert few.views().keys.tolist() == many.views().keys[[5, 2]].tolist()
    assert few.views().keys.tolist() == few.views(seats=np.array([1, 1])).keys.tolist()
