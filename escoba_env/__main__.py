"""``main`` is the command ``escoba``, as is ``python -m escoba_env``."""

from __future__ import annotations

import os
import signal
from typing import Any


def main() -> None:
    """Runs the command; Ctrl-C while it is still being imported ends it without a traceback."""
    before = signal.signal(signal.SIGINT, _leave)
    from escoba_env.cli import app

    signal.signal(signal.SIGINT, before)
    app(prog_name="escoba")


def _leave(*_: Any) -> None:
    # At once: half an import raises whatever it likes.
    os.write(2, b"Interrupted: nothing was finished.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
