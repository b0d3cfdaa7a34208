"""The worked positions of `cases/positions.jsonl` against the engine, through its public surface.

Every key of a case is either checked or prose: a case with a key that nothing here knows fails.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_reference_cases import piles_with

from escoba_env import Batch, Game, IllegalActionError, Move, Rules, make_rules
from escoba_env.cards import CARD_NAMES, card_set, cards_in, parse_card, parse_cards
from escoba_env.engine import score
from escoba_env.engine.bits import VALUES, total
from escoba_env.engine.record import AT_END, FROM_START, NOBODY, STATE, TWELFTHS, lower

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "positions.jsonl").read_text().splitlines()
]
PROSE = {"note", "reason"}
CATEGORIES = {
    "cards": score.CARDS,
    "oros": score.ORO_CARDS,
    "sevens": score.SEVEN_CARDS,
    "setenta": score.SETENTA,
}

Part = dict[str, Any]
Cards = Iterable[str]


# Positions


def rest_of(rules: Rules, *parts: Cards) -> list[str]:
    """Returns the cards of the pack that are in none of some parts."""
    placed = {card for part in parts for card in part}
    return [CARD_NAMES[card] for card in cards_in(rules.pack) if CARD_NAMES[card] not in placed]


def position(rules: Rules, hand: Sequence[str], table: Sequence[str]) -> Game:
    """Returns a game in mid-round, seat 0 to move, the others with as many cards as it has."""
    rest = rest_of(rules, hand, table)
    hands = [list(hand), *([rest.pop() for _ in hand] for _ in range(rules.players - 1))]
    return Game.from_position(rules, hands=hands, table=table)


def near_the_end(
    rules: Rules,
    hands: Sequence[Sequence[str]],
    table: Cards = (),
    piles: Sequence[Cards] | None = None,
    turn: int = 0,
    last_capturer: int | None = None,
    escobas: Sequence[int] | None = None,
    scores: Sequence[float] | None = None,
    **options: Any,
) -> Game:
    """Returns a game whose stock is empty. Cards that are not given have been set aside."""
    piles = [list(pile) for pile in piles or [()] * rules.players]
    table = list(table)
    aside = rest_of(rules, table, *hands, *piles)
    game = Game.from_position(
        rules,
        hands=hands,
        table=[*table, *aside],
        piles=piles,
        stock=(),
        turn=turn,
        last_capturer=last_capturer,
        escobas=escobas,
        scores=scores,
        **options,
    )
    record = np.frombuffer(game.get_state(), STATE).copy()
    record["table"] = card_set(parse_cards(table))
    record["set_aside"] = card_set(parse_cards(aside))
    record["legal"] = card_set(parse_cards(hands[turn]))
    game.set_state(record.tobytes())
    return game


def finished(
    rules: Rules,
    piles: Sequence[Cards],
    escobas: Sequence[int] | None = None,
    scores: Sequence[float] | None = None,
    **options: Any,
) -> Game:
    """Returns a game at the end of a round in which each seat has captured the given pile.

    The last card of the round is laid on an empty table. Where every card is in a pile, it is one
    of the last capturer's, who takes it back as leftover; otherwise nobody captured last and it
    stays unclaimed.
    """
    piles = [list(pile) for pile in piles]
    rest = rest_of(rules, *piles)
    last_capturer = None if rest else max(range(len(piles)), key=lambda seat: len(piles[seat]))
    last = rest[0] if last_capturer is None else piles[last_capturer].pop()
    game = near_the_end(
        rules,
        [[last], *([] for _ in piles[1:])],
        piles=piles,
        last_capturer=last_capturer,
        escobas=escobas,
        scores=scores,
        **options,
    )
    game.play(Move(parse_card(last)))
    return game


def move_of(played: str, capture: Cards) -> Move:
    """Returns a move from names."""
    return Move(parse_card(played), card_set(parse_cards(capture)))


def captures_of(game: Game, played: str) -> set[frozenset[str]]:
    """Returns what a card of the seat to move can capture."""
    return {
        frozenset(CARD_NAMES[card] for card in cards_in(move.taken))
        for move in game.legal_moves()
        if move.card == parse_card(played) and move.taken
    }


def table_of(game: Game) -> set[str]:
    """Returns the names of the table cards."""
    return {CARD_NAMES[card] for card in game.table}


def pile_of(game: Game, seat: int) -> set[str]:
    """Returns the names of a seat's captured cards."""
    return {CARD_NAMES[card] for card in game.pile(seat)}


