"""No entry point takes a bad argument: it is named in few words, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from escoba_env import (
    AllSeatsEnv,
    Batch,
    Encoding,
    EscobaEnv,
    EscobaVectorEnv,
    FunctionPolicy,
    Game,
    Move,
    Recording,
    Replay,
    Rules,
    escoba_v0,
    load_policy,
    make_rules,
    parse_move,
    play_game,
    solve,
    solve_view,
    solve_views,
)
from escoba_env.cards import card_name, parse_card, parse_cards
from escoba_env.notation import action_name
from escoba_env.policies import ISMCTSPolicy, SearchPolicy
from escoba_env.solver import make_memory
from tests.entry_points import (
    HUGE,
    LONG,
    NO_ARRAYS,
    NO_CARDS,
    NO_FLAGS,
    NO_OPTIONS,
    NO_PATHS,
    NO_WHOLES,
    NO_WORDS,
    NOTHING,
    Entry,
    accept,
    refuse,
)

ENTRIES: list[Entry] = []


def entries(where: str, make: Callable[[], Any], **arguments: tuple[Any, ...]) -> None:
    """Adds entries: for each argument the call, bad values, and what else an ``Entry`` has."""
    for name, (call, bad, *rest) in arguments.items():
        more: dict[str, Any] = rest[0] if rest else {}
        ENTRIES.append(Entry(f"{where}:{name}", make, call, bad, **more))


def made(where: str, make: Callable[..., Any], **arguments: tuple[Any, ...]) -> None:
    """Adds the arguments of a constructor or function, as keywords."""
    for name, (bad, *rest) in arguments.items():
        more: dict[str, Any] = {"named": name, **(rest[0] if rest else {})}
        ENTRIES.append(
            Entry(
                f"{where}:{name}",
                lambda: None,
                lambda _, value, name=name: make(**{name: value}),
                bad,
                **more,
            )
        )


def without(values: list[Any], *left_out: Any) -> list[Any]:
    """Bad values of most arguments, but for those that are good here."""
    return [value for value in values if not any(value is one for one in left_out)]


def game() -> Game:
    """A match in its second round, in the middle of a turn."""
    one = Game(seed=5, episode="match")
    while one.record["round_index"] == 0 or one.record["played"] < 0:
        one.step(one.legal_actions()[-1])
    return one


def batch() -> Batch:
    """Three games, two of which have begun."""
    many = Batch(3, seed=4)
    many.step(many.legal_masks([0, 1]).argmax(1), [0, 1])
    return many


def begun(env: Any) -> Any:
    """An environment of one game after its first action."""
    env.reset(seed=1)
    legal = env.game.legal_actions() if hasattr(env, "game") else env.aec_env.game.legal_actions()
    env.step({env.aec_env.agent_selection: legal[0]} if hasattr(env, "aec_env") else legal[0])
    return env


def begun_many(env: Any) -> Any:
    """An environment of many games after their first actions."""
    observation, _ = env.reset(seed=1)
    env.step(observation["action_mask"].argmax(1))
    return env


def all_seats() -> AllSeatsEnv:
    """Self-play after its first actions."""
    env = AllSeatsEnv(3)
    env.step(env.reset(seed=1).masks.argmax(1))
    return env


NO_RULES = [None, 3, HUGE, "nonsense", LONG, {"nonsense": 1}, {LONG: 1}, {HUGE: 1}, *NOTHING]
TABLE: dict[str, tuple[Any, ...]] = {
    "rules": (NO_RULES, {"named": ""}),
    "episode": (NO_WORDS,),
    "reward": (NO_WORDS,),
    "reward_timing": (NO_WORDS,),
}
PLAYERS: dict[str, tuple[Any, ...]] = {
    "players": ([*NO_WHOLES, 1, 5], {"good": 3}),
    "partnership": (without(NO_FLAGS, None),),
    "jokers": ([*NO_WHOLES, 1], {"good": 2}),
    "target": ([*NO_WHOLES, 0], {"good": 30}),
    "hand_size": ([*NO_WHOLES, 0], {"good": 2}),
    "building": (NO_FLAGS,),
    "capture": (NO_WORDS,),
    "suits": ([*NO_WORDS, (LONG,), ("oros", "oros")],),
    "ranks": ([*NO_WHOLES, (HUGE,), (1, 1), (True,)],),
    "nonsense": ([1, HUGE, LONG],),
}
ENCODED: dict[str, tuple[Any, ...]] = {"encoding": (NO_WORDS,), "memory": (NO_WORDS,)}
ONE: dict[str, tuple[Any, ...]] = {
    **TABLE,
    **PLAYERS,
    **ENCODED,
    "illegal": (NO_WORDS,),
    "faces": (NO_WORDS,),
    "render_mode": (without(NO_WORDS, None),),
}
DTYPE: dict[str, tuple[Any, ...]] = {"dtype": (NO_WORDS,)}
LEARNER: dict[str, tuple[Any, ...]] = {
    "opponents": (
        [3, HUGE, "nonsense", LONG, "a\0b", ["greedy", LONG], [HUGE], [], *NOTHING],
        {"named": ""},
    ),
    "seat": ([*NO_WHOLES, 2, LONG], {"good": 1}),
}
MANY: dict[str, tuple[Any, ...]] = {
    **TABLE,
    **PLAYERS,
    **ENCODED,
    **DTYPE,
    **LEARNER,
    "illegal": (NO_WORDS,),
    "num_envs": ([*NO_WHOLES, 0, 2**31 + 1], {"good": 3}),
}
NO_SEEDS = [*NO_WHOLES, 2**63]
SEED: dict[str, Any] = {"named": "seed", "good": 9}
NO_ACTIONS = [*NO_WHOLES, 43, None]
ACTION: dict[str, Any] = {"named": "action", "errors": (ValueError, TypeError)}


def first(make: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor after which the first game is begun: before that, nobody has chosen a seed."""

    def begin(**arguments: Any) -> Any:
        env = make(**arguments)
        env.reset(seed=1)
        return env

    return begin


