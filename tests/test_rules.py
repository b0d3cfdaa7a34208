"""``Rules``: the presets of the rules page, and the refusal of everything that cannot be played."""

from __future__ import annotations

import dataclasses
import json
import pickle
import random
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import (
    Fields,
    reference_beside,
    reference_move,
    somebody_can_score,
)
from reference.presets import CLASSIC
from reference.presets import PRESETS as REFERENCE_PRESETS
from test_engine_against_reference import (
    examples,
    playable_fields,
    seeds,
)

from escoba_env import PRESETS, Batch, Game, Rules, RulesError, make_rules
from escoba_env.cards import FULL_PACK, LAY
from escoba_env.rules import CHOICES

FIELDS = [field.name for field in dataclasses.fields(Rules)]
POINT_FIELDS = (
    "most_cards", "most_oros", "all_oros", "most_sevens", "all_sevens", "seven_of_oros",
    "setenta", "escoba",
)  # fmt: skip


def values_of(rules: Rules) -> Fields:
    """Returns every field of some rules."""
    return {name: getattr(rules, name) for name in FIELDS}


# Presets


@pytest.mark.parametrize("preset", REFERENCE_PRESETS)
def test_a_preset_is_the_column_of_the_rules_page(preset: str) -> None:
    assert values_of(make_rules(preset)) == REFERENCE_PRESETS[preset]


def test_the_presets_are_those_of_the_rules_page_and_cannot_be_changed() -> None:
    assert set(PRESETS) == set(REFERENCE_PRESETS)
    assert values_of(Rules()) == CLASSIC
    with pytest.raises(TypeError):
        PRESETS["classic"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        CHOICES["ties"] = ()  # type: ignore[index]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    ("players", "partnership"), [(2, False), (3, False), (4, False), (4, True)]
)
def test_every_preset_goes_with_every_number_of_players(
    preset: str, players: int, partnership: bool
) -> None:
    rules = make_rules(preset, players=players, partnership=partnership)
    assert rules.num_sides == (2 if partnership else players)
    assert [rules.side_of(seat) for seat in range(players)] == [
        seat % rules.num_sides for seat in range(players)
    ]
    assert rules.turns == 36
    assert rules.deals == {2: 6, 3: 4, 4: 3}[players]
    expected = REFERENCE_PRESETS[preset]["partnership_target"] if partnership else None
    assert rules.match_target == (expected or REFERENCE_PRESETS[preset]["target"])


def test_a_partnership_target_is_for_partnerships_alone() -> None:
    fields: Fields = {"target": 10, "partnership_target": 30, "players": 4}
    assert make_rules(**fields).match_target == 10
    assert make_rules(**fields, partnership=True).match_target == 30
    assert make_rules(players=4, partnership=True, target=10).match_target == 10


# What is refused: field, value and what is allowed

POINTS = [-1, 1001, 1.0, "1", None, True, 10**30]
BAD_VALUES: dict[str, list[Any]] = {
    "players": [0, 1, 5, -2, 2.0, "2", None, True, [2]],
    "partnership": [None, 1, "true", "yes", []],
    "capture": ["Card", "", "both", 1, None, True, ["card"]],
    "building": [None, 1, "false"],
    "initial_table": ["nothing", "", 0, None],
    "initial_thirty": ["group", 30, None],
    "ties": ["both", 0, None, True],
    **dict.fromkeys(POINT_FIELDS, POINTS),
    "target": [0, -1, 100_001, 21.0, "21", None, True],
    "partnership_target": [0, -1, 100_001, 30.0, "30", False],
    "jokers": [1, 3, -2, 2.0, "2", None, True],
    "open_hands": [None, 0, "no"],
    "capture_by": ["Value", 15, None],
    "napola": [None, 1, "true"],
    "ranks": [(), [0], [11], [1, 1], [1.0], ["1"], [True], 5, "123", None, {1, 2}, [[1]]],
    "suits": [(), ["oros", "oros"], ["coins"], [0], "oros", None, {"oros"}, [["oros"]]],
    "hand_size": [0, -1, 41, 3.0, "3", None, True],
    "table_size": [-1, 41, 4.0, "4", None, True],
    "target_sum": [0, 1, -15, 61, 15.0, "15", None, True],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in BAD_VALUES.items() for value in values]
)
def test_an_impossible_value_is_refused_with_field_value_and_what_is_allowed(
    field: str, value: Any
) -> None:
    allowed = Rules.__dataclass_fields__[field].metadata["allowed"]
    for make in (Rules, make_rules, Rules().replace):
        with pytest.raises(RulesError) as error:
            make(**{field: value})
        assert f"{field}={value!r}" in str(error.value)
        assert f"allowed: {allowed}" in str(error.value)


