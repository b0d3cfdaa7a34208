"""The compiled engine against the plain-Python reference model: whole games, move by move.

Both are given the same pack order and the same moves, and everything that they show must agree at
every turn. The random rules and games that other tests of the engine play are made here too.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference.model import Card, ReferenceGame, full_pack, score_round, value
from reference.model import Move as ReferenceMove
from reference.presets import PRESETS, rules_for

from escoba_env import Batch, Game, Move, make_rules
from escoba_env.cards import CARD_NAMES, LAY, SUITS, card_set, cards_in, parse_card
from escoba_env.engine.record import _NOT_PLAYABLE, NOBODY, STATE, TWELFTHS, lower
from escoba_env.engine.score import points_of

Fields = dict[str, Any]

TABLES: dict[str, Fields] = {
    "2": {"players": 2},
    "3": {"players": 3},
    "4": {"players": 4},
    "partners": {"players": 4, "partnership": True},
}
CAPTURES = ("optional", "card", "hand")


# Random rules and games


def examples(number: int) -> settings:
    """Returns the settings of a test of so many drawn examples.

    There is no limit of time: the first example to reach a kernel waits for its compilation.
    """
    return settings(
        max_examples=number, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


def as_far_as_playable(fields: Mapping[str, Any]) -> Fields:
    """Returns rules with the fields that the engine does not play yet at what it does play."""
    return {name: _NOT_PLAYABLE.get(name, value) for name, value in fields.items()}


@st.composite
def playable_fields(draw: st.DrawFn) -> Fields:
    """Draws rules over every field that the engine plays; half of them with a pack of their own."""
    fields: Fields = {
        "players": draw(st.sampled_from([2, 3, 4])),
        "capture": draw(st.sampled_from(CAPTURES)),
        "initial_thirty": draw(st.sampled_from(["groups", "sum"])),
        "ties": draw(st.sampled_from(["none", "all", "split"])),
        "target": draw(st.sampled_from([1, 4, 21, 200, 100_000])),
        "partnership_target": draw(st.sampled_from([None, 1, 30, 5000])),
        "open_hands": draw(st.booleans()),
    }
    for name in ("most_cards", "most_oros", "most_sevens", "seven_of_oros", "setenta", "escoba"):
        fields[name] = draw(st.sampled_from([0, 1, 1, 2, 7, 1000]))
    for most, all_of_them in (("most_oros", "all_oros"), ("most_sevens", "all_sevens")):
        fields[all_of_them] = min(1000, fields[most] + draw(st.integers(0, 2)))
    fields["partnership"] = fields["players"] == 4 and draw(st.booleans())
    if draw(st.booleans()):
        ranks = draw(st.sets(st.integers(1, 10), min_size=1))
        suits = draw(st.sets(st.sampled_from(SUITS), min_size=1))
        cards = len(ranks) * len(suits)
        if cards < fields["players"]:
            ranks, suits, cards = set(range(1, 11)), set(SUITS), 40
        fields["ranks"], fields["suits"] = tuple(ranks), tuple(suits)
        fields["hand_size"] = draw(st.integers(1, min(8, cards // fields["players"])))
        left = cards - fields["players"] * fields["hand_size"]
        fields["table_size"] = draw(st.integers(0, min(8, left)))
        # The reference lists captures one by one, and of high totals there are too many.
        fields["target_sum"] = draw(st.integers(2, 60 if cards <= 12 else 18))
    return fields


def somebody_can_score(fields: Fields) -> bool:
    """Tells whether a capture is possible and worth something; otherwise no match ever ends."""
    rules = rules_for(**fields)
    pack = full_pack(rules)
    # Totals of one card, and of two or more.
    single, several = set(), set()
    for card in pack:
        several |= {total + value(card) for total in single | several}
        single.add(value(card))
    points = {
        "most_cards": True,
        "setenta": True,
        "escoba": True,
        "all_oros": any(card[1] == "o" for card in pack),
        "all_sevens": any(card[0] == "7" for card in pack),
        "seven_of_oros": "7o" in pack,
    }
    scores = any(rules[name] and possible for name, possible in points.items())
    return scores and rules["target_sum"] in several


match_fields = playable_fields().filter(somebody_can_score)
playable_games = playable_fields().flatmap(
    lambda fields: st.tuples(
        st.just(fields),
        st.sampled_from(["round", "match", "match"][: 1 + 2 * somebody_can_score(fields)]),
    )
)
"""Rules and an episode."""
seeds = st.integers(0, 2**63 - 1)


def deck_of(game: Game) -> list[Card]:
    """Returns the pack in the order in which this round is dealt."""
    return [CARD_NAMES[card] for card in game.record["stock"][: game.rules.pack_size]]


def stock_of(game: Game) -> list[Card]:
    """Returns the cards that have not been dealt, the next one first."""
    return deck_of(game)[game.record["stock_next"] :]


def play_some(game: Game, rng: random.Random, picks: int) -> Game:
    """Takes up to so many random legal actions, mid-turn and after the end included."""
    for _ in range(picks):
        if not game.is_over:
            game.step(rng.choice(game.legal_actions()))
    return game


def games_in_progress(max_picks: int = 60) -> st.SearchStrategy[Game]:
    """Draws games of random rules after some random actions: mid-turn, over, rounds or matches."""
    return st.builds(
        lambda rules, reward, seed, picks: play_some(
            Game(rules[0], episode=rules[1], reward=reward, seed=seed), random.Random(seed), picks
        ),
        playable_games,
        st.sampled_from(["margin", "points", "win"]),
        seeds,
        st.integers(0, max_picks),
    )


# Side by side


def names(bits: int) -> set[Card]:
    """Returns a card set of the engine as names."""
    return {CARD_NAMES[card] for card in cards_in(bits)}


@functools.lru_cache(maxsize=10_000)
def engine_move(move: ReferenceMove) -> Move:
    """Returns a move of the reference as the engine's."""
    assert move.kind in ("capture", "lay")
    return Move(parse_card(move.card), card_set(map(parse_card, move.taken)))


