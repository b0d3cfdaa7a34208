"""Encodings: nothing hidden gets in, nothing public is lost, and every column is what it says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from escoba_env import PRESETS, Batch, Encoding, Game, Move, Rules, RulesError, make_rules
from escoba_env.cards import CARD_NAMES, NUM_ACTIONS, SUITS, card_set, cards_in, names_of
from escoba_env.encoding import DTYPES, MEMORIES, VERSIONS, Section
from escoba_env.encoding_docs import text as documentation
from escoba_env.engine import batch as kernels
from escoba_env.engine.record import GAME_OVER, NOBODY, STATE, TWELFTHS, lower

Fields = dict[str, Any]
Records = NDArray[np.void]

ROOT = Path(__file__).resolve().parents[1]
TABLES: dict[str, Fields] = {
    "2": {"players": 2},
    "3": {"players": 3},
    "4": {"players": 4},
    "partners": {"players": 4, "partnership": True},
}
ENCODINGS = [
    (name, memory)
    for name in VERSIONS
    for memory in MEMORIES
    if (name, memory) != ("history", "visible")
]
SEATS = {
    2: ["self", "next"],
    3: ["self", "next", "previous"],
    4: ["self", "next", "opposite", "previous"],
}

every_table = pytest.mark.parametrize("table", TABLES)
every_preset = pytest.mark.parametrize("preset", PRESETS)
every_encoding = pytest.mark.parametrize(("name", "memory"), ENCODINGS)


# Rules and positions


@st.composite
def any_rules(draw: st.DrawFn) -> Rules:
    """Draws rules over every field; half of them with a pack of their own."""
    fields: Fields = {**PRESETS[draw(st.sampled_from(sorted(PRESETS)))]}
    fields.update(TABLES[draw(st.sampled_from(sorted(TABLES)))])
    if draw(st.booleans()):
        fields["ranks"] = tuple(draw(st.sets(st.integers(1, 10), min_size=1)))
        fields["suits"] = tuple(draw(st.sets(st.sampled_from(SUITS), min_size=1)))
        fields["hand_size"] = draw(st.integers(1, 5))
        fields["table_size"] = draw(st.integers(0, 6))
        fields["target_sum"] = draw(st.integers(2, 30))
    for name, choices in {
        "capture": ["optional", "card", "hand"],
        "initial_table": ["play", "dealer", "eldest", "set_aside", "redeal"],
        "initial_thirty": ["groups", "sum"],
        "ties": ["none", "all", "split"],
        "building": [False, True],
        "jokers": [0, 2],
        "open_hands": [False, True],
        "target": [1, 11, 100_000],
        "partnership_target": [None, 30],
        "setenta": [0, 1000],
    }.items():
        if draw(st.booleans()):
            fields[name] = draw(st.sampled_from(choices))
    try:
        return make_rules(fields)
    except RulesError:
        assume(False)
        raise


seeds = st.integers(0, 2**63 - 1)


def positions(
    rules: Rules, episode: str = "round", seed: int = 0, games: int = 6, steps: int = 60
) -> Records:
    """Plays games at random and returns what they were at some picks, mid-turn ones too, and last.

    Each is kept with probability 0.15.
    """
    batch = Batch(games, rules, episode=episode, seed=seed)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(steps):
        chosen = rng.random(games) < 0.15
        found.append(batch.states[chosen].copy())
        playing = np.flatnonzero(~batch.over)
        if not len(playing):
            break
        chances = rng.random((len(playing), NUM_ACTIONS)) * batch.legal_masks(playing)
        batch.step(chances.argmax(axis=1), playing)
    return np.concatenate([*found, batch.states])


def encoded(
    encoding: Encoding, records: Records, seats: Any
) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """Encodes records as seats see them, whatever they are: permuted, rotated, masked."""
    rows = len(records)
    out = np.full((rows, *encoding.shape), 77, encoding.dtype)
    masks = np.empty((rows, NUM_ACTIONS), np.int8)
    spec = lower(encoding.rules, encoding.episode)
    seats = np.broadcast_to(np.asarray(seats, np.int64), rows)
    flat = out.reshape(rows, encoding.size)
    kernels.observe_games(spec, records, np.arange(rows), seats, encoding.plan, flat, masks)
    return out, masks


def encodings(rules: Rules, episode: str = "round") -> Iterator[Encoding]:
    """All encodings of a table."""
    for name, memory in ENCODINGS:
        yield Encoding(name, rules, episode, memory)


# Nothing hidden gets in


def dealt_anew(
    rules: Rules, record: Any, seat: int, rng: np.random.Generator, *, forgotten: bool
) -> Any:
    """A record with all that a seat cannot know drawn again: other hands, the stock, its past.

    Args:
        forgotten: Whether the seat does not remember captured cards, so that these too may be
            anywhere, in piles of the same size.
    """
    new = np.array([record])
    state = new[0]
    start, end = int(record["stock_next"]), int(record["stock_size"])
    sets = [] if rules.open_hands else [("hands", s) for s in range(rules.players) if s != seat]
    if forgotten:
        sets += [("piles", s) for s in range(rules.players)]
    hidden = [int(card) for card in record["stock"][start:end]]
    for field, owner in sets:
        hidden += cards_in(record[field][owner])
    drawn = [int(card) for card in rng.permutation(hidden)]
    for field, owner in sets:
        count = int(record[field][owner]).bit_count()
        state[field][owner] = card_set(drawn[:count])
        drawn = drawn[count:]
    state["stock"][start:end] = drawn
    state["stock"][:start] = rng.permutation(record["stock"][:start])
    state["seed"], state["game_index"] = rng.integers(2**62, size=2)
    if forgotten:
        for field in ("played_at", "taken_at"):
            state[field] = rng.integers(-2, 101, len(state[field]))
    kernels.set_legal(lower(rules), new)
    return new[0]


def check_no_leak(rules: Rules, episode: str, records: Records, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for seat, memory in itertools.product(range(rules.players), MEMORIES):
        forgotten = memory == "visible"
        others = np.array([dealt_anew(rules, r, seat, rng, forgotten=forgotten) for r in records])
        for name in (name for name, kind in ENCODINGS if kind == memory):
            encoding = Encoding(name, rules, episode, memory)
            before, mask = encoded(encoding, records, seat)
            after, other_mask = encoded(encoding, others, seat)
            assert before.tobytes() == after.tobytes(), (name, memory, seat)
            assert mask.tobytes() == other_mask.tobytes()


@every_table
@every_preset
def test_hidden_cards_change_no_observation(preset: str, table: str) -> None:
    """Nor, with memory visible, do captured cards: which there are, and in whose pile."""
    for episode in ("round", "match"):
        rules = make_rules(preset, **TABLES[table])
        check_no_leak(rules, episode, positions(rules, episode), seed=1)


@settings(max_examples=40, deadline=None)
@given(any_rules(), seeds)
def test_hidden_cards_change_no_observation_of_random_rules(rules: Rules, seed: int) -> None:
    check_no_leak(rules, "round", positions(rules, seed=seed, games=3), seed)


@every_table
def test_captured_cards_are_told_apart_with_perfect_memory_alone(table: str) -> None:
    """The forgetting above is not the permutation's failing to change anything."""
    rules = make_rules(**TABLES[table])
    records = positions(rules)
    swapped = records.copy()
    for record in swapped:
        mine, theirs = (list(cards_in(pile)) for pile in record["piles"][:2])
        if mine and theirs:
            record["piles"][0] ^= 1 << mine[0] | 1 << theirs[0]
            record["piles"][1] ^= 1 << mine[0] | 1 << theirs[0]
    changed = (swapped["piles"] != records["piles"]).any(axis=1)
    assert changed.sum() > 10
    for name, memory in ENCODINGS:
        encoding = Encoding(name, rules, memory=memory)
        before, after = (encoded(encoding, states, 0)[0] for states in (records, swapped))
        differ = (before != after).reshape(len(records), -1).any(axis=1)
        assert (differ == (changed if memory == "perfect" else False)).all()


