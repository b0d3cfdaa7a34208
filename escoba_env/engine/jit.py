"""``kernel`` and ``entry``: how functions of the engine are compiled, and how the result is kept.

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

from numba import config, njit, types
from numba.core.registry import CPUDispatcher

_ENGINE = Path(__file__).parent


def source_stamp() -> str:
    """Returns a digest of everything that compiled kernels are made of."""
    digest = hashlib.sha256()
    for path in (*sorted(_ENGINE.glob("*.py")), _ENGINE.parent / "cards.py"):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


_STAMP = source_stamp()


class _InnerKernel(CPUDispatcher):
    """A compiled function without a way in from Python."""

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        # Without this the process would crash.
        raise TypeError(
            f"kernel {self.py_func.__name__} can be called by kernels only; allowed: the entries, "
            f"which are in escoba_env.engine.batch above all"
        )


def kernel(function: Callable[..., Any]) -> Any:
    """Compiles a function that other kernels call, on first use, and keeps the result."""
    dispatcher = _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        dispatcher.__class__ = _InnerKernel
    return dispatcher


def entry(function: Callable[..., Any]) -> Any:
    """Compiles a kernel that Python calls too, which runs without the interpreter lock.

    What lets Python in takes as long to compile as a small kernel does.
    """
    return _compiled(function)


def _compiled(function: Callable[..., Any], **options: bool) -> Any:
    # No kernel divides by zero: Python's check before each division is left out.
    dispatcher: Any = njit(nogil=True, error_model="numpy", **options)(function)  # type: ignore[call-overload]
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return dispatcher
    dispatcher.enable_caching()
    # Numba has no public name for the stamp (that of the function's own file and time).
    cache = dispatcher._cache._cache_file  # noqa: SLF001
    cache._source_stamp = _STAMP  # noqa: SLF001
    typed_call = dispatcher.get_call_template

    def call_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        """Every whole number that a kernel gives to another is an int64.

        Numba would compile the other again for each width of a number, and for each constant.
        """
        wide = (types.int64 if isinstance(arg, types.Integer) else arg for arg in args)
        return typed_call(tuple(wide), kws)

    dispatcher.get_call_template = call_template
    return dispatcher
