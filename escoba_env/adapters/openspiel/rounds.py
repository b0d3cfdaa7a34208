"""``Round``: the Python side of a state, a game record and what chance has drawn for it."""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np

from escoba_env.adapters import require
from escoba_env.adapters.openspiel.chance import lowest_of, tables_kept
from escoba_env.adapters.openspiel.parameters import DEALERS, parse_rules
from escoba_env.batch import IllegalActionError, Records, Views, explain_illegal
from escoba_env.cards import LAY, NUM_ACTIONS, NUM_IDS, cards_in, names_of
from escoba_env.checks import one_of, quoted
from escoba_env.encoding import Encoding
from escoba_env.engine import batch as kernels
from escoba_env.engine.record import HIDDEN, NOBODY, NOT_YET, PLAYING, STATE, lower
from escoba_env.engine.score import MARGIN
from escoba_env.notation import action_name

require("open_spiel", "openspiel", at_least="2.0")
pyspiel: Any = require("pyspiel", "openspiel", at_least="2.0")

CHANCE: Any = pyspiel.PlayerId.CHANCE
TERMINAL: Any = pyspiel.PlayerId.TERMINAL
NAMES = tuple(action_name(action) for action in range(NUM_ACTIONS))
_BEGINS = tuple(f" {name}" for name in NAMES)
_GOES_ON = tuple(f":{name}" for name in NAMES)


def _at(field: str) -> int:
    """Where a field lies in a record: reading its byte costs a tenth of reading the field."""
    assert STATE.fields is not None
    return int(STATE.fields[field][1])


_LEGAL, _PLAYED, _PLACING, _PHASE = map(_at, ("legal", "played", "placing", "phase"))
_STOCK, _STOCK_NEXT = map(_at, ("stock", "stock_next"))
_TURN, _TURN_INDEX = map(_at, ("turn", "turn_index"))
_NOBODY = NOBODY & 0xFF
_WORD = struct.Struct("=q").unpack_from


class Table:
    """What all states of one game share; a copy or pickle of it is the same one."""

    def __init__(self, text: str, players: int, partnership: bool, dealer: str) -> None:
        self.arguments = (text, players, partnership, dealer)
        self.rules = rules = parse_rules(text, players, partnership)
        self.random_dealer = one_of("dealer", dealer, DEALERS) == "random"
        self.spec = lower(rules)
        self.compact = Encoding("compact", rules)
        self.history = Encoding("history", rules)
        self.deal_size = rules.players * rules.hand_size
        self.last_turn = rules.turns - 1
        self.redeals = rules.initial_table == "redeal"
        dealers = [NOBODY, *range(rules.players)]
        self.undealt = {dealer: self._undealt(dealer) for dealer in dealers}
        first = NOBODY if self.random_dealer else rules.players - 1
        self.start = Round.start(self, self.undealt[first])

    def _undealt(self, dealer: int) -> bytes:
        record = np.zeros(1, STATE)
        for name in ("played_at", "taken_at"):
            record[name] = NOT_YET
        for name in ("turn", "last_capturer", "played", "viewer"):
            record[name] = NOBODY
        record["stock"] = HIDDEN
        record["stock"][0, : self.rules.pack_size] = list(cards_in(self.rules.pack))
        record["stock_size"] = self.rules.pack_size
        record["dealer"] = dealer
        return record.tobytes()

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        return self

    def __reduce__(self) -> Any:
        return shared_table, self.arguments


@functools.lru_cache(maxsize=64)
def shared_table(text: str, players: int, partnership: bool, dealer: str) -> Table:
    """Returns the table of some parameters, the same one each time."""
    return Table(text, players, partnership, dealer)


