"""``Game``: copies, states and texts of games, random streams, and the refusal of bad input."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest
from fuzz_positions import change_games
from hypothesis import assume, given
from hypothesis import strategies as st
from reference.changes import check_reads_back, check_with_the_reference
from reference.compare import TABLES, Fields, deck_of, shares_of_the_win, stock_of
from test_engine_against_reference import (
    examples,
    games_in_progress,
    play_some,
    playable_games,
    seeds,
)

from escoba_env import Batch, Game, IllegalActionError, Move, parse_move
from escoba_env.cards import (
    CARD_NAMES,
    LAY,
    NUM_ACTIONS,
    SEVEN_OF_OROS,
    names_of,
    parse_cards,
)
from escoba_env.engine.record import NOBODY, STATE
from escoba_env.engine.rng import below, philox
from escoba_env.position import MAX_COUNT, MAX_SCORE, check_position, logged_move, table_text

# Copies


def from_state(game: Game) -> Game:
    """Puts a game's state into another game of the same rules."""
    other = Game(game.rules, episode=game.episode, reward=game.reward, seed=1)
    other.set_state(game.get_state())
    return other


COPIES: dict[str, Callable[[Game], Game]] = {
    "clone": Game.clone,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda game: pickle.loads(pickle.dumps(game)),  # noqa: S301
    "state": from_state,
    "text": lambda game: Game.from_text(game.to_text()),
}
# The others are the game's record alone.
WITH_RETURNS = {"clone", "copy", "deepcopy", "pickle"}


@pytest.mark.parametrize("how", COPIES)
@examples(40)
@given(games_in_progress(), seeds)
def test_a_copy_has_the_same_future_and_leaves_the_game_alone(
    how: str, game: Game, seed: int
) -> None:
    other = COPIES[how](game)
    before = game.get_state(), game.rewards, game.returns
    assert (other.rules, other.episode) == (game.rules, game.episode)
    assert other.get_state() == before[0]
    if how in WITH_RETURNS:
        assert (other.rewards, other.returns, other.reward) == (*before[1:], game.reward)
    else:
        assert other.returns == [0] * game.rules.players
    future = play_some(other, random.Random(seed), 30)
    assert (game.get_state(), game.rewards, game.returns) == before
    play_some(game, random.Random(seed), 30)
    assert game.get_state() == future.get_state()
    if how in WITH_RETURNS:
        assert (game.rewards, game.returns) == (future.rewards, future.returns)


@examples(150)
@given(games_in_progress(150))
def test_a_text_reads_back_as_the_game_at_any_point(game: Game) -> None:
    text = game.to_text()
    assert "\n" not in text
    again = Game.from_text(text)
    assert again.to_text() == text
    assert again.get_state() == game.get_state()


def test_text_says_what_lies_where() -> None:
    text = Game.from_position(
        hands=["7o 1c", "5e 2b"], table="Sb 5c", piles=["Ro 5o", ""], turn=0, last_capturer=0
    ).to_text()
    assert text.startswith("escoba/1 rules={} episode=round phase=playing turn=0 dealer=1 ")
    assert " table=5c,Sb hands=7o,1c/5e,2b piles=5o,Ro/- last=0 " in text


@examples(60)
@given(playable_games, seeds, st.integers(0, 30))
def test_a_position_given_by_its_parts_plays_on_as_the_game_it_was_taken_from(
    rules: tuple[Fields, str], seed: int, turns: int
) -> None:
    fields, episode = rules
    game, rng = Game(fields, seed=seed, episode=episode), random.Random(seed)
    for _ in range(turns):
        game.play(rng.choice(game.legal_moves()))
        assume(not game.is_over)
    # A position given by its parts has every card in play.
    assume(not game.record["set_aside"])
    record, seats = game.record, range(game.rules.players)
    capturer = int(record["last_capturer"])
    position = Game.from_position(
        fields,
        hands=[names_of(record["hands"][seat]) for seat in seats],
        table=table_text(record, separator=" ").replace("-", ""),
        piles=[names_of(record["piles"][seat]) for seat in seats],
        stock=stock_of(game),
        turn=game.turn,
        dealer=game.dealer,
        last_capturer=None if capturer == NOBODY else capturer,
        escobas=[int(record["escobas"][seat]) for seat in seats],
        scores=game.scores,
        episode=episode,
    )
    assert position.to_text() == Game.from_text(position.to_text()).to_text()
    index = game.record["round_index"]
    while not game.is_over and game.record["round_index"] == index:
        assert position.legal_moves() == game.legal_moves()
        assert (position.turn, position.table) == (game.turn, game.table)
        move = rng.choice(game.legal_moves())
        game.play(move)
        position.play(move)
    assert position.is_over == game.is_over
    assert (position.round_points, position.scores) == (game.round_points, game.scores)


def test_the_stock_of_a_position_is_what_is_nowhere_else_in_an_order_of_the_seed() -> None:
    def position(seed: int) -> Game:
        return Game.from_position(hands=["7o", "6c"], table="Rb", piles=["1o 2o", ""], seed=seed)

    stocks = [stock_of(position(seed)) for seed in (0, 0, 1)]
    assert sorted(stocks[0]) == sorted(set(CARD_NAMES[:40]) - {"7o", "6c", "Rb", "1o", "2o"})
    assert stocks[0] == stocks[1]
    assert stocks[0] != stocks[2]


# Whole turns


@examples(60)
@given(games_in_progress())
def test_every_legal_move_can_be_played_by_its_picks(game: Game) -> None:
    for move in game.legal_moves():
        by_move, by_picks = game.clone(), game.clone()
        by_move.play(move)
        for action in game.picks_of(move):
            by_picks.step(action)
        assert by_move.get_state() == by_picks.get_state()
        assert parse_move(str(move)) == move


@examples(60)
@given(games_in_progress())
def test_every_legal_action_leads_on_to_a_legal_move(game: Game) -> None:
    """Mid-turn, the moves are those that the picks so far leave open."""
    moves = game.legal_moves()
    assert moves == sorted(set(moves))
    reached = set()
    for action in game.legal_actions():
        after = game.clone()
        after.step(action)
        if after.record["played"] == NOBODY:
            reached |= {move for move in moves if game.picks_of(move) == [action]}
        else:
            assert after.legal_moves()
            reached |= set(after.legal_moves())
    assert reached == set(moves)
    mask = game.legal_mask()
    assert (mask.dtype, mask.shape) == (np.int8, (NUM_ACTIONS,))
    assert np.flatnonzero(mask).tolist() == game.legal_actions()


