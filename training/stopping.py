"""Stopping a run: the first Ctrl-C asks, the second one insists; while modules load it ends all."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C has ended."""


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


def end_while_importing(number: int, frame: FrameType | None) -> None:
    """Handles Ctrl-C: as usual once a command runs, and by ending at once while modules load.

    Half an import raises whatever it likes, and the libraries of training take seconds.
    """
    running = importing = False
    while frame is not None:
        importing |= frame.f_code.co_filename.startswith("<frozen importlib")
        running |= frame.f_globals.get("__name__", "").startswith("typer.")
        frame = frame.f_back
    if importing or not running:
        os.write(2, b"Interrupted: nothing was finished.\n")
        os._exit(INTERRUPTED)
    signal.default_int_handler(number, None)


@contextmanager
def ending_while_importing() -> Iterator[None]:
    """Handles Ctrl-C by :func:`end_while_importing` meanwhile."""
    try:
        before = signal.signal(signal.SIGINT, end_while_importing)
    except ValueError:
        # Not the main thread.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
