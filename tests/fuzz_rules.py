"""Plays many numbered games across random rules beside the reference model.

    python tests/fuzz_rules.py --games 1000000 --processes 2 --seed 0

plays the games 0 to 999,999 of ``reference.compare.numbered_game`` and compares everything at every
turn. Of 128 games in a row each preset at each table (2, 3, 4 players, and partners) is played four
times: a round and a match as it is, and twice with rules drawn around it, once of these with a pack
of its own. So a million games play each of the 32 combinations at least 31,250 times.

A game depends on its number alone, so a long run can be done in parts: the numbers go from
``--seed`` up, and each line of progress says with which ``--seed`` to go on. The exit status is 1
if the engine and the model differ; the smallest number that does is named, and

    python tests/fuzz_rules.py --games 1 --seed NUMBER

plays it again. About 150 games a second and process on one free core of 2026.
"""

# ruff: noqa: T201, prints for a person

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from functools import partial
from typing import NamedTuple

from reference.compare import (
    COMBINATIONS,
    TABLES,
    numbered_game,
    play_numbered_game,
)
from reference.presets import PRESETS

KINDS = ("round", "match", "varied", "own pack")


class Chunk(NamedTuple):
    """What came of a range of games."""

    end: int
    """Number after the last game of the range."""
    games: Counter[tuple[str, str, str]]
    """Games by preset, table and kind."""
    rounds: Counter[tuple[str, str]]
    """Rounds by preset and table."""
    fault: str
    """How the first game that differs does so, or nothing."""


def play_chunk(numbers: range, max_rounds: int) -> Chunk:
    """Plays games up to the first that differs."""
    games: Counter[tuple[str, str, str]] = Counter()
    rounds: Counter[tuple[str, str]] = Counter()
    for number in numbers:
        preset, table, kind, fields, episode = numbered_game(number)
        try:
            reference = play_numbered_game(number, max_rounds)
        except Exception:  # noqa: BLE001
            fault = f"game {number} differs: {episode} of {fields}\n{traceback.format_exc()}"
            return Chunk(number, games, rounds, fault)
        games[preset, table, kind] += 1
        rounds[preset, table] += len(reference.reports)
    return Chunk(numbers.stop, games, rounds, "")


def table_of_totals(
    games: Counter[tuple[str, str, str]], rounds: Counter[tuple[str, str]]
) -> list[str]:
    """Returns the lines of the totals by preset and table."""
    columns = "".join(f"{kind:>10}" for kind in (*KINDS, "games", "rounds"))
    lines = [f"{'preset':<12}{'players':<10}{columns}"]
    for preset in PRESETS:
        for table in TABLES:
            of_kinds = [games[preset, table, kind] for kind in KINDS]
            numbers = [*of_kinds, sum(of_kinds), rounds[preset, table]]
            cells = "".join(f"{number:>10,}" for number in numbers)
            lines.append(f"{preset:<12}{table:<10}{cells}")
    return lines


def main() -> int:
    """Plays the games that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=1280, help="number of games")
    parser.add_argument("--seed", type=int, default=0, help="number of the first game")
    parser.add_argument("--processes", type=int, default=1, help="processes to play in")
    parser.add_argument("--max-rounds", type=int, default=2, help="rounds to play of a match")
    parser.add_argument("--chunk", type=int, default=256, help="games handed to a process at once")
    options = parser.parse_args()
    first, end = options.seed, options.seed + options.games
    least = options.games // len(COMBINATIONS)
    print(f"games {first} to {end - 1}: each preset and table at least {least:,} times", flush=True)

    chunks = [
        range(start, min(start + options.chunk, end)) for start in range(first, end, options.chunk)
    ]
    games: Counter[tuple[str, str, str]] = Counter()
    rounds: Counter[tuple[str, str]] = Counter()
    began, said, done, fault = time.monotonic(), 0.0, first, ""
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        # In order, so that the first fault that comes is the one of the smallest number.
        for chunk in pool.imap(partial(play_chunk, max_rounds=options.max_rounds), chunks):
            games += chunk.games
            rounds += chunk.rounds
            done, fault = chunk.end, chunk.fault
            if fault:
                break
            passed = time.monotonic() - began
            if passed - said > 30:
                said = passed
                speed = (done - first) / passed
                print(f"{done - first:,} games, {speed:.0f}/s; go on: --seed {done}", flush=True)

    print("\n".join(table_of_totals(games, rounds)))
    print(f"{done - first:,} games, {rounds.total():,} rounds, {time.monotonic() - began:.0f} s")
    if fault:
        print(fault, file=sys.stderr)
        print(f"smallest game that differs: --seed {done}", file=sys.stderr)
        return 1
    print(f"no difference; the next game is --seed {end}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
