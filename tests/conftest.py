"""What every test shares: seeds that are drawn are the same in every run; none fails by luck."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _same_deals() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("escoba_env.evaluation.seeds.draw_seed", lambda: 0)
        yield
