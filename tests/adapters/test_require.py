"""What is said where a framework, or what it needs, is missing or of another version."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from escoba_env.adapters import require

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("absent", "module", "extra"),
    [
        ("torchrl", "escoba_env.adapters.torchrl", "torchrl"),
        ("tensordict", "escoba_env.adapters.torchrl", "torchrl"),
        ("torch", "escoba_env.adapters.torchrl", "torchrl"),
        ("tianshou", "escoba_env.adapters.tianshou", "tianshou"),
        ("torch", "escoba_env.adapters.tianshou", "tianshou"),
        ("pyspiel", "escoba_env.adapters.openspiel", "openspiel"),
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
    assert absent in result.stdout


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
