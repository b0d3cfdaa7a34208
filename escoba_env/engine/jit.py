"""``kernel``: how every function of the engine is compiled, and how the result is kept.

Numba keeps compiled code beside the source (or, where that cannot be written, in the user's cache),
and takes it up again if the file of *that function* is unchanged. Kernels call kernels of other
files, which are compiled into them: an old copy of a rule would live on in a caller whose own file
is as it was. So all kernels carry one stamp, made of the text of all files that they are made of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import config, njit

_ENGINE = Path(__file__).parent


def source_stamp() -> str:
    """Returns a digest of everything that compiled kernels are made of."""
    digest = hashlib.sha256()
    for path in (*sorted(_ENGINE.glob("*.py")), _ENGINE.parent / "cards.py"):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


_STAMP = source_stamp()


def kernel(function: Callable[..., Any]) -> Any:
    """Compiles a function on first use, without the interpreter lock, and keeps the result."""
    dispatcher = njit(nogil=True)(function)
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        dispatcher.enable_caching()
        # Numba has no public name for the stamp (that of the function's own file and time).
        cache = dispatcher._cache._cache_file  # type: ignore[attr-defined]  # noqa: SLF001
        cache._source_stamp = _STAMP  # noqa: SLF001
    return dispatcher
