"""The settings of training runs: typed, checked, one YAML file for each experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from escoba_env.batch import MAX_SEED
from escoba_env.checks import path_of, quoted
from escoba_env.encoding import Encoding
from escoba_env.evaluation.duplicate import MAX_DEALS
from escoba_env.policies.checkpoint import NetworkCard, Width
from escoba_env.rules import Rules, make_rules

from .yaml_files import read_yaml

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
"""The shipped configs: of a checkout, or of the installed package."""

MAX_DECISIONS = 10**15
"""Years of training."""
MAX_ROLLOUT = 1 << 24
"""Decisions between two updates: about 22 GB of them."""
MAX_THREADS = 1024

Decisions = Annotated[int, Field(ge=1, le=MAX_DECISIONS)]
Weight = Annotated[float, Field(ge=0, le=1000)]
"""Of a term of the loss."""


class ConfigError(ValueError):
    """A config that cannot be run; the message names each key, its value and what is wrong."""


class Settings(BaseModel):
    """Checked settings: no key that is not known, and no change after they have been read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NetworkSettings(Settings):
    """Shape of the network."""

    hidden: tuple[Width, ...] = Field((256, 256), min_length=1, max_length=64)
    """Widths of the trunk that policy and value share."""
    action_hidden: Width = 128
    """Width of the head that scores each legal action."""
    action_layers: int = Field(1, ge=1, le=64)
    """Layers of that width after the one that takes its inputs."""
    state_to_head: bool = False
    """Whether the head takes the state itself, too."""

    def card(self, encoding: Encoding) -> NetworkCard:
        """Returns the shape of such a network for observations of an encoding."""
        return NetworkCard(state_size=encoding.layout()["facts"].start, **self.model_dump())


class LeagueSettings(Settings):
    """Opponents that are drawn by how hard they are."""

    share: float = Field(0.5, gt=0, le=1)
    """Share of games against the league."""
    members: tuple[str, ...] = ("counting",)
    """Policies that are always in it."""
    size: int = Field(4, ge=0, le=1000)
    """Places for past selves; a new one takes the place of the easiest."""
    every: Decisions = 500_000
    """Decisions after which the learner as it is becomes a past self."""
    power: float = Field(1.0, ge=0, le=100)
    """How much harder opponents are preferred; 0: all alike."""

    @model_validator(mode="after")
    def _somebody(self) -> LeagueSettings:
        if not self.members and not self.size:
            raise ValueError("a league without members and with size=0 is empty")
        return self


class EvaluationSettings(Settings):
    """What is measured while training goes on."""

    every: Decisions = 250_000
    """Decisions between two evaluations."""
    deals: int = Field(500, ge=2, le=MAX_DEALS)
    """Duplicate deals of an evaluation."""
    against: tuple[str, ...] = ("greedy",)
    """Policies to measure against; the first is the one that the progress bar shows."""
    seed: int = Field(1_000_003, ge=0, le=MAX_SEED)
    """Seed of the evaluation deals, apart from those that are trained on."""
    keep_best: bool = False
    """Whether the policy of the best evaluation against the first of ``against`` is kept, too, in
    ``best``: of the highest margin, or for ``reward: win`` of most games won less those lost; the
    start is evaluated as well then."""

    @model_validator(mode="after")
    def _somebody(self) -> EvaluationSettings:
        if self.keep_best and not self.against:
            raise ValueError("keep_best takes somebody to measure against")
        return self


