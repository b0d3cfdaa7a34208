"""What ``import escoba_env`` offers: all public names, and each with a signature and help."""

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import escoba_env
from escoba_env import escoba_v0
from escoba_env.adapters import agilerl

WANTED = {
    *("FunctionPolicy", "play_game", "tournament", "cross_play", "ladder", "evaluate", "solve"),
    *("Game", "Batch", "Views", "Move", "Replay", "Recording", "load_policy", "escoba_v0"),
    *("EscobaEnv", "EscobaVectorEnv", "AllSeatsEnv", "analyse", "Rules", "make_rules"),
    "__version__",
}


def test_dir_has_the_public_names_and_no_others() -> None:
    names = dir(escoba_env)
    assert names == sorted(escoba_env.__all__)
    assert set(names) >= WANTED
    assert [name for name in names if name.startswith("_")] == ["__version__"]
    assert not {"Any", "importlib", "register", "annotations", "TYPE_CHECKING"} & set(names)


@pytest.mark.parametrize("name", escoba_env.__all__)
def test_every_public_name_is_there_and_is_documented(name: str) -> None:
    value = getattr(escoba_env, name)
    if name not in ("__version__", "PRESETS"):
        assert inspect.getdoc(value)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert escoba_env.__version__ == version("escoba-env")


def test_type_checkers_are_told_every_public_name() -> None:
    tree = ast.parse(Path(inspect.getfile(escoba_env)).read_text())
    told = {
        alias.name
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == {*escoba_env.__all__} - {"__version__"}


def test_modules_need_no_import_of_their_own() -> None:
    code = "import escoba_env; print(escoba_env.escoba_v0.env, escoba_env.solver.solve)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FACTORIES: list[Any] = [
    escoba_v0.env,
    escoba_v0.raw_env,
    escoba_v0.parallel_env,
    agilerl.parallel_env,
    agilerl.vector_env,
    agilerl.masked_vector_env,
    escoba_env.EscobaEnv,
    escoba_env.EscobaVectorEnv,
    escoba_env.AllSeatsEnv,
    escoba_env.Game,
    escoba_env.Batch,
    escoba_env.make_rules,
    escoba_env.play_game,
]


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_a_factory_names_its_arguments_and_describes_each(factory: Any) -> None:
    parameters = list(inspect.signature(factory).parameters)
    assert "arguments" not in parameters
    assert "args" not in parameters
    text = inspect.getdoc(factory)
    assert text is not None
    for name in parameters:
        assert f"    {name}: " in text or f"    **{name}: " in text, name
    # What help() shows begins with the call.
    assert factory.__name__ in pydoc.render_doc(factory, renderer=pydoc.plaintext)[:200]


def test_the_parallel_environment_takes_what_the_turn_based_one_takes() -> None:
    wanted = inspect.signature(escoba_v0.raw_env).parameters
    assert inspect.signature(escoba_v0.env).parameters == wanted
    assert inspect.signature(escoba_v0.parallel_env).parameters == wanted
    for factory in (agilerl.parallel_env, agilerl.vector_env):
        found = inspect.signature(factory).parameters
        left_out = ("num_envs", "mask_lists")
        assert {key: found[key] for key in found if key not in left_out} == dict(wanted)
    vector = dict(inspect.signature(escoba_env.EscobaVectorEnv).parameters)
    del vector["autoreset_mode"]
    assert inspect.signature(agilerl.masked_vector_env).parameters == vector
