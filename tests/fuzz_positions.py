"""Changes texts and states of games and checks that each is refused, or is a game all through.

    python tests/fuzz_positions.py --changes 1000000 --processes 2 --seed 0

The games are those of ``reference.compare.numbered_game``, all presets at all tables among them,
after some random picks; ``reference.changes`` makes the changes, and says what is asked of one that
is accepted. Each game is changed ``--each`` times. A game and its changes depend on its number
alone: the numbers go from ``--seed`` up, without it from one that is drawn and printed. The exit
status is 1 if a change that was accepted contradicts itself; it is printed, and

    python tests/fuzz_positions.py --changes 1 --seed NUMBER

makes the changes of its game again. About 200 changes a second and process on a free core of 2026.
"""

# ruff: noqa: T201, prints for a person

from __future__ import annotations

import argparse
import multiprocessing
import random
import secrets
import sys
import time
import traceback
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

from reference.changes import TEXT_CHANGES, check_accepted, with_another_number
from reference.compare import numbered_game

from escoba_env import Game


class Chunk(NamedTuple):
    """What came of the changes of a range of games."""

    end: int
    """Number after the last game of the range."""
    made: Counter[str]
    """Changes by kind."""
    accepted: Counter[str]
    """Those of them that were accepted."""
    presets: Counter[str]
    """Changes by preset."""
    fault: str
    """How the first game with one that contradicts itself does so, or nothing."""


def change_games(numbers: range, each: int) -> Chunk:
    """Changes games up to the first of which a change is wrong."""
    made: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    presets: Counter[str] = Counter()
    for number in numbers:
        preset, _, _, fields, episode = numbered_game(number)
        rng = random.Random(f"changes {number}")
        game = Game(fields, episode=episode, seed=number)
        for _ in range(rng.randint(0, 60)):
            if not game.is_over:
                game.step(rng.choice(game.legal_actions()))
        text, state = game.to_text(), game.get_state()
        done = 0
        while done < each:
            change = rng.choice([*TEXT_CHANGES, with_another_number])
            given: Any = state if change is with_another_number else text
            other = change(given, rng)
            if other == given:
                continue
            try:
                accepted[change.__name__] += try_change(game, other, rng)
            except Exception:  # noqa: BLE001
                fault = f"game {number}, {change.__name__}:\n{text}\n{other!r}\n"
                return Chunk(number, made, accepted, presets, fault + traceback.format_exc())
            done += 1
            made[change.__name__] += 1
            presets[preset] += 1
    return Chunk(numbers.stop, made, accepted, presets, "")


def try_change(game: Game, other: str | bytes, rng: random.Random) -> bool:
    """Tells whether a text or state is accepted, and checks the game that it is then."""
    changed = game.clone()
    try:
        if isinstance(other, bytes):
            changed.set_state(other)
        else:
            changed = Game.from_text(other)
    except ValueError:
        return False
    check_accepted(changed, rng)
    return True


def main() -> int:
    """Makes the changes that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=10_000, help="number of changes")
    parser.add_argument("--seed", type=int, help="number of the first game")
    parser.add_argument("--each", type=int, default=40, help="changes of each game")
    parser.add_argument("--processes", type=int, default=1, help="processes to work in")
    parser.add_argument("--chunk", type=int, default=32, help="games handed to a process at once")
    options = parser.parse_args()
    first = secrets.randbelow(2**40) if options.seed is None else options.seed
    end = first + -(-options.changes // options.each)
    print(f"games {first} to {end - 1}, {options.each} changes each", flush=True)
    chunks = [
        range(start, min(start + options.chunk, end)) for start in range(first, end, options.chunk)
    ]
    made: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    presets: Counter[str] = Counter()
    began, said, fault = time.monotonic(), 0.0, ""
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        # In order, so that the first fault that comes is the one of the smallest number.
        for chunk in pool.imap(partial(change_games, each=options.each), chunks):
            made += chunk.made
            accepted += chunk.accepted
            presets += chunk.presets
            fault = chunk.fault
            if fault:
                break
            passed = time.monotonic() - began
            if passed - said > 30:
                said = passed
                speed = made.total() / passed
                print(f"{made.total():,} changes, {speed:.0f}/s; go on: --seed {chunk.end}")
                sys.stdout.flush()
    for kind, number in sorted(made.items()):
        print(f"{kind:<24}{number:>10,} changes, {accepted[kind]:>8,} accepted")
    print("by preset: " + ", ".join(f"{name} {n:,}" for name, n in sorted(presets.items())))
    print(f"{made.total():,} changes, {time.monotonic() - began:.0f} s")
    if fault:
        print(fault, file=sys.stderr)
        return 1
    print(f"no difference; the next game is --seed {end}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
