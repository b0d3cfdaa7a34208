"""Labelled decisions: what a search says every action is worth, in shards on disk.

A shard is a ``safetensors`` file of the views of some decisions as game records, which any encoding
can be made of, and the values of their actions. The decisions come from whole rounds in which a
policy moves, with some random moves among them, so that the student is told what to do after its
own mistakes as well (DAgger; Ross et al., 2011).
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_tensors

from escoba_env.batch import Batch, Records, Views
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import one_of, whole
from escoba_env.engine.record import EPISODES, STATE, TWELFTHS, lower, pick_records
from escoba_env.evaluation.pool import Load, UnitOfWork
from escoba_env.files import MAX_TENSORS, check_regular, write_whole
from escoba_env.policies import Policy
from escoba_env.policies.match_odds import bend, bends_at, score_shares, scores_of, sides_to_move
from escoba_env.records import check_records
from escoba_env.rules import Rules, make_rules
from escoba_env.solver import Memory, SolverLimitError, make_memory, solvable, solve_views

TEACHER = "teacher"
"""As a behaviour: whatever has the highest label."""
GAMES_AT_ONCE = 256
MAX_NODES = 2_000_000
"""Positions for the exact value of one decision; one that takes more stays without labels."""
MAX_DECISIONS = 10**9
"""Decisions that a shard can be said to have."""
NOISE_DECISIONS = 1_000
"""Decisions of a shard that are labelled twice, to see how much labels vary."""

_LAYOUT = hashlib.sha256(repr(STATE.descr).encode()).hexdigest()[:16]
"""Which layout of game records the shards of this version hold."""

_BYTES = np.dtype((np.void, STATE.itemsize))
"""Records as bytes: NumPy copies them field by field, thirty times slower, if they are more."""

Floats = NDArray[np.float32]


class LabelError(ValueError):
    """A teacher that gives no labels, or a shard that is damaged or foreign."""


@dataclass(frozen=True)
class Shard:
    """A file of labelled decisions.

    Attributes:
        rules: The rules that they were made under.
        episode: ``"round"`` or ``"match"``: what a game was.
        records: Array (n,) of dtype ``STATE``: views of the seat to move.
        values: float32 (n, 43): margin of the round that each action leads to; ``nan`` where there
            is no label.
        about: How they were made, and what was seen then.
    """

    rules: Rules
    episode: str
    records: Records
    values: Floats
    about: dict[str, Any]

    def views(self, rows: Any) -> Views:
        """Returns some of the decisions; their keys are zeros."""
        records = pick_records(self.records, rows)
        return Views(
            self.rules,
            self.episode,
            lower(self.rules, self.episode),
            records,
            np.zeros(len(records), np.int64),
        )


@dataclass(frozen=True)
class LabelUnit(UnitOfWork):
    """The work of making one shard.

    Attributes:
        path: Its file.
        rules: Rules of the table.
        teacher: Name of the policy that labels: one with ``action_values``, such as a search.
        behaviour: Name of the policy that moves, or ``TEACHER``.
        explore: Chance of a random action in its place.
        seed: Seed of the deals.
        first: The first of them.
        deals: Number of them.
        episode: ``"round"`` or ``"match"``: what a game is; deals are whole matches then.
        endgame: Whether only decisions are labelled in which everything is known by counting, which
            the solver does without the teacher. The teacher then is no behaviour.
        scores: In matches, further scores, drawn as matches come by them, at which each decision is
            labelled from the same worlds.
    """

    path: str
    rules: Rules
    teacher: str
    behaviour: str
    explore: float
    seed: int
    first: int
    deals: int
    endgame: bool = False
    episode: str = "round"
    scores: int = 0

    def shard(self) -> Shard:
        """Reads the shard of this unit.

        Raises:
            LabelError: If it is damaged, or of other work.
        """
        shard = load_shard(Path(self.path))
        self.check_about(shard.about)
        if (shard.rules, shard.episode) != (self.rules, self.episode):
            raise LabelError(f"{self.path} holds labels of another table; make it again")
        return shard

    def check_about(self, about: dict[str, Any]) -> None:
        """Checks that a shard says of itself that it is of this work.

        Raises:
            LabelError: If not.
        """
        for name in ("seed", "first", "deals"):
            if about.get(name, getattr(self, name)) != getattr(self, name):
                raise LabelError(
                    f"{self.path} holds labels of other deals ({name}={about.get(name)!r:.40}, not "
                    f"{getattr(self, name)}): remove it, and it is made again"
                )

    def key(self, identify: Callable[[Any], str]) -> dict[str, Any]:
        """Returns everything that the shard depends on, for JSON."""
        moving = self.behaviour if self.behaviour == TEACHER else identify(self.behaviour)
        return {
            "labels": identify(self.teacher),
            "behaviour": moving,
            "explore": self.explore,
            "rules": self.rules.changes(),
            "seed": self.seed,
            "first": self.first,
            "deals": self.deals,
            "endgame": self.endgame,
            "episode": self.episode,
            "scores": self.scores,
        }

    def play(self, load: Load) -> dict[str, Any]:
        """Plays and labels the deals, writes the shard and returns what was seen."""
        start = time.perf_counter()
        memory = make_memory()
        teacher = load(self.teacher)
        behaviour = None if self.behaviour == TEACHER else load(self.behaviour)
        records, values = [], []
        for first in range(self.first, self.first + self.deals, GAMES_AT_ONCE):
            last = min(first + GAMES_AT_ONCE, self.first + self.deals)
            batch = Batch(last - first, self.rules, episode=self.episode, skip_forced=True)
            batch.reset(self.seed, game_indices=np.arange(first, last))
            rng = np.random.default_rng((self.seed, first))
            live = np.flatnonzero(~batch.over)
            while live.size:
                views = batch.views(live)
                labels = np.full((len(views), NUM_ACTIONS), np.nan, np.float32)
                rows = np.arange(len(views))
                if self.endgame:
                    rows = np.flatnonzero(solvable(views))
                if rows.size:
                    found = self._label(teacher, views[rows], memory, rng)
                    labels[rows] = found[0][1]
                    for some_records, some_values in found:
                        records.append(some_records)
                        values.append(some_values)
                batch.step(_choose(views, labels, behaviour, self.explore, rng), live)
                live = live[~batch.over[live]]
        all_records = np.concatenate([part.view(_BYTES) for part in records]).view(STATE)
        all_values = np.concatenate(values)
        labelled = (~np.isnan(all_values)).sum(1) > 1
        about = {
            "decisions": len(all_records),
            "labelled": int(labelled.sum()),
            "seconds": round(time.perf_counter() - start, 2),
            "noise": _noise(
                teacher,
                self.rules,
                self.episode,
                pick_records(all_records, labelled),
                all_values[labelled],
            ),
        }
        self._write(pick_records(all_records, labelled), all_values[labelled], about)
        return about

    def _label(
        self, teacher: Policy, views: Views, memory: Memory, rng: np.random.Generator
    ) -> list[tuple[Records, Floats]]:
        """Labels decisions at the score as it is, and then at each of the others."""
        if not self.scores:
            return [(views.records, label(teacher, views, memory))]
        shares = score_shares(self.rules)
        drawn = rng.choice(shares.size, size=(len(views), self.scores), p=shares.ravel())
        others = np.stack(np.unravel_index(drawn, shares.shape), axis=-1)
        side = sides_to_move(views)
        rows = np.arange(len(views))
        now = np.stack(scores_of(views), axis=-1)
        values = label_at(teacher, views, np.concatenate([now[:, None], others], axis=1), memory)
        found = [(views.records, values[:, 0])]
        for k in range(self.scores):
            records = views.records.copy()
            records["scores"][rows, side] = others[:, k, 0] * TWELFTHS
            records["scores"][rows, 1 - side] = others[:, k, 1] * TWELFTHS
            found.append((records, values[:, k + 1]))
        return found

    def _write(self, records: Records, values: Floats, about: dict[str, Any]) -> None:
        tensors: dict[str, NDArray[Any]] = {
            "records": np.frombuffer(records.tobytes(), np.uint8).reshape(len(records), -1),
            "values": np.ascontiguousarray(values, np.float32),
        }
        metadata = {
            "layout": _LAYOUT,
            "rules": json.dumps(self.rules.as_dict()),
            "about": json.dumps(
                {
                    **about,
                    "teacher": self.teacher,
                    "behaviour": self.behaviour,
                    "explore": self.explore,
                    "seed": self.seed,
                    "first": self.first,
                    "deals": self.deals,
                    "episode": self.episode,
                    "scores": self.scores,
                }
            ),
        }
        write_whole(self.path, save_tensors(tensors, metadata))


def label(teacher: Policy, views: Views, memory: Memory | None = None) -> Floats:
    """Returns the margin of the round that each action leads to, float32 (n, 43).

    Where a search leaves a decision to the exact solver, the exact values are asked for. ``nan``
    stands for illegal actions, for those that come to the same as another, and in all of a decision
    that takes the solver too long.

    Raises:
        LabelError: If the teacher has no ``action_values``.
    """
    find = getattr(teacher, "action_values", None)
    if find is None:
        raise LabelError(
            f"teacher {teacher.name!r} is not possible; allowed: policies that say what every "
            f"action is worth, such as search:worlds=64"
        )
    values: Floats = find(views).astype(np.float32)
    settled = np.flatnonzero(np.isnan(values).all(1))
    if settled.size and views.rules.num_sides == 2:
        settled = settled[solvable(views[settled])]
        _solve(views, settled, values, make_memory() if memory is None else memory)
        bend = getattr(teacher, "bend", None)
        if bend is not None and settled.size:
            values[settled] = bend(views[settled], values[settled].astype(np.float64))
    return values


def label_at(
    teacher: Policy, views: Views, scores: NDArray[np.int64], memory: Memory | None = None
) -> Floats:
    """Returns what each action is worth at some scores of the match, float32 (n, k, 43).

    Args:
        teacher: A search with ``utility=win``.
        views: Views of matches between two sides.
        scores: int64 (n, k, 2): whole points of the own and the other side.
        memory: The solver's memory.

    Raises:
        LabelError: If the teacher does not value actions at other scores.
    """
    find = getattr(teacher, "action_values_at", None)
    if find is None or getattr(teacher, "utility", "") != "win":
        raise LabelError(
            f"teacher {teacher.name!r} is not possible; allowed: policies that say what every "
            f"action is worth at other scores, such as search:worlds=64,utility=win"
        )
    values: Floats = find(views, scores).astype(np.float32)
    settled = np.flatnonzero(np.isnan(values[:, 0]).all(1))
    if settled.size:
        settled = settled[solvable(views[settled])]
        exact = np.full((len(views), NUM_ACTIONS), np.nan, np.float32)
        _solve(views, settled, exact, make_memory() if memory is None else memory)
        own, other = scores[settled, :, 0], scores[settled, :, 1]
        for k in range(scores.shape[1]):
            bends = bends_at(views.rules, own[:, k], other[:, k])
            values[settled, k] = bend(bends, exact[settled].astype(np.float64))
    return values


def _solve(views: Views, rows: NDArray[np.int64], values: Floats, memory: Memory) -> None:
    """Writes exact values of those decisions that have them."""
    try:
        solved = solve_views(views[rows], max_nodes=MAX_NODES, memory=memory).actions
    except SolverLimitError:
        # One of them takes too long; which one is soon found.
        if len(rows) > 1:
            middle = len(rows) // 2
            _solve(views, rows[:middle], values, memory)
            _solve(views, rows[middle:], values, memory)
        return
    values[rows] = np.where(_legal(views[rows]), solved, np.nan)


def load_shard(path: Path) -> Shard:
    """Reads a shard. Every game record and every label in it is checked.

    Raises:
        LabelError: If it is damaged, holds what no game can be, or is of another layout of game
            records.
    """
    with _open_shard(path) as (file, about):
        metadata = file.metadata()
        if metadata.get("layout") != _LAYOUT:
            raise LabelError(
                f"{path} holds game records of another version; make it again with this one"
            )
        rules = make_rules(json.loads(metadata["rules"]))
        episode = one_of("episode", about.get("episode", "round"), EPISODES)
        number = whole("labelled", about["labelled"], 0, MAX_DECISIONS)
        data = _tensor(file, "records", np.uint8, (number, STATE.itemsize))
        values = _tensor(file, "values", np.float32, (number, NUM_ACTIONS))
        records = np.frombuffer(data.tobytes(), STATE)
        check_records(rules, records, views=True)
        labelled = ~np.isnan(values)
        legal = (records["legal"][:, None] >> np.arange(NUM_ACTIONS)) & 1 == 1
        if np.isinf(values).any() or (labelled & ~legal).any() or (labelled.sum(1) < 2).any():
            raise ValueError(
                "its labels are not finite, of illegal actions, or of less than two actions"
            )
        return Shard(rules, episode, records, values, about)


def about_shard(path: Path) -> dict[str, Any]:
    """Returns how the labels of a shard were made and what was seen then, without reading them.

    Raises:
        LabelError: If it is damaged.
    """
    with _open_shard(path) as (_, about):
        return about


@contextmanager
def _open_shard(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Opens a shard; whatever is found wrong with it meanwhile is one kind of error."""
    try:
        check_regular(path, MAX_TENSORS)
        with safe_open(path, "np") as file:
            yield file, _checked(json.loads((file.metadata() or {})["about"]))
    except LabelError:
        raise
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise LabelError(f"{path} is no shard of labels, or is damaged: {error!s:.500}") from None


