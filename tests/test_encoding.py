"""Facts of legal actions, and ``greedy``, against a slow computation from the game record.

What every section of every encoding holds is in ``test_encodings``.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference.compare import somebody_can_score
from reference.model import SETENTA
from test_engine_against_reference import (
    examples,
    fields_of_fifteen,
    games_in_progress,
    play_some,
    seeds,
)

from escoba_env import PRESETS, Batch, Encoding, Game, Rules, load_policy, make_rules
from escoba_env.cards import CARD_NAMES, LAY, NUM_ACTIONS, SEVEN_OF_OROS, cards_in
from escoba_env.encoding import VERSIONS
from escoba_env.engine.batch import observe_game
from escoba_env.engine.outlook import FACTS, NUM_FACTS, OWN_NEXT, PARTNER_NEXT, WORK
from escoba_env.engine.record import GAME_OVER, NOBODY

every_encoding = pytest.mark.parametrize("name", VERSIONS)


@st.composite
def games_and_seats(draw: st.DrawFn) -> tuple[Game, int]:
    """Draws a game in progress and one of its seats."""
    game = draw(games_in_progress())
    return game, draw(st.integers(0, game.rules.players - 1))


def observe(game: Game, seat: int, name: str) -> np.ndarray[Any, Any]:
    """Returns a seat's observation of a game."""
    return game.view(seat).observe(Encoding(name, game.rules, game.episode))[0][0]


# Layout


@pytest.mark.parametrize(("players", "compact"), [(2, 297), (3, 345), (4, 393)])
def test_sizes_are_what_trained_policies_expect(players: int, compact: int) -> None:
    """A change here is a new version of the encoding."""
    rules = Rules(players=players)
    assert Encoding("compact", rules).size == compact
    assert Encoding("tactical", rules).size == compact + NUM_ACTIONS * NUM_FACTS
    assert NUM_FACTS == 38
    changed = {name: version for name, version in VERSIONS.items() if version > 1}
    assert changed == {"tactical": 2, "universal_tactical": 2}


@pytest.mark.parametrize("name", ["Compact", "", None, 1, ["compact"]])
def test_an_unknown_encoding_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=f"{name!r}".replace("[", r"\[")):
        Encoding(name, Rules())


def test_an_unknown_episode_is_refused() -> None:
    with pytest.raises(ValueError, match="'season'"):
        Encoding("compact", Rules(), "season")


# Values


@every_encoding
@examples(80)
@given(game_and_seat=games_and_seats())
def test_values_lie_within_low_and_high(name: str, game_and_seat: tuple[Game, int]) -> None:
    game, seat = game_and_seat
    encoding = Encoding(name, game.rules, game.episode)
    observation = observe(game, seat, name)
    assert observation.dtype == np.float32
    assert np.isfinite(observation).all()
    assert (observation >= encoding.low).all()
    assert (observation <= encoding.high).all()


# Rules whose facts the slow computation below knows


@st.composite
def games_of_fifteen(draw: st.DrawFn) -> Game:
    """Draws a game in progress without building, jokers and the scoring and captures of Scopa."""
    fields = draw(fields_of_fifteen()) | {"building": False, "napola": False}
    match = draw(st.booleans()) and somebody_can_score(fields)
    seed = draw(seeds)
    game = Game(fields, episode="match" if match else "round", seed=seed)
    return play_some(game, random.Random(seed), draw(st.integers(0, 60)))


def unseen_by(game: Game, seat: int) -> list[int]:
    """Returns the cards whose place a seat does not know."""
    record = game.record
    hidden = [int(card) for card in record["stock"][record["stock_next"] : record["stock_size"]]]
    if not game.rules.open_hands:
        for other in range(game.rules.players):
            hidden += game.hand(other) if other != seat else []
    return sorted(hidden)


# Facts: what follows from each legal action


