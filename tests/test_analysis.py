"""Analysis: every legal move, with what policies and the solver say of it."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.needs import needs

from escoba_env import Game, load_policy
from escoba_env.analysis import analyse, analyse_game
from escoba_env.batch import Views
from escoba_env.cards import NUM_ACTIONS, card_name, cards_in
from escoba_env.engine.alike import number_kinds
from escoba_env.engine.record import NOBODY
from escoba_env.position import format_position
from escoba_env.replay import Recording, play_game
from escoba_env.rules import PRESETS
from escoba_env.solver import solve, solve_view


class Uniform:
    """Plays every action alike, and expects as many points as the action's number."""

    name = "uniform"

    def act(self, views: Views) -> NDArray[np.int64]:
        return self.probabilities(views).argmax(1)

    def probabilities(self, views: Views) -> NDArray[np.float64]:
        out = np.zeros((len(views), NUM_ACTIONS))
        for row, legal in zip(out, views.records["legal"], strict=True):
            row[list(cards_in(legal))] = 1 / int(legal).bit_count()
        return out

    def action_values(self, views: Views) -> NDArray[np.float64]:
        values = np.full((len(views), NUM_ACTIONS), np.nan)
        for row, legal in zip(values, views.records["legal"], strict=True):
            row[list(cards_in(legal))] = list(cards_in(legal))
        return values


def game_after(steps: int, seed: int, **fields: Any) -> Game:
    game = Game(**fields, seed=seed)
    rng = random.Random(seed)
    for _ in range(steps):
        after = game.clone()
        after.step(rng.choice(game.legal_actions()))
        if after.is_over:
            break
        game = after
    return game


def view_text(game: Game, seat: int) -> str:
    views = game.view(seat)
    return format_position(views.rules, views.episode, views.records[0])


@pytest.mark.parametrize("players", [2, 3, 4])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_legal_move_is_there_and_probabilities_add_up(preset: str, players: int) -> None:
    for seed in range(4):
        game = game_after(seed * 9 + seed, seed, rules=preset, players=players)
        result = analyse(game, [Uniform(), "greedy"], double_dummy=False)
        assert sorted(row.move for row in result.moves) == game.legal_moves()
        for name in ("uniform", "greedy"):
            total = sum(row.probabilities[name] for row in result.moves)
            assert total == pytest.approx(1)
        assert {row.probabilities["greedy"] for row in result.moves} <= {0.0, 1.0}
        assert result.seat == game.turn


def test_the_move_that_a_policy_plays_is_the_one_it_is_said_to() -> None:
    for seed in range(20):
        game = game_after(seed, seed, capture="optional")
        result = analyse(game, ["greedy"], double_dummy=False)
        (chosen,) = [row.move for row in result.moves if row.probabilities["greedy"] == 1]
        other = game.clone()
        turn = other.record["turn_index"]
        while other.record["turn_index"] == turn:
            other.step(int(load_policy("greedy").act(other.view(other.turn))[0]))
        game.play(chosen)
        assert other.get_state() == game.get_state()


@needs("torch")
def test_probabilities_of_a_network_are_the_products_of_its_picks() -> None:
    policy = load_policy("classic-2p")
    game = next(g for g in (game_after(12, s) for s in range(99)) if _needs_two_picks(g))
    result = analyse(game, ["classic-2p"], double_dummy=False)
    expected = {row.move: 0.0 for row in result.moves}

    def walk(state: Game, likely: float) -> None:
        probabilities = policy.probabilities(state.view(state.turn))[0]  # type: ignore[attr-defined]
        for action in state.legal_actions():
            after = state.clone()
            after.step(action)
            if after.record["turn_index"] != game.record["turn_index"]:
                (move,) = [m for m in state.legal_moves() if _played(state, m) == after.get_state()]
                expected[move] += likely * float(probabilities[action])
            else:
                walk(after, likely * float(probabilities[action]))

    walk(game, 1.0)
    for row in result.moves:
        assert row.probabilities["classic-2p"] == pytest.approx(expected[row.move], abs=1e-5)
        assert row.values == {}


