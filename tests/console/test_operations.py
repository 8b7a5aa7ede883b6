"""The operations of a job: all of few, the most urgent of many on the job's page, and a page of all."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import Person, Tenant
from access.owner import as_owner
from access.roles import Role
from console.links import link
from tests.console.support import (
    HOSTILE,
    as_person,
    make_job,
    make_operation,
    make_proposal,
    make_receiver,
    move,
)
from tests.support import make_person

pytestmark = pytest.mark.django_db(transaction=True)


def a_job_with(
    tenant: Tenant, submitter: Person, size: int, receiver: str = "Astrel ERP", **states: int
) -> int:
    """A job with so many operations; `states` says how many, from the last one back, are in a state."""
    job_id = make_job(tenant, submitter)
    move(tenant, job_id, "VALIDATED")
    proposal, at = make_proposal(tenant, job_id, submitter), make_receiver(tenant, receiver)
    made = [make_operation(tenant, proposal, at, ordinal=n) for n in range(1, size + 1)]
    move(tenant, job_id, "PROPOSED", "AWAITING_APPROVAL")
    for state, count in states.items():
        ids = [made.pop().pk for _ in range(count)]
        with as_owner(connection), connection.cursor() as cursor:
            cursor.execute("ALTER TABLE dispatch_operation DISABLE TRIGGER USER")
            cursor.execute("UPDATE dispatch_operation SET state = %s WHERE id = ANY(%s)", [state, ids])
            cursor.execute("ALTER TABLE dispatch_operation ENABLE TRIGGER USER")
    return job_id


def titles(html: str) -> list[str]:
    return re.findall(r"Update vendor (V-\d+)<br>", html)


def test_job_page_shows_all_of_few_operations(tenant: Tenant, submitter: Person) -> None:
    job_id = a_job_with(tenant, submitter, 20)

    html = as_person(submitter).get(link("job", tenant.slug, job_id)).content.decode()

    assert titles(html) == [f"V-{n}" for n in range(1, 21)]
    assert "20, each from a proposal" in html
    assert "Show all" not in html.split('id="journal-t"')[0]


def test_job_page_shows_what_wants_to_be_looked_at_first_of_many(tenant: Tenant, submitter: Person) -> None:
    job_id = a_job_with(tenant, submitter, 40, UNKNOWN=2, REFUSED=1, CONFIRMED=30)

    html = as_person(submitter).get(link("job", tenant.slug, job_id)).content.decode()

    assert titles(html) == ["V-39", "V-40", "V-38", "V-1", "V-2", "V-3", "V-4", "V-5"]
    assert "40: 2 outcome unknown · 1 refused · 7 not sent yet · 30 confirmed" in html
    assert f'href="{link("job-operations", tenant.slug, job_id)}">Show all 40 operations' in html


def test_all_operations_are_on_a_page_of_their_own_fifty_at_a_time(tenant: Tenant, submitter: Person) -> None:
    job_id = a_job_with(tenant, submitter, 70, CONFIRMED=5)
    client, address = as_person(submitter), link("job-operations", tenant.slug, job_id)

    first = client.get(address).content.decode()
    following = re.search(r'href="(\?after=\d+)" rel="next"', first)
    assert following is not None
    second = client.get(address + following[1]).content.decode()

    assert titles(first) + titles(second) == [f"V-{n}" for n in range(1, 71)]
    assert len(titles(first)) == 50
    assert 'rel="next"' not in second
    assert titles(client.get(f"{address}?state=CONFIRMED").content.decode()) == [
        f"V-{n}" for n in range(66, 71)
    ]
    assert "No operation here" in client.get(f"{address}?state=UNKNOWN").content.decode()
    assert len(titles(client.get(f"{address}?state=rubbish&after=x").content.decode())) == 50


@pytest.mark.parametrize("name", ["job", "job-operations"])
def test_page_asks_the_same_of_the_database_for_any_number_of_operations(
    tenant: Tenant, submitter: Person, name: str
) -> None:
    client, counted = as_person(submitter), []
    for size in (25, 60):
        address = link(name, tenant.slug, a_job_with(tenant, submitter, size))
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address).status_code == 200
        counted.append(len(captured))

    assert counted[0] == counted[1]


def test_page_is_for_the_members_of_the_organisation(tenant: Tenant, submitter: Person) -> None:
    job_id = a_job_with(tenant, submitter, 3, receiver=HOSTILE)
    address = link("job-operations", tenant.slug, job_id)

    auditor = as_person(make_person(tenant, Role.AUDITOR)).get(address)
    assert auditor.status_code == 200
    assert "<img" not in auditor.content.decode()
    assert as_person(Person.objects.create(username="nobody")).get(address).status_code == 404