def worths(rules: Rules) -> tuple[list[float], float]:
    """Returns what capturing each card and an escoba are worth, in points of margin."""
    pack = list(cards_in(rules.pack))
    oros = [card for card in pack if card < 10]
    sevens = [card for card in pack if card % 10 == 6]
    worth = [0.0] * 42
    for card in pack:
        worth[card] = 2 * rules.most_cards / len(pack)
        if card in oros:
            worth[card] += 2 * max(rules.most_oros, rules.all_oros / 2) / len(oros)
        if card in sevens:
            worth[card] += 2 * max(rules.most_sevens, rules.all_sevens / 2) / len(sevens)
        if card == SEVEN_OF_OROS:
            worth[card] += rules.seven_of_oros
        over_a_figure = SETENTA[CARD_NAMES[card][0]] - 10
        worth[card] += 2 * rules.setenta * over_a_figure / (21 * len(rules.suits))
    return worth, rules.escoba


def value_of(cards: Iterable[int]) -> int:
    """Returns the total capture value of some cards."""
    return sum(card % 10 + 1 for card in cards)


def choices(cards: list[int]) -> Iterator[tuple[int, ...]]:
    """Yields every choice of at least one card."""
    for size in range(1, len(cards) + 1):
        yield from itertools.combinations(cards, size)


