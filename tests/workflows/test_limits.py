"""Named limits: what is over them waits without an attempt, is said so, and stands in nobody else's way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, NamedTuple

import psycopg
import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting, reading
from dispatch.locks import database_clock
from tests.dispatch.world import as_engine
from tests.support import eventually, make_person, make_tenant, running_engine
from tests.workflows import fan_outs
from tests.workflows.test_needs import states, submit, summary
from workflows import explaining, hooks
from workflows.engine.engine import Engine
from workflows.models import Attempt, Job, Limit, SharedLimit, WorkItem
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("fan_outs_installed")]


@pytest.fixture
def second_engine(transactional_db: None) -> Iterator[Engine]:
    """Another process's engine, as far as the database can tell."""
    with running_engine(4) as running:
        yield running


@pytest.fixture(autouse=True)
def gate() -> Iterator[None]:
    fan_outs.GATE.clear()
    yield
    fan_outs.GATE.set()


def limit(tenant: Tenant, **terms: Any) -> Limit:
    with acting(tenant.pk):
        return Limit.objects.create(
            tenant=tenant, name="model-a", changed_at=timezone.now(), changed_by="test", **terms
        )


def running(tenant: Tenant) -> int:
    with reading(tenant.pk):
        return WorkItem.objects.filter(stage__name="enrich", state=ItemState.RUNNING.number).count()


def attempts(tenant: Tenant, job_id: int) -> list[int]:
    with reading(tenant.pk):
        rows = WorkItem.objects.filter(job_id=job_id, stage__name="enrich").order_by("ordinal")
        return list(rows.values_list("attempts", flat=True))


def why(tenant: Tenant, job_id: int) -> str:
    with reading(tenant.pk):
        return hooks.why_waiting(Job.objects.get(pk=job_id)) or ""