@every_table
@pytest.mark.parametrize("preset", ["classic", "tabletop", "comodines", "scopa", "open_table"])
def test_facts_without_memory_are_those_of_nothing_captured(preset: str, table: str) -> None:
    """Every card out of sight may be in the next hand, as if the piles were in the stock."""
    rules = make_rules(preset, **TABLES[table])
    records = positions(rules, games=40)
    unknowing = records.copy()
    unknowing["piles"] = 0
    differ = 0
    for name in ("tactical", "universal_tactical"):
        forgetful, knowing = (Encoding(name, rules, memory=memory) for memory in reversed(MEMORIES))
        at, there = forgetful.layout()["facts"].slice, knowing.layout()["facts"].slice
        facts = encoded(forgetful, records, records["turn"])[0][:, at]
        assert (
            facts.tobytes() == encoded(knowing, unknowing, records["turn"])[0][:, there].tobytes()
        )
        differ += (facts != encoded(knowing, records, records["turn"])[0][:, there]).sum()
    assert differ > 0


@every_preset
def test_a_view_is_observed_as_the_game_is(preset: str) -> None:
    for table, episode in itertools.product(TABLES.values(), ("round", "match")):
        batch = Batch(8, preset, episode=episode, seed=4, **table)
        rng = np.random.default_rng(4)
        for _ in range(4):
            for seat in range(batch.rules.players):
                seats = np.full(len(batch), seat)
                views = batch.views(seats=seats)
                for encoding in encodings(batch.rules, episode):
                    seen, masks = encoded(encoding, batch.states, seats)
                    observations, view_masks = views.observe(encoding)
                    assert observations.shape == (8, *encoding.shape)
                    assert observations.tobytes() == seen.tobytes()
                    assert view_masks.tobytes() == masks.tobytes()
            for _ in range(12):
                playing = np.flatnonzero(~batch.over)
                chances = rng.random((len(playing), NUM_ACTIONS)) * batch.legal_masks(playing)
                batch.step(chances.argmax(axis=1), playing)


# Nothing public is lost


SMALL_PACKS: dict[str, Fields] = {
    "pairs": {"ranks": (1, 2, 3), "target_sum": 4},
    "optional": {"ranks": (1, 2, 3), "target_sum": 4, "capture": "optional"},
    "building": {"preset": "tabletop", "ranks": (1, 2, 3), "target_sum": 5},
    "optional building": {
        "preset": "tabletop",
        "ranks": (1, 2, 3),
        "target_sum": 5,
        "capture": "optional",
    },
    "jokers": {"preset": "comodines", "ranks": (1, 2), "target_sum": 4},
    "dealer": {"ranks": (1, 2, 3), "target_sum": 4, "initial_table": "dealer"},
    "eldest": {"ranks": (1, 2, 3), "target_sum": 3, "initial_table": "eldest"},
    "set aside": {"ranks": (1, 2, 3), "target_sum": 4, "initial_table": "set_aside"},
    "open": {"ranks": (1, 2, 3), "target_sum": 4, "open_hands": True},
    "scopa": {"preset": "scopa", "ranks": (1, 2, 3)},
}
"""Packs so small that random games meet in the same positions by different ways."""


