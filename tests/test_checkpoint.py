"""Checkpoints: what is saved is what is loaded, whole, and nothing else is ever accepted or run."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from support.networks import make_policy

pytest.importorskip("torch")

import torch

from escoba_env.batch import Batch, Views
from escoba_env.encoding import VERSIONS
from escoba_env.evaluation import evaluate
from escoba_env.policies import checkpoint, load_policy
from escoba_env.policies.checkpoint import (
    CARD,
    WEIGHTS,
    Card,
    CheckpointError,
    load_checkpoint,
    read_card,
    save_checkpoint,
)
from escoba_env.policies.learned import LearnedPolicy
from escoba_env.rules import make_rules

ROOT = Path(__file__).parents[1]
# The networks are tiny: a second thread would only be waited for.
torch.set_num_threads(1)


def some_views(number: int = 60, **fields: Any) -> Views:
    """Returns views from the middle of games."""
    batch = Batch(number, **fields, skip_forced=True, seed=8)
    random = load_policy("random")
    for _ in range(7):
        batch.step(random.act(batch.views()))
    return batch.views()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound checkpoint."""
    make_policy().save(tmp_path / "one")
    return tmp_path / "one"


def edit_card(folder: Path, **changes: Any) -> None:
    """Changes entries of a card; a dot leads into ``network``."""
    content = json.loads((folder / CARD).read_bytes())
    for key, value in changes.items():
        inner = content
        *parents, last = key.split(".")
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
    (folder / CARD).write_text(json.dumps(content))


def edit_tensors(folder: Path, change: Callable[[dict[str, NDArray[Any]]], object]) -> None:
    tensors = load_tensors((folder / WEIGHTS).read_bytes())
    change(tensors)
    (folder / WEIGHTS).write_bytes(save_tensors(tensors))


def refusal(folder: Path) -> str:
    """Loads a checkpoint in each way there is; returns the message with which it is refused."""
    with pytest.raises(CheckpointError) as refused:
        LearnedPolicy.load(folder)
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(refused.value))}$"):
        load_policy(str(folder))
    return str(refused.value)


# -- there and back -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "hidden", "action_hidden"),
    [
        ({}, (8, 6), 5),
        ({"players": 3, "ties": "split"}, (16,), 3),
        ({"players": 4, "partnership": True, "setenta": 1}, (4, 4, 4), 7),
    ],
)
def test_a_loaded_policy_has_the_very_same_probabilities(
    tmp_path: Path, fields: dict[str, Any], hidden: tuple[int, ...], action_hidden: int
) -> None:
    policy = make_policy(3, fields, hidden, action_hidden)
    policy.save(tmp_path / "one")
    loaded = LearnedPolicy.load(tmp_path / "one")
    views = some_views(**fields)
    expected = policy.probabilities(views)
    assert (loaded.probabilities(views) == expected).all()
    assert (loaded.act(views) == policy.act(views)).all()
    assert (load_policy(tmp_path / "one").act(views) == policy.act(views)).all()
    # The comparison could fail: other weights have other probabilities.
    other = make_policy(4, fields, hidden, action_hidden)
    assert np.abs(other.probabilities(views) - expected).max() > 0.1


@pytest.mark.parametrize("head", [{"action_layers": 3}, {"state_to_head": True}])
def test_a_deeper_head_and_one_that_sees_the_state_are_saved_and_loaded(
    tmp_path: Path, head: dict[str, Any]
) -> None:
    policy = make_policy(3, head=head)
    policy.save(tmp_path / "one")
    views = some_views()
    loaded = LearnedPolicy.load(tmp_path / "one")
    assert (loaded.probabilities(views) == policy.probabilities(views)).all()
    # Weights of another head do not fit the card.
    edit_card(tmp_path / "one", **{"network.action_layers": 2, "network.state_to_head": False})
    assert "weights " in refusal(tmp_path / "one")


