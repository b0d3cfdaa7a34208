"""``League``: opponents that are met the more often, the harder they are.

Prioritised fictitious self-play (Vinyals et al., Grandmaster level in StarCraft II using
multi-agent reinforcement learning, 2019): past selves and fixed policies, each drawn in proportion
to ``(1 - score) ** power``, where the score is the learner's share of games won against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.policies.base import Policy

DECAY = 0.999
"""Weight of what was known before when another game of a member ends: about a thousand games."""
LEAST = 0.05
"""Least priority of a member, so that none is forgotten."""


class League:
    """Members with their scores.

    Args:
        members: Policies that are always there.
        size: Places for past selves.
        power: How much harder opponents are preferred; 0: all alike.

    Attributes:
        policies: Everyone; an empty place for a past self is ``None``.
        scores: float64 (len(policies),): the learner's share of games won lately, draws being half.
    """

    def __init__(self, members: Sequence[Policy], size: int, power: float) -> None:
        self.policies: list[Policy | None] = [*members, *[None] * size]
        self.fixed = len(members)
        self.power = power
        self.scores = np.full(len(self.policies), 0.5)

    def shares(self) -> NDArray[np.float64]:
        """Returns how likely each member is drawn; sums to 1, or all zeros if there is nobody."""
        weights: NDArray[np.float64] = np.maximum(1 - self.scores, LEAST) ** self.power
        weights[[policy is None for policy in self.policies]] = 0
        total = weights.sum()
        return weights / total if total else weights

    def draw(self, number: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Draws members, int64 (number,); -1 where there is nobody yet."""
        shares = self.shares()
        if not shares.any():
            return np.full(number, -1)
        return random.choice(len(shares), size=number, p=shares)

    def note(self, members: NDArray[np.int64], results: NDArray[np.float64]) -> None:
        """Notes results of games: 1 won, 0.5 drawn, 0 lost, float64 (n,)."""
        for member in np.unique(members):
            mine = results[members == member]
            keep = DECAY ** len(mine)
            self.scores[member] = keep * self.scores[member] + (1 - keep) * mine.mean()

    def add(self, policy: Policy) -> int:
        """Takes in a past self, in place of the easiest if all places are taken.

        Returns:
            Its place.
        """
        places = range(self.fixed, len(self.policies))
        empty = [place for place in places if self.policies[place] is None]
        place = empty[0] if empty else max(places, key=lambda place: self.scores[place])
        self.policies[place] = policy
        self.scores[place] = 0.5
        return place

    def past_selves(self) -> list[tuple[int, Any]]:
        """Returns the past selves with their places."""
        places = enumerate(self.policies[self.fixed :], self.fixed)
        return [(place, policy) for place, policy in places if policy is not None]
