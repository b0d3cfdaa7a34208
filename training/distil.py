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

import io
import json
import math
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import typer
import yaml
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from rich.console import Console
from torch import Tensor

from escoba_env.batch import Batch
from escoba_env.encoding import VERSIONS, Encoding
from escoba_env.evaluation import cores, evaluate
from escoba_env.evaluation.pool import run_units
from escoba_env.evaluation.units import identify
from escoba_env.files import MAX_TENSORS, read_whole, write_whole
from escoba_env.policies import load_policy
from escoba_env.policies.checkpoint import Card
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.policies.match_odds import mean_point, points_of
from escoba_env.policies.network import ILLEGAL_LOGIT, Choices, PolicyNetwork, choices_of
from escoba_env.rules import Rules, make_rules
from training.config import ConfigError, NetworkSettings, Settings, load_settings
from training.labels import (
    TEACHER,
    LabelError,
    LabelUnit,
    Shard,
    about_shard,
    joined,
    label,
    label_at,
    load_shard,
)
from training.ppo import take_weights, uses_bfloat16
from training.progress import bar_of

app = typer.Typer(add_completion=False)

POLICY = "{policy}"
"""In the name of a teacher or a behaviour: the policy of the round before."""
ENDGAME = "end-"
"""How files of labels of ``endgame_deals`` begin."""
CURVE = "learning.jsonl"
"""In the folder of a round: what each epoch came to."""
VALIDATION_SHARDS = 1
"""Shards of each table and round that are not learned from: its last ones."""


class RoundSettings(Settings):
    """One round of expert iteration."""

    deals: int = Field(ge=2)
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
    endgame_deals: int = Field(0, ge=0)
    """Further deals, of all tables of two players together, of which only the last decisions are
    labelled, exactly."""
    endgame_behaviour: str = "counting"
    """Who moves in these deals, as for ``behaviour``, but not ``teacher``."""


class MeasureSettings(Settings):
    """What is measured after each round."""

    deals: int = Field(4000, ge=2)
    """Duplicate deals of an evaluation."""
    against: tuple[str, ...] = ("greedy", "counting")
    """Policies to measure against."""
    seed: int = Field(1_000_003, ge=0)
    """Seed of these deals, apart from those that are learned from."""


