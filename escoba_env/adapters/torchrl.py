"""TorchRL: environments with ``batch_size=[N]`` on the batch engine, and credit for self-play.

``PettingZooWrapper(escoba_v0.env(), use_mask=True)`` works too, one game at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from escoba_env.adapters import require
from escoba_env.batch import MAX_SEED, Batch, check_games
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import whole
from escoba_env.encoding import Encoding
from escoba_env.engine.batch import settle_games
from escoba_env.engine.vector import start_streams
from escoba_env.envs.opponents import Opponent
from escoba_env.envs.table import reset_needed, table_rules
from escoba_env.envs.tables import NEXT_GAME, Tables
from escoba_env.policies import Policy
from escoba_env.rules import Rules

# Before what is imported from it, so that an error says what to install.
require("torchrl", "torchrl", at_least="0.14")

import torch  # noqa: E402
from tensordict import TensorDict, TensorDictBase  # noqa: E402
from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded  # noqa: E402
from torchrl.envs import EnvBase  # noqa: E402

Device = torch.device | str | int | None


class _BatchEnv(EnvBase):
    """What the environments share: specs, seeds, partial resets and partial steps.

    Tensors share the memory of arrays that were made for them: nothing is copied on the CPU, and
    nothing is written into them later, so rollouts and buffers may keep them.
    """

    def __init__(self, num_envs: int, encoding: Encoding, rewards: int, device: Device) -> None:
        super().__init__(device=device, batch_size=[num_envs])
        self._all = np.arange(num_envs)
        # What the next game of each slot is to be.
        self._seeds = np.full(num_envs, NEXT_GAME)
        # Types and devices are named, whatever torch's defaults are.
        place = torch.device("cpu" if device is None else device)
        shape = (num_envs, *encoding.shape)
        self.observation_spec = Composite(
            observation=Bounded(
                low=torch.from_numpy(encoding.low).expand(shape),
                high=torch.from_numpy(encoding.high).expand(shape),
                shape=shape,
                dtype=torch.from_numpy(encoding.low).dtype,
                device=place,
            ),
            action_mask=Binary(NUM_ACTIONS, (num_envs, NUM_ACTIONS), place, torch.bool),
            shape=(num_envs,),
            device=device,
        )
        self.action_spec = Categorical(NUM_ACTIONS, (num_envs,), place, torch.int64)
        self.reward_spec = Unbounded((num_envs, rewards), place, torch.float32)
        self.full_done_spec = Composite(
            {
                name: Categorical(2, (num_envs, 1), place, torch.bool)
                for name in ("done", "terminated")
            },
            shape=(num_envs,),
            device=device,
        )

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            last = MAX_SEED - len(self._all) + 1
            self._seeds = whole("seed", seed, 0, last) + self._all

    def _reset(self, tensordict: TensorDictBase | None = None, **options: Any) -> TensorDictBase:
        if options:
            raise ValueError(f"reset arguments {sorted(options)} are unknown; allowed: none")
        slots = self._all
        chosen = None if tensordict is None else tensordict.get("_reset", None)
        if chosen is not None:
            slots = np.flatnonzero(chosen.cpu().numpy())
        self._start(slots, self._seeds[slots])
        self._seeds[slots] = NEXT_GAME
        return self._tell({})

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        chosen = tensordict.get("_step", None)
        games = None if chosen is None else chosen.cpu().numpy().reshape(len(self._all))
        actions = tensordict.get("action").cpu().numpy()
        return self._tell({"reward": torch.from_numpy(self._play(actions, games))})

    def _tell(self, entries: dict[str, torch.Tensor]) -> TensorDictBase:
        observations, masks, over, more = self._look()
        # Ones where a game is over, so that a softmax over legal actions is defined.
        masks[over] = 1
        legal = torch.from_numpy(masks.view(np.bool_)).to(self.device)
        self.full_action_spec["action"].update_mask(legal)
        done = torch.from_numpy(over).unsqueeze(-1)
        entries |= {
            "observation": torch.from_numpy(observations),
            "action_mask": legal,
            "done": done,
            "terminated": done.clone(),
            **more,
        }
        return TensorDict(entries, self.batch_size, device=self.device)

    def _start(self, slots: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Starts games."""
        raise NotImplementedError

    def _play(self, actions: NDArray[Any], games: NDArray[np.bool_] | None) -> NDArray[np.float32]:
        """Takes actions in some games; returns the rewards in all of them."""
        raise NotImplementedError

    def _look(
        self,
    ) -> tuple[NDArray[Any], NDArray[np.int8], NDArray[np.bool_], dict[str, torch.Tensor]]:
        """Returns observations, masks and which games are over, in new arrays, and what else."""
        raise NotImplementedError


