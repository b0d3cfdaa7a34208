#!/usr/bin/env python3
"""Sets up a checkout and runs what a developer runs: ``python3 tasks.py COMMAND``.

Needs Python 3.10 or newer and nothing else. The first command makes a virtual environment in
``.venv``; everything after that runs inside it, and nothing is installed anywhere else.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Above the first thing that an older Python would stumble on, so that it can still say this.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(
        f"tasks.py needs Python 3.10 or newer, and {sys.executable} is {sys.version.split()[0]}.\n"
        "Run it with a newer one, such as: python3.12 tasks.py ..."
    )

ROOT = Path(__file__).resolve().parent
PYTHON_OF_VENV = "Scripts/python.exe" if os.name == "nt" else "bin/python"
STAMP = "tasks-setup.json"

EXTRAS = {
    "learned": "PyTorch, to play with trained networks",
    "train": "learned, and Stable-Baselines3 to train them",
    "evaluation": "OpenSkill and matplotlib, for tournaments",
    "frameworks": "ONNX, OpenSpiel, Tianshou, TorchRL and Stable-Baselines3",
    "ray": "Ray, for tournaments and ladders on a cluster",
    "dev": "pytest, ruff and mypy",
}
TORCH_EXTRAS = {"learned", "train", "frameworks", "rllib"}
RAY_EXTRAS = {"rllib", "onnx", "testing"}
# For `test-lowest`, the package alone and each extra: what its tests need installed, and the tests.
# The bounds of `testing` are tried by each of them; those of `dev` are what `check` runs with.
LOWEST_TESTS: dict[str, tuple[set[str], str]] = {
    "core": (set(), "tests"),
    "learned": (
        {"learned"},
        "tests/test_checkpoint.py tests/test_policies.py tests/test_search.py",
    ),
    "train": (
        {"train", "onnx"},
        (
            "tests/test_training.py tests/test_league.py tests/test_best_response.py "
            "tests/test_distil.py tests/test_critic.py tests/test_rollout.py "
            "tests/test_sb3_vec_env.py tests/test_gymnasium_env.py "
            "tests/adapters/test_sb3_policy.py tests/adapters/test_sb3_example.py"
        ),
    ),
    "evaluation": (
        {"evaluation"},
        "tests/test_tournament.py tests/test_evaluation.py tests/test_report.py tests/test_cli.py",
    ),
    "ray": (
        {"ray", "evaluation", "learned"},
        "tests/test_units.py tests/adapters/test_missing_rllib.py",
    ),
    "render": ({"render"}, "tests/test_render.py tests/test_aec.py"),
    "onnx": ({"onnx", "learned"}, "tests/adapters/test_onnx.py"),
    "openspiel": (
        {"openspiel"},
        "tests/adapters/test_openspiel.py tests/adapters/test_openspiel_example.py",
    ),
    "tianshou": (
        {"tianshou", "onnx"},
        "tests/adapters/test_tianshou.py tests/adapters/test_tianshou_example.py",
    ),
    "torchrl": (
        {"torchrl", "onnx"},
        "tests/adapters/test_torchrl.py tests/adapters/test_torchrl_example.py",
    ),
    "rllib": (
        {"rllib", "onnx"},
        "tests/adapters/test_rllib.py tests/adapters/test_rllib_example.py",
    ),
    "agilerl": (
        {"agilerl", "onnx"},
        "tests/adapters/test_agilerl.py tests/adapters/test_agilerl_example.py",
    ),
    "frameworks": ({"frameworks"}, "tests/adapters"),
}
# mypy reads the training scripts and adapters too, so checking them takes what they import.
CHECK_EXTRAS = {"dev", "frameworks"}
NO_TESTS_RAN = 5  # pytest's exit code
PIP_INSTALL = ["pip", "--disable-pip-version-check", "install"]
CHECKS = [
    ["ruff", "format", "--check", "."],
    ["ruff", "check", "."],
    ["mypy"],
]
TORCH_HINT = """\
On Linux, PyPI's torch is the CUDA build, several GB. To get the small CPU build instead, set
PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu before the first setup."""


class Environment:
    """A virtual environment in the checkout.

    Args:
        folder: Its folder's name.
        constraints: The file of exact versions that it is made by.
    """

    def __init__(self, folder: str, constraints: str) -> None:
        self.path = ROOT / folder
        self.constraints = constraints
        self.python = self.path / PYTHON_OF_VENV
        self.stamp = self.path / STAMP


USUAL = Environment(".venv", "constraints.txt")
# Ray's RLlib pins a gymnasium of its own.
WITH_RAY = Environment(".venv-ray", "constraints-ray.txt")
# Made anew for each extra, with versions that are found when it is made.
LOWEST = Environment(".venv-lowest", ".venv-lowest/lowest.txt")


def main() -> int:
    """Parses the command line, runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="tasks.py",
        description="Set up this checkout and run its tests. Everything happens inside .venv.",
        epilog=TORCH_HINT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    setup = commands.add_parser("setup", help="make .venv and install the package, editable")
    for extra, meaning in EXTRAS.items():
        setup.add_argument(f"--{extra}", action="store_true", help=meaning)
    # No help of its own: --help, like all that follows, is for the quickstart.
    commands.add_parser(
        "quickstart",
        help="train and evaluate a first policy; what follows goes to training.quickstart",
        add_help=False,
    )
    commands.add_parser(
        "test",
        help="check, then run the tests; what follows goes to pytest",
        usage="tasks.py test [pytest arguments]",
        allow_abbrev=False,
    )
    commands.add_parser(
        "test-ray",
        help="run the tests of RLlib in .venv-ray, an environment of its own",
        usage="tasks.py test-ray [pytest arguments]",
        allow_abbrev=False,
    )
    lowest = commands.add_parser(
        "test-lowest",
        help="test the lowest versions that pyproject.toml allows, in .venv-lowest",
        description="For the package alone (core) and for each extra: make .venv-lowest anew, with "
        "the lowest version of everything that is asked for by name, and run the tests that "
        "concern it. Without names, all of them, which takes an hour or more.",
    )
    lowest.add_argument("names", nargs="*", metavar="NAME", help=", ".join(LOWEST_TESTS))
    commands.add_parser("check", help="format, lint and types, changing nothing")
    commands.add_parser("format", help="sort imports and format every file")
    args, rest = parser.parse_known_args()
    if rest and args.command not in {"quickstart", "test", "test-ray"}:
        parser.error(f"{args.command} does not know {' '.join(rest)}")

    if args.command == "setup":
        install({extra for extra in EXTRAS if getattr(args, extra)})
        print(f"Ready: {USUAL.python}")
        return 0
    if args.command == "quickstart":
        install({"train"})
        return run_all([["training.quickstart", *rest]])
    if args.command == "format":
        install({"dev"})
        return run_all([["ruff", "check", "--select", "I", "--fix", "."], ["ruff", "format", "."]])
    if args.command == "test-ray":
        install(RAY_EXTRAS, WITH_RAY)
        tests = ["tests/adapters/test_missing_rllib.py", "tests/adapters/test_rllib.py"]
        example = "tests/adapters/test_rllib_example.py"
        return run_all([["pytest", "-n", "2", *tests, example, *rest]], WITH_RAY)
    if args.command == "test-lowest":
        unknown = [name for name in args.names if name not in LOWEST_TESTS]
        if unknown:
            lowest.error(f"{unknown[0]!r} is unknown; allowed: {', '.join(LOWEST_TESTS)}")
        return test_lowest(args.names or list(LOWEST_TESTS))
    install(CHECK_EXTRAS)
    if args.command == "check":
        return run_all(CHECKS)
    return run_all([*CHECKS, ["pytest", "-n", "2", *rest]])


