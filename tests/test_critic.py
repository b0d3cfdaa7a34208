"""The critic that sees all cards: what it is shown, and that it alone sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_policies import TABLES, with_hidden_cards_dealt_anew

pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")
pytest.importorskip("yaml")

import torch

from escoba_env import Batch, load_policy, make_rules
from escoba_env.cards import NUM_IDS
from escoba_env.engine.record import NOBODY
from escoba_env.policies.learned import LearnedPolicy
from training.config import Config, make_config
from training.critic import hidden_places, num_places
from training.ppo import SelfPlayPPO
from training.rollout import SeatRolloutBuffer, SelfPlay
from training.run_folder import RunFolder, batch_of
from training.selfplay import train

torch.set_num_threads(1)

SETTINGS = {
    "name": "all-seeing",
    "critic": "all_seeing",
    "decisions": 512,
    "games": 32,
    "steps": 8,
    "minibatch": 128,
    "network": {"hidden": [24, 16], "action_hidden": 8},
    "precision": "float32",
    "evaluation": {"every": 10**6, "deals": 2},
}


def settings(**changes: Any) -> Config:
    return make_config({**SETTINGS, **changes}, "tests")


def learner_of(config: Config) -> tuple[SelfPlayPPO, SelfPlay]:
    batch = batch_of(config)
    return SelfPlayPPO(config, batch), SelfPlay(
        batch, [], config.reward_scale, config.seed, all_seeing=True
    )


def cards(mask: int) -> set[int]:
    return {card for card in range(NUM_IDS) if int(mask) >> card & 1}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_places_are_where_hidden_cards_are_and_will_be(table: Any) -> None:
    """Played on, hands are dealt as the places said, however many deals ahead."""
    rules = make_rules(table)
    players = rules.players
    batch = Batch(20, rules, seed=3)
    counting = load_policy("counting")
    first: dict[tuple[int, int], set[int]] = {}
    places = hidden_places(rules, batch.states)
    assert places.max() < num_places(rules)
    start = batch.turn
    for game in range(20):
        for card in np.flatnonzero(places[game]):
            deal, seat = divmod(int(places[game, card]), players)
            key = (game, deal * players + (start[game] + seat) % players)
            first.setdefault(key, set()).add(int(card))
    turns = players * rules.hand_size
    checked = 0
    for _ in range(10_000):
        states = batch.states
        for game in np.flatnonzero(~batch.over & (states["turn_index"] % turns == 0)):
            deal = int(states["turn_index"][game]) // turns
            for seat in range(players):
                if states["hand_counts"][game, seat] < rules.hand_size or (
                    deal == 0 and seat == start[game]
                ):
                    continue
                assert cards(states["hands"][game, seat]) == first[game, deal * players + seat]
                checked += 1
        if batch.over.all():
            break
        live = np.flatnonzero(~batch.over)
        batch.step(counting.act(batch.views(live)), live)
    assert checked >= 20 * (rules.deals * players - 1)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_places_are_of_all_cards_in_other_hands_and_in_the_stock(table: Any) -> None:
    rules = make_rules(table)
    batch = Batch(50, rules, seed=5)
    random = load_policy("random")
    for _ in range(7):
        live = np.flatnonzero(~batch.over)
        batch.step(random.act(batch.views(live)), live)
    places = hidden_places(rules, batch.states)
    for game in np.flatnonzero(~batch.over):
        state = batch.states[game]
        seen = cards(state["hands"][batch.turn[game]]) | cards(state["table"])
        for pile in state["piles"]:
            seen |= cards(pile)
        seen |= cards(state["set_aside"])
        if state["played"] != NOBODY:
            seen.add(int(state["played"]))
        assert set(np.flatnonzero(places[game])) == cards(rules.pack) - seen


def test_the_critic_sees_hidden_cards_and_the_policy_does_not() -> None:
    model, play = learner_of(settings())
    for _ in range(3):
        model.update(play, 512)

    def asked(batch: Batch) -> Any:
        games = np.arange(len(batch))
        choices = play._choices(batch, games, *batch.observe())
        with torch.no_grad():
            critic = model.policy.critic(choices, False)
            return critic, *model.network.score(choices)

    batch = Batch(30, encoding="tactical", skip_forced=True, seed=9)
    critic, logits, own = asked(batch)
    other_critic, other_logits, other_own = asked(with_hidden_cards_dealt_anew(batch))
    torch.testing.assert_close(logits, other_logits)
    torch.testing.assert_close(own, other_own)
    assert (critic - other_critic).abs().min() > 0


def test_advantages_are_by_the_critic_and_both_learn_the_same_returns() -> None:
    model, play = learner_of(settings())
    buffer = model.rollout_buffer
    assert isinstance(buffer, SeatRolloutBuffer)
    play.collect(buffer, model.act)
    (whole,) = buffer.get(None)
    choices = whole.observations
    with torch.no_grad():
        critic = model.policy.critic(choices, False)
        values, _, _ = model.policy.evaluate_actions(choices, whole.actions)
        own = model.network.score(choices)[1]
    torch.testing.assert_close(whole.old_values, critic)
    torch.testing.assert_close(values, torch.cat([critic, own]))
    returns = whole.advantages + whole.old_values
    torch.testing.assert_close(whole.returns, torch.cat([returns, returns]))
    before = [p.clone() for p in (*model.policy.critic.parameters(),)]
    value_before = model.network.value_head.weight.clone()
    model.update(play, 512)
    changed = zip(before, model.policy.critic.parameters(), strict=True)
    assert all((a != b).any() for a, b in changed)
    assert (model.network.value_head.weight != value_before).any()


def test_it_knows_better_what_comes_of_a_game() -> None:
    """After some learning its values are closer to what is earned than the policy's own are: with
    six cards, where there is little else to learn.
    """
    config = settings(
        rules={
            "ranks": [1, 2, 3], "suits": ["oros", "copas"], "hand_size": 2, "table_size": 1,
            "target_sum": 4,
        },
        games=256, steps=16, minibatch=1024, learning_rate=3e-3, gae_lambda=1.0,
        network={"hidden": [48], "action_hidden": 8},
    )  # fmt: skip
    model, play = learner_of(config)
    for _ in range(30):
        model.update(play, 10**6)
    buffer = model.rollout_buffer
    assert isinstance(buffer, SeatRolloutBuffer)
    play.collect(buffer, model.act)
    (whole,) = buffer.get(None)
    with torch.no_grad():
        own = model.network.score(whole.observations)[1]
        critic = model.policy.critic(whole.observations, False)
    returns = whole.returns[: len(own)]
    gain = (own - returns).square() - (critic - returns).square()
    assert gain.mean() > 3 * gain.std() / len(gain) ** 0.5


def test_a_run_with_it_goes_on_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    train(
        settings(decisions=256, learning_rate=3e-4, final_learning_rate=3e-4),
        RunFolder(tmp_path / "b"),
    )
    first = settings(final_learning_rate=3e-4, decisions=512)
    resumed = train(first, RunFolder(tmp_path / "b"), resume=True)
    straight = train(first, RunFolder(tmp_path / "c"))
    for key, value in straight.weights().items():
        np.testing.assert_array_equal(value, resumed.weights()[key])
    # Nothing of it is in the checkpoint.
    saved = LearnedPolicy.load(tmp_path / "c" / "checkpoint")
    assert set(saved.weights()) == set(straight.network.state_dict())