made("Rules", Rules, **{name: PLAYERS[name] for name in PLAYERS if name != "nonsense"})
made("make_rules", make_rules, **PLAYERS, rules=TABLE["rules"])
made("Game", lambda **a: Game(**{"seed": 1, **a}), **TABLE, **PLAYERS, seed=(NO_SEEDS, SEED))
made(
    "Batch",
    lambda **a: Batch(**{"num_games": 2, **a}),
    **{**TABLE, **PLAYERS, **ENCODED, **DTYPE},
    num_games=([*NO_WHOLES, 0, 2**31 + 1], {"good": 3}),
    skip_forced=(NO_FLAGS,),
    threads=([*NO_WHOLES, 0, 1025], {"good": 2}),
    seed=(NO_SEEDS, SEED),
)
made(
    "Encoding",
    lambda **a: Encoding(**{"name": "compact", "rules": "classic", **a}),
    rules=TABLE["rules"],
    name=(NO_WORDS, {"named": "encoding"}),
    episode=(NO_WORDS,),
    memory=(NO_WORDS,),
    dtype=(NO_WORDS,),
)
made("raw_env", first(escoba_v0.env), **ONE)
made("parallel_env", first(escoba_v0.parallel_env), **ONE)
made("EscobaEnv", first(lambda **a: EscobaEnv(**{"opponents": "greedy", **a})), **ONE, **LEARNER)
made(
    "EscobaVectorEnv",
    first(lambda **a: EscobaVectorEnv(**{"num_envs": 2, **a})),
    **MANY,
    autoreset_mode=(NO_WORDS,),
    render_mode=(["ansi", LONG, HUGE],),
)
made(
    "AllSeatsEnv",
    first(lambda **a: AllSeatsEnv(**{"num_envs": 2, **a})),
    **{key: MANY[key] for key in MANY if key not in (*LEARNER, "illegal")},
    skip_forced=(NO_FLAGS,),
    threads=([*NO_WHOLES, 0], {"good": 2}),
)
made(
    "SearchPolicy",
    SearchPolicy,
    worlds=([*NO_WHOLES, 0], {"good": 8}),
    rollout=(NO_WORDS,),
    deals=(NO_WHOLES, {"good": 2}),
    solver_turns=(NO_WHOLES, {"good": 2}),
    time=([0, -1.0, HUGE, float("nan"), "1", True, [1], *NOTHING],),
    threads=(NO_WHOLES, {"good": 2}),
    belief=(NO_FLAGS,),
    prior=(NO_WHOLES, {"good": 2}),
    policy=(without(NO_WORDS, None),),
    utility=(NO_WORDS,),
)
made(
    "ISMCTSPolicy",
    ISMCTSPolicy,
    iterations=([*NO_WHOLES, 0], {"good": 8}),
    policy=(without(NO_WORDS, None),),
    exploration=([-1.0, HUGE, float("nan"), "1", True, [1], *NOTHING],),
    rollout=(without(NO_WORDS, None),),
)
made("make_memory", make_memory, rows=([*NO_WHOLES, 0, 3, 2**60],))
made(
    "play_game",
    lambda **a: play_game(**{"policies": ["random", "random"], **a}),
    policies=([*NO_WORDS, [], ["random"], ["random", LONG], ["random", HUGE]], {"named": "polic"}),
    rules=TABLE["rules"],
    episode=TABLE["episode"],
    seed=(NO_SEEDS, SEED),
    index=(NO_SEEDS, {"good": 3}),
)

