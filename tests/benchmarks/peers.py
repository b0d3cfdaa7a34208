"""The peers' cases: their fastest documented random legal play, observation and mask included.

What is not installed is missing from the table, and nothing stands in for it. Decisions are choices
of players; what chance decides, such as the deal, is not counted on either side.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from benchmarks.ours import cheap_loop, documentation_loop
from benchmarks.runner import Case, Missing, Play, Ready

PACKAGES = ("pettingzoo", "rlcard", "open_spiel", "pgx", "jax", "envpool", "sb3_contrib", "torch")
"""Distributions whose versions a table names."""

SCAN_SECONDS = 0.4
"""How long each batch size is tried in the search for the best one."""


def need(module: str) -> Any:
    """Imports a module, or says that it is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        raise Missing(f"not installed: {error.name or module}") from None


# -- PettingZoo and RLCard ------------------------------------------------------------------


def pettingzoo_env(name: str) -> Any:
    return need(f"pettingzoo.classic.{name}").env()


def rlcard_env(name: str) -> Ready:
    """``Env.step`` by hand, which is faster than the documented ``Env.run``."""
    rlcard = need("rlcard")
    env = rlcard.make(name, config={"seed": 1})
    random = np.random.default_rng(1)

    def play(decisions: int) -> int:
        played = 0
        while played < decisions:
            state, _ = env.reset()
            while not env.is_over():
                legal = list(state["legal_actions"])
                state, _ = env.step(legal[int(random.random() * len(legal))])
                played += 1
        return played

    return Ready(play)


# -- OpenSpiel ------------------------------------------------------------------------------


def openspiel_observer(name: str) -> Ready:
    """A game driven from Python: its Observer writes the tensor in place, the mask likewise."""
    pyspiel = need("pyspiel")
    make_observation = need("open_spiel.python.observation").make_observation
    game = pyspiel.load_game(name)
    # Hearts has no observation tensor, only that of the information state.
    recall = not game.get_type().provides_observation_tensor
    observer = make_observation(game, pyspiel.IIGObservationType(perfect_recall=recall))
    mask = np.zeros(game.num_distinct_actions(), np.int8)
    random = np.random.default_rng(1)

    def play(decisions: int) -> int:
        played = 0
        draws: list[float] = []
        while played < decisions:
            state = game.new_initial_state()
            while not state.is_terminal():
                legal = state.legal_actions()
                if not state.is_chance_node():
                    observer.set_from(state, state.current_player())
                    mask[:] = 0
                    mask[legal] = 1
                    played += 1
                if not draws:
                    draws = random.random(4096).tolist()
                # Chance is uniform in these games.
                state.apply_action(legal[int(draws.pop() * len(legal))])
        return played

    return Ready(play, f"{observer.tensor.size} numbers")


def openspiel_bots(name: str) -> Ready:
    """Whole games in C++ by ``evaluate_bots``, without observations."""
    pyspiel = need("pyspiel")
    game = pyspiel.load_game(name)
    bots = [pyspiel.make_uniform_random_bot(seat, seat) for seat in range(game.num_players())]
    seed = 0

    def one() -> Any:
        nonlocal seed
        seed += 1
        state = game.new_initial_state()
        pyspiel.evaluate_bots(state, bots, seed)
        return state

    chance = [sum(action.player < 0 for action in one().full_history()) for _ in range(20)]
    assert min(chance) == max(chance), "moves of chance differ from game to game"

    def play(decisions: int) -> int:
        played = 0
        while played < decisions:
            played += one().move_number() - chance[0]
        return played

    return Ready(play)


# -- batches: the best size is sought first -------------------------------------------------


def best_of(plays: dict[str, Play]) -> Ready:
    """Tries each for a short while and takes the fastest."""
    rates = {}
    for name, play in plays.items():
        play(1)
        rates[name] = 0.0
        # The better of two: what else runs on the machine must not choose.
        for _ in range(2):
            played, wall, cpu = 0, time.perf_counter(), time.process_time()
            while time.perf_counter() - wall < SCAN_SECONDS / 2:
                played += play(1)
            took = min(time.perf_counter() - wall, time.process_time() - cpu)
            rates[name] = max(rates[name], played / took)
    best = max(rates, key=lambda name: rates[name])
    return Ready(plays[best], f"{best}; best of {len(plays)}")


