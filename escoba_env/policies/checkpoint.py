"""Checkpoints: a trained policy as a folder that can be shared and is safe to load.

A checkpoint is ``policy.safetensors`` (weights, no code) and ``card.json`` (what they are for).
Loading reads numbers and JSON, never runs anything, and refuses whatever does not fit.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

FORMAT_VERSION = 1
WEIGHTS = "policy.safetensors"
CARD = "card.json"


class CheckpointError(ValueError):
    """A checkpoint that is damaged, foreign or of another version."""


class NetworkCard(BaseModel):
    """Shape of the network."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["shared_action_head"] = "shared_action_head"
    state_size: int = Field(ge=1)
    hidden: tuple[int, ...] = Field(min_length=1)
    action_hidden: int = Field(ge=1)


class Card(BaseModel):
    """What a checkpoint's weights are for, and how they came about."""

    model_config = ConfigDict(extra="forbid")

    format_version: Literal[1] = 1
    name: str = Field(min_length=1)
    encoding: str
    encoding_version: int
    memory: Literal["perfect", "visible"] = "perfect"
    rules: dict[str, Any]
    episode: Literal["round", "match"]
    network: NetworkCard
    training: dict[str, Any] = {}
    strength: dict[str, Any] = {}
    licence: str = "MIT"


def save_checkpoint(
    folder: str | Path, card: Card, tensors: dict[str, NDArray[np.float32]]
) -> None:
    """Writes a checkpoint whole: a reader sees the old one or the new one, never a half.

    Args:
        folder: Folder of the checkpoint; replaced if it is one already.
        card: Its card.
        tensors: Its weights by name.

    Raises:
        CheckpointError: If ``folder`` is something else than a checkpoint.
    """
    target = Path(folder)
    if target.exists() and not (target / CARD).is_file():
        raise CheckpointError(f"{target} exists and is not a checkpoint; it is left as it is")
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
            target.replace(old / "checkpoint")
            scratch.replace(target)
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
    for name in (CARD, WEIGHTS):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} is not a checkpoint: it has no {name}")
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
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{path} is of format version {version!r}; this version reads {FORMAT_VERSION}"
        )
    try:
        return Card.model_validate(content)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise CheckpointError(f"{path} is not a card: {faults}") from None


def checkpoint_roots() -> list[Path]:
    """Folders that hold shipped checkpoints: inside an installed package, or beside it."""
    package = Path(__file__).resolve().parents[1]
    return [
        root for root in (package / "checkpoints", package.parent / "checkpoints") if root.is_dir()
    ]


def shipped_checkpoints() -> list[str]:
    """Names of the shipped checkpoints."""
    names = {p.parent.name for root in checkpoint_roots() for p in root.glob(f"*/{CARD}")}
    return sorted(names)


def find_checkpoint(name: str) -> Path | None:
    """Finds a checkpoint by its folder, or by its name among the shipped ones."""
    if Path(name).is_dir():
        return Path(name)
    for root in checkpoint_roots():
        if name in shipped_checkpoints() and (root / name / CARD).is_file():
            return root / name
    return None
