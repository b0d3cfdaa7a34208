"""``kernel`` and ``entry``: how functions of the engine are compiled, and how the result is kept.

Compiled code is kept beside the source or, where that cannot be written, in the user's cache
(``folders_of``). Kernels call kernels of other files, which are compiled into them: an old copy of
a rule would live on in a caller whose own file is as it was. So all kernels carry one stamp, made
of the text of all files that they are made of.

What is kept is a convenience. Whatever is wrong with it, the kernel is compiled again and the game
goes on. Numba's own cache does not do that: a file cut short ends every start in an error, or in
machine code that is none; two processes that write at once can exchange their files; and without a
folder to write to there is no module. So it is kept in files of our own, one for each kernel and
its types, that hold a digest of their content.
"""

from __future__ import annotations

import hashlib
import pickle
import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import config, njit, types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from escoba_env.compiling import progress, say
from escoba_env.files import write_whole

_ENGINE = Path(__file__).parent


def source_stamp() -> str:
    """Returns a digest of everything that compiled kernels are made of."""
    digest = hashlib.sha256()
    for path in (*sorted(_ENGINE.glob("*.py")), _ENGINE.parent / "cards.py"):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


_STAMP = source_stamp()


# -- dispatchers ----------------------------------------------------------------------------


class _Entry(CPUDispatcher):
    """A compiled function that tells when it is being compiled."""

    def compile(self, sig: Any) -> Any:
        """Loads or compiles the function for some types."""
        with progress.call():
            return super().compile(sig)


class _InnerKernel(_Entry):
    """A compiled function without a way in from Python."""

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        # Without this the process would crash.
        raise TypeError(
            f"kernel {self.py_func.__name__} can be called by kernels only; allowed: the entries, "
            f"which are in escoba_env.engine.batch above all"
        )


def kernel(function: Callable[..., Any]) -> Any:
    """Compiles a function that other kernels call, on first use, and keeps the result."""
    return _compiled(function, _InnerKernel, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def entry(function: Callable[..., Any]) -> Any:
    """Compiles a kernel that Python calls too, which runs without the interpreter lock.

    What lets Python in takes as long to compile as a small kernel does.
    """
    dispatcher = _compiled(function, _Entry)
    if isinstance(dispatcher, _Entry):
        ENTRIES.append(dispatcher)
    return dispatcher


ENTRIES: list[_Entry] = []
"""Every entry of the modules that have been imported; none with ``NUMBA_DISABLE_JIT=1``."""


def _compiled(function: Callable[..., Any], kind: type[_Entry], **options: bool) -> Any:
    # No kernel divides by zero: Python's check before each division is left out.
    dispatcher: Any = njit(nogil=True, error_model="numpy", **options)(function)  # type: ignore[call-overload]
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return dispatcher
    dispatcher.__class__ = kind
    # Numba has no public way to bring a cache.
    dispatcher._cache = _KernelCache(function)  # noqa: SLF001
    typed_call = dispatcher.get_call_template

    def call_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        """Every whole number that a kernel gives to another is an int64.

        Numba would compile the other again for each width of a number, and for each constant.
        """
        wide = (types.int64 if isinstance(arg, types.Integer) else arg for arg in args)
        return typed_call(tuple(wide), kws)

    dispatcher.get_call_template = call_template
    return dispatcher


# -- what is kept ---------------------------------------------------------------------------

_HEAD = b"escoba kernel 1\n"
_PYTHON = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
_VERSIONS = (_STAMP, _PYTHON, numba.__version__, llvmlite.__version__)


class _DamagedError(Exception):
    """A file whose content is not what was written."""


class _KernelCache(_Cache):
    """The files of one kernel, ``file.function-STAMP-TYPES.pyXY.nbi``, each whole in itself.

    It does not matter who writes what at the same time. A file is read only if its digest is that
    of its content: a pickle that was cut short, or machine code with a byte changed, could do
    anything.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        file = Path(function.__code__.co_filename)
        self._name = f"{file.stem}.{function.__qualname__}"
        self._source = file.parent
        self._faults: list[str] = []

    @property
    def cache_path(self) -> str:
        """The first folder that is looked in."""
        return str(folders_of(self._source)[0])

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Returns the kernel for some types as it was kept, or none: it has to be compiled."""
        # Numba makes its context ready when it is first used.
        target_context.refresh()
        key = _key_of(self._name, sig, target_context.codegen())
        self._faults = []
        for folder in folders_of(self._source):
            path = folder / self._file(key)
            try:
                return CompileResult._rebuild(target_context, *_read(path, key))  # noqa: SLF001
            except (FileNotFoundError, NotADirectoryError):
                continue
            except Exception as error:  # noqa: BLE001
                # Whatever the content of a file leads to.
                self._faults.append(f"{path}: {_reason_of(error)}")
        progress.begin_kernel()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps a kernel that has been compiled, and says in a line if something is wrong."""
        progress.end_kernel()
        key = _key_of(self._name, sig, data.codegen)
        faults = []
        for folder in folders_of(self._source):
            try:
                write_whole(folder / self._file(key), _content_of(key, data))
            except Exception as error:  # noqa: BLE001
                # No room, no permission, a folder in the file's place, or what cannot be kept.
                faults.append(f"{folder}: {_reason_of(error).rpartition('cannot be written: ')[2]}")
                continue
            self._remove_old(folder)
            if self._faults:
                _complain(f"could not be used and were compiled again: {self._faults[0]}")
            return
        _NOT_KEPT.append(
            f"cannot be kept, so every start compiles them again: {'; '.join(faults)}; "
            f"NUMBA_CACHE_DIR chooses another folder"
        )
        _complain(_NOT_KEPT[0])

    def enable(self) -> None:
        """Does nothing: it is always on."""

    def disable(self) -> None:
        """Does nothing: with ``NUMBA_DISABLE_JIT=1`` there is no cache."""

    def flush(self) -> None:
        """Removes the kernel's files."""
        for folder in folders_of(self._source):
            self._remove(folder, "")

    def _file(self, key: str) -> str:
        types_digest = hashlib.sha256(key.encode()).hexdigest()
        return f"{self._name}-{_STAMP[:16]}-{types_digest[:16]}.{_PYTHON}.nbi"

    def _remove_old(self, folder: Path) -> None:
        """Removes what this kernel was before its source changed, in numba's own format too."""
        self._remove(folder, f"{self._name}-{_STAMP[:16]}-")

    def _remove(self, folder: Path, kept: str) -> None:
        try:
            for path in folder.glob(f"{self._name}-*.{_PYTHON}.*"):
                if not kept or not path.name.startswith(kept):
                    path.unlink(missing_ok=True)
        except OSError:
            # It is in nobody's way.
            pass


@cache
def folders_of(source: Path) -> tuple[Path, ...]:
    """Returns the folders in which kernels of a source folder are kept.

    They are read from each, so that what was compiled when a read-only package was installed is
    used, and written to the first that can be written.
    """
    name = f"{source.name}_{hashlib.sha256(str(source).encode()).hexdigest()[:40]}"
    chosen = config.CACHE_DIR  # type: ignore[attr-defined]
    folders = [Path(chosen).absolute() / name] if chosen else []
    user = Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)
    # Where nobody knows a home, it would be a folder called ~.
    return (*folders, source / "__pycache__", *([user / name] if user.is_absolute() else []))


