"""Run folders: one owner, one history after any kill, everything checked first, one-line ends."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from escoba_env import files, load_policy, make_rules
from escoba_env.cli import app
from escoba_env.engine.record import STATE
from escoba_env.policies.learned import LearnedPolicy
from training import commands, curves, selfplay
from training import distil as distil_module
from training.config import (
    Config,
    ConfigError,
    load_config,
    load_settings,
    make_config,
    make_settings,
    shipped_configs,
)
from training.distil import CURVE, DistilConfig, DistilFolder, Learner, distil
from training.labels import LabelError, LabelUnit, load_shard
from training.log import DECISIONS, open_log
from training.run_folder import RunFolder
from training.yaml_files import MAX_BYTES, MAX_DEPTH, read_yaml

ROOT = Path(__file__).parents[1]
UPDATE = 32 * 8
TINY: dict[str, Any] = {
    "name": "tiny",
    "decisions": 2 * UPDATE,
    "games": 32,
    "steps": 8,
    "minibatch": 64,
    "epochs": 1,
    "precision": "float32",
    "network": {"hidden": [12], "action_hidden": 8},
    "evaluation": {"every": UPDATE, "deals": 2, "against": ["random"]},
}
DISTIL: dict[str, Any] = {
    "name": "tiny",
    "rounds": [{"deals": 20, "teacher": "search:worlds=1"}],
    "shard_deals": 10,
    "minibatch": 64,
    "epochs": 3,
    "network": {"hidden": [8], "action_hidden": 8},
    "measure": {"deals": 2, "against": ["random"]},
}


def tiny(**changes: Any) -> Config:
    return make_config({**TINY, **changes}, "tiny")


def tiny_distil(**changes: Any) -> DistilConfig:
    return make_settings(DistilConfig, {**DISTIL, **changes}, "tiny")


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A finished run."""
    folder = RunFolder(tmp_path / "run")
    selfplay.train(tiny(), folder)
    return folder


# -- one owner ------------------------------------------------------------------------------


def test_a_run_folder_has_one_owner_at_a_time(run: RunFolder) -> None:
    before = contents(run.path)
    in_use = pytest.raises(ConfigError, match=r"run is in use by another process: stop that one")
    with RunFolder(run.path).owned(), in_use:
        selfplay.train(tiny(decisions=3 * UPDATE), run, resume=True)
    assert contents(run.path) == before
    selfplay.train(tiny(decisions=3 * UPDATE), run, resume=True)


def test_a_run_whose_resume_point_is_gone_is_not_begun_again(run: RunFolder) -> None:
    run.resume.unlink()
    before = contents(run.path)
    with pytest.raises(ConfigError, match=r"has a checkpoint, but resume\.pt is gone; put it back"):
        selfplay.train(tiny(), run, resume=True)
    assert contents(run.path) == before


def test_a_start_that_was_killed_before_its_config_leaves_a_folder_that_can_be_started(
    tmp_path: Path,
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / ".lock").touch()
    scratch = folder.path / ".config.yaml-ab_1cd2e"
    scratch.write_text("name: ti")
    with pytest.raises(ConfigError, match=r"there is no run to resume in .*no config\.yaml"):
        selfplay.train(tiny(), folder, resume=True)
    selfplay.train(tiny(), folder)
    assert not scratch.exists()


