"""ONNX files: the same policy as the original, and nothing that does not fit is loaded."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from support.networks import make_policy

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from escoba_env import Batch, Encoding, evaluate, load_policy, make_rules
from escoba_env.adapters import onnx as adapter
from escoba_env.adapters.onnx import METADATA_KEY, ONNXPolicy, export_policy, save_onnx
from escoba_env.encoding import VERSIONS
from escoba_env.policies.checkpoint import CheckpointError
from escoba_env.policies.learned import LearnedPolicy

COMPACT = Encoding("compact", make_rules("classic"), "round")
TABLES = [
    {"players": 2},
    {"players": 4, "partnership": True},
    {"rules": "comodines", "players": 3},
]


class Linear(nn.Module):
    """A network as a user would write it, which does not look at the mask."""

    def __init__(self, inputs: int = COMPACT.size, outputs: int = 43) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, observation: torch.Tensor, action_mask: torch.Tensor) -> torch.Tensor:
        return self.layer(observation)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "linear.onnx"
    torch.manual_seed(0)
    save_onnx(Linear(), path, encoding=COMPACT, name="linear", training={"steps": 3})
    return path


def changed(source: Path, path: Path, change) -> Path:
    model = onnx.load(source)
    change(model)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_a_checkpoint_and_its_export_are_the_same_policy(table, tmp_path):
    fields = dict(table)
    rules = make_rules(fields.pop("rules", "classic"), **fields)
    policy = make_policy(5, rules.changes())
    export_policy(policy, tmp_path / "policy.onnx")
    loaded = load_policy(tmp_path / "policy.onnx")
    batch = Batch(64, rules)
    batch.reset(1)
    for _ in range(12):
        live = np.flatnonzero(~batch.over)
        views = batch.views(live)
        expected, found = policy.probabilities(views), loaded.probabilities(views)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        # Not vacuous: there is more than one answer.
        assert expected[expected > 0].std() > 0.01
        batch.step(loaded.act(views), live)


def test_the_shipped_checkpoint_plays_the_same_games_from_a_file(tmp_path):
    export_policy(load_policy("classic-2p"), tmp_path / "p.onnx")
    before, after = (
        evaluate(policy, "greedy", deals=40, seed=2)
        for policy in ("classic-2p", str(tmp_path / "p.onnx"))
    )
    assert (after.margin, after.wins, after.points) == (before.margin, before.wins, before.points)
    learned, file = load_policy("classic-2p"), load_policy(tmp_path / "p.onnx")
    assert isinstance(learned, LearnedPolicy)
    assert isinstance(file, ONNXPolicy)
    assert file.card.model_dump() == learned.card.model_dump(exclude={"network"})
    batch = Batch(8)
    batch.reset(0)
    np.testing.assert_allclose(
        file.margins(batch.views()), learned.margins(batch.views()), atol=1e-4
    )


def test_a_file_can_sample(exported):
    batch = Batch(4000)
    batch.reset(0, game_indices=np.arange(4000))
    views = batch.views()
    sampling = load_policy(f"{exported}:sample=true")
    actions = sampling.act(views)
    np.testing.assert_array_equal(actions, sampling.act(views))
    expected = sampling.probabilities(views).sum(0)
    found = np.bincount(actions, minlength=43)
    assert np.abs(found - expected).max() < 5 * np.sqrt(expected.max())


def test_everything_that_takes_a_policy_takes_a_file(exported, tmp_path):
    from escoba_env.envs.vector import EscobaVectorEnv
    from escoba_env.evaluation import tournament
    from escoba_env.replay import play_game

    name = str(exported)
    assert play_game([name, "random"]).policies[0] == name
    EscobaVectorEnv(2, opponents=name).reset(seed=0)
    batch = Batch(1)
    batch.reset(0)
    assert load_policy(f"search:worlds=2,rollout={name}").act(batch.views()).shape == (1,)
    assert load_policy(f"ismcts:iterations=5,policy={name}").act(batch.views()).shape == (1,)
    tournament([name, "random"], deals=4, folder=tmp_path / "t")


def test_results_of_a_file_are_not_taken_for_those_of_another(exported, tmp_path):
    from escoba_env.evaluation.units import identify

    first = changed(exported, tmp_path / "a.onnx", lambda model: None)
    before = identify(str(first))
    changed(exported, first, lambda model: setattr(model, "producer_name", "other"))
    assert identify(str(first)) != before
    assert identify(f"search:rollout={first}") != identify(f"search:rollout={exported}")


def test_a_network_is_left_as_it_was(tmp_path):
    module = Linear().train()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    save_onnx(module, tmp_path / "x.onnx", encoding=COMPACT, name="x")
    assert module.training
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())


@pytest.mark.parametrize("rows", [1, 2, 300])
def test_any_number_of_decisions_is_one_call(exported, rows):
    batch = Batch(rows)
    batch.reset(0)
    assert load_policy(exported).act(batch.views()).shape == (rows,)


def test_what_a_file_says_of_illegal_actions_does_not_matter(tmp_path):
    module = Linear()
    with torch.no_grad():
        module.layer.weight.zero_()
        module.layer.bias.copy_(torch.arange(43.0))
    save_onnx(module, tmp_path / "x.onnx", encoding=COMPACT, name="x")
    batch = Batch(50)
    batch.reset(0)
    actions = load_policy(tmp_path / "x.onnx").act(batch.views())
    masks = batch.legal_masks()
    np.testing.assert_array_equal(actions, 42 - masks[:, ::-1].argmax(1))


# -- what is refused ------------------------------------------------------------------------


def _retyped(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE


def _renamed_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = "scores"
    for node in model.graph.node:
        node.output[:] = ["scores" if name == "logits" else name for name in node.output]


def _fixed_rows(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


def _no_card(model: onnx.ModelProto) -> None:
    del model.metadata_props[:]


def _with_card(**fields: object):
    def change(model: onnx.ModelProto) -> None:
        card = json.loads(model.metadata_props[0].value)
        helper.set_model_props(model, {METADATA_KEY: json.dumps({**card, **fields})})

    return change


def _external(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")


def _foreign_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "RunShell"
    model.graph.node[0].domain = "evil"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_retyped, "cannot be run|input observation is tensor"),
        (_renamed_output, r"outputs \['scores'\]"),
        (_fixed_rows, "input observation is tensor"),
        (_no_card, "has no card"),
        (_with_card(format_version=2), "format version 2; this version reads 1"),
        (_with_card(encoding_version=99), "version 99; this version writes"),
        (
            _with_card(encoding="tactical", encoding_version=VERSIONS["tactical"]),
            "its card allows",
        ),
        (_with_card(rules={"players": 3}), "its card allows"),
        (_with_card(rules={"players": 7}), "players"),
        (_with_card(surprise=1), "is not a card: surprise"),
        (_external, "in other files"),
        (_foreign_operator, "operation 'RunShell' is of 'evil'; allowed: those of ONNX"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(change, message, exported, tmp_path):
    path = changed(exported, tmp_path / "bad.onnx", change)
    with pytest.raises(CheckpointError, match=message):
        load_policy(path)


def _before(*nodes: onnx.NodeProto, **numbers: int):
    """Adds something to a model: its nodes give ``zero``, which is added to the logits."""

    def change(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.output[:] = ["raw" if name == "logits" else name for name in node.output]
        for name, number in numbers.items():
            array = np.array(number, np.int64)
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        model.graph.node.extend(nodes)
        model.graph.node.append(helper.make_node("Add", ["raw", "zero"], ["logits"]))

    return change


def _body(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    """Of a loop that carries ``x``; its nodes give ``y``."""
    value = helper.make_tensor_value_info
    keep = helper.make_node("Identity", ["go"], ["still"])
    return helper.make_graph(
        [keep, *nodes], "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []),
         value("x", TensorProto.FLOAT, None)],
        [value("still", TensorProto.BOOL, []), value("y", TensorProto.FLOAT, None)],
    )  # fmt: skip


_HALF = helper.make_node("Mul", ["x", "x"], ["y"])
_LOOP = helper.make_node("Loop", ["trips", "", "raw"], ["zero"], body=_body(_HALF))
_INNER = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=_body(_HALF))
_NESTED = helper.make_node("Loop", ["trips", "", "raw"], ["zero"], body=_body(_INNER))
_COUNTED = helper.make_node("Loop", ["computed", "", "raw"], ["zero"], body=_body(_HALF))
_COMPUTE = helper.make_node("Mul", ["trips", "trips"], ["computed"])
_ENDLESS = helper.make_node("Loop", ["", "go", "raw"], ["zero"], body=_body(_HALF))
_GO = helper.make_node("Constant", [], ["go"], value=helper.make_tensor("t", 9, [], [True]))


def _tower(model: onnx.ModelProto) -> None:
    """Thirty functions that call the one before them twice."""
    opset = helper.make_opsetid("", 18), helper.make_opsetid("tower", 1)
    last = [helper.make_node("Abs", ["x"], ["y"])]
    for level in range(30):
        name = f"f{level}"
        model.functions.append(helper.make_function("tower", name, ["x"], ["y"], last, opset))
        last = [
            helper.make_node(name, ["x"], ["a"], domain="tower"),
            helper.make_node(name, ["a"], ["y"], domain="tower"),
        ]
    model.opset_import.append(opset[1])
    _before(helper.make_node("f29", ["raw"], ["zero"], domain="tower"))(model)


def _calls_itself(model: onnx.ModelProto) -> None:
    opset = helper.make_opsetid("", 18), helper.make_opsetid("tower", 1)
    body = [helper.make_node("f", ["x"], ["y"], domain="tower")]
    model.functions.append(helper.make_function("tower", "f", ["x"], ["y"], body, opset))
    model.opset_import.append(opset[1])
    _before(helper.make_node("f", ["raw"], ["zero"], domain="tower"))(model)


def _many(model: onnx.ModelProto) -> None:
    _before(*(helper.make_node("Abs", ["raw"], ["zero"]) for _ in range(20_001)))(model)


def _sparse(model: onnx.ModelProto) -> None:
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [1.0])
    places = helper.make_tensor("p", TensorProto.INT64, [1], [0])
    sparse = helper.make_sparse_tensor(values, places, [1 << 20, 1 << 20])
    model.graph.sparse_initializer.append(sparse)


_ZEROS = helper.make_node("ConstantOfShape", ["shape"], ["zero"])


def _zeros(model: onnx.ModelProto) -> None:
    shape = numpy_helper.from_array(np.array([1 << 20, 1 << 20]), "shape")
    model.graph.initializer.append(shape)
    _before(_ZEROS)(model)


def _computed_zeros(model: onnx.ModelProto) -> None:
    one = numpy_helper.from_array(np.array([1 << 20]), "rows")
    model.graph.initializer.append(one)
    shape = helper.make_node("Concat", ["rows", "rows"], ["shape"], axis=0)
    _before(shape, _ZEROS)(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_before(_LOOP, trips=1 << 62), "does more than 20000 operations in a call"),
        (_before(_NESTED, trips=10_000), "does more than 20000 operations in a call"),
        (_before(_COMPUTE, _COUNTED, trips=1 << 31), "Loop has no constant number of trips"),
        (_before(_GO, _ENDLESS), "Loop has no constant number of trips"),
        (_tower, "does more than 20000 operations|nested deeper than 16"),
        (_calls_itself, "nested deeper than 16"),
        (_many, r"has \d+ operations; allowed: 20000"),
        (_sparse, "has sparse tensors; allowed: dense ones"),
        (_zeros, r"tensor of the shape \[1048576, 1048576\]"),
        (_computed_zeros, r"tensor of the shape \[1048576, 1048576\]"),
    ],
)
def test_a_file_that_asks_for_too_much_is_refused_at_once(change, message, exported, tmp_path):
    path = changed(exported, tmp_path / "bad.onnx", change)
    begin = time.perf_counter()
    with pytest.raises(CheckpointError, match=message):
        load_policy(path)
    assert time.perf_counter() - begin < 5


def test_a_file_with_a_short_loop_and_a_function_plays(exported, tmp_path):
    def change(model: onnx.ModelProto) -> None:
        opset = helper.make_opsetid("", 18), helper.make_opsetid("own", 1)
        body = [helper.make_node("Sub", ["x", "x"], ["y"])]
        model.functions.append(helper.make_function("own", "f", ["x"], ["y"], body, opset))
        model.opset_import.append(opset[1])
        loop = helper.make_node("Loop", ["trips", "", "raw"], ["some"], body=_body(_HALF))
        _before(loop, helper.make_node("f", ["some"], ["zero"], domain="own"), trips=3)(model)

    path = changed(exported, tmp_path / "good.onnx", change)
    views = Batch(8).views()
    expected = load_policy(exported).act(views)
    np.testing.assert_array_equal(load_policy(path).act(views), expected)


def test_a_file_that_takes_long_is_given_up(exported, tmp_path, monkeypatch):
    """Small, and with no loop: one matrix multiplied with itself again and again."""
    monkeypatch.setattr(adapter, "_TRIAL_SECONDS", 0.3)

    def change(model: onnx.ModelProto) -> None:
        side = numpy_helper.from_array(np.array([1500, 1500]), "shape")
        model.graph.initializer.append(side)
        nodes = [helper.make_node("ConstantOfShape", ["shape"], ["m0"])]
        nodes += [helper.make_node("MatMul", [f"m{k}", "m0"], [f"m{k + 1}"]) for k in range(200)]
        nodes.append(helper.make_node("ReduceSum", ["m200"], ["zero"], keepdims=0))
        _before(*nodes)(model)

    path = changed(exported, tmp_path / "bad.onnx", change)
    begin = time.perf_counter()
    with pytest.raises(CheckpointError, match=r"takes longer than 0.3 s for a few decisions"):
        load_policy(path)
    assert time.perf_counter() - begin < 20


def test_a_file_is_read_as_onnx_even_if_the_runtime_would_take_it_for_its_own_format(
    exported, tmp_path
):
    path = changed(
        exported, tmp_path / "x.onnx", lambda model: setattr(model, "producer_name", "ORTM")
    )
    # What onnxruntime knows its own format by.
    assert path.read_bytes()[4:8] == b"ORTM"
    views = Batch(8).views()
    expected = load_policy(exported).act(views)
    np.testing.assert_array_equal(load_policy(path).act(views), expected)


def test_the_runtime_gets_what_was_checked_and_nothing_else(exported, tmp_path, monkeypatch):
    """Fields that the checks do not know, and a second reading of the same bytes."""
    unknown = b"\xfa\x7f\x04evil"
    path = tmp_path / "x.onnx"
    path.write_bytes(exported.read_bytes() + unknown)
    given = []

    class Session:
        def __init__(self, content: bytes, *_args, **_kwargs) -> None:
            given.append(content)
            raise RuntimeError("stop")

    monkeypatch.setattr("onnxruntime.InferenceSession", Session)
    with pytest.raises(CheckpointError, match="stop"):
        load_policy(path)
    (content,) = given
    assert b"evil" not in content
    assert METADATA_KEY.encode() not in content


def _cast_output(kind: int):
    def change(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.output[:] = ["raw" if name == "logits" else name for name in node.output]
        model.graph.node.append(helper.make_node("Cast", ["raw"], ["logits"], to=kind))
        model.graph.output[0].type.tensor_type.elem_type = kind

    return change


def _one_row(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        node.output[:] = ["raw" if name == "logits" else name for name in node.output]
    model.graph.initializer.append(helper.make_tensor("shape", TensorProto.INT64, [2], [1, 43]))
    model.graph.node.append(helper.make_node("Reshape", ["raw", "shape"], ["logits"]))


@pytest.mark.parametrize(
    "change",
    [*(_cast_output(getattr(TensorProto, kind)) for kind in ("DOUBLE", "INT64", "STRING", "BOOL",
       "FLOAT16")), _one_row],
)  # fmt: skip
def test_outputs_of_another_kind_are_refused_when_loaded(change, exported, tmp_path):
    path = changed(exported, tmp_path / "bad.onnx", change)
    with pytest.raises(CheckpointError, match=r"bad\.onnx"):
        load_policy(path)


def test_a_huge_card_is_refused(exported, tmp_path):
    path = changed(exported, tmp_path / "bad.onnx", _with_card(training={"x": "y" * (1 << 20)}))
    with pytest.raises(CheckpointError, match="larger than"):
        load_policy(path)


@pytest.mark.parametrize("name", ["\x1b[31mred", "two\nlines", "x" * 201, ""])
def test_a_name_that_is_none_is_refused(name, exported, tmp_path):
    path = changed(exported, tmp_path / "bad.onnx", _with_card(name=name))
    with pytest.raises(CheckpointError, match="is not a card: name"):
        load_policy(path)


@pytest.mark.parametrize("content", [b"", b"not onnx at all", b"\x80\x04\x95"])
def test_a_file_that_is_no_onnx_is_refused(content, tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"bad\.onnx"):
        load_policy(path)


def test_a_truncated_file_is_refused(exported, tmp_path):
    content = exported.read_bytes()
    for length in range(0, len(content), len(content) // 7):
        path = tmp_path / "cut.onnx"
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"cut\.onnx"):
            load_policy(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"none\.onnx cannot be read"):
        load_policy(tmp_path / "none.onnx")


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused_before_it_is_read(target, tmp_path):
    (tmp_path / "x.onnx").symlink_to(target)
    with pytest.raises(CheckpointError, match="it is a device; allowed: a regular file"):
        load_policy(tmp_path / "x.onnx")


def test_a_folder_is_refused(tmp_path):
    (tmp_path / "x.onnx").mkdir()
    with pytest.raises(ValueError, match=r"x\.onnx"):
        load_policy(tmp_path / "x.onnx")


@pytest.mark.parametrize("scale", [0, -1, True, "0.5", None])
def test_values_in_a_scale_that_is_none_are_no_margins(scale, tmp_path):
    policy = make_policy(training={"config": {"reward": "margin", "reward_scale": scale}})
    assert not policy.expects_margins


def test_an_unknown_option_of_a_file_is_refused(exported):
    with pytest.raises(ValueError, match="'depth' is unknown; allowed: sample"):
        load_policy(f"{exported}:depth=3")


def test_another_table_is_refused_when_played(exported):
    batch = Batch(1, "classic", players=3)
    batch.reset(0)
    with pytest.raises(ValueError, match="'linear' was trained for"):
        load_policy(exported).act(batch.views())


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    module = Linear()
    with torch.no_grad():
        module.layer.bias.fill_(torch.inf)
    with pytest.raises(ValueError, match="not finite"):
        save_onnx(module, tmp_path / "x.onnx", encoding=COMPACT, name="x")


@pytest.mark.parametrize("name", ["random", "counting", "search"])
def test_what_is_no_network_is_not_exported(name, tmp_path):
    with pytest.raises(ValueError, match=f"'{name}.*' is not possible; allowed: checkpoints"):
        export_policy(load_policy(name), tmp_path / "x.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Linear(inputs=7), "cannot be called with observations"),
        (Linear(outputs=42), r"returns shapes \[\(2, 42\)\] for 2 rows; allowed: logits \(2, 43\)"),
    ],
)
def test_a_network_that_does_not_fit_is_not_written(module, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        save_onnx(module, tmp_path / "x.onnx", encoding=COMPACT, name="x")
    assert not list(tmp_path.iterdir())


class FirstRowOnly(Linear):
    """Written for one decision at a time: it repeats the first row's answer."""

    def forward(self, observation: torch.Tensor, action_mask: torch.Tensor) -> torch.Tensor:
        return self.layer(observation[:1]).repeat(len(observation.tolist()), 1)


def test_a_network_for_a_fixed_number_of_rows_is_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"cannot be exported|other numbers|its card allows"):
        save_onnx(FirstRowOnly(), tmp_path / "x.onnx", encoding=COMPACT, name="x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["x", "x.pt", "x.onnx.zip"])
def test_a_path_that_is_no_onnx_file_is_refused(path, tmp_path):
    with pytest.raises(ValueError, match=r"allowed: NAME\.onnx"):
        save_onnx(Linear(), tmp_path / path, encoding=COMPACT, name="x")
