"""The submit API: one job an idempotency key, and problem+json for everything that is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from tests.console.support import as_person, make_job, order
from tests.support import make_person, make_tenant
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


def send(client: Client, slug: str, body: Any, *, key: str | None = "k-1", name: str = "test-orders") -> Any:
    raw = body if isinstance(body, str | bytes) else json.dumps(body)
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post(
        f"/api/v1/t/{slug}/workflows/{name}/jobs", raw, content_type="application/json", headers=headers
    )


def count(tenant: Tenant) -> int:
    with reading(tenant.pk):
        return Job.objects.count()


def refused(response: Any, status: int) -> dict[str, Any]:
    assert (response.status_code, response.headers["Content-Type"]) == (status, "application/problem+json")
    body: dict[str, Any] = json.loads(response.content)
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body


def test_a_submission_is_accepted_and_can_be_read_where_it_says(tenant: Tenant, submitter: Person) -> None:
    client = as_person(submitter)
    response = send(client, tenant.slug, order())
    assert response.status_code == 202
    assert "Idempotency-Replayed" not in response.headers
    read = client.get(response.headers["Location"])
    assert read.json() == response.json()
    assert (read.json()["state"], read.json()["source"]) == ("RECEIVED", "API")


def test_a_replay_answers_the_same_job_and_says_so(tenant: Tenant, submitter: Person) -> None:
    client, body = as_person(submitter), order()
    first, second = send(client, tenant.slug, body), send(client, tenant.slug, body)
    assert (second.status_code, second.headers["Idempotency-Replayed"]) == (202, "true")
    assert first.headers["Location"] == second.headers["Location"]
    assert count(tenant) == 1


def test_every_wrong_field_is_named(tenant: Tenant, submitter: Person) -> None:
    wrong = order(quantity="many", channel="pigeon", address={"city": ""}, extra=1)
    body = refused(send(as_person(submitter), tenant.slug, wrong), 422)
    assert [e["field"] for e in body["errors"]] == ["quantity", "channel", "address.city", "extra"]
    assert all(e["detail"] for e in body["errors"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{", 400),
        (b"\xff\xfe", 400),
        ('{"a": 1, "a": 2}', 422),
        (json.dumps(order(amount=12.5)), 422),
        ('{"amount": NaN}', 422),
        (json.dumps(order(title="a\u0007b")), 422),
        ('{"\\ud800": 1}', 422),
        ('{"\\ud800": 1, "\\ud800": 1}', 422),
        ("[" * 100_000, 400),
        (json.dumps(order(remarks="x" * 1_000_001)), 413),
    ],
    ids=[
        "not JSON",
        "not UTF-8",
        "key twice",
        "float",
        "NaN",
        "control character",
        "half a pair",
        "half a pair twice",
        "too deep",
        "too large",
    ],
)
def test_what_cannot_be_taken_is_a_problem_and_no_job(
    tenant: Tenant, submitter: Person, body: str | bytes, status: int
) -> None:
    refused(send(as_person(submitter), tenant.slug, body), status)
    assert count(tenant) == 0


def test_a_key_is_needed_and_belongs_to_one_input(tenant: Tenant, submitter: Person) -> None:
    client = as_person(submitter)
    refused(send(client, tenant.slug, order(), key=None), 400)
    refused(send(client, tenant.slug, order(), key="x" * 201), 422)
    send(client, tenant.slug, order())
    refused(send(client, tenant.slug, order()), 422)
    assert count(tenant) == 1


def test_a_reference_that_is_taken_names_its_job(tenant: Tenant, submitter: Person) -> None:
    client, body = as_person(submitter), order()
    first = send(client, tenant.slug, body)
    assert refused(send(client, tenant.slug, body, key="k-2"), 409)["job"] == first.headers["Location"]


def test_strangers_find_nothing_and_others_are_told_who_may(tenant: Tenant, submitter: Person) -> None:
    job_id = make_job(tenant, submitter)
    outsider = as_person(make_person(make_tenant(), *Role))
    refused(send(outsider, tenant.slug, order()), 404)
    refused(outsider.get(f"/api/v1/t/{tenant.slug}/jobs/{job_id}"), 404)
    refused(send(as_person(submitter), "no-such-tenant", order()), 404)
    refused(send(as_person(submitter), tenant.slug, order(), name="no-such"), 404)
    refused(as_person(submitter).get(f"/api/v1/t/{tenant.slug}/jobs/{job_id + 1}"), 404)
    told = refused(send(as_person(make_person(tenant, Role.MANAGER)), tenant.slug, order()), 403)
    assert told["detail"] == "Only a submitter of this organisation may do this."
    assert count(tenant) == 1


def test_without_a_session_it_is_401_and_without_a_token_403(tenant: Tenant, submitter: Person) -> None:
    refused(send(Client(headers={"host": "localhost"}), tenant.slug, order()), 401)
    strict = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    strict.force_login(submitter)
    refused(send(strict, tenant.slug, order()), 403)
    assert count(tenant) == 0


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize(
    "path",
    [
        "no-such-address",
        "t/{slug}",
        "t/%00/jobs/1",
        "t/{slug}/jobs/1/files/%00",
        "t/%00/events/bank",
        "t/{slug}/events/a%00b",
        "t/{slug}/workflows/%00/jobs",
    ],
)
def test_an_address_that_names_nothing_is_told_as_every_refusal(
    tenant: Tenant, submitter: Person, path: str, method: str
) -> None:
    for client in (as_person(submitter), Client(headers={"host": "localhost"})):
        refused(getattr(client, method)(f"/api/v1/{path.format(slug=tenant.slug)}"), 404)
