"""No adapter takes a bad argument either: see ``tests.test_bad_arguments``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from escoba_env.adapters import agilerl
from tests.entry_points import HUGE, LONG, NO_OPTIONS, NO_WHOLES, NOTHING, Entry, accept, refuse

ENTRIES: list[Entry] = []
WRONG = (ValueError, TypeError)
NO_SEEDS = [*NO_WHOLES, 2**63]
NO_STEPS: list[Any] = [
    *[LONG, [1, 2], [1.0] * 3, [True] * 3, [[1], [1, 2]], [HUGE] * 3, None, {}, *NOTHING]
]
NO_INDICES: list[Any] = [3, -1, HUGE, LONG, 1.0, True, [3], [0.5], [True], *NOTHING]


def entries(make: Callable[[], Any], **arguments: tuple[Any, ...]) -> None:
    """Adds entries: for each argument the call, bad values, and what else an ``Entry`` has."""
    for name, (call, bad, *rest) in arguments.items():
        more: dict[str, Any] = {"errors": WRONG, **(rest[0] if rest else {})}
        ENTRIES.append(Entry(f"{make.__name__}:{name}", make, call, bad, **more))


def has(module: str) -> bool:
    """Whether a framework is installed."""
    spec = importlib.util.find_spec(module)
    # A folder of that name somewhere is none.
    return spec is not None and spec.origin is not None


def agilerl_parallel() -> Any:
    """The parallel environment after a step."""
    env = agilerl.parallel_env(illegal="raise")
    _, infos = env.reset(seed=1)
    env.step({agent: int(info["action_mask"].argmax()) for agent, info in infos.items()})
    return env


def agilerl_masked() -> Any:
    """One learner in three games after a step."""
    env = agilerl.masked_vector_env(3, illegal="raise")
    _, info = env.reset(seed=1)
    env.step(info["action_mask"].argmax(1))
    return env


entries(
    agilerl_parallel,
    seed=(lambda e, x: e.reset(seed=x), NO_SEEDS, {"named": "seed", "good": 9}),
    options=(lambda e, x: e.reset(seed=1, options=x), NO_OPTIONS),
    step=(lambda e, x: e.step(x), [3, HUGE, LONG, None, {}, {"player_0": LONG}, *NOTHING]),
    mask_lists=(lambda e, x: agilerl.parallel_env(x), [1, LONG, None, *NOTHING]),
    num_envs=(lambda e, x: agilerl.vector_env(x), [*NO_WHOLES, 0, 1025], {"named": "num_envs"}),
)
entries(
    agilerl_masked,
    seed=(lambda e, x: e.reset(seed=x), [*NO_SEEDS, [1, 2]], {"named": "seed", "good": 9}),
    options=(lambda e, x: e.reset(seed=1, options=x), NO_OPTIONS),
    step=(lambda e, x: e.step(x), NO_STEPS),
    num_envs=(lambda e, x: agilerl.masked_vector_env(x), [*NO_WHOLES, 0], {"named": "num_envs"}),
)

if has("stable_baselines3"):
    from escoba_env.envs.sb3 import EscobaVecEnv

    def sb3() -> Any:
        """Three games after a step."""
        env = EscobaVecEnv(3, "random", illegal="raise")
        env.seed(1)
        env.reset()
        env.step(env.action_masks().argmax(1))
        return env

    entries(
        sb3,
        seed=(lambda e, x: e.seed(x), NO_SEEDS, {"named": "seed", "good": 9}),
        options=(lambda e, x: e.set_options(x), [x for x in NO_OPTIONS if x not in ([], ())]),
        step=(lambda e, x: e.step(x), [x for x in NO_STEPS if x is not None]),
        get_attr=(lambda e, x: e.get_attr("seat", x), NO_INDICES, {"named": "indices"}),
        env_method=(
            lambda e, x: e.env_method("action_masks", indices=x),
            NO_INDICES,
            {"named": "indices"},
        ),
        num_envs=(lambda e, x: EscobaVecEnv(x), [*NO_WHOLES, 0, 2**31], {"named": "num_envs"}),
    )

if has("tianshou"):
    from escoba_env.adapters.tianshou import EscobaVectorEnv as TianshouEnv

    def tianshou() -> Any:
        """Three games after a step."""
        env = TianshouEnv(3, "random", illegal="raise")
        seen, _ = env.reset(seed=1)
        env.step(seen.mask.argmax(1))
        return env

    entries(
        tianshou,
        seed=(lambda e, x: e.seed(x), [*NO_SEEDS, [1, 2]], {"named": "seed", "good": 9}),
        reset_seed=(
            lambda e, x: e.reset(seed=x),
            [*NO_SEEDS, [1, 2]],
            {"named": "seed", "good": 9},
        ),
        env_id=(lambda e, x: e.reset(x), [*NO_INDICES, [0, 0]], {"named": "id", "good": 1}),
        options=(lambda e, x: e.reset(seed=1, options=x), NO_OPTIONS),
        step=(lambda e, x: e.step(x), NO_STEPS),
        id=(lambda e, x: e.step([0], x), NO_INDICES, {"named": "id"}),
        num_envs=(lambda e, x: TianshouEnv(x), [*NO_WHOLES, 0, 2**31], {"named": "num_envs"}),
    )

if has("torchrl"):
    import torch

    from escoba_env.adapters.torchrl import EscobaEnv, EscobaSelfPlayEnv

    def _begun(env: Any) -> Any:
        env.set_seed(1)
        seen = env.reset()
        seen["action"] = seen["action_mask"].int().argmax(1)
        env.step(seen)
        return env

    def torchrl() -> Any:
        """Three games after a step."""
        return _begun(EscobaEnv(3, "random", illegal="raise"))

    def torchrl_self_play() -> Any:
        """Three games after a step."""
        return _begun(EscobaSelfPlayEnv(3))

    def _step(env: Any, actions: Any) -> None:
        env.step(env.fake_tensordict().set("action", actions))

    for one in (torchrl, torchrl_self_play):
        entries(
            one,
            seed=(lambda e, x: e.set_seed(x), NO_SEEDS, {"named": "seed"}),
            reset=(lambda e, x: e.reset(nonsense=x), [1, LONG, HUGE]),
            step=(
                _step,
                [
                    torch.tensor([99, 0, 0]),
                    torch.tensor([-1, 0, 0]),
                    torch.tensor([43, 0, 0]),
                    torch.zeros(3),
                ],
            ),
            num_envs=(lambda e, x: type(e)(x), [*NO_WHOLES, 0, 2**31], {"named": "num_envs"}),
        )

if has("pyspiel"):
    import pyspiel

    from escoba_env.adapters import openspiel

    def spiel() -> Any:
        """A state in which a seat is to move."""
        state = pyspiel.load_game("python_escoba").new_initial_state()
        while state.is_chance_node():
            state.apply_action(state.legal_actions()[0])
        return state

    entries(
        spiel,
        view=(lambda s, x: s.view(x), [*NO_WHOLES, 2, None], {"named": "player", "good": 1}),
        resample=(
            lambda s, x: s.resample_from_infostate(x, lambda: 0.5),
            [*NO_WHOLES, 2, None],
            {"named": "player"},
        ),
        policy=(
            lambda s, x: openspiel.EscobaPolicy(s.get_game(), x),
            [3, HUGE, LONG, "cheat:search", None, *NOTHING],
        ),
        player=(
            lambda s, x: openspiel.OpenSpielPolicy(s.get_game(), x),
            [3, HUGE, LONG, None, *NOTHING],
            {"named": "player"},
        ),
        rules_text=(
            lambda s, x: openspiel.parse_rules(x),
            [
                "",
                LONG,
                "classic;x",
                "classic;" + LONG,
                f"classic;players:{LONG}",
                3,
                None,
                *NOTHING,
            ],
        ),
        players=(
            lambda s, x: openspiel.parse_rules("classic", players=x),
            [*NO_WHOLES, 1],
            {"named": "players"},
        ),
        dealer=(
            lambda s, x: openspiel.game_string(dealer=x),
            [3, HUGE, LONG, None, *NOTHING],
            {"named": "dealer"},
        ),
        game=(
            lambda s, x: openspiel.EscobaGame(x),
            [{LONG: 1}, {"players": LONG}, {"rules": LONG}],
        ),
    )

if has("ray"):
    from escoba_env.adapters.rllib import EscobaMultiAgentEnv

    def rllib() -> Any:
        """A game after a step, in the second env runner."""
        env = EscobaMultiAgentEnv({"illegal": "raise", "opponents": {"greedy": 0.3}})
        env._shift = 2**32
        ((agent, seen),) = env.reset(seed=1)[0].items()
        env.step({agent: int(seen["action_mask"].argmax())})
        return env

    SHARES = [{"greedy": 2}, {"greedy": 0}, {"greedy": HUGE}, {"greedy": float("nan")}]
    SHARES += [{"greedy": True}, {LONG: 0.1}, {"greedy": 0.6, "random": 0.6}]
    entries(
        rllib,
        seed=(lambda e, x: e.reset(seed=x), NO_SEEDS, {"named": "seed", "good": 9}),
        options=(lambda e, x: e.reset(seed=1, options=x), NO_OPTIONS),
        step=(lambda e, x: e.step(x), [3, HUGE, LONG, None, {}, {"player_0": LONG}, *NOTHING]),
        config=(lambda e, x: EscobaMultiAgentEnv(x), [3, LONG, [], {LONG: 1}]),
        opponents=(
            lambda e, x: EscobaMultiAgentEnv({"opponents": x}),
            [3, LONG, *SHARES, *NOTHING],
        ),
        skip_forced=(
            lambda e, x: EscobaMultiAgentEnv({"skip_forced": x}),
            [1, LONG, None, *NOTHING],
            {"named": "skip_forced"},
        ),
    )


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_a_bad_argument_is_named_and_changes_nothing(entry: Entry) -> None:
    refuse(entry)


@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.good is not None], ids=str)
def test_every_type_of_whole_number_does_what_int_does(entry: Entry) -> None:
    accept(entry)
