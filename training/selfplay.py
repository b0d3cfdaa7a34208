"""Trains a policy by self-play.

    python -m training.selfplay configs/quick.yaml
    python -m training.selfplay configs/quick.yaml --resume

The run folder (``runs/NAME-SEED`` unless ``--run`` names another) holds the policy as a checkpoint
that every command and environment loads (``escoba evaluate runs/NAME-SEED/checkpoint greedy``),
TensorBoard logs, the evaluations, and the point to resume from. Ctrl-C stops after the update that
is under way and saves; a killed run goes on from its last save.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from escoba_env.batch import Batch
from escoba_env.evaluation import Evaluation, evaluate
from escoba_env.policies import Policy, load_policy
from escoba_env.policies.checkpoint import CheckpointError
from escoba_env.policies.learned import LearnedPolicy

from .config import Config, ConfigError, load_config
from .league import League
from .ppo import SelfPlayPPO, frozen_policy, network_card, take_weights
from .progress import bar_of
from .rollout import SelfPlay
from .run_folder import RunFolder, batch_of
from .stopping import interrupts

app = typer.Typer(add_completion=False)


def train(config: Config, folder: RunFolder, *, resume: bool = False) -> LearnedPolicy:
    """Runs one experiment to its end, or until it is interrupted.

    Args:
        config: Its settings.
        folder: Its run folder.
        resume: Go on with the run that is there.

    Returns:
        The policy, as it has been saved.

    Raises:
        ConfigError: If the folder does not fit.
    """
    if resume:
        folder.reopen(config)
    batch = _checked_batch(config)
    if not resume:
        folder.start(config)
    torch.set_num_threads(config.threads)
    model = SelfPlayPPO(config, batch, folder.log)
    try:
        return _trained(config, folder, batch, model, resume)
    finally:
        model.logger.close()


def _trained(
    config: Config, folder: RunFolder, batch: Batch, model: SelfPlayPPO, resume: bool
) -> LearnedPolicy:
    # Nor has a run that was killed before its first save.
    if config.start is not None and not folder.resume.is_file():
        shape = network_card(config, batch)
        take_weights(model.network, shape, batch.encoding, config.start, config.name)
    asks_for_past = "past" in {*config.opponents, *config.teammates}
    past = frozen_policy(config, batch, model) if asks_for_past else None

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
    play = SelfPlay(
        batch,
        loaded(config.opponents),
        config.reward_scale,
        config.seed,
        league,
        config.league.share if config.league else 0.0,
        loaded(config.teammates),
        all_seeing=config.critic == "all_seeing",
    )
    run = _Run(config, folder, model, play, past)
    if resume:
        run.strength = folder.restore(
            model, play, past, lambda: frozen_policy(config, batch, model)
        )
    return run.go()


def _checked_batch(config: Config) -> Batch:
    """Makes the games of a run, and sees that every policy it names can play them."""
    try:
        batch = batch_of(config)
    except ValueError as error:
        raise ConfigError(f"config {config.name}: {error}") from None
    asked = {*config.opponents, *config.teammates} - {"past"}
    members = config.league.members if config.league else ()
    for name in sorted({*asked, *members, *config.evaluation.against}):
        try:
            load_policy(name).act(batch.views())
        except ValueError as error:
            raise ConfigError(f"config {config.name}: policy {name}: {error}") from None
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
        self.best = -math.inf
        if folder.best.is_dir():
            self.best = _best_of(folder.best, config.evaluation.against[0], config.reward)
        self.console = Console(stderr=True)

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
        if began >= config.decisions:
            self.console.print(
                f"nothing to learn: {began:,} of {config.decisions:,} decisions done"
            )
        policy = self._save()
        if model.num_timesteps < config.decisions:
            self.console.print(f"stopped at {model.num_timesteps:,} decisions; go on with --resume")
        return policy

    def _into_league(self) -> None:
        """Makes the learner as it is a past self, and logs how the others do."""
        league = self.play.league
        assert league is not None
        league.add(frozen_policy(self.config, self.play.batch, self.model))
        for place, policy in enumerate(league.policies):
            if policy is not None:
                name = policy.name if place < league.fixed else f"past {place - league.fixed + 1}"
                self.model.logger.record(f"league/score_against_{name}", league.scores[place])

    def _evaluate(self) -> None:
        settings = self.config.evaluation
        policy = frozen_policy(self.config, self.play.batch, self.model)
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
            if worth > self.best:
                self.best = worth
                self._policy().save(self.folder.best)

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
        self.folder.save(self.model, self.play, policy, self.past)
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


@app.command()
def main(
    config: Annotated[Path, typer.Argument(help="A YAML file of settings.")],
    resume: Annotated[bool, typer.Option(help="Go on with the run that is there.")] = False,
    seed: Annotated[int | None, typer.Option(help="Seed in place of the config's.")] = None,
    decisions: Annotated[int | None, typer.Option(help="Decisions in place of them.")] = None,
    run: Annotated[Path | None, typer.Option(help="Run folder.")] = None,
) -> None:
    """Trains a policy by self-play."""
    changes = {"seed": seed, "decisions": decisions}
    try:
        settings = load_config(config, **{k: v for k, v in changes.items() if v is not None})
        folder = run_path(settings, run)
        train(settings, folder, resume=resume)
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    print(f"policy: {folder.checkpoint}")


if __name__ == "__main__":
    app()
