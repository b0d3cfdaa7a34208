"""``python -m escoba_env`` is the command ``escoba``."""

from __future__ import annotations

from escoba_env.cli import app

app(prog_name="escoba")
