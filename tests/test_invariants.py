"""Laws that whole games of the engine keep at every step, for any rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import TABLES, Fields, deck_of
from reference.presets import PRESETS
from test_engine_against_reference import (
    examples,
    fields_of_fifteen,
    match_fields,
    playable_fields,
    playable_games,
    seeds,
)

from escoba_env import Batch, Game
from escoba_env.cards import JOKERS, LAY, cards_in
from escoba_env.engine.record import AT_END, FROM_START, NOBODY, NOT_YET, TWELFTHS

every_table = pytest.mark.parametrize("table", TABLES)

JOKER_BITS = sum(1 << card for card in JOKERS)

Chooser = Callable[[Game, random.Random], int]


def any_action(game: Game, rng: random.Random) -> int:
    """Chooses any legal action."""
    return rng.choice(game.legal_actions())


def lay_if_possible(game: Game, rng: random.Random) -> int:
    """Lays every card that may be laid, and never captures by choice."""
    legal = game.legal_actions()
    return LAY if LAY in legal else rng.choice(legal)


def rounds_of(
    game: Game, rng: random.Random, choose: Chooser = any_action, most: int = 4
) -> Iterator[Iterator[Game]]:
    """Yields the rounds of a game, and of each the game before every action and after the last.

    Where a round is not the last of its match, the game after it has dealt the next one already.
    """

    def one_round() -> Iterator[Game]:
        index = int(game.record["round_index"])
        while not game.is_over and game.record["round_index"] == index:
            yield game
            game.step(choose(game, rng))
        yield game

    for _ in range(most):
        if game.is_over:
            return
        yield one_round()


def steps_of(game: Game, rng: random.Random) -> Iterator[Game]:
    """Yields a game before its first action and after every one."""
    yield game
    while not game.is_over and game.record["round_index"] < 3:
        game.step(any_action(game, rng))
        yield game


def places(game: Game) -> list[int]:
    """Returns the card sets of all places where a card can be."""
    record = game.record
    stock = record["stock"][record["stock_next"] : record["stock_size"]]
    played = [] if record["played"] == NOBODY else [record["played"]]
    one_card = [1 << int(card) for card in (*stock, *played)]
    sets = [*record["hands"], *record["piles"], record["table"], record["set_aside"]]
    return [int(cards) for cards in sets] + one_card


def value_of(cards: int) -> int:
    """Returns the total capture value of a card set without jokers."""
    return sum(card % 10 + 1 for card in cards_in(cards))


def leftovers(game: Game) -> int:
    """Returns the card set that nobody had captured when the round of a finished game ended."""
    left = int(game.record["table"])
    for card in np.flatnonzero(game.record["taken_at"] == AT_END):
        left |= 1 << int(card)
    for card in game.record["stock"][game.record["stock_next"] : game.record["stock_size"]]:
        left |= 1 << int(card)
    return left


def sweeps_in_the_log(game: Game) -> list[int]:
    """Returns the turns of a finished round in which every card on the table was taken."""
    played_at, taken_at = game.record["played_at"], game.record["taken_at"]
    sweeps = []
    for turn in range(game.rules.turns):
        laid = (played_at <= turn) & (played_at != NOT_YET)
        on_table = laid & ((taken_at > turn) | (taken_at == NOT_YET))
        if (taken_at == turn).any() and not on_table.any():
            sweeps.append(turn)
    return sweeps


def finished(fields: Fields, seed: int, choose: Chooser = any_action) -> Game:
    """Returns a game of one round after its end."""
    game, rng = Game(fields, seed=seed), random.Random(seed)
    while not game.is_over:
        game.step(choose(game, rng))
    return game


# Cards and hands


@examples(60)
@given(playable_games, seeds)
def test_every_card_is_in_exactly_one_place_at_every_step(
    rules: tuple[Fields, str], seed: int
) -> None:
    game = Game(rules[0], episode=rules[1], seed=seed)
    for now in steps_of(game, random.Random(seed)):
        found = places(now)
        assert sum(cards.bit_count() for cards in found) == game.rules.pack_size
        assert sum(found) == game.rules.pack


@examples(60)
@given(playable_games, seeds)
def test_hands_are_as_large_as_their_counts_and_differ_by_one_at_most(
    rules: tuple[Fields, str], seed: int
) -> None:
    game = Game(rules[0], episode=rules[1], seed=seed)
    seats = game.rules.players
    for now in steps_of(game, random.Random(seed)):
        record = now.record
        counts = [int(n) for n in record["hand_counts"]]
        assert counts == [int(hand).bit_count() for hand in record["hands"]]
        assert counts[seats:] == [0] * (4 - seats)
        chosen = record["played"] != NOBODY
        held = [counts[(now.turn + i) % seats] + (chosen and i == 0) for i in range(seats)]
        assert held == sorted(held, reverse=True)
        assert held[0] - held[-1] <= 1
        assert held[0] <= game.rules.hand_size
        assert (held[0] == 0) == now.is_over


def assert_makes_the_sum(game: Game, card: int, taken: int) -> None:
    """Asserts that a card may capture a set: fifteen, its own value, or what jokers make up."""
    cards = taken | (1 << card)
    jokers = (cards & JOKER_BITS).bit_count()
    assert taken
    if game.rules.capture_by == "value":
        assert value_of(taken) == card % 10 + 1
    elif jokers:
        assert value_of(cards & ~JOKER_BITS) <= game.rules.target_sum - jokers
    else:
        assert value_of(cards) == game.rules.target_sum


@examples(60)
@given(playable_fields(), seeds)
def test_only_the_chosen_action_changes_the_cards_and_only_in_its_seat(
    fields: Fields, seed: int
) -> None:
    """A capture moves the played card and what it takes to the seat's pile, nothing else."""
    game, rng = Game(fields, seed=seed), random.Random(seed)
    while True:
        before, seat = game.record.copy(), game.turn
        game.step(any_action(game, rng))
        after = game.record
        if game.is_over:
            break
        others = [other for other in range(game.rules.players) if other != seat]
        assert (after["piles"][others] == before["piles"][others]).all()
        assert (after["escobas"][others] == before["escobas"][others]).all()
        if after["turn_index"] == before["turn_index"]:
            assert after["table"] == before["table"]
            assert after["piles"][seat] == before["piles"][seat]
            continue
        new = int(after["piles"][seat]) & ~int(before["piles"][seat])
        (card,) = np.flatnonzero(after["played_at"] == before["turn_index"])
        played = 1 << int(card)
        if new:
            taken = new ^ played
            assert_makes_the_sum(game, int(card), taken)
            assert new & played
            assert taken & ~int(before["table"]) == 0
            assert int(after["table"]) == int(before["table"]) ^ taken
            assert after["last_capturer"] == seat
        else:
            assert int(after["table"]) == int(before["table"]) | played
            assert after["last_capturer"] == before["last_capturer"]
        swept = bool(new) and after["table"] == 0 and new & JOKER_BITS == 0
        assert after["escobas"][seat] == before["escobas"][seat] + swept


