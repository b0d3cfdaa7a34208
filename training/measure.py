"""Measures a policy on deals that are drawn after the last decision about it.

    python -m training.measure checkpoints/classic-2p --card
    python -m training.measure runs/one/checkpoint --deals 20000

A version that is kept because it did well on some deals has in part been lucky on them, and its
margin there is too good. So the deals of a final measurement serve for nothing else: their seed is
drawn when the measurement begins, and written down with the date and a digest of the weights. From
then on the policy may not change; other weights need a measurement of their own. What is chosen on
the way (epochs, versions, settings) is chosen on the deals of the config.

The same command resumes a measurement that was stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console

from escoba_env.checks import whole
from escoba_env.evaluation import Evaluation, cores, cross_play, evaluate, ladder
from escoba_env.evaluation.seeds import draw_seed
from escoba_env.files import write_whole
from escoba_env.policies.checkpoint import tables_of
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.rules import Rules, make_rules
from escoba_env.version import package_version

from .commands import app_of, one_line, read_path
from .progress import bar_of
from .selfplay import games_of

OPPONENTS = ("counting", "greedy")
DEALS = {"round": 100_000, "match": 10_000}
"""Duplicate deals of a margin, unless said otherwise."""
CHUNK = 500
"""Deals played side by side, which a network is faster with than with fewer."""
RECORD = "measurement.json"
"""In the folder of a measurement: its :class:`Draw`."""


class MeasurementError(ValueError):
    """A measurement that cannot be made or resumed."""


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        deals: Duplicate deals of each margin; of a policy of several tables shared among them.
        start_deals: Those against the policy that it started from.
        ladder: Whether ladder v1 is played, if that is the policy's game.
    """

    deals: int
    start_deals: int
    ladder: bool = True


class Draw(BaseModel):
    """The drawing of a measurement's deals.

    Attributes:
        seed: Seed of the deals.
        drawn: When it was drawn: date and time in UTC, ISO 8601.
        weights: SHA-256 of the weights as they were then.
        plan: What is measured.
        version: Version of the package that measures.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(ge=0, lt=1 << 63)
    drawn: str
    weights: str
    plan: Plan
    version: str


class Margin(BaseModel):
    """What the policy wins from others.

    Attributes:
        margin: Own points less the mean of the others', per round or match.
        half_width: Half of its 95 % interval.
        deals: Duplicate deals.
        won: Of matches, those won; ``None`` for rounds.
        drawn: Those that ended level.
        lost: Those lost.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    margin: float
    half_width: float
    deals: int
    won: int | None = None
    drawn: int | None = None
    lost: int | None = None


class LadderResult(BaseModel):
    """Score on ladder v1.

    Attributes:
        score: Mean margin over its opponents.
        half_width: Half of its 95 % interval.
        margins: Margin over each opponent.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    score: float
    half_width: float
    margins: dict[str, float]


@dataclass(frozen=True)
class Strength:
    """Result of :func:`measure`.

    Attributes:
        draw: Which deals, and when they were drawn.
        margins: Margins by name: the opponent, of several tables ``"OPPONENT at TABLE"``, and
            ``"counting, beside counting"`` for the policy with ``counting`` as its partner.
        ladder: Score on ladder v1, if that was played.
    """

    draw: Draw
    margins: Mapping[str, Margin]
    ladder: LadderResult | None

    def as_card(self) -> dict[str, Any]:
        """Returns the values that a card's ``strength`` has of it."""
        content: dict[str, Any] = {
            "seed": self.draw.seed,
            "seed_drawn": self.draw.drawn,
            "version": self.draw.version,
        }
        for name, margin in self.margins.items():
            content[name] = margin.model_dump(exclude_none=True)
        if self.ladder is not None:
            content["ladder v1"] = self.ladder.model_dump()
        return content


