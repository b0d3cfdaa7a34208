"""The rules page says what ``Rules`` says."""

from __future__ import annotations

from pathlib import Path

from escoba_env import Game
from escoba_env.rules import PRESETS, Rules
from escoba_env.rules_docs import _SMALL, rules_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "rules.md"


def test_the_page_is_the_generated_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == rules_page()


def test_every_field_and_preset_has_its_row() -> None:
    rows = [line.split("|")[1].strip() for line in rules_page().splitlines() if line[:1] == "|"]
    for name in (*Rules.__dataclass_fields__, *PRESETS):
        assert rows.count(f"`{name}`") == 1


def test_the_small_packs_are_games_with_choices_and_captures() -> None:
    for fields in _SMALL.values():
        moves = [move for seed in range(20) for move in Game(seed=seed, **fields).legal_moves()]
        assert any(move.taken for move in moves)