def card_sets(lists: Sequence[Sequence[str]]) -> set[frozenset[str]]:
    """Returns lists of cards as sets, refusing a list given twice."""
    found = {frozenset(cards) for cards in lists}
    assert len(found) == len(lists)
    return found


def category_points(game: Game, category: int) -> list[float]:
    """Returns the points of each side in one majority category."""
    return [
        score.majority_points(game.spec[0], game.record, side, category) / TWELFTHS
        for side in range(game.rules.num_sides)
    ]


# One function per kind of case. Each takes out of `given` and `expect` what it has dealt with.


def check_captures(rules: Rules, given: Part, expect: Part) -> None:
    """A played card and a table: the captures on offer, and which of them is an escoba."""
    played, table = given.pop("played"), given.pop("table")
    wanted = card_sets(expect.pop("captures"))
    game = position(rules, [played], table)
    assert captures_of(game, played) == wanted
    assert (Move(parse_card(played)) in game.legal_moves()) == (not wanted)
    if "escoba_with" in expect:
        game.play(move_of(played, expect.pop("escoba_with")))
        assert game.record["escobas"].tolist() == [1, 0, 0, 0]
        assert game.table == []


def check_subsets(rules: Rules, given: Part, expect: Part) -> None:
    """The sets of cards that make fifteen, whichever of them is the one played."""
    table = given.pop("table")
    found = set()
    for played in table:
        game = position(rules, [played], [card for card in table if card != played])
        found |= {taken | {played} for taken in captures_of(game, played)}
    assert found == card_sets(expect.pop("subsets"))


def check_move(rules: Rules, given: Part, expect: Part) -> None:
    """A move in a position: legal or not, and what it leaves."""
    hand, table = given.pop("hand"), given.pop("table")
    move = move_of(given.pop("played"), given.pop("capture"))
    game = position(rules, hand, table)
    before = game.get_state()
    if not expect.pop("legal"):
        with pytest.raises(IllegalActionError, match="illegal"):
            game.play(move)
        assert game.get_state() == before
        return
    game.play(move)
    assert table_of(game) == set(expect.pop("table_after"))
    if "escoba" in expect:
        assert game.record["escobas"][0] == expect.pop("escoba")


def check_initial_table(rules: Rules, given: Part, expect: Part) -> None:
    """The first table cards, for each dealer: who gets them, or whether they lie there."""
    table = given.pop("table")
    assert total(card_set(parse_cards(table))) == given.pop("sum")
    rest = rest_of(rules, table)
    dealt = rules.players * rules.hand_size
    deck = [*rest[:dealt], *table, *rest[dealt:]]
    seats = {"dealer": 1, "first player": 0}
    game = Game(rules)
    game.reset(seed=0, deck=deck, dealer=seats["dealer"])
    assert game.turn == seats["first player"]
    escobas = expect.pop("escobas", 1)
    to = expect.pop("to", None)
    if to is None:
        assert escobas in (0, 2)
        # Nothing happens, or the case does not say to whom: by the rules it is the dealer.
        to = "dealer" if escobas else None
    record, wanted = game.record, np.zeros(4, int)
    assert table_of(game) == set(expect.pop("table_after", () if to else table))
    if to is None:
        assert record["last_capturer"] == NOBODY
        assert not record["piles"].any()
    else:
        wanted[seats[to]] = escobas
        assert pile_of(game, seats[to]) == set(table)
        assert pile_of(game, 1 - seats[to]) == set()
        assert record["last_capturer"] == seats[expect.pop("last_capturer", to)]
        assert (record["taken_at"][parse_cards(table)] == FROM_START).all()
    assert record["escobas"].tolist() == wanted.tolist()
    if "dealer_pile_size" in expect:
        assert len(game.pile(seats["dealer"])) == expect.pop("dealer_pile_size")


def stack_position(rules: Rules, hand: Sequence[str], piles: Sequence[Sequence[str]]) -> Game:
    """Returns a game with building and piles on the table, seat 0 to move."""
    flat = [card for pile in piles for card in pile]
    rest = rest_of(rules, hand, flat)
    game = Game.from_position(
        rules,
        hands=[list(hand), [rest.pop() for _ in hand]],
        table=["+".join(pile) for pile in piles],
    )
    found = [{CARD_NAMES[card] for card in pile} for pile in game.table_piles]
    assert sorted(map(sorted, found)) == sorted(map(sorted, piles))
    return game