def make_plan(
    policy: LearnedPolicy,
    deals: int | None = None,
    start_deals: int | None = None,
    *,
    ladder: bool = True,
) -> Plan:
    """Returns what is measured of a policy.

    Args:
        policy: The policy.
        deals: Duplicate deals of each margin; default: 100,000, or 10,000 of matches.
        start_deals: Those against the policy that it started from; default: as many.
        ladder: Whether ladder v1 is played, if that is its game.

    Raises:
        MeasurementError: If a number is not possible.
    """
    number = DEALS[policy.card.episode] if deals is None else deals
    if start_deals is not None and _start_of(policy) is None:
        raise MeasurementError(
            f"start_deals={start_deals} is not possible: {policy.name} has no start to be "
            f"measured against"
        )
    try:
        return Plan(
            whole("deals", number, 4, 10**8),
            whole("start_deals", number if start_deals is None else start_deals, 4, 10**8),
            ladder and _plays_the_ladder(policy),
        )
    except ValueError as error:
        raise MeasurementError(str(error)) from None


def measure(
    checkpoint: Path, folder: Path, plan: Plan, *, console: Console | None = None
) -> Strength:
    """Measures the policy of a checkpoint, or goes on with a measurement.

    Args:
        checkpoint: Its folder.
        folder: Where the results are kept.
        plan: What is measured; see :func:`make_plan`.
        console: Where results are shown as they come.

    Returns:
        What it wins, on deals whose seed was drawn when the measurement began.

    Raises:
        CheckpointError: If there is no such checkpoint.
        MeasurementError: If the folder holds a measurement of other weights, another plan or
            another version.
        KeyboardInterrupt: On Ctrl-C; what has been played is kept.
    """
    console = console or Console(stderr=True)
    policy = LearnedPolicy.load(checkpoint)
    draw = _draw(policy, folder, plan)
    console.print(f"deals: seed {draw.seed}, drawn {draw.drawn}; results are kept in {folder}")
    card, name = policy.card, str(checkpoint)
    tables, start = tables_of(card), _start_of(policy)
    margins: dict[str, Margin] = {}

    def keep(key: str, found: Margin) -> None:
        margins[key] = found
        console.print(f"{found.margin:+.3f} ± {found.half_width:.3f} over {key}")

    def over(opponent: str, rules: Rules, deals: int) -> Margin:
        with _bar(console, opponent, deals) as on_progress:
            result = evaluate(
                name, opponent, rules, episode=card.episode, deals=deals, seed=draw.seed,
                chunk=CHUNK, workers=cores(), folder=folder, on_progress=on_progress,
            )  # fmt: skip
        return _margin(result)

    for rules in tables:
        for opponent in (*OPPONENTS, *([start] if start else [])):
            key = opponent if len(tables) == 1 else f"{opponent} at {table_name(rules)}"
            deals = plan.start_deals if opponent == start else plan.deals
            keep(key, over(opponent, rules, max(2, deals // len(tables))))
        if rules.partnership and len(tables) == 1:
            beside = _beside(name, rules, card.episode, plan.deals, draw.seed, folder, console)
            keep("counting, beside counting", beside)
    score = _ladder(name, folder, console) if plan.ladder else None
    return Strength(draw, margins, score)


def into_card(checkpoint: Path, strength: Strength) -> None:
    """Writes a measurement into the card of its policy; a best response in it is kept.

    Raises:
        CheckpointError: If there is no such checkpoint, or it cannot be written.
        MeasurementError: If its weights are others than those that were measured.
    """
    policy = LearnedPolicy.load(checkpoint)
    if weights_digest(policy) != strength.draw.weights:
        raise MeasurementError(
            f"{checkpoint} has other weights than were measured; allowed: those of the measurement"
        )
    kept = {key: value for key, value in policy.card.strength.items() if key == "best response"}
    card = policy.card.model_copy(update={"strength": {**strength.as_card(), **kept}})
    LearnedPolicy(card, policy.network).save(checkpoint)


def weights_digest(policy: LearnedPolicy) -> str:
    """Returns the SHA-256 of a policy's weights, their names and shapes among them."""
    digest = hashlib.sha256()
    for key, value in sorted(policy.weights().items()):
        digest.update(f"{key} {value.dtype} {value.shape}\0".encode() + value.tobytes())
    return digest.hexdigest()


def table_name(rules: Rules) -> str:
    """Returns the name of a table in a card: what differs from ``classic``."""
    return json.dumps(rules.changes()) if rules.changes() else "classic, 2 players"


def _draw(policy: LearnedPolicy, folder: Path, plan: Plan) -> Draw:
    """Draws the deals, or reads how they were drawn."""
    path = folder / RECORD
    now = {"weights": weights_digest(policy), "plan": asdict(plan), "version": package_version()}
    if path.exists():
        try:
            found = Draw.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise MeasurementError(f"{path} is damaged or of another version: {error}") from None
        before = found.model_dump()
        for key, value in now.items():
            if before[key] != value:
                raise MeasurementError(
                    f"{folder} holds a measurement with {key} {before[key]!r}, and this one has "
                    f"{value!r}: measure in another folder, on deals of its own"
                )
        return found
    drawn = datetime.now(timezone.utc).isoformat(timespec="seconds")
    draw = Draw.model_validate({"seed": draw_seed(), "drawn": drawn, **now})
    write_whole(path, draw.model_dump_json(indent=2) + "\n")
    return draw


def _start_of(policy: LearnedPolicy) -> str | None:
    config = policy.card.training.get("config")
    start = config.get("start") if isinstance(config, dict) else None
    return str(start) if start else None


def _plays_the_ladder(policy: LearnedPolicy) -> bool:
    card = policy.card
    return tables_of(card) == [make_rules("classic")] and card.episode == "round"


@contextmanager
def _bar(console: Console, what: str, deals: int) -> Iterator[Callable[[int, int], None]]:
    """Shows a bar; yields what is called with the deals and rounds played so far."""
    with bar_of(console) as bar:
        task = bar.add_task(what, total=deals, info="deals")
        yield lambda done, _rounds: bar.update(task, completed=done)


def _margin(result: Evaluation) -> Margin:
    games = games_of(result) if result.episode == "match" else {}
    return Margin(
        margin=round(result.margin, 4),
        half_width=round(result.half_width, 4),
        deals=result.deals,
        **games,
    )


def _beside(
    name: str, rules: Rules, episode: str, deals: int, seed: int, folder: Path, console: Console
) -> Margin:
    """What the policy and ``counting``, as partners, win from two of ``counting``."""
    # Three tables: the policy beside itself, beside ``counting``, and two of ``counting``.
    with _bar(console, "beside counting", 3 * deals) as on_progress:
        played = cross_play(
            [name, "counting"], rules, against="counting", episode=episode, deals=deals,
            seed=seed, workers=cores(), folder=folder, on_progress=on_progress,
        )  # fmt: skip
    (mixed,) = [pair for pair in played.partners if pair.a != pair.b]
    return Margin(
        margin=round(mixed.margin, 4), half_width=round(mixed.half_width, 4), deals=played.deals
    )


def _ladder(name: str, folder: Path, console: Console) -> LadderResult:
    score = ladder(name, workers=cores(), folder=folder)
    console.print(f"{score.score:+.3f} ± {score.half_width:.3f} on ladder v1")
    return LadderResult(
        score=round(score.score, 4),
        half_width=round(score.half_width, 4),
        margins={rung.b: round(rung.margin, 4) for rung in score.rungs},
    )


def main(
    checkpoint: Annotated[
        Path, typer.Argument(parser=read_path, metavar="FOLDER", help="Folder of the policy.")
    ],
    deals: Annotated[
        int | None,
        typer.Option(min=4, help="Duplicate deals of a margin; default: 100,000, matches 10,000."),
    ] = None,
    start_deals: Annotated[
        int | None, typer.Option(min=4, help="Those against its start; default: as many.")
    ] = None,
    play_ladder: Annotated[
        bool, typer.Option("--ladder/--no-ladder", help="Play ladder v1 where it is its game.")
    ] = True,
    folder: Annotated[
        Path | None,
        typer.Option(
            parser=read_path,
            metavar="FOLDER",
            help="Where results are kept; default: runs/measure-NAME.",
        ),
    ] = None,
    card: Annotated[bool, typer.Option("--card", help="Write the result into its card.")] = False,
) -> None:
    """Measures a policy on deals that are drawn now."""
    with one_line("what was played is kept: the same command resumes"):
        policy = LearnedPolicy.load(checkpoint)
        plan = make_plan(policy, deals, start_deals, ladder=play_ladder)
        place = folder or Path("runs") / f"measure-{checkpoint.resolve().name}"
        strength = measure(checkpoint, place, plan)
        if card:
            into_card(checkpoint, strength)
        print(json.dumps(strength.as_card(), indent=2))


app = app_of(main)

if __name__ == "__main__":
    app()
