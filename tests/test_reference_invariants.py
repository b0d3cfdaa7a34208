"""Laws that whole random games of the reference model keep, under every preset and many rules.

The model is held against itself and against the facts of the rules page here, never against the
engine, which this file must not import.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from reference.model import (
    Card,
    Move,
    Pile,
    ReferenceGame,
    RoundReport,
    captures,
    full_pack,
    in_order,
    is_joker,
    match_target,
    pile_total,
    value,
)
from reference.presets import PRESETS, Rules, rules_for


class Snapshot(NamedTuple):
    """Everything a game shows between two moves."""

    hands: list[set[Card]]
    table: list[Pile]
    piles: list[set[Card]]
    set_aside: set[Card]
    stock: list[Card]
    turn: int
    dealer: int
    last_capturer: int | None
    escobas: list[int]
    round_index: int
    scores: list[Fraction]
    match_over: bool
    winner: int | None


class Turn(NamedTuple):
    """One play of a recorded game; `report` is of the round that the play ends, if any."""

    before: Snapshot
    legal: set[Move]
    move: Move
    after: Snapshot
    report: RoundReport | None


def snapshot(game: ReferenceGame) -> Snapshot:
    """Returns a copy of what the game shows."""
    return Snapshot(
        hands=[set(hand) for hand in game.hands],
        table=list(game.table),
        piles=[set(pile) for pile in game.piles],
        set_aside=set(game.set_aside),
        stock=list(game.stock),
        turn=game.turn,
        dealer=game.dealer,
        last_capturer=game.last_capturer,
        escobas=list(game.escobas),
        round_index=game.round_index,
        scores=list(game.scores),
        match_over=game.match_over,
        winner=game.winner,
    )


def shuffled_packs(rules: Rules, rng: random.Random) -> Iterator[list[Card]]:
    """Yields pack orders without end."""
    pack = full_pack(rules)
    while True:
        yield rng.sample(pack, len(pack))


def record(rules: Rules, seed: int, max_rounds: int) -> list[list[Turn]]:
    """Plays a match at random, or its first rounds, and returns the turns of each round."""
    rng = random.Random(seed)
    game = ReferenceGame(rules, rng.randrange(rules["players"]), shuffled_packs(rules, rng))
    rounds: list[list[Turn]] = []
    turns: list[Turn] = []
    while not game.match_over and len(rounds) < max_rounds:
        before, legal = snapshot(game), game.legal_moves()
        move = rng.choice(in_order(legal))
        game.play(move)
        ended = len(game.reports) > len(rounds)
        turns.append(Turn(before, legal, move, snapshot(game), game.reports[-1] if ended else None))
        if ended:
            rounds.append(turns)
            turns = []
    return rounds


def random_rules(seed: int) -> Rules:
    """Returns a random combination of rules that the rules page allows, small packs among them."""
    rng = random.Random(f"rules {seed}")
    fields: dict[str, Any] = {
        "players": rng.choice([2, 3, 4]),
        "capture": rng.choice(["optional", "card", "hand"]),
        "building": rng.random() < 0.3,
        "initial_table": rng.choice(["play", "dealer", "eldest", "set_aside", "redeal"]),
        "initial_thirty": rng.choice(["groups", "sum"]),
        "ties": rng.choice(["none", "all", "split"]),
        "setenta": rng.choice([0, 1]),
        "escoba": rng.choice([0, 1, 2]),
        "target": rng.choice([5, 11, 21]),
        "partnership_target": rng.choice([None, 30]),
        "napola": rng.random() < 0.5,
        "capture_by": rng.choice(["fifteen", "fifteen", "value"]),
    }
    for most, all_of_them in (("most_oros", "all_oros"), ("most_sevens", "all_sevens")):
        fields[most] = rng.choice([0, 1, 2])
        fields[all_of_them] = fields[most] + rng.choice([0, 1])
    fields["partnership"] = fields["players"] == 4 and rng.random() < 0.5
    if fields["capture_by"] == "value":
        fields.update(building=False, initial_table="play")
    elif not fields["building"]:
        fields["jokers"] = rng.choice([0, 2])
    if rng.random() < 0.6:
        fields["ranks"] = tuple(sorted(rng.sample(range(1, 11), rng.randint(3, 10))))
        suits = ["oros", "copas", "espadas", "bastos"]
        fields["suits"] = tuple(rng.sample(suits, rng.randint(2, 4)))
        fields["target_sum"] = rng.randint(6, 20)
        cards = len(fields["ranks"]) * len(fields["suits"])
        fields["hand_size"] = rng.randint(1, min(4, cards // fields["players"]))
        fields["table_size"] = rng.randint(
            0, min(5, cards - fields["players"] * fields["hand_size"])
        )
    return rules_for(**fields)


TABLES = {
    "2": {"players": 2},
    "3": {"players": 3},
    "4": {"players": 4},
    "partners": {"players": 4, "partnership": True},
}
PRESET_VARIANTS = {
    f"{preset}-{table}": rules_for(preset, **fields)
    for preset in PRESETS
    for table, fields in TABLES.items()
}
RANDOM_VARIANTS = {f"random-{seed}": random_rules(seed) for seed in range(60)}
# Long matches of what no preset has and the random rules seldom meet.
HOUSE_VARIANTS = {
    "eldest": rules_for(initial_table="eldest", initial_thirty="sum", target=150),
    "redeal": rules_for(initial_table="redeal", capture="hand", target=150),
}
VARIANTS = PRESET_VARIANTS | HOUSE_VARIANTS | RANDOM_VARIANTS
# Where every capture removes the target sum.
FIFTEEN = [
    name
    for name, rules in VARIANTS.items()
    if rules["jokers"] == 0 and rules["capture_by"] == "fifteen"
]
PRESET_FIFTEEN = [name for name in FIFTEEN if name in PRESET_VARIANTS]
FORCED_FIFTEEN = [name for name in PRESET_FIFTEEN if VARIANTS[name]["capture"] == "card"]

every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_preset = pytest.mark.parametrize("variant", PRESET_VARIANTS)


@functools.cache
def recorded(variant: str) -> list[list[Turn]]:
    """Returns the rounds of a match; the first ones under random rules, which may never end."""
    max_rounds = 12 if variant in RANDOM_VARIANTS else 200
    return record(VARIANTS[variant], seed=15, max_rounds=max_rounds)


def turns_of(variant: str) -> Iterator[Turn]:
    """Yields every recorded turn."""
    return itertools.chain.from_iterable(recorded(variant))


def cards_on(table: Iterable[Pile]) -> set[Card]:
    """Returns the cards of some piles."""
    return {card for pile in table for card in pile}


def leftovers(turn: Turn) -> set[Card]:
    """Returns the cards that nobody had captured after the last play of a round."""
    on_table = cards_on(turn.before.table) | {turn.move.card}
    if turn.move.kind == "capture":
        on_table -= turn.move.taken | {turn.move.card}
    return on_table | set(turn.before.stock)


def sweeps(turn: Turn) -> bool:
    """Tells whether a play takes every card of the table."""
    return turn.move.kind == "capture" and turn.move.taken == cards_on(turn.before.table)


def brute_force_captures(rules: Rules, card: Card, table: list[Pile]) -> set[frozenset[Card]]:
    """Tries every choice of piles: another wording of sections 1, 6 and 7."""
    found = set()
    for size in range(1, len(table) + 1):
        for chosen in itertools.combinations(table, size):
            cards = frozenset(cards_on(chosen))
            ordinary = [one for one in (*cards, card) if not is_joker(one)]
            jokers = len(cards) + 1 - len(ordinary)
            if rules["capture_by"] == "value":
                fits = pile_total(cards) == value(card)
            elif jokers:
                fits = pile_total(ordinary) <= rules["target_sum"] - jokers
            else:
                fits = pile_total(ordinary) == rules["target_sum"]
            if fits:
                found.add(cards)
    if rules["capture_by"] == "value" and any(len(cards) == 1 for cards in found):
        found = {cards for cards in found if len(cards) == 1}
    return found


@every_variant
def test_every_card_is_in_exactly_one_place(variant: str) -> None:
    pack = sorted(full_pack(VARIANTS[variant]))
    for turn in turns_of(variant):
        for shown in (turn.before, turn.after):
            places = [*shown.hands, *shown.table, *shown.piles, shown.set_aside, shown.stock]
            assert sorted(itertools.chain.from_iterable(places)) == pack


@every_preset
def test_a_round_has_36_turns_in_six_four_or_three_deals(variant: str) -> None:
    players = PRESET_VARIANTS[variant]["players"]
    for turns in recorded(variant):
        assert len(turns) == 36
        full_hands = [turn for turn in turns if all(len(hand) == 3 for hand in turn.before.hands)]
        assert len(full_hands) == {2: 6, 3: 4, 4: 3}[players]


@every_variant
def test_hands_are_dealt_only_when_all_are_empty_and_while_the_stock_serves_all(
    variant: str,
) -> None:
    rules = VARIANTS[variant]
    each_deal = rules["players"] * rules["hand_size"]
    deals = (len(full_pack(rules)) - rules["table_size"]) // each_deal
    for turns in recorded(variant):
        assert len(turns) == deals * each_deal
        for number, turn in enumerate(turns):
            played = number % each_deal
            in_hand = [len(hand) for hand in turn.before.hands]
            assert sum(in_hand) == each_deal - played
            assert max(in_hand) - min(in_hand) <= 1
            dealt = number // each_deal + 1
            assert len(turn.before.stock) == len(full_pack(rules)) - rules["table_size"] - (
                dealt * each_deal
            )


@every_variant
def test_play_runs_to_the_right_from_the_eldest_hand(variant: str) -> None:
    players = VARIANTS[variant]["players"]
    for turns in recorded(variant):
        for number, turn in enumerate(turns):
            assert turn.before.turn == (turn.before.dealer + 1 + number) % players


@every_variant
def test_the_deal_passes_one_seat_to_the_right_every_round(variant: str) -> None:
    players = VARIANTS[variant]["players"]
    rounds = recorded(variant)
    first = rounds[0][0].before.dealer
    for index, turns in enumerate(rounds):
        assert {turn.before.dealer for turn in turns} == {(first + index) % players}
        assert {turn.before.round_index for turn in turns} == {index}


@every_variant
def test_captures_are_those_that_trying_every_choice_finds(variant: str) -> None:
    rules = VARIANTS[variant]
    for turn in turns_of(variant):
        table = turn.before.table
        if len(table) > 10:
            continue
        for card in turn.before.hands[turn.before.turn]:
            wanted = brute_force_captures(rules, card, table)
            assert captures(rules, card, table) == wanted
            offered = {
                move.taken for move in turn.legal if move.card == card and move.kind == "capture"
            }
            assert offered == wanted


@every_variant
def test_capture_is_as_forced_as_the_rules_say(variant: str) -> None:
    rules = VARIANTS[variant]
    for turn in turns_of(variant):
        hand = turn.before.hands[turn.before.turn]
        capturing = {move.card for move in turn.legal if move.kind == "capture"}
        leaving = {move.card for move in turn.legal if move.kind != "capture"}
        assert turn.legal
        assert capturing | leaving <= hand
        if rules["building"]:
            if rules["capture"] == "card":
                assert not capturing & leaving
        elif rules["capture"] == "optional":
            assert leaving == hand
        elif rules["capture"] == "card":
            assert leaving == hand - capturing
        else:
            assert leaving == (set() if capturing else hand)


@every_variant
def test_piles_stay_below_the_target_and_single_without_building(variant: str) -> None:
    rules = VARIANTS[variant]
    for turn in turns_of(variant):
        for pile in turn.after.table:
            assert len(pile) == 1 or (rules["building"] and pile_total(pile) < rules["target_sum"])
        assert rules["building"] or all(move.kind != "set" for move in turn.legal)


@every_variant
def test_only_building_with_every_card_stuck_lays_beside_four_piles(variant: str) -> None:
    rules = VARIANTS[variant]
    for turn in turns_of(variant):
        if rules["building"] and len(turn.before.table) >= 4:
            lays = {move for move in turn.legal if move.kind == "lay"}
            hand = turn.before.hands[turn.before.turn]
            assert not lays or turn.legal == {Move(card, "lay") for card in hand}


@every_variant
def test_a_move_changes_only_what_it_says(variant: str) -> None:
    for turn in turns_of(variant):
        if turn.report is not None:
            continue
        seat, move = turn.before.turn, turn.move
        added = {move.card} | move.taken if move.kind == "capture" else set()
        for other, pile in enumerate(turn.before.piles):
            assert turn.after.piles[other] == (pile | added if other == seat else pile)
        table = cards_on(turn.before.table)
        assert cards_on(turn.after.table) == (table - added if added else table | {move.card})
        assert turn.after.last_capturer == (seat if added else turn.before.last_capturer)


@every_variant
def test_an_escoba_is_a_sweep_without_joker_and_in_scopa_not_the_last_card(variant: str) -> None:
    rules = VARIANTS[variant]
    for turn in turns_of(variant):
        counts = sweeps(turn) and not any(map(is_joker, turn.move.taken | {turn.move.card}))
        if rules["capture_by"] == "value" and turn.report is not None:
            counts = False
        after = list(turn.before.escobas)
        after[turn.before.turn] += counts
        if turn.report is None:
            assert turn.after.escobas == after
        elif rules["partnership"]:
            assert turn.report.escobas == (after[0] + after[2], after[1] + after[3])
        else:
            assert turn.report.escobas == tuple(after)


@every_variant
def test_first_table_cards_are_given_only_for_fifteen_or_thirty(variant: str) -> None:
    rules = VARIANTS[variant]
    for turns in recorded(variant):
        first = turns[0].before
        given = set().union(*first.piles)
        if given:
            assert rules["initial_table"] in {"dealer", "eldest"}
            to = first.dealer if rules["initial_table"] == "dealer" else first.turn
            assert first.piles[to] == given
            assert pile_total(given) == rules["target_sum"] * first.escobas[to]
            assert (first.table, first.last_capturer) == ([], to)
        elif first.set_aside:
            assert rules["initial_table"] == "set_aside"
            assert pile_total(first.set_aside) == rules["target_sum"]
            assert (first.table, first.last_capturer) == ([], None)
        else:
            table = cards_on(first.table)
            assert len(first.table) == len(table) == rules["table_size"]
            if rules["initial_table"] != "play" and not any(map(is_joker, table)):
                assert pile_total(table) != rules["target_sum"]
        assert sum(first.escobas) == 0 or given


@every_variant
def test_leftovers_go_to_the_last_to_capture(variant: str) -> None:
    for turns in recorded(variant):
        turn = turns[-1]
        assert turn.report is not None
        captured = turn.before.last_capturer
        piles = [set(pile) for pile in turn.before.piles]
        if turn.move.kind == "capture":
            captured = turn.before.turn
            piles[captured] |= turn.move.taken | {turn.move.card}
        if captured is not None:
            piles[captured] |= leftovers(turn)
        assert list(turn.report.piles) == piles


@pytest.mark.parametrize("variant", PRESET_FIFTEEN)
def test_leftovers_total_ten_modulo_fifteen_and_the_last_card_never_sweeps(variant: str) -> None:
    for turns in recorded(variant):
        assert pile_total(leftovers(turns[-1])) % 15 == 10
        assert not sweeps(turns[-1])


@pytest.mark.parametrize("variant", FIFTEEN)
def test_captures_and_first_tables_leave_the_rest_modulo_the_target(variant: str) -> None:
    rules = VARIANTS[variant]
    pack = pile_total(full_pack(rules))
    for turns in recorded(variant):
        left = pile_total(leftovers(turns[-1]))
        assert (pack - left) % rules["target_sum"] == 0


@pytest.mark.parametrize("variant", FORCED_FIFTEEN)
def test_with_forced_capture_somebody_always_captures(variant: str) -> None:
    for turns in recorded(variant):
        report = turns[-1].report
        assert report is not None
        assert sum(report.cards) == 40 - len(turns[0].before.set_aside)


@every_variant
def test_scores_grow_by_the_totals_of_the_reports(variant: str) -> None:
    scores = recorded(variant)[0][0].before.scores
    assert set(scores) == {0}
    for turn in turns_of(variant):
        if turn.report is not None:
            scores = [old + new for old, new in zip(scores, turn.report.total, strict=True)]
        assert turn.after.scores == scores


@every_variant
def test_a_reports_total_is_the_sum_of_its_categories(variant: str) -> None:
    rules = VARIANTS[variant]
    for turn in turns_of(variant):
        report = turn.report
        if report is None:
            continue
        for side, total in enumerate(report.total):
            assert total == sum(points[side] for points in report.points.values())
            assert report.points["escoba"][side] == rules["escoba"] * report.escobas[side]
        assert sum(report.cards) == sum(map(len, report.piles))
        assert sum(report.seven_of_oros) <= 1
        assert sum(report.points["seven_of_oros"]) == (
            rules["seven_of_oros"] * sum(report.seven_of_oros)
        )


@every_variant
def test_a_majority_is_worth_its_points_once_unless_ties_score_for_all(variant: str) -> None:
    rules = VARIANTS[variant]
    for turn in turns_of(variant):
        if turn.report is None:
            continue
        for category, counts in (
            ("most_cards", turn.report.cards),
            ("most_oros", turn.report.oros),
            ("most_sevens", turn.report.sevens),
            ("setenta", [total or 0 for total in turn.report.setenta]),
        ):
            points = turn.report.points[category]
            leaders = [side for side, count in enumerate(counts) if count == max(counts)]
            assert all(points[side] == 0 for side in range(len(counts)) if side not in leaders)
            assert len({points[side] for side in leaders}) == 1
            if rules["ties"] == "none" and len(leaders) > 1:
                assert sum(points) == 0
            if rules["ties"] == "split":
                all_of_them = {"most_oros": "all_oros", "most_sevens": "all_sevens"}
                worth = {0, rules[category], rules[all_of_them.get(category, category)]}
                assert sum(points) in worth


@every_preset
def test_a_match_ends_with_the_first_round_that_leaves_one_side_on_top_past_the_target(
    variant: str,
) -> None:
    target = match_target(PRESET_VARIANTS[variant])
    rounds = recorded(variant)
    for turns in rounds:
        end = turns[-1].after
        highest = max(end.scores)
        decided = highest >= target and end.scores.count(highest) == 1
        assert decided == end.match_over == (turns is rounds[-1])
        assert end.winner == (end.scores.index(highest) if decided else None)


@pytest.mark.parametrize("table", TABLES)
def test_open_hands_change_nothing_in_play(table: str) -> None:
    assert recorded(f"open_table-{table}") == recorded(f"argentine-{table}")


@every_preset
def test_an_illegal_move_is_refused_and_changes_nothing(variant: str) -> None:
    rules, rng = PRESET_VARIANTS[variant], random.Random(7)
    game = ReferenceGame(rules, 0, shuffled_packs(rules, rng))
    while not game.reports:
        legal = game.legal_moves()
        card, other = rng.sample(full_pack(rules), 2)
        tried = [
            Move(card, "lay"),
            Move(card, "capture", frozenset([other])),
            Move(card, "capture"),
            Move(card, "set", frozenset([other])),
            Move(card, "pass"),
        ]
        for move in set(tried) - legal:
            before = snapshot(game)
            with pytest.raises(ValueError, match="not a legal move"):
                game.play(move)
            assert snapshot(game) == before
        game.play(rng.choice(in_order(legal)))


def test_the_recorded_games_reach_what_the_laws_speak_of() -> None:
    """A law that no recorded game touches would be kept by anything."""
    seen = set()
    for variant, rules in VARIANTS.items():
        for turns in recorded(variant):
            first, last = turns[0].before, turns[-1]
            assert last.report is not None
            if sum(first.escobas):
                seen.add(f"given to the {rules['initial_table']}")
            if first.set_aside:
                seen.add("set aside")
            if sum(last.report.cards) < len(full_pack(rules)) - len(first.set_aside):
                seen.add("unclaimed")
            if sweeps(last):
                seen.add(f"last card sweeps by {rules['capture_by']}")
            if any(length and rules["napola"] for length in last.report.napola):
                seen.add("napola")
            if any(score.denominator > 1 for score in last.after.scores):
                seen.add("split")
            for turn in turns:
                seen.add(turn.move.kind)
                if sweeps(turn) and any(map(is_joker, turn.move.taken | {turn.move.card})):
                    seen.add("sweep with a joker")
                if turn.move.kind == "lay" and rules["building"] and len(turn.before.table) >= 4:
                    seen.add("stuck")
    assert seen == {
        "capture",
        "given to the dealer",
        "given to the eldest",
        "last card sweeps by fifteen",
        "last card sweeps by value",
        "lay",
        "napola",
        "set",
        "set aside",
        "split",
        "stuck",
        "sweep with a joker",
        "unclaimed",
    }
