"""Results as JSON, as a table for the terminal and as the tables of the README."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bars import Verdict, check
from benchmarks.runner import Result, from_dict

FORMAT = 1
"""Version of the JSON."""

OWN_PACKAGES = ("escoba-env", "numpy", "numba", "gymnasium", "pettingzoo", "torch")
START, END = "<!-- benchmarks: start -->", "<!-- benchmarks: end -->"


# -- JSON -----------------------------------------------------------------------------------


def processor() -> str:
    """Model of the processor, as far as it is known."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def load_now() -> float | None:
    """Processes that want to run, on average of the last minute, where the system says so."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def as_dict(
    results: Sequence[Result],
    settings: dict[str, Any],
    peers: Sequence[str],
    load: float | None = None,
) -> Any:
    """Returns what the JSON file holds.

    Args:
        results: Of a run.
        settings: How it was run.
        peers: Distributions whose versions are noted, beside this package's.
        load: The machine's load before the run.
    """
    return {
        "format": FORMAT,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
            "load": load,
        },
        "versions": versions(dict.fromkeys([*OWN_PACKAGES, *peers])),
        "settings": settings,
        "results": [result.as_dict() for result in results],
        "bars": [
            {"bar": verdict.bar.text, "value": verdict.value, "holds": verdict.holds}
            for verdict in check(results)
        ],
    }


def dump(data: Any) -> str:
    """Returns the text of a JSON file: a line for each result."""
    lines = ",\n  ".join(json.dumps(result) for result in data["results"])
    shell = json.dumps({**data, "results": []}, indent=1)
    return shell.replace('"results": []', f'"results": [\n  {lines}\n ]') + "\n"


def results_of(data: Any) -> list[Result]:
    """Returns the results that a JSON file holds.

    Raises:
        ValueError: If it is of another format.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"not a benchmark file of format {FORMAT}")
    return [from_dict(result) for result in data["results"]]


# -- numbers in words -----------------------------------------------------------------------


def amount(value: float) -> str:
    """Three significant digits, with thousands separated."""
    if value >= 1000:
        digits = 2 - int(np.floor(np.log10(value)))
        return f"{round(value, digits):,.0f}"
    return f"{value:.3g}"


def machine_line(data: Any) -> str:
    machine = data["machine"]
    text = f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}"
    installed = ", ".join(
        f"{name} {number}" for name, number in data["versions"].items() if number != "not installed"
    )
    busy = "" if machine["load"] is None else f", load {machine['load']} before the run"
    return f"{text}{busy}; {installed}; {data['date']}"


def calibration_line(results: Sequence[Result]) -> str:
    """The fixed work, in one line."""
    parts = [
        f"{result.name} {amount(result.median)}"
        for result in results
        if result.group == "Calibration"
    ]
    return f"calibration (items/s): {', '.join(parts) or 'not run'}"


# -- the terminal ---------------------------------------------------------------------------


def table(data: Any) -> str:
    """Returns everything that was measured, as text."""
    results = results_of(data)
    width = max((len(result.name) for result in results), default=0)
    lines = [machine_line(data), calibration_line(results)]
    for group, members in groupby(results, key=lambda result: result.group):
        lines += ["", group]
        for result in members:
            if result.missing:
                lines.append(f"  {result.name:{width}}  {result.missing}")
                continue
            clock = "" if result.values else f"  {result.clock:4}"
            lines.append(
                f"  {result.name:{width}}  {amount(result.median):>12} {result.unit:11}"
                f" ±{result.spread:4.0%}{clock}  {result.note}".rstrip()
            )
    verdicts = check(results)
    if verdicts:
        lines += ["", "Bars", *bar_lines(verdicts)]
    return "\n".join(lines)