def install(extras: set[str], env: Environment = USUAL) -> None:
    """Brings an environment up to date with these extras, and with those it was given before."""
    inputs, installed = read_stamp(env)
    if env.python.exists() and inputs == inputs_digest(env) and extras <= installed:
        return
    if not env.python.exists():
        make_venv(env)
    wanted = sorted(extras | installed)
    if sys.platform == "linux" and TORCH_EXTRAS & set(wanted):
        print(TORCH_HINT)
    env.stamp.unlink(missing_ok=True)
    project = f".[{','.join(wanted)}]" if wanted else "."
    code = run([*PIP_INSTALL, "-c", env.constraints, "-e", project], env)
    if code:
        print("\nThe installation failed; pip says why above.")
        sys.exit(code)
    content = {"inputs": inputs_digest(env), "extras": wanted}
    env.stamp.write_text(json.dumps(content), encoding="utf-8")


def test_lowest(names: list[str]) -> int:
    """Tests the lowest versions of the package's requirements and of its extras', one by one.

    uv finds the versions and pip installs them, since only pip finds torch where ``TORCH_HINT``
    says.

    Returns:
        0 if none failed, else 1; how each of them ended is printed.
    """
    ends = {}
    for name in names:
        print(f"\n== The lowest versions of {name} ==", flush=True)
        extras, patterns = LOWEST_TESTS[name]
        wanted = sorted({*extras, "testing"})
        make_venv(LOWEST)
        find = ["uv", "pip", "compile", "--quiet", "--resolution", "lowest-direct"]
        find += ["--python", str(LOWEST.python)]
        find += [f"--extra={extra}" for extra in wanted]
        steps = [
            [*PIP_INSTALL, "--quiet", "-c", USUAL.constraints, "uv"],
            [*find, "--output-file", LOWEST.constraints, "pyproject.toml"],
            [*PIP_INSTALL, "--quiet", "-c", LOWEST.constraints, "-e", f".[{','.join(wanted)}]"],
            ["pip", "check"],
            ["pytest", "-n", "2", *patterns.split()],
        ]
        # Each step needs the one before it.
        code = next((code for step in steps if (code := run(step, LOWEST))), 0)
        # On Python 3.10 some frameworks are not to be had, and their tests are skipped.
        ends[name] = {0: "passed", NO_TESTS_RAN: "no test ran"}.get(code, "FAILED")
    print("", *(f"{name}: {end}" for name, end in ends.items()), sep="\n")
    return int("FAILED" in ends.values())


