"""Times cases: all are set up, then their repetitions are interleaved, round after round.

A repetition plays a number of decisions that takes about the asked time. Interleaving is what makes
ratios fair on a machine that is not quiet: whatever slows it down slows down all cases of a round,
and ratios are formed within rounds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Play = Callable[[int], int]
"""Plays at least so many decisions, and returns how many they were."""

MIN_TRIAL = 0.03
"""Seconds that a trial has to take for its rate to be believed."""


class Missing(Exception):  # noqa: N818 - not a fault: the row says why it is empty
    """A case that cannot be run here; the message says why."""


@dataclass(frozen=True)
class Ready:
    """A case that has been set up."""

    play: Play
    note: str = ""
    """What the setup settled, such as the best batch size."""


@dataclass(frozen=True)
class Case:
    """Something that is timed.

    Attributes:
        name: Unique name, words separated by spaces.
        group: Heading in the table.
        setup: Makes it ready, or raises ``Missing``.
        threads: Threads that work for it. A case of one thread is timed by processor time, which
            other processes disturb less, one of several by wall time.
        most_repeats: Upper bound of repetitions, for slow cases.
        unit: What is counted.
    """

    name: str
    group: str
    setup: Callable[[], Ready]
    threads: int = 1
    most_repeats: int = 1000
    unit: str = "decisions/s"


@dataclass(frozen=True)
class Measure:
    """A number that is not a rate, such as seconds of a start; measured as often as is said.

    ``take`` returns it, and a note.
    """

    name: str
    group: str
    take: Callable[[], tuple[float, str]]
    unit: str
    repeats: int = 1


@dataclass
class Result:
    """What came of a case."""

    name: str
    group: str
    unit: str
    threads: int = 1
    missing: str = ""
    note: str = ""
    decisions: list[int] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    """Of a ``Measure``."""

    def rates(self, wall: bool) -> list[float]:
        """Decisions a second in each repetition, by wall or by processor time."""
        clock = self.wall if wall else self.cpu
        return [n / seconds for n, seconds in zip(self.decisions, clock, strict=True)]

    def numbers(self) -> list[float]:
        """The values, or the rates by the case's own clock."""
        return self.values or self.rates(wall=self.threads > 1)

    @property
    def median(self) -> float:
        return float(np.median(self.numbers()))

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        low, high = np.percentile(self.numbers(), (25, 75))
        return float(high - low) / 2 / self.median

    def as_dict(self) -> dict[str, Any]:
        base = {"name": self.name, "group": self.group, "unit": self.unit}
        if self.missing:
            return {**base, "missing": self.missing}
        summary = {"median": self.median, "spread": self.spread}
        if self.values:
            return {**base, "note": self.note, **summary, "values": self.values}
        runs = {"decisions": self.decisions, "wall": self.wall, "cpu": self.cpu}
        return {**base, "threads": self.threads, "note": self.note, **summary, **runs}


def from_dict(data: dict[str, Any]) -> Result:
    """The inverse of ``Result.as_dict``."""
    return Result(**{key: value for key, value in data.items() if key not in ("median", "spread")})


def ratio(left: Result, right: Result) -> float:
    """How many times as fast ``left`` was: the median over the rounds that both were in.

    Both are taken by processor time if both have one thread, else both by wall time.
    """
    wall = left.threads > 1 or right.threads > 1
    pairs = zip(left.rates(wall), right.rates(wall), strict=False)
    return float(np.median([ours / theirs for ours, theirs in pairs]))


def run(
    cases: Sequence[Case | Measure],
    repeats: int,
    seconds: float,
    say: Callable[[str], None] = lambda _: None,
) -> list[Result]:
    """Sets up all cases, then runs their repetitions in turn.

    Args:
        cases: What to time.
        repeats: Rounds.
        seconds: How long a repetition of a case should take.
        say: Is told what is being done.
    """
    results = []
    ready: list[tuple[Case, Result, Play, int]] = []
    measures: list[tuple[Measure, Result]] = []
    for case in cases:
        result = Result(case.name, case.group, case.unit)
        results.append(result)
        if isinstance(case, Measure):
            measures.append((case, result))
            continue
        say(f"setting up {case.name}")
        result.threads = case.threads
        try:
            made = case.setup()
        except Missing as missing:
            result.missing = str(missing)
            continue
        result.note = made.note
        ready.append((case, result, made.play, enough(made.play, seconds)))
    for number in range(repeats):
        say(f"round {number + 1} of {repeats}")
        # There and back again, so that a machine that slows down steadily favours nobody.
        for case, result, play, decisions in ready if number % 2 == 0 else reversed(ready):
            if number < case.most_repeats:
                repeat(play, decisions, result)
    for measure, result in measures:
        say(measure.name)
        for _ in range(measure.repeats):
            value, result.note = measure.take()
            result.values.append(value)
    return results


def enough(play: Play, seconds: float) -> int:
    """Warms a case up and returns how many decisions take about so many seconds."""
    play(1)
    decisions = 1
    while True:
        start = time.perf_counter()
        played = play(decisions)
        took = time.perf_counter() - start
        if took >= min(MIN_TRIAL, seconds):
            return max(1, int(played / took * seconds))
        decisions = 2 * played


def repeat(play: Play, decisions: int, result: Result) -> None:
    gc.collect()
    gc.disable()
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        played = play(decisions)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    finally:
        gc.enable()
    result.decisions.append(played)
    result.wall.append(wall)
    # A clock of coarse steps may not have moved.
    result.cpu.append(max(cpu, 1e-6))
