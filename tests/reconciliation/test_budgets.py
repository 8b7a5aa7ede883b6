"""A budget of a day that is used up while work waits: one case for each limit, of an admin, until work goes through again."""

from __future__ import annotations

import os
import secrets
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.urls import reverse
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting, reading
from outbox.models import Message
from reconciliation import budgets
from reconciliation.models import Case, CaseKind, Evidence
from tests.dispatch.world import as_owner
from tests.reconciliation.pages import as_person, html_of
from tests.reconciliation.plans import beside_many_cases
from tests.support import at_once, eventually, install, make_person, make_tenant, running_engine
from tests.workflows.test_needs import summary
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job
from workflows.actions.limits import Terms, set_limit
from workflows.actions.submit import submit_job
from workflows.models import Limit, SharedLimit, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _fan_outs(settings: Any, _own_workflow: None) -> None:
    install(settings, "tests.workflows.definitions", "tests.workflows.fan_outs")


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def submitter(tenant: Tenant) -> Person:
    return make_person(tenant, Role.SUBMITTER)


@pytest.fixture
def admin(tenant: Tenant) -> Person:
    return make_person(tenant, Role.ADMIN)


def limit(kind: type[Any], cost: str = "2", **columns: Any) -> None:
    kind.objects.create(
        name="model-a", changed_at=timezone.now(), changed_by="test", cost_per_day=Decimal(cost),
        average_cost=Decimal("0.5"), **columns,
    )  # fmt: skip


def own_limit(tenant: Tenant, cost: str = "2") -> None:
    with acting(tenant.pk):
        limit(Limit, cost, tenant=tenant)


def cases(tenant: Tenant) -> list[Case]:
    with reading(tenant.pk):
        return list(Case.objects.filter(kind=CaseKind.BUDGET_PASSED).select_related("job").order_by("pk"))


def waiting(tenant: Tenant) -> int:
    with reading(tenant.pk):
        return WorkItem.objects.filter(state=ItemState.READY.number, limited=True).count()


