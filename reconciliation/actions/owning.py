"""Who works on a case and when: assign, take, hand over, snooze. None of it touches the question."""

from __future__ import annotations

from datetime import datetime, timedelta

from access import authority
from access.models import Person
from access.refusals import NotPermitted, Unprocessable
from access.roles import Actor, Role
from dispatch.locks import database_clock
from reconciliation import locks
from reconciliation.actions.working import Worked, check_version, text, worked, working
from reconciliation.casework import keep_evidence, tell
from reconciliation.models import Case, EvidenceKind
from reconciliation.situation import SECONDERS, look_at
from reconciliation.words import clock
from workflows.models import Job

LONGEST_SNOOZE = timedelta(days=14)


class CannotOwn(Unprocessable):
    """This person does not hold a role that works on cases."""


class SnoozeTooLong(Unprocessable):
    """The time is past, too far off, or behind the time in which the same key is safe."""


def assign(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    assignee_id: int,
    now: datetime,
    note: str = "",
) -> Worked:
    """Give an open case to a person with the role that owns it (operators own most), with a note. Locks job (or statement) → case.

    Raises NoSuchCase, NotPermitted, StaleCase, CannotOwn.
    """
    with working(tenant_id, case_id, person_id, "assign"):
        return assign_inside(
            case_id=case_id, person_id=person_id, version=version, assignee_id=assignee_id, now=now, note=note
        )


def assign_inside(
    *, case_id: int, person_id: int, version: int, assignee_id: int, now: datetime, note: str = ""
) -> Worked:
    """`assign` in the caller's transaction."""
    job, case = locks.lock_asked(case_id)
    actor = authority.require(person_id, *SECONDERS)
    check_version(case, version)
    try:
        assignee = authority.require(assignee_id, Role(case.owner_role), *SECONDERS)
    except (NotPermitted, Person.DoesNotExist) as refused:
        raise CannotOwn(f"Only an {case.owner_role} can own {case.label}.") from refused
    Case.objects.filter(pk=case.pk).update(assignee_id=assignee_id, version=case.version + 1)
    evidence = {"case": case.pk, "assignee": assignee_id, "before": case.assignee_id}
    tell(job, event="case.assigned", actor=actor, evidence=evidence)
    _keep_note(job, case, note, actor, now)
    return worked(case_id, job, f"{case.label} is {assignee.name}'s now.")


def take(*, tenant_id: int, case_id: int, person_id: int, version: int, now: datetime) -> Worked:
    """Assign an open case to oneself. Of two who take it at once, the second is told. As `assign`."""
    return assign(
        tenant_id=tenant_id,
        case_id=case_id,
        person_id=person_id,
        version=version,
        assignee_id=person_id,
        now=now,
    )


def hand_over(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    assignee_id: int | None,
    now: datetime,
    note: str = "",
) -> Worked:
    """Pass a case on to somebody else or, with None, back to its role. As `assign`."""
    if assignee_id is not None:
        return assign(
            tenant_id=tenant_id, case_id=case_id, person_id=person_id, version=version, assignee_id=assignee_id,
            now=now, note=note,
        )  # fmt: skip
    with working(tenant_id, case_id, person_id, "hand over"):
        job, case = locks.lock_asked(case_id)
        actor = authority.require(person_id, *SECONDERS)
        check_version(case, version)
        Case.objects.filter(pk=case.pk).update(assignee_id=None, version=case.version + 1)
        evidence = {"case": case.pk, "assignee": None, "before": case.assignee_id}
        tell(job, event="case.assigned", actor=actor, evidence=evidence)
        _keep_note(job, case, note, actor, now)
        return worked(case_id, job, f"{case.label} waits for any {case.owner_role}.")


def _keep_note(job: Job | None, case: Case, note: str, actor: Actor, now: datetime) -> None:
    """What whoever has the case next is to know; it stands among the comments."""
    if note.strip():
        note = text(note, "")
        keep_evidence(
            job=job, case=case, summary=note, detail=note, source=actor.name, actor=actor, now=now,
            kind=EvidenceKind.COMMENT,
        )  # fmt: skip


def snooze(
    *, tenant_id: int, case_id: int, person_id: int, version: int, until: datetime, reason: str, now: datetime
) -> Worked:
    """Put an open case off: it leaves the list until then, and is due no earlier. Locks job (or statement) → case.

    Never past the time in which the same key is safe, nor 14 days. Raises NoSuchCase, NotPermitted, StaleCase,
    EvidenceMissing (a reason), SnoozeTooLong.
    """
    with working(tenant_id, case_id, person_id, "snooze"):
        job, case = locks.lock_asked(case_id)
        actor = authority.require(person_id, *SECONDERS)
        check_version(case, version)
        reason = text(reason, "Say what you wait for.")
        at_once, safe = _clocks(job, case)
        if until <= at_once or until > at_once + LONGEST_SNOOZE:
            raise SnoozeTooLong("Put it off to a time within the next 14 days.")
        if safe is not None and at_once < safe < until:
            at = clock(safe, tenant_id)
            raise SnoozeTooLong(f"Not past {at}: until then the receiver recognises the key.")
        Case.objects.filter(pk=case.pk).update(
            snoozed_until=until, due_at=max(case.due_at, until), version=case.version + 1
        )
        evidence = {"case": case.pk, "until": until.isoformat(), "reason": reason}
        tell(job, event="case.snoozed", actor=actor, evidence=evidence)
        return worked(case_id, job, f"{case.label} comes back on {clock(until, tenant_id)}.")


def _clocks(job: Job | None, case: Case) -> tuple[datetime, datetime | None]:
    """The database's, and until when its operation's key is safe, if it is about one."""
    if job is None:
        return database_clock(), None
    situation = look_at(job=job, case=case)
    return situation.clock, situation.doubt.safe_until if situation.doubt else None
