"""``repr`` is one readable line in notation; that of a view tells what its seat knows."""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import pytest

from escoba_env import (
    PRESETS,
    AllSeatsEnv,
    Batch,
    Encoding,
    EscobaEnv,
    EscobaVectorEnv,
    Game,
    Move,
    Recording,
    Rules,
    escoba_v0,
    evaluate,
    load_policy,
    make_rules,
    parse_move,
    play_game,
)
from escoba_env.cards import CARD_NAMES, card_name, card_set
from escoba_env.policies import ISMCTSPolicy, SearchPolicy


def played(game: Game, picks: int, seed: int = 1) -> Game:
    """The game after some random picks."""
    rng = random.Random(seed)
    for _ in range(picks):
        if game.is_over:
            break
        game.step(rng.choice(game.legal_actions()))
    return game


EVERYTHING: dict[str, Any] = {
    "game": lambda: played(Game(seed=1), 9),
    "game in a turn": lambda: played(Game("tabletop", players=4, partnership=True, seed=2), 30),
    "match": lambda: played(Game("comodines", episode="match", seed=1), 60),
    "finished game": lambda: played(Game(seed=1), 100),
    "view": lambda: played(Game(seed=1), 9).view(0),
    "views": lambda: Batch(5).views(),
    "no views": lambda: Batch(5).views([]),
    "whole games": lambda: Batch(5).whole_games(),
    "batch": lambda: Batch(5, "argentine", players=3),
    "encoding": lambda: Encoding("planes", "comodines", "match", "visible"),
    "evaluation": lambda: evaluate("greedy", "random", deals=20),
    "rules": lambda: make_rules("tabletop", players=4),
    "move": lambda: parse_move("7o:5c+3b"),
    "replay": lambda: play_game(["random", "greedy"]),
    "recording": lambda: Recording(Game(seed=1), ["a", "b"]),
    "raw_env": escoba_v0.env,
    "parallel_env": escoba_v0.parallel_env,
    "EscobaEnv": lambda: EscobaEnv(["greedy", "random"], players=3, seat="random"),
    "EscobaVectorEnv": lambda: EscobaVectorEnv(4),
    "AllSeatsEnv": lambda: AllSeatsEnv(4),
    **{
        name: lambda name=name: load_policy(name)
        for name in ("random", "greedy", "counting", "search", "ismcts", "cheat:search")
    },
    "function": lambda: load_policy(lambda _, mask: int(mask.argmax())),
    "learned": lambda: load_policy("classic-2p:sample=true"),
}


@pytest.mark.parametrize("make", EVERYTHING.values(), ids=EVERYTHING)
def test_everything_is_written_on_one_line_without_an_address(make: Any) -> None:
    text = repr(make())
    assert "\n" not in text
    assert " at 0x" not in text
    assert text.isascii()
    assert 5 < len(text) <= 300


@pytest.mark.parametrize("preset", PRESETS)
def test_rules_encodings_and_moves_are_written_as_what_makes_them(preset: str) -> None:
    rules = make_rules(preset, players=3)
    assert eval(repr(rules)) == rules  # noqa: S307
    encoding = Encoding("universal", rules, "match", "visible")
    again = eval(repr(encoding))  # noqa: S307
    assert (again.layout(), again.rules, again.memory) == (
        *(encoding.layout(), encoding.rules),
        encoding.memory,
    )
    game = Game(rules, seed=4)
    while not game.is_over:
        moves = game.legal_moves()
        assert eval(repr(moves)) == moves  # noqa: S307
        game.play(moves[-1])


def test_searches_are_written_as_what_makes_them() -> None:
    for policy in (
        SearchPolicy(worlds=8, rollout="greedy", prior=0, belief=True, utility="win"),
        SearchPolicy(time=0.5),
        SearchPolicy(),
        ISMCTSPolicy(iterations=20, exploration=0.5, rollout="random"),
    ):
        again = eval(repr(policy))  # noqa: S307
        assert repr(again) == repr(policy)
        assert vars(again).keys() == vars(policy).keys()
    assert repr(SearchPolicy(worlds=8)) == "SearchPolicy(worlds=8)"


