"""The TorchRL environments are games of the engine, and credit reaches who earned it."""

# ruff: noqa: E402, what is not installed skips the file before it is imported

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchrl")

from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import ActionMask, ParallelEnv, RewardSum, SerialEnv, StepCounter, TransformedEnv
from torchrl.envs.libs.pettingzoo import PettingZooWrapper
from torchrl.envs.utils import check_env_specs
from torchrl.modules import MaskedCategorical, ProbabilisticActor
from torchrl.objectives.value import GAE

from escoba_env import Game, IllegalActionError, escoba_v0
from escoba_env.adapters.torchrl import EscobaEnv, EscobaSelfPlayEnv, own_decisions
from escoba_env.envs.vector import EscobaVectorEnv
from escoba_env.policies import Policy
from tests.adapters.scripted import TABLES, script

NATIVE = [EscobaEnv, EscobaSelfPlayEnv]
each_table = pytest.mark.parametrize("table", TABLES, ids=str)
each_env = pytest.mark.parametrize("env_class", NATIVE, ids=lambda c: c.__name__)
# TorchRL's wrapper says at every construction which PettingZoo it was tested with.
pytestmark = pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def wrapped(**table):
    return PettingZooWrapper(escoba_v0.env(illegal="raise", **table), use_mask=True)


def lowest(td):
    """The lowest legal action everywhere."""
    td["action"] = td["action_mask"].long().argmax(-1)
    return td


class Scripted(Policy):
    """Plays a script: knows by its view which move of it is due."""

    name = "scripted"

    def __init__(self, played):
        self.moves = {}
        game = Game(played.rules, episode="round", reward="margin")
        game.reset(played.seed)
        for action in played.actions:
            self.moves[game.view(game.turn).records[0].tobytes()] = action
            game.step(action)

    def act(self, views):
        return np.array([self.moves[record.tobytes()] for record in views.records])


# -- the framework's own checks ---------------------------------------------------------------


@each_env
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("encoding", ["compact", "planes"])
def test_check_env_specs(env_class, dtype, encoding):
    device = "cpu" if dtype == "uint8" else None
    env = env_class(3, players=3, dtype=dtype, encoding=encoding, device=device)
    assert env.reset().device == env.device == (device and torch.device(device))
    check_env_specs(env, seed=0)
    assert env.batch_size == (3,)
    assert env.reset()["observation"].dtype == getattr(torch, dtype)


@each_env
def test_check_env_specs_with_transforms(env_class):
    env = TransformedEnv(env_class(3), ActionMask())
    env.append_transform(RewardSum())
    env.append_transform(StepCounter())
    check_env_specs(env)


def test_check_env_specs_of_the_wrapper():
    check_env_specs(wrapped(players=3))


# -- the same games as the engine's -----------------------------------------------------------


@each_table
def test_every_seat_gets_the_script_s_return_through_the_wrapper(table):
    played = script(table, 7)
    env = wrapped(**table)
    td = env.reset(seed=7)
    agents = env.possible_agents
    returns = np.zeros(len(agents))
    for seat, action in zip(played.seats, played.actions, strict=True):
        assert [bool(td[agent, "mask"]) for agent in agents] == [
            agent == f"player_{seat}" for agent in agents
        ]
        td = env.rand_action(td)
        td[f"player_{seat}", "action"] = torch.tensor([action])
        td = env.step(td)["next"]
        returns += [float(td[agent, "reward"]) for agent in agents]
    assert bool(td["done"])
    assert returns == pytest.approx(played.returns)


