"""The exact solver against brute force, against itself, and as an endgame player."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.compare import COMBINATIONS, TABLES, Fields, random_rules
from reference.presets import PRESETS
from test_views import with_hidden_cards_elsewhere

from escoba_env import Batch, Game, Move, load_policy
from escoba_env.cards import card_name, cards_in
from escoba_env.engine import solve as kernels
from escoba_env.engine.record import NOBODY, STATE
from escoba_env.position import table_piles
from escoba_env.solver import (
    NO_VALUE,
    Memory,
    SolverLimitError,
    make_memory,
    solvable,
    solve,
    solve_view,
    solve_views,
)

TWO_SIDES = [(preset, table) for preset, table in COMBINATIONS if table in ("2", "partners")]


@pytest.fixture(scope="module")
def memory() -> Memory:
    return make_memory()


def fields_of(number: int) -> Fields:
    """Rules of position ``number``: a preset as it is, rules drawn around it, or a pack too."""
    preset, table = TWO_SIDES[number % len(TWO_SIDES)]
    kind = number // len(TWO_SIDES) % 3
    if kind == 0:
        return {**PRESETS[preset], **TABLES[table]}
    return random_rules(random.Random(f"rules {number}"), preset, table, own_pack=kind == 2)


def turns_left(game: Game) -> int:
    return int(game.rules.turns - game.record["turn_index"])


def position(number: int, most_turns: int, fields: Fields | None = None) -> Game:
    """A position of some of the last turns of a round, half of them after picks of a turn."""
    rng = random.Random(f"position {number}")
    game = Game(fields_of(number) if fields is None else fields, seed=number)
    wanted = rng.randint(1, min(most_turns, game.rules.turns))
    while turns_left(game) > wanted:
        game.step(rng.choice(game.legal_actions()))
    for _ in range(rng.choice((0, 0, 1, 2))):
        after = game.clone()
        after.step(rng.choice(after.legal_actions()))
        if turns_left(after) == wanted:
            game = after
    return game


def brute_force(game: Game, known: dict[bytes, float]) -> float:
    """Margin of the first side under perfect play, by trying every pick to the end."""
    if game.is_over:
        return game.round_points[0] - game.round_points[1]
    key = game.get_state()
    if key not in known:
        values = [brute_force(after(game, a), known) for a in game.legal_actions()]
        known[key] = max(values) if game.turn % 2 == 0 else min(values)
    return known[key]


def after(game: Game, action: int) -> Game:
    child = game.clone()
    child.step(action)
    return child


def played(game: Game, move: Move) -> Game:
    child = game.clone()
    child.play(move)
    return child


def check_against_brute_force(game: Game, memory: Memory) -> None:
    solution = solve(game, memory=memory)
    known: dict[bytes, float] = {}
    sign = 1 - 2 * (game.turn % 2)
    actions = {a: sign * brute_force(after(game, a), known) for a in game.legal_actions()}
    moves = {m: sign * brute_force(played(game, m), known) for m in game.legal_moves()}
    assert solution.actions == actions, game
    assert solution.moves == moves, game
    assert list(solution.moves) == list(moves)
    assert solution.value == max(actions.values())
    assert solution.best_actions == [a for a in actions if actions[a] == solution.value]
    assert solution.best_moves == [m for m in moves if moves[m] == solution.value]


POSITIONS = 2400
CHUNKS = 8


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_it_finds_what_brute_force_finds(chunk: int, memory: Memory) -> None:
    for number in range(chunk, POSITIONS, CHUNKS):
        check_against_brute_force(position(number, 4), memory)


@pytest.mark.slow
def test_it_finds_what_brute_force_finds_in_more_and_longer_positions(memory: Memory) -> None:
    for number in range(POSITIONS, 20_000):
        check_against_brute_force(position(number, 5), memory)


SMALL_PACKS: dict[str, Fields] = {
    "captures of two": {"ranks": (3, 5, 7), "suits": ("oros", "copas"), "target_sum": 10},
    "captures of three, last cards left": {
        "ranks": (1, 2, 4), "suits": ("oros", "bastos"), "target_sum": 7, "table_size": 1,
    },
    "building": {
        "ranks": (1, 2, 3), "suits": ("oros", "copas"), "target_sum": 6, "building": True,
    },
    "by value": {"ranks": (1, 2, 3), "suits": ("oros", "copas"), "capture_by": "value",
                 "napola": True},
    "jokers, optional": {
        "ranks": (4, 7), "suits": ("oros", "espadas"), "target_sum": 11, "jokers": 2,
        "capture": "optional",
    },
    "two cards at a time": {
        "ranks": (5, 7, 8), "suits": ("oros", "copas"), "hand_size": 2, "capture": "hand",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL_PACKS)
def test_it_finds_what_brute_force_finds_in_every_deal_of_a_small_pack(
    name: str, memory: Memory
) -> None:
    game = Game({"hand_size": 1, "table_size": 2, **SMALL_PACKS[name]}, seed=0)
    cards = [int(card) for card in game.record["stock"][: game.rules.pack_size]]
    deals = 0
    for order in permutations(sorted(cards)):
        deals += 1
        game.reset(deck=[card_name(card) for card in order], dealer=deals % 2)
        value = solve(game, memory=memory).value
        assert value == (1 - 2 * (game.turn % 2)) * brute_force(game, {}), game
    assert deals == 720


# -- the lean position ----------------------------------------------------------------------


def node_of(game: Game, memory: Memory) -> np.void:
    """The solver's position of a game."""
    turns = kernels.set_out(
        game.spec[0], game.record, memory.scratch, memory.plans[0], memory.nodes
    )
    node: np.void = memory.nodes[turns].copy()
    return node


