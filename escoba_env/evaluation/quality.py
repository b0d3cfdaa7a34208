"""``decision_quality``: what a policy's decisions cost it, by the exact solver.

Two measures, both for two sides and over choices: a decision with one legal action says nothing.

- *Endgame*: decisions in which the seat to move knows every card by counting, with two players all
  of the last deal. Perfect play is then known, and what a decision loses is its own fault.
- *Double-dummy regret*: every decision, measured as if all cards had been known, the order of the
  stock too. No policy can have none, as it does not know them; lower is better all the same.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Batch, Records
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import whole
from escoba_env.engine import solve as kernels
from escoba_env.engine.record import lower
from escoba_env.evaluation.duplicate import (
    MAX_DEALS,
    duplicate_table,
    mean_interval,
)
from escoba_env.evaluation.pool import AnyWorkers, Load, StoreError, check_workers, run_units
from escoba_env.evaluation.seeds import open_store
from escoba_env.evaluation.units import (
    A,
    Stop,
    Unit,
    are_wholes,
    check_names,
    deals_at_once,
    identify,
    most_points,
    stop_with,
)
from escoba_env.policies.asking import ask
from escoba_env.rules import Rules, make_rules
from escoba_env.solver import NO_LIMIT, Memory, make_memory
from escoba_env.version import package_version

QUALITY_DEALS = 20
"""Deals of a unit: solving takes longer than playing."""
QUALITY_AT_ONCE = 2
"""Deals that are played by themselves: with partners, or building, some take minutes."""
MAX_NODES = 2_000_000
"""Most positions that the solver searches for a decision, about a second; a whole deal of
``classic`` takes some 15,000."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Result of :func:`decision_quality`.

    Attributes:
        policy: The policy that was measured.
        against: The policy in the other side's seats.
        rules: Rules of the table.
        deals: Deals, each played with the policy on either side.
        seed: Seed of the deals.
        complete: Whether these are all deals that were asked for.
        endgame_decisions: Choices with every card known by counting.
        endgame_optimal: Those in which no action was better than the chosen one.
        endgame_lost: Points lost in them, summed.
        decisions: Choices whose double-dummy value was found.
        unsolved: Choices that would have taken too long.
        regret: Double-dummy regret per round: points lost in its choices.
        regret_half_width: Half of the 95 % interval around ``regret``.
        seconds: Time taken; left out when results are compared.
        version: Version of the package that played.
    """

    policy: str
    against: str
    rules: Rules
    deals: int
    seed: int
    complete: bool
    endgame_decisions: int
    endgame_optimal: int
    endgame_lost: int
    decisions: int
    unsolved: int
    regret: float
    regret_half_width: float
    seconds: float = dataclasses.field(compare=False)
    version: str

    @property
    def optimal_share(self) -> float | None:
        """Share of the endgame's decisions that were optimal; ``None`` if there was none."""
        return self.endgame_optimal / self.endgame_decisions if self.endgame_decisions else None

    @property
    def lost_per_decision(self) -> float | None:
        """Points lost per decision of the endgame; ``None`` if there was none."""
        return self.endgame_lost / self.endgame_decisions if self.endgame_decisions else None

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON; ``rules`` as ``Rules.as_dict``."""
        return {
            **dataclasses.asdict(self),
            "rules": self.rules.as_dict(),
            "optimal_share": self.optimal_share,
            "lost_per_decision": self.lost_per_decision,
        }


@dataclass(frozen=True)
class QualityUnit(Unit):
    """Some deals of a table, in which the decisions of its first policy are measured."""

    def key(self, identify: Callable[[Any], str]) -> dict[str, Any]:
        """Returns everything that the result depends on, for JSON."""
        return {
            "quality": [identify(policy) for policy in self.table.policies],
            "rules": self.table.rules.changes(),
            "max_nodes": MAX_NODES,
            "seed": self.seed,
            "first": self.first,
            "deals": self.deals,
        }

    def play(self, load: Load) -> dict[str, Any]:
        """Plays the deals; returns counts, and the regret of each deal."""
        table = self.table
        rotations = len(table.seating)
        batch = Batch(self.deals * rotations, table.rules, skip_forced=True)
        indices = np.arange(self.first, self.first + self.deals)
        batch.reset(self.seed, game_indices=np.repeat(indices, rotations))
        chairs = np.tile(np.array(table.seating), (self.deals, 1))
        memory = make_memory()
        endgame = np.zeros(3, np.int64)
        regret = np.zeros(len(batch), np.int64)
        decisions = unsolved = 0
        live = np.flatnonzero(~batch.over)
        while live.size:
            waiting_for = chairs[live, batch.turn[live]]
            for number, policy in enumerate(table.policies):
                games = live[waiting_for == number]
                if not games.size:
                    continue
                views = batch.views(games)
                with self.naming_deals():
                    actions = ask(load(policy), views)
                if number == A:
                    # A round of which every decision is forced still has one of them.
                    legal = views.records["legal"]
                    choice = legal & (legal - 1) != 0
                    chosen, at = actions[choice], games[choice]
                    records = views.records[choice]
                    known = np.empty(len(records), np.bool_)
                    kernels.fill_in_views(batch.spec, records, known)
                    losses = _losses(batch.spec, records[known], chosen[known], memory)
                    solved = losses[losses >= 0]
                    endgame += len(solved), (solved == 0).sum(), solved.sum()
                    losses = _losses(batch.spec, batch.states[at], chosen, memory)
                    regret[at] += np.maximum(losses, 0)
                    decisions += int((losses >= 0).sum())
                    unsolved += int((losses < 0).sum())
                batch.step(actions, games)
            live = live[~batch.over[live]]
        return {
            "endgame": endgame.tolist(),
            "decisions": decisions,
            "unsolved": unsolved,
            "regret": regret.reshape(self.deals, rotations).sum(1).tolist(),
        }

    def fits(self, result: Any) -> bool:
        """Whether something that was read from a file can be what :meth:`play` returns."""
        names = {"endgame", "decisions", "unsolved", "regret"}
        if not isinstance(result, dict) or set(result) != names:
            return False
        rules = self.table.rules
        # A decision takes one card at least of those that a turn picks from.
        most = self.deals * len(self.table.seating) * rules.turns * NUM_ACTIONS
        counts = [result["decisions"], result["unsolved"]]
        if not are_wholes(counts, 2, 0, most) or sum(counts) > most:
            return False
        # Both sides at their worst and at their best.
        worth = 2 * most_points(rules)
        endgame, regret = result["endgame"], result["regret"]
        return (
            are_wholes(endgame, 3, 0, worth * most)
            and endgame[1] <= endgame[0] <= sum(counts)
            and endgame[2] <= worth * (endgame[0] - endgame[1])
            and are_wholes(regret, self.deals, 0, worth * most)
            and sum(regret) <= worth * counts[0]
        )


def _losses(
    spec: NDArray[Any], records: Records, actions: NDArray[np.int64], memory: Memory
) -> NDArray[np.int64]:
    """What each action loses, in points; -1 where that takes too long to find out."""
    values = np.zeros((len(records), NUM_ACTIONS), np.int64)
    nodes = np.empty(len(records), np.int64)
    unsolved = []
    begin = 0
    while begin < len(records):
        given_up = kernels.solve_games(
            spec, records[begin:], *memory, True, True, MAX_NODES, values[begin:], nodes[begin:]
        )
        if given_up < 0:
            break
        unsolved.append(begin + given_up)
        begin += given_up + 1
    best = values.max(1, initial=-NO_LIMIT)
    losses: NDArray[np.int64] = best - values[np.arange(len(records)), actions]
    losses[unsolved] = -1
    return losses


def decision_quality(
    policy: str | Path,
    rules: Any = "classic",
    *,
    against: str | Path = "greedy",
    deals: int = 100,
    seed: int | None = None,
    workers: AnyWorkers = 1,
    folder: str | Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **fields: Any,
) -> Quality:
    """Measures what a policy's decisions cost it; see the top of this file.

    Args:
        policy: A name or folder, as ``load_policy`` takes it.
        rules: A preset's name, a ``Rules`` or a mapping of fields; two sides.
        against: The policy in the other side's seats. What is decided depends on it.
        deals: Number of deals, at least 2; each is one round with the policy on either side.
        seed: Seed of the deals. Default: that of the folder, or else one that is drawn anew.
        workers: Processes that play, as for ``evaluate``.
        folder: Where results and a drawn seed are kept; what is there already is not played again.
        on_progress: Called with the deals and the rounds finished so far.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If an argument is not possible, by name.
        Interrupted: On Ctrl-C, with the result over the deals that were finished.
        StoreError: If results can no longer be kept, with the result as for ``Interrupted``.
    """
    table_rules = make_rules(rules, **fields)
    if table_rules.num_sides != 2:
        raise ValueError(
            f"players={table_rules.players}, partnership={table_rules.partnership} is not "
            f"possible: the solver is for two sides; allowed: 2 players, or 4 as a partnership"
        )
    lower(table_rules, "round")
    (name,) = check_names("policy", [policy])
    (opponent,) = check_names("policy", [against])
    deals = whole("deals", deals, 2, MAX_DEALS)
    workers = check_workers(workers)
    store, seed = open_store(folder, seed)
    table = duplicate_table(name, opponent, table_rules, "round")
    begin = time.perf_counter()
    parts: list[dict[str, Any]] = []
    done = 0

    at_once = min(QUALITY_AT_ONCE, *deals_at_once([table]))

    def units() -> Iterator[QualityUnit]:
        for first in range(0, deals, QUALITY_DEALS):
            yield QualityUnit(table, seed, first, min(QUALITY_DEALS, deals - first), at_once)

    results = run_units(
        units(),
        workers=workers,
        store=store,
        identify=identify,
    )
    stop: Stop | None = None
    try:
        with closing(results):
            for part in results:
                parts.append(part)
                done += len(part["regret"])
                if on_progress is not None:
                    on_progress(done, 2 * done)
    except (KeyboardInterrupt, StoreError) as error:
        stop = error
    if stop is not None and done < 2:
        raise stop
    optimal = np.sum([part["endgame"] for part in parts], axis=0).tolist()
    rounds = len(table.seating)
    regrets = np.concatenate([np.array(part["regret"], np.float64) for part in parts]) / rounds
    regret, half_width = mean_interval(regrets)
    result = Quality(
        policy=name,
        against=opponent,
        rules=table_rules,
        deals=done,
        seed=seed,
        complete=stop is None,
        endgame_decisions=optimal[0],
        endgame_optimal=optimal[1],
        endgame_lost=optimal[2],
        decisions=sum(part["decisions"] for part in parts),
        unsolved=sum(part["unsolved"] for part in parts),
        regret=regret,
        regret_half_width=half_width,
        seconds=time.perf_counter() - begin,
        version=package_version(),
    )
    if stop is not None:
        stop_with(stop, result)
    return result
