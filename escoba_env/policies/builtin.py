"""``random``, ``greedy`` and ``counting``: policies that need neither training nor search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Views
from escoba_env.engine import batch as kernels
from escoba_env.engine.counting import counting_actions
from escoba_env.policies.base import repr_of


class RandomPolicy:
    """Chooses uniformly among the legal actions."""

    name = "random"

    def __repr__(self) -> str:
        return repr_of(self)

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view; see ``Policy.act``."""
        actions = np.empty(len(views), np.int64)
        kernels.random_actions(views.records, views.keys, actions)
        return actions


class GreedyPolicy:
    """Takes the capture that is worth most now: escoba, seven of oros, sevens, oros, cards.

    Each captured card counts what it is worth under the rules at hand (``record.card_worth``). If
    nothing can be captured, the card of least worth is laid. Ties go to the lowest action id.
    """

    name = "greedy"

    def __repr__(self) -> str:
        return repr_of(self)

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view; see ``Policy.act``."""
        actions = np.empty(len(views), np.int64)
        kernels.greedy_actions(views.spec, views.records, actions)
        return actions


class CountingPolicy:
    """Counts cards: what a move takes, less the expected best reply of the next opponent.

    The reply is expected over the hands that the opponent may hold, all equally likely: the cards
    not yet seen. To it comes a share of what the own side can take next if the table stays as it
    is. Whole moves are compared (``engine.counting``), in points by ``record.card_worth``.
    """

    name = "counting"

    def __repr__(self) -> str:
        return repr_of(self)

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view; see ``Policy.act``."""
        actions = np.empty(len(views), np.int64)
        counting_actions(views.spec, views.records, actions)
        return actions
