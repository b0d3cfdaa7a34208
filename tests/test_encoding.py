"""Encodings: every number of an observation against a slow computation from the game record."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference.model import SETENTA
from test_engine_against_reference import (
    examples,
    games_in_progress,
    playable_games,
)

from escoba_env import Batch, Encoding, Game, Rules, load_policy, make_rules
from escoba_env.cards import CARD_NAMES, LAY, NUM_ACTIONS, SEVEN_OF_OROS, cards_in
from escoba_env.encoding import VERSIONS, Section
from escoba_env.engine.outlook import FACTS, NUM_FACTS
from escoba_env.engine.record import GAME_OVER, NOBODY, STATE, TWELFTHS

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


@every_encoding
@examples(60)
@given(rules_and_episode=playable_games)
def test_sections_cover_every_column_once(name: str, rules_and_episode: tuple[Any, str]) -> None:
    fields, episode = rules_and_episode
    encoding = Encoding(name, make_rules(fields), episode)
    layout = encoding.layout()
    stop = 0
    for key, section in layout.items():
        assert section.name == key
        assert section.start == stop
        assert math.prod(section.shape) > 0
        stop = section.start + math.prod(section.shape)
        assert (section.stop, section.slice) == (stop, slice(section.start, stop))
        assert section.meaning
    assert encoding.size == stop
    assert len(layout) == len(encoding.sections)
    assert encoding.low.shape == encoding.high.shape == (stop,)
    assert encoding.low.dtype == encoding.high.dtype == np.float32
    assert (encoding.low <= encoding.high).all()


def test_there_are_sections_for_what_the_rules_can_use() -> None:
    def names(name: str = "compact", episode: str = "round", **fields: Any) -> list[str]:
        return list(Encoding(name, make_rules(**fields), episode).layout())

    base = [
        "hand", "table", "played", "picked", "captured", "unseen", "hand_counts", "card_counts",
        "oro_counts", "seven_counts", "escobas", "last_capturer", "dealer", "to_move",
        "deals_left",
    ]  # fmt: skip
    assert names() == base
    assert names(episode="match") == [*base, "scores"]
    assert names("tactical", "match") == [*base, "scores", "facts"]
    assert names(open_hands=True) == [*base[:6], "open_hands", *base[6:]]
    no_oros = names(suits=("copas", "bastos"))
    assert set(base) - set(no_oros) == {"oro_counts"}
    no_sevens = names(ranks=(1, 2, 3, 4, 5))
    assert set(base) - set(no_sevens) == {"seven_counts"}


@pytest.mark.parametrize(("players", "compact"), [(2, 297), (3, 345), (4, 393)])
def test_sizes_are_what_trained_policies_expect(players: int, compact: int) -> None:
    """A change here is a new version of the encoding."""
    rules = Rules(players=players)
    assert Encoding("compact", rules).size == compact
    assert Encoding("tactical", rules).size == compact + NUM_ACTIONS * NUM_FACTS
    assert VERSIONS == {"compact": 1, "tactical": 1}


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


def bits_of(cards: int, width: int) -> list[int]:
    """Returns a card set as zeros and ones."""
    return [int(cards) >> card & 1 for card in range(width)]


def one_hot(place: int | None, length: int) -> list[int]:
    """Returns a one at a place; only zeros without place."""
    return [int(place == i) for i in range(length)]


def expected_sections(game: Game, seat: int) -> dict[str, list[Any]]:
    """Returns what each section should hold before counts are scaled, from the game record."""
    record, rules = game.record, game.rules
    seats, width = rules.players, 40
    around = [(seat + i) % seats for i in range(seats)]
    piles = [int(record["piles"][other]) for other in around]
    hands = [int(record["hands"][other]) for other in around]
    played = 0 if record["played"] == NOBODY else 1 << int(record["played"])
    hidden = sum(
        1 << int(card) for card in record["stock"][record["stock_next"] : record["stock_size"]]
    )
    if not rules.open_hands:
        hidden |= sum(hands[1:])
    capturer = int(record["last_capturer"])
    stock = int(record["stock_size"] - record["stock_next"])
    sides = rules.num_sides
    return {
        "hand": bits_of(hands[0], width),
        "table": bits_of(record["table"], width),
        "played": bits_of(played, width),
        "picked": bits_of(record["picked"], width),
        "captured": [bit for pile in piles for bit in bits_of(pile, width)],
        "unseen": bits_of(hidden, width),
        "open_hands": [bit for hand in hands[1:] for bit in bits_of(hand, width)],
        "hand_counts": [hand.bit_count() for hand in hands],
        "card_counts": [pile.bit_count() for pile in piles],
        "oro_counts": [sum(card < 10 for card in cards_in(pile)) for pile in piles],
        "seven_counts": [sum(card % 10 == 6 for card in cards_in(pile)) for pile in piles],
        "escobas": [int(record["escobas"][other]) for other in around],
        "last_capturer": one_hot(None if capturer < 0 else around.index(capturer), seats),
        "dealer": one_hot(around.index(game.dealer), seats),
        "to_move": one_hot(None if game.is_over else around.index(game.turn), seats),
        "deals_left": [stock // (seats * rules.hand_size)],
        "scores": [int(record["scores"][(seat + i) % sides]) / TWELFTHS for i in range(sides)],
    }


def unit_of(section: Section, rules: Rules) -> float:
    """Returns the number that a section's counts are divided by."""
    oros = sum(suit == "oros" for suit in rules.suits) * len(rules.ranks)
    return {
        "hand_counts": rules.hand_size,
        "card_counts": rules.pack_size,
        "oro_counts": oros,
        "seven_counts": len(rules.suits),
        "escobas": 4,
        "deals_left": rules.deals,
        "scores": rules.match_target,
    }.get(section.name, 1)


