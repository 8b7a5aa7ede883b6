"""Hosts whose clock is wrong, or jumps an hour: leases and waits go by the database's clock."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from django.utils import timezone

from access.tenancy import reading
from config.var import PROJECT
from examples.demos.workers import Cluster, live_workers
from tests.faults.conftest import ActingJob
from tests.support import eventually
from workflows.models import Attempt, Worker
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

StartCluster = Callable[..., Cluster]
Submit = Callable[..., ActingJob]
DONE = ItemState.SUCCEEDED
HOUR = 3600
READS_THE_HOST = re.compile(r"timezone\.now\(|datetime\.(?:now|utcnow|today)\(|\btime\.time\(|date\.today\(")


def shifted(file: Path) -> dict[str, str]:
    """The environment of processes whose clock is off by the seconds in `file`."""
    paths = [str(PROJECT / "tests" / "faults" / "shift"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "COUNTERFOIL_TESTS_CLOCK": str(file)}


def starts(job: ActingJob, number: int) -> list[datetime]:
    """When the attempts of an item began, by the database's clock."""
    with reading(job.tenant.pk):
        rows = Attempt.objects.filter(item__job_id=job.job_id, item__stage__name="act", item__ordinal=number)
        return list(rows.order_by("pk").values_list("started_at", flat=True))


@pytest.mark.parametrize("jump", [pytest.param(HOUR, id="forward"), pytest.param(-HOUR, id="back")])
def test_wait_is_as_long_as_it_was_asked_for_though_the_clock_jumps(
    cluster: StartCluster, acting_job: Submit, tmp_path: Path, jump: int
) -> None:
    """An hour, while one item waits two seconds for its next try and another is inside its handler."""
    clock = tmp_path / "clock"
    cluster(slots=2, **shifted(clock))
    before = live_workers()
    job = acting_job("later", "gated")
    eventually(
        lambda: job.states().get(1) is ItemState.BACKING_OFF and job.starts(2), what="a wait, and a run"
    )
    clock.write_text(str(jump))
    eventually(lambda: len(job.starts(1)) == 2, what="the second try")
    job.go()
    job.settled(DONE, DONE)
    first, second = starts(job, 1)
    assert 2 <= (second - first).total_seconds() < 10
    assert job.outcomes() == {"retryable": 1, "succeeded": 2}
    assert [w.pk for w in live_workers()] == [w.pk for w in before]
    again = acting_job("later", "read-the-clock")
    again.settled(DONE, DONE)
    assert abs(again.said()[2] - time.time() - jump) < 60, "the worker's clock did jump"
    with reading(job.tenant.pk):
        written = Attempt.objects.filter(item__job_id=again.job_id).values_list("started_at", "ended_at")
        assert all(abs((timezone.now() - at).total_seconds()) < 60 for row in written for at in row)


@pytest.mark.long
def test_worker_whose_clock_is_ahead_takes_no_live_lease(
    cluster: StartCluster, acting_job: Submit, tmp_path: Path
) -> None:
    """B5: its clock is 60 s ahead of the one that holds the item, whose lease of 20 s lives."""
    cluster(slots=1, lease=20)
    (holder,) = live_workers()
    job = acting_job("gated")
    eventually(job.starts, what="a run")
    clock = tmp_path / "clock"
    clock.write_text("60")
    ahead = cluster(workers=2, slots=1, lease=20, **shifted(clock))
    newer = Worker.objects.filter(pk__gt=holder.pk)
    eventually(
        lambda: newer.filter(swept_at__isnull=False).count() == 2, seconds=30, what="a sweep of both others"
    )
    job.go()
    job.settled(DONE)
    assert job.outcomes() == {"succeeded": 1}
    assert [s.pid for s in job.starts()] == [holder.pid]
    assert "took over" not in ahead.log_text


@pytest.mark.parametrize("folder", ["workflows/engine", "workflows/compensation", "dispatch"])
def test_nothing_that_the_machine_decides_reads_the_hosts_clock(folder: str) -> None:
    found = {
        f"{path.relative_to(PROJECT)}: {line.strip()}"
        for path in (PROJECT / folder).rglob("*.py")
        if not {"migrations", "management", "actions"} & set(path.parts)
        for line in path.read_text().splitlines()
        if READS_THE_HOST.search(line)
    }
    assert found <= {
        'dispatch/authoring.py: seen.headers.get("retry-after", ""), now=datetime.now(UTC), longest=LONGEST_RETRY_AFTER'
    }
