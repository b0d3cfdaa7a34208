"""Checkpoints: a trained policy as a folder that can be shared and is safe to load.

A checkpoint is ``policy.safetensors`` (weights, no code) and ``card.json`` (what they are for).
Loading reads numbers and JSON, never runs anything, and refuses whatever does not fit.

**Overwriting.** Two files cannot be replaced in one step, and no system but Linux can exchange two
folders. So the card decides. New weights are written beside the old ones, into
``policy-DIGEST.safetensors`` with the digest of the new card; the new card replaces the old one,
which is the one step that counts; then the new weights replace the old ones under their usual name.
A reader takes the weights with the digest of the card, if they are there, or else the usual ones,
whose metadata names the digest of their card: that is how it notices that it has read the card of
one checkpoint and the weights of another, and reads again.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from escoba_env.checks import path_of
from escoba_env.files import (
    SCRATCH,
    brief,
    locked_folder,
    patiently,
    read_whole,
    remove_abandoned,
    sync_folder,
    write_whole,
)
from escoba_env.rules import Rules, RulesError, make_rules

FORMAT_VERSION = 1
WEIGHTS = "policy.safetensors"
CARD = "card.json"
MAX_BYTES = {CARD: 1 << 20, WEIGHTS: 1 << 30}
"""A file larger than this is refused before it is read."""

_CARD_DIGEST = "card_sha256"
"""Entry of the weights' metadata: digest of the card that they were written with."""
_PENDING = re.compile(r"policy-[0-9a-f]{32}\.safetensors")
_LOOKS = 3
"""How often card and weights that do not belong together are read again, unchanged."""
_PAUSE = 0.01

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
    """Writes a checkpoint in one step: a reader gets the old one or the new one, whole.

    That holds wherever the process is killed, too. Several processes may save and load at a time.

    Args:
        folder: Folder of the checkpoint; if it is one already, card and weights are replaced and
            whatever else is in it is kept.
        card: Its card.
        tensors: Its weights by name.

    Raises:
        CheckpointError: If ``folder`` is something else than a checkpoint, or cannot be written.
    """
    target = _folder_of(folder)
    text = json.dumps(card.model_dump(mode="json"), indent=2, ensure_ascii=False).encode() + b"\n"
    arrays = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
    weights = save_tensors(arrays, {_CARD_DIGEST: _digest(text)})
    try:
        if not target.exists():
            _save_new(target, text, weights)
            return
        refused = CheckpointError(f"{target} exists and is not a checkpoint; it is left as it is")
        if not target.is_dir():
            raise refused
        with locked_folder(target):
            try:
                read_card(target)
            except CheckpointError:
                raise refused from None
            _overwrite(target, text, weights)
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {brief(str(target))} cannot be written: {error.strerror or error}"
        ) from None
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def _save_new(target: Path, card: bytes, weights: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent)
    scratch = Path(tempfile.mkdtemp(SCRATCH, f".{target.name[:100]}-", target.parent))
    try:
        scratch.chmod(0o755)
        write_whole(scratch / WEIGHTS, weights)
        write_whole(scratch / CARD, card)
        scratch.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sync_folder(target.parent)


def _overwrite(target: Path, card: bytes, weights: bytes) -> None:
    """Replaces a checkpoint; see the top of this file. The folder is locked."""
    new = target / _weights_of(card)
    try:
        write_whole(new, weights)
        write_whole(target / CARD, card)
    except BaseException:
        if (target / CARD).read_bytes() != card:
            new.unlink(missing_ok=True)
        raise
    patiently(lambda: new.replace(target / WEIGHTS))
    sync_folder(target)
    for path in target.iterdir():
        # What a killed save left.
        if _PENDING.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


def load_checkpoint(folder: str | Path) -> tuple[Card, dict[str, NDArray[np.float32]]]:
    """Reads a checkpoint's card and weights.

    Raises:
        CheckpointError: If a file is missing, damaged, or says something this version does not
            know.
    """
    folder = _folder_of(folder)
    try:
        for name in (CARD, WEIGHTS):
            if not (folder / name).exists():
                inside = folder / "checkpoint"
                hint = f"; {inside} may be meant" if inside.is_dir() else ""
                raise CheckpointError(f"{folder} is not a checkpoint: it has no {name}{hint}")
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {brief(str(folder))} cannot be read: {error.strerror or error}"
        ) from None
    text, content = _read_pair(folder)
    card = parse_card(text, str(folder / CARD), Card)
    try:
        tensors = load_tensors(content)
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


def _read_pair(folder: Path) -> tuple[bytes, bytes]:
    """Reads card and weights that were written together.

    Where neither is changing, a card with weights of another one has been edited by hand.
    """
    pair = _read_card_and_weights(folder)
    same = 0
    while _card_of(pair[1]) not in (_digest(pair[0]), None) and same < _LOOKS:
        time.sleep(_PAUSE)
        again = _read_card_and_weights(folder)
        same = same + 1 if again == pair else 0
        pair = again
    return pair


def _read_card_and_weights(folder: Path) -> tuple[bytes, bytes]:
    card = _read(folder / CARD)
    new = folder / _weights_of(card)
    if new.exists():
        try:
            return card, _read(new)
        except CheckpointError:
            # Since then it may have got the usual name.
            if new.exists():
                raise
    return card, _read(folder / WEIGHTS)


def _folder_of(folder: str | Path) -> Path:
    try:
        return path_of("checkpoint", folder)
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def _read(path: Path) -> bytes:
    try:
        return read_whole(path, MAX_BYTES[CARD if path.name == CARD else WEIGHTS])
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def _digest(card: bytes) -> str:
    return hashlib.sha256(card).hexdigest()


def _weights_of(card: bytes) -> str:
    """Name of a card's weights until they have replaced those of the card before it."""
    return f"policy-{_digest(card)[:32]}.safetensors"


def _card_of(weights: bytes) -> str | None:
    """Digest of the card that weights were written with; those of old versions have none."""
    size = int.from_bytes(weights[:8], "little")
    try:
        digest = json.loads(weights[8 : 8 + min(size, 1 << 20)])["__metadata__"][_CARD_DIGEST]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return str(digest)


def read_card(folder: str | Path) -> Card:
    """Reads a checkpoint's card alone.

    Raises:
        CheckpointError: If it is missing, damaged or of another version.
    """
    path = _folder_of(folder) / CARD
    return parse_card(_read(path), str(path), Card)


def checkpoint_files(folder: Path) -> list[Path]:
    """Returns the files that a checkpoint would be loaded from, as far as they are there."""
    files = [folder / CARD, folder / WEIGHTS]
    with suppress(CheckpointError):
        pending = folder / _weights_of(_read(files[0]))
        if pending.is_file():
            files[1] = pending
    return [path for path in files if path.is_file()]


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
    # One that is being written has a name that begins with a dot.
    return sorted(name for name in names if not name.startswith("."))


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