def reference_move(move: Move) -> ReferenceMove:
    """Returns a move of the engine as the reference's."""
    kind = "capture" if move.taken else "lay"
    return ReferenceMove(CARD_NAMES[move.card], kind, frozenset(names(move.taken)))


def reference_beside(game: Game, fields: Fields) -> ReferenceGame:
    """Returns a reference game that is dealt what the engine's is, in later rounds too."""

    def decks() -> Iterator[list[Card]]:
        while True:
            yield deck_of(game)

    return ReferenceGame(rules_for(**fields), game.dealer, decks())


def twelfths(points: tuple[Fraction, ...] | list[Fraction]) -> list[Fraction]:
    """Returns points as the engine counts them."""
    return [TWELFTHS * number for number in points]


def check_same_turn(game: Game, reference: ReferenceGame) -> None:
    """Compares everything that the two show at the beginning of a turn."""
    record, seats = game.record, range(game.rules.players)
    table = [card for pile in reference.table for card in pile]
    assert {reference_move(move) for move in game.legal_moves()} == reference.legal_moves()
    assert [names(record["hands"][seat]) for seat in seats] == reference.hands
    assert record["hand_counts"][: len(seats)].tolist() == list(map(len, reference.hands))
    assert [names(record["piles"][seat]) for seat in seats] == reference.piles
    assert names(record["table"]) == set(table)
    assert stock_of(game) == reference.stock
    assert record["escobas"][: len(seats)].tolist() == reference.escobas
    capturer = NOBODY if reference.last_capturer is None else reference.last_capturer
    assert record["last_capturer"] == capturer
    assert (game.turn, game.dealer) == (reference.turn, reference.dealer)


def check_same_score(game: Game, reference: ReferenceGame) -> None:
    """Compares the score of the round that has just ended, and of the match."""
    sides = game.rules.num_sides
    assert game.record["round_points"][:sides].tolist() == twelfths(reference.reports[-1].total)
    assert game.record["scores"][:sides].tolist() == twelfths(reference.scores)


def check_same_round_end(game: Game, reference: ReferenceGame) -> None:
    """Compares a finished game of one round with the reference's report of it."""
    seats, sides = range(game.rules.players), game.rules.num_sides
    report = reference.reports[-1]
    piles = [frozenset(names(game.record["piles"][seat])) for seat in seats]
    escobas = [
        sum(int(game.record["escobas"][seat]) for seat in seats if seat % sides == side)
        for side in range(sides)
    ]
    assert piles == list(report.piles)
    assert escobas == list(report.escobas)
    unclaimed = set(full_pack(reference.rules)).difference(*piles)
    assert names(game.record["table"]) | set(stock_of(game)) == unclaimed


