"""``package_version``: which version of the package this is."""

from __future__ import annotations

import importlib.metadata


def package_version() -> str:
    """Returns the version of the installed package; ``"unknown"`` if none is installed."""
    try:
        return importlib.metadata.version("escoba-env")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
