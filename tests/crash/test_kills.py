"""Processes that are really killed, stopped and frozen. What was saved stays; what was not is done again, once."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.demos.workers import Cluster, live_workers
from tests.crash.conftest import PacedJob
from tests.support import eventually
from workflows.models import Worker
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

StartCluster = Callable[..., Cluster]
Submit = Callable[..., PacedJob]
KILLS = int(os.environ.get("COUNTERFOIL_TEST_KILLS", "5"))
SOON = 3.0
"""Seconds: on a busy machine more than what is promised for a calm one, and far below the lease."""


def test_work_of_a_killed_worker_resumes_long_before_its_lease_ends(
    cluster: StartCluster, paced_job: Submit
) -> None:
    """A job after the other, each of one item, and each time the worker that has it is killed."""
    cluster(workers=2, slots=1, lease=30)
    waits = []
    for kill in range(1, KILLS + 1):
        job = paced_job(name=f"kill-{kill}", items=1, gated=[1])
        (first,) = eventually(job.starts, what=f"start {kill}")
        killed_at = time.monotonic()
        os.kill(first.pid, signal.SIGKILL)
        eventually(lambda j=job: len(j.starts()) == 2, what=f"a start after kill {kill}")
        waits.append(job.starts()[-1].at - killed_at)
        job.go()
        job.wait_until_counted(1)
        assert job.outcomes() == {"worker died": 1, "succeeded": 1}
        assert [s.attempt for s in job.starts()] == [1, 2]

    print(f"resumed after {sorted(round(w, 2) for w in waits)} s, median {statistics.median(waits):.2f} s")
    assert max(waits) < SOON


def test_nothing_is_lost_when_every_process_is_killed_at_once(
    cluster: StartCluster, paced_job: Submit
) -> None:
    """Half of the items are saved, half are inside their handlers or have not begun."""
    killed = cluster(workers=2, slots=2)
    job = paced_job(items=12, gated=list(range(7, 13)))
    eventually(lambda: len(job.saved()) == 6 and len(job.starts()) == 10, what="six saved, four running")
    before = job.saved()

    killed.kill()
    cluster(workers=2, slots=2)
    job.go()
    job.wait_until_counted(12)

    after = job.saved()
    assert {n: after[n] for n in before} == before
    assert sorted(after) == list(range(1, 13))
    assert [len(job.starts(n)) for n in range(1, 13)] == [1] * 6 + [2] * 4 + [1] * 2
    assert job.outcomes() == {"succeeded": 12, "worker died": 4}


def test_stopped_workers_finish_what_they_began_and_begin_nothing(
    cluster: StartCluster, paced_job: Submit
) -> None:
    """SIGTERM to the main process while handlers run that take a second."""
    stopping = cluster(workers=2, slots=2)
    job = paced_job(items=30, milliseconds=1000)
    eventually(lambda: len(job.starts()) >= 4, what="four running items")

    seconds = stopping.stop()

    begun = {s.number for s in job.starts()}
    assert seconds < 12
    assert set(job.saved()) == begun
    assert job.outcomes() == {"succeeded": len(begun)}
    assert job.items_in(ItemState.RUNNING) == 0
    assert job.items_in(ItemState.READY) == 30 - len(begun) > 0
    assert live_workers() == []


def test_late_result_of_a_frozen_worker_is_recorded_and_discarded(
    cluster: StartCluster, paced_job: Submit
) -> None:
    """The holder is frozen past its lease; another takes the item over and ends it; then the holder thaws."""
    cluster(workers=2, slots=1, lease=2)
    job = paced_job(items=1, gated=[1])
    (first,) = eventually(job.starts, what="the first start")
    os.kill(first.pid, signal.SIGSTOP)
    try:
        eventually(lambda: len(job.starts()) == 2, what="a start elsewhere")
        job.go()
        job.wait_until_counted(1)
        saved = job.saved()
    finally:
        os.kill(first.pid, signal.SIGCONT)
    eventually(lambda: job.outcomes()["stale"], what="the late result")

    second = job.starts()[-1]
    assert second.pid != first.pid
    assert job.outcomes() == {"lease lost": 1, "succeeded": 1, "stale": 1}
    assert job.saved() == saved
    assert saved[1][1] == f'{{"attempt":2,"number":1,"pid":{second.pid}}}'
    eventually(
        lambda: [w.pid for w in live_workers()].count(first.pid) == 1,
        what="the thawed worker, registered anew",
    )


@pytest.mark.long
@pytest.mark.parametrize("which", ["main process", "sentinel"])
def test_killed_head_of_a_cluster_takes_its_workers_with_it(
    cluster: StartCluster, paced_job: Submit, which: str
) -> None:
    """Then a new cluster, as a supervisor would start it, goes on where it was."""
    headless = cluster(workers=1, slots=3)
    job = paced_job(items=3, gated=[3])
    eventually(lambda: len(job.saved()) == 2, what="two saved items")
    pids = [w.pid for w in live_workers()]

    os.kill(headless.pid if which == "main process" else _parent_of(pids[0]), signal.SIGKILL)
    eventually(lambda: not any(_lives(pid) for pid in [*pids, headless.pid]), what="the end of every process")
    cluster(workers=1, slots=2)
    job.go()
    job.wait_until_counted(3)

    assert [len(job.starts(n)) for n in (1, 2)] == [1, 1]
    assert Worker.objects.filter(pid__in=pids, ended_at__isnull=True).count() == 0


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def _lives(pid: int) -> bool:
    """Whether the process exists and is no zombie that waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
