"""Times this package and its peers in one run: a table on stdout, and JSON beside it.

    python tests/benchmarks/run.py                     # all that is installed, a few minutes
    python tests/benchmarks/run.py --only batch --only EnvPool --repeats 9
    python tests/benchmarks/run.py --check             # exit status 1 where a bar fails
    python tests/benchmarks/run.py --from runs/benchmarks.json --readme

For the peers: ``pip install -c constraints.txt -r tests/benchmarks/requirements.txt``. What is not
installed is said to be so. All cases play random legal actions; decisions of players are counted,
moves of chance are not. Only the ratios within a run mean anything on a machine with other work.
"""

# ruff: noqa: T201, E402, prints for a person; sets the path up first

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if not __package__:
    # Run as a file: its own folder would give these modules a second name.
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]

from benchmarks import ours, peers, report
from benchmarks.bars import BARS, check
from benchmarks.runner import Case, Measure, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n\n")[0],
        epilog=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        help="cases whose name or group matches, such as 'batch*' or a part of a name; repeatable",
    )
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument(
        "--seconds", type=float, default=0.4, help="seconds of each repetition (default: 0.4)"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=ROOT / "runs" / "benchmarks.json",
        metavar="FILE",
        help="where results go (default: runs/benchmarks.json)",
    )
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FILE", help="show results of an earlier run"
    )
    parser.add_argument("--list", action="store_true", help="list the cases and bars, run none")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bar fails")
    args = parser.parse_args(arguments)
    if args.repeats < 1 or args.seconds <= 0:
        parser.error("--repeats is at least 1, and --seconds above 0")
    if args.readme and args.only:
        parser.error("--readme takes a run of all cases")

    cases = chosen(args.only)
    if args.list:
        print(listing(cases))
        return 0
    if args.source:
        try:
            data = json.loads(args.source.read_text(encoding="utf-8"))
            results = report.results_of(data)
        except (OSError, ValueError) as error:
            parser.error(f"{args.source}: {error}")
    else:
        if not cases:
            parser.error("no case matches --only; --list shows them all")
        load = report.load_now()
        results = run(cases, args.repeats, args.seconds, progress)
        settings = {"repeats": args.repeats, "seconds": args.seconds}
        data = report.as_dict(results, settings, peers.PACKAGES, load)
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(report.dump(data), encoding="utf-8")
    print(report.table(data))
    if args.readme:
        report.write_readme(ROOT / "README.md", data)
    failed = [verdict for verdict in check(results) if verdict.holds is False]
    return 1 if args.check and failed else 0


def chosen(patterns: list[str] | None) -> list[Case | Measure]:
    """Returns the cases that match; calibration is always among them where any is."""
    everything: list[Any] = [*ours.cases(), *peers.cases()]
    if patterns:
        everything = [
            case
            for case in everything
            if any(
                fnmatch.fnmatch(text.lower(), pattern.lower()) or pattern.lower() in text.lower()
                for pattern in patterns
                for text in (case.name, case.group)
            )
        ]
    return [*ours.calibration(), *everything] if everything else []


def listing(cases: list[Case | Measure]) -> str:
    lines = [f"{case.group:48} {case.name}" for case in cases]
    return "\n".join([*lines, "", "Bars", *(f"  {bar.text}" for bar in BARS)])


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