@each_table
def test_every_seat_gets_the_script_s_return_in_self_play(table):
    played = script(table, 7)
    env = EscobaSelfPlayEnv(1, **table)
    env.set_seed(7)
    td = env.reset()
    rows = []
    for seat, action in zip(played.seats, played.actions, strict=True):
        assert not td["done"].any()
        assert td["seat"].tolist() == [[seat]]
        td["action"] = torch.tensor([action])
        rows.append(env.step(td))
        td = env.step_mdp(rows[-1])
    assert td["terminated"].all()
    rollout = torch.stack(rows, 1)
    assert rollout["next", "reward"].sum((0, 1)).numpy() == pytest.approx(played.returns)
    # Nothing is earned before a seat's first decision here, so all of it is credited.
    own = own_decisions(rollout)
    assert len(own) == len(played.actions)
    for seat, earned in enumerate(played.returns):
        credited = own["next", "reward"][own["seat"] == seat].sum()
        assert float(credited) == pytest.approx(earned)


@each_table
def test_the_learner_gets_the_script_s_return_from_every_seat(table):
    played = script(table, 7)
    for seat in range(played.rules.players):
        env = EscobaEnv(1, Scripted(played), seat, illegal="raise", **table)
        env.set_seed(7)
        td = env.reset()
        earned = 0.0
        for mover, action in zip(played.seats, played.actions, strict=True):
            if mover == seat:
                assert not td["done"].any()
                td["action"] = torch.tensor([action])
                td = env.step(td)["next"].clone()
                earned += float(td["reward"])
        assert td["terminated"].all()
        assert earned == pytest.approx(played.returns[seat])


def test_games_are_those_of_the_gymnasium_vector_environment():
    settings = {"opponents": ["greedy", "random"], "seat": "random", "players": 3}
    env = EscobaEnv(5, **settings)
    peer = EscobaVectorEnv(5, autoreset_mode=AutoresetMode.DISABLED, **settings)
    env.set_seed(11)
    td = env.reset()
    observation, _ = peer.reset(seed=11)
    ended = 0
    for _ in range(60):
        assert (td["observation"].numpy() == observation["observation"]).all()
        assert (td["action_mask"].numpy() == observation["action_mask"]).all()
        assert (env.seats == peer.seats).all()
        td, following = env.step_and_maybe_reset(lowest(td))
        observation, rewards, over, _, _ = peer.step(td["action"].numpy())
        assert td["next", "reward"][:, 0].numpy() == pytest.approx(rewards)
        assert (td["next", "terminated"][:, 0].numpy() == over).all()
        if over.any():
            observation, _ = peer.reset(options={"reset_mask": over})
        ended += over.sum()
        td = following
    assert ended > 5


@each_env
def test_a_seed_settles_the_games(env_class):
    def play(seed):
        env = env_class(4)
        env.set_seed(seed)
        return env.rollout(40, lowest, break_when_any_done=False)

    first = play(3)
    assert (first == play(3)).all()
    assert not (first["observation"] == play(4)["observation"]).all()
    # Slot i plays the games of seed + i.
    assert (first["observation"][1:] == play(4)["observation"][:-1]).all()


@each_env
def test_a_seed_waits_for_the_next_game_of_each_slot(env_class):
    env, fresh = env_class(4), env_class(4)
    td = env.reset()
    env.set_seed(5)
    fresh.set_seed(5)
    expected = fresh.reset()
    chosen = torch.tensor([True, False, True, False]).unsqueeze(-1)
    later = env.reset(td.clone().set("_reset", chosen))
    assert (later["observation"][::2] == expected["observation"][::2]).all()
    assert (later["observation"][1::2] == td["observation"][1::2]).all()
    later = env.reset(later.set("_reset", ~chosen))
    assert (later["observation"] == expected["observation"]).all()


# -- masks ------------------------------------------------------------------------------------


@each_env
@pytest.mark.parametrize("transform", [False, True])
def test_a_thousand_masked_random_games_have_no_illegal_action(env_class, transform):
    illegal = {"illegal": "raise"} if env_class is EscobaEnv else {}
    env = env_class(250, rules="comodines", **illegal)
    if transform:
        env = TransformedEnv(env, ActionMask())
    games = 0
    td = env.reset()
    while games < 1000:
        td, following = env.step_and_maybe_reset(env.rand_action(td))
        assert td["action_mask"].gather(-1, td["action"].unsqueeze(-1)).all()
        games += int(td["next", "done"].sum())
        td = following


