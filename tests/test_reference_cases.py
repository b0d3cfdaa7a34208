"""The worked positions of `cases/positions.jsonl`, and some more, against the reference model.

Every key of a case is either checked or prose: a case with a key that nothing here knows fails.
This file must not import the engine.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from reference.model import (
    Card,
    Move,
    Pile,
    ReferenceGame,
    RoundReport,
    captures,
    choices_totalling,
    full_pack,
    in_order,
    initial_escobas,
    is_thirty,
    majority,
    match_target,
    match_winner,
    napola_length,
    pile_total,
    score_round,
    setenta_total,
    value,
)
from reference.presets import PRESETS, Rules, rules_for

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "positions.jsonl").read_text().splitlines()
]
PROSE = {"note", "reason"}


# Building positions


def singles(cards: Iterable[Card]) -> list[Pile]:
    """Returns a table on which every card is a pile of its own."""
    return [frozenset([card]) for card in cards]


def card_sets(lists: Sequence[Sequence[Card]]) -> set[frozenset[Card]]:
    """Returns lists of cards as sets, refusing a list given twice."""
    found = {frozenset(cards) for cards in lists}
    assert len(found) == len(lists)
    return found


def deck_with(rules: Rules, table: Sequence[Card], hands: Sequence[Card] = ()) -> list[Card]:
    """Returns a pack order that deals `hands` first and lays `table`."""
    rest = [card for card in full_pack(rules) if card not in table and card not in hands]
    dealt = rules["players"] * rules["hand_size"] - len(hands)
    return [*hands, *rest[:dealt], *table, *rest[dealt:]]


def position(rules: Rules, hand: Iterable[Card], table: Sequence[Pile]) -> ReferenceGame:
    """Returns a game in mid-round, seat 0 to move with `hand`, nothing captured yet.

    The other seats hold one card each and the rest of the pack is stock, so the round goes on.
    """
    decks = itertools.repeat(full_pack(rules))
    game = ReferenceGame(rules, dealer=rules["players"] - 1, decks=decks)
    used = set(hand).union(*table)
    rest = [card for card in full_pack(rules) if card not in used]
    game.hands = [set(hand), *({rest.pop()} for _ in range(rules["players"] - 1))]
    game.table = list(table)
    game.stock = rest
    return game


def last_card_position(
    rules: Rules,
    table: Sequence[Card],
    last: Card,
    piles: Sequence[set[Card]],
    last_capturer: int | None,
    scores: Sequence[int] | None = None,
) -> ReferenceGame:
    """Returns a game in which the last seat is about to play the last card of the round."""
    seat = rules["players"] - 1
    decks = itertools.repeat(full_pack(rules))
    game = ReferenceGame(rules, dealer=seat, decks=decks, scores=scores)
    game.hands = [set() for _ in range(seat)] + [{last}]
    game.table = singles(table)
    game.piles = [set(pile) for pile in piles]
    game.stock = []
    game.turn = seat
    game.last_capturer = last_capturer
    return game


def random_round(
    rules: Rules, rng: random.Random, dealer: int = 0, scores: Sequence[int] | None = None
) -> tuple[ReferenceGame, int, int, list[Card]]:
    """Plays one round at random.

    Returns:
        The game, the turns of the round, its deals, and the leftovers.
    """

    def decks() -> Iterable[list[Card]]:
        while True:
            yield rng.sample(full_pack(rules), len(full_pack(rules)))

    game = ReferenceGame(rules, dealer, decks(), scores)
    turns, deals = 0, 1
    while not game.reports:
        move = rng.choice(in_order(game.legal_moves()))
        leftovers = [card for pile in game.table for card in pile] + [move.card]
        if move.kind == "capture":
            leftovers = [card for card in leftovers[:-1] if card not in move.taken]
        leftovers += game.stock
        cards_in_hand = sum(map(len, game.hands))
        game.play(move)
        turns += 1
        deals += not game.reports and sum(map(len, game.hands)) > cards_in_hand
    return game, turns, deals, leftovers


def piles_with(counts: Sequence[Mapping[str, Any]]) -> list[set[Card]]:
    """Returns a pile for each side with the given cards, oros, sevens and seven of oros.

    A count that is not given is as low as the others allow.
    """
    pack = full_pack(rules_for())
    pools = {
        "velo": ["7o"],
        "sevens": [card for card in pack if card[0] == "7" and card != "7o"],
        "oros": [card for card in pack if card[1] == "o" and card != "7o"],
        "others": [card for card in pack if card[0] != "7" and card[1] != "o"],
    }
    piles = []
    for count in counts:
        velo = int(count.get("velo", False))
        sevens = count.get("sevens", velo) - velo
        oros = count.get("oros", velo) - velo
        others = count.get("cards", velo + sevens + oros) - velo - sevens - oros
        pile: set[Card] = set()
        for kind, number in (("velo", velo), ("sevens", sevens), ("oros", oros)):
            pile |= {pools[kind].pop() for _ in range(number)}
        piles.append(pile | {pools["others"].pop() for _ in range(others)})
    return piles


@functools.cache
def leftover_sums_seen() -> frozenset[int]:
    """Returns the totals of the leftovers of many random rounds."""
    rng = random.Random(15)
    return frozenset(pile_total(random_round(rules_for(), rng)[3]) for _ in range(400))


# One function per kind of case. Each takes out of `given` and `expect` what it has dealt with.

Part = dict[str, Any]


def check_captures(rules: Rules, given: Part, expect: Part) -> None:
    """A played card and a table: the captures on offer, and which of them is an escoba."""
    played, table = given.pop("played"), singles(given.pop("table"))
    wanted = card_sets(expect.pop("captures"))
    assert captures(rules, played, table) == wanted
    game = position(rules, [played], table)
    assert {move.taken for move in game.legal_moves() if move.kind == "capture"} == wanted
    if "escoba_with" in expect:
        game.play(Move(played, "capture", frozenset(expect.pop("escoba_with"))))
        assert game.escobas == [1, 0]
        assert game.table == []


def check_subsets(rules: Rules, given: Part, expect: Part) -> None:
    """The sets of cards that make fifteen, whichever of them is the one played."""
    table = given.pop("table")
    wanted = card_sets(expect.pop("subsets"))
    assert choices_totalling(singles(table), rules["target_sum"]) == wanted
    assert {
        taken | {played}
        for played in table
        for taken in captures(rules, played, singles(set(table) - {played}))
    } == wanted


def check_move(rules: Rules, given: Part, expect: Part) -> None:
    """A move in a position: legal or not, and what it leaves."""
    hand, table = given.pop("hand"), given.pop("table")
    played, capture = given.pop("played"), given.pop("capture")
    move = Move(played, "capture" if capture else "lay", frozenset(capture))
    game = position(rules, hand, singles(table))
    if not expect.pop("legal"):
        with pytest.raises(ValueError, match="not a legal move"):
            game.play(move)
        assert game.hands[0] == set(hand)
        assert game.table == singles(table)
        assert game.turn == 0
        return
    game.play(move)
    assert set(game.table) == set(singles(expect.pop("table_after")))
    if "escoba" in expect:
        assert game.escobas == [int(expect.pop("escoba")), 0]


def check_initial_table(rules: Rules, given: Part, expect: Part) -> None:
    """The first table cards: who gets them and for how many escobas."""
    table = given.pop("table")
    assert pile_total(table) == given.pop("sum")
    dealer, eldest = 1, 0
    game = ReferenceGame(rules, dealer, [deck_with(rules, table)])
    to = expect.pop("to", None)
    seat = {"dealer": dealer, "first player": eldest, None: None}[to]
    if seat is not None:
        assert game.piles[seat] == set(table)
        assert game.piles[1 - seat] == set()
        assert game.last_capturer == seat
    if "escobas" in expect:
        escobas = expect.pop("escobas")
        assert initial_escobas(rules, table) == escobas
        assert sum(game.escobas) == escobas
        if seat is not None:
            assert game.escobas[seat] == escobas
        if escobas == 0:
            assert set(game.table) == set(singles(table))
            assert game.last_capturer is None
    if "table_after" in expect:
        assert game.table == singles(expect.pop("table_after"))
    if "last_capturer" in expect:
        wanted = {"dealer": dealer, "first player": eldest}[expect.pop("last_capturer")]
        assert game.last_capturer == wanted
    if "dealer_pile_size" in expect:
        assert len(game.piles[dealer]) == expect.pop("dealer_pile_size")


def check_majority(rules: Rules, given: Part, expect: Part) -> None:
    """The points of one category for the counts of the sides."""
    kind, counts = given.pop("category"), given.pop("counts")
    points = expect.pop("points")
    assert majority(counts, rules[f"most_{kind}"], rules["ties"]) == points
    mark = {"cards": "", "oros": "o", "sevens": "7"}[kind]
    pool = [card for card in full_pack(rules) if mark in card]
    piles = [{pool.pop() for _ in range(count)} for count in counts]
    report = score_round(rules, piles, [0] * len(piles))
    assert list(report.points[f"most_{kind}"]) == points


def check_setenta(rules: Rules, given: Part, expect: Part) -> None:
    """The setenta totals of some piles and who wins the category."""
    piles = given.pop("piles")
    totals = [setenta_total(pile, rules["suits"]) for pile in piles]
    report = score_round(rules, piles, [0] * len(piles))
    assert list(report.setenta) == totals
    for key in ("totals", "totals_scale21"):
        if key in expect:
            assert totals == expect.pop(key)
    if "winner" in expect:
        winner = expect.pop("winner")
        assert [bool(points) for points in report.points["setenta"]] == [
            side == winner for side in range(len(piles))
        ]


def check_round_score(rules: Rules, given: Part, expect: Part) -> None:
    """The score of a round, from piles or from counts of them."""
    if "before" in given:
        check_running_score(rules, given, expect)
        return
    if "team_counts" in given:
        check_partners_are_counted_together(rules, given, expect)
        return

    escobas = given.pop("escobas", {})
    counts = given.pop("counts", None)
    if counts is not None:
        names = list(counts)
        piles = piles_with(list(counts.values()))
    else:
        named_piles = given.pop("piles", {name: [] for name in escobas})
        names = list(named_piles)
        piles = [set(pile) for pile in named_piles.values()]
    report = score_round(rules, piles, [escobas.get(name, 0) for name in names])
    for kind in ("cards", "oros", "sevens"):
        for name, count in (counts or {}).items():
            if kind in count:
                assert getattr(report, kind)[names.index(name)] == count[kind]

    def only_winner(category: str) -> str | None:
        winners = [name for name, won in zip(names, report.points[category], strict=True) if won]
        return winners[0] if len(winners) == 1 else None

    def by_name(values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(names, values, strict=True))

    for key, category in (
        ("cards", "most_cards"),
        ("oros", "most_oros"),
        ("sevens", "most_sevens"),
        ("velo", "seven_of_oros"),
    ):
        if key in expect:
            assert only_winner(category) == expect.pop(key)
    if "setenta" in expect:
        assert by_name(report.setenta) == expect.pop("setenta")
    if "escoba_points" in expect:
        assert by_name(report.points["escoba"]) == expect.pop("escoba_points")
    if "sevens_plus_velo" in expect:
        (name,) = names
        points = report.points["most_sevens"][0] + report.points["seven_of_oros"][0]
        assert points == expect.pop("sevens_plus_velo")
    if "points" in expect:
        assert by_name(report.total) == expect.pop("points")


def check_running_score(rules: Rules, given: Part, expect: Part) -> None:
    """The points of a round are added to the score before it."""
    piles = piles_with(
        [
            {"cards": 23, "oros": 6, "sevens": 3, "velo": True},
            {"cards": 17, "oros": 4, "sevens": 1, "velo": False},
        ]
    )
    before = [given.pop("before"), 0]
    last = piles[1].pop()
    game = last_card_position(rules, [], last, piles, last_capturer=1, scores=before)
    game.play(Move(last, "lay"))
    assert game.reports[0].total[0] == given.pop("round")
    assert game.scores[0] == expect.pop("after")


def check_partners_are_counted_together(rules: Rules, given: Part, expect: Part) -> None:
    """Card counts by seat of two teams; nothing but the cards is given, so only they count."""
    teams = given.pop("team_counts")
    rules = {**rules, "players": 4, "partnership": True}
    by_seat = [count for seats in zip(*teams.values(), strict=True) for count in seats]
    pool = full_pack(rules)
    piles = [{pool.pop() for _ in range(count)} for count in by_seat]
    report = score_round(rules, piles, [0] * 4)
    assert list(report.cards) == [sum(counts) for counts in teams.values()]
    points = dict(zip(teams, report.points["most_cards"], strict=True))
    assert points == expect.pop("points")


def check_round_end(rules: Rules, given: Part, expect: Part) -> None:
    """What happens to the leftovers."""
    if "possible" in expect:
        left = given.pop("left", None)
        total = given.pop("left_sum", None) if left is None else pile_total(left)
        assert (total in leftover_sums_seen()) == expect.pop("possible")
        if left is not None:
            rest = set(full_pack(rules)) - set(left)
            game = last_card_position(rules, left[:-1], left[-1], [rest, set()], last_capturer=1)
            game.play(Move(left[-1], "lay"))
            assert game.reports[0].piles == (frozenset(rest), frozenset(left))
    elif "script" in given:
        check_scripted_end(rules, given, expect)
    elif "pile_sizes" in given:
        left, sizes = given.pop("left"), given.pop("pile_sizes")
        pool = [card for card in full_pack(rules) if card not in left]
        piles = [{pool.pop() for _ in range(size)} for size in sizes]
        game = last_card_position(rules, left[:-1], left[-1], piles, given.pop("last_capturer"))
        game.play(Move(left[-1], "lay"))
        assert list(game.reports[0].cards) == expect.pop("pile_sizes")
        assert list(game.reports[0].escobas) == expect.pop("escobas_added")
    elif "last_capturer" in given:
        # P1 lays an ace, P2 takes the king with a 5, and nobody captures again.
        seats = {"P1": 0, "P2": 1}
        game = position(rules, ["1o", "2c"], singles(["Ro"]))
        game.hands[1] = {"5c", "3e"}
        game.stock = []
        for move in (Move("1o", "lay"), Move("5c", "capture", frozenset(["Ro"]))):
            game.play(move)
        assert game.last_capturer == seats[given.pop("last_capturer")]
        for move in (Move("2c", "lay"), Move("3e", "lay")):
            game.play(move)
        to = seats[expect.pop("to")]
        assert game.reports[0].piles[to] == {"Ro", "5c", "1o", "2c", "3e"}
        assert game.reports[0].piles[1 - to] == set()
        assert sum(game.reports[0].escobas) == expect.pop("escobas_added")
    else:
        # The round decides the match, so that no new table is dealt.
        game, *_ = random_round(rules, random.Random(40), scores=[100, 0])
        assert game.match_over
        assert len(frozenset().union(*game.reports[0].piles)) == expect.pop("total_cards")
        assert game.table == expect.pop("table_after")


def check_scripted_end(rules: Rules, given: Part, expect: Part) -> None:
    """The last cards of a round, play by play, on an empty stock."""
    script = given.pop("script")
    names = [step["player"] for step in script]
    game = position(rules, [script[0]["played"]], singles(script[0]["table"]))
    game.hands[1] = {script[1]["played"]}
    game.stock = []
    captured: dict[str, set[Card]] = {name: set() for name in names}
    for step in script:
        taken = frozenset(step["capture"])
        assert names[game.turn] == step["player"]
        game.play(Move(step["played"], "capture" if taken else "lay", taken))
        if taken:
            captured[step["player"]] |= taken | {step["played"]}
    captured[expect.pop("to")] |= set(expect.pop("leftovers"))
    report = game.reports[0]
    assert dict(zip(names, report.piles, strict=True)) == captured
    assert dict(zip(names, report.escobas, strict=True)) == expect.pop("escobas_added")


def check_game_end(rules: Rules, given: Part, expect: Part) -> None:
    """Scores at the end of a round: whether the match is over and who has won."""
    scores, target = given.pop("scores"), given.pop("target")
    over, winner = expect.pop("over"), expect.pop("winner", None)
    assert match_winner(scores, target) == winner
    assert over == (winner is not None)

    # The same scores at the end of a round that scores nothing.
    nothing = dict.fromkeys(("most_cards", "most_oros", "all_oros", "seven_of_oros"), 0)
    rules = {**rules, **nothing, "players": len(scores), "target": target}
    piles: list[set[Card]] = [set() for _ in scores]
    game = last_card_position(rules, [], "1c", piles, None, scores)
    game.play(Move("1c", "lay"))
    assert game.scores == scores
    assert (game.match_over, game.winner) == (over, winner)


def check_deal(rules: Rules, given: Part, expect: Part) -> None:
    """The pack and the deals of a round."""
    if "players" in given:
        rules = {**rules, "players": given.pop("players")}
        _, turns, deals, _ = random_round(rules, random.Random(1))
        assert deals == expect.pop("deals")
        assert turns == expect.pop("turns")
    else:
        figures = {"sota": "S", "caballo": "C", "rey": "R"}
        for name, worth in given.pop("values").items():
            assert value(figures.get(name, name) + "o") == worth
        pack = full_pack(rules)
        assert len(set(pack)) == len(pack) == expect.pop("deck_size")
        assert pile_total(pack) == expect.pop("deck_sum")


def check_stack(rules: Rules, given: Part, expect: Part) -> None:
    """Building: captures of piles and places for a card that captures nothing."""
    piles, played = [frozenset(pile) for pile in given.pop("piles")], given.pop("played")
    game = position(rules, [played], piles)
    if "set_on" in given:
        move = Move(played, "set", piles[given.pop("set_on")])
        if expect.pop("legal"):
            game.play(move)
            totals = [pile_total(pile) for pile in game.table]
            assert totals == expect.pop("pile_totals_after")
        else:
            with pytest.raises(ValueError, match="not a legal move"):
                game.play(move)
        return

    wanted = {
        frozenset().union(*(piles[index] for index in capture))
        for capture in expect.pop("captures")
    }
    assert captures(rules, played, piles) == wanted
    moves = game.legal_moves()
    assert {move.taken for move in moves if move.kind == "capture"} == wanted
    if "placements" in expect:
        wanted_moves = {
            Move(played, "lay")
            if place == "alone"
            else Move(played, "set", piles[int(place.removeprefix("on "))])
            for place in expect.pop("placements")
        }
        if expect.pop("needs_fallback", False):
            assert moves == {Move(played, "lay")}
            # A playable card besides it, and it may not be chosen.
            moves = position(rules, [played, "1o"], piles).legal_moves()
            assert {move.card for move in moves} == {"1o"}
            assert wanted_moves == set()
        else:
            assert moves == wanted_moves
    if "escoba" in expect:
        (taken,) = wanted
        game.play(Move(played, "capture", taken))
        assert game.escobas == [int(expect.pop("escoba")), 0]


CHECKS: dict[str, Callable[[Rules, Part, Part], None]] = {
    "captures": check_captures,
    "subsets15": check_subsets,
    "move": check_move,
    "initial_table": check_initial_table,
    "majority": check_majority,
    "setenta": check_setenta,
    "round_score": check_round_score,
    "round_end": check_round_end,
    "game_end": check_game_end,
    "deal": check_deal,
    "stack": check_stack,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    """The reference model gives the known answer."""
    assert set(case) == {"id", "kind", "rules", "what", "given", "expect", "source"}
    rules = rules_for(**case["rules"])
    given, expect = dict(case["given"]), dict(case["expect"])
    CHECKS[case["kind"]](rules, given, expect)
    assert not given, f"not used: {given}"
    assert not set(expect) - PROSE, f"not checked: {expect}"


def test_every_case_of_the_file_is_there() -> None:
    """No case is lost or given twice."""
    assert len({case["id"] for case in CASES}) == len(CASES) == 120


# Positions that the file lacks: rules of the page, and what the model decides where it is silent.


def moves_of(game: ReferenceGame, card: Card) -> set[tuple[str, frozenset[Card]]]:
    """Returns the kinds and cards of the legal moves with one card."""
    return {(move.kind, move.taken) for move in game.legal_moves() if move.card == card}


def test_cards_are_dealt_in_blocks_from_the_eldest_hand_then_to_the_table() -> None:
    rules = rules_for(players=3)
    deck = full_pack(rules)
    game = ReferenceGame(rules, dealer=1, decks=[deck])
    assert game.turn == 2
    assert [game.hands[2], game.hands[0], game.hands[1]] == [
        set(deck[0:3]),
        set(deck[3:6]),
        set(deck[6:9]),
    ]
    assert game.table == singles(deck[9:13])
    assert game.stock == deck[13:]


def test_only_the_played_card_is_forced_to_capture() -> None:
    table = singles(["3e", "5b", "So"])
    game = position(rules_for(), ["7o", "2c", "1c"], table)
    assert moves_of(game, "7o") == {
        ("capture", taken) for taken in card_sets([["So"], ["3e", "5b"]])
    }
    assert moves_of(game, "2c") == {("capture", frozenset(["5b", "So"]))}
    assert moves_of(game, "1c") == {("lay", frozenset())}


def test_capture_hand_bars_cards_that_cannot_capture() -> None:
    table = singles(["Rc", "3e"])
    game = position(rules_for(capture="hand"), ["5o", "1c"], table)
    assert game.legal_moves() == {Move("5o", "capture", frozenset(["Rc"]))}
    game = position(rules_for(capture="hand"), ["4o", "1c"], table)
    assert game.legal_moves() == {Move("4o", "lay"), Move("1c", "lay")}


def test_building_with_optional_capture_may_set_or_lay_a_card_that_captures() -> None:
    rules = rules_for("tabletop", capture="optional")
    game = position(rules, ["5o"], singles(["Rc", "3e"]))
    assert moves_of(game, "5o") == {
        ("capture", frozenset(["Rc"])),
        ("set", frozenset(["3e"])),
        ("lay", frozenset()),
    }


def test_building_has_no_lone_card_beside_four_piles_unless_every_card_is_stuck() -> None:
    rules = rules_for("tabletop")
    four = singles(["Ro", "Rc", "Re", "Cb"])
    game = position(rules, ["7o", "4c"], four)
    assert moves_of(game, "4c") == {("set", pile) for pile in four}
    assert moves_of(game, "7o") == set()
    game = position(rules, ["7o", "7c"], four)
    assert game.legal_moves() == {Move("7o", "lay"), Move("7c", "lay")}
    game.play(Move("7o", "lay"))
    assert len(game.table) == 5


def test_building_stuck_card_gives_way_to_a_capture() -> None:
    four = singles(["Ro", "Rc", "Re", "Cb"])
    game = position(rules_for("tabletop"), ["7o", "6c"], four)
    assert game.legal_moves() == {Move("6c", "capture", frozenset(["Cb"]))}


def test_building_set_grows_the_pile_where_it_lies() -> None:
    game = position(rules_for("tabletop"), ["4e"], singles(["2o", "3c"]))
    game.play(Move("4e", "set", frozenset(["2o"])))
    assert game.table == [frozenset(["2o", "4e"]), frozenset(["3c"])]
    assert captures(game.rules, "Cb", game.table) == {frozenset(["2o", "4e"])}
    assert captures(game.rules, "6b", game.table) == {frozenset(["2o", "4e", "3c"])}


@pytest.mark.parametrize(
    ("played", "table", "wanted"),
    [
        ("J1", ["5o", "Rc"], ["5o", "Rc"]),
        ("J1", ["4o", "Rc"], ["4o", "Rc", "4o Rc"]),
        ("J1", ["J2"], ["J2"]),
        ("J1", ["J2", "5o", "Cc"], ["J2", "5o", "Cc", "5o Cc", "J2 5o", "J2 Cc"]),
        ("5o", ["J1", "Rc"], ["Rc", "J1"]),
        ("4o", ["J1", "Rc"], ["J1", "J1 Rc"]),
        ("4o", ["J1", "J2", "Cc"], ["J1", "J2", "J1 J2", "J1 Cc", "J2 Cc", "J1 J2 Cc"]),
        ("5o", ["J1", "J2", "Cc"], ["J1", "J2", "J1 J2", "J1 Cc", "J2 Cc"]),
    ],
)
def test_joker_stands_for_at_least_one(played: Card, table: list[Card], wanted: list[str]) -> None:
    found = captures(rules_for("comodines"), played, singles(table))
    assert found == card_sets([cards.split() for cards in wanted])


def test_joker_is_laid_only_on_an_empty_table_or_by_choice() -> None:
    lay = ("lay", frozenset())
    assert moves_of(position(rules_for("comodines"), ["J1"], []), "J1") == {lay}
    assert lay not in moves_of(position(rules_for("comodines"), ["J1"], singles(["5o"])), "J1")
    optional = rules_for("comodines", capture="optional")
    assert lay in moves_of(position(optional, ["J1"], singles(["5o"])), "J1")


@pytest.mark.parametrize(("played", "table"), [("J1", ["5o", "3c"]), ("4c", ["J2", "5o"])])
def test_sweep_with_a_joker_takes_the_table_and_scores_nothing(
    played: Card, table: list[Card]
) -> None:
    game = position(rules_for("comodines"), [played], singles(table))
    game.play(Move(played, "capture", frozenset(table)))
    assert game.table == []
    assert game.piles[0] == {played, *table}
    assert game.escobas == [0, 0]


def test_jokers_count_for_most_cards_only() -> None:
    report = score_round(rules_for("comodines"), [["J1", "J2"], ["1c"]], [0, 0])
    assert report.cards == (2, 1)
    assert report.total == (1, 0)


def test_undealt_jokers_of_the_stock_go_with_the_leftovers() -> None:
    _, turns, deals, leftovers = random_round(rules_for("comodines"), random.Random(3))
    assert (turns, deals) == (36, 6)
    assert len(leftovers) >= 2


@pytest.mark.parametrize("initial_table", ["dealer", "eldest", "set_aside", "redeal"])
def test_initial_table_never_applies_with_a_joker_on_it(initial_table: str) -> None:
    rules = rules_for("comodines", initial_table=initial_table)
    table = ["J1", "7o", "5c", "3b"]
    game = ReferenceGame(rules, 0, [deck_with(rules, table)])
    assert game.table == singles(table)
    assert game.escobas == [0, 0]


def test_set_aside_takes_a_fifteen_out_of_the_round_and_leaves_a_thirty() -> None:
    rules = rules_for("argentine")
    fifteen, thirty = ["7o", "3c", "4b", "1e"], ["7o", "Sc", "Rb", "5e"]
    game = ReferenceGame(rules, 0, [deck_with(rules, fifteen)])
    assert (game.set_aside, game.table, game.last_capturer) == (set(fifteen), [], None)
    assert game.escobas == [0, 0]
    game = ReferenceGame(rules, 0, [deck_with(rules, thirty)])
    assert (game.set_aside, game.table) == (set(), singles(thirty))


def test_redeal_takes_the_next_pack_until_it_is_not_fifteen() -> None:
    rules = rules_for("argentine", initial_table="redeal")
    fifteen = deck_with(rules, ["7o", "3c", "4b", "1e"])
    last = deck_with(rules, ["7o", "Sc", "Rb", "5e"])
    game = ReferenceGame(rules, 1, [fifteen, fifteen, last])
    assert game.table == singles(["7o", "Sc", "Rb", "5e"])
    assert (game.dealer, game.turn, game.round_index) == (1, 0, 0)
    assert game.hands[0] == set(last[:3])


def test_initial_cards_go_to_the_dealers_pile_in_a_partnership() -> None:
    rules = rules_for("ludoteka", players=4, partnership=True)
    game = ReferenceGame(rules, 3, [deck_with(rules, ["7o", "Sc", "Rb", "5e"])])
    assert game.escobas == [0, 0, 0, 2]
    assert score_round(rules, game.piles, game.escobas).escobas == (0, 2)


def test_thirty_of_groups_and_of_sums() -> None:
    uneven = ["Ro", "Rc", "Cb", "1e"]
    assert not is_thirty(rules_for(initial_thirty="groups"), uneven)
    assert is_thirty(rules_for(initial_thirty="sum"), uneven)
    assert is_thirty(rules_for(initial_thirty="groups"), ["Ro", "Rc", "5c", "5e"])


def test_leftovers_stay_unclaimed_when_nobody_captured() -> None:
    rules = rules_for("ludoteka")
    game = last_card_position(rules, ["Ro", "Rc"], "5o", [set(), set()], None)
    game.play(Move("5o", "lay"))
    assert game.reports[0].cards == (0, 0)
    assert game.reports[0].total == (0, 0)


@pytest.mark.parametrize("ties", ["none", "all", "split"])
def test_nobody_scores_a_category_of_which_nobody_has_any(ties: str) -> None:
    assert majority([0, 0], 1, ties) == [0, 0]


def test_split_divides_the_points_among_the_leaders() -> None:
    assert majority([2, 2, 0], 1, "split") == [Fraction(1, 2), Fraction(1, 2), 0]
    assert majority([1, 1, 1], 1, "split") == [Fraction(1, 3)] * 3
    assert majority([3, 1], 1, "split") == [1, 0]


def test_setenta_competes_only_with_all_suits_of_the_pack() -> None:
    rules = rules_for("argentine")
    assert score_round(rules, [["7o", "7c", "7e"], ["1o"]], [0, 0]).points["setenta"] == (0, 0)
    two_suits = rules_for("argentine", suits=("oros", "copas"))
    report = score_round(two_suits, [["7o", "Sc"], ["6o", "6c"]], [0, 0])
    assert report.setenta == (31, 36)
    assert report.points["setenta"] == (0, 1)


def test_napola_is_the_unbroken_run_of_oros_from_the_ace() -> None:
    assert napola_length(["1o", "2o"]) == 0
    assert napola_length(["1o", "2o", "3o", "5o", "4c"]) == 3
    assert napola_length(["1c", "2o", "3o", "4o"]) == 0
    assert napola_length([card for card in full_pack(rules_for()) if card[1] == "o"]) == 10
    piles = [["1o", "2o", "3o", "4o"], ["5o"]]
    assert score_round(rules_for("scopa"), piles, [0, 0]).points["napola"] == (4, 0)
    assert score_round(rules_for(), piles, [0, 0]).points["napola"] == (0, 0)


def test_scopa_takes_a_single_equal_card_before_any_sum() -> None:
    rules = rules_for("scopa")
    assert captures(rules, "7o", singles(["7c", "3e", "4b"])) == {frozenset(["7c"])}
    assert captures(rules, "7o", singles(["7c", "7e", "4b"])) == card_sets([["7c"], ["7e"]])
    table = singles(["3e", "4b", "2c", "5c", "1o"])
    assert captures(rules, "7o", table) == card_sets(
        [["3e", "4b"], ["2c", "5c"], ["4b", "2c", "1o"]]
    )


@pytest.mark.parametrize(
    ("capture_by", "table", "escobas"), [("value", ["5c"], 0), ("fifteen", ["Rc"], 1)]
)
def test_sweep_with_the_very_last_card(capture_by: str, table: list[Card], escobas: int) -> None:
    rules = rules_for(capture_by=capture_by)
    game = last_card_position(rules, table, "5o", [set(), set()], 0)
    game.play(Move("5o", "capture", frozenset(table)))
    assert game.reports[0].piles == (set(), {"5o", *table})
    assert game.reports[0].escobas == (0, escobas)


def test_sweep_that_is_not_with_the_last_card_is_a_scopa() -> None:
    game = position(rules_for("scopa"), ["5o"], singles(["5c"]))
    game.play(Move("5o", "capture", frozenset(["5c"])))
    assert game.escobas == [1, 0]


def test_all_of_a_kind_is_all_of_the_pack() -> None:
    rules = rules_for(ranks=(1, 2, 7), suits=("oros", "copas"), all_oros=3, all_sevens=2)
    report = score_round(rules, [["1o", "2o", "7o"], ["7c"]], [0, 0])
    assert report.points["most_oros"] == (3, 0)
    assert report.points["most_sevens"] == (0, 0)
    report = score_round(rules, [["1o", "7c", "7o"], ["2o"]], [0, 0])
    assert report.points["most_oros"] == (1, 0)
    assert report.points["most_sevens"] == (2, 0)
    one_seven = rules_for(suits=("copas",), all_sevens=2)
    assert score_round(one_seven, [["7c"], ["1c"]], [0, 0]).points["most_sevens"] == (2, 0)
    no_oros = rules_for(suits=("copas",), ties="all")
    assert score_round(no_oros, [["1c"], ["2c"]], [0, 0]).points["most_oros"] == (0, 0)


def test_set_aside_oros_are_missing_to_all_oros() -> None:
    rules = rules_for("argentine", all_oros=2)
    oros = [card for card in full_pack(rules) if card[1] == "o"]
    assert score_round(rules, [oros, []], [0, 0]).points["most_oros"] == (2, 0)
    assert score_round(rules, [oros[1:], []], [0, 0]).points["most_oros"] == (1, 0)


def test_small_pack_has_its_own_sum_table_and_deals() -> None:
    rules = rules_for(
        ranks=(1, 2, 3), suits=("oros", "copas"), hand_size=1, table_size=2, target_sum=4
    )
    deck = ["3o", "1o", "2c", "2o", "1c", "3c"]
    game = ReferenceGame(rules, 1, [deck, deck])
    assert game.table == singles(["2c", "2o"])
    assert game.legal_moves() == {Move("3o", "lay")}
    game.play(Move("3o", "lay"))
    game.play(Move("1o", "capture", frozenset(["3o"])))
    assert game.hands == [{"1c"}, {"3c"}]
    game.play(Move("1c", "lay"))
    game.play(Move("3c", "capture", frozenset(["1c"])))
    assert game.reports[0].cards == (0, 6)
    assert (game.round_index, game.dealer, game.turn) == (1, 0, 1)


def test_a_card_worth_the_target_captures_nothing_alone() -> None:
    rules = rules_for(target_sum=10)
    assert captures(rules, "Ro", singles(["5c", "5e"])) == set()


def test_partnership_plays_to_its_own_target_if_there_is_one() -> None:
    partners = {"players": 4, "partnership": True}
    assert match_target(rules_for("tabletop", **partners)) == 30
    assert match_target(rules_for("tabletop", players=4)) == 15
    assert match_target(rules_for("escova", **partners)) == 31


def test_partners_pool_piles_and_escobas() -> None:
    rules = rules_for(players=4, partnership=True)
    report: RoundReport = score_round(rules, [["7o"], ["7c", "1c"], ["7e", "7b"], []], [1, 0, 2, 1])
    assert report.sevens == (3, 1)
    assert report.escobas == (3, 1)
    assert report.points["most_cards"] == (1, 0)
    assert report.total == (1 + 1 + 1 + 1 + 3, 1)


def test_the_deal_passes_to_the_right_and_the_match_stops_at_the_target() -> None:
    rules = rules_for()
    game = last_card_position(rules, ["Ro"], "1c", [set(), {"7o"}], 1, scores=[0, 10])
    game.play(Move("1c", "lay"))
    assert (game.dealer, game.turn, game.round_index) == (0, 1, 1)
    assert game.scores == [0, 14]
    game = last_card_position(rules, ["Ro"], "1c", [set(), {"7o"}], 1, scores=[20, 18])
    game.play(Move("1c", "lay"))
    assert (game.match_over, game.winner, game.scores) == (True, 1, [20, 22])
    assert game.legal_moves() == set()
    with pytest.raises(ValueError, match="not a legal move"):
        game.play(Move("1c", "lay"))


def test_presets_cover_every_field() -> None:
    fields = set(PRESETS["classic"])
    assert all(set(preset) == fields for preset in PRESETS.values())