@examples(60)
@given(playable_fields(), seeds)
def test_the_log_of_a_finished_round_tells_how_every_card_moved(fields: Fields, seed: int) -> None:
    """Each turn plays one card; what it captures leaves with it; the rest is taken at the end."""
    game = finished(fields, seed)
    played_at, taken_at = game.record["played_at"], game.record["taken_at"]
    in_pack = [bool(game.rules.pack >> card & 1) for card in range(42)]
    turns = game.rules.turns
    assert game.record["turn_index"] == turns
    assert sorted(played_at[played_at >= 0]) == list(range(turns))
    assert (played_at == FROM_START).sum() == game.rules.table_size
    for turn in range(turns):
        cards = sum(1 << int(card) for card in np.flatnonzero(taken_at == turn))
        (card,) = np.flatnonzero(played_at == turn)
        if cards:
            assert cards >> int(card) & 1
            assert_makes_the_sum(game, int(card), cards ^ (1 << int(card)))
    with_the_deal = taken_at == FROM_START
    assert (played_at[with_the_deal] == FROM_START).all()
    assert with_the_deal.sum() in (0, game.rules.table_size)
    if with_the_deal.any():
        assert game.rules.initial_table in ("dealer", "eldest")
    captured = np.bitwise_or.reduce(game.record["piles"])
    for card in np.flatnonzero(in_pack):
        assert (taken_at[card] != NOT_YET) == bool(captured >> card & 1)


# Deals and turns


@every_table
def test_a_round_has_36_turns(table: str) -> None:
    for seed in range(20):
        game, rng = Game(TABLES[table], seed=seed), random.Random(seed)
        turns = 0
        while not game.is_over:
            game.play(rng.choice(game.legal_moves()))
            turns += 1
        assert turns == game.rules.turns == 36


