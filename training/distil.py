"""Trains a policy on what a search says of every action, round after round (expert iteration).

    python -m training.distil configs/classic-2p.yaml
    python -m training.distil configs/classic-2p.yaml --resume

Each round has a search label the decisions of many deals, on all cores, then fits policy and value
to the labels of all rounds so far; the policy that comes of it can move, play out and guide the
search of the next round (Anthony et al., Thinking Fast and Slow with Deep Learning and Tree Search,
2017). The run folder (``runs/NAME-SEED`` unless ``--run`` names another) holds, for each round, the
labels and the checkpoint, which every command and environment loads. A run that was stopped or
killed goes on with ``--resume``: finished shards and epochs are not done again.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from rich.console import Console
from torch import Tensor

from escoba_env.batch import MAX_SEED, Batch
from escoba_env.checks import whole
from escoba_env.encoding import VERSIONS, Encoding
from escoba_env.evaluation import cores, evaluate
from escoba_env.evaluation.duplicate import MAX_DEALS
from escoba_env.evaluation.pool import MAX_WORKERS, run_units
from escoba_env.evaluation.units import identify
from escoba_env.policies import load_policy
from escoba_env.policies.checkpoint import Card
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.policies.match_odds import mean_point, points_of
from escoba_env.policies.network import ILLEGAL_LOGIT, Choices, PolicyNetwork, choices_of
from escoba_env.rules import Rules, make_rules

from . import commands
from .commands import app_of
from .config import (
    MAX_THREADS,
    ConfigError,
    NetworkSettings,
    Settings,
    Weight,
)
from .folder import Folder, keep_until, read_lines, write_lines
from .labels import (
    TEACHER,
    LabelUnit,
    Shard,
    about_shard,
    joined,
    label,
    label_at,
)
from .ppo import check_size, starting_weights, take_weights, uses_bfloat16
from .progress import bar_of
from .resume_point import (
    restore_optimizer,
    restore_weights,
    resume_point,
    write_resume_point,
)

app = app_of(commands.distil)

POLICY = "{policy}"
"""In the name of a teacher or a behaviour: the policy of the round before."""
ENDGAME = "end-"
"""How files of labels of ``endgame_deals`` begin."""
CURVE = "learning.jsonl"
"""In the folder of a round: what each epoch came to."""
RESUME = "resume.pt"
"""In the folder of a round, until its policy is there: the epochs that are done."""
MAX_STEPS = 10**12
"""Gradient steps that a round can be said to have taken."""
VALIDATION_SHARDS = 1
"""Shards of each table and round that are not learned from: its last ones."""


class RoundSettings(Settings):
    """One round of expert iteration."""

    deals: int = Field(ge=2, le=MAX_DEALS)
    """Deals to label, of all tables together; whole matches for ``reward: win``."""
    teacher: str
    """The search that labels, such as ``search:worlds=64`` or ``search:rollout={policy}``."""
    behaviour: str = TEACHER
    """Who moves in these deals: a policy, or ``teacher``: whatever has the highest label."""
    explore: float = Field(0.1, ge=0, le=1)
    """Chance of a random action in its place."""
    scores: int = Field(0, ge=0, le=100)
    """Matches: further scores, drawn as matches come by them, at which each decision is labelled
    from the same play-outs; not those of ``endgame_deals``."""
    endgame_deals: int = Field(0, ge=0, le=MAX_DEALS)
    """Further deals, of all tables of two players together, of which only the last decisions are
    labelled, exactly."""
    endgame_behaviour: str = "counting"
    """Who moves in these deals, as for ``behaviour``, but not ``teacher``."""


class MeasureSettings(Settings):
    """What is measured after each round."""

    deals: int = Field(4000, ge=2, le=MAX_DEALS)
    """Duplicate deals of an evaluation."""
    against: tuple[str, ...] = ("greedy", "counting")
    """Policies to measure against."""
    seed: int = Field(1_000_003, ge=0, le=MAX_SEED)
    """Seed of these deals, apart from those that are learned from."""


class DistilConfig(Settings):
    """One experiment of expert iteration."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")
    """Name of the experiment, its run folder and its policy."""
    tables: tuple[dict[str, Any], ...] = Field(({},), min_length=1, max_length=100)
    """Tables to play at, each as fields of ``Rules`` and optionally ``preset``; deals are shared
    equally among them."""
    encoding: Literal["tactical", "universal_tactical"] = "tactical"
    """What the policy sees; ``universal_tactical`` for tables of different kinds."""
    memory: Literal["perfect", "visible"] = "perfect"
    """Whether the policy knows which cards have been captured."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of deals, exploration, initial weights and the order of learning."""
    start: str | None = None
    """A checkpoint whose weights are learned on from; default: new ones."""
    rounds: tuple[RoundSettings, ...] = Field(min_length=1, max_length=100)
    """The rounds."""
    shard_deals: int = Field(1000, ge=1, le=10**6)
    """Deals of one file of labels, the unit of work."""
    network: NetworkSettings = NetworkSettings(hidden=(256, 256, 256))
    """Shape of the network."""
    average: float = Field(1.0, gt=0, le=1)
    """With ``start``: share of what has been learned in the mean with its weights (Wortsman et al.,
    Robust fine-tuning of zero-shot models, 2022), after the last epoch."""
    afresh: bool = True
    """Whether each round learns from new weights, or from those of the round before."""
    epochs: int = Field(2, ge=1, le=1000)
    """Passes over all labels in each round."""
    endgame_once: bool = False
    """Whether each of the labels of ``endgame_deals`` is learned from in one of the epochs alone,
    and not in all of them: they are cheap, and many need not be in memory together."""
    minibatch: int = Field(2048, ge=2, le=10**6)
    """Decisions of one gradient step."""
    learning_rate: float = Field(1e-3, gt=0, le=1)
    """Learning rate of Adam at the start; it falls to zero as half a cosine."""
    weight_decay: float = Field(1e-4, ge=0, le=1)
    """Weight decay (AdamW; Loshchilov and Hutter, 2019)."""
    temperature: float = Field(0.2, ge=1e-6, le=1000)
    """Points of margin that are one unit of a logit: how sure the policy is when it is sampled."""
    value_weight: Weight = 0.25
    """Weight of the value loss."""
    reward: Literal["margin", "win"] = "margin"
    """What values are of: the margin of a round, or, in matches, what margins are worth at the
    score, which takes teachers with ``utility=win``."""
    reward_scale: float = Field(0.5, gt=0, le=1000)
    """Factor of values inside the network."""
    max_gradient: float = Field(1.0, gt=0, le=1e6)
    """Largest gradient norm."""
    measure: MeasureSettings = MeasureSettings()
    """What is measured after each round."""
    precision: Literal["float32", "bfloat16", "auto"] = "auto"
    """What the layers of the network are computed in, as for self-play."""
    threads: int = Field(1, ge=1, le=MAX_THREADS)
    """Threads of the learner."""

    @field_validator("tables")
    @classmethod
    def _possible(cls, tables: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        faults = []
        for number, table in enumerate(tables, 1):
            try:
                make_rules(table)
            except ValueError as error:
                faults.append(f"table {number}: {error}")
        if faults:
            raise ValueError("; ".join(faults))
        return tables

    @model_validator(mode="after")
    def _consistent(self) -> DistilConfig:
        faults = [*self._faults()]
        for number, settings in enumerate(self.rounds, 1):
            faults += self._faults_of_round(number, settings)
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _faults(self) -> Iterator[str]:
        columns = {tuple((s.name, s.shape) for s in e.sections) for e in self.encodings()}
        if len(columns) > 1:
            yield (
                f"observations of the tables have different layouts in encoding "
                f"{self.encoding!r}; allowed: encoding 'universal_tactical', or tables of one kind"
            )
        if self.average < 1 and (self.start is None or len(self.rounds) > 1):
            yield f"average={self.average} takes a start to average with, and one round alone"
        if self.reward == "win" and any(rules.num_sides != 2 for rules in self.all_rules()):
            yield "reward: win is possible at tables of two sides alone"

    def _faults_of_round(self, number: int, settings: RoundSettings) -> Iterator[str]:
        named = settings.teacher + settings.behaviour + settings.endgame_behaviour
        pairs = len(_of_two(self.all_rules()))
        asked = f"endgame_deals={settings.endgame_deals} of round {number}"
        if settings.endgame_deals and settings.endgame_behaviour == TEACHER:
            yield f"{asked} take an endgame_behaviour other than {TEACHER!r}, such as 'counting'"
        if settings.endgame_deals and not pairs:
            yield f"{asked} take a table of two players; tables has none"
        if 0 < -(-settings.endgame_deals // self.shard_deals) < pairs:
            yield (
                f"{asked} are fewer than a shard of shard_deals={self.shard_deals} for each of "
                f"{pairs} tables of two players; allowed: 0, or more than "
                f"{(pairs - 1) * self.shard_deals}"
            )
        if settings.scores and self.reward != "win":
            yield f"scores={settings.scores} of round {number} take reward: win"
        if number == 1 and self.start is None and POLICY in named:
            yield f"round 1 asks for {POLICY}, and there is none before it"
        shards = -(-settings.deals // self.shard_deals) // len(self.all_rules())
        if shards <= VALIDATION_SHARDS:
            yield (
                f"deals={settings.deals} of round {number} are fewer than "
                f"{VALIDATION_SHARDS + 1} shards of shard_deals={self.shard_deals} for each "
                f"table, of which the last is for validation"
            )

    def all_rules(self) -> list[Rules]:
        """Returns the rules of each table."""
        return [make_rules(table) for table in self.tables]

    def encodings(self) -> list[Encoding]:
        """Returns what the policy sees at each table."""
        return [
            Encoding(self.encoding, rules, self.episode, self.memory) for rules in self.all_rules()
        ]

    @property
    def episode(self) -> str:
        """What a game is: ``"round"``, or ``"match"`` for ``reward: win``."""
        return "match" if self.reward == "win" else "round"


class DistilFolder(Folder):
    """The folder of a run: ``config.yaml``, the last ``checkpoint``, and a folder for each round.

    Args:
        path: The folder.
        rounds: Number of rounds.
    """

    def __init__(self, path: Path, rounds: int) -> None:
        super().__init__(path)
        self.rounds = [path / f"round-{number + 1}" for number in range(rounds)]

    def folders(self) -> Iterator[Path]:
        """The folders that the run writes into, itself first."""
        yield self.path
        for home in self.rounds:
            yield from (home, home / "labels")

    def check(self, config: DistilConfig, resume: bool) -> None:
        """Checks that a run can begin here, or be gone on with; changes nothing.

        Raises:
            ConfigError: If not. Rounds may be added, and threads change.
        """
        if not resume:
            self.check_new()
            return
        before, now = self.started_with(DistilConfig).model_dump(), config.model_dump()
        changed = {
            key for key in now if key not in {"rounds", "threads"} and now[key] != before[key]
        }
        # What has been done stays as it is.
        if now["rounds"][: len(before["rounds"])] != before["rounds"]:
            changed.add("rounds")
        self.refuse_changes(changed, "only threads may change and rounds be added")


def distil(
    config: DistilConfig, folder: Path, *, resume: bool = False, workers: int | None = None
) -> LearnedPolicy:
    """Runs one experiment to its end.

    Everything is checked before the folder is touched.

    Args:
        config: Its settings.
        folder: Its run folder.
        resume: Go on with the run that is there.
        workers: Processes that label; default: one a core.

    Returns:
        The policy of the last round, as it has been saved.

    Raises:
        ConfigError: If the folder does not fit or another process has it, or if a teacher,
            behaviour or start cannot be loaded or does not fit.
        LabelError: If labels in the folder are damaged.
        ValueError: If a file cannot be written, or ``workers`` are not possible.
        OSError: If the folder cannot be made.
    """
    processes = cores() if workers is None else whole("workers", workers, 1, MAX_WORKERS)
    run = DistilFolder(folder, len(config.rounds))
    run.check(config, resume)
    _check_policies(config, run)
    with run.owned():
        # Another process may have been here since.
        run.check(config, resume)
        if resume:
            run.write_config(config)
        else:
            run.start(config)
        return _distilled(config, run, processes)


def _distilled(config: DistilConfig, run: DistilFolder, workers: int) -> LearnedPolicy:
    console = Console(stderr=True)
    torch.set_num_threads(config.threads)
    before = config.start
    labelled: list[tuple[LabelUnit, bool]] = []
    for number, home in enumerate(run.rounds):
        units = label_units(config, number, home, before)
        _make_labels(units, home, workers, console)
        ordinary = sum(not unit.endgame for unit in units)
        last = range(ordinary - VALIDATION_SHARDS * len(config.tables), ordinary)
        labelled += [(unit, place in last) for place, unit in enumerate(units)]
        checkpoint = home / "checkpoint"
        if not checkpoint.is_dir():
            _learn(config, number, home, labelled, before, console).save(checkpoint)
        # With the policy there the round is done.
        (home / RESUME).unlink(missing_ok=True)
        before = str(checkpoint)
    policy = LearnedPolicy.load(str(before))
    # The last policy where self-play leaves it too.
    policy.save(run.checkpoint)
    return policy


def _check_policies(config: DistilConfig, run: DistilFolder) -> None:
    """Has everybody decide once at every table, before anything is written.

    The policies of rounds to come are stood in for by one that has learned nothing.

    Raises:
        ConfigError: If a teacher, behaviour or opponent cannot be loaded or cannot do it, or the
            start does not fit; it names all of them.
    """
    shape, encoding = config.network.card(config.encodings()[0]), config.encodings()[0]
    try:
        check_size(shape)
    except ValueError as error:
        raise ConfigError(f"config {config.name}: {error}") from None
    faults: list[str] = []
    begun = (run.rounds[0] / "checkpoint").is_dir()
    if config.start is not None and not begun:
        try:
            starting_weights(shape, encoding, config.start, config.name)
        except ValueError as error:
            faults.append(_without_name(error, config))
    for table, rules in enumerate(config.all_rules(), 1):
        views = Batch(1, rules, episode=config.episode, skip_forced=True, seed=0).views()
        for name in config.measure.against:
            try:
                load_policy(name).act(views)
            except ValueError as error:
                faults.append(f"measure.against {name!r} at table {table}: {error}")
    with tempfile.TemporaryDirectory() as temporary:
        stand_in = str(Path(temporary) / "policy")
        asks = [POLICY in of.teacher + of.behaviour + of.endgame_behaviour for of in config.rounds]
        if any(asks[1:]):
            Learner(config.model_copy(update={"start": None}), 0, None).policy(0).save(stand_in)
        for number in range(len(config.rounds)):
            before = config.start if number == 0 else stand_in
            faults += _faults_of_teachers(config, number, run.path, before)
    if faults:
        # What is wrong at every table is said once.
        raise ConfigError(f"config {config.name}: {'; '.join(dict.fromkeys(faults))}")


def _faults_of_teachers(
    config: DistilConfig, number: int, folder: Path, before: str | None
) -> Iterator[str]:
    settings = config.rounds[number]
    try:
        units = label_units(config, number, folder, before)
    except ConfigError as error:
        yield _without_name(error, config)
        return
    for unit in units[: len(config.tables)]:
        views = Batch(1, unit.rules, episode=unit.episode, skip_forced=True, seed=0).views()
        try:
            teacher = load_policy(unit.teacher)
            if unit.scores:
                label_at(teacher, views, np.zeros((1, 1, 2), np.int64))
            else:
                label(teacher, views)
            moving = {unit.behaviour}
            if settings.endgame_deals:
                moving.add(settings.endgame_behaviour.replace(POLICY, before or ""))
            for behaviour in moving - {TEACHER}:
                load_policy(behaviour).act(views)
        except ValueError as error:
            yield f"round {number + 1} is not possible at table {unit.rules!r}: {error}"


def _without_name(error: Exception, config: DistilConfig) -> str:
    return str(error).removeprefix(f"config {config.name}: ")


def label_units(
    config: DistilConfig, number: int, home: Path, policy: str | None
) -> list[LabelUnit]:
    """Returns the shards of a round, table by table in turn.

    Args:
        config: The experiment.
        number: The round, from 0.
        home: Its folder.
        policy: What ``{policy}`` stands for.

    Raises:
        ConfigError: If the teacher or the behaviour cannot be loaded, or does not label.
    """
    settings = config.rounds[number]
    names = {}
    named = {"teacher": settings.teacher, "behaviour": settings.behaviour}
    if settings.endgame_deals:
        named["endgame_behaviour"] = settings.endgame_behaviour
    for role, name in named.items():
        names[role] = name.replace(POLICY, policy or "")
        try:
            loaded = None if names[role] == TEACHER else load_policy(names[role])
        except ValueError as error:
            raise ConfigError(
                f"config {config.name}: {role} of round {number + 1}: {error}"
            ) from None
        if role == "teacher" and not hasattr(loaded, "action_values"):
            raise ConfigError(
                f"config {config.name}: teacher {name!r} of round {number + 1} does not say what "
                f"every action is worth; allowed: a search, such as search:worlds=64"
            )
        if role == "teacher" and getattr(loaded, "utility", "margin") != config.reward:
            raise ConfigError(
                f"config {config.name}: teacher {name!r} of round {number + 1} does not value what "
                f"reward={config.reward!r} asks for; allowed: a search with utility={config.reward}"
            )
    rules = config.all_rules()
    per_table = -(-settings.deals // config.shard_deals) // len(rules)
    units = []
    for place in range(per_table):
        for table, of_table in enumerate(rules):
            units.append(
                LabelUnit(
                    path=str(home / "labels" / f"{place:04}-{table:02}.safetensors"),
                    rules=of_table,
                    # No two rounds, tables or runs share a deal.
                    seed=_seed_of(config.seed, number, table),
                    first=place * config.shard_deals,
                    deals=config.shard_deals,
                    explore=settings.explore,
                    episode=config.episode,
                    scores=settings.scores,
                    teacher=names["teacher"],
                    behaviour=names["behaviour"],
                )
            )
    of_two = _of_two(rules)
    shards = -(-settings.endgame_deals // config.shard_deals)
    for place in range(shards // len(of_two) if of_two else 0):
        for table, of_table in of_two.items():
            units.append(
                LabelUnit(
                    path=str(home / "labels" / f"{ENDGAME}{place:04}-{table:02}.safetensors"),
                    rules=of_table,
                    seed=_seed_of(config.seed, number, table + len(rules)),
                    first=place * config.shard_deals,
                    deals=config.shard_deals,
                    explore=settings.explore,
                    episode=config.episode,
                    teacher=names["teacher"],
                    behaviour=names["endgame_behaviour"],
                    endgame=True,
                )
            )
    return units


def _of_two(rules: list[Rules]) -> dict[int, Rules]:
    """Returns the tables of two players by number: near the end they know every card."""
    return {table: of_table for table, of_table in enumerate(rules) if of_table.players == 2}


def _seed_of(seed: int, number: int, table: int) -> int:
    """A seed far from those that people choose, such as those of the ladder and evaluations."""
    return int(np.random.SeedSequence((seed, number, table)).generate_state(1, np.uint64)[0] >> 2)


def _make_labels(units: list[LabelUnit], home: Path, workers: int, console: Console) -> None:
    """Makes the shards of a round that are not there yet."""
    missing = []
    for unit in units:
        if Path(unit.path).exists():
            unit.check_about(about_shard(Path(unit.path)))
        else:
            missing.append(unit)
    start = time.perf_counter()
    decisions = 0
    with bar_of(console) as bar:
        task = bar.add_task(
            f"{home.name}: labels", total=len(units), completed=len(units) - len(missing), info=""
        )
        for result in run_units(missing, workers=workers, identify=identify):
            decisions += result["decisions"]
            rate = decisions / (time.perf_counter() - start)
            info = f"{rate:,.0f} decisions/s, noise {result['noise']:.3f}"
            bar.update(task, advance=1, info=info)
    if missing:
        seconds = time.perf_counter() - start
        note = {"decisions": decisions, "seconds": round(seconds, 1), "workers": workers}
        console.print(f"{home.name}: {decisions:,} decisions labelled in {seconds:.0f} s")
        sittings = home / "labels.jsonl"
        write_lines(sittings, [*read_lines(sittings), note])


def _learn(
    config: DistilConfig,
    number: int,
    home: Path,
    labelled: list[tuple[LabelUnit, bool]],
    before: str | None,
    console: Console,
) -> LearnedPolicy:
    """Fits a network to the labels so far, and measures it."""
    always = []
    once: dict[str, list[LabelUnit]] = {}
    for unit, validates in labelled:
        if config.endgame_once and unit.endgame:
            once.setdefault(Path(unit.path).stem.rpartition("-")[2], []).append(unit)
        elif not validates:
            always.append(unit)
    # Each epoch sees a part of the labels of every table.
    parts = [
        [unit for of_table in once.values() for unit in of_table[epoch :: config.epochs]]
        for epoch in range(config.epochs)
    ]
    held_out = joined([unit.shard() for unit, validates in labelled if validates])
    data = joined([unit.shard() for unit in always])
    learner = Learner(config, number, before)
    begun = learner.restore(home / RESUME)
    _drop_unsaved(home / CURVE, begun)
    size = sum(len(shard.records) for shard in data)
    further = [sum(about_shard(Path(unit.path))["labelled"] for unit in part) for part in parts]
    total = sum(learner.steps_of(size + more) for more in further)
    with bar_of(console) as bar:
        task = bar.add_task(f"{home.name}: learning", total=config.epochs, completed=begun, info="")
        for epoch in range(begun, config.epochs):
            now = joined([unit.shard() for unit in parts[epoch]])
            loss = learner.epoch(
                [*data, *now], epoch, total, lambda share: bar.update(task, completed=share)
            )
            lost, error = learner.validate(held_out)
            text = (
                f"loss {loss:.4f}, held out: {lost:.4f} points lost a decision, value {error:.3f}"
            )
            bar.update(task, completed=epoch + 1, info=text)
            console.print(f"{home.name}, epoch {epoch + 1}: {text}")
            learned = {"epoch": epoch + 1, "loss": loss, "points_lost": lost, "value_error": error}
            # The line first: what is saved is in the list, and what is not is dropped from it.
            write_lines(home / CURVE, [*read_lines(home / CURVE), learned])
            learner.save(home / RESUME, epoch + 1)
    learner.average()
    policy = learner.policy(size + sum(further))
    strength = _measure(config, policy, console)
    about = policy.card.model_copy(update={"strength": strength})
    return LearnedPolicy(about, policy.network)


def _drop_unsaved(curve: Path, epochs: int) -> None:
    """Drops the line of an epoch that was not saved, and those that earlier versions wrote twice.

    Raises:
        ConfigError: If more epochs were learned than can be gone on with.
    """
    learned = [line.get("epoch", 0) for line in read_lines(curve)]
    if max(learned, default=0) > epochs + 1:
        raise ConfigError(
            f"{curve} has {max(learned)} epochs, and {RESUME} beside it is gone or older: put it "
            f"back, or remove {curve.name} to learn this round again"
        )
    keep_until(curve, epochs, "epoch")


def _measure(config: DistilConfig, policy: LearnedPolicy, console: Console) -> dict[str, Any]:
    settings = config.measure
    strength: dict[str, Any] = {}
    for place, rules in enumerate(config.all_rules()):
        for name in settings.against:
            result = evaluate(
                policy,
                name,
                rules,
                episode=config.episode,
                deals=settings.deals,
                seed=settings.seed,
            )
            key = name if len(config.tables) == 1 else f"{name} at table {place + 1}"
            strength[key] = {
                "margin": result.margin,
                "half_width": result.half_width,
                "deals": result.deals,
                "seed": result.seed,
            }
            console.print(
                f"{result.margin:+.3f} ± {result.half_width:.3f} against {name}"
                + ("" if len(config.tables) == 1 else f" at {config.tables[place]}")
            )
    return strength


class Learner:
    """A network that is fitted to labels.

    The policy learns by cross-entropy to draw labelled actions with probabilities ``softmax(labels
    / temperature)``; its logits become the values of actions up to a constant, in units of
    ``temperature``. Actions close to the best count most, as the choice is among them: regression
    to the values, which spends as much on the worst, chose worse after as many steps.

    Args:
        config: The experiment.
        number: The round, from 0.
        before: A checkpoint to learn on from, if the config asks for that.
    """

    def __init__(self, config: DistilConfig, number: int, before: str | None) -> None:
        self.config = config
        self.encodings = config.encodings()
        self.by_rules = dict(zip(config.all_rules(), self.encodings, strict=True))
        first = self.encodings[0]
        self.mean_points = (
            {rules: mean_point(rules) for rules in self.by_rules} if config.reward == "win" else {}
        )
        self.shape = config.network.card(first)
        self.number = number
        torch.manual_seed(np.random.SeedSequence((config.seed, number)).generate_state(1)[0])
        self.network = PolicyNetwork.of(self.shape)
        self.before: dict[str, Tensor] | None = None
        if before is not None and (number == 0 or not config.afresh):
            take_weights(self.network, self.shape, first, before, config.name)
            weights = self.network.state_dict().items()
            self.before = {key: value.clone() for key, value in weights}
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        self.low_precision = uses_bfloat16(config.precision)
        self.seconds = 0.0
        self.step = 0

    def steps_of(self, size: int) -> int:
        """Returns the number of gradient steps of an epoch of so many decisions."""
        return -(-size // self.config.minibatch)

    def epoch(
        self, data: list[Shard], epoch: int, total: int, on_progress: Callable[[float], None]
    ) -> float:
        """Learns from every label once; returns the mean loss."""
        config = self.config
        start = time.perf_counter()
        rng = np.random.default_rng((config.seed, self.number, epoch))
        losses = 0.0
        done = 0
        self.network.train()
        for parts in self._minibatches(data, rng):
            share = self.step / total
            rate = config.learning_rate * 0.5 * (1 + math.cos(math.pi * share))
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            choices, targets, values, weights = self._gather(data, parts)
            with torch.autocast("cpu", torch.bfloat16, enabled=self.low_precision):
                logits, expected = self.network.score(choices)
            policy_loss, value_loss = self._losses(logits, expected, targets, values, weights)
            loss = policy_loss + config.value_weight * value_loss
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), config.max_gradient)
            self.optimizer.step()
            losses += float(loss.detach())
            self.step += 1
            done += 1
            if done % 50 == 0:
                on_progress(epoch + min(1.0, done * config.epochs / total))
        self.seconds += time.perf_counter() - start
        if not math.isfinite(losses):
            raise ConfigError(
                f"config {config.name}: learning went astray (loss {losses}); a lower "
                f"learning_rate may help"
            )
        return losses / max(1, done)

    def validate(self, held_out: list[Shard]) -> tuple[float, float]:
        """Measures the network on labels that it has not seen.

        Returns:
            Points lost per decision: what the label of its choice is below the highest label. It
            is not zero for a perfect network, as labels are noisy. And the root of the mean square
            error of its values, in points.
        """
        lost, errors, number = 0.0, 0.0, 0
        self.network.eval()
        with torch.no_grad():
            for parts in self._minibatches(held_out, None):
                choices, targets, values, _ = self._gather(held_out, parts)
                logits, expected = self.network.score(choices)
                labelled = torch.where(targets.isnan(), -torch.inf, logits)
                chosen = targets.gather(1, labelled.argmax(1, keepdim=True)).squeeze(1)
                best = targets.nan_to_num(-torch.inf).amax(1)
                lost += float((best - chosen).sum())
                errors += float(((expected / self.config.reward_scale - values) ** 2).sum())
                number += len(values)
        return lost / number, math.sqrt(errors / number)

    def average(self) -> None:
        """Takes the mean with the weights that it began from, if the config asks for that."""
        share = self.config.average
        if self.before is not None and share < 1:
            learned = self.network.state_dict()
            self.network.load_state_dict(
                {key: (1 - share) * value + share * learned[key]
                 for key, value in self.before.items()}
            )  # fmt: skip

    def policy(self, decisions: int) -> LearnedPolicy:
        """Returns the network as a policy."""
        config = self.config
        first = self.encodings[0]
        card = Card(
            name=config.name,
            encoding=first.name,
            encoding_version=VERSIONS[first.name],
            memory=config.memory,
            rules=first.rules.as_dict(),
            episode=config.episode,
            network=self.shape,
            training={
                "method": "training.distil",
                "config": config.model_dump(mode="json"),
                "round": self.number + 1,
                "labels": decisions,
                "seconds": round(self.seconds, 1),
                "torch": torch.__version__,
            },
        )
        return LearnedPolicy(card, self.network)

    def save(self, path: Path, epochs: int) -> None:
        """Writes what it takes to go on after an epoch."""
        write_resume_point(
            path,
            {
                "network": self.network.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "epochs": epochs,
                "step": self.step,
                "seconds": self.seconds,
            },
        )

    def restore(self, path: Path) -> int:
        """Goes on where :meth:`save` left off; returns the number of epochs that are done.

        Raises:
            ConfigError: If the file is damaged.
        """
        if not path.exists():
            return 0
        with resume_point(path) as content:
            epochs = content.whole("epochs", 0, self.config.epochs)
            step = content.whole("step", 0, MAX_STEPS)
            seconds = content.seconds()
            restore_weights(self.network, content["network"], "network")
            restore_optimizer(self.optimizer, content["optimizer"])
            self.step, self.seconds = step, seconds
        return epochs

    def _losses(
        self, logits: Tensor, expected: Tensor, targets: Tensor, values: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        labelled = ~targets.isnan()
        # Not minus infinity, whose product with a probability of 0 is NaN.
        wanted = torch.log_softmax(
            torch.where(labelled, targets / self.config.temperature, ILLEGAL_LOGIT), 1
        )
        given = torch.log_softmax(torch.where(labelled, logits, ILLEGAL_LOGIT), 1)
        divergence = torch.where(labelled, wanted.exp() * (wanted - given), 0.0).sum(1)
        policy_loss = self.config.temperature * (weights * divergence).mean()
        errors = (expected / self.config.reward_scale - values) ** 2
        value_loss = (weights * errors).mean()
        return policy_loss, value_loss

    def _minibatches(
        self, data: list[Shard], rng: np.random.Generator | None
    ) -> Iterator[dict[int, NDArray[np.int64]]]:
        """Yields the decisions of each minibatch: rows of some shards, shuffled among all."""
        sizes = np.array([len(shard.records) for shard in data])
        ends = sizes.cumsum()
        order = np.arange(ends[-1])
        if rng is not None:
            rng.shuffle(order)
        size = self.config.minibatch
        for first in range(0, len(order), size):
            rows = np.sort(order[first : first + size])
            of = np.searchsorted(ends, rows, "right")
            yield {
                int(place): rows[of == place] - (ends[place] - sizes[place])
                for place in np.unique(of)
            }

    def _gather(
        self, data: list[Shard], parts: dict[int, NDArray[np.int64]]
    ) -> tuple[Choices, Tensor, Tensor, Tensor]:
        """Returns observations, labels, the value of the best action and weights of a minibatch.

        In matches a decision weighs what a point is worth at its score: where the match is as good
        as decided, labels say little, and that loudly.
        """
        observations, masks, labels, weights = [], [], [], []
        for place, rows in parts.items():
            shard = data[place]
            views = shard.views(rows)
            seen, legal = views.observe(self.by_rules[shard.rules])
            observations.append(seen)
            masks.append(legal)
            labels.append(shard.values[rows])
            if self.config.reward == "win":
                weights.append(points_of(views) / self.mean_points[shard.rules])
            else:
                weights.append(np.ones(len(rows)))
        dense = torch.from_numpy(np.concatenate(observations))
        choices = choices_of(dense, torch.from_numpy(np.concatenate(masks)))
        targets = torch.from_numpy(np.concatenate(labels))
        best = targets.nan_to_num(-torch.inf).amax(1)
        weight = torch.from_numpy(np.concatenate(weights).astype(np.float32))
        return choices, targets, best, weight


if __name__ == "__main__":
    app()