made("parse_move", parse_move, text=([*NO_CARDS, "", "7o:", "7o:7o", "7o>"], {"named": ""}))
made("Move", Move, card=([*NO_CARDS[2:], -1, 42, HUGE, 1.0, True, None], {"named": "", "good": 3}))
made("Move", lambda **a: Move(1, **a), taken=([*NO_WHOLES, 2**42], {"good": 4}))
made("Move", lambda **a: Move(1, **a), onto=([*NO_WHOLES, 2**42], {"good": 4}))
made("card_name", card_name, card=([*NO_WHOLES, 42, None], {"good": 7}))
made("card_name", lambda **a: card_name(1, **a), faces=(NO_WORDS,))
made("action_name", action_name, action=([*NO_WHOLES, 43, None], {"good": 7, "named": "card"}))
made("parse_card", parse_card, name=([*NO_WHOLES, None], {"named": "card"}))
made("parse_cards", parse_cards, names=([*NO_CARDS, None], {"named": ""}))
made(
    "load_policy",
    load_policy,
    policy=([*NO_WORDS, None, "a\0b", "/" + LONG, f"search:worlds={HUGE:x}"], {"named": ""}),
)
made(
    "FunctionPolicy",
    lambda **a: FunctionPolicy(lambda o, m: 0, **a),
    **ENCODED,
    batched=(NO_FLAGS,),
)
made("Replay.load", Replay.load, path=(NO_PATHS, {"named": "replay"}))

entries(
    "Game",
    game,
    seed=(lambda g, x: g.reset(x), NO_SEEDS, SEED),
    index=(lambda g, x: g.reset(1, index=x), NO_SEEDS, {"named": "index", "good": 3}),
    deck=(lambda g, x: g.reset(1, deck=x), [*NO_CARDS, "7o"], {"named": "deck"}),
    dealer=(lambda g, x: g.reset(1, dealer=x), [*NO_WHOLES, 2], {"named": "dealer", "good": 1}),
    scores=(
        lambda g, x: g.reset(1, scores=x),
        [3, HUGE, LONG, [HUGE, 0], [-1, 0], [True, 0], [float("nan"), 0], [0], [0.01, 0], *NOTHING],
        {"named": "scores"},
    ),
    deal=(lambda g, x: g.deal(x), [*NO_CARDS, "7o"], {"named": "deck"}),
    hand=(lambda g, x: g.hand(x), [*NO_WHOLES, 2, None], {"named": "seat", "good": 1}),
    pile=(lambda g, x: g.pile(x), [*NO_WHOLES, 2, None], {"named": "seat", "good": 1}),
    view=(lambda g, x: g.view(x), [*NO_WHOLES, 2, None], {"named": "seat", "good": 1}),
    step=(lambda g, x: g.step(x), NO_ACTIONS, {"named": "action"}),
    play=(lambda g, x: g.play(x), [*NO_CARDS, None, Move("J1")], {"named": "move"}),
    picks_of=(lambda g, x: g.picks_of(x), [*NO_CARDS, None, Move("J1")], {"named": "move"}),
    set_state=(lambda g, x: g.set_state(x), [*NO_WORDS, bytes(384)], {"named": ""}),
)
made("Game.from_text", Game.from_text, text=(NO_WORDS, {"named": ""}))
made(
    "Game.from_position",
    lambda **a: Game.from_position(**{"hands": ["1o", "2o"], **a}),
    hands=([*NO_CARDS, [LONG, "1o"], [HUGE, "1o"], ["1o"]], {"named": ""}),
    table=([1, HUGE, None, "8x", "7o 7o", ["7o", HUGE]], {"named": ""}),
    piles=([*NO_CARDS, [LONG, ""], [""]], {"named": ""}),
    stock=(NO_CARDS, {"named": ""}),
    dealer=([*NO_WHOLES, 2],),
    last_capturer=([*NO_WHOLES, 2],),
    escobas=([*NO_ARRAYS, [-1, 0]],),
    scores=([3, HUGE, LONG, [HUGE, 0], [True, 0], *NOTHING],),
    seed=(NO_SEEDS, SEED),
)