def test_the_values_above_are_of_every_field() -> None:
    assert set(BAD_VALUES) == set(FIELDS)


COMBINATIONS: list[tuple[Fields, list[str]]] = [
    ({"partnership": True}, ["partnership=True", "players=4", "players=2"]),
    ({"partnership": True, "players": 3}, ["partnership=True", "players=4", "players=3"]),
    ({"all_oros": 0}, ["all_oros=0", "most_oros=1"]),
    ({"most_oros": 5, "all_oros": 4}, ["all_oros=4", "most_oros=5"]),
    ({"all_sevens": 0}, ["all_sevens=0", "most_sevens=1"]),
    ({"most_sevens": 3, "all_sevens": 2}, ["all_sevens=2", "most_sevens=3"]),
    ({"building": True, "jokers": 2}, ["building=True", "jokers=0"]),
    ({"building": True, "capture_by": "value"}, ["building=True", "capture_by='fifteen'"]),
    ({"jokers": 2, "capture_by": "value"}, ["jokers=2", "capture_by='value'", "0"]),
    *(
        ({"initial_table": choice, "capture_by": "value"}, [f"initial_table={choice!r}", "'play'"])
        for choice in ("dealer", "eldest", "set_aside", "redeal")
    ),
    ({"hand_size": 19}, ["hand_size=19", "table_size=4", "42", "40"]),
    ({"table_size": 35}, ["hand_size=3", "table_size=35", "41", "40"]),
    ({"players": 4, "hand_size": 10, "table_size": 1}, ["players=4", "hand_size=10", "41"]),
    ({"ranks": [1]}, ["ranks=(1,)", "10", "4"]),
    ({"suits": ["oros"], "players": 3}, ["suits=('oros',)", "13", "10"]),
]


@pytest.mark.parametrize(("fields", "named"), COMBINATIONS, ids=repr)
def test_an_impossible_combination_is_refused_with_both_fields(
    fields: Fields, named: list[str]
) -> None:
    with pytest.raises(RulesError) as error:
        Rules(**fields)
    message = str(error.value)
    assert "allowed: " in message
    for part in named:
        assert part in message


@pytest.mark.parametrize(
    "fields",
    [
        {"players": 4, "partnership": True},
        {"most_oros": 4, "all_oros": 4, "most_sevens": 0, "all_sevens": 1000},
        {"hand_size": 18, "table_size": 4},
        {"hand_size": 20, "table_size": 0},
        {"players": 4, "hand_size": 10, "table_size": 0},
        {"table_size": 34},
        {"ranks": [3], "suits": ["bastos", "oros"], "hand_size": 1, "table_size": 0},
        {"jokers": 2, "hand_size": 21, "table_size": 0},
        {"target_sum": 2, "target": 1, "partnership_target": 100_000},
        {"target_sum": 60},
    ],
    ids=repr,
)
def test_a_combination_at_the_edge_is_possible(fields: Fields) -> None:
    rules = Rules(**fields)
    for name, value in fields.items():
        expected = tuple(value) if isinstance(value, list) else value
        assert (
            set(getattr(rules, name)) == set(expected)
            if isinstance(value, list)
            else (getattr(rules, name) == value)
        )


@pytest.mark.parametrize(
    ("name", "meant"),
    [("playrs", "players"), ("all_seven", "all_sevens"), ("Target", "target"), ("joker", "jokers")],
)
def test_an_unknown_field_is_refused_with_the_one_that_was_meant(name: str, meant: str) -> None:
    for make in (
        lambda: make_rules(**{name: 2}),
        lambda: make_rules({name: 2}),
        lambda: make_rules({"preset": "scopa", name: 2}),
        lambda: Rules().replace(**{name: 2}),
        lambda: Game(**{name: 2}),
        lambda: Batch(1, **{name: 2}),
    ):
        with pytest.raises(RulesError, match=rf"{name!r}=2.*did you mean {meant!r}.*allowed: "):
            make()


