"""``run_units`` plays units of work, in this process or several; ``Store`` keeps their results.

It knows nothing of the game. A unit says what it depends on (``key``) and how it is played
(``play``); its result is plain values for JSON.
"""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

from escoba_env.batch import MAX_SEED
from escoba_env.checks import path_of, quoted, whole
from escoba_env.files import MAX_LINES, check_regular
from escoba_env.policies import Policy, load_policy
from escoba_env.version import package_version

Load: TypeAlias = Callable[[Any], Policy]
"""Loads a policy, each of them once."""
Result: TypeAlias = dict[str, Any]

MAX_WORKERS = 1024
START_AFTER = 5.0
"""Seconds of work after which other processes are started: about what they take to get ready."""

_FORMAT = {"format": "escoba-results", "version": 1}
_SEED_OF = "seed of"
"""The key of an entry that keeps a seed: what the seed is for. All others are results."""
_FAR = 2**31 - 2
"""A place that no file of results comes to."""

KILLED = (
    "a process that played has been killed, perhaps for want of memory; results that were kept are "
    "kept: try again with fewer workers"
)


class WorkerError(RuntimeError):
    """A process that plays has ended before its work was done."""


class StoreError(RuntimeError):
    """Results can no longer be kept, such as on a full disk; those before are.

    Attributes:
        result: The result over the deals that were finished; ``None`` if these were too few.
    """

    result: Any = None


class UnitOfWork(Protocol):
    """Work whose result depends on what it says alone.

    Work that inherits from this is not split, and any result of it that was kept is believed.
    """

    def key(self, identify: Callable[[Any], str]) -> dict[str, Any]:
        """Returns everything that the result depends on, for JSON."""
        ...

    def parts(self) -> Sequence[UnitOfWork]:
        """Splits work that takes long into what is to be shared out and kept by itself."""
        return [self]

    def play(self, load: Load) -> Result:
        """Does the work; the result is plain values for JSON."""
        ...

    def fits(self, result: Any) -> bool:  # noqa: ARG002  (those that inherit may look at it)
        """Whether something that was read from a file can be the result."""
        return True