class DistilConfig(Settings):
    """One experiment of expert iteration."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    """Name of the experiment, its run folder and its policy."""
    tables: tuple[dict[str, Any], ...] = Field(({},), min_length=1)
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
    rounds: tuple[RoundSettings, ...] = Field(min_length=1)
    """The rounds."""
    shard_deals: int = Field(1000, ge=1)
    """Deals of one file of labels, the unit of work."""
    network: NetworkSettings = NetworkSettings(hidden=(256, 256, 256))
    """Shape of the network."""
    average: float = Field(1.0, gt=0, le=1)
    """With ``start``: share of what has been learned in the mean with its weights (Wortsman et al.,
    Robust fine-tuning of zero-shot models, 2022), after the last epoch."""
    afresh: bool = True
    """Whether each round learns from new weights, or from those of the round before."""
    epochs: int = Field(2, ge=1)
    """Passes over all labels in each round."""
    endgame_once: bool = False
    """Whether each of the labels of ``endgame_deals`` is learned from in one of the epochs alone,
    and not in all of them: they are cheap, and many need not be in memory together."""
    minibatch: int = Field(2048, ge=2)
    """Decisions of one gradient step."""
    learning_rate: float = Field(1e-3, gt=0)
    """Learning rate of Adam at the start; it falls to zero as half a cosine."""
    weight_decay: float = Field(1e-4, ge=0)
    """Weight decay (AdamW; Loshchilov and Hutter, 2019)."""
    temperature: float = Field(0.2, gt=0)
    """Points of margin that are one unit of a logit: how sure the policy is when it is sampled."""
    value_weight: float = Field(0.25, ge=0)
    """Weight of the value loss."""
    reward: Literal["margin", "win"] = "margin"
    """What values are of: the margin of a round, or, in matches, what margins are worth at the
    score, which takes teachers with ``utility=win``."""
    reward_scale: float = Field(0.5, gt=0)
    """Factor of values inside the network."""
    max_gradient: float = Field(1.0, gt=0)
    """Largest gradient norm."""
    measure: MeasureSettings = MeasureSettings()
    """What is measured after each round."""
    precision: Literal["float32", "bfloat16", "auto"] = "auto"
    """What the layers of the network are computed in, as for self-play."""
    threads: int = Field(1, ge=1)
    """Threads of the learner."""

    @field_validator("tables")
    @classmethod
    def _possible(cls, tables: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        for table in tables:
            make_rules(table)
        return tables

    @model_validator(mode="after")
    def _consistent(self) -> DistilConfig:
        columns = {tuple((s.name, s.shape) for s in e.sections) for e in self.encodings()}
        if len(columns) > 1:
            raise ValueError(
                f"observations of the tables have different layouts in encoding "
                f"{self.encoding!r}; allowed: encoding 'universal_tactical', or tables of one kind"
            )
        if self.average < 1 and (self.start is None or len(self.rounds) > 1):
            raise ValueError(
                f"average={self.average} takes a start to average with, and one round alone"
            )
        if self.reward == "win" and any(rules.num_sides != 2 for rules in self.all_rules()):
            raise ValueError("reward: win is possible at tables of two sides alone")
        for number, settings in enumerate(self.rounds, 1):
            named = settings.teacher + settings.behaviour + settings.endgame_behaviour
            pairs = len(_of_two(self.all_rules()))
            asked = f"endgame_deals={settings.endgame_deals} of round {number}"
            if settings.endgame_deals and settings.endgame_behaviour == TEACHER:
                raise ValueError(
                    f"{asked} take an endgame_behaviour other than {TEACHER!r}, such as 'counting'"
                )
            if settings.endgame_deals and not pairs:
                raise ValueError(f"{asked} take a table of two players; tables has none")
            if 0 < -(-settings.endgame_deals // self.shard_deals) < pairs:
                raise ValueError(
                    f"{asked} are fewer than a shard of shard_deals={self.shard_deals} for each of "
                    f"{pairs} tables of two players; allowed: 0, or more than "
                    f"{(pairs - 1) * self.shard_deals}"
                )
            if settings.scores and self.reward != "win":
                raise ValueError(f"scores={settings.scores} of round {number} take reward: win")
            if number == 1 and self.start is None and POLICY in named:
                raise ValueError(f"round 1 asks for {POLICY}, and there is none before it")
            shards = -(-settings.deals // self.shard_deals) // len(self.all_rules())
            if shards <= VALIDATION_SHARDS:
                raise ValueError(
                    f"deals={settings.deals} of round {number} are fewer than "
                    f"{VALIDATION_SHARDS + 1} shards of shard_deals={self.shard_deals} for each "
                    f"table, of which the last is for validation"
                )
        return self

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


def distil(
    config: DistilConfig, folder: Path, *, resume: bool = False, workers: int | None = None
) -> LearnedPolicy:
    """Runs one experiment to its end.

    Args:
        config: Its settings.
        folder: Its run folder.
        resume: Go on with the run that is there.
        workers: Processes that label; default: one a core.

    Returns:
        The policy of the last round, as it has been saved.

    Raises:
        ConfigError: If the folder does not fit, or a teacher or behaviour cannot be loaded.
    """
    _check_teachers(config, folder)
    _open(config, folder, resume)
    console = Console(stderr=True)
    torch.set_num_threads(config.threads)
    before = config.start
    shards: list[tuple[Path, bool]] = []
    policy: LearnedPolicy | None = None
    for number in range(len(config.rounds)):
        home = folder / f"round-{number + 1}"
        units = label_units(config, number, home, before)
        _make_labels(units, home, workers or cores(), console)
        whole = sum(not unit.endgame for unit in units)
        last = range(whole - VALIDATION_SHARDS * len(config.tables), whole)
        shards += [(Path(unit.path), place in last) for place, unit in enumerate(units)]
        checkpoint = home / "checkpoint"
        if not checkpoint.is_dir():
            policy = _learn(config, number, home, shards, before, console)
            policy.save(checkpoint)
            (home / "resume.pt").unlink(missing_ok=True)
        before = str(checkpoint)
    policy = LearnedPolicy.load(str(before))
    # The last policy where self-play leaves it too.
    policy.save(folder / "checkpoint")
    return policy


def _check_teachers(config: DistilConfig, folder: Path) -> None:
    """Has everybody decide once at every table, before anything is written.

    Raises:
        ConfigError: If a teacher or behaviour cannot be loaded or cannot do it.
    """
    for number, settings in enumerate(config.rounds):
        if POLICY in settings.teacher + settings.behaviour + settings.endgame_behaviour:
            continue
        for unit in label_units(config, number, folder, config.start)[: len(config.tables)]:
            views = Batch(1, unit.rules, episode=unit.episode, skip_forced=True, seed=0).views()
            try:
                teacher = load_policy(unit.teacher)
                if unit.scores:
                    label_at(teacher, views, np.zeros((1, 1, 2), np.int64))
                else:
                    label(teacher, views)
                for behaviour in {unit.behaviour, settings.endgame_behaviour} - {TEACHER}:
                    load_policy(behaviour).act(views)
            except ValueError as error:
                raise ConfigError(
                    f"config {config.name}: round {number + 1} is not possible at table "
                    f"{unit.rules!r}: {error}"
                ) from None


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


def _open(config: DistilConfig, folder: Path, resume: bool) -> None:
    """Makes or checks the run folder.

    Raises:
        ConfigError: If it does not fit.
    """
    kept = folder / "config.yaml"
    if resume:
        if not kept.is_file():
            raise ConfigError(f"there is no run to resume in {folder}")
        before, now = load_settings(DistilConfig, kept).model_dump(), config.model_dump()
        # What has been done stays as it is; rounds can be added.
        done = len(before["rounds"])
        changed = [
            key for key in now if key not in {"rounds", "threads"} and now[key] != before[key]
        ]
        if now["rounds"][:done] != before["rounds"]:
            changed.append("rounds")
        if changed:
            raise ConfigError(
                f"the run in {folder} was started with another config: {', '.join(changed)} "
                f"differ; only threads may change and rounds be added"
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"run folder {folder} is not an empty folder: go on with --resume, or choose another "
            f"with --run"
        )
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
    write_whole(kept, text)


def _make_labels(units: list[LabelUnit], home: Path, workers: int, console: Console) -> None:
    """Makes the shards of a round that are not there yet."""
    missing = [unit for unit in units if not Path(unit.path).is_file()]
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
        with (home / "labels.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")


def _learn(
    config: DistilConfig,
    number: int,
    home: Path,
    shards: list[tuple[Path, bool]],
    before: str | None,
    console: Console,
) -> LearnedPolicy:
    """Fits a network to the labels so far, and measures it."""
    paths = [path for path, validates in shards if not validates]
    always = []
    once: dict[str, list[Path]] = {}
    for path in paths:
        if config.endgame_once and path.name.startswith(ENDGAME):
            once.setdefault(path.stem.rpartition("-")[2], []).append(path)
        else:
            always.append(path)
    # Each epoch sees a part of the labels of every table.
    parts = [
        [path for of_table in once.values() for path in of_table[epoch :: config.epochs]]
        for epoch in range(config.epochs)
    ]
    held_out = joined([load_shard(path) for path, validates in shards if validates])
    data = joined([load_shard(path) for path in always])
    learner = Learner(config, number, before)
    begun = learner.restore(home / "resume.pt")
    size = sum(len(shard.records) for shard in data)
    further = [sum(about_shard(path)["labelled"] for path in part) for part in parts]
    total = sum(learner.steps_of(size + more) for more in further)
    with bar_of(console) as bar:
        task = bar.add_task(f"{home.name}: learning", total=config.epochs, completed=begun, info="")
        for epoch in range(begun, config.epochs):
            now = joined([load_shard(path) for path in parts[epoch]])
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
            with (home / CURVE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(learned) + "\n")
            learner.save(home / "resume.pt", epoch + 1)
    learner.average()
    policy = learner.policy(size + sum(further))
    strength = _measure(config, policy, console)
    about = policy.card.model_copy(update={"strength": strength})
    return LearnedPolicy(about, policy.network)


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
        buffer = io.BytesIO()
        torch.save(
            {
                "network": self.network.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "epochs": epochs,
                "step": self.step,
                "seconds": self.seconds,
            },
            buffer,
        )
        write_whole(path, buffer.getvalue())

    def restore(self, path: Path) -> int:
        """Goes on where :meth:`save` left off; returns the number of epochs that are done.

        Raises:
            ConfigError: If the file is damaged.
        """
        if not path.exists():
            return 0
        try:
            content = torch.load(io.BytesIO(read_whole(path, MAX_TENSORS)), weights_only=True)
            self.network.load_state_dict(content["network"])
            self.optimizer.load_state_dict(content["optimizer"])
            self.step, self.seconds = int(content["step"]), float(content["seconds"])
            return int(content["epochs"])
        except (
            pickle.UnpicklingError, RuntimeError, LookupError, ValueError, EOFError, OSError,
            TypeError, AttributeError,
        ) as error:  # fmt: skip
            raise ConfigError(f"{path} cannot be resumed from: {error}") from error

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


@app.command()
def main(
    config: Annotated[Path, typer.Argument(help="A YAML file of settings.")],
    resume: Annotated[bool, typer.Option(help="Go on with the run that is there.")] = False,
    seed: Annotated[int | None, typer.Option(help="Seed in place of the config's.")] = None,
    run: Annotated[Path | None, typer.Option(help="Run folder.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that label; default: one a core.")
    ] = None,
) -> None:
    """Trains a policy on the labels of a search."""
    try:
        settings = load_settings(DistilConfig, config, **({} if seed is None else {"seed": seed}))
        folder = run or Path("runs") / f"{settings.name}-{settings.seed}"
        distil(settings, folder, resume=resume, workers=workers)
    except (ConfigError, LabelError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        print("stopped; what is finished is kept: go on with --resume", file=sys.stderr)
        raise typer.Exit(130) from None
    print(f"policy: {folder / 'checkpoint'}")


if __name__ == "__main__":
    app()
