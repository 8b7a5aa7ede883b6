"""Two at once: answers, events, and an event against the end of the wait. Each test tells its interleaving."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from tests.support import awaiting_locks, eventually, make_person
from tests.workflows.test_waits import (
    answer,
    events,
    installed,  # noqa: F401 - a fixture
    items,
    output,
    send,
    submit,
    waiting,
    waits,
)
from workflows.actions.answer import AlreadyAnswered
from workflows.actions.receive_event import Received
from workflows.engine.engine import Engine
from workflows.expectations import database_now
from workflows.models import JournalEntry
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What each call gave or raised, all of them begun at the same moment on connections of their own."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            barrier.wait(10)
            return call()
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_of_two_answers_at_once_one_counts(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    """Both lock the job; the second reads what the first has committed."""
    people = [make_person(tenant, Role.OPERATOR) for _ in range(2)]
    for _ in range(5):
        job_id = submit(tenant, submitter, "test-asking")
        (question,) = waiting(tenant, job_id)
        came = together(*(partial(answer, tenant, p, question, street=p.username) for p in people))
        (refused,) = [c for c in came if isinstance(c, AlreadyAnswered)]
        assert output(tenant, job_id, "where")["street"] == refused.by
        assert len([c for c in came if not isinstance(c, Exception)]) == 1


def test_of_two_events_at_once_one_is_used_and_the_other_kept(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """Both find the wait; the second finds it settled under the job's lock, and keeps its event."""
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    came = together(lambda: send(tenant, "e-1"), lambda: send(tenant, "e-2"))
    assert sorted(came, key=lambda r: r.used) == [Received(used=False), Received(used=True)]
    assert sorted(how for _, how in events(tenant)) == ["", "used"]


def test_the_same_event_twice_at_once_is_one_event(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    """The second waits for the first's lock of the id, and is a replay."""
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    came = together(*[lambda: send(tenant)] * 4)
    assert sorted(c.replayed for c in came) == [False, True, True, True]
    assert all(c.used for c in came)
    assert events(tenant) == [("e-1", "used")]
    with reading(tenant.pk):
        assert JournalEntry.objects.filter(job_id=job_id, event="event.received").count() == 1


def test_an_event_that_came_in_time_counts_although_it_commits_after_the_end(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """The event's action has looked at the clock and holds the item's lock; its checkpoint waits for a lock on that
    table. The wait's time passes. The promotion passes over the locked item; the event commits, and has won."""
    job_id = submit(tenant, submitter, within=2.0)
    (wait,) = waiting(tenant, job_id)
    with psycopg.connect(os.environ["DATABASE_URL"]) as blocker, ThreadPoolExecutor(1) as pool:
        blocker.execute("LOCK TABLE workflows_checkpoint IN SHARE MODE")
        came = pool.submit(lambda: together(lambda: send(tenant))[0])
        eventually(lambda: awaiting_locks(blocker) == 1, what="the event's action behind our lock")
        eventually(
            lambda: blocker.execute("SELECT clock_timestamp() > %s", [wait.due_at]).fetchone() == (True,),
            what="the end of the wait",
        )
        blocker.rollback()
        assert came.result() == Received(used=True)
    assert output(tenant, job_id, "shipped")
    assert [w.settled_how for w in waits(tenant, job_id)] == ["came"]


@pytest.mark.long
def test_at_the_end_of_the_wait_either_the_event_counts_or_the_wait_is_over(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """Ten waits, each with an event sent about when it ends: never both, never neither."""
    for number in range(10):
        job_id = submit(tenant, submitter, reference=f"R-{number}", within=0.4)
        (wait,) = eventually(lambda job_id=job_id: waits(tenant, job_id), what="a wait")
        assert wait.due_at is not None
        about = wait.due_at + timedelta(seconds=0.02 * (number - 5))
        eventually(lambda about=about: database_now() >= about, what="the end of the wait, about")
        used = send(tenant, f"e-{number}", key=f"shipment R-{number}").used
        state = eventually(
            lambda job_id=job_id: [
                s
                for s, _ in items(tenant, job_id, "shipped")
                if s in (ItemState.SUCCEEDED, ItemState.REFUSED)
            ],
            what="the end of the wait",
        )
        assert state == [ItemState.SUCCEEDED if used else ItemState.REFUSED]
        assert [w.settled_how for w in waits(tenant, job_id)] == ["came" if used else "expired"]
