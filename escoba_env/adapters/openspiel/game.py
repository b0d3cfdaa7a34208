"""``EscobaGame`` and ``EscobaState``: the game that is registered with OpenSpiel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from escoba_env.adapters.openspiel.observer import EscobaObserver
from escoba_env.adapters.openspiel.rounds import (
    CHANCE,
    NAMES,
    TERMINAL,
    Table,
    pyspiel,
    shared_table,
)
from escoba_env.batch import IllegalActionError, Views
from escoba_env.cards import NUM_ACTIONS, NUM_IDS, card_name, cards_in
from escoba_env.checks import quoted, whole
from escoba_env.engine.record import FROM_START, NOBODY
from escoba_env.rules import Rules


@functools.lru_cache(maxsize=1 << 14)
def _actions(legal: int) -> tuple[int, ...]:
    return tuple(cards_in(legal))


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
            raise ValueError(f"parameter {quoted(min(unknown))} is unknown; allowed: {allowed}")
        names = ("rules", "players", "partnership", "dealer")
        self.table = shared_table(*(given[name] for name in names))
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
        if isinstance(iig_obs_type, dict):
            # So ``make_observer(params)`` calls it.
            iig_obs_type, params = None, iig_obs_type
        if iig_obs_type is None:
            iig_obs_type = pyspiel.IIGObservationType(perfect_recall=False)
        return EscobaObserver(self.table, iig_obs_type, params)


def _most_points(rules: Rules) -> int:
    """No side can have more points in a round; every turn of a side may be an escoba."""
    escobas = -(-rules.turns // rules.num_sides) + 2
    points = rules.most_cards + rules.all_oros + rules.all_sevens + rules.seven_of_oros
    return points + rules.setenta + rules.napola * 10 + rules.escoba * escobas


class EscobaState(pyspiel.State):
    """A state of :class:`EscobaGame`.

    Attributes:
        round: The game record and what chance has drawn for it; hidden cards are in it.
    """

    def __init__(self, game: EscobaGame) -> None:
        super().__init__(game)
        self.round = game.table.start

    # OpenSpiel's names.

    def current_player(self) -> Any:
        """Returns the seat to move, or the id of chance or of the end."""
        return self.round.player

    def is_terminal(self) -> bool:
        """Whether the round is over."""
        return self.round.player is TERMINAL

    def returns(self) -> list[float]:
        """Returns every seat's margin; zeros before the end."""
        return list(self.round.returns)

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Returns what chance may draw, with probabilities.

        Raises:
            ValueError: If chance is not to move.
        """
        if self.round.player is not CHANCE:
            raise ValueError("chance has no outcomes here: it is not to move")
        return self.round.outcomes()

    def _legal_actions(self, player: int) -> tuple[int, ...]:
        one = self.round
        return _actions(one.legal) if player == one.player else ()

    def _apply_action(self, action: int) -> None:
        player = self.round.player
        if player is CHANCE:
            if self.round is self.round.table.start:
                self.round = self.round.copy()
            self.round.draw(action)
        elif player is TERMINAL:
            raise IllegalActionError(f"action {quoted(action)} is not possible: the game is over")
        else:
            self.round.pick(action)

    def _action_to_string(self, player: int, action: int) -> str:
        if player != CHANCE:
            return NAMES[whole("action", action, 0, NUM_ACTIONS - 1)]
        if self.round.asks_dealer:
            return f"dealer {action}"
        return f"deal {card_name(action)}"

    def __str__(self) -> str:
        """Everything, hidden cards too."""
        one = self.round
        seats = range(one.table.rules.players)
        hands = ", ".join(f"hands {seat}:{one.hands[seat]}" for seat in seats)
        drawn = " ".join(NAMES[card] for card in one.drawn)
        return f"{one.log}\n{hands}" + (f"\ndrawn: {drawn}" if drawn else "")

    @property
    def record(self) -> np.void:
        """The game record, dtype ``STATE``, hidden cards too; read it, never write it."""
        return self.round.record

    # -- what a seat knows ------------------------------------------------------------------

    def view(self, player: int, key: int = 0) -> Views:
        """Returns what a seat knows, as this package's policies are given it.

        Args:
            player: The seat.
            key: The key from which a policy draws; see ``Views.keys``.

        Raises:
            ValueError: If there is no such seat.
        """
        seat = whole("player", player, 0, self.round.table.rules.players - 1)
        return self.round.view(seat, key)

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
        while True:
            left = iter(picks)

            def choose(_: EscobaState, left: Iterator[int] = left) -> int | None:
                return next(left, None)

            try:
                state = rebuilt(self.get_game(), view.records[0], probability_sampler, choose)
                break
            except IllegalActionError:
                # With these hands somebody had to play another card.
                continue
        while len(state.round.drawn) < len(self.round.drawn):
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
        ValueError: If chance could not have dealt what has been seen.
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
        chance = state.round.player is CHANCE
        action = next(feed, None) if chance else choose(state)
        if action is None:
            break
        state.apply_action(action)
    return state


def _hands_dealt(table: Table, seen: Any, sample: Callable[[], float]) -> list[list[int]]:
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


pyspiel.register_game(_GAME_TYPE, EscobaGame)