def cores() -> int:
    """Returns the number of processor cores that this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Crew(Protocol):
    """Those who play units elsewhere, while a ``with`` lasts.

    Attributes:
        size: How many units they play at a time.
    """

    size: int

    def submit(self, unit: UnitOfWork) -> Any:
        """Hands out a unit; returns a ticket."""
        ...

    def result(self, ticket: Any) -> Result:
        """Waits for the result of a ticket.

        Raises:
            WorkerError: If whoever played the unit has been killed.
        """
        ...

    def is_done(self, ticket: Any) -> bool:
        """Whether there is a result without waiting."""
        ...


class Workers(Protocol):
    """What makes a crew, such as a cluster; see ``RayWorkers``."""

    def crew(self) -> AbstractContextManager[Crew]:
        """Makes the crew, which is sent home at the end of the ``with``, whatever it is doing."""
        ...


AnyWorkers: TypeAlias = int | Workers
"""A number of processes of this machine, or workers elsewhere."""


def check_workers(workers: Any) -> AnyWorkers:
    """Returns workers.

    Raises:
        ValueError: If they are neither a number of processes nor workers elsewhere.
    """
    if hasattr(workers, "crew"):
        return cast(Workers, workers)
    return whole("workers", workers, 1, MAX_WORKERS)


class Store:
    """Results that were kept, in a file with a line for each; more of them are added at its end.

    A process that is killed while it writes leaves half a line, which the next one removes. What
    is looked up is what a unit depends on, the version of the package among it, so one folder can
    serve several tournaments, and one that has grown. Several processes may use one folder at a
    time: they write one after the other, and each finds what was there when it began.

    Args:
        folder: Where ``results.jsonl`` is, or will be.

    Raises:
        ValueError: If the folder cannot be used, or the file in it is damaged or something else,
            which is left as it is.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = path_of("folder", folder) / "results.jsonl"
        self._known: dict[str, tuple[Any, int]] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                check_regular(self.path, MAX_LINES, name="results")
            with self.path.open("a+b") as file, _locked(file):
                lines = self._whole_lines(file)
        except OSError as error:
            raise ValueError(
                f"results cannot be kept in {quoted(str(folder))}: {error.strerror or error}"
            ) from None
        kept_seeds: set[Any] = set()
        self._seeds: set[int] = set()
        for number, entry in self._entries(lines):
            key, result = entry["key"], entry["result"]
            if _SEED_OF in key:
                kept_seeds.add(self._checked_seed(result, number))
                continue
            self._known[_text(key)] = result, number
            if type(key.get("seed")) is int:
                self._seeds.add(key["seed"])
        self._seeds -= kept_seeds

    def seeds(self) -> set[int]:
        """Returns the seeds that results have, less those that were kept for some purpose."""
        return set(self._seeds)

    def seed(self, purpose: dict[str, Any], choose: Callable[[], int]) -> int:
        """Returns the seed that is kept for a purpose.

        Args:
            purpose: What the seed is for, for JSON.
            choose: Called for a seed if none is kept yet; what it returns is kept.

        Raises:
            ValueError: If the seed that is kept cannot be one, or ``choose`` raises it.
            StoreError: If the seed cannot be written.
        """
        key = {_SEED_OF: purpose}
        try:
            with self.path.open("a+b") as file, _locked(file):
                # Read again: another process may have kept one since this store was opened.
                for number, entry in self._entries(self._whole_lines(file)):
                    if entry["key"] == key:
                        return self._checked_seed(entry["result"], number)
                seed = choose()
                _write(file, {"key": key, "result": seed})
                return seed
        except OSError as error:
            raise self._unwritable(error) from None

    def get(self, unit: UnitOfWork, identify: Callable[[Any], str]) -> Result | None:
        """Returns the result of a unit, if it was there when the store was opened.

        Raises:
            ValueError: If what is there cannot be its result.
        """
        found = self._known.get(_text(_versioned(unit.key(identify))))
        if found is None:
            return None
        result, number = found
        if not unit.fits(result):
            raise self._damaged(number)
        kept: Result = result
        return kept

    def put(self, unit: UnitOfWork, identify: Callable[[Any], str], result: Result) -> None:
        """Keeps a result.

        Raises:
            StoreError: If it cannot be written.
        """
        entry = {"key": _versioned(unit.key(identify)), "result": result}
        try:
            with self.path.open("a+b") as file, _locked(file):
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - 1))
                # Another process that has been killed, or a file that has been taken away.
                if file.read(1) != b"\n":
                    self._whole_lines(file)
                _write(file, entry)
        except OSError as error:
            raise self._unwritable(error) from None

    def _entries(self, lines: list[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Gives the entries of a file's lines, each with the number of its line."""
        for number, line in enumerate(lines[1:], 2):
            entry = _read_line(line)
            whole_entry = isinstance(entry, dict) and set(entry) == {"key", "result"}
            if not whole_entry or not isinstance(entry["key"], dict):
                raise self._damaged(number)
            yield number, entry

    def _checked_seed(self, seed: Any, number: int) -> int:
        if type(seed) is not int or not 0 <= seed <= MAX_SEED:
            raise self._damaged(number)
        return seed

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self.path} cannot be written: {error.strerror or error}; what was kept before is "
            f"there"
        )

    def _whole_lines(self, file: BinaryIO) -> list[bytes]:
        """Reads the lines of a file of results, and begins one that is empty.

        Half a line at the end is removed, but only if the file is one of ours.
        """
        file.seek(0)
        content = file.read()
        first, newline, _ = content.partition(b"\n")
        header = _line(_FORMAT)
        if not (_read_line(first) == _FORMAT if newline else header.startswith(content)):
            raise ValueError(f"{self.path} is no file of results that this version reads")
        whole_lines = content[: content.rfind(b"\n") + 1]
        if len(whole_lines) < len(content):
            file.truncate(len(whole_lines))
        if not whole_lines:
            _write(file, _FORMAT)
        return whole_lines.split(b"\n")[:-1]

    def _damaged(self, number: int) -> ValueError:
        return ValueError(
            f"{self.path}, line {number}, is damaged: remove the line, or use another folder"
        )


