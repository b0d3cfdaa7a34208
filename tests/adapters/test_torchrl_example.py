"""The TorchRL example writes a policy that loads and plays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torchrl")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from escoba_env import evaluate, load_policy

ROOT = Path(__file__).parents[2]


def test_the_example_writes_a_policy_that_plays(tmp_path):
    out = tmp_path / "torchrl.onnx"
    subprocess.run(
        [sys.executable, ROOT / "docs/examples/torchrl_ppo.py", "--decisions", "1", "--out", out],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    # What was learned is kept before the policy is exported, which may fail.
    kept = out.with_suffix(".safetensors")
    assert kept.stat().st_mtime_ns < out.stat().st_mtime_ns
    policy = load_policy(out)
    assert policy.encoding.name == "tactical"
    assert evaluate(policy, "random", deals=5).deals == 5
