"""The clock of the database's host jumps an hour, by which leases, waits, due times and limits are written and judged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from access.tenancy import reading
from examples.demos.workers import Cluster, live_workers
from tests import databases
from tests.faults.conftest import ActingJob
from tests.support import eventually
from workflows.models import Worker, WorkItem
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

StartCluster = Callable[..., Cluster]
Submit = Callable[..., ActingJob]
DONE = ItemState.SUCCEEDED
HOUR = 3600
LEASE = 30
SHIFTED = """
CREATE SCHEMA shifted;
CREATE TABLE shifted.jump (seconds float8 NOT NULL);
INSERT INTO shifted.jump VALUES (0);
GRANT USAGE ON SCHEMA shifted TO PUBLIC;
GRANT SELECT ON shifted.jump TO PUBLIC;
CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  'SELECT pg_catalog.clock_timestamp() + (SELECT seconds FROM shifted.jump) * interval ''1 s''';
CREATE FUNCTION shifted.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
  'SELECT pg_catalog.statement_timestamp() + (SELECT seconds FROM shifted.jump) * interval ''1 s''';
CREATE FUNCTION shifted.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
  'SELECT pg_catalog.now() + (SELECT seconds FROM shifted.jump) * interval ''1 s''';
CREATE FUNCTION shifted.now() RETURNS timestamptz LANGUAGE sql STABLE AS
  'SELECT pg_catalog.now() + (SELECT seconds FROM shifted.jump) * interval ''1 s''';
"""
"""The functions by which every statement of ours asks for the time, found before the server's own."""


@dataclass(frozen=True)
class Clock:
    """The database's, as everybody else sees it."""

    owner: psycopg.Connection[tuple[Any, ...]]

    def jump(self, seconds: int) -> None:
        self.owner.execute("UPDATE shifted.jump SET seconds = seconds + %s", [seconds])

    def now(self) -> datetime:
        (at,) = self.owner.execute("SELECT shifted.clock_timestamp()").fetchone() or (None,)
        assert isinstance(at, datetime)
        return at


@pytest.fixture
def clock(db: None) -> Iterator[Clock]:
    """On a database of this test's own."""
    with databases.own(), psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        owner.execute(SHIFTED)
        owner.execute(f"ALTER DATABASE {owner.info.dbname} SET search_path = shifted, pg_catalog, public")
        yield Clock(owner)


@pytest.mark.parametrize("jump", [pytest.param(HOUR, id="forward"), pytest.param(-HOUR, id="back")])
def test_nobody_is_taken_over_and_what_runs_goes_on(
    clock: Clock, cluster: StartCluster, acting_job: Submit, jump: int
) -> None:
    """Forward, every lease is over at once; back, none would end for an hour. Both are renewed as soon as it is seen."""
    started = cluster(workers=2, slots=1, lease=LEASE)
    before = [w.pk for w in live_workers()]
    job = acting_job("gated", "gated")
    eventually(lambda: len({s.pid for s in job.starts()}) == 2, what="an item in each process")
    clock.jump(jump)
    eventually(lambda: all(_is_of_now(w, clock) for w in live_workers()), what="leases by the new time")
    job.go()
    job.settled(DONE, DONE)
    after = acting_job("fine", "later")
    after.settled(DONE, DONE)
    assert (job.outcomes(), after.outcomes()) == ({"succeeded": 2}, {"retryable": 1, "succeeded": 2})
    assert [w.pk for w in live_workers()] == before
    assert "took over" not in started.log_text
    assert f"the database's clock has jumped by {jump:+d} s" in started.log_text


def test_a_wait_ends_at_the_time_that_was_written_and_a_new_one_is_as_long_as_asked(
    clock: Clock, cluster: StartCluster, acting_job: Submit
) -> None:
    """Ten minutes, written before the clock is put back an hour, set right, and then put an hour ahead."""
    cluster(slots=2, lease=LEASE)
    job = acting_job("in-ten-minutes")
    eventually(lambda: job.states().get(1) is ItemState.BACKING_OFF, what="its wait")
    due = _due(job)
    for jump in (-HOUR, HOUR):
        clock.jump(jump)
        other = acting_job("later")
        other.settled(DONE)
        assert (job.states()[1], _due(job)) == (ItemState.BACKING_OFF, due)
    clock.jump(HOUR)
    job.settled(DONE)
    assert job.outcomes() == {"retryable": 1, "succeeded": 1}


def _due(job: ActingJob) -> datetime | None:
    with reading(job.tenant.pk):
        return WorkItem.objects.get(job_id=job.job_id, stage__name="act").next_attempt_at


def _is_of_now(worker: Worker, clock: Clock) -> bool:
    left = Worker.objects.get(pk=worker.pk).lease_until - clock.now()
    return timedelta() < left <= timedelta(seconds=LEASE)