@examples(40)
@given(match_fields, seeds)
def test_the_deal_passes_to_the_right_and_the_eldest_hand_begins(fields: Fields, seed: int) -> None:
    game = Game({**fields, "target": 100_000, "partnership_target": None}, episode="match")
    game.reset(seed)
    rng, players, dealers = random.Random(seed), game.rules.players, []
    while len(dealers) < 5:
        if game.record["turn_index"] == 0 and game.record["played"] == NOBODY:
            dealers.append(game.dealer)
        elif game.record["played"] == NOBODY:
            assert game.dealer == dealers[-1]
        assert game.turn == (game.dealer + 1 + game.record["turn_index"]) % players
        game.step(any_action(game, rng))
    assert dealers == [(dealers[0] + i) % players for i in range(5)]


@every_table
def test_the_first_dealer_is_drawn_evenly(table: str) -> None:
    games, players = 8000, TABLES[table]["players"]
    dealers = Batch(games, TABLES[table], seed=0).states["dealer"]
    counts = np.bincount(dealers, minlength=players)
    assert len(counts) == players
    # Four standard deviations of a binomial count.
    assert abs(counts - games / players).max() < 4 * np.sqrt(games / players)


# Leftovers and captures


@every_table
@pytest.mark.parametrize("capture", ["optional", "card", "hand"])
def test_leftovers_total_ten_modulo_fifteen_and_the_last_card_never_sweeps(
    capture: str, table: str
) -> None:
    for seed in range(60):
        game = finished({**TABLES[table], "capture": capture}, seed)
        left = leftovers(game)
        assert left
        assert value_of(left) % 15 == 10
        assert 35 not in sweeps_in_the_log(game)


@examples(60)
@given(fields_of_fifteen(), seeds)
def test_what_is_captured_is_a_multiple_of_the_target_sum(fields: Fields, seed: int) -> None:
    """With building and a table that is won or set aside too; not with jokers, nor in Scopa."""
    game = finished(fields, seed)
    assert (value_of(game.rules.pack) - value_of(leftovers(game))) % game.rules.target_sum == 0


def finished_games(fields: Fields, games: int) -> list[Game]:
    """Returns finished games of one round."""
    return [finished(fields, seed) for seed in range(games)]


@every_table
@pytest.mark.parametrize("preset", ["classic", "tabletop", "ludoteka", "argentine", "open_table"])
def test_the_laws_of_leftovers_hold_in_every_preset_of_fifteen_without_jokers(
    preset: str, table: str
) -> None:
    """They total ten more than a multiple of fifteen, whatever becomes of the first table."""
    first_tables = 0
    for game in finished_games({**PRESETS[preset], **TABLES[table]}, 60):
        left = leftovers(game)
        aside = int(game.record["set_aside"])
        first_tables += bool(aside) or bool((game.record["taken_at"] == FROM_START).any())
        assert value_of(aside) in (0, 15)
        assert left
        assert value_of(left) % 15 == 10
        assert 35 not in sweeps_in_the_log(game)
        if game.rules.capture == "card":
            assert game.record["last_capturer"] != NOBODY
    assert (first_tables > 0) == (game.rules.initial_table != "play")


def test_with_jokers_leftovers_may_total_anything_and_the_last_card_may_sweep() -> None:
    """The stock is left with two cards at least, so that it is the table that may be empty."""
    totals, swept = set(), 0
    for game in finished_games({**PRESETS["comodines"], "players": 2}, 300):
        left = leftovers(game)
        assert left.bit_count() >= 2
        totals.add(value_of(left & ~JOKER_BITS) % 15)
        swept += 35 in sweeps_in_the_log(game)
    assert len(totals) > 10
    assert swept > 0


def test_in_scopa_the_last_card_may_sweep_and_that_scores_nothing() -> None:
    swept = left_over = 0
    for game in finished_games({**PRESETS["scopa"], "players": 2}, 300):
        # A capture takes as much as is played: what is left is even.
        assert value_of(leftovers(game)) % 2 == 0
        left_over += bool(leftovers(game))
        sweeps = sweeps_in_the_log(game)
        swept += 35 in sweeps
        assert game.record["escobas"].sum() == len([turn for turn in sweeps if turn != 35])
    assert swept > 0
    assert left_over > 0


def test_thirty_is_never_set_aside_and_fifteen_always_is() -> None:
    """A table set aside totals fifteen, so the laws of leftovers hold; with jokers it has none."""
    for preset in ("argentine", "comodines"):
        seen = {15: 0, 30: 0}
        for seed in range(400):
            game = Game(preset, seed=seed)
            first = sum(1 << int(card) for card in game.record["stock"][6:10])
            if first & JOKER_BITS or value_of(first) not in seen:
                assert game.record["set_aside"] == 0
                continue
            seen[value_of(first)] += 1
            aside = first if value_of(first) == 15 else 0
            assert game.record["set_aside"] == aside
            assert game.record["table"] == first ^ aside
        assert all(seen.values())


