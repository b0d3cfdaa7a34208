"""Policies: what each of them does, that it sees nothing hidden, and how they are asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.networks import make_policy

from escoba_env.batch import Batch, Views
from escoba_env.cards import NUM_ACTIONS, SUITS, card_set, cards_in, parse_card, parse_cards
from escoba_env.checks import quoted
from escoba_env.encoding import Encoding
from escoba_env.engine.record import NOBODY
from escoba_env.evaluation import evaluate
from escoba_env.policies import (
    BUILTIN,
    CountingPolicy,
    GreedyPolicy,
    Policy,
    RandomPolicy,
    load_policy,
    split_options,
)
from escoba_env.rules import Rules

if TYPE_CHECKING:
    from escoba_env.policies.learned import LearnedPolicy

TABLES: dict[str, dict[str, Any]] = {
    "two": {"players": 2},
    "three": {"players": 3, "capture": "optional"},
    "four": {"players": 4, "capture": "hand"},
    "pairs": {"players": 4, "partnership": True, "setenta": 1},
    "argentine": {"players": 2, "setenta": 1, "most_sevens": 0, "all_sevens": 0},
    "other points": {"players": 2, "most_cards": 3, "all_oros": 5, "all_sevens": 4, "escoba": 2},
    "small pack": {"ranks": (1, 2, 3, 5, 7, 8), "suits": SUITS[:3], "capture": "optional"},
    "other total": {"players": 3, "target_sum": 11, "hand_size": 4, "table_size": 4},
    "open hands": {"players": 3, "open_hands": True},
}
POLICIES: dict[str, Callable[[dict[str, Any]], Policy]] = {
    "random": lambda fields: RandomPolicy(),
    "greedy": lambda fields: GreedyPolicy(),
    "counting": lambda fields: CountingPolicy(),
    "learned": lambda fields: make_policy(2, fields),
    "learned, sampling": lambda fields: sampling(make_policy(2, fields)),
}


def sampling(policy: LearnedPolicy) -> LearnedPolicy:
    return type(policy)(policy.card, policy.network, sample=True)


def batch_after(steps: int, games: int = 200, seed: int = 9, **fields: Any) -> Batch:
    """Returns games in which a number of random choices have been made."""
    batch = Batch(games, **fields, skip_forced=True, seed=seed)
    for _ in range(steps):
        batch.step(RandomPolicy().act(batch.views()))
    return batch


def repeated(views: Views, index: int, number: int) -> Views:
    """Returns one view many times, each with a key of its own."""
    keys = np.random.default_rng(index).integers(0, 2**63, number)
    records = np.repeat(views.records[index : index + 1], number)
    return Views(views.rules, views.episode, views.spec, records, keys)


def chi_square(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> tuple[float, float]:
    """Returns Pearson's statistic, and what it should stay below: five deviations over its mean."""
    freedom = len(counts) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic, freedom + 5 * (2 * freedom) ** 0.5


# -- every policy ---------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("policy", POLICIES)
def test_actions_are_legal_until_the_end_of_every_game(policy: str, table: str) -> None:
    player = POLICIES[policy](TABLES[table])
    assert isinstance(player, Policy)
    assert isinstance(player.name, str)
    # ``evaluate`` raises an error for an action that is not legal.
    evaluate(player, "random", deals=10, **TABLES[table])
    evaluate(player, "greedy", deals=3, episode="match", **{**TABLES[table], "target": 5})


@pytest.mark.parametrize("policy", POLICIES)
def test_actions_are_int64_one_for_each_view_and_none_for_none(policy: str) -> None:
    player = POLICIES[policy]({})
    views = batch_after(3).views()
    for number in (200, 1, 0):
        actions = player.act(views[:number])
        assert actions.shape == (number,)
        assert actions.dtype == np.int64
    assert player.act(views[np.zeros(200, np.bool_)]).shape == (0,)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_action_does_not_depend_on_what_else_is_asked(policy: str) -> None:
    player = POLICIES[policy]({})
    views = batch_after(5, games=60).views()
    together = player.act(views)
    assert (player.act(views) == together).all()
    assert (player.act(views[::-1]) == together[::-1]).all()
    alone = [int(player.act(views[i : i + 1])[0]) for i in range(60)]
    assert alone == together.tolist()