def _needs_two_picks(game: Game) -> bool:
    return any(len(game.picks_of(move)) > 1 for move in game.legal_moves())


def _played(game: Game, move: Any) -> bytes:
    after = game.clone()
    after.play(move)
    return after.get_state()


def test_values_of_a_policy_are_those_of_the_last_pick() -> None:
    game = Game(seed=3)
    result = analyse(game, [Uniform()], double_dummy=False)
    for row in result.moves:
        assert row.values["uniform"] in game.picks_of(row.move) or len(game.picks_of(row.move)) > 1


def test_a_search_plays_what_it_values_most() -> None:
    policy = load_policy("search:worlds=4")
    valued = 0
    for seed in range(12):
        game = game_after(seed, seed, capture="optional")
        view = game.view(game.turn)
        values = policy.action_values(view)[0]  # type: ignore[attr-defined]
        assert set(np.flatnonzero(~np.isnan(values))) <= set(game.legal_actions())
        if not np.isnan(values).all():
            valued += 1
            assert values[policy.act(view)[0]] == pytest.approx(np.nanmax(values))
            result = analyse(game, [policy], double_dummy=False)
            # A search compares one of moves that come to the same; they all have its value.
            assert all(set(row.values) == {"search"} for row in result.moves)
    assert valued > 6
    with pytest.raises(ValueError, match="option time is not possible here; allowed: worlds"):
        load_policy("search:time=0.1").action_values(game.view(game.turn))  # type: ignore[attr-defined]


@pytest.mark.parametrize("episode", ["round", "match"])
def test_the_endgame_has_exact_values(episode: str) -> None:
    for seed in range(5):
        game = game_after(0, seed, episode=episode)
        while game.record["turn_index"] < 31:
            game.play(game.legal_moves()[seed % len(game.legal_moves())])
        result = analyse(game)
        assert {row.move: row.exact for row in result.moves} == solve_view(
            game.view(game.turn)
        ).moves
        # Everything is known: with all cards open it is the same.
        assert {row.move: row.double_dummy for row in result.moves} == solve(game).moves
        assert all(row.double_dummy is None for row in analyse(game, double_dummy=False).moves)
        best = [row.exact for row in result.moves]
        assert best == sorted(best, reverse=True)  # type: ignore[type-var]
        assert result.notes == ()
        assert analyse(view_text(game, game.turn)).moves == result.moves


def test_before_the_endgame_there_is_the_value_with_all_cards_known() -> None:
    game = game_after(20, 4)
    result = analyse(game)
    assert {row.move: row.double_dummy for row in result.moves} == solve(game).moves
    assert all(row.exact is None for row in result.moves)
    assert "no exact value" in result.notes[0]
    short = analyse(game, max_nodes=1)
    assert all(row.double_dummy is None for row in short.moves)
    assert "max_nodes=1" in short.notes[1]


@needs("torch")
def test_a_view_says_what_the_game_says_but_for_hidden_cards() -> None:
    game = game_after(14, 8)
    whole = analyse(game, ["greedy", "classic-2p"], double_dummy=False)
    view = analyse(view_text(game, game.turn), ["greedy", "classic-2p"])
    assert view.moves == whole.moves
    assert all(row.double_dummy is None for row in view.moves)


def test_everything_is_json() -> None:
    result = analyse(game_after(30, 1), ["greedy", Uniform()])
    values = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert values == result.as_dict()
    assert values["policies"] == ["greedy", "uniform"]
    assert set(values["moves"][0]) == {
        *("move", "probabilities", "values", "exact", "double_dummy")
    }
    again = analyse(values["position"], ["greedy", Uniform()])
    assert again == result


# -- whole games ----------------------------------------------------------------------------


