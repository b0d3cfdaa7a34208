"""Stopping a run: the first Ctrl-C asks, the second one insists."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C into a request, which the function it yields tells of."""
    asked: list[int] = []

    def ask(number: int, _frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("stopping after this update; Ctrl-C again stops at once", file=sys.stderr)

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:
        # Only the main thread may set signals; elsewhere Ctrl-C is somebody else's to handle.
        yield lambda: False
        return
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