@pytest.mark.parametrize("name", ["xyz", "", 5, None, ("a",)])
def test_a_field_like_no_other_is_refused_without_a_guess(name: Any) -> None:
    with pytest.raises(RulesError, match=re.escape(repr(name))) as error:
        make_rules({name: 1})
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize("rules", ["Classic", "", "escoba", 5, None, 1.0, ["classic"], b"classic"])
def test_rules_that_are_neither_preset_nor_fields_are_refused(rules: Any) -> None:
    with pytest.raises(RulesError, match=re.escape(repr(rules))) as error:
        make_rules(rules)
    assert "classic" in str(error.value)


@pytest.mark.parametrize("preset", ["x", None, 5, ["classic"]])
def test_an_unknown_preset_in_a_mapping_is_refused(preset: Any) -> None:
    with pytest.raises(RulesError, match=re.escape(f"preset {preset!r}")):
        make_rules({"preset": preset})


# What can never end


def test_a_redeal_that_never_helps_is_refused() -> None:
    """Every first table makes fifteen, so the deal would never end: a single rank can do so."""
    fields: Fields = {"ranks": (5,), "table_size": 2, "hand_size": 1, "target_sum": 10}
    for possible in ({}, {"initial_table": "set_aside"}, {"initial_table": "redeal", "jokers": 2}):
        Rules(**{**fields, **possible})
    with pytest.raises(RulesError, match="initial_table='redeal'"):
        Rules(**fields, initial_table="redeal")


@examples(200)
@given(playable_fields())
def test_a_match_in_which_nobody_can_score_is_refused(fields: Fields) -> None:
    """It would never end: no capture is possible, or nothing is worth a point."""
    if somebody_can_score(fields):
        Game(fields, episode="match", seed=0)
    else:
        Game(fields, episode="round", seed=0)
        for make in (Game, lambda *a, **k: Batch(1, *a, **k)):
            with pytest.raises(ValueError, match=r"match.*nobody can score"):
                make(fields, episode="match", seed=0)


NO_POINTS = dict.fromkeys(POINT_FIELDS, 0)


@pytest.mark.parametrize(
    "fields",
    [
        NO_POINTS,
        {**NO_POINTS, "all_oros": 1, "suits": ("copas", "bastos")},
        {**NO_POINTS, "all_sevens": 1, "ranks": (1, 2, 3, 4, 5, 6)},
        {**NO_POINTS, "seven_of_oros": 1, "suits": ("copas", "bastos")},
        {**NO_POINTS, "seven_of_oros": 1, "ranks": (1, 2, 3, 4, 5, 6)},
        {"ranks": (2, 4, 6, 8), "target_sum": 15},
        {"ranks": (9, 10), "hand_size": 1, "target_sum": 15},
    ],
    ids=repr,
)
def test_a_match_for_points_that_the_pack_does_not_have_is_refused(fields: Fields) -> None:
    assert not somebody_can_score({**CLASSIC, **fields})
    with pytest.raises(ValueError, match=r"match.*nobody can score"):
        Game(fields, episode="match", seed=0)


@pytest.mark.parametrize(
    "fields",
    [
        {"napola": True},
        {"napola": True, "capture_by": "value"},
        {"napola": True, "ranks": (1, 2, 3), "suits": ("oros", "copas"), "target_sum": 3,
         "hand_size": 1, "table_size": 2},
        *({name: 1} for name in ("most_cards", "all_oros", "all_sevens", "seven_of_oros",
                                 "setenta", "escoba")),
    ],
    ids=repr,
)  # fmt: skip
def test_a_match_for_the_points_of_one_category_is_played(fields: Fields) -> None:
    game, rng = (
        Game({**NO_POINTS, "target": 1, **fields}, episode="match", seed=0),
        random.Random(0),
    )
    while not game.is_over:
        game.step(rng.choice(game.legal_actions()))
    assert max(game.scores) >= 1
    assert game.record["round_index"] + 1 < game.rules.max_rounds


