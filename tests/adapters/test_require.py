"""What is said where a framework, or what it needs, is missing or of another version."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import needs

from escoba_env.adapters import require

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("absent", "module", "extra"),
    [
        ("torchrl", "escoba_env.adapters.torchrl", "torchrl"),
        pytest.param(
            *("tensordict", "escoba_env.adapters.torchrl", "torchrl"), marks=needs("torchrl")
        ),
        pytest.param(*("torch", "escoba_env.adapters.torchrl", "torchrl"), marks=needs("torchrl")),
        ("tianshou", "escoba_env.adapters.tianshou", "tianshou"),
        pytest.param(
            *("torch", "escoba_env.adapters.tianshou", "tianshou"), marks=needs("tianshou")
        ),
        pytest.param(
            *("pyspiel", "escoba_env.adapters.openspiel", "openspiel"), marks=needs("open_spiel")
        ),
        ("open_spiel", "escoba_env.adapters.openspiel", "openspiel"),
        ("stable_baselines3", "escoba_env.envs.sb3", "train"),
        ("torch", "escoba_env.adapters.sb3", "learned"),
    ],
)
def test_the_extra_is_named(absent, module, extra):
    code = (
        f"import sys; sys.modules[{absent!r}] = None\n"
        f"try: import {module}\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert f"pip install 'escoba-env[{extra}]'" in result.stdout
    assert re.search(rf"\b{absent}(, which \S+ needs,)? is not installed", result.stdout)


@pytest.mark.parametrize(
    ("version", "fits"),
    [("2", True), ("2.0", True), ("2.0.1", True), ("2.9rc1", True), ("1.9", False), ("3", False)],
)
def test_versions_are_compared_as_numbers(version, fits, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    if fits:
        require("numpy", "x", at_least="2.0", below="3")
        return
    with pytest.raises(ImportError, match=rf"numpy {version} is installed; allowed: 2.0 or newer"):
        require("numpy", "x", at_least="2.0", below="3")


DISTRIBUTIONS = {"pyspiel": "open-spiel"}


def required() -> dict[str, set[str]]:
    """The lowest versions that calls of ``require`` name, by distribution."""
    found: dict[str, set[str]] = {}
    for folder in ("escoba_env", "docs/examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "require":
                    top = call.args[0].value.partition(".")[0]
                    name = DISTRIBUTIONS.get(top, top).replace("_", "-")
                    low = next(k.value.value for k in call.keywords if k.arg == "at_least")
                    found.setdefault(name, set()).add(low)
    return found


def test_the_lowest_versions_are_those_of_pyproject() -> None:
    declared = dict(
        re.findall(r'"([a-z0-9_-]+)(?:\[\w+\])?>=([\d.]+)', (ROOT / "pyproject.toml").read_text())
    )
    declared = {name.replace("_", "-"): low for name, low in declared.items()}
    calls = required()
    # No extra installs PufferLib: see its adapter.
    assert calls.pop("pufferlib") == {"2.0"}
    assert len(calls) > 10
    assert calls == {name: {declared[name]} for name in calls}


def test_a_part_that_another_release_lacks_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^numpy\.nowhere is not installed: pip install"):
        require("numpy.nowhere", "x", at_least="1")
