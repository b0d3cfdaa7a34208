"""TorchRL: masked PPO on ``EscobaEnv``, an environment with ``batch_size=[N]`` on the batch engine.

The learner plays from either seat against ``greedy``. Its policy is TorchRL's own: a
``ProbabilisticActor`` over ``MaskedCategorical``, which takes the environment's ``action_mask``;
with ``GAE`` and ``ClipPPOLoss``. The network scores each action from the state and from the facts
of that action, the ``tactical`` encoding.

    pip install 'escoba-env[torchrl,onnx]'
    python docs/examples/torchrl_ppo.py --out torchrl.onnx
    escoba evaluate torchrl.onnx random --deals 1000

Measured (seed 1, 2 cores, 1,000 duplicate deals, 95 % intervals): 58 seconds on a machine in use;
+2.85 ± 0.11 points a round over ``random``, +0.80 ± 0.09 over ``greedy``.

For a learner in every seat take ``EscobaSelfPlayEnv``, and ``own_decisions(rollout)`` before
``GAE``: it links each decision to the same seat's next one. TorchRL's ``PettingZooWrapper`` takes
``escoba_v0.env()`` as well (``use_mask=True``), at some hundred steps a second.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from escoba_env.adapters import require

require("torchrl.objectives", "torchrl,onnx", at_least="0.14")

import torch
from safetensors.torch import save
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from escoba_env.adapters.onnx import check_export, save_onnx
from escoba_env.adapters.torchrl import EscobaEnv
from escoba_env.encoding import Encoding
from escoba_env.files import write_whole

GAMES = 128
STEPS = 64
EPOCHS = 4
MINIBATCH = 1024


class Policy(nn.Module):
    """Scores every action from the state and from the facts that follow from that action."""

    def __init__(self, encoding: Encoding, width: int = 128) -> None:
        super().__init__()
        facts = encoding.layout()["facts"]
        self.start, self.shape = facts.start, facts.shape
        self.state = nn.Sequential(
            nn.Linear(self.start, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.from_state = nn.Linear(width, width // 2)
        self.from_facts = nn.Linear(self.shape[1], width // 2)
        self.score = nn.Sequential(nn.ReLU(), nn.Linear(width // 2, 1))

    def forward(self, observation: torch.Tensor, action_mask: torch.Tensor) -> torch.Tensor:
        """Returns logits, (n, 43)."""
        state = self.state(observation[:, : self.start])
        facts = observation[:, self.start :].reshape(-1, *self.shape)
        hidden = self.from_facts(facts) + self.from_state(state)[:, None]
        return self.score(hidden).squeeze(-1).masked_fill(~action_mask, -1e9)


def main() -> None:
    """Trains, and writes the policy as a file."""
    parser = argparse.ArgumentParser(description="Masked PPO in TorchRL.")
    parser.add_argument("--decisions", type=int, default=65_536, help="of the learner")
    parser.add_argument("--opponent", default="greedy", help="any policy's name or file")
    parser.add_argument("--out", default="torchrl.onnx", help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    check_export(options.out)
    torch.manual_seed(options.seed)

    env = EscobaEnv(GAMES, options.opponent, seat="random", encoding="tactical")
    env.set_seed(options.seed)
    policy = Policy(env.encoding)
    actor = ProbabilisticActor(
        TensorDictModule(policy, in_keys=["observation", "action_mask"], out_keys=["logits"]),
        in_keys={"logits": "logits", "mask": "action_mask"},
        distribution_class=MaskedCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(
        nn.Sequential(nn.Linear(*env.encoding.shape, 128), nn.ReLU(), nn.Linear(128, 1)),
        in_keys=["observation"],
    )
    # A round is a handful of decisions, and rewarded at its end.
    advantage = GAE(gamma=1.0, lmbda=0.9, value_network=critic)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(loss.parameters(), lr=5e-4)

    frames = GAMES * STEPS
    batches = max(1, options.decisions // frames)
    collector = Collector(
        env,
        actor,
        frames_per_batch=frames,
        total_frames=batches * frames,
        auto_register_policy_transforms=False,
    )
    for number, rollout in enumerate(collector, 1):
        for group in optimizer.param_groups:
            group["lr"] = 5e-4 * (1 - (number - 1) / batches)
        with torch.no_grad():
            advantage(rollout)
        decisions = rollout.reshape(-1)
        for _ in range(EPOCHS):
            for rows in torch.randperm(frames).split(MINIBATCH):
                parts = loss(decisions[rows])
                total = parts["loss_objective"] + parts["loss_critic"] + parts["loss_entropy"]
                optimizer.zero_grad()
                total.backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        if number % 5 == 0 or number == batches:
            over = rollout["next", "done"]
            margin = float(rollout["next", "reward"][over].mean())
            print(f"{number * frames:8d} decisions, {margin:+.2f} a round over {options.opponent}")
    collector.shutdown()

    # Kept before anything else can fail: what was learned took minutes.
    write_whole(Path(options.out).with_suffix(".safetensors"), save(policy.state_dict()))
    training = {"decisions": batches * frames, "opponent": options.opponent, "seed": options.seed}
    save_onnx(policy, options.out, encoding=env.encoding, name="torchrl-ppo", training=training)


if __name__ == "__main__":
    main()