def test_each_part_of_the_head_matters() -> None:
    """The state reaches the head directly, and every layer is passed."""
    policy = make_policy(3, head={"state_to_head": True, "action_layers": 2})
    views = some_views()
    before = policy.probabilities(views)
    for name in ("state_to_head.weight", "action_layers.0.weight", "action_layers.1.weight"):
        changed = LearnedPolicy(policy.card, policy.network)
        with torch.no_grad():
            changed.network.get_parameter(name).mul_(0.5)
        assert np.abs(changed.probabilities(views) - before).max() > 1e-3


def test_a_loaded_card_is_the_card_that_was_saved(tmp_path: Path) -> None:
    about = {
        "name": "ñandú № 1",
        "training": {"decisions": 5, "config": {"hidden": [8, 6]}},
        "strength": {"greedy": {"margin": 0.5}},
        "licence": "CC0-1.0",
        "episode": "match",
    }
    policy = make_policy(rules={"target": 31, "ranks": [1, 2, 3, 4, 5, 6, 7, 8]}, **about)
    policy.save(tmp_path / "one")
    assert LearnedPolicy.load(tmp_path / "one").card == policy.card
    assert read_card(tmp_path / "one") == policy.card
    card, tensors = load_checkpoint(tmp_path / "one")
    assert card == policy.card
    assert tensors.keys() == policy.network.state_dict().keys()
    assert json.loads((tmp_path / "one" / CARD).read_text(encoding="utf-8"))["name"] == "ñandú № 1"


def test_saving_a_loaded_policy_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    LearnedPolicy.load(folder).save(tmp_path / "two")
    for name in (CARD, WEIGHTS):
        assert (tmp_path / "two" / name).read_bytes() == (folder / name).read_bytes()


def test_a_checkpoint_holds_two_files_and_parents_are_made(tmp_path: Path) -> None:
    make_policy().save(tmp_path / "a" / "b" / "one")
    assert {p.name for p in (tmp_path / "a" / "b" / "one").iterdir()} == {CARD, WEIGHTS}
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["one"]


def test_loading_does_not_draw_from_the_global_random_stream(folder: Path) -> None:
    before = torch.get_rng_state()
    policy = LearnedPolicy.load(folder)
    policy.probabilities(some_views())
    policy.save(folder)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_policy_is_a_copy_of_the_network_that_it_is_made_from() -> None:
    source = make_policy()
    copy = LearnedPolicy(source.card, source.network)
    views = some_views()
    before = copy.probabilities(views)
    with torch.no_grad():
        for parameter in source.network.parameters():
            parameter.add_(1)
    assert (copy.probabilities(views) == before).all()
    assert np.abs(source.probabilities(views) - before).max() > 0.1


# -- files that are not a checkpoint's ------------------------------------------------------


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a checkpoint: it has no"):
        LearnedPolicy.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"is unknown; allowed: random, greedy"):
        load_policy(str(tmp_path / "nothing"))


@pytest.mark.parametrize("name", [CARD, WEIGHTS])
def test_a_missing_file_is_refused_by_name(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert f"it has no {name}" in refusal(folder)


@pytest.mark.parametrize("name", [CARD, WEIGHTS])
def test_a_folder_in_place_of_a_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    assert name in refusal(folder)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 2000, -1])
def test_truncated_weights_are_refused(folder: Path, size: int) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    assert len(whole) > 2000
    (folder / WEIGHTS).write_bytes(whole[:size])
    assert re.search(f"{WEIGHTS} is not a safetensors file, or is damaged", refusal(folder))


def test_weights_with_something_behind_them_are_refused(folder: Path) -> None:
    with (folder / WEIGHTS).open("ab") as file:
        file.write(b"PK\x03\x04")
    assert "is damaged" in refusal(folder)


