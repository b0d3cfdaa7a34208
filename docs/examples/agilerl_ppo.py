"""AgileRL: masked PPO on `masked_vector_env`, many games in one batch.

The learner plays from either seat against a named policy. AgileRL's rollouts take the mask from
`info["action_mask"]`, and its PPO applies it where it acts and where it learns. The network is
AgileRL's own, a plain one, on the `tactical` encoding.

AgileRL 2.58 needs a PettingZoo below 1.27, so it goes into an environment of its own, and a package
that it does not ask for:

    pip install torch==2.13.0 peft -e '.[agilerl,onnx]'
    python docs/examples/agilerl_ppo.py --out agilerl.onnx
    escoba evaluate agilerl.onnx random --deals 1000

Measured with the defaults, 400,000 decisions: 149 seconds on 2 cores in use, and +1.59 ± 0.12
points a round over `random` (1,000 deals). It still rises.

For its multi-agent algorithms take `parallel_env`, or `vector_env` for many of them in processes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from escoba_env.adapters import require

require("agilerl.algorithms", "agilerl,onnx", at_least="2.58")

import numpy as np
import torch
from agilerl.algorithms import PPO
from agilerl.rollouts import collect_rollouts
from safetensors.torch import save

from escoba_env.adapters.agilerl import masked_vector_env
from escoba_env.adapters.onnx import check_export, save_onnx
from escoba_env.files import write_whole

GAMES = 128
STEPS = 64


class Logits(torch.nn.Module):
    """What AgileRL's actor says of every action, masked."""

    def __init__(self, actor: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = actor.encoder
        self.head = actor.head_net.wrapped

    def forward(self, observation: torch.Tensor, action_mask: torch.Tensor) -> torch.Tensor:
        """Returns logits float32 (n, 43)."""
        logits: torch.Tensor = self.head(self.encoder(observation))
        return logits.masked_fill(~action_mask, -1e9)


def main() -> None:
    """Trains, and writes the policy."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--decisions", type=int, default=400_000)
    parser.add_argument("--opponent", default="random", help="any policy's name or folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="agilerl.onnx")
    options = parser.parse_args()
    check_export(options.out)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    # AgileRL shuffles by NumPy's global state.
    np.random.seed(options.seed)  # noqa: NPY002

    env = masked_vector_env(
        GAMES, opponents=options.opponent, seat="random", encoding="tactical", illegal="raise"
    )
    env.reset(seed=options.seed)
    layers = {"layer_norm": False}
    agent = PPO(
        env.single_observation_space,
        env.single_action_space,
        net_config={
            "latent_dim": 256,
            "max_latent_dim": 256,
            "encoder_config": {"hidden_size": [256], **layers},
            "head_config": {"hidden_size": [128], **layers},
        },
        share_encoders=False,
        num_envs=GAMES,
        learn_step=GAMES * STEPS,
        batch_size=1024,
        update_epochs=4,
        lr=1e-3,
        gamma=1.0,
        gae_lambda=0.9,
        ent_coef=0.01,
    )
    agent.set_training_mode(True)
    decisions = 0
    going_on = {}
    while decisions < options.decisions:
        scores, *rest = collect_rollouts(agent, env, STEPS, **going_on)
        names = ("last_obs", "last_done", "last_scores", "last_info")
        going_on = dict(zip(names, rest, strict=True))
        agent.learn()
        decisions += GAMES * STEPS
        print(f"{decisions:,} decisions, {np.mean(scores):+.2f} a round over {options.opponent}")
    policy = Logits(agent.actor)
    # Kept before anything else can fail: what was learned took minutes.
    write_whole(Path(options.out).with_suffix(".safetensors"), save(policy.state_dict()))
    save_onnx(
        policy,
        options.out,
        encoding=env.games.encoding,
        name="agilerl-ppo",
        training={"decisions": decisions, "opponent": options.opponent, "seed": options.seed},
    )
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
