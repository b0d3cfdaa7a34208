"""What is asked of the speed: each bar a ratio of two cases in one run, or a bound on one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.runner import Result, ratio


@dataclass(frozen=True)
class Bar:
    """``left`` at least ``bound`` times as fast as ``right``; without ``right``, at most ``bound``.

    Of several names on the left, the fastest counts.
    """

    left: tuple[str, ...]
    bound: float
    right: str = ""

    @property
    def text(self) -> str:
        left = " or ".join(self.left)
        if self.right:
            return f"{left} >= {self.bound:g} x {self.right}"
        return f"{left} <= {self.bound:g}"


@dataclass(frozen=True)
class Verdict:
    """What came of a bar; without a value it could not be checked."""

    bar: Bar
    value: float | None = None
    unit: str = ""
    missing: str = ""

    @property
    def holds(self) -> bool | None:
        if self.value is None:
            return None
        if self.bar.right:
            return self.value >= self.bar.bound
        return self.value <= self.bar.bound


BATCH = ("batch 1024", "batch 4096")
BARS = (
    Bar(BATCH, 8, "OpenSpiel hearts from Python"),
    Bar(BATCH, 8, "OpenSpiel crazy_eights from Python"),
    Bar(BATCH, 15, "pgx bridge_bidding"),
    Bar(BATCH, 3, "EnvPool Blackjack"),
    Bar(BATCH, 300, "PettingZoo texas_holdem"),
    Bar(("engine",), 2.5, "OpenSpiel hearts in C++"),
    Bar(("engine",), 2.5, "OpenSpiel dou_dizhu in C++"),
    Bar(("engine 2 threads",), 1.7, "engine"),
    Bar(("batch 1024 tactical",), 0.25, "batch 1024"),
    Bar(("aec",), 4, "PettingZoo texas_holdem"),
    Bar(("aec cheap sampler",), 6, "PettingZoo texas_holdem cheap sampler"),
    Bar(("sb3 vecenv 1024",), 0.6, "batch 1024"),
    Bar(("self-play",), 2, "stock MaskablePPO"),
    Bar(("a game of a batch",), 400),
    Bar(("first step, nothing compiled",), 20),
    Bar(("first step, compiled before",), 1.5),
)


def check(results: Sequence[Result]) -> list[Verdict]:
    """Returns the verdict on every bar whose cases were asked for."""
    found = {result.name: result for result in results}
    verdicts = []
    for bar in BARS:
        names = [*bar.left, *([bar.right] if bar.right else [])]
        if any(name in found for name in bar.left) and (not bar.right or bar.right in found):
            gone = [f"{name}: {found[name].missing}" for name in names if name in found]
            gone = [text for text in gone if not text.endswith(": ")]
            left = [found[n] for n in bar.left if n in found and not found[n].missing]
            right = found.get(bar.right)
            if not left or (right and right.missing):
                verdicts.append(Verdict(bar, missing="; ".join(gone)))
            elif right:
                value = max(ratio(result, right) for result in left)
                verdicts.append(Verdict(bar, value, "x"))
            else:
                verdicts.append(Verdict(bar, left[0].median, left[0].unit))
    return verdicts
