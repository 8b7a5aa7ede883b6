"""A cluster of workers as processes of our own: started, asked to stop, killed one by one or all at once.

For demos and crash tests: what they promise is about processes that really end.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from access.tenancy import reading
from config.var import PROJECT
from workflows.models import Worker, WorkItem
from workflows.states import ItemState

STOP_SECONDS = 14.0
GONE_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


class Cluster:
    """`manage.py qcluster` in a process group of its own. Starting and stopping may be repeated."""

    def __init__(self, *, environment: dict[str, str], log: Path, python: str = sys.executable) -> None:
        self._python = python
        self._environment = {**os.environ, **environment}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What its processes are started with."""
        return dict(self._environment)

    @property
    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        """The main process, which is also its group."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns at once; `workers_up` says when they serve."""
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(
                [self._python, "manage.py", "qcluster"],
                cwd=PROJECT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_end_with(os.getpid()),
            )

    def stop(self) -> float:
        """Ask the main process to stop, as a supervisor does; seconds until it had. Kills it when it does not."""
        began = time.monotonic()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            self.kill()
        return time.monotonic() - began

    def kill(self) -> None:
        """SIGKILL to every process of it at once; returns when all are gone."""
        if self._process is None:
            return
        _kill_group(self._process.pid)
        self._process.wait()
        self._process = None


def live_workers() -> list[Worker]:
    """The workers that count as living now, by id."""
    return list(Worker.objects.filter(ended_at__isnull=True).order_by("pk"))


def worker_at_work_on(*, tenant_id: int, job_id: int, key: str | None = None) -> Worker | None:
    """The worker that holds the claim of a job's running item (of the one with that key), if one does."""
    with reading(tenant_id):
        running = WorkItem.objects.filter(job_id=job_id, state=ItemState.RUNNING.number)
        if key is not None:
            running = running.filter(key=key)
        worker_id = running.values_list("worker_id", flat=True).first()
    return None if worker_id is None else Worker.objects.filter(pk=worker_id).first()


def kill_worker(worker: Worker) -> None:
    """SIGKILL to one worker process, which is on this machine."""
    os.kill(worker.pid, signal.SIGKILL)


def _kill_group(group: int) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return
        if not _lives(group):
            return
        time.sleep(0.01)


def _lives(group: int) -> bool:
    """Whether a process of the group is more than a zombie that waits to be reaped."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):  # it ended meanwhile
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            return True
    return False


def _end_with(parent: int) -> Callable[[], None]:
    """In the child: end when the process that started it ends, however that happens (Linux)."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def in_child() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

    return in_child
