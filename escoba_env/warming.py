"""``warmup``: compiles every kernel ahead, so that nothing waits for it later.

Numba compiles a function for the types that it is called with. So each part of the package is used
here for a moment, as a user would; a kernel that this leaves out is a failure of
``tests/test_first_use.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from escoba_env.analysis import analyse
from escoba_env.batch import Batch, Views
from escoba_env.cards import NUM_ACTIONS, NUM_IDS, card_name, cards_in
from escoba_env.checks import one_of
from escoba_env.compiling import progress
from escoba_env.encoding import DTYPES, VERSIONS, Encoding
from escoba_env.engine import batch as kernels
from escoba_env.engine import jit
from escoba_env.engine.counting import counting_values
from escoba_env.envs.aec import raw_env
from escoba_env.envs.all_seats import AllSeatsEnv
from escoba_env.envs.single import EscobaEnv
from escoba_env.envs.vector import EscobaVectorEnv
from escoba_env.game import Game
from escoba_env.policies import load_policy
from escoba_env.policies.ismcts import CheatingISMCTSPolicy, ISMCTSPolicy
from escoba_env.policies.search import CheatingSearchPolicy, SearchPolicy
from escoba_env.solver import solvable, solve, solve_view, solve_views


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """Result of :func:`warmup`.

    Attributes:
        compiled: Number of kernels that have been compiled; 0: they all were there.
        seconds: How long it took.
        folder: Where they are kept; none: nowhere, or nothing is compiled because of
            ``NUMBA_DISABLE_JIT=1``.
        fault: Why some cannot be kept, in words; none: all are.
    """

    compiled: int
    seconds: float
    folder: Path | None
    fault: str | None


def warmup(
    parts: Sequence[str] | None = None, show: Callable[[str, int, int, int], None] | None = None
) -> WarmUp:
    """Compiles kernels ahead and keeps them for later starts.

    Args:
        parts: Names in ``PARTS``; default: all.
        show: Called with the part at work, how many are done and how many there are, and how many
            kernels have been compiled so far. It takes the place of the usual line on stderr.

    Raises:
        ValueError: If a part is unknown.
    """
    given: object = parts
    if isinstance(given, str):
        raise ValueError(f"parts {given!r} are not possible; allowed: a list of names")
    names = [one_of("part", name, PARTS) for name in (PARTS if parts is None else parts)]
    names = list(dict.fromkeys(names))
    before, start = progress.compiled, time.perf_counter()
    for done, name in enumerate(names):
        if show is None:
            PARTS[name]()
            continue

        def tell(name: str = name, done: int = done) -> None:
            show(name, done, len(names), progress.compiled - before)

        tell()
        with progress.told_to(tell):
            PARTS[name]()
    if show is not None:
        show("", len(names), len(names), progress.compiled - before)
    return WarmUp(
        compiled=progress.compiled - before,
        seconds=time.perf_counter() - start,
        folder=jit.kept_in() if jit.ENTRIES else None,
        fault=jit.not_kept(),
    )


class _Even:
    """Plays every legal action alike and expects nothing: a learned policy without a network."""

    name = "even"
    expects_margins = True

    def act(self, views: Views) -> NDArray[np.int64]:
        best: NDArray[np.int64] = self.probabilities(views).argmax(1)
        return best

    def probabilities(self, views: Views) -> NDArray[np.float32]:
        legal = views.records["legal"][:, None] >> np.arange(NUM_ACTIONS) & 1
        result: NDArray[np.float32] = (legal / legal.sum(1, keepdims=True)).astype(np.float32)
        return result

    def margins(self, views: Views) -> NDArray[np.float32]:
        return np.zeros(len(views), np.float32)


def _games() -> None:
    game = Game(seed=0, episode="match")
    game.deal([card_name(card) for card in cards_in(game.rules.pack)])
    game.view(0)
    while game.report is None:
        game.play(game.legal_moves()[0])
    Game.from_text(game.to_text())
    Game.from_position(hands=["1o", "2o"])
    while not game.is_over:
        game.step(game.legal_actions()[0])
    # Which the OpenSpiel adapter does, where chance deals.
    states = Batch(1, seed=0).states
    states["hands"] = states["hand_counts"] = 0
    kernels.deal_next_hands(game.spec, states)


def _batches() -> None:
    batch = Batch(4, seed=0, skip_forced=True)
    places = np.empty((4, NUM_IDS), np.uint8)
    kernels.hidden_places(batch.spec, batch.states, places)
    batch.step(batch.legal_masks().argmax(1))
    batch.restart([1])
    batch.play_random(40)


def _observations() -> None:
    rules = Game(seed=0).rules
    # The small whole numbers of this encoding fit into a byte, too.
    for name, dtype in (*((name, DTYPES[0]) for name in VERSIONS), ("planes", DTYPES[1])):
        batch = Batch(4, encoding=name, dtype=dtype, seed=0)
        batch.observe()
        batch.views().observe(Encoding(name, rules, "round", dtype=dtype))


def _environments() -> None:
    table = raw_env(encoding="tactical")
    table.reset(seed=0)
    table.state()
    table.step(int(table.observe(table.agent_selection)["action_mask"].argmax()))
    seat = EscobaEnv(seat="random")
    _, _ = seat.reset(seed=0)
    seat.step(int(seat.action_masks().argmax()))
    # A random seat, opponents that are asked and opponents that the kernels play.
    for opponents in ("greedy", _Even()):
        many = EscobaVectorEnv(4, opponents, "random", players=3)
        observation, _ = many.reset(seed=0)
        for _ in range(20):
            observation, *_ = many.step(observation["action_mask"].argmax(1))
    self_play = AllSeatsEnv(4)
    self_play.reset(seed=0)
    self_play.step(self_play.batch.legal_masks().argmax(1))


def _policies() -> None:
    views = Batch(4, seed=0).views()
    for name in ("random", "greedy", "counting"):
        load_policy(name).act(views)
    counting_values(views.spec, views.records, np.empty((4, NUM_ACTIONS)))
    kernels.sample_actions(
        _Even().probabilities(views), views.records, views.keys, np.empty(4, np.int64)
    )


def _search() -> None:
    batch = Batch(4, seed=0, episode="match", target=5)
    views, games = batch.views(), batch.whole_games()
    SearchPolicy(worlds=2, deals=0, belief=True).act(views)
    SearchPolicy(worlds=2, deals=0).action_values(views)
    by_odds = SearchPolicy(worlds=2, deals=0, utility="win")
    by_odds.act(views)
    by_odds.action_values_at(views, np.ones((4, 1, 2), np.int64))
    SearchPolicy(worlds=2, deals=0, policy=_Even(), rollout=_Even()).act(views)
    CheatingSearchPolicy().act(games)


def _tree_search() -> None:
    batch = Batch(4, seed=0)
    ISMCTSPolicy(iterations=2).act(batch.views())
    ISMCTSPolicy(iterations=2, policy=_Even()).act(batch.views())
    ISMCTSPolicy(iterations=2, policy=_Even(), rollout="greedy").act(batch.views())
    CheatingISMCTSPolicy(iterations=2).act(batch.whole_games())


def _solver() -> None:
    game = Game(seed=0)
    while game.record["turn_index"] < 32:
        game.step(game.legal_actions()[0])
    view = game.view(game.turn)
    solve(game)
    solve_view(view)
    solve_views(view)
    solvable(view)
    analyse(game)


PARTS: dict[str, Callable[[], None]] = {
    "games": _games,
    "batches": _batches,
    "observations": _observations,
    "environments": _environments,
    "policies": _policies,
    "search": _search,
    "tree search": _tree_search,
    "solver": _solver,
}
"""What can be compiled ahead, by name."""
