"""What every test shares: nothing of a test is drawn anew in every run; none fails by luck.

Hypothesis draws the same examples in every run; others are asked for:
``python -m pytest --hypothesis-profile=random`` draws new ones, and keeps those that fail to try
them again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("suite", derandomize=True)
settings.register_profile("random", derandomize=False, print_blob=True)
settings.load_profile("suite")

# Whether kernels have to be compiled hangs on what was run before: no test may hang on that.
os.environ.setdefault("ESCOBA_QUIET", "1")


@pytest.fixture(autouse=True, scope="session")
def _same_deals() -> Iterator[None]:
    """Seeds that are drawn are the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("escoba_env.evaluation.seeds.draw_seed", lambda: 0)
        yield
