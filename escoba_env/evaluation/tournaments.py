"""``tournament``: policies against each other; ``cross_play``: policies as each other's partners.

Both play the same deals at every table, so the luck of the deal is the same for all policies.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.adapters import require
from escoba_env.checks import whole
from escoba_env.engine.record import lower
from escoba_env.evaluation.duplicate import (
    MAX_DEALS,
    Pairing,
    duplicate_table,
    mean_interval,
    pairing_of,
)
from escoba_env.evaluation.plots import check_plot, save_plot
from escoba_env.evaluation.pool import AnyWorkers, check_workers
from escoba_env.evaluation.seeds import open_store
from escoba_env.evaluation.units import Played, Table, check_names, play_tables, stop_with
from escoba_env.files import write_whole
from escoba_env.rules import Rules, make_rules
from escoba_env.version import package_version

MAX_POLICIES = 1000
RATED_DEALS = 2000
"""Deals that ratings are made from, at most: they settle long before."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A policy in a tournament.

    Attributes:
        policy: Its name.
        margin: Mean over its opponents of what it wins from them per game.
        half_width: Half of the 95 % interval around ``margin``, from its mean in each deal.
        rating: OpenSkill rating (Plackett and Luce's model): its mean, 25 to begin with.
        deviation: Its standard deviation, 25/3 to begin with.
    """

    policy: str
    margin: float
    half_width: float
    rating: float
    deviation: float


@dataclass(frozen=True, kw_only=True)
class Tournament:
    """Result of :func:`tournament`.

    Attributes:
        rules: Rules of the tables.
        episode: ``"round"`` or ``"match"``: what a game is.
        deals: Deals played at every table.
        seed: Seed of the deals.
        complete: Whether these are all deals that were asked for.
        standings: The policies, the highest margin first.
        pairings: Every policy against every other, in the order in which they were given.
        seconds: Time taken; left out when tournaments are compared.
        version: Version of the package that played.
    """

    rules: Rules
    episode: str
    deals: int
    seed: int
    complete: bool
    standings: tuple[Standing, ...]
    pairings: tuple[Pairing, ...]
    seconds: float = dataclasses.field(compare=False)
    version: str

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON; ``rules`` as ``Rules.as_dict``."""
        return {**dataclasses.asdict(self), "rules": self.rules.as_dict()}

    def standings_csv(self) -> str:
        """Returns the standings as CSV, a line for each policy under one of names."""
        names = [field.name for field in dataclasses.fields(Standing)]
        return _csv([names, *([getattr(s, name) for name in names] for s in self.standings)])

    def cross_table_csv(self) -> str:
        """Returns the margin of each row's policy against each column's as CSV."""
        return _square_csv({(p.a, p.b): p.margin for p in self.pairings})

    def save(self, folder: str | Path) -> None:
        """Writes ``tournament.json``, ``standings.csv`` and ``cross_table.csv`` into a folder.

        Raises:
            ValueError: If they cannot be written.
        """
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False)
        write_whole(Path(folder) / "tournament.json", text + "\n")
        write_whole(Path(folder) / "standings.csv", self.standings_csv())
        write_whole(Path(folder) / "cross_table.csv", self.cross_table_csv())

    def plot(self, path: str | Path) -> None:
        """Draws standings with their intervals, and the cross table.

        Args:
            path: File to write; its suffix says in which format: png, svg or pdf.

        Raises:
            ModuleNotFoundError: If there is no matplotlib.
            ValueError: If the file cannot be written, or the format is another one.
        """
        check_plot(path)
        from matplotlib.figure import Figure

        names = [standing.policy for standing in self.standings]
        margins = {(p.a, p.b): p.margin for p in self.pairings}
        cells = np.array([[margins.get((a, b), 0.0) for b in names] for a in names])
        places = np.arange(len(names))
        size = 1.5 + 0.5 * len(names)
        figure = Figure(figsize=(6 + 1.3 * size, size + 1.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.errorbar(
            [s.margin for s in self.standings],
            places,
            xerr=[s.half_width for s in self.standings],
            fmt="o",
            capsize=3,
        )
        left.axvline(0, color="0.7", linewidth=0.8)
        left.set_yticks(places, names)
        left.set_ylim(len(names) - 0.5, -0.5)
        left.set_xlabel(f"margin per {self.episode}, 95 % intervals")
        limit = float(np.abs(cells).max()) or 1.0
        right.imshow(cells, cmap="RdBu", vmin=-limit, vmax=limit)
        right.set_xticks(places, names, rotation=45, ha="right")
        right.set_yticks(places, names)
        for row in places:
            for column in places:
                if row != column:
                    value = float(cells[row, column])
                    color = "white" if abs(value) > 0.6 * limit else "black"
                    right.text(column, row, f"{value:+.2f}", ha="center", va="center", color=color)
        right.set_title("row against column", fontsize="medium")
        save_plot(figure, path)


def tournament(
    policies: Sequence[str | Path],
    rules: Any = "classic",
    *,
    episode: str = "round",
    deals: int = 1000,
    seed: int | None = None,
    workers: AnyWorkers = 1,
    folder: str | Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **fields: Any,
) -> Tournament:
    """Plays every policy against every other on duplicate deals.

    A pair of policies plays as in ``evaluate``. With two sides that is all. With three or four
    players for themselves, each of the two is once the one that is alone among the others, and
    half the difference of both margins is what it wins from the other.

    Args:
        policies: Names or folders, as ``load_policy`` takes them; at least two, all different.
        rules: A preset's name, a ``Rules`` or a mapping of fields.
        episode: ``"round"`` or ``"match"``.
        deals: Number of deals at each table, at least 2.
        seed: Seed of the deals. Default: that of the folder, or else one that is drawn anew.
        workers: Processes that play, as for ``evaluate``.
        folder: Where results and a drawn seed are kept. What is there already is not played again,
            so a tournament that was killed goes on, and one with more policies or deals plays what
            is new.
        on_progress: Called with the deals of all tables and the rounds finished so far.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ImportError: If there is no openskill, or one that is too old; the message says what to
            install.
        ValueError: If an argument is not possible, by name.
        Interrupted: On Ctrl-C, with the result over the deals that every table had finished.
        StoreError: If results can no longer be kept, with the result as for ``Interrupted``.
    """
    names = check_names("policy", policies)
    whole("number of policies", len(names), 2, MAX_POLICIES)
    table_rules = make_rules(rules, **fields)
    lower(table_rules, episode)
    deals = whole("deals", deals, 2, MAX_DEALS)
    workers = check_workers(workers)
    require("openskill.models", "evaluation", at_least="6.2")
    store, seed = open_store(folder, seed)
    begin = time.perf_counter()
    # With two sides the way back is the way there with the sign turned.
    pairs = list((combinations if table_rules.num_sides == 2 else permutations)(names, 2))
    tables = [duplicate_table(a, b, table_rules, episode) for a, b in pairs]
    played, stop = play_tables(
        tables,
        deals=deals,
        seed=seed,
        workers=workers,
        store=store,
        on_progress=on_progress,
    )
    if stop is not None and played[0].deals < 2:
        raise stop
    won = _won(names, dict(zip(pairs, played, strict=True)))
    result = Tournament(
        rules=table_rules,
        episode=episode,
        deals=played[0].deals,
        seed=seed,
        complete=stop is None,
        standings=_standings(names, won),
        pairings=_pairings(names, dict(zip(pairs, played, strict=True))),
        seconds=time.perf_counter() - begin,
        version=package_version(),
    )
    if stop is not None:
        stop_with(stop, result)
    return result


def _won(
    names: list[str], played: dict[tuple[str, str], Played]
) -> dict[tuple[str, str], NDArray[np.float64]]:
    """What the first of two policies wins from the second in each deal; the opposite is exact."""
    won = {}
    for a, b in combinations(names, 2):
        forth = played[a, b].margins()
        if (b, a) in played:
            forth = forth - played[b, a].margins()
        won[a, b] = forth / (played[a, b].unit * (2 if (b, a) in played else 1))
        won[b, a] = -won[a, b]
    return won


def _pairings(names: list[str], played: dict[tuple[str, str], Played]) -> tuple[Pairing, ...]:
    pairings = []
    for a, b in permutations(names, 2):
        if (a, b) in played:
            pairings.append(pairing_of(played[a, b]))
        else:
            back = pairing_of(played[b, a])
            pairings.append(
                Pairing(
                    a=a,
                    b=b,
                    margin=-back.margin,
                    half_width=back.half_width,
                    wins=back.losses,
                    draws=back.draws,
                    losses=back.wins,
                )
            )
    return tuple(pairings)


def _standings(
    names: list[str], won: dict[tuple[str, str], NDArray[np.float64]]
) -> tuple[Standing, ...]:
    ratings = _ratings(names, won)
    standings = []
    for name in names:
        samples = np.mean([won[name, other] for other in names if other != name], axis=0)
        margin, half_width = mean_interval(samples)
        rating, deviation = ratings[name]
        standings.append(
            Standing(
                policy=name,
                margin=margin,
                half_width=half_width,
                rating=rating,
                deviation=deviation,
            )
        )
    return tuple(sorted(standings, key=lambda standing: -standing.margin))


def _ratings(
    names: list[str], won: dict[tuple[str, str], NDArray[np.float64]]
) -> dict[str, tuple[float, float]]:
    """OpenSkill ratings: a deal is won by whoever has won points in it, all seats together."""
    from openskill.models import PlackettLuce

    model = PlackettLuce()
    ratings = {name: model.rating() for name in names}
    deals = min(RATED_DEALS, len(won[names[0], names[1]]))
    outcomes = [(a, b, np.sign(won[a, b][:deals]).tolist()) for a, b in combinations(names, 2)]
    for deal in range(deals):
        for a, b, signs in outcomes:
            ranks = [-signs[deal], signs[deal]]
            ((ratings[a],), (ratings[b],)) = model.rate([[ratings[a]], [ratings[b]]], ranks=ranks)
    return {name: (rating.mu, rating.sigma) for name, rating in ratings.items()}


# -- cross-play -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Partners:
    """What two policies win as partners.

    Attributes:
        a: One of them.
        b: The other; the same name: it plays with itself.
        margin: What they win from the policy that they are measured against, per game.
        half_width: Half of the 95 % interval around ``margin``.
    """

    a: str
    b: str
    margin: float
    half_width: float


@dataclass(frozen=True, kw_only=True)
class CrossPlay:
    """Result of :func:`cross_play`.

    Attributes:
        against: The policy in both seats of the other side.
        rules: Rules of the tables.
        episode: ``"round"`` or ``"match"``: what a game is.
        deals: Deals played at every table.
        seed: Seed of the deals.
        complete: Whether these are all deals that were asked for.
        partners: Every pair of partners, each policy with itself among them.
        self_play: Mean margin of the policies that play with themselves.
        self_play_half_width: Half of its 95 % interval.
        with_others: Mean margin of the pairs of different policies.
        with_others_half_width: Half of its 95 % interval.
        gap: ``self_play`` less ``with_others``: what is lost for want of a known partner.
        gap_half_width: Half of its 95 % interval, from the difference in each deal.
        seconds: Time taken; left out when results are compared.
        version: Version of the package that played.
    """

    against: str
    rules: Rules
    episode: str
    deals: int
    seed: int
    complete: bool
    partners: tuple[Partners, ...]
    self_play: float
    self_play_half_width: float
    with_others: float
    with_others_half_width: float
    gap: float
    gap_half_width: float
    seconds: float = dataclasses.field(compare=False)
    version: str

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON; ``rules`` as ``Rules.as_dict``."""
        return {**dataclasses.asdict(self), "rules": self.rules.as_dict()}

    def margins(self) -> dict[tuple[str, str], float]:
        """Returns the margin of every pair of partners, in both orders."""
        margins = {(p.a, p.b): p.margin for p in self.partners}
        margins.update({(p.b, p.a): p.margin for p in self.partners})
        return margins

    def save(self, folder: str | Path) -> None:
        """Writes ``crossplay.json`` and ``crossplay.csv`` into a folder.

        Raises:
            ValueError: If they cannot be written.
        """
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False)
        write_whole(Path(folder) / "crossplay.json", text + "\n")
        write_whole(Path(folder) / "crossplay.csv", _square_csv(self.margins()))


def cross_play(
    policies: Sequence[str | Path],
    rules: Any = "classic",
    *,
    against: str | Path = "greedy",
    episode: str = "round",
    deals: int = 1000,
    seed: int | None = None,
    workers: AnyWorkers = 1,
    folder: str | Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **fields: Any,
) -> CrossPlay:
    """Plays every policy as the partner of every other, and of itself, against one side.

    Every deal is played with the partners on either side, and, if they are two policies, in
    either order.

    Args:
        policies: Names or folders, as ``load_policy`` takes them; at least two, all different.
        rules: A preset's name, a ``Rules`` or a mapping of fields; four players in partnership
            are set.
        against: The policy in both seats of the other side.
        episode: ``"round"`` or ``"match"``.
        deals: Number of deals at each table, at least 2.
        seed: Seed of the deals, as for ``tournament``.
        workers: Processes that play, as for ``evaluate``.
        folder: Where results are kept, as for ``tournament``.
        on_progress: Called with the deals of all tables and the rounds finished so far.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If an argument is not possible, by name.
        Interrupted: On Ctrl-C, with the result over the deals that every table had finished.
        StoreError: If results can no longer be kept, with the result as for ``Interrupted``.
    """
    names = check_names("policy", policies)
    whole("number of policies", len(names), 2, MAX_POLICIES)
    (other_side,) = check_names("policy", [against])
    table_rules = make_rules(rules, **{"players": 4, "partnership": True, **fields})
    if not table_rules.partnership:
        raise ValueError("partnership=False is not possible in cross-play; allowed: partners")
    lower(table_rules, episode)
    deals = whole("deals", deals, 2, MAX_DEALS)
    workers = check_workers(workers)
    require("openskill.models", "evaluation", at_least="6.2")
    store, seed = open_store(folder, seed)
    begin = time.perf_counter()
    tables = [
        Table(
            (a, b, other_side),
            # Seats 0 and 2 are partners, and 1 and 3.
            ((0, 2, 1, 2), (2, 0, 2, 1), (1, 2, 0, 2), (2, 1, 2, 0))
            if a != b
            else ((0, 2, 0, 2), (2, 0, 2, 0)),
            table_rules,
            episode,
        )
        for a, b in combinations_with_replacement(names, 2)
    ]
    played, stop = play_tables(
        tables,
        deals=deals,
        seed=seed,
        workers=workers,
        store=store,
        on_progress=on_progress,
    )
    if stop is not None and played[0].deals < 2:
        raise stop
    samples = [one.margins((0, 1)) / one.unit for one in played]
    pairs = list(combinations_with_replacement(names, 2))
    together = np.mean([s for s, (a, b) in zip(samples, pairs, strict=True) if a == b], axis=0)
    mixed = np.mean([s for s, (a, b) in zip(samples, pairs, strict=True) if a != b], axis=0)
    intervals = [mean_interval(values) for values in (together, mixed, together - mixed)]
    result = CrossPlay(
        against=other_side,
        rules=table_rules,
        episode=episode,
        deals=played[0].deals,
        seed=seed,
        complete=stop is None,
        partners=tuple(
            Partners(a=a, b=b, margin=margin, half_width=half_width)
            for (a, b), (margin, half_width) in zip(pairs, map(mean_interval, samples), strict=True)
        ),
        self_play=intervals[0][0],
        self_play_half_width=intervals[0][1],
        with_others=intervals[1][0],
        with_others_half_width=intervals[1][1],
        gap=intervals[2][0],
        gap_half_width=intervals[2][1],
        seconds=time.perf_counter() - begin,
        version=package_version(),
    )
    if stop is not None:
        stop_with(stop, result)
    return result


# -- files ----------------------------------------------------------------------------------


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _square_csv(cells: dict[tuple[str, str], float]) -> str:
    names = list(dict.fromkeys(a for a, _ in cells))
    rows = [[a, *(cells.get((a, b), "") for b in names)] for a in names]
    return _csv([["policy", *names], *rows])