def make_venv(env: Environment) -> None:
    """Makes an environment with the Python that runs this file, or leaves nothing behind."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"This Python ({sys.executable}) lacks the standard module {' and '.join(missing)}, "
            "without which it cannot make a virtual environment.\n"
            "On Debian and Ubuntu: sudo apt install python3-venv"
        )
    print(f"Making {env.path} with Python {sys.version.split()[0]}", flush=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(env.path)], check=True)
    except BaseException as error:  # Ctrl-C too must not leave half an environment
        shutil.rmtree(env.path, ignore_errors=True)
        if isinstance(error, subprocess.CalledProcessError):
            sys.exit(f"{env.path} could not be made; the reason is above.")
        raise


def inputs_digest(env: Environment) -> str:
    """Digest of what an installation depends on: two files, and where the checkout lies."""
    digest = hashlib.sha256(str(ROOT).encode())
    for name in ("pyproject.toml", env.constraints):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def read_stamp(env: Environment) -> tuple[str, set[str]]:
    """Digest and extras of the last complete installation; both empty if there is none."""
    try:
        stamp = json.loads(env.stamp.read_text(encoding="utf-8"))
        return stamp["inputs"], set(stamp["extras"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", set()


def run_all(commands: list[list[str]], env: Environment = USUAL) -> int:
    """Runs every command, also after one failed, and returns the first exit code that is not 0."""
    codes = {" ".join(command): run(command, env) for command in commands}
    failed = [command for command, code in codes.items() if code]
    if len(codes) > 1 and failed:
        print("\nFailed:", *failed, sep="\n  ", flush=True)
    return next((code for code in codes.values() if code), 0)


def run(command: list[str], env: Environment = USUAL) -> int:
    """Runs a module of an environment from the top of the checkout."""
    print(f"\n$ python -m {' '.join(command)}", flush=True)
    return subprocess.run([str(env.python), "-m", *command], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