class Config(Settings):
    """One self-play experiment."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")
    """Name of the experiment, its run folder and its policy."""
    rules: dict[str, Any] = {}
    """Fields of ``Rules``, and optionally ``preset``."""
    episode: Literal["round", "match"] = "round"
    """What one game is."""
    reward: Literal["margin", "points", "win"] = "margin"
    """What is learned."""
    reward_timing: Literal["round_end", "as_earned"] = "round_end"
    """When escobas are rewarded: with the round, or at once."""
    encoding: Literal["tactical", "universal_tactical"] = "tactical"
    """What the policy sees; both end with the facts that the action head reads."""
    memory: Literal["perfect", "visible"] = "perfect"
    """Whether the policy knows which cards have been captured."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of deals, exploration and initial weights."""
    start: str | None = None
    """A checkpoint of the same network whose weights are learned on from; default: new ones."""
    decisions: Decisions
    """Decisions to learn from, of all seats together."""
    games: int = Field(512, ge=1, le=MAX_ROLLOUT)
    """Games played side by side."""
    steps: int = Field(64, ge=2, le=MAX_ROLLOUT)
    """Decisions of each game between two updates."""
    learning_rate: float = Field(3e-4, gt=0, le=1)
    """Learning rate of Adam at the start."""
    final_learning_rate: float = Field(0.0, ge=0, le=1)
    """Learning rate at the end; it falls linearly."""
    epochs: int = Field(4, ge=1, le=1000)
    """Passes over the decisions of an update."""
    minibatch: int = Field(4096, ge=2, le=MAX_ROLLOUT)
    """Decisions of one gradient step."""
    gae_lambda: float = Field(0.95, ge=0, le=1)
    """Weight of longer returns in advantages (Schulman et al., 2016)."""
    clip: float = Field(0.2, gt=0, le=1000)
    """Clipping of the probability ratio (Schulman et al., 2017)."""
    entropy: Weight = 0.01
    """Weight of the entropy bonus."""
    value_weight: Weight = 0.5
    """Weight of the value loss."""
    reward_scale: float = Field(0.5, gt=0, le=1000)
    """Factor of rewards inside the learner, so that value and policy losses are of one size."""
    max_gradient: float = Field(0.5, gt=0, le=1e6)
    """Largest gradient norm."""
    opponents: dict[str, float] = {}
    """Share of games in which one side learns and the others are played by a frozen policy: a
    policy's name or folder, or ``past``, the learner as it was a while ago. The rest is self-play.
    """
    past_every: int = Field(10, ge=1, le=10**9)
    """Updates after which ``past`` is brought up to date."""
    league: LeagueSettings | None = None
    """Opponents that are drawn by how hard they are, beside ``opponents``."""
    teammates: dict[str, float] = {}
    """Partnership: share of games in which the learner's partner is another policy, or ``past``, so
    that it is not good with itself alone."""
    network: NetworkSettings = NetworkSettings()
    """Shape of the network."""
    critic: Literal["own", "all_seeing"] = "own"
    """Whose values advantages are computed with: the network's own, of what its seat sees, or those
    of a network of the same width that sees all cards, which only training has."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """What is measured on the way."""
    save_every: Decisions = 250_000
    """Decisions between two saves."""
    precision: Literal["float32", "bfloat16", "auto"] = "auto"
    """What the layers of the network are computed in; ``auto``: bfloat16 where the processor has
    instructions for it."""
    threads: int = Field(1, ge=1, le=MAX_THREADS)
    """Threads of the learner. More than one helps where no other process wants the cores: threads
    that wait for each other on a busy machine made training thirty times slower."""

    @field_validator("rules")
    @classmethod
    def _possible(cls, rules: dict[str, Any]) -> dict[str, Any]:
        make_rules(rules)
        return rules

    @field_validator("opponents", "teammates")
    @classmethod
    def _shares(cls, shares: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        faults = [
            f"{info.field_name}.{_short(policy)}={share} is not a share above 0 and up to 1"
            for policy, share in shares.items()
            if not 0 < share <= 1
        ]
        if faults:
            raise ValueError("; ".join(faults))
        return shares

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        faults = []
        from_league = self.league.share if self.league else 0.0
        for key, more in (("opponents", from_league), ("teammates", 0.0)):
            total = sum(getattr(self, key).values()) + more
            if total > 1 + 1e-9:
                faults.append(f"shares of {key} add up to {total}; allowed: up to 1")
        if self.teammates and not self.table().partnership:
            faults.append("teammates are possible in a partnership alone")
        rollout = self.games * self.steps
        if rollout > MAX_ROLLOUT:
            faults.append(f"games * steps={rollout}; allowed: up to {MAX_ROLLOUT}")
        if self.minibatch > rollout:
            faults.append(f"minibatch={self.minibatch} is more than games * steps={rollout}")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def table(self) -> Rules:
        """Returns the rules of the table."""
        return make_rules(self.rules)


def shipped_configs() -> list[str]:
    """Names of the shipped configs."""
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def find_config(name: str | Path) -> Path:
    """Finds a config by its name among the shipped ones, or else by its path.

    A shipped name never means a file that happens to be called so; ``./NAME`` does.
    """
    path = path_of("config", name)
    return CONFIGS / f"{name}.yaml" if str(name) in shipped_configs() else path


def load_config(path: str | Path, **changes: Any) -> Config:
    """Reads the config of a self-play run; see :func:`load_settings`."""
    return load_settings(Config, path, **changes)


def make_config(content: dict[str, Any], source: str) -> Config:
    """Checks the values of a self-play run; see :func:`make_settings`."""
    return make_settings(Config, content, source)


AnySettings = TypeVar("AnySettings", bound=Settings)

_COMMANDS = {"decisions": "train", "rounds": "distil"}
"""A key that only the configs of one command have, and that command."""


def load_settings(kind: type[AnySettings], path: str | Path, **changes: Any) -> AnySettings:
    """Reads a config.

    Args:
        kind: What it is the config of.
        path: A YAML file, or the name of a shipped config.
        **changes: Values that replace those of the file.

    Raises:
        ConfigError: If the file cannot be read, has an unknown key, or a value is not possible.
            All that is wrong with the values is in the message.
    """
    hint = ""
    try:
        file = find_config(path)
        if file.name == str(path) and not file.exists():
            hint = f"; the shipped ones: {', '.join(shipped_configs())}"
        content = read_yaml(file)
    except ValueError as error:
        raise ConfigError(f"{error}{hint}") from None
    except OSError as error:
        # Such as a name too long for any file.
        raise ConfigError(
            f"config {quoted(path)} cannot be read: {error.strerror or error}"
        ) from None
    if not isinstance(content, dict):
        raise ConfigError(f"config {path} is not a mapping of keys to values")
    for key, command in _COMMANDS.items():
        if key in content and key not in kind.model_fields:
            raise ConfigError(f"config {path} has {key!r}: it is one for `escoba {command}`")
    return make_settings(kind, {**content, **changes}, str(path))


def make_settings(kind: type[AnySettings], content: dict[str, Any], source: str) -> AnySettings:
    """Checks the values of a config.

    Raises:
        ConfigError: If a key is unknown or a value is not possible; it names all of them.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        faults = []
        for fault in error.errors():
            key = ".".join(str(part) for part in fault["loc"])
            if fault["type"] == "extra_forbidden":
                known = ", ".join(kind.model_fields)
                faults.append(f"unknown key {_short(key)!r} (known: {known})")
            else:
                value = f"={_short(fault['input'], repr)}" if key else ""
                message = _short(fault["msg"].removeprefix("Value error, "), most=1000)
                faults.append(f"{key}{value}: {message}{_range(kind, fault['loc'])}".lstrip(": "))
        raise ConfigError(f"config {source}: {'; '.join(faults)}") from None


def _short(value: Any, text_of: Callable[[Any], str] = str, most: int = 80) -> str:
    """Writes a value for a message, however long it is."""
    try:
        text = text_of(value)
    except (ValueError, RecursionError):
        # Python writes no whole number of more than 4,300 digits.
        return f"(a value of type {type(value).__name__}, too long to write)"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _range(kind: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    """Returns what a number may be, for the end of a message; empty if it is no such field."""
    *outer, name = [part for part in loc if isinstance(part, str)] or [""]
    for part in outer:
        annotation: Any = kind.model_fields[part].annotation
        inner = [
            of
            for of in (annotation, *get_args(annotation))
            if isinstance(of, type) and issubclass(of, BaseModel)
        ]
        if not inner:
            return ""
        kind = inner[0]
    field = kind.model_fields.get(name)
    limits = {
        limit: getattr(entry, limit)
        for entry in (field.metadata if field else ())
        for limit in ("gt", "ge", "lt", "le")
        if hasattr(entry, limit)
    }
    if len(limits) < 2:
        return ""
    low = f"above {limits['gt']}, up" if "gt" in limits else f"{limits['ge']}"
    high = f"below {limits['lt']}" if "lt" in limits else f"{limits['le']}"
    return f" (allowed: {low} to {high})"
