"""Adapters: one module for each framework that Escoba drops into.

Each imports its framework and nothing of the others; ``import escoba_env`` imports none of them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import sys
from types import ModuleType


def require(module: str, extra: str, *, at_least: str, below: str | None = None) -> ModuleType:
    """Imports a framework.

    Args:
        module: Name of the module, such as ``"torchrl"``.
        extra: The extra of this package that installs it, or several with commas between them.
        at_least: The oldest version that the adapter works with, such as ``"0.14"``.
        below: The first version that it does not work with; ``None`` if none is known.

    Raises:
        ModuleNotFoundError: If it, or what it needs, is not installed; the message names the extra.
        ImportError: If another version is installed; the message names both.
    """
    install = f"pip install 'escoba-env[{extra}]'"
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        what = error.name or module
        if what.partition(".")[0] != top:
            what = f"{what}, which {module} needs,"
        elif sys.modules.get(top) is None:
            # Not a part of it is missing, but all of it.
            what = top
        raise ModuleNotFoundError(
            f"{what} is not installed: {install}", name=error.name, path=error.path
        ) from None
    version = _version(found, module.partition(".")[0])
    if version is not None:
        allowed = f"{at_least} or newer" + (f", below {below}" if below else "")
        too_old = _numbers(version) < _numbers(at_least)
        if too_old or (below is not None and _numbers(version) >= _numbers(below)):
            raise ImportError(f"{module} {version} is installed; allowed: {allowed}: {install}")
    return found


def _version(module: ModuleType, top: str) -> str | None:
    names = importlib.metadata.packages_distributions().get(top, [top])
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    version = getattr(module, "__version__", None)
    return version if isinstance(version, str) else None


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    # 2 is no older than 2.0.
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