class Outlook:
    """The facts of a position, by trying everything, from what the seat to move knows."""

    def __init__(self, game: Game) -> None:
        record, rules = game.record, game.rules
        self.rules = rules
        self.worth, self.escoba_worth = worths(rules)
        self.table = game.table
        self.hand = game.hand(game.turn)
        self.played = int(record["played"])
        self.picked = list(cards_in(record["picked"]))
        self.unseen = unseen_by(game, game.turn)
        other = (game.turn + 1) % rules.players
        stock = int(record["stock_size"] - record["stock_next"])
        self.next_deal = rules.hand_size if stock >= rules.players * rules.hand_size else 0
        self.held = int(record["hand_counts"][other]) or self.next_deal
        partner = (game.turn + 2) % rules.players
        self.partner_held = int(record["hand_counts"][partner]) or self.next_deal
        self.partner_hand = game.hand(partner) if rules.open_hands else []
        self.hidden = self.unseen
        if rules.open_hands and record["hand_counts"][other]:
            self.unseen = game.hand(other)

    def taken_worth(self, value: int, table: list[int]) -> float:
        """Worth of what the best capture with a card of a value takes; -1 if there is none."""
        found = [-1.0]
        for taken in choices(table):
            if value_of(taken) + value == self.rules.target_sum:
                sweep = self.escoba_worth if len(taken) == len(table) else 0
                found.append(sum(self.worth[c] for c in taken) + sweep)
        return max(found)

    def reply(self, card: int, table: list[int]) -> float:
        """Worth of the best capture with a card; nothing if it has none."""
        taken = self.taken_worth(value_of([card]), table)
        return self.worth[card] + taken if taken >= 0 else 0.0

    def hands(self, cards: list[int], held: int) -> list[tuple[int, ...]] | None:
        """Every hand of so many out of some cards; None if there are too many to list."""
        if math.comb(len(cards), held) > 700:
            return None
        return list(itertools.combinations(cards, held))

    def expected_reply(self, table: list[int], cards: list[int], held: int) -> float:
        """Mean over all hands out of some cards of the best reply in each."""
        replies = {card: self.reply(card, table) for card in cards}
        hands = self.hands(cards, held)
        if hands is not None:
            return math.fsum(max((replies[c] for c in hand), default=0) for hand in hands) / len(
                hands
            )
        # The best reply is a hand's best card, so the others are all from those that come after.
        number, ordered = len(cards), sorted(replies.values(), reverse=True)
        return math.fsum(
            reply * math.comb(number - i - 1, held - 1) for i, reply in enumerate(ordered)
        ) / math.comb(number, held)

    def own_next(self, card: int, table: list[int]) -> float:
        """What counts of the own side's next capture from a table, if the next seat takes nothing.

        The shares are the engine's, which has tuned them.
        """
        if self.rules.players > 2 and not self.rules.partnership:
            return 0.0
        if self.rules.players == 2:
            rest = [c for c in self.hand if c != card]
            share, held = OWN_NEXT, 0 if rest else self.next_deal
        else:
            rest = [c for c in self.partner_hand if c != card]
            share, held = PARTNER_NEXT, self.partner_held
        if rest:
            return share * max(self.reply(c, table) for c in rest)
        return share * self.expected_reply(table, self.hidden, held) if held else 0.0

    def sweep_chance(self, sweepers: int) -> float:
        """Chance that the next seat holds at least one of so many cards."""
        hands = self.hands(self.unseen, self.held)
        if hands is not None:
            marked = set(self.unseen[:sweepers])
            return sum(not marked.isdisjoint(hand) for hand in hands) / len(hands)
        number = len(self.unseen)
        return 1 - math.comb(number - sweepers, self.held) / math.comb(number, self.held)

    def rows(self, action: int) -> list[list[float]]:
        """The facts of an action, once for each completion that is worth most."""
        card = action if self.played == NOBODY else self.played
        picked = self.picked + [action] * (self.played != NOBODY and action != LAY)
        captures = [
            taken
            for taken in choices(self.table)
            if action != LAY
            and set(picked) <= set(taken)
            and value_of(taken) + value_of([card]) == self.rules.target_sum
        ]
        if not captures:
            return [self.row(card, ())]
        best = max(sum(self.worth[c] for c in taken) for taken in captures)
        return [
            self.row(card, taken)
            for taken in captures
            if sum(self.worth[c] for c in taken) > best - 1e-9
        ]

    def row(self, card: int, taken: tuple[int, ...]) -> list[float]:
        """The facts of playing a card and taking some, or of laying it."""
        after = [c for c in self.table if c not in taken] + [card] * (not taken)
        moved = [card, *taken] if taken else []
        sweep = bool(taken) and not after
        worth = sum(self.worth[c] for c in moved) + (self.escoba_worth if sweep else 0)
        total = value_of(after)
        sweepers = [
            c for c in self.unseen if after and value_of([c]) + total == self.rules.target_sum
        ]
        reply = self.expected_reply(after, self.unseen, self.held) if after else 0.0
        by_value = {
            value: self.taken_worth(value, after) if self.held else -1 for value in range(1, 11)
        }
        takers = sum(by_value[value_of([c])] >= 0 for c in self.unseen)
        stays = 1 - self.sweep_chance(takers)
        return [
            1,
            bool(taken),
            len(moved) / 10,
            sum(c < 10 for c in moved) / 5,
            sum(c % 10 == 6 for c in moved) / 2,
            SEVEN_OF_OROS in moved,
            sweep,
            worth,
            total / self.rules.target_sum,
            len(after) / 8,
            sum(self.worth[c] for c in after),
            self.sweep_chance(len(sweepers)),
            len(sweepers) / 4,
            reply,
            worth - reply,
            self.worth[card],
            stays,
            self.own_next(card, after) if self.held and after and stays > 0 else 0,
            *by_value.values(),
            *(sum(value_of([c]) == value for c in after) for value in range(1, 11)),
        ]


def facts_of(game: Game, seat: int) -> np.ndarray[Any, Any]:
    """Returns the action features that a seat is shown, (43, NUM_FACTS)."""
    section = Encoding("tactical", game.rules, game.episode).layout()["facts"]
    assert section.shape == (NUM_ACTIONS, NUM_FACTS)
    return observe(game, seat, "tactical")[section.slice].reshape(section.shape)


def check_facts(game: Game) -> None:
    """Checks every action's features in a position."""
    facts, outlook = facts_of(game, game.turn), Outlook(game)
    legal = game.legal_actions()
    assert np.flatnonzero(facts.any(axis=1)).tolist() == legal
    for action in legal:
        rows = outlook.rows(action)
        # Where two completions are worth the same, either will do.
        nearest = min(rows, key=lambda row: float(np.abs(facts[action] - row).max()))
        assert by_name(facts[action]) == pytest.approx(by_name(nearest), rel=1e-5, abs=1e-5)


