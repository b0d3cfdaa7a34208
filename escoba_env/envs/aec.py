"""The PettingZoo AEC environment: seats as agents that take turns, one action at a time."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv
from pettingzoo.utils.env import AECIterable

from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import quoted, real, whole
from escoba_env.encoding import Encoding, Section
from escoba_env.envs.table import RENDER_MODES, Observation, Table, reset_needed
from escoba_env.game import Game
from escoba_env.rules import Rules

FINITE = sys.float_info.max

_STATE_KEYS = (
    "game",
    "forfeit",
    "agents",
    "agent_selection",
    "rewards",
    "cumulative_rewards",
)


# Any: Gymnasium's types do not say what a Dict space holds.
class raw_env(AECEnv[str, Any, Any]):  # noqa: N801 - PettingZoo's name for it
    """Escoba for two to four seats, as a PettingZoo AEC environment.

    **Agents.** ``player_0``, ``player_1`` ..., seat by seat; play goes round in this order. In a
    partnership ``player_0`` and ``player_2`` play against ``player_1`` and ``player_3``.
    ``agent_selection`` is the seat to move, and comes from the game: the first seat rotates, and a
    seat moves again where its turn takes more than one pick. All seats are out together.

    **Actions.** ``Discrete(43)``: 0 to 39 a card (``suit * 10 + rank - 1``, suits oros copas
    espadas bastos), 40 and 41 the jokers, 42 *lay / done*. A turn is the card played from hand
    and then, only where a choice is left, table cards until one capture remains.

    **Observations.** ``Dict(observation, action_mask)``, the same space for every agent:
    ``observation`` is float32 of shape ``encoding.shape``, relative to the observing seat
    (``encoding.layout()`` names every column); ``action_mask`` is int8 of shape ``(43,)``, the
    legal actions of the seat to move, zeros for every other seat and after the end. Arrays are
    new each time. ``infos`` stay ``{}``.

    **Rewards.** Floats, for every seat at every step; not zero only when a round ends. ``margin``:
    own side's points minus the mean of the other sides' (zero-sum over sides). ``points``: own
    side's points. ``win``: at the end of the game +1 for the winning side, -1 for the others;
    sides that share the lead among ``n`` get ``2 / n - 1``. Seats of a partnership get the same.

    **Illegal actions** (whole numbers that the mask does not allow). ``illegal="raise"``: an
    ``IllegalActionError`` that says why and what is legal, and nothing changes.
    ``illegal="terminate"``: the game ends for all seats, and the reason is logged by
    ``gymnasium.logger.warn``. The penalty is a match lost to nothing: each seat of the offending
    side gets ``-rules.match_target`` (``-1`` with ``reward="win"``), shared out in equal parts
    among the other sides, so the step's rewards add up to zero over the sides. What is not a
    whole number is a ``TypeError`` in both cases, and nothing changes.

    **Episode.** ``"round"``: one round. ``"match"``: rounds until a side wins by the target
    points. There is no truncation.

    **Reset.** ``reset(seed, options)``: the same seed gives the same game on every platform;
    without a seed the next game of the same stream follows. Options: ``deck``, the whole pack in
    notation in the order of the first deal; ``dealer``, the seat that deals first; ``scores``, the
    match score of each side to start from. (A key ``options`` is ignored: PettingZoo's own tests
    send one.)

    **Full information.** ``state()``, for centralised critics: float32, seats in absolute order,
    every card's place and the order of the stock; ``state_layout()`` names every column.

    **Copies.** ``copy.deepcopy``, ``pickle``, :meth:`clone` and :meth:`get_state` keep the live
    game wherever it is, in the middle of a turn or while seats leave after the end.

    Args:
        rules: A preset's name, a ``Rules``, or a mapping of fields.
        players: Number of players. ``None``: as in ``rules``, which is 2 in every preset. A number
            replaces what ``rules`` says, whatever they are.
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
            ``"human"`` (text on standard output at every step). Drawings show the whole game.
        faces: ``"spanish"`` or ``"french"`` cards in drawings.
        **rule_fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If an argument is not possible; the message names it and what is allowed.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - PettingZoo declares it so
        "name": "escoba_v0",
        "render_modes": list(RENDER_MODES),
        "is_parallelizable": False,
        "render_fps": 2,
    }

    def __init__(
        self,
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
        super().__init__()  # type: ignore[no-untyped-call] # PettingZoo's is not annotated
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
        self.render_mode = render_mode
        names = self._table.names
        self.possible_agents = list(names)
        self._seats = {name: seat for seat, name in enumerate(names)}
        self.observation_spaces = {name: self._table.observation_space() for name in names}
        self.action_spaces = {name: spaces.Discrete(NUM_ACTIONS) for name in names}
        self.state_space = self._table.state_space()
        self.agents = []
        self.agent_selection = names[0]
        self.rewards = {}
        self._cumulative_rewards = {}
        self.terminations = {}
        self.truncations = {}
        self.infos = {}
        # Also before the first reset: there is no live seat.
        self._over = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._table.summary()}>"

    # -- looking ----------------------------------------------------------------------------

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

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's observation space, the same object each time.

        Raises:
            ValueError: If there is no such agent.
        """
        try:
            return self.observation_spaces[agent]
        except (KeyError, TypeError):
            raise self._unknown(agent) from None

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's action space, the same object each time.

        Raises:
            ValueError: If there is no such agent.
        """
        try:
            return self.action_spaces[agent]
        except (KeyError, TypeError):
            raise self._unknown(agent) from None

    def observe(self, agent: str) -> Observation:
        """Returns what any seat knows, at any time after the first reset; changes nothing.

        Returns:
            ``observation``, float32 ``encoding.shape``, and ``action_mask``, int8 (43,).

        Raises:
            ValueError: If there is no such agent.
            ResetNeeded: If no game has been started.
        """
        try:
            seat = self._seats[agent]
        except (KeyError, TypeError):
            raise self._unknown(agent) from None
        return self._table.observe(seat)

    def last(
        self, observe: bool = True
    ) -> tuple[Observation | None, float, bool, bool, dict[str, Any]]:
        """Returns what ``agent_selection`` gets: observation, reward since its last step, ends.

        Raises:
            ResetNeeded: If no seat is in the game.
        """
        agent = self.agent_selection
        if not self.agents:
            raise reset_needed("last()")
        return (
            self._table.observe(self._seats[agent]) if observe else None,
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            self.infos[agent],
        )

    def agent_iter(self, max_iter: int = 2**63) -> AECIterable[str, Any, Any]:
        """Yields ``agent_selection`` until every seat is out of the game.

        Raises:
            ResetNeeded: If no game has been started.
        """
        if not self._table.started:
            raise reset_needed("agent_iter()")
        return super().agent_iter(whole("max_iter", max_iter, 0, 2**63))

    def state(self) -> NDArray[np.float32]:
        """Returns the full-information state, float32 of the shape of ``state_space``.

        Raises:
            ResetNeeded: If no game has been started.
        """
        return self._table.state()

    def state_layout(self) -> dict[str, Section]:
        """Returns every section of the full-information state by name, in column order."""
        return self._table.state_layout()

    def render(self) -> str | NDArray[np.uint8] | None:
        """Draws the whole game, hidden cards included, as ``render_mode`` says.

        Returns:
            ``"ansi"``: text; ``"rgb_array"``: uint8 (height, width, 3); else ``None``.

        Raises:
            ResetNeeded: If no game has been started.
            DependencyNotInstalled: If ``"rgb_array"`` lacks Pillow.
        """
        return self._table.render()

    def close(self) -> None:
        """Does nothing: there is no window."""

    # -- playing ----------------------------------------------------------------------------

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Starts a new game; see the class for the options.

        Raises:
            ValueError: If the seed or an option is not possible; nothing has changed then.
        """
        self._table.reset(seed, options)
        agents = list(self.possible_agents)
        self.agents = agents
        self.rewards = dict.fromkeys(agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(agents, 0.0)
        self.terminations = dict.fromkeys(agents, False)
        self.truncations = dict.fromkeys(agents, False)
        self.infos = {agent: {} for agent in agents}
        self.agent_selection = agents[self._table.turn]
        self._over = False

    def step(self, action: int | None) -> None:
        """Takes the action of ``agent_selection``.

        Args:
            action: Action id, of any integer type; ``None`` once the seat is out of the game.

        Raises:
            TypeError: If the action is not a whole number.
            IllegalActionError: If it is illegal and ``illegal="raise"``.
            ValueError: If it is not ``None`` after the end.
            ResetNeeded: If no seat is in the game. In all cases nothing has changed.
        """
        if self._over:
            self._leave(action)
            return
        table = self._table
        earned = table.step(action)
        agents = self.agents
        cumulative = self._cumulative_rewards
        cumulative[self.agent_selection] = 0.0
        self.rewards = dict(zip(agents, earned, strict=True))
        # New ones, so that what a caller keeps or writes there stays the caller's.
        self.infos = {agent: {} for agent in agents}
        if any(earned):
            for agent, reward in self.rewards.items():
                cumulative[agent] += reward
        if table.over:
            self._over = True
            self.terminations = dict.fromkeys(agents, True)
            self.agent_selection = agents[0]
        else:
            self.agent_selection = agents[table.turn]

    def _leave(self, action: Any) -> None:
        """Takes the seat to move out of a game that is over."""
        if not self.agents:
            raise reset_needed("step()")
        agent = self.agent_selection
        if action is not None:
            raise ValueError(
                f"action {quoted(action)} of {agent}: the game is over; allowed: None, which takes "
                f"{agent} out, or reset()"
            )
        self.agents.remove(agent)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        del self._cumulative_rewards[agent]
        del self.terminations[agent]
        del self.truncations[agent]
        del self.infos[agent]
        if self.agents:
            self.agent_selection = self.agents[0]

    def _unknown(self, agent: Any) -> ValueError:
        return ValueError(f"agent {quoted(agent)} is unknown; allowed: {', '.join(self._seats)}")

    # -- copies -----------------------------------------------------------------------------

    def clone(self) -> raw_env:
        """Returns an independent copy of the live game, cheaper than ``copy.deepcopy``.

        Only the spaces are shared, and with them the random state of ``sample()``.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._table = self._table.clone()
        other.agents = list(self.agents)
        other.rewards = dict(self.rewards)
        other._cumulative_rewards = dict(self._cumulative_rewards)
        other.terminations = dict(self.terminations)
        other.truncations = dict(self.truncations)
        other.infos = {agent: dict(info) for agent, info in self.infos.items()}
        return other

    def get_state(self) -> dict[str, Any]:
        """Returns the live game as a mapping of plain values, for :meth:`set_state`.

        Raises:
            ResetNeeded: If no game has been started.
        """
        return {
            **self._table.get_state(),
            "agents": list(self.agents),
            "agent_selection": self.agent_selection,
            "rewards": dict(self.rewards),
            "cumulative_rewards": dict(self._cumulative_rewards),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Puts the game where :meth:`get_state` took it, in an environment made the same way.

        ``game.returns`` begin anew.

        Raises:
            ValueError: If it is not such a state; nothing has changed then.
        """
        if not isinstance(state, dict) or set(state) != set(_STATE_KEYS):
            raise ValueError(f"state {quoted(state)}; allowed: a dict of {', '.join(_STATE_KEYS)}")
        agents = state["agents"]
        names = self.possible_agents
        if not isinstance(agents, list) or agents != [name for name in names if name in agents]:
            raise ValueError(f"state agents={quoted(agents)}; allowed: some of {', '.join(names)}")
        for name in ("rewards", "cumulative_rewards"):
            if not isinstance(state[name], dict) or list(state[name]) != agents:
                raise ValueError(
                    f"state {name}={quoted(state[name])}; allowed: one for each of {agents}"
                )
        earned = {
            name: {
                agent: real(f"state {name}", x, -FINITE, FINITE) for agent, x in state[name].items()
            }
            for name in ("rewards", "cumulative_rewards")
        }
        table = self._table.clone()
        table.set_state(state["game"], state["forfeit"])
        if table.forfeit and table.game.is_over:
            raise ValueError(
                f"state forfeit={table.forfeit!r} does not fit its game, which was over before; "
                f"allowed: text for a game that an illegal action ended"
            )
        # Seats leave in order, and the last one's name stays.
        first = [*agents, names[-1]][0] if table.over else names[table.turn]
        complete = table.over or agents == names
        if state["agent_selection"] != first or not complete:
            raise ValueError(
                f"state agents={quoted(agents)}, "
                f"agent_selection={quoted(state['agent_selection'])} do not fit its game; allowed: "
                f"{quoted(first)} to move, and all agents until the game is over"
            )
        self._table = table
        self.agents = list(agents)
        self.agent_selection = first
        self.rewards = earned["rewards"]
        self._cumulative_rewards = earned["cumulative_rewards"]
        self.terminations = dict.fromkeys(agents, table.over)
        self.truncations = dict.fromkeys(agents, False)
        self.infos = {agent: {} for agent in agents}
        self._over = table.over
