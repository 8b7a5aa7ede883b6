"""Workers as processes on this test's database: started with what a test says, ended with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from examples.demos.workers import Cluster, live_workers
from tests.support import eventually


class Start(Protocol):
    """`start("tests.a_module", workers=2, slots=2, COUNTERFOIL_LEASE_SECONDS=30)`."""

    def __call__(self, *modules: str, workers: int, slots: int, **environment: object) -> Cluster:
        """Returns when as many workers more as were asked for serve the modules' workflows."""


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """What was started in the block is killed after it. The processes write into `workers.log` of the folder."""
    started: list[Cluster] = []

    def start(*modules: str, workers: int, slots: int, **environment: object) -> Cluster:
        made = Cluster(
            environment={
                "DATABASE_URL": os.environ["DATABASE_URL"],
                "COUNTERFOIL_WORKFLOWS": ",".join(modules),
                "COUNTERFOIL_WORKERS": str(workers),
                "COUNTERFOIL_SLOTS": str(slots),
                **{name: str(value) for name, value in environment.items()},
            },
            log=folder / "workers.log",
        )
        started.append(made)
        before = {w.pk for w in live_workers()}
        made.start()
        eventually(
            lambda: len({w.pk for w in live_workers()} - before) >= workers,
            seconds=40,
            what=f"{workers} more workers",
        )
        return made

    try:
        yield start
    finally:
        for one in started:
            one.kill()
