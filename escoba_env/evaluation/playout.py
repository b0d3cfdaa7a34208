"""``play_out``: plays many games to their end, each seat of each game by a policy of its own.

This file knows who is to act and passes actions on. What they do is known to ``Batch`` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from escoba_env.batch import Batch
from escoba_env.engine.record import TWELFTHS
from escoba_env.policies import Policy


@dataclass(frozen=True, eq=False)
class PlayOut:
    """How games ended.

    Attributes:
        twelfths: int64 (games, players): points of each seat's side over the whole game, in
            twelfths of a point, in which a split point too is a whole number.
        rounds: int64 (games,): rounds played.
        escobas: int64 (games, players): escobas of each seat that score; ``None`` for matches,
            as a game record counts the escobas of one round only.
    """

    twelfths: NDArray[np.int64]
    rounds: NDArray[np.int64]
    escobas: NDArray[np.int64] | None

    @property
    def points(self) -> NDArray[np.float64]:
        """Points of each seat's side over the whole game, float64 (games, players)."""
        return self.twelfths / TWELFTHS


def play_out(batch: Batch, policies: Sequence[Policy], seating: ArrayLike) -> PlayOut:
    """Plays every game of a batch to its end, all of them side by side.

    In every step each policy is asked once, for all games that wait for it. Make the batch with
    ``skip_forced=True``: policies are functions of what they see, so nothing but time changes.

    Args:
        batch: Games at any stage; afterwards all are over.
        policies: Those who play.
        seating: int (games, players): which of ``policies`` sits in each seat.

    Returns:
        How the games ended.

    Raises:
        IllegalActionError: If a policy, named in the message, chooses an illegal action.
        ValueError: If the seating is not possible, or a policy answers with something else than
            one whole number a view.
    """
    players = batch.rules.players
    chairs = np.asarray(seating)
    if chairs.shape != (len(batch), players) or chairs.dtype.kind not in "iu":
        raise ValueError(
            f"seating is {chairs.dtype} {chairs.shape}; allowed: integers {(len(batch), players)}"
        )
    if not ((chairs >= 0) & (chairs < len(policies))).all():
        raise ValueError(
            f"seating has policies {np.unique(chairs).tolist()}; allowed: 0 to {len(policies) - 1}"
        )
    live = np.flatnonzero(~batch.over)
    while live.size:
        waiting_for = chairs[live, batch.turn[live]]
        for number, policy in enumerate(policies):
            games = live[waiting_for == number]
            if games.size:
                # Here alone policies that cheat, and say so, are given what they cheat with.
                cheats = getattr(policy, "cheats", False)
                actions = policy.act(batch.whole_games(games) if cheats else batch.views(games))
                try:
                    batch.step(actions, games)
                except ValueError as error:
                    raise type(error)(f"policy {policy.name!r}: {error}") from error
        live = live[~batch.over[live]]
    sides = [batch.rules.side_of(seat) for seat in range(players)]
    return PlayOut(
        twelfths=batch.states["scores"][:, sides].astype(np.int64),
        rounds=batch.states["round_index"].astype(np.int64) + 1,
        escobas=(
            batch.states["escobas"][:, :players].astype(np.int64)
            if batch.episode == "round"
            else None
        ),
    )