def escoba_points(game: Game) -> list[int]:
    """Points of each side for the escobas of the round."""
    by_side = game.record["escobas"].reshape(2, 2).sum(axis=0)
    return [int(number) * game.rules.escoba for number in by_side]


def check_turn(game: Game, memory: Memory, row: np.ndarray[Any, Any], move: Move) -> None:
    """Makes a move in the solver's position, and in the game, and compares what comes of it."""
    node = node_of(game, memory)
    child = np.zeros(1, kernels.NODE)
    card, taken, place = (int(number) for number in row[:3])
    plan = memory.plans[0]
    gained = kernels.take_turn(game.spec[0], plan, node, child[0], card, taken, place)
    next_game = played(game, move)
    side = game.turn % 2
    assert gained == escoba_points(next_game)[side] - escoba_points(game)[side]
    if next_game.is_over:
        decided, low, high, _ = kernels.prospects(game.spec[0], plan, child[0])
        mover = next_game.turn % 2
        points = [
            points - of_escobas
            for points, of_escobas in zip(
                next_game.round_points, escoba_points(next_game), strict=True
            )
        ]
        assert decided == points[mover] - points[1 - mover]
        assert (low, high) == (0, 0)
        return
    expected = node_of(next_game, memory)
    for name in kernels.NODE.names or ():
        if name not in ("played", "deal", "pile_of", "totals"):
            assert (child[0][name] == expected[name]).all(), (name, game, move)
    if game.rules.building:
        for name in ("pile_of", "totals"):
            assert (child[0][name][next_game.table] == expected[name][next_game.table]).all()


@pytest.mark.parametrize("number", range(3 * len(TWO_SIDES)))
def test_its_turns_are_those_of_the_engine(number: int, memory: Memory) -> None:
    rng = random.Random(number)
    game = Game(fields_of(number), seed=number)
    moves = np.zeros((100_000, 4), np.int64)
    while not game.is_over:
        legal = game.legal_moves()
        node = node_of(game, memory)
        end = kernels.list_root(game.spec[0], game.record, memory.plans[0], node, moves)
        assert end == len(legal)
        found = {(int(m[0]), int(m[1]), int(m[2])): m for m in moves[:end].copy()}
        assert len(found) == end
        for row in rng.sample(list(found.values()), min(end, 8)):
            check_turn(game, memory, row, move_in(game, row))
        assert sorted(move_in(game, row) for row in found.values()) == legal
        game.play(rng.choice(legal))


def move_in(game: Game, row: np.ndarray[Any, Any]) -> Move:
    """The move in a row of the solver's list."""
    piles = {pile[0]: sum(1 << card for card in pile) for pile in game.table_piles}
    taken = sum(pile for head, pile in piles.items() if int(row[1]) >> head & 1)
    return Move(int(row[0]), taken, 0 if taken else piles.get(int(row[2]), 0))


