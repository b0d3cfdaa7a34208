"""``ladder``: the standard test, the same deals and opponents for everybody, and one score.

A ladder never changes: numbers of the same ladder can be compared, whoever measured them. Another
choice of deals, opponents or rules is another ladder, under the next name.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from escoba_env.batch import check_seed
from escoba_env.checks import one_of, quoted, whole
from escoba_env.engine.record import lower
from escoba_env.evaluation import seeds
from escoba_env.evaluation.duplicate import (
    MAX_DEALS,
    Pairing,
    duplicate_table,
    mean_interval,
    pairing_of,
)
from escoba_env.evaluation.pool import AnyWorkers, Store, check_workers
from escoba_env.evaluation.units import Stop, check_names, identify, play_tables, stop_with
from escoba_env.rules import PRESETS, make_rules
from escoba_env.version import package_version


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """What a ladder is.

    Attributes:
        name: Its name, under which numbers are published: ``"v1"``.
        preset: Preset of the rules; two players.
        episode: ``"round"`` or ``"match"``: what a game is.
        seed: Seed of its deals.
        deals: Deals against each opponent.
        opponents: Each opponent and its weight in the score, a number from 0; not all are 0.

    Raises:
        ValueError: If one of them is not possible, by name. Whether there is such an opponent is
            asked when the ladder is played.
    """

    name: str
    preset: str
    episode: str
    seed: int
    deals: int
    opponents: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        """Checks every field."""
        name: object = self.name
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"name {quoted(name)} of a ladder is not possible; allowed: text")
        one_of("preset", self.preset, PRESETS)
        lower(make_rules(self.preset), self.episode)
        # The plain numbers are kept: a narrow type of NumPy's would overflow in sums.
        object.__setattr__(self, "seed", check_seed(self.seed))
        object.__setattr__(self, "deals", whole("deals", self.deals, 2, MAX_DEALS))
        given: object = self.opponents
        pairs = isinstance(given, tuple) and all(
            isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
            for pair in given
        )
        if not pairs or not given:
            raise ValueError(
                f"opponents {quoted(given)} are not possible; allowed: a tuple of at least one "
                f"(policy, weight)"
            )
        weight: Any
        for opponent, weight in self.opponents:
            number = isinstance(weight, int | float) and not isinstance(weight, bool)
            if not number or not weight >= 0:
                raise ValueError(
                    f"weight {quoted(weight)} of opponent {quoted(opponent)} is not possible; "
                    f"allowed: a number from 0"
                )
        total = sum(weight for _, weight in self.opponents)
        # A whole number may be too large to be a float.
        if not 0 < total <= sys.float_info.max:
            raise ValueError(
                f"weights of opponents sum to {quoted(total)}; allowed: a sum above 0 that is a "
                f"number"
            )


# Never train, tune or choose a policy on the deals of a ladder's seed: its score would say how well
# these deals are known. Everything else in this project uses small seeds.
V1 = Ladder(
    name="v1",
    preset="classic",
    episode="round",
    seed=1_515_151_515,
    deals=2000,
    opponents=(("random", 1), ("greedy", 1), ("counting", 1), ("search:worlds=64", 1)),
)

LADDERS = MappingProxyType({V1.name: V1})
"""Every ladder there is, by name."""


@dataclass(frozen=True, kw_only=True)
class LadderScore:
    """Result of :func:`ladder`.

    Attributes:
        policy: The policy that was measured.
        ladder: Which ladder it was measured on.
        deals: Deals against each opponent.
        complete: Whether these are all of the ladder's deals; a score over fewer is no score of
            the ladder.
        score: Mean of the margins over the opponents, by their weights, per game.
        half_width: Half of the 95 % interval around ``score``, from its value in each deal.
        rungs: What the policy wins from each opponent.
        fresh: The same measurement on deals that were drawn for it; ``None`` if it was not asked
            for, or too little of it was finished.
        seconds: Time taken; left out when scores are compared.
        version: Version of the package that played.
    """

    policy: str
    ladder: Ladder
    deals: int
    complete: bool
    score: float
    half_width: float
    rungs: tuple[Pairing, ...]
    fresh: LadderScore | None = None
    seconds: float = dataclasses.field(compare=False)
    version: str

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of ``score``: low and high."""
        return self.score - self.half_width, self.score + self.half_width

    @property
    def gap(self) -> float | None:
        """``score`` less that on fresh deals: what knowing the ladder's deals would be worth."""
        return None if self.fresh is None else self.score - self.fresh.score

    @property
    def gap_half_width(self) -> float | None:
        """Half of the 95 % interval around ``gap``: the two scores are of different deals."""
        return None if self.fresh is None else math.hypot(self.half_width, self.fresh.half_width)

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        content = dataclasses.asdict(self)
        content["ladder"]["opponents"] = dict(self.ladder.opponents)
        return {
            **content,
            "interval": list(self.interval),
            "fresh": None if self.fresh is None else self.fresh.as_dict(),
            "gap": self.gap,
            "gap_half_width": self.gap_half_width,
        }


