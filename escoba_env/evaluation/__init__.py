"""Evaluation: what one policy wins from another, measured on duplicate deals."""

from __future__ import annotations

from escoba_env.evaluation.duplicate import (
    Evaluation,
    Interrupted,
    evaluate,
    mean_interval,
    seatings,
)
from escoba_env.evaluation.playout import PlayOut, play_out

__all__ = [
    "Evaluation",
    "Interrupted",
    "PlayOut",
    "evaluate",
    "mean_interval",
    "play_out",
    "seatings",
]