def test_a_move_is_played_by_as_few_picks_as_tell_it_from_the_others() -> None:
    rng, most = random.Random(2), 0
    for seed in range(40):
        game = Game(capture="optional", seed=seed)
        while not game.is_over:
            moves = game.legal_moves()
            for move in moves:
                others = [other.taken for other in moves if other.card == move.card]
                taken = [card for card in range(40) if move.taken >> card & 1]
                choices = (
                    sum(1 << card for card in chosen)
                    for size in range(1, len(taken) + 1)
                    for chosen in itertools.combinations(taken, size)
                )
                fewest = 1 + (len(others) > 1)
                if move.taken:
                    fewest = next(
                        1 + chosen.bit_count()
                        for chosen in itertools.chain([0] * (len(others) == 1), choices)
                        if sum(other & chosen == chosen for other in others) == 1
                    )
                assert len(game.picks_of(move)) == fewest
                most = max(most, fewest)
            game.play(rng.choice(moves))
    assert most > 2


@pytest.mark.parametrize(
    ("text", "named"),
    [("", "''"), ("8o", "8o"), ("7o:", "7o:"), ("7o:xx", "xx"), ("7o:7o", "7o:7o"),
     ("7o:5c+7o", "7o:5c+7o"), ("7o:5c+5c", "5c"), (":5c", "''"), ("7o 5c", "7o 5c"),
     ("7o:5c:3b", "5c:3b")],
)  # fmt: skip
def test_what_is_no_text_of_a_move_is_refused(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        parse_move(text)


# Random streams

# Philox4x32-10, known answers of Random123 (kat_vectors): counter, key, result.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_its_known_answers(counter: str, key: str, answer: str) -> None:
    words = [int(word, 16) for word in (counter + " " + key).split()]
    assert [f"{word:08x}" for word in philox(*words)] == answer.split()


def test_the_first_deck_is_the_same_on_every_platform() -> None:
    """A change here is a change of every game of every seed: old results cannot be reproduced."""
    deck = (
        "4o 2e 5e 3o 7c 6o Co 3b Re 4c 5c Ce Cc 4b Sc 7e 7o Cb 2b 1b "
        "Rc 1e 6e Sb 1c Rb 2c 7b So 5o Ro 1o 2o 4e 3c 6b 3e Se 5b 6c"
    )
    game = Game(seed=0)
    assert deck_of(game) == deck.split()
    assert game.dealer == 1


def test_words_that_would_make_a_draw_uneven_are_thrown_away() -> None:
    """Of 2^32 words, 2^32 mod n are too many: exactly so many are refused."""
    for n in (2, 3, 7, 40):
        results = [below(word, n) for word in (0, 1, 2**31, 2**32 - 1)]
        assert all(-1 <= result < n for result in results)
        assert results[-1] == n - 1
        # Word 0 is the one that every surplus begins with.
        assert results[0] == (-1 if 2**32 % n else 0)


def chi_square(counts: np.ndarray[Any, Any]) -> float:
    """Returns the statistic of counts that should be equal."""
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def test_every_card_is_as_likely_at_every_place_of_the_deck() -> None:
    games = 40_000
    decks = Batch(games, seed=2024).states["stock"][:, :40]
    counts = np.zeros((40, 40), np.int64)
    for place in range(40):
        counts[place] = np.bincount(decks[:, place], minlength=40)
    # 39 * 39 degrees of freedom; five standard deviations either way.
    assert abs(chi_square(counts) - 39 * 39) < 5 * np.sqrt(2 * 39 * 39)


@pytest.mark.parametrize("across", ["games", "seeds"])
def test_every_order_of_a_small_pack_is_as_likely(across: str) -> None:
    fields: Fields = {"ranks": (1, 2, 3, 4), "suits": ("oros",), "hand_size": 1, "table_size": 2}
    number = 24_000 if across == "games" else 4800
    if across == "games":
        decks = Batch(number, fields, seed=7).states["stock"][:, :4]
    else:
        game, orders = Game(fields, seed=0), []
        for seed in range(number):
            game.reset(seed)
            orders.append(game.record["stock"][:4].copy())
        decks = np.array(orders)
    _, counts = np.unique(decks, axis=0, return_counts=True)
    assert len(counts) == 24
    assert abs(chi_square(counts) - 23) < 5 * np.sqrt(2 * 23)


@examples(30)
@given(playable_games, seeds)
def test_a_seed_is_the_same_game_whatever_else_draws_random_numbers(
    rules: tuple[Fields, str], seed: int
) -> None:
    def texts(noise: int) -> list[str]:
        random.seed(noise)
        np.random.seed(noise)  # noqa: NPY002
        game, rng = Game(rules[0], episode=rules[1], seed=seed), random.Random(4)
        found = []
        for _ in range(50):
            found.append(game.to_text())
            random.random()
            np.random.random(noise)  # noqa: NPY002
            play_some(game, rng, 1)
        return found

    assert texts(1) == texts(2)


def test_playing_draws_nothing_from_the_global_generators() -> None:
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    states = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    game = play_some(Game(episode="match", seed=0), random.Random(1), 200)
    game.reset()
    Game()
    Batch(3, seed=1).restart([0])
    assert (random.getstate(), repr(np.random.get_state())) == states  # noqa: NPY002


def test_a_game_without_seed_gets_one_that_deals_it_again() -> None:
    one, two = Game(), Game()
    assert one.get_state() != two.get_state()
    assert Game(seed=one.seed).get_state() == one.get_state()


def test_seeds_games_and_rounds_have_decks_of_their_own() -> None:
    decks = [deck_of(Game(seed=seed)) for seed in (0, 1, 2**32, 2**63 - 1)]
    game = Game(seed=0, episode="match", target=1000)
    for _ in range(3):
        game.reset()
        decks.append(deck_of(game))
    rng = random.Random(0)
    while game.record["round_index"] < 3:
        round_index = game.record["round_index"]
        game.step(rng.choice(game.legal_actions()))
        if game.record["round_index"] > round_index:
            decks.append(deck_of(game))
    batch = Batch(3, seed=0)
    batch.reset(0, game_indices=[2**31, 2**32, 2**63 - 1])
    decks += [[CARD_NAMES[card] for card in stock[:40]] for stock in batch.states["stock"]]
    assert len({tuple(deck) for deck in decks}) == len(decks) == 13


# Starting a game


def test_reset_without_seed_is_the_next_game_of_the_stream() -> None:
    game = Game(seed=9, capture="hand", players=3)
    batch = Batch(4, capture="hand", players=3, seed=9)
    for index in range(4):
        if index:
            play_some(game, random.Random(1), 10)
            game.reset()
        assert game.get_state() == batch.states[index].tobytes()
        assert game.seed == 9
    game.reset(9)
    assert game.get_state() == batch.states[0].tobytes()


@examples(60)
@given(playable_games, seeds, st.data())
def test_reset_deals_a_given_deck_from_a_given_dealer(
    rules: tuple[Fields, str], seed: int, data: st.DataObject
) -> None:
    """In blocks from the eldest hand on, then the table, then the later deals.

    What else becomes of a first table that makes fifteen is in ``test_positions``.
    """
    fields = {**rules[0], "initial_table": "play"}
    game = play_some(Game(fields, episode=rules[1], seed=seed), random.Random(seed), 7)
    fixed = game.rules
    deck = data.draw(st.permutations(deck_of(game)))
    dealer = data.draw(st.integers(0, fixed.players - 1))
    scores = data.draw(st.lists(st.integers(0, 12), min_size=fixed.num_sides, max_size=4))
    scores = [number / 4 for number in scores[: fixed.num_sides]]
    game.reset(deck=deck, dealer=dealer, scores=scores)
    rest = list(deck)
    for i in range(1, fixed.players + 1):
        hand, rest = rest[: fixed.hand_size], rest[fixed.hand_size :]
        assert names_in(game.hand((dealer + i) % fixed.players)) == set(hand)
    table, rest = rest[: fixed.table_size], rest[fixed.table_size :]
    assert names_in(game.table) == set(table)
    assert stock_of(game) == rest
    assert (game.dealer, game.turn) == (dealer, (dealer + 1) % fixed.players)
    assert game.scores == scores
    assert game.rewards == game.returns == [0] * fixed.players


def names_in(cards: list[int]) -> set[str]:
    """Returns the names of cards."""
    return {CARD_NAMES[card] for card in cards}


def test_reset_takes_a_deck_as_text_or_as_names() -> None:
    game = Game(seed=0)
    deck = deck_of(Game(seed=1))
    for form in (deck, tuple(deck), " ".join(deck), ",".join(deck), iter(deck)):
        game.reset(0, deck=form, dealer=0)
        assert deck_of(game) == deck


def test_scores_may_be_twelfths_of_a_point() -> None:
    game = Game(seed=0, episode="match", ties="split")
    game.reset(scores=[1 / 3, 20 + 11 / 12])
    assert game.record["scores"].tolist() == [4, 251, 0, 0]
    assert game.scores == [1 / 3, 251 / 12]


@pytest.mark.parametrize("table", TABLES)
def test_the_win_of_a_round_goes_by_its_points_whatever_the_scores_before_it(table: str) -> None:
    """Scores of a match are for matches: they say nothing of who has won a single round."""
    game, behind = Game(reward="win", **TABLES[table]), 0
    sides = game.rules.num_sides
    for seed in range(20):
        for leader in range(sides):
            rng = random.Random(seed)
            scores = [20.0 * (side == leader) for side in range(sides)]
            game.reset(seed, scores=scores)
            while not game.is_over:
                game.step(rng.choice(game.legal_actions()))
            points = game.round_points
            assert game.returns == shares_of_the_win(points, game.rules.players)
            assert game.scores == [a + b for a, b in zip(scores, points, strict=True)]
            behind += game.returns[leader] == -1
    assert behind > 5


KINDS_OF_INTEGER = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64)


