"""Escoba (escoba de quince) for reinforcement learning.

Environments: ``escoba_v0.env()`` (PettingZoo AEC), ``gymnasium.make("escoba_env/Escoba-v0")`` and
``make_vec``, ``envs.sb3.EscobaVecEnv`` (Stable-Baselines3), ``AllSeatsEnv`` (self-play).
Engine: ``Game`` (one), ``Batch`` (many). Policies: ``load_policy``, ``FunctionPolicy``.
Evaluation: ``evaluate``, ``tournament``, more in ``escoba_env.evaluation``.
One game: ``play_game``, ``Replay``, ``analyse``, ``solve``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from escoba_env.envs.registration import register

if TYPE_CHECKING:
    from escoba_env import adapters, envs, escoba_v0, evaluation, policies, render, solver
    from escoba_env.analysis import Analysis, GameAnalysis, analyse, analyse_game
    from escoba_env.batch import Batch, IllegalActionError, Views
    from escoba_env.encoding import Encoding
    from escoba_env.envs.all_seats import AllSeatsEnv, Decisions
    from escoba_env.envs.single import EscobaEnv
    from escoba_env.envs.vector import EscobaVectorEnv
    from escoba_env.evaluation import (
        Evaluation,
        cross_play,
        decision_quality,
        evaluate,
        ladder,
        play_out,
        tournament,
    )
    from escoba_env.game import Game
    from escoba_env.notation import Move, parse_move
    from escoba_env.policies import FunctionPolicy, Policy, load_policy, registered_policies
    from escoba_env.replay import Recording, Replay, ReplayError, play_game
    from escoba_env.report import RoundReport
    from escoba_env.rules import PRESETS, Rules, RulesError, make_rules
    from escoba_env.solver import SolverLimitError, solve, solve_view, solve_views
    from escoba_env.warming import warmup

    __version__: str

_HOMES = {
    "Analysis": "analysis",
    "GameAnalysis": "analysis",
    "analyse": "analysis",
    "analyse_game": "analysis",
    "Batch": "batch",
    "IllegalActionError": "batch",
    "Views": "batch",
    "Encoding": "encoding",
    "AllSeatsEnv": "envs.all_seats",
    "Decisions": "envs.all_seats",
    "EscobaEnv": "envs.single",
    "EscobaVectorEnv": "envs.vector",
    "Evaluation": "evaluation",
    "cross_play": "evaluation",
    "decision_quality": "evaluation",
    "evaluate": "evaluation",
    "ladder": "evaluation",
    "play_out": "evaluation",
    "tournament": "evaluation",
    "Game": "game",
    "Move": "notation",
    "parse_move": "notation",
    "FunctionPolicy": "policies",
    "Policy": "policies",
    "load_policy": "policies",
    "registered_policies": "policies",
    "Recording": "replay",
    "Replay": "replay",
    "ReplayError": "replay",
    "play_game": "replay",
    "RoundReport": "report",
    "PRESETS": "rules",
    "Rules": "rules",
    "RulesError": "rules",
    "make_rules": "rules",
    "SolverLimitError": "solver",
    "solve": "solver",
    "solve_view": "solver",
    "solve_views": "solver",
    "warmup": "warming",
}
"""Module of each public name, imported when first used: the compiler alone takes half a second."""

_MODULES = ("adapters", "envs", "escoba_v0", "evaluation", "policies", "render", "solver")
"""Public modules and packages, imported when first used too."""

__all__ = [
    "PRESETS",
    "AllSeatsEnv",
    "Analysis",
    "Batch",
    "Decisions",
    "Encoding",
    "EscobaEnv",
    "EscobaVectorEnv",
    "Evaluation",
    "FunctionPolicy",
    "Game",
    "GameAnalysis",
    "IllegalActionError",
    "Move",
    "Policy",
    "Recording",
    "Replay",
    "ReplayError",
    "RoundReport",
    "Rules",
    "RulesError",
    "SolverLimitError",
    "Views",
    "__version__",
    "adapters",
    "analyse",
    "analyse_game",
    "cross_play",
    "decision_quality",
    "envs",
    "escoba_v0",
    "evaluate",
    "evaluation",
    "ladder",
    "load_policy",
    "make_rules",
    "parse_move",
    "play_game",
    "play_out",
    "policies",
    "registered_policies",
    "render",
    "solve",
    "solve_view",
    "solve_views",
    "solver",
    "tournament",
    "warmup",
]


register()


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used."""
    value: Any
    if name in _HOMES:
        value = getattr(importlib.import_module(f"escoba_env.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"escoba_env.{name}")
    elif name == "__version__":
        from escoba_env.version import package_version

        value = package_version()
    else:
        raise AttributeError(f"module 'escoba_env' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
