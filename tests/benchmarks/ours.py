"""This package's cases: random legal play through each of its interfaces, training, starting up."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numba import njit
from numpy.typing import NDArray

import escoba_env  # noqa: F401 - registers the Gymnasium environment
from benchmarks.runner import Case, Measure, Missing, Ready
from escoba_env import Batch, escoba_v0
from escoba_env.encoding import VERSIONS
from escoba_env.rules import PRESETS

ROOT = Path(__file__).resolve().parents[2]
SIZES = (1, 64, 1024, 4096)


# -- random choices -------------------------------------------------------------------------


@njit(nogil=True)
def sample(masks, words, actions):
    """Writes a random legal action for each row of masks; ``words`` is the random state."""
    x = words[0]
    for i in range(len(masks)):
        legal = 0
        for action in range(masks.shape[1]):
            legal += masks[i, action]
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        skip = ((x >> np.uint64(32)) * np.uint64(legal)) >> np.uint64(32)
        action = 0
        while True:
            if masks[i, action]:
                if skip == 0:
                    break
                skip -= np.uint64(1)
            action += 1
        actions[i] = action
    words[0] = x


def seed_words() -> NDArray[np.uint64]:
    return np.array([0x9E3779B97F4A7C15], np.uint64)


def choose(mask: NDArray[np.int8], random: np.random.Generator) -> int:
    """The cheap sampler of one action, for environments in Python, ours and others."""
    legal = mask.nonzero()[0]
    return int(legal[int(random.random() * len(legal))])


# -- many games -----------------------------------------------------------------------------


def batch_play(games: int, threads: int = 1, **options: Any) -> Ready:
    """Observation and mask written, a random action drawn from the mask, step, restart."""
    batch = Batch(games, threads=threads, **options)
    out = np.empty((games, *batch.encoding.shape), batch.encoding.dtype)
    masks = np.empty((games, 43), np.int8)
    actions = np.empty(games, np.int64)
    words = seed_words()

    def play(decisions: int) -> int:
        steps = -(-decisions // games)
        for _ in range(steps):
            batch.observe(out=out, masks=masks)
            sample(masks, words, actions)
            over = batch.step(actions)[1]
            if over.any():
                batch.restart(np.flatnonzero(over))
        return steps * games

    return Ready(play, f"{batch.encoding.size} numbers")


def engine_play(threads: int = 1, games: int = 1024, **options: Any) -> Ready:
    """Random legal play in the engine, without observations."""
    batch = Batch(games * threads, threads=threads, **options)

    def play(decisions: int) -> int:
        steps = -(-decisions // len(batch))
        batch.play_random(steps)
        return steps * len(batch)

    return Ready(play)


def vector_env(make: Callable[[], Any], games: int, seats: int = 2) -> Ready:
    """A vector environment against ``random``: every seat plays alike, so all make ``seats`` times
    the learner's decisions."""
    try:
        env = make()
    except ImportError as error:
        raise Missing(f"not available: {error.name}") from None
    words = seed_words()
    actions = np.empty(games, np.int64)
    reset = env.reset()
    observation = reset[0] if isinstance(reset, tuple) else reset

    def masks_now() -> NDArray[np.int8]:
        if isinstance(observation, dict):
            return observation["action_mask"]
        if hasattr(env, "action_masks"):
            return np.asarray(env.action_masks()).view(np.int8)
        return np.asarray(env.env_method("action_masks")).view(np.int8)

    def play(decisions: int) -> int:
        nonlocal observation
        steps = -(-decisions // (games * seats))
        for _ in range(steps):
            sample(masks_now(), words, actions)
            observation = env.step(actions)[0]
        return steps * games * seats

    return Ready(play, "decisions of all seats")


def sb3_vec_env(games: int) -> Ready:
    def make() -> Any:
        from escoba_env.envs.sb3 import EscobaVecEnv

        return EscobaVecEnv(games, opponents="random")

    return vector_env(make, games)


def gymnasium_vector_env(games: int) -> Ready:
    def make() -> Any:
        from escoba_env.envs.vector import EscobaVectorEnv

        # A row is a decision in every step only if no step is spent on starting anew.
        return EscobaVectorEnv(games, opponents="random", autoreset_mode="SameStep")

    return vector_env(make, games)


# -- one game -------------------------------------------------------------------------------


def documentation_loop(env: Any) -> Ready:
    """The loop that PettingZoo documents, for any AEC environment with masks."""
    env.reset(seed=1)

    def play(decisions: int) -> int:
        played = 0
        while played < decisions:
            env.reset()
            for agent in env.agent_iter():
                observation, _, termination, truncation, _ = env.last()
                if termination or truncation:
                    action = None
                else:
                    action = env.action_space(agent).sample(observation["action_mask"])
                    played += 1
                env.step(action)
        return played

    return Ready(play)


def cheap_loop(env: Any) -> Ready:
    """The same without what the loop itself costs: a cheap sampler, and a reset at the end."""
    random = np.random.default_rng(1)
    env.reset(seed=1)

    def play(decisions: int) -> int:
        played = 0
        while played < decisions:
            env.reset()
            while True:
                observation, _, termination, truncation, _ = env.last()
                if termination or truncation:
                    break
                env.step(choose(observation["action_mask"], random))
                played += 1
        return played

    return Ready(play)


def gymnasium_env(opponents: str) -> Ready:
    env = gymnasium.make("escoba_env/Escoba-v0", opponents=opponents)
    random = np.random.default_rng(1)
    env.reset(seed=1)

    def play(decisions: int) -> int:
        played = 0
        while played < decisions:
            observation, _ = env.reset()
            over = False
            while not over:
                action = choose(observation["action_mask"], random)
                observation, _, over, _, _ = env.step(action)
                played += 1
        return played

    return Ready(play, "decisions of the learner")


# -- training -------------------------------------------------------------------------------


def self_play(**changes: Any) -> Ready:
    """Rollouts and updates of the shipped quick config."""
    try:
        import torch

        from training.config import load_config
        from training.ppo import SelfPlayPPO
        from training.rollout import SelfPlay
        from training.run_folder import batch_of
    except ImportError as error:
        raise Missing(f"not installed: {error.name}") from None
    config = load_config(ROOT / "configs" / "quick.yaml", **changes)
    torch.set_num_threads(config.threads)
    batch = batch_of(config)
    model = SelfPlayPPO(config, batch)
    games = SelfPlay(batch, [], config.reward_scale, config.seed)
    each = config.games * config.steps

    def play(decisions: int) -> int:
        torch.set_num_threads(config.threads)
        updates = -(-decisions // each)
        for _ in range(updates):
            model.update(games, config.decisions)
        return updates * each

    return Ready(play, f"{config.threads} thread, choices only")


# -- starting up, memory --------------------------------------------------------------------

FIRST_STEP = """\
from escoba_env import escoba_v0
env = escoba_v0.env()
env.reset(seed=1)
observation = env.last()[0]
env.step(int(observation["action_mask"].argmax()))
env.last()
"""


def process_time(code: str, cache: str | None = None) -> tuple[float, str]:
    """Wall time of a Python process that runs the code, from its start to its end.

    The note says how much of it the processor worked: on a busy machine that is what a quiet one
    would take.
    """
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    before, start = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return wall, f"{cpu:.3g} s of the processor"


def cold_start() -> tuple[float, str]:
    with tempfile.TemporaryDirectory() as cache:
        return process_time(FIRST_STEP, cache)


def warm_start() -> tuple[float, str]:
    process_time(FIRST_STEP)
    return process_time(FIRST_STEP)


def bytes_a_game(games: int = 1 << 16) -> tuple[float, str]:
    """Memory of everything that a batch keeps, by NumPy's own account of it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        batch = Batch(games)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return used / len(batch), f"of which the record {batch.states.itemsize}"


# -- all of them ----------------------------------------------------------------------------


def cases() -> Iterator[Case | Measure]:
    """Yields this package's cases."""
    group = "Engine, no observations"
    yield Case("engine", group, engine_play)
    yield Case("engine 2 threads", group, lambda: engine_play(2), clock="wall")
    for preset in PRESETS:
        if preset != "classic":
            yield Case(f"engine {preset}", group, lambda p=preset: engine_play(rules=p))

    group = "Batch: observation, mask, random action, step"
    for games in SIZES:
        yield Case(f"batch {games}", group, lambda n=games: batch_play(n))
    for games in SIZES[2:]:
        yield Case(
            f"batch {games} 2 threads", group, lambda n=games: batch_play(n, 2), clock="wall"
        )
    yield Case("batch 1024 uint8", group, lambda: batch_play(1024, dtype="uint8"))
    yield Case("batch 1024 visible", group, lambda: batch_play(1024, memory="visible"))
    for encoding in VERSIONS:
        if encoding != "compact":
            yield Case(
                f"batch 1024 {encoding}", group, lambda e=encoding: batch_play(1024, encoding=e)
            )
    yield Case(
        "batch 1024 tactical 2 threads",
        group,
        lambda: batch_play(1024, 2, encoding="tactical"),
        clock="wall",
    )
    for preset in PRESETS:
        if preset != "classic":
            yield Case(f"batch 1024 {preset}", group, lambda p=preset: batch_play(1024, rules=p))
    yield Case(
        "batch 1024 partners match",
        group,
        lambda: batch_play(1024, players=4, partnership=True, episode="match"),
    )

    group = "Environments"
    yield Case("aec", group, lambda: documentation_loop(escoba_v0.env()))
    yield Case("aec cheap sampler", group, lambda: cheap_loop(escoba_v0.env()))
    for opponents in ("random", "greedy"):
        yield Case(f"gymnasium against {opponents}", group, lambda o=opponents: gymnasium_env(o))
    yield Case("sb3 vecenv 1024", group, lambda: sb3_vec_env(1024))
    yield Case("gymnasium vectorenv 1024", group, lambda: gymnasium_vector_env(1024))

    group = "Training"
    yield Case("self-play", group, self_play, most_repeats=3)

    group = "Start-up and memory"
    yield Measure("import", group, lambda: process_time("import escoba_env"), "s", 3)
    yield Measure("first step, nothing compiled", group, cold_start, "s")
    yield Measure("first step, compiled before", group, warm_start, "s", 3)
    yield Measure("a game of a batch", group, bytes_a_game, "bytes")


# -- the machine ----------------------------------------------------------------------------


@njit(nogil=True)
def _words(count, word):
    x = word
    for _ in range(count):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
    return x


def calibration() -> Iterator[Case]:
    """Yields fixed work by which machines, and hours of one machine, can be compared."""
    group = "Calibration"
    numbers = np.random.default_rng(0).random(10_000)

    def python(count: int) -> int:
        total = 0
        for number in range(count):
            total ^= number
        return count

    def numpy(count: int) -> int:
        runs = -(-count // len(numbers))
        for _ in range(runs):
            np.sort(numbers)
        return runs * len(numbers)

    def numba(count: int) -> int:
        _words(count, np.uint64(1))
        return count

    for name, play in (("Python loop", python), ("NumPy sort", numpy), ("Numba xorshift", numba)):
        yield Case(name, group, lambda p=play: Ready(p), unit="items/s")