@pytest.mark.parametrize("kind", KINDS_OF_INTEGER)
def test_a_whole_number_of_any_type_means_what_an_int_does(kind: Callable[[int], Any]) -> None:
    def position(number: Callable[[int], Any]) -> Game:
        return Game.from_position(
            players=3,
            hands=["1o", "2o", "3o"],
            turn=number(0),
            last_capturer=number(2),
            escobas=[number(1), number(0), number(0)],
            scores=[number(20), number(100), number(0)],
            seed=number(9),
        )

    assert position(kind).get_state() == position(int).get_state()
    assert position(kind).dealer == 2

    def started(number: Callable[[int], Any]) -> Game:
        game = Game(seed=number(3))
        game.reset(number(100), index=number(100), dealer=number(1), scores=[number(100)] * 2)
        return game

    assert started(kind).get_state() == started(int).get_state()
    assert started(kind).view(kind(1)).records == started(int).view(1).records  # type: ignore[arg-type]


# Bad input: always a ValueError that names the value, and nothing changes


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Fails instead of hanging, where the platform has alarms."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check_refused(game: Game, act: Callable[[], Any], named: str) -> None:
    """Checks that something is refused, that the message names it, and that nothing changes."""
    before = game.get_state(), game.rewards, game.returns
    with pytest.raises(ValueError, match=re.escape(named)), time_limit(2):
        act()
    assert (game.get_state(), game.rewards, game.returns) == before


class Named:
    """A value of no use with a name to look for."""

    def __repr__(self) -> str:
        return "<some object>"


NO_ACTIONS = [-1, 43, 255, 10**30, -(10**30), 1.0, 2.5, "7o", None, True, [1], Named()]
NO_ACTIONS += [np.int64(-5), np.float64(3), np.bool_(True), np.uint64(2**63)]


@pytest.mark.parametrize("action", NO_ACTIONS, ids=repr)
def test_what_is_no_action_is_refused(action: Any) -> None:
    game = play_some(Game(seed=3), random.Random(3), 5)
    check_refused(game, lambda: game.step(action), repr(action))


