"""What may come in: errors of shape are named before any job exists; one key makes one job."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from access.models import Person, Tenant
from access.refusals import NotPermitted
from access.roles import Role
from access.tenancy import reading
from tests.support import make_person
from workflows import submissions
from workflows.actions.submit import ReferenceTaken, SubmissionKeyReused, Submitted, submit_job
from workflows.models import Job, JournalEntry, WorkItem
from workflows.registry import NoSuchWorkflow, current

pytestmark = pytest.mark.django_db(transaction=True)


def send(
    tenant: Tenant, person: Person, value: Any, key: str = "k", workflow: str = "test-order"
) -> Submitted:
    """One submission."""
    return submit_job(
        tenant_id=tenant.pk,
        workflow=workflow,
        value=value,
        submission_key=key,
        person_id=person.pk,
        source="test",
        now=timezone.now(),
    )


def jobs(tenant: Tenant) -> int:
    with reading(tenant.pk):
        return Job.objects.count()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"{", "line 1"),
        (b"\xff\xfe", "UTF-8"),
        (b"[" * 100_000, "nested too deep"),
        (b"1" * 5000, "cannot be read|can be read"),
    ],
)
def test_what_is_not_json_says_where(body: bytes, said: str) -> None:
    with pytest.raises(submissions.NotJson, match=said):
        submissions.parse(body)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"amount": 12.5}', ["amount"]),
        (b'{"amount": 1e400}', ["amount"]),
        (b'{"amount": NaN}', ["amount"]),
        (b'{"amount": -Infinity}', ["amount"]),
        (b'{"amount": 12}', ["amount"]),
        (b'{"amount": "1e3"}', ["amount"]),
        (b'{"amount": "-0.00"}', ["amount"]),
        (b'{"amount": "12,50"}', ["amount"]),
        (b'{"currency": "EURO", "acts": "a", "refuse": "maybe"}', ["currency", "acts", "refuse"]),
        (b'{"currency": "ABC"}', ["currency"]),
        (b'{"reference": "a\\u0000b"}', ["reference"]),
        (b'{"reference": "a\\u001bb", "acts": ["\\ud800"]}', ["reference", "acts.0"]),
        (b'{"acts": [9007199254740993]}', ["acts.0"]),
        (b'{"a\\u0007": 1}', ["a\x07"]),
        (b'{"a\\ud800": 1}', ["a\\ud800"]),
        (b'"text"', [""]),
        (b"null", [""]),
    ],
)
def test_every_wrong_field_is_named_and_no_job_is_made(
    tenant: Tenant, submitter: Person, body: bytes, fields: list[str]
) -> None:
    with pytest.raises(submissions.InvalidSubmission) as refused:
        send(tenant, submitter, submissions.parse(body))
    assert [p.field for p in refused.value.problems] == fields
    assert all(p.message for p in refused.value.problems)
    assert jobs(tenant) == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"%s": [%s1]}' % (b"k" * 2000, b"1.5," * 240_000),
        b'{"acts": [%s1]}' % (b"1," * 480_000),
        b'{"acts": [%s1]}' % (b"1," * 5_000),
    ],
)
def test_what_is_wrong_in_very_many_places_is_named_by_its_first(
    tenant: Tenant, submitter: Person, body: bytes
) -> None:
    with pytest.raises(submissions.InvalidSubmission) as refused:
        send(tenant, submitter, submissions.parse(body))
    assert 1 <= len(refused.value.problems) <= 101
    assert len(str(refused.value)) < 50_000
    assert re.search("more is wrong than these 100|too many to be named", refused.value.problems[-1].message)


def test_a_repeated_json_key_is_refused() -> None:
    with pytest.raises(submissions.InvalidSubmission, match="given twice"):
        submissions.parse(b'{"amount":"10.00","amount":"9000.00"}')


def test_the_canonical_text_does_not_depend_on_the_order_of_keys() -> None:
    one = submissions.check(current("test-order"), submissions.parse(b'{"acts":["a"],"amount":"1.10"}'))
    other = submissions.check(current("test-order"), submissions.parse(b'{"amount":"1.10","acts":["a"]}'))
    assert one == other == '{"acts":["a"],"amount":"1.10"}'


def test_the_same_key_and_input_answer_the_same_job(tenant: Tenant, submitter: Person) -> None:
    first = send(tenant, submitter, {"acts": ["a"]})
    again = send(tenant, submitter, {"acts": ["a"]})
    assert (again.job_id, first.replayed, again.replayed) == (first.job_id, False, True)
    with pytest.raises(SubmissionKeyReused):
        send(tenant, submitter, {"acts": ["b"]})
    assert jobs(tenant) == 1
    with reading(tenant.pk):
        assert JournalEntry.objects.count() == 1
        assert WorkItem.objects.count() == 1


def test_many_at_once_with_one_key_make_one_job(tenant: Tenant, submitter: Person) -> None:
    answers: list[Submitted] = []
    barrier = threading.Barrier(8)

    def go() -> None:
        barrier.wait()
        answers.append(send(tenant, submitter, {"acts": ["a"]}))
        connection.close()

    threads = [threading.Thread(target=go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a.replayed for a in answers) == [False] + [True] * 7
    assert jobs(tenant) == 1


def test_one_reference_makes_one_job_and_the_other_is_named(tenant: Tenant, submitter: Person) -> None:
    first = send(tenant, submitter, {"reference": "INV-1"})
    with pytest.raises(ReferenceTaken, match=f"JOB-{first.job_id}"):
        send(tenant, submitter, {"reference": "INV-1"}, key="another")
    assert jobs(tenant) == 1


def test_only_a_submitter_of_the_tenant_may_submit(tenant: Tenant) -> None:
    manager = make_person(tenant, Role.MANAGER)
    with pytest.raises(NotPermitted, match="Only a submitter"):
        send(tenant, manager, {})
    assert jobs(tenant) == 0


def test_an_unknown_workflow_names_those_that_are_installed(tenant: Tenant, submitter: Person) -> None:
    with pytest.raises(NoSuchWorkflow, match="Installed: test-order"):
        send(tenant, submitter, {}, workflow="nothing")
