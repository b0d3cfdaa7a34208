"""Replays: what is written is read back, and only games by the rules are read."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from escoba_env import Game, make_rules
from escoba_env.cards import card_name
from escoba_env.engine.record import NOBODY
from escoba_env.evaluation import evaluate
from escoba_env.replay import (
    Recording,
    Replay,
    ReplayError,
    game_file,
    play_game,
    recorded_games,
)
from escoba_env.rules import PRESETS

SEATS: list[dict[str, Any]] = [
    {"players": 2},
    {"players": 3},
    {"players": 4},
    {"players": 4, "partnership": True},
]


def play(game: Game, rng: random.Random, most: int) -> tuple[Replay, list[bytes]]:
    """Plays at random; returns the replay and the state before every turn and at the end."""
    recording = Recording(game)
    states = []
    for _ in range(most):
        if game.is_over:
            break
        if game.record["played"] == NOBODY:
            states.append(game.get_state())
        recording.step(rng.choice(game.legal_actions()))
    if game.record["played"] == NOBODY:
        states.append(game.get_state())
    return recording.replay, states


# -- round trip -----------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(
    preset=st.sampled_from(sorted(PRESETS)),
    seats=st.sampled_from(SEATS),
    match=st.booleans(),
    changes=st.sampled_from([{}, {"initial_table": "redeal"}, {"ties": "split"}]),
    seed=st.integers(0, 2**63 - 1),
    index=st.integers(0, 2**40),
    most=st.one_of(st.integers(0, 150), st.just(10_000)),
)
def test_a_game_is_read_back_as_it_was_played(
    preset: str,
    seats: dict[str, Any],
    match: bool,
    changes: dict[str, Any],
    seed: int,
    index: int,
    most: int,
) -> None:
    if preset == "scopa":
        changes = {}
    rules = make_rules(preset, **{**seats, "target": 4, "partnership_target": 4, **changes})
    game = Game(rules, episode="match" if match else "round", seed=seed)
    game.reset(seed, index=index)
    replay, states = play(game, random.Random(seed), most)
    again = Replay.from_dict(json.loads(json.dumps(replay.as_dict())))
    assert again == replay
    assert [g.get_state() for g in again.games()][: len(states)] == states
    assert again.turns in (len(states) - 1, len(states))
    if game.is_over:
        assert again.game().get_state() == game.get_state()
        assert again.as_dict()["points"] == game.scores


def test_a_game_with_its_own_deck_and_scores_is_kept(tmp_path: Path) -> None:
    game = Game(episode="match", seed=1)
    deck = sorted("1234567SCR")
    cards = [rank + suit for suit in "bceo" for rank in deck]
    game.reset(7, deck=cards, dealer=1, scores=[20, 19])
    replay, states = play(game, random.Random(0), 10_000)
    assert replay.scores == (20, 19)
    replay.save(tmp_path / "folder" / "game.json")
    again = Replay.load(tmp_path / "folder" / "game.json")
    assert again == replay
    assert [g.get_state() for g in again.games()] == states


def test_split_points_are_kept_exactly() -> None:
    game = Game(episode="match", seed=1, ties="split", players=3, target=3)
    game.reset(1, scores=[1 / 3, 0.5, 0.25])
    replay, states = play(game, random.Random(0), 10_000)
    again = Replay.from_dict(json.loads(json.dumps(replay.as_dict())))
    assert [g.get_state() for g in again.games()] == states


def test_the_file_is_readable(tmp_path: Path) -> None:
    replay = play_game(["greedy", "random"], "argentine", seed=3)
    replay.save(tmp_path / "game.json")
    content = json.loads((tmp_path / "game.json").read_text())
    assert list(content) == [
        *("format", "version", "rules", "episode", "policies", "seed", "game", "scores"),
        *("rounds", "points"),
    ]
    assert (content["format"], content["version"]) == ("escoba-replay", 1)
    assert content["policies"] == ["greedy", "random"]
    assert content["rules"] == make_rules("argentine").as_dict()
    assert len(content["rounds"]) == 1
    assert len(content["rounds"][0]["deck"].split()) == 40
    game = replay.game()
    assert len(content["rounds"][0]["moves"]) == replay.turns == game.record["turn_index"]


def test_old_files_are_read() -> None:
    # As version 1 writes it. Never change it: files of users look like this.
    rules = {"ranks": [7, 8], "suits": ["oros", "copas"], "hand_size": 1, "table_size": 2}
    content = {
        "format": "escoba-replay",
        "version": 1,
        "rules": rules,
        "episode": "round",
        "policies": None,
        "seed": 5,
        "game": 2,
        "scores": [0, 0],
        "rounds": [{"dealer": 0, "deck": "7o Sc So 7c", "moves": ["7o:So", "Sc:7c"]}],
        "points": [1, 2],
    }
    replay = Replay.from_dict(content)
    assert replay.turns == 2
    assert replay.game().is_over


# -- playing --------------------------------------------------------------------------------


@pytest.mark.parametrize("episode", ["round", "match"])
def test_a_recorded_game_is_the_one_that_evaluate_plays(episode: str) -> None:
    fields: dict[str, Any] = {"episode": episode, "target": 5, "seed": 9}
    margins = []
    for index in range(4):
        for seats in (["random", "greedy"], ["greedy", "random"]):
            scores = play_game(seats, index=index, **fields).game().scores
            own = seats.index("random")
            margins.append(scores[own] - scores[1 - own])
    result = evaluate("random", "greedy", deals=4, **fields)
    assert sum(margins) / 8 == pytest.approx(result.margin)


class Fixed:
    """Answers with whatever it is told to."""

    name = "fixed"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def act(self, views: Any) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([float("nan")], r"policy 'fixed': actions \[nan\] are float64"),
        ([0.5], "policy 'fixed': actions"),
        ([1, 2], "policy 'fixed': actions"),
        ([99], "policy 'fixed': action 99 is not an action"),
        (None, "policy 'fixed': actions None"),
    ],
)
def test_a_policy_that_answers_with_something_else_is_named(answer: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        play_game([Fixed(answer), "greedy"])


@pytest.mark.parametrize("policies", [None, 3, "ab", "greedy"])
def test_the_policies_of_a_game_are_a_list(policies: Any) -> None:
    with pytest.raises(ValueError, match=r"policies .* are not possible; allowed: a list"):
        play_game(policies)


def test_names_of_a_recording_can_be_read_back() -> None:
    for name in ("", " ", "a\nb", None):
        with pytest.raises(ValueError, match=r"policies: .*; allowed: names, each a line of text"):
            Recording(Game(seed=0), ["a", name])  # type: ignore[list-item]


@pytest.mark.parametrize("policies", ["ab", b"ab", 5, {"a": "b"}])
def test_a_recording_takes_a_list_of_names(policies: Any) -> None:
    with pytest.raises(ValueError, match=r"policies .* are not possible; allowed: a list"):
        Recording(Game(seed=0), policies)


def test_a_recording_is_of_a_game() -> None:
    with pytest.raises(ValueError, match="game 'x' is not possible; allowed: a Game"):
        Recording("x")  # type: ignore[arg-type]


def test_a_turn_that_is_not_finished_is_left_out() -> None:
    game = Game.from_position(hands=["5o Ro Rc", "1o 2o 3o"], table="5c 5e Re 2c", dealer=1, turn=0)
    game.reset(0)
    recording = Recording(game)
    before = recording.replay
    assert before.turns == 0
    game = Game(seed=0)
    for seed in range(200):
        game.reset(seed)
        for action in game.legal_actions():
            other = game.clone()
            recording = Recording(other)
            recording.step(action)
            if other.record["played"] != NOBODY:
                assert recording.replay.turns == 0
                assert recording.replay.game().get_state() == game.get_state()
                return
    raise AssertionError("no turn of two picks was found")


def test_positions_are_found_by_turn() -> None:
    replay = play_game(["greedy", "greedy"])
    assert replay.game(0).record["turn_index"] == 0
    assert replay.game(12).record["turn_index"] == 12
    assert replay.game().is_over
    for turn in (-1, replay.turns + 1, 1.5, True, "x"):
        with pytest.raises(ValueError, match=r"turn .* is not possible; allowed: .* 0 to 36"):
            replay.game(turn)  # type: ignore[arg-type]


@pytest.mark.parametrize("preset", ["classic", "ludoteka", "tabletop"])
def test_every_turn_says_who_played_what_and_how_many_escobas_it_made(preset: str) -> None:
    replay = play_game(
        ["greedy", "random", "greedy"], preset, players=3, episode="match", target=12
    )
    turns = list(replay.played())
    assert len(replay.rounds) > 1
    assert [turn.number for turn in turns] == list(range(replay.turns))
    assert [turn.move for turn in turns] == [move for one in replay.rounds for move in one.moves]
    assert [turn.before.get_state() for turn in turns] == [
        game.get_state() for _, game in zip(turns, replay.games(), strict=False)
    ]
    assert any(turn.escobas for turn in turns)
    last = replay.game()
    for index in range(len(replay.rounds)):
        of_round = [turn for turn in turns if turn.round_index == index]
        after = next((t.before for t in turns if t.round_index == index + 1), last)
        assert after.report is not None
        # Those that came with the first table, and those of the turns.
        escobas = of_round[0].before.record["escobas"].copy()
        for turn in of_round:
            assert turn.seat == turn.before.turn
            escobas[turn.seat] += turn.escobas
        assert after.report["escoba"].counts == tuple(escobas[:3].tolist())


def test_the_games_of_a_folder_are_found_by_number(tmp_path: Path) -> None:
    for index in (10, 2, 0):
        play_game(["greedy", "random"], index=index).save(game_file(tmp_path, index))
    for other in ("game-x.json", "game-1.txt", "game-01.json", "notes"):
        (tmp_path / other).touch()
    found = recorded_games(tmp_path)
    assert list(found) == [0, 2, 10]
    assert [Replay.load(path).index for path in found.values()] == [0, 2, 10]
    with pytest.raises(ReplayError, match="none cannot be read: No such file"):
        recorded_games(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReplayError, match="empty holds no games; allowed: files"):
        recorded_games(tmp_path / "empty")


def test_recordings_begin_with_the_first_card() -> None:
    game = Game(seed=0)
    game.play(game.legal_moves()[0])
    with pytest.raises(ValueError, match="the game has begun"):
        Recording(game)
    with pytest.raises(ValueError, match="3 policies; allowed: one a seat, 2"):
        Recording(Game(seed=0), ["a", "b", "c"])
    with pytest.raises(ValueError, match="1 policies; allowed: one a seat, 2"):
        play_game(["greedy"])


def test_a_round_is_dealt_anew_only_before_its_first_card() -> None:
    game = Game(seed=0)
    deck = str_deck(game)
    game.deal(deck[::-1])
    assert str_deck(game) == deck[::-1]
    state = game.get_state()
    with pytest.raises(ValueError, match="deck has 39 cards"):
        game.deal(deck[1:])
    assert game.get_state() == state
    game.play(game.legal_moves()[0])
    state = game.get_state()
    with pytest.raises(ValueError, match="the round has begun"):
        game.deal(deck)
    assert game.get_state() == state


def str_deck(game: Game) -> list[str]:
    return [card_name(int(card)) for card in game.record["stock"][: game.rules.pack_size]]


# -- bad files ------------------------------------------------------------------------------


def broken(change: Any) -> dict[str, Any]:
    content = copy.deepcopy(play_game(["greedy", "random"], seed=3).as_dict())
    change(content)
    return content


def first_round(content: dict[str, Any]) -> Any:
    return content["rounds"][0]


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


BROKEN: dict[str, tuple[Any, str]] = {
    "no format": (lambda c: c.pop("format"), "it is no replay: it lacks"),
    "other format": (lambda c: c.update(format="pgn"), "it is no replay: it lacks"),
    "other version": (lambda c: c.update(version=2), "version 2; this version reads 1"),
    "no version": (lambda c: c.pop("version"), "version None; this version reads 1"),
    "version as text": (lambda c: c.update(version="1"), "version '1'; this version reads 1"),
    "unknown part": (lambda c: c.update(moves=[]), "moves: Extra inputs"),
    "no rounds": (lambda c: c.update(rounds=[]), "rounds: List should have at least 1"),
    "rounds as text": (lambda c: c.update(rounds="x"), "rounds: Input should be a valid list"),
    "no deck": (lambda c: first_round(c).pop("deck"), r"rounds.0.deck: Field required"),
    "unknown rule": (lambda c: c["rules"].update(tarjet=3), "'tarjet'.*did you mean 'target'"),
    "bad rule": (lambda c: c["rules"].update(players=5), "players=5"),
    "episode": (lambda c: c.update(episode="day"), "episode: Input should be"),
    "seed": (lambda c: c.update(seed=-1), "seed: Input should be greater"),
    "policies": (lambda c: c.update(policies=["greedy"]), "policies: 1; allowed: 2"),
    "empty policy": (lambda c: c.update(policies=["", "x"]), "policies: ''; allowed: names"),
    "blank policy": (lambda c: c.update(policies=["x", "\n"]), r"policies: '\\n'; allowed: names"),
    "long policy": (lambda c: c.update(policies=["x", "y" * 10**6]), r"policies: 'yyy.*\.\.\."),
    "true version": (lambda c: c.update(version=True), "version True; this version reads 1"),
    "huge version": (lambda c: c.update(version=10**5000), "version .* digits>; this version"),
    "huge score": (lambda c: c.update(scores=[10**400, 0]), "scores.0: Input should be less"),
    "huger score": (lambda c: c.update(scores=[10**5000, 0]), "scores.0: Input should be less"),
    "score that is none": (lambda c: c.update(scores=[float("nan"), 0]), "scores.0: Input should"),
    "huge points": (lambda c: c.update(points=[10**5000, 0]), "points.0: Input should be less"),
    "endless points": (lambda c: c.update(points=[float("inf"), 0]), "points.0: Input should"),
    "huge dealer": (lambda c: first_round(c).update(dealer=10**400), "dealer: Input should be"),
    "huge rule": (lambda c: c["rules"].update(target=10**400), "rule target=1000"),
    "deep rule": (lambda c: c["rules"].update(ranks=nested(10**5)), "nested too deeply|rule ranks"),
    "deep rounds": (lambda c: c.update(rounds=nested(10**5)), "rounds.0: Input should be"),
    "long deck": (lambda c: first_round(c).update(deck="x" * 10**6), "deck: String should have"),
    "long move": (lambda c: first_round(c).update(moves=["x" * 10**6]), "moves.0: String should"),
    "many moves": (lambda c: first_round(c).update(moves=["7o"] * 10**5), "moves: List should"),
    "many parts": (lambda c: c.update({str(i): 0 for i in range(1000)}), "; 992 more"),
    "two lines": (lambda c: c.update(policies=["x", "y\nz"]), r"policies: 'y\\nz'; allowed"),
    "scores": (lambda c: c.update(scores=[0]), "round 1: scores="),
    "dealer": (lambda c: first_round(c).update(dealer=2), "round 1: dealer 2 is not possible"),
    "short deck": (lambda c: first_round(c).update(deck="7o"), "round 1: deck has 1 cards"),
    "bad card": (lambda c: first_round(c).update(deck="9o"), "9o"),
    "bad move": (lambda c: first_round(c)["moves"].__setitem__(4, "7x"), "7x"),
    "illegal move": (
        lambda c: first_round(c)["moves"].reverse(),
        "round 1, turn 1: move .* is illegal; legal moves:",
    ),
    "move after the end": (
        lambda c: first_round(c)["moves"].append("7o"),
        "round 1, turn 37: round 1 is not on: the game is over",
    ),
    "round too many": (
        lambda c: c["rounds"].append(dict(first_round(c))),
        "round 2: round 2 is not on: the game is over",
    ),
    "points": (lambda c: c.update(points=[9, 9]), r"points: \[9.*by its moves they are"),
    "points too early": (
        lambda c: first_round(c)["moves"].pop(),
        "by its moves they are None",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_game_is_refused(name: str) -> None:
    change, message = BROKEN[name]
    with pytest.raises(ReplayError, match=message) as refused:
        Replay.from_dict(broken(change))
    assert len(str(refused.value)) < 1100


def test_a_file_that_says_a_thing_twice_is_refused(tmp_path: Path) -> None:
    """The second would be read, and nobody told."""
    path = tmp_path / "game.json"
    play_game(["greedy", "random"]).save(path)
    text = path.read_text()
    for key in ('"seed"', '"target"', '"dealer"'):
        assert key in text
        path.write_text(text.replace(key, f"{key}: 1, {key}", 1))
        with pytest.raises(ReplayError, match=f"key '{key[1:-1]}' stands twice"):
            Replay.load(path)


def test_a_deck_that_the_rules_deal_again_is_refused() -> None:
    content = play_game(["greedy", "random"], initial_table="redeal").as_dict()
    deck = content["rounds"][0]["deck"].split()
    table = ["1o", "2o", "5o", "7o"]
    rest = [card for card in deck if card not in table]
    content["rounds"][0]["deck"] = " ".join([*rest[:6], *table, *rest[6:]])
    with pytest.raises(ReplayError, match="round 1: its first table is dealt again"):
        Replay.from_dict(content)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b"[" * 100_000, b"3", b"1" * 5000]
)
def test_files_that_are_no_replays_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "game.json"
    path.write_bytes(content)
    with pytest.raises(ReplayError, match=r"replay .*game.json"):
        Replay.load(path)


@pytest.mark.parametrize("path", [None, 5, "", "a\0b"])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(ReplayError, match=r"replay .* is not possible; allowed: a path"):
        Replay.load(path)
    with pytest.raises(ValueError, match=r"file .* is not possible; allowed: a path"):
        play_game(["greedy", "random"]).save(path)


def test_a_rule_that_a_file_leaves_out_is_that_of_classic() -> None:
    content = play_game(["greedy", "random"], seed=3).as_dict()
    del content["rules"]["napola"]
    assert Replay.from_dict(content).rules == make_rules()
    # Unless the game has been another one.
    content = play_game(["greedy", "random"], "comodines", seed=3).as_dict()
    del content["rules"]["jokers"]
    with pytest.raises(ReplayError, match="round 1: deck"):
        Replay.from_dict(content)


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"none\.json cannot be read: No such file"):
        Replay.load(tmp_path / "none.json")
    with pytest.raises(ReplayError, match="cannot be read"):
        Replay.load(tmp_path)
    replay = play_game(["greedy", "random"])
    with pytest.raises(ValueError, match="cannot be written"):
        replay.save(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written"):
        replay.save(tmp_path / "file" / "game.json")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("escoba_env.replay.MAX_BYTES", 100)
    play_game(["greedy", "random"]).save(tmp_path / "game.json")
    with pytest.raises(ReplayError, match="larger than 100 bytes"):
        Replay.load(tmp_path / "game.json")