class Round:
    """The Python side of a state, in one piece: OpenSpiel copies and pickles what a state has.

    While chance deals, the record is the round as it was seen before: hands empty, nobody to move.
    """

    __slots__ = (
        *("buffer", "states", "table", "player", "undealt", "lowest", "missing", "drawn"),
        *("dealt", "hands", "log", "order", "returns"),
    )

    buffer: bytearray
    """The game record's bytes."""
    states: Records
    """The game record, an array (1,) over ``buffer``."""
    table: Table
    player: Any
    """Seat to move, or OpenSpiel's id of chance or of the end."""
    undealt: tuple[int, ...]
    """Cards that chance has not drawn, ascending."""
    lowest: int
    """Where in ``undealt`` the cards begin that may come next."""
    missing: int
    """How many cards the hand, or first table, that is dealt now lacks."""
    drawn: tuple[int, ...]
    """Cards of the deal in progress, in the order in which chance draws them."""
    dealt: tuple[tuple[int, ...], ...]
    """For each complete deal the card set of every seat's hand."""
    hands: tuple[str, ...]
    """The same for each seat in words."""
    log: str
    """Everything public so far, pick by pick."""
    order: bytes
    """For each card on the table that was picked, which pick of its turn it was, from 1."""
    returns: tuple[float, ...]
    """Every seat's margin; zeros before the end."""

    @classmethod
    def start(cls, table: Table, record: bytes) -> Round:
        """Before the first card; states share it until chance draws."""
        rules = table.rules
        cards = tuple(cards_in(rules.pack))
        missing = rules.table_size or rules.hand_size
        hands = ("",) * rules.players
        order = bytes(NUM_IDS)
        returns = (0.0,) * rules.players
        rest = (cards, 0, missing, (), (), hands, "", order, returns)
        return cls._load(table, record, CHANCE, *rest)

    @classmethod
    def _load(cls, table: Table, record: bytes | bytearray, player: Any, *rest: Any) -> Round:
        self = cls.__new__(cls)
        self.table = table
        self.buffer = bytearray(record)
        self.states = np.frombuffer(self.buffer, STATE)
        self.player = player if player >= 0 else TERMINAL if player == TERMINAL else CHANCE
        self.undealt, self.lowest, self.missing, self.drawn = rest[:4]
        self.dealt, self.hands, self.log, self.order, self.returns = rest[4:]
        return self

    def _rest(self) -> tuple[Any, ...]:
        return (
            *(self.undealt, self.lowest, self.missing, self.drawn),
            *(self.dealt, self.hands, self.log, self.order, self.returns),
        )

    def copy(self) -> Round:
        """Returns an independent copy."""
        return self._load(self.table, self.buffer, self.player, *self._rest())

    def __deepcopy__(self, memo: dict[int, Any]) -> Round:
        return self if self is self.table.start else self.copy()

    def __reduce__(self) -> Any:
        arguments = (self.table, bytes(self.buffer), int(self.player), *self._rest())
        return Round._load, arguments

    @property
    def record(self) -> np.void:
        """The game record, dtype ``STATE``."""
        record: np.void = self.states[0]
        return record

    @property
    def legal(self) -> int:
        """Legal actions of the seat to move, as a set."""
        legal: int = _WORD(self.buffer, _LEGAL)[0]
        return legal

    def view(self, seat: int, key: int = 0) -> Views:
        """What a seat knows, without the order of picks.

        Args:
            seat: The seat.
            key: Random key of the view.
        """
        records = np.empty(1, STATE)
        keys = np.empty(1, np.int64)
        table = self.table
        slot, seats = np.zeros(1, np.int64), np.array([seat], np.int64)
        kernels.view_games(table.spec, self.states, slot, seats, records, keys)
        keys[0] = key
        return Views(table.rules, "round", table.spec, records, keys)

    # -- chance -----------------------------------------------------------------------------

    @property
    def asks_dealer(self) -> bool:
        """Whether chance draws the dealer now."""
        return self.table.random_dealer and not self.log

    def outcomes(self) -> list[tuple[int, float]]:
        """What chance may do, with probabilities: seats that deal, or cards."""
        table = self.table
        if self.asks_dealer:
            players = table.rules.players
            return [(seat, 1 / players) for seat in range(players)]
        cards = self.undealt[self.lowest :]
        if table.redeals and not self.dealt and len(self.drawn) < table.rules.table_size:
            target = table.rules.target_sum
            chances = tables_kept(cards, self.missing, self.drawn, target)
            return [pair for pair in zip(cards, chances, strict=False) if pair[1]]
        return list(zip(cards, lowest_of(len(cards), self.missing), strict=False))

    def draw(self, action: int) -> None:
        """Takes an outcome of chance."""
        undealt = self.undealt
        last = len(undealt) - self.missing
        if self.asks_dealer or self.table.redeals:
            allowed = [outcome for outcome, _ in self.outcomes()]
        else:
            allowed = undealt[self.lowest : last + 1]  # type: ignore[assignment]
        if action not in allowed:
            raise ValueError(f"chance cannot draw {quoted(action)}; allowed: {list(allowed)}")
        if self.asks_dealer:
            self.buffer[:] = self.table.undealt[action]
            self.log = f"dealer {action}, "
            return
        at = undealt.index(action)
        self.undealt = undealt[:at] + undealt[at + 1 :]
        self.drawn += (action,)
        self.lowest = at
        self.missing -= 1
        if self.missing == 0:
            self.lowest = 0
            self.missing = self.table.rules.hand_size
            # A deal is complete when the last hand is.
            whole_deal = self.table.deal_size
            if not self.dealt:
                whole_deal += self.table.rules.table_size
            if len(self.drawn) == whole_deal:
                self._deal()

    def _deal(self) -> None:
        """Deals what chance has drawn."""
        rules, buffer = self.table.rules, self.buffer
        first = 0 if self.dealt else rules.table_size
        cards = self.drawn[first:]
        # The pack in the order in which the engine deals it.
        start = buffer[_STOCK_NEXT]
        order = bytes((*cards, *self.drawn[:first], *self.undealt))
        buffer[_STOCK + start : _STOCK + start + len(order)] = order
        if self.dealt:
            kernels.deal_next_hands(self.table.spec, self.states)
        else:
            kernels.deal_from_stock(self.table.spec, self.states, 0)
            first_table = " ".join([NAMES[card] for card in self.drawn[:first]])
            self.log += f"table {first_table or '-'}, turns"
        hands = tuple(self.record["hands"][: rules.players].tolist())
        self.dealt += (hands,)
        self.hands = tuple(
            [
                text + " " + names_of(hand, separator="+")
                for text, hand in zip(self.hands, hands, strict=True)
            ]
        )
        self.drawn = ()
        self.player = buffer[_TURN]

    # -- players ----------------------------------------------------------------------------

    def pick(self, action: int) -> None:
        """Takes an action of the seat to move."""
        buffer = self.buffer
        if not 0 <= action < NUM_ACTIONS or not self.legal >> action & 1:
            raise IllegalActionError(explain_illegal(self.record, action))
        begins = buffer[_PLAYED] == _NOBODY
        if not begins and action != LAY and not buffer[_PLACING]:
            place = int(self.record["picked"]).bit_count() + 1
            self.order = self.order[:action] + bytes([place]) + self.order[action + 1 :]
        dealt = buffer[_STOCK_NEXT]
        table = self.table
        if buffer[_TURN_INDEX] != table.last_turn:
            kernels.apply_pick(table.spec, self.states, action)
        else:
            rewards = np.empty((1, table.rules.players))
            paid = np.zeros(4, np.int64)
            kernels.step_game(table.spec, self.states, action, MARGIN, False, paid, rewards)
            self.returns = tuple(rewards[0].tolist())
        self.log += (_BEGINS if begins else _GOES_ON)[action]
        if buffer[_PHASE] != PLAYING:
            self.player = TERMINAL
        elif buffer[_STOCK_NEXT] != dealt:
            # The kernel has dealt whatever came next in the stock: chance has not drawn it yet.
            record = self.record
            record["hands"] = 0
            record["hand_counts"] = 0
            record["legal"] = 0
            buffer[_STOCK_NEXT] = dealt
            self.player = CHANCE
        else:
            self.player = buffer[_TURN]
