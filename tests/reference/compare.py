"""The compiled engine beside the reference model: random rules, and whole games move by move.

The engine and the model are given the same pack order and the same moves, and everything that they
show must agree at every turn. Tests, ``tests/fuzz_rules.py`` and the golden games share this file.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from escoba_env import Game, Move
from escoba_env.cards import CARD_NAMES, SUITS, card_set, cards_in, parse_card
from escoba_env.engine.record import NOBODY, TWELFTHS
from reference.model import Card, ReferenceGame, RoundReport, full_pack, value
from reference.model import Move as ReferenceMove
from reference.presets import CLASSIC, PRESETS

Fields = dict[str, Any]

TABLES: dict[str, Fields] = {
    "2": {"players": 2},
    "3": {"players": 3},
    "4": {"players": 4},
    "partners": {"players": 4, "partnership": True},
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "capture": ("optional", "card", "hand"),
    "building": (False, True),
    "initial_table": ("play", "dealer", "eldest", "set_aside", "redeal"),
    "initial_thirty": ("groups", "sum"),
    "ties": ("none", "all", "split"),
    "jokers": (0, 2),
    "open_hands": (False, True),
    "capture_by": ("fifteen", "value"),
    "napola": (False, True),
}
POINTS = ("most_cards", "most_oros", "most_sevens", "seven_of_oros", "setenta", "escoba")
CATEGORIES = (
    "most_cards",
    "most_oros",
    "most_sevens",
    "setenta",
    "seven_of_oros",
    "napola",
    "escoba",
)


# Random rules


def random_rules(rng: random.Random, preset: str, table: str, own_pack: bool = False) -> Fields:
    """Draws rules over every field: those of a preset and table with some fields replaced.

    Args:
        rng: Where they are drawn from.
        preset: A key of ``PRESETS``.
        table: A key of ``TABLES``.
        own_pack: Whether the pack, the deal and the sum of a capture are drawn too.

    Returns:
        Every field of rules that the rules page allows.
    """
    fields = {**PRESETS[preset], **TABLES[table]}

    def changed() -> bool:
        return rng.random() > 0.7

    for name, values in CHOICES.items():
        if changed():
            fields[name] = rng.choice(values)
    for name in POINTS:
        if changed():
            fields[name] = rng.choice((0, 1, 1, 2, 7, 1000))
    for most, all_of_them in (("most_oros", "all_oros"), ("most_sevens", "all_sevens")):
        if changed() or fields[all_of_them] < fields[most]:
            fields[all_of_them] = min(1000, fields[most] + rng.randint(0, 2))
    if changed():
        fields["target"] = rng.randint(1, 30)
    if changed():
        fields["partnership_target"] = rng.choice((None, rng.randint(1, 30)))
    # What no source defines together.
    if fields["capture_by"] == "value":
        fields |= {"building": False, "jokers": 0, "initial_table": "play"}
    if fields["building"]:
        fields["jokers"] = 0
    if own_pack:
        fields |= random_pack(rng, fields["players"], fields["jokers"])
        if redeals_for_ever(fields):
            fields["initial_table"] = "play"
    return fields


def random_pack(rng: random.Random, players: int, jokers: int) -> Fields:
    """Draws a pack, a deal that it can serve, and the sum of a capture."""
    ranks = rng.sample(range(1, 11), rng.randint(1, 10))
    suits = rng.sample(SUITS, rng.randint(1, 4))
    if len(ranks) * len(suits) + jokers < players:
        ranks, suits = list(range(1, 11)), list(SUITS)
    cards = len(ranks) * len(suits) + jokers
    hand_size = rng.randint(1, min(8, cards // players))
    # The model lists captures one by one, and of high totals, above all with jokers, there are
    # too many.
    most = 60 if cards <= 12 else 15 if jokers else 18
    return {
        "ranks": tuple(sorted(ranks)),
        "suits": tuple(suit for suit in SUITS if suit in suits),
        "hand_size": hand_size,
        "table_size": rng.randint(0, min(8, cards - players * hand_size)),
        "target_sum": rng.randint(2, most),
    }


def redeals_for_ever(fields: Mapping[str, Any]) -> bool:
    """Tells whether every first table makes fifteen, so that no redeal ever helps.

    There are always two hands beside the table, so only a pack of a single rank can do so.
    """
    return (
        fields["initial_table"] == "redeal"
        and len(fields["ranks"]) == 1
        and not fields["jokers"]
        and fields["ranks"][0] * fields["table_size"] == fields["target_sum"]
    )


def somebody_can_score(fields: Mapping[str, Any]) -> bool:
    """Tells whether a capture is possible and worth something; otherwise no match ever ends."""
    rules = {**CLASSIC, **fields}
    pack = full_pack(rules)
    ordinary = [card for card in pack if card[0] != "J"]
    # Totals of one card, and of two or more.
    single, several = set(), set()
    for card in ordinary:
        several |= {total + value(card) for total in single | several}
        single.add(value(card))
    if rules["capture_by"] == "value":
        possible = bool(single & several) or len(single) < len(ordinary)
    else:
        possible = rules["target_sum"] in several or bool(rules["jokers"])
    points = {
        "most_cards": True,
        "setenta": True,
        "escoba": True,
        "all_oros": any(card[1] == "o" for card in ordinary),
        "all_sevens": any(card[0] == "7" for card in ordinary),
        "seven_of_oros": "7o" in pack,
        "napola": {"1o", "2o", "3o"} <= set(pack),
    }
    return possible and any(rules[name] and scores for name, scores in points.items())


# The same words for both


@lru_cache(1 << 14)
def names(bits: int) -> frozenset[Card]:
    """Returns a card set of the engine as names."""
    return frozenset(CARD_NAMES[card] for card in cards_in(bits))


@lru_cache(1 << 14)
def bits_of(cards: frozenset[Card]) -> int:
    """Returns cards of the model as a card set of the engine."""
    return card_set(map(parse_card, cards))


def engine_move(move: ReferenceMove) -> Move:
    """Returns a move of the model as the engine's."""
    cards = bits_of(move.taken)
    card = parse_card(move.card)
    return Move(card, onto=cards) if move.kind == "set" else Move(card, cards)


