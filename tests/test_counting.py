"""The ``counting`` policy: against plain Python move by move, and against ``greedy``."""

from __future__ import annotations

import random
from collections.abc import Iterable
from math import comb
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference.compare import Fields, numbered_game, redeals_for_ever
from reference.model import captures
from test_policies import batch_after

from escoba_env import Game
from escoba_env.cards import CARD_NAMES, JOKERS, cards_in, parse_card
from escoba_env.engine.counting import counting_values
from escoba_env.engine.outlook import OWN_NEXT, PARTNER_NEXT
from escoba_env.engine.record import card_worth
from escoba_env.evaluation import evaluate
from escoba_env.notation import Move
from escoba_env.policies import CountingPolicy
from escoba_env.position import logged_move


def values_of(game: Game) -> NDArray[np.float64]:
    """Returns what ``counting`` thinks of every action."""
    views = game.view(game.turn)
    values = np.empty((1, 43))
    counting_values(views.spec, views.records, values)
    return values[0]


class SlowCounter:
    """What ``counting`` says it does, by trying every capture with every card."""

    def __init__(self, game: Game, fields: Fields) -> None:
        self.game = game
        self.fields = fields
        self.worth, self.escoba = card_worth(game.rules)
        self.seat = game.turn
        self.seats = game.rules.players
        self.stock = [int(c) for c in game.record["stock"][: game.record["stock_size"]]]
        self.stock = self.stock[game.record["stock_next"] :]
        others = [seat for seat in range(self.seats) if seat != self.seat]
        hidden = [] if game.rules.open_hands else [c for seat in others for c in game.hand(seat)]
        self.unseen = sorted([*hidden, *self.stock])
        turns = int(game.record["hand_counts"].sum()) + (game.record["played"] >= 0)
        more = len(self.stock) >= self.seats * game.rules.hand_size
        by_value = game.rules.capture_by == "value"
        self.last = by_value and turns == 1 and not more
        self.sweeps_score = not (by_value and turns == 2 and not more)
        self.dealt = game.rules.hand_size if more else 0

    def total_worth(self, cards: Iterable[int]) -> float:
        return sum(self.worth[card] for card in cards)

    def best_with(self, card: int, piles: list[list[int]]) -> float | None:
        """The worth of the best capture with a card; nothing if there is none."""
        row = [frozenset(CARD_NAMES[c] for c in pile) for pile in piles]
        best = None
        for taken in captures(self.fields, CARD_NAMES[card], row):
            cards = [parse_card(name) for name in taken]
            worth = self.total_worth([card, *cards])
            jokers = {card, *cards} & set(JOKERS)
            if len(cards) == sum(map(len, piles)) and self.sweeps_score and not jokers:
                worth += self.escoba
            best = worth if best is None else max(best, worth)
        return best

    def expected(self, cards: list[int], held: int, piles: list[list[int]]) -> tuple[float, float]:
        """The expected best capture of a hand out of ``cards``, and the chance of none."""
        found = [self.best_with(card, piles) for card in cards]
        worths = sorted((worth for worth in found if worth is not None), reverse=True)
        hands = comb(len(cards), held)
        mean = 0.0
        for i, worth in enumerate(worths):
            # The hands in which it is the best one.
            mean += worth * comb(len(cards) - 1 - i, held - 1) / hands if held else 0.0
        return mean, comb(len(cards) - len(worths), held) / hands

    def value(self, move: Move) -> float:
        game = self.game
        cards = list(cards_in(move.taken))
        value = 0.0
        if cards:
            value += self.total_worth([move.card, *cards])
            swept = move.taken == int(game.record["table"])
            if swept and not self.last and not {move.card, *cards} & set(JOKERS):
                value += self.escoba
        piles = [pile for pile in game.table_piles if not set(pile) & set(cards)]
        if not cards:
            onto = set(cards_in(move.onto))
            piles = [pile for pile in piles if set(pile) != onto] + [[*sorted(onto), move.card]]
        if not piles:
            return value
        other = (self.seat + 1) % self.seats
        hand = game.hand(other)
        held = len(hand) or self.dealt
        known = bool(hand) and game.rules.open_hands
        reply, stays = self.expected(hand if known else self.unseen, held, piles)
        value -= reply
        if not held:
            return value
        if self.seats == 2:
            rest = [card for card in game.hand(self.seat) if card != move.card]
            if rest:
                gains = [self.best_with(card, piles) or 0.0 for card in rest]
                return value + OWN_NEXT * stays * max(gains)
            return value + OWN_NEXT * stays * self.expected(self.unseen, self.dealt, piles)[0]
        if game.rules.partnership:
            partner = game.hand((self.seat + 2) % 4)
            if partner and game.rules.open_hands:
                gains = [self.best_with(card, piles) or 0.0 for card in partner]
                return value + PARTNER_NEXT * stays * max(gains)
            held = len(partner) or self.dealt
            return value + PARTNER_NEXT * stays * self.expected(self.unseen, held, piles)[0]
        return value


