"""The submit form: a field of every kind, errors at their fields, values kept, one job a rendering."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from access.models import Tenant
from access.roles import Role
from access.tenancy import reading
from console.links import link
from tests.console.support import HOSTILE, as_person
from tests.support import install, make_person
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

FILLED = {
    "reference": "PO-1",
    "title": "Twelve chairs",
    "quantity": "12",
    "amount": "1250.00",
    "currency": "EUR",
    "urgency": "high",
    "channel": "courier",
    "rush": "on",
    "lines": "chair\r\n\r\n table ",
    "remarks": "",
    "address.city": "Ghent",
    "address.postcode": "",
    "submission_key": "form-1",
}


@pytest.fixture
def client(tenant: Tenant) -> Client:
    return as_person(make_person(tenant, Role.SUBMITTER))


def send(client: Client, tenant: Tenant, **changes: Any) -> HttpResponse:
    body = {**FILLED, **{k.replace("__", "."): v for k, v in changes.items()}}
    return client.post(link("submit-workflow", tenant.slug, "test-orders"), body)  # type: ignore[return-value]


def jobs(tenant: Tenant) -> list[Job]:
    with reading(tenant.pk):
        return list(Job.objects.order_by("pk"))


def test_the_form_shows_a_control_for_every_kind(client: Client, tenant: Tenant) -> None:
    html = client.get(link("submit-workflow", tenant.slug, "test-orders")).content.decode()
    for control in (
        r'<input type="text" name="reference"',
        r'<input type="number" name="quantity"',
        r'<select name="channel"',
        r'<input type="checkbox" name="rush"',
        r'<textarea name="lines"',
        r'<textarea name="remarks"',
        r'<input type="text" name="address.city"',
        r'name="submission_key" value="form-[0-9a-f]{32}"',
    ):
        assert re.search(control, html), control
    assert "The number of the order." in html
    assert "<legend>Address</legend>" in html


def test_a_submission_makes_a_job_with_what_was_filled_in(client: Client, tenant: Tenant) -> None:
    response = send(client, tenant)
    (job,) = jobs(tenant)
    assert (response.status_code, response.headers["Location"]) == (302, link("job", tenant.slug, job.pk))
    assert job.input == (
        '{"address":{"city":"Ghent"},"amount":"1250.00","channel":"courier","currency":"EUR",'
        '"lines":["chair","table"],"quantity":12,"reference":"PO-1","rush":true,"title":"Twelve chairs",'
        '"urgency":"high"}'
    )


def test_a_double_press_makes_one_job_and_leads_to_it_twice(client: Client, tenant: Tenant) -> None:
    first, second = send(client, tenant), send(client, tenant)
    assert len(jobs(tenant)) == 1
    assert first.headers["Location"] == second.headers["Location"]


def test_every_wrong_field_is_named_and_every_value_kept(client: Client, tenant: Tenant) -> None:
    response = send(
        client, tenant, quantity="many", amount="12,50", currency="EURO", title=HOSTILE, address__city=""
    )
    html = response.content.decode()
    assert response.status_code == 422
    for name in ("quantity", "amount", "currency", "address.city"):
        assert f'id="id_{name}_error"' in html, name
    assert 'id="id_title_error"' not in html
    assert "4 fields need another look." in html
    assert "&lt;img src=x" in html
    assert "<img" not in html
    assert 'value="many"' in html
    assert 'value="form-1"' in html
    assert jobs(tenant) == []


def test_a_reference_that_is_taken_leads_to_its_job(client: Client, tenant: Tenant) -> None:
    send(client, tenant)
    response = send(client, tenant, submission_key="form-2")
    (job,) = jobs(tenant)
    assert response.status_code == 409
    assert f'href="{link("job", tenant.slug, job.pk)}"' in response.content.decode()


def test_a_form_that_made_a_job_asks_before_it_makes_another(client: Client, tenant: Tenant) -> None:
    send(client, tenant)
    response = send(client, tenant, reference="PO-2")
    key = re.search(r'name="submission_key" value="([^"]+)"', response.content.decode())
    assert response.status_code == 422
    assert key is not None
    assert len(jobs(tenant)) == 1
    send(client, tenant, reference="PO-2", submission_key=key.group(1))
    assert [job.reference for job in jobs(tenant)] == ["PO-1", "PO-2"]


@pytest.mark.parametrize("role", [Role.MANAGER, Role.OPERATOR, Role.ADMIN, Role.AUDITOR])
def test_only_a_submitter_may_start_a_job(tenant: Tenant, role: Role) -> None:
    other = as_person(make_person(tenant, role))
    response = send(other, tenant)
    assert response.status_code == 403
    assert "Only a submitter of this organisation may do this." in response.content.decode()
    assert other.get(link("submit", tenant.slug)).status_code == 403
    assert jobs(tenant) == []


def test_an_unknown_workflow_is_not_found(client: Client, tenant: Tenant) -> None:
    assert client.get(link("submit-workflow", tenant.slug, "no-such")).status_code == 404


def test_a_body_over_the_limit_is_refused_with_413(client: Client, tenant: Tenant) -> None:
    strict = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    strict.force_login(make_person(tenant, Role.SUBMITTER))
    strict.get(link("submit-workflow", tenant.slug, "test-orders"))  # which sets the CSRF cookie
    for browser in (client, strict):
        response = send(browser, tenant, remarks="x" * 1_000_001)
        assert response.status_code == 413
        assert "This is too large" in response.content.decode()
    assert jobs(tenant) == []


def test_the_choice_says_that_a_package_could_not_be_loaded(
    client: Client, tenant: Tenant, settings: Any
) -> None:
    install(settings, "not_there", *settings.COUNTERFOIL_WORKFLOWS)
    html = client.get(link("submit", tenant.slug)).content.decode()
    assert "Some packages could not be loaded." in html
    assert "not_there" not in html, "what is wrong with an installation is no tenant's business"
    assert "test-orders" in html
