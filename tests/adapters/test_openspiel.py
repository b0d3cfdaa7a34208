"""``python_escoba`` is the engine's game, and passes what OpenSpiel asks of its own games."""

# ruff: noqa: E402, skipped where OpenSpiel is not installed

import collections
import itertools
import pickle
import random
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
import pytest

pyspiel = pytest.importorskip("pyspiel")

from absl import flags
from open_spiel.integration_tests import api_test
from open_spiel.python import policy as spiel_policies
from open_spiel.python.algorithms import exploitability, generate_playthrough, ismcts, mcts
from open_spiel.python.algorithms.cfr import CFRSolver
from open_spiel.python.observation import make_observation

from escoba_env import Game, make_rules
from escoba_env.adapters.openspiel import (
    SMALL_PACKS,
    EscobaGame,
    EscobaPolicy,
    OpenSpielPolicy,
    game_string,
    parse_rules,
    rules_text,
)
from escoba_env.batch import IllegalActionError
from escoba_env.cards import card_name
from escoba_env.evaluation import evaluate
from escoba_env.rules import PRESETS, RulesError
from tests.adapters.scripted import TABLES, script

HERE = Path(__file__).parent
VARIANTS = [
    game_string("classic"),
    game_string("classic", players=4, partnership=True, dealer="random"),
    game_string("tabletop", players=3, dealer="random"),
    game_string("comodines", initial_table="redeal"),
    game_string("ludoteka", players=4, partnership=True),
    game_string("open_table", players=3),
    game_string("scopa"),
    game_string("classic", capture="hand", building=True, dealer="random"),
    game_string("classic", hand_size=1, table_size=0, ties="split"),
    game_string("pack6"),
]
TWO_DEALS = {"ranks": (1, 2, 3), "suits": ("oros", "copas"), "hand_size": 1, "table_size": 2}
KINDS = pyspiel.PrivateInfoType


@pytest.fixture(scope="module")
def pack6():
    return pyspiel.load_game("python_escoba(rules=pack6)")


def chances_of(game: Game, rules, random_dealer=True):
    """What chance draws for the deal that a game has before it, as far as the pack goes."""
    deck = [int(card) for card in game.record["stock"][: rules.pack_size]]
    hands = rules.players * rules.hand_size
    blocks = [deck[hands : hands + rules.table_size]]
    rest = deck[:hands] + deck[hands + rules.table_size :]
    blocks += [rest[i : i + rules.hand_size] for i in range(0, len(rest), rules.hand_size)]
    return [game.dealer] * random_dealer + [card for block in blocks for card in sorted(block)]


def states(game, rng, *, chance=False):
    """The states of a random game; one state that goes on."""
    state = game.new_initial_state()
    while True:
        if chance or state.is_terminal() or not state.is_chance_node():
            yield state
        if state.is_terminal():
            return
        if state.is_chance_node():
            outcomes, chances = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(rng.choices(outcomes, chances)[0])
        else:
            state.apply_action(rng.choice(state.legal_actions()))


def nodes(state, deepest=99):
    yield state
    if not state.is_terminal() and state.move_number() < deepest:
        for action in state.legal_actions():
            yield from nodes(state.child(action), deepest)


@pytest.fixture(scope="module")
def tree(pack6):
    return list(nodes(pack6.new_initial_state()))


# -- the engine's game ----------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_seat_sees_and_earns_what_it_does_in_the_engine(table):
    played = script(table, 11)
    engine = Game(played.rules)
    engine.reset(played.seed)
    spiel = pyspiel.load_game(game_string(played.rules, dealer="random"))
    state = spiel.new_initial_state()
    chances = iter(chances_of(engine, played.rules))
    for seat, action in zip(played.seats, played.actions, strict=True):
        while state.is_chance_node():
            state.apply_action(next(chances))
        assert state.current_player() == seat
        assert state.legal_actions() == engine.legal_actions()
        for other in range(played.rules.players):
            mine, theirs = state.view(other), engine.view(other)
            assert mine.records.tobytes() == theirs.records.tobytes()
        state.apply_action(action)
        engine.step(action)
    assert state.is_terminal()
    assert state.returns() == pytest.approx(played.returns)
    assert state.rewards() == pytest.approx(played.returns)


