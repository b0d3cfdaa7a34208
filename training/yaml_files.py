"""``read_yaml``: reads a small YAML file strictly, and says what is wrong with it by line.

YAML lets the last of two equal keys win, nests without end and repeats by aliases: a file that was
meant to do that is rarer than a mistake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from escoba_env.files import brief, read_whole

MAX_BYTES = 1 << 18
MAX_DEPTH = 32
MAX_NODES = 20_000
"""Values of a file, those behind an alias counted wherever it stands."""

_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, yaml.YAMLError)
"""What values of a wrong kind end in, such as ``!!timestamp soon`` or a date in month 13."""


def read_yaml(path: Path) -> Any:
    """Reads a config; nothing in it is run.

    Raises:
        ValueError: If it is no regular file, too large, not YAML, nested too deeply, or if a key
            stands twice in a mapping.
    """
    data = read_whole(path, MAX_BYTES, name="config")
    try:
        loader = yaml.SafeLoader(data.decode("utf-8"))
        node = loader.get_single_node()
        if node is None:
            return None
        faults = list(_faults(loader, node))
        if not faults:
            return loader.construct_document(node)
    except RecursionError:
        faults = [f"it is nested more than {MAX_DEPTH} deep"]
    except _DAMAGE as error:
        faults = [" ".join(str(error).split()) or type(error).__name__]
    raise ValueError(f"config {brief(str(path))} cannot be read: {'; '.join(faults)}")


def _faults(loader: yaml.SafeLoader, top: yaml.Node) -> Iterator[str]:
    """Finds what the library itself lets pass."""
    waiting = deque([(top, 0)])
    seen = 0
    while waiting:
        node, depth = waiting.popleft()
        seen += 1
        line = node.start_mark.line + 1
        if depth > MAX_DEPTH:
            yield f"line {line} is nested more than {MAX_DEPTH} deep"
            return
        if seen > MAX_NODES:
            yield f"it has more than {MAX_NODES:,} values, aliases counted"
            return
        if isinstance(node, yaml.MappingNode):
            yield from _twice(loader, node)
            waiting += [(part, depth + 1) for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(part, depth + 1) for part in node.value]


def _twice(loader: yaml.SafeLoader, node: yaml.MappingNode) -> Iterator[str]:
    lines: dict[Any, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            yield f"the key in line {line} is no single value"
            continue
        # By value: 1 and 0x1 are one key.
        value = key.value if key.tag.endswith(":merge") else loader.construct_object(key)
        if value in lines:
            yield f"key {value!r:.80} is given twice, in lines {lines[value]} and {line}"
        lines.setdefault(value, line)