def evil(kind: str, witness: Path) -> bytes:
    """Bytes that create the file ``witness`` if they are unpickled."""

    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (witness,)

    if kind == "pickle":
        return pickle.dumps(Payload())
    buffer = io.BytesIO()
    torch.save({"policy": Payload()}, buffer, _use_new_zipfile_serialization=kind == "torch zip")
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["pickle", "torch zip", "old torch file"])
@pytest.mark.parametrize("name", [CARD, WEIGHTS])
def test_a_pickle_in_disguise_is_refused_and_not_run(
    folder: Path, tmp_path: Path, name: str, kind: str
) -> None:
    witness = tmp_path / "witness"
    content = evil(kind, witness)
    # The payload works: who unpickles the file runs it.
    if kind == "pickle":
        pickle.loads(content)  # noqa: S301
    else:
        torch.load(io.BytesIO(content), weights_only=False)
    assert witness.exists()
    witness.unlink()
    (folder / name).write_bytes(content)
    message = refusal(folder)
    assert name in message
    assert not witness.exists()


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"a": 1}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}}',
        b'{"a": {"dtype": "F32", "shape": [1' + 30 * b"0" + b'], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [0, 1000000000000000], "data_offsets": [0, 0]}}',
        b'{"a": ' + b"[" * 100_000,
    ],
)
def test_weights_with_a_senseless_header_are_refused(folder: Path, header: bytes) -> None:
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    assert "policy.safetensors" in refusal(folder) or "weights" in refusal(folder)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 99_000_000])
def test_a_header_longer_than_its_file_is_refused(folder: Path, length: int) -> None:
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", length) + b"{}" * 20)
    assert "is damaged" in refusal(folder)


# -- weights that do not fit ----------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("key", ["trunk.0.weight", "action_head.bias"])
def test_weights_that_are_not_finite_are_refused_by_name(
    folder: Path, key: str, value: float
) -> None:
    def spoil(tensors: dict[str, NDArray[Any]]) -> None:
        tensors[key] = tensors[key].copy()
        tensors[key].flat[-1] = value

    edit_tensors(folder, spoil)
    assert re.search(f"{key} .*not finite", refusal(folder))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int32", "uint8", "bool"])
def test_weights_of_another_type_are_refused_by_name(folder: Path, dtype: str) -> None:
    edit_tensors(folder, lambda t: t.update({"value_head.bias": np.zeros(1, dtype)}))
    assert re.search(f"value_head.bias is {dtype}.*allowed: finite float32", refusal(folder))


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F8_E5M2", "F4", "Q7"])
def test_weights_of_a_type_that_numpy_lacks_are_refused(folder: Path, dtype: str) -> None:
    header = json.dumps({"a": {"dtype": dtype, "shape": [4], "data_offsets": [0, 4]}}).encode()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    assert WEIGHTS in refusal(folder)


def test_missing_weights_are_refused_by_name(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.pop("action_layers.0.bias"))
    assert "'action_layers.0.bias'" in refusal(folder)


def test_extra_weights_are_refused_by_name(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"backdoor": np.zeros(2, np.float32)}))
    assert "'backdoor'" in refusal(folder)


def test_no_weights_at_all_are_refused(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.clear())
    assert "weights" in refusal(folder)


@pytest.mark.parametrize(
    "change", [lambda a: a[:-1], lambda a: a.T.copy(), lambda a: a.reshape(-1), lambda a: a[None]]
)
def test_weights_of_another_shape_are_refused_by_name(
    folder: Path, change: Callable[[NDArray[Any]], NDArray[Any]]
) -> None:
    edit_tensors(folder, lambda t: t.update({"trunk.2.weight": change(t["trunk.2.weight"])}))
    assert re.search(r"'trunk.2.weight' have shape .*; its card asks for \(6, 8\)", refusal(folder))


# -- cards that do not fit ------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"not JSON",
        b"\xff\xfe\xfa",
        b'{"format_version": 1}{}',
        b'{"format_version": ' + b"1" * 5000 + b"}",
        pytest.param(b"[" * 200_000, id="nested without end"),
    ],
)
def test_a_card_that_is_not_json_is_refused(folder: Path, content: bytes) -> None:
    (folder / CARD).write_bytes(content)
    assert f"{CARD} cannot be read" in refusal(folder)


@pytest.mark.parametrize("content", [[], [1], 1, "card", None, True])
def test_a_card_that_is_no_object_is_refused(folder: Path, content: Any) -> None:
    (folder / CARD).write_text(json.dumps(content))
    assert CARD in refusal(folder)