entries(
    "Batch",
    batch,
    seed=(lambda b, x: b.reset(x), NO_SEEDS, SEED),
    game_indices=(lambda b, x: b.reset(1, game_indices=x), NO_ARRAYS, {"named": "game_indices"}),
    dealers=(lambda b, x: b.reset(1, dealers=x), NO_ARRAYS, {"named": "dealers"}),
    restart=(lambda b, x: b.restart(x), [*NO_ARRAYS, [3]], {"named": "games"}),
    observe=(lambda b, x: b.observe(x), [*NO_ARRAYS, [3]], {"named": "games"}),
    seats=(lambda b, x: b.observe(seats=x), [*NO_ARRAYS, [0, 0, 2]], {"named": "seats"}),
    out=(lambda b, x: b.observe(out=x), NO_ARRAYS, {"named": "out"}),
    masks=(lambda b, x: b.observe(masks=x), NO_ARRAYS, {"named": "masks"}),
    legal_masks=(lambda b, x: b.legal_masks(x), [*NO_ARRAYS, [3]], {"named": "games"}),
    views=(lambda b, x: b.views(x), [*NO_ARRAYS, [3]], {"named": "games"}),
    whole_games=(lambda b, x: b.whole_games(x), [*NO_ARRAYS, [3]], {"named": "games"}),
    step=(lambda b, x: b.step(x), [*NO_ARRAYS, [43] * 3, None], {"named": "action"}),
    step_games=(lambda b, x: b.step([0], x), [*NO_ARRAYS, [3], [0, 0]], {"named": ""}),
    play_random=(
        lambda b, x: b.play_random(x),
        [*NO_WHOLES, 0, 2**31 + 1, None],
        {"named": "decisions", "good": 3},
    ),
    encoding=(lambda b, x: b.views().observe(x), [*NO_WORDS, None], {"named": "encoding"}),
    describe=(lambda b, x: b.encoding.describe(x), [*NO_ARRAYS, None], {"named": "observation"}),
    solve_view=(lambda b, x: solve_view(x), [*NO_WORDS, None], {"named": "views"}),
)


def endgame() -> Game:
    """A position that is solved at once."""
    one = Game(seed=1)
    while one.record["turn_index"] < 34:
        one.step(one.legal_actions()[0])
    return one


entries(
    "solve",
    endgame,
    game=(lambda g, x: solve(x), [*NO_WORDS, None], {"named": "game"}),
    table=(lambda g, x: solve(g, table=x), NO_FLAGS, {"named": "table"}),
    bounds=(lambda g, x: solve(g, bounds=x), NO_FLAGS, {"named": "bounds"}),
    max_nodes=(
        lambda g, x: solve(g, max_nodes=x),
        [*NO_WHOLES, 0],
        {"named": "max_nodes", "good": 100},
    ),
    views=(
        lambda g, x: solve_views(g.view(0), max_nodes=x),
        NO_WHOLES,
        {"named": "max_nodes"},
    ),
    memory=(lambda g, x: solve(g, memory=x), without(NO_WORDS, None), {"named": "memory"}),
)

