"""Threads that share the rows of a call among them: kernels run without the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from threading import Event

MAX_THREADS = 1024
MIN_ROWS = 128
"""Rows that a thread is given at the least, where a row is a step of a game: for fewer the hand-off
takes longer than the work."""


def spread(
    call: Callable[[int, int], object],
    rows: int,
    threads: int,
    min_rows: int = MIN_ROWS,
    stop: Event | None = None,
) -> None:
    """Calls ``call(start, end)`` for parts that make up ``range(rows)``, side by side.

    Args:
        call: Works on rows that no other part touches.
        rows: Number of rows.
        threads: The most parts to make, at least 1; the caller's own thread takes the first.
        min_rows: Rows that a part has at the least.
        stop: Set when the caller is interrupted, for parts that take long to look at and end early.

    Raises:
        Exception: What a part raises, once all are done.
    """
    parts = max(1, min(threads, rows // min_rows))
    if parts == 1:
        call(0, rows)
        return
    bounds = [rows * part // parts for part in range(parts + 1)]
    pool = _helpers()
    others = [pool.submit(call, bounds[i], bounds[i + 1]) for i in range(1, parts)]
    try:
        call(bounds[0], bounds[1])
        wait(others)
    except BaseException:
        if stop is not None:
            stop.set()
        raise
    finally:
        # Whatever the first part raises, nobody goes on while others still write.
        wait(others)
    for part in others:
        part.result()


@cache
def _helpers() -> ThreadPoolExecutor:
    """Returns the threads of this process that help; they are started as they are needed."""
    return ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="escoba")


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_helpers.cache_clear)