def found() -> list[tuple[int, int]]:
    """What an engine finds to do."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as engine:
        engine.execute("SET ROLE counterfoil_engine")
        return [(tenant, lane) for tenant, lane in engine.execute(budgets.FIND).fetchall()]


def look() -> None:
    """What an engine does: find, and take a turn at each."""
    for tenant_id, lane_id in found():
        budgets.turn(tenant_id, lane_id, "w")


def submit(tenant: Tenant, submitter: Person, records: int) -> int:
    made = submit_job(
        tenant_id=tenant.pk, workflow="test-limited", submission_key=secrets.token_hex(8), person_id=submitter.pk,
        value={"records": [{"code": f"c{n}", "act": "ok"} for n in range(records)]}, source="test", now=timezone.now(),
    )  # fmt: skip
    return made.job_id


def used_up(tenant: Tenant, submitter: Person, *more: int) -> list[int]:
    """Jobs of six items at a half each under a budget for four of them, and what has been spent by then."""
    with running_engine(4):
        jobs = [submit(tenant, submitter, 6)]
        eventually(lambda: waiting(tenant) == 2, what="two to wait")
        eventually(lambda: len(cases(tenant)) == 1, what="the case")
        for number in more:
            jobs.append(submit(tenant, submitter, number))
        eventually(lambda: waiting(tenant) == 2 + sum(more), what="all to wait")
    return jobs


def test_it_is_one_case_of_an_admin_until_the_budget_is_raised(
    tenant: Tenant, submitter: Person, admin: Person, settings: Any
) -> None:
    """Two jobs wait; the engine opens the case by itself, and closes it once an admin has raised the limit."""
    settings.EMAIL_HOST = "mail.example.test"
    own_limit(tenant)
    first, second = used_up(tenant, submitter, 3)
    (case,) = cases(tenant)
    assert (case.job_id, case.owner_role, case.blocking) == (first, "admin", False)
    assert case.title == "The budget of limit model-a is used up for today: raise it, or let the work wait?"
    assert case.detail.startswith("2 of 2 USD a day are spent. 2 steps wait in 1 job. By itself it goes on ")
    assert case.detail.endswith("an admin raises it under Limits, and it goes on at once.")
    with reading(tenant.pk):
        mailed = Message.objects.filter(event="case.opened", subject__case=case.pk, person__isnull=False)
        assert list(mailed.values_list("person", flat=True)) == [admin.pk]
    page = as_person(admin).get(reverse("case", args=(tenant.slug, case.pk)))
    assert (page.status_code, case.title in html_of(page)) == (200, True)
    assert found() == []
    with running_engine(4):
        set_limit(
            tenant_id=tenant.pk, name="model-a", terms=Terms(cost_per_day=Decimal(20)), person_id=admin.pk,
            now=timezone.now(),
        )  # fmt: skip
        assert len(summary(tenant, first)) == 6
        assert len(summary(tenant, second)) == 3
        eventually(lambda: cases(tenant)[0].resolved_at is not None, what="its end")
    assert [c.resolution for c in cases(tenant)] == [budgets.OPEN_AGAIN]


def test_the_next_day_closes_it(tenant: Tenant, submitter: Person) -> None:
    own_limit(tenant)
    used_up(tenant, submitter)
    as_owner("workflows_limit", "day = day - 1, closed_until = NULL WHERE tenant_id = %s", [tenant.pk])
    look()
    assert [c.resolution for c in cases(tenant)] == [budgets.OPEN_AGAIN]
    assert found() == []


def test_a_job_that_ends_takes_it_along_and_the_next_that_waits_has_one(
    tenant: Tenant, submitter: Person, admin: Person
) -> None:
    own_limit(tenant)
    first, second = used_up(tenant, submitter, 3)
    for job_id, resolution in ((first, "the job was cancelled"), (second, "the job was cancelled")):
        (case,) = [c for c in cases(tenant) if c.resolved_at is None]
        assert case.job_id == job_id
        cancel_job(
            tenant_id=tenant.pk, job_id=job_id, person_id=admin.pk, reason="not today", now=timezone.now()
        )
        assert [c.resolution for c in cases(tenant) if c.pk == case.pk] == [resolution]
        look()
    assert len(cases(tenant)) == 2
    assert found() == []


def test_what_does_not_wait_any_more_closes_it(tenant: Tenant, submitter: Person, admin: Person) -> None:
    own_limit(tenant)
    (job,) = used_up(tenant, submitter)
    hold_job(tenant_id=tenant.pk, job_id=job, person_id=admin.pk, reason="wait", now=timezone.now())
    look()
    assert [c.resolution for c in cases(tenant)] == [budgets.NOTHING_WAITS]


def test_of_two_workers_at_once_one_opens_it(tenant: Tenant, submitter: Person) -> None:
    own_limit(tenant)
    used_up(tenant, submitter)
    as_owner(
        "reconciliation_case",
        "resolved_at = now(), resolution = 'by hand' WHERE tenant_id = %s",
        [tenant.pk],
    )
    ((_, lane),) = found()
    at_once(lambda: budgets.turn(tenant.pk, lane, "w1"), lambda: budgets.turn(tenant.pk, lane, "w2"))
    assert [c.resolution for c in cases(tenant)] == ["by hand", ""]
    with reading(tenant.pk):
        assert Evidence.objects.filter(case=cases(tenant)[-1]).count() == 1, "the second has nothing to add"


def test_a_shared_budget_asks_each_organisation_and_tells_no_sums_of_others(
    tenant: Tenant, submitter: Person
) -> None:
    limit(SharedLimit)
    used_up(tenant, submitter)
    other = make_tenant()
    with running_engine(4):
        submit(other, make_person(other, Role.SUBMITTER), 1)
        eventually(lambda: len(cases(other)) == 1, what="theirs")
    (theirs,) = cases(other)
    assert theirs.detail.startswith(
        "The installation's budget of 2 USD a day is used up. 1 step waits in 1 job."
    )
    assert theirs.detail.endswith("whoever runs the installation raises it.")
    assert len(cases(tenant)) == 1


def test_a_limit_of_nought_is_no_surprise(tenant: Tenant, submitter: Person) -> None:
    """Work was paid for today, and then the admin has shut it."""
    with acting(tenant.pk):
        limit(Limit, "0", tenant=tenant, spent=1, day=timezone.now().date())
    with running_engine(4):
        submit(tenant, submitter, 1)
        eventually(lambda: waiting(tenant) == 1, what="it to wait")
    assert found() == []
    assert cases(tenant) == []


def test_who_looks_every_few_seconds_reads_no_other_open_case() -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        beside_many_cases(owner, make_tenant().pk)
        plan = "\n".join(row[0] for row in owner.execute(f"EXPLAIN {budgets.FIND}"))
        owner.rollback()
    assert "Seq Scan on reconciliation_case" not in plan, plan
    by_kind = (
        "using case_budget_passed" in plan or "Index Cond: ((kind)::text = 'budget passed'::text)" in plan
    )
    assert by_kind, plan
