"""The folder of a training run: config, resume point, policy, evaluations, each written whole."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from escoba_env.batch import Batch
from escoba_env.engine.record import STATE
from escoba_env.files import MAX_LINES, MAX_TENSORS, read_whole
from escoba_env.policies.learned import LearnedPolicy
from training.config import Config, ConfigError, load_config
from training.league import League
from training.ppo import SelfPlayPPO
from training.rollout import SelfPlay

_DAMAGE = (RuntimeError, LookupError, ValueError, EOFError, OSError, TypeError, AttributeError)
"""What reading a damaged resume point can end in."""


class RunFolder:
    """Where a run keeps everything it needs to go on and everything it has found.

    Args:
        path: The folder. ``config.yaml``, ``resume.pt``, ``checkpoint/``, ``evaluations.jsonl``
            and ``log/`` (TensorBoard and CSV) live in it, and ``best/``, a checkpoint, with
            ``keep_best``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.resume = path / "resume.pt"
        self.checkpoint = path / "checkpoint"
        self.best = path / "best"
        self.evaluations = path / "evaluations.jsonl"
        self.log = path / "log"

    def start(self, config: Config) -> None:
        """Makes the folder of a new run.

        Raises:
            ConfigError: If the folder is not empty.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"run folder {self.path} is a file")
        if self.path.exists() and any(self.path.iterdir()):
            raise ConfigError(
                f"run folder {self.path} is not empty: go on with --resume, or choose another "
                f"with --run"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(
            self.config, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False).encode()
        )

    def reopen(self, config: Config) -> None:
        """Checks that a run can be gone on with.

        Raises:
            ConfigError: If there is none, or its config is another one. A run may be made longer.
        """
        if not self.config.is_file():
            raise ConfigError(f"there is no run to resume in {self.path}")
        before = load_config(self.config).model_dump(exclude={"decisions"})
        now = config.model_dump(exclude={"decisions"})
        changed = sorted(key for key in now if now[key] != before[key])
        if changed:
            raise ConfigError(
                f"the run in {self.path} was started with another config: {', '.join(changed)} "
                f"differ; only decisions may change"
            )

    def save(
        self,
        model: SelfPlayPPO,
        play: SelfPlay,
        policy: LearnedPolicy,
        past: LearnedPolicy | None,
    ) -> None:
        """Writes the policy, and all that the run needs to go on as if it had not stopped."""
        policy.save(self.checkpoint)
        content = {
            "decisions": model.num_timesteps,
            "seconds": model.seconds,
            "policy": model.policy.state_dict(),
            "optimizer": model.policy.optimizer.state_dict(),
            "games": torch.from_numpy(np.frombuffer(play.batch.states.tobytes(), np.uint8).copy()),
            "opponent_of": torch.from_numpy(play.opponent_of.copy()),
            "past": past.network.state_dict() if past else None,
            "league_games": torch.from_numpy(play.league_games.copy()),
            "league": _league_content(play.league) if play.league else None,
            "random": json.dumps(play.random.bit_generator.state),
            "torch_random": torch.get_rng_state(),
            "strength": json.dumps(policy.card.strength),
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_whole(self.resume, buffer.getvalue())

    def restore(
        self,
        model: SelfPlayPPO,
        play: SelfPlay,
        past: LearnedPolicy | None,
        freeze: Callable[[], LearnedPolicy],
    ) -> dict[str, Any]:
        """Puts learner and games where :meth:`save` left them.

        Args:
            model: The learner.
            play: The games.
            past: The learner as it was a while ago.
            freeze: Makes a policy of the learner's network, to hold a past self's weights.

        Returns:
            The strength that was measured last, as in the policy's card; empty if the run was
            stopped before its first save, and begins again.

        Raises:
            ConfigError: If the resume point is missing or damaged.
        """
        if not self.resume.exists():
            return {}
        try:
            content = torch.load(
                io.BytesIO(read_whole(self.resume, MAX_TENSORS)), weights_only=True
            )
            model.policy.load_state_dict(content["policy"])
            model.policy.optimizer.load_state_dict(content["optimizer"])
            model.num_timesteps = int(content["decisions"])
            model.seconds = float(content["seconds"])
            states = np.frombuffer(content["games"].numpy().tobytes(), STATE)
            play.batch.states[:] = states
            play.opponent_of[:] = content["opponent_of"].numpy()
            if past:
                past.network.load_state_dict(content["past"])
            play.league_games[:] = content["league_games"].numpy()
            if play.league:
                _restore_league(play.league, content["league"], freeze)
            play.random.bit_generator.state = json.loads(content["random"])
            torch.set_rng_state(content["torch_random"])
            strength: dict[str, Any] = json.loads(content["strength"])
        except (*_DAMAGE, pickle.UnpicklingError) as error:
            raise ConfigError(f"{self.resume} cannot be resumed from: {error}") from error
        return strength

    def add_evaluation(self, result: dict[str, Any]) -> None:
        """Adds one evaluation to the run's list."""
        old = b""
        if self.evaluations.exists():
            old = read_whole(self.evaluations, MAX_LINES)
        write_whole(self.evaluations, old + json.dumps(result).encode() + b"\n")


def _league_content(league: League) -> dict[str, Any]:
    past = {str(place): policy.network.state_dict() for place, policy in league.past_selves()}
    return {"scores": league.scores.tolist(), "past": past}


def _restore_league(
    league: League, content: dict[str, Any], freeze: Callable[[], LearnedPolicy]
) -> None:
    for place, weights in content["past"].items():
        policy = freeze()
        policy.network.load_state_dict(weights)
        league.policies[int(place)] = policy
    league.scores[:] = content["scores"]


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that a reader, or a crash, never sees a part of it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with scratch.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def batch_of(config: Config) -> Batch:
    """Makes the games that a run plays."""
    return Batch(
        config.games,
        config.table(),
        episode=config.episode,
        reward=config.reward,
        reward_timing=config.reward_timing,
        encoding=config.encoding,
        memory=config.memory,
        skip_forced=True,
        seed=config.seed,
    )
