"""The journal is the only way to move a job, and nobody can edit it."""

from __future__ import annotations

import secrets

import pytest
from django.db import Error, connection
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import WORKER, Actor, ActorKind
from access.tenancy import acting, reading
from tests.support import make_tenant
from workflows import journal
from workflows.locks import lock_job
from workflows.models import Job, JournalEntry
from workflows.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)


def received(tenant: Tenant, person: Person) -> Job:
    """A job with its first journal row."""
    with acting(tenant.pk):
        job = Job.objects.create(
            tenant=tenant,
            workflow="w",
            revision="1",
            title="t",
            submission_key=secrets.token_hex(6),
            input="{}",
            submitted_by=person,
            created_at=timezone.now(),
        )
        actor = Actor(kind=ActorKind.SUBMITTER, name=person.username, person_id=person.pk)
        journal.transition(
            job=job, to=JobState.RECEIVED, event="job.received", actor=actor, evidence={"ä": "ü\u2028"}
        )
    return job


def test_rows_are_numbered_dated_and_chained_by_the_database(tenant: Tenant, submitter: Person) -> None:
    job = received(tenant, submitter)
    with acting(tenant.pk):
        locked = lock_job(job.pk)
        journal.transition(
            job=locked, to=JobState.VALIDATED, event="input.validated", actor=WORKER, evidence={}
        )
        journal.record(job=locked, event="something.noted", actor=WORKER, evidence={"a": [1, "b"]})
    with reading(tenant.pk):
        entries = list(JournalEntry.objects.filter(job_id=job.pk).order_by("sequence"))
        stored = Job.objects.get(pk=job.pk)
    assert [e.sequence for e in entries] == [1, 2, 3]
    assert [bytes(e.previous) for e in entries] == [b"", *(bytes(e.hash) for e in entries[:2])]
    assert [bytes(e.hash) for e in entries] == [journal.entry_hash(e) for e in entries]
    assert (stored.state, stored.version, bytes(stored.head)) == ("VALIDATED", 3, bytes(entries[-1].hash))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE workflows_job SET state = 'CONFIRMED'",
        "UPDATE workflows_job SET version = 9",
        "UPDATE workflows_job SET head = ''",
        "DELETE FROM workflows_job",
        "UPDATE workflows_journalentry SET event = 'x'",
        "DELETE FROM workflows_journalentry",
        "TRUNCATE workflows_journalentry",
        "INSERT INTO workflows_journalentry (id, tenant_id) VALUES (1, 1)",
        "INSERT INTO workflows_journalentry (tenant_id, hash) VALUES (1, '')",
        "CREATE TEMPORARY TABLE t (i int)",
        "CREATE TABLE t (i int)",
        "ALTER TABLE workflows_job DISABLE TRIGGER ALL",
        "SET ROLE counterfoil_journal; UPDATE access_tenant SET name = 'x'",
        "DELETE FROM workflows_attempt",
        "UPDATE workflows_checkpoint SET output = '1'",
    ],
)
def test_raw_sql_cannot_get_around_the_journal(tenant: Tenant, submitter: Person, statement: str) -> None:
    job = received(tenant, submitter)
    with pytest.raises(Error), acting(tenant.pk), connection.cursor() as cursor:
        cursor.execute(statement)
    with reading(tenant.pk):
        assert Job.objects.values_list("state", "version").get(pk=job.pk) == ("RECEIVED", 1)
        assert JournalEntry.objects.filter(job=job).count() == 1


INSERT = (
    "INSERT INTO workflows_journalentry (tenant_id, job_id, sequence, event, from_state, to_state, actor_kind,"
    " actor_id, actor_name, evidence) VALUES (%s, %s, %s, 'x', %s, %s, 'worker', 0, 'x', '{}')"
)


@pytest.mark.parametrize(
    ("sequence", "source", "target", "said"),
    [
        (1, "RECEIVED", "VALIDATED", "is at version 1"),
        (3, "RECEIVED", "VALIDATED", "is at version 1"),
        (2, "VALIDATED", "PROPOSED", "is RECEIVED, not VALIDATED"),
        (2, "RECEIVED", "CONFIRMED", "is not allowed"),
        (2, "RECEIVED", "", "names no transition"),
    ],
)
def test_a_row_that_does_not_follow_is_refused(
    tenant: Tenant, submitter: Person, sequence: int, source: str, target: str, said: str
) -> None:
    job = received(tenant, submitter)
    with pytest.raises(Error, match=said), acting(tenant.pk), connection.cursor() as cursor:
        cursor.execute(INSERT, [tenant.pk, job.pk, sequence, source, target])


def test_on_conflict_do_nothing_does_not_move_a_job_without_a_row(tenant: Tenant, submitter: Person) -> None:
    job = received(tenant, submitter)
    with pytest.raises(Error, match="is at version 1"), acting(tenant.pk), connection.cursor() as cursor:
        cursor.execute(INSERT + " ON CONFLICT DO NOTHING", [tenant.pk, job.pk, 1, "RECEIVED", "VALIDATED"])
    with reading(tenant.pk):
        assert Job.objects.get(pk=job.pk).state == "RECEIVED"


def test_another_tenants_job_cannot_be_moved(tenant: Tenant, submitter: Person) -> None:
    job, other = received(tenant, submitter), make_tenant()
    for claimed in (other.pk, tenant.pk):
        with pytest.raises(Error), acting(other.pk), connection.cursor() as cursor:
            cursor.execute(INSERT, [claimed, job.pk, 2, "RECEIVED", "VALIDATED"])
    with reading(tenant.pk):
        assert Job.objects.get(pk=job.pk).state == "RECEIVED"


def test_a_job_without_a_journal_row_cannot_be_saved(tenant: Tenant, submitter: Person) -> None:
    with pytest.raises(Error, match="without a journal entry"), acting(tenant.pk):
        Job.objects.create(
            tenant=tenant,
            workflow="w",
            revision="1",
            title="t",
            submission_key="k",
            input="{}",
            submitted_by=submitter,
            created_at=timezone.now(),
        )
    with reading(tenant.pk):
        assert not Job.objects.exists()
