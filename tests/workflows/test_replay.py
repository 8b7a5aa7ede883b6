"""A job folded back from its journal and attempts: equal to what is stored, whatever happened to it, or told apart."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from access.models import Person, Tenant
from access.owner import as_owner
from access.roles import Role
from access.tenancy import reading
from tests.support import eventually, make_person
from tests.workflows import definitions
from tests.workflows.test_engine import events, settled, submit
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job, release_job
from workflows.actions.redrive import redrive_job
from workflows.actions.retry import fail_job, grant_attempts
from workflows.engine.engine import Engine
from workflows.models import JournalEntry, WorkItem
from workflows.replaying import comparing, rows
from workflows.replaying.folding import OPEN, fold

pytestmark = pytest.mark.django_db(transaction=True)
REASON: dict[str, Any] = {"reason": "so that it is seen"}


def differences(tenant: Tenant, job_id: int) -> list[str]:
    with rows.snapshot(tenant.pk):
        found = rows.rows_of(job_id)
        return [str(d) for d in comparing.compare(found, fold(found))]


def states(tenant: Tenant, job_id: int, at: int | None = None) -> dict[str, str]:
    """The items of "make" by key, after a line of the journal."""
    with rows.snapshot(tenant.pk):
        folded = fold(rows.rows_of(job_id), at)
    return {
        i.key: "open" if i.states == OPEN else " or ".join(sorted(i.states))
        for i in folded.items
        if i.stage == "make"
    }


def item_of(tenant: Tenant, job_id: int, key: str) -> int:
    with reading(tenant.pk):
        return WorkItem.objects.get(job_id=job_id, stage__name="make", key=key).pk


def line_of(tenant: Tenant, job_id: int, event: str) -> int:
    """The first line with this event."""
    return events(tenant, job_id).index(event) + 1


def test_every_turn_of_a_job_folds_to_what_is_stored(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """Stopped, granted, held, given up, redriven, held again, cancelled: equal after each, and as it was at each line."""
    operator = make_person(tenant, Role.OPERATOR, Role.ADMIN)
    job_id = submit(tenant, submitter, acts=["a", "once", "retry", "permanent"])
    who = {"tenant_id": tenant.pk, "person_id": operator.pk}
    settled(tenant, job_id, 4)
    eventually(
        lambda: len([e for e in events(tenant, job_id) if e in ("retry.exhausted", "item.refused")]) == 2
    )
    assert differences(tenant, job_id) == []

    grant_attempts(item_id=item_of(tenant, job_id, "3"), attempts=2, now=timezone.now(), **who, **REASON)
    eventually(lambda: events(tenant, job_id).count("retry.exhausted") == 2)
    assert differences(tenant, job_id) == []
    assert states(tenant, job_id, line_of(tenant, job_id, "attempts.granted"))["3"] == "open"
    assert states(tenant, job_id) == {"1": "SUCCEEDED", "2": "SUCCEEDED", "3": "EXHAUSTED", "4": "REFUSED"}

    hold_job(job_id=job_id, now=timezone.now(), **who, **REASON)
    assert differences(tenant, job_id) == []
    release_job(job_id=job_id, now=timezone.now(), **who)
    fail_job(job_id=job_id, now=timezone.now(), **who, **REASON)
    assert differences(tenant, job_id) == []
    assert states(tenant, job_id)["4"] in ("CANCELLED", "CANCELLED or REFUSED")

    redrive_job(job_id=job_id, attempts=1, now=timezone.now(), **who, **REASON)
    settled(tenant, job_id, 4)
    assert differences(tenant, job_id) == []
    cancel_job(job_id=job_id, now=timezone.now(), **who, **REASON)
    assert differences(tenant, job_id) == []
    with reading(tenant.pk):
        for entry in JournalEntry.objects.filter(job_id=job_id).exclude(to_state=""):
            with_line = fold_at(tenant, job_id, entry.sequence)
            assert (with_line.state, with_line.head) == (entry.to_state, bytes(entry.hash))


def fold_at(tenant: Tenant, job_id: int, at: int) -> Any:
    found = rows.rows_of(job_id)
    return fold(found, at)


def test_a_job_in_full_swing_is_no_difference(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    definitions.GATE.clear()
    job_id = submit(tenant, submitter, acts=["a", "gate", "once", "gate", "b"])
    eventually(lambda: differences(tenant, job_id) == [] and states(tenant, job_id).get("1") == "SUCCEEDED")
    assert states(tenant, job_id)["2"] == "open"
    cancel_job(tenant_id=tenant.pk, job_id=job_id, person_id=submitter.pk, reason="mine", now=timezone.now())
    assert differences(tenant, job_id) == []
    definitions.GATE.set()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE workflows_workitem SET state = 6 WHERE id = {item}", "state: SUCCEEDED by what was written down, REFUSED"),
        ("UPDATE workflows_workitem SET attempts = 3 WHERE id = {item}", "attempts used: 1 by what was written down, 3"),
        ("UPDATE workflows_job SET revision = '9' WHERE id = {job}", "revision: 1 by what was written down, 9"),
        ("UPDATE workflows_job SET held_at = now(), held_by = 'x' WHERE id = {job}", "held by: nothing by what was"),
        ("UPDATE workflows_job SET input_digest = 'x' WHERE id = {job}", "input: "),
        (
            "ALTER TABLE workflows_checkpoint DISABLE TRIGGER append_only;"
            "UPDATE workflows_checkpoint SET output = '1' WHERE item_id = {item};"
            "ALTER TABLE workflows_checkpoint ENABLE TRIGGER append_only",
            "make, item 1, result 1: digest",
        ),
        (
            "ALTER TABLE workflows_attempt DISABLE TRIGGER append_only;"
            "DELETE FROM workflows_attempt WHERE item_id = {item};"
            "ALTER TABLE workflows_attempt ENABLE TRIGGER append_only",
            "saved results: 0 by what was written down, 1",
        ),
        ("UPDATE workflows_stage SET digest = 'x' WHERE job_id = {job} AND name = 'make'", "digest over its checkpoints"),
    ],
)  # fmt: skip
def test_what_was_changed_behind_the_journal_is_named(
    engine: Engine,
    tenant: Tenant,
    submitter: Person,
    change: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job_id = submit(tenant, submitter, acts=["a"])
    eventually(lambda: "stage.closed" in events(tenant, job_id) and differences(tenant, job_id) == [])
    call_command("replay", f"JOB-{job_id}")
    assert "Equal to what is stored: the job, its stages, items, saved results" in capsys.readouterr().out
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute(change.format(item=item_of_owner(cursor, job_id), job=job_id))
    with pytest.raises(CommandError, match=r"is not as it was written down: \d differences?\."):
        call_command("replay", str(job_id))
    assert said in capsys.readouterr().err


def item_of_owner(cursor: Any, job_id: int) -> int:
    cursor.execute(
        "SELECT w.id FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id"
        " WHERE w.job_id = %s AND s.name = 'make'",
        [job_id],
    )
    return int(cursor.fetchone()[0])


def test_the_command_says_what_to_give_it(tenant: Tenant, submitter: Person) -> None:
    job_id = submit(tenant, submitter, acts=[])
    with pytest.raises(CommandError, match="There is no job 999999"):
        call_command("replay", "999999")
    with pytest.raises(CommandError, match="is no job; give its number"):
        call_command("replay", "twelve")
    for at in ("0", "2", "-1"):
        with pytest.raises(CommandError, match="has lines 1 to 1"):
            call_command("replay", str(job_id), "--at", at)


def test_a_job_as_it_was_after_a_line_is_told(
    engine: Engine, tenant: Tenant, submitter: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    job_id = submit(tenant, submitter, acts=["a", "b"])
    eventually(lambda: "stage.closed" in events(tenant, job_id))
    call_command("replay", str(job_id), "--at", "1")
    told = capsys.readouterr().out
    assert f"JOB-{job_id} after line 1 of " in told
    assert "state      RECEIVED" in told
    assert "Equal" not in told
    call_command("replay", str(job_id))
    assert "make       2 SUCCEEDED" in capsys.readouterr().out