RESET = {
    "seed": (lambda e, x: e.reset(seed=x), NO_SEEDS, SEED),
    "options": (lambda e, x: e.reset(seed=1, options=x), NO_OPTIONS, {"named": ""}),
}
SPACES = {
    name: (
        lambda e, x, name=name: getattr(e, name)(x),
        [*NO_WORDS, None, "player_2"],
        {"named": "agent"},
    )
    for name in ("observation_space", "action_space")
}
for kind in ("terminate", "raise"):
    entries(
        f"raw_env-{kind}",
        lambda kind=kind: begun(escoba_v0.env(illegal=kind)),
        **{**RESET, **SPACES},
        step=(lambda e, x: e.step(x), [1.0, "7o", LONG, None, True, [1], *NOTHING], ACTION),
        observe=(lambda e, x: e.observe(x), [*NO_WORDS, None], {"named": "agent"}),
        agent_iter=(lambda e, x: e.agent_iter(x), [*NO_WHOLES, None], {"named": "max_iter"}),
        set_state=(lambda e, x: e.set_state(x), [*NO_WORDS, None, {"game": 1}], {"named": "state"}),
        **{
            f"state-{key}": (
                lambda e, x, key=key: e.set_state({**e.get_state(), key: x}),
                [*NO_WORDS, None, {"player_0": LONG, "player_1": 0}],
                {"named": ""},
            )
            for key in ("game", "agents", "agent_selection", "rewards", "cumulative_rewards")
        },
        forfeit=(
            lambda e, x: e.set_state({**e.get_state(), "forfeit": x}),
            [1, HUGE, None, b"x", *NOTHING],
            {"named": "forfeit"},
        ),
    )
    entries(
        f"parallel_env-{kind}",
        lambda kind=kind: begun(escoba_v0.parallel_env(illegal=kind)),
        **{**RESET, **SPACES},
        step=(
            lambda e, x: e.step(x),
            [*NO_WORDS, None, {}, {"player_9": 1}, {"player_0": LONG, "player_1": LONG}],
            ACTION,
        ),
    )
    entries(
        f"EscobaEnv-{kind}",
        lambda kind=kind: begun(EscobaEnv("random", illegal=kind)),
        **RESET,
        step=(lambda e, x: e.step(x), [1.0, "7o", LONG, None, True, [1], *NOTHING], ACTION),
    )
    entries(
        f"EscobaVectorEnv-{kind}",
        lambda kind=kind: begun_many(EscobaVectorEnv(3, "random", illegal=kind)),
        **RESET,
        seeds=(
            lambda e, x: e.reset(seed=x),
            [[1, 2], [1, 2, LONG], [1, 2, HUGE], [1.0, 2.0, 3.0], [1, 2, True], np.zeros((3, 3))],
            {"named": "seed"},
        ),
        reset_mask=(
            lambda e, x: e.reset(options={"reset_mask": x}),
            [*NO_ARRAYS, None, np.zeros(3, np.bool_), np.ones(2, np.bool_)],
            {"named": "reset_mask"},
        ),
        step=(
            lambda e, x: e.step(x),
            [LONG, [1, 2], [1.0] * 3, [True] * 3, [[1], [1, 2]], [HUGE] * 3, None, *NOTHING],
            ACTION,
        ),
    )
entries(
    "AllSeatsEnv",
    all_seats,
    seed=(lambda e, x: e.reset(x), NO_SEEDS, SEED),
    out=(lambda e, x: e.reset(1, out=x), NO_ARRAYS, {"named": "out"}),
    masks=(lambda e, x: e.reset(1, masks=x), NO_ARRAYS, {"named": "masks"}),
    step=(lambda e, x: e.step(x), [*NO_ARRAYS, [43] * 3, None], {"named": "action"}),
    step_out=(lambda e, x: e.step([0] * 3, out=x), NO_ARRAYS, {"named": "out"}),
    step_masks=(lambda e, x: e.step([0] * 3, masks=x), NO_ARRAYS, {"named": "masks"}),
)
entries(
    "Recording",
    lambda: Game(seed=1),
    policies=(
        Recording,
        [
            "ab",
            LONG,
            3,
            ["a"],
            ["a", LONG + "\n"],
            ["a", HUGE],
            ["", "a"],
            {"a": 1, "b": 2},
            *NOTHING,
        ],
        {"named": "polic"},
    ),
)
entries(
    "Replay",
    lambda: play_game(["random", "random"]),
    game=(lambda r, x: r.game(x), [*NO_WHOLES, 37], {"named": "turn", "good": 3}),
    save=(lambda r, x: r.save(x), without(NO_PATHS, LONG), {"named": ""}),
    scores=(
        lambda r, x: Replay.from_dict({**r.as_dict(), "scores": x}),
        [[HUGE, 0], [10**400, 0], LONG, [LONG, 0], [0], [-1, 0], None],
        {"named": "score"},
    ),
)


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_a_bad_argument_is_named_and_changes_nothing(entry: Entry) -> None:
    refuse(entry)


@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.good is not None], ids=str)
def test_every_type_of_whole_number_does_what_int_does(entry: Entry) -> None:
    accept(entry)


def test_a_number_of_games_that_no_memory_holds_is_refused_by_name() -> None:
    for make, name in ((Batch, "games"), (AllSeatsEnv, "envs"), (EscobaVectorEnv, "envs")):
        with pytest.raises(
            ValueError, match=rf"num_{name} 2147483648 is not possible: they take .* GiB"
        ):
            make(2**31)
