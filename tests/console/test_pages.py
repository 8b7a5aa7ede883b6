"""Every page for every role, for outsiders, empty and full, with a constant number of queries."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver

from access.models import Person, Tenant
from access.roles import Role
from console.links import link
from tests.console.support import (
    HOSTILE,
    as_person,
    make_fan,
    make_job,
    make_operation,
    make_proposal,
    make_receiver,
    move,
    record_attempt,
)
from tests.support import make_person, make_tenant
from workflows.models import WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = ("home", "jobs", "job", "item", "job-input", "job-journal", "job-journal-export", "receivers")


def address(name: str, slug: str, job_id: int, item_id: int) -> str:
    arguments = {"home": (), "jobs": (), "receivers": (), "item": (job_id, item_id)}.get(name, (job_id,))
    return link(name, slug, *arguments)


def item_of(tenant: Tenant, job_id: int) -> int:
    from access.tenancy import reading

    with reading(tenant.pk):
        return WorkItem.objects.filter(job=job_id).values_list("pk", flat=True)[0]


@pytest.mark.parametrize("role", list(Role))
def test_every_role_reads_every_page(tenant: Tenant, submitter: Person, role: Role) -> None:
    job_id = make_job(tenant, submitter)
    make_receiver(tenant)
    client = as_person(make_person(tenant, role))
    for name in PAGES:
        response = client.get(address(name, tenant.slug, job_id, item_of(tenant, job_id)))
        assert response.status_code == 200, name


@pytest.mark.parametrize("name", PAGES)
def test_an_outsider_gets_the_404_of_an_unknown_address(tenant: Tenant, submitter: Person, name: str) -> None:
    job_id = make_job(tenant, submitter)
    url = address(name, tenant.slug, job_id, item_of(tenant, job_id))
    outsider = as_person(make_person(make_tenant(), *Role))
    hidden, unknown = outsider.get(url), outsider.get(url.replace(tenant.slug, "no-such-tenant"))
    assert (hidden.status_code, unknown.status_code) == (404, 404)
    assert same(hidden.content.decode(), tenant.slug) == same(unknown.content.decode(), "no-such-tenant")


def same(html: str, slug: str) -> str:
    """A page without its address, its moment and its CSRF token."""
    return re.sub(r'"X-CSRFToken": "\w+"|data-now="[^"]+"|value="\w{64}"', "", html.replace(slug, ""))


def test_a_member_finds_no_job_of_another_tenant(tenant: Tenant, submitter: Person) -> None:
    other = make_tenant()
    theirs = make_job(other, make_person(other, Role.SUBMITTER))
    for name in ("job", "job-journal", "job-input", "job-cancel"):
        response = as_person(submitter).get(link(name, tenant.slug, theirs))
        assert response.status_code == 404, name


def addresses(patterns: list[URLPattern | URLResolver], before: str = "") -> list[str]:
    """Every address below an organisation's, of the job 1, the item 1 and so on."""
    found: list[str] = []
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            found += addresses(pattern.url_patterns, route)
        elif route.startswith("t/<slug:slug>/"):
            found.append(re.sub(r"<int:\w+>", "1", re.sub(r"<str:\w+>", "x", route)))
    return found


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options", "trace"])
def test_an_address_that_is_asked_for_in_a_way_it_does_not_know_says_so(tenant: Tenant, method: str) -> None:
    """Whatever it is asked in, a page answers: what it has for a form that was posted empty, or 405."""
    client, every = as_person(make_person(tenant, *Role)), addresses(get_resolver().url_patterns)
    asked = {path: getattr(client, method)(f"/{path}".replace("<slug:slug>", tenant.slug)) for path in every}
    assert len(every) > 50
    statuses = {path: response.status_code for path, response in asked.items()}
    known = {302, 404, 405, 409, 413, 422} if method == "post" else {405}
    assert {path: s for path, s in statuses.items() if s not in known} == {}


