"""``Policy``: what plays. Everything that takes an opponent takes one of these, or its name."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Views
from escoba_env.checks import quoted


@runtime_checkable
class Policy(Protocol):
    """Chooses actions from views.

    A policy is a function of the views alone: it keeps no memory of earlier calls, and takes any
    randomness from ``views.keys``, so that a game's course does not depend on what else is played.

    A policy with an attribute ``cheats`` that is true is given whole games in the place of views,
    where policies are measured (``evaluate``, ``tournament``, ``cross_play``, ``ladder``) or played
    out (``play_out``), and nowhere else: a ceiling to measure by.

    A policy that takes long may say, as an attribute ``deals_at_once``, how many deals a process
    should play of it before it hands in what came out: a second's worth, or as many as it needs
    side by side to be fast. Without, it is up to a hundred.

    Attributes:
        name: Name for tables, such as ``"greedy"``.
    """

    name: str

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view, every one of which is of the seat to move.

        Args:
            views: ``n`` views.

        Returns:
            Legal action ids, int64 (n,).
        """
        ...


def repr_of(policy: Policy, /, **options: Any) -> str:
    """Writes a policy as the call that makes it; options that are as by default are left out."""
    parameters = inspect.signature(type(policy)).parameters
    given = [
        f"{name}={quoted(value)}"
        for name, value in options.items()
        if name in parameters and value != parameters[name].default
    ]
    return f"{type(policy).__name__}({', '.join(given)})"