def test_a_redeal_leaves_no_first_table_of_fifteen_and_keeps_the_dealer() -> None:
    seen = set()
    for seed in range(400):
        game, played = Game(initial_table="redeal", seed=seed), Game(seed=seed)
        assert game.dealer == played.dealer
        assert value_of(int(game.record["table"])) != 15
        again = value_of(int(played.record["table"])) == 15
        assert (game.get_state() == played.get_state()) == (not again)
        seen.add(again)
    assert seen == {False, True}


def test_a_pack_that_totals_a_multiple_of_fifteen_may_end_with_a_sweep_that_scores() -> None:
    """Where the law of the usual pack does not hold: nothing is left, and the escoba counts."""
    fields = {"suits": ("oros", "copas", "espadas"), "table_size": 6}
    swept = left_over = 0
    for seed in range(200):
        game = finished(fields, seed)
        left = leftovers(game)
        assert value_of(left) % 15 == 0
        if left:
            left_over += 1
            continue
        swept += 1
        sweeps = sweeps_in_the_log(game)
        assert game.rules.turns - 1 in sweeps
        assert game.record["escobas"].sum() == len(sweeps)
    assert swept > 0
    assert left_over > 0


@every_table
@pytest.mark.parametrize("capture", ["card", "hand"])
def test_where_a_card_must_capture_somebody_always_does(capture: str, table: str) -> None:
    for seed in range(60):
        game = finished({**TABLES[table], "capture": capture}, seed)
        assert game.record["last_capturer"] != NOBODY
        assert np.bitwise_or.reduce(game.record["piles"]) == game.rules.pack
        assert game.table == []


@every_table
def test_leftovers_stay_unclaimed_when_nobody_captures(table: str) -> None:
    for seed in range(20):
        fields = {**TABLES[table], "capture": "optional", "setenta": 1, "ties": "all"}
        game = finished(fields, seed, lay_if_possible)
        assert game.record["last_capturer"] == NOBODY
        assert not game.record["piles"].any()
        assert leftovers(game) == game.rules.pack
        assert game.round_points == [0] * game.rules.num_sides
        assert (game.record["taken_at"] == NOT_YET).all()


@every_table
def test_leftovers_go_to_the_last_capturer_and_are_no_escoba(table: str) -> None:
    game, rng = Game(TABLES[table]), random.Random(5)
    for seed in range(40):
        game.reset(seed)
        while True:
            before = game.clone()
            game.step(any_action(game, rng))
            if game.is_over:
                break
        record, seat = game.record, int(game.record["last_capturer"])
        captured = (record["taken_at"] == 35).any()
        assert seat == (before.turn if captured else before.record["last_capturer"])
        new = record["piles"] & ~before.record["piles"]
        assert int(new[seat]) & leftovers(game) == leftovers(game)
        assert all(new[other] == 0 for other in range(4) if other != seat)
        assert (record["escobas"] == before.record["escobas"]).all()


# Rewards and matches


@examples(80)
@given(
    playable_games,
    seeds,
    st.sampled_from(["margin", "points", "win"]),
)
def test_returns_are_the_sum_of_rewards_and_rewards_come_at_the_end_of_rounds(
    rules: tuple[Fields, str], seed: int, reward: str
) -> None:
    game, rng = Game(rules[0], episode=rules[1], reward=reward, seed=seed), random.Random(seed)
    total = np.zeros(game.rules.players)
    assert game.rewards == game.returns == total.tolist()
    for one_round in rounds_of(game, rng):
        rewards = []
        for step, _ in enumerate(one_round):
            if step:
                rewards.append(game.rewards)
                total += game.rewards
        assert not np.any(rewards[:-1])
        assert rewards[-1] == round_rewards(game)
    assert game.returns == pytest.approx(total.tolist(), abs=1e-9)