def test_actions_of_any_integer_type_are_taken() -> None:
    for kind in (int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint64):
        game, same = Game(seed=3), Game(seed=3)
        action = game.legal_actions()[0]
        game.step(kind(action))
        same.step(action)
        assert game.get_state() == same.get_state()


def why_illegal(game: Game, action: int) -> str:
    """Returns words that the reason for refusing an action must have."""
    record, bit = game.record, 1 << action
    if record["played"] == NOBODY:
        if action == LAY:
            return "no card has been chosen"
        if record["hands"][game.turn] & bit:
            return "demand another card" if game.rules.building else "another card in hand can"
        return "lies on the table" if record["table"] & bit else "not in the hand"
    if record["placing"]:
        if action == LAY:
            return "too many piles"
        return "cannot be set there" if record["table"] & bit else "not on the table"
    if action == LAY:
        return "have been picked" if game.rules.capture == "optional" else "can capture"
    if record["picked"] & bit:
        return "picked already"
    return "in no capture" if record["table"] & bit else "not on the table"


@examples(100)
@given(games_in_progress())
def test_an_illegal_action_is_refused_with_its_name_the_reason_and_what_is_legal(
    game: Game,
) -> None:
    assume(not game.is_over)
    legal = game.legal_actions()
    for action in set(range(NUM_ACTIONS)) - set(legal):
        with pytest.raises(IllegalActionError) as error:
            game.step(action)
        message = str(error.value)
        name = "lay" if action == LAY else CARD_NAMES[action]
        assert f"action {action} ({name}) is illegal" in message
        assert why_illegal(game, action) in message
        assert message.endswith(
            ", ".join(f"{'lay' if a == LAY else CARD_NAMES[a]} ({a})" for a in legal)
        )
    check_refused(game, lambda: game.step(NUM_ACTIONS), str(NUM_ACTIONS))


@examples(30)
@given(games_in_progress())
def test_a_move_that_is_not_legal_is_refused_and_the_legal_ones_are_named(game: Game) -> None:
    legal = game.legal_moves()
    named = ", ".join(map(str, legal)) or "the game is over"
    tried = {Move(card, taken) for card in range(42) for taken in (0, 1 << 41)}
    # A card more than can be taken, and a card less.
    tried |= {Move(move.card, move.taken ^ 1 << 40) for move in legal}
    tried |= {Move(move.card, move.taken & move.taken - 1) for move in legal if move.taken}
    for move in tried - set(legal):
        check_refused(game, lambda move=move: game.play(move), f"move {move} is illegal")
        check_refused(game, lambda move=move: game.play(move), named)
        check_refused(game, lambda move=move: game.picks_of(move), f"move {move} is illegal")


@pytest.mark.parametrize("move", ["7o", None, 3, [1], Named()], ids=repr)
def test_what_is_no_move_is_refused(move: Any) -> None:
    game = Game(seed=0)
    check_refused(game, lambda: game.play(move), "illegal")
    check_refused(game, lambda: game.picks_of(move), "illegal")


@pytest.mark.parametrize("episode", ["round", "match"])
def test_after_the_end_nothing_is_legal(episode: str) -> None:
    game = play_some(Game(seed=0, episode=episode), random.Random(0), 10_000)
    assert game.is_over
    assert game.legal_actions() == []
    assert game.legal_moves() == []
    assert not game.legal_mask().any()
    for action in (*range(NUM_ACTIONS), -1, None):
        check_refused(game, lambda action=action: game.step(action), "the game is over")
        check_refused(game, lambda action=action: game.step(action), repr(action))
    check_refused(game, lambda: game.play(Move(0)), "the game is over")


@pytest.mark.parametrize("seat", [-1, 2, 3, 10**30, 1.0, "0", None, True, [0]], ids=repr)
def test_a_seat_that_does_not_exist_is_refused(seat: Any) -> None:
    game = Game(seed=0)
    for act in (game.hand, game.pile, game.view):
        check_refused(game, lambda act=act: act(seat), repr(seat))
    if seat is not None:
        check_refused(game, lambda: game.reset(dealer=seat), repr(seat))
        check_refused(game, lambda: Game.from_position(hands=["1o", "2o"], dealer=seat), repr(seat))
        check_refused(
            game, lambda: Game.from_position(hands=["1o", "2o"], last_capturer=seat), repr(seat)
        )
    check_refused(game, lambda: Game.from_position(hands=["1o", "2o"], turn=seat), repr(seat))


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "3", True, [0], Named()], ids=repr)
def test_a_seed_that_is_no_whole_number_is_refused(seed: Any) -> None:
    game = Game(seed=0)
    check_refused(game, lambda: game.reset(seed), repr(seed))
    check_refused(game, lambda: Game(seed=seed), repr(seed))
    check_refused(game, lambda: Game.from_position(hands=["1o", "2o"], seed=seed), repr(seed))


PACK = list(CARD_NAMES[:40])
NO_DECKS: dict[str, tuple[Any, str]] = {
    "empty": ([], "0 cards"),
    "a card short": (PACK[:39], "39 cards"),
    "a card twice": ([*PACK[:39], PACK[0]], "1o"),
    "a joker": ([*PACK[:39], "J1"], "40 cards"),
    "a card too many": ([*PACK, "J1"], "41 cards"),
    "no card": ([*PACK[:39], "8x"], "8x"),
    "ids": (list(range(40)), "0"),
    "a list inside": ([[]], "[]"),
    "a number": (5, "5"),
    "an object": (Named(), "<some object>"),
}


@pytest.mark.parametrize(("deck", "named"), NO_DECKS.values(), ids=NO_DECKS)
def test_a_deck_that_is_not_the_pack_is_refused(deck: Any, named: str) -> None:
    game = play_some(Game(seed=0), random.Random(0), 3)
    check_refused(game, lambda: game.reset(1, deck=deck), named)


NO_SCORES = [
    [1], [1, 2, 3], [-1, 0], [0.1, 0], [1e300, 0], [2**31, 0], [float("nan"), 0],
    [float("inf"), 0], [None, 0], ["a", 0], ["1", 0], "12", 5, [[1], 0], Named(),
]  # fmt: skip