def test_every_decision_of_a_game_is_graded_by_what_it_lost() -> None:
    replay = play_game(["greedy", "counting"], seed=5)
    shown: list[tuple[int, int]] = []
    result = analyse_game(replay, ["search:worlds=8"], show=lambda *done: shown.append(done))
    assert shown == [(number + 1, 36) for number in range(36)]
    assert result.notes == ()
    assert [one.turn for one in result.decisions] == list(range(36))
    for one, played in zip(result.decisions, replay.played(), strict=True):
        assert (one.seat, one.move) == (played.seat, played.move)
        game = played.before
        assert one.choices == len(game.legal_moves())
        if one.choices == 1:
            assert (one.loss, one.graded_by) == (0, None)
            continue
        # The last deal is known by counting; before that it is an estimate.
        last_deal = one.turn >= 30
        assert one.graded_by == ("exact" if last_deal else "search:worlds=8")
        assert one.loss is not None
        assert one.loss >= 0
        if last_deal:
            solution = solve_view(game.view(game.turn))
            assert (one.value, one.best_value) == (solution.moves[one.move], solution.value)
            assert one.best in solution.best_moves
            assert one.loss or one.best == one.move
    worst = result.worst(3)
    assert [one.loss for one in worst] == sorted(
        (one.loss for one in result.decisions if one.loss), reverse=True
    )[:3]
    assert result.worst(0) == ()
    with pytest.raises(ValueError, match="most -1 is not possible"):
        result.worst(-1)
    for player in result.players:
        own = [one for one in result.decisions if one.seat == player.seat]
        assert player.name == ["greedy", "counting"][player.seat]
        assert player.loss == pytest.approx(sum(one.loss or 0 for one in own))
        assert player.decisions == player.graded == sum(one.choices > 1 for one in own)
    values = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert values == result.as_dict()
    assert values["decisions"][3]["move"] == str(result.decisions[3].move)


def test_a_seat_is_not_graded_by_cards_that_it_could_not_see() -> None:
    replay = play_game(["greedy", "greedy"], seed=2)
    deck = list(replay.rounds[0].deck)
    # The first turn cannot know the order of the stock.
    deck[10:] = deck[:9:-1]
    game = Game(seed=2)
    game.reset(2, dealer=replay.rounds[0].dealer, deck=[card_name(card) for card in deck])
    recording = Recording(game)
    game_move = replay.rounds[0].moves[0]
    for pick in game.picks_of(game_move):
        recording.step(pick)
    first = analyse_game(recording.replay, ["search:worlds=8"]).decisions[0]
    assert first == analyse_game(replay, ["search:worlds=8"]).decisions[0]


def test_moves_that_nothing_values_are_not_graded_and_a_note_says_so() -> None:
    replay = play_game(["greedy", "random", "random"], players=3)
    result = analyse_game(replay, ["greedy"])
    choices = [one for one in result.decisions if one.choices > 1]
    assert choices
    assert all(one.loss is one.best is one.graded_by is None for one in choices)
    assert f"{len(choices)} of {replay.turns} moves are not graded" in result.notes[0]
    assert "(greedy)" in result.notes[0]
    assert all((one.graded, one.loss) == (0, 0) for one in result.players)
    assert result.worst() == ()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"setenta": 1},
        {"rules": "comodines"},
        {"rules": "tabletop"},
        {"building": True},
        {"building": True, "napola": True},
        {"rules": "scopa", "setenta": 0},
        {"capture": "optional", "players": 4, "partnership": True},
    ],
    ids=str,
)
def test_moves_that_come_to_the_same_have_the_value_that_the_solver_gives_both(
    fields: dict[str, Any],
) -> None:
    """What the searches take for the same is so: nothing that they leave out is worth more."""
    filled = 0
    for seed in range(6):
        game = game_after(26 if fields.get("players", 2) == 2 else 33, seed, **fields)
        if game.record["played"] != NOBODY or game.is_over:
            continue
        moves = game.legal_moves()
        rows = np.array([(move.card, move.taken, move.onto) for move in moves], np.int64)
        kinds = np.empty((len(moves), 3), np.int64)
        number_kinds(game.spec, game.states, rows, kinds)
        values = solve(game).moves
        of_kind: dict[tuple[int, ...], int] = {}
        for move, kind in zip(moves, kinds.tolist(), strict=True):
            filled += tuple(kind) in of_kind
            assert of_kind.setdefault(tuple(kind), values[move]) == values[move]
        named = {(row.card, row.taken, row.onto) for row in moves}
        assert len(named) == len(moves)
    if fields.get("setenta") or fields.get("rules") == "tabletop":
        # The setenta asks for suits: no two moves come to the same.
        assert filled == 0


