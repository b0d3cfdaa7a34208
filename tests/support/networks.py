"""Small networks that have learned nothing, for tests that need a learned policy.

Imports without PyTorch: tests of everything else stand in the same files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from escoba_env.encoding import VERSIONS, Encoding
from escoba_env.policies.checkpoint import Card, NetworkCard
from escoba_env.rules import make_rules

if TYPE_CHECKING:
    from escoba_env.policies.learned import LearnedPolicy


def make_policy(
    seed: int = 0,
    rules: dict[str, Any] | None = None,
    hidden: tuple[int, ...] = (8, 6),
    action_hidden: int = 5,
    head: dict[str, Any] | None = None,
    **about: Any,
) -> LearnedPolicy:
    """Returns an untrained policy whose probabilities are far from uniform.

    Skips the test that asks for it where PyTorch is not installed.
    """
    torch = pytest.importorskip("torch")
    from escoba_env.policies.learned import LearnedPolicy
    from escoba_env.policies.network import PolicyNetwork

    # The networks are tiny: a second thread would only be waited for.
    torch.set_num_threads(1)
    table = make_rules(rules or {})
    encoding = Encoding("tactical", table, about.get("episode", "round"))
    size = encoding.layout()["facts"].start
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = PolicyNetwork(size, hidden, action_hidden, **(head or {}))
        with torch.no_grad():
            network.action_head.weight *= 2000
    card = Card(
        **{
            "name": "one",
            "encoding": "tactical",
            "encoding_version": VERSIONS["tactical"],
            "rules": table.as_dict(),
            "episode": "round",
            "network": NetworkCard(
                state_size=size, hidden=hidden, action_hidden=action_hidden, **(head or {})
            ),
            **about,
        }
    )
    return LearnedPolicy(card, network)
