"""``write_whole``: writes a file so that a reader sees the old one or the new one, never a half.

``check_writable`` says beforehand whether it will be able to.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from escoba_env.checks import path_of


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Writes a file whole; its folder is made if there is none.

    Raises:
        ValueError: If it cannot be written there.
    """
    target = path_of("file", path)
    data = content.encode() if isinstance(content, str) else content
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise ValueError(f"{target} cannot be written: it is a folder")
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        scratch = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            scratch.chmod(0o644)
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error.strerror or error}") from None


def check_writable(path: str | Path) -> None:
    """Checks that a file can be written, before work is done for it; its folder may still lack.

    Raises:
        ValueError: If it cannot.
    """
    target = path_of("file", path)
    try:
        if target.is_dir():
            raise ValueError(f"{target} cannot be written: it is a folder")
        place = target.parent
        while not place.exists() and place != place.parent:
            place = place.parent
        # Permissions do not say everything: a file system may be read-only, or no real one.
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error.strerror or error}") from None
