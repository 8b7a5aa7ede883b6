"""The table of moves and the derivation, from Python and from raw SQL."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection

from access.roles import WORKER
from access.tenancy import acting
from dispatch.joining import Standing, derive
from dispatch.states import MOVES, OperationState
from tests.dispatch.world import Dispatching, a_contract, as_owner
from workflows import journal
from workflows.locks import lock_job
from workflows.models import Job
from workflows.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)
URL = "http://127.0.0.1:9"
OUT_OF_A_BACKUP = (OperationState.PREPARED, OperationState.UNKNOWN)


def standings(text: str) -> list[Standing]:
    """ "CONFIRMED UNKNOWN:look-up" as standings."""
    return [Standing(s.split(":")[0], s.partition(":")[2].replace("-", " ")) for s in text.split()]


@pytest.mark.parametrize(
    ("operations", "state", "event"),
    [
        ("CONFIRMED", "CONFIRMED", "outcome.confirmed"),
        ("CONFIRMED CONFIRMED", "CONFIRMED", "outcome.confirmed"),
        ("SUBMITTED", "SUBMITTED", "operation.under_way"),
        ("UNKNOWN:look-up", "SUBMITTED", "operation.under_way"),
        ("UNKNOWN:resubmit", "SUBMITTED", "operation.under_way"),
        ("UNKNOWN", "NEEDS_RECONCILIATION", "outcome.unknown"),
        ("UNKNOWN SUBMITTED", "NEEDS_RECONCILIATION", "outcome.unknown"),
        ("CONFLICTED", "NEEDS_RECONCILIATION", "outcome.conflicted"),
        ("CONFIRMED PREPARED:send", "SUBMITTED", "operation.under_way"),
        ("CONFIRMED PREPARED:blocked", "SUBMITTED", "operation.under_way"),
        ("CONFIRMED PREPARED", "NEEDS_RECONCILIATION", "outcome.partial"),
        ("CONFIRMED REFUSED", "NEEDS_RECONCILIATION", "outcome.partial"),
        ("CONFIRMED NOT_APPLIED", "NEEDS_RECONCILIATION", "outcome.partial"),
        ("NOT_APPLIED:resubmit", "SUBMITTED", "operation.under_way"),
        ("PREPARED:send", "READY_TO_COMMIT", "submission.not_applied"),
        ("PREPARED:blocked", "READY_TO_COMMIT", "submission.not_applied"),
        ("REFUSED PREPARED:send", "READY_TO_COMMIT", "submission.not_applied"),
        ("REFUSED PREPARED", "FAILED", "outcome.not_applied"),
        ("REFUSED", "FAILED", "outcome.not_applied"),
        ("NOT_APPLIED", "FAILED", "outcome.not_applied"),
        ("WITHDRAWN", "FAILED", "outcome.not_applied"),
    ],
)
def test_a_job_follows_from_its_operations(operations: str, state: str, event: str) -> None:
    derived = derive(standings(operations), cancelled=False)
    assert (derived.state, derived.event) == (state, event)


@pytest.mark.parametrize(
    ("operations", "state"),
    [
        ("WITHDRAWN", "CANCELLED"),
        ("REFUSED", "CANCELLED"),
        ("CONFIRMED WITHDRAWN", "CANCELLED"),
        ("CONFIRMED", "CONFIRMED"),
        ("UNKNOWN:look-up", "SUBMITTED"),
        ("UNKNOWN WITHDRAWN", "NEEDS_RECONCILIATION"),
    ],
)
def test_a_cancel_waits_until_every_operation_is_settled(operations: str, state: str) -> None:
    assert derive(standings(operations), cancelled=True).state == state


@pytest.mark.parametrize("source", list(OperationState))
def test_the_database_moves_an_operation_only_along_the_table(source: OperationState) -> None:
    d = Dispatching.make(URL, a_contract())
    job = d.ready()
    operation = d.operation(job)
    with acting(d.tenant_id):
        connection.cursor().execute(
            "INSERT INTO dispatch_observation (tenant_id, operation_id, kind, finding, proves, summary, detail, digest,"
            " receipt_id, seen_by, seen_at) VALUES (%s, %s, 'answer', 'applied', true, '', '', '', '', 'w', now())",
            [d.tenant_id, operation.pk],
        )
    allowed = set()
    for target in OperationState:
        if target is source:
            continue
        as_owner(
            "dispatch_operation",
            "state = %s, version = 7 WHERE id = %s",
            [source.value, operation.pk],
        )
        try:
            with acting(d.tenant_id), connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE dispatch_operation SET state = %s, version = 8 WHERE id = %s",
                    [target.value, operation.pk],
                )
                assert cursor.rowcount == 1
            allowed.add((source, target))
        except DatabaseError:
            pass
    assert allowed == {(a, b) for a, b in MOVES if a == source} - {OUT_OF_A_BACKUP}


def test_what_was_never_sent_becomes_unknown_out_of_a_backup_only() -> None:
    d = Dispatching.make(URL, a_contract())
    operation = d.operation(d.ready())
    unknown = "UPDATE dispatch_operation SET state = 'UNKNOWN', version = 1"
    with pytest.raises(DatabaseError, match="was never sent"), acting(d.tenant_id):
        connection.cursor().execute(f"{unknown} WHERE id = %s", [operation.pk])
    with acting(d.tenant_id), connection.cursor() as cursor:
        cursor.execute(f"{unknown}, quarantined_at = now() WHERE id = %s", [operation.pk])
        assert cursor.rowcount == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dispatch_operation SET state = 'SUBMITTED'",
        "UPDATE dispatch_operation SET state = 'SUBMITTED', version = version + 2",
        "UPDATE dispatch_operation SET version = version + 1",
        "UPDATE dispatch_operation SET operation_key = 'other'",
        "DELETE FROM dispatch_operation",
        "UPDATE dispatch_observation SET summary = 'x'",
    ],
)
def test_the_database_refuses_what_bypasses_the_code(statement: str) -> None:
    d = Dispatching.make(URL, a_contract())
    job = d.ready()
    before = d.operation(job)
    with pytest.raises(DatabaseError), acting(d.tenant_id):
        connection.cursor().execute(statement)
    after = d.operation(job)
    assert (after.state, after.version, after.operation_key) == (
        before.state,
        before.version,
        before.operation_key,
    )


def test_an_operation_is_not_confirmed_without_an_observation() -> None:
    d = Dispatching.make(URL, a_contract())
    job = d.ready()
    as_owner("dispatch_operation", "state = 'UNKNOWN', version = 7 WHERE job_id = %s", [job.pk])
    with pytest.raises(DatabaseError, match="no observation that proves it"), acting(d.tenant_id):
        connection.cursor().execute("UPDATE dispatch_operation SET state = 'CONFIRMED', version = 8")


@pytest.mark.parametrize("state", ["SUBMITTED", "UNKNOWN", "CONFLICTED"])
@pytest.mark.parametrize("target", [JobState.FAILED, JobState.CANCELLED, JobState.CONFIRMED])
def test_a_job_does_not_end_while_an_operation_is_unsettled(state: str, target: JobState) -> None:
    d, job = _submitted(state)
    with pytest.raises(DatabaseError, match="is not settled"), acting(d.tenant_id):
        journal.transition(job=lock_job(job.pk), to=target, event="x", actor=WORKER, evidence={})
    assert d.job_state(job) == "SUBMITTED"


@pytest.mark.parametrize("state", ["PREPARED", "REFUSED", "NOT_APPLIED", "WITHDRAWN"])
def test_a_job_is_not_confirmed_unless_every_operation_is(state: str) -> None:
    d, job = _submitted(state)
    with pytest.raises(DatabaseError, match="cannot become CONFIRMED"), acting(d.tenant_id):
        journal.transition(job=lock_job(job.pk), to=JobState.CONFIRMED, event="x", actor=WORKER, evidence={})
    assert d.job_state(job) == "SUBMITTED"


def _submitted(state: str) -> tuple[Dispatching, Job]:
    d = Dispatching.make(URL, a_contract())
    job = d.ready()
    with acting(d.tenant_id):
        journal.transition(
            job=lock_job(job.pk),
            to=JobState.SUBMITTED,
            event="operation.submitted",
            actor=WORKER,
            evidence={},
        )
    as_owner("dispatch_operation", "state = %s, version = 7 WHERE job_id = %s", [state, job.pk])
    return d, job