def test_values_are_those_of_a_slow_counter_under_all_rules() -> None:
    compared = 0
    tables = set()
    for number in range(256):
        preset, table, _, fields, _ = numbered_game(number)
        if redeals_for_ever(fields):
            continue
        rng = random.Random(number)
        game = Game(fields, seed=number)
        stop = rng.randrange(40)
        for _ in range(stop):
            if not game.is_over:
                game.step(rng.choice(game.legal_actions()))
        if game.is_over or len(game.table) > 9:
            continue
        found = values_of(game)
        slow = SlowCounter(game, fields)
        expected = np.full(43, -np.inf)
        at = int(game.record["turn_index"])
        for action in game.legal_actions():
            after = game.clone()
            after.step(action)
            ended = after.is_over or after.record["turn_index"] != at
            moves = [logged_move(after.record, at)] if ended else after.legal_moves()
            expected[action] = max(slow.value(move) for move in moves if move)
        seen = found > -np.inf
        # Of cards that do the same one stands for all.
        assert found[seen] == pytest.approx(expected[seen], abs=1e-9), game.to_text()
        assert found.max() == pytest.approx(expected.max(), abs=1e-9)
        action = int(CountingPolicy().act(game.view(game.turn))[0])
        assert expected[action] == pytest.approx(expected.max(), abs=1e-8)
        compared += 1
        tables.add((preset, table))
    assert compared > 120
    assert len(tables) > 25


def test_whole_moves_are_played_as_they_were_chosen() -> None:
    """Every pick of a turn leads to a move that is as good as the one the first pick was for."""
    turns = 0
    for fields in ({"capture": "optional"}, {"preset": "tabletop"}, {"preset": "comodines"}):
        for seed in range(40):
            game = Game(fields, seed=seed)
            while not game.is_over:
                at = int(game.record["turn_index"])
                best = values_of(game).max()
                picks = 0
                while not game.is_over and game.record["turn_index"] == at:
                    values = values_of(game)
                    assert values.max() == pytest.approx(best, abs=1e-8)
                    game.step(int(CountingPolicy().act(game.view(game.turn))[0]))
                    picks += 1
                turns += picks > 1
    assert turns > 100


def test_counting_does_not_lay_what_lets_the_next_seat_sweep() -> None:
    # All four threes have been seen, so a total of 12 cannot be swept; a total of 13 can.
    game = Game.from_position(
        hands=["1c 2c", "6b 6c"], table="Re", piles=["3o 3c 3e 3b", ""], turn=0
    )
    assert int(CountingPolicy().act(game.view(0))[0]) == parse_card("2c")


def test_more_moves_than_there_is_room_for_are_no_trouble() -> None:
    batch = batch_after(
        9, games=30, players=3, target_sum=60, hand_size=9, table_size=10, capture="optional"
    )
    views = batch.views()
    values = np.empty((30, 43))
    counting_values(views.spec, views.records, values)
    legal = batch.legal_masks() == 1
    left_out = (legal & (values == -np.inf)).any(1)
    assert left_out.any()
    assert legal[np.arange(30), CountingPolicy().act(views)].all()


STRONGER: list[tuple[dict[str, Any], float]] = [
    ({}, 0.5),
    ({"players": 3}, 0.1),
    ({"players": 4, "partnership": True}, 0.4),
    ({"rules": "tabletop"}, 0.4),
    ({"rules": "comodines"}, 0.4),
    ({"rules": "scopa"}, 0.3),
]


@pytest.mark.parametrize(("fields", "margin"), STRONGER)
def test_counting_is_stronger_than_greedy(fields: dict[str, Any], margin: float) -> None:
    """Far below what it wins on average, and the deals are always the same."""
    assert evaluate("counting", "greedy", deals=500, **fields).margin > margin
