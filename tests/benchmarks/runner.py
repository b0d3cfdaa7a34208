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
        clock: How time is taken. ``"cpu"``: processor time, which other processes disturb little;
            for one thread. ``"wall"``: for several. ``"kind"``: the shorter of the two, for peers
            of several threads; a machine with other work must not make them look slow.
        most_repeats: Upper bound of repetitions, for slow cases.
        unit: What is counted.
    """

    name: str
    group: str
    setup: Callable[[], Ready]
    clock: str = "cpu"
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
    clock: str = "cpu"
    missing: str = ""
    note: str = ""
    decisions: list[int] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    """Of a ``Measure``."""

    def rates(self, clock: str = "") -> list[float]:
        """Decisions a second in each repetition, by a clock or the case's own."""
        times = zip(self.wall, self.cpu, strict=True)
        seconds = {
            "wall": self.wall,
            "cpu": self.cpu,
            "kind": [min(both) for both in times],
        }[clock or self.clock]
        return [n / took for n, took in zip(self.decisions, seconds, strict=True)]

    def numbers(self) -> list[float]:
        """The values, or the rates."""
        return self.values or self.rates()

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
        return {**base, "clock": self.clock, "note": self.note, **summary, **runs}


def from_dict(data: dict[str, Any]) -> Result:
    """The inverse of ``Result.as_dict``."""
    return Result(**{key: value for key, value in data.items() if key not in ("median", "spread")})


def ratio(left: Result, right: Result) -> float:
    """How many times as fast ``left`` was: the median over the rounds that both were in.

    Each is taken by its own clock, but both by wall time where ``left`` is.
    """
    clock = "wall" if left.clock == "wall" else ""
    pairs = zip(left.rates(clock), right.rates(clock), strict=False)
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
        result.clock = case.clock
        try:
            made = case.setup()
        except Missing as missing:
            result.missing = str(missing)
            continue
        result.note = made.note
        ready.append((case, result, made.play, enough(made.play, seconds)))
    gc.collect()
    # What is there now is not looked through again between any two repetitions.
    gc.freeze()
    for number in range(repeats):
        say(f"round {number + 1} of {repeats}")
        # There and back again, so that a machine that slows down steadily favours nobody.
        for case, result, play, decisions in ready if number % 2 == 0 else reversed(ready):
            if number < case.most_repeats:
                repeat(play, decisions, result)
    gc.unfreeze()
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
