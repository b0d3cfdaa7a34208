"""``RayWorkers``: units of work played on a Ray cluster, with the same results as anywhere."""

from __future__ import annotations

import importlib.util
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from escoba_env.checks import quoted
from escoba_env.evaluation.pool import KILLED, Result, UnitOfWork, WorkerError, play_here

LOCAL = "local"


@dataclass(frozen=True)
class RayWorkers:
    """Workers on Ray, one for each processor core of the cluster.

    The package must be installed on every machine, in the same version, and a checkpoint's folder
    must be there under the same path.

    Attributes:
        address: ``"local"`` for this machine alone, ``"auto"`` for the cluster that it is part of,
            or that of a cluster. If Ray is in use already, it is used as it is.

    Raises:
        ModuleNotFoundError: If there is no Ray.
    """

    address: str = LOCAL

    def __post_init__(self) -> None:
        """Checks that there is a Ray before anything is played."""
        if importlib.util.find_spec("ray") is None:
            raise ModuleNotFoundError(
                "Ray is not installed: pip install 'escoba-env[ray]'", name="ray"
            )

    @contextmanager
    def crew(self) -> Iterator[_RayCrew]:
        """Connects to Ray; see ``Workers.crew``."""
        import ray

        started = not ray.is_initialized()
        if started:
            try:
                ray.init(
                    address=self.address,
                    include_dashboard=False if self.address == LOCAL else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise WorkerError(f"no Ray at {quoted(self.address)}: {error}") from None
        try:
            yield _RayCrew(ray)
        finally:
            if started:
                ray.shutdown()


class _RayCrew:
    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._play = ray.remote(num_cpus=1)(play_here)
        self._name = uuid.uuid4().hex
        self.size = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit(self, unit: UnitOfWork) -> Any:
        return self._play.remote(unit, self._name)

    def result(self, ticket: Any) -> Result:
        try:
            result: Result = self._ray.get(ticket)
        except self._ray.exceptions.RayTaskError as error:
            # What the unit itself has raised, without the story of where.
            raise error.cause from None
        except self._ray.exceptions.RayError:
            raise WorkerError(KILLED) from None
        return result

    def is_done(self, ticket: Any) -> bool:
        done, _ = self._ray.wait([ticket], timeout=0)
        if not done:
            return False
        try:
            self._ray.get(ticket)
        except self._ray.exceptions.RayError:
            return False
        return True
