"""Networks are float32 and play the same whatever torch's defaults are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from escoba_env import Batch, load_policy

torch = pytest.importorskip("torch")


@pytest.fixture(params=["float64", "float16", "meta"])
def default(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.get_default_dtype()
    if request.param == "meta":
        torch.set_default_device("meta")
    else:
        torch.set_default_dtype(getattr(torch, request.param))
    yield request.param
    torch.set_default_dtype(before)
    torch.set_default_device(None)


@pytest.fixture(scope="module")
def expected() -> Any:
    views = Batch(50, seed=1).views()
    policy = load_policy("classic-2p")
    return views, policy.act(views), policy.probabilities(views)  # type: ignore[attr-defined]


def test_a_checkpoint_plays_as_ever(expected: Any, default: str) -> None:
    views, actions, probabilities = expected
    policy: Any = load_policy("classic-2p")
    assert (policy.act(views) == actions).all()
    np.testing.assert_array_equal(policy.probabilities(views), probabilities)
    assert {weights.dtype for weights in policy.network.parameters()} == {torch.float32}, default


def test_a_new_network_is_float32(default: str) -> None:
    from escoba_env.policies.network import PolicyNetwork

    network = PolicyNetwork(30, (8,), 8, state_to_head=True)
    assert {weights.dtype for weights in network.parameters()} == {torch.float32}
    if default != "meta":
        seen = torch.zeros(2, network.state_size + 43 * network.facts_to_action.in_features)
        logits, values = network(seen.float(), torch.ones(2, 43, dtype=torch.bool))
        assert logits.dtype == values.dtype == torch.float32