def test_what_killed_processes_left_half_written_is_removed_and_nothing_else(
    tmp_path: Path,
) -> None:
    folder = DistilFolder(tmp_path / "run", 1)
    labels = folder.rounds[0] / "labels"
    labels.mkdir(parents=True)
    (folder.path / "checkpoint").mkdir()
    (folder.path / "checkpoint" / "card.json").touch()
    left = [
        folder.path / ".resume.pt-a1b2c3d4",
        folder.path / ".resume.pt.4321",
        folder.path / ".resume.pt-a1b2c3d4.escoba-part",
        folder.rounds[0] / f".{CURVE}-a1b2c3d4",
        labels / ".0001-00.safetensors-a1b2c3d4",
        labels / ".end-0001-00.safetensors-a1b2c3d4",
        folder.path / ".checkpoint-a1b2c3d4",
        folder.path / ".checkpoint-old-a1b2c3d4",
    ]
    # What a person put there, and what is left of a policy that is nowhere else.
    kept = [
        folder.path / ".vscode-settings",
        folder.path / ".resume.pt-mine",
        labels / ".0001-00.safetensors",
        folder.path / ".best-old-a1b2c3d4",
    ]
    for path in (*left, *kept):
        path.mkdir() if "checkpoint" in path.name or "best" in path.name else path.touch()
    with folder.owned():
        assert [path for path in left if path.exists()] == []
        assert [path for path in kept if not path.exists()] == []
    with pytest.raises(ConfigError, match="is not empty"):
        folder.check_new()


# -- one history ----------------------------------------------------------------------------


class KilledError(Exception):
    """Stands for a kill: nobody catches it."""


def test_evaluations_that_a_kill_has_undone_are_not_in_the_list_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    config = tiny(decisions=4 * UPDATE, save_every=2 * UPDATE)
    dump = selfplay.SelfPlayPPO.update

    def killed(self: Any, play: Any, total: int) -> None:
        if self.num_timesteps == 3 * UPDATE:
            raise KilledError
        dump(self, play, total)

    with monkeypatch.context() as patch:
        patch.setattr(selfplay.SelfPlayPPO, "update", killed)
        with pytest.raises(KilledError):
            selfplay.train(config, folder)

    def decisions() -> list[int]:
        return [json.loads(line)["decisions"] for line in lines_of(folder.evaluations)]

    assert decisions() == [UPDATE, 2 * UPDATE, 3 * UPDATE]
    selfplay.train(config, folder, resume=True)
    assert decisions() == [UPDATE, 2 * UPDATE, 3 * UPDATE, 4 * UPDATE]
    # So is the log.
    logged = [
        int(line[DECISIONS])
        for path in [*sorted(folder.log.glob("progress-*.csv")), folder.log / "progress.csv"]
        for line in csv.DictReader(lines_of(path))
    ]
    assert logged == [UPDATE, 2 * UPDATE, 3 * UPDATE, 4 * UPDATE]


@pytest.mark.parametrize("behind", ["checkpoint", "best"])
def test_a_kill_after_the_resume_point_leaves_policies_that_are_brought_in_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    folder = RunFolder(tmp_path / "run")
    evaluation = {**TINY["evaluation"], "keep_best": True}
    config = tiny(evaluation=evaluation, save_every=UPDATE)
    save = LearnedPolicy.save

    def killed(self: LearnedPolicy, target: Path) -> None:
        if target.name == behind and (folder.path / behind).exists():
            raise KilledError
        save(self, target)

    # Each evaluation is better than the one before.
    monkeypatch.setattr(selfplay, "_worth", lambda strength, _: strength["decisions"])
    with monkeypatch.context() as patch:
        patch.setattr(LearnedPolicy, "save", killed)
        with pytest.raises(KilledError):
            selfplay.train(config, folder)
    saved = torch.load(folder.resume, weights_only=True)
    assert folder.saved_at(folder.path / behind) != saved["decisions"]
    monkeypatch.setattr(selfplay._Run, "go", lambda self: self._policy())
    selfplay.train(config, folder, resume=True)
    for name in ("checkpoint", "best"):
        assert folder.saved_at(folder.path / name) == saved["decisions"]


def test_a_best_policy_that_is_gone_is_refused_by_name(tmp_path: Path) -> None:
    evaluation = {**TINY["evaluation"], "keep_best": True}
    folder = RunFolder(tmp_path / "kept")
    selfplay.train(tiny(evaluation=evaluation), folder)
    best = torch.load(folder.resume, weights_only=True)["best"]
    content = torch.load(folder.resume, weights_only=True)
    torch.save({**content, "best": {**best, "decisions": 0}}, folder.resume)
    for path in folder.best.iterdir():
        path.unlink()
    folder.best.rmdir()
    with pytest.raises(ConfigError, match=r"best cannot be gone on with.*put it back"):
        selfplay.train(tiny(evaluation=evaluation), folder, resume=True)


