"""Items that were running when their worker stopped: which of them stopped it is found out one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from access.models import Person, Tenant
from access.tenancy import acting, reading
from tests.dispatch.world import as_engine
from tests.support import eventually
from tests.workflows import fan_outs
from tests.workflows.test_needs import submit, summary
from workflows.engine.engine import Engine
from workflows.models import Attempt, WorkItem
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("fan_outs_installed")]


@pytest.fixture(autouse=True)
def gate() -> Iterator[None]:
    fan_outs.GATE.clear()
    yield
    fan_outs.GATE.set()


@pytest.fixture
def judge(transactional_db: None) -> Iterator[Engine]:
    """An engine without slots: it takes over and claims nothing."""
    running = Engine(slots=0, lease_seconds=60)
    running.start_threads()
    yield running
    running.request_stop()
    running.join()


def rows(tenant: Tenant, job_id: int) -> list[tuple[int, int, int, ItemState]]:
    """(deaths, attempts, attempts that are allowed, state) of the fan-out's items in order."""
    with reading(tenant.pk):
        found = WorkItem.objects.filter(job_id=job_id, stage__name="enrich").order_by("ordinal")
        return [(i.deaths, i.attempts, i.attempts_limit, i.state_name) for i in found]


def running_now(tenant: Tenant) -> list[int]:
    """Ordinals of what runs."""
    with reading(tenant.pk):
        found = WorkItem.objects.filter(stage__name="enrich", state=ItemState.RUNNING.number)
        return sorted(found.values_list("ordinal", flat=True))


def declare_dead(worker: Engine) -> None:
    """Its lease is over by the database's clock: the next look of another engine takes it over."""
    as_engine(
        "UPDATE workflows_worker SET lease_until = now() - interval '1 s' WHERE id = %s", [worker.worker_id]
    )


def test_the_first_death_makes_suspects_of_all_and_they_run_one_at_a_time(
    engine: Engine, judge: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, "test-all", "gate", "gate", "gate")
    eventually(lambda: running_now(tenant) == [1, 2, 3], what="all to run")
    first = engine.worker_id
    declare_dead(engine)
    eventually(lambda: engine.worker_id != first, what="the engine to start anew", seconds=30)
    eventually(lambda: running_now(tenant) == [1], what="the first suspect, alone")
    assert [r[0] for r in rows(tenant, job_id)] == [1, 1, 1]
    fan_outs.GATE.set()
    assert summary(tenant, job_id) == ["R1", "R2", "R3"]
    with reading(tenant.pk):
        starts = Attempt.objects.filter(item__stage__name="enrich", outcome="succeeded").order_by(
            "started_at"
        )
        ends = [(a.started_at, a.ended_at) for a in starts]
    assert all(before[1] <= after[0] for before, after in pairwise(ends))


def test_a_suspect_that_stops_its_worker_again_is_the_one_and_stops_at_the_third_time(
    engine: Engine, judge: Engine, tenant: Tenant, submitter: Person
) -> None:
    """The innocent that ran beside it gets the attempt back."""
    job_id = submit(tenant, submitter, "test-brief", "gate", "gate")
    eventually(lambda: running_now(tenant) == [1, 2], what="both to run")
    with reading(tenant.pk):
        items = list(WorkItem.objects.filter(job_id=job_id, stage__name="enrich").order_by("ordinal"))
    as_if(tenant, items[0].pk, deaths=2)
    declare_dead(engine)
    eventually(lambda: rows(tenant, job_id)[0][3] is ItemState.EXHAUSTED, what="the third time")
    deaths, attempts, allowed, _ = rows(tenant, job_id)[0]
    assert (deaths, attempts, allowed) == (3, 1, 50)
    deaths, attempts, allowed, _ = rows(tenant, job_id)[1]
    assert (deaths, allowed) == (0, 51)
    fan_outs.GATE.set()
    eventually(lambda: rows(tenant, job_id)[1][3] is ItemState.SUCCEEDED, what="the innocent", seconds=30)
    with reading(tenant.pk):
        outcomes = Attempt.objects.filter(item=items[0]).values_list("outcome", flat=True)
        assert set(outcomes) - {"stale"} == {"lease lost"}


def test_a_worker_that_is_asked_to_stop_costs_no_attempt_and_makes_no_suspect(
    tenant: Tenant, submitter: Person
) -> None:
    stopped = Engine(slots=2, lease_seconds=20)
    stopped.start_threads()
    job_id = submit(tenant, submitter, "test-all", "gate")
    eventually(lambda: running_now(tenant) == [1], what="it to run")
    stopped.request_stop(seconds=0.3)
    stopped.join()
    assert rows(tenant, job_id) == [(0, 0, 2, ItemState.READY)]
    with reading(tenant.pk):
        attempts = Attempt.objects.filter(item__stage__name="enrich").values_list("number", "outcome")
        assert list(attempts) == [(1, "released")]


def as_if(tenant: Tenant, item_id: int, **values: int) -> None:
    """As a takeover before would have left it."""
    with acting(tenant.pk):
        WorkItem.objects.filter(pk=item_id).update(**values)
