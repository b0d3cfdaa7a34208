"""Networks of torch in memory as policies, of whatever framework they were trained with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from escoba_env.cards import NUM_ACTIONS
from escoba_env.encoding import Encoding
from escoba_env.policies.scoring import ScoringPolicy, as_encoding, random_rows


class TorchPolicy(ScoringPolicy):
    """Plays by a torch network, as it is when it plays.

    Args:
        network: Its ``forward(observation, action_mask)`` takes float32 (n, *encoding.shape) and
            bool (n, 43), and returns logits float32 (n, 43), or these and values float32 (n,).
        encoding: What it observes, an ``Encoding`` (such as ``env.encoding``) or the name of one of
            ``classic`` with two players.
        sample: Draw actions from the policy's probabilities instead of taking the likeliest.
        name: Its name; default: that of its class.

    Raises:
        ValueError: If the network cannot be called so, or gives something else.
    """

    def __init__(
        self,
        network: torch.nn.Module,
        encoding: Encoding | str | None,
        *,
        sample: bool = False,
        name: str | None = None,
    ) -> None:
        kind = type(network).__name__
        encoding = as_encoding(encoding, f"network {kind}")
        super().__init__(name or kind, encoding, sample=sample)
        self.network = network
        try:
            self.score(*random_rows(encoding, 2))
        except ValueError as error:
            raise ValueError(
                f"{error}; of TorchRL, Tianshou or RLlib that is a network inside the policy, or "
                f"make a FunctionPolicy of it"
            ) from error

    def score(
        self, observations: NDArray[np.float32], masks: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Scores actions by the network; see ``ScoringPolicy.score``."""
        modes = [(part, part.training) for part in self.network.modules()]
        self.network.eval()
        try:
            outputs = network_outputs(self.network, observations, masks)
        finally:
            for part, training in modes:
                part.training = training
        return outputs[0], outputs[1] if len(outputs) > 1 else None


def network_outputs(
    module: Any, observation: NDArray[np.float32], mask: NDArray[np.bool_]
) -> list[NDArray[np.float32]]:
    """What a network says, as a list of arrays.

    Raises:
        ValueError: If that is not what it should say.
    """
    device = next((weights.device for weights in module.parameters()), "cpu")
    try:
        with torch.no_grad():
            outputs = module(
                torch.from_numpy(observation).to(device), torch.from_numpy(mask).to(device)
            )
    except Exception as error:  # somebody's network
        raise ValueError(
            f"network {type(module).__name__} cannot be called with observations "
            f"{observation.shape} and masks {mask.shape}: {type(error).__name__}: {error}"
        ) from error
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    rows = len(observation)
    allowed = [(rows, NUM_ACTIONS), (rows,)][: len(outputs)]
    found = [tuple(getattr(output, "shape", ())) for output in outputs]
    if found != allowed:
        raise ValueError(
            f"network {type(module).__name__} returns shapes {found} for {rows} rows; allowed: "
            f"logits {(rows, NUM_ACTIONS)}, or these and values {(rows,)}"
        )
    arrays = [output.float().cpu().numpy() for output in outputs]
    # Those of illegal actions may be minus infinity.
    if not np.isfinite(arrays[0][mask]).all():
        raise ValueError(
            f"network {type(module).__name__} scores legal actions with numbers that are not finite"
        )
    return arrays
