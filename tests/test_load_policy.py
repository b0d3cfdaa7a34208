"""Policies from anywhere: functions, modules, installed packages; what is refused, and how."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from escoba_env import Batch, evaluate, load_policy
from escoba_env.envs.vector import EscobaVectorEnv
from escoba_env.evaluation.units import identify
from escoba_env.policies import FunctionPolicy, GreedyPolicy, loading
from escoba_env.policies.loading import policy_files

MODULE = """
import numpy as np
from escoba_env.policies import FunctionPolicy, GreedyPolicy

def first(observation, mask):
    return int(mask.argmax())

def make():
    return first

def make_policy(depth=1, name="mine"):
    policy = FunctionPolicy(first, "tactical", name=f"{name} {depth}")
    return policy

def raising():
    raise RuntimeError("out of luck")

def exiting():
    raise SystemExit(3)

def failing():
    def play(observation, mask):
        raise KeyError("inner")
    return play

def nothing():
    return None

def a_name():
    return "greedy"

def a_class():
    return GreedyPolicy

def illegal():
    return lambda observation, mask: int(mask.argmin())

def words():
    return lambda observation, mask: "seven"

def far():
    return lambda observation, mask: 43

constant = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module that lies in the working folder, which Python is not told of."""
    name = f"users_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part])
    return name


def first_legal(observation: np.ndarray, mask: np.ndarray) -> int:
    assert observation.dtype == np.float32
    assert mask.dtype == np.int8
    assert mask.shape == (43,)
    return int(mask.argmax())


def views_of(count: int = 20):
    batch = Batch(count)
    batch.reset(1)
    return batch.views()


# -- functions ------------------------------------------------------------------------------


def test_a_function_of_observation_and_mask_is_a_policy():
    policy = load_policy(first_legal)
    assert policy.name == "first_legal"
    views = views_of()
    masks = views.observe(compact())[1]
    np.testing.assert_array_equal(policy.act(views), masks.argmax(1))
    result = evaluate(first_legal, "random", deals=10)
    assert (result.a, result.games) == ("first_legal", 20)


def compact():
    from escoba_env import Encoding, make_rules

    return Encoding("compact", make_rules("classic"), "round")


def test_a_batched_function_is_asked_once():
    calls = []

    def many(observations, masks):
        calls.append(observations.shape)
        return masks.argmax(1)

    views = views_of()
    one = FunctionPolicy(first_legal, "tactical").act(views)
    np.testing.assert_array_equal(FunctionPolicy(many, "tactical", batched=True).act(views), one)
    assert len(calls) == 1
    assert calls[0][0] == len(views)


def test_a_function_plays_any_table():
    policy = load_policy(first_legal)
    for table in ({"players": 3}, {"players": 4, "partnership": True}, {"rules": "comodines"}):
        assert evaluate(policy, "random", deals=2, **table).games >= 4


def test_a_function_cannot_change_what_is_observed():
    def vandal(observation, mask):
        action = int(mask.argmax())
        observation[:] = 0
        mask[:] = 1
        return action

    assert evaluate(vandal, "random", deals=5).games == 10


@pytest.mark.parametrize("answer", [np.int64(1), np.array(1), np.array([1]), np.uint8(1)], ids=repr)
def test_any_integer_is_an_action(answer):
    card = int(views_of(1).observe(compact())[1][0].argmax())
    policy = load_policy(lambda observation, mask: type(answer)(card))
    if isinstance(answer, np.ndarray):
        policy = load_policy(lambda observation, mask: np.full(answer.shape, card))
    assert policy.act(views_of(1)).tolist() == [card]


@pytest.mark.parametrize("answer", [None, "seven", 43, -1, 1.5, True, [1, 2], np.array([1, 2])])
def test_an_answer_that_is_no_action_is_refused(answer):
    def player(observation, mask):
        return answer

    with pytest.raises(ValueError, match=r"action of policy 'player' .* a whole number, 0 to 42"):
        load_policy(player).act(views_of())


def test_an_illegal_action_names_the_policy():
    def player(observation, mask):
        return int(mask.argmin())

    with pytest.raises(ValueError, match="policy 'player'"):
        evaluate(player, "random", deals=2)


@pytest.mark.parametrize("function", [lambda: 0, lambda one: 0, lambda a, b, c: 0, len])
def test_a_function_of_other_arguments_is_refused(function):
    with pytest.raises(ValueError, match="cannot be called with an observation and a mask"):
        load_policy(function)


@pytest.mark.parametrize("value", [None, 5, 1.5, b"random", ["random"], {}, GreedyPolicy, object()])
def test_what_is_no_policy_is_refused(value):
    with pytest.raises(ValueError, match="is not possible; allowed: a name"):
        load_policy(value)


@pytest.mark.parametrize("settings", [{"encoding": "nonsense"}, {"memory": "bad"}, {"batched": 1}])
def test_settings_of_a_function_that_are_not_possible_are_refused(settings):
    name, value = next(iter(settings.items()))
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        FunctionPolicy(first_legal, **settings)


def test_a_function_is_an_opponent_everywhere():
    EscobaVectorEnv(2, opponents=first_legal).reset(seed=0)
    EscobaVectorEnv(2, players=3, opponents=[first_legal, "greedy"]).reset(seed=0)


# -- modules --------------------------------------------------------------------------------


def test_a_factory_of_a_module_in_the_working_folder_is_found(module):
    assert load_policy(f"{module}:make").name == "first"
    assert evaluate(f"{module}:make", "random", deals=4).a == f"{module}:make"


def test_kept_results_are_of_a_factory_with_its_helpers(tmp_path, module):
    package = tmp_path / f"package_{module}"
    package.mkdir()
    helpers = [package / "__init__.py", package / "one.py", package / "two.py"]
    for helper, text in zip(helpers, ("", "from . import two", "LATE = 1"), strict=True):
        helper.write_text(text)
    late, other = tmp_path / f"late_{module}.py", tmp_path / f"other_{module}.py"
    late.write_text("")
    other.write_text("")
    main = tmp_path / f"main_{module}.py"
    main.write_text(
        f"import json\nimport numpy\nfrom {package.name} import one\n"
        f"def make():\n    import {late.stem}\n    return 'greedy'\n"
    )
    name = f"{main.stem}:make"
    assert policy_files(name) == sorted([main, late, *helpers])
    before = identify(name)
    other.write_text("x = 1")
    assert identify(name) == before
    for helper in (*helpers, late):
        helper.write_text("x = 1" if helper != helpers[1] else "from . import two\nx = 1")
        assert identify(name) != before
        before = identify(name)
    # One that cannot be imported is told so when it is.
    main.write_text("import")
    assert policy_files(name) == [main]


def test_the_files_of_an_installed_factory_are_those_of_its_package():
    files = policy_files("typer.core:Anything")
    assert len(files) > 5
    assert {path.parts[path.parts.index("site-packages") + 1] for path in files} == {"typer"}
    assert policy_files("numpy.nothing_there:make") == []


def test_options_go_to_the_factory(module):
    assert load_policy(f"{module}:make_policy:depth=3,name=deep").name == "deep 3"


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("raising", "its factory raised RuntimeError: out of luck"),
        ("exiting", "its factory raised SystemExit: 3"),
        ("nothing", "its factory returned no policy: policy None is not possible"),
        ("a_name", "its factory returned 'greedy'; allowed: a policy, not a name"),
        ("a_class", "its factory returned no policy"),
        ("absent", "cannot be imported: AttributeError: .* has no 'absent'"),
        ("constant", "is 7; allowed: a factory"),
        ("make:depth=3", r"options \{'depth': 3\} do not fit"),
    ],
)
def test_a_factory_that_fails_says_how(factory, message, module):
    with pytest.raises(ValueError, match=message):
        load_policy(f"{module}:{factory}")


@pytest.mark.parametrize("factory", ["illegal", "words", "far", "failing", "exiting"])
def test_a_module_that_plays_nonsense_is_one_line_in_the_command(factory, module):
    result = subprocess.run(
        [sys.executable, "-m", "escoba_env", "evaluate", f"{module}:{factory}", "random",
         "--deals", "2"],
        capture_output=True,
        text=True,
        check=False,
        env={**__import__("os").environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "policy" in result.stderr


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"there is no module 'no_such\.module'"):
        load_policy("no_such.module:make")


def test_a_module_that_cannot_be_imported_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_users_module.py").write_text("import no_such_framework\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="No module named 'no_such_framework'"):
        load_policy("broken_users_module:make")


def test_a_module_is_known_by_its_file(module, tmp_path):
    assert policy_files(f"{module}:make") == [tmp_path / f"{module}.py"]


# -- installed packages ---------------------------------------------------------------------


def register(monkeypatch: pytest.MonkeyPatch, *pairs: tuple[str, str]) -> None:
    points = [EntryPoint(name, value, loading.ENTRY_POINTS) for name, value in pairs]
    monkeypatch.setattr(
        loading, "entry_points", lambda group: [p for p in points if p.group == group]
    )


def test_a_registered_policy_has_a_name_of_its_own(module, monkeypatch):
    load_policy(f"{module}:make")
    register(monkeypatch, ("mine", f"{module}:make_policy"))
    assert load_policy("mine:depth=2").name == "mine 2"
    assert evaluate("mine", "random", deals=2).a == "mine"
    with pytest.raises(ValueError, match=r"allowed: random, .*mine"):
        load_policy("yours")


def test_a_registered_name_that_is_taken_is_left_out_with_a_warning(module, monkeypatch):
    load_policy(f"{module}:make")
    register(monkeypatch, ("greedy", f"{module}:make"), ("classic-2p", f"{module}:make"))
    with pytest.warns(UserWarning, match="'greedy' of .* is left out: the name is taken"):
        assert loading.registered_policies() == {}
    assert isinstance(load_policy("greedy"), GreedyPolicy)


def test_a_registered_policy_that_fails_is_named(monkeypatch):
    register(monkeypatch, ("mine", "no_such_module_at_all:make"))
    with pytest.raises(ValueError, match="policy 'mine' cannot be imported: ModuleNotFoundError"):
        load_policy("mine")