def reference_move(move: Move) -> ReferenceMove:
    """Returns a move of the engine as the model's."""
    kind = "capture" if move.taken else "set" if move.onto else "lay"
    return ReferenceMove(CARD_NAMES[move.card], kind, names(move.taken | move.onto))


def deck_of(game: Game) -> list[Card]:
    """Returns the pack in the order in which this round is dealt."""
    return [CARD_NAMES[card] for card in game.record["stock"][: game.rules.pack_size]]


def stock_of(game: Game) -> list[Card]:
    """Returns the cards that have not been dealt, the next one first."""
    record = game.record
    cards = record["stock"][record["stock_next"] : game.rules.pack_size].tolist()
    return [CARD_NAMES[card] for card in cards]


def reference_beside(game: Game, fields: Fields) -> ReferenceGame:
    """Returns a model game that is dealt what the engine's is, in later rounds too.

    Where the engine has dealt a round again, the model is given the last deal.
    """

    def decks() -> Iterator[list[Card]]:
        while True:
            yield deck_of(game)

    return ReferenceGame({**CLASSIC, **fields}, game.dealer, decks())


def twelfths(points: tuple[Fraction, ...] | list[Fraction]) -> list[Fraction]:
    """Returns points as the engine counts them."""
    return [TWELFTHS * number for number in points]


# Side by side


def check_same_turn(
    game: Game, reference: ReferenceGame, moves: Collection[Move] | None = None
) -> set[ReferenceMove]:
    """Compares everything that the two show at the beginning of a turn.

    Args:
        game: The engine's game.
        reference: The model's.
        moves: The game's legal moves where they are known already.

    Returns:
        The model's legal moves.
    """
    record, seats = game.record, range(game.rules.players)
    if moves is None:
        moves = game.legal_moves()
    legal = reference.legal_moves()
    assert {reference_move(move) for move in moves} == legal
    hands, piles = record["hands"].tolist(), record["piles"].tolist()
    assert [names(hands[seat]) for seat in seats] == reference.hands
    assert record["hand_counts"][: len(seats)].tolist() == list(map(len, reference.hands))
    assert [names(piles[seat]) for seat in seats] == reference.piles
    table = [frozenset(CARD_NAMES[card] for card in pile) for pile in game.table_piles]
    assert sorted(map(sorted, table)) == sorted(map(sorted, reference.table))
    assert names(int(record["table"])) == {card for pile in table for card in pile}
    assert names(int(record["set_aside"])) == reference.set_aside
    assert stock_of(game) == reference.stock
    assert record["escobas"][: len(seats)].tolist() == reference.escobas
    capturer = NOBODY if reference.last_capturer is None else reference.last_capturer
    assert record["last_capturer"] == capturer
    assert (game.turn, game.dealer) == (reference.turn, reference.dealer)
    return legal


