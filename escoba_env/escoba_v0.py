"""PettingZoo's view of this package: ``escoba_v0.env()`` and its relatives.

The number is the version of the environment: it moves only when the same actions would be
answered differently.
"""

from __future__ import annotations

from escoba_env.envs.aec import raw_env
from escoba_env.envs.parallel import parallel_env

# Other environments wrap raw_env in checks here; raw_env makes its own.
env = raw_env

__all__ = ["env", "parallel_env", "raw_env"]