def check_stack(rules: Rules, given: Part, expect: Part) -> None:
    """Building: captures of piles and places for a card that captures nothing."""
    piles, played = given.pop("piles"), given.pop("played")
    card = parse_card(played)
    groups = [card_set(parse_cards(pile)) for pile in piles]
    game = stack_position(rules, [played], piles)
    if "set_on" in given:
        move = Move(card, onto=groups[given.pop("set_on")])
        if not expect.pop("legal"):
            with pytest.raises(IllegalActionError, match="illegal"):
                game.play(move)
            return
        game.play(move)
        totals = [total(card_set(pile)) for pile in game.table_piles]
        assert sorted(totals) == sorted(expect.pop("pile_totals_after"))
        assert totals[[card in pile for pile in game.table_piles].index(True)] == total(
            move.onto | 1 << card
        )
        return

    captures = {
        Move(card, sum(groups[index] for index in capture)) for capture in expect.pop("captures")
    }
    moves = set(game.legal_moves())
    assert {move for move in moves if move.taken} == captures
    if "placements" in expect:
        places = {
            Move(card) if place == "alone" else Move(card, onto=groups[int(place[len("on ") :])])
            for place in expect.pop("placements")
        }
        if expect.pop("needs_fallback", False):
            assert moves == {Move(card)}
            # A playable card besides it, and it may not be chosen.
            beside = stack_position(rules, [played, "1o"], piles).legal_moves()
            assert {move.card for move in beside} == {parse_card("1o")}
            assert places == set()
        else:
            assert moves == places
    else:
        assert moves == captures
    if "escoba" in expect:
        (move,) = captures
        game.play(move)
        assert game.record["escobas"][0] == expect.pop("escoba")
        assert game.table_piles == []


def check_majority(rules: Rules, given: Part, expect: Part) -> None:
    """The points of one category for the counts of the sides."""
    category, counts = given.pop("category"), given.pop("counts")
    mark = {"cards": "", "oros": "o", "sevens": "7"}[category]
    pool = [name for name in rest_of(rules) if mark in name]
    piles = [[pool.pop() for _ in range(count)] for count in counts]
    game = finished(rules.replace(players=len(counts)), piles)
    assert category_points(game, CATEGORIES[category]) == expect.pop("points")


def check_setenta(rules: Rules, given: Part, expect: Part) -> None:
    """The setenta totals of some piles and who wins the category."""
    piles = [card_set(parse_cards(pile)) for pile in given.pop("piles")]
    spec = lower(rules)
    totals = [score.setenta_of(spec[0], pile) for pile in piles]
    for key in ("totals", "totals_scale21"):
        if key in expect:
            assert totals == expect.pop(key)
    if "winner" in expect:
        # Piles of a case may share a card, so this is no position of a game.
        record = np.zeros(1, STATE)
        record["piles"][0, : len(piles)] = piles
        points = [score.majority_points(spec[0], record[0], s, score.SETENTA) for s in (0, 1)]
        winner = expect.pop("winner")
        assert points == [TWELFTHS * (side == winner) for side in (0, 1)]


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
        piles: list[Any] = piles_with(list(counts.values()))
    else:
        named_piles = given.pop("piles", {name: [] for name in escobas})
        names, piles = list(named_piles), list(named_piles.values())
    seats = max(2, len(names))
    piles += [[]] * (seats - len(piles))
    escobas_by_seat = [escobas.get(name, 0) for name in names] + [0] * (seats - len(names))
    game = finished(rules.replace(players=seats), piles, escobas_by_seat)
    for seat, name in enumerate(names):
        wanted = (counts or {}).get(name, {})
        assert {kind: count_of(game, seat, kind) for kind in wanted} == wanted

    def by_name(values: Sequence[Any]) -> Part:
        return {name: values[seat] for seat, name in enumerate(names)}

    for category in ("cards", "oros", "sevens"):
        if category in expect:
            points = category_points(game, CATEGORIES[category])
            winners = [name for name, won in by_name(points).items() if won]
            assert winners == [name for name in [expect.pop(category)] if name]
    spec, record = game.spec[0], game.record
    velo = [score.seven_of_oros_points(spec, record, side) / TWELFTHS for side in range(seats)]
    if "velo" in expect:
        assert [name for name, points in by_name(velo).items() if points] == [expect.pop("velo")]
    if "setenta" in expect:
        totals = [score.setenta_of(spec, record["piles"][seat]) for seat in range(seats)]
        assert by_name(totals) == expect.pop("setenta")
    if "escoba_points" in expect:
        points = [score.escoba_points(spec, record, side) / TWELFTHS for side in range(seats)]
        assert by_name(points) == expect.pop("escoba_points")
    if "sevens_plus_velo" in expect:
        sevens = category_points(game, score.SEVEN_CARDS)
        assert sevens[0] + velo[0] == expect.pop("sevens_plus_velo")
    if "points" in expect:
        assert by_name(game.round_points) == expect.pop("points")


