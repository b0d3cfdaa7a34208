"""The example for AgileRL trains, and writes a policy that plays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from escoba_env import evaluate

ROOT = Path(__file__).parents[2]

for _module in ("agilerl", "peft", "torch", "onnxscript", "onnxruntime"):
    pytest.importorskip(_module)


def test_the_example_writes_a_policy_that_plays(tmp_path: Path) -> None:
    out = tmp_path / "policy.onnx"
    options = ["--decisions", "256", "--out", str(out)]
    subprocess.run(
        [sys.executable, "docs/examples/agilerl_ppo.py", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=300,
    )
    # What was learned is kept before the policy is exported, which may fail.
    kept = out.with_suffix(".safetensors")
    assert kept.stat().st_mtime_ns < out.stat().st_mtime_ns
    assert evaluate(str(out), "random", deals=20).games == 40