def test_a_move_is_written_in_notation() -> None:
    assert repr(parse_move("7o>3c+5e")) == "Move('7o>3c+5e')"
    assert Move("7o:5c+3b") == Move(6, card_set([14, 32]))
    assert Move("7o").card == 6
    assert str(Move("Re>1c")) == "Re>1c"
    with pytest.raises(ValueError, match="one of them"):
        Move(6, 2, 4)
    with pytest.raises(ValueError, match="notation"):
        Move("7o", 2)


def test_a_game_is_written_in_notation() -> None:
    game = Game(seed=3)
    assert repr(game) == (
        f"<Game classic, 2 players, round: player_{game.turn} to move, "
        f"hand {' '.join(map(card_name, game.hand(game.turn)))}, "
        f"table {' '.join(map(card_name, game.table))}, 30 in the stock>"
    )


def test_a_game_is_printed_as_its_table() -> None:
    game = played(Game(seed=3), 4)
    lines = str(game).splitlines()
    assert lines[0] == "One round"
    assert [line for line in lines if line.startswith(("> player", "  player"))] == lines[2:4]
    hands = [" ".join(map(card_name, game.hand(seat))) for seat in range(2)]
    assert all(hand in line for hand, line in zip(hands, lines[2:4], strict=True))
    stock = game.record["stock"][game.record["stock_next"] :]
    assert not any(card_name(int(card)) in str(game).split() for card in stock if card >= 0)


@pytest.mark.parametrize("rules", ["classic", "comodines", "tabletop"])
def test_the_repr_of_a_view_is_the_same_whatever_is_hidden(rules: str) -> None:
    game = played(Game(rules, seed=5), 7)
    while game.record["hand_counts"].min(initial=9, where=[True, True, False, False]) == 0:
        game.step(game.legal_actions()[0])
    seat = game.turn
    view = game.view(seat)
    known = {card for card in range(len(CARD_NAMES)) if card_name(card) in repr(view)}
    assert known <= {*game.hand(seat), *game.table, int(game.record["played"])}
    # A card of the other hand changes places with the next one of the stock.
    state = game.states.copy()
    held, drawn = game.hand(1 - seat)[0], int(state["stock"][0, state["stock_next"][0]])
    state["hands"][0, 1 - seat] ^= 1 << held | 1 << drawn
    places = [state["stock"][0].tolist().index(card) for card in (held, drawn)]
    state["stock"][0, places] = drawn, held
    state["seed"] = 99
    other = game.clone()
    other.set_state(state.tobytes())
    assert other.hand(1 - seat) != game.hand(1 - seat)
    assert repr(other.view(seat)) == repr(view)


def test_an_environment_tells_what_everybody_at_the_table_sees() -> None:
    env = escoba_v0.env(players=3)
    assert repr(env) == "<raw_env classic, 3 players, round: no game yet>"
    env.reset(seed=1)
    table = " ".join(map(card_name, env.game.table))
    assert repr(env) == (
        f"<raw_env classic, 3 players, round: {env.agent_selection} to move, table {table}>"
    )
    with pytest.warns(UserWarning, match="illegal"):
        env.step(42)
    assert repr(env) == "<raw_env classic, 3 players, round: over>"
    single = gymnasium.make("escoba_env/Escoba-v0")
    assert "EscobaEnv classic, 2 players, round" in str(single)


def test_the_title_of_rules_names_the_nearest_preset_and_what_differs() -> None:
    assert Rules().title == "classic, 2 players"
    assert make_rules("argentine", players=4, partnership=True).title == (
        "argentine, 4 players as partners"
    )
    assert make_rules("scopa", setenta=2).title == "scopa with setenta=2, 2 players"
    many = make_rules(ties="all", escoba=2, target=5, setenta=3, napola=True, most_cards=2)
    assert many.title.count("=") == 4
    assert "2 more" in many.title