def _checked(about: dict[str, Any]) -> dict[str, Any]:
    whole("labelled", about["labelled"], 0, MAX_DECISIONS)
    if not 0 <= float(about["seconds"]) < math.inf:
        raise ValueError(f"seconds {about['seconds']!r:.40}; allowed: a finite number, 0 or more")
    return about


def _tensor(file: Any, name: str, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    found: NDArray[Any] = file.get_tensor(name)
    if found.dtype != dtype or found.shape != shape:
        raise ValueError(
            f"{name} are {found.dtype} of shape {found.shape}; "
            f"allowed: {np.dtype(dtype)} of shape {shape}"
        )
    return found


def joined(shards: Sequence[Shard]) -> list[Shard]:
    """Puts the shards of each table together, in order."""
    by_rules: dict[Rules, list[Shard]] = {}
    for shard in shards:
        by_rules.setdefault(shard.rules, []).append(shard)
    return [
        Shard(
            rules,
            parts[0].episode,
            np.concatenate([shard.records.view(_BYTES) for shard in parts]).view(STATE),
            np.concatenate([shard.values for shard in parts]),
            {"shards": [shard.about for shard in parts]},
        )
        for rules, parts in by_rules.items()
    ]


def _legal(views: Views) -> NDArray[np.bool_]:
    legal: NDArray[np.bool_] = (views.records["legal"][:, None] >> np.arange(NUM_ACTIONS)) & 1 == 1
    return legal


def _choose(
    views: Views,
    labels: Floats,
    behaviour: Policy | None,
    explore: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    legal = _legal(views)
    # A decision without labels is made at random, but by whoever does not need them.
    at_random = rng.random(len(views)) < explore
    if behaviour is not None:
        actions = behaviour.act(views)
    else:
        at_random |= np.isnan(labels).all(1)
        actions = np.where(np.isnan(labels), -np.inf, labels).argmax(1)
    drawn = np.where(legal, rng.random(legal.shape), -1.0).argmax(1)
    return np.where(at_random, drawn, actions)


def _noise(teacher: Policy, rules: Rules, episode: str, records: Records, values: Floats) -> float:
    """Standard deviation of a label's error: of centred values, labelled twice."""
    rows = np.unique(np.linspace(0, len(records) - 1, NOISE_DECISIONS).astype(np.int64))
    if not len(records):
        return 0.0
    # Other worlds than the first time: other keys.
    keys = np.random.default_rng(len(records)).integers(2**62, size=len(rows))
    views = Views(rules, episode, lower(rules, episode), pick_records(records, rows), keys)
    again, first = centred(label(teacher, views)), centred(values[rows])
    return float(np.sqrt(np.nanmean((again - first) ** 2) / 2))


def centred(values: Floats) -> Floats:
    """Returns values less their mean over the labelled actions of each decision."""
    result: Floats = values - np.nanmean(values, 1, keepdims=True)
    return result
