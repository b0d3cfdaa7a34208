"""Scoring: the categories of a round for each side, and who has won a match.

Points are in twelfths, see ``record``.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import SEVEN_OF_OROS
from escoba_env.engine.bits import OROS, SEVENS, SUIT_MASKS, lowest, popcount
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.record import (
    GAME_OVER,
    NOBODY,
    PLAYING,
    SETENTA_SCALE,
    TIES_ALL,
    TIES_SPLIT,
    TWELFTHS,
)

CARDS, ORO_CARDS, SEVEN_CARDS, SETENTA = range(4)
"""Majority categories, as ``count_of`` numbers them."""


@kernel
def pile_of(spec, s, side):
    """Card set captured by a side: a partnership's two piles are one."""
    pile = s["piles"][side]
    if spec["sides"] < spec["players"]:
        pile |= s["piles"][side + 2]
    return pile


@kernel
def escobas_of(spec, s, side):
    """Escobas scored by a side this round."""
    number = int(s["escobas"][side])
    if spec["sides"] < spec["players"]:
        number += int(s["escobas"][side + 2])
    return number


@entry
def setenta_of(spec, pile):
    """Setenta total of a pile; 0 if it misses a suit of the pack and cannot compete."""
    result = 0
    for suit in range(4):
        if spec["pack"] & SUIT_MASKS[suit]:
            cards = pile & SUIT_MASKS[suit]
            if cards == 0:
                return 0
            best = 0
            while cards:
                best = max(best, SETENTA_SCALE[lowest(cards) % 10])
                cards &= cards - 1
            result += best
    return result


@kernel
def count_of(spec, pile, category):
    """What a pile has in a majority category."""
    if category == CARDS:
        return popcount(pile)
    if category == ORO_CARDS:
        return popcount(pile & OROS)
    if category == SEVEN_CARDS:
        return popcount(pile & SEVENS)
    return setenta_of(spec, pile)


@entry
def majority_points(spec, s, side, category):
    """Points of a side in a majority category, in twelfths.

    A category in which nobody has anything scores for nobody, whatever the rule for ties.
    """
    own = count_of(spec, pile_of(spec, s, side), category)
    if own == 0:
        return 0
    leaders = 1
    for other in range(spec["sides"]):
        if other != side:
            count = count_of(spec, pile_of(spec, s, other), category)
            if count > own:
                return 0
            if count == own:
                leaders += 1
    if category == CARDS:
        points = spec["most_cards"]
    elif category == ORO_CARDS:
        points = spec["most_oros"]
        if own == popcount(spec["pack"] & OROS):
            points = spec["all_oros"]
    elif category == SEVEN_CARDS:
        points = spec["most_sevens"]
        if own == popcount(spec["pack"] & SEVENS):
            points = spec["all_sevens"]
    else:
        points = spec["setenta"]
    if leaders == 1 or spec["ties"] == TIES_ALL:
        return TWELFTHS * points
    if spec["ties"] == TIES_SPLIT:
        return TWELFTHS * points // leaders
    return 0


@entry
def seven_of_oros_points(spec, s, side):
    """Points of a side for the seven of oros, in twelfths."""
    if (pile_of(spec, s, side) >> SEVEN_OF_OROS) & 1:
        return TWELFTHS * spec["seven_of_oros"]
    return 0


@entry
def escoba_points(spec, s, side):
    """Points of a side for its escobas, in twelfths."""
    return TWELFTHS * spec["escoba"] * escobas_of(spec, s, side)


@kernel
def napola_length(pile):
    """Length of a pile's unbroken run of oros from the ace, 0 below three (RULES section 7)."""
    length = 0
    while length < 10 and (pile >> length) & 1:
        length += 1
    return length if length >= 3 else 0


@kernel
def napola_points(spec, s, side):
    """Points of a side for its napola, in twelfths."""
    if spec["napola"]:
        return TWELFTHS * napola_length(pile_of(spec, s, side))
    return 0


@entry
def points_of(spec, s, side):
    """All points of a side for the piles and escobas as they are, in twelfths."""
    points = seven_of_oros_points(spec, s, side) + escoba_points(spec, s, side)
    points += majority_points(spec, s, side, CARDS)
    points += majority_points(spec, s, side, ORO_CARDS)
    points += majority_points(spec, s, side, SEVEN_CARDS)
    points += napola_points(spec, s, side)
    if spec["setenta"]:
        points += majority_points(spec, s, side, SETENTA)
    return points


