"""``main`` is the command ``escoba``, as is ``python -m escoba_env``."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

INTERRUPTED = 130
STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that end a command: it says what was finished, and ends what it has started."""


def main() -> None:
    """Runs the command; a signal that stops it ends it in one line, even while it is imported.

    Its exit status is then 128 and the signal's number, as a shell has it: 130 after Ctrl-C, 143
    after SIGTERM.
    """
    # Those that are ignored, such as by nohup, stay so.
    stops = [number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in stops:
        signal.signal(number, _leave)
    from escoba_env.cli import app

    stopped_by = signal.SIGINT

    def stop(number: int, _frame: Any) -> None:
        nonlocal stopped_by
        stopped_by = signal.Signals(number)
        # Somebody who asks twice does not want to wait.
        for other in stops:
            signal.signal(other, _leave_at_once)
        raise KeyboardInterrupt

    for number in stops:
        signal.signal(number, stop)
    try:
        app(prog_name="escoba")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            sys.exit(128 + stopped_by)
        raise


def _leave(number: int, _frame: Any) -> None:
    # At once: half an import raises whatever it likes.
    os.write(2, b"Interrupted: nothing was finished.\n")
    os._exit(128 + number)


def _leave_at_once(number: int, _frame: Any) -> None:
    os.write(2, b"Interrupted again: ended at once.\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