# -- agreement with itself ------------------------------------------------------------------


def mirrored(game: Game) -> Game:
    """The same position with every seat one further round the table, so that sides change."""
    record = np.frombuffer(game.get_state(), STATE).copy()
    players = game.rules.players
    for name, number in (
        *((name, players) for name in ("hands", "piles", "hand_counts", "escobas")),
        *((name, 2) for name in ("scores", "round_points")),
    ):
        record[name][:, :number] = np.roll(record[name][:, :number], 1, axis=1)
    for name in ("turn", "dealer", "last_capturer"):
        if record[name][0] != NOBODY:
            record[name] = (record[name] + 1) % players
    other = game.clone()
    other.set_state(record.tobytes())
    return other


@pytest.mark.parametrize("chunk", range(4))
def test_it_is_symmetric_under_swapping_sides(chunk: int, memory: Memory) -> None:
    for number in range(chunk, 400, 4):
        game = position(number, 10)
        solution, other = (solve(g, memory=memory) for g in (game, mirrored(game)))
        assert (other.value, other.moves, other.actions) == (
            solution.value, solution.moves, solution.actions,
        ), game  # fmt: skip


@pytest.mark.parametrize("chunk", range(4))
def test_table_and_bounds_change_no_value(chunk: int, memory: Memory) -> None:
    small = make_memory(2)
    for number in range(chunk, 400, 4):
        game = position(number, 7)
        full = solve(game, memory=memory)
        others = [
            solve(game, memory=memory, table=table, bounds=bounds)
            for table, bounds in ((True, False), (False, True), (False, False))
        ]
        for other in (*others, solve(game, memory=small)):
            assert (other.value, other.moves, other.actions) == (
                full.value, full.moves, full.actions,
            ), game  # fmt: skip


# What values hang on, each by rules that make much of it.
LOOKED_UP: dict[str, Fields] = {
    "last capturer": {"most_cards": 5, "capture": "optional"},
    "setenta": {"rules": "argentine"},
    "setenta alone": {
        "rules": "argentine", "most_cards": 0, "most_oros": 0, "all_oros": 0, "seven_of_oros": 0,
        "escoba": 0, "initial_table": "play", "capture": "optional",
    },
    "oros and sevens": {"most_oros": 3, "all_oros": 6, "most_sevens": 2, "all_sevens": 5},
    "napola": {"rules": "scopa"},
    "piles": {"rules": "tabletop"},
    "jokers": {"rules": "comodines"},
    "partners": {"rules": "argentine", "players": 4, "partnership": True},
}  # fmt: skip


def records_near_the_end(fields: Fields, turns: int, number: int) -> Batch:
    """Games of random play with so many turns left."""
    batch, rng = Batch(number, seed=turns, **fields), np.random.default_rng(turns)
    played = batch.rules.turns - turns
    while (games := np.flatnonzero(batch.states["turn_index"] < played)).size:
        masks = batch.legal_masks(games)
        batch.step((rng.random(masks.shape) * masks).argmax(axis=1), games)
    return batch


@pytest.mark.parametrize("name", LOOKED_UP)
def test_thousands_of_positions_are_worth_with_the_table_what_they_are_without(
    name: str, memory: Memory
) -> None:
    """As many as it takes for a key that leaves out one of these things to be found out."""
    for turns, number in ((6, 4000), (9, 6000)):
        batch = records_near_the_end(LOOKED_UP[name], turns, number)
        found = [np.empty((number, 43), np.int64) for _ in range(2)]
        nodes = np.empty(number, np.int64)
        for table, values in zip((True, False), found, strict=True):
            given_up = kernels.solve_games(
                batch.spec, batch.states, *memory, table, True, 2**62, values, nodes
            )
            assert given_up < 0
        wrong = np.flatnonzero((found[0] != found[1]).any(axis=1))
        assert not wrong.size, (turns, wrong)