def small_rules(pack: str, table: str) -> Rules:
    sizes = {"suits": ("oros", "copas"), "hand_size": 1, "table_size": 2}
    return make_rules({**sizes, **SMALL_PACKS[pack], **TABLES[table]})


def seen_from(seat: int, other: int, players: int) -> int:
    return (other - seat) % players if other >= 0 else NOBODY


def public_position(rules: Rules, record: Any, seat: int, *, remembers: bool, match: bool) -> Any:
    """Everything that a seat knows of a position; its past and who sits where left out."""
    players, sides = rules.players, rules.num_sides
    order = [(seat + i) % players for i in range(players)]
    piles = [int(record["piles"][s]) for s in order]
    own_hand = int(record["hands"][seat])
    hands = [int(record["hands"][s]) for s in order] if rules.open_hands else own_hand
    # Of leftovers that nobody was given, who remembers nothing sees the table's alone.
    return (
        int(record["table"]),
        [int(record["pile_of"][card]) for card in cards_in(record["table"])],
        int(record["set_aside"]),
        int(record["played"]),
        int(record["picked"]),
        int(record["placing"]),
        piles if remembers else [pile.bit_count() for pile in piles],
        hands,
        [int(record["hand_counts"][s]) for s in order],
        [int(record["escobas"][s]) for s in order],
        seen_from(seat, int(record["last_capturer"]), players),
        seen_from(seat, int(record["dealer"]), players),
        seen_from(seat, int(record["turn"]), players) if record["phase"] != GAME_OVER else None,
        int(record["stock_size"]) - int(record["stock_next"]),
        [int(record["scores"][(seat + i) % sides]) for i in range(sides)] if match else None,
    )


def check_one_to_one(pairs: list[tuple[bytes, str]]) -> None:
    """Checks that observations and what they should tell apart go with each other one to one."""
    observations, known = ({pair[i] for pair in pairs} for i in (0, 1))
    both = set(pairs)
    assert len(both) == len(observations), "an observation stands for two different positions"
    assert len(both) == len(known), "a position has two different observations"
    assert len(both) < 0.98 * len(pairs), "the games are too different to show anything"


@pytest.mark.parametrize("table", ["2", "3", "partners"])
@pytest.mark.parametrize("pack", SMALL_PACKS)
def test_equal_observations_are_equal_positions_and_legal_actions(pack: str, table: str) -> None:
    """And equal positions are observed equally, whatever led to them, but by ``history``."""
    rules = small_rules(pack, table)
    for episode in ("round", "match"):
        records = positions(rules, episode, games=250, steps=20)
        for encoding in encodings(rules, episode):
            remembers, match = encoding.memory == "perfect", episode == "match"
            # Universal observes scores always: after a round they are its points.
            match |= encoding.name.startswith("universal")
            pairs = []
            for seat in range(rules.players):
                observations, masks = encoded(encoding, records, seat)
                for record, observation, mask in zip(records, observations, masks, strict=True):
                    known = public_position(rules, record, seat, remembers=remembers, match=match)
                    pairs.append((observation.tobytes(), repr((known, mask.tobytes()))))
            if encoding.name == "history":
                assert len(set(pairs)) == len({observation for observation, _ in pairs})
            else:
                check_one_to_one(pairs)


def public_history(game: Game, turns: list[tuple[int, Move]], first: int, seat: int) -> str:
    """Everything public of a round so far, as a seat sees it, and its own hand."""
    players, record = game.rules.players, game.record
    others = None
    if game.rules.open_hands:
        others = [game.hand((seat + i) % players) for i in range(1, players)]
    return repr(
        (
            [(seen_from(seat, who, players), str(move)) for who, move in turns],
            first,
            seen_from(seat, game.dealer, players),
            game.hand(seat),
            others,
            (int(record["played"]), int(record["picked"]), int(record["placing"])),
            # Uncovered at the end.
            sorted(set(cards_in(sum(int(pile) for pile in record["piles"])))) * game.is_over,
        )
    )


@pytest.mark.parametrize("table", ["2", "3", "partners"])
@pytest.mark.parametrize("pack", SMALL_PACKS)
def test_history_separates_any_two_histories(pack: str, table: str) -> None:
    """The first table, what became of it, every turn, and the picks of the one in progress."""
    rules = small_rules(pack, table)
    encoding = Encoding("history", rules)
    rng = np.random.default_rng(2)
    pairs: list[tuple[bytes, str]] = []
    for seed in range(120):
        # Few deals, so that games begin alike and part later.
        game = Game(rules, seed=seed % 6)
        start = rules.players * rules.hand_size
        first = card_set(map(int, game.record["stock"][start : start + rules.table_size]))
        turns: list[tuple[int, Move]] = []
        while True:
            move, picks = None, [None]
            if not game.is_over:
                moves = game.legal_moves()
                move = moves[int(rng.integers(len(moves)))]
                picks = game.picks_of(move)
            mover = game.turn
            for pick in picks:
                for seat in range(rules.players):
                    observation = game.view(seat).observe(encoding)[0]
                    known = public_history(game, turns, first, seat)
                    pairs.append((observation.tobytes(), known))
                if pick is not None:
                    game.step(pick)
            if move is None:
                break
            turns.append((mover, move))
    check_one_to_one(pairs)