@pytest.mark.parametrize("killed_in", ["restored", "saved"])
def test_the_learning_curve_has_every_epoch_once_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    """Killed before or after an epoch is saved, when its line is there already."""
    folder = tmp_path / "run"
    save = Learner.save

    def killed(self: Learner, path: Path, epochs: int) -> None:
        if killed_in == "saved" or epochs == 1:
            save(self, path, epochs)
        if epochs == 2:
            raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "save", killed)
        with pytest.raises(KilledError):
            distil(tiny_distil(), folder, workers=1)
    curve = folder / "round-1" / CURVE
    assert len(curve.read_text().splitlines()) == 2
    distil(tiny_distil(), folder, resume=True, workers=1)
    assert [json.loads(line)["epoch"] for line in lines_of(curve)] == [1, 2, 3]


def test_a_curve_of_an_earlier_version_is_drawn_with_each_epoch_once(tmp_path: Path) -> None:
    path = tmp_path / CURVE
    path.write_text("".join(f'{{"epoch": {e}, "points_lost": {e}.5}}\n' for e in (1, 2, 2, 3)))
    assert [line["epoch"] for line in curves._lines(path, "epoch")] == [1, 2, 3]


def test_epochs_that_cannot_be_gone_on_with_are_not_learned_again_silently(tmp_path: Path) -> None:
    path = tmp_path / CURVE
    path.write_text('{"epoch": 1}\n{"epoch": 2}\n')
    with pytest.raises(ConfigError, match=r"has 2 epochs, and resume\.pt beside it is gone"):
        distil_module._drop_unsaved(path, 0)
    path.write_text('{"epoch": 1}\n{"epo')
    with pytest.raises(ConfigError, match=r"line 2, is damaged"):
        distil_module._drop_unsaved(path, 1)