def test_what_is_no_replay_is_refused() -> None:
    with pytest.raises(ValueError, match=r"replay .* is not possible; allowed: a Replay"):
        analyse_game(Game(seed=0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="policies 'search' are not possible; allowed: a list"):
        analyse_game(play_game(["greedy", "random"]), "search")
    with pytest.raises(ValueError, match="max_nodes 0 is not possible"):
        analyse_game(play_game(["greedy", "random"]), max_nodes=0)


class Answers:
    """Says what it is told to say."""

    name = "mine"

    def __init__(self, **said: Any) -> None:
        for name, answer in said.items():
            setattr(self, name, lambda views, answer=answer: answer)

    def act(self, views: Views) -> Any:
        return [99]


@pytest.mark.parametrize("max_nodes", [0, -1, float("nan"), 1.5, None, "3", True])
def test_impossible_limits_are_refused_at_once(max_nodes: Any) -> None:
    game = game_after(36, 0)
    with pytest.raises(ValueError, match=r"max_nodes .* is not possible; allowed: a whole number"):
        analyse(game, double_dummy=False, max_nodes=max_nodes)


ROW = np.zeros((1, NUM_ACTIONS))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "policy 'mine': action 99 is not an action"),
        ({"act": [float("nan")]}, r"policy 'mine': actions \[nan\] are float64"),
        ({"act": [[1]]}, r"policy 'mine': actions"),
        ({"act": None}, r"policy 'mine': actions None are object"),
        ({"act": [42]}, r"policy 'mine': action 42 .* is illegal"),
        ({"probabilities": None}, r"policy 'mine': probabilities are None; allowed: an array"),
        ({"probabilities": ROW[0]}, r"probabilities are float64 of shape \(43,\); allowed"),
        ({"probabilities": ROW}, "probabilities of a view .* sum to something else"),
        ({"probabilities": ROW * np.nan}, "probabilities of a view"),
        ({"probabilities": ROW + 1 / 43}, r"policy 'mine': probabilities: action .* is illegal"),
        ({"act": "legal", "action_values": 5}, "action_values are 5; allowed: an array"),
        ({"act": "legal", "action_values": ROW + np.inf}, "action_values are infinite"),
    ],
)
def test_policies_that_answer_with_something_else_are_named(
    said: dict[str, Any], message: str
) -> None:
    game = Game(seed=1)
    if said.get("act") == "legal":
        said = {**said, "act": game.legal_actions()[:1]}
    with pytest.raises(ValueError, match=message):
        analyse(game, [Answers(**said)], double_dummy=False)


def test_policies_are_a_list_of_some_with_names() -> None:
    for policies in ("greedy", None, 5):
        with pytest.raises(ValueError, match=r"policies .* are not possible; allowed: a list"):
            analyse(Game(seed=1), policies)  # type: ignore[arg-type]
    for name in (None, 5):
        policy = Answers()
        policy.name = name  # type: ignore[assignment]
        with pytest.raises(ValueError, match=r"policy .* is not possible; allowed: a name"):
            analyse(Game(seed=1), [policy])
    with pytest.raises(ValueError, match=r"policy <object.* is not possible; allowed: a name"):
        analyse(Game(seed=1), [object()])  # type: ignore[list-item]


def test_what_cannot_be_analysed_is_refused() -> None:
    game = game_after(10, 2)
    with pytest.raises(ValueError, match=r"view of seat . is not possible: seat . is to move"):
        analyse(view_text(game, 1 - game.turn))
    with pytest.raises(ValueError, match="a position begins with"):
        analyse("nonsense")
    with pytest.raises(ValueError, match="policies greedy, greedy are not possible"):
        analyse(game, ["greedy", "greedy"])
    with pytest.raises(ValueError, match="policy 'gredy' is unknown"):
        analyse(game, ["gredy"])
    while not game.is_over:
        game.step(game.legal_actions()[0])
    with pytest.raises(ValueError, match="the game is over: there is no move"):
        analyse(game)
