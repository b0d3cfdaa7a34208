"""Checkpoints: a trained policy as a folder that can be shared and is safe to load.

A checkpoint is ``policy.safetensors`` (weights, no code) and ``card.json`` (what they are for).
Loading reads numbers and JSON, never runs anything, and refuses whatever does not fit.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from escoba_env.rules import Rules, RulesError, make_rules

FORMAT_VERSION = 1
WEIGHTS = "policy.safetensors"
CARD = "card.json"
MAX_BYTES = {CARD: 1 << 20, WEIGHTS: 1 << 30}
"""A file larger than this is refused before it is read."""

Width = Annotated[int, Field(ge=1, le=1 << 16)]


class CheckpointError(ValueError):
    """A checkpoint that is damaged, foreign or of another version."""


class NetworkCard(BaseModel):
    """Shape of the network."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["shared_action_head"] = "shared_action_head"
    state_size: int = Field(ge=1)
    hidden: tuple[Width, ...] = Field(min_length=1, max_length=64)
    action_hidden: Width
    action_layers: int = Field(1, ge=1, le=64)
    state_to_head: bool = False


class PolicyCard(BaseModel):
    """What a policy was made for, and how it came about."""

    model_config = ConfigDict(extra="forbid")

    format_version: Literal[1] = 1
    name: str = Field(min_length=1, max_length=200)
    encoding: str
    encoding_version: int
    memory: Literal["perfect", "visible"] = "perfect"
    rules: dict[str, Any]
    episode: Literal["round", "match"]
    training: dict[str, Any] = {}
    strength: dict[str, Any] = {}
    licence: str = "MIT"

    @field_validator("name")
    @classmethod
    def _printable(cls, name: str) -> str:
        if not name.isprintable():
            raise ValueError("a name has no control characters")
        return name


class Card(PolicyCard):
    """What a checkpoint's weights are for, and how they came about."""

    network: NetworkCard


def save_checkpoint(
    folder: str | Path, card: Card, tensors: dict[str, NDArray[np.float32]]
) -> None:
    """Writes a checkpoint whole: a reader sees the old one or the new one, never a half.

    Args:
        folder: Folder of the checkpoint; if it is one already, card and weights are replaced and
            whatever else is in it is kept.
        card: Its card.
        tensors: Its weights by name.

    Raises:
        CheckpointError: If ``folder`` is something else than a checkpoint.
    """
    target = Path(folder)
    if target.exists():
        try:
            read_card(target)
        except CheckpointError:
            raise CheckpointError(
                f"{target} exists and is not a checkpoint; it is left as it is"
            ) from None
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        scratch.chmod(0o755)
        arrays = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
        (scratch / WEIGHTS).write_bytes(save_tensors(arrays))
        text = json.dumps(card.model_dump(mode="json"), indent=2, ensure_ascii=False)
        (scratch / CARD).write_text(text + "\n", encoding="utf-8")
        if target.exists():
            # A folder cannot be renamed over one that is not empty.
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            before = old / "checkpoint"
            target.replace(before)
            try:
                scratch.replace(target)
            except BaseException:
                before.replace(target)
                raise
            for path in before.iterdir():
                if path.name not in (CARD, WEIGHTS):
                    path.replace(target / path.name)
            shutil.rmtree(old)
        else:
            scratch.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def load_checkpoint(folder: str | Path) -> tuple[Card, dict[str, NDArray[np.float32]]]:
    """Reads a checkpoint's card and weights.

    Raises:
        CheckpointError: If a file is missing, damaged, or says something this version does not
            know.
    """
    folder = Path(folder)
    for name, limit in MAX_BYTES.items():
        if not (folder / name).is_file():
            inside = folder / "checkpoint"
            hint = f"; {inside} may be meant" if inside.is_dir() else ""
            raise CheckpointError(f"{folder} is not a checkpoint: it has no {name}{hint}")
        if (folder / name).stat().st_size > limit:
            raise CheckpointError(f"{folder / name} is larger than {limit} bytes")
    card = read_card(folder)
    try:
        tensors = load_tensors((folder / WEIGHTS).read_bytes())
    except (SafetensorError, ValueError, KeyError, OverflowError) as error:
        raise CheckpointError(
            f"{folder / WEIGHTS} is not a safetensors file, or is damaged: {error}"
        ) from None
    for key, value in tensors.items():
        if value.dtype != np.float32 or not np.isfinite(value).all():
            raise CheckpointError(
                f"{folder / WEIGHTS}: {key} is {value.dtype} or not finite; allowed: finite float32"
            )
    return card, tensors


def read_card(folder: str | Path) -> Card:
    """Reads a checkpoint's card alone.

    Raises:
        CheckpointError: If it is missing, damaged or of another version.
    """
    path = Path(folder) / CARD
    try:
        text = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    return parse_card(text, str(path), Card)


AnyCard = TypeVar("AnyCard", bound=PolicyCard)


def parse_card(text: str | bytes, where: str, kind: type[AnyCard]) -> AnyCard:
    """Reads a card from JSON.

    Args:
        text: The JSON.
        where: Where it comes from, for messages.
        kind: The kind of card that it has to be.

    Raises:
        CheckpointError: If it is damaged or of another version.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where} cannot be read: {error}") from None
    version = content.get("format_version") if isinstance(content, dict) else None
    if type(version) is not int or version != FORMAT_VERSION:
        raise CheckpointError(
            f"{where} is of format version {version!r}; this version reads {FORMAT_VERSION}"
        )
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise CheckpointError(f"{where} is not a card: {faults}") from None


def checkpoint_roots() -> list[Path]:
    """Folders that hold shipped checkpoints: inside an installed package, or beside it."""
    package = Path(__file__).resolve().parents[1]
    return [
        root for root in (package / "checkpoints", package.parent / "checkpoints") if root.is_dir()
    ]


def tables_of(card: PolicyCard) -> list[Rules]:
    """Returns the tables that a policy was trained at, as far as its card says so.

    Raises:
        CheckpointError: If the rules of its card are not possible.
    """
    config = card.training.get("config")
    tables = config.get("tables") if isinstance(config, dict) else None
    try:
        return [make_rules(table) for table in tables or [card.rules]]
    except (RulesError, TypeError, ValueError) as error:
        raise CheckpointError(f"checkpoint {card.name!r}: {error}") from None


def shipped_checkpoints() -> list[str]:
    """Names of the shipped checkpoints."""
    names = {p.parent.name for root in checkpoint_roots() for p in root.glob(f"*/{CARD}")}
    return sorted(names)


def find_checkpoint(name: str) -> Path | None:
    """Finds a checkpoint by its name among the shipped ones, or else by its folder.

    A shipped name never means a folder that happens to be called so; ``./NAME`` does.
    """
    for root in checkpoint_roots():
        if name in shipped_checkpoints() and (root / name / CARD).is_file():
            return root / name
    try:
        return Path(name) if name and Path(name).is_dir() else None
    except OSError:
        # Such as a name too long for any file.
        return None
