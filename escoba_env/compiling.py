"""What is said on stderr about compiled kernels: that they are being compiled, what is wrong.

Compiling takes up to a minute on first use, and nobody should take that for a program that hangs.
A worker process says nothing: the process beside which it works does, or has.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

QUIET = "ESCOBA_QUIET"
"""Environment variable that turns these messages off, unless it is empty or ``0``."""

PATIENCE = 1.0
"""Seconds of compiling, all together, after which it is worth a line."""

_LINE = (
    "Compiling kernels, which takes up to a minute and is kept for the next start; "
    "escoba warmup does it ahead."
)


class _Compiling:
    """The compiling of this process. Numba's lock lets one thread at a time in here."""

    def __init__(self) -> None:
        self.compiled = 0
        self.seconds = 0.0
        self.announced = False
        self._depth = 0
        self._since: float | None = None
        self._bar: Any = None
        self._listener: Callable[[], None] | None = None

    @contextmanager
    def call(self) -> Iterator[None]:
        """Surrounds what may compile a kernel, and the kernels that it calls inside that."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._end()

    @property
    def is_watched(self) -> bool:
        """Whether somebody else says what there is to say."""
        return self._listener is not None

    @contextmanager
    def told_to(self, listener: Callable[[], None]) -> Iterator[None]:
        """Calls somebody for every kernel, who says of it what there is to say."""
        before, self._listener = self._listener, listener
        try:
            yield
        finally:
            self._listener = before

    def begin_kernel(self) -> None:
        """Notes that a kernel has to be compiled."""
        if self._since is None:
            self._since = time.perf_counter()
        self._look()

    def end_kernel(self) -> None:
        """Notes that a kernel has been compiled."""
        self.compiled += 1
        self._look()

    def _look(self) -> None:
        if self._listener is not None:
            self._listener()
            return
        assert self._since is not None
        if not self.announced:
            if self.seconds + time.perf_counter() - self._since < PATIENCE:
                return
            self.announced = True
            say(_LINE)
        if self._bar is None:
            self._bar = _start_bar()
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self.compiled)

    def _end(self) -> None:
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since
            self._since = None
        if self._bar:
            self._bar.stop()
        self._bar = None


progress = _Compiling()
"""What this process has compiled so far."""

_said: set[str] = set()


def say(line: str) -> None:
    """Prints a line on stderr, once in a process.

    Not in a worker process, nor where ``ESCOBA_QUIET`` is set; and an output that cannot be written
    is no reason to fail.
    """
    if line in _said or not _may_speak():
        return
    _said.add(line)
    # Closed, or on a full disk.
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)  # noqa: T201


def _may_speak() -> bool:
    # Without a stderr, as in a program without a console, print would write to stdout.
    return os.environ.get(QUIET, "") in ("", "0") and sys.stderr is not None and not _is_worker()


def _is_worker() -> bool:
    """Whether another process has started this one to work for it."""
    if multiprocessing.parent_process() is not None:
        return True
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)


def _start_bar() -> Any:
    """Starts a line that counts kernels on a terminal; nothing (``False``) elsewhere."""
    # Where somebody else's bar is shown, two that move about would write over each other.
    if not _may_speak() or hasattr(sys.stderr, "rich_proxied_file"):
        return False
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_interactive:
        return False
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:.0f} kernels compiled"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        # What others print meanwhile goes where they print it.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("kernels", total=None)
    bar.start()
    return bar