def test_a_log_of_an_earlier_version_is_kept_whole(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("train/loss\n0.5\n0.4\n")
    open_log(tmp_path, 0).close()
    assert (tmp_path / "progress-1.csv").read_text() == "train/loss\n0.5\n0.4\n"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    files.write_whole(path, b"old")

    def fail(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync", fail) if step == "fsync" else (Path, "replace", fail)))
        with pytest.raises(KeyboardInterrupt):
            files.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# -- everything is checked first ------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": "nope"}, "start: policy 'nope' is unknown"),
        ({"start": "greedy"}, "start='greedy' is of another network"),
        ({"network": {"hidden": [65536] * 64}}, "network of 27"),
        (
            {"start": "nope", "opponents": {"gredy": 0.5}, "evaluation": {"against": ["nobody"]}},
            r"start: .*'nope'.*policy gredy: .*policy nobody: ",
        ),
    ],
)
def test_a_run_that_cannot_go_is_refused_before_its_folder_is_written(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        selfplay.train(tiny(**changes), RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": "nope"}, "start: policy 'nope' is unknown"),
        ({"measure": {"against": ["nobody"]}}, "measure.against 'nobody' at table 1"),
        (
            {
                "rounds": [
                    *DISTIL["rounds"],
                    {"deals": 20, "teacher": "search:rollout={policy},x=1"},
                ]
            },
            "teacher of round 2: .*x",
        ),
        (
            {"rounds": [{"deals": 20, "teacher": "counting"}], "start": "nope"},
            "start: .*'nope'.*teacher 'counting' of round 1",
        ),
    ],
)
def test_a_distillation_that_cannot_go_is_refused_before_its_folder_is_written(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        distil(tiny_distil(**changes), tmp_path / "run", workers=1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": 10**20}, "(allowed: 1 to 1024)"),
        ({"network": {"action_hidden": 10**14}}, "(allowed: 1 to 65536)"),
        ({"learning_rate": 1e300}, "(allowed: above 0, up to 1)"),
        ({"decisions": 10**5000}, "decisions=(a value of type int, too long"),
        ({"games": 10**30}, "(allowed: 1 to 16777216)"),
        ({"games": 10**6, "steps": 10**6}, "games * steps=1000000000000; allowed: up to 16777216"),
        ({"evaluation": {"seed": 2**63}}, "(allowed: 0 to 9223372036854775807)"),
        ({"seed": 2**31}, "(allowed: 0 to below 2147483648)"),
        ({"opponents": {"x" * 10**5: 3}}, "opponents={'xxx"),
        ({"rules": {"players": 5}, "games": 0}, "allowed: 2, 3 or 4; games=0"),
        (
            {"minibatch": 10**6, "teammates": {"greedy": 0.7, "random": 0.7}},
            "allowed: up to 1; teammates are possible in a partnership alone; minibatch=1000000",
        ),
    ],
)
def test_absurd_values_are_refused_with_what_is_allowed_all_of_them_and_briefly(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        tiny(**changes)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 600


def test_all_faults_of_a_distillation_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        tiny_distil(average=0.5, rounds=[{"deals": 10, "teacher": "search", "scores": 1}])
    for part in ("average=0.5 takes", "scores=1 of round 1 take", "deals=10 of round 1 are fewer"):
        assert part in str(refused.value)
    with pytest.raises(ConfigError, match=r"table 1: .*players=9.*table 2: .*players=8"):
        tiny_distil(tables=[{"players": 9}, {"players": 8}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nname: y\n", "key 'name' is given twice, in lines 1 and 2"),
        ("a: {b: 1,\n  b: 2}\nc: [{d: 1, d: 2}]", "'b' is given twice, in lines 1 and 2; key 'd'"),
        ("a: 1\n0x1: 2\n1: 3", "key 1 is given twice, in lines 2 and 3"),
        ("? [1, 2]\n: 3", "the key in line 1 is no single value"),
        ("a: " + "[" * 5000, f"nested more than {MAX_DEPTH} deep"),
        ("a: " + "[" * 40 + "]" * 40, f"line 1 is nested more than {MAX_DEPTH} deep"),
        ("a: &a [*a]", "nested more than"),
        (
            "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
            + "".join(
                f"{n}: &{n} [{','.join([f'*{p}'] * 10)}]\n"
                for p, n in zip("abcd", "bcde", strict=True)
            ),
            "has more than 20,000 values",
        ),
        ("a: 1" + "0" * 5000, "Exceeds the limit"),
        ("a: 2001-13-01", "month must be in 1..12"),
        ("a: !!timestamp soon", "NoneType"),
        ("# " + "x" * MAX_BYTES, "larger than"),
    ],
)
def test_yaml_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        read_yaml(path)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600


def test_merged_keys_of_yaml_are_no_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n")
    assert read_yaml(path)["b"] == {"x": 1, "y": 3}


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="has no such device")
def test_a_device_is_no_config_no_resume_point_and_no_shard(run: RunFolder) -> None:
    with pytest.raises(ConfigError, match="it is a device; allowed: a regular file"):
        load_config("/dev/zero")
    with pytest.raises(LabelError, match="it is a device; allowed: a regular file"):
        load_shard(Path("/dev/zero"))
    run.resume.unlink()
    run.resume.symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="it is a device; allowed: a regular file"):
        selfplay.train(tiny(), run, resume=True)


def test_learning_that_goes_astray_ends_before_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    update = selfplay.SelfPlayPPO.update

    def astray(self: Any, play: Any, total: int) -> None:
        update(self, play, total)
        if self.num_timesteps == 2 * UPDATE:
            with torch.no_grad():
                self.network.value_head.bias.fill_(float("nan"))

    monkeypatch.setattr(selfplay.SelfPlayPPO, "update", astray)
    with pytest.raises(ConfigError, match="learning went astray at 512 decisions"):
        selfplay.train(tiny(save_every=UPDATE), folder)
    assert torch.load(folder.resume, weights_only=True)["decisions"] == UPDATE


