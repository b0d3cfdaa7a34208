"""Every example asks for what it needs before it trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
NEEDS = {
    "agilerl_ppo.py": ("agilerl", "agilerl,onnx"),
    "openspiel_cfr.py": ("pyspiel", "openspiel"),
    "rllib_ppo.py": ("ray", "rllib,onnx"),
    "sb3_ppo.py": ("sb3_contrib", "train,onnx"),
    "tianshou_ppo.py": ("tianshou", "tianshou,onnx"),
    "torchrl_ppo.py": ("torchrl", "torchrl,onnx"),
}
# As if the first argument were not installed; the others are those of the example.
WITHOUT = """
import runpy, sys
sys.modules[sys.argv[1]] = None
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def without(module: str, example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs an example as if a module were not installed."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, module, EXAMPLES / example, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_these_are_all_examples() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("example", NEEDS)
def test_without_its_framework_an_example_names_what_installs_it(example: str) -> None:
    module, extras = NEEDS[example]
    done = without(module, example, "--help")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == (
        f"ModuleNotFoundError: {module} is not installed: pip install 'escoba-env[{extras}]'"
    )


@pytest.mark.parametrize("missing", ["onnx", "onnxscript", "onnxruntime"])
@pytest.mark.parametrize("example", [name for name in NEEDS if name.endswith("ppo.py")])
def test_what_writes_the_policy_is_asked_for_before_training(
    example: str, missing: str, tmp_path: Path
) -> None:
    module, _ = NEEDS[example]
    for needed in (module, "onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(needed)
    # More decisions than the time allows: training must not begin.
    out = str(tmp_path / "policy.onnx")
    done = without(missing, example, "--decisions", "1000000000", "--out", out)
    assert done.returncode == 1
    assert f"{missing} is not installed: pip install 'escoba-env[onnx]'" in done.stderr
    assert done.stdout == ""