@pytest.mark.parametrize("string", VARIANTS)
def test_a_thousand_masked_random_games_have_no_illegal_action(string):
    game, rng = pyspiel.load_game(string), random.Random(3)
    limits = game.min_utility(), game.max_utility()
    for _ in range(1000 // len(VARIANTS)):
        for state in states(game, rng):
            if not state.is_terminal():
                mask = np.flatnonzero(state.legal_actions_mask())
                state.apply_action_with_legality_check(int(rng.choice(mask)))
        returns = state.returns()
        assert sum(returns) == pytest.approx(0, abs=1e-9)
        assert limits[0] <= min(returns) <= max(returns) <= limits[1]
        if game.rules.partnership:
            assert returns[:2] == returns[2:]


def test_an_illegal_action_names_what_is_legal_and_changes_nothing(pack6):
    state = pack6.new_initial_state()
    with pytest.raises(ValueError, match=r"chance cannot draw 7; allowed: \[0, 1, 2, 10, 11, 12\]"):
        state.apply_action(7)
    assert state.history() == []
    for card in (0, 1, 2, 10, 11):
        state.apply_action(card)
    before = str(state), state.history(), state.serialize()
    for action in (-1, 0, 12, 42, 43):
        with pytest.raises(IllegalActionError if action != -1 else Exception):
            state.apply_action(action)
        assert (str(state), state.history(), state.serialize()) == before
    with pytest.raises(ValueError, match="not to move"):
        state.chance_outcomes()


def test_nothing_can_be_played_after_the_end(tree):
    end = next(state for state in tree if state.is_terminal())
    with pytest.raises(IllegalActionError, match="over"):
        end.apply_action(0)


# -- chance ---------------------------------------------------------------------------------


def deals_by_chance(game):
    """Probability of each first deal, and each later one after arbitrary play."""
    found = collections.defaultdict(float)
    deepest = game.rules.deals

    def walk(state, chance):
        if state.is_terminal() or (
            not state.is_chance_node() and len(state.round.dealt) == deepest
        ):
            table = frozenset(np.flatnonzero(state.record["played_at"] == -2).tolist())
            found[table, state.round.dealt] += chance
        elif state.is_chance_node():
            outcomes = state.chance_outcomes()
            assert sum(p for _, p in outcomes) == pytest.approx(1, abs=1e-12)
            assert all(p > 0 for _, p in outcomes)
            assert [a for a, _ in outcomes] == state.legal_actions()
            for action, p in outcomes:
                walk(state.child(action), chance * p)
        else:
            walk(state.child(state.legal_actions()[0]), chance)

    walk(game.new_initial_state(), 1.0)
    return found


@pytest.mark.parametrize(
    "fields",
    [
        SMALL_PACKS["pack6"],
        TWO_DEALS,
        TWO_DEALS | {"target_sum": 4, "initial_table": "redeal"},
        TWO_DEALS | {"suits": ("oros",), "jokers": 2, "target_sum": 3, "initial_table": "redeal"},
        TWO_DEALS | {"table_size": 0},
    ],
    ids=str,
)
def test_deals_are_as_likely_as_by_the_engine_s_shuffles(fields):
    rules = make_rules(fields)
    game = pyspiel.load_game(game_string(rules))
    engine = Game(rules)
    shuffles = collections.Counter()
    for order in itertools.permutations(np.flatnonzero([rules.pack >> i & 1 for i in range(42)])):
        deck = [int(card) for card in order]
        engine.reset(0, deck=[card_name(card) for card in deck], dealer=1)
        if [int(card) for card in engine.record["stock"][: len(deck)]] != deck:
            # Its first table was dealt again.
            continue
        size = rules.players * rules.hand_size
        table = frozenset(deck[size : size + rules.table_size])
        rest = deck[:size] + deck[size + rules.table_size :]
        blocks = [
            sum(1 << card for card in rest[i : i + rules.hand_size])
            for i in range(0, rules.deals * size, rules.hand_size)
        ]
        dealt = tuple(tuple(blocks[i : i + 2]) for i in range(0, len(blocks), 2))
        shuffles[table, dealt] += 1
    total = sum(shuffles.values())
    if rules.initial_table == "redeal":
        assert total < sum(1 for _ in itertools.permutations(range(rules.pack_size)))
    found = deals_by_chance(game)
    assert set(found) == set(shuffles)
    for deal, chance in found.items():
        assert chance == pytest.approx(shuffles[deal] / total, abs=1e-12)


def test_the_dealer_is_the_last_seat_or_drawn():
    last = pyspiel.load_game(game_string(players=3))
    drawn = pyspiel.load_game(game_string(players=3, dealer="random"))
    assert next(states(last, random.Random(1))).current_player() == 0
    state = drawn.new_initial_state()
    assert state.chance_outcomes() == [(seat, 1 / 3) for seat in range(3)]
    state.apply_action(1)
    while state.is_chance_node():
        state.apply_action(state.legal_actions()[0])
    assert state.current_player() == 2


def test_nobody_sees_a_deal_before_it_is_complete(pack6):
    state = pack6.new_initial_state()
    seen = [state.information_state_string(seat) for seat in (0, 1)]
    tensors = [state.information_state_tensor(seat) for seat in (0, 1)]
    for card in (0, 1, 2, 10):
        state.apply_action(card)
        assert [state.information_state_string(seat) for seat in (0, 1)] == seen
        assert [state.information_state_tensor(seat) for seat in (0, 1)] == tensors
    state.apply_action(11)
    assert all(state.information_state_string(seat) != seen[seat] for seat in (0, 1))


@pytest.mark.parametrize("string", VARIANTS)
def test_while_chance_deals_nobody_has_a_hand_or_a_move(string):
    game, rng = pyspiel.load_game(string), random.Random(7)
    deals = 0
    for state in states(game, rng, chance=True):
        if state.is_chance_node():
            deals += not state.round.drawn
            assert not state.record["hands"].any()
            assert not state.record["hand_counts"].any()
            assert state.record["legal"] == 0
            assert all(state.legal_actions(seat) for seat in range(game.num_players()))
    assert deals == game.rules.deals + game.table.random_dealer


def test_what_chance_has_drawn_of_a_deal_is_drawn_anew(pack6):
    state, rng = pack6.new_initial_state(), random.Random(2)
    state.apply_action(0)
    drawn = collections.Counter(
        tuple(state.resample_from_infostate(0, rng.random).history()) for _ in range(600)
    )
    assert set(drawn) == {(card,) for card in (0, 1, 2, 10, 11, 12)}
    assert all(abs(number - 100) < 4 * 9.2 for number in drawn.values())


# -- OpenSpiel's own tests ------------------------------------------------------------------


@pytest.mark.parametrize("string", VARIANTS)
def test_random_sim_test(string):
    pyspiel.random_sim_test(pyspiel.load_game(string), 2, True, False)


def api_suite(base, game, name):
    # Not a fixture: absl's cases are made for one game each.
    case = type(f"Api_{len(name)}", (base,), {"game": game, "game_name": name})
    return unittest.defaultTestLoader.loadTestsFromTestCase(case)


def run_suite(suite):
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])
    result = unittest.TestResult()
    suite.run(result)
    assert suite.countTestCases() > 3
    assert not [*result.errors, *result.failures], [*result.errors, *result.failures][0][1]


