"""The compiled engine against the plain-Python reference model: whole games, move by move.

Both are given the same pack order and the same moves, and everything that they show must agree at
every turn; the comparison is in ``reference.compare``. The random rules and games that other tests
of the engine play are made here too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from reference.compare import (
    CHOICES,
    COMBINATIONS,
    TABLES,
    Fields,
    bits_of,
    check_same_round_end,
    check_same_score,
    names,
    numbered_game,
    play_beside_the_reference,
    play_numbered_game,
    random_rules,
    redeals_for_ever,
    reference_beside,
    somebody_can_score,
    twelfths,
)
from reference.model import Move as ReferenceMove
from reference.model import score_round
from reference.presets import CLASSIC, PRESETS, rules_for

from escoba_env import Batch, Game, make_rules
from escoba_env.cards import CARD_NAMES, LAY, card_set, cards_in, parse_card
from escoba_env.engine.record import NOBODY, STATE, lower
from escoba_env.engine.score import points_of

CAPTURES = CHOICES["capture"]
BASES = sorted(PRESETS, key="classic".__ne__)
"""The presets, the simplest first: Hypothesis reports the first that fails."""


# Random rules and games


def examples(number: int) -> settings:
    """Returns the settings of a test of so many drawn examples.

    There is no limit of time: the first example to reach a kernel waits for its compilation.
    """
    return settings(
        max_examples=number, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


@st.composite
def playable_fields(draw: st.DrawFn) -> Fields:
    """Draws rules over every field, around any preset; half of them with a pack of their own."""
    rng = draw(st.randoms(use_true_random=False))
    preset, table = draw(st.sampled_from(BASES)), draw(st.sampled_from(list(TABLES)))
    return random_rules(rng, preset, table, own_pack=draw(st.booleans()))


@st.composite
def fields_of_fifteen(draw: st.DrawFn) -> Fields:
    """Draws rules without jokers in which a capture makes a sum."""
    fields = draw(playable_fields()) | {"jokers": 0, "capture_by": "fifteen"}
    cards = len(fields["ranks"]) * len(fields["suits"])
    assume(cards >= fields["table_size"] + fields["players"] * fields["hand_size"])
    assume(not redeals_for_ever(fields))
    return fields


match_fields = playable_fields().filter(somebody_can_score)
playable_games = playable_fields().flatmap(
    lambda fields: st.tuples(
        st.just(fields),
        st.sampled_from(["round", "match", "match"][: 1 + 2 * somebody_can_score(fields)]),
    )
)
"""Rules and an episode."""
seeds = st.integers(0, 2**63 - 1)


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

NUMBERED_GAMES = 2048
CHUNKS = 16


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_numbered_games_go_as_in_the_reference(chunk: int) -> None:
    """Every preset at every table, as it is and with other rules: see ``numbered_game``.

    ``tests/fuzz_rules.py`` goes on where these end.
    """
    size = NUMBERED_GAMES // CHUNKS
    for number in range(chunk * size, (chunk + 1) * size):
        play_numbered_game(number, max_rounds=2)


def test_numbered_games_reach_every_rule_and_every_combination_of_preset_and_table() -> None:
    games = [numbered_game(number) for number in range(NUMBERED_GAMES)]
    combinations = Counter((preset, table) for preset, table, *_ in games)
    assert set(combinations) == set(COMBINATIONS)
    assert set(combinations.values()) == {NUMBERED_GAMES // len(COMBINATIONS)}
    drawn = [fields for _, _, kind, fields, _ in games if kind in ("varied", "own pack")]
    for name in CLASSIC:
        values = Counter(fields[name] for fields in drawn)
        assert set(CHOICES.get(name, ())) <= set(values)
        assert len(values) > 1
        assert all(values[value] > 30 for value in CHOICES.get(name, ()))
    assert {make_rules(fields).pack_size for fields in drawn} >= {40, 42, 3, 5, 12, 20}


@examples(60)
@given(playable_games, seeds)
def test_games_of_random_rules_go_as_in_the_reference(rules: tuple[Fields, str], seed: int) -> None:
    """Fewer than above, but Hypothesis makes those that differ small."""
    play_beside_the_reference(*rules, seed, max_rounds=4)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("preset", PRESETS)
def test_matches_of_presets_end_as_in_the_reference(preset: str, table: str) -> None:
    fields = {**PRESETS[preset], **TABLES[table]}
    assert play_beside_the_reference(fields, "match", seed=3).match_over


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
    """A turn of the reference, narrowed down by the picks that the engine is given.

    A pile of the table is picked by its lowest card, its head. Cards that have been picked may be
    a whole capture already although more can be added (jokers): ``LAY`` ends it. ``LAY`` before
    that means no capture, and where the card then may go to several places, one more pick says
    where: ``LAY`` alone, or the head of a pile.
    """

    def __init__(self, moves: set[ReferenceMove], piles: list[list[int]]) -> None:
        self.heads = card_set(min(pile) for pile in piles)
        self.open = [(self._split(move), move) for move in moves]
        self.played = NOBODY
        self.picked = 0
        self.placing = False

    def _split(self, move: ReferenceMove) -> tuple[int, int, int]:
        """Returns a move as the card, the heads that it takes, and where it is put."""
        heads = bits_of(move.taken) & self.heads
        if move.kind == "capture":
            return parse_card(move.card), heads, 0
        return parse_card(move.card), 0, heads or 1 << LAY

    def legal_actions(self) -> list[int]:
        """Actions that at least one legal move goes on from."""
        left = 0
        for (card, taken, place), _ in self.open:
            if self.played == NOBODY:
                left |= 1 << card
            elif self.placing:
                left |= place
            else:
                left |= taken & ~self.picked or 1 << LAY
        return list(cards_in(left))

    def pick(self, action: int) -> None:
        """Keeps the moves that go on from an action."""
        bit = 1 << action

        def goes_on(card: int, taken: int, place: int) -> bool:
            if self.played == NOBODY:
                return card == action
            if self.placing:
                return place == bit
            return taken == self.picked if action == LAY else bool(taken & bit)

        self.open = [pair for pair in self.open if goes_on(*pair[0])]
        if self.played == NOBODY:
            self.played = action
        elif action != LAY and not self.placing:
            self.picked |= bit
        self.placing = not any(taken for (_, taken, _), _ in self.open)


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
            turn = Turn(reference.legal_moves(), game.table_piles)
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
                assert game.record["placing"] == turn.placing
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


PICKS: dict[str, Fields] = {
    **{capture: {"capture": capture} for capture in CAPTURES},
    "building": PRESETS["tabletop"],
    "building, optional": {**PRESETS["tabletop"], "capture": "optional"},
    "building, hand": {**PRESETS["tabletop"], "capture": "hand"},
    "jokers": PRESETS["comodines"],
    "jokers, optional": {**PRESETS["comodines"], "capture": "optional"},
    "scopa": PRESETS["scopa"],
}
"""Rules in which turns go in different ways."""


@pytest.mark.parametrize("rules", PICKS)
@pytest.mark.parametrize("table", TABLES)
def test_a_pick_is_legal_iff_a_legal_move_goes_on_from_it(table: str, rules: str) -> None:
    check_every_pick({**PICKS[rules], **TABLES[table]}, seed=0, games=60)


@pytest.mark.slow
@pytest.mark.parametrize("rules", PICKS)
@pytest.mark.parametrize("table", TABLES)
def test_a_pick_is_legal_iff_a_legal_move_goes_on_from_it_in_10000_games(
    table: str, rules: str
) -> None:
    """The same at length, with other games: minutes in all."""
    check_every_pick({**PICKS[rules], **TABLES[table]}, seed=1, games=10_000)


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
