"""``EscobaObserver``: what players observe of a state, as named pieces and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.adapters.openspiel.rounds import Round, Table, pyspiel
from escoba_env.cards import NUM_ACTIONS, cards_in, names_of
from escoba_env.checks import quoted, whole
from escoba_env.engine import batch as kernels
from escoba_env.engine.outlook import WORK

if TYPE_CHECKING:
    from escoba_env.adapters.openspiel.game import EscobaState

_PRIVATE = ("hand", "unseen")
"""Sections of encodings that depend on the hand of the seat that observes."""


class EscobaObserver:
    """Observations of any ``IIGObservationType``, piece by named piece.

    ``player``
        One-hot of the seat that observes.
    sections of ``Encoding("compact")``; with perfect recall of ``Encoding("history")``
        Without private information seats are relative to seat 0, and those that depend on a hand
        (``hand``, ``unseen``) are left out; without public information only ``hand`` is there.
    ``pick_order``
        Public, with perfect recall: for each card that was picked from the table, which pick of its
        turn it was, counted from 1, as a tenth; cards that a capture took of itself are zeros.
    ``hands``
        Private information of all players, or open hands that are public: every hand.
    ``dealt``
        Private information with perfect recall and nothing public: what was dealt in each deal.

    Args:
        table: What the states of the game share.
        iig_obs_type: What is observed.
        params: None are known.

    Attributes:
        tensor: float32 (size,), written by :meth:`set_from`.
        dict: Its pieces by name, views of ``tensor``.

    Raises:
        ValueError: If there are parameters.
    """

    def __init__(self, table: Table, iig_obs_type: Any, params: dict[str, Any] | None) -> None:
        if params:
            raise ValueError(
                f"observation parameters {quoted(params)} are not possible; allowed: none"
            )
        kinds = pyspiel.PrivateInfoType
        self._table = table
        self._public = iig_obs_type.public_info
        self._recall = iig_obs_type.perfect_recall
        self._own = iig_obs_type.private_info == kinds.SINGLE_PLAYER
        self._all = iig_obs_type.private_info == kinds.ALL_PLAYERS
        rules = table.rules
        # Information states: what a player knows with closed hands, and the string asked for most.
        self._keys = self._recall and self._public and self._own and not table.rules.open_hands
        self._encoding = table.history if self._recall else table.compact
        width = self._encoding.card_width
        self._sections = [
            section
            for section in self._encoding.sections
            if (self._own if section.name == "hand" else self._public)
            and (self._own or section.name not in _PRIVATE)
        ]
        pieces: dict[str, tuple[int, ...]] = {}
        if self._own:
            pieces["player"] = (rules.players,)
        pieces |= {section.name: section.shape for section in self._sections}
        if self._public and self._recall:
            pieces["pick_order"] = (width,)
        self._open = self._public and rules.open_hands and not self._own
        if self._all or self._open:
            pieces["hands"] = (rules.players, width)
        if self._recall and not self._public and (self._own or self._all):
            lead = (rules.players,) if self._all else ()
            pieces["dealt"] = (*lead, rules.deals, width)
        sizes = [int(np.prod(shape)) for shape in pieces.values()]
        self.tensor: NDArray[np.float32] = np.zeros(sum(sizes), np.float32)
        parts = np.split(self.tensor, np.cumsum(sizes)[:-1]) if sizes else []
        self.dict = {
            name: part.reshape(shape)
            for (name, shape), part in zip(pieces.items(), parts, strict=True)
        }
        columns = [np.arange(section.start, section.stop) for section in self._sections]
        self._columns = np.concatenate([np.empty(0, np.int64), *columns]).astype(np.int64)
        start = rules.players if self._own else 0
        self._encoded = self.tensor[start : start + len(self._columns)]
        self._row = np.empty((1, self._encoding.size), np.float32)
        self._mask = np.empty((1, NUM_ACTIONS), np.int8)
        self._work = np.empty(1, WORK)

    def set_from(self, state: EscobaState, player: int) -> None:
        """Writes ``tensor``, and so ``dict``, as a player observes a state."""
        one, rules = state.round, self._table.rules
        player = whole("player", player, 0, rules.players - 1)
        self.tensor.fill(0)
        if len(self._columns):
            self._encode(one, player if self._own else 0)
            self._encoded[:] = self._row[0, self._columns]
        if self._own:
            self.dict["player"][player] = 1
        if "pick_order" in self.dict:
            width = len(self.dict["pick_order"])
            self.dict["pick_order"][:] = np.frombuffer(one.order, np.uint8)[:width] / 10
        for seat in range(rules.players) if "hands" in self.dict else ():
            self.dict["hands"][seat, list(cards_in(one.record["hands"][seat]))] = 1
        if "dealt" in self.dict:
            for deal, hands in enumerate(one.dealt):
                for seat in range(rules.players) if self._all else (player,):
                    row = self.dict["dealt"][seat] if self._all else self.dict["dealt"]
                    row[deal, list(cards_in(hands[seat]))] = 1

    def string_from(self, state: EscobaState, player: int) -> str:
        """Returns what a player observes of a state, in words.

        With perfect recall it is a key: equal for states that the player cannot tell apart, and for
        no others.
        """
        one, rules = state.round, self._table.rules
        player = whole("player", player, 0, rules.players - 1)
        if self._keys:
            return f"player {player}, hands{one.hands[player]}, {one.log}"
        parts = []
        if self._own:
            parts.append(f"player {player}")
        if self._recall:
            seats = range(rules.players) if self._all or self._open else ()
            if self._public and rules.open_hands:
                seats = range(rules.players)
            if self._own and not seats:
                parts.append(f"hands{one.hands[player]}")
            parts += [f"hands {seat}:{one.hands[seat]}" for seat in seats]
            if self._public:
                parts.append(one.log)
            else:
                # Without what has been played, dealt cards do not say what is left.
                left = [player] if self._own else seats
                parts += [f"left {names_of(one.record['hands'][seat]) or '-'}" for seat in left]
            return ", ".join(parts)
        if self._sections:
            self._encode(one, player if self._own else 0)
            lines = self._encoding.describe(self._row[0]).splitlines()
            names = {section.name for section in self._sections}
            parts += [line for line in lines if line.partition(":")[0] in names]
        if "hands" in self.dict:
            hands = one.record["hands"][: rules.players]
            parts += [f"hands {seat}: {names_of(hand) or '-'}" for seat, hand in enumerate(hands)]
        return "\n".join(parts)

    def _encode(self, one: Round, seat: int) -> None:
        kernels.observe_game(
            self._table.spec,
            one.states,
            seat,
            self._encoding.plan,
            self._row,
            self._mask,
            self._work,
        )