@kernel
def add_round(spec, s):
    """Scores a finished round and adds it to the match scores."""
    for side in range(spec["sides"]):
        points = points_of(spec, s, side)
        s["round_points"][side] = points
        s["scores"][side] += points


@kernel
def leader_of(spec, scores):
    """The single highest side, or NOBODY if the highest score is shared."""
    best = 0
    for side in range(1, spec["sides"]):
        if scores[side] > scores[best]:
            best = side
    for side in range(spec["sides"]):
        if side != best and scores[side] == scores[best]:
            return NOBODY
    return best


@kernel
def winner_of(spec, scores, target):
    """The side that has won a match to ``target`` points at the end of a round, or NOBODY."""
    leader = leader_of(spec, scores)
    if leader != NOBODY and scores[leader] >= TWELFTHS * target:
        return leader
    return NOBODY


@kernel
def is_last_round(spec, s, round_index):
    """Whether no round follows on round ``round_index``, at the end of which the scores are these.

    The highest side has won then, and sides that share the lead share the win: see ``win_of``.
    """
    if spec["match"] == 0 or round_index + 1 >= spec["max_rounds"]:
        return True
    return winner_of(spec, s["scores"], int(spec["target"])) != NOBODY


@entry
def match_winners(spec, winners):
    """Writes who of two sides has won a match at whole points, or NOBODY.

    Args:
        winners: int8 (n, n): by the points of side 0 and of side 1.
    """
    scores = np.zeros(2, np.int64)
    for own in range(len(winners)):
        for other in range(len(winners)):
            scores[0] = own * TWELFTHS
            scores[1] = other * TWELFTHS
            winners[own, other] = winner_of(spec[0], scores, int(spec[0]["target"]))


MARGIN, POINTS, WIN = range(3)
"""Kinds of reward, in the order of ``REWARDS``."""
REWARDS = ("margin", "points", "win")


@kernel
def note_paid(spec, s, paid):
    """Writes the points of this round that rewards ``as_earned`` have paid out already, by side.

    They are those of the escobas so far; none before the first pick, so that escobas that came
    with the deal are paid with it.
    """
    begun = s["turn_index"] > 0 or s["played"] != NOBODY
    for side in range(spec["sides"]):
        paid[side] = escoba_points(spec, s, side) if begun else 0


@kernel
def share_of(spec, points, kind, seat):
    """Reward of a seat for points, in twelfths by side, that have just been earned.

    ``MARGIN``: own side's points minus the mean of the other sides' (zero-sum over sides);
    ``POINTS``: own side's points.
    """
    side = seat % spec["sides"]
    own = points[side]
    if kind == POINTS:
        return own / TWELFTHS
    others = 0
    for other in range(spec["sides"]):
        if other != side:
            others += points[other]
    return (own - others / (spec["sides"] - 1)) / TWELFTHS


@kernel
def win_of(spec, s, seat):
    """``WIN`` reward of a seat when a game is over.

    +1 for a single highest side and -1 for a lower one; ``n`` sides that share the lead share the
    win, ``2 / n - 1`` each (0 for two).
    """
    side = seat % spec["sides"]
    scores = s["scores"] if spec["match"] else s["round_points"]
    leaders = 1
    for other in range(spec["sides"]):
        if scores[other] > scores[side]:
            return -1.0
        if other != side and scores[other] == scores[side]:
            leaders += 1
    return 2.0 / leaders - 1.0


@kernel
def add_rewards(spec, s, kind, as_earned, paid, rewards, row):
    """Adds to every seat's reward what the pick that has just been applied has earned.

    Args:
        kind: ``MARGIN``, ``POINTS`` or ``WIN``.
        as_earned: Whether escobas are paid at once, instead of all points at the end of the round.
        paid: int64 of shape (4,), from ``note_paid`` before the pick if ``as_earned``, else zeros;
            afterwards what has been paid of the round that goes on.
        rewards: Float array (rows, players); row ``row`` is added to.
    """
    playing = s["phase"] == PLAYING
    if kind == WIN:
        if s["phase"] == GAME_OVER:
            for seat in range(spec["players"]):
                rewards[row, seat] += win_of(spec, s, seat)
        return
    if playing and not as_earned:
        return
    for side in range(spec["sides"]):
        if playing:
            points = escoba_points(spec, s, side)
            paid[side] = points - paid[side]
        else:
            paid[side] = s["round_points"][side] - paid[side]
    for seat in range(spec["players"]):
        rewards[row, seat] += share_of(spec, paid, kind, seat)
    for side in range(spec["sides"]):
        paid[side] = escoba_points(spec, s, side) if playing else 0
