"""The Stable-Baselines3 example writes a policy that loads and plays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sb3_contrib")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from escoba_env import evaluate, load_policy

ROOT = Path(__file__).parents[2]


def test_the_example_writes_a_policy_that_plays(tmp_path):
    out = tmp_path / "sb3.onnx"
    subprocess.run(
        [sys.executable, ROOT / "docs/examples/sb3_ppo.py", "--decisions", "1", "--out", out],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    # What was learned is kept before the policy is exported, which may fail.
    kept = out.with_suffix(".zip")
    assert kept.stat().st_mtime_ns < out.stat().st_mtime_ns
    policy = load_policy(out)
    assert policy.encoding.name == "tactical"
    assert evaluate(policy, "random", deals=5).deals == 5