def logged_game(rules: Rules, seed: int) -> tuple[Game, list[tuple[int, Move, int]]]:
    """Plays a round at random, move by move, and notes who made which and its escobas."""
    game = Game(rules, seed=seed)
    rng = np.random.default_rng(seed)
    log = []
    while not game.is_over:
        moves = game.legal_moves()
        move, seat = moves[int(rng.integers(len(moves)))], game.turn
        before = int(game.record["escobas"][seat])
        game.play(move)
        log.append((seat, move, int(game.record["escobas"][seat]) - before))
    return game, log


def check_turns(rules: Rules, seed: int) -> list[tuple[int, Move, int]]:
    """Plays a round, checks what each seat is told of its past, and returns that."""
    game, log = logged_game(rules, seed)
    encoding = Encoding("history", rules)
    layout = encoding.layout()
    players, width = rules.players, encoding.card_width
    for seat in range(players):
        observation = game.view(seat).observe(encoding)[0][0]
        part = {name: observation[s.slice].reshape(s.shape) for name, s in layout.items()}
        assert layout["turn_cards"].shape == (rules.turns, width)
        assert len(log) == rules.turns
        for turn, (who, move, escobas) in enumerate(log):
            assert part["turn_seats"][turn].tolist() == [
                float(seen_from(seat, who, players) == i) for i in range(players)
            ]
            assert ids(part["turn_cards"][turn]) == 1 << move.card
            assert ids(part["turn_captures"][turn]) == move.taken
            assert (ids(part["turn_piles"][turn]) if rules.building else 0) == move.onto
            assert part["turn_escobas"][turn] == escobas
        start = players * rules.hand_size
        first = card_set(map(int, game.record["stock"][start : start + rules.table_size]))
        assert ids(part["first_table"]) == first
        lines = encoding.describe(observation).splitlines()
        names = SEATS[players]
        assert lines[-len(log) :] == [
            f"turn {turn + 1}: {names[seen_from(seat, who, players)]} {move}"
            + (", escoba" if escobas else "")
            for turn, (who, move, escobas) in enumerate(log)
        ]
    return log


@every_table
@every_preset
def test_turns_of_the_history_are_the_moves_made(preset: str, table: str) -> None:
    for seed in range(3):
        check_turns(make_rules(preset, **TABLES[table]), seed)


@settings(max_examples=80, deadline=None)
@given(any_rules(), seeds)
def test_turns_of_random_rules_are_the_moves_made(rules: Rules, seed: int) -> None:
    check_turns(rules, seed)


@pytest.mark.parametrize("rule", ["dealer", "eldest", "set_aside"])
def test_turns_after_a_first_table_of_fifteen_are_the_moves_made(rule: str) -> None:
    """Taken with the deal or set aside, it is not there to be swept."""
    rules = make_rules(initial_table=rule, capture="hand")
    encoding = Encoding("history", rules)
    section = encoding.layout()["set_aside" if rule == "set_aside" else "won_with_deal"]
    found = escobas = 0
    for seed in range(400):
        game = Game(rules, seed=seed)
        first = ids(game.view(0).observe(encoding)[0][0, section.slice])
        assert first == (0 if game.table else card_set(map(int, game.record["stock"][6:10])))
        if first:
            found += 1
            escobas += sum(number for _, _, number in check_turns(rules, seed))
    assert found > 10
    assert escobas > 10


def test_history_goes_back_to_the_deal_of_the_round_and_no_further() -> None:
    game = Game("classic", episode="match", seed=5)
    rng = np.random.default_rng(5)
    encoding = Encoding("history", game.rules, "match")
    layout = encoding.layout()
    rounds = 0
    while rounds == 0:
        game.step(int(rng.choice(game.legal_actions())))
        rounds = int(game.record["round_index"])
    observation = game.view(0).observe(encoding)[0][0]
    assert not observation[layout["turn_seats"].start :].any()
    assert ids(observation[layout["first_table"].slice]) == card_set(game.table)
    assert observation[layout["scores"].slice].any()


# Seats are relative


def rotated(rules: Rules, records: Records, by: int) -> Records:
    """The same games with everybody moved some seats to the right."""
    players, sides = rules.players, rules.num_sides
    new = records.copy()
    for field in ("hands", "piles", "hand_counts", "escobas"):
        new[field][:, :players] = np.roll(records[field][:, :players], by, axis=1)
    for field in ("scores", "round_points"):
        new[field][:, :sides] = np.roll(records[field][:, :sides], by % sides, axis=1)
    for field in ("turn", "dealer", "last_capturer"):
        moved = (records[field] + by) % players
        new[field] = np.where(records[field] == NOBODY, NOBODY, moved)
    return new


@every_table
@every_preset
def test_rotating_the_table_rotates_the_observations(preset: str, table: str) -> None:
    for episode in ("round", "match"):
        rules = make_rules(preset, **TABLES[table])
        records = positions(rules, episode, games=4)
        for encoding in encodings(rules, episode):
            seen = [encoded(encoding, records, seat) for seat in range(rules.players)]
            for by in range(1, rules.players):
                others = rotated(rules, records, by)
                for seat in range(rules.players):
                    moved = encoded(encoding, others, (seat + by) % rules.players)
                    for array, expected in zip(moved, seen[seat], strict=True):
                        assert array.tobytes() == expected.tobytes()