@every_encoding
@examples(150)
@given(game_and_seat=games_and_seats())
def test_every_section_holds_what_the_seat_knows(
    name: str, game_and_seat: tuple[Game, int]
) -> None:
    game, seat = game_and_seat
    observation = observe(game, seat, name)
    wanted = expected_sections(game, seat)
    for section in Encoding(name, game.rules, game.episode).sections:
        if section.name == "facts":
            continue
        unit = unit_of(section, game.rules)
        expected = np.array(wanted[section.name]) / unit
        assert observation[section.slice] == pytest.approx(expected, rel=1e-6), section.name
        assert section.scale == pytest.approx(1 / unit, rel=1e-6)


@examples(100)
@given(games_and_seats())
def test_describe_names_the_cards_and_counts_of_every_section(
    game_and_seat: tuple[Game, int],
) -> None:
    game, seat = game_and_seat
    encoding = Encoding("tactical", game.rules, game.episode)
    lines = encoding.describe(observe(game, seat, "tactical")).splitlines()
    wanted = expected_sections(game, seat)
    assert [line.split(": ")[0] for line in lines] == list(encoding.layout())
    for line, section in zip(lines, encoding.sections, strict=True):
        text = line.split(": ")[1]
        if section.name == "facts":
            legal = game.legal_actions() if game.turn == seat else []
            names = ["lay" if action == LAY else CARD_NAMES[action] for action in legal]
            assert [part.split()[0] for part in text.split(", ")] == (names or ["-"])
        elif section.shape[-1] == 40:
            rows = np.array(wanted[section.name]).reshape(-1, 40)
            cards = [" ".join(CARD_NAMES[card] for card in np.flatnonzero(row)) for row in rows]
            assert text == " / ".join(part or "-" for part in cards)
        else:
            numbers = [float(part) for part in text.split()]
            assert numbers == pytest.approx(wanted[section.name], rel=1e-4)


def test_describe_refuses_an_observation_of_another_shape() -> None:
    encoding = Encoding("compact", Rules())
    for shape in ((296,), (1, 297), ()):
        with pytest.raises(ValueError, match="297"):
            encoding.describe(np.zeros(shape, np.float32))