def bar_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Returns one line for each bar."""
    lines = []
    for verdict in verdicts:
        if verdict.value is None:
            lines.append(f"  ----  {verdict.bar.text}: {verdict.missing}")
        else:
            word = "ok" if verdict.holds else "FAIL"
            lines.append(
                f"  {word:4}  {verdict.bar.text}: {amount(verdict.value)} {verdict.unit}".rstrip()
            )
    return lines


# -- the README -----------------------------------------------------------------------------

README_ROWS = (
    ("engine", "random play inside the engine, no observations"),
    ("engine 2 threads", "the same, 2 threads"),
    ("batch 1024", "`Batch`, 1,024 games, `compact` observation and mask"),
    ("batch 4096 2 threads", "`Batch`, 4,096 games, 2 threads"),
    ("batch 1024 uint8", "`Batch`, 1,024 games, `uint8`"),
    ("batch 1024 tactical", "`Batch`, 1,024 games, `tactical`"),
    ("batch 1024 universal", "`Batch`, 1,024 games, `universal`"),
    ("batch 1", "`Batch` of one game"),
    ("sb3 vecenv 1024", "`EscobaVecEnv`, 1,024 games against `random`, all seats counted"),
    ("aec", "PettingZoo AEC, the documentation's loop"),
    ("aec cheap sampler", "PettingZoo AEC, a cheap sampler"),
    ("gymnasium against random", "Gymnasium against `random`, the learner's decisions"),
    ("self-play", "self-play training, `configs/quick.yaml`, one thread"),
    ("stock MaskablePPO", "stock MaskablePPO on an environment that costs nothing, one thread"),
    ("OpenSpiel hearts in C++", "OpenSpiel hearts, `evaluate_bots` in C++, no observations"),
    ("OpenSpiel dou_dizhu in C++", "OpenSpiel dou_dizhu, `evaluate_bots` in C++, no observations"),
    ("OpenSpiel hearts from Python", "OpenSpiel hearts from Python, `Observer`"),
    ("OpenSpiel crazy_eights from Python", "OpenSpiel crazy_eights from Python, `Observer`"),
    ("pgx bridge_bidding", "pgx bridge_bidding on CPU, its best batch"),
    ("EnvPool Blackjack", "EnvPool Blackjack, its best batch"),
    ("RLCard limit-holdem", "RLCard limit-holdem"),
    ("PettingZoo texas_holdem", "PettingZoo texas_holdem, the documentation's loop"),
    ("PettingZoo texas_holdem cheap sampler", "PettingZoo texas_holdem, a cheap sampler"),
    ("PettingZoo connect_four", "PettingZoo connect_four, the documentation's loop"),
)
"""Cases that the README shows, and what it calls them."""


def readme_table(data: Any) -> str:
    """Returns the README's part between its markers, in Markdown."""
    found = {result.name: result for result in results_of(data)}
    lines = ["| | decisions/s |", "| --- | ---: |"]
    for name, title in README_ROWS:
        if name in found:
            result = found[name]
            lines.append(f"| {title} | {result.missing or amount(result.median)} |")
    ratios = [
        f"| {' or '.join(verdict.bar.left)} over {verdict.bar.right}"
        f" | {'not measured' if verdict.value is None else amount(verdict.value)} |"
        for verdict in check(list(found.values()))
        if verdict.bar.right
    ]
    if ratios:
        lines += ["", "| in the same run (names as in `--list`) | times as fast |"]
        lines += ["| --- | ---: |", *ratios]
    starts = [
        f"{title} {amount(found[name].median)} {found[name].unit} ({found[name].note})"
        for name, title in (
            ("a game of a batch", "A game of a batch takes"),
            ("first step, nothing compiled", "the first step after installation"),
            ("first step, compiled before", "later ones, from the start of Python,"),
        )
        if name in found
    ]
    if starts:
        lines += ["", "; ".join(starts) + "."]
    lines += ["", f"{machine_line(data)}; {calibration_line(list(found.values()))}."]
    return "\n".join(lines)


def write_readme(path: Path, data: Any) -> None:
    """Puts the table between the README's markers.

    Raises:
        ValueError: If there are no markers.
    """
    text = path.read_text(encoding="utf-8")
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"{path.name} has no lines {START} and {END}")
    table = f"{before}{START}\n{readme_table(data)}\n{END}{after}"
    path.write_text(table, encoding="utf-8")
