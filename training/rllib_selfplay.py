"""Trains a policy by self-play with RLlib's PPO, on this machine or on a Ray cluster.

    python -m training.rllib_selfplay configs/rllib-quick.yaml
    python -m training.rllib_selfplay configs/rllib-quick.yaml --env-runners 32 --address auto
    python -m training.rllib_selfplay configs/rllib-quick.yaml --resume

It takes the configs of ``training.selfplay`` and learns what they say by the same kind of network:
every seat is the learner's, or, in the shares of games that ``opponents`` names, one side is and
frozen policies (or ``past``, the learner as it was a while ago) have the others. A decision is one
that the learner or its past makes. The layers are computed in float32.

The run folder (``runs/NAME-SEED-rllib`` unless ``--run`` names another) holds the policy as a
checkpoint that every command and environment loads, TensorBoard logs, the evaluations, and RLlib's
own checkpoint to resume from, which runs code when it is loaded: resume your own runs only.
Ctrl-C stops after the update that is under way and saves; a killed run goes on from its last save.
On a cluster this package must be installed on every machine.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from escoba_env.batch import Batch
from escoba_env.checks import whole
from escoba_env.cli.common import read_whole as read_number
from escoba_env.evaluation import evaluate
from escoba_env.evaluation.pool import MAX_WORKERS, cores
from escoba_env.files import MAX_TEXT, read_whole
from escoba_env.policies import load_policy
from escoba_env.policies.checkpoint import Card
from escoba_env.policies.learned import LearnedPolicy

from .commands import ConfigArgument, Decisions, Resume, Run, Seed, app_of, given, one_line
from .config import Config, ConfigError, load_config
from .folder import Folder
from .progress import bar_of
from .stopping import INTERRUPTED, interrupts

try:
    import ray
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core import COMPONENT_RL_MODULE
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from tensorboardX import SummaryWriter

    from escoba_env.adapters.rllib import (
        LEARNER,
        PAST,
        EscobaMultiAgentEnv,
        EscobaTorchRLModule,
        StepResult,
        module_of,
    )
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    print(
        f"Error: RLlib's self-play needs {error.name}: pip install 'escoba-env[rllib]', in an "
        f"environment of its own",
        file=sys.stderr,
    )
    sys.exit(2)


class ScaledEnv(EscobaMultiAgentEnv):
    """The environment with rewards as the learner takes them: times ``reward_scale``."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        arguments = dict(config)
        self._scale = arguments.pop("reward_scale")
        super().__init__(arguments)

    def step(self, action_dict: Mapping[str, int]) -> StepResult:
        """Takes an action; see ``EscobaMultiAgentEnv``."""
        observations, rewards, *ends, infos = super().step(action_dict)
        scaled = {agent: self._scale * reward for agent, reward in rewards.items()}
        return observations, scaled, ends[0], ends[1], infos


