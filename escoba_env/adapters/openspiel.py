"""``python_escoba``: Escoba as a registered OpenSpiel game, on this package's kernels.

    import pyspiel
    from escoba_env.adapters import openspiel

    game = pyspiel.load_game("python_escoba(players=2,rules=classic)")
    game = pyspiel.load_game(openspiel.game_string("argentine", players=4, partnership=True))

A game is a round. Returns are margins, own side's points less the mean of the other sides', so all
seats' returns sum to zero; the seats of a partnership return the same.

Chance deals card by card: the first table, then each seat's hand from the eldest on, and later
hands when all are empty. The cards of one hand (and the first table) come in ascending order, with
the probabilities that make every set of cards equally likely: an order that nobody could see would
only multiply the histories. Nobody observes a deal before it is complete. ``dealer=last`` (default)
has the last seat deal, so that player 0 begins; ``dealer=random`` draws the dealer by chance first.
With the rule ``initial_table=redeal`` the deals that would be taken back have probability zero.

Information states have perfect recall, the order of picks within a turn included, which a view
(``Game.view``) forgets; tensors are those of the encoding ``history`` with that order beside it.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.adapters import require
from escoba_env.batch import IllegalActionError, Records, Views, explain_illegal
from escoba_env.cards import LAY, NUM_ACTIONS, NUM_CARDS, NUM_IDS, card_name, cards_in, names_of
from escoba_env.checks import one_of, whole
from escoba_env.encoding import Encoding
from escoba_env.engine import batch as kernels
from escoba_env.engine.bits import VALUES
from escoba_env.engine.outlook import WORK
from escoba_env.engine.record import (
    FROM_START,
    HIDDEN,
    NOBODY,
    NOT_YET,
    PLAYING,
    STATE,
    lower,
)
from escoba_env.engine.score import MARGIN
from escoba_env.notation import action_name
from escoba_env.rules import PRESETS, Rules, RulesError, make_rules

pyspiel: Any = require("pyspiel", "openspiel", at_least="2.0")

SMALL_PACKS: dict[str, dict[str, Any]] = {
    "pack8": {
        "ranks": (1, 2, 3, 4),
        "suits": ("oros", "copas"),
        "hand_size": 2,
        "table_size": 2,
        "target_sum": 5,
    },
    "pack6": {
        "ranks": (1, 2, 3),
        "suits": ("oros", "copas"),
        "hand_size": 2,
        "table_size": 1,
        "target_sum": 4,
    },
}
"""Rules for two players whose whole game tree can be walked, by a name that ``rules=`` takes.

