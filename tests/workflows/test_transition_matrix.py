"""Every (from, to, actor) is allowed or refused exactly as the table of states.py says, from Python and from raw SQL."""

from __future__ import annotations

import itertools

import pytest
from django.db import Error, connection, transaction
from django.utils import timezone

from access.models import Person, Tenant
from access.owner import as_owner
from access.roles import Actor, ActorKind
from access.tenancy import acting, reading
from workflows import journal, states
from workflows.models import Job
from workflows.states import ACTOR_KINDS, ALLOWED, NOT_YET, JobState

pytestmark = pytest.mark.django_db(transaction=True)
SOURCES = [NOT_YET, *(s.value for s in JobState)]
TARGETS = [s.value for s in JobState]


def _job(tenant: Tenant, person: Person, state: str) -> int:
    """A job in any state, put there by the database's owner with the guard switched off."""
    with acting(tenant.pk):
        job = Job.objects.create(
            tenant=tenant,
            workflow="w",
            revision="1",
            title="t",
            submission_key=f"in {state}",
            input="{}",
            submitted_by=person,
            created_at=timezone.now(),
        )
        actor = Actor(kind=ActorKind.SUBMITTER, name="x", person_id=person.pk)
        journal.transition(job=job, to=JobState.RECEIVED, event="job.received", actor=actor, evidence={})
    with as_owner(connection), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE workflows_job DISABLE TRIGGER moves_by_journal")
        cursor.execute("UPDATE workflows_job SET state = %s WHERE id = %s", [state, job.pk])
        cursor.execute("ALTER TABLE workflows_job ENABLE TRIGGER moves_by_journal")
    return int(job.pk)


def _refused_by_table(tenant: Tenant, job_id: int, source: str, target: str, actor: str) -> bool:
    """Whether the trigger's table refuses the row; other rooms' triggers may refuse an allowed one for evidence."""
    try:
        with acting(tenant.pk), connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO workflows_journalentry (tenant_id, job_id, sequence, event, from_state, to_state,"
                " actor_kind, actor_id, actor_name, evidence) VALUES (%s, %s, 2, 'tried', %s, %s, %s, 0, 'x', '{}')",
                [tenant.pk, job_id, source, target, actor],
            )
            transaction.set_rollback(True)
    except Error as error:
        return "is not allowed" in str(error)
    return False


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s or "nothing")
def test_the_database_allows_exactly_what_the_table_allows(
    tenant: Tenant, submitter: Person, source: str
) -> None:
    job_id = _job(tenant, submitter, source)
    allowed = {
        (target, actor)
        for target, actor in itertools.product(TARGETS, ACTOR_KINDS)
        if not _refused_by_table(tenant, job_id, source, target, actor)
    }
    assert allowed == {(t, a) for s, t, a in ALLOWED if s == source}
    with reading(tenant.pk):
        assert Job.objects.values_list("state", "version").get(pk=job_id) == (source, 1)


def test_python_allows_exactly_what_the_table_allows() -> None:
    for source, target, actor in itertools.product(SOURCES, TARGETS, ACTOR_KINDS):
        try:
            states.check(source, target, actor)
            allowed = True
        except states.TransitionNotAllowed:
            allowed = False
        assert allowed == ((source, target, actor) in ALLOWED), (source, target, actor)


def test_the_function_in_the_database_holds_todays_table() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = 'workflows_journal_advance'")
        (source,) = cursor.fetchone()
    assert all(f"('{a}', '{b}', '{c}')" in source for a, b, c in ALLOWED)
