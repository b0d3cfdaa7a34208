"""``needs``: skips a test where a package of an extra is not installed."""

from __future__ import annotations

import importlib.util

import pytest


def needs(module: str) -> pytest.MarkDecorator:
    """Marks a test that uses a package of an extra, such as ``needs("torch")``."""
    found = importlib.util.find_spec(module) is not None
    return pytest.mark.skipif(not found, reason=f"{module} is not installed")