``pack6``: six cards, two in each hand, one on the table and one that is never dealt: 3,391 nodes,
1,560 information states, 360 of them with a choice.
``pack8``: eight cards, two of them never dealt: 58,392 nodes, 23,700 information states.
"""

DEALERS = ("last", "random")
_LISTS = ("ranks", "suits")
_PRIVATE = ("hand", "unseen")
"""Sections of encodings that depend on the hand of the seat that observes."""

_CHANCE: Any = pyspiel.PlayerId.CHANCE
_TERMINAL: Any = pyspiel.PlayerId.TERMINAL
_NAMES = tuple(action_name(action) for action in range(NUM_ACTIONS))
_BEGINS = tuple(f" {name}" for name in _NAMES)
_GOES_ON = tuple(f":{name}" for name in _NAMES)

# Where the kernels' record has what is read after every action: a byte costs a tenth of a field.
_LEGAL, _PLAYED, _PLACING, _PHASE, _STOCK, _STOCK_NEXT, _TURN, _DEALER = (
    int(STATE.fields[name][1])  # type: ignore[index]
    for name in (*("legal", "played", "placing", "phase", "stock", "stock_next", "turn", "dealer"),)
)
_NOBODY = NOBODY & 0xFF


# -- parameters -----------------------------------------------------------------------------


def rules_text(rules: Rules) -> str:
    """Writes rules, but for players and partnership, as the parameter ``rules`` has them.

    It is ``NAME;field:value;field:value``: a preset's name or one of ``SMALL_PACKS``, and the
    fields that differ from it; the members of a list stand apart by spaces.
    """
    parts = ["classic"]
    for name, value in rules.changes().items():
        if name not in ("players", "partnership"):
            text = " ".join(map(str, value)) if name in _LISTS else str(value).lower()
            parts.append(f"{name}:{text}")
    return ";".join(parts)


def parse_rules(text: str, players: int = 2, partnership: bool = False) -> Rules:
    """Reads rules as :func:`rules_text` writes them.

    Raises:
        RulesError: If the name or a field is unknown, a part is not ``field:value``, or the result
            cannot be played.
    """
    name, *parts = text.split(";")
    if name not in PRESETS and name not in SMALL_PACKS:
        allowed = ", ".join([*PRESETS, *SMALL_PACKS])
        raise RulesError(f"rules {name!r} are unknown; allowed: {allowed}")
    fields: dict[str, Any] = dict(PRESETS.get(name, SMALL_PACKS.get(name, {})))
    for part in parts:
        field, colon, value = part.partition(":")
        if not colon or field in ("players", "partnership"):
            raise RulesError(
                f"part {part!r} of rules {text!r} is not possible; allowed: field:value; players "
                f"and partnership are parameters of their own"
            )
        fields[field] = tuple(map(_value, value.split())) if field in _LISTS else _value(value)
    return make_rules(fields, players=players, partnership=partnership)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": "none"}
    return words[text] if text in words else int(text) if text.isdecimal() else text


def game_string(rules: Any = "classic", *, dealer: str = "last", **fields: Any) -> str:
    """Writes the string that ``pyspiel.load_game`` takes.

    Args:
        rules: A preset's name, one of ``SMALL_PACKS``, a ``Rules`` or a mapping of fields.
        dealer: ``"last"`` or ``"random"``.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If the rules or the dealer are not possible.
    """
    if isinstance(rules, str) and rules in SMALL_PACKS:
        rules = SMALL_PACKS[rules]
    made = make_rules(rules, **fields)
    one_of("dealer", dealer, DEALERS)
    return (
        f"python_escoba(dealer={dealer},partnership={made.partnership},players={made.players},"
        f"rules={rules_text(made)})"
    )


class _Table:
    """What all states of one game share; a copy or pickle of it is the same one."""

    def __init__(self, text: str, players: int, partnership: bool, dealer: str) -> None:
        self.arguments = (text, players, partnership, dealer)
        self.rules = rules = parse_rules(text, players, partnership)
        self.random_dealer = one_of("dealer", dealer, DEALERS) == "random"
        self.spec = lower(rules)
        self.compact = Encoding("compact", rules)
        self.history = Encoding("history", rules)
        self.deal_size = rules.players * rules.hand_size
        self.redeals = rules.initial_table == "redeal"
        dealers = [NOBODY, *range(rules.players)]
        self.undealt = {dealer: self._undealt(dealer) for dealer in dealers}
        first = NOBODY if self.random_dealer else rules.players - 1
        self.start = _Round.start(self, self.undealt[first])

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

    def __deepcopy__(self, memo: dict[int, Any]) -> _Table:
        return self

    def __reduce__(self) -> Any:
        return _table, self.arguments


@functools.lru_cache(maxsize=64)
def _table(text: str, players: int, partnership: bool, dealer: str) -> _Table:
    return _Table(text, players, partnership, dealer)


@functools.lru_cache(maxsize=1 << 14)
def _actions(legal: int) -> tuple[int, ...]:
    return tuple(cards_in(legal))


# -- chance ---------------------------------------------------------------------------------


@functools.cache
def _lowest_of(cards: int, number: int) -> tuple[float, ...]:
    """Probabilities that each of ``cards`` cards is the lowest of ``number`` drawn from them."""
    ways = math.comb(cards, number)
    return tuple(math.comb(cards - 1 - i, number - 1) / ways for i in range(cards - number + 1))


@functools.cache
def _sums(cards: int, number: int, total: int) -> int:
    """In how many ways ``number`` of a card set make a total; jokers are in none of them."""
    if number == 0 or cards == 0 or total < 0:
        return int(number == 0 and total == 0)
    card = cards.bit_length() - 1
    rest = cards ^ 1 << card
    with_it = 0 if card >= NUM_CARDS else _sums(rest, number - 1, total - int(VALUES[card]))
    return _sums(rest, number, total) + with_it


def _tables_kept(
    cards: tuple[int, ...], number: int, laid: tuple[int, ...], target: int
) -> list[float]:
    """``_lowest_of`` for first tables, of which those that make the target are dealt again.

    Args:
        cards: What can be laid yet, ascending.
        number: How many are to be laid.
        laid: What has been laid.
        target: The total that no first table has in the end, unless a joker is in it.
    """
    ways = []
    for i in range(len(cards) - number + 1):
        later = cards[i + 1 :]
        kept = math.comb(len(later), number - 1)
        table = (*laid, cards[i])
        if max(table) < NUM_CARDS:
            need = target - sum(int(VALUES[card]) for card in table)
            kept -= _sums(sum(1 << card for card in later), number - 1, need)
        ways.append(kept)
    return [way / sum(ways) for way in ways]


# -- rounds ---------------------------------------------------------------------------------


class _Round:
    """The Python side of a state, in one piece: OpenSpiel copies and pickles what a state has.

    While chance deals, the record is the round as it was seen before: hands empty, nobody to move.
    """

    __slots__ = (
        *("buffer", "states", "table", "player", "undealt", "lowest", "missing", "drawn"),
        *("dealt", "hands", "log", "order", "returns", "paid", "rewards"),
    )

    buffer: bytearray
    """The game record's bytes."""
    states: Records
    """The game record, an array (1,) over ``buffer``."""
    table: _Table
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

    @classmethod
    def start(cls, table: _Table, record: bytes) -> _Round:
        """Before the first card; states share it until chance draws."""
        rules = table.rules
        cards = tuple(cards_in(rules.pack))
        missing = rules.table_size or rules.hand_size
        hands = ("",) * rules.players
        order = bytes(NUM_IDS)
        returns = (0.0,) * rules.players
        rest = (cards, 0, missing, (), (), hands, "", order, returns)
        return cls._load(table, record, _CHANCE, *rest)

    @classmethod
    def _load(cls, table: _Table, record: bytes | bytearray, player: Any, *rest: Any) -> _Round:
        self = cls.__new__(cls)
        self.table = table
        self.buffer = bytearray(record)
        self.states = np.frombuffer(self.buffer, STATE)
        self.paid = np.zeros(4, np.int64)
        self.rewards = np.empty((1, table.rules.players))
        self.player = player if player >= 0 else _TERMINAL if player == _TERMINAL else _CHANCE
        self.undealt, self.lowest, self.missing, self.drawn = rest[:4]
        self.dealt, self.hands, self.log, self.order, self.returns = rest[4:]
        return self

    def _rest(self) -> tuple[Any, ...]:
        return (
            *(self.undealt, self.lowest, self.missing, self.drawn),
            *(self.dealt, self.hands, self.log, self.order, self.returns),
        )

    def copy(self) -> _Round:
        """Returns an independent copy."""
        return self._load(self.table, self.buffer, self.player, *self._rest())

    def __deepcopy__(self, memo: dict[int, Any]) -> _Round:
        return self if self is self.table.start else self.copy()

    def __reduce__(self) -> Any:
        arguments = (self.table, bytes(self.buffer), int(self.player), *self._rest())
        return _Round._load, arguments

    @property
    def record(self) -> np.void:
        record: np.void = self.states[0]
        return record

    @property
    def legal(self) -> int:
        """Legal actions of the seat to move, as a set."""
        return int.from_bytes(self.buffer[_LEGAL : _LEGAL + 8], sys.byteorder)

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
            chances = _tables_kept(cards, self.missing, self.drawn, target)
            return [pair for pair in zip(cards, chances, strict=False) if pair[1]]
        return list(zip(cards, _lowest_of(len(cards), self.missing), strict=False))

    def draw(self, action: int) -> None:
        """Takes an outcome of chance."""
        undealt = self.undealt
        last = len(undealt) - self.missing
        if self.asks_dealer or self.table.redeals:
            allowed = [outcome for outcome, _ in self.outcomes()]
        else:
            allowed = undealt[self.lowest : last + 1]  # type: ignore[assignment]
        if action not in allowed:
            raise IllegalActionError(f"chance cannot draw {action!r}; allowed: {list(allowed)}")
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
        hands = [0] * rules.players
        for i, card in enumerate(cards):
            seat = (buffer[_DEALER] + 1 + i // rules.hand_size) % rules.players
            hands[seat] |= 1 << card
        if self.dealt:
            record = self.record
            record["hands"][: rules.players] = hands
            record["hand_counts"][: rules.players] = rules.hand_size
            buffer[_STOCK_NEXT] = start + len(cards)
            kernels.set_legal(self.table.spec, self.states)
        else:
            kernels.deal_from_stock(self.table.spec, self.states, 0)
            first_table = " ".join([_NAMES[card] for card in self.drawn[:first]])
            self.log += f"table {first_table or '-'}, turns"
        self.dealt += (tuple(hands),)
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
        kernels.step_game(
            self.table.spec, self.states, action, MARGIN, False, self.paid, self.rewards
        )
        self.log += (_BEGINS if begins else _GOES_ON)[action]
        if buffer[_PHASE] != PLAYING:
            self.player = _TERMINAL
            self.returns = tuple(self.rewards[0].tolist())
        elif buffer[_STOCK_NEXT] != dealt:
            # The kernel has dealt whatever came next in the stock: chance has not drawn it yet.
            record = self.record
            record["hands"] = 0
            record["hand_counts"] = 0
            record["legal"] = 0
            buffer[_STOCK_NEXT] = dealt
            self.player = _CHANCE
        else:
            self.player = buffer[_TURN]


# -- the game -------------------------------------------------------------------------------

_GAME_TYPE = pyspiel.GameType(
    short_name="python_escoba",
    long_name="Escoba",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
    information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.ZERO_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=4,
    min_num_players=2,
    provides_information_state_string=True,
    provides_information_state_tensor=True,
    provides_observation_string=True,
    provides_observation_tensor=True,
    provides_factored_observation_string=True,
    parameter_specification={
        "players": 2,
        "partnership": False,
        "rules": "classic",
        "dealer": "last",
    },
)


class EscobaGame(pyspiel.Game):
    """Escoba as an OpenSpiel game; ``pyspiel.load_game`` makes it.

    Args:
        params: ``players``, ``partnership``, ``rules`` (text, see :func:`rules_text`) and
            ``dealer``; those that are missing are as in ``python_escoba``.

    Attributes:
        rules: Rules of the table.

    Raises:
        ValueError: If a parameter is unknown or not possible.
    """

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        given = dict(_GAME_TYPE.parameter_specification) | (params or {})
        unknown = set(given) - set(_GAME_TYPE.parameter_specification)
        if unknown:
            allowed = ", ".join(_GAME_TYPE.parameter_specification)
            raise ValueError(f"parameter {min(unknown)!r} is unknown; allowed: {allowed}")
        names = ("rules", "players", "partnership", "dealer")
        self.table = _table(*(given[name] for name in names))
        self.rules = rules = self.table.rules
        most = float(_most_points(rules))
        drawn = rules.table_size + rules.deals * self.table.deal_size + self.table.random_dealer
        self._chance_nodes = drawn
        super().__init__(
            _GAME_TYPE,
            pyspiel.GameInfo(
                num_distinct_actions=NUM_ACTIONS,
                max_chance_outcomes=NUM_IDS,
                num_players=rules.players,
                min_utility=-most,
                max_utility=most,
                utility_sum=0.0,
                # A card is played once, laid or set once at most, and picked once at most.
                max_game_length=2 * rules.turns + rules.pack_size,
            ),
            params or {},
        )

    def new_initial_state(self) -> EscobaState:
        """Returns the state before anything is dealt."""
        return EscobaState(self)

    def max_chance_nodes_in_history(self) -> int:
        """Returns how many chance nodes a history has, at most."""
        return int(self._chance_nodes)

    def make_py_observer(
        self, iig_obs_type: Any = None, params: dict[str, Any] | None = None
    ) -> EscobaObserver:
        """Returns an observer; see :class:`EscobaObserver`."""
        if iig_obs_type is None:
            iig_obs_type = pyspiel.IIGObservationType(perfect_recall=False)
        return EscobaObserver(self.table, iig_obs_type, params)


def _most_points(rules: Rules) -> int:
    """No side can have more points in a round; every turn of a side may be an escoba."""
    escobas = -(-rules.turns // rules.num_sides) + 2
    points = rules.most_cards + rules.all_oros + rules.all_sevens + rules.seven_of_oros
    return points + rules.setenta + rules.napola * 10 + rules.escoba * escobas


class EscobaState(pyspiel.State):
    """A state of :class:`EscobaGame`."""

    def __init__(self, game: EscobaGame) -> None:
        super().__init__(game)
        self._round = game.table.start

    # OpenSpiel's names.

    def current_player(self) -> Any:
        """Returns the seat to move, or the id of chance or of the end."""
        return self._round.player

    def is_terminal(self) -> bool:
        """Whether the round is over."""
        return self._round.player is _TERMINAL

    def returns(self) -> list[float]:
        """Returns every seat's margin; zeros before the end."""
        return list(self._round.returns)

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Returns what chance may draw, with probabilities.

        Raises:
            ValueError: If chance is not to move.
        """
        if self._round.player is not _CHANCE:
            raise ValueError("chance has no outcomes here: it is not to move")
        return self._round.outcomes()

    def _legal_actions(self, player: int) -> tuple[int, ...]:
        one = self._round
        return _actions(one.legal) if player == one.player else ()

    def _apply_action(self, action: int) -> None:
        player = self._round.player
        if player is _CHANCE:
            if self._round is self._round.table.start:
                self._round = self._round.copy()
            self._round.draw(action)
        elif player is _TERMINAL:
            raise IllegalActionError(f"action {action!r} is not possible: the game is over")
        else:
            self._round.pick(action)

    def _action_to_string(self, player: int, action: int) -> str:
        if player != _CHANCE:
            return _NAMES[whole("action", action, 0, NUM_ACTIONS - 1)]
        if self._round.asks_dealer:
            return f"dealer {action}"
        return f"deal {card_name(action)}"

    def __str__(self) -> str:
        """Everything, hidden cards too."""
        one = self._round
        seats = range(one.table.rules.players)
        hands = ", ".join(f"hands {seat}:{one.hands[seat]}" for seat in seats)
        drawn = " ".join(_NAMES[card] for card in one.drawn)
        return f"{one.log}\n{hands}" + (f"\ndrawn: {drawn}" if drawn else "")

    @property
    def record(self) -> np.void:
        """The game record, dtype ``STATE``, hidden cards too; read it, never write it."""
        return self._round.record

    # -- what a seat knows ------------------------------------------------------------------

    def view(self, player: int, key: int = 0) -> Views:
        """Returns what a seat knows, as this package's policies are given it.

        Args:
            player: The seat.
            key: The key from which a policy draws; see ``Views.keys``.

        Raises:
            ValueError: If there is no such seat.
        """
        seat = whole("player", player, 0, self._round.table.rules.players - 1)
        return self._round.view(seat, key)

    def resample_from_infostate(self, player_id: int, probability_sampler: Any) -> EscobaState:
        """Returns a state that a seat cannot tell from this one.

        Cards that it does not know are drawn anew, every deal that explains what it has seen being
        equally likely; all that it knows, the order of picks included, is as it was.

        Args:
            player_id: The seat.
            probability_sampler: Called for numbers in [0, 1).

        Raises:
            ValueError: If there is no such seat.
        """
        view = self.view(player_id)
        picks = [move.action for move in self.full_history() if move.player >= 0]
        dealing = len(self._round.drawn)
        game = self.get_game()
        while True:
            left = iter(picks)
            try:
                state = rebuilt(
                    game, view.records[0], probability_sampler, lambda _, a=left: next(a, None)
                )
            except IllegalActionError:
                # With these hands somebody had to play another card.
                continue
            while len(state._round.drawn) < dealing:
                state.apply_action(_drawn(state.chance_outcomes(), probability_sampler()))
            return state


def _drawn(outcomes: list[tuple[int, float]], point: float) -> int:
    for outcome, chance in outcomes:
        point -= chance
        if point < 0:
            return outcome
    return outcomes[-1][0]


def rebuilt(
    game: EscobaGame,
    seen: Any,
    sample: Callable[[], float],
    choose: Callable[[EscobaState], int | None],
) -> EscobaState:
    """Plays a round again from what one seat has seen, with hidden cards drawn at random.

    Args:
        game: The game; with ``dealer=last`` seats are turned so that the last one deals.
        seen: The view's record.
        sample: Called for numbers in [0, 1).
        choose: Given the state, returns the next action, or ``None`` where the view ends.

    Raises:
        IllegalActionError: If an action was not possible with the cards that were drawn.
    """
    rules = game.rules
    state = game.new_initial_state()
    if seen["turn"] == NOBODY:
        # Nothing has been seen but, perhaps, who deals.
        if game.table.random_dealer and seen["dealer"] != NOBODY:
            state.apply_action(int(seen["dealer"]))
        return state
    cards = [int(seen["dealer"])] if game.table.random_dealer else []
    cards += [card for card in range(NUM_IDS) if seen["played_at"][card] == FROM_START]
    for hands in _hands_dealt(game.table, seen, sample):
        for i in range(rules.players):
            cards += cards_in(hands[(int(seen["dealer"]) + 1 + i) % rules.players])
    feed = iter(cards)
    while not state.is_terminal():
        chance = state._round.player is _CHANCE
        action = next(feed, None) if chance else choose(state)
        if action is None:
            break
        state.apply_action(action)
    return state


def _hands_dealt(table: _Table, seen: Any, sample: Callable[[], float]) -> list[list[int]]:
    """Card set of every seat's hand in each deal; what is not known is drawn."""
    rules = table.rules
    dealer, turns, viewer = (int(seen[name]) for name in ("dealer", "turn_index", "viewer"))
    played = {int(at): card for card, at in enumerate(seen["played_at"]) if at >= 0}
    deals: list[list[int]] = []
    for turn in range(turns + (seen["played"] != NOBODY)):
        deal, seat = turn // table.deal_size, (dealer + 1 + turn) % rules.players
        if turn % table.deal_size == 0:
            deals.append([0] * rules.players)
        deals[deal][seat] |= 1 << played[turn]
    counts = seen["hand_counts"][: rules.players].tolist()
    if not any(counts):
        return deals
    if len(deals) * table.deal_size <= turns:
        deals.append([0] * rules.players)
    hands = seen["hands"][: rules.players].tolist()
    known = int(seen["table"]) | int(seen["set_aside"]) | int(np.bitwise_or.reduce(seen["piles"]))
    known |= functools.reduce(int.__or__, hands)
    known |= 0 if seen["played"] == NOBODY else 1 << int(seen["played"])
    pool = list(cards_in(rules.pack & ~known))
    for seat, count in enumerate(counts):
        hand = hands[seat]
        for _ in range(0 if seat == viewer or rules.open_hands else count):
            hand |= 1 << pool.pop(int(sample() * len(pool)))
        deals[-1][seat] |= hand
    return deals


# -- observations ---------------------------------------------------------------------------


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

    def __init__(self, table: _Table, iig_obs_type: Any, params: dict[str, Any] | None) -> None:
        if params:
            raise ValueError(f"observation parameters {params!r} are not possible; allowed: none")
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
        one, rules = state._round, self._table.rules
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
        one, rules = state._round, self._table.rules
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

    def _encode(self, one: _Round, seat: int) -> None:
        kernels.observe_game(
            self._table.spec,
            one.states,
            seat,
            self._encoding.plan,
            self._row,
            self._mask,
            self._work,
        )


pyspiel.register_game(_GAME_TYPE, EscobaGame)
