"""Bounds of what an ONNX file may ask for, checked before the runtime gets it.

A small file can ask for any amount of work: a loop of 2^62 trips, functions that call each other in
a tower, a tensor of 2^40 zeros. A network that scores actions needs none of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

MAX_NODES = 20_000
"""Operations of one call, those of functions and of loops counted as often as they are done."""
MAX_ELEMENTS = 1 << 26
"""Numbers in one tensor, for one row where they depend on the number of rows."""
MAX_DEPTH = 16
"""Functions, branches and loops inside each other."""

_DOMAINS = {"", "ai.onnx", "ai.onnx.ml"}
_UNBOUNDED = {"Scan", "SequenceMap"}
"""Operations that repeat a graph as often as their input is long."""


def check_bounds(onnx: Any, model: Any) -> None:
    """Checks that a model asks for operations of ONNX alone, and for a bounded amount of them.

    Args:
        onnx: The module.
        model: A ``ModelProto``.

    Raises:
        ValueError: If it does not.
    """
    nodes = 0
    for message in _messages(model):
        kind = message.DESCRIPTOR.name
        if kind == "TensorProto":
            if message.external_data or message.data_location:
                raise ValueError("it keeps numbers in other files; allowed: one file")
            _check_size(message.dims)
        elif kind == "SparseTensorProto":
            raise ValueError("it has sparse tensors; allowed: dense ones")
        elif kind == "TrainingInfoProto":
            raise ValueError("it has a training graph; allowed: a network alone")
        nodes += kind == "NodeProto"
    if nodes > MAX_NODES:
        raise ValueError(f"it has {nodes} operations; allowed: {MAX_NODES}")
    _Counter(onnx, model).check()
    _check_shapes(onnx, model)


class _Counter:
    """Counts the operations of one call of a model."""

    def __init__(self, onnx: Any, model: Any) -> None:
        self._onnx = onnx
        self._graph = model.graph
        self._functions = {_key(function.name, function): function for function in model.functions}
        self._counts: dict[tuple[str, str, str], int] = {}

    def check(self) -> None:
        """Counts the operations.

        Raises:
            ValueError: If they are too many, or nobody can count them.
        """
        self._graph_count(self._graph, {}, 0)

    def _graph_count(self, graph: Any, outside: Mapping[str, Any], depth: int) -> int:
        known = {**outside, **{tensor.name: tensor for tensor in graph.initializer}}
        if depth > 0:
            # What a loop or branch is given has its name to itself.
            for given in graph.input:
                known.pop(given.name, None)
        return self._count(graph.node, known, depth)

    def _count(self, nodes: Any, known: dict[str, Any], depth: int) -> int:
        if depth > MAX_DEPTH:
            raise ValueError(f"its functions or branches are nested deeper than {MAX_DEPTH}")
        for node in nodes:
            if node.op_type == "Constant" and node.output:
                known[node.output[0]] = node
        count = 0
        for node in nodes:
            count += self._node_count(node, known, depth)
            if count > MAX_NODES:
                raise ValueError(f"it does more than {MAX_NODES} operations in a call")
        return count

    def _node_count(self, node: Any, known: Mapping[str, Any], depth: int) -> int:
        key = _key(node.op_type, node)
        if key in self._functions:
            return self._function_count(key, depth)
        if node.domain not in _DOMAINS:
            raise ValueError(
                f"operation {node.op_type!r} is of {node.domain!r}; allowed: those of ONNX"
            )
        if node.op_type in _UNBOUNDED:
            raise ValueError(f"operation {node.op_type} is not allowed")
        inner = 0
        for attribute in node.attribute:
            graphs = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
            for graph in graphs:
                inner += self._graph_count(graph, known, depth + 1)
        if node.op_type == "Loop":
            trips = self._number(known.get(node.input[0] if node.input else ""))
            if trips is None:
                raise ValueError("operation Loop has no constant number of trips")
            inner *= trips
        return 1 + inner

    def _function_count(self, key: tuple[str, str, str], depth: int) -> int:
        if key not in self._counts:
            # Of a function that calls itself the depth has no end.
            self._counts[key] = self._count(self._functions[key].node, {}, depth + 1)
        return self._counts[key]

    def _number(self, source: Any) -> int | None:
        """A constant whole number; none if it is something else."""
        if source is None:
            return None
        if source.DESCRIPTOR.name == "NodeProto":
            values = [a for a in source.attribute if a.name in ("value", "value_int")]
            if len(values) != 1 or values[0].ref_attr_name:
                return None
            if values[0].name == "value_int":
                return max(0, int(values[0].i))
            source = values[0].t
        array = self._onnx.numpy_helper.to_array(source)
        return max(0, int(array.reshape(-1)[0])) if array.size == 1 else None


def _key(name: str, message: Any) -> tuple[str, str, str]:
    # Older versions have no overloads.
    return message.domain, name, getattr(message, "overload", "")


def _messages(message: Any) -> Iterator[Any]:
    """All parts of a message, itself among them."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                if hasattr(part, "ListFields"):
                    yield from _messages(part)


def _check_shapes(onnx: Any, model: Any) -> None:
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for message in _messages(inferred):
        if message.DESCRIPTOR.name == "TensorShapeProto":
            _check_size([dim.dim_value for dim in message.dim if dim.HasField("dim_value")])


def _check_size(dims: Any) -> None:
    if any(size < 0 for size in dims) or math.prod(dims) > MAX_ELEMENTS:
        raise ValueError(f"it has a tensor of the shape {list(dims)[:8]}; allowed: {MAX_ELEMENTS}")
