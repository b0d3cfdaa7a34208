"""Files: only regular files of a bounded size are read, wherever anything is; writes are whole."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from escoba_env import files
from escoba_env.adapters.onnx import ONNXPolicy
from escoba_env.evaluation import tournament
from escoba_env.evaluation.pool import Store
from escoba_env.files import check_regular, check_writable, read_whole, write_whole
from escoba_env.policies import load_policy
from escoba_env.policies.checkpoint import load_checkpoint, save_checkpoint
from escoba_env.replay import Replay
from training.best_response import for_card
from training.config import load_config
from training.curves import draw
from training.labels import about_shard, load_shard

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pipes and devices in folders")
LONG = "x" * 5000


def device(path: Path) -> None:
    path.symlink_to(os.devnull)


def listening(path: Path) -> None:
    # The path of a socket is short.
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, Callable[[Path], Any]] = {
    "a device": device,
    "a pipe": os.mkfifo,
    "a socket": listening,
    "a folder": Path.mkdir,
}
READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "replay": ("one.json", Replay.load),
    "results": ("results.jsonl", lambda path: Store(path.parent)),
    "a tournament's results": (
        "results.jsonl",
        lambda path: tournament(["random", "greedy"], deals=2, folder=path.parent),
    ),
    "card": ("card.json", lambda path: load_checkpoint(path.parent)),
    "weights": ("policy.safetensors", lambda path: load_checkpoint(path.parent)),
    "checkpoint by its name": ("card.json", lambda path: load_policy(path.parent)),
    "network": ("one.onnx", ONNXPolicy.load),
    "config": ("one.yaml", load_config),
    "labels": ("one.safetensors", load_shard),
    "what labels are about": ("one.safetensors", about_shard),
    "learning curve": ("evaluations.jsonl", lambda path: draw(path.parent, path.parent / "x.png")),
    "best response": ("best_response.json", lambda path: for_card(path.parent)),
}


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """Ends a test that waits for somebody to write into a pipe."""

    def stop(*_: Any) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_regular_file_is_refused_by_every_reader(
    tmp_path: Path, reader: str, kind: str
) -> None:
    name, read = READERS[reader]
    for other in ("card.json", "policy.safetensors"):
        (tmp_path / other).write_bytes(b"{}")
    path = tmp_path / name
    path.unlink(missing_ok=True)
    KINDS[kind](path)
    with pytest.raises(ValueError, match=f"it is {kind}; allowed: a regular file") as refused:
        read(path)
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_larger_than_allowed_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_bytes(b"12345")
    assert read_whole(path, 5) == b"12345"
    with pytest.raises(ValueError, match=r"config .*one is larger than 4 bytes"):
        read_whole(path, 4, name="config")
    with pytest.raises(ValueError, match=r"config .*one is larger than 4 bytes"):
        check_regular(path, 4, name="config")
    os.truncate(path, 1 << 40)
    for name, read in READERS.values():
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to(path)
        with pytest.raises(ValueError, match="is larger than"):
            read(tmp_path / name)
        (tmp_path / name).unlink()
        for other in ("card.json", "policy.safetensors"):
            (tmp_path / other).write_bytes(b"{}")


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one"
    path.write_bytes(b"1")
    looked = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(Path, "stat", lambda _self: looked)
    with pytest.raises(ValueError, match="it is a pipe"):
        read_whole(path, 5)


@pytest.mark.parametrize(
    "path", ["a\0b", "", 5, None, ["a"], b"a", "\ud800", "x\0" * 5000, np.zeros(9000)]
)
def test_what_is_no_path_is_refused_in_few_words(path: Any) -> None:
    for use in (
        lambda: read_whole(path, 5),
        lambda: check_regular(path, 5),
        lambda: write_whole(path, b""),
        lambda: check_writable(path),
        lambda: Replay.load(path),
        lambda: ONNXPolicy.load(path),
        lambda: load_checkpoint(path),
        lambda: save_checkpoint(path, None, {}),  # type: ignore[arg-type]
        lambda: load_config(path),
        lambda: Store(path),
    ):
        with pytest.raises(ValueError, match="is not possible; allowed: a path") as refused:
            use()
        assert len(str(refused.value)) < 240


@pytest.mark.parametrize("path", [LONG, f"{LONG}/one", f"{LONG}.onnx", "/".join(["abc"] * 2000)])
def test_a_path_that_is_too_long_is_refused_in_few_words(path: str) -> None:
    for use in (
        lambda: read_whole(path, 5),
        lambda: check_regular(path, 5),
        lambda: write_whole(path, b""),
        lambda: check_writable(path),
        lambda: Replay.load(path),
        lambda: ONNXPolicy.load(path),
        lambda: load_checkpoint(path),
        lambda: load_config(path),
    ):
        with pytest.raises(ValueError, match=r"File name too long|allowed: a path") as refused:
            use()
        assert len(str(refused.value)) < 400


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_but_a_regular_file_is_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "one"
    KINDS[kind](path)
    before = path.lstat()
    for use in (lambda: write_whole(path, b"new"), lambda: check_writable(path)):
        with pytest.raises(ValueError, match=f"cannot be written: it is {kind}"):
            use()
    assert path.lstat().st_ino == before.st_ino
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_no_scratch_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, fault: BaseException
) -> None:
    path = tmp_path / "one"
    write_whole(path, b"old")

    def fail(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    expected = ValueError if isinstance(fault, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_whole(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["one"]
    assert path.read_bytes() == b"old"


def test_scratch_files_of_killed_writes_go_with_a_later_write(tmp_path: Path) -> None:
    names = [f".other-abcdefgh{files.SCRATCH}", f".mine{files.SCRATCH}", "notes", ".hidden"]
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / f".folder-abcdefgh{files.SCRATCH}").mkdir()
    (tmp_path / f".folder-abcdefgh{files.SCRATCH}" / "card.json").write_bytes(b"half")
    write_whole(tmp_path / "one", b"whole")
    # They may be somebody's who is writing at this moment.
    assert len(list(tmp_path.iterdir())) == 6
    long_ago = time.time() - 2 * 3600
    for path in tmp_path.iterdir():
        os.utime(path, (long_ago, long_ago))
    write_whole(tmp_path / "one", b"whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".hidden", "notes", "one"]


def test_one_at_a_time_has_a_folder(tmp_path: Path) -> None:
    order = []

    def wait() -> None:
        with files.locked_folder(tmp_path):
            order.append("second")

    with files.locked_folder(tmp_path):
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []
