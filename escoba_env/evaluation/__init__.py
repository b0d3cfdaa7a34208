"""Evaluation on duplicate deals: pairs, tournaments, partners, the ladder, decision quality."""

from __future__ import annotations

from escoba_env.evaluation.duplicate import (
    Evaluation,
    Pairing,
    evaluate,
    mean_interval,
    seatings,
)
from escoba_env.evaluation.ladders import LADDERS, Ladder, LadderScore, ladder
from escoba_env.evaluation.playout import PlayOut, play_out
from escoba_env.evaluation.pool import StoreError, WorkerError, cores
from escoba_env.evaluation.quality import Quality, decision_quality
from escoba_env.evaluation.ray_workers import RayWorkers
from escoba_env.evaluation.tournaments import (
    CrossPlay,
    Partners,
    Standing,
    Tournament,
    cross_play,
    tournament,
)
from escoba_env.evaluation.units import Interrupted

__all__ = [
    "LADDERS",
    "CrossPlay",
    "Evaluation",
    "Interrupted",
    "Ladder",
    "LadderScore",
    "Pairing",
    "Partners",
    "PlayOut",
    "Quality",
    "RayWorkers",
    "Standing",
    "StoreError",
    "Tournament",
    "WorkerError",
    "cores",
    "cross_play",
    "decision_quality",
    "evaluate",
    "ladder",
    "mean_interval",
    "play_out",
    "seatings",
    "tournament",
]
