"""``Game``: one game of Escoba, for people, search, environments and tests.

A checked surface over one game record; it knows no rule, and asks the kernels instead.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import (
    MAX_SEED,
    IllegalActionError,
    Records,
    Views,
    check_seed,
    explain_illegal,
    pays_as_earned,
    reward_kind,
)
from escoba_env.cards import NUM_ACTIONS, card_set, cards_in, parse_cards
from escoba_env.checks import integer, quoted, real, whole, wholes
from escoba_env.engine import batch as kernels
from escoba_env.engine.play import RANDOM_DEALER
from escoba_env.engine.record import (
    FROM_START,
    GAME_OVER,
    HIDDEN,
    NOBODY,
    NOT_YET,
    PLAYING,
    ROUND_OVER,
    STATE,
    TWELFTHS,
    copy_records,
    lower,
)
from escoba_env.notation import Move
from escoba_env.position import (
    MAX_COUNT,
    check_position,
    format_position,
    logged_move,
    parse_piles,
    parse_position,
    set_piles,
    table_piles,
)
from escoba_env.records import check_records
from escoba_env.render import ansi
from escoba_env.report import RoundReport, round_report
from escoba_env.rules import Rules, make_rules

Cards = str | Iterable[str]
"""Cards in notation: ``"7o Re"`` or ``["7o", "Re"]``."""


class Game:
    """One game: a round, or a match.

    Args:
        rules: A preset's name, a ``Rules`` or a mapping of fields.
        episode: ``"round"`` (one round is the game) or ``"match"``.
        reward: What :attr:`returns` adds up: ``"margin"``, ``"points"`` or ``"win"``.
        reward_timing: ``"round_end"`` or ``"as_earned"``, as for ``Batch``.
        seed: Seed of the random stream; default: from the operating system.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If an argument is not possible, by name.
    """

    def __init__(
        self,
        rules: Any = "classic",
        *,
        episode: str = "round",
        reward: str = "margin",
        reward_timing: str = "round_end",
        seed: int | None = None,
        **fields: Any,
    ) -> None:
        self.rules = make_rules(rules, **fields)
        self.episode = episode
        self.reward = reward
        self.spec = lower(self.rules, episode)
        self._kind = reward_kind(reward)
        self._as_earned = pays_as_earned(reward_timing, reward)
        self._paid = np.zeros(4, np.int64)
        self._state: Records = np.zeros(1, STATE)
        self._rewards = np.zeros((1, self.rules.players), np.float64)
        self._returns = np.zeros(self.rules.players, np.float64)
        self._slot = np.zeros(1, np.int64)
        self._report: RoundReport | None = None
        self.reset(seed if seed is not None else fresh_seed())

    # -- starting ---------------------------------------------------------------------------

    def reset(
        self,
        seed: int | None = None,
        *,
        index: int | None = None,
        deck: Cards | None = None,
        dealer: int | None = None,
        scores: Sequence[float] | None = None,
    ) -> None:
        """Starts a new game.

        Args:
            seed: Seed of the random stream; default: the present one.
            index: Which game of the seed; default: the first of a seed that is given, else the
                next one.
            deck: The whole pack in the order in which the first round is dealt: ``hand_size``
                cards to the eldest hand, then to each seat after it, then the table, and so on.
            dealer: Seat that deals first; default: drawn from the stream.
            scores: Match score of each side to start from, in whole points or twelfths of one.

        Raises:
            ValueError: If an argument is not possible; the game is then as it was.
        """
        # Everything is checked before anything changes.
        next_seed = self.seed if seed is None else check_seed(seed)
        if index is None:
            index = int(self._state["game_index"][0]) + 1 if seed is None else 0
            if index > MAX_SEED:
                raise ValueError(f"game {index - 1} is the last one of its seed; give another seed")
        index = whole("index", index, 0, MAX_SEED)
        order = None if deck is None else self._check_deck(deck)
        first = RANDOM_DEALER if dealer is None else self._check_seat("dealer", dealer)
        points = None if scores is None else self._check_scores(scores)
        kernels.start_games(
            self.spec, self._state, self._slot, next_seed, np.array([index]), np.array([first])
        )
        if order is not None:
            self._state["stock"][0, : len(order)] = order
            kernels.deal_from_stock(self.spec, self._state, 0)
        if points is not None:
            self._state["scores"][0, : len(points)] = points
        self._returns[:] = 0
        self._rewards[:] = 0
        self._report = None

    def deal(self, deck: Cards) -> None:
        """Deals the present round anew, from a pack in a given order.

        Args:
            deck: As for :meth:`reset`.

        Raises:
            ValueError: If the round has begun, or the deck is not possible; the game is then as
                it was.
        """
        order = self._check_deck(deck)
        if self._state["turn_index"][0] or self._state["played"][0] != NOBODY or self.is_over:
            raise ValueError("the round has begun; allowed: a new deal before its first card")
        self._state["stock"][0, : len(order)] = order
        kernels.deal_from_stock(self.spec, self._state, 0)

    @classmethod
    def from_position(
        cls,
        rules: Any = "classic",
        *,
        hands: Sequence[Cards],
        table: Cards = (),
        piles: Sequence[Cards] | None = None,
        stock: Cards | None = None,
        turn: int = 0,
        dealer: int | None = None,
        last_capturer: int | None = None,
        escobas: Sequence[int] | None = None,
        scores: Sequence[float] | None = None,
        episode: str = "round",
        reward: str = "margin",
        reward_timing: str = "round_end",
        seed: int = 0,
        **fields: Any,
    ) -> Game:
        """Starts from a position at the beginning of a turn.

        Args:
            rules: As for ``Game``.
            hands: Cards in the hand of each seat.
            table: Cards on the table; with building, the cards of a pile joined by ``+``.
            piles: Cards captured by each seat; default: none.
            stock: Undealt cards, the next one first; default: every card that is nowhere else, in
                an order drawn from ``seed``.
            turn: Seat to move.
            dealer: Seat that deals; default: the seat before ``turn``.
            last_capturer: Seat that captured last; default: nobody.
            escobas: Escobas of each seat that score; default: none.
            scores: Match score of each side before this round; default: none.
            episode: As for ``Game``.
            reward: As for ``Game``.
            reward_timing: As for ``Game``.
            seed: Seed of the stock's order and of later rounds.
            **fields: As for ``Game``.

        Raises:
            ValueError: If the position is not possible: a card twice, missing or not in the pack,
                hands that do not fit the turn, a number out of range.
        """
        seed = check_seed(seed)
        game = cls(
            rules,
            episode=episode,
            reward=reward,
            reward_timing=reward_timing,
            seed=seed,
            **fields,
        )
        seats = game.rules.players
        record = np.zeros(1, STATE)
        record["stock"] = HIDDEN
        record["played_at"] = NOT_YET
        record["taken_at"] = NOT_YET
        for name, cards in (("hands", hands), ("piles", [()] * seats if piles is None else piles)):
            if not isinstance(cards, list | tuple):
                raise ValueError(f"{name}={quoted(cards)}; allowed: a list of each seat's cards")
            if len(cards) != seats:
                raise ValueError(f"{name} has {len(cards)} parts; allowed: one a seat, {seats}")
            record[name][0, :seats] = [card_set(_parse(name, part)) for part in cards]
        record["hand_counts"][0, :seats] = [int(h).bit_count() for h in record["hands"][0, :seats]]
        groups = parse_piles(table)
        record["table"] = card_set(card for group in groups for card in cards_in(group))
        for card in cards_in(record["table"][0]):
            record["played_at"][0, card] = FROM_START
        set_piles(game.rules, record[0], groups)
        if stock is None:
            placed = int(np.bitwise_or.reduce(record["hands"][0] | record["piles"][0]))
            placed |= int(record["table"][0])
            order = [c for c in game._stock() if not placed >> c & 1]
        else:
            order = _parse("stock", stock)
        size = game.rules.pack_size
        if len(order) > size:
            raise ValueError(f"stock has {len(order)} cards; the pack has {size}")
        record["stock"][0, size - len(order) : size] = order
        record["stock_size"] = size
        record["stock_next"] = size - len(order)
        turn = game._check_seat("turn", turn)
        record["turn"] = turn
        dealt_by = (turn - 1) % seats if dealer is None else game._check_seat("dealer", dealer)
        record["dealer"] = dealt_by
        record["last_capturer"] = NOBODY
        if last_capturer is not None:
            record["last_capturer"] = game._check_seat("last_capturer", last_capturer)
        if escobas is not None:
            record["escobas"][0, :seats] = wholes("escobas", escobas, (seats,), 0, 40)
        if scores is not None:
            points = game._check_scores(scores)
            record["scores"][0, : len(points)] = points
        record["played"] = NOBODY
        record["viewer"] = NOBODY
        record["seed"] = seed
        kernels.set_legal(game.spec, record)
        check_position(game.rules, record[0], episode)
        game._state = record
        return game

    @classmethod
    def from_text(cls, text: str) -> Game:
        """Reads a game as :meth:`to_text` writes it.

        Raises:
            ValueError: If the text is not a position of a whole game.
        """
        given: object = text
        if not isinstance(given, str):
            raise ValueError(f"position {quoted(given)} is no text; allowed: that of to_text")
        rules, episode, record = parse_position(text)
        if record["viewer"][0] != NOBODY:
            raise ValueError("the text is the view of one seat, not a whole game")
        game = cls(rules, episode=episode, seed=0)
        game._state = record
        return game

    # -- looking ----------------------------------------------------------------------------

    @property
    def record(self) -> np.void:
        """The game record, dtype ``STATE``; read it, never write it."""
        record: np.void = self._state[0]
        return record

    @property
    def states(self) -> Records:
        """The game record as an array (1,), as kernels take it; read it, never write it."""
        return self._state

    @property
    def seed(self) -> int:
        """Seed of the random stream."""
        return int(self._state["seed"][0])

    @property
    def turn(self) -> int:
        """Seat to move."""
        return int(self._state["turn"][0])

    @property
    def dealer(self) -> int:
        """Seat that dealt this round."""
        return int(self._state["dealer"][0])

    @property
    def is_over(self) -> bool:
        """Whether the game is over."""
        return bool(self._state["phase"][0] == GAME_OVER)

    @property
    def scores(self) -> list[float]:
        """Match score of each side, in points, rounds that are not finished left out."""
        return [int(x) / TWELFTHS for x in self._state["scores"][0, : self.rules.num_sides]]

    @property
    def round_points(self) -> list[float]:
        """Points of each side in the round that finished last."""
        return [int(x) / TWELFTHS for x in self._state["round_points"][0, : self.rules.num_sides]]

    @property
    def report(self) -> RoundReport | None:
        """Who won what in the round that finished last; none before one has."""
        if self.is_over and self._report is None:
            self._report = round_report(self.rules, self.spec, self._state)
        return self._report

    @property
    def rewards(self) -> list[float]:
        """What each seat earned with the last step."""
        rewards: list[float] = self._rewards[0].tolist()
        return rewards

    @property
    def returns(self) -> list[float]:
        """What each seat has earned since the start of the game."""
        returns: list[float] = self._returns.tolist()
        return returns

    def hand(self, seat: int) -> list[int]:
        """Cards in a seat's hand."""
        return list(cards_in(self._state["hands"][0, self._check_seat("seat", seat)]))

    def pile(self, seat: int) -> list[int]:
        """Cards captured by a seat this round."""
        return list(cards_in(self._state["piles"][0, self._check_seat("seat", seat)]))

    @property
    def table(self) -> list[int]:
        """Cards on the table."""
        return list(cards_in(self._state["table"][0]))

    @property
    def table_piles(self) -> list[list[int]]:
        """The table pile by pile; without building every pile is one card."""
        return [list(cards_in(pile)) for pile in table_piles(self._state[0])]

    def legal_actions(self) -> list[int]:
        """Legal actions of the seat to move, ascending; empty when the game is over."""
        return list(cards_in(self._state["legal"][0]))

    def legal_mask(self) -> NDArray[np.int8]:
        """Legal actions of the seat to move as zeros and ones, int8 (43,)."""
        mask = np.zeros(NUM_ACTIONS, np.int8)
        mask[self.legal_actions()] = 1
        return mask

    def legal_moves(self) -> list[Move]:
        """Every whole turn that the picks so far leave open, in order.

        The list is as long as the position demands: every capture is in it.
        """
        return sorted(self._completions())

    def view(self, seat: int) -> Views:
        """Returns what a seat knows, as one view."""
        seats = np.array([self._check_seat("seat", seat)], np.int64)
        records = np.empty(1, STATE)
        keys = np.empty(1, np.int64)
        kernels.view_games(self.spec, self._state, self._slot, seats, records, keys)
        return Views(self.rules, self.episode, self.spec, records, keys)

    def to_text(self) -> str:
        """Writes the game as one line that :meth:`from_text` reads back."""
        return format_position(self.rules, self.episode, self._state[0])

    def __str__(self) -> str:
        """The table as a person reads it, every hand face up; :meth:`to_text` is complete."""
        return ansi.draw(self.rules, self.episode, self.record)

    def __repr__(self) -> str:
        return f"<Game {ansi.summary(self.rules, self.episode, self.record)}>"

    # -- playing ----------------------------------------------------------------------------

    def step(self, action: int) -> None:
        """Takes one action for the seat to move.

        At the end of a round of a match the next round is dealt.

        Args:
            action: Action id; any integer type.

        Raises:
            IllegalActionError: If the action is illegal or the game is over; the game is then as
                it was. The message says why, and what is legal.
        """
        if not self._is_legal(action):
            raise IllegalActionError(explain_illegal(self._state[0], action))
        phase = kernels.step_game(
            self.spec,
            self._state,
            operator.index(action),
            self._kind,
            self._as_earned,
            self._paid,
            self._rewards,
        )
        self._returns += self._rewards[0]
        if phase != PLAYING:
            self._report = None
            if phase == ROUND_OVER:
                self._report = round_report(self.rules, self.spec, self._state)
                kernels.go_on(self.spec, self._state)

    def play(self, move: Move) -> None:
        """Plays a whole turn.

        Raises:
            IllegalActionError: If the move is illegal; the game is then as it was.
        """
        for action in self.picks_of(move):
            self.step(action)

    def picks_of(self, move: Move) -> list[int]:
        """Returns actions that play a move, shortest first.

        Raises:
            IllegalActionError: If the move is illegal.
        """
        completions = self._completions()
        for legal, picks in completions.items():
            if legal == move:
                return picks
        named = ", ".join(str(legal) for legal in sorted(completions)) or "none, the game is over"
        given: object = move
        text = str(given) if isinstance(given, Move) else quoted(given)
        raise IllegalActionError(f"move {text} is illegal; legal moves: {named}")

    def _is_legal(self, action: Any) -> bool:
        number = integer(action)
        if number is None:
            return False
        return 0 <= number < NUM_ACTIONS and bool(self._state["legal"].item() >> number & 1)

    def _completions(self) -> Mapping[Move, list[int]]:
        """Every whole turn still open, with picks that lead to it, found by trying all picks."""
        moves: dict[Move, list[int]] = {}
        seen: set[tuple[int, ...]] = set()
        start = copy_records(self._state)
        if start["phase"][0] != PLAYING:
            return moves
        at = int(start["turn_index"][0])
        frontier: list[tuple[Records, list[int]]] = [(start, [])]
        while frontier:
            state, picks = frontier.pop()
            for action in cards_in(state["legal"][0]):
                child = copy_records(state)
                kernels.apply_pick(self.spec, child, action)
                if child["turn_index"][0] != at:
                    move = _move_of(child[0], at)
                    if move not in moves or len(picks) + 1 < len(moves[move]):
                        moves[move] = [*picks, action]
                    continue
                key = tuple(int(child[name][0]) for name in ("played", "picked", "placing"))
                if key not in seen:
                    seen.add(key)
                    frontier.insert(0, (child, [*picks, action]))
        return moves

    # -- copies -----------------------------------------------------------------------------

    def clone(self) -> Game:
        """Returns an independent copy of the game as it is, mid-turn included."""
        other = object.__new__(Game)
        other.__dict__.update(self.__dict__)
        other._state = copy_records(self._state)
        other._rewards = self._rewards.copy()
        other._returns = self._returns.copy()
        other._paid = self._paid.copy()
        return other

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Game:
        return self.clone()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle that was changed, or is of another version, must not reach the kernels.
        check_records(state["rules"], state["_state"], views=False)
        self.__dict__.update(state)
        self.spec = lower(self.rules, self.episode)

    def get_state(self) -> bytes:
        """Returns the game record as bytes, for :meth:`set_state`."""
        return self._state.tobytes()

    def set_state(self, state: bytes) -> None:
        """Puts the game where :meth:`get_state` took its bytes, under the same rules.

        Rewards and returns begin anew.

        Raises:
            ValueError: If the bytes are not a possible game record under these rules.
        """
        given: object = state
        if not isinstance(given, bytes | bytearray) or len(given) != STATE.itemsize:
            raise ValueError(f"a game's state is {STATE.itemsize} bytes; got {quoted(given)}")
        record = np.frombuffer(bytes(given), STATE).copy()
        check_position(self.rules, record[0], self.episode)
        if record["viewer"][0] != NOBODY:
            raise ValueError("the state is the view of one seat, not a whole game")
        self._state = record
        self._rewards[:] = 0
        self._returns[:] = 0
        self._report = None

    # -- checks -----------------------------------------------------------------------------

    def _stock(self) -> list[int]:
        return [int(c) for c in self._state["stock"][0, : self.rules.pack_size]]

    def _check_seat(self, name: str, seat: Any) -> int:
        last = self.rules.players - 1
        return whole(name, seat, 0, last, f"seats 0 to {last}")

    def _check_deck(self, deck: Cards) -> list[int]:
        order = _parse("deck", deck)
        if card_set(order) != self.rules.pack:
            raise ValueError(
                f"deck has {len(order)} cards that are not the pack's {self.rules.pack_size}; "
                f"allowed: every card of the pack once, in the order in which they are dealt"
            )
        return order

    def _check_scores(self, scores: Sequence[float]) -> list[int]:
        sides = self.rules.num_sides
        try:
            # A set or a mapping has numbers too, but none that belongs to a side.
            given = scores if isinstance(scores, list | tuple | np.ndarray) else [None]
            twelfths = [round(real("score", x, 0, MAX_COUNT) * TWELFTHS, 6) for x in given]
            possible = all(x <= MAX_COUNT and x == int(x) for x in twelfths)
        except (TypeError, ValueError):
            twelfths, possible = [], False
        if not possible or len(twelfths) != sides:
            raise ValueError(
                f"scores={quoted(scores)}; allowed: whole twelfths of a point from 0, one score "
                f"for each of {sides} sides"
            )
        return [int(x) for x in twelfths]


def _parse(name: str, cards: Any) -> list[int]:
    try:
        return parse_cards(cards)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}={quoted(cards)}: {error}; allowed: cards in notation, 7o Re"
        ) from None


def fresh_seed() -> int:
    """Returns a seed from the operating system's entropy."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0]) & MAX_SEED


def _move_of(record: Any, turn_index: int) -> Move:
    """The move that was made in a turn, from the record's log."""
    move = logged_move(record, turn_index)
    assert move is not None
    return move


__all__ = ["Game", "IllegalActionError", "Move", "Rules"]