ENDLESS: list[Fields] = [
    # Every side takes one card of each kind of play, or all are tied in what scores.
    {"ranks": (5,), "hand_size": 1, "table_size": 2, "target_sum": 10, "setenta": 1},
    {"ranks": (5,), "hand_size": 1, "table_size": 2, "target_sum": 10, "most_cards": 1},
    {"suits": ("oros",), "hand_size": 2, "table_size": 1, "target_sum": 55, "most_cards": 1},
]


@pytest.mark.parametrize("fields", ENDLESS, ids=repr)
def test_a_match_in_which_nobody_leads_is_over_after_so_many_rounds(fields: Fields) -> None:
    """Whatever is played: the sides that share the lead share the win."""
    rules = {**NO_POINTS, "target": 1, **fields}
    game = Game(rules, episode="match", reward="win", seed=0)
    reference, rng = reference_beside(game, rules), random.Random(0)
    while not game.is_over:
        move = rng.choice(game.legal_moves())
        game.play(move)
        reference.play(reference_move(move))
    assert reference.match_over
    assert reference.winner is None
    assert len(reference.reports) == game.record["round_index"] + 1 == game.rules.max_rounds == 1100
    assert game.returns == [0, 0]
    assert Game.from_text(game.to_text()).is_over
    text = Game(rules, episode="match").to_text()
    Game.from_text(text.replace(" round=0 ", " round=1099 "))
    with pytest.raises(ValueError, match="round_index=1100"):
        Game.from_text(text.replace(" round=0 ", " round=1100 "))


def test_a_match_in_which_nobody_captures_is_over_after_so_many_rounds() -> None:
    """With optional capture no rule makes anybody capture."""
    fields: Fields = {"ranks": (5, 10), "hand_size": 1, "table_size": 1, "capture": "optional"}
    game = Game(fields, target=2, partnership_target=30, episode="match", reward="win", seed=0)
    assert game.rules.max_rounds == 1200
    while not game.is_over:
        game.step(LAY if LAY in game.legal_actions() else game.legal_actions()[0])
    assert game.record["round_index"] == 1199
    assert game.scores == game.returns == [0, 0]
    partners = {"players": 4, "partnership": True}
    assert game.rules.replace(**partners).max_rounds == 4000


# One way to say the same


@examples(200)
@given(playable_fields())
def test_rules_are_the_same_by_whichever_way_they_are_made(fields: Fields) -> None:
    rules = make_rules(**fields)
    ways = [
        Rules(**fields),
        make_rules(fields),
        make_rules(rules),
        make_rules(MappingProxyType(fields)),
        make_rules("classic", **fields),
        make_rules({"preset": "scopa", **CLASSIC, **fields}),
        make_rules(rules.as_dict()),
        make_rules(rules.changes()),
        make_rules(json.loads(json.dumps(rules.as_dict()))),
        make_rules("tabletop").replace(**rules.as_dict()),
        eval(repr(rules)),  # noqa: S307
        pickle.loads(pickle.dumps(rules)),  # noqa: S301
        dataclasses.replace(rules),
    ]
    for same in ways:
        assert same == rules
        assert hash(same) == hash(rules)
        assert repr(same) == repr(rules)
        assert same.as_dict() == rules.as_dict()
    for name, value in fields.items():
        assert (
            set(getattr(rules, name)) == set(value)
            if name in {"ranks", "suits"}
            else (getattr(rules, name) == value)
        )


def test_a_pack_has_one_order_however_it_is_given() -> None:
    one = Rules(ranks=[7, 1, 3], suits=["bastos", "oros"], hand_size=1)
    two = Rules(ranks=(1, 3, 7), suits=("oros", "bastos"), hand_size=1)
    assert one == two
    assert (one.ranks, one.suits) == ((1, 3, 7), ("oros", "bastos"))
    assert one.pack_size == 6
    assert [card for card in range(42) if one.pack >> card & 1] == [0, 2, 6, 30, 32, 36]


def test_jokers_are_the_last_two_cards_of_the_pack() -> None:
    assert Rules().pack == FULL_PACK == (1 << 40) - 1
    assert Rules(jokers=2).pack == (1 << 42) - 1
    assert Rules(jokers=2).pack_size == 42