def check_same_score(game: Game, reference: ReferenceGame) -> None:
    """Compares the score of the round that has just ended, and of the match."""
    sides = game.rules.num_sides
    assert game.record["round_points"][:sides].tolist() == twelfths(reference.reports[-1].total)
    assert game.record["scores"][:sides].tolist() == twelfths(reference.scores)


def check_same_report(game: Game, reference: ReferenceGame) -> None:
    """Compares the report of the round that has just ended, category by category."""
    assert game.report is not None
    wanted = reference.reports[-1]
    counts = counts_of(wanted)
    assert tuple(category.name for category in game.report.categories) == CATEGORIES
    for category in game.report.categories:
        assert category.counts == counts[category.name], category.name
        assert category.points == wanted.points[category.name], category.name
        winners = [side for side, points in enumerate(category.points) if points > 0]
        assert list(category.winners) == winners
    assert game.report.totals == wanted.total
    assert list(game.report.scores) == reference.scores
    assert game.report.round_index == len(reference.reports) - 1


def counts_of(report: RoundReport) -> dict[str, tuple[int, ...]]:
    """Returns what each side has in each category, as the engine's report counts it."""
    return {
        "most_cards": report.cards,
        "most_oros": report.oros,
        "most_sevens": report.sevens,
        "setenta": tuple(total or 0 for total in report.setenta),
        "seven_of_oros": tuple(map(int, report.seven_of_oros)),
        "napola": report.napola,
        "escoba": report.escobas,
    }


def check_same_round_end(game: Game, reference: ReferenceGame) -> None:
    """Compares a finished game of one round with the model's report of it."""
    seats, sides = range(game.rules.players), game.rules.num_sides
    report = reference.reports[-1]
    piles = [names(int(game.record["piles"][seat])) for seat in seats]
    escobas = [
        sum(int(game.record["escobas"][seat]) for seat in seats if seat % sides == side)
        for side in range(sides)
    ]
    assert piles == list(report.piles)
    assert escobas == list(report.escobas)
    unclaimed = set(full_pack(reference.rules)).difference(*piles)
    aside = names(int(game.record["set_aside"]))
    assert names(int(game.record["table"])) | set(stock_of(game)) | aside == unclaimed
    assert aside <= unclaimed


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
    """Plays one game at random and compares it with the model at every turn.

    Args:
        fields: Fields of the rules; those left out are classic.
        episode: ``"round"`` or ``"match"``.
        seed: Seed of the deals and of the moves.
        max_rounds: Rounds after which a match is left.

    Returns:
        The model's game.

    Raises:
        AssertionError: If the two differ.
    """
    rng = random.Random(seed)
    game = Game(fields, episode=episode, reward="win", seed=seed)
    reference = reference_beside(game, fields)
    while not game.is_over and len(reference.reports) < max_rounds:
        moves = game._completions()
        legal = check_same_turn(game, reference, moves)
        move = rng.choice(sorted(moves))
        rounds = len(reference.reports)
        for action in moves[move]:
            game.step(action)
        reference.play(reference_move(move), legal)
        if len(reference.reports) > rounds:
            check_same_score(game, reference)
            check_same_report(game, reference)
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


# Numbered games


COMBINATIONS = [(preset, table) for preset in PRESETS for table in TABLES]


def numbered_game(number: int) -> tuple[str, str, str, Fields, str]:
    """Returns what game ``number`` is: every 128 games in a row hold each combination four times.

    Of these four a round and a match are of the preset as it is, and two of rules drawn around
    it, one of them with a pack of its own.

    Returns:
        The preset, the table, what kind of game, the fields of the rules, and the episode.
    """
    preset, table = COMBINATIONS[number % len(COMBINATIONS)]
    kind = ("round", "varied", "match", "own pack")[number // len(COMBINATIONS) % 4]
    if kind in ("round", "match"):
        return preset, table, kind, {**PRESETS[preset], **TABLES[table]}, kind
    rng = random.Random(f"rules {number}")
    fields = random_rules(rng, preset, table, own_pack=kind == "own pack")
    is_match = rng.random() < 0.25 and somebody_can_score(fields)
    return preset, table, kind, fields, "match" if is_match else "round"


def play_numbered_game(number: int, max_rounds: int) -> ReferenceGame:
    """Plays game ``number`` of ``numbered_game`` beside the model, see there."""
    *_, fields, episode = numbered_game(number)
    return play_beside_the_reference(fields, episode, number, max_rounds)
