"""The Gymnasium vector environment: many games, one learner in each, on one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from escoba_env.batch import MAX_SEED
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import quoted, whole
from escoba_env.encoding import Encoding
from escoba_env.envs.opponents import Opponent
from escoba_env.envs.table import Observation, box_of
from escoba_env.envs.tables import NEXT_GAME, Tables
from escoba_env.policies import Policy
from escoba_env.rules import Rules

Step = tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


# Any: Gymnasium's types do not say what a Dict space holds.
class EscobaVectorEnv(VectorEnv[Any, Any, Any]):
    """Many games of Escoba for one learner in each, against policies.

    ``gymnasium.make_vec("escoba_env/Escoba-v0", num_envs=64)``. It answers exactly as Gymnasium's
    ``SyncVectorEnv`` of as many ``EscobaEnv`` would, seeds, autoreset and ``info`` included, but
    plays all games in one batch. See ``EscobaEnv`` for actions, observations, rewards, illegal
    actions and the arguments that are not described here.

    **Opponents** are asked once for all games that wait for them, and again for the further picks
    of their turns: a network makes one forward pass for all of these games. They are not asked
    where a single action is legal.

    **Autoreset** is Gymnasium's: with ``NEXT_STEP`` (default) the step after the end of an episode
    ignores the action and starts the next one; with ``SAME_STEP`` the next one starts in the same
    step, and ``info["final_obs"]`` has the last observation of the one that ended; with
    ``DISABLED`` the caller resets, by ``reset(options={"reset_mask": ended})``.

    **Masks** are all zeros where an episode has ended, as in ``EscobaEnv``: with ``NEXT_STEP`` such
    rows are among the observations, and a softmax over legal actions is not defined there. With
    ``SAME_STEP`` they are in ``final_obs`` alone.

    **Illegal actions** with ``illegal="raise"`` change nothing, in no game.

    **Randomness.** ``reset(seed=s)`` gives game ``i`` the seed ``s + i``; a list gives each its
    own. What happens in a game does not depend on the number of games, nor on the other ones.

    Args:
        num_envs: Number of games.
        opponents: As for ``EscobaEnv``.
        seat: As for ``EscobaEnv``.
        rules: As for ``EscobaEnv``.
        players: As for ``EscobaEnv``.
        partnership: As for ``EscobaEnv``.
        episode: As for ``EscobaEnv``.
        reward: As for ``EscobaEnv``.
        encoding: As for ``EscobaEnv``.
        memory: As for ``EscobaEnv``.
        reward_timing: As for ``EscobaEnv``.
        illegal: As for ``EscobaEnv``.
        dtype: ``"float32"`` or ``"uint8"``: the type of observations; see ``Batch``.
        autoreset_mode: An ``AutoresetMode`` or its value: ``"NextStep"``, ``"SameStep"`` or
            ``"Disabled"``.
        **rule_fields: As for ``EscobaEnv``.

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
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **rule_fields: Any,
    ) -> None:
        super().__init__()
        modes = {mode.value: mode for mode in AutoresetMode}
        mode: Any = modes.get(autoreset_mode) if isinstance(autoreset_mode, str) else autoreset_mode
        if not isinstance(mode, AutoresetMode):
            raise ValueError(
                f"autoreset_mode={quoted(autoreset_mode)} is unknown; allowed: an AutoresetMode, "
                f"or one of {', '.join(map(repr, modes))}"
            )
        self._tables = Tables(
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
            autoreset_mode=mode,
            fields=rule_fields,
        )
        self.num_envs = len(self._tables)
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = spaces.Dict(
            {
                "observation": box_of(self._tables.encoding),
                "action_mask": spaces.Box(0, 1, (NUM_ACTIONS,), np.int8),
            }
        )
        self.single_action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

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

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts new games and lets the others play until the learners are to move.

        Args:
            seed: A seed ``s`` for ``s, s + 1, ...``, or one for each game, or ``None`` (also
                within the list) for the next games.
            options: As for ``EscobaEnv``, the same for all games; and ``reset_mask``, bool
                (num_envs,): the games to start, default all.

        Returns:
            The learners' observations, and ``{}``.

        Raises:
            ValueError: If a seed or an option is not possible; nothing has changed then.
        """
        slots = np.arange(self.num_envs)
        if isinstance(options, Mapping) and "reset_mask" in options:
            options = dict(options)
            slots = np.flatnonzero(self._check_mask(options.pop("reset_mask")))
            self._tables.check_started("reset() by 'reset_mask'")
        seeds = self._check_seeds(seed)
        self._tables.start(slots, seeds[slots], None if options is None else [options] * len(slots))
        super().reset(seed=int(seeds[0]) if seeds[0] != NEXT_GAME else None)
        self._tables.settle()
        return self._observe(), {}

    def step(self, actions: ArrayLike) -> Step:
        """Takes an action for each learner, then lets the others play.

        Args:
            actions: Action ids (num_envs,), of any integer type.

        Returns:
            Observations; rewards, float64 (num_envs,); whether each episode has ended, bool
            (num_envs,); whether it was truncated, never; and ``info``: empty, or with
            ``SAME_STEP``, where episodes have ended, ``final_obs`` (an array of observations,
            ``None`` in the other rows), ``final_info`` (empty), and ``_final_obs`` and
            ``_final_info``, bool (num_envs,), that say where.

        Raises:
            TypeError: If the actions are not integers.
            ValueError: If they have another shape.
            IllegalActionError: If one is illegal and ``illegal="raise"``.
            ResetNeeded: If no game has been started, or one is over and is not to be reset by
                this step. In all these cases nothing has changed.
        """
        outcome = self._tables.step(actions)
        info: dict[str, Any] = {}
        if outcome.finals:
            final_obs = np.full(self.num_envs, None, object)
            for slots, observations in outcome.finals:
                for slot, observation in zip(slots, observations, strict=True):
                    final_obs[slot] = {
                        "observation": observation,
                        "action_mask": np.zeros(NUM_ACTIONS, np.int8),
                    }
            info = {
                "final_obs": final_obs,
                "_final_obs": outcome.terminated.copy(),
                "final_info": {},
                "_final_info": outcome.terminated.copy(),
            }
        truncated = np.zeros(self.num_envs, np.bool_)
        return self._observe(), outcome.rewards, outcome.terminated, truncated, info

    def _observe(self) -> Observation:
        observations, masks = self._tables.observe()
        return {"observation": observations, "action_mask": masks}

    def _check_mask(self, mask: Any) -> NDArray[np.bool_]:
        shape = (self.num_envs,)
        if (
            not isinstance(mask, np.ndarray)
            or mask.dtype != np.bool_
            or mask.shape != shape
            or not mask.any()
        ):
            raise ValueError(
                f"reset option 'reset_mask'={quoted(mask)}; allowed: a bool array of shape {shape} "
                f"with at least one True"
            )
        return mask

    def _check_seeds(self, seed: Any) -> NDArray[np.int64]:
        if seed is None:
            return np.full(self.num_envs, NEXT_GAME)
        if isinstance(seed, list | tuple) or (isinstance(seed, np.ndarray) and seed.ndim):
            if len(seed) != self.num_envs:
                raise ValueError(
                    f"seed has {len(seed)} entries; allowed: one for each of the {self.num_envs} "
                    f"environments"
                )
            return np.array(
                [NEXT_GAME if one is None else whole("seed", one, 0, MAX_SEED) for one in seed]
            )
        return whole("seed", seed, 0, MAX_SEED - self.num_envs + 1) + np.arange(self.num_envs)
