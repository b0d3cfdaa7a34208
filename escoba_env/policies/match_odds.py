"""What the margin of a round is worth in a match: the odds of winning it, from either score.

Between two sides a match is a race to the target, and how much a point matters depends on the
score. Rounds are taken to go as between two of ``counting``; the odds at every score follow by
dynamic programming from the end (the match equity tables of backgammon and bridge; Kleinman,
*Vision Laughs at Counting*, 1980, for the idea).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Batch, Views
from escoba_env.engine.record import NOBODY, TWELFTHS, lower
from escoba_env.engine.score import match_winners
from escoba_env.policies.base import Policy
from escoba_env.rules import Rules

ROUNDS = 20_000
"""Rounds that say how rounds go."""
SEED = 0x0DD5
FAR = 48
"""Margins beyond this count as this: no usual round is won by as much."""
FEW = 50
"""With fewer rounds of a margin, the other side's points are taken from all rounds."""

Floats = NDArray[np.float64]


def bends_of(views: Views) -> Floats:
    """Returns what each margin of the present round is worth at the score of each view.

    Returns:
        float64 (n, 97): for margins of -48 to 48 of the side to move, its odds of winning the
        match, in points: less the odds at margin 0, and divided by what a point is worth on
        average at this score. Where the score does not matter this is the margin itself.

    Raises:
        ValueError: If the views are not of matches between two sides.
    """
    return bends_at(views.rules, *scores_of(views))


def bends_at(rules: Rules, own: NDArray[np.int64], other: NDArray[np.int64]) -> Floats:
    """Returns the same for some scores, float64 (..., 97).

    Args:
        rules: Rules of matches between two sides.
        own: Whole points of the side to move.
        other: Those of the other side, in an array of the same shape.
    """
    return _at(_bends(rules)[0], own, other)


def points_of(views: Views) -> Floats:
    """Returns how much a point more of margin adds to the odds at the score of each view.

    On average over rounds between two of ``counting``: much where both sides are near the end,
    little where the match is as good as decided.

    Returns:
        float64 (n,).

    Raises:
        ValueError: If the views are not of matches between two sides.
    """
    return _at(_bends(views.rules)[1], *scores_of(views))


def mean_point(rules: Rules) -> float:
    """Returns the mean of that over the scores at which rounds of matches begin."""
    return float((score_shares(rules) * _bends(rules)[1]).sum())


def sides_to_move(views: Views) -> NDArray[np.int64]:
    """Returns the side of the seat to move, int64 (n,)."""
    of_seat = [views.rules.side_of(seat) for seat in range(views.rules.players)]
    sides: NDArray[np.int64] = np.array(of_seat, np.int64)[views.records["turn"]]
    return sides