def by_name(row: Iterable[float]) -> dict[str, float]:
    """Returns the facts of an action by their names."""
    return dict(zip(FACTS, map(float, row), strict=True))


@examples(120)
@given(games_of_fifteen())
def test_facts_are_what_trying_everything_finds(game: Game) -> None:
    assume(not game.is_over and len(game.table) <= 10)
    check_facts(game)


def test_the_own_next_deal_is_not_of_the_open_hand_of_the_next_opponent() -> None:
    """Three turns into open hands, the mover lays its last card and will be dealt three others."""
    game = Game(open_hands=True, seed=1)
    while len(game.hand(game.turn)) > 1 or len(game.hand(1 - game.turn)) != 1:
        game.step(game.legal_actions()[0])
    check_facts(game)
    facts = facts_of(game, game.turn)
    name = "expected worth of the own side's next capture, if so"
    assert any(by_name(facts[action])[name] > 0 for action in game.legal_actions())


@pytest.mark.parametrize("players", [2, 3, 4])
def test_facts_near_the_end_are_what_trying_every_hand_finds(players: int) -> None:
    """Of the usual pack, in the last deals, where the hands that are left can be listed."""
    listed = 0
    for seed in range(12):
        game = Game(players=players, seed=seed, capture=["optional", "card", "hand"][seed % 3])
        rng = np.random.default_rng(seed)
        while not game.is_over:
            unseen = len(unseen_by(game, game.turn))
            if unseen <= 9 and len(game.table) <= 9:
                outlook = Outlook(game)
                assert outlook.hands(outlook.unseen, outlook.held) is not None
                check_facts(game)
                listed += 1
            game.step(int(rng.choice(game.legal_actions())))
    assert listed > 50


@examples(60)
@given(games_and_seats())
def test_facts_are_zeros_for_a_seat_that_is_not_to_move_and_after_the_end(
    game_and_seat: tuple[Game, int],
) -> None:
    game, seat = game_and_seat
    facts = facts_of(game, seat)
    assert facts.any() == (game.record["phase"] != GAME_OVER and game.turn == seat)


@pytest.mark.parametrize("fields", [{}, {"target_sum": 2}, {"target_sum": 60}], ids=str)
@pytest.mark.parametrize("preset", PRESETS)
def test_facts_come_from_nothing_that_lay_in_the_work_space_before(
    preset: str, fields: dict[str, int]
) -> None:
    """A kernel that reads what it has not written gives other facts each time, or none at all."""
    encoding = Encoding("tactical", make_rules(preset, **fields))
    for seed in range(10):
        game = play_some(Game(preset, seed=seed, **fields), random.Random(seed), 3 * seed)
        found = []
        for byte in (0x00, 0x3F, 0x7F):
            work = np.frombuffer(bytes([byte]) * WORK.itemsize, WORK).copy()
            out, mask = np.empty((1, encoding.size), np.float32), np.empty((1, 43), np.int8)
            observe_game(game.spec, game.states, game.turn, encoding.plan, out, mask, work)
            found.append(out.tobytes())
        assert len(set(found)) == 1


