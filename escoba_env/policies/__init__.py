"""Policies, and ``load_policy``, which finds one by name or folder."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from escoba_env.policies.base import Policy
from escoba_env.policies.builtin import CountingPolicy, GreedyPolicy, RandomPolicy
from escoba_env.policies.ismcts import CheatingISMCTSPolicy, ISMCTSPolicy
from escoba_env.policies.search import CheatingSearchPolicy, SearchPolicy

BUILTIN: Mapping[str, Callable[..., Policy]] = {
    "random": RandomPolicy,
    "greedy": GreedyPolicy,
    "counting": CountingPolicy,
    "search": SearchPolicy,
    "ismcts": ISMCTSPolicy,
    "cheat:search": CheatingSearchPolicy,
    "cheat:ismcts": CheatingISMCTSPolicy,
}
"""Makers of the policies that need no checkpoint, by name. Their options are keyword arguments."""


def load_policy(policy: str | Path | Policy) -> Policy:
    """Loads a policy.

    Args:
        policy: A built-in name (a key of ``BUILTIN``), the name of a shipped checkpoint, or a
            checkpoint's folder; each with options after a colon where it takes any, such as
            ``search:worlds=64`` or ``runs/one/checkpoint:sample=true``. A ``Policy`` is returned as
            it is.

    Raises:
        ValueError: If there is no such policy, or it takes no such option.
        CheckpointError: If a checkpoint is damaged, foreign or of another version.
    """
    if not isinstance(policy, str | Path):
        if isinstance(policy, Policy):
            return policy
        raise ValueError(
            f"policy {policy!r} is neither a name, a folder nor a Policy; "
            f"names: {', '.join(BUILTIN)}"
        )
    name, options = split_options(str(policy))
    if name in BUILTIN:
        allowed = list(inspect.signature(BUILTIN[name]).parameters)
        if options and not allowed:
            raise ValueError(f"policy {name!r} takes no options; got {sorted(options)}")
        unknown = set(options) - set(allowed)
        if unknown:
            raise ValueError(
                f"policy option {min(unknown)!r} is unknown; allowed for {name!r}: "
                f"{', '.join(allowed)}"
            )
        return BUILTIN[name](**options)
    from escoba_env.policies.checkpoint import find_checkpoint, shipped_checkpoints

    folder = find_checkpoint(name)
    if folder is None:
        known = ", ".join([*BUILTIN, *shipped_checkpoints()])
        raise ValueError(
            f"policy {name!r} is unknown; allowed: {known}, or the folder of a checkpoint"
        )
    # Only learned policies need torch.
    try:
        from escoba_env.policies.learned import LearnedPolicy
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"policy {name!r} is a trained network and needs torch: "
            f"pip install 'escoba-env[learned]'",
            name="torch",
        ) from None

    return LearnedPolicy.load(folder, **options)


def split_options(text: str) -> tuple[str, dict[str, Any]]:
    """Splits ``name:key=value,key=value`` into the name and its options.

    Values that are JSON numbers, ``true`` or ``false`` are read as such, others as text.

    Raises:
        ValueError: If an option stands twice or is not ``key=value``.
    """
    name, colon, tail = text.rpartition(":")
    if not colon or "=" not in tail:
        return text, {}
    options: dict[str, Any] = {}
    for part in tail.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key or not value or key in options:
            raise ValueError(
                f"option {part!r} of policy {text!r} is not key=value, or stands twice"
            )
        options[key] = _value(value)
    return name, options


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


__all__ = [
    "BUILTIN",
    "CheatingISMCTSPolicy",
    "CheatingSearchPolicy",
    "CountingPolicy",
    "GreedyPolicy",
    "ISMCTSPolicy",
    "Policy",
    "RandomPolicy",
    "SearchPolicy",
    "load_policy",
    "split_options",
]