@pytest.mark.parametrize("field", FIELDS)
def test_rules_that_differ_in_one_field_differ(field: str) -> None:
    changed: Fields = {
        "players": 3, "partnership": True, "capture": "hand", "building": True,
        "initial_table": "dealer", "initial_thirty": "sum", "ties": "all", "jokers": 2,
        "open_hands": True, "capture_by": "value", "napola": True, "ranks": (1, 2, 3, 4, 5),
        "suits": ("oros", "copas", "espadas"), "hand_size": 4, "table_size": 5,
        "most_oros": 0, "most_sevens": 0,
    }  # fmt: skip
    base = Rules(players=4) if field == "partnership" else Rules()
    rules = base.replace(**{field: changed.get(field, 17)})
    assert rules != base
    assert field in rules.changes()
    assert f"{field}=" in repr(rules)
    assert base.replace() == base


def test_rules_cannot_be_changed() -> None:
    rules = Rules()
    with pytest.raises(dataclasses.FrozenInstanceError):
        rules.players = 3  # type: ignore[misc]
    copy = rules.as_dict()
    copy["ranks"].append(5)
    assert rules == Rules()


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_says_what_it_means_and_what_is_allowed(field: str) -> None:
    metadata = Rules.__dataclass_fields__[field].metadata
    assert len(metadata["meaning"]) > 5
    assert len(metadata["allowed"]) > 2


# Anything at all

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 45)
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(max_size=5)
    | st.binary(max_size=3)
    | st.sampled_from([word for words in CHOICES.values() for word in words]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
        | st.frozensets(st.integers(1, 10))
    ),
    max_leaves=4,
)


@examples(500)
@given(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=4))
def test_no_value_of_any_type_raises_anything_but_a_rules_error(fields: Fields) -> None:
    for make in (Rules, make_rules):
        try:
            rules = make(**fields)
        except RulesError:
            continue
        assert {name: getattr(rules, name) for name in fields} == {
            name: tuple(v) if isinstance(v, list) else v for name, v in ordered(fields).items()
        }
        hash(rules)


def ordered(fields: Fields) -> Fields:
    """Returns fields with the pack in its own order."""
    in_order = dict(fields)
    for name in ("ranks", "suits"):
        if name in in_order:
            in_order[name] = [item for item in getattr(Rules(), name) if item in in_order[name]]
    return in_order


@examples(300)
@given(anything, st.dictionaries(st.text(max_size=6) | st.sampled_from(FIELDS), anything))
def test_nothing_given_as_rules_raises_anything_but_a_rules_error(
    rules: Any, fields: Fields
) -> None:
    for given_rules in (rules, fields, {"preset": rules, **fields}):
        try:
            made = make_rules(given_rules)
        except RulesError:
            continue
        assert isinstance(made, Rules)


@st.composite
def any_fields(draw: st.DrawFn) -> Fields:
    """Draws values of their types for some fields, most of them possible."""
    points = st.integers(0, 1000)
    values: Mapping[str, st.SearchStrategy[Any]] = {
        "players": st.sampled_from([2, 3, 4]),
        **{name: st.booleans() for name in ("partnership", "building", "open_hands", "napola")},
        **{name: st.sampled_from(words) for name, words in CHOICES.items()},
        **dict.fromkeys(POINT_FIELDS, points),
        "target": st.integers(1, 100_000),
        "partnership_target": st.none() | st.integers(1, 100_000),
        "jokers": st.sampled_from([0, 2]),
        "ranks": st.lists(st.integers(1, 10), min_size=1, unique=True),
        "suits": st.lists(st.sampled_from(Rules().suits), min_size=1, unique=True),
        "hand_size": st.integers(1, 40),
        "table_size": st.integers(0, 40),
        "target_sum": st.integers(2, 60),
    }
    assert set(values) == set(FIELDS)
    chosen = draw(st.sets(st.sampled_from(FIELDS), max_size=6))
    return {name: draw(values[name]) for name in sorted(chosen)}


@examples(400)
@given(any_fields(), seeds)
def test_rules_that_are_accepted_give_a_game_in_which_somebody_can_always_move(
    fields: Fields, seed: int
) -> None:
    try:
        rules = Rules(**fields)
    except RulesError:
        return
    game = Game(rules, seed=seed)
    rng = random.Random(seed)
    turns = 0
    while not game.is_over:
        legal = game.legal_actions()
        assert legal
        turns += game.record["played"] == -1
        game.step(rng.choice(legal))
    assert turns == rules.turns > 0
