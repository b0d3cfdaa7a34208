"""The command ``escoba``: evaluates and trains policies, keeps and analyses games, lists rules.

These files read options and print results; everything they say comes from the package. Results go
to stdout, progress and errors to stderr. What cannot be done is one line and exit code 2.
"""

from __future__ import annotations

from escoba_env.cli.common import app

# Importing a module adds its commands to the app, in the order of the help page.
from escoba_env.cli import compare, games, lists, training, warm  # isort: skip

__all__ = ["app", "compare", "games", "lists", "training", "warm"]
