"""Escoba (escoba de quince) for reinforcement learning.

Environments: ``escoba_v0.env()`` (PettingZoo AEC), ``gymnasium.make("escoba_env/Escoba-v0")`` and
``make_vec``, ``envs.sb3.EscobaVecEnv`` (Stable-Baselines3), ``AllSeatsEnv`` (self-play).
Engine: ``Game`` (one), ``Batch`` (many). Policies: ``load_policy``.
Evaluation: ``evaluate``, more in ``escoba_env.evaluation``. One game: ``Replay``, ``analyse``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from escoba_env.envs.registration import register

if TYPE_CHECKING:
    from escoba_env.analysis import analyse
    from escoba_env.batch import Batch, IllegalActionError, Views
    from escoba_env.encoding import Encoding
    from escoba_env.envs.all_seats import AllSeatsEnv
    from escoba_env.evaluation import Evaluation, evaluate
    from escoba_env.game import Game
    from escoba_env.notation import Move, parse_move
    from escoba_env.policies import Policy, load_policy
    from escoba_env.replay import Replay
    from escoba_env.rules import PRESETS, Rules, RulesError, make_rules

_HOMES = {
    "AllSeatsEnv": "envs.all_seats",
    "analyse": "analysis",
    "Batch": "batch",
    "IllegalActionError": "batch",
    "Views": "batch",
    "Encoding": "encoding",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "Game": "game",
    "Move": "notation",
    "parse_move": "notation",
    "Policy": "policies",
    "load_policy": "policies",
    "Replay": "replay",
    "PRESETS": "rules",
    "Rules": "rules",
    "RulesError": "rules",
    "make_rules": "rules",
}
"""Module of each public name, imported when first used: the compiler alone takes half a second."""

__all__ = [
    "PRESETS",
    "AllSeatsEnv",
    "Batch",
    "Encoding",
    "Evaluation",
    "Game",
    "IllegalActionError",
    "Move",
    "Policy",
    "Replay",
    "Rules",
    "RulesError",
    "Views",
    "analyse",
    "evaluate",
    "load_policy",
    "make_rules",
    "parse_move",
]


register()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'escoba_env' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"escoba_env.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