# -- label shards ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> LabelUnit:
    path = tmp_path_factory.mktemp("labels") / "0000-00.safetensors"
    unit = LabelUnit(str(path), make_rules("classic"), "search:worlds=1", "greedy", 0.1, 5, 0, 4)
    unit.play(load_policy)
    assert len(unit.shard().records) > 20
    return unit


def _record(field: str, value: int) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        records = np.frombuffer(tensors["records"].tobytes(), STATE).copy()
        records[field][3] = value
        data = np.frombuffer(records.tobytes(), np.uint8)
        tensors["records"] = data.reshape(len(records), -1).copy()

    return change


def _value(row: int, value: float) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors["values"][row] = value

    return change


def _cast(name: str, dtype: Any) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name] = tensors[name].astype(dtype)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_record("turn", 100), "game record 3 is not possible"),
        (_record("legal", -1), "game record 3 is not possible"),
        (_record("hands", -1), "game record 3 is not possible"),
        (_record("stock_next", 100), "game record 3 is not possible"),
        (_record("viewer", -1), "game record 3 is not possible"),
        (_value(2, np.inf), "its labels are not finite"),
        (_value(2, np.nan), "of less than two actions"),
        (_value(2, 0.5), "of illegal actions"),
        (_cast("records", np.float32), "records are float32"),
        (_cast("values", np.float64), "values are float64"),
    ],
)
def test_a_shard_of_what_no_game_can_be_is_refused(
    shard: LabelUnit, tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    tensors = load_file(shard.path)
    with safe_open(shard.path, "np") as file:
        metadata = file.metadata()
    change(tensors)
    path = tmp_path / "changed.safetensors"
    save_file(tensors, path, metadata)
    with pytest.raises(LabelError, match=message) as refused:
        load_shard(path)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(
    "about",
    ["[]", "{}", "[" * 10**5, '{"labelled": -1, "seconds": 1}', '{"labelled": 1, "seconds": "x"}'],
)
def test_a_shard_that_says_what_cannot_be_is_refused(
    shard: LabelUnit, tmp_path: Path, about: str
) -> None:
    with safe_open(shard.path, "np") as file:
        metadata = file.metadata()
    path = tmp_path / "changed.safetensors"
    save_file(load_file(shard.path), path, {**metadata, "about": about})
    with pytest.raises(LabelError, match="is no shard of labels, or is damaged"):
        load_shard(path)


def test_labels_of_other_deals_or_of_another_table_are_not_learned_from(shard: LabelUnit) -> None:
    from dataclasses import replace

    with pytest.raises(LabelError, match=r"labels of other deals \(seed=5, not 6"):
        replace(shard, seed=6).shard()
    with pytest.raises(LabelError, match="labels of another table"):
        replace(shard, rules=make_rules("scopa")).shard()


# -- the commands ---------------------------------------------------------------------------


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_escoba_trains_from_a_config_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    arguments = ("train", tmp_path / "tiny.yaml", "--run", tmp_path / "run")
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"policy: {tmp_path / 'run' / 'checkpoint'}\n"
    assert LearnedPolicy.load(tmp_path / "run" / "checkpoint").name == "tiny"
    again = invoke(*arguments)
    assert again.exit_code == 2
    assert again.stderr.startswith("Error: run folder ")
    assert again.stderr.count("\n") == 1
    assert invoke(*arguments, "--resume", "--decisions", 3 * UPDATE).exit_code == 0


def test_escoba_distils_from_a_config(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({**DISTIL, "epochs": 1}))
    arguments = (tmp_path / "tiny.yaml", "--run", tmp_path / "run", "--workers", 1)
    result = invoke("distil", *arguments)
    assert result.exit_code == 0, result.output
    assert LearnedPolicy.load(tmp_path / "run" / "checkpoint").name == "tiny"


def test_shipped_configs_are_addressed_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick").write_text("name: mine\ndecisions: 5\n")
    assert shipped_configs() == sorted(path.stem for path in (ROOT / "configs").iterdir())
    assert load_config("quick").decisions == 1_000_000
    assert load_config("./quick").name == "mine"
    with pytest.raises(
        ConfigError, match=r"No such file or directory; the shipped ones: .*quick, "
    ):
        load_config("quikc")
    with pytest.raises(ConfigError, match="classic-2p has 'rounds': it is one for `escoba distil`"):
        load_config("classic-2p")
    with pytest.raises(ConfigError, match="quick has 'decisions': it is one for `escoba train`"):
        load_settings(DistilConfig, "quick")


def test_a_tilde_is_the_home_folder_in_every_path_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    result = invoke("train", "~/tiny.yaml", "--run", "~/run", "--decisions", UPDATE)
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {"tiny.yaml", "run"}
    curve = CliRunner().invoke(curves.app, ["~/run", "--plot", "~/curve.svg"])
    assert curve.exit_code == 0, curve.output
    assert (tmp_path / "curve.svg").is_file()


def test_a_full_disk_ends_a_run_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    monkeypatch.setattr(os, "fsync", full)
    result = invoke("train", tmp_path / "tiny.yaml", "--run", tmp_path / "run")
    assert result.exit_code == 2
    assert "config.yaml cannot be written: No space left on device" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(errno.EROFS, "Read-only file system", "runs"), 2, "Error: runs cannot be read or"),
        (OSError(errno.ENOSPC, "No space left"), 2, "Error: a file of the run cannot be read or"),
        (MemoryError("8 EiB"), 2, "Error: there is not enough memory: 8 EiB"),
        (KeyboardInterrupt(), 130, "Interrupted: later."),
        (
            ModuleNotFoundError("No module named 'torch'", name="torch"),
            2,
            "Error: No module named 'torch': pip install 'escoba-env[train]'",
        ),
        (ConfigError("a\nb"), 2, "Error: a b"),
    ],
)
def test_whatever_stops_a_command_is_one_line(error: BaseException, code: int, said: str) -> None:
    def command() -> None:
        with commands.one_line("later"):
            raise error

    result = CliRunner().invoke(commands.app_of(command), [])
    assert result.exit_code == code
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "training.selfplay", "quick"),
        ("-m", "training.best_response", "greedy"),
        ("-m", "escoba_env", "train", "quick"),
    ],
)
def test_ctrl_c_while_a_command_imports_is_one_line(tmp_path: Path, command: tuple[str]) -> None:
    """A module that is hit by Ctrl-C as it loads, and makes another error of it."""
    (tmp_path / "torch.py").write_text(
        "import signal\n"
        "try:\n    signal.raise_signal(signal.SIGINT)\n"
        "except BaseException:\n    raise ImportError('half loaded')\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 130
    assert done.stderr == "Interrupted: nothing was finished.\n"


def test_training_is_found_in_the_package_from_anywhere(tmp_path: Path) -> None:
    code = (
        "import escoba_env.training.commands;"
        "import escoba_env.training.labels as labels, escoba_env.training.config as config;"
        "print(labels.LabelUnit.__module__, config.CONFIGS.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "escoba_env.training.labels configs\n"


@pytest.mark.parametrize("name", ["results", "curves", "quickstart"])
def test_scripts_of_training_explain_themselves(name: str) -> None:
    from importlib import import_module

    result = CliRunner().invoke(import_module(f"training.{name}").app, ["--help"])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_a_wheel_holds_training_and_configs_inside_the_package_alone(tmp_path: Path) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="the wheel's builder")
    with zipfile.ZipFile(
        next(wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path)))
    ) as file:
        names = set(file.namelist())
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"escoba_env"}
    assert {"escoba_env/training/__init__.py", "escoba_env/configs/quick.yaml"} <= names
    assert {
        f"escoba_env/training/{path.name}" for path in (ROOT / "training").glob("*.py")
    } <= names
    # It stands for that folder in a checkout.
    assert "escoba_env/training.py" not in names
