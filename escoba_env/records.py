"""``check_records``: arrays of game records that come from a file, checked before any use."""

from __future__ import annotations

from typing import Any

import numpy as np

from escoba_env.batch import Records
from escoba_env.engine.check import first_impossible
from escoba_env.engine.record import NOBODY, PLAYING, STATE, copy_records, lower
from escoba_env.position import MAX_COUNT, MAX_SCORE, check_position
from escoba_env.rules import Rules

_AT_ONCE = 1 << 16
"""Records that are checked at once, 25 MB of them."""


def check_records(rules: Rules, records: Records, *, views: bool) -> None:
    """Checks game records that come from a file or from elsewhere.

    The kernels trust every record that they are given: one that says ``turn=100`` ends the process.
    This refuses what they cannot take. Like ``check_position`` it sees that cards, hands, piles,
    log and legal actions fit each other, but not that scores are those of the rounds before.

    Args:
        rules: Rules of the table.
        records: Array (n,) of dtype ``STATE``; it may be read-only.
        views: Whether these must be views of the seat to move, or else whole games.

    Raises:
        ValueError: If this is another kind of array, or a record is not possible under these rules
            or not of the kind asked for; the message names the first such record by its position.
    """
    given: Any = records
    if not isinstance(given, np.ndarray) or given.dtype != STATE or given.ndim != 1:
        found = (
            f"{given.dtype} of shape {given.shape}"
            if isinstance(given, np.ndarray)
            else type(given).__name__
        )
        raise ValueError(
            f"game records are {found:.80}; allowed: an array of one dimension and the dtype STATE"
        )
    for start in range(0, len(given), _AT_ONCE):
        # A copy is aligned and writeable, which compiled kernels rely on.
        part = copy_records(given[start : start + _AT_ONCE])
        bad = first_impossible(lower(rules), part, MAX_SCORE, MAX_COUNT)
        kind = (part["viewer"] == part["turn"]) & (part["phase"] == PLAYING)
        if not views:
            kind = part["viewer"] == NOBODY
        wrong = np.flatnonzero(~kind)
        if wrong.size and (bad < 0 or wrong[0] < bad):
            raise ValueError(
                f"game record {start + wrong[0]} is not possible: it is no "
                f"{'view of the seat to move' if views else 'whole game'}"
            )
        if bad >= 0:
            raise ValueError(f"game record {start + bad} is not possible: {_why(rules, part[bad])}")


def _why(rules: Rules, record: Any) -> str:
    try:
        check_position(rules, record)
    except ValueError as error:
        return str(error)
    return "it contradicts itself in what a view does not show"