@pytest.mark.parametrize("reward", ["margin", "points", "win"])
@every_table
def test_returns_add_up_over_the_rounds_of_a_match(table: str, reward: str) -> None:
    game, rng = Game(TABLES[table], seed=6, episode="match", reward=reward), random.Random(6)
    total = np.zeros(game.rules.players)
    rounds = 0
    for one_round in rounds_of(game, rng, most=100):
        for _ in one_round:
            pass
        total += game.rewards
        rounds += 1
    assert game.is_over
    assert rounds > 3
    assert game.returns == pytest.approx(total.tolist(), abs=1e-9)
    if reward == "points":
        sides = [game.rules.side_of(seat) for seat in range(game.rules.players)]
        assert game.returns == [game.scores[side] for side in sides]


def round_rewards(game: Game) -> list[float]:
    """Returns what each seat should earn with the round that has just ended."""
    points, sides = game.round_points, game.rules.num_sides
    totals = game.scores if game.episode == "match" else points
    rewards = []
    for seat in range(game.rules.players):
        side = game.rules.side_of(seat)
        others = [points[other] for other in range(sides) if other != side]
        if game.reward == "points":
            reward = points[side]
        elif game.reward == "margin":
            reward = points[side] - sum(others) / len(others)
        elif not game.is_over:
            reward = 0
        elif totals[side] == max(totals):
            reward = 2 / totals.count(max(totals)) - 1
        else:
            reward = -1
        rewards.append(pytest.approx(reward, abs=1e-9))
    return rewards


@examples(60)
@given(playable_games, seeds)
def test_margins_add_up_to_nothing_over_the_sides_and_partners_share_theirs(
    rules: tuple[Fields, str], seed: int
) -> None:
    game, rng = Game(rules[0], episode=rules[1], seed=seed), random.Random(seed)
    for one_round in rounds_of(game, rng):
        for _ in one_round:
            pass
        margins = game.rewards
        assert sum(margins) == pytest.approx(0, abs=1e-6)
        if game.rules.partnership:
            assert margins[:2] == margins[2:]


@examples(40)
@given(match_fields, seeds)
def test_a_match_is_its_rounds_added_up(fields: Fields, seed: int) -> None:
    """Each round of a match, dealt again as a game of its own, goes and scores the same."""
    match, rng = Game(fields, seed=seed, episode="match", reward="points"), random.Random(seed)
    single = Game(fields, episode="round", reward="points")
    scores, rounds = np.zeros(match.rules.num_sides), 0
    while not match.is_over and rounds < 3:
        single.reset(deck=deck_of(match), dealer=match.dealer)
        while not single.is_over:
            assert single.legal_actions() == match.legal_actions()
            action = any_action(match, rng)
            single.step(action)
            match.step(action)
        rounds += 1
        scores += single.round_points
        assert match.is_over or match.record["round_index"] == rounds
        assert match.round_points == single.round_points
        assert match.rewards == single.rewards
        assert match.scores == pytest.approx(scores.tolist(), abs=1e-9)


@examples(60)
@given(match_fields, seeds)
def test_a_match_ends_with_the_first_round_that_leaves_one_side_on_top_past_the_target(
    fields: Fields, seed: int
) -> None:
    game, rng = Game(fields, seed=seed, episode="match"), random.Random(seed)
    for one_round in rounds_of(game, rng, most=6):
        for _ in one_round:
            pass
        top = max(game.scores)
        decided = top >= game.rules.match_target and game.scores.count(top) == 1
        assert game.is_over == decided


def test_a_tie_for_the_highest_means_another_round() -> None:
    """Only the majority of cards scores, so that 20 each leaves everything as it was."""
    nothing = dict.fromkeys(("most_oros", "all_oros", "most_sevens", "all_sevens"), 0)
    fields: dict[str, Any] = {**nothing, "seven_of_oros": 0, "escoba": 0, "target": 1}
    tied = decided = 0
    for seed in range(400):
        game, rng = Game(fields, seed=seed, episode="match"), random.Random(seed)
        game.reset(seed, scores=[5, 5])
        while game.record["round_index"] == 0 and not game.is_over:
            game.step(any_action(game, rng))
        if game.is_over:
            decided += 1
            assert sorted(game.scores) == [5, 6]
        else:
            tied += 1
            assert game.scores == [5, 5]
            assert game.record["round_index"] == 1
            assert game.record["turn_index"] == 0
    assert tied > 0
    assert decided > 0


def test_points_split_among_two_three_or_four_leaders_are_exact() -> None:
    seen = set()
    for seed in range(400):
        game = finished({**TABLES["4"], "ties": "split"}, seed)
        exact = game.record["round_points"]
        assert game.round_points == [int(points) / TWELFTHS for points in exact]
        seen |= {int(points) % TWELFTHS for points in exact}
    assert {0, 3, 4, 6} <= seen