REQUIRED = ["name", "encoding", "encoding_version", "rules", "episode", "network"]


@pytest.mark.parametrize("key", ["format_version", *REQUIRED])
def test_a_card_without_a_key_is_refused_by_its_name(folder: Path, key: str) -> None:
    content = json.loads((folder / CARD).read_bytes())
    del content[key]
    (folder / CARD).write_text(json.dumps(content))
    message = refusal(folder)
    assert key.replace("_", " ") in message or f"{key}: Field required" in message


@pytest.mark.parametrize("key", ["state_size", "hidden", "action_hidden"])
def test_a_network_without_a_key_is_refused_by_its_name(folder: Path, key: str) -> None:
    content = json.loads((folder / CARD).read_bytes())
    del content["network"][key]
    (folder / CARD).write_text(json.dumps(content))
    assert f"network.{key}: Field required" in refusal(folder)


@pytest.mark.parametrize("key", ["extra", "network.extra"])
def test_an_unknown_key_is_refused_by_its_name(folder: Path, key: str) -> None:
    edit_card(folder, **{key: 1})
    assert f"{key}: Extra inputs are not permitted" in refusal(folder)


@pytest.mark.parametrize("version", [0, 2, -1, "1", None, [1], {}, 10**30])
def test_another_format_version_is_refused_by_its_number(folder: Path, version: Any) -> None:
    edit_card(folder, format_version=version)
    assert f"is of format version {version!r}; this version reads 1" in refusal(folder)


@pytest.mark.parametrize("version", [0, 1, 10**30])
def test_another_encoding_version_is_refused_by_its_number(folder: Path, version: int) -> None:
    edit_card(folder, encoding_version=version)
    assert f"'tactical' version {version}" in refusal(folder)


def test_a_checkpoint_is_refused_once_the_meaning_of_its_encoding_has_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VERSIONS, "tactical", VERSIONS["tactical"] + 1)
    assert re.search("'tactical' version 2; this version writes .*'tactical': 3", refusal(folder))


@pytest.mark.parametrize("encoding", ["planes", "", "Tactical", "../tactical"])
def test_an_unknown_encoding_is_refused_by_its_name(folder: Path, encoding: str) -> None:
    edit_card(folder, encoding=encoding)
    assert repr(encoding) in refusal(folder)


def test_an_encoding_without_action_facts_is_refused(folder: Path) -> None:
    edit_card(folder, encoding="compact")
    assert "'compact'" in refusal(folder)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"players": 7}, "players=7"),
        ({"players": [2]}, r"players=\[2\]"),
        ({"player": 2}, "'player'"),
        ({"preset": "mus"}, "'mus'"),
        ({"preset": ["classic"]}, "preset"),
        ({"ranks": [[1]]}, "ranks"),
        ({"capture": {}}, "capture"),
        ({"partnership": True, "players": 2}, "partnership"),
        ([], "rules"),
        ("classic", "rules"),
    ],
)
def test_bad_rules_are_refused_by_their_name(folder: Path, rules: Any, message: str) -> None:
    edit_card(folder, rules=rules)
    assert re.search(message, refusal(folder))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("episode", "game"),
        ("name", ""),
        ("name", 5),
        ("training", []),
        ("network", []),
        ("network.kind", "transformer"),
        ("network.hidden", "8"),
        ("network.hidden", []),
        ("network.hidden", [8.5]),
        ("network.action_hidden", 0),
        ("network.action_hidden", None),
        ("network.state_size", 0),
    ],
)
def test_an_impossible_value_is_refused_by_its_key(folder: Path, key: str, value: Any) -> None:
    edit_card(folder, **{key: value})
    assert f"{CARD} is not a card: {key}" in refusal(folder)


def test_rules_of_another_layout_are_refused(folder: Path) -> None:
    edit_card(folder, **{"rules.players": 3})
    assert "its network takes 297 state columns" in refusal(folder)


@pytest.mark.parametrize("size", [1, 296, 298, 10**12, 10**30])
def test_a_state_size_that_does_not_fit_is_refused_by_its_number(folder: Path, size: int) -> None:
    edit_card(folder, **{"network.state_size": size})
    assert f"its network takes {size} state columns" in refusal(folder)


