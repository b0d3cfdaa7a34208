"""Beliefs: turns are taken back as they were played; deals that explain the play are likelier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.needs import needs

from escoba_env import Batch, Game, load_policy
from escoba_env.cards import parse_card, parse_cards
from escoba_env.engine.belief import LAPSE, likelihoods
from escoba_env.engine.record import STATE
from escoba_env.engine.search import BLOCK, CANDIDATES, believe_worlds, deal_worlds

TABLES: dict[str, dict[str, Any]] = {
    "two": {},
    "three": {"players": 3},
    "pairs": {"players": 4, "partnership": True},
    "jokers": {"rules": "comodines"},
    "scopa": {"rules": "scopa"},
    "by value": {"rules": "ludoteka", "players": 3},
}
KEPT = ("hands", "hand_counts", "piles", "table", "turn", "turn_index", "legal", "played",
        "picked", "played_at", "taken_at", "stock", "stock_next", "escobas")  # fmt: skip


def whole(batch: Batch, games: Any) -> Any:
    return batch.states[games].copy()


@pytest.mark.parametrize("fields", TABLES.values(), ids=TABLES)
def test_turns_are_taken_back_to_the_deal_as_they_were_played(fields):
    """Whatever is played, the position before it comes back, byte for byte."""
    batch = Batch(300, **fields)
    batch.reset(5)
    rng = np.random.default_rng(1)
    dealt = batch.states.copy()
    compared = 0
    while not batch.over.all():
        live = np.flatnonzero(~batch.over)
        states = whole(batch, live)
        seats = states["turn"].astype(np.int64)
        likelihoods(batch.spec, states, seats, np.empty(len(live)))
        for field in KEPT:
            found, expected = states[field], dealt[field][live]
            np.testing.assert_array_equal(found, expected, err_msg=field)
        compared += len(live)
        before = batch.states["stock_next"].copy()
        masks = batch.legal_masks(live)
        batch.step(np.where(masks == 1, rng.random(masks.shape), -1).argmax(1), live)
        again = np.flatnonzero((batch.states["stock_next"] != before) & ~batch.over)
        dealt[again] = batch.states[again]
    assert compared > 5000


def position(played: str, **fields: Any) -> Game:
    """Seat 0 has played; seat 1 is to move, and asks what seat 0 may hold."""
    game = Game.from_position(
        hands=["Ro 5c 7b", "1o 2c 6e"], table="7o 3c", turn=0, seed=3, **fields
    )
    game.step(parse_card(played))
    return game


def likelihood_of(game: Game, hand: str) -> float:
    """How likely seat 0's play is if it holds these cards now."""
    state = game.states.copy()
    state["hands"][0][0] = sum(1 << card for card in parse_cards(hand))
    results = np.empty(1)
    likelihoods(game.spec, state, np.array([1]), results)
    return float(results[0])


def test_whoever_lays_a_card_seldom_held_one_that_captures():
    """On the seven of oros and a three, whoever laid a king with a five missed an escoba."""
    laid = position("Ro")
    assert likelihood_of(laid, "2e 4b") > 3 * likelihood_of(laid, "5c 4b")
    # Nobody is so sure of others as to think it impossible.
    assert likelihood_of(laid, "5c 4b") > LAPSE / 10


def test_own_turns_say_nothing():
    laid = position("Ro")
    state = laid.states.copy()
    results = np.empty(1)
    likelihoods(laid.spec, state, np.array([0]), results)
    assert results[0] == 1.0


def chosen_of(game: Game, worlds: int = 4000) -> np.ndarray:
    views = game.view(game.turn)
    chosen = np.empty((1, worlds), np.int64)
    believe_worlds(views.spec, views.records, views.keys, 0, np.array([2]), chosen)
    return chosen[0]


def share_with(game: Game, chosen: np.ndarray, card: str) -> float:
    """Share of worlds in which seat 0 holds a card."""
    views = game.view(game.turn)
    held = 0
    for world in chosen:
        out = np.empty(1, STATE)
        deal_worlds(views.spec, views.records, views.keys, int(world), 1, out)
        held += int(out["hands"][0][0]) >> parse_card(card) & 1
    return held / len(chosen)


def test_worlds_are_drawn_by_how_likely_they_are():
    """Bayes: the share of hands with a card follows from the likelihoods of all worlds."""
    game = position("Ro")
    chosen = chosen_of(game)
    views = game.view(1)
    states = np.empty(32_000, STATE)
    deal_worlds(views.spec, views.records, views.keys, 0, len(states), states)
    hands = states["hands"][:, 0].copy()
    weights = np.empty(len(states))
    likelihoods(views.spec, states, np.ones(len(states), np.int64), weights)
    for card in ("5c", "4b", "Rc"):
        expected = weights[hands >> parse_card(card) & 1 == 1].sum() / weights.sum()
        assert share_with(game, chosen, card) == pytest.approx(expected, abs=0.02)


def test_each_block_of_worlds_comes_from_its_own_deals():
    chosen = chosen_of(position("Ro"), worlds=3 * BLOCK + 3)
    for block in range(4):
        mine = chosen[block * BLOCK : (block + 1) * BLOCK]
        first = block * BLOCK * CANDIDATES
        assert ((mine >= first) & (mine < first + len(mine) * CANDIDATES)).all()
        assert (np.diff(mine) >= 0).all()


@pytest.mark.parametrize("fields", [{}, {"building": True}])
def test_where_nothing_was_played_all_deals_are_alike(fields):
    game = Game(seed=3, **fields)
    chosen = chosen_of(game, 2 * BLOCK)
    expected = [*range(BLOCK), *range(BLOCK * CANDIDATES, BLOCK * CANDIDATES + BLOCK)]
    assert chosen.tolist() == expected


def test_beliefs_change_what_a_search_thinks_and_nothing_it_may_do():
    batch = Batch(200, skip_forced=True)
    batch.reset(7)
    batch.play_random(1000)
    live = np.flatnonzero(~batch.over)
    views = batch.views(live)
    plain, believing = (load_policy(f"search:worlds=16,belief={b}") for b in ("false", "true"))
    masks = batch.legal_masks(live)
    actions = believing.act(views)
    assert masks[np.arange(len(live)), actions].all()
    assert (plain.act(views) != actions).any()
    np.testing.assert_array_equal(believing.act(views), actions)
    # However the decisions are asked for.
    one = np.concatenate([believing.act(views[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(one, actions[:20])


@needs("torch")
def test_a_learned_play_out_takes_the_same_worlds_in_any_slices(monkeypatch):
    batch = Batch(3)
    batch.reset(7)
    batch.play_random(20)
    views = batch.views(np.flatnonzero(~batch.over))
    policy = load_policy("search:worlds=40,belief=true,rollout=classic-2p,deals=0")
    whole_values = policy.action_values(views)
    monkeypatch.setattr("escoba_env.policies.search.GAMES_AT_ONCE", 1)
    np.testing.assert_array_equal(policy.action_values(views), whole_values)


@pytest.mark.parametrize("value", ["maybe", "1", "2.5"])
def test_a_belief_that_is_neither_true_nor_false_is_refused(value):
    with pytest.raises(ValueError, match=r"option belief .*allowed: true or false"):
        load_policy(f"search:belief={value}")
