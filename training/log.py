"""The log of a run, TensorBoard and CSV: one history, however often the run was stopped."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from stable_baselines3.common.logger import CSVOutputFormat, Logger, TensorBoardOutputFormat
from torch.utils.tensorboard import SummaryWriter

from escoba_env.files import write_whole

DECISIONS = "time/decisions"
"""The column that says when a line was written."""


def open_log(folder: Path, decisions: int) -> Logger:
    """Opens the log of a run for another sitting.

    Args:
        folder: Its folder.
        decisions: Where the run goes on; what was logged after that was lost with a kill and is
            learned again.

    Raises:
        OSError: If it cannot be written.
        ValueError: Likewise.
    """
    folder.mkdir(parents=True, exist_ok=True)
    latest = folder / "progress.csv"
    if latest.exists():
        # The CSV writer begins its file anew.
        latest.rename(folder / f"progress-{len(list(folder.glob('*.csv')))}.csv")
    for path in folder.glob("progress-*.csv"):
        _cut(path, decisions)
    return Logger(str(folder), [_TensorBoard(folder, decisions), CSVOutputFormat(str(latest))])


class _TensorBoard(TensorBoardOutputFormat):
    def __init__(self, folder: Path, decisions: int) -> None:
        # What other sittings logged from there on is not shown any more.
        self.writer = SummaryWriter(str(folder), purge_step=decisions + 1 if decisions else None)
        self._is_closed = False


def _cut(path: Path, decisions: int) -> None:
    """Drops the lines after a number of decisions; a log of an earlier version does not say."""
    lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    kept = [line for line in lines if int(line.get(DECISIONS) or 0) <= decisions]
    if len(kept) < len(lines):
        text = io.StringIO()
        writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(kept)
        write_whole(path, text.getvalue())
