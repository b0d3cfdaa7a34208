"""Trains a policy by self-play.

    python -m training.selfplay configs/quick.yaml
    python -m training.selfplay configs/quick.yaml --resume

The run folder (``runs/NAME-SEED`` unless ``--run`` names another) holds the policy as a checkpoint
that every command and environment loads (``escoba evaluate runs/NAME-SEED/checkpoint greedy``),
TensorBoard logs, the evaluations, and the point to resume from. Ctrl-C stops after the update that
is under way and saves; a killed run goes on from its last save.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from escoba_env.batch import Batch
from escoba_env.evaluation import Evaluation, evaluate
from escoba_env.policies import Policy, load_policy
from escoba_env.policies.checkpoint import CheckpointError
from escoba_env.policies.learned import LearnedPolicy

from . import commands
from .commands import app_of
from .config import Config, ConfigError
from .league import League
from .log import open_log
from .ppo import (
    SelfPlayPPO,
    check_size,
    frozen_policy,
    network_card,
    starting_weights,
    take_weights,
)
from .progress import bar_of
from .rollout import SelfPlay
from .run_folder import RunFolder, batch_of
from .stopping import interrupts

app = app_of(commands.train)


def train(config: Config, folder: RunFolder, *, resume: bool = False) -> LearnedPolicy:
    """Runs one experiment to its end, or until it is interrupted.

    Everything is checked, loaded and made before the folder is touched.

    Args:
        config: Its settings.
        folder: Its run folder; ``folder.stopped`` says afterwards whether it was interrupted.
        resume: Go on with the run that is there.

    Returns:
        The policy, as it has been saved.

    Raises:
        ConfigError: If something the config names is not possible, the folder does not fit or
            another process has it.
        ValueError: If a file cannot be written, such as on a full disk.
        OSError: Likewise, or if the folder cannot be made.
    """
    _check_folder(config, folder, resume)
    # A run that was killed before its first save begins as its config says.
    start = None if resume and folder.resume.exists() else config.start
    batch = _checked_batch(config, start)
    torch.set_num_threads(config.threads)
    model = SelfPlayPPO(config, batch)
    if start is not None:
        shape = network_card(config, batch)
        take_weights(model.network, shape, batch.encoding, start, config.name)
    asks_for_past = "past" in {*config.opponents, *config.teammates}
    past = frozen_policy(config, batch, model) if asks_for_past else None
    run = _Run(config, folder, model, _games_of(config, batch, past), past)
    with folder.owned():
        # Another process may have been here since.
        _check_folder(config, folder, resume)
        if resume:
            run.restore()
        else:
            folder.start(config)
        model.set_logger(open_log(folder.log, model.num_timesteps))
        try:
            return run.go()
        finally:
            model.logger.close()


def _check_folder(config: Config, folder: RunFolder, resume: bool) -> None:
    if resume:
        folder.reopen(config)
    else:
        folder.check_new()


def _games_of(config: Config, batch: Batch, past: LearnedPolicy | None) -> SelfPlay:
    """Seats the opponents and teammates of a run."""

    def loaded(shares: dict[str, float]) -> list[tuple[Policy, float]]:
        return [
            (past if past and name == "past" else load_policy(name), share)
            for name, share in shares.items()
        ]

    league = None
    if config.league:
        settings = config.league
        members = [load_policy(name) for name in settings.members]
        league = League(members, settings.size, settings.power)
    return SelfPlay(
        batch,
        loaded(config.opponents),
        config.reward_scale,
        config.seed,
        league,
        config.league.share if config.league else 0.0,
        loaded(config.teammates),
        all_seeing=config.critic == "all_seeing",
    )


def _checked_batch(config: Config, start: str | None) -> Batch:
    """Makes the games of a run, and sees that every policy it names can play them.

    Raises:
        ConfigError: If not; it names every one that cannot.
    """
    try:
        batch = batch_of(config)
    except ValueError as error:
        raise ConfigError(f"config {config.name}: {error}") from None
    faults = []
    shape = network_card(config, batch)
    try:
        check_size(shape)
        if start is not None:
            starting_weights(shape, batch.encoding, start, config.name)
    except ValueError as error:
        faults.append(str(error).removeprefix(f"config {config.name}: "))
    asked = {*config.opponents, *config.teammates} - {"past"}
    members = config.league.members if config.league else ()
    for name in sorted({*asked, *members, *config.evaluation.against}):
        try:
            load_policy(name).act(batch.views())
        except ValueError as error:
            faults.append(f"policy {name}: {error}")
    if faults:
        raise ConfigError(f"config {config.name}: {'; '.join(faults)}")
    return batch


class _Run:
    """A run in progress: the loop around updates, evaluations and saves."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        model: SelfPlayPPO,
        play: SelfPlay,
        past: LearnedPolicy | None,
    ) -> None:
        self.config = config
        self.folder = folder
        self.model = model
        self.play = play
        self.past = past
        self.strength: dict[str, Any] = {}
        self.latest = "-"
        self.best: dict[str, Any] | None = None
        self.console = Console(stderr=True)

    def restore(self) -> None:
        """Goes on where the last save was, and brings the folder in line with it.

        Raises:
            ConfigError: If the resume point or the best policy is damaged or gone.
        """
        folder, model = self.folder, self.model
        saved = folder.resume.exists()
        self.strength, self.best = folder.restore(model, self.play, self.past, self._frozen)
        if not saved:
            self.console.print("the run was stopped before its first save: it begins again")
        folder.forget_evaluations_after(model.num_timesteps if saved else -1)
        if saved and folder.saved_at(folder.checkpoint) != model.num_timesteps:
            self._policy().save(folder.checkpoint)
        if self.config.evaluation.keep_best:
            self._restore_best()

    def _restore_best(self) -> None:
        folder = self.folder
        kept = folder.saved_at(folder.best)
        if self.best is None:
            # Nothing was evaluated yet, or a resume point of an earlier version does not say.
            if kept is not None:
                against = self.config.evaluation.against[0]
                worth = _best_of(folder.best, against, self.config.reward)
                self.best = {"decisions": kept, "worth": worth}
        elif kept != self.best["decisions"]:
            if self.best["decisions"] != self.model.num_timesteps:
                raise ConfigError(
                    f"{folder.best} cannot be gone on with, the run's best is that of "
                    f"{self.best['decisions']:,} decisions: put it back, or train again, in "
                    f"another folder"
                )
            # Killed after the save, before the policy was written.
            self._policy().save(folder.best)

    def go(self) -> LearnedPolicy:
        config, model = self.config, self.model
        began = model.num_timesteps
        # A run that was stopped in its last update has not been evaluated after it.
        last_evaluation = max((s["decisions"] for s in self.strength.values()), default=0)
        with interrupts() as interrupted, bar_of(self.console) as bar:
            task = bar.add_task(config.name, total=config.decisions, completed=began, info="")
            if began == 0 and config.evaluation.keep_best:
                self._evaluate()
            while model.num_timesteps < config.decisions and not interrupted():
                before = model.num_timesteps
                model.update(self.play, config.decisions)
                if not all(weight.isfinite().all() for weight in model.policy.parameters()):
                    raise ConfigError(
                        f"config {config.name}: learning went astray at {model.num_timesteps:,} "
                        f"decisions; a lower learning_rate may help"
                    )
                rate = model.logger.name_to_value["time/decisions_per_second"]
                updates = model.num_timesteps // (config.games * config.steps)
                if self.past and updates % config.past_every == 0:
                    self.past.network.load_state_dict(model.network.state_dict())
                league = config.league
                if league and league.size and _passed(league.every, before, model.num_timesteps):
                    self._into_league()
                # Counted from the start of the run, so that a resumed one keeps its rhythm.
                if _passed(config.evaluation.every, before, model.num_timesteps):
                    self._evaluate()
                    last_evaluation = model.num_timesteps
                model.logger.dump(model.num_timesteps)
                if _passed(config.save_every, before, model.num_timesteps):
                    self._save()
                bar.update(
                    task,
                    completed=min(model.num_timesteps, config.decisions),
                    info=f"{rate:,.0f} decisions/s  {self.latest}",
                )
            if model.num_timesteps > last_evaluation and not interrupted():
                self._evaluate()
            self.folder.stopped = interrupted()
        if began >= config.decisions:
            self.console.print(
                f"nothing to learn: {began:,} of {config.decisions:,} decisions done"
            )
        policy = self._save()
        if self.folder.stopped:
            self.console.print(f"stopped at {model.num_timesteps:,} decisions; go on with --resume")
        return policy

    def _frozen(self) -> LearnedPolicy:
        return frozen_policy(self.config, self.play.batch, self.model)

    def _into_league(self) -> None:
        """Makes the learner as it is a past self, and logs how the others do."""
        league = self.play.league
        assert league is not None
        league.add(self._frozen())
        for place, policy in enumerate(league.policies):
            if policy is not None:
                name = policy.name if place < league.fixed else f"past {place - league.fixed + 1}"
                self.model.logger.record(f"league/score_against_{name}", league.scores[place])

    def _evaluate(self) -> None:
        settings = self.config.evaluation
        policy = self._frozen()
        for number, name in enumerate(settings.against):
            result = evaluate(
                policy,
                name,
                self.play.batch.rules,
                episode=self.config.episode,
                deals=settings.deals,
                seed=settings.seed,
            )
            self._note(name, result)
            text = f"{result.margin:+.2f} ± {result.half_width:.2f} against {name}"
            if number == 0:
                self.latest = text
            # Above the bar, and where there is no terminal for one.
            self.console.print(f"{self.model.num_timesteps:,} decisions: {text}")
        if settings.keep_best:
            worth = _worth(self.strength[settings.against[0]], self.config.reward)
            if self.best is None or worth > self.best["worth"]:
                self.best = {"decisions": self.model.num_timesteps, "worth": worth}
                # Saved first: what the best policy follows from is never lost with a kill.
                self._save().save(self.folder.best)

    def _note(self, name: str, result: Evaluation) -> None:
        self.strength[name] = {
            "margin": result.margin,
            "half_width": result.half_width,
            **games_of(result),
            "deals": result.deals,
            "seed": result.seed,
            "decisions": self.model.num_timesteps,
        }
        self.folder.add_evaluation({"against": name, **self.strength[name]})
        self.model.logger.record(f"strength/margin_against_{name}", result.margin)

    def _save(self) -> LearnedPolicy:
        policy = self._policy()
        self.folder.save(self.model, self.play, policy, self.past, self.best)
        return policy

    def _policy(self) -> LearnedPolicy:
        """The learner as it is, with its card."""
        return frozen_policy(
            self.config,
            self.play.batch,
            self.model,
            training={
                "config": self.config.model_dump(mode="json"),
                "decisions": self.model.num_timesteps,
                "seconds": round(self.model.seconds, 1),
                "torch": torch.__version__,
            },
            strength=dict(self.strength),
        )