def kept_in() -> Path | None:
    """Returns the first folder that holds kernels of the engine as it is now."""
    for folder in folders_of(_ENGINE):
        if any(folder.glob(f"*-{_STAMP[:16]}-*.{_PYTHON}.nbi")):
            return folder
    return None


def _key_of(name: str, sig: Any, codegen: Any) -> str:
    """Everything that has to be the same for a kept kernel to be the one that is wanted."""
    return repr((_VERSIONS, name, sig, codegen.magic_tuple()))


def _content_of(key: str, result: Any) -> bytes:
    if result.library.has_dynamic_globals:
        raise ValueError("it holds an address of this process")
    content: bytes = dumps((key, result._reduce()))  # noqa: SLF001
    return _HEAD + hashlib.sha256(content).digest() + content


def _read(path: Path, key: str) -> tuple[Any, ...]:
    if not stat.S_ISREG(path.stat().st_mode):
        raise _DamagedError("it is no file")
    data = path.read_bytes()
    start = len(_HEAD) + hashlib.sha256().digest_size
    content = data[start:]
    if data[:start] != _HEAD + hashlib.sha256(content).digest():
        raise _DamagedError("it is damaged")
    found, result = pickle.loads(content)  # noqa: S301
    if found != key:
        raise _DamagedError("it is of another kernel")
    return tuple(result)


def _reason_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{error}" if isinstance(error, ValueError | _DamagedError) else repr(error)[:200]


_NOT_KEPT: list[str] = []
"""Why kernels of this process are not kept."""

_complaints: list[str] = []


def not_kept() -> str | None:
    """Says why some kernels that this process has compiled are not kept; none: all are."""
    return _NOT_KEPT[0] if _NOT_KEPT else None


def _complain(what: str) -> None:
    """Says what is wrong, the first thing only: the others follow from it."""
    if not _complaints:
        _complaints.append(what)
        if progress.is_watched:
            # Who watches is told by ``not_kept``.
            return
        say(f"Compiled kernels {what}.")