class EscobaEnv(_BatchEnv):
    """Many games for one learner in each, against policies: a single-agent environment.

    Entries, ``N`` being ``num_envs``: ``observation`` (N, *encoding.shape), ``action_mask`` bool
    (N, 43), ``action`` int64 (N,); ``reward`` float32, ``done`` and ``terminated`` bool (N, 1).
    Games, seeds, rewards and opponents are those of ``EscobaVectorEnv``. Nothing is truncated.

    **Masks** are ones where a game is over. They are the ``action_spec``'s as well, so
    ``rand_action`` is legal; a ``TransformedEnv`` has a spec of its own, to which TorchRL's
    ``ActionMask`` tells them. A collector's default policy and the ``rand_action`` of a
    ``ParallelEnv`` know no mask: use ``env.rand_action`` and a policy that takes ``action_mask``.

    **Resets** are the caller's, as TorchRL's collectors and rollouts do them: ``_reset`` says
    which games end and are followed by the next ones of their seeds, over or not. ``_step`` says
    which games are stepped.

    **Seeds.** After ``set_seed(s)`` the next game of slot ``i`` is the first one of seed ``s + i``.

    **Devices.** Games are on the CPU; tensors go to ``device``.

    Args:
        num_envs: Number of games.
        opponents: As for ``EscobaEnv`` of Gymnasium, like the following ones.
        seat: Seat of the learner, or ``"random"``.
        rules: As there.
        players: As there.
        partnership: As there.
        episode: As there.
        reward: As there.
        encoding: As there.
        memory: As there.
        reward_timing: As there.
        illegal: As there.
        dtype: ``"float32"`` or ``"uint8"``: the type of observations; see ``Batch``.
        device: Device of the tensors; ``None``: the CPU, and not named.
        **rule_fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If an argument is not possible; the message names it and what is allowed.
    """

    def __init__(
        self,
        num_envs: int = 1,
        opponents: Opponent | Sequence[Opponent] = "greedy",
        seat: int | str = 0,
        rules: str | Rules | Mapping[str, Any] = "classic",
        players: int | None = None,
        partnership: bool | None = None,
        episode: str = "round",
        reward: str = "margin",
        encoding: str = "compact",
        memory: str = "perfect",
        reward_timing: str = "round_end",
        illegal: str = "terminate",
        dtype: str = "float32",
        device: Device = None,
        **rule_fields: Any,
    ) -> None:
        tables = Tables(
            num_envs,
            opponents,
            seat,
            rules,
            players=players,
            partnership=partnership,
            episode=episode,
            reward=reward,
            encoding=encoding,
            memory=memory,
            dtype=dtype,
            reward_timing=reward_timing,
            illegal=illegal,
            autoreset_mode=AutoresetMode.DISABLED,
            fields=rule_fields,
        )
        super().__init__(len(tables), tables.encoding, 1, device)
        self._tables = tables

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._tables.summary()}>"

    @property
    def rules(self) -> Rules:
        """Rules of the tables."""
        return self._tables.rules

    @property
    def encoding(self) -> Encoding:
        """Layout of the observations."""
        return self._tables.encoding

    @property
    def opponents(self) -> tuple[Policy, ...]:
        """The policy that plays each other seat, in the order of the argument."""
        return self._tables.opponents

    @property
    def seats(self) -> NDArray[np.int64]:
        """Seat of the learner in each game, int64 (num_envs,)."""
        return self._tables.seats.copy()

    def _start(self, slots: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        self._tables.start(slots, seeds)
        self._tables.settle()

    def _play(self, actions: NDArray[Any], games: NDArray[np.bool_] | None) -> NDArray[np.float32]:
        rewards = self._tables.step(actions, games).rewards
        return rewards.astype(np.float32)[:, np.newaxis]

    def _look(
        self,
    ) -> tuple[NDArray[Any], NDArray[np.int8], NDArray[np.bool_], dict[str, torch.Tensor]]:
        return *self._tables.observe(), self._tables.over.copy(), {}


class EscobaSelfPlayEnv(_BatchEnv):
    """Many games in which the learner plays every seat, for self-play.

    Entries are those of :class:`EscobaEnv`, of the seat to move; but ``reward`` is (N, players),
    what *every* seat earned by the step, and ``seat`` int64 (N, 1) is the seat to move. Seats do
    not take turns one by one: a turn may take several picks, and the first seat rotates.

    **Credit.** A row's ``next`` is, as a rule, another seat's decision, and what a seat earns
    comes with others' steps too: an estimator of returns or advantages needs
    :func:`own_decisions` of the rollout. ``reward.gather(-1, seat)`` is *not* what a seat earned
    by its decision.

    **Masks, resets, seeds, devices**: as for :class:`EscobaEnv`. Illegal actions raise, and change
    no game.

    Args:
        num_envs: Number of games.
        rules: As for ``AllSeatsEnv``, like the following ones.
        players: As there.
        partnership: As there.
        episode: As there.
        reward: As there.
        encoding: As there.
        memory: As there.
        reward_timing: As there.
        dtype: As there.
        skip_forced: As there.
        threads: As there.
        device: Device of the tensors; ``None``: the CPU, and not named.
        **rule_fields: Fields of ``Rules`` that replace those of ``rules``.

    Attributes:
        batch: The games. Look at them, take views and clones of them, never play on them.

    Raises:
        ValueError: If an argument is not possible; the message names it and what is allowed.
    """

    def __init__(
        self,
        num_envs: int = 1,
        rules: str | Rules | Mapping[str, Any] = "classic",
        players: int | None = None,
        partnership: bool | None = None,
        episode: str = "round",
        reward: str = "margin",
        encoding: str = "compact",
        memory: str = "perfect",
        reward_timing: str = "round_end",
        dtype: str = "float32",
        skip_forced: bool = False,
        threads: int = 1,
        device: Device = None,
        **rule_fields: Any,
    ) -> None:
        batch = Batch(
            check_games("num_envs", num_envs),
            table_rules(rules, players, partnership, rule_fields),
            episode=episode,
            reward=reward,
            reward_timing=reward_timing,
            encoding=encoding,
            memory=memory,
            dtype=dtype,
            skip_forced=skip_forced,
            threads=threads,
        )
        super().__init__(len(batch), batch.encoding, batch.rules.players, device)
        place = torch.device("cpu" if device is None else device)
        self.observation_spec["seat"] = Categorical(
            batch.rules.players, (len(batch), 1), place, torch.int64
        )
        self.batch = batch
        self._started = False
        # Until there is a seed, streams that nobody has chosen.
        words = np.random.SeedSequence().generate_state(len(batch), np.uint64)
        batch.states["seed"] = words & np.uint64(MAX_SEED)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.batch!r}>"

    @property
    def rules(self) -> Rules:
        """Rules of the tables."""
        return self.batch.rules

    @property
    def encoding(self) -> Encoding:
        """Layout of the observations."""
        return self.batch.encoding

    def _start(self, slots: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        batch = self.batch
        first = seeds != NEXT_GAME
        streams = np.where(first, seeds, batch.states["seed"][slots])
        indices = np.where(first, 0, batch.states["game_index"][slots] + 1)
        start_streams(batch.spec, batch.states, slots, streams, indices)
        if batch.skip_forced:
            settle_games(batch.spec, batch.states, slots)
        self._started = True

    def _play(self, actions: NDArray[Any], games: NDArray[np.bool_] | None) -> NDArray[np.float32]:
        if not self._started:
            raise reset_needed("step()")
        if games is None:
            return self.batch.step(actions)[0]
        rewards = np.zeros((len(self._all), self.rules.players), np.float32)
        rewards[games] = self.batch.step(actions[games], games)[0]
        return rewards

    def _look(
        self,
    ) -> tuple[NDArray[Any], NDArray[np.int8], NDArray[np.bool_], dict[str, torch.Tensor]]:
        seat = torch.from_numpy(self.batch.turn).unsqueeze(-1)
        return *self.batch.observe(), self.batch.over, {"seat": seat}


def own_decisions(rollout: TensorDictBase) -> TensorDictBase:
    """Links each decision of a self-play rollout to the same seat's next one.

    Args:
        rollout: Steps of an :class:`EscobaSelfPlayEnv`, (N, T), as its rollouts and collectors
            give them; games may begin and end anywhere in it.

    Returns:
        The decisions, (M,), seat by seat within each game slot and in the order of time, with all
        entries of their steps, but in ``next``: ``reward`` float32 (M, 1) is what the seat that
        decided earned up to its own next decision or the end of its game; the other entries are
        those of that decision, or of that end; ``terminated`` bool (M, 1) says which; ``truncated``
        that the next row is not what follows because the rollout ends; ``done`` either.
        Decisions of which the rollout does not show what follows are left out: the last one of
        each seat of a game that goes on, of which only the observation is used, as the ``next``
        one of the decision before it. A seat's earnings before its first decision are nobody's.

    Raises:
        ValueError: If it has not two dimensions, or no entry ``seat``.
    """
    if rollout.ndim != 2 or rollout.get("seat", None) is None:
        raise ValueError(
            f"rollout of shape {tuple(rollout.shape)} with entries {sorted(rollout.keys())}; "
            f"allowed: (N, T), of an EscobaSelfPlayEnv, with 'seat'"
        )
    seat = rollout["seat"].squeeze(-1)
    over = rollout["next", "done"].squeeze(-1)
    games, steps = seat.shape
    time = torch.arange(steps, device=seat.device).expand(games, steps)
    # In float64, so that differences of sums are exact to the last digit of float32.
    earned = rollout["next", "reward"].double().cumsum(1)
    earned = torch.cat([torch.zeros_like(earned[:, :1]), earned], 1)
    # When the game of each step ends; ``steps``: not within the rollout.
    end = torch.where(over, time, steps).flip(1).cummin(1).values.flip(1)

    order = seat.argsort(dim=1, stable=True)
    seat, time, end = (x.gather(1, order) for x in (seat, time, end))
    follows = torch.zeros_like(over)
    follows[:, :-1] = (seat[:, 1:] == seat[:, :-1]) & (time[:, 1:] <= end[:, :-1])
    later = time.roll(-1, 1)
    terminated = ~follows & (end < steps)
    kept = follows | terminated
    truncated = follows & ~kept.roll(-1, 1)

    slot = torch.arange(games, device=seat.device).unsqueeze(1).expand(games, steps)
    until = torch.where(follows, later, end + 1)
    slot, seat, time, end, later, until, terminated, truncated, follows = (
        x[kept] for x in (slot, seat, time, end, later, until, terminated, truncated, follows)
    )
    decisions = rollout[slot, time]
    following = rollout["next"][slot, torch.where(follows, later - 1, end)]
    following["reward"] = (earned[slot, until, seat] - earned[slot, time, seat]).float()[:, None]
    following["terminated"] = terminated[:, None]
    following["truncated"] = truncated[:, None]
    following["done"] = (terminated | truncated)[:, None]
    decisions["next"] = following
    return decisions
