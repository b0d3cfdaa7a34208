"""``write_whole``: writes a file so that a reader sees the old one or the new one, never a half."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Writes a file whole; its folder is made if there is none.

    Raises:
        ValueError: If it cannot be written there.
    """
    target = Path(path)
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
