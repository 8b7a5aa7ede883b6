"""What an owner of the database could do to a journal with the triggers switched off is found, and named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from access import tenant_journal
from access.models import Membership, Person, Tenant
from access.owner import as_owner
from access.roles import WORKER, Role
from access.tenancy import acting
from tests.support import forget_workflows, install
from workflows import journal
from workflows.actions.submit import submit_job
from workflows.locks import lock_job
from workflows.states import JobState
from workflows.verification import Verified, verify_jobs, verify_tenants

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_workflow(settings: Any) -> Iterator[None]:
    install(settings, "tests.workflows_for_tests")
    yield
    forget_workflows()


@pytest.fixture
def submitter(tenant: Tenant) -> int:
    person = Person.objects.create(username=f"sub.{tenant.slug}")
    with acting(tenant.pk):
        Membership.objects.create(tenant=tenant, person=person, role=Role.SUBMITTER)
    return person.pk


def test_journal_that_nobody_touched_verifies(
    tenant: Tenant, submitter: int, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = a_job(tenant, submitter, "A"), a_job(tenant, submitter, "B")
    two_tenant_entries(tenant)

    call_command("verify_journal")

    assert first != second
    assert capsys.readouterr().out == (
        "Every chain is whole. Jobs: 2 (rows: 8). Organisations: 1 (rows: 2).\n"
    )


def test_evidence_that_was_edited_is_named(tenant: Tenant, submitter: int) -> None:
    job_id = a_job(tenant, submitter)
    tamper(
        "workflows_journalentry", f"UPDATE @ SET evidence = '{{}}' WHERE job_id = {job_id} AND sequence = 3"
    )

    with pytest.raises(CommandError) as refused:
        call_command("verify_journal")

    assert str(refused.value) == (
        f"The journal was changed. First bad row: JOB-{job_id}, row 3 (note.kept):"
        " its content is not what was hashed when it was written."
    )


@pytest.mark.parametrize(
    ("change", "place", "why"),
    [
        ("UPDATE @ SET actor_name = 'p.quint' WHERE sequence = 1", "row 1 (job.received)", "content"),
        (
            "UPDATE @ SET at = at + interval '1 microsecond' WHERE sequence = 2",
            "row 2 (job.validated)",
            "content",
        ),
        ("UPDATE @ SET hash = sha256(hash) WHERE sequence = 2", "row 2 (job.validated)", "content"),
        ("DELETE FROM @ WHERE sequence = 2", "row 3 (note.kept)", "row 2 is missing"),
        ("DELETE FROM @ WHERE sequence = 1", "row 2 (job.validated)", "row 1 is missing"),
        (
            "DELETE FROM @ WHERE sequence = 4",
            "row 3 (note.kept)",
            "it is the last row, and the head is at version 4",
        ),
        ("DELETE FROM @", "JOB-", "its head is at version 4, and it has no rows"),
        (
            "UPDATE @ SET previous = '' WHERE sequence = 4",
            "row 4 (note.kept)",
            "it does not follow the row before it",
        ),
    ],
)
def test_change_of_a_row_is_found(tenant: Tenant, submitter: int, change: str, place: str, why: str) -> None:
    a_job(tenant, submitter)
    tamper("workflows_journalentry", change)

    bad = found(verify_jobs())

    assert place in bad
    assert why in bad


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE @ SET state = 'CONFIRMED'", "it ends in VALIDATED, and the job is CONFIRMED"),
        ("UPDATE @ SET version = 9", "it is the last row, and the head is at version 9"),
        ("UPDATE @ SET head = sha256(head)", "it is the last row, and the head is another hash"),
    ],
)
def test_change_of_a_job_beside_its_journal_is_found(
    tenant: Tenant, submitter: int, change: str, why: str
) -> None:
    a_job(tenant, submitter, last_event=None)
    tamper("workflows_job", change)

    assert found(verify_jobs()).endswith(why)


def test_state_is_compared_also_when_the_last_row_moved_nothing(tenant: Tenant, submitter: int) -> None:
    a_job(tenant, submitter)
    tamper("workflows_job", "UPDATE @ SET state = 'CONFIRMED'")

    assert found(verify_jobs()).endswith("it ends in VALIDATED, and the job is CONFIRMED")


def test_chain_that_was_rewritten_with_a_forbidden_step_is_found(tenant: Tenant, submitter: int) -> None:
    """Somebody recomputes hash and head, so that every link fits: the table of states still says no."""
    job_id = a_job(tenant, submitter, last_event=None)
    tamper(
        "workflows_journalentry",
        "UPDATE @ SET to_state = 'CONFIRMED', event = 'job.confirmed' WHERE sequence = 2;"
        "UPDATE @ SET hash = sha256(previous || int8send(tenant_id) || int8send(job_id) || int8send(sequence)"
        " || int8send(counterfoil_micros(at)) || counterfoil_frame(event) || counterfoil_frame(from_state)"
        " || counterfoil_frame(to_state) || counterfoil_frame(actor_kind) || int8send(actor_id)"
        " || counterfoil_frame(actor_name) || counterfoil_frame(evidence)) WHERE sequence = 2",
    )
    tamper(
        "workflows_job",
        "UPDATE @ SET state = 'CONFIRMED', head = (SELECT hash FROM workflows_journalentry WHERE sequence = 2)",
    )

    assert found(verify_jobs()) == (
        f"JOB-{job_id}, row 2 (job.confirmed): a worker may not move a job from RECEIVED to CONFIRMED"
    )


def test_one_job_is_verified_without_the_others(tenant: Tenant, submitter: int) -> None:
    bad, good = a_job(tenant, submitter, "A"), a_job(tenant, submitter, "B")
    tamper("workflows_journalentry", f"UPDATE @ SET evidence = '' WHERE job_id = {bad} AND sequence = 1")

    assert verify_jobs(job_id=good) == Verified(chains=1, rows=4)
    assert f"JOB-{bad}, row 1" in found(verify_jobs(job_id=bad))
    with pytest.raises(CommandError, match="There is no job 999999"):
        call_command("verify_journal", "--job", "999999")


def test_change_of_an_organisations_journal_is_named(tenant: Tenant) -> None:
    two_tenant_entries(tenant)
    tamper("access_tenantentry", "UPDATE @ SET event = 'policy.removed' WHERE sequence = 1")

    with pytest.raises(CommandError) as refused:
        call_command("verify_journal")

    assert f"organisation {tenant.pk}, row 1 (policy.removed): its content" in str(refused.value)


def test_last_entry_of_an_organisation_cannot_go_unnoticed(tenant: Tenant) -> None:
    two_tenant_entries(tenant)
    tamper("access_tenantentry", "DELETE FROM @ WHERE sequence = 2")

    assert found(verify_tenants()).endswith("it is the last row, and the head is at version 2")


def a_job(tenant: Tenant, submitter: int, item: str = "A", *, last_event: str | None = "note.kept") -> int:
    """A VALIDATED job with two rows of its journal, and two more that move nothing unless told otherwise."""
    job_id = submit_job(
        tenant_id=tenant.pk,
        workflow="test-orders",
        value={"item": item, "amount": "1.00", "currency": "EUR"},
        submission_key=item,
        person_id=submitter,
        source="tests",
        now=timezone.now(),
    ).job_id
    with acting(tenant.pk):
        job = lock_job(job_id)
        journal.transition(job=job, to=JobState.VALIDATED, event="job.validated", actor=WORKER, evidence={})
        for number in range(2 if last_event else 0):
            journal.record(
                job=job, event=str(last_event), actor=WORKER, evidence={"Nº": number, "who": "Ødegård"}
            )
    return job_id


def two_tenant_entries(tenant: Tenant) -> None:
    with acting(tenant.pk):
        for number in range(2):
            tenant_journal.record(event="policy.written", actor=WORKER, evidence={"revision": number})


def tamper(table: str, change: str) -> None:
    """As the owner, with every trigger of the table switched off."""
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        try:
            cursor.execute(change.replace("@", table))
        finally:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def found(verified: Verified) -> str:
    assert verified.bad is not None
    return str(verified.bad)
