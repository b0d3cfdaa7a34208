"""``Folder``: what every run folder is, whichever way the run learns.

One process owns a folder at a time. A run is there once ``config.yaml`` is: a folder that a killed
start left without it is as good as empty.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from escoba_env.files import MAX_LINES, read_whole, write_whole

from .config import AnySettings, ConfigError, Settings, load_settings

LOCK = ".lock"
_SCRATCH = re.compile(
    r"\.(?P<name>config\.yaml|resume\.pt|[a-z]+\.jsonl|checkpoint|best|(end-)?\d+-\d+\.safetensors)"
    r"(-(old-)?[a-z0-9_]{8}(\.escoba-part)?|\.\d+)"
)
"""What a kill while something is written leaves: of ``write_whole`` and ``save_checkpoint``; and of
earlier versions. Nothing else of anybody's is called so."""


class Folder:
    """A run folder.

    Args:
        path: The folder; it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.checkpoint = path / "checkpoint"
        self.evaluations = path / "evaluations.jsonl"

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keeps the folder from every other process, and removes what killed ones left half done.

        Raises:
            ConfigError: If another process has it.
            OSError: If it cannot be made or written.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise ConfigError(
                f"run folder {self.path} is in use by another process: stop that one, or choose "
                f"another folder with --run"
            ) from None
        try:
            for folder in self.folders():
                remove_scratch(folder)
            yield
        finally:
            lock.release()

    def folders(self) -> Iterable[Path]:
        """The folders that the run writes into, itself first."""
        return [self.path]

    def check_new(self) -> None:
        """Checks that a run can begin here; changes nothing.

        Raises:
            ConfigError: If there is something in the folder, or a file in its place.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"run folder {self.path} is a file")
        if self.path.exists() and any(not _is_left_over(path) for path in self.path.iterdir()):
            raise ConfigError(
                f"run folder {self.path} is not empty: go on with --resume, or choose another "
                f"with --run"
            )

    def start(self, config: Settings) -> None:
        """Makes the folder of a new run.

        Raises:
            ConfigError: If there is something in it already.
            ValueError: If it cannot be written.
        """
        self.check_new()
        self.write_config(config)

    def write_config(self, config: Settings) -> None:
        """Writes the config, with which the run is there.

        Raises:
            ValueError: If it cannot be written.
        """
        text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        write_whole(self.config, text)

    def started_with(self, kind: type[AnySettings]) -> AnySettings:
        """Reads the config that the run was started with.

        Raises:
            ConfigError: If there is no run, or its config is damaged.
        """
        if not self.config.is_file():
            raise ConfigError(
                f"there is no run to resume in {self.path}: it has no {self.config.name}"
            )
        return load_settings(kind, self.config)

    def refuse_changes(self, changed: Iterable[str], allowed: str) -> None:
        """Refuses to go on with a run under another config.

        Raises:
            ConfigError: If anything has changed.
        """
        names = ", ".join(sorted(changed))
        if names:
            raise ConfigError(
                f"the run in {self.path} was started with another config: {names} differ; {allowed}"
            )

    def check_resumable(self, resume_point: Path) -> None:
        """Checks that the point to resume from is there if the run has come to one.

        Without it the run would begin again, over the policy that it has made.

        Raises:
            ConfigError: If it is gone.
        """
        if not resume_point.exists() and self.checkpoint.exists():
            raise ConfigError(
                f"the run in {self.path} cannot be resumed: it has a checkpoint, but "
                f"{resume_point.name} is gone; put it back, or learn on from the policy in another "
                f"folder, with start: {self.checkpoint}"
            )

    def add_evaluation(self, result: dict[str, Any]) -> None:
        """Adds one evaluation to the run's list, in place of one of the same moment and opponent.

        Raises:
            ConfigError: If the list is damaged.
            ValueError: If it cannot be written.
        """

        def moment(line: dict[str, Any]) -> tuple[Any, Any]:
            return line.get("decisions"), line.get("against")

        lines = [line for line in read_lines(self.evaluations) if moment(line) != moment(result)]
        write_lines(self.evaluations, [*lines, result])

    def forget_evaluations_after(self, decisions: int) -> None:
        """Drops the evaluations of what was lost with a kill and is learned again.

        Raises:
            ConfigError: If the list is damaged.
            ValueError: If it cannot be written.
        """
        keep_until(self.evaluations, decisions, "decisions", "against")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Reads a file of JSON lines; there are none if it is not there.

    Raises:
        ConfigError: If a line is damaged.
        ValueError: If it cannot be read.
    """
    if not path.exists():
        return []
    found = []
    for number, text in enumerate(read_whole(path, MAX_LINES).splitlines(), 1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise ConfigError(f"{path}, line {number}, is damaged: remove the line")
        found.append(line)
    return found


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Writes a file of JSON lines whole.

    Raises:
        ValueError: If it cannot be written.
    """
    write_whole(path, "".join(json.dumps(line) + "\n" for line in lines))


def keep_until(path: Path, last: int, moment: str, *others: str) -> None:
    """Drops what is later than a moment from a file of JSON lines, and all but one of each moment.

    Args:
        path: The file.
        last: The moment.
        moment: The key that says when a line was written.
        *others: Keys that tell lines of one moment apart.

    Raises:
        ConfigError: If a line is damaged.
        ValueError: If the file cannot be written.
    """
    lines = read_lines(path)
    try:
        kept = {
            (line[moment], *(line[key] for key in others)): line
            for line in lines
            if line[moment] <= last
        }
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{path} is of another version, or damaged: {error!r}") from None
    if len(kept) < len(lines):
        write_lines(path, kept.values())


def _is_left_over(path: Path) -> bool:
    return path.name == LOCK or _SCRATCH.fullmatch(path.name) is not None


def remove_scratch(folder: Path) -> None:
    """Removes what killed processes left half written; whoever calls it owns the folder."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        scratch = _SCRATCH.fullmatch(path.name)
        if scratch is None:
            continue
        if not path.is_dir():
            path.unlink(missing_ok=True)
        elif (folder / scratch["name"] / "card.json").is_file():
            # Of a checkpoint that is there whole; without it this may be what is left of it.
            shutil.rmtree(path, ignore_errors=True)