@pytest.mark.parametrize(
    "number", [10, pytest.param(1000, marks=pytest.mark.slow)], ids=["few", "thousand"]
)
def test_masked_random_games_through_the_wrapper_have_no_illegal_action(number):
    env = wrapped()
    env.set_seed(0)
    for _ in range(number):
        td = env.rollout(200)
        assert td["next", "done"][-1].all()


def test_masks_are_ones_where_a_game_is_over():
    for env_class in NATIVE:
        td = env_class(2).rollout(500, lowest, break_when_any_done=True)
        over = td["next", "done"].squeeze(-1)
        assert over.any()
        assert td["next", "action_mask"][over].all()
        assert not td["next", "action_mask"][~over].all(-1).any()


@each_env
def test_an_illegal_action_changes_nothing(env_class):
    settings = {"illegal": "raise"} if env_class is EscobaEnv else {}
    env = env_class(3, **settings)
    td = env.reset()
    wrong = td.clone()
    wrong["action"] = (~td["action_mask"]).long().argmax(-1)
    wrong["action"][0] = td["action_mask"][0].long().argmax()
    with pytest.raises(IllegalActionError, match="illegal"):
        env.step(wrong)
    again = env.reset(td.clone().set("_reset", torch.tensor([[True], [False], [False]])))
    assert (again["observation"][1:] == td["observation"][1:]).all()
    env.step(lowest(again))


# -- resets and partial steps -----------------------------------------------------------------


@each_env
def test_a_partial_reset_leaves_the_other_games(env_class):
    env = env_class(4)
    td = env.reset()
    chosen = torch.tensor([[False], [True], [False], [False]])
    after = env.reset(td.clone().set("_reset", chosen))
    same = (after["observation"] == td["observation"]).all(-1)
    assert same.tolist() == [True, False, True, True]


@each_env
def test_games_that_are_not_stepped_stay(env_class):
    env = env_class(6)
    env.set_seed(2)
    whole = env.rollout(500, lowest, break_when_any_done=False, break_when_all_done=True)
    done = whole["next", "done"].squeeze(-1)
    assert done[:, -1].all()
    assert len(set(done.long().argmax(1).tolist())) > 1
    # A game that is over repeats its last row, which is how TorchRL pads.
    for game in range(6):
        end = int(done[game].long().argmax())
        assert (
            whole["next", "observation"][game, end:] == whole["next", "observation"][game, end]
        ).all()
    env.set_seed(2)
    td = env.reset()
    some = torch.tensor([True, False] * 3)
    after = env.step(lowest(td.clone()).set("_step", some))["next"]
    assert (after["observation"][1::2] == td["observation"][1::2]).all()
    assert (after["observation"][::2] != td["observation"][::2]).any(-1).all()
    assert not after["reward"][1::2].any()


@each_env
def test_a_game_that_is_over_is_not_stepped(env_class):
    env = env_class(2)
    over = env.rollout(500, lowest)[:, -1]["next"]
    with pytest.raises((ResetNeeded, IllegalActionError), match="reset"):
        env.step(lowest(over.clone()))
    with pytest.raises(ResetNeeded, match="reset"):
        env_class(2).step(TensorDict({"action": torch.zeros(2, dtype=torch.long)}, [2]))


@each_env
def test_tensors_that_were_given_out_are_not_written_into(env_class):
    env = env_class(4)
    td = env.reset()
    for _ in range(10):
        kept, copy = td, td.clone()
        td = env.step(lowest(td.clone()))["next"]
        td = env.reset(td.clone().set("_reset", td["done"])) if td["done"].any() else td
        assert (kept == copy).all()


# -- collectors -------------------------------------------------------------------------------