def test_api_on_the_full_tree(pack6, tree, monkeypatch):
    """Perfect recall of strings and tensors is among it."""
    monkeypatch.setitem(api_test.TOTAL_NUM_STATES, "python_escoba", (211, 2292, 888))
    monkeypatch.setitem(api_test.PERFECT_RECALL_NUM_STATES, "python_escoba", 1560)
    run_suite(api_suite(api_test.EnforceAPIOnFullTreeBase, pack6, "python_escoba"))


@pytest.mark.parametrize("string", [VARIANTS[0], VARIANTS[2], VARIANTS[5]])
def test_api_on_a_part_of_the_tree(string):
    game = pyspiel.load_game(string)
    run_suite(api_suite(api_test.EnforceAPIOnPartialTreeBase, game, "python_escoba"))


def test_playthrough_is_as_recorded():
    """Made by ``generate_playthrough --game python_escoba(rules=pack6)``."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])
    file = HERE / "playthroughs" / "python_escoba_pack6.txt"
    recorded, again = generate_playthrough.replay(str(file))
    assert again == recorded


# -- what a player knows --------------------------------------------------------------------


def knowledge(state, player):
    """What a player has seen, from the history alone."""
    game, rules = state.get_game(), state.get_game().rules
    drawn, picks = [], []
    for move in state.full_history():
        (drawn if move.player < 0 else picks).append(move.action)
    size = rules.players * rules.hand_size
    table, hands = drawn[: rules.table_size], drawn[rules.table_size :]
    assert game.table.random_dealer is False
    own = [
        tuple(hands[i + player * rules.hand_size : i + (player + 1) * rules.hand_size])
        for i in range(0, len(hands), size)
    ]
    return tuple(table), tuple(own), tuple(picks)


def test_strings_and_tensors_tell_apart_just_what_a_player_can(tree):
    for player in (0, 1):
        by_string, by_tensor = {}, {}
        for state in tree:
            if state.is_chance_node():
                continue
            known = knowledge(state, player)
            text = state.information_state_string(player)
            tensor = np.array(state.information_state_tensor(player), np.float32).tobytes()
            assert by_string.setdefault(text, known) == known
            assert by_tensor.setdefault(tensor, known) == known
        assert len(by_string) == len(by_tensor) == len(set(by_string.values()))


def picks_game():
    """Captures of two cards, which can be picked in either order."""
    fields = {"ranks": (1, 2, 3), "suits": ("oros", "copas"), "hand_size": 1, "table_size": 4}
    return pyspiel.load_game(game_string(fields, target_sum=5))


def test_the_order_of_picks_is_remembered():
    game = picks_game()
    seen = collections.defaultdict(set)
    for state in nodes(game.new_initial_state()):
        if state.is_terminal():
            for player in (0, 1):
                text = state.information_state_string(player)
                tensor = np.array(state.information_state_tensor(player)).tobytes()
                seen[text].add((knowledge(state, player), tensor))
    assert all(len(known) == 1 for known in seen.values())
    tensors = [next(iter(known))[1] for known in seen.values()]
    assert len(set(tensors)) == len(tensors)
    orders = {tuple(sorted(text.split("turns")[1].split(" ")[1].split(":"))) for text in seen}
    firsts = {text.split("turns")[1].split(" ")[1] for text in seen}
    assert len(firsts) > len(orders), "no capture could be picked in two orders"


@pytest.mark.parametrize("recall", [False, True])
@pytest.mark.parametrize("string", [VARIANTS[i] for i in (0, 1, 2, 5, 9)])
def test_public_observations_are_the_same_for_all_and_know_no_hand(string, recall):
    game, rng = pyspiel.load_game(string), random.Random(5)
    kind = pyspiel.IIGObservationType(
        perfect_recall=recall, public_info=True, private_info=KINDS.NONE
    )
    observer = make_observation(game, kind)
    assert "player" not in observer.dict
    assert ("hands" in observer.dict) == game.rules.open_hands
    for state in itertools.islice(states(game, rng), 12):
        seen = set()
        others = [
            state.resample_from_infostate(player, rng.random)
            for player in range(game.num_players())
        ]
        if any(other.legal_actions() != state.legal_actions() for other in others):
            assert not game.rules.open_hands
        for one in [state, *others]:
            for player in range(game.num_players()):
                observer.set_from(one, player)
                seen.add((observer.string_from(one, player), observer.tensor.tobytes()))
        assert len(seen) == 1


@pytest.mark.parametrize("recall", [False, True])
def test_private_observations_are_the_own_hand(tree, pack6, recall):
    kind = pyspiel.IIGObservationType(
        perfect_recall=recall, public_info=False, private_info=KINDS.SINGLE_PLAYER
    )
    observer = make_observation(pack6, kind)
    assert list(observer.dict) == ["player", "hand", *(["dealt"] if recall else [])]
    by_hand = collections.defaultdict(set)
    for state in tree:
        if not state.is_chance_node():
            observer.set_from(state, 1)
            hand = np.flatnonzero(observer.dict["hand"])
            assert sum(1 << int(card) for card in hand) == state.record["hands"][1]
            key = (int(state.record["hands"][1]), state.round.dealt[0][1] if recall else None)
            by_hand[key].add((observer.string_from(state, 1), observer.tensor.tobytes()))
    assert all(len(seen) == 1 for seen in by_hand.values())
    for part in (0, 1):
        assert len({next(iter(seen))[part] for seen in by_hand.values()}) == len(by_hand)


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("recall", [False, True])
def test_observations_of_all_hands(tree, pack6, public, recall):
    kind = pyspiel.IIGObservationType(
        perfect_recall=recall, public_info=public, private_info=KINDS.ALL_PLAYERS
    )
    observer = make_observation(pack6, kind)
    assert sum(piece.size for piece in observer.dict.values()) == observer.tensor.size
    for state in tree[::50]:
        observer.set_from(state, 0)
        for seat in (0, 1):
            cards = np.flatnonzero(observer.dict["hands"][seat])
            assert sum(1 << int(card) for card in cards) == state.record["hands"][seat]
        assert observer.string_from(state, 0) == observer.string_from(state, 1)


def test_a_player_s_default_observation_is_the_compact_encoding():
    game = pyspiel.load_game("python_escoba")
    observer = make_observation(game)
    sections = [section.name for section in game.table.compact.sections]
    assert list(observer.dict) == ["player", *sections]
    for state in itertools.islice(states(game, random.Random(2)), 30):
        for player in (0, 1):
            observer.set_from(state, player)
            expected, _ = state.view(player).observe(game.table.compact)
            assert (observer.tensor[2:] == expected[0]).all()
            assert (observer.tensor[:2] == np.eye(2)[player]).all()
            assert observer.string_from(state, player).startswith(f"player {player}\nhand: ")


# -- other states ---------------------------------------------------------------------------


@pytest.mark.parametrize("string", [*VARIANTS[:3], VARIANTS[9]])
def test_clones_pickles_and_serialised_states_go_on_as_the_state_does(string):
    game, rng = pyspiel.load_game(string), random.Random(8)
    for number, state in enumerate(states(game, rng, chance=True)):
        if number % 7 and not state.is_terminal():
            continue
        before = state.serialize()
        copies = [
            state.clone(),
            pickle.loads(pickle.dumps(state)),  # noqa: S301, the test's own
            pyspiel.deserialize_game_and_state(pyspiel.serialize_game_and_state(game, state))[1],
        ]
        for copy in copies:
            assert str(copy) == str(state)
            assert copy.history() == state.history()
            for player in range(game.num_players()):
                assert copy.information_state_string(player) == state.information_state_string(
                    player
                )
            assert copy.returns() == state.returns()
            rest = random.Random(number)
            while not copy.is_terminal():
                copy.apply_action(rest.choice(copy.legal_actions()))
        assert len({tuple(copy.returns()) for copy in copies}) == 1
        assert state.serialize() == before


@pytest.mark.parametrize("string", VARIANTS)
def test_resampled_states_are_one_and_the_same_to_the_player(string):
    game, rng = pyspiel.load_game(string), random.Random(4)
    sampler = pyspiel.UniformProbabilitySampler(0.0, 1.0)
    for number, state in enumerate(states(game, rng, chance=True)):
        if number % 5:
            continue
        for player in range(game.num_players()):
            other = state.resample_from_infostate(player, sampler)
            assert other.information_state_string(player) == state.information_state_string(player)
            assert other.information_state_tensor(player) == state.information_state_tensor(player)
            assert other.current_player() == state.current_player()
            assert len(other.history()) == len(state.history())
            if player == state.current_player():
                assert other.legal_actions() == state.legal_actions()


@pytest.mark.parametrize("capture", ["card", "hand"])
def test_resampling_is_as_likely_as_chance(capture):
    """With ``capture=hand`` a card that was laid rules out hands that could have captured."""
    game = pyspiel.load_game(game_string("pack8", capture=capture))
    rng = random.Random(6)
    alike = collections.defaultdict(dict)
    for state in nodes(game.new_initial_state(), 7):
        if state.move_number() == 7 and state.record["turn_index"] == 1:
            probability = 1.0
            walk = game.new_initial_state()
            for move in state.full_history():
                if move.player < 0:
                    probability *= dict(walk.chance_outcomes())[move.action]
                walk.apply_action(move.action)
            alike[state.information_state_string(1)][tuple(state.history())] = (probability, state)
    # One card of the other hand is not known, out of three.
    possible = {len(found) for found in alike.values()}
    assert possible == ({3} if capture == "card" else {1, 2, 3})
    for found in sorted(alike.values(), key=len)[:: len(alike) // 6]:
        total = sum(p for p, _ in found.values())
        state = next(iter(found.values()))[1]
        number = 300
        drawn = collections.Counter(
            tuple(state.resample_from_infostate(1, rng.random).history()) for _ in range(number)
        )
        assert set(drawn) == set(found)
        for history, (probability, _) in found.items():
            share = probability / total
            deviation = (number * share * (1 - share)) ** 0.5
            assert abs(drawn[history] - number * share) <= 4 * deviation


# -- algorithms and policies ----------------------------------------------------------------


@pytest.fixture(scope="module")
def solved(pack6):
    """Exploitability after more and more iterations of CFR+, and the policy at last."""
    solver, found = pyspiel.CFRPlusSolver(pack6), []
    for _ in range(3):
        for _ in range(4):
            solver.evaluate_and_update_policy()
        policy = solver.tabular_average_policy()
        found.append(pyspiel.exploitability(pack6, policy))
    return found, policy


def test_exploitability_falls_over_cfr_iterations(pack6, solved):
    found, policy = solved
    assert found[0] > found[1] > found[2] > 0
    assert found[2] < 0.03
    assert set(policy.policy_table()) == {
        state.information_state_string()
        for state in nodes(pack6.new_initial_state())
        if state.current_player() >= 0
    }


def test_openspiel_s_cfr_in_python_agrees_with_its_cfr_in_c(pack6):
    python, fast = CFRSolver(pack6), pyspiel.CFRSolver(pack6)
    python.evaluate_and_update_policy()
    fast.evaluate_and_update_policy()
    mine = pyspiel.exploitability(pack6, fast.tabular_average_policy())
    assert exploitability.exploitability(pack6, python.average_policy()) == pytest.approx(mine)


def test_exploitability_of_this_package_s_policies(pack6):
    uniform = pyspiel.exploitability(pack6, pyspiel.UniformRandomPolicy(pack6))
    mine = exploitability.exploitability(pack6, EscobaPolicy(pack6, "random"))
    assert mine == pytest.approx(uniform)
    greedy = EscobaPolicy(pack6, "greedy")
    table = spiel_policies.tabular_policy_from_callable(pack6, greedy.action_probabilities)
    exact = pyspiel.exploitability(pack6, pyspiel.TabularPolicy(table.to_dict()))
    assert 0 < exact < uniform / 2
    # There and back again.
    again = EscobaPolicy(pack6, OpenSpielPolicy(pack6, greedy))
    assert exploitability.exploitability(pack6, again) == pytest.approx(exact)


def test_a_policy_trained_here_has_an_exact_exploitability(pack6, tmp_path):
    pytest.importorskip("sb3_contrib")
    from training.config import load_config
    from training.run_folder import RunFolder
    from training.selfplay import train

    config = load_config(
        HERE.parents[1] / "configs" / "pack6.yaml",
        decisions=2**12,
        games=64,
        minibatch=1024,
        evaluation={"every": 2**20, "deals": 2, "against": ["random"]},
    )
    assert config.table() == pack6.rules
    train(config, RunFolder(tmp_path / "run"))
    # The best of its actions, after so little, may be anything; its probabilities are near uniform.
    for options, most in ("", 3), (":sample=true", 1):
        policy = EscobaPolicy(pack6, f"{tmp_path / 'run' / 'checkpoint'}{options}")
        assert 0 < exploitability.exploitability(pack6, policy) < most
    state = next(states(pack6, random.Random(1)))
    chances = policy.action_probabilities(state)
    assert sum(chances.values()) == pytest.approx(1)
    assert 0 < min(chances.values()) < max(chances.values()) < 1


def test_a_cfr_policy_wins_here(pack6, solved):
    policy = OpenSpielPolicy(pack6, solved[1], "cfr")
    found = evaluate(policy, "random", pack6.rules, deals=400)
    assert found.interval[0] > 0.2
    assert found == evaluate(policy, "random", pack6.rules, deals=400, chunk=7)


class LastPick(spiel_policies.Policy):
    """Picks the highest card that it may."""

    def action_probabilities(self, state, player_id=None):
        return {action: float(i == 0) for i, action in enumerate(state.legal_actions()[::-1])}


def test_own_picks_are_remembered_in_the_order_of_the_policy_that_is_asked():
    fields = {"ranks": (1, 2, 3), "suits": ("oros", "copas", "espadas"), "target_sum": 6}
    rules = make_rules(fields, hand_size=2, table_size=4)
    game = pyspiel.load_game(game_string(rules))
    policy = OpenSpielPolicy(game, LastPick(game, [0, 1]))
    orders = set()
    for seed in range(60):
        engine = Game(rules, seed=seed)
        while not engine.is_over and engine.record["turn_index"] < 2:
            engine.step(engine.legal_actions()[-1])
        state = policy.state_of(engine.view(engine.turn), np.random.default_rng(seed))
        move = next(m.action for m in state.full_history() if m.player == 0)
        picks = [m.action for m in state.full_history() if m.player == 0][1:]
        assert move in range(30)
        orders.add(tuple(np.sign(np.diff(picks)).tolist()))
    assert any(orders), "nobody picked twice"
    assert all(sign < 0 for order in orders for sign in order)


def test_ismcts_bots_play_there_and_here():
    game = pyspiel.load_game("python_escoba")

    def bot(player, seed):
        rng = np.random.RandomState(seed)
        rollout = mcts.RandomRolloutEvaluator(1, rng)
        return ismcts.ISMCTSBot(game, rollout, uct_c=2.0, max_simulations=6, random_state=rng)

    returns = pyspiel.evaluate_bots(game.new_initial_state(), [bot(0, 1), bot(1, 2)], 3)
    assert sum(returns) == pytest.approx(0)
    found = evaluate(OpenSpielPolicy(game, bot, "is-mcts"), "random", deals=2)
    assert found.games == 4


@pytest.mark.parametrize("dealer", ["last", "random"])
@pytest.mark.parametrize("string", VARIANTS)
def test_a_bot_is_asked_in_a_state_that_fits_the_view(string, dealer):
    rules = pyspiel.load_game(string).rules
    game = pyspiel.load_game(game_string(rules, dealer=dealer))
    policy = OpenSpielPolicy(game, pyspiel.make_uniform_random_bot)
    engine, rng = Game(rules), random.Random(9)
    for seed in range(2):
        engine.reset(seed)
        while not engine.is_over:
            view = engine.view(engine.turn)
            if rng.random() < 0.4:
                state = policy.state_of(view, np.random.default_rng(rng.randrange(99)))
                assert state.legal_actions() == engine.legal_actions()
                player = state.current_player()
                mine = state.view(player).records
                if dealer == "random":
                    assert mine.tobytes() == view.records.tobytes()
                else:
                    shift = (view.records["dealer"][0] + 1) % rules.players
                    assert (player + shift) % rules.players == engine.turn
                    assert mine["hands"][0, player] == view.records["hands"][0, engine.turn]
                    assert (mine["played_at"] == view.records["played_at"]).all()
                    assert (mine["taken_at"] == view.records["taken_at"]).all()
                actions = policy.act(view)
                assert actions.tolist() == policy.act(view).tolist()
                assert actions[0] in engine.legal_actions()
            engine.step(rng.choice(engine.legal_actions()))


def test_a_position_that_was_not_played_from_its_deal_is_refused():
    game = pyspiel.load_game("python_escoba")
    policy = OpenSpielPolicy(game, spiel_policies.UniformRandomPolicy(game))
    positions = [
        Game.from_position(hands=["7o 1c", "2c 5o"], table="3e 4b So"),
        Game.from_position(hands=["7o 1c 4o", "2c 5o 6o"], table="3e 4b", piles=["2o 3o", ""]),
    ]
    for position in positions:
        with pytest.raises(ValueError, match="not played from its deal"):
            policy.act(position.view(0))


def test_policies_refuse_what_is_not_theirs(pack6):
    policy = OpenSpielPolicy(pack6, spiel_policies.UniformRandomPolicy(pack6))
    with pytest.raises(ValueError, match="the rules of the game"):
        policy.act(Game("classic", seed=1).view(0))
    with pytest.raises(ValueError, match="OpenSpiel policy, or a function"):
        OpenSpielPolicy(pack6, "greedy")
    with pytest.raises(ValueError, match="hidden cards"):
        EscobaPolicy(pack6, "cheat:search")
    state, greedy = next(states(pack6, random.Random(1))), EscobaPolicy(pack6, "greedy")
    with pytest.raises(ValueError, match="not to move"):
        greedy.action_probabilities(state, 1)


# -- parameters -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*PRESETS, *SMALL_PACKS])
def test_rules_survive_as_text(name):
    rules = make_rules(SMALL_PACKS.get(name, name))
    assert parse_rules(rules_text(rules)) == rules
    assert pyspiel.load_game(f"python_escoba(rules={name})").rules == rules
    game = pyspiel.load_game(game_string(rules))
    assert game.rules == rules
    assert pyspiel.load_game(str(game)).rules == rules


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("rules=clasic", "rules 'clasic' are unknown; allowed: classic"),
        ("rules=classic;hand:2", "rule 'hand'=2 is unknown"),
        ("rules=classic;hand_size", "part 'hand_size' of rules .* allowed: field:value"),
        ("rules=classic;players:3", "players and partnership are parameters of their own"),
        ("rules=classic;hand_size:50", "rule hand_size=50 is not possible"),
        ("rules=classic;ranks:1 2 x", "rule ranks=.* is not possible"),
        ("players=5", "rule players=5 is not possible"),
        ("players=3,partnership=True", "rule partnership=True is not possible"),
        ("dealer=first", "dealer 'first' is unknown; allowed: last, random"),
    ],
)
def test_parameters_that_are_not_possible_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        pyspiel.load_game(f"python_escoba({parameters})")


def test_unknown_parameters_are_named():
    with pytest.raises(ValueError, match="parameter 'hands' is unknown; allowed: dealer, p"):
        EscobaGame({"hands": 3})
    with pytest.raises(ValueError, match="observation parameters"):
        EscobaGame().make_py_observer(None, {"x": 1})
    assert pyspiel.load_game("python_escoba").make_observer({}) is not None
    with pytest.raises(ValueError, match="observation parameters"):
        EscobaGame().make_py_observer({"x": 1})
    with pytest.raises(RulesError):
        game_string("pack7")


def test_without_openspiel_the_message_names_the_extra():
    code = "import sys; sys.modules['pyspiel'] = None; import escoba_env.adapters.openspiel"
    assert "pyspiel is not installed: pip install 'escoba-env[openspiel]'" in failure(code)


def test_with_an_old_openspiel_the_message_names_both_versions():
    code = (
        "import importlib.metadata as m; m.version = lambda name: '1.5'; "
        "import escoba_env.adapters.openspiel"
    )
    assert "open_spiel 1.5 is installed; allowed: 2.0 or newer" in failure(code)


def failure(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr
