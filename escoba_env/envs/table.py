"""``Table``: one game as an environment plays it, with all that the environments share.

It checks arguments, actions and reset options, writes observations, settles illegal actions and
draws. The rules are the kernels', reached through ``Game``; how seats become agents is the
environments' business.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import error, logger, spaces
from numpy.typing import NDArray

from escoba_env.batch import IllegalActionError
from escoba_env.cards import NUM_ACTIONS, NUM_CARDS, NUM_IDS, card_name
from escoba_env.checks import integer, one_of, quoted
from escoba_env.encoding import SPACE_KEY, Encoding, Section
from escoba_env.engine import batch as kernels
from escoba_env.engine.encode import encode_states
from escoba_env.engine.outlook import WORK
from escoba_env.engine.record import GAME_OVER
from escoba_env.envs.state import state_sections
from escoba_env.game import Game
from escoba_env.position import table_text
from escoba_env.render import ansi
from escoba_env.rules import Rules, make_rules

Observation = dict[str, NDArray[Any]]
"""``observation``: float32 (encoding.size,); ``action_mask``: int8 (43,)."""

RENDER_MODES = ("ansi", "rgb_array", "human")
ILLEGAL = ("terminate", "raise")
OPTIONS = ("deck", "dealer", "scores")
_IGNORED_OPTION = "options"
"""PettingZoo's own conformance tests call ``reset(options={"options": 1})``."""


def as_action(action: Any) -> int:
    """Returns an action as an ``int``, whatever integer type it has.

    Raises:
        TypeError: If it is not an integer: booleans, floats, text, ``None`` and arrays of numbers.
    """
    number = integer(action)
    if number is None:
        raise TypeError(
            f"action {quoted(action)} is of type {type(action).__name__}; allowed: one whole "
            f"number, 0 to {NUM_ACTIONS - 1}, of any integer type"
        )
    return number


def table_rules(
    rules: Any, players: int | None, partnership: bool | None, fields: Mapping[str, Any]
) -> Rules:
    """Makes the rules of a table; ``None``: as in ``rules``.

    Raises:
        ValueError: If they are not possible.
    """
    given = {"players": players, "partnership": partnership}
    given = {name: value for name, value in given.items() if value is not None}
    return make_rules(rules, **given, **fields)


def terminates(illegal: str) -> bool:
    """Whether an illegal action ends the game.

    Raises:
        ValueError: If the word is unknown.
    """
    return one_of("illegal", illegal, ILLEGAL) == "terminate"


def penalty_of(rules: Rules, reward: str) -> float:
    """What an illegal action costs: as much as a game can, or about that."""
    return 1.0 if reward == "win" else float(rules.match_target)


def box_of(encoding: Encoding) -> spaces.Box:
    """Makes the space of an encoding's observations, which says what they are.

    Frameworks keep a space with the model that was trained in it: that is how a model that comes
    out of a file is known to read this encoding. A wrapper that changes observations makes another
    space.
    """
    space = spaces.Box(encoding.low, encoding.high, dtype=encoding.dtype.type)
    vars(space)[SPACE_KEY] = encoding.as_dict()
    return space


def reset_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the options of an environment's ``reset`` as arguments of ``Game.reset``.

    Raises:
        ValueError: If they are no mapping, or one of them is unknown.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(
            f"options={quoted(options)} are of type {type(options).__name__}; allowed: None or a "
            f"mapping with the keys {', '.join(OPTIONS)}"
        )
    given = {key: value for key, value in (options or {}).items() if key != _IGNORED_OPTION}
    for key, value in given.items():
        if key not in OPTIONS:
            raise ValueError(
                f"reset option {quoted(key)}={quoted(value)} is unknown; allowed: "
                f"{', '.join(OPTIONS)}"
            )
    return given


class Table:
    """One game as an environment plays it.

    Args:
        rules: A preset's name, a ``Rules`` or a mapping of fields.
        players: Number of players; ``None``: as in ``rules``.
        partnership: Whether seats 0+2 play against 1+3; ``None``: as in ``rules``.
        episode: ``"round"`` or ``"match"``.
        reward: ``"margin"``, ``"points"`` or ``"win"``.
        encoding: Name of an encoding.
        memory: ``"perfect"`` or ``"visible"``; see ``Encoding``.
        reward_timing: ``"round_end"`` or ``"as_earned"``; see ``Batch``.
        illegal: ``"terminate"`` or ``"raise"``.
        render_mode: ``None`` or one of ``RENDER_MODES``.
        faces: ``"spanish"`` or ``"french"``.
        fields: Fields of ``Rules`` that replace those of ``rules``.

    Attributes:
        game: The game. Nobody but the table plays on it.
        encoding: The layout of observations.
        penalty: What an illegal action costs the side of the seat that chose it.
        started: Whether a game has been started since the table was made.
        forfeit: How an illegal action ended the game, in words; empty if none did.

    Raises:
        ValueError: If an argument is not possible, by name.
    """

    def __init__(
        self,
        rules: Any,
        *,
        players: int | None,
        partnership: bool | None,
        episode: str,
        reward: str,
        encoding: str,
        memory: str,
        reward_timing: str,
        illegal: str,
        render_mode: str | None,
        faces: str,
        fields: Mapping[str, Any],
    ) -> None:
        self._terminates = terminates(illegal)
        known = isinstance(render_mode, str) and render_mode in RENDER_MODES
        if render_mode is not None and not known:
            raise ValueError(
                f"render_mode={quoted(render_mode)} is unknown; allowed: None, "
                f"{', '.join(RENDER_MODES)}"
            )
        card_name(0, faces)
        self.game = Game(
            table_rules(rules, players, partnership, fields),
            episode=episode,
            reward=reward,
            reward_timing=reward_timing,
        )
        self.rules = self.game.rules
        self.encoding = Encoding(encoding, self.rules, episode, memory)
        self.sections = state_sections(self.rules, episode)
        self.penalty = penalty_of(self.rules, reward)
        self.names = [f"player_{seat}" for seat in range(self.rules.players)]
        self.started = False
        self.forfeit = ""
        self.render_mode = render_mode
        self._faces = faces
        self._size = self.encoding.size
        self._shape = self.encoding.shape
        self._plan = self.encoding.plan
        self._state_size = self.sections[-1].stop
        self._card_width = NUM_IDS if self.rules.jokers else NUM_CARDS
        self._bind()

    def _bind(self) -> None:
        """Takes hold of the game's record, and makes the work arrays of the kernels."""
        self._state = self.game.states
        self._turn = self._state["turn"]
        self._phase = self._state["phase"]
        self._work = np.empty(1, WORK)

    # -- spaces -----------------------------------------------------------------------------

    def observation_space(self) -> spaces.Dict:
        """Makes the space of observations."""
        return spaces.Dict(
            {
                "observation": box_of(self.encoding),
                "action_mask": spaces.Box(0, 1, (NUM_ACTIONS,), np.int8),
            }
        )

    def state_space(self) -> spaces.Box:
        """Makes the space of full-information states."""
        high = np.empty(self._state_size, np.float32)
        for section in self.sections:
            high[section.slice] = section.high
        return spaces.Box(np.zeros_like(high), high, dtype=np.float32)

    def state_layout(self) -> dict[str, Section]:
        """Returns every section of the full-information state by name, in order."""
        return {section.name: section for section in self.sections}

    # -- looking ----------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether the game is over, by its rules or by an illegal action."""
        return self._phase.item() == GAME_OVER or self.forfeit != ""

    @property
    def turn(self) -> int:
        """Seat to move."""
        return int(self._turn.item())

    def summary(self) -> str:
        """Says on one line what is played and whose turn it is, as everybody at the table sees."""
        if not self.started:
            where = "no game yet"
        elif self.over:
            where = "over"
        else:
            record = self.game.record
            mover, cards = ansi.turn_text(record, "spanish"), table_text(record, separator=" ")
            where = f"{mover}{'' if ',' in mover else ' to move'}, table {cards}"
        return f"{self.rules.title}, {self.game.episode}: {where}"

    def observe(self, seat: int) -> Observation:
        """Returns what a seat knows, in arrays of its own."""
        if not self.started:
            raise reset_needed("observe()")
        out = np.empty((1, self._size), np.float32)
        mask = np.empty((1, NUM_ACTIONS), np.int8)
        kernels.observe_game(self.game.spec, self._state, seat, self._plan, out, mask, self._work)
        if self.forfeit:
            mask[:] = 0
        return {"observation": out.reshape(self._shape), "action_mask": mask[0]}

    def state(self) -> NDArray[np.float32]:
        """Returns the full-information state, float32."""
        if not self.started:
            raise reset_needed("state()")
        out = np.empty((1, self._state_size), np.float32)
        encode_states(self.game.spec, self._state, self._card_width, out)
        return out.reshape(-1)

    # -- playing ----------------------------------------------------------------------------

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        """Starts a new game; see ``Game.reset``.

        Raises:
            ValueError: If the seed or an option is not possible; the game is then as it was.
        """
        self.game.reset(seed, **reset_options(options))
        self.started = True
        self.forfeit = ""
        if self.render_mode == "human":
            self.render()

    def play(self, action: int) -> list[float]:
        """Takes a legal action for the seat to move and returns what every seat earned.

        Raises:
            IllegalActionError: If it is not legal; the game is then as it was.
        """
        self.game.step(action)
        if self.render_mode == "human":
            self.render()
        return self.game.rewards

    def step(self, action: Any) -> list[float]:
        """Takes an action, legal or not, for the seat to move; returns what every seat earned.

        Raises:
            TypeError: If the action is not an integer.
            IllegalActionError: If it is illegal and ``illegal="raise"``. Either way the game is
                as it was.
        """
        if type(action) is not int:
            action = as_action(action)
        try:
            return self.play(action)
        except IllegalActionError as illegal:
            if not self._terminates:
                raise
            return self._end_by(str(illegal))

    def _end_by(self, reason: str) -> list[float]:
        """Ends the game by an illegal action: its side pays the penalty to the others."""
        seat = self.turn
        forfeit = f"{self.names[seat]}: {reason}; this ended the game and cost {self.penalty:g}"
        # Level 4 is whoever called the environment's step.
        logger.warn("%s", forfeit, stacklevel=4)
        self.forfeit = forfeit
        if self.render_mode == "human":
            self.render()
        side = self.rules.side_of(seat)
        share = self.penalty / (self.rules.num_sides - 1)
        sides = [self.rules.side_of(other) for other in range(self.rules.players)]
        return [-self.penalty if other == side else share for other in sides]

    # -- drawing ----------------------------------------------------------------------------

    def render(self) -> str | NDArray[np.uint8] | None:
        """Draws the whole game, hidden cards included, as the render mode says.

        Returns:
            ``ansi``: text; ``rgb_array``: uint8 (height, width, 3); ``human``: nothing, the text
            has been written to standard output.

        Raises:
            DependencyNotInstalled: If ``rgb_array`` lacks Pillow.
        """
        if not self.started:
            raise reset_needed("render()")
        if self.render_mode is None:
            logger.warn(
                "render() draws nothing: the environment was made without a render_mode; allowed: "
                + ", ".join(RENDER_MODES),
                stacklevel=3,
            )
            return None
        scene = (self.rules, self.game.episode, self.game.record)
        if self.render_mode == "rgb_array":
            try:
                from escoba_env.render import picture
            except ModuleNotFoundError as missing:
                if missing.name != "PIL":
                    raise
                raise error.DependencyNotInstalled(
                    "render_mode='rgb_array' draws with Pillow, which is not installed: "
                    "pip install 'escoba-env[render]'"
                ) from missing
            return picture.draw(*scene, faces=self._faces, note=self.forfeit)
        text = ansi.draw(*scene, faces=self._faces, note=self.forfeit)
        if self.render_mode == "ansi":
            return text
        sys.stdout.write(text + "\n\n")
        sys.stdout.flush()
        return None

    # -- copies -----------------------------------------------------------------------------

    def clone(self) -> Table:
        """Returns an independent copy of the table and its game as it is."""
        other = object.__new__(Table)
        other.__dict__.update(self.__dict__)
        other.game = self.game.clone()
        other._bind()
        return other

    def get_state(self) -> dict[str, Any]:
        """Returns the game as plain values, for :meth:`set_state`."""
        if not self.started:
            raise reset_needed("get_state()")
        return {"game": self.game.get_state(), "forfeit": self.forfeit}

    def set_state(self, game: bytes, forfeit: str) -> None:
        """Puts the game where :meth:`get_state` took its values.

        Raises:
            ValueError: If they are not a possible game; it is then as it was.
        """
        if not isinstance(forfeit, str):
            raise ValueError(
                f"forfeit={quoted(forfeit)}; allowed: text, empty unless the game ended by it"
            )
        self.game.set_state(game)
        self.forfeit = forfeit
        self.started = True
        self._bind()

    def __getstate__(self) -> dict[str, Any]:
        bound = ("_state", "_turn", "_phase", "_work")
        return {name: value for name, value in self.__dict__.items() if name not in bound}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()


def reset_needed(what: str) -> error.ResetNeeded:
    """Makes the error for what needs a game where there is none."""
    return error.ResetNeeded(f"{what}: no game is being played; reset() starts one")
