"""What every test shares: seeds that are drawn are the same in every run; none fails by luck."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Whether kernels have to be compiled hangs on what was run before: no test may hang on that.
os.environ.setdefault("ESCOBA_QUIET", "1")


@pytest.fixture(autouse=True, scope="session")
def _same_deals() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("escoba_env.evaluation.seeds.draw_seed", lambda: 0)
        yield