@pytest.mark.parametrize("policy", POLICIES)
def test_acting_changes_neither_views_nor_global_randomness(policy: str) -> None:
    player = POLICIES[policy]({})
    views = batch_after(5).views()
    before = views.records.tobytes(), views.keys.tobytes()
    np.random.seed(0)  # noqa: NPY002  the generator that must not be used
    untouched = np.random.random()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    player.act(views)
    assert (views.records.tobytes(), views.keys.tobytes()) == before
    assert np.random.random() == untouched  # noqa: NPY002


def with_hidden_cards_dealt_anew(batch: Batch) -> Batch:
    """Returns the same games with everything that the seat to move cannot see dealt once more."""
    other = batch.clone()
    random = np.random.default_rng(4)
    for game in other.states:
        first, size = int(game["stock_next"]), int(game["stock_size"])
        seats = [] if batch.rules.open_hands else range(batch.rules.players)
        hidden = [seat for seat in seats if seat != game["turn"]]
        cards = [card for seat in hidden for card in cards_in(game["hands"][seat])]
        cards += game["stock"][first:size].tolist()
        random.shuffle(cards)
        for seat in hidden:
            count = int(game["hands"][seat]).bit_count()
            game["hands"][seat] = sum(1 << cards.pop() for _ in range(count))
        game["stock"][first:size] = cards
        game["stock"][:first] = random.permutation(game["stock"][:first])
    return other


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("policy", POLICIES)
def test_hidden_cards_change_no_action(policy: str, table: str) -> None:
    player = POLICIES[policy](TABLES[table])
    for steps in (0, 4, 9):
        batch = batch_after(steps, games=100, **TABLES[table])
        other = with_hidden_cards_dealt_anew(batch)
        assert (other.states != batch.states).sum() > 90
        views = batch.views()
        assert other.views().records.tobytes() == views.records.tobytes()
        assert (player.act(other.views()) == player.act(views)).all()


# -- random ---------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 3, 8])
def test_random_is_uniform_over_the_legal_actions(steps: int) -> None:
    batch = batch_after(steps, games=30_000, capture="optional")
    masks = batch.legal_masks().astype(np.bool_)
    actions = RandomPolicy().act(batch.views())
    assert masks[np.arange(len(masks)), actions].all()
    place = (masks.cumsum(1)[np.arange(len(masks)), actions] - 1).astype(np.int64)
    choices = masks.sum(1)
    tested = 0
    for number in np.unique(choices):
        counts = np.bincount(place[choices == number], minlength=number)
        if counts.sum() >= 50 * number:
            statistic, limit = chi_square(counts, np.full(number, counts.sum() / number))
            assert statistic < limit
            tested += 1
    assert tested >= (1 if steps == 0 else 2)


def test_random_draws_from_the_keys_alone() -> None:
    views = batch_after(4).views()
    other_keys = views.keys[::-1].copy()
    swapped = Views(views.rules, views.episode, views.spec, views.records, other_keys)
    assert (RandomPolicy().act(swapped) != RandomPolicy().act(views)).mean() > 0.3
    one = repeated(views, 0, 1000)
    choices = int(views.records["legal"][0]).bit_count()
    assert len(set(RandomPolicy().act(one).tolist())) == choices
    one.keys[:] = one.keys[0]
    assert len(set(RandomPolicy().act(one).tolist())) == 1


def test_random_draws_anew_at_every_decision_of_every_game() -> None:
    batch = Batch(500, skip_forced=True)
    keys = set()
    asked = 0
    while not batch.over.any():
        views = batch.views()
        keys |= set(views.keys.tolist())
        asked += len(views)
        batch.step(RandomPolicy().act(views))
    assert len(keys) == asked > 5000


# -- greedy ---------------------------------------------------------------------------------


def worth_of_cards(rules: Rules) -> dict[int, Fraction]:
    """What a card is worth, as ``card_worth`` describes it, in exact numbers."""
    setenta = (16, 12, 13, 14, 15, 18, 21, 10, 10, 10)
    cards = list(cards_in(rules.pack))
    oros = [card for card in cards if card // 10 == 0]
    sevens = [card for card in cards if card % 10 == 6]
    worth = {}
    for card in cards:
        worth[card] = Fraction(2 * rules.most_cards, len(cards))
        gain = setenta[card % 10] - 10
        worth[card] += Fraction(2 * rules.setenta * gain, 21 * len(rules.suits))
        if card in oros:
            worth[card] += max(Fraction(2 * rules.most_oros), Fraction(rules.all_oros)) / len(oros)
        if card in sevens:
            worth[card] += max(Fraction(2 * rules.most_sevens), Fraction(rules.all_sevens)) / len(
                sevens
            )
        if card == 6:
            worth[card] += rules.seven_of_oros
    return worth


def slow_greedy(rules: Rules, worth: dict[int, Fraction], record: Any) -> int:
    """The greedy policy by trying every subset of the table."""
    table = list(cards_in(record["table"]))
    picked = set(cards_in(record["picked"]))
    first_pick = record["played"] == NOBODY
    gains = {}
    for action in cards_in(record["legal"]):
        card = action if first_pick else int(record["played"])
        wanted = picked if first_pick else picked | {action}
        captures = [
            taken
            for size in range(1, len(table) + 1)
            for taken in combinations(table, size)
            if sum(c % 10 + 1 for c in taken) + card % 10 + 1 == rules.target_sum
            and wanted <= set(taken)
        ]
        if captures:
            gains[action] = max(
                worth[card]
                + sum(worth[c] for c in taken)
                + (rules.escoba if len(taken) == len(table) else 0)
                for taken in captures
            )
    if gains:
        return min(gains, key=lambda action: (-gains[action], action))
    laid = {
        action: worth[action if first_pick else int(record["played"])]
        for action in cards_in(record["legal"])
    }
    return min(laid, key=lambda action: (laid[action], action))


@pytest.mark.parametrize(
    "fields",
    [*TABLES.values(), {"players": 2, "most_cards": 0, "capture": "optional"}],
    ids=[*TABLES, "cards that are worth nothing"],
)
def test_greedy_is_a_slow_greedy_that_tries_every_capture(fields: dict[str, Any]) -> None:
    batch = Batch(40, **fields, seed=1)
    worth = worth_of_cards(batch.rules)
    compared = 0
    while (live := np.flatnonzero(~batch.over)).size:
        views = batch.views(live)
        actions = GreedyPolicy().act(views)
        expected = [slow_greedy(batch.rules, worth, record) for record in views.records]
        assert actions.tolist() == expected
        compared += sum(int(legal).bit_count() > 1 for legal in views.records["legal"])
        # A random course visits what greedy play never would.
        batch.step(RandomPolicy().act(views), live)
    assert compared > 400


@pytest.mark.parametrize(
    ("table", "hand", "played", "action"),
    [
        # Either seven sweeps the table; the one of oros is a point of its own.
        ("Sc", "7c 7o", "", "7o"),
        # A seven is worth more than another card, and an oro too.
        ("5c 7e", "Se Re", "", "Se"),
        ("5e Ro", "5c Re", "", "5c"),
        # An escoba is worth more than a seven.
        ("7c", "Sc 1c", "", "Sc"),
        # Two cards are worth more than one; of equal picks the lowest.
        ("1c 4c 5e Re", "", "Rb", "1c"),
        # Nothing can be captured: the card of least worth, and of equal ones the lowest.
        ("1c 2c", "1o Ro Re Rc", "", "Rc"),
        ("1c 2c", "7e Ro", "", "Ro"),
    ],
)
def test_greedy_in_positions_that_can_be_worked_out(
    table: str, hand: str, played: str, action: str
) -> None:
    batch = Batch(1)
    state = batch.states[0]
    state["hands"] = 0
    state["table"] = card_set(parse_cards(table))
    state["hands"][state["turn"]] = state["legal"] = card_set(parse_cards(hand))
    if played:
        state["played"] = parse_card(played)
        state["legal"] = card_set(parse_cards("1c 4c 5e"))
    assert GreedyPolicy().act(batch.views()).tolist() == [parse_card(action)]


# -- learned --------------------------------------------------------------------------------


def test_probabilities_are_a_distribution_over_legal_actions() -> None:
    for steps in (0, 5):
        batch = batch_after(steps, capture="optional")
        policy = make_policy(2, {"capture": "optional"})
        probabilities = policy.probabilities(batch.views())
        legal = batch.legal_masks().astype(np.bool_)
        assert probabilities.shape == (200, NUM_ACTIONS)
        assert (probabilities[~legal] == 0).all()
        assert probabilities.sum(1) == pytest.approx(np.ones(200), abs=1e-5)
        # Far from uniform, so that the tests below can fail.
        assert np.quantile(probabilities.max(1), 0.5) > 0.7


def test_without_sampling_the_likeliest_action_is_taken() -> None:
    views = batch_after(5).views()
    policy = make_policy(2)
    probabilities = policy.probabilities(views)
    assert (policy.act(views) == probabilities.argmax(1)).all()


def test_sampling_follows_the_probabilities() -> None:
    views = batch_after(5).views()
    policy = sampling(make_policy(2))
    probabilities = policy.probabilities(views).astype(np.float64)
    # The most balanced and the most one-sided of some views.
    order = np.argsort(probabilities.max(1))
    for index in (*order[:5], *order[60:64]):
        actions = policy.act(repeated(views, int(index), 20_000))
        counts = np.bincount(actions, minlength=NUM_ACTIONS)
        likely = probabilities[index] * 20_000 > 5
        assert likely.sum() >= 2
        expected = np.append(probabilities[index][likely], probabilities[index][~likely].sum())
        found = np.append(counts[likely], counts[~likely].sum())
        statistic, limit = chi_square(found, expected * 20_000 + 1e-3)
        assert statistic < limit + 5


def test_sampling_draws_from_the_keys_alone() -> None:
    views = batch_after(5).views()
    policy = sampling(make_policy(2))
    index = int(policy.probabilities(views).max(1).argmin())
    many = repeated(views, index, 500)
    first = policy.act(many)
    assert len(set(first.tolist())) > 1
    assert (policy.act(many) == first).all()
    many.keys[:] = many.keys[0]
    assert len(set(policy.act(many).tolist())) == 1


def test_no_views_have_no_probabilities() -> None:
    for policy in (make_policy(), sampling(make_policy())):
        assert policy.probabilities(batch_after(1).views()[:0]).shape == (0, NUM_ACTIONS)


@pytest.mark.parametrize(
    "fields",
    [
        {"players": 3},
        {"players": 4, "partnership": True},
        {"open_hands": True},
        {"suits": SUITS[1:]},
    ],
)
@pytest.mark.parametrize("sample", [False, True])
def test_views_of_another_layout_are_refused(fields: dict[str, Any], sample: bool) -> None:
    policy = make_policy()
    policy = type(policy)(policy.card, policy.network, sample=sample)
    views = batch_after(1, games=5, **fields).views()
    for refused in (policy.act, policy.probabilities):
        with pytest.raises(ValueError, match=r"'one' was trained for .* have another layout"):
            refused(views)
    # And it still plays what it was trained for.
    policy.act(batch_after(1, games=5).views())


def test_rules_of_the_same_layout_are_played_as_they_are() -> None:
    policy = make_policy(2)
    tables: list[dict[str, Any]] = [{}, TABLES["argentine"], {"episode": "match", "target": 11}]
    for fields in [*tables, *reversed(tables)]:
        views = batch_after(5, **fields).views()
        fresh = make_policy(2, {k: v for k, v in fields.items() if k != "episode"})
        assert (policy.probabilities(views) == fresh.probabilities(views)).all()
    plain, argentine = (batch_after(5, **fields).views() for fields in tables[:2])
    assert (plain.records == argentine.records).all()
    # What cards are worth is among the facts, so the rules do reach the network.
    assert (policy.probabilities(plain) != policy.probabilities(argentine)).any()


def test_match_scores_are_read_by_the_target_that_is_played_to() -> None:
    policy = make_policy(2, episode="match")
    views = {t: batch_after(60, episode="match", target=t).views() for t in (21, 60)}
    for target in (21, 60, 21):
        seen = views[target]
        assert seen.records["scores"].any(1).mean() > 0.9
        fresh = make_policy(2, {"target": target}, episode="match")
        assert (policy.probabilities(seen) == fresh.probabilities(seen)).all()
    # Nobody has won yet: the games are alike and only the target differs.
    assert (views[21].records == views[60].records).all()
    assert (policy.probabilities(views[21]) != policy.probabilities(views[60])).any()


def test_a_policy_for_matches_plays_rounds() -> None:
    policy = make_policy(2, episode="match")
    assert "scores" in Encoding("tactical", Rules(), "match").layout()
    views = batch_after(5).views()
    assert policy.probabilities(views).sum(1) == pytest.approx(np.ones(200), abs=1e-5)


# -- asking for a policy --------------------------------------------------------------------


def test_builtin_policies_are_found_by_name() -> None:
    assert set(BUILTIN) >= {"random", "greedy"}
    for name in BUILTIN:
        assert load_policy(name).name == name
    assert isinstance(load_policy("random"), RandomPolicy)
    assert isinstance(load_policy("greedy"), GreedyPolicy)


def test_a_policy_is_returned_as_it_is() -> None:
    for policy in (RandomPolicy(), GreedyPolicy(), make_policy()):
        assert load_policy(policy) is policy


def test_a_checkpoint_is_found_by_its_folder_and_takes_options(tmp_path: Path) -> None:
    make_policy().save(tmp_path / "one")
    from escoba_env.policies.learned import LearnedPolicy

    for folder in (tmp_path / "one", str(tmp_path / "one"), f"{tmp_path}/one/"):
        policy = load_policy(folder)
        assert isinstance(policy, LearnedPolicy)
        assert policy.sample is False
    for text, sample in (("true", True), ("false", False)):
        policy = load_policy(f"{tmp_path}/one:sample={text}")
        assert isinstance(policy, LearnedPolicy)
        assert policy.sample is sample


@pytest.mark.parametrize(
    "name",
    [
        "gredy",
        "Random",
        "random ",
        "nobody:sample=true",
        "random:",
        "a/b",
        "~",
        "a\0b",
        pytest.param("x" * 300, id="long name"),
    ],
)
def test_an_unknown_policy_is_refused_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unknown = name.removesuffix(":sample=true")
    with pytest.raises(ValueError, match=r"is unknown; allowed: random, greedy.*folder") as refused:
        load_policy(name)
    assert f"policy {quoted(unknown)}" in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("temperature=2", "policy option 'temperature' is unknown; allowed: sample"),
        ("sample=1", "option sample 1 is not possible; allowed: true or false"),
        ("sample=yes", "option sample 'yes' is not possible; allowed: true or false"),
        ("sample=true,sample=true", "option 'sample=true' .* stands twice"),
        ("sample=", "option 'sample=' .* is not key=value"),
        ("sample=true,", "option '' .* is not key=value"),
        ("=true", "option '=true' .* is not key=value"),
        ("sample=true,x", "option 'x' .* is not key=value"),
    ],
)
def test_impossible_options_are_refused_by_name(tmp_path: Path, options: str, message: str) -> None:
    make_policy().save(tmp_path / "one")
    with pytest.raises(ValueError, match=message):
        load_policy(f"{tmp_path}/one:{options}")