def test_a_worked_position_has_the_facts_that_one_counts_by_hand() -> None:
    """The 7 of oros takes 5 and 3 and leaves the sota; only a 7 sweeps that."""
    game = Game.from_position(
        hands=["7o 1c", "2b 3o"], table="5o 3c Sb", piles=["", ""], turn=0, seed=1
    )
    row = by_name(facts_of(game, 0)[SEVEN_OF_OROS])
    # 2/40 a card, 2/10 more an oro, 2/4 more a seven, 1 more the seven of oros.
    seven_of_oros, five_of_oros, three, sota = 1.75, 0.25, 0.05, 0.05
    assert row["cards taken / 10"] == pytest.approx(0.3)
    assert row["oros taken / 5"] == pytest.approx(0.4)
    assert row["sevens taken / 2"] == pytest.approx(0.5)
    assert row["takes the seven of oros"] == 1
    assert row["escoba"] == 0
    assert row["worth taken"] == pytest.approx(seven_of_oros + five_of_oros + three)
    assert row["total left on the table / target sum"] == pytest.approx(8 / 15)
    assert row["cards left on the table / 8"] == pytest.approx(1 / 8)
    assert row["worth left on the table"] == pytest.approx(sota)
    assert row["unseen cards that would sweep what is left / 4"] == pytest.approx(3 / 4)
    # Two of 35 unseen cards are held, three of which are sevens.
    chance = 1 - (32 * 31) / (35 * 34)
    assert row["probability that the next opponent can sweep what is left"] == pytest.approx(chance)
    sweep = 0.55 + sota + 1
    assert row["expected worth of the next opponent's best reply"] == pytest.approx(chance * sweep)
    assert row["worth of the hand card"] == pytest.approx(seven_of_oros)
    assert row["probability that the next opponent takes nothing"] == pytest.approx(1 - chance)
    # The ace that stays in hand takes nothing from the sota.
    assert row["expected worth of the own side's next capture, if so"] == 0
    assert row["worth of the best capture then with a card of value 7, or -1"] == pytest.approx(
        sota + 1
    )
    assert row["worth of the best capture then with a card of value 6, or -1"] == -1
    assert row["cards of value 8 on the table then"] == 1
    assert row["cards of value 7 on the table then"] == 0


@examples(100)
@given(games_of_fifteen())
def test_greedy_takes_what_is_worth_most_now_and_lays_what_is_worth_least(game: Game) -> None:
    assume(not game.is_over and len(game.table) <= 10)
    outlook = Outlook(game)
    worth_now = {}
    for action in game.legal_actions():
        rows = [by_name(row) for row in outlook.rows(action)]
        worth_now[action] = max(
            row["worth taken"] if row["captures"] else -row["worth of the hand card"]
            for row in rows
        )
    (chosen,) = load_policy("greedy").act(game.view(game.turn))
    best = max(worth_now.values())
    assert worth_now[chosen] == pytest.approx(best, abs=1e-9)
    clearly_first = [action for action, worth in worth_now.items() if worth >= best]
    assert len(set(worth_now.values())) > 1 or chosen == clearly_first[0]


def test_greedy_beats_random_by_a_point_a_round() -> None:
    """Over both seats, which also says that it is the mover's hand that is looked at."""
    batch = Batch(2000, seed=5, skip_forced=True)
    greedy, other = load_policy("greedy"), load_policy("random")
    total = np.zeros((2000, 2))
    while not batch.over.all():
        playing = np.flatnonzero(~batch.over)
        views = batch.views(playing)
        # Greedy sits in seat 0 of even games and in seat 1 of odd ones.
        plays_greedy = batch.turn[playing] == playing % 2
        actions = np.where(plays_greedy, greedy.act(views), other.act(views))
        total[playing] += batch.step(actions, playing)[0]
    margins = np.concatenate([total[::2, 0], total[1::2, 1]])
    assert margins.mean() > 1


@pytest.mark.parametrize("nonsense", [None, [0.0], "x", np.full(297, np.nan)], ids=str)
def test_what_is_no_observation_is_not_described(nonsense: Any) -> None:
    with pytest.raises(ValueError, match="observation"):
        Encoding("compact", "classic").describe(nonsense)


def test_an_encoding_takes_rules_as_everything_does() -> None:
    by_name = Encoding("compact", "tabletop")
    assert by_name.layout() == Encoding("compact", make_rules("tabletop")).layout()
    with pytest.raises(ValueError, match="type"):
        Encoding("compact", Rules)
