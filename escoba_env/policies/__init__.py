"""Policies, and ``load_policy``, which finds one by name, file or folder, or makes one."""

from __future__ import annotations

from escoba_env.policies.base import Policy
from escoba_env.policies.builtin import CountingPolicy, GreedyPolicy, RandomPolicy
from escoba_env.policies.function import FunctionPolicy
from escoba_env.policies.ismcts import CheatingISMCTSPolicy, ISMCTSPolicy
from escoba_env.policies.loading import (
    BUILTIN,
    PolicyLike,
    load_policy,
    name_of,
    policy_files,
    registered_policies,
    split_options,
)
from escoba_env.policies.search import CheatingSearchPolicy, SearchPolicy

__all__ = [
    "BUILTIN",
    "CheatingISMCTSPolicy",
    "CheatingSearchPolicy",
    "CountingPolicy",
    "FunctionPolicy",
    "GreedyPolicy",
    "ISMCTSPolicy",
    "Policy",
    "PolicyLike",
    "RandomPolicy",
    "SearchPolicy",
    "load_policy",
    "name_of",
    "policy_files",
    "registered_policies",
    "split_options",
]