@pytest.mark.parametrize("name", ["random", "greedy", "counting"])
def test_builtin_policies_take_no_options(name: str) -> None:
    with pytest.raises(ValueError, match=rf"policy '{name}' takes no options; got \['seed'\]"):
        load_policy(f"{name}:seed=1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("random", ("random", {})),
        ("a:k=1", ("a", {"k": 1})),
        ("a:k=1.5,l=true,m=false,n=x y", ("a", {"k": 1.5, "l": True, "m": False, "n": "x y"})),
        ("a:k=NaN", ("a", {"k": "NaN"})),
        ("C:\\runs\\one", ("C:\\runs\\one", {})),
        ("C:\\runs\\one:sample=true", ("C:\\runs\\one", {"sample": True})),
        ("a:k==", ("a", {"k": "="})),
        ("lr=0.1/one", ("lr=0.1/one", {})),
        (":k=1", ("", {"k": 1})),
    ],
)
def test_options_follow_the_last_colon(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert split_options(text) == expected


def test_builtin_policies_need_no_torch() -> None:
    code = (
        "import sys; from escoba_env import Batch; from escoba_env.policies import load_policy\n"
        "for name in ('random', 'greedy', 'counting'): load_policy(name).act(Batch(1).views())\n"
        "assert 'torch' not in sys.modules"
    )
    root = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