@pytest.mark.parametrize(
    ("hidden", "key"), [([9, 6], "trunk"), ([8], "trunk"), ([8, 6, 6], "trunk"), ([6, 8], "trunk")]
)
def test_hidden_widths_that_do_not_fit_are_refused(
    folder: Path, hidden: list[int], key: str
) -> None:
    edit_card(folder, **{"network.hidden": hidden})
    assert re.search("weights '.*' have shape .*; its card asks for", refusal(folder))


@pytest.mark.parametrize("hidden", [[-1, 6], [0, 6], [8, -(10**12)]])
def test_widths_below_one_are_refused(folder: Path, hidden: list[int]) -> None:
    edit_card(folder, **{"network.hidden": hidden})
    refusal(folder)


# -- sizes that must not be allocated -------------------------------------------------------


@contextmanager
def little_memory(more: int = 256 << 20) -> Iterator[None]:
    """Lets this process allocate only so much more address space than it has now."""
    resource = pytest.importorskip("resource")
    if not Path("/proc/self/statm").exists():
        pytest.skip("counts memory as Linux does")
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_the_limit_on_memory_works() -> None:
    with little_memory(), pytest.raises(MemoryError):
        bytearray(1 << 30)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("network.hidden", [10**12, 6]),
        ("network.hidden", [8, 10**12]),
        ("network.hidden", [10**30, 6]),
        ("network.hidden", [400_000, 6]),
        ("network.hidden", [8, 6, 20_000, 20_000]),
        ("network.action_hidden", 10**12),
        ("network.action_hidden", 10**30),
        ("network.action_hidden", 20_000),
    ],
)
def test_absurd_widths_are_refused_without_allocating(folder: Path, key: str, value: Any) -> None:
    edit_card(folder, **{key: value})
    begin = time.perf_counter()
    with little_memory():
        message = refusal(folder)
    assert time.perf_counter() - begin < 1
    assert re.search("its card asks for|network", message)


def test_absurdly_many_layers_are_refused_at_once(folder: Path) -> None:
    edit_card(folder, **{"network.hidden": [1] * 20_000})
    begin = time.perf_counter()
    refusal(folder)
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize("name", [CARD, WEIGHTS])
def test_an_absurdly_large_file_is_refused_without_reading_it(folder: Path, name: str) -> None:
    try:
        os.truncate(folder / name, 1 << 40)
    except OSError:
        pytest.skip("this file system has no files with holes of this size")
    with little_memory():
        assert name in refusal(folder)


# -- saving ---------------------------------------------------------------------------------


