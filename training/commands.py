"""The commands of training: options, and how they end.

``train`` and ``distil`` are commands of ``escoba``, too. This imports nothing of what learns:
``escoba`` reads it to list its commands.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from .stopping import INTERRUPTED, ending_while_importing

# What stands behind an extra, by the module that is missed first.
_EXTRAS = dict.fromkeys(
    ("torch", "filelock", "yaml", "sb3_contrib", "stable_baselines3", "tensorboard"), "train"
) | {"ray": "rllib", "tensorboardX": "rllib", "matplotlib": "evaluation"}


def read_path(text: str) -> Path:
    """Reads a path; ``~`` is the home folder, also where the shell leaves it as it is."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise typer.BadParameter(f"{text!r}: {error}") from None


def read_name(text: str) -> str:
    """Reads what is a name or a path: of a config, or of a policy."""
    return text if "~" not in text else str(read_path(text))


ConfigArgument = Annotated[
    str,
    typer.Argument(
        parser=read_name,
        metavar="CONFIG",
        help="A shipped config, such as quick, or a YAML file of settings.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run that is there.")]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="Seed in place of the config's."),
]
Decisions = Annotated[
    int | None,
    typer.Option(metavar="N", help="Decisions to learn from in place of the config's."),
]
Run = Annotated[
    Path | None,
    typer.Option(
        parser=read_path, metavar="FOLDER", help="Run folder; default: runs/NAME-SEED here."
    ),
]


def given(**options: Any) -> dict[str, Any]:
    """Returns the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def train(
    config: ConfigArgument,
    resume: Resume = False,
    seed: Seed = None,
    decisions: Decisions = None,
    run: Run = None,
) -> None:
    """Train a policy by self-play."""
    with one_line("what was saved is kept: go on with --resume"):
        from .config import load_config
        from .selfplay import run_path, train

        settings = load_config(config, **given(seed=seed, decisions=decisions))
        folder = run_path(settings, run)
        train(settings, folder, resume=resume)
        print(f"policy: {folder.checkpoint}")
        if folder.stopped:
            raise typer.Exit(INTERRUPTED)


def distil(
    config: ConfigArgument,
    resume: Resume = False,
    seed: Seed = None,
    run: Run = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Processes that label; default: one a core."),
    ] = None,
) -> None:
    """Train a policy on what a search says of every action."""
    with one_line("what is finished is kept: go on with --resume"):
        from .config import load_settings
        from .distil import DistilConfig, distil

        settings = load_settings(DistilConfig, config, **given(seed=seed))
        folder = run or Path("runs") / f"{settings.name}-{settings.seed}"
        distil(settings, folder, resume=resume, workers=workers)
        print(f"policy: {folder / 'checkpoint'}")


@contextmanager
def one_line(stopped: str) -> Iterator[None]:
    """Ends a command in one line whatever stops it: code 2, or 130 for Ctrl-C.

    Args:
        stopped: What to say of work that Ctrl-C has stopped.
    """
    # Here, because that package lists the commands of this file.
    from escoba_env.cli.common import REFUSALS, fail, say_interrupted

    before = threading.excepthook
    threading.excepthook = _said_elsewhere
    try:
        with ending_while_importing():
            yield
    except KeyboardInterrupt:
        say_interrupted(stopped)
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        hint = f": pip install 'escoba-env[{extra}]'" if extra and "pip" not in str(error) else ""
        fail(f"{error}{hint}")
    except OSError as error:
        # A reader that has seen enough, such as head, is no fault.
        if error.errno == errno.EPIPE:
            raise
        where = "a file of the run" if error.filename is None else error.filename
        fail(f"{where} cannot be read or written: {error.strerror or error}")
    except MemoryError as error:
        fail(f"there is not enough memory: {error}")
    except REFUSALS as error:
        fail(error)
    finally:
        threading.excepthook = before


def _said_elsewhere(fault: threading.ExceptHookArgs) -> None:
    # TensorBoard's thread fails on a full disk, and its writer says so again to who writes.
    if not isinstance(fault.exc_value, OSError):
        threading.__excepthook__(fault)


def app_of(command: Any) -> typer.Typer:
    """Makes a command of its own, for ``python -m``."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    return app
