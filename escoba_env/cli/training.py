"""Commands that train, which live beside the training that they run."""

from __future__ import annotations

from importlib import import_module

from escoba_env.cli.common import app

# By name: a checkout and an installed package have these files in different places.
_COMMANDS = import_module("escoba_env.training.commands")
for _name in ("train", "distil"):
    app.command(_name)(getattr(_COMMANDS, _name))