def masked_policy(encoding):
    module = TensorDictModule(
        torch.nn.Linear(*encoding.shape, 43), in_keys=["observation"], out_keys=["logits"]
    )
    return ProbabilisticActor(
        module,
        in_keys={"logits": "logits", "mask": "action_mask"},
        distribution_class=MaskedCategorical,
    )


@each_env
@pytest.mark.parametrize("policy", ["network", "random"])
def test_a_collector_goes_on_from_game_to_game(env_class, policy):
    illegal = {"illegal": "raise"} if env_class is EscobaEnv else {}
    env = env_class(8, **illegal)
    collector = Collector(
        env,
        masked_policy(env.encoding) if policy == "network" else env.rand_action,
        frames_per_batch=8 * 30,
        total_frames=2 * 8 * 30,
        auto_register_policy_transforms=False,
    )
    rollouts = list(collector)
    assert [rollout.shape for rollout in rollouts] == [(8, 30), (8, 30)]
    both = torch.cat(rollouts, 1)
    following = both["observation"][:, 1:]
    going_on = ~both["next", "done"][:, :-1, 0]
    assert not going_on.all()
    assert (both["next", "observation"][:, :-1][going_on] == following[going_on]).all()


@pytest.mark.parametrize(
    "workers",
    [SerialEnv, pytest.param(ParallelEnv, marks=pytest.mark.slow)],
    ids=["serial", "processes"],
)
def test_several_environments_play_games_of_their_own(workers):
    env = workers(2, partial(EscobaEnv, 3, "random", illegal="raise"))
    try:
        env.set_seed(0)
        policy = masked_policy(EscobaEnv().encoding)
        rollout = env.rollout(30, policy, break_when_any_done=False)
    finally:
        env.close()
    assert rollout.shape == (2, 3, 30)
    assert rollout["next", "done"].any()
    assert not (rollout["observation"][0] == rollout["observation"][1]).all()


# -- credit -----------------------------------------------------------------------------------


def credit(seats, over, rewards):
    """The reward, follower and end of each decision, by going through one slot's rows."""
    rows = []
    for start, seat in enumerate(seats):
        earned = 0.0
        for step in range(start, len(seats)):
            if step > start and seats[step] == seat:
                rows.append((seat, start, earned, step, False))
                break
            earned += rewards[step][seat]
            if over[step]:
                rows.append((seat, start, earned, None, True))
                break
    return sorted(rows, key=lambda row: (row[0], row[1]))


@pytest.mark.parametrize(
    "table",
    [{}, {"players": 3}, {"players": 4, "partnership": True}, {"reward_timing": "as_earned"}],
    ids=str,
)
@pytest.mark.parametrize("steps", [7, 100])
def test_decisions_are_linked_to_the_same_seat_s_next_one(table, steps):
    env = EscobaSelfPlayEnv(5, **table)
    env.set_seed(1)
    # From the middle of games, too.
    env.rollout(9, lowest)
    rollout = env.rollout(steps, break_when_any_done=False, auto_reset=True)
    own = own_decisions(rollout)
    expected = [
        (slot, *row)
        for slot in range(5)
        for row in credit(
            rollout["seat"][slot, :, 0].tolist(),
            rollout["next", "done"][slot, :, 0].tolist(),
            rollout["next", "reward"][slot].tolist(),
        )
    ]
    assert len(own) == len(expected) > 0
    complete = {(slot, start) for slot, _, start, *_ in expected}
    for row, (slot, seat, start, earned, step, ends) in zip(own, expected, strict=True):
        assert int(row["seat"]) == seat
        assert (row["observation"] == rollout["observation"][slot, start]).all()
        assert row["action"] == rollout["action"][slot, start]
        assert float(row["next", "reward"]) == pytest.approx(earned)
        assert bool(row["next", "terminated"]) == ends
        cut = not ends and (slot, step) not in complete
        assert bool(row["next", "truncated"]) == cut
        assert bool(row["next", "done"]) == (ends or cut)
        if not ends:
            assert (row["next", "observation"] == rollout["observation"][slot, step]).all()
            assert (row["next", "action_mask"] == rollout["action_mask"][slot, step]).all()


