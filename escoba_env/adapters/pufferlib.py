"""PufferLib: every seat of many games as one row of its buffers, written in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import logger, spaces
from numpy.typing import NDArray

from escoba_env.adapters import require
from escoba_env.batch import Batch, IllegalActionError, check_games, check_seed, explain_illegal
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import as_array
from escoba_env.encoding import Encoding
from escoba_env.envs.table import penalty_of, table_rules, terminates
from escoba_env.game import fresh_seed
from escoba_env.rules import Rules

try:
    pufferlib: Any = require("pufferlib", "pufferlib", at_least="2.0")
except ImportError as error:
    if isinstance(error, ModuleNotFoundError) and error.name != "pufferlib":
        raise
    # No extra can ask for it: it pins older versions of what this package needs.
    fault = str(error).partition(": pip install")[0]
    raise type(error)(
        f"{fault}: its releases ask for an older gymnasium than this package, so install it beside "
        f"what is here: pip install --no-deps pufferlib",
        name="pufferlib",
    ) from None

WAIT = NUM_ACTIONS - 1
"""The one action of the mask of a seat that is not to move; whatever it does is ignored."""


class EscobaPufferEnv(pufferlib.PufferEnv):
    """Self-play in every seat of many games, as a native PufferLib environment.

    **Rows.** Seat ``s`` of game ``g`` is row ``g * players + s`` of every buffer, so that a row is
    one seat's own course of decisions, rewards and ends.

    **Observations** are one ``Box``, float32 (encoding.size + 43,): the encoding, then the mask of
    zeros and ones, for PufferLib has no other place for it: ``row[:-43]`` and ``row[-43:]``. The
    mask of a seat that is not to move allows one action, 42, and what it does is ignored: its
    probability is 1 and it is never learned from. PufferLib's own ``masks`` are true for seats that
    are to move.

    **Rewards** go to every row at every step, as in ``AllSeatsEnv``; a row's rewards up to its
    ``terminals`` add up to what the seat earned in the game. A game that ends is followed by the
    next one in the same step; ``infos`` then has ``{"player_0": return, ...}`` for each that ended.

    **Illegal actions.** ``illegal="terminate"`` (default, as PufferLib's tools play actions that
    are not masked) ends the game: the side pays the penalty of ``raw_env`` to the others.
    ``illegal="raise"`` raises and changes nothing, in no game.

    Args:
        num_games: Number of games; ``num_agents`` is that times the players.
        rules: As for ``escoba_v0.raw_env``.
        players: As for ``raw_env``.
        partnership: As for ``raw_env``.
        episode: As for ``raw_env``.
        reward: As for ``raw_env``.
        encoding: As for ``raw_env``.
        memory: As for ``raw_env``.
        reward_timing: As for ``raw_env``.
        skip_forced: Whether decisions with a single legal action are played without asking.
        illegal: ``"terminate"`` or ``"raise"``.
        buf: Buffers to write into, as PufferLib's vectorisation passes them.
        seed: Seed of the first games, unless ``reset`` is given one.
        **rule_fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If an argument is not possible; the message names it and what is allowed.
    """

    def __init__(
        self,
        num_games: int = 1,
        rules: str | Rules | Mapping[str, Any] = "classic",
        players: int | None = None,
        partnership: bool | None = None,
        episode: str = "round",
        reward: str = "margin",
        encoding: str = "compact",
        memory: str = "perfect",
        reward_timing: str = "round_end",
        skip_forced: bool = False,
        illegal: str = "terminate",
        buf: Mapping[str, NDArray[Any]] | None = None,
        seed: int | None = None,
        **rule_fields: Any,
    ) -> None:
        self._terminates = terminates(illegal)
        num_games = check_games("num_games", num_games)
        self.batch = Batch(
            num_games,
            table_rules(rules, players, partnership, rule_fields),
            episode=episode,
            reward=reward,
            reward_timing=reward_timing,
            encoding=encoding,
            memory=memory,
            skip_forced=skip_forced,
        )
        num_games = len(self.batch)
        self._players = self.batch.rules.players
        self._penalty = penalty_of(self.batch.rules, reward)
        self._seed = None if seed is None else check_seed(seed)
        self._started = False
        self.num_agents = num_games * self._players
        size = self.batch.encoding.size
        low, high = (
            np.concatenate([np.broadcast_to(bound, self.batch.encoding.shape).reshape(size), mask])
            for bound, mask in (
                (self.batch.encoding.low, np.zeros(NUM_ACTIONS)),
                (self.batch.encoding.high, np.ones(NUM_ACTIONS)),
            )
        )
        self.single_observation_space = spaces.Box(
            low.astype(np.float32), high.astype(np.float32), dtype=np.float32
        )
        self.single_action_space = spaces.Discrete(NUM_ACTIONS)
        super().__init__(buf)
        self._games = np.repeat(np.arange(num_games), self._players)
        self._seats = np.tile(np.arange(self._players), num_games)
        self._returns = np.zeros((num_games, self._players))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.batch!r}>"

    @property
    def encoding(self) -> Encoding:
        """Layout of the observations, before the mask."""
        return self.batch.encoding

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.float32], list[dict[str, Any]]]:
        """Starts new games everywhere.

        Args:
            seed: Their seed; default: that of the constructor at first, the next games later.

        Returns:
            The observation buffer, and no infos.

        Raises:
            ValueError: If the seed is not possible; no game has changed then.
        """
        if seed is None and self._started:
            self.batch.restart(np.arange(len(self.batch)))
        else:
            seed = self._seed if seed is None else seed
            self.batch.reset(fresh_seed() if seed is None else check_seed(seed))
        self._started = True
        self._returns[:] = 0
        self.rewards[:] = 0
        self.terminals[:] = False
        self.truncations[:] = False
        self._observe()
        return self.observations, []

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.bool_],
        NDArray[np.bool_],
        list[dict[str, Any]],
    ]:
        """Takes the action of the seat to move in every game.

        Args:
            actions: Integers (num_agents,).

        Returns:
            The buffers of observations, rewards, terminals and truncations (never any), and the
            returns of games that ended.

        Raises:
            ValueError: If the actions have another shape or type.
            IllegalActionError: If one is illegal and ``illegal="raise"``.
            RuntimeError: If no game has been started. In all cases no game has changed.
        """
        if not self._started:
            raise RuntimeError("step(): no game is being played; reset() starts one")
        given = as_array(actions)
        if given.shape != (self.num_agents,) or given.dtype.kind not in "iu":
            raise ValueError(
                f"actions are {given.dtype} of shape {given.shape}; allowed: whole numbers of "
                f"shape {(self.num_agents,)}"
            )
        games = np.arange(len(self.batch))
        turn = self.batch.turn
        chosen = given.reshape(-1, self._players)[games, turn].astype(np.int64)
        inside = (chosen >= 0) & (chosen < NUM_ACTIONS)
        legal = inside & (self.batch.legal_masks()[games, np.where(inside, chosen, 0)] > 0)
        wrong = games[~legal]
        if wrong.size:
            first = wrong[0]
            reason = (
                f"game {first}: {explain_illegal(self.batch.states[first], int(chosen[first]))}"
            )
            if not self._terminates:
                raise IllegalActionError(reason)
            logger.warn("%s; this ended the game and cost %g", reason, self._penalty)
        rewards = np.empty((len(games), self._players))
        over = ~legal
        if legal.any():
            rewards[legal], over[legal] = self.batch.step(chosen[legal], games[legal])
        sides = self.batch.rules.num_sides
        same = np.arange(self._players) % sides == (turn[wrong] % sides)[:, None]
        rewards[wrong] = np.where(same, -self._penalty, self._penalty / (sides - 1))
        self._returns += rewards
        infos = [
            {f"player_{seat}": value for seat, value in enumerate(self._returns[game].tolist())}
            for game in np.flatnonzero(over)
        ]
        self._returns[over] = 0
        if over.any():
            self.batch.restart(games[over])
        self.rewards[:] = rewards.reshape(-1)
        self.terminals[:] = np.repeat(over, self._players)
        self.truncations[:] = False
        self._observe()
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def _observe(self) -> None:
        observations, masks = self.batch.observe(self._games, self._seats)
        size = self.batch.encoding.size
        moving = self.batch.turn[self._games] == self._seats
        masks[~moving, WAIT] = 1
        self.observations[:, :size] = observations.reshape(len(observations), size)
        self.observations[:, size:] = masks
        self.masks[:] = moving
