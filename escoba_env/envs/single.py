"""The Gymnasium environment: one seat learns, policies play the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from escoba_env.batch import IllegalActionError, check_seed
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import quoted
from escoba_env.encoding import Encoding
from escoba_env.engine.rng import LEARNER_SEAT, random_seat
from escoba_env.envs.opponents import Opponent, fixed_seat, load_opponents
from escoba_env.envs.table import RENDER_MODES, Observation, Table, reset_needed
from escoba_env.game import Game
from escoba_env.rules import Rules


# Any: Gymnasium's types do not say what a Dict space holds.
class EscobaEnv(gymnasium.Env[Any, Any]):
    """Escoba for one learner against policies, as a Gymnasium environment.

    ``gymnasium.make("escoba_env/Escoba-v0")``. Every ``step`` is one decision of the learner; the
    other seats then play until the learner is to move again or the game is over.

    **Actions, observations** are those of the AEC environment ``escoba_v0.raw_env``:
    ``Discrete(43)``, and ``Dict(observation, action_mask)`` as the learner's seat sees it, the mask
    all zeros after the end. :meth:`action_masks` gives the mask as sb3-contrib asks for it.
    ``info`` is ``{}``.

    **Rewards** are the learner's own: what any seat's play earns the learner between two of its
    decisions is the reward of the first of the two, so that an episode's rewards add up to the
    learner's return in the game. What it is paid before its first decision, which takes
    ``reward_timing="as_earned"``, is part of that decision's reward. Kinds as in ``raw_env``.

    **Illegal actions.** ``illegal="terminate"`` (default) ends the episode with the penalty
    described in ``raw_env`` and logs why. It is the default because ``Discrete`` knows no mask:
    random actions, with which Gymnasium's own checker and many a first script begin, must not
    crash. ``illegal="raise"`` raises an ``IllegalActionError`` and changes nothing, which is safer
    where the mask is used. What is not a whole number is a ``TypeError`` in both cases.

    **Randomness.** ``reset(seed=...)`` fixes the deals, the learner's seat where that is
    ``"random"``, and the play of the opponents, which draw from the game's stream. Without a seed
    the next game of the stream follows. Options of ``reset`` as in ``raw_env``.

    Args:
        opponents: A policy or its name (see ``load_policy``) for all other seats, or a list with
            one for each, in the order in which they follow the learner: with 2 players the other
            one; with 3 the next and the previous; with 4 the next, the opposite (in a partnership
            the learner's partner) and the previous.
        seat: Seat of the learner, or ``"random"``: drawn for each episode.
        rules: A preset's name, a ``Rules``, or a mapping of fields.
        players: Number of players. ``None``: as in ``rules``, which is 2 in every preset.
        partnership: Whether 4 players play two against two. ``None``: as in ``rules``, which is
            false in every preset.
        episode: ``"round"`` or ``"match"``.
        reward: ``"margin"``, ``"points"`` or ``"win"``.
        encoding: Name of an encoding; see ``Encoding``.
        memory: ``"perfect"``, or ``"visible"``: captured cards are forgotten; see ``Encoding``.
        reward_timing: ``"round_end"``: a round is rewarded when it ends; ``"as_earned"``: its
            escobas at once, the rest at the end. The sums are equal.
        illegal: ``"terminate"`` or ``"raise"``.
        render_mode: ``None``, ``"ansi"`` (text), ``"rgb_array"`` (needs the extra ``render``) or
            ``"human"`` (text on standard output at every step).
        faces: ``"spanish"`` or ``"french"`` cards in drawings.
        **rule_fields: Fields of ``Rules`` that replace those of ``rules``.

    Attributes:
        seat: Seat of the learner in this episode.
        opponents: The policy that plays each other seat, in the order of the argument.

    Raises:
        ValueError: If an argument is not possible; the message names it and what is allowed.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares it so
        "render_modes": list(RENDER_MODES),
        "render_fps": 2,
    }

    def __init__(
        self,
        opponents: Opponent | Sequence[Opponent] = "greedy",
        seat: int | str = 0,
        rules: str | Rules | Mapping[str, Any] = "classic",
        players: int | None = None,
        partnership: bool | None = None,
        episode: str = "round",
        reward: str = "margin",
        encoding: str = "compact",
        memory: str = "perfect",
        reward_timing: str = "round_end",
        illegal: str = "terminate",
        render_mode: str | None = None,
        faces: str = "spanish",
        **rule_fields: Any,
    ) -> None:
        super().__init__()
        self._table = Table(
            rules,
            players=players,
            partnership=partnership,
            episode=episode,
            reward=reward,
            encoding=encoding,
            memory=memory,
            reward_timing=reward_timing,
            illegal=illegal,
            render_mode=render_mode,
            faces=faces,
            fields=rule_fields,
        )
        seats = self._table.rules.players
        self._fixed_seat = fixed_seat(seat, seats)
        self.seat = self._fixed_seat or 0
        self.opponents = load_opponents(opponents, seats)
        self.render_mode = render_mode
        self.observation_space = self._table.observation_space()
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        # Also before the first reset.
        self._over = True
        self._earned = 0.0

    def __repr__(self) -> str:
        others = " and ".join(policy.name for policy in self.opponents)
        who = f"the learner is player_{self.seat} against {others}"
        return f"<{type(self).__name__} {self._table.summary()}; {who}>"

    __str__ = __repr__

    @property
    def rules(self) -> Rules:
        """Rules of the table."""
        return self._table.rules

    @property
    def encoding(self) -> Encoding:
        """Layout of the observations."""
        return self._table.encoding

    @property
    def game(self) -> Game:
        """The game itself: look at it, take views and clones of it, never play on it."""
        return self._table.game

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts a new game and lets the others play until the learner is to move.

        Returns:
            The learner's observation, and ``{}``.

        Raises:
            ValueError: If the seed or an option is not possible; nothing has changed then.
        """
        # Gymnasium's own seeding takes an ``int`` alone.
        number = None if seed is None else check_seed(seed)
        self._table.reset(number, options)
        super().reset(seed=number)
        if self._fixed_seat is None:
            game = self._table.game.record
            self.seat = random_seat(
                game["seed"], game["game_index"], self._table.rules.players, LEARNER_SEAT
            )
        self._over = False
        self._earned = self._others_play()
        return self._table.observe(self.seat), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Takes an action for the learner, then lets the others play.

        Args:
            action: Action id, of any integer type.

        Returns:
            The learner's observation, its reward, whether the game is over, ``False`` (nothing is
            ever truncated), and ``{}``.

        Raises:
            TypeError: If the action is not a whole number.
            IllegalActionError: If it is illegal and ``illegal="raise"``.
            ResetNeeded: If no game is being played. In all cases nothing has changed.
        """
        if self._over:
            raise reset_needed("step()")
        reward = self._earned + self._table.step(action)[self.seat] + self._others_play()
        self._earned = 0.0
        self._over = self._table.over
        return self._table.observe(self.seat), reward, self._over, False, {}

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the learner's legal actions, bool (43,), for sb3-contrib's ``MaskablePPO``.

        Raises:
            ResetNeeded: If no game has been started.
        """
        return self._table.observe(self.seat)["action_mask"].astype(np.bool_)

    def _others_play(self) -> float:
        """Plays the other seats up to the learner's next decision; returns what that earned it."""
        table = self._table
        seats = table.rules.players
        earned = 0.0
        while not table.over and table.turn != self.seat:
            policy = self.opponents[(table.turn - self.seat) % seats - 1]
            action = int(policy.act(table.game.view(table.turn))[0])
            try:
                earned += table.play(action)[self.seat]
            except IllegalActionError as illegal:
                raise IllegalActionError(
                    f"opponent {quoted(policy.name)} as {table.names[table.turn]}: {illegal}"
                ) from None
        return earned

    def render(self) -> str | NDArray[np.uint8] | None:
        """Draws the whole game, hidden cards included, as ``render_mode`` says.

        Returns:
            ``"ansi"``: text; ``"rgb_array"``: uint8 (height, width, 3); else ``None``.

        Raises:
            ResetNeeded: If no game has been started.
            DependencyNotInstalled: If ``"rgb_array"`` lacks Pillow.
        """
        return self._table.render()