def rotated(game: Game, by: int) -> Game:
    """Returns a game in which everybody sits some seats further to the right."""
    seats, sides = game.rules.players, game.rules.num_sides
    record = np.frombuffer(game.get_state(), STATE).copy()
    for name in ("hands", "piles", "hand_counts", "escobas"):
        record[name][0, :seats] = np.roll(record[name][0, :seats], by)
    for name in ("scores", "round_points"):
        record[name][0, :sides] = np.roll(record[name][0, :sides], by)
    for name in ("turn", "dealer", "last_capturer"):
        if record[name][0] != NOBODY:
            record[name] = (record[name][0] + by) % seats
    other = game.clone()
    other.set_state(record.tobytes())
    return other


@every_encoding
@examples(60)
@given(game=games_in_progress())
def test_an_observation_does_not_say_which_chair_a_seat_is(name: str, game: Game) -> None:
    seats = game.rules.players
    for by in range(1, seats):
        other = rotated(game, by)
        for seat in range(seats):
            here, there = observe(game, seat, name), observe(other, (seat + by) % seats, name)
            assert here.tobytes() == there.tobytes()


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
        self.played = int(record["played"])
        self.picked = list(cards_in(record["picked"]))
        unseen = expected_sections(game, game.turn)["unseen"]
        self.unseen = [card for card in range(40) if unseen[card]]
        other = (game.turn + 1) % rules.players
        self.held = int(record["hand_counts"][other])
        if self.held == 0:
            stock = int(record["stock_size"] - record["stock_next"])
            self.held = rules.hand_size if stock >= rules.players * rules.hand_size else 0
        elif rules.open_hands:
            self.unseen = game.hand(other)

    def reply(self, card: int, table: list[int]) -> float:
        """Worth of the best capture with a card; nothing if it has none."""
        found = [0.0]
        for taken in choices(table):
            if value_of(taken) + value_of([card]) == self.rules.target_sum:
                sweep = self.escoba_worth if len(taken) == len(table) else 0
                found.append(self.worth[card] + sum(self.worth[c] for c in taken) + sweep)
        return max(found)

    def hands(self) -> list[tuple[int, ...]] | None:
        """Every hand that the next seat may hold; None if there are too many to list."""
        if math.comb(len(self.unseen), self.held) > 700:
            return None
        return list(itertools.combinations(self.unseen, self.held))

    def expected_reply(self, table: list[int]) -> float:
        """Mean over all hands of the best reply in each."""
        replies = {card: self.reply(card, table) for card in self.unseen}
        hands = self.hands()
        if hands is not None:
            return math.fsum(max((replies[c] for c in hand), default=0) for hand in hands) / len(
                hands
            )
        # The best reply is a hand's best card, so the others are all from those that come after.
        number, ordered = len(self.unseen), sorted(replies.values(), reverse=True)
        return math.fsum(
            reply * math.comb(number - i - 1, self.held - 1) for i, reply in enumerate(ordered)
        ) / math.comb(number, self.held)

    def sweep_chance(self, sweepers: int) -> float:
        """Chance that the next seat holds at least one of so many cards."""
        hands = self.hands()
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
        reply = self.expected_reply(after) if after else 0.0
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
@given(games_in_progress())
def test_facts_are_what_trying_everything_finds(game: Game) -> None:
    assume(not game.is_over and len(game.table) <= 10)
    check_facts(game)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_facts_near_the_end_are_what_trying_every_hand_finds(players: int) -> None:
    """Of the usual pack, in the last deals, where the hands that are left can be listed."""
    listed = 0
    for seed in range(12):
        game = Game(players=players, seed=seed, capture=["optional", "card", "hand"][seed % 3])
        rng = np.random.default_rng(seed)
        while not game.is_over:
            unseen = sum(expected_sections(game, game.turn)["unseen"])
            if unseen <= 9 and len(game.table) <= 9:
                assert Outlook(game).hands() is not None
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


@examples(100)
@given(games_in_progress())
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
