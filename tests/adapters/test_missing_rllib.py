"""What the RLlib adapter says where Ray, or what its RLlib needs, is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_without_ray_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "try: import escoba_env.adapters.rllib\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert "pip install 'escoba-env[rllib]'" in _python(code)


def test_with_ray_but_without_what_rllib_needs_the_error_names_both() -> None:
    pytest.importorskip("ray")
    code = (
        "import sys; sys.modules['tree'] = None\n"
        "try: import escoba_env.adapters.rllib\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    said = _python(code)
    assert "RLlib needs" in said
    assert "pip install 'escoba-env[rllib]'" in said


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