def test_tables_of_the_same_cards_in_other_piles_have_other_keys(memory: Memory) -> None:
    """Two aces apart had once the key of two aces on one pile, and with it the other's value."""
    keys: dict[Any, Any] = {}
    cards = ["1o", "1c", "1e", "2c", "2e", "3b"]
    for piles in partitions(cards):
        game = Game.from_position(
            "tabletop", hands=["7o", "Rc"], table=["+".join(p) for p in piles]
        )
        node = node_of(game, memory)
        *_, standing = kernels.prospects(game.spec[0], memory.plans[0], node)
        key = kernels.key_of(game.spec[0], memory.plans[0], node, standing)
        # What a pile is to the rest of the round: how many cards, oros and points.
        kinds = sorted(
            (len(pile), sum("o" in card for card in pile), sum(int(card[0]) for card in pile))
            for pile in piles
        )
        assert keys.setdefault(key, kinds) == kinds
    assert len(keys) > 50


def partitions(cards: list[str]) -> Iterator[list[list[str]]]:
    """Every way to lay cards in piles."""
    if not cards:
        yield []
        return
    for rest in partitions(cards[1:]):
        yield [cards[:1], *rest]
        for i, pile in enumerate(rest):
            yield [*rest[:i], [cards[0], *pile], *rest[i + 1 :]]


def parts_of(record: np.void) -> dict[str, Any]:
    """What ``Game.from_position`` takes, of a game of two players at the start of a turn."""
    return {
        "hands": [list(cards_in(record["hands"][seat])) for seat in range(2)],
        "piles": [list(cards_in(record["piles"][seat])) for seat in range(2)],
        "table": [list(cards_in(pile)) for pile in table_piles(record)],
        "last_capturer": int(record["last_capturer"]),
        "turn": int(record["turn"]),
    }


def game_of(rules: Any, parts: dict[str, Any]) -> Game:
    """The game of such parts."""
    named = {key: [list(map(card_name, cards)) for cards in parts[key]] for key in parts if
             isinstance(parts[key], list)}  # fmt: skip
    table = ["+".join(cards) for cards in named.pop("table")]
    rest = {key: parts[key] for key in ("turn", "last_capturer")}
    return Game.from_position(rules, table=table, stock=(), **named, **rest)


def exchange(rng: random.Random, one: list[int], two: list[int], like: bool) -> None:
    """Exchanges a card of one list for one of another; of the same suit if they are to be alike."""
    pairs = [
        (i, j)
        for i, a in enumerate(one)
        for j, b in enumerate(two)
        if not like or a // 10 == b // 10
    ]
    if pairs:
        i, j = rng.choice(pairs)
        one[i], two[j] = two[j], one[i]


def give(rng: random.Random, one: list[int], two: list[int]) -> None:
    two.append(one.pop(rng.randrange(len(one))))


CHANGES_OF_ONE_FIELD: dict[str, Callable[[random.Random, dict[str, Any]], Any]] = {
    "last capturer": lambda rng, parts: parts.update(last_capturer=1 - parts["last_capturer"]),
    "piles, another card of a suit": lambda rng, parts: exchange(rng, *parts["piles"], True),
    "piles, another card": lambda rng, parts: exchange(rng, *parts["piles"], False),
    "piles, a card more": lambda rng, parts: give(rng, *parts["piles"][:: rng.choice((1, -1))]),
    "hands": lambda rng, parts: exchange(rng, parts["hands"][0], parts["piles"][0], False),
    "table": lambda rng, parts: exchange(rng, rng.choice(parts["table"]), parts["piles"][0], False),
    "turns": lambda rng, parts: [give(rng, hand, parts["piles"][0]) for hand in parts["hands"]],
}
RULES_OF_PAIRS: dict[str, Fields] = {
    "classic": {"most_oros": 2, "all_oros": 4, "most_sevens": 2, "all_sevens": 3},
    "setenta": {"setenta": 3, "most_cards": 0},
    "scopa": PRESETS["scopa"],
    "building": PRESETS["tabletop"],
}