class RunFolder(Folder):
    """Where a run keeps what it needs to go on and what it has found.

    Args:
        path: The folder. ``config.yaml``, ``checkpoint/``, ``rllib/`` (the resume point),
            ``evaluations.jsonl`` and ``log/`` live in it.

    Attributes:
        stopped: Whether the latest run in it was stopped before its end.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rllib = path / "rllib"
        self.progress = self.rllib / "progress.json"
        self.log = path / "log"
        self.stopped = False
        self._new, self._old = path / ".rllib-new", path / ".rllib-old"

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
        # Killed between the two renames of a save, it has another name.
        self.check_resumable(self._old if self._old.exists() else self.rllib)

    def save(self, algorithm: Algorithm, progress: dict[str, Any], policy: LearnedPolicy) -> None:
        """Writes policy and resume point, each whole: a killed run has the old or the new one."""
        policy.save(self.checkpoint)
        for rest in (self._new, self._old):
            shutil.rmtree(rest, ignore_errors=True)
        algorithm.save_to_path(str(self._new.resolve()))
        (self._new / self.progress.name).write_text(json.dumps(progress), encoding="utf-8")
        if self.rllib.exists():
            self.rllib.replace(self._old)
        self._new.replace(self.rllib)
        shutil.rmtree(self._old, ignore_errors=True)

    def progress_made(self) -> dict[str, Any]:
        """Returns what :meth:`save` was told of the progress.

        It is empty if the run was stopped before its first save, and begins again.

        Raises:
            ConfigError: If the resume point is damaged.
        """
        if self._old.exists() and not self.rllib.exists():
            # Killed between the two renames of a save.
            self._old.replace(self.rllib)
        if not self.rllib.exists():
            return {}
        try:
            progress: dict[str, Any] = json.loads(read_whole(self.progress, MAX_TEXT))
        except ValueError as error:
            raise ConfigError(f"{self.rllib} cannot be resumed from: {error}") from error
        return progress

    def restore(self, algorithm: Algorithm) -> None:
        """Puts the learner where :meth:`save` left it.

        Raises:
            ConfigError: If the resume point is damaged.
        """
        try:
            algorithm.restore_from_path(str(self.rllib.resolve()))
        except Exception as error:  # whatever unpickling a damaged file ends in
            raise ConfigError(f"{self.rllib} cannot be resumed from: {error}") from error


class _Run:
    """A run in progress: the loop around updates, evaluations and saves."""

    def __init__(self, config: Config, folder: RunFolder, games: Batch, algorithm: Algorithm):
        self.config = config
        self.folder = folder
        self.games = games
        self.algorithm = algorithm
        self.decisions = 0
        self.seconds = 0.0
        self.strength: dict[str, Any] = {}
        self.console = Console(stderr=True)
        self.writer = SummaryWriter(str(folder.log))

    def go(self) -> LearnedPolicy:
        config = self.config
        if self.decisions >= config.decisions:
            self.console.print(
                f"nothing to learn: {self.decisions:,} of {config.decisions:,} decisions done"
            )
        updates = self.algorithm.iteration
        last_evaluation = self.decisions
        with interrupts() as interrupted, bar_of(self.console) as bar:
            task = bar.add_task(config.name, total=config.decisions, info="")
            bar.update(task, completed=self.decisions)
            while self.decisions < config.decisions and not interrupted():
                before = self.decisions
                rate = self._update()
                updates += 1
                if PAST in config.opponents and updates % config.past_every == 0:
                    bring_past_up_to_date(self.algorithm)
                if self.decisions // config.evaluation.every > before // config.evaluation.every:
                    self._evaluate()
                    last_evaluation = self.decisions
                if self.decisions // config.save_every > before // config.save_every:
                    self._save()
                done = min(self.decisions, config.decisions)
                bar.update(task, completed=done, info=f"{rate:,.0f} decisions/s")
            if self.decisions > last_evaluation and not interrupted():
                self._evaluate()
            self.folder.stopped = interrupted()
        policy = self._save()
        if self.folder.stopped:
            self.console.print(f"stopped at {self.decisions:,} decisions; go on with --resume")
        return policy

    def _update(self) -> float:
        """Has RLlib sample and learn once; returns decisions per second."""
        start, before = time.perf_counter(), self.decisions
        result = self.algorithm.train()
        if "env_runners" not in result or LEARNER not in result["learners"]:
            raise ConfigError("no env runner has played; Ray's log says why")
        self.decisions = int(result["env_runners"]["num_env_steps_sampled_lifetime"])
        seconds = time.perf_counter() - start
        self.seconds += seconds
        rate = (self.decisions - before) / seconds
        numbers = {
            **{f"learner/{key}": value for key, value in result["learners"][LEARNER].items()},
            "time/decisions_per_second": rate,
            "time/seconds": self.seconds,
        }
        for key, value in numbers.items():
            # RLlib counts parameters once, and says NaN from then on.
            if not isinstance(value, dict) and math.isfinite(value):
                self.writer.add_scalar(key, float(value), self.decisions)
        return rate

    def _evaluate(self) -> None:
        settings = self.config.evaluation
        policy = self._policy()
        for name in settings.against:
            result = evaluate(
                policy,
                name,
                self.games.rules,
                episode=self.config.episode,
                deals=settings.deals,
                seed=settings.seed,
            )
            self.strength[name] = {
                "margin": result.margin,
                "half_width": result.half_width,
                "deals": result.deals,
                "seed": result.seed,
                "decisions": self.decisions,
            }
            self.folder.add_evaluation({"against": name, **self.strength[name]})
            self.writer.add_scalar(f"strength/{name}", result.margin, self.decisions)
            self.console.print(
                f"{self.decisions:,} decisions: {result.margin:+.2f} ± {result.half_width:.2f} "
                f"against {name}"
            )

    def _policy(self) -> LearnedPolicy:
        """The learner as it is now."""
        config, encoding = self.config, self.games.encoding
        card = Card(
            name=config.name,
            encoding=encoding.name,
            encoding_version=encoding.version,
            memory=config.memory,
            rules=self.games.rules.as_dict(),
            episode=config.episode,
            network=config.network.card(encoding),
            training={
                "config": config.model_dump(mode="json"),
                "decisions": self.decisions,
                "seconds": round(self.seconds, 1),
                "torch": torch.__version__,
                "ray": ray.__version__,
            },
            strength=dict(self.strength),
        )
        return LearnedPolicy(card, self.algorithm.get_module(LEARNER).network.cpu())

    def _save(self) -> LearnedPolicy:
        policy = self._policy()
        progress = {
            "decisions": self.decisions,
            "seconds": self.seconds,
            "strength": self.strength,
        }
        self.folder.save(self.algorithm, progress, policy)
        return policy


def algorithm_config(config: Config, env_runners: int) -> PPOConfig:
    """Says to RLlib what a config says.

    Args:
        config: Settings of the run.
        env_runners: Processes that play; 0: the learner's own plays.

    Raises:
        ConfigError: If it says something that RLlib cannot do, or the games cannot be shared out.
    """
    if config.precision == "bfloat16":
        raise ConfigError(
            "precision='bfloat16' is not possible here; allowed: float32, or auto, which is that"
        )
    others = {
        "start": config.start, "league": config.league, "teammates": config.teammates,
        "critic": config.critic if config.critic != "own" else None,
        "evaluation.keep_best": config.evaluation.keep_best,
    }  # fmt: skip
    for key, value in others.items():
        if value:
            raise ConfigError(f"{key}={value!r} is not possible here; allowed: training.selfplay")
    runners = max(1, env_runners)
    if config.games % runners:
        raise ConfigError(
            f"games={config.games} cannot be shared equally among {runners} env runners; "
            f"allowed: a multiple"
        )
    module = RLModuleSpec(
        module_class=EscobaTorchRLModule,
        model_config=config.network.model_dump(),
    )
    modules = [LEARNER, *([PAST] if PAST in config.opponents else [])]
    return (
        PPOConfig()
        .environment(
            ScaledEnv,
            env_config={
                "rules": config.table(),
                "episode": config.episode,
                "reward": config.reward,
                "reward_timing": config.reward_timing,
                "encoding": config.encoding,
                "memory": config.memory,
                "illegal": "raise",
                "opponents": config.opponents,
                "skip_forced": True,
                "reward_scale": config.reward_scale,
            },
            # RLlib's check plays an action that is not masked.
            disable_env_checking=True,
        )
        .env_runners(num_env_runners=env_runners, num_envs_per_env_runner=config.games // runners)
        # A fault in an environment is to be seen, not to be tried again and again.
        .fault_tolerance(restart_failed_env_runners=False)
        .multi_agent(
            policies=set(modules), policy_mapping_fn=module_of, policies_to_train=[LEARNER]
        )
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=dict.fromkeys(modules, module)))
        .training(
            gamma=1.0,
            lambda_=config.gae_lambda,
            lr=[[0, config.learning_rate], [config.decisions, config.final_learning_rate]],
            train_batch_size_per_learner=config.games * config.steps,
            minibatch_size=config.minibatch,
            num_epochs=config.epochs,
            clip_param=config.clip,
            entropy_coeff=config.entropy,
            vf_loss_coeff=config.value_weight,
            vf_clip_param=float("inf"),
            use_kl_loss=False,
            grad_clip=config.max_gradient,
            grad_clip_by="global_norm",
        )
        .debugging(seed=config.seed, log_level="ERROR")
    )


def bring_past_up_to_date(algorithm: Algorithm) -> None:
    """Makes ``past`` a copy of the learner as it is now, with the learner and every env runner."""
    weights = algorithm.learner_group.get_weights([LEARNER])[LEARNER]
    algorithm.learner_group.set_weights({PAST: weights})
    # RLlib itself sends out what has been trained, and that alone.
    state = {COMPONENT_RL_MODULE: {PAST: weights}}
    algorithm.env_runner_group.foreach_env_runner(lambda runner: runner.set_state(state))


def train(
    config: Config,
    folder: RunFolder,
    *,
    env_runners: int = 2,
    address: str | None = None,
    resume: bool = False,
) -> LearnedPolicy:
    """Runs one experiment to its end, or until it is interrupted.

    Args:
        config: Its settings.
        folder: Its run folder.
        env_runners: Processes that play, each on one processor core; 0: the learner's own.
        address: That of a Ray cluster, or ``"auto"`` for the one this machine is part of;
            ``None``: this machine alone. If Ray is in use already, it is used as it is.
        resume: Go on with the run that is there.

    Returns:
        The policy, as it has been saved.

    Raises:
        ConfigError: If the config or the folder does not fit, or there is no such cluster.
    """
    _check_folder(config, folder, resume)
    games = _checked_games(config)
    settings = algorithm_config(config, env_runners)
    torch.set_num_threads(config.threads)
    with _connected(address, env_runners), folder.owned():
        # Another process may have been here since.
        _check_folder(config, folder, resume)
        if not resume:
            folder.start(config)
        progress = folder.progress_made()
        # A run that goes on is not dealt its first games again.
        settings.debugging(seed=config.seed + progress.get("decisions", 0))
        algorithm = settings.build_algo()
        run = _Run(config, folder, games, algorithm)
        try:
            if PAST in config.opponents:
                bring_past_up_to_date(algorithm)
            if progress:
                folder.restore(algorithm)
                run.decisions = progress["decisions"]
                run.seconds = progress["seconds"]
                run.strength = progress["strength"]
            # Before the first save of a run there is nothing to keep.
            folder.forget_evaluations_after(run.decisions if progress else -1)
            return run.go()
        finally:
            run.writer.close()
            algorithm.stop()


def _check_folder(config: Config, folder: RunFolder, resume: bool) -> None:
    if resume:
        folder.reopen(config)
    else:
        folder.check_new()


def _checked_games(config: Config) -> Batch:
    """Makes a game of a run, and sees that every policy it names can play it."""
    try:
        games = Batch(
            1,
            config.table(),
            episode=config.episode,
            reward=config.reward,
            reward_timing=config.reward_timing,
            encoding=config.encoding,
            memory=config.memory,
            seed=config.seed,
        )
    except ValueError as error:
        raise ConfigError(f"config {config.name}: {error}") from None
    for name in sorted({*(config.opponents.keys() - {PAST}), *config.evaluation.against}):
        try:
            load_policy(name).act(games.views())
        except ValueError as error:
            raise ConfigError(f"config {config.name}: policy {name}: {error}") from None
    return games


@contextmanager
def _connected(address: str | None, env_runners: int) -> Iterator[None]:
    """Connects to Ray, and leaves it as it was."""
    started = not ray.is_initialized()
    if started:
        # Ray would wait for ever for cores that are not there.
        here = {"num_cpus": max(cores(), env_runners), "include_dashboard": False}
        try:
            ray.init(
                address=address or "local",
                **(here if address is None else {}),
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(f"no Ray at {address!r}: {error}") from None
    try:
        yield
    finally:
        if started:
            ray.shutdown()


def main(
    config: ConfigArgument,
    env_runners: Annotated[
        int, typer.Option(parser=read_number, metavar="N", help="Processes that play.")
    ] = 2,
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster, or auto; default: this machine alone.")
    ] = None,
    resume: Resume = False,
    seed: Seed = None,
    decisions: Decisions = None,
    run: Run = None,
) -> None:
    """Trains a policy by self-play with RLlib."""
    with one_line("what was saved is kept: go on with --resume"):
        runners = whole("env-runners", env_runners, 0, MAX_WORKERS)
        settings = load_config(config, **given(seed=seed, decisions=decisions))
        folder = RunFolder(run or Path("runs") / f"{settings.name}-{settings.seed}-rllib")
        train(settings, folder, env_runners=runners, address=address, resume=resume)
        print(f"policy: {folder.checkpoint}")
        if folder.stopped:
            raise typer.Exit(INTERRUPTED)


app = app_of(main)

if __name__ == "__main__":
    app()