@pytest.mark.parametrize("scores", NO_SCORES, ids=repr)
def test_scores_that_are_no_points_of_every_side_are_refused(scores: Any) -> None:
    game = play_some(Game(seed=0, episode="match"), random.Random(0), 3)
    check_refused(game, lambda: game.reset(1, scores=scores), repr(scores))
    check_refused(
        game,
        lambda: Game.from_position(hands=["1o", "2o"], scores=scores),
        repr(scores),
    )


NO_GAMES: list[tuple[Fields, str]] = [
    ({"episode": "season"}, "'season'"),
    ({"episode": None}, "None"),
    ({"episode": ["round"]}, "['round']"),
    ({"reward": "money"}, "'money'"),
    ({"reward": 1}, "1"),
    ({"reward": ["margin"]}, "['margin']"),
    ({"rules": 5}, "5"),
    ({"rules": "bridge"}, "'bridge'"),
    ({"rules": None}, "None"),
    ({"playrs": 2}, "'playrs'"),
    ({"players": 5}, "players=5"),
]


@pytest.mark.parametrize(("arguments", "named"), NO_GAMES, ids=repr)
def test_a_game_of_impossible_arguments_is_refused(arguments: Fields, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        Game(**arguments)


NO_POSITIONS: dict[str, tuple[Fields, str]] = {
    "no hands": ({"hands": None}, "None"),
    "hands of a number": ({"hands": 5}, "5"),
    "a hand of a number": ({"hands": [5, "1o"]}, "5"),
    "too few hands": ({"hands": ["1o"]}, "1 parts"),
    "too many hands": ({"hands": ["1o", "2o", "3o"]}, "3 parts"),
    "empty hands": ({"hands": ["", ""]}, "[0, 0]"),
    "the wrong seat has more": ({"hands": ["1o", "2o 3o"]}, "[1, 2]"),
    "a hand too large": ({"hands": ["1o 2o 3o", "4o"]}, "[3, 1]"),
    "a card twice in a hand": ({"hands": ["1o 1o", "2o 3o"]}, "1o"),
    "a card in two hands": ({"hands": ["1o", "1o"]}, "1o"),
    "a card in hand and on the table": ({"table": "1o"}, "1o"),
    "a card in hand and in a pile": ({"piles": ["", "2o"]}, "2o"),
    "a card in two piles": ({"piles": ["3o", "3o"]}, "3o"),
    "a card in hand and stock": ({"stock": [name for name in PACK if name != "2o"]}, "1o"),
    "a card nowhere": ({"stock": "3o"}, "4o"),
    "a joker": ({"table": "J1"}, "J1"),
    "no card": ({"table": "11o"}, "11o"),
    "a table of a number": ({"table": 5}, "5"),
    "piles of one seat": ({"piles": [""]}, "1 parts"),
    "piles of a number": ({"piles": 5}, "5"),
    "a stock of a number": ({"stock": 5}, "5"),
    "escobas of one seat": ({"escobas": [1]}, "[1]"),
    "negative escobas": ({"escobas": [-1, 0]}, "[-1, 0]"),
    "too many escobas": ({"escobas": [41, 0]}, "[41, 0]"),
    "half an escoba": ({"escobas": [0.5, 0]}, "[0.5, 0]"),
    "escobas of a number": ({"escobas": 5}, "5"),
    "unknown episode": ({"episode": "x"}, "'x'"),
    "unknown field": ({"tabel": "1o"}, "'tabel'"),
}


@pytest.mark.parametrize(("parts", "named"), NO_POSITIONS.values(), ids=NO_POSITIONS)
def test_an_impossible_position_is_refused(parts: Fields, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        Game.from_position(**{"hands": ["1o", "2o"], **parts})


# Corrupted states and texts: refused, or a game like any other


def check_consistent(game: Game, rng: random.Random) -> None:
    """Checks that a game can be written down and read, and played through its round."""
    check_reads_back(game, 0)
    check_with_the_reference(game)
    started = game.record["round_index"]
    while not game.is_over and game.record["round_index"] == started:
        legal, moves = game.legal_actions(), game.legal_moves()
        assert legal
        assert moves
        if game.record["played"] == NOBODY:
            assert {move.card for move in moves} == set(legal)
        places = [*game.record["hands"], *game.record["piles"]]
        places += [game.record["table"], game.record["set_aside"]]
        places += [1 << card for card in parse_cards(stock_of(game))]
        if game.record["played"] != NOBODY:
            places.append(1 << int(game.record["played"]))
        assert sum(map(int, places)) == game.rules.pack
        if rng.random() < 0.5:
            game.play(rng.choice(moves))
        else:
            game.step(rng.choice(legal))
    assert game.is_over or game.episode == "match"
    assert min(game.record[name].min() for name in ("scores", "round_index", "escobas")) >= 0
    # A score that was the highest possible may have passed it.
    if not (game.record["scores"] > MAX_SCORE).any():
        check_reads_back(game, 0)


@pytest.mark.parametrize("episode", ["round", "match"])
def test_a_game_from_the_highest_scores_is_a_game_after_its_round(episode: str) -> None:
    game = Game(seed=3, episode=episode)
    game.reset(scores=[MAX_COUNT // 12] * 2)
    play_some(game, random.Random(3), 1000)
    assert max(game.scores) > MAX_COUNT // 12
    check_reads_back(game, 0)


def try_state(game: Game, state: bytes, rng: random.Random) -> bool:
    """Puts a state into a game and tells whether it was accepted; checks what follows."""
    before = game.get_state(), game.rewards, game.returns
    try:
        with time_limit(2):
            game.set_state(state)
    except ValueError:
        assert (game.get_state(), game.rewards, game.returns) == before
        return False
    assert game.get_state() == state
    check_consistent(game, rng)
    return True


@examples(100)
@given(games_in_progress(), st.binary(min_size=STATE.itemsize, max_size=STATE.itemsize))
def test_random_bytes_are_no_state(game: Game, state: bytes) -> None:
    assert not try_state(game, state, random.Random(0))


@pytest.mark.parametrize(
    "state",
    [b"", b"x", bytes(STATE.itemsize - 1), bytes(STATE.itemsize + 1), None, 5, "x" * 10, Named()],
    ids=repr,
)
def test_what_is_not_the_bytes_of_a_state_is_refused(state: Any) -> None:
    game = Game(seed=0)
    check_refused(game, lambda: game.set_state(state), f"{STATE.itemsize} bytes")


def elements() -> Iterator[tuple[str, int]]:
    """Yields every number of a state: its field and its place there."""
    for name in STATE.names or ():
        for place in range(int(np.prod(STATE[name].shape, dtype=int))):
            yield name, place


@examples(250)
@given(games_in_progress(), st.sampled_from(list(elements())), st.data(), seeds)
def test_a_state_with_one_number_changed_is_refused_or_is_a_game(
    game: Game, element: tuple[str, int], data: st.DataObject, seed: int
) -> None:
    name, place = element
    record = np.frombuffer(game.get_state(), STATE).copy()
    values = record[name].reshape(-1)
    info = np.iinfo(values.dtype)
    values[place] = data.draw(
        st.integers(-3, 45)
        | st.integers(info.min, info.max)
        | st.sampled_from([info.min, info.max])
    )
    try_state(game, record.tobytes(), random.Random(seed))


@examples(200)
@given(games_in_progress(), st.integers(0, 8 * STATE.itemsize - 1), seeds)
def test_a_state_with_one_bit_flipped_is_refused_or_is_a_game(
    game: Game, bit: int, seed: int
) -> None:
    state = bytearray(game.get_state())
    state[bit // 8] ^= 1 << bit % 8
    try_state(game, bytes(state), random.Random(seed))


@pytest.mark.parametrize(
    "fields", [{"players": 3}, {"ranks": (1, 2, 3, 4, 5, 6, 7)}, {"suits": ("oros", "copas")}]
)
def test_a_state_of_another_table_or_pack_is_refused(fields: Fields) -> None:
    game = Game(seed=0)
    assert not try_state(game, Game(**fields, seed=4).get_state(), random.Random(0))


@pytest.mark.parametrize(
    ("name", "place", "value"), [("phase", 0, 1), ("scores", 2, 12), ("round_points", 3, 12)]
)
def test_a_state_between_rounds_or_with_points_of_nobody_is_refused(
    name: str, place: int, value: int
) -> None:
    game = play_some(Game(players=4, partnership=True, seed=0), random.Random(0), 1000)
    assert game.is_over
    record = np.frombuffer(game.get_state(), STATE).copy()
    record[name].reshape(-1)[place] = value
    check_refused(game, lambda: game.set_state(record.tobytes()), name)


def change_part(text: str, key: str, value: str) -> str:
    """Returns a position's text with one part changed."""
    changed = re.sub(rf" {key}=\S*", lambda _: f" {key}={value}", text)
    assert f" {key}={value}" in changed
    return changed


BAD_PARTS = [
    ("rules", "{"), ("rules", "[]"), ("rules", "5"), ("rules", '{"players":7}'),
    ("rules", '{"playrs":2}'), ("rules", '{"jokers":2}'), ("rules", "[" * 100_000),
    ("episode", "x"), ("phase", "x"), ("phase", "over"), ("phase", "round_over"),
    ("turn", "2"), ("turn", "-"), ("turn", "x"), ("turn", "999"), ("turn", "1.0"),
    ("dealer", "2"), ("dealer", "-"), ("table", "7o,7o"), ("table", "xx"), ("table", "-"),
    ("hands", "-/-"), ("hands", "?3/?3"), ("hands", "4o"), ("hands", "?-/?3"), ("hands", "?x/-"),
    ("piles", "-"), ("piles", "7o/-"), ("last", "2"), ("last", "x"), ("escobas", "0"),
    ("escobas", "0/-1"), ("escobas", "999/0"), ("played", "7o"), ("played", "xx"), ("played", "J1"),
    ("picked", "7o"), ("picked", "4c"), ("scores", "0"), ("scores", "x,0"), ("scores", "1/0,0"),
    ("scores", "1/5,0"),
    ("scores", "-1,0"), ("scores", "nan,0"), ("scores", "inf,0"), ("scores", "99999999999,0"),
    ("scores", "1e999999999,0"), ("points", "-1,0"), ("points", "1e999999999,0"),
    ("round", "-1"), ("round", "99999999999"), ("round", "x"), ("aside", "7o"), ("first", "xx"),
    ("log", "?"), ("log", "7o"), ("log", "7o:"), ("log", "7o:7o"), ("log", "7o;7o"),
    ("log", ";".join(["7o"] * 200)), ("end", "xx"), ("end", "7o"), ("stock", "?40"), ("stock", "-"),
    ("stock", "7o"), ("next", "99"), ("next", "-"), ("next", "9"), ("seed", "-"), ("seed", "x"),
    ("seed", "9" * 30), ("game", "-"), ("game", "9" * 30), ("viewer", "0"), ("viewer", "5"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), BAD_PARTS, ids=lambda part: part[:20])
def test_a_text_with_a_part_that_cannot_be_is_refused(key: str, value: str) -> None:
    text = change_part(Game(seed=0).to_text(), key, value)
    with pytest.raises(ValueError, match=r"."), time_limit(2):
        Game.from_text(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [("scores", "99999999999,0"), ("points", "0,99999999999"), ("escobas", "0/999"),
     ("hands", "?999/?3"), ("round", "99999999999"), ("seed", "9" * 30), ("last", "999")],
)  # fmt: skip
def test_a_number_that_is_out_of_range_is_refused_with_its_name(key: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{key}.*9999*"):
        Game.from_text(change_part(Game(seed=0).to_text(), key, value))


@pytest.mark.parametrize(
    ("played", "picked"),
    [("7o", "Rc"), ("7o", "Sc,5c"), ("7o", "Sc"), ("7o", "5c,3b"), ("1c", "-"), ("1c", "Rc")],
)
def test_a_text_of_a_turn_that_cannot_go_on_is_refused(played: str, picked: str) -> None:
    """The 7 may take the sota, or 5 and 3, and the ace nothing: no other picks are a turn."""
    game = Game.from_position(hands=["7o 1c", "5e 2b"], table="Sc 5c 3b Rc", seed=0)
    game.step(SEVEN_OF_OROS)
    text = game.to_text()
    assert " hands=1c/" in text
    other = "1c" if played == "7o" else "7o"
    for key, value in (("hands", f"{other}/2b,5e"), ("played", played), ("picked", picked)):
        text = change_part(text, key, value)
    with pytest.raises(ValueError, match=r"picked|played|legal"):
        Game.from_text(text)


@pytest.mark.parametrize("text", ["", " ", "escoba/2", "escoba/1", "escoba/1 turn=0", 5, None, b""])
def test_what_is_no_text_of_a_position_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"escoba/1|missing|position"):
        Game.from_text(text)


def test_a_text_with_a_part_missing_twice_or_unknown_is_refused() -> None:
    text = Game(seed=0).to_text()
    for key in re.findall(r" (\w+)=", text):
        with pytest.raises(ValueError, match=key):
            Game.from_text(re.sub(rf" {key}=\S*", "", text))
        with pytest.raises(ValueError, match=key):
            Game.from_text(f"{text} {key}=0")
    with pytest.raises(ValueError, match="colour"):
        Game.from_text(f"{text} colour=red")


@examples(200)
@given(games_in_progress(), st.data(), seeds)
def test_a_text_with_some_characters_changed_is_refused_or_is_a_game(
    game: Game, data: st.DataObject, seed: int
) -> None:
    text = game.to_text()
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 3)))
    # No exponents: ten to the power of a billion is another test's.
    other = data.draw(st.text("0123456789ocbSCR-?/,;:=+ .", max_size=3))
    changed = text[:start] + other + text[stop:]
    try:
        with time_limit(2):
            again = Game.from_text(changed)
    except ValueError:
        return
    check_consistent(again, random.Random(seed))


# What is said in two places: see ``check_position``


def test_a_text_whose_log_has_not_made_its_piles_is_refused() -> None:
    """The text was accepted once, and its own text read back as another game."""
    rules = {"most_sevens": 0, "all_sevens": 2}
    game = play_some(Game("tabletop", seed=36, **rules), random.Random(36), 36)
    text = game.to_text()
    assert ";5c>1c;6b>1c+5c;" in text
    with pytest.raises(ValueError, match=r"log: 6b>1c\+5c does not fit"):
        Game.from_text(text.replace(";5c>1c;", ";1c;"))
    with pytest.raises(ValueError, match="log"):
        Game.from_text(text.replace(";5c>1c;", ";5c;"))


@pytest.mark.parametrize("moves", [["5o:3o+4c+3c"], ["5o:3o+4c+3c", "2e"], ["2c>3o+4c", "1e"]])
def test_a_text_of_a_position_that_was_set_up_says_how_its_first_cards_lay(
    moves: list[str],
) -> None:
    """Also once they have been captured: how they lay was lost, and they read back apart."""
    game = Game.from_position("tabletop", hands=["5o 2c", "2e 1e"], table="3o+4c 3c")
    for move in moves:
        game.play(parse_move(move))
    assert " first=3o+4c,3c " in game.to_text()
    assert from_text_and_state(game).get_state() == game.get_state()


def from_text_and_state(game: Game) -> Game:
    """Returns a game read from its text, and checks that it may be set as a state too."""
    game.clone().set_state(game.get_state())
    return Game.from_text(game.to_text())


def test_a_text_that_says_only_of_its_table_which_cards_lie_in_a_pile_is_read() -> None:
    """So they were written before."""
    game = Game.from_position("tabletop", hands=["5o 2c", "2e 1e"], table="3o+4c 3c")
    text = game.to_text()
    old = text.replace(" first=3o+4c,3c ", " first=3o,3c,4c ")
    assert old != text
    assert Game.from_text(old).get_state() == game.get_state()


def after_some_turns(rules: str = "classic", turns: int = 9, **options: Any) -> Game:
    """A game in the second deal, in which something has been captured."""
    game, rng = Game(rules, seed=5, **options), random.Random(5)
    for _ in range(turns):
        game.play(rng.choice(game.legal_moves()))
    assert game.record["piles"].any()
    return game


def swap(values: Any, one: int, two: int) -> None:
    values[[one, two]] = values[[two, one]]


def move_card(record: Any, source: str, target: str) -> None:
    """Moves a card of seat 0, or of the table, elsewhere."""
    low = int(record[source].reshape(-1)[0]) & -int(record[source].reshape(-1)[0])
    record[source].reshape(-1)[0] ^= low
    record[target].reshape(-1)[-1 if target == "piles" else 0] |= low


def first_taken(record: Any) -> int:
    """The turn of the first capture."""
    return min(t for t in record["taken_at"][0].tolist() if t >= 0)


def uncapture(record: Any) -> None:
    """Says in the log of the first capture that its card has been laid and nothing taken."""
    at = first_taken(record)
    record["taken_at"][record["taken_at"] == at] = -1


def exchange_turns(record: Any) -> None:
    played = record["played_at"][0].tolist()
    swap(record["played_at"][0], played.index(0), played.index(1))


CONTRADICTIONS: dict[str, Callable[[Any], Any]] = {
    "a card of the table in a pile": lambda r: move_card(r, "table", "set_aside"),
    "an escoba that no capture made": lambda r: r["escobas"].__setitem__((0, 0), 7),
    "another last capturer": lambda r: r["last_capturer"].__setitem__(
        0, 1 - int(r["last_capturer"][0])
    ),
    "no last capturer": lambda r: r["last_capturer"].__setitem__(0, NOBODY),
    "another seat to move": lambda r: r["turn"].__setitem__(0, 1 - int(r["turn"][0])),
    "another dealer": lambda r: r["dealer"].__setitem__(0, 1 - int(r["dealer"][0])),
    "piles exchanged": lambda r: swap(r["piles"][0], 0, 1),
    "hands exchanged": lambda r: swap(r["hands"][0], 0, 1),
    "a card dealt to another": lambda r: swap(r["stock"][0], 0, 4),
    "a card dealt that lay on the table": lambda r: swap(r["stock"][0], 0, 7),
    "a card dealt that is in the stock": lambda r: swap(r["stock"][0], 0, 39),
    "a card twice in the order of the deal": lambda r: r["stock"].__setitem__(
        (0, 0), r["stock"][0, 1]
    ),
    "a hidden card in the order of the deal": lambda r: r["stock"].__setitem__((0, 3), -2),
    "fewer cards dealt than are out": lambda r: r["stock_next"].__setitem__(0, 10),
    "a capture that the log does not know": uncapture,
    "turns of the log exchanged": exchange_turns,
    "one turn too many": lambda r: r["turn_index"].__setitem__(0, r["turn_index"][0] + 1),
    "points of a round before the first": lambda r: (
        r["round_points"].__setitem__((0, 0), 12), r["scores"].__setitem__((0, 0), 12),
    ),
    "more points in a round than in the match": lambda r: (
        r["round_index"].__setitem__(0, 1), r["round_points"].__setitem__((0, 0), 12),
    ),
    "a round after one whose winner has won": lambda r: (
        r["round_index"].__setitem__(0, 1), r["scores"].__setitem__((0, 0), 21 * 12),
    ),
    "over in mid-round": lambda r: (
        r["phase"].__setitem__(0, 2), r["legal"].__setitem__(0, 0),
    ),
    "an action that is not legal": lambda r: r["legal"].__setitem__(0, int(r["legal"][0]) ^ 1),
    "no action": lambda r: r["legal"].__setitem__(0, 0),
}  # fmt: skip


@pytest.mark.parametrize("change", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_state_that_contradicts_itself_is_refused_and_changes_nothing(
    change: Callable[[Any], Any],
) -> None:
    game = after_some_turns(episode="match")
    record = np.frombuffer(game.get_state(), STATE).copy()
    change(record)
    assert record.tobytes() != game.get_state()
    assert not try_state(game, record.tobytes(), random.Random(0))


def test_a_record_of_another_episode_is_refused() -> None:
    """A round that is over is no match that is, and a match in its second round is no round."""
    over = play_some(Game(seed=1), random.Random(1), 1000)
    second = Game(seed=1, episode="match")
    while second.record["round_index"] == 0:
        second.step(second.legal_actions()[0])
    for game, other in ((over, "match"), (second, "round")):
        text = change_part(game.to_text(), "episode", other)
        for act in (
            lambda game=game, other=other: Game(episode=other).set_state(game.get_state()),
            lambda text=text: Game.from_text(text),
        ):
            with pytest.raises(ValueError, match=r"phase=2|round_index=1"):
                act()
        check_position(game.rules, game.record)


@pytest.mark.parametrize(
    ("name", "value"),
    [("escobas", 3), ("last_capturer", NOBODY), ("turn", 1), ("stock_next", 10), ("seed", 4),
     ("picked", 1), ("hand_counts", 1)],
)  # fmt: skip
def test_a_view_that_contradicts_itself_is_refused(name: str, value: int) -> None:
    """Escobas alone may have been there before the log began: a view does not say when it did."""
    view = after_some_turns().view(1)
    check_position(view.rules, view.records[0])
    view.records[name].reshape(-1)[0] = value
    if name == "escobas":
        check_position(view.rules, view.records[0])
        return
    with pytest.raises(ValueError, match=r"."):
        check_position(view.rules, view.records[0])


@pytest.mark.parametrize(
    ("key", "value"),
    [("first", "-"), ("first", "3o"), ("won", "1o"), ("end", "1o"), ("log", "-"),
     ("rules", '{"players":2,"players":2}'), ("rules", '{"target":21,"target":15}')],
)  # fmt: skip
def test_a_text_of_which_two_parts_disagree_is_refused(key: str, value: str) -> None:
    text = after_some_turns().to_text()
    with pytest.raises(ValueError, match=r"."):
        Game.from_text(change_part(text, key, value))


def test_a_capture_that_two_turns_of_a_log_claim_is_refused() -> None:
    """The later one alone would be kept."""
    game = after_some_turns()
    moves = [str(logged(game, turn)) for turn in range(9)]
    captures = [move for move in moves if ":" in move]
    card = captures[0].split(":")[1].split("+")[0]
    moves[-1] += f"+{card}" if ":" in moves[-1] else f":{card}"
    with pytest.raises(ValueError, match="log"):
        Game.from_text(change_part(game.to_text(), "log", ";".join(moves)))


def logged(game: Game, turn: int) -> Move:
    move = logged_move(game.record, turn)
    assert move is not None
    return move


@pytest.mark.parametrize("chunk", range(4))
def test_changed_texts_and_states_are_refused_or_are_games_all_through(chunk: int) -> None:
    """``tests/fuzz_positions.py`` goes on where these end."""
    numbers = range(8 * chunk, 8 * chunk + 8)
    found = change_games(numbers, each=12)
    assert not found.fault, found.fault
    assert found.made.total() == 96
    assert 0 < found.accepted.total() < 60


def test_a_stuck_card_is_not_said_to_be_kept_from_a_capture() -> None:
    game = Game.from_position(
        "tabletop",
        hands=["Ro 2c", "3o 3c"],
        table=["6c+7c", "6e+7e", "6b+7b", "Cc+4b"],
        dealer=1,
        capture="card",
    )
    with pytest.raises(IllegalActionError, match=r"one that captures or has a place"):
        game.step(9)


@pytest.mark.parametrize(
    "change", [{"scores": "178956970,0"}, {"escobas": "127/0"}, {"round": "2147483647"}]
)
def test_a_position_whose_numbers_would_overflow_is_refused(change: dict[str, str]) -> None:
    text = Game(episode="match", seed=3).to_text()
    for key, value in change.items():
        text = re.sub(rf"(?<= ){key}=\S+", f"{key}={value}", text)
    with pytest.raises(ValueError, match="allowed"):
        Game.from_text(text)


def test_after_the_last_game_of_a_seed_another_seed_is_asked_for() -> None:
    game = Game(seed=3)
    last = Game.from_text(re.sub(r"game=\d+", f"game={2**63 - 1}", game.to_text()))
    with pytest.raises(ValueError, match="seed"):
        last.reset()
    last.reset(seed=4)


def test_a_table_of_cards_that_do_not_exist_is_no_state() -> None:
    game = Game("tabletop", seed=1)
    record = np.frombuffer(game.get_state(), STATE).copy()
    record["table"] |= 1 << 42
    with pytest.raises(ValueError, match="is not a card"):
        game.set_state(record.tobytes())