@pytest.mark.parametrize("rules", RULES_OF_PAIRS)
@pytest.mark.parametrize("change", CHANGES_OF_ONE_FIELD)
def test_of_two_positions_that_differ_in_one_field_values_differ_only_where_keys_do(
    rules: str, change: str, memory: Memory
) -> None:
    rng, differ = random.Random(f"{rules} {change}"), 0
    batch = records_near_the_end({"rules": RULES_OF_PAIRS[rules]}, 4, 160)
    for record in batch.states:
        parts = parts_of(record)
        if parts["last_capturer"] == NOBODY or not all(parts["piles"]) or not parts["table"]:
            continue
        found = []
        for changed in (False, True):
            if changed:
                CHANGES_OF_ONE_FIELD[change](rng, parts)
            try:
                game = game_of(batch.rules, parts)
            except ValueError:
                # An exchange may make a pile of the table that is too high.
                assert (rules, change) == ("building", "table")
                break
            node = node_of(game, memory)
            decided, _, _, standing = kernels.prospects(batch.spec[0], memory.plans[0], node)
            key = kernels.key_of(batch.spec[0], memory.plans[0], node, standing)
            value = solve(game, memory=memory, table=False, bounds=False).value
            found.append((key, value - decided))
        if len(found) == 2 and found[0][1] != found[1][1]:
            differ += 1
            assert found[0][0] != found[1][0], (game, parts)
    # Pairs of one value would say nothing.
    assert differ > 1


@pytest.mark.parametrize("preset", ["classic", "argentine", "scopa"])
def test_a_longer_search_finds_the_same_without_table_and_bounds(
    preset: str, memory: Memory
) -> None:
    for number in range(10):
        game = position(number, 18, {**PRESETS[preset], **TABLES["2"]})
        plain = solve(game, memory=memory, table=False, bounds=False)
        full = solve(game, memory=memory)
        assert (full.moves, full.actions) == (plain.moves, plain.actions)


def test_perfect_play_gets_the_value_of_the_deal(memory: Memory) -> None:
    for seed in range(3):
        for fields in ({}, {"players": 4, "partnership": True}):
            game = Game(fields, seed=seed)
            value, first = solve(game, memory=memory).value, game.turn % 2
            while not game.is_over:
                solution = solve(game, memory=memory)
                assert solution.value == (value if game.turn % 2 == first else -value)
                game.step(solution.best_actions[-1])
            assert game.round_points[first] - game.round_points[1 - first] == value


def test_nobody_does_better_against_perfect_play_of_a_whole_deal(memory: Memory) -> None:
    policy = load_policy("greedy")
    for seed in range(8):
        game = Game(seed=seed)
        value, solver = solve(game, memory=memory).value, game.turn
        while not game.is_over:
            if game.turn == solver:
                game.step(solve(game, memory=memory).best_actions[0])
            else:
                game.step(int(policy.act(game.view(game.turn))[0]))
        assert game.round_points[solver] - game.round_points[1 - solver] >= value


def test_a_whole_deal_takes_few_positions(memory: Memory) -> None:
    nodes = [solve(Game(seed=seed), memory=memory).nodes for seed in range(50)]
    assert np.median(nodes) < 30_000
    assert max(nodes) < 200_000


def test_a_match_is_solved_for_the_round_that_is_played(memory: Memory) -> None:
    rng = random.Random(0)
    one, many = Game(seed=3), Game(seed=3, episode="match")
    for _ in range(20):
        action = rng.choice(one.legal_actions())
        one.step(action)
        many.step(action)
    assert solve(many, memory=memory) == solve(one, memory=memory)


# -- fair information -----------------------------------------------------------------------


def last_deals(number: int, fields: Fields) -> Iterator[Game]:
    """Games at the start of the last deal."""
    for seed in range(number):
        rng = random.Random(seed)
        game = Game(fields, seed=seed)
        while turns_left(game) > game.rules.players * game.rules.hand_size:
            game.step(rng.choice(game.legal_actions()))
        yield game


def most_against_the_player(game: Game, seat: int, memory: Memory) -> float:
    """The best margin that any play at all gets for the other seat, the solver sitting at one.

    The solver is asked with nothing but its view.
    """
    if game.is_over:
        return game.round_points[1 - seat] - game.round_points[seat]
    if game.turn == seat:
        action = int(solve_views(game.view(seat), memory=memory).best_actions[0])
        return most_against_the_player(after(game, action), seat, memory)
    return max(
        most_against_the_player(after(game, action), seat, memory)
        for action in game.legal_actions()
    )


@pytest.mark.parametrize("preset", ["classic", "tabletop", "ludoteka", "argentine", "scopa"])
def test_no_play_gains_on_the_endgame_player_from_the_last_deal_on(
    preset: str, memory: Memory
) -> None:
    for game in last_deals(40, PRESETS[preset]):
        value = solve(game, memory=memory).value
        assert most_against_the_player(game, game.turn, memory) == -value
        assert most_against_the_player(game, 1 - game.turn, memory) == value


