"""Evaluation: what one policy wins from another, measured on duplicate deals."""

from __future__ import annotations

from escoba_env.evaluation.duplicate import Evaluation, evaluate, mean_interval, seatings
from escoba_env.evaluation.playout import PlayOut, play_out

__all__ = ["Evaluation", "PlayOut", "evaluate", "mean_interval", "play_out", "seatings"]