def count_of(game: Game, seat: int, kind: str) -> int | bool:
    """Returns how many of a kind a seat has captured; for ``velo`` whether it has that card."""
    if kind == "velo":
        return "7o" in pile_of(game, seat)
    mark = {"cards": "", "oros": "o", "sevens": "7"}[kind]
    return sum(mark in name for name in pile_of(game, seat))


def check_running_score(rules: Rules, given: Part, expect: Part) -> None:
    """The points of a round are added to the score before it."""
    piles = piles_with(
        [
            {"cards": 23, "oros": 6, "sevens": 3, "velo": True},
            {"cards": 17, "oros": 4, "sevens": 1, "velo": False},
        ]
    )
    before = given.pop("before")
    game = finished(rules, piles, scores=[before, 0], episode="match")
    assert game.round_points == [given.pop("round"), 0]
    assert game.scores == [expect.pop("after"), 0]


def check_partners_are_counted_together(rules: Rules, given: Part, expect: Part) -> None:
    """Card counts by seat of two teams; nothing but the cards is given, so only they count."""
    teams = given.pop("team_counts")
    by_seat = [count for seats in zip(*teams.values(), strict=True) for count in seats]
    pool = rest_of(rules)
    piles = [[pool.pop() for _ in range(count)] for count in by_seat]
    game = finished(rules.replace(players=4, partnership=True), piles)
    points = category_points(game, score.CARDS)
    assert dict(zip(teams, points, strict=True)) == expect.pop("points")


def leftover_sums_seen(rules: Rules) -> set[int]:
    """Returns the totals of the leftovers of many random rounds."""
    batch, rng = Batch(1000, rules, seed=15), np.random.default_rng(15)
    while not batch.over.all():
        chances = rng.random((len(batch), 43)) * batch.legal_masks()
        playing = np.flatnonzero(~batch.over)
        batch.step(chances.argmax(axis=1)[playing], playing)
    return {
        int(VALUES[np.flatnonzero(record["taken_at"] == AT_END)].sum()) for record in batch.states
    }


def check_round_end(rules: Rules, given: Part, expect: Part) -> None:
    """What happens to the leftovers."""
    if "possible" in expect:
        left = given.pop("left", None)
        left_sum = given.pop("left_sum", None)
        if left is not None:
            left_sum = int(total(card_set(parse_cards(left))))
            taken = rest_of(rules, left)
            game = near_the_end(rules, [[left[-1]], []], left[:-1], [taken, []], last_capturer=1)
            game.play(move_of(left[-1], []))
            assert [pile_of(game, 0), pile_of(game, 1)] == [set(taken), set(left)]
        assert (left_sum in leftover_sums_seen(rules)) == expect.pop("possible")
    elif "script" in given:
        check_scripted_end(rules, given, expect)
    elif "pile_sizes" in given:
        left, sizes = given.pop("left"), given.pop("pile_sizes")
        pool = rest_of(rules, left)
        piles = [[pool.pop() for _ in range(size)] for size in sizes]
        game = near_the_end(
            rules, [[left[-1]], []], left[:-1], piles, last_capturer=given.pop("last_capturer")
        )
        game.play(move_of(left[-1], []))
        assert [len(game.pile(0)), len(game.pile(1))] == expect.pop("pile_sizes")
        assert game.record["escobas"][:2].tolist() == expect.pop("escobas_added")
    elif "last_capturer" in given:
        # P1 lays an ace, P2 takes the king with a 5, and nobody captures again.
        seats = {"P1": 0, "P2": 1}
        game = near_the_end(rules, [["1o", "2c"], ["5c", "3e"]], ["Ro"])
        for played, capture in (("1o", []), ("5c", ["Ro"])):
            game.play(move_of(played, capture))
        assert game.record["last_capturer"] == seats[given.pop("last_capturer")]
        for played in ("2c", "3e"):
            game.play(move_of(played, []))
        to = seats[expect.pop("to")]
        assert pile_of(game, to) == {"Ro", "5c", "1o", "2c", "3e"}
        assert pile_of(game, 1 - to) == set()
        assert game.record["escobas"].sum() == expect.pop("escobas_added")
    else:
        game, rng = Game(rules, seed=40), random.Random(40)
        while not game.is_over:
            game.step(rng.choice(game.legal_actions()))
        assert len(game.pile(0)) + len(game.pile(1)) == expect.pop("total_cards")
        assert game.table == expect.pop("table_after")


