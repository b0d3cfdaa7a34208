"""``ladder``: the standard test, the same deals and opponents for everybody, and one score.

A ladder never changes: numbers of the same ladder can be compared, whoever measured them. Another
choice of deals, opponents or rules is another ladder, under the next name.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from escoba_env.batch import check_seed
from escoba_env.checks import one_of, whole
from escoba_env.engine.record import lower
from escoba_env.evaluation.duplicate import (
    MAX_DEALS,
    Pairing,
    duplicate_table,
    mean_interval,
    pairing_of,
)
from escoba_env.evaluation.pool import AnyWorkers, Store, check_workers
from escoba_env.evaluation.units import check_names, play_tables, stop_with
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
            raise ValueError(f"name {name!r} of a ladder is not possible; allowed: text")
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
                f"opponents {given!r} are not possible; allowed: a tuple of at least one "
                f"(policy, weight)"
            )
        weight: Any
        for opponent, weight in self.opponents:
            number = isinstance(weight, int | float) and not isinstance(weight, bool)
            if not number or not weight >= 0:
                raise ValueError(
                    f"weight {weight!r} of opponent {opponent!r} is not possible; allowed: a "
                    f"number from 0"
                )
        total = sum(weight for _, weight in self.opponents)
        if not 0 < total < math.inf:
            raise ValueError(
                f"weights of opponents sum to {total!r}; allowed: a sum above 0 that is a number"
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
    seconds: float = dataclasses.field(compare=False)
    version: str

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of ``score``: low and high."""
        return self.score - self.half_width, self.score + self.half_width

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        content = dataclasses.asdict(self)
        content["ladder"]["opponents"] = dict(self.ladder.opponents)
        return {**content, "interval": list(self.interval)}


def ladder(
    policy: str | Path,
    ladder: str | Ladder = "v1",
    *,
    workers: AnyWorkers = 1,
    folder: str | Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> LadderScore:
    """Measures a policy on a ladder: duplicate deals against each of its opponents.

    Args:
        policy: A name or folder, as ``load_policy`` takes it.
        ladder: One of ``LADDERS`` by name, or one of your own.
        workers: Processes that play, as for ``evaluate``.
        folder: Where results are kept; what is there already is not played again.
        on_progress: Called with the deals against all opponents and the rounds finished so far.

    Raises:
        ValueError: If an argument is not possible, by name.
        Interrupted: On Ctrl-C, with the result over the deals that were finished.
        StoreError: If results can no longer be kept, with the result as for ``Interrupted``.
    """
    if not isinstance(ladder, Ladder):
        ladder = LADDERS[one_of("ladder", ladder, LADDERS)]
    (name,) = check_names("policy", [policy])
    opponents = check_names("opponent", [opponent for opponent, _ in ladder.opponents])
    rules = make_rules(ladder.preset)
    begin = time.perf_counter()
    played, stop = play_tables(
        [duplicate_table(name, opponent, rules, ladder.episode) for opponent in opponents],
        deals=ladder.deals,
        seed=ladder.seed,
        workers=check_workers(workers),
        store=None if folder is None else Store(folder),
        on_progress=on_progress,
    )
    if stop is not None and played[0].deals < 2:
        raise stop
    weights = [weight for _, weight in ladder.opponents]
    margins = [one.margins() / one.unit for one in played]
    samples = np.average(margins, axis=0, weights=weights)
    score, half_width = mean_interval(samples)
    result = LadderScore(
        policy=name,
        ladder=ladder,
        deals=played[0].deals,
        complete=stop is None,
        score=score,
        half_width=half_width,
        rungs=tuple(pairing_of(one) for one in played),
        seconds=time.perf_counter() - begin,
        version=package_version(),
    )
    if stop is not None:
        stop_with(stop, result)
    return result
