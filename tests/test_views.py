"""What a seat knows: nothing hidden is in its view, and nothing that follows from it differs.

A game in which the hidden cards lie elsewhere is the same game to the seat that looks.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference.compare import Fields
from test_engine_against_reference import (
    examples,
    games_in_progress,
    playable_games,
    seeds,
)

from escoba_env import Batch, Encoding, Game, Views, load_policy
from escoba_env.batch import Records
from escoba_env.cards import cards_in
from escoba_env.encoding import VERSIONS
from escoba_env.engine import batch as kernels
from escoba_env.engine.record import HIDDEN, STATE
from escoba_env.position import format_position, parse_position

POLICIES = ("random", "greedy", "counting")


def hidden_from(game: Game, seat: int) -> list[int]:
    """Returns the cards whose place a seat does not know: other hands, and the stock."""
    record = game.record
    cards = [int(card) for card in record["stock"][record["stock_next"] : record["stock_size"]]]
    if not game.rules.open_hands:
        for other in range(game.rules.players):
            if other != seat:
                cards += game.hand(other)
    return cards


def with_hidden_cards_elsewhere(game: Game, seat: int, rng: random.Random) -> Game:
    """Returns the same game to a seat: what it cannot know is dealt anew.

    The order in which the round was dealt, the seed and the number of the game are other ones too.
    Where a card had to be chosen that captures, or that has a place, the turns that were played do
    not allow every hand: then one is looked for that they do.
    """
    for _ in range(30):
        record = with_cards_exchanged(game, hidden_from(game, seat), rng)
        other = game.clone()
        try:
            other.set_state(record.tobytes())
        except ValueError:
            assert game.rules.capture == "hand" or game.rules.building
            continue
        return other
    return game


def with_cards_exchanged(game: Game, cards: list[int], rng: random.Random) -> Records:
    """Returns a game in which some cards have changed places, in the order of the deal too."""
    record = np.frombuffer(game.get_state(), STATE).copy()
    now = dict(zip(cards, rng.sample(cards, len(cards)), strict=True))
    for other in range(game.rules.players):
        hand = [now.get(card, card) for card in game.hand(other)]
        record["hands"][0, other] = sum(1 << card for card in hand)
    stock = [now.get(int(card), int(card)) for card in record["stock"][0]]
    rules, start = game.rules, 0
    sizes = [rules.hand_size] * rules.players
    for size in (*sizes, rules.table_size, *sizes * (rules.deals - 1)):
        # Each block, in any order: hands and the first table are the same.
        stock[start : start + size] = rng.sample(stock[start : start + size], size)
        start += size
    record["stock"][0] = stock
    record["seed"] = rng.randrange(2**63)
    record["game_index"] = rng.randrange(2**63)
    kernels.set_legal(game.spec, record)
    return record


def decisions(views: Views) -> list[int]:
    """Returns what each policy chooses in a view of the seat to move."""
    return [int(load_policy(name).act(views)[0]) for name in POLICIES]


@st.composite
def games_and_seats(draw: st.DrawFn) -> tuple[Game, int]:
    """Draws a game in progress and one of its seats."""
    game = draw(games_in_progress())
    return game, draw(st.integers(0, game.rules.players - 1))


@examples(200)
@given(games_and_seats(), seeds)
def test_hidden_cards_change_nothing_that_a_seat_is_given(
    game_and_seat: tuple[Game, int], seed: int
) -> None:
    game, seat = game_and_seat
    other = with_hidden_cards_elsewhere(game, seat, random.Random(seed))
    view, other_view = game.view(seat), other.view(seat)
    assert view.records.tobytes() == other_view.records.tobytes()
    text = format_position(game.rules, game.episode, view.records[0])
    assert text == format_position(game.rules, game.episode, other_view.records[0])
    for name in VERSIONS:
        encoding = Encoding(name, game.rules, game.episode)
        for one, same in zip(view.observe(encoding), other_view.observe(encoding), strict=True):
            assert one.tobytes() == same.tobytes()
    if game.turn == seat:
        assert game.legal_moves() == other.legal_moves()
        if not game.is_over:
            # Policies draw from the keys, which come from the game's stream and not its cards.
            other_view.keys[:] = view.keys
            assert decisions(view) == decisions(other_view)


@examples(100)
@given(games_and_seats(), seeds)
def test_a_hidden_card_that_comes_to_light_changes_the_view(
    game_and_seat: tuple[Game, int], seed: int
) -> None:
    """The law above is not kept by views that show too little."""
    game, seat = game_and_seat
    seen = game.hand(seat)
    hidden = hidden_from(game, seat)
    assume(seen and hidden and game.record["played"] not in seen)
    rng = random.Random(seed)
    one, two = rng.choice(seen), rng.choice(hidden)
    record = np.frombuffer(game.get_state(), STATE).copy()
    record["stock"][0] = [{one: two, two: one}.get(int(card), card) for card in record["stock"][0]]
    swap = (1 << one) | (1 << two)
    for other in range(game.rules.players):
        if (int(record["hands"][0, other]) & swap).bit_count() == 1:
            record["hands"][0, other] ^= swap
    kernels.set_legal(game.spec, record)
    changed = game.clone()
    try:
        changed.set_state(record.tobytes())
    except ValueError:
        # The turns that were played do not allow such a hand.
        assume(game.rules.capture != "hand" and not game.rules.building)
        raise
    for name in VERSIONS:
        encoding = Encoding(name, game.rules, game.episode)
        before, after = (
            game.view(seat).observe(encoding)[0],
            changed.view(seat).observe(encoding)[0],
        )
        assert before.tobytes() != after.tobytes()


@examples(150)
@given(games_and_seats())
def test_a_view_holds_counts_of_hidden_cards_and_no_more(game_and_seat: tuple[Game, int]) -> None:
    game, seat = game_and_seat
    record, view = game.record, game.view(seat).records[0]
    assert view["seed"] == view["game_index"] == 0
    assert (view["stock"] == HIDDEN).all()
    assert view["viewer"] == seat
    for other in range(4):
        open_to_seat = other == seat or game.rules.open_hands
        assert view["hands"][other] == (record["hands"][other] if open_to_seat else 0)
    assert view["legal"] == (record["legal"] if game.turn == seat else 0)
    erased = {"seed", "game_index", "stock", "viewer", "hands", "legal"}
    for name in set(STATE.names or ()) - erased:
        assert view[name].tobytes() == record[name].tobytes(), name


@examples(150)
@given(games_and_seats())
def test_the_text_of_a_view_names_no_hidden_card_and_reads_back_as_the_view(
    game_and_seat: tuple[Game, int],
) -> None:
    game, seat = game_and_seat
    view = game.view(seat).records
    text = format_position(game.rules, game.episode, view[0])
    rules, episode, record = parse_position(text)
    assert (rules, episode) == (game.rules, game.episode)
    assert record.tobytes() == view.tobytes()
    with pytest.raises(ValueError, match="view of one seat"):
        Game.from_text(text)


@examples(100)
@given(playable_games, seeds, st.integers(0, 40))
def test_a_view_is_observed_as_the_game_is(
    rules: tuple[Fields, str], seed: int, picks: int
) -> None:
    for name in VERSIONS:
        batch = Batch(6, rules[0], episode=rules[1], encoding=name, seed=seed)
        play_at_random(batch, np.random.default_rng(seed), picks)
        for seat in range(batch.rules.players):
            seats = np.full(len(batch), seat)
            from_views = batch.views(seats=seats).observe(batch.encoding)
            from_games = batch.observe(seats=seats)
            for view, game in zip(from_views, from_games, strict=True):
                assert view.tobytes() == game.tobytes()


def play_at_random(batch: Batch, rng: np.random.Generator, picks: int) -> None:
    """Takes up to so many random legal actions in every game of a batch."""
    for _ in range(picks):
        playing = np.flatnonzero(~batch.over)
        chances = rng.random((len(playing), 43)) * batch.legal_masks(playing)
        batch.step(chances.argmax(axis=1), playing)


@examples(30)
@given(playable_games, seeds, st.sampled_from(POLICIES))
def test_games_that_policies_play_do_not_depend_on_batch_size_or_order(
    rules: tuple[Fields, str], seed: int, policy_name: str
) -> None:
    """Keys, and so the draws of a stochastic policy, belong to the game and the decision."""
    fields, episode = rules
    policy = load_policy(policy_name)
    together = Batch(7, fields, episode=episode, seed=seed)
    order = np.array([4, 0, 6, 2, 5, 1, 3])
    shuffled = Batch(7, fields, episode=episode, seed=seed)
    shuffled.reset(seed, game_indices=order)
    alone = [Batch(1, fields, episode=episode, seed=seed) for _ in range(7)]
    for index, batch in enumerate(alone):
        batch.reset(seed, game_indices=[index])
    for _ in range(40):
        if together.over.all():
            break
        playing = np.flatnonzero(~together.over)
        views = together.views(playing)
        shuffled_views = shuffled.views(np.flatnonzero(~shuffled.over))
        keys = dict(zip(playing.tolist(), views.keys.tolist(), strict=True))
        playing_order = [game for game in order if game in keys]
        assert shuffled_views.keys.tolist() == [keys[game] for game in playing_order]
        actions = dict(zip(keys, policy.act(views).tolist(), strict=True))
        assert policy.act(shuffled_views).tolist() == [actions[game] for game in playing_order]
        for game, action in actions.items():
            own_view = alone[game].views()
            assert own_view.keys.tolist() == [keys[game]]
            assert policy.act(own_view).tolist() == [action]
            alone[game].step([action])
        together.step(list(actions.values()), playing)
        shuffled.step([actions[game] for game in playing_order], np.flatnonzero(~shuffled.over))
    assert (shuffled.states == together.states[order]).all()
    assert (np.concatenate([batch.states for batch in alone]) == together.states).all()


def test_every_decision_has_a_key_of_its_own() -> None:
    """Over games, rounds, turns and the picks of a turn, so that no two draws are tied."""
    batch = Batch(50, "classic", capture="optional", episode="match", seed=3)
    rng = np.random.default_rng(3)
    keys: list[int] = []
    for _ in range(200):
        playing = np.flatnonzero(~batch.over)
        keys += batch.views(playing).keys.tolist()
        play_at_random(batch, rng, 1)
    assert len(set(keys)) == len(keys)
    assert min(keys) >= 0


def test_random_policy_chooses_evenly_among_the_legal_actions() -> None:
    games = 30_000
    batch = Batch(games, seed=1)
    batch.reset(1, game_indices=np.arange(games))
    views = batch.views()
    hands = [list(cards_in(hand)) for hand in views.records["legal"]]
    chosen = load_policy("random").act(views)
    places = [hand.index(card) for hand, card in zip(hands, chosen, strict=True)]
    counts = np.bincount(places, minlength=3)
    assert len(counts) == 3
    assert abs(counts - games / 3).max() < 4 * np.sqrt(games * 2 / 9)


@examples(60)
@given(playable_games, seeds)
def test_policies_choose_legal_actions_and_leave_the_views_alone(
    rules: tuple[Fields, str], seed: int
) -> None:
    batch = Batch(5, rules[0], episode=rules[1], seed=seed)
    for name in POLICIES:
        policy = load_policy(name)
        batch.reset(seed)
        for _ in range(30):
            playing = np.flatnonzero(~batch.over)
            views = batch.views(playing)
            before = views.records.tobytes(), views.keys.tobytes()
            actions = policy.act(views)
            assert (views.records.tobytes(), views.keys.tobytes()) == before
            assert actions.dtype == np.int64
            assert (batch.legal_masks(playing)[np.arange(len(playing)), actions] == 1).all()
            batch.step(actions, playing)