def check_scripted_end(rules: Rules, given: Part, expect: Part) -> None:
    """The last cards of a round, play by play, on an empty stock."""
    script = given.pop("script")
    names = [step["player"] for step in script]
    hands = [[step["played"]] for step in script]
    game = near_the_end(rules, hands, script[0]["table"])
    captured: dict[str, set[str]] = {name: set() for name in names}
    for step in script:
        assert names[game.turn] == step["player"]
        game.play(move_of(step["played"], step["capture"]))
        if step["capture"]:
            captured[step["player"]] |= {step["played"], *step["capture"]}
    captured[expect.pop("to")] |= set(expect.pop("leftovers"))
    assert {name: pile_of(game, seat) for seat, name in enumerate(names)} == captured
    escobas = {name: game.record["escobas"][seat] for seat, name in enumerate(names)}
    assert escobas == expect.pop("escobas_added")


def check_game_end(rules: Rules, given: Part, expect: Part) -> None:
    """Scores at the end of a round that scores nothing: whether the match is over, who has won."""
    scores, target = given.pop("scores"), given.pop("target")
    rules = rules.replace(
        players=len(scores),
        target=target,
        **dict.fromkeys(("most_cards", "most_oros", "all_oros", "seven_of_oros"), 0),
    )
    piles: list[list[str]] = [[] for _ in scores]
    game = finished(rules, piles, scores=scores, episode="match", reward="win")
    assert game.scores == scores
    over, winner = expect.pop("over"), expect.pop("winner", None)
    assert game.is_over == over
    rewards = [1 if side == winner else -1 for side in range(len(scores))]
    assert game.returns == (rewards if over else [0] * len(scores))


def check_deal(rules: Rules, given: Part, expect: Part) -> None:
    """The pack and the deals of a round."""
    if "players" in given:
        game = Game(rules.replace(players=given.pop("players")), seed=1)
        rng, turns, deals = random.Random(1), 0, 0
        while not game.is_over:
            counts = game.record["hand_counts"][: game.rules.players]
            deals += bool((counts == game.rules.hand_size).all())
            game.play(rng.choice(game.legal_moves()))
            turns += 1
        assert deals == game.rules.deals == expect.pop("deals")
        assert turns == game.rules.turns == expect.pop("turns")
    else:
        figures = {"sota": "S", "caballo": "C", "rey": "R"}
        for name, worth in given.pop("values").items():
            assert VALUES[parse_card(figures.get(name, name) + "o")] == worth
        assert rules.pack_size == len(Game(rules).record["stock"]) - 2 == expect.pop("deck_size")
        assert total(rules.pack) == expect.pop("deck_sum")


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


@pytest.mark.parametrize(
    ("rank", "worth"),
    [("7", 21), ("6", 18), ("1", 16), ("5", 15), ("4", 14), ("3", 13), ("2", 12),
     ("S", 10), ("C", 10), ("R", 10)],
)  # fmt: skip
def test_the_setenta_scale_is_that_of_the_rules_page(rank: str, worth: int) -> None:
    spec = lower(make_rules(setenta=1))
    pile = parse_cards([rank + suit for suit in "oceb"])
    assert score.setenta_of(spec[0], card_set(pile)) == 4 * worth
    assert score.setenta_of(spec[0], card_set(pile[1:])) == 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    """The engine gives the known answer."""
    assert set(case) == {"id", "kind", "rules", "what", "given", "expect", "source"}
    given, expect = dict(case["given"]), dict(case["expect"])
    CHECKS[case["kind"]](make_rules(case["rules"]), given, expect)
    assert not given, f"not used: {given}"
    assert not set(expect) - PROSE, f"not checked: {expect}"


def test_every_case_of_the_file_is_there() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES) == 120
    assert {case["kind"] for case in CASES} == set(CHECKS)