def pgx_bridge_bidding(sizes: tuple[int, ...] = (64, 256, 1024, 4096), steps: int = 50) -> Ready:
    """A compiled loop over a vectorised, auto-resetting step."""
    jax, pgx = need("jax"), need("pgx.bridge_bidding")
    auto_reset = need("pgx.experimental").auto_reset
    jax.config.update("jax_platforms", "cpu")
    # The full table of results is a download; the sample that comes with pgx has the same form.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        table = Path(folder) / "dds.npy"
        np.save(table, np.stack([np.asarray(part) for part in pgx._load_sample_hash()]))
        env = pgx.BridgeBidding(str(table))
    init = jax.jit(jax.vmap(env.init))
    step = jax.vmap(auto_reset(env.step, env.init))

    def one_step(_: Any, carry: Any) -> Any:
        state, key = carry
        key, for_action, for_step = jax.random.split(key, 3)
        legal = jax.numpy.log(state.legal_action_mask.astype(jax.numpy.float32))
        actions = jax.random.categorical(for_action, legal, axis=-1)
        return step(state, actions, jax.random.split(for_step, len(actions))), key

    roll = jax.jit(lambda carry: jax.lax.fori_loop(0, steps, one_step, carry))

    def play_of(size: int) -> Play:
        carry = init(jax.random.split(jax.random.PRNGKey(0), size)), jax.random.PRNGKey(1)

        def play(decisions: int) -> int:
            nonlocal carry
            rolls = -(-decisions // (size * steps))
            for _ in range(rolls):
                carry = roll(carry)
            jax.block_until_ready(carry)
            return rolls * size * steps

        return play

    return best_of({f"batch {size}": play_of(size) for size in sizes})


def envpool_blackjack(sizes: tuple[int, ...] = (64, 256, 1024, 4096)) -> Ready:
    """Both actions are always legal, so there is no mask."""
    envpool = need("envpool")

    def play_of(size: int, threads: int) -> Play:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = envpool.make(
                "Blackjack-v1", env_type="gymnasium", num_envs=size, num_threads=threads
            )
        env.reset()
        random = np.random.default_rng(1)

        def play(decisions: int) -> int:
            steps = -(-decisions // size)
            for _ in range(steps):
                env.step(random.integers(0, 2, size, np.int32))
            return steps * size

        return play

    return best_of(
        {
            f"batch {size}, {threads} thread(s)": play_of(size, threads)
            for size in sizes
            for threads in (1, 2)
        }
    )


# -- a stock learner ------------------------------------------------------------------------


def stock_maskable_ppo(envs: int = 512, steps: int = 64, minibatch: int = 4096) -> Ready:
    """Stock MaskablePPO, 256-256 and 4 epochs, on an environment that costs nothing.

    Its observations are as wide as those that self-play learns from, it has as many actions, and
    it takes as many decisions between updates as the quick config.
    """
    torch, vec = need("torch"), need("stable_baselines3.common.vec_env")
    maskable_ppo = need("sb3_contrib").MaskablePPO
    from escoba_env import Encoding, make_rules

    width = Encoding("tactical", make_rules("classic")).size

    class Costless(vec.VecEnv):  # type: ignore[misc, name-defined]
        """Answers with the same arrays every time."""

        def __init__(self) -> None:
            space = spaces.Box(-1.0, 1.0, (width,), np.float32)
            super().__init__(envs, space, spaces.Discrete(43))
            random = np.random.default_rng(1)
            self.observations = random.random((envs, width), np.float32)
            mask = np.zeros(43, np.bool_)
            mask[[3, 17, 30]] = True
            self.masks = [mask] * envs
            self.rewards = np.zeros(envs, np.float32)
            self.dones = np.zeros(envs, np.bool_)
            self.infos: list[dict[str, Any]] = [{} for _ in range(envs)]

        def reset(self) -> Any:
            return self.observations

        def step_async(self, actions: Any) -> None:
            pass

        def step_wait(self) -> Any:
            return self.observations, self.rewards, self.dones, self.infos

        def env_method(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
            return self.masks

        def has_attr(self, attr_name: str) -> bool:
            return attr_name == "action_masks"

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * envs

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            pass

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * envs

        def close(self) -> None:
            pass

    torch.set_num_threads(1)
    model = maskable_ppo(
        "MlpPolicy",
        Costless(),
        n_steps=steps,
        batch_size=minibatch,
        n_epochs=4,
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
        seed=1,
    )
    # Or every call of learn makes a folder of its own for its logs.
    model.set_logger(need("stable_baselines3.common.logger").Logger(None, []))
    each = envs * steps

    def play(decisions: int) -> int:
        torch.set_num_threads(1)
        updates = -(-decisions // each)
        model.learn(updates * each, reset_num_timesteps=False)
        return updates * each

    return Ready(play, "1 thread, environment costs nothing")


# -- all of them ----------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    """Yields the peers' cases."""
    group = "Peers: one game at a time"
    for name in ("connect_four_v3", "texas_holdem_v4"):
        short = f"PettingZoo {name[:-3]}"
        yield Case(short, group, lambda n=name: documentation_loop(pettingzoo_env(n)))
        yield Case(f"{short} cheap sampler", group, lambda n=name: cheap_loop(pettingzoo_env(n)))
    for name in ("limit-holdem", "leduc-holdem"):
        yield Case(f"RLCard {name}", group, lambda n=name: rlcard_env(n))
    for name in ("hearts", "crazy_eights"):
        yield Case(f"OpenSpiel {name} from Python", group, lambda n=name: openspiel_observer(n))

    group = "Peers: batches"
    setup: Callable[[], Ready]
    for name, setup in (
        ("pgx bridge_bidding", pgx_bridge_bidding),
        ("EnvPool Blackjack", envpool_blackjack),
    ):
        yield Case(name, group, setup, clock="kind")

    group = "Peers: no observations"
    for name in ("hearts", "dou_dizhu"):
        yield Case(f"OpenSpiel {name} in C++", group, lambda n=name: openspiel_bots(n))

    group = "Peers: training"
    yield Case("stock MaskablePPO", group, stock_maskable_ppo, most_repeats=3)
