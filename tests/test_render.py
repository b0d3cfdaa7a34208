"""Text and pictures of a game."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from support.needs import needs

import escoba_env.render
from escoba_env import Game, escoba_v0
from escoba_env.cards import card_name
from escoba_env.envs.single import EscobaEnv
from escoba_env.render import ansi

SEATS = [
    {"players": 2},
    {"players": 3},
    {"players": 4},
    {"players": 4, "partnership": True},
]
each_seating = pytest.mark.parametrize("seats", SEATS, ids=["2", "3", "4", "4-partnership"])


def random_play(env, steps, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        actions = np.flatnonzero(env.observe(env.agent_selection)["action_mask"])
        if not len(actions):
            return
        env.step(int(rng.choice(actions)))


def dealt(cards, **arguments):
    """A game whose deal begins with the given cards, seat 0 to move."""
    game = Game(**arguments)
    names = cards.split()
    names += [name for name in map(card_name, range(40)) if name not in names]
    game.reset(seed=1, deck=names, dealer=game.rules.players - 1)
    return game


def example(faces="spanish"):
    """A known position in which a card has been chosen and a table card picked."""
    game = dealt("7o 2c 4b Ro 1e 6e 3c 5c 3b 5b")
    game.step(6)
    game.step(12)
    return ansi.draw(game.rules, "round", game.record, faces=faces)


def test_text_of_a_known_position():
    assert example() == (
        "One round\n"
        "                     hand      pile  oros  sevens  escobas\n"
        "> player_0           2c 4b        0     0       0        0\n"
        "  player_1 (dealer)  Ro 1e 6e     0     0       0        0\n"
        "  stock      30\n"
        "  table      3c 5c 3b 5b\n"
        "  to move    player_0, has chosen 7o and picked 3c"
    )


def test_french_faces_change_the_names_of_cards_and_nothing_else():
    spanish, french = example(), example("french")
    for card in range(39, -1, -1):
        spanish = spanish.replace(card_name(card), card_name(card, "french"))
    assert spanish == french
    assert "7♦" in french


def test_text_says_what_the_last_move_took_and_swept():
    game = dealt("7o 2c 4b Ro 1e 6e 3c 5b", table_size=2)
    game.step(6)
    text = ansi.draw(game.rules, "round", game.record)
    assert "last move  player_0 took 3c 5b with 7o and swept the table" in text
    assert "table      -" in text
    game.step(9)
    assert "last move  player_1 laid Ro" in ansi.draw(game.rules, "round", game.record)


def test_text_of_an_end_names_the_leftovers_and_the_points():
    env = escoba_v0.env(render_mode="ansi")
    env.reset(seed=3)
    random_play(env, 100)
    text = env.render()
    assert "to move    nobody, the game is over" in text
    assert f"leftovers  player_{env.game.record['last_capturer']} got" in text
    first, second = (f"{points:g}" for points in env.game.round_points)
    assert f"score      player_0 {first}, player_1 {second}" in text


def test_text_of_a_match_names_round_target_and_scores():
    env = escoba_v0.env(render_mode="ansi", episode="match", players=4, partnership=True, target=31)
    env.reset(seed=3, options={"scores": [12, 7.5]})
    text = env.render()
    assert text.startswith("Round 1 of a match to 31\n")
    assert "score      player_0+player_2 12, player_1+player_3 7.5" in text
    while env.game.record["round_index"] == 0:
        random_play(env, 1)
    assert "last round: player_0+player_2 " in env.render()


@each_seating
def test_text_of_a_view_hides_other_hands(seats):
    env = escoba_v0.env(**seats)
    env.reset(seed=4)
    random_play(env, 3)
    record = env.game.view(0).records[0]
    text = ansi.draw(env.rules, "round", record)
    for seat in range(1, env.rules.players):
        line = next(line for line in text.splitlines() if f"player_{seat}" in line)
        assert line.count("?") == len(env.game.hand(seat))
    assert all(card_name(card) in text for card in env.game.hand(0))


def test_text_says_how_an_illegal_action_ended_the_game():
    env = escoba_v0.env(render_mode="ansi")
    env.reset(seed=5)
    with pytest.warns(UserWarning, match="illegal"):
        env.step(42)
    assert f"note       {env.possible_agents[env.game.turn]}: action 42 (lay)" in env.render()


@needs("PIL")
@each_seating
@pytest.mark.parametrize("faces", ["spanish", "french"])
def test_pictures_of_whole_games(seats, faces):
    env = escoba_v0.env(render_mode="rgb_array", faces=faces, capture="optional", **seats)
    env.reset(seed=6)
    seen = []
    for seed in range(60):
        picture = env.render()
        assert picture.dtype == np.uint8
        assert picture.shape == (760, 1080, 3)
        assert picture.flags.writeable
        assert not any((picture == earlier).all() for earlier in seen[-3:])
        seen.append(picture)
        if env.terminations[env.agent_selection]:
            break
        random_play(env, 1, seed)
    assert env.terminations[env.agent_selection]


@needs("PIL")
def test_faces_change_the_picture():
    pictures = []
    for faces in ("spanish", "french"):
        env = escoba_v0.env(render_mode="rgb_array", faces=faces)
        env.reset(seed=7)
        pictures.append(env.render())
    assert (pictures[0] != pictures[1]).any()


@needs("PIL")
def test_picture_of_a_view_shows_backs_and_depends_on_nothing_hidden():
    from escoba_env.render import picture

    env = escoba_v0.env()
    env.reset(seed=8)
    whole = picture.draw(env.rules, "round", env.game.record)
    views = [env.game.view(seat).records[0] for seat in (0, 1)]
    first, second = (picture.draw(env.rules, "round", view) for view in views)
    assert (whole != first).any()
    assert (first != second).any()


@needs("PIL")
@pytest.mark.parametrize("table", [0, 1, 10, 15, 16, 24, 34])
def test_picture_takes_any_number_of_table_cards(table):
    env = escoba_v0.env(render_mode="rgb_array", table_size=table)
    env.reset(seed=9)
    assert env.render().shape == (760, 1080, 3)


@needs("PIL")
def test_picture_takes_large_hands():
    env = escoba_v0.env(render_mode="rgb_array", hand_size=18, table_size=4)
    env.reset(seed=9)
    assert env.render().shape == (760, 1080, 3)


def test_human_prints_the_text_at_every_step_and_returns_none(capsys):
    env = escoba_v0.env(render_mode="human")
    quiet = escoba_v0.env(render_mode="ansi")
    quiet.reset(seed=10)
    env.reset(seed=10)
    assert capsys.readouterr().out == quiet.render() + "\n\n"
    random_play(env, 1)
    random_play(quiet, 1)
    assert capsys.readouterr().out == quiet.render() + "\n\n"
    assert env.render() is None
    assert capsys.readouterr().out == quiet.render() + "\n\n"


def test_human_prints_the_opponents_moves_too(capsys):
    env = EscobaEnv(render_mode="human", players=3, seat=0)
    observation, _ = env.reset(seed=11, options={"dealer": 2})
    assert capsys.readouterr().out.count("to move") == 1
    printed = ""
    while "last move  player_2" not in printed:
        observation, *_ = env.step(int(np.flatnonzero(observation["action_mask"])[0]))
        printed += capsys.readouterr().out
    assert "last move  player_0" in printed
    assert "last move  player_1" in printed


def test_render_without_a_mode_warns_and_returns_none():
    env = escoba_v0.env()
    env.reset(seed=12)
    with pytest.warns(UserWarning, match="render_mode; allowed: ansi, rgb_array, human"):
        assert env.render() is None


@pytest.mark.parametrize("mode", [None, "ansi", "rgb_array", "human"])
def test_every_mode_is_accepted_without_a_display(mode, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    for make in (escoba_v0.env, escoba_v0.parallel_env, EscobaEnv):
        env = make(render_mode=mode)
        assert env.render_mode == mode
        env.close()


def test_a_missing_pillow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "escoba_env.render.picture", raising=False)
    monkeypatch.delattr(escoba_env.render, "picture", raising=False)
    env = escoba_v0.env(render_mode="rgb_array")
    env.reset(seed=13)
    with pytest.raises(DependencyNotInstalled, match=r"escoba-env\[render\]"):
        env.render()


@needs("PIL")
def test_pillow_is_imported_only_to_draw_a_picture():
    code = (
        "import sys\n"
        "from escoba_env import escoba_v0\n"
        "env = escoba_v0.env(render_mode='rgb_array')\n"
        "env.reset(seed=1)\n"
        "assert 'PIL' not in sys.modules\n"
        "env.render()\n"
        "assert 'PIL' in sys.modules\n"
        "assert not {'torch', 'pygame', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