def test_no_more_run_at_once_than_the_limit_says_over_two_engines(
    engine: Engine, second_engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    limit(tenant, concurrency=3)
    job_id = submit(tenant, submitter, "test-limited", *["gate"] * 8)
    eventually(lambda: running(tenant) == 3, what="three to run")
    sentence = eventually(lambda: why(tenant, job_id), what="the reason")
    assert sentence == "waiting for limit model-a: 3 of 3 are running"
    assert sorted(attempts(tenant, job_id)) == [0] * 5 + [1] * 3
    other = submit(tenant, submitter, "test-all", "ok")
    assert summary(tenant, other) == ["R1"]
    assert running(tenant) == 3
    fan_outs.GATE.set()
    assert summary(tenant, job_id) == [f"R{n}" for n in range(1, 9)]
    assert attempts(tenant, job_id) == [1] * 8


def test_over_its_rate_work_waits_visibly_and_takes_no_attempt(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    limit(tenant, requests_per_minute=2)
    job_id = submit(tenant, submitter, "test-limited", "ok", "ok", "ok")
    eventually(lambda: attempts(tenant, job_id) == [1, 0, 0], what="the first")
    sentence = eventually(lambda: why(tenant, job_id), what="the reason")
    with reading(tenant.pk):
        row = Limit.objects.get()
        assert row.closed_until is not None
    assert sentence.startswith("waiting for limit model-a until ")
    assert sentence.endswith(": 2 requests a minute")
    other = submit(tenant, submitter, "test-most", "ok")
    assert summary(tenant, other) == ["R1"]
    with acting(tenant.pk):
        Limit.objects.update(requests_per_minute=6000, closed_until=None, requests_due=None)
    assert summary(tenant, job_id) == ["R1", "R2", "R3"]


def test_over_its_tokens_work_waits_until_the_minute_has_moved_on_and_takes_no_attempt(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """60 tokens a minute, and each item is known to use 100 of them: one at a time, 111 s apart. No test waits so long:
    the minute moves on by what is kept of it."""
    limit(tenant, tokens_per_minute=60, average_tokens=100)
    job_id = submit(tenant, submitter, "test-limited", "ok", "ok", "ok")
    for let_in in (1, 2):
        waiting = [1] * let_in + [0] * (3 - let_in)
        eventually(lambda waiting=waiting: attempts(tenant, job_id) == waiting, what=f"{let_in} let in")
        sentence = eventually(lambda: why(tenant, job_id), what="the reason")
        with reading(tenant.pk):
            row = Limit.objects.get()
            assert row.closed_until is not None
            assert row.closed_until > database_clock() + timedelta(seconds=60)
            assert sentence == (
                f"waiting for limit model-a until {explaining.clock(row.closed_until)}: 60 tokens a minute"
            )
        other = submit(tenant, submitter, "test-most", "ok")
        assert summary(tenant, other) == ["R1"]
        assert attempts(tenant, job_id) == waiting
        with acting(tenant.pk):
            moved = {name: F(name) - timedelta(minutes=2) for name in ("tokens_due", "closed_until")}
            Limit.objects.update(**moved)
    assert summary(tenant, job_id) == ["R1", "R2", "R3"]
    assert attempts(tenant, job_id) == [1, 1, 1]


def test_tokens_that_were_really_used_hold_up_what_comes_next(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """It was charged the 10 that the ones before had used, and used 100: what it used more is paid for by waiting."""
    limit(tenant, tokens_per_minute=60, average_tokens=10)
    job_id = submit(tenant, submitter, "test-limited", "ok", "ok", "ok")
    eventually(lambda: states(tenant, job_id).get("1") is ItemState.SUCCEEDED, what="the first")
    sentence = eventually(lambda: why(tenant, job_id), what="the reason")
    assert sentence.endswith(": 60 tokens a minute")
    with reading(tenant.pk):
        row = Limit.objects.get()
        assert row.tokens_due is not None
        assert row.tokens_due > database_clock() + timedelta(seconds=60)
    assert attempts(tenant, job_id) == [1, 0, 0]


def test_two_jobs_of_one_tenant_take_turns_however_many_items_the_first_has(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """The first is well on its way when the second comes, and everything of both waits in one lane before the limit opens:
    a place in the lane is by rank, and not by who came first or who has fewer before them."""
    limit(tenant, concurrency=2)
    many = submit(tenant, submitter, "test-limited", *["ok"] * 20, *["gate"] * 2, *["ok"] * 100)
    eventually(lambda: sum(attempts(tenant, many)) == 22 and running(tenant) == 2, what="both places taken")
    few = submit(tenant, submitter, "test-limited", *["ok"] * 10, key="few")
    eventually(lambda: len(states(tenant, few)) == 10, what="the items of the second")
    fan_outs.GATE.set()
    assert summary(tenant, few) == [f"R{n}" for n in range(1, 11)]
    assert len(summary(tenant, many)) == 122
    with reading(tenant.pk):
        rows = Attempt.objects.filter(item__stage__name="enrich").order_by("started_at", "pk")
        order = list(rows.values_list("item__job_id", flat=True))[22:]
    turns = order[: max(n for n, job in enumerate(order) if job == few) + 1]
    assert turns.count(few) == 10
    assert turns.count(many) <= 12
    assert max(len(list(run)) for _, run in groupby(turns)) <= 4


def test_a_second_jobs_one_item_comes_before_what_the_first_has_left(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """In the lane without a limit: every slot is taken by the first job, and hundreds of its items wait, as the second comes."""
    many = submit(tenant, submitter, "test-all", *["ok"] * 20, *["gate"] * 4, *["ok"] * 300)
    eventually(lambda: sum(attempts(tenant, many)) == 24 and running(tenant) == 4, what="every slot taken")
    one = submit(tenant, submitter, "test-most", "ok")
    fan_outs.GATE.set()
    assert summary(tenant, one) == ["R1"]
    assert len(summary(tenant, many)) == 324
    with reading(tenant.pk):
        rows = Attempt.objects.filter(item__job_id__in=[many, one]).order_by("started_at", "pk")
        order = list(rows.values_list("item__job_id", flat=True))
    begun = order.index(one)
    assert order[:begun].count(many) <= 1 + 1 + 24 + 4, "validate, read, what ran, and one claim's share"


def test_a_shared_limit_holds_for_all_tenants_together_and_is_shared_fairly(
    engine: Engine, second_engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """Two may run in all, and one of the other tenant. Mine fill both places first, and many more of mine are waiting: as
    soon as one of them ends, the other tenant has its place, and keeps it while it has work."""
    other = make_tenant()
    SharedLimit.objects.create(name="model-a", concurrency=2, changed_at=timezone.now(), changed_by="test")
    limit(other, concurrency=1)
    mine = submit(tenant, submitter, "test-limited", *["gate"] * 20)
    eventually(lambda: running(tenant) == 2, what="two of mine")
    theirs = submit(other, make_person(other, Role.SUBMITTER), "test-limited", *["gate"] * 3)
    eventually(lambda: len(states(other, theirs)) == 3, what="theirs to be there")
    assert (running(tenant), attempts(other, theirs)) == (2, [0, 0, 0])
    assert eventually(lambda: why(other, theirs), what="the reason").startswith("waiting for limit model-a")

    fan_outs.GATE.set()
    assert summary(tenant, mine) == [f"R{n}" for n in range(1, 21)]
    assert summary(other, theirs) == ["R1", "R2", "R3"]
    ran = sorted([*runs(tenant), *runs(other)])
    assert len(ran) == 23
    assert most_at_once(ran) == 2
    assert most_at_once(runs(other)) == 1
    done = max(n for n, run in enumerate(ran) if run.tenant_id == other.pk)
    assert done <= 2 + 3 * 4, f"three of theirs came only after {done - 2} of mine"


class Ran(NamedTuple):
    """From when to when one attempt held its place under the limit, by the database's clock."""

    started_at: datetime
    ended_at: datetime
    tenant_id: int


def runs(tenant: Tenant) -> list[Ran]:
    with reading(tenant.pk):
        rows = Attempt.objects.filter(item__stage__name="enrich").order_by("started_at", "pk")
        return [Ran(*row, tenant.pk) for row in rows.values_list("started_at", "ended_at")]


def most_at_once(ran: list[Ran]) -> int:
    return max(sum(other.started_at <= run.started_at < other.ended_at for other in ran) for run in ran)


def test_what_was_used_is_settled_against_what_was_charged(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    limit(tenant, tokens_per_minute=1_000_000, cost_per_day=Decimal(100))
    job_id = submit(tenant, submitter, "test-limited", *["ok"] * 12)
    assert len(summary(tenant, job_id)) == 12
    with reading(tenant.pk):
        row = Limit.objects.get()
        assert row.spent == sum(Attempt.objects.values_list("cost", flat=True)) == Decimal(6)
        assert row.average_tokens == pytest.approx(100)
        assert row.average_cost == Decimal("0.5")


def test_a_budget_that_is_used_up_stops_claims_until_tomorrow(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    limit(tenant, cost_per_day=Decimal(2), average_cost=Decimal("0.5"))
    job_id = submit(tenant, submitter, "test-limited", *["ok"] * 6)
    eventually(lambda: sum(attempts(tenant, job_id)) == 4, what="four for two")
    sentence = eventually(lambda: why(tenant, job_id), what="the reason")
    assert sentence.endswith(": a budget of 2 a day")
    assert sum(attempts(tenant, job_id)) == 4


def test_one_that_is_told_to_wait_closes_the_limit_for_the_others(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    limit(tenant, concurrency=1)
    records = [{"code": "a", "act": "once", "wait": 600}, {"code": "b"}, {"code": "c"}]
    job_id = submit(tenant, submitter, "test-limited", *records)
    eventually(lambda: states(tenant, job_id).get("1") is ItemState.BACKING_OFF, what="the first to back off")
    assert attempts(tenant, job_id) == [1, 0, 0]
    sentence = eventually(lambda: why(tenant, job_id), what="the reason")
    assert sentence.startswith("waiting for limit model-a until ")
    assert sentence.endswith(": the other side asked to wait")


def test_a_lane_under_a_limit_and_one_without_take_turns(tenant: Tenant, submitter: Person) -> None:
    """Everything waits before the only slot appears, so that only the order of claims tells."""
    limited = submit(tenant, submitter, "test-limited", *["ok"] * 30)
    plain = submit(tenant, submitter, "test-all", *["ok"] * 30)
    one = Engine(slots=1, lease_seconds=20)
    one.start_threads()
    try:
        summary(tenant, limited)
        summary(tenant, plain)
    finally:
        one.request_stop()
        one.join()
    with reading(tenant.pk):
        rows = Attempt.objects.filter(item__stage__name="enrich").order_by("started_at")
        order = list(rows.values_list("item__job_id", flat=True))
    first_done = min(len(order) - 1 - order[::-1].index(job) for job in (limited, plain))
    # Whose fan-out opens first has a start; from when both have begun until one is done they take turns.
    both = order[max(order.index(limited), order.index(plain)) : first_done + 1]
    assert len(both) > 10, "one waited for the other to be done"
    assert max(len(list(run)) for _, run in groupby(both)) <= 4


def test_what_was_taken_over_counts_no_longer(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    """Concurrency is what runs by the rows, so what a dead worker held is free when it is taken over."""
    limit(tenant, concurrency=1)
    job_id = submit(tenant, submitter, "test-limited", "gate", "ok")
    eventually(lambda: running(tenant) == 1, what="one to run")
    as_engine("UPDATE workflows_worker SET lease_until = now() - interval '1 s'", [])
    second = Engine(slots=2, lease_seconds=20)
    second.start_threads()
    try:
        eventually(lambda: attempts(tenant, job_id)[0] == 2, what="the takeover")
        fan_outs.GATE.set()
        assert summary(tenant, job_id) == ["R1", "R2"]
    finally:
        fan_outs.GATE.set()
        second.request_stop()
        second.join()


def test_a_limit_that_somebody_edits_is_waited_for(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    """A person's transaction holds the limit's row; work under it goes on as soon as that ends, by the new terms."""
    row = limit(tenant, concurrency=5)
    with acting(tenant.pk):
        Limit.objects.select_for_update().get(pk=row.pk)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (mine,) = cursor.fetchone()
        with psycopg.connect(settings_url(), autocommit=True) as watching:
            job_id = _submit_elsewhere(tenant, submitter)
            eventually(
                lambda: watching.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))", [mine]
                ).fetchone(),
                what="the claim to wait",
            )
        Limit.objects.filter(pk=row.pk).update(concurrency=1)
    assert summary(tenant, job_id) == ["R1"]


def _submit_elsewhere(tenant: Tenant, person: Person) -> int:
    """Submit over another connection: this thread's is in a transaction."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_submit_and_close, tenant, person).result()


def _submit_and_close(tenant: Tenant, person: Person) -> int:
    try:
        return submit(tenant, person, "test-limited", "ok")
    finally:
        connection.close()


def settings_url() -> str:
    """The database of this test process."""
    return os.environ["DATABASE_URL"]
