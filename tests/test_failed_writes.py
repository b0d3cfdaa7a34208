"""``write_whole``: a write that fails leaves the old file, and nothing beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from escoba_env.files import write_whole


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_no_scratch_file(
    call: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    write_whole(path, "old")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(os if call == "fsync" else Path, call, fail)
    expected = ValueError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_whole(path, "new")
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]
    assert path.read_text() == "old"