def shares_of_the_win(scores: list[Fraction] | tuple[Fraction, ...], seats: int) -> list[float]:
    """Returns the reward ``win`` of each seat for final scores of the sides."""
    leaders = list(scores).count(max(scores))
    return [
        2 / leaders - 1 if scores[seat % len(scores)] == max(scores) else -1
        for seat in range(seats)
    ]


def play_beside_the_reference(
    fields: Fields, episode: str, seed: int, max_rounds: int = 40
) -> ReferenceGame:
    """Plays one game at random and compares it with the reference at every turn."""
    rng = random.Random(seed)
    game = Game(fields, episode=episode, reward="win", seed=seed)
    reference = reference_beside(game, fields)
    while not game.is_over and len(reference.reports) < max_rounds:
        check_same_turn(game, reference)
        move = rng.choice(game.legal_moves())
        rounds = len(reference.reports)
        game.play(move)
        reference.play(reference_move(move))
        if len(reference.reports) > rounds:
            check_same_score(game, reference)
            if episode == "round":
                assert game.is_over
            else:
                assert game.is_over == reference.match_over
    if not game.is_over:
        assert game.returns == [0] * game.rules.players
        return reference
    assert game.legal_moves() == []
    assert game.legal_actions() == []
    check_same_round_end(game, reference)
    scores = reference.reports[0].total if episode == "round" else reference.scores
    assert game.returns == shares_of_the_win(scores, game.rules.players)
    if episode == "match":
        check_same_turn(game, reference)
        winners = {seat for seat, reward in enumerate(game.returns) if reward == 1}
        assert {game.rules.side_of(seat) for seat in winners} == {reference.winner}
    return reference


@examples(150)
@given(playable_games, seeds)
def test_games_of_random_rules_go_as_in_the_reference(rules: tuple[Fields, str], seed: int) -> None:
    play_beside_the_reference(*rules, seed, max_rounds=4)