def test_a_view_from_the_last_deal_on_is_worth_what_the_game_is(memory: Memory) -> None:
    for game in last_deals(20, {}):
        rng = random.Random(game.seed)
        while not game.is_over:
            solution = solve(game, memory=memory)
            for seat in (0, 1):
                view = game.view(seat)
                before = view.records.tobytes()
                assert solve_view(view, memory=memory) == solution
                assert view.records.tobytes() == before
            game.step(rng.choice(game.legal_actions()))


def test_hidden_cards_do_not_matter_where_all_is_known(memory: Memory) -> None:
    for game in last_deals(20, {}):
        rng = random.Random(game.seed)
        other = with_hidden_cards_elsewhere(game, game.turn, rng)
        assert solve_view(other.view(game.turn), memory=memory) == solve(game, memory=memory)


def test_many_views_are_solved_as_each_is(memory: Memory) -> None:
    games = [position(number, 6, {}) for number in range(30)]
    views = [game.view(game.turn) for game in games]
    joined = Batch(len(games), seed=0).views()
    joined.records[:] = np.concatenate([view.records for view in views])
    solutions = solve_views(joined, memory=memory)
    for i, game in enumerate(games):
        solution = solve(game, memory=memory)
        assert solutions.values[i] == solution.value
        assert solutions.nodes[i] == solution.nodes
        assert solutions.best_actions[i] == solution.best_actions[0]
        legal = {a: int(v) for a, v in enumerate(solutions.actions[i]) if v != NO_VALUE}
        assert legal == solution.actions
    # Two threads, each with a memory of its own, get in nobody's way.
    with ThreadPoolExecutor(2) as threads:
        for again in threads.map(
            lambda _: solve_views(joined, memory=make_memory(2**10)), range(4)
        ):
            assert (again.actions == solutions.actions).all()
    nothing = solve_views(joined[:0], memory=memory)
    assert nothing.values.shape == (0,)
    assert nothing.actions.shape == (0, 43)


def test_open_hands_are_known_once_no_more_are_dealt(memory: Memory) -> None:
    # With jokers two cards stay in the stock: all know which.
    fields = {"preset": "comodines", "open_hands": True, "players": 4, "partnership": True}
    for game in last_deals(5, fields):
        for seat in range(4):
            assert solve_view(game.view(seat), memory=memory) == solve(game, memory=memory)


def test_partners_know_all_when_one_hand_alone_is_hidden(memory: Memory) -> None:
    for game in last_deals(5, {"players": 4, "partnership": True}):
        while turns_left(game) > 2:
            game.step(game.legal_actions()[0])
        assert solve_view(game.view(game.turn), memory=memory) == solve(game, memory=memory)
        # A partner who has played all cards does not know which of the two holds which.
        with pytest.raises(ValueError, match="hides 1 cards in the hand"):
            solve_view(game.view((game.turn + 2) % 4))


@pytest.mark.parametrize(
    ("fields", "turns", "hidden"),
    [
        ({}, 12, "3 cards in the hand of seat . and 6 in the stock"),
        ({}, 7, "6 in the stock"),
        ({"open_hands": True}, 12, "6 in the stock"),
        ({"preset": "comodines"}, 6, "3 cards in the hand of seat . and 2 in the stock"),
        ({"players": 4, "partnership": True}, 12, "3 cards in the hand of seat . and 3 cards"),
    ],
)
def test_a_view_that_hides_something_is_refused(fields: Fields, turns: int, hidden: str) -> None:
    game = Game(fields, seed=0)
    while turns_left(game) > turns:
        game.step(game.legal_actions()[0])
    for call in (solve_view, solve_views):
        with pytest.raises(ValueError, match=f"hides {hidden}"):
            call(game.view(game.turn))


# -- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"players": 3}, {"players": 4}])
def test_more_than_two_sides_are_refused(fields: Fields) -> None:
    game = Game(fields, seed=0)
    with pytest.raises(ValueError, match=f"players={fields['players']}.*two sides"):
        solve(game)
    with pytest.raises(ValueError, match="two sides"):
        solve_view(game.view(0))
    with pytest.raises(ValueError, match="two sides"):
        solve_views(game.view(0))