def ladder(
    policy: str | Path,
    ladder: str | Ladder = "v1",
    *,
    fresh: bool = False,
    workers: AnyWorkers = 1,
    folder: str | Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> LadderScore:
    """Measures a policy on a ladder: duplicate deals against each of its opponents.

    Args:
        policy: A name or folder, as ``load_policy`` takes it.
        ladder: One of ``LADDERS`` by name, or one of your own.
        fresh: Whether to measure the policy a second time, on as many deals whose seed is drawn
            now. The deals of a ladder are public, so a policy may have been made to know them.
        workers: Processes that play, as for ``evaluate``.
        folder: Where results are kept; what is there already is not played again. Fresh deals are
            kept for one policy: one whose files have changed is given others.
        on_progress: Called with the deals against all opponents and the rounds finished so far.

    Raises:
        ValueError: If an argument is not possible, by name.
        Interrupted: On Ctrl-C, with the result over the deals that were finished.
        StoreError: If results can no longer be kept, with the result as for ``Interrupted``.
    """
    if not isinstance(ladder, Ladder):
        ladder = LADDERS[one_of("ladder", ladder, LADDERS)]
    if not isinstance(fresh, bool):
        raise ValueError(f"fresh {quoted(fresh)} is not possible; allowed: True or False")
    (name,) = check_names("policy", [policy])
    check_names("opponent", [opponent for opponent, _ in ladder.opponents])
    workers = check_workers(workers)
    store = None if folder is None else Store(folder)
    before = latest = (0, 0)

    def show(deals: int, rounds: int) -> None:
        nonlocal latest
        latest = (before[0] + deals, before[1] + rounds)
        if on_progress is not None:
            on_progress(*latest)

    if store is not None:
        # So that nothing else that is kept there takes the ladder's seed for the folder's.
        seed = ladder.seed
        store.seed({"of": "ladder", "ladder": ladder.name, "seed": seed}, lambda: seed)
    result, stop = _climb(name, ladder, workers, store, show)
    if result is None:
        assert stop is not None
        raise stop
    if fresh and stop is None:
        before = latest
        purpose = {
            "of": "fresh deals",
            "ladder": ladder.name,
            "policy": identify(name),
            "package": package_version(),
        }
        seed = seeds.draw_seed() if store is None else store.seed(purpose, seeds.draw_seed)
        own = dataclasses.replace(ladder, name=f"{ladder.name}, fresh deals", seed=seed)
        second, stop = _climb(name, own, workers, store, show)
        result = dataclasses.replace(result, fresh=second)
    if stop is not None:
        stop_with(stop, result)
    return result


def _climb(
    policy: str,
    ladder: Ladder,
    workers: AnyWorkers,
    store: Store | None,
    on_progress: Callable[[int, int], None],
) -> tuple[LadderScore | None, Stop | None]:
    """Plays a ladder's deals; no score if fewer than two were finished before a stop."""
    rules = make_rules(ladder.preset)
    begin = time.perf_counter()
    played, stop = play_tables(
        [
            duplicate_table(policy, opponent, rules, ladder.episode)
            for opponent, _ in ladder.opponents
        ],
        deals=ladder.deals,
        seed=ladder.seed,
        workers=workers,
        store=store,
        on_progress=on_progress,
    )
    if stop is not None and played[0].deals < 2:
        return None, stop
    weights = [weight for _, weight in ladder.opponents]
    margins = [one.margins() / one.unit for one in played]
    score, half_width = mean_interval(np.average(margins, axis=0, weights=weights))
    result = LadderScore(
        policy=policy,
        ladder=ladder,
        deals=played[0].deals,
        complete=stop is None,
        score=score,
        half_width=half_width,
        rungs=tuple(pairing_of(one) for one in played),
        seconds=time.perf_counter() - begin,
        version=package_version(),
    )
    return result, stop