@contextmanager
def _locked(file: BinaryIO) -> Iterator[None]:
    """Lets no other process write into a file of results meanwhile."""
    if sys.platform == "win32":
        import msvcrt

        # Here locked bytes cannot be read, so it is one that is not there.
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        try:
            yield
            file.flush()
        finally:
            file.seek(_FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        # The lock goes with the file when that is closed.
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            # Some network file systems have no locks; one process alone needs none.
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        yield


def _write(file: BinaryIO, entry: dict[str, Any]) -> None:
    file.write(_line(entry))
    file.flush()
    os.fsync(file.fileno())


def _line(entry: dict[str, Any]) -> bytes:
    return _text(entry).encode() + b"\n"


def _versioned(key: dict[str, Any]) -> dict[str, Any]:
    return {**key, "package": package_version()}


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _read_line(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def run_units(
    units: Iterable[UnitOfWork],
    *,
    workers: AnyWorkers = 1,
    store: Store | None = None,
    identify: Callable[[Any], str],
) -> Generator[Result, None, None]:
    """Plays units and gives their results, or those of their parts, in the order of the units.

    The first units are played in this process, so that little work does not wait for others to get
    ready. Close the iterator to stop early.

    Args:
        units: The work; not more of it is taken than is under way.
        workers: Processes that play at the same time, at least 1, or workers elsewhere. Results do
            not depend on it. With more than one, policies must be names or folders, and a script
            must be guarded by ``if __name__ == "__main__"``, as always with processes.
        store: Where results are looked up and kept, each as soon as it is there.
        identify: Names a policy for the store.

    Raises:
        ValueError: If a result that was kept is damaged.
        StoreError: If a result cannot be kept.
        WorkerError: If one of the processes has been killed.
    """
    named = cache(identify)
    remaining = _looked_up(units, store, named)
    load = _loader()
    begin = time.perf_counter()
    for unit, known in remaining:
        result = known
        if result is None:
            with _one_thread():
                result = unit.play(load)
            if store:
                store.put(unit, named, result)
        yield result
        if workers != 1 and time.perf_counter() - begin >= START_AFTER:
            break
    else:
        return
    with _processes(workers) if isinstance(workers, int) else workers.crew() as crew:
        yield from _spread(remaining, crew, store, named)


def _looked_up(
    units: Iterable[UnitOfWork], store: Store | None, named: Callable[[Any], str]
) -> Iterator[tuple[UnitOfWork, Result | None]]:
    """Gives units that are kept as a whole with their results, and the parts of all others."""
    for unit in units:
        known = store.get(unit, named) if store else None
        if known is not None:
            yield unit, known
            continue
        for part in unit.parts():
            yield part, store.get(part, named) if store else None


def _spread(
    units: Iterator[tuple[UnitOfWork, Result | None]],
    crew: Crew,
    store: Store | None,
    named: Callable[[Any], str],
) -> Iterator[Result]:
    """Has units played elsewhere; a few more are handed out than can be played at once."""
    under_way: deque[tuple[UnitOfWork, Any, Result | None]] = deque()

    def finish() -> Result:
        unit, ticket, known = under_way.popleft()
        if known is not None:
            return known
        result = crew.result(ticket)
        if store:
            store.put(unit, named, result)
        return result

    try:
        for unit, known in units:
            ticket = crew.submit(unit) if known is None else None
            under_way.append((unit, ticket, known))
            if len(under_way) > 2 * crew.size:
                yield finish()
        while under_way:
            yield finish()
    except StoreError:
        under_way.clear()
        raise
    finally:
        # Whether the caller has enough, Ctrl-C came or a unit failed: what was played is kept.
        for unit, ticket, known in under_way:
            if store and known is None and crew.is_done(ticket):
                store.put(unit, named, crew.result(ticket))


@contextmanager
def _processes(size: int) -> Iterator[_Processes]:
    """Starts processes of this machine."""
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(size, context, _begin_worker)
    try:
        yield _Processes(size, executor)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()


class _Processes:
    def __init__(self, size: int, executor: ProcessPoolExecutor) -> None:
        self.size = size
        self._executor = executor

    def submit(self, unit: UnitOfWork) -> Future[Result]:
        try:
            with _no_ctrl_c():
                return self._executor.submit(play_here, unit, "processes")
        except BrokenProcessPool:
            raise WorkerError(KILLED) from None

    def result(self, ticket: Future[Result]) -> Result:
        try:
            return ticket.result()
        except BrokenProcessPool:
            raise WorkerError(KILLED) from None

    def is_done(self, ticket: Future[Result]) -> bool:
        return ticket.done() and not ticket.cancelled() and not ticket.exception()


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Lets processes start that Ctrl-C does not reach even before they ignore it; it waits here."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    # Ctrl-C reaches every process of a terminal; the one that gathers results ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # One that is killed ends nobody.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # For networks that are loaded later; see _one_thread.
    os.environ["OMP_NUM_THREADS"] = "1"


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def play_here(unit: UnitOfWork, crew: str) -> Result:
    """Plays a unit in a process that is there for that.

    Args:
        unit: The unit.
        crew: A name for the crew that the process belongs to. Policies are loaded once for it: the
            next crew may find others under the same names.
    """
    with _one_thread():
        return unit.play(_load_for(crew))


@lru_cache(maxsize=1)
def _load_for(crew: str) -> Load:  # noqa: ARG001  (the cache's key)
    return _loader()


def _loader() -> Load:
    """Returns a function that loads every named policy once."""
    loaded: dict[str, Policy] = {}

    def load(policy: Any) -> Policy:
        if not isinstance(policy, str | Path):
            return load_policy(policy)
        if str(policy) not in loaded:
            loaded[str(policy)] = load_policy(policy)
        return loaded[str(policy)]

    return load


@contextmanager
def _one_thread() -> Iterator[None]:
    """Lets networks use one thread: they round otherwise with another number of them."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