def test_a_game_that_is_over_is_refused() -> None:
    game = Game(seed=0)
    while not game.is_over:
        game.step(game.legal_actions()[0])
    for call in (lambda: solve(game), lambda: solve_view(game.view(0))):
        with pytest.raises(ValueError, match="the game is over"):
            call()


def test_wrong_arguments_are_refused() -> None:
    game: Any = Game(seed=0)
    with pytest.raises(ValueError, match="allowed: a Game"):
        solve(game.view(0))
    for call in (solve_view, solve_views):
        with pytest.raises(ValueError, match="allowed: Views"):
            call(game)
    with pytest.raises(ValueError, match="allowed: one"):
        solve_view(Batch(2, seed=0).views())
    for max_nodes in (0, -1, True, 1.5, "many"):
        with pytest.raises(ValueError, match="max_nodes"):
            solve(game, max_nodes=max_nodes)
    for rows in (0, 1, 3, 100, "many"):
        with pytest.raises(ValueError, match="rows"):
            make_memory(rows)  # type: ignore[arg-type]


def test_work_space_that_is_none_is_refused() -> None:
    game, view = Game(seed=0), game_at_the_end().view(0)
    right = make_memory(2)
    for memory in (
        *(5, (), (1, 2, 3, 4), Memory(1, 2, 3, 4)),  # type: ignore[arg-type]
        tuple(right),
        right._replace(slots=right.slots[:1]),
        right._replace(slots=np.empty(3, right.slots.dtype)),
        right._replace(nodes=right.nodes[1:]),
        right._replace(plans=right.nodes),
    ):
        wrong: Any = memory
        for call in (
            lambda wrong=wrong: solve(game, memory=wrong),
            lambda wrong=wrong: solve_view(view, memory=wrong),
            lambda wrong=wrong: solve_views(view, memory=wrong),
        ):
            with pytest.raises(ValueError, match=r"memory .* is not possible; allowed: that of"):
                call()
    assert solve(game, memory=right).value == solve(game).value


def test_a_number_of_rows_of_any_integer_type_is_that_many() -> None:
    rows: Any = np.uint16(2**10)
    assert len(make_memory(rows).slots) == 2**10


def game_at_the_end() -> Game:
    game = Game(seed=0)
    while game.record["turn_index"] < 34:
        game.play(game.legal_moves()[0])
    return game


def test_a_table_for_which_there_is_no_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(shape: int, dtype: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(np, "empty", full)
    with pytest.raises(ValueError, match=r"rows 4294967296 is not possible: they take 128\.0 GiB"):
        make_memory(2**32)


def test_a_limit_is_an_error_not_another_answer(memory: Memory) -> None:
    game = Game(seed=0)
    nodes = solve(game, memory=memory).nodes
    assert solve(game, memory=memory, max_nodes=nodes).nodes == nodes
    with pytest.raises(SolverLimitError, match="max_nodes=100"):
        solve(game, memory=memory, max_nodes=100)
    last = next(last_deals(1, {}))
    with pytest.raises(SolverLimitError, match="view 0 takes more than max_nodes=2"):
        solve_views(last.view(0), max_nodes=2)
    # Afterwards the same memory still does.
    assert solve(game, memory=memory).nodes == nodes


# -- without a compiler ---------------------------------------------------------------------


def some_solutions() -> list[str]:
    memory = make_memory(2**8)
    found = []
    for number in range(3 * len(TWO_SIDES)):
        solution = solve(position(number, 5), memory=memory)
        found.append(f"{solution.value} {solution.nodes} {solution.actions}")
    views = next(last_deals(1, {})).view(0)
    found.append(str(solve_views(views, memory=memory).actions.tolist()))
    return found


def test_it_finds_the_same_as_plain_python_without_a_warning() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == some_solutions()


if __name__ == "__main__":
    json.dump(some_solutions(), sys.stdout)


def test_solvable_views_are_those_that_are_solved() -> None:
    """Each view is judged by itself."""
    batch = Batch(60, skip_forced=True)
    batch.reset(3)
    batch.play_random(60 * 14)
    views = batch.views(np.flatnonzero(~batch.over))
    found = solvable(views)
    assert found.any()
    assert not found.all()
    for i, known in enumerate(found):
        if known:
            solve_view(views[i : i + 1])
            continue
        with pytest.raises(ValueError, match="hides"):
            solve_view(views[i : i + 1])
