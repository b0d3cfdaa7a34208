"""Seeds of evaluations: drawn anew unless one is given, or kept in the folder of results.

A policy can be made to know the deals of a seed that its author knows, so only deals that were
drawn after the policy was finished say how it plays.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from escoba_env.batch import check_seed
from escoba_env.engine.rng import GUESSABLE
from escoba_env.evaluation.pool import Store

SEED_BITS = 63


def draw_seed() -> int:
    """Draws a seed that nobody can guess: any of ``SEED_BITS`` bits that is not ``GUESSABLE``."""
    return GUESSABLE + secrets.randbelow((1 << SEED_BITS) - GUESSABLE)


def open_store(folder: str | Path | None, seed: int | None) -> tuple[Store | None, int]:
    """Opens the folder of an evaluation's results, and settles the seed of its deals.

    Args:
        folder: Where results are kept; ``None``: nowhere.
        seed: The seed that was asked for; ``None``: that of the folder, or else a drawn one.

    Returns:
        The folder's results, ``None`` without a folder, and the seed.

    Raises:
        ValueError: If the seed or the folder is not possible, or no seed was asked for and the
            folder has results of several.
        StoreError: If a seed that was drawn cannot be kept.
    """
    if seed is not None:
        seed = check_seed(seed)
    store = None if folder is None else Store(folder)
    if seed is not None:
        return store, seed
    if store is None:
        return None, draw_seed()

    def choose() -> int:
        # Folders from before seeds were drawn, and those whose seed was always given.
        found = store.seeds()
        if len(found) > 1:
            raise ValueError(
                f"seed None is not possible: {store.path} has results of several seeds; allowed: "
                f"a seed, such as one of {', '.join(map(str, sorted(found)[:5]))}"
            )
        return found.pop() if found else draw_seed()

    return store, store.seed({"of": "folder"}, choose)
