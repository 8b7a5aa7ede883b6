"""A short outage on the tests' own database; `test_database.py` takes whole servers away, which takes longer."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import psycopg
import pytest

from examples.demos.workers import Cluster, live_workers
from tests.faults.conftest import ActingJob
from tests.faults.outages import Owner, clock_of, no_connections
from tests.support import eventually
from workflows.models import Worker
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

StartCluster = Callable[..., Cluster]
Submit = Callable[..., ActingJob]


def test_results_outlive_an_outage_that_is_longer_than_the_lease(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """Two workers with two handlers each. All four end while no connection can be had, and every lease runs out."""
    owner = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    begun = clock_of(owner)
    running = cluster(workers=2, slots=2, lease=2)
    job = acting_job(*["gated"] * 4, *["fine"] * 4)
    eventually(lambda: len(job.starts()) == 4, what="four running handlers")
    workers = live_workers()
    with owner, no_connections(owner, since=begun):
        job.go()
        eventually(lambda: _kept(running) == {"2"}, what="two results kept in each process")
        eventually(lambda: _all_leases_are_over(owner), what="the end of every lease")
    job.settled(*[ItemState.SUCCEEDED] * 8)
    assert job.outcomes() == {"succeeded": 8}
    assert sorted(s.number for s in job.starts()) == list(range(1, 9))
    assert [w.pk for w in live_workers()] == [w.pk for w in workers]
    assert Worker.objects.exclude(pk__in=[w.pk for w in workers]).count() == 0


def _kept(running: Cluster) -> set[str]:
    return set(re.findall(r"too many connections.*; (\d+) results are kept", running.log_text)[-2:])


def _all_leases_are_over(owner: Owner) -> bool:
    row = owner.execute("SELECT bool_and(lease_until < clock_timestamp()) FROM workflows_worker").fetchone()
    return row == (True,)
