"""The folder of a self-play run: config, resume point, policy, evaluations, each written whole."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from escoba_env.batch import Batch
from escoba_env.checks import whole
from escoba_env.engine.record import STATE
from escoba_env.policies.checkpoint import read_card
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.records import check_records

from .config import MAX_DECISIONS, Config, ConfigError
from .folder import Folder
from .league import League
from .ppo import SelfPlayPPO
from .resume_point import (
    Content,
    restore_optimizer,
    restore_weights,
    resume_point,
    write_resume_point,
)
from .rollout import LEARNER, SelfPlay


class RunFolder(Folder):
    """Where a run keeps everything it needs to go on and everything it has found.

    The resume point is written first: with it a save is done. Whatever else is in the folder
    follows from it, and is brought in line with it where a kill came in between.

    Args:
        path: The folder. ``config.yaml``, ``resume.pt``, ``checkpoint/``, ``evaluations.jsonl``
            and ``log/`` (TensorBoard and CSV) live in it, and ``best/``, a checkpoint, with
            ``keep_best``.

    Attributes:
        stopped: Whether the latest run in it was stopped before its end.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.resume = path / "resume.pt"
        self.best = path / "best"
        self.log = path / "log"
        self.stopped = False

    def reopen(self, config: Config) -> None:
        """Checks that a run can be gone on with; changes nothing.

        Raises:
            ConfigError: If there is none, its config is another one, or its resume point is gone. A
                run may be made longer.
        """
        before = self.started_with(Config).model_dump(exclude={"decisions"})
        now = config.model_dump(exclude={"decisions"})
        self.refuse_changes(
            (key for key in now if now[key] != before[key]), "only decisions may change"
        )
        self.check_resumable(self.resume)

    def save(
        self,
        model: SelfPlayPPO,
        play: SelfPlay,
        policy: LearnedPolicy,
        past: LearnedPolicy | None,
        best: dict[str, Any] | None,
    ) -> None:
        """Writes all that the run needs to go on as if it had not stopped, and the policy.

        Args:
            model: The learner.
            play: The games.
            policy: The learner as it is, with its card.
            past: The learner as it was a while ago.
            best: What is in ``best``, or is about to be: ``decisions`` and ``worth``.
        """
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
            "best": best,
        }
        write_resume_point(self.resume, content)
        policy.save(self.checkpoint)

    def restore(
        self,
        model: SelfPlayPPO,
        play: SelfPlay,
        past: LearnedPolicy | None,
        freeze: Callable[[], LearnedPolicy],
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Puts learner and games where :meth:`save` left them; the folder stays as it is.

        Args:
            model: The learner.
            play: The games.
            past: The learner as it was a while ago.
            freeze: Makes a policy of the learner's network, to hold a past self's weights.

        Returns:
            The strength that was measured last, as in the policy's card, and what is in ``best``;
            empty and none if the run was stopped before its first save, and begins again.

        Raises:
            ConfigError: If the resume point is damaged.
        """
        if not self.resume.exists():
            return {}, None
        with resume_point(self.resume) as content:
            decisions = content.whole("decisions", 0, MAX_DECISIONS)
            seconds = content.seconds()
            strength = _strength_in(content, decisions)
            best = _best_in(content, decisions)
            restore_weights(model.policy, content["policy"], "policy")
            restore_optimizer(model.policy.optimizer, content["optimizer"])
            if past:
                restore_weights(past.network, content["past"], "past")
            if play.league:
                _restore_league(play.league, content["league"], freeze)
            _restore_games(play, content)
            play.random.bit_generator.state = json.loads(content["random"])
            torch.set_rng_state(content["torch_random"])
            model.num_timesteps = decisions
            model.seconds = seconds
        return strength, best

    def saved_at(self, checkpoint: Path) -> int | None:
        """Returns after how many decisions a policy of the run was saved; none: it is not there.

        Raises:
            ConfigError: If it is damaged, or another one.
        """
        if not checkpoint.exists():
            return None
        try:
            return whole("decisions", read_card(checkpoint).training["decisions"], 0, MAX_DECISIONS)
        except (ValueError, KeyError) as error:
            raise ConfigError(
                f"{checkpoint} cannot be gone on with, its card is damaged or of another version "
                f"({error!r}): train again, in another folder"
            ) from None


def _strength_in(content: Content, decisions: int) -> dict[str, Any]:
    strength: dict[str, Any] = json.loads(content["strength"])
    for against, measured in strength.items():
        numbers = [value for value in measured.values() if not isinstance(value, bool)]
        if not all(isinstance(n, int | float) and math.isfinite(n) for n in numbers):
            raise ValueError(f"strength against {against!r:.80} has values that are no numbers")
        if not 0 <= measured["decisions"] <= decisions:
            raise ValueError(f"strength against {against!r:.80} is of decisions to come")
    return strength


def _best_in(content: Content, decisions: int) -> dict[str, Any] | None:
    """What ``best`` holds; a resume point of an earlier version does not say."""
    best: dict[str, Any] | None = content.get("best")
    if best is not None and not (
        0 <= best["decisions"] <= decisions and math.isfinite(best["worth"])
    ):
        raise ValueError(f"best {best!r:.80} is not of this run")
    return best


def _restore_games(play: SelfPlay, content: Content) -> None:
    """Puts back the games and who plays in them.

    Kernels trust game records and the loop trusts seats: each is checked first.

    Raises:
        ValueError: If a game is not possible, or is over, or nobody there could play it on.
    """
    batch, rules = play.batch, play.batch.rules
    size = len(batch)
    data = content.array("games", np.uint8, (size * STATE.itemsize,))
    games = np.frombuffer(data.tobytes(), STATE)
    check_records(rules, games, views=False)
    seats = content.array("opponent_of", np.int64, (size, rules.players))
    members = content.array("league_games", np.int64, (size, 2))
    there = [LEARNER, *(n for n, policy in enumerate(play.policies) if policy is not None)]
    in_league = [-1]
    if play.league:
        in_league += [n for n, policy in enumerate(play.league.policies) if policy is not None]
    if not np.isin(seats, there).all() or not (seats == LEARNER).any(1).all():
        raise ValueError("opponent_of names players that are not there, or a game has no learner")
    sides = np.arange(-1, rules.num_sides)
    if (
        not np.isin(members[:, 0], in_league).all()
        or not np.isin(members[:, 1], sides).all()
        or ((members[:, 0] >= 0) & (members[:, 1] < 0)).any()
    ):
        raise ValueError("league_games names members or sides that are not there")
    if games["phase"].any() or (seats[np.arange(size), games["turn"]] != LEARNER).any():
        raise ValueError("games: one of them is over, or waits for another player than the learner")
    batch.states[:] = games
    play.opponent_of[:] = seats
    play.league_games[:] = members


def _league_content(league: League) -> dict[str, Any]:
    past = {str(place): policy.network.state_dict() for place, policy in league.past_selves()}
    return {"scores": league.scores.tolist(), "past": past}


def _restore_league(
    league: League, content: dict[str, Any], freeze: Callable[[], LearnedPolicy]
) -> None:
    scores = np.asarray(content["scores"], np.float64)
    if scores.shape != league.scores.shape or not ((scores >= 0) & (scores <= 1)).all():
        raise ValueError("league: scores are not one share of games for each member")
    places = {str(place): place for place in range(league.fixed, len(league.policies))}
    for name, weights in content["past"].items():
        if name not in places:
            raise ValueError(f"league: there is no place {name!r:.80} for a past self")
        policy = freeze()
        restore_weights(policy.network, weights, f"league, place {name}")
        league.policies[places[name]] = policy
    league.scores[:] = scores


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