# What every section says


def ids(values: NDArray[Any]) -> int:
    """Reads zeros and ones by card id as a card set."""
    assert np.isin(values, (0, 1)).all()
    return card_set(map(int, np.flatnonzero(values)))


def bits(cards: int, width: int) -> list[int]:
    return [cards >> card & 1 for card in range(width)]


def hot(index: int | None, size: int) -> list[int]:
    return [int(i == index) for i in range(size)]


def expected_sections(rules: Rules, record: Any, seat: int, width: int) -> dict[str, Any]:
    """What each section but facts, rules and turns must hold, unscaled, in plain words of Python.

    Sections of seats are listed in order of play; absent seats are left out.
    """
    players, sides = rules.players, rules.num_sides
    order = [(seat + i) % players for i in range(players)]
    piles = [int(record["piles"][s]) for s in order]
    hands = [int(record["hands"][s]) for s in order]
    table, played = int(record["table"]), int(record["played"])
    out_of_sight = rules.pack & ~(table | int(record["set_aside"]) | hands[0] | sum(piles))
    out_of_sight &= ~(1 << played) if played != NOBODY else -1
    if rules.open_hands:
        out_of_sight &= ~sum(hands)
    totals, heads = [0] * width, [0] * width
    for card in reversed(list(cards_in(table))):
        head = int(record["pile_of"][card]) if rules.building else card
        totals[head] += card % 10 + 1 if card < 40 else 0
        heads[card] = head + 1
    oros, sevens = card_set(range(10)), card_set(range(6, 40, 10))
    stock = int(record["stock_size"]) - int(record["stock_next"])
    over = record["phase"] == GAME_OVER
    return {
        "hand": bits(hands[0], width),
        "table": bits(table, width),
        "played": hot(None if played == NOBODY else played, width),
        "picked": bits(int(record["picked"]), width),
        "captured": [bits(pile, width) for pile in piles],
        "unseen": bits(out_of_sight, width),
        "set_aside": bits(int(record["set_aside"]), width),
        "pile_totals": totals,
        "pile_heads": heads,
        "placing": [int(record["placing"])],
        "open_hands": [bits(h if rules.open_hands else 0, width) for h in hands[1:]],
        "hand_counts": [hand.bit_count() for hand in hands],
        "card_counts": [pile.bit_count() for pile in piles],
        "oro_counts": [(pile & oros).bit_count() for pile in piles],
        "seven_counts": [(pile & sevens).bit_count() for pile in piles],
        "escobas": [int(record["escobas"][s]) for s in order],
        "last_capturer": [int(record["last_capturer"] == s) for s in order],
        "dealer": [int(record["dealer"] == s) for s in order],
        "to_move": [int(record["turn"] == s and not over) for s in order],
        "deals_left": [stock // (players * rules.hand_size)],
        # Of each seat's side; compact has each side once.
        "scores": [int(record["scores"][s % sides]) / TWELFTHS for s in order],
    }


def unscaled(encoding: Encoding, section: Section, observations: NDArray[Any]) -> NDArray[Any]:
    """A section's numbers before scaling, as in a flat encoding, absent seats left out."""
    rows = len(observations)
    values = observations[:, section.slice] / section.scale
    if encoding.name == "planes":
        if section.kind not in ("cards", "card_numbers"):
            assert (values == values[..., :1, :1]).all(), "not a constant plane"
            return values[..., 0, 0]
        sets = values.reshape(rows, -1, 1 + encoding.card_width - 40, 4, 10)
        jokers = sets[:, :, 1:]
        assert (jokers == jokers[..., :1, :1]).all(), "a joker is not a constant plane"
        cards = sets[:, :, 0].reshape(rows, -1, 40)
        cards = np.concatenate([cards, jokers[..., 0, 0]], axis=2)
        return cards if section.labels else cards[:, 0]
    values = values.reshape(rows, *section.shape)
    if "opposite" in section.labels and encoding.rules.players < 4:
        present = np.array([label in SEATS[encoding.rules.players] for label in section.labels])
        assert not values[:, ~present].any(), "an absent seat is not zeros"
        values = values[:, present]
    return values


def check_sections(rules: Rules, episode: str, records: Records) -> None:
    for seat in range(rules.players):
        expected: dict[int, dict[str, NDArray[Any]]] = {}
        for width in {42, Encoding("compact", rules).card_width}:
            each = [expected_sections(rules, record, seat, width) for record in records]
            expected[width] = {name: np.array([one[name] for one in each]) for name in each[0]}
        for encoding in encodings(rules, episode):
            observations, _ = encoded(encoding, records, seat)
            assert (observations >= encoding.low).all()
            assert (observations <= encoding.high).all()
            layout = encoding.layout()
            for name in layout.keys() & expected[42]:
                numbers = unscaled(encoding, layout[name], observations)
                right = expected[encoding.card_width][name]
                if name == "scores" and not encoding.name.startswith("universal"):
                    right = right[:, : rules.num_sides]
                np.testing.assert_allclose(numbers, right, 1e-5, err_msg=f"{encoding.name} {name}")


@every_table
@every_preset
def test_every_section_says_what_the_position_is(preset: str, table: str) -> None:
    """Within its bounds, absent seats zero, numbers filling their planes."""
    rules = make_rules(preset, **TABLES[table])
    check_sections(rules, "round", positions(rules))
    check_sections(rules, "match", positions(rules, "match", steps=90))


@settings(max_examples=60, deadline=None)
@given(any_rules(), st.sampled_from(["round", "match"]), seeds)
def test_every_section_of_random_rules_says_what_the_position_is(
    rules: Rules, episode: str, seed: int
) -> None:
    try:
        lower(rules, episode)
    except ValueError:
        # A match that nobody can score in.
        episode = "round"
    check_sections(rules, episode, positions(rules, episode, seed, steps=30))


@settings(max_examples=60, deadline=None)
@given(any_rules(), st.sampled_from(["round", "match"]))
def test_sections_cover_every_column_once(rules: Rules, episode: str) -> None:
    for encoding in encodings(rules, episode):
        columns = [
            column
            for section in encoding.layout().values()
            for column in range(section.start, section.stop)
        ]
        assert columns == list(range(encoding.shape[0]))
        assert len(encoding.layout()) == len(encoding.sections)
        assert encoding.size == np.prod(encoding.shape)
        assert encoding.low.shape == encoding.high.shape == encoding.shape
        for section in encoding.sections:
            assert section.stop - section.start == np.prod(section.shape)


@settings(max_examples=30, deadline=None)
@given(any_rules(), seeds)
def test_every_column_is_written(rules: Rules, seed: int) -> None:
    """Whatever stood in the buffer before."""
    records = positions(rules, seed=seed, games=2, steps=20)
    spec, rows = lower(rules), len(records)
    masks = np.empty((0, NUM_ACTIONS), np.int8)
    for encoding in encodings(rules):
        written = []
        for filling in (np.nan, 5):
            out = np.full((rows, encoding.size), filling, np.float32)
            seats = records["turn"].astype(np.int64)
            kernels.observe_games(spec, records, np.arange(rows), seats, encoding.plan, out, masks)
            written.append(out.tobytes())
        assert written[0] == written[1]


# One shape for everything


def shape_of(encoding: Encoding) -> list[Any]:
    """All that an encoding promises but the scale of scores, which is the target's."""
    return [
        (s.name, s.start, s.shape, s.meaning, s.high, s.kind, s.labels)
        + (() if s.name == "scores" else (s.scale,))
        for s in encoding.sections
    ]


@settings(max_examples=150, deadline=None)
@given(any_rules(), st.sampled_from(["round", "match"]))
def test_universal_has_one_shape_for_all_rules(rules: Rules, episode: str) -> None:
    for name, memory in ENCODINGS:
        if name.startswith("universal"):
            encoding = Encoding(name, rules, episode, memory)
            standard = Encoding(name, Rules(), "round", memory)
            assert shape_of(encoding) == shape_of(standard)
            assert (encoding.low == standard.low).all()
            assert (encoding.high == standard.high).all()


@every_table
@every_preset
def test_universal_has_one_shape_for_all_presets(preset: str, table: str) -> None:
    for episode, memory in itertools.product(("round", "match"), MEMORIES):
        encoding = Encoding("universal", make_rules(preset, **TABLES[table]), episode, memory)
        assert shape_of(encoding) == shape_of(Encoding("universal", Rules(), "round", memory))
        assert encoding.shape == ((745,) if memory == "perfect" else (527,))


CHANGES: dict[str, Any] = {
    "players": 3,
    "partnership": True,
    "capture": "hand",
    "building": True,
    "initial_table": "dealer",
    "initial_thirty": "sum",
    "ties": "split",
    "most_cards": 2,
    "most_oros": 0,
    "all_oros": 2,
    "most_sevens": 0,
    "all_sevens": 2,
    "seven_of_oros": 2,
    "setenta": 1,
    "escoba": 2,
    "target": 31,
    "partnership_target": 31,
    "jokers": 2,
    "open_hands": True,
    "capture_by": "value",
    "napola": True,
    "ranks": (1, 2, 3, 4, 5, 6, 7),
    "suits": ("oros", "copas", "bastos"),
    "hand_size": 4,
    "table_size": 5,
    "target_sum": 16,
}


def test_universal_tells_all_rules_apart() -> None:
    assert set(CHANGES) == set(Rules.__dataclass_fields__)
    seen = {}
    for field, value in CHANGES.items():
        partners = field in ("partnership", "partnership_target")
        base = make_rules(players=4, partnership=field == "partnership_target") if partners else (
            Rules()
        )  # fmt: skip
        for episode, rules in itertools.product(
            ("round", "match"), (base, base.replace(**{field: value}))
        ):
            batch = Batch(1, rules, encoding="universal", episode=episode)
            layout = batch.encoding.layout()
            about = slice(layout["rules_pack"].start, layout["rules_target"].stop)
            columns = batch.observe()[0][0, about].tobytes()
            assert seen.setdefault(columns, (rules, episode)) == (rules, episode)
    assert len(seen) == 2 * (len(CHANGES) + 2)


def test_seats_of_universal_are_the_same_columns_for_all_numbers_of_players() -> None:
    """Two players: the other is next. Three: next and previous, the opposite seat is absent."""
    for players, places in {2: [0, 1], 3: [0, 1, 3], 4: [0, 1, 2, 3]}.items():
        game = Game("classic", players=players, seed=1)
        encoding = Encoding("universal", game.rules)
        to_move = encoding.layout()["to_move"]
        assert to_move.labels == ("self", "next", "opposite", "previous")
        for seat in range(players):
            values = game.view(seat).observe(encoding)[0][0, to_move.slice]
            assert values.argmax() == places[(game.turn - seat) % players]
            assert values.sum() == 1


# In words


@every_encoding
@every_preset
def test_describe_names_the_right_cards(preset: str, name: str, memory: str) -> None:
    for table in TABLES.values():
        rules = make_rules(preset, **table)
        encoding = Encoding(name, rules, "match", memory)
        game = Game(rules, episode="match", seed=9)
        rng = np.random.default_rng(9)
        for _ in range(30):
            game.step(int(rng.choice(game.legal_actions())))
        for seat in range(rules.players):
            words = encoding.describe(game.view(seat).observe(encoding)[0][0])
            lines = dict(line.split(": ", 1) for line in words.splitlines())
            order = [(seat + i) % rules.players for i in range(rules.players)]
            labels = SEATS[rules.players]
            assert lines["hand"] == (names_of(card_set(game.hand(seat))) or "-")
            assert lines["table"] == (names_of(card_set(game.table)) or "-")
            assert lines["to_move"] == labels[order.index(game.turn)]
            assert lines["dealer"] == labels[order.index(game.dealer)]
            assert f"next {len(game.pile(order[1]))}" in lines["card_counts"]
            assert ("captured" in lines) == (memory == "perfect")
            if memory == "perfect":
                captured = lines["captured"].split(", ")
                for label, other in zip(labels, order, strict=True):
                    pile = names_of(card_set(game.pile(other))) or "-"
                    assert f"{label} {pile}" in captured
            if rules.building:
                piles = [pair.split() for pair in lines["pile_totals"].split(", ")]
                totals = [sum(card % 10 + 1 for card in pile) for pile in game.table_piles]
                heads = [CARD_NAMES[pile[0]] for pile in game.table_piles]
                if heads:
                    expected = sorted(zip(heads, map(str, totals), strict=True))
                    assert sorted(map(tuple, piles)) == expected
            if name.startswith("universal"):
                assert lines["rules_capture"] == rules.capture
                assert lines["rules_players"] == str(rules.players)
                assert lines["rules_target"] == str(rules.match_target)
                assert f"escoba {rules.escoba}" in lines["rules_points"]
            if "facts" in lines and game.turn == seat:
                legal = names_of(card_set(a for a in game.legal_actions() if a < 42)).split()
                assert [fact.split()[0] for fact in lines["facts"].split(", ")][
                    : len(legal)
                ] == legal


def test_describe_refuses_another_shape() -> None:
    for encoding in encodings(Rules()):
        with pytest.raises(ValueError, match=f"of encoding '{encoding.name}'; allowed"):
            encoding.describe(np.zeros(encoding.size + 1, np.float32))


# Small numbers


@every_table
@every_preset
def test_uint8_is_the_float_before_scaling(preset: str, table: str) -> None:
    rules = make_rules(preset, **TABLES[table])
    records = positions(rules, games=4)
    for name, memory in (("compact", "perfect"), ("compact", "visible"), ("planes", "perfect"),
                         ("planes", "visible"), ("history", "perfect")):  # fmt: skip
        floats, small = (Encoding(name, rules, "round", memory, dtype) for dtype in DTYPES)
        assert [s.start for s in floats.sections] == [s.start for s in small.sections]
        assert {s.scale for s in small.sections} == {1}
        for seat in range(rules.players):
            observations, _ = encoded(floats, records, seat)
            numbers, _ = encoded(small, records, seat)
            assert numbers.dtype == small.high.dtype == np.uint8
            assert (numbers <= small.high).all()
            for section in floats.sections:
                scaled = observations[:, section.slice] / section.scale
                assert (numbers[:, section.slice] == np.round(scaled)).all()


@pytest.mark.parametrize(
    ("name", "episode", "section"),
    [
        ("tactical", "round", "facts"),
        ("universal", "round", "scores"),
        ("universal_tactical", "round", "scores"),
        *((name, "match", "scores") for name in ("compact", "planes", "history")),
    ],
)
def test_uint8_is_refused_for_other_numbers(name: str, episode: str, section: str) -> None:
    message = f"dtype 'uint8' is not possible for section '{section}' of encoding '{name}'"
    with pytest.raises(ValueError, match=message):
        Encoding(name, Rules(), episode, dtype="uint8")
    with pytest.raises(ValueError, match=message):
        Batch(2, encoding=name, episode=episode, dtype="uint8")


# Batches


@every_encoding
def test_batch_writes_into_the_callers_arrays(name: str, memory: str) -> None:
    batch = Batch(5, encoding=name, memory=memory, seed=2)
    encoding = batch.encoding
    observations, masks = batch.observe()
    assert observations.shape == (5, *encoding.shape)
    assert observations.dtype == np.float32
    store = np.full((2, 5, *encoding.shape), np.nan, np.float32)
    out, given_masks = batch.observe(out=store[1], masks=masks)
    assert given_masks is masks
    assert np.shares_memory(out, store)
    assert store[1].tobytes() == observations.tobytes()
    assert np.isnan(store[0]).all()
    assert batch.observe([3, 1])[0].tobytes() == observations[[3, 1]].tobytes()


def test_batch_refuses_arrays_that_do_not_fit() -> None:
    batch = Batch(3, encoding="planes")
    planes = batch.encoding.shape
    for out in (
        np.empty((3, *planes), np.uint8),
        np.empty((3, *planes), np.float64),
        np.empty((3, batch.encoding.size), np.float32),
        np.empty((2, *planes), np.float32),
    ):
        with pytest.raises(ValueError, match=r"^out is"):
            batch.observe(out=out)
    with pytest.raises(ValueError, match="out is not contiguous"):
        batch.observe(out=np.empty((3, 2 * planes[0], 4, 10), np.float32)[:, ::2])
    small = Batch(3, encoding="planes", dtype="uint8")
    assert small.observe()[0].dtype == np.uint8
    with pytest.raises(ValueError, match=r"^out is float32"):
        small.observe(out=np.empty((3, *planes), np.float32))


def test_views_refuse_the_encoding_of_other_rules() -> None:
    views = Batch(2, players=3).views()
    with pytest.raises(ValueError, match="the encoding is for"):
        views.observe(Encoding("compact", Rules()))
    assert len(views.observe(Encoding("compact", make_rules(players=3)))[0]) == 2


# Refusals and documentation


def test_unknown_arguments_are_refused_by_name() -> None:
    make: dict[str, Callable[[], Any]] = {
        "encoding 'tiny' is unknown; allowed: compact": lambda: Encoding("tiny", Rules()),
        "episode 'set' is unknown; allowed: round": lambda: Encoding("compact", Rules(), "set"),
        "memory 'none' is unknown; allowed: perfect, visible": lambda: Batch(1, memory="none"),
        "dtype 'int8' is unknown; allowed: float32, uint8": lambda: Batch(1, dtype="int8"),
        "encoding 'history' is not possible with memory='visible'": lambda: Batch(
            1, encoding="history", memory="visible"
        ),
    }
    for message, call in make.items():
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


def test_documentation_is_what_the_encodings_say() -> None:
    """If not: ``python -m escoba_env.encoding_docs > docs/encodings.md``."""
    assert (ROOT / "docs" / "encodings.md").read_text(encoding="utf-8") == documentation()


def test_documented_numbers_add_up() -> None:
    page = documentation()
    for name in VERSIONS:
        part = page.split(f"## `{name}`")[1].split("\n## ")[0]
        rows = [row.split(" | ") for row in part.splitlines() if row.startswith(("| `", "| **"))]
        numbers = [int(row[2].strip("* ")) for row in rows]
        assert sum(numbers[:-1]) == numbers[-1] == Encoding(name, Rules()).shape[0]


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_policy_of_the_universal_encoding_plays_every_table(memory: str) -> None:
    """One network, trained for one table, is given the rules of another."""
    pytest.importorskip("torch")
    from escoba_env.policies.checkpoint import Card, NetworkCard
    from escoba_env.policies.learned import LearnedPolicy
    from escoba_env.policies.network import PolicyNetwork

    encoding = Encoding("universal_tactical", Rules(), memory=memory)
    state_size = encoding.layout()["facts"].start
    card = Card(
        name="any",
        encoding=encoding.name,
        encoding_version=encoding.version,
        memory=memory,
        rules=Rules().as_dict(),
        episode="round",
        network=NetworkCard(state_size=state_size, hidden=(8,), action_hidden=8),
    )
    policy = LearnedPolicy(card, PolicyNetwork(state_size, (8,), 8))
    match = encoding.layout()["rules_flags"].labels.index("match")
    for preset, table in zip(PRESETS, itertools.cycle(TABLES.values()), strict=False):
        for episode in ("match", "round"):
            batch = Batch(3, preset, episode=episode, **table)
            batch.step(policy.act(batch.views()))
            assert policy.encoding.rules == batch.rules
            assert policy.encoding.memory == memory
            observation = batch.views().observe(policy.encoding)[0][0]
            flags = observation[policy.encoding.layout()["rules_flags"].slice]
            assert flags[match] == (episode == "match")


def test_work_of_a_record_is_not_shared_between_rows() -> None:
    """Rows of one call are the observations of their games alone, in any order."""
    rules = make_rules("tabletop", players=3)
    records = positions(rules)
    order = np.random.default_rng(0).permutation(len(records))
    for encoding in encodings(rules):
        together, _ = encoded(encoding, records, 1)
        assert encoded(encoding, records[order], 1)[0].tobytes() == together[order].tobytes()


def test_a_round_with_more_turns_than_there_is_room_for_stays_within_its_columns() -> None:
    """Set up by hand, hands may be larger than those that are dealt; the rest is left out."""
    game = Game(hand_size=20, table_size=0)
    while not game.is_over:
        game.step(game.legal_actions()[0])
    assert int(game.record["turn_index"]) == 40
    encoding = Encoding("history", Rules())
    record, rows = np.array([game.record], STATE), np.zeros(1, np.int64)
    buffer = np.full((3, encoding.size), 7, np.float32)
    masks = np.empty((0, NUM_ACTIONS), np.int8)
    kernels.observe_games(lower(Rules()), record, rows, rows, encoding.plan, buffer[1:2], masks)
    assert (buffer[[0, 2]] == 7).all()
    assert buffer[1, encoding.layout()["turn_cards"].slice].sum() == 36
