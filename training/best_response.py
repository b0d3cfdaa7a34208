"""Trains an opponent against a frozen policy alone, and says what it and a search gain.

    python -m training.best_response classic-2p
    python -m training.best_response runs/one/checkpoint --decisions 5000000 --seed 2

What a trained opponent wins from a policy is a lower bound on how far the policy can be exploited
(Lockhart et al., Computing Approximate Equilibria in Sequential Adversarial Games by Exploitability
Descent, 2019; Timbers et al., Approximate Exploitability, 2022): a best response wins at least as
much. The learner plays one side, and the policy plays all others, deterministically as it does
everywhere. It begins from the policy's own weights where it is such a network, which beats a
learner that has to find out everything by itself, and from new ones with ``--fresh``. Of all that
it has been on the way, the beginning among them, the best is measured, on deals drawn afterwards.

A search that is not trained at all is measured as well: whatever wins from the policy bounds it.
Of a policy of matches it is matches that both play for, and what counts is those won and lost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from escoba_env.evaluation import Evaluation, cores, evaluate
from escoba_env.evaluation.seeds import draw_seed
from escoba_env.files import MAX_TEXT, read_whole, write_whole
from escoba_env.policies import load_policy
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.rules import make_rules

from .commands import app_of, one_line, read_name, read_path
from .config import Config, ConfigError, make_config
from .run_folder import RunFolder
from .selfplay import games_of, train

RESULT = "best_response.json"
"""In the run folder: what the opponents gain."""

EVERY = 125_000
"""Decisions after which the opponent is compared with the best that it has been."""

SEARCH = "search:worlds=64,belief=true,prior=0,deals=0"
"""The opponent that takes no training; in matches it plays to win them."""
SEARCH_DEALS = 2000
"""Duplicate deals that it is measured on, at the most."""


@dataclass(frozen=True)
class Response:
    """What two opponents gain from a policy, in points per round, or per match.

    Attributes:
        trained: The trained opponent against the policy.
        search: The search against the policy.
    """

    trained: Evaluation
    search: Evaluation

    @property
    def bound(self) -> float:
        """The larger gain: the lower bound on how far the policy can be exploited, in points."""
        return max(self.trained.margin, self.search.margin)


def best_response(
    policy: str,
    folder: Path,
    *,
    rules: dict[str, Any] | None = None,
    decisions: int = 2_000_000,
    seed: int = 1,
    deals: int = 20_000,
    fresh: bool = False,
    resume: bool = False,
    workers: int | None = None,
) -> Response:
    """Trains an opponent of a policy and measures what it, and a search, gain.

    Args:
        policy: Name, file or folder of the policy.
        folder: Run folder of the opponent; the result is written there as ``best_response.json``.
        rules: The table; default: the one that the policy was trained for, or two-player classic.
        decisions: Decisions that the opponent learns from; with ``resume`` as many or more.
        seed: Seed of its training.
        deals: Duplicate deals that its gain is measured on.
        fresh: Begin from new weights, also where the policy has weights to begin from.
        resume: Go on with the run that is there.
        workers: Processes that measure; default: one a core.

    Returns:
        What they gain.

    Raises:
        ConfigError: If an argument is not possible, or the folder does not fit.
        KeyboardInterrupt: If training was stopped; nothing is measured then.
    """
    config = response_config(policy, rules, decisions, seed, fresh)
    learned = train(config, RunFolder(folder), resume=resume)
    if learned.card.training["decisions"] < decisions:
        raise KeyboardInterrupt("training was stopped")

    # Drawn now that nothing is left to choose, so that nothing was chosen on these deals.
    drawn = draw_seed()

    def measured(opponent: str, deals: int) -> Evaluation:
        return evaluate(
            opponent, policy, config.table(), episode=config.episode, deals=deals,
            seed=drawn, workers=workers or cores(),
        )  # fmt: skip

    search = SEARCH
    if config.episode == "match" and config.table().num_sides == 2:
        search += ",utility=win"
    trained = measured(str(RunFolder(folder).best), deals)
    result = Response(trained, measured(search, min(deals, SEARCH_DEALS)))
    best = LearnedPolicy.load(RunFolder(folder).best).card.training["decisions"]
    content = {
        "policy": policy,
        **_gain(trained),
        "seed": drawn,
        "best_after": best,
        "search": {
            "opponent": search,
            **_gain(result.search),
        },
        "decisions": decisions,
        "training_seed": seed,
        "from_the_policys_weights": config.start is not None,
        "version": trained.version,
    }
    write_whole(folder / RESULT, json.dumps(content, indent=2) + "\n")
    return result


def _gain(found: Evaluation) -> dict[str, Any]:
    gain = {"gain": found.margin, "half_width": found.half_width, "deals": found.deals}
    return gain | games_of(found) if found.episode == "match" else gain


def for_card(folder: Path) -> dict[str, Any]:
    """Returns the result in a run folder as the card of the policy has it.

    Raises:
        ConfigError: If it is damaged or of another version.
    """
    kept = ["seed", "deals", "decisions", "best_after", "from_the_policys_weights"]
    try:
        content = json.loads(read_whole(folder / RESULT, MAX_TEXT))
        search = {**content["search"], **_rounded(content["search"])}
        kept += [key for key in ("won", "drawn", "lost") if key in content]
        return {**_rounded(content), **{key: content[key] for key in kept}, "search": search}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"{folder / RESULT} is damaged or of another version ({error!r}): train the best "
            f"response again, in another folder"
        ) from None


def _rounded(result: dict[str, Any]) -> dict[str, float]:
    return {key: round(result[key], 4) for key in ("gain", "half_width")}


def check_card(checkpoint: Path, policy: str) -> LearnedPolicy:
    """Loads the checkpoint whose card is to get the result.

    Raises:
        ConfigError: If it is not that of the policy, or there is no such policy.
        CheckpointError: If it is none.
    """
    found = LearnedPolicy.load(checkpoint)
    try:
        measured = load_policy(policy)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    weights = measured.weights() if isinstance(measured, LearnedPolicy) else {}
    same = weights.keys() == found.weights().keys() and all(
        np.array_equal(value, weights[key]) for key, value in found.weights().items()
    )
    if not same:
        raise ConfigError(
            f"card {checkpoint} is not of policy {policy!r}; allowed: its own checkpoint"
        )
    return found


def into_card(checkpoint: Path, policy_name: str, folder: Path) -> None:
    """Writes the result in a run folder into the card of a policy.

    Args:
        checkpoint: The policy's checkpoint.
        policy_name: The policy as it was measured.
        folder: The run folder.

    Raises:
        CheckpointError: If there is no such checkpoint.
        ConfigError: If it is another policy's, or the result is damaged.
    """
    policy = check_card(checkpoint, policy_name)
    strength = {**policy.card.strength, "best response": for_card(folder)}
    card = policy.card.model_copy(update={"strength": strength})
    LearnedPolicy(card, policy.network).save(checkpoint)


def response_config(
    policy: str, rules: dict[str, Any] | None, decisions: int, seed: int, fresh: bool
) -> Config:
    """Returns the settings of a run against a policy.

    Raises:
        ConfigError: If there is no such policy, or it cannot be trained against.
    """
    try:
        loaded = load_policy(policy)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if getattr(loaded, "cheats", False):
        raise ConfigError(
            f"policy {policy!r} sees hidden cards; allowed: policies that play by what they know"
        )
    about: dict[str, Any] = {}
    table: dict[str, Any] = {}
    if isinstance(loaded, LearnedPolicy):
        card = loaded.card
        table = card.rules
        about = {
            "encoding": card.encoding,
            "memory": card.memory,
            "episode": card.episode,
            "reward": "win" if card.episode == "match" else "margin",
            "network": card.network.model_dump(exclude={"kind", "state_size"}),
        }
        if not fresh and (rules is None or make_rules(rules) == make_rules(table)):
            about["start"] = policy
    return make_config(
        {
            "name": "best-response",
            "rules": table if rules is None else rules,
            "seed": seed,
            "decisions": decisions,
            "opponents": {policy: 1.0},
            "games": 1024,
            "learning_rate": 1e-4,
            "minibatch": 8192,
            "entropy": 0.0,
            "clip": 0.1,
            "epochs": 2,
            "evaluation": {
                # The same for any number of decisions, so that a run can go on to more.
                "every": EVERY,
                "deals": 2000,
                "against": [policy],
                "keep_best": True,
            },
            **about,
        },
        f"of a best response to {policy}",
    )


def main(
    policy: Annotated[
        str,
        typer.Argument(
            parser=read_name, metavar="POLICY", help="The policy: a name, a file or a folder."
        ),
    ],
    decisions: Annotated[int, typer.Option(min=1, help="Decisions to learn from.")] = 2_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 1,
    deals: Annotated[int, typer.Option(min=2, help="Duplicate deals to measure on.")] = 20_000,
    fresh: Annotated[bool, typer.Option(help="Begin from new weights.")] = False,
    run: Annotated[
        Path | None, typer.Option(parser=read_path, metavar="FOLDER", help="Run folder.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run that is there.")] = False,
    card: Annotated[
        Path | None,
        typer.Option(
            parser=read_path,
            metavar="FOLDER",
            help="Checkpoint folder whose card gets the result.",
        ),
    ] = None,
) -> None:
    """Trains an opponent against a frozen policy alone and says what it and a search gain."""
    folder = run or Path("runs") / f"best-response-{Path(policy.partition(':')[0]).name}-{seed}"
    with one_line("it has not been measured: resume with --resume"):
        if card:
            check_card(card, policy)
        result = best_response(
            policy, folder, decisions=decisions, seed=seed, deals=deals, fresh=fresh, resume=resume
        )
        if card:
            into_card(card, policy, folder)
    console = Console()
    for name, found in (("trained", result.trained), ("search", result.search)):
        matches = f", {found.wins:,} won and {found.losses:,} lost" * (found.episode == "match")
        console.print(
            f"{name}: gain over {policy} {found.margin:+.3f} ± {found.half_width:.3f} points per "
            f"{found.episode} ({found.deals:,} duplicate deals{matches})"
        )
    console.print(f"the larger one is a lower bound on how far it can be exploited; in {folder}")


app = app_of(main)

if __name__ == "__main__":
    app()