def games_of(result: Evaluation) -> dict[str, int]:
    """How many games were won, drawn and lost, as cards have it."""
    return {"won": result.wins, "drawn": result.draws, "lost": result.losses}


def _worth(strength: dict[str, Any], reward: str) -> float:
    """What is learned, as it was measured: games won less those lost, a game, or the margin."""
    if reward != "win":
        return float(strength["margin"])
    won, lost = strength["won"], strength["lost"]
    return float((won - lost) / (won + strength["drawn"] + lost))


def _best_of(checkpoint: Path, against: str, reward: str) -> float:
    """What a kept policy was measured with.

    Raises:
        ConfigError: If it is damaged, or was not measured against that policy.
    """
    try:
        strength = LearnedPolicy.load(checkpoint).card.strength
        return _worth(strength[against], reward)
    except (CheckpointError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise ConfigError(
            f"{checkpoint} cannot be gone on with, its card is damaged or of another version "
            f"({error!r}): train again, in another folder"
        ) from None


def _passed(every: int, before: int, now: int) -> bool:
    return now // every > before // every


def run_path(config: Config, run: Path | None) -> RunFolder:
    """Folder of a run: the one named, or ``runs/NAME-SEED``."""
    return RunFolder(run or Path("runs") / f"{config.name}-{config.seed}")


if __name__ == "__main__":
    app()