def test_an_empty_tenant_says_what_is_missing(tenant: Tenant, submitter: Person) -> None:
    client = as_person(submitter)
    assert "Nothing waits. Nobody has to act." in client.get(link("home", tenant.slug)).content.decode()
    assert "No job yet" in client.get(link("jobs", tenant.slug)).content.decode()
    assert "No receiver yet" in client.get(link("receivers", tenant.slug)).content.decode()


def test_hostile_text_in_a_title_is_escaped_everywhere(tenant: Tenant, submitter: Person) -> None:
    job_id = make_job(tenant, submitter, title=HOSTILE, lines=[HOSTILE], reference=HOSTILE[:40])
    admin = as_person(make_person(tenant, Role.ADMIN))
    admin.post(link("job-hold", tenant.slug, job_id), {"reason": HOSTILE})
    for name in ("home", "jobs", "job", "item", "job-journal"):
        html = admin.get(address(name, tenant.slug, job_id, item_of(tenant, job_id))).content.decode()
        assert "<img" not in html, name
        assert "&lt;img src=x" in html, name


def queries_of(client: object, url: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)  # type: ignore[attr-defined]
    assert response.status_code == 200
    return len(captured)


def fill(tenant: Tenant, submitter: Person) -> int:
    """A job that has something in every part of its page."""
    job_id = make_job(tenant, submitter)
    make_fan(tenant, job_id, [ItemState.SUCCEEDED, ItemState.BACKING_OFF, ItemState.EXHAUSTED])
    move(tenant, job_id, "VALIDATED")
    make_operation(tenant, make_proposal(tenant, job_id, submitter), make_receiver(tenant))
    move(tenant, job_id, "PROPOSED", "AWAITING_APPROVAL")
    return job_id


@pytest.mark.parametrize(("name", "count"), [("home", 25), ("jobs", 17), ("receivers", 13)])
def test_a_list_costs_the_same_at_one_and_at_three_rows(
    tenant: Tenant, submitter: Person, name: str, count: int
) -> None:
    client = as_person(submitter)
    fill(tenant, submitter)
    first = queries_of(client, link(name, tenant.slug))
    fill(tenant, submitter)
    fill(tenant, submitter)
    assert (first, queries_of(client, link(name, tenant.slug))) == (count, count)


def test_a_job_costs_the_same_at_three_and_at_six_items(tenant: Tenant, submitter: Person) -> None:
    client = as_person(submitter)
    small = fill(tenant, submitter)
    large = make_job(tenant, submitter)
    make_fan(tenant, large, [ItemState.SUCCEEDED, ItemState.BACKING_OFF, ItemState.EXHAUSTED] * 2)
    move(tenant, large, "VALIDATED")
    make_operation(tenant, make_proposal(tenant, large, submitter), make_receiver(tenant))
    move(tenant, large, "PROPOSED", "AWAITING_APPROVAL")
    counted = [queries_of(client, link("job", tenant.slug, job_id)) for job_id in (small, large)]
    assert counted == [45, 45]


def test_a_step_counts_all_of_its_items_that_have_stopped(tenant: Tenant, submitter: Person) -> None:
    job_id = make_job(tenant, submitter)
    make_fan(tenant, job_id, [ItemState.SUCCEEDED, ItemState.EXHAUSTED, ItemState.REFUSED, ItemState.REFUSED])
    html = as_person(submitter).get(link("job", tenant.slug, job_id)).content.decode()
    assert "1 of 4, 3 stopped" in html


def test_item_page_shows_where_an_attempt_failed_and_what_the_model_had_said(
    tenant: Tenant, submitter: Person
) -> None:
    job_id = make_job(tenant, submitter)
    item_id = item_of(tenant, job_id)
    record_attempt(
        tenant, item_id, outcome="retryable", error_class="ValidationError", error_message="no amount",
        trace="shop/steps.py:12:assess", answer=f'{{"amount": "{HOSTILE}"}}',
    )  # fmt: skip
    page = as_person(submitter).get(address("item", tenant.slug, job_id, item_id)).content.decode()
    assert "shop/steps.py:12:assess" in page
    assert "What the model had said" in page
    assert HOSTILE not in page
