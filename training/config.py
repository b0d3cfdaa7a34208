"""The settings of training runs: typed, checked, one YAML file for each experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from escoba_env.encoding import Encoding
from escoba_env.files import MAX_TEXT, read_whole
from escoba_env.policies.checkpoint import NetworkCard
from escoba_env.rules import Rules, make_rules


class ConfigError(ValueError):
    """A config that cannot be run; the message names each key, its value and what is wrong."""


class Settings(BaseModel):
    """Checked settings: no key that is not known, and no change after they have been read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NetworkSettings(Settings):
    """Shape of the network."""

    hidden: tuple[int, ...] = Field((256, 256), min_length=1)
    """Widths of the trunk that policy and value share."""
    action_hidden: int = Field(128, ge=1)
    """Width of the head that scores each legal action."""
    action_layers: int = Field(1, ge=1, le=64)
    """Layers of that width after the one that takes its inputs."""
    state_to_head: bool = False
    """Whether the head takes the state itself, too."""

    @field_validator("hidden")
    @classmethod
    def _positive(cls, hidden: tuple[int, ...]) -> tuple[int, ...]:
        if min(hidden) < 1:
            raise ValueError("every width is at least 1")
        return hidden

    def card(self, encoding: Encoding) -> NetworkCard:
        """Returns the shape of such a network for observations of an encoding."""
        return NetworkCard(state_size=encoding.layout()["facts"].start, **self.model_dump())


class LeagueSettings(Settings):
    """Opponents that are drawn by how hard they are."""

    share: float = Field(0.5, gt=0, le=1)
    """Share of games against the league."""
    members: tuple[str, ...] = ("counting",)
    """Policies that are always in it."""
    size: int = Field(4, ge=0)
    """Places for past selves; a new one takes the place of the easiest."""
    every: int = Field(500_000, ge=1)
    """Decisions after which the learner as it is becomes a past self."""
    power: float = Field(1.0, ge=0)
    """How much harder opponents are preferred; 0: all alike."""

    @model_validator(mode="after")
    def _somebody(self) -> LeagueSettings:
        if not self.members and not self.size:
            raise ValueError("a league without members and with size=0 is empty")
        return self


class EvaluationSettings(Settings):
    """What is measured while training goes on."""

    every: int = Field(250_000, ge=1)
    """Decisions between two evaluations."""
    deals: int = Field(500, ge=2)
    """Duplicate deals of an evaluation."""
    against: tuple[str, ...] = ("greedy",)
    """Policies to measure against; the first is the one that the progress bar shows."""
    seed: int = Field(1_000_003, ge=0)
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

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
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
    decisions: int = Field(ge=1)
    """Decisions to learn from, of all seats together."""
    games: int = Field(512, ge=1)
    """Games played side by side."""
    steps: int = Field(64, ge=2)
    """Decisions of each game between two updates."""
    learning_rate: float = Field(3e-4, gt=0)
    """Learning rate of Adam at the start."""
    final_learning_rate: float = Field(0.0, ge=0)
    """Learning rate at the end; it falls linearly."""
    epochs: int = Field(4, ge=1)
    """Passes over the decisions of an update."""
    minibatch: int = Field(4096, ge=2)
    """Decisions of one gradient step."""
    gae_lambda: float = Field(0.95, ge=0, le=1)
    """Weight of longer returns in advantages (Schulman et al., 2016)."""
    clip: float = Field(0.2, gt=0)
    """Clipping of the probability ratio (Schulman et al., 2017)."""
    entropy: float = Field(0.01, ge=0)
    """Weight of the entropy bonus."""
    value_weight: float = Field(0.5, ge=0)
    """Weight of the value loss."""
    reward_scale: float = Field(0.5, gt=0)
    """Factor of rewards inside the learner, so that value and policy losses are of one size."""
    max_gradient: float = Field(0.5, gt=0)
    """Largest gradient norm."""
    opponents: dict[str, float] = {}
    """Share of games in which one side learns and the others are played by a frozen policy: a
    policy's name or folder, or ``past``, the learner as it was a while ago. The rest is self-play.
    """
    past_every: int = Field(10, ge=1)
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
    save_every: int = Field(250_000, ge=1)
    """Decisions between two saves."""
    precision: Literal["float32", "bfloat16", "auto"] = "auto"
    """What the layers of the network are computed in; ``auto``: bfloat16 where the processor has
    instructions for it."""
    threads: int = Field(1, ge=1)
    """Threads of the learner. More than one helps where no other process wants the cores: threads
    that wait for each other on a busy machine made training thirty times slower."""

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        self.table()
        for key in ("opponents", "teammates"):
            shares = getattr(self, key)
            for policy, share in shares.items():
                if not 0 < share <= 1:
                    raise ValueError(f"{key}.{policy}={share} is not a share above 0 and up to 1")
            total = sum(shares.values())
            if key == "opponents" and self.league:
                total += self.league.share
            if total > 1 + 1e-9:
                raise ValueError(f"shares of {key} add up to {total}; to 1")
        if self.teammates and not self.table().partnership:
            raise ValueError("teammates are possible in a partnership alone")
        if self.minibatch > self.games * self.steps:
            raise ValueError(
                f"minibatch={self.minibatch} is more than games * steps={self.games * self.steps}"
            )
        return self

    def table(self) -> Rules:
        """Returns the rules of the table."""
        return make_rules(self.rules)


def load_config(path: str | Path, **changes: Any) -> Config:
    """Reads the config of a self-play run; see :func:`load_settings`."""
    return load_settings(Config, path, **changes)


def make_config(content: dict[str, Any], source: str) -> Config:
    """Checks the values of a self-play run; see :func:`make_settings`."""
    return make_settings(Config, content, source)


AnySettings = TypeVar("AnySettings", bound=Settings)


def load_settings(kind: type[AnySettings], path: str | Path, **changes: Any) -> AnySettings:
    """Reads a config.

    Args:
        kind: What it is the config of.
        path: A YAML file.
        **changes: Values that replace those of the file.

    Raises:
        ConfigError: If the file cannot be read, has an unknown key, or a value is not possible.
    """
    try:
        text = read_whole(path, MAX_TEXT, name="config")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    try:
        content = yaml.safe_load(text.decode())
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"config {path} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"config {path} is not a mapping of keys to values")
    return make_settings(kind, {**content, **changes}, str(path))


def make_settings(kind: type[AnySettings], content: dict[str, Any], source: str) -> AnySettings:
    """Checks the values of a config.

    Raises:
        ConfigError: If a key is unknown or a value is not possible.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        faults = []
        for fault in error.errors():
            key = ".".join(str(part) for part in fault["loc"])
            if fault["type"] == "extra_forbidden":
                known = ", ".join(kind.model_fields)
                faults.append(f"unknown key {key!r} (known: {known})")
            else:
                value = f"={fault['input']!r}" if key else ""
                faults.append(f"{key}{value}: {fault['msg']}")
        raise ConfigError(f"config {source}: {'; '.join(faults)}") from None
