"""Makes the environments known by name to Gymnasium and PettingZoo.

Entry points are text, so that neither the environments nor the engine are imported before one is
made.
"""

from __future__ import annotations

import gymnasium

GYMNASIUM_ID = "escoba_env/Escoba-v0"
PETTINGZOO_ID = "escoba/escoba-v0"


def register() -> None:
    """Registers what is not registered yet.

    ``gymnasium.make("escoba_env/Escoba-v0")``, and, where the installed PettingZoo has a registry,
    ``pettingzoo.make("aec", "escoba/escoba-v0")`` and the same with ``"parallel"``.
    """
    if GYMNASIUM_ID not in gymnasium.registry:
        gymnasium.register(
            GYMNASIUM_ID,
            entry_point="escoba_env.envs.single:EscobaEnv",
            vector_entry_point="escoba_env.envs.vector:EscobaVectorEnv",
        )
    try:
        from pettingzoo.env_registry import registration
    except ModuleNotFoundError:
        # Before PettingZoo 1.27.
        return
    if PETTINGZOO_ID not in registration.aec_registry:
        registration.register("aec", PETTINGZOO_ID, "escoba_env.escoba_v0:env")
    if PETTINGZOO_ID not in registration.parallel_registry:
        registration.register("parallel", PETTINGZOO_ID, "escoba_env.escoba_v0:parallel_env")
