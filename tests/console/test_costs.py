"""What work cost, as the pages tell it: the page of costs and its file, the home page, the job's page."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from console.links import link
from tests.console.support import as_person, make_job, move, record_attempt
from tests.support import make_person, make_tenant
from workflows.costs import counting
from workflows.engine.connections import connect
from workflows.models import WorkItem

pytestmark = pytest.mark.django_db(transaction=True)
NOON = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)


@pytest.fixture
def auditor(tenant: Tenant) -> Client:
    return as_person(make_person(tenant, Role.AUDITOR))


def spend(tenant: Tenant, job_id: int, cost: str, at: datetime = NOON, **columns: object) -> None:
    """An attempt of the job that cost this."""
    with reading(tenant.pk):
        item = WorkItem.objects.filter(job=job_id).values_list("pk", flat=True)[0]
    row = {"route": "large", "tokens_in": 10, "started_at": at, "ended_at": at, **columns}
    record_attempt(tenant, item, cost=Decimal(cost), **row)


def text(client: Client, url: str, status: int = 200) -> str:
    """What a page says, without marks and with single blanks."""
    response = client.get(url)
    assert response.status_code == status
    said = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", said).replace("\N{NO-BREAK SPACE}", " ").split())


def story(tenant: Tenant, submitter: Person) -> int:
    """One job that goes on, one that failed, and a call that nobody knows the cost of."""
    job_id, refused = make_job(tenant, submitter), make_job(tenant, submitter)
    spend(tenant, job_id, "1.25")
    spend(tenant, job_id, "0.50", outcome="retryable", error_class="X")
    spend(tenant, refused, "2.00", at=NOON - timedelta(days=1), route="small")
    spend(tenant, job_id, "0", outcome="permanent", unpriced=1)
    move(tenant, refused, "VALIDATED", "FAILED")
    return job_id


@pytest.mark.parametrize("counted", [False, True])
def test_page_tells_kept_failed_refused_and_unknown_apart(
    tenant: Tenant, submitter: Person, auditor: Client, counted: bool
) -> None:
    story(tenant, submitter)
    if counted:
        with connect("test") as books:
            counting.count_all(books)
    said = text(auditor, f"{link('costs', tenant.slug)}?since=2026-02-11&until=2026-03-12")
    assert (
        "What calls to models cost from 11 February 2026 to 12 March 2026, in USD. Days are those of UTC."
        in said
    )
    assert "Failed and refused work cost more than what was kept: $ 2.50" in said
    assert "$ 3.75 + ? and calls of unknown cost in all, 67% of it on work that failed" in said
    assert "Nobody here knows what 1 call cost" in said
    assert "Test orders $ 1.25 $ 0.50 + ? and calls of unknown cost $ 2.00 $ 3.75" in said
    assert "small 10 0 – – $ 2.00 $ 2.00" in said
    assert "Thu 12 Mar 2026 $ 1.25" in said
    assert "Wed 11 Mar 2026 – – $ 2.00 $ 2.00" in said


def test_file_has_a_line_for_each_day_workflow_route_and_fate(
    tenant: Tenant, submitter: Person, auditor: Client
) -> None:
    story(tenant, submitter)
    response = auditor.get(f"{link('costs-file', tenant.slug)}?since=2026-03-11&until=2026-03-12")
    assert response.headers["Content-Disposition"].endswith(f'"cost-{tenant.slug}-2026-03-11-2026-03-12.csv"')
    assert response.getvalue().decode().split("\r\n") == [
        "day,workflow,route,fate,cost,currency,calls_of_unknown_cost,tokens_in,tokens_out",
        "2026-03-11,test-orders,small,refused,2.00,USD,0,10,0",
        "2026-03-12,test-orders,large,kept,1.25,USD,0,10,0",
        "2026-03-12,test-orders,large,failed,0.50,USD,1,20,0",
        "",
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("since=yesterday", "Write days as 2026-03-01"),
        ("since=2026-03-12&until=2026-03-11", "The first day is later than the last"),
        ("since=2020-01-01&until=2026-03-11", "At most 400 days are shown at once"),
        ("since=0001-01-01&until=9999-12-31", "At most 400 days are shown at once"),
    ],
)
def test_days_that_cannot_be_are_answered_with_what_to_do(
    tenant: Tenant, auditor: Client, query: str, said: str
) -> None:
    assert said in text(auditor, f"{link('costs', tenant.slug)}?{query}", 422)


@pytest.mark.parametrize("role", list(Role))
def test_costs_are_for_whoever_answers_for_the_work(tenant: Tenant, role: Role) -> None:
    client = as_person(make_person(tenant, role))
    wanted = 403 if role is Role.SUBMITTER else 200
    for name in ("costs", "costs-file"):
        assert client.get(link(name, tenant.slug)).status_code == wanted
    assert (link("costs", tenant.slug) in client.get(link("home", tenant.slug)).content.decode()) == (
        wanted == 200
    )


def test_another_organisation_finds_nothing(tenant: Tenant, submitter: Person) -> None:
    story(tenant, submitter)
    other = make_tenant()
    outsider = as_person(make_person(other, Role.AUDITOR))
    assert outsider.get(link("costs", tenant.slug)).status_code == 404
    assert "Nothing was spent in these days" in text(
        outsider, f"{link('costs', other.slug)}?since=2026-03-01&until=2026-03-31"
    )


def test_day_is_the_organisations_own(tenant: Tenant, submitter: Person, auditor: Client) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(time_zone="Asia/Kolkata")
    job_id = make_job(tenant, submitter)
    spend(tenant, job_id, "1", at=datetime(2026, 3, 12, 18, 40, tzinfo=UTC))
    page = link("costs", tenant.slug)
    assert "Fri 13 Mar 2026 $ 1.00" in text(auditor, f"{page}?since=2026-03-13&until=2026-03-13")
    assert "Nothing was spent" in text(auditor, f"{page}?since=2026-03-12&until=2026-03-12")


def test_home_says_when_failed_runs_cost_more_than_successful_ones(
    tenant: Tenant, submitter: Person, auditor: Client
) -> None:
    job_id, now = make_job(tenant, submitter), timezone.now()
    spend(tenant, job_id, "1.00", at=now)
    spend(tenant, job_id, "0.40", at=now - timedelta(hours=22), outcome="retryable", error_class="X")
    spend(tenant, job_id, "9.00", at=now - timedelta(hours=25))
    said = text(auditor, link("home", tenant.slug))
    assert "$ 1.40 in 24 h, 29% of it on work that failed or was refused" in said
    assert "Failed runs cost more" not in said
    spend(tenant, job_id, "0.61", at=now, outcome="stale")
    assert "Failed runs cost more than successful ones" in text(auditor, link("home", tenant.slug))


def test_job_page_tells_what_failed_and_what_was_refused(tenant: Tenant, submitter: Person) -> None:
    job_id = story(tenant, submitter)
    client = as_person(submitter)
    said = text(client, link("job", tenant.slug, job_id))
    assert "$ 0.50 + ? and calls of unknown cost went to 2 attempts that gave no result." in said
    assert "Nobody here knows what 1 call cost." in said
    move(tenant, job_id, "VALIDATED", "FAILED")
    assert "$ 1.25 went to results of a job that was refused." in text(
        client, link("job", tenant.slug, job_id)
    )


def test_what_costs_less_than_a_cent_is_not_shown_as_nothing(
    tenant: Tenant, submitter: Person, auditor: Client
) -> None:
    job_id = make_job(tenant, submitter)
    spend(tenant, job_id, "0.0000002")
    page = f"{link('costs', tenant.slug)}?since=2026-03-01&until=2026-03-31"
    assert "$ 0.0000002" in text(auditor, page)


def test_page_shows_the_last_thirty_days_unless_asked_otherwise(tenant: Tenant, auditor: Client) -> None:
    today = timezone.now().date()
    said = text(auditor, link("costs", tenant.slug))
    first = today - timedelta(days=29)
    assert f"from {first.day} {first:%B %Y} to {today.day} {today:%B %Y}" in said


def test_item_page_tells_what_each_route_of_an_attempt_used(tenant: Tenant, submitter: Person) -> None:
    job_id = make_job(tenant, submitter)
    by_route = (
        '[{"route": "large", "calls": 2, "tokens_in": 12000, "tokens_out": 9, "tokens_cached": 4000,'
        ' "tokens_cache_written": 0, "tokens_reasoning": 3, "cost": "0.4", "unpriced": 0},'
        ' {"route": "small", "calls": 1, "tokens_in": 3, "tokens_out": 0, "tokens_cached": 0,'
        ' "tokens_cache_written": 0, "tokens_reasoning": 0, "cost": "0", "unpriced": 1}]'
    )
    spend(tenant, job_id, "0.4", unpriced=1, by_route=by_route)
    with reading(tenant.pk):
        item = WorkItem.objects.filter(job=job_id).values_list("pk", flat=True)[0]
    said = text(as_person(submitter), link("item", tenant.slug, job_id, item))
    assert "large: 2 calls, 12,000 tokens in (4,000 from the cache), 9 out (3 of reasoning), $ 0.40" in said
    assert "small: 1 call, 3 tokens in, 0 out, unknown" in said