def test_advantages_of_own_decisions_are_those_of_each_seat_alone():
    env = EscobaSelfPlayEnv(4, players=3)
    env.set_seed(1)
    own = own_decisions(env.rollout(120, break_when_any_done=False))
    value = torch.nn.Linear(*env.encoding.shape, 1)
    network = TensorDictModule(value, in_keys=["observation"], out_keys=["state_value"])
    GAE(gamma=0.9, lmbda=0.8, value_network=network)(own)
    following = 0.0
    value.requires_grad_(False)
    for row in reversed(list(own.detach())):
        done, terminated = (float(row["next", key]) for key in ("done", "terminated"))
        bootstrap = float(value(row["next", "observation"])) * (1 - terminated)
        delta = float(row["next", "reward"]) + 0.9 * bootstrap - float(row["state_value"])
        following = delta + 0.9 * 0.8 * (1 - done) * following
        assert float(row["advantage"]) == pytest.approx(following, abs=1e-4)


# -- errors -----------------------------------------------------------------------------------


@each_env
def test_what_is_not_possible_is_named(env_class):
    with pytest.raises(ValueError, match="num_envs 0"):
        env_class(0)
    with pytest.raises(ValueError, match="encoding"):
        env_class(2, encoding="none")
    env = env_class(2)
    td = env.reset()
    for seed in (-1, 2**63 - 1, 1.5):
        with pytest.raises(ValueError, match="seed"):
            env._set_seed(seed)
    with pytest.raises(ValueError, match="deck"):
        env.reset(deck="x")
    for action in (torch.zeros(2), torch.zeros(2, 1, dtype=torch.long)):
        with pytest.raises((TypeError, ValueError), match="actions"):
            env.step(td.clone().set("action", action))
    env.step(lowest(td))


def test_credit_needs_a_rollout_of_self_play():
    with pytest.raises(ValueError, match="seat"):
        own_decisions(EscobaEnv(2).rollout(5))
    with pytest.raises(ValueError, match=r"\(N, T\)"):
        own_decisions(EscobaSelfPlayEnv(2).reset())


def import_anew(monkeypatch):
    monkeypatch.delitem(sys.modules, "escoba_env.adapters.torchrl")
    importlib.import_module("escoba_env.adapters.torchrl")


def test_a_missing_torchrl_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchrl", None)
    with pytest.raises(ModuleNotFoundError, match=r"torchrl is not installed.*\[torchrl\]"):
        import_anew(monkeypatch)


def test_another_version_of_torchrl_is_named(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.9.2")
    with pytest.raises(ImportError, match=r"torchrl 0\.9\.2 is installed; allowed: 0\.14"):
        import_anew(monkeypatch)


@pytest.mark.parametrize(
    ("dtype", "device"), [(torch.float64, "cpu"), (torch.float16, "cpu"), (torch.float32, "meta")]
)
@each_env
def test_specs_and_data_do_not_depend_on_torch_s_defaults(env_class, dtype, device):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    torch.set_default_device(device)
    try:
        env = env_class(2)
        env.set_seed(1)
        rollout = env.rollout(60, break_when_any_done=False)
        check_env_specs(env)
        assert env.reward_spec.dtype == rollout["next", "reward"].dtype == torch.float32
        assert env.action_spec.dtype == rollout["action"].dtype == torch.int64
        for spec in (env.reward_spec, env.action_spec, env.observation_spec["observation"]):
            assert spec.device == torch.device("cpu")
        if env_class is EscobaSelfPlayEnv:
            assert own_decisions(rollout)["next", "reward"].dtype == torch.float32
    finally:
        torch.set_default_dtype(before)
        torch.set_default_device(None)


@each_env
def test_the_repr_is_one_line(env_class):
    text = repr(env_class(3))
    assert "\n" not in text
    assert "classic, 2 players, round" in text