@pytest.mark.parametrize("episode", ["round", "match"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("preset", PRESETS)
def test_games_of_presets_go_as_in_the_reference(preset: str, table: str, episode: str) -> None:
    """Where the engine does not play a rule of the preset yet, the rest of the preset."""
    fields = as_far_as_playable({**PRESETS[preset], **TABLES[table]})
    for seed in range(10 if episode == "round" else 2):
        reference = play_beside_the_reference(fields, episode, seed)
        assert reference.match_over or episode == "round"


def test_matches_that_the_reference_ties_go_on_in_the_engine() -> None:
    """Few points and a target that every round may reach: many matches are tied at the top."""
    fields = {**TABLES["4"], "most_oros": 0, "all_oros": 0, "seven_of_oros": 0, "target": 1}
    rounds = [
        len(play_beside_the_reference(rules_for(**fields), "match", seed).reports)
        for seed in range(40)
    ]
    assert max(rounds) > 1


@examples(200)
@given(playable_fields(), seeds)
def test_any_division_of_the_pack_scores_as_in_the_reference(fields: Fields, seed: int) -> None:
    """Also those that play seldom leads to: piles without a suit, ties, and cards of nobody."""
    rng, rules = random.Random(seed), make_rules(fields)
    seats = range(rules.players)
    shares = [rng.choice([0, 1, 5]) for _ in seats]
    places = rng.choices([*seats, NOBODY], [*shares, 1], k=rules.pack_size)
    cards = list(cards_in(rules.pack))
    piles = [
        [card for card, place in zip(cards, places, strict=True) if place == seat] for seat in seats
    ]
    escobas = [rng.choice([0, 0, 1, 12]) for _ in seats]
    record = np.zeros(1, STATE)
    record["piles"][0, : len(seats)] = [card_set(pile) for pile in piles]
    record["escobas"][0, : len(seats)] = escobas
    spec = lower(rules)
    report = score_round(
        rules_for(**fields), [{CARD_NAMES[card] for card in pile} for pile in piles], escobas
    )
    found = [points_of(spec[0], record[0], side) for side in range(rules.num_sides)]
    assert found == twelfths(report.total)


# Every pick: the mask is the set of actions that some legal move goes on from


class Turn:
    """A turn of the reference, narrowed down by the picks that the engine is given."""

    def __init__(self, moves: set[ReferenceMove]) -> None:
        self.open = [(engine_move(move), move) for move in moves]
        self.played = NOBODY
        self.picked = 0

    def legal_actions(self) -> list[int]:
        """Actions that at least one legal move goes on from."""
        if self.played == NOBODY:
            return sorted({move.card for move, _ in self.open})
        left = 0
        for move, _ in self.open:
            left |= move.taken & ~self.picked if move.taken else 1 << LAY
        return list(cards_in(left))

    def pick(self, action: int) -> None:
        """Keeps the moves that go on from an action."""
        if self.played == NOBODY:
            self.played = action
            self.open = [pair for pair in self.open if pair[0].card == action]
        elif action == LAY:
            self.open = [pair for pair in self.open if not pair[0].taken]
        else:
            self.picked |= 1 << action
            self.open = [pair for pair in self.open if pair[0].taken >> action & 1]


def check_every_pick(fields: Fields, seed: int, games: int) -> None:
    """Plays games pick by pick; the mask must be right at each, and turns must end in time.

    A turn is over as soon as a single legal move is left, and not before. The games of the seed
    must be those that a batch of as many deals.
    """
    game, rng = Game(fields, seed=seed), random.Random(seed)
    decks, dealers = [], []
    for index in range(games):
        if index:
            game.reset()
        decks.append(game.record["stock"].copy())
        dealers.append(game.dealer)
        reference = reference_beside(game, fields)
        while not reference.reports:
            turn = Turn(reference.legal_moves())
            turns = int(game.record["turn_index"])
            while True:
                legal = game.legal_actions()
                assert legal == turn.legal_actions()
                action = rng.choice(legal)
                game.step(action)
                turn.pick(action)
                if len(turn.open) == 1:
                    break
                assert game.record["turn_index"] == turns
                assert game.record["played"] == turn.played
                assert game.record["picked"] == turn.picked
            assert game.record["turn_index"] == turns + 1
            reference.play(turn.open[0][1])
            if not reference.reports:
                hands = [names(hand) for hand in game.record["hands"][: game.rules.players]]
                assert hands == reference.hands
                assert names(game.record["table"]) == {c for pile in reference.table for c in pile}
                assert game.turn == reference.turn
        assert game.is_over
        check_same_round_end(game, reference)
        check_same_score(game, reference)
    batch = Batch(games, fields, seed=seed)
    assert (batch.states["stock"] == np.array(decks)).all()
    assert batch.states["dealer"].tolist() == dealers


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("table", TABLES)
def test_a_pick_is_legal_iff_a_legal_move_goes_on_from_it(table: str, capture: str) -> None:
    check_every_pick({**TABLES[table], "capture": capture}, seed=0, games=200)


@pytest.mark.slow
@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("table", TABLES)
def test_a_pick_is_legal_iff_a_legal_move_goes_on_from_it_in_10000_games(
    table: str, capture: str
) -> None:
    """The same at length, with other games: minutes in all."""
    check_every_pick({**TABLES[table], "capture": capture}, seed=1, games=10_000)


@examples(60)
@given(playable_fields(), seeds)
def test_a_pick_of_random_rules_is_legal_iff_a_legal_move_goes_on_from_it(
    fields: Fields, seed: int
) -> None:
    check_every_pick(fields, seed, games=2)


# Tables too large for the reference to list their captures


def ways_to_total(cards: Iterable[int], total: int) -> int:
    """Counts the choices out of some cards that make a total."""
    ways = [1, *[0] * max(total, 0)]
    for card in cards:
        value = card % 10 + 1
        for reached in range(total, value - 1, -1):
            ways[reached] += ways[reached - value]
    return ways[total] if total >= 0 else 0


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("target_sum", [11, 15, 37, 60])
def test_no_table_is_too_large_and_no_capture_too_long(target_sum: int, capture: str) -> None:
    """Nearly the whole pack on the table: up to 10^9 captures, and picks in any order."""
    game = Game(hand_size=1, table_size=38, target_sum=target_sum, capture=capture, seed=0)
    rng = random.Random(target_sum)
    for seed in range(10):
        game.reset(seed)
        while not game.is_over:
            table, (card,) = set(game.table), game.hand(game.turn)
            turns = game.record["turn_index"]
            assert game.legal_actions() == [card]
            game.step(card)
            need = target_sum - (card % 10 + 1)
            may_lay = capture == "optional"
            while ways_to_total(table, need) + may_lay > 1:
                assert game.record["turn_index"] == turns
                legal = [c for c in table if ways_to_total(table - {c}, need - (c % 10 + 1))]
                assert game.legal_actions() == sorted(legal) + [LAY] * may_lay
                action = rng.choice(game.legal_actions())
                game.step(action)
                if action == LAY:
                    break
                table.remove(action)
                need -= action % 10 + 1
                may_lay = False
            assert game.record["turn_index"] == turns + 1
