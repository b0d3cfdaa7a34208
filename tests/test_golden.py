"""One recorded round of every preset at every table, line by line as in ``tests/golden``.

A change of a recorded game is a change of the rules, of the deals or of how games are written.
Where one is meant,

    python tests/test_golden.py

writes the files anew; what it changed is in the diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import numpy as np
import pytest
from reference.compare import COMBINATIONS, TABLES

from escoba_env import Game
from escoba_env.cards import JOKERS, card_set, names_of
from escoba_env.engine.record import AT_END, NOBODY
from escoba_env.notation import action_name
from escoba_env.position import table_text
from escoba_env.report import RoundReport

GOLDEN = Path(__file__).parent / "golden"


def first_game(preset: str, table: str) -> Game:
    """Returns the game that is recorded.

    Where ``initial_table`` may have something to do, that is so with 2 players and with partners;
    where there are jokers, one lies on the first table with 3 players and with 4.
    """
    game = Game(preset, seed=1, **TABLES[table])
    taken = game.rules.initial_table in ("dealer", "set_aside")
    pairs = table in ("2", "partners")
    jokers = set(JOKERS[: game.rules.jokers])
    while game.table if taken and pairs else jokers and jokers.isdisjoint(game.table):
        game.reset(game.seed + 1)
    return game


def cards(bits: int) -> str:
    """Names the cards of a set."""
    return names_of(int(bits), separator=" ") or "-"


def playthrough(preset: str, table: str) -> Iterator[str]:
    """Plays a round by a fixed rule and yields the lines of its record."""
    game = first_game(preset, table)
    rules, seats = game.rules, range(game.rules.players)
    record = game.record
    yield f"preset {preset}, {rules.players} players{' in partnership' * rules.partnership}"
    yield f"rules {json.dumps(rules.changes(), sort_keys=True)}"
    yield f"seed {game.seed}, dealer {game.dealer}"
    yield f"position {game.to_text()}"
    if record["set_aside"]:
        yield f"set aside: {cards(record['set_aside'])}"
    for seat in seats:
        if record["piles"][seat]:
            pile, escobas = cards(record["piles"][seat]), record["escobas"][seat]
            yield f"with the deal: seat {seat} takes {pile}, escobas {escobas}"
    turn = 0
    while not game.is_over:
        if all(count == rules.hand_size for count in record["hand_counts"][: rules.players]):
            yield ""
            yield f"hands dealt, {record['stock_size'] - record['stock_next']} cards in stock"
            for seat in seats:
                yield f"  seat {seat}: {cards(record['hands'][seat])}"
        yield ""
        seat, moves = game.turn, game.legal_moves()
        yield f"turn {turn}: seat {seat}, hand {cards(record['hands'][seat])}"
        yield f"  table: {table_text(record, separator=' ')}"
        yield f"  legal: {', '.join(map(str, moves))}"
        # A fixed walk through the list, so that a record hangs on no random stream of Python's.
        move = moves[(turn * 7919 + 5) % len(moves)]
        escobas = int(record["escobas"][seat])
        for number, pick in enumerate(game.picks_of(move), start=1):
            legal = " ".join(map(action_name, game.legal_actions()))
            yield f"  pick {number}: {action_name(pick)} of {legal}"
            game.step(pick)
            record = game.record
        yield f"  plays: {move}{', escoba' * (int(record['escobas'][seat]) > escobas)}"
        yield f"  table: {table_text(record, separator=' ')}"
        turn += 1

    yield ""
    to = record["last_capturer"]
    left = card_set(map(int, np.flatnonzero(record["taken_at"] == AT_END)))
    yield f"last capturer {'nobody' if to == NOBODY else to}, who takes: {cards(left)}"
    for seat in seats:
        pile = record["piles"][seat]
        yield f"  seat {seat}: {int(pile).bit_count()} cards, {cards(pile)}"
    yield from report_lines(game.report)
    yield f"returns {game.returns}"
    yield f"position {game.to_text()}"


def report_lines(report: RoundReport | None) -> Iterator[str]:
    """Yields every category, also those that do not count."""
    assert report is not None
    for category in report.categories:
        counts = " : ".join(map(str, category.counts))
        won = ", ".join(f"side {s} +{category.points[s]}" for s in category.winners) or "nobody"
        yield f"{category.name}: {counts} ({won})"
    yield f"round: {' : '.join(map(str, report.totals))}"
    yield f"score: {' : '.join(map(str, report.scores))}"


def path_of(preset: str, table: str) -> Path:
    """Returns the file of a recorded game."""
    return GOLDEN / f"{preset}-{table}.txt"


@pytest.mark.parametrize(("preset", "table"), COMBINATIONS)
def test_a_recorded_game_is_played_again_line_by_line(preset: str, table: str) -> None:
    recorded = path_of(preset, table).read_text(encoding="utf-8").splitlines()
    played = list(playthrough(preset, table))
    difference = unified_diff(recorded, played, "recorded", "played", lineterm="", n=3)
    assert recorded == played, "\n".join(difference)


def test_every_file_is_a_recorded_game() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {path_of(*c).name for c in COMBINATIONS}


def test_the_recorded_games_show_every_kind_of_turn() -> None:
    text = "\n".join(path_of(*c).read_text(encoding="utf-8") for c in COMBINATIONS)
    for shown in (
        *(", escoba\n", "set aside: ", "with the deal: seat ", ">", ":J1", "napola: "),
        *("pick 3: lay of", "pick 2: lay of", "setenta: ", " in partnership"),
    ):
        assert shown in text, shown


def main() -> None:
    """Writes every file anew."""
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for preset, table in COMBINATIONS:
        text = "\n".join(playthrough(preset, table)) + "\n"
        path_of(preset, table).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