def contents(path: Path) -> dict[str, bytes]:
    """All files under a folder."""
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_saving_over_a_checkpoint_replaces_all_of_it(folder: Path, tmp_path: Path) -> None:
    policy = make_policy(1, hidden=(5,), name="two")
    policy.save(folder)
    loaded = LearnedPolicy.load(folder)
    assert loaded.card == policy.card
    assert (loaded.probabilities(some_views()) == policy.probabilities(some_views())).all()
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("kind", ["file", "folder", "empty folder", "weights alone"])
def test_saving_over_something_else_is_refused_and_leaves_it(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "thesis"
    if kind == "file":
        target.write_text("life's work")
    else:
        target.mkdir()
        if kind != "empty folder":
            (target / (WEIGHTS if kind == "weights alone" else "thesis.tex")).write_text("work")
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match="exists and is not a checkpoint; it is left as it"):
        make_policy().save(target)
    assert contents(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["thesis"]
    assert target.exists()


def test_saving_over_a_folder_with_somebody_elses_card_is_refused_and_leaves_it(
    tmp_path: Path,
) -> None:
    target = tmp_path / "cards"
    target.mkdir()
    (target / CARD).write_text('{"greeting": "happy birthday"}')
    (target / "photo.jpg").write_bytes(b"dear to somebody")
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        make_policy().save(target)
    assert contents(tmp_path) == before


def test_saving_over_a_checkpoint_loses_no_file_that_is_not_the_checkpoints(folder: Path) -> None:
    (folder / "notes.md").write_text("what I learned from this one")
    with suppress(CheckpointError):
        make_policy(1).save(folder)
    notes = [p.read_text() for p in folder.parent.rglob("notes.md")]
    assert notes == ["what I learned from this one"]
    LearnedPolicy.load(folder)


class Crash(BaseException):
    """Stands for whatever ends a program between two steps."""


class Disk:
    """Counts what a program does to files, and lets one of these steps crash.

    Python tells audit hooks of each such step before it is done; hooks cannot be taken off again.
    """

    STEPS = frozenset(
        {"open", "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}
    )

    def __init__(self) -> None:
        self.watching = False
        self.steps: list[str] = []
        self.crash_at = 0
        sys.addaudithook(self.step)

    def step(self, event: str, _arguments: Any) -> None:
        if self.watching and event in self.STEPS:
            self.steps.append(event)
            if len(self.steps) == self.crash_at:
                raise Crash

    @contextmanager
    def crashing_at(self, number: int) -> Iterator[None]:
        """Crashes at the step with this number, the first being 1."""
        self.steps, self.crash_at, self.watching = [], number, True
        try:
            yield
        finally:
            self.watching = False


@pytest.fixture(scope="session")
def disk() -> Disk:
    return Disk()


def crashed_saves(
    disk: Disk, target: Path, before: Callable[[], None]
) -> Iterator[tuple[bool, list[str]]]:
    """Saves a second policy and crashes at the first step, then at the second, and so on.

    Yields:
        Whether the save has crashed, and its steps; the last one has not.
    """
    policy = make_policy(1, name="two")
    for number in range(1, 100):
        shutil.rmtree(target.parent)
        target.parent.mkdir()
        before()
        crashed = False
        with disk.crashing_at(number):
            try:
                policy.save(target)
            except Crash:
                crashed = True
        yield crashed, disk.steps
        if not crashed:
            return


def whole(folder: Path) -> tuple[Card, dict[str, bytes]]:
    """What a reader gets of a checkpoint."""
    card, tensors = load_checkpoint(folder)
    return card, {key: value.tobytes() for key, value in tensors.items()}


def test_wherever_a_save_fails_the_old_or_the_new_checkpoint_is_there_whole(
    disk: Disk, tmp_path: Path
) -> None:
    make_policy().save(tmp_path / "old")
    make_policy(1, name="two").save(tmp_path / "new")
    old, new = whole(tmp_path / "old"), whole(tmp_path / "new")
    assert old != new
    target = tmp_path / "place" / "one"
    target.parent.mkdir()
    lost_at, saves = [], 0
    for crashed, steps in crashed_saves(
        disk, target, lambda: shutil.copytree(tmp_path / "old", target)
    ):
        saves += 1
        if whole(target) not in ([old, new] if crashed else [new]):
            lost_at.append(f"step {saves}: {steps[saves - 1]}")
            continue
        LearnedPolicy.load(target)
        make_policy(1, name="two").save(target)
        assert contents(target) == contents(tmp_path / "new")
    assert saves > 5
    assert steps.count("open") >= 2
    assert lost_at == []
    assert [p.name for p in target.parent.iterdir()] == ["one"]


def test_wherever_a_first_save_fails_nothing_is_left_behind(disk: Disk, tmp_path: Path) -> None:
    target = tmp_path / "place" / "one"
    target.parent.mkdir()
    saves = 0
    for crashed, _ in crashed_saves(disk, target, lambda: None):
        saves += 1
        assert target.exists() or crashed
        assert [p.name for p in target.parent.iterdir()] == ["one"][: target.exists()]
        make_policy(1, name="two").save(target)
        LearnedPolicy.load(target)
    assert saves > 4


PROGRAM = """
import json, os, sys, time
from pathlib import Path
import numpy as np
from escoba_env import files
from escoba_env.policies.checkpoint import Card, load_checkpoint, save_checkpoint

place, card = Path(sys.argv[1]), Card.model_validate_json(Path(sys.argv[2]).read_bytes())

def save(number, folder="one"):
    weights = {"weights": np.full(50_000, number, np.float32)}
    save_checkpoint(place / folder, card.model_copy(update={"name": str(number)}), weights)

def load(folder="one"):
    '''Number of a checkpoint whose card and weights agree.'''
    found, tensors = load_checkpoint(place / folder)
    number = int(found.name)
    assert (tensors["weights"] == number).all(), f"card {number}: {tensors}"
    return number

def forked(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child
"""
KILLS = """
steps = {"open", "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "sync"}
left, kill_at = 0, 0

def step(event, _arguments):
    global left
    if kill_at and event in steps:
        left += 1
        if left == kill_at:
            os._exit(9)

sys.addaudithook(step)
synced = os.fsync
os.fsync = lambda handle: (step("sync", None), synced(handle))

def killed_save(number, folder):
    global kill_at
    kill_at = at
    save(number, folder)

for first in (False, True):
    found = []
    for at in range(1, 100):
        folder = f"{first}-{at}"
        if not first:
            save(1, folder)
        child = forked(lambda: killed_save(2, folder))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found.append(load(folder) if (place / folder).exists() else 0)
        files._ABANDONED = -1.0
        save(3, folder)
        assert load(folder) == 3
        assert len(list((place / folder).iterdir())) == 2
        files._ABANDONED = 3600.0
        if code == 0:
            break
    print(json.dumps(found))
print(json.dumps(sorted(path.name[:1] for path in place.iterdir())))
"""
READERS = """
def saving(numbers):
    end = time.monotonic() + 2
    while time.monotonic() < end:
        for number in numbers:
            save(number)

save(1)
children = [forked(lambda: saving([1, 2])), forked(lambda: saving([3, 1]))]
loads = []
while len(children) > 0:
    loads.append(load())
    if os.waitpid(children[-1], os.WNOHANG)[0]:
        children.pop()
print(json.dumps([len(loads), sorted(set(loads)), load()]))
print(json.dumps(sorted(path.name for path in (place / "one").iterdir())))
"""


def program(source: str, folder: Path, place: Path) -> list[Any]:
    """Runs a program of the helpers above; returns what it printed."""
    place.mkdir()
    command = [sys.executable, "-c", PROGRAM + source, place, folder / CARD]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be forked")
def test_wherever_a_save_is_killed_the_old_or_the_new_checkpoint_is_there_whole(
    folder: Path, tmp_path: Path
) -> None:
    """And the next save leaves nothing of the killed one."""
    over_old, first, names = program(KILLS, folder, tmp_path / "place")
    assert over_old == [1] * over_old.count(1) + [2] * over_old.count(2)
    assert over_old.count(1) > 5
    assert over_old.count(2) > 3
    assert first == [0] * first.count(0) + [2] * first.count(2)
    assert first.count(0) > 5
    assert "." not in names


def test_a_save_that_fails_leaves_no_scratch_file_and_says_so_in_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(folder.parent)

    def full(_handle: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for number in range(1, 4):
        for target in (folder, folder.parent / "first"):
            left = number
            with pytest.raises(CheckpointError, match="cannot be written: No space left on device"):
                make_policy(1, name="two").save(target)
            assert contents(folder.parent) == before


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be forked")
def test_readers_get_a_whole_checkpoint_while_two_processes_save(
    folder: Path, tmp_path: Path
) -> None:
    (loads, found, _), names = program(READERS, folder, tmp_path / "place")
    assert loads > 20
    assert found == [1, 2, 3]
    assert names == [CARD, WEIGHTS]


def test_a_card_that_was_edited_by_hand_counts(folder: Path) -> None:
    edit_card(folder, licence="CC0-1.0")
    assert LearnedPolicy.load(folder).card.licence == "CC0-1.0"


def test_a_checkpoint_of_an_older_version_is_read(folder: Path) -> None:
    """Its weights have no metadata; and an older version does not look at those of this one."""
    expected = whole(folder)
    edit_tensors(folder, lambda _: None)
    assert whole(folder) == expected


def test_scratch_folders_are_no_shipped_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_policy().save(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / ".one-12345678.escoba-part")
    monkeypatch.setattr(checkpoint, "checkpoint_roots", lambda: [tmp_path])
    assert checkpoint.shipped_checkpoints() == ["one"]


def test_others_may_read_a_saved_checkpoint_as_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        make_policy().save(tmp_path / "one")
        make_policy(1).save(tmp_path / "one")
    finally:
        os.umask(before)
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o755
    for name in (CARD, WEIGHTS):
        assert (tmp_path / "one" / name).stat().st_mode & 0o777 == 0o644


def test_weights_in_any_memory_layout_are_saved_as_they_are(folder: Path) -> None:
    card, tensors = load_checkpoint(folder)
    tensors = {key: np.asfortranarray(value) for key, value in tensors.items()}
    assert not tensors["trunk.0.weight"].flags.c_contiguous
    before = contents(folder)
    save_checkpoint(folder, card, tensors)
    assert contents(folder) == before


# -- names ----------------------------------------------------------------------------------


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of shipped checkpoints with one in it, one beside it, and an empty place to be."""
    make_policy(name="good").save(tmp_path / "shipped" / "good")
    make_policy(name="outside").save(tmp_path / "outside")
    (tmp_path / "here").mkdir()
    monkeypatch.setattr(checkpoint, "checkpoint_roots", lambda: [tmp_path / "shipped"])
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "shipped"


def test_a_shipped_checkpoint_is_found_by_name(shipped: Path) -> None:
    assert checkpoint.shipped_checkpoints() == ["good"]
    assert load_policy("good").name == "good"
    assert isinstance(load_policy("good:sample=true"), LearnedPolicy)


@pytest.mark.parametrize(
    "name",
    ["../shipped/../../outside", "good/../../outside", "../outside/card.json", "./good", "good/"],
)
def test_a_name_leads_nowhere_but_to_a_shipped_checkpoint(shipped: Path, name: str) -> None:
    assert (shipped / name).exists() or name.startswith("../shipped")
    with pytest.raises(ValueError, match=r"is unknown; allowed: random, greedy, .*good, the"):
        load_policy(name)


def test_a_shipped_checkpoint_comes_before_a_folder_of_the_same_name(shipped: Path) -> None:
    make_policy(name="mine").save(Path("good"))
    assert load_policy("good").name != "mine"
    assert load_policy("./good").name == "mine"


def test_a_card_whose_name_is_a_path_reaches_no_path(shipped: Path, tmp_path: Path) -> None:
    edit_card(shipped / "good", name="../../../outside")
    before = contents(tmp_path)
    policy = load_policy("good")
    assert policy.name == "../../../outside"
    evaluate(policy, "greedy", deals=2)
    assert contents(tmp_path) == before
    with pytest.raises(ValueError, match="is unknown"):
        load_policy(policy.name.removeprefix("../"))


def test_tables_are_those_of_the_config_or_the_card_s_own_rules() -> None:
    card = make_policy(rules={"players": 3}).card
    assert checkpoint.tables_of(card) == [make_rules({"players": 3})]
    several = {"config": {"tables": [{"players": 2}, {"preset": "scopa"}]}}
    card = card.model_copy(update={"training": several})
    assert checkpoint.tables_of(card) == [make_rules("classic"), make_rules("scopa")]
    for bad in ({"config": {"tables": [{"players": 9}]}}, {"config": {"tables": 5}}):
        with pytest.raises(CheckpointError, match="'one'"):
            checkpoint.tables_of(card.model_copy(update={"training": bad}))


def test_every_shipped_checkpoint_loads_and_plays() -> None:
    names = checkpoint.shipped_checkpoints()
    assert {p.parent.name for p in ROOT.glob(f"checkpoints/*/{WEIGHTS}")} <= set(names)
    for name in names:
        policy = load_policy(name)
        assert isinstance(policy, LearnedPolicy)
        assert evaluate(policy, "random", policy.card.rules, deals=20).points > 0
