"""``run_units`` plays units of work, in this process or several; ``Store`` keeps their results.

It knows nothing of the game. A unit says what it depends on (``key``) and how it is played
(``play``); its result is plain values for JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from escoba_env.checks import whole
from escoba_env.policies import Policy, load_policy
from escoba_env.version import package_version

Load: TypeAlias = Callable[[Any], Policy]
"""Loads a policy, each of them once."""
Result: TypeAlias = dict[str, Any]

MAX_WORKERS = 1024
START_AFTER = 5.0
"""Seconds of work after which other processes are started: about what they take to get ready."""

_FORMAT = {"format": "escoba-results", "version": 1}


KILLED = (
    "a process that played has been killed, perhaps for want of memory; results that were kept are "
    "kept: try again with fewer workers"
)


class WorkerError(RuntimeError):
    """A process that plays has ended before its work was done."""


class UnitOfWork(Protocol):
    """Work whose result depends on what it says alone."""

    def key(self, identify: Callable[[Any], str]) -> dict[str, Any]:
        """Returns everything that the result depends on, for JSON."""
        ...

    def play(self, load: Load) -> Result:
        """Does the work; the result is plain values for JSON."""
        ...


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
    serve several tournaments, and one that has grown.

    Args:
        folder: Where ``results.jsonl`` is, or will be.

    Raises:
        ValueError: If the folder cannot be used, or the file in it is damaged or something else.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "results.jsonl"
        self._known: dict[str, Result] = {}
        self._identities: dict[str, str] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = self.path.read_bytes() if self.path.exists() else b""
            whole_lines = content[: content.rfind(b"\n") + 1]
            if len(whole_lines) < len(content):
                with self.path.open("r+b") as file:
                    file.truncate(len(whole_lines))
        except OSError as error:
            raise ValueError(f"results cannot be kept in {str(folder)!r}: {error}") from None
        lines = whole_lines.splitlines()
        if not lines:
            self._append(_FORMAT)
        elif _read_line(lines[0]) != _FORMAT:
            raise ValueError(f"{self.path} is no file of results that this version reads")
        for number, line in enumerate(lines[1:], 2):
            entry = _read_line(line)
            if not isinstance(entry, dict) or set(entry) != {"key", "result"}:
                raise ValueError(
                    f"{self.path}, line {number}, is damaged: remove the line, or use another "
                    f"folder"
                )
            self._known[_text(entry["key"])] = entry["result"]

    def get(self, key: dict[str, Any]) -> Result | None:
        """Returns the result of a key, if there is one."""
        return self._known.get(_text(_versioned(key)))

    def put(self, key: dict[str, Any], result: Result) -> None:
        """Keeps a result."""
        key = _versioned(key)
        self._known[_text(key)] = result
        self._append({"key": key, "result": result})

    def _append(self, entry: dict[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(_text(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


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
    """Plays units and gives their results in the order of the units.

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
        WorkerError: If one of the processes has been killed.
    """
    remaining = iter(units)
    named = cache(identify)
    load = _loader()
    begin = time.perf_counter()
    for unit in remaining:
        result = store.get(unit.key(named)) if store else None
        if result is None:
            with _one_thread():
                result = unit.play(load)
            if store:
                store.put(unit.key(named), result)
        yield result
        if workers != 1 and time.perf_counter() - begin >= START_AFTER:
            break
    else:
        return
    with _processes(workers) if isinstance(workers, int) else workers.crew() as crew:
        yield from _spread(remaining, crew, store, named)


def _spread(
    units: Iterator[UnitOfWork],
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
            store.put(unit.key(named), result)
        return result

    try:
        for unit in units:
            known = store.get(unit.key(named)) if store else None
            ticket = crew.submit(unit) if known is None else None
            under_way.append((unit, ticket, known))
            if len(under_way) > 2 * crew.size:
                yield finish()
        while under_way:
            yield finish()
    finally:
        # Whether the caller has enough, Ctrl-C came or a unit failed: what was played is kept.
        for unit, ticket, known in under_way:
            if store and known is None and crew.is_done(ticket):
                store.put(unit.key(named), crew.result(ticket))


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


def _begin_worker() -> None:
    # Ctrl-C reaches every process of a terminal; the one that gathers results ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # For networks that are loaded later; see _one_thread.
    os.environ["OMP_NUM_THREADS"] = "1"


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