def scores_of(views: Views) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the whole points of the side to move and of the other side, int64 (n,) each.

    Raises:
        ValueError: If the views are not of matches between two sides.
    """
    if views.episode != "match" or views.rules.num_sides != 2:
        where = "a match" if views.episode == "match" else "single rounds"
        raise ValueError(
            f"option utility='win' is not possible in {where} of {views.rules.num_sides} sides; "
            f"allowed: matches between two"
        )
    # Whole points, which all scores are but for points that a tie splits.
    scores = (views.records["scores"] // TWELFTHS).astype(np.int64)
    side = sides_to_move(views)
    rows = np.arange(len(views))
    return scores[rows, side], scores[rows, 1 - side]


def _at(table: Floats, own: NDArray[np.int64], other: NDArray[np.int64]) -> Floats:
    """Looks scores up in a table of all below the target."""
    # A drawn match goes on beyond the target, from equal scores: as from the last before it.
    over = np.maximum(0, np.maximum(own, other) - (len(table) - 1))
    found: Floats = table[np.maximum(0, own - over), np.maximum(0, other - over)]
    return found


def bend(bends: Floats, margins: Floats) -> Floats:
    """Returns the worth of some margins of each view, float64 (n, k) as they are."""
    places = np.clip(margins + FAR, 0, 2 * FAR)
    low = np.minimum(np.nan_to_num(places).astype(np.int64), 2 * FAR - 1)
    share = places - low
    rows = np.arange(len(margins))[:, None]
    worth: Floats = bends[rows, low] * (1 - share) + bends[rows, low + 1] * share
    return worth


def match_odds(rules: Rules) -> Floats:
    """Returns the odds of winning the match before a round at every score.

    Returns:
        float64 (target, target): by own and other side's whole points; a tie counts half.
    """
    odds, _ = _solved(rules)
    return odds


@lru_cache(maxsize=64)
def score_shares(rules: Rules) -> Floats:
    """Returns how often rounds of a match begin at every score, between two of ``counting``.

    Returns:
        float64 (target, target): by own and other side's whole points; the sum is 1.
    """
    target = int(rules.match_target)
    pairs, counts = np.unique(_results(rules), axis=0, return_counts=True)
    moves = (pairs != 0).any(1)
    pairs, shares = pairs[moves], counts[moves] / counts[moves].sum()
    visits = np.zeros((target, target))
    visits[0, 0] = 1
    # From the lowest total up. A round without points begins again at the same score.
    for total in range(2 * target - 1):
        for a in range(max(0, total - target + 1), min(target - 1, total) + 1):
            b = total - a
            for (own, other), share in zip(pairs, shares, strict=True):
                if a + own < target and b + other < target:
                    visits[a + own, b + other] += visits[a, b] * share
    result: Floats = visits / visits.sum()
    return result


@lru_cache(maxsize=64)
def _results(rules: Rules) -> NDArray[np.int64]:
    """Whole points of both sides in rounds of ``counting``, int64 (2 * ROUNDS, 2), either way.

    Raises:
        ValueError: If there are more sides.
    """
    if rules.num_sides != 2:
        raise ValueError(
            f"odds of matches of {rules.num_sides} sides are not possible; allowed: two sides"
        )
    # These load the policies, and so this module.
    from escoba_env.evaluation.playout import play_out
    from escoba_env.policies.builtin import CountingPolicy

    players: list[Policy] = [CountingPolicy()]
    batch = Batch(ROUNDS, rules, skip_forced=True)
    batch.reset(SEED)
    seats = np.zeros((ROUNDS, rules.players), np.int64)
    points = np.rint(play_out(batch, players, seats).points[:, :2]).astype(np.int64)
    return np.concatenate([points, points[:, ::-1]])


@lru_cache(maxsize=64)
def _solved(rules: Rules) -> tuple[Floats, Floats]:
    """Odds before a round, and after one, where scores may be beyond the target."""
    target = int(rules.match_target)
    results = _results(rules)
    most = int(results.max())
    size = target + max(most, FAR) + most + 1
    # A match that goes on beyond the target does so from equal scores: a half by symmetry.
    winners = np.empty((size, size), np.int8)
    match_winners(lower(rules, "match"), winners)
    after = np.where(winners == NOBODY, 0.5, winners == 0)
    pairs, counts = np.unique(results, axis=0, return_counts=True)
    shares = counts / counts.sum()
    moves = (pairs != 0).any(1)
    if not moves.any():
        raise ValueError(
            f"option utility='win' is not possible under rules {rules.changes()!r}: nobody scored "
            f"in {ROUNDS:,} rounds of counting"
        )
    # From the highest total down: points never fall.
    for total in range(2 * target - 2, -1, -1):
        for a in range(max(0, total - target + 1), min(target - 1, total) + 1):
            b = total - a
            next_odds = after[a + pairs[moves, 0], b + pairs[moves, 1]]
            after[a, b] = (shares[moves] @ next_odds) / shares[moves].sum()
    return after[:target, :target].copy(), after


@lru_cache(maxsize=64)
def _bends(rules: Rules) -> tuple[Floats, Floats]:
    """Worth of each margin at each score, float64 (target, target, 2 * FAR + 1), and of a point."""
    target = int(rules.match_target)
    _, after = _solved(rules)
    results = _results(rules)
    margins = results[:, 0] - results[:, 1]
    losers = results.min(1)
    most = int(losers.max())
    everywhere = np.bincount(losers, minlength=most + 1) / len(losers)
    own, other = np.indices((target, target))
    odds = np.empty((target, target, 2 * FAR + 1))
    for margin in range(-FAR, FAR + 1):
        of_margin = losers[np.abs(margins) == abs(margin)]
        shares = everywhere
        if len(of_margin) >= FEW:
            shares = np.bincount(of_margin, minlength=most + 1) / len(of_margin)
        odds[:, :, margin + FAR] = sum(
            share * after[own + c + max(margin, 0), other + c + max(-margin, 0)]
            for c, share in enumerate(shares)
        )
    # By few rounds, the odds are not quite as steady as they must be.
    odds = np.maximum.accumulate(odds, axis=2)
    weights = np.bincount(np.clip(margins, -FAR + 1, FAR - 1) + FAR, minlength=2 * FAR + 1)
    slopes = (odds[:, :, 2:] - odds[:, :, :-2]) / 2
    point = (slopes * weights[1:-1]).sum(2, keepdims=True) / weights.sum()
    return (odds - odds[:, :, FAR, None]) / point, point[:, :, 0]
