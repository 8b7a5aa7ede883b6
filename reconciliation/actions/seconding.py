"""The second person: one asks for a resolution, another carries it out or declines, in a transaction of their own.

Every guard is repeated when the second person says yes: a request is a wish, never a permit.
"""

from __future__ import annotations

import json
from datetime import datetime

from access import authority
from access.refusals import Conflict, NotPermitted
from access.roles import Actor
from access.tenancy import reading
from approvals import canonical
from reconciliation import locks
from reconciliation.actions import carrying_out
from reconciliation.actions.carrying_out import Deed
from reconciliation.actions.working import (
    NotAllowedNow,
    StaleCase,
    Worked,
    allow,
    check_version,
    operator,
    text,
    what_became_of,
    worked,
    working,
)
from reconciliation.casework import tell
from reconciliation.kinds import VerbName
from reconciliation.models import Case, ResolutionRequest
from reconciliation.situation import SECONDERS, Situation, look_at
from reconciliation.unclaimed import setting_aside
from reconciliation.verbs import seconders
from statements.matching.models import AsideKind
from workflows.models import Job


class SameVerbAsked(Conflict):
    """Somebody has asked for a second person already; that is answered first."""


class SecondIsTheAsker(NotPermitted):
    """Nobody is their own second person."""


def ask_for_second(situation: Situation, deed: Deed) -> ResolutionRequest:
    """Keep what one person asks for until another answers. Inside an action; the case is locked."""
    return ask(situation.job, situation.case, deed)


def ask(job: Job | None, case: Case, deed: Deed) -> ResolutionRequest:
    """`ask_for_second`, also of a case without a job."""
    asked = ResolutionRequest.objects.filter(case=case, closed_at__isnull=True).select_related("asked_by")
    if (standing := asked.first()) is not None:
        raise SameVerbAsked(
            f"{standing.asked_by.username} has asked for “{standing.verb}”. Second or decline that first."
        )
    request = ResolutionRequest.objects.create(
        tenant_id=case.tenant_id,
        case=case,
        verb=deed.verb.value,
        reason=deed.reason,
        details=deed.details,
        asked_by_id=deed.actor.person_id,
        asked_at=deed.now,
    )
    raise_version(case)
    evidence = {
        "case": case.pk,
        "request": request.pk,
        "verb": deed.verb.value,
        "reason_digest": canonical.sha256(deed.reason) if deed.reason else "",
        "details_digest": canonical.sha256(json.dumps(deed.details, sort_keys=True)),
    }
    tell(job, event="case.second_asked", actor=deed.actor, evidence=evidence)
    return request


def second(*, tenant_id: int, request_id: int, person_id: int, version: int, now: datetime) -> Worked:
    """Say yes as the second person, and carry the resolution out.

    Locks job → operations (or the statement) → case → request. An operator or admin who is not the asker; the asker must still be an
    operator. A repeat is StaleCase. Raises NoSuchRequest, NotPermitted, SecondIsTheAsker, StaleCase, NotAllowedNow,
    and whatever dispatch refuses (NotInDoubt, StillSending, WindowPassed).
    """
    case_id = _case_of(tenant_id, request_id)
    with working(tenant_id, case_id, person_id, "second"):
        return second_inside(
            case_id=case_id, request_id=request_id, person_id=person_id, version=version, now=now
        )


def second_inside(*, case_id: int, request_id: int, person_id: int, version: int, now: datetime) -> Worked:
    """`second` in the caller's transaction."""
    if locks.is_of_a_statement(case_id):
        return _second_at_lines(case_id, request_id, person_id, version, now)
    job, operations, case = locks.lock_with_operations(case_id)
    person = _another(person_id, request_id, "second")
    request = _open_request(case, request_id, version)
    asker = _asker(request)
    operation = next(o for o in operations if o.pk == case.operation_id)
    situation = look_at(job=job, case=case, operation=operation)
    deed = Deed(VerbName(request.verb), request.reason, dict(request.details), asker, person, now)
    authority.require(person_id, *seconders(deed.verb, situation))
    allow(deed.verb, situation)
    carrying_out.check(situation, operation, deed)
    _close(request, "seconded", person, now)
    _journal(job, case, request, "case.seconded", person)
    return worked(case.pk, job, carrying_out.carry_out(situation, operation, deed))


def _second_at_lines(case_id: int, request_id: int, person_id: int, version: int, now: datetime) -> Worked:
    statement, case = locks.lock_statement_and_case(case_id)
    person = _another(person_id, request_id, "second")
    request = _open_request(case, request_id, version)
    lines = setting_aside.lines_asked_about(statement, request.details)
    kind, asker = AsideKind(request.details["kind"]), _asker(request)
    deed = setting_aside.Deed(kind, request.reason, asker, person, now)
    _close(request, "seconded", person, now)
    _journal(None, case, request, "case.seconded", person)
    return worked(case.pk, None, setting_aside.carry_out(statement, case, lines, deed))


def decline(
    *, tenant_id: int, request_id: int, person_id: int, version: int, reason: str, now: datetime
) -> Worked:
    """Say no as the second person: the request ends, the case stays open. Locks job (or statement) → case → request.

    Raises NoSuchRequest, NotPermitted, SecondIsTheAsker, StaleCase, EvidenceMissing (a reason).
    """
    case_id = _case_of(tenant_id, request_id)
    with working(tenant_id, case_id, person_id, "decline"):
        job, case = locks.lock_asked(case_id)
        person = _another(person_id, request_id, "decline")
        request = _open_request(case, request_id, version)
        reason = text(reason, "Say why not: whoever asked has only your reason.")
        _close(request, "declined", person, now)
        raise_version(case)
        _journal(job, case, request, "case.declined", person, reason=reason)
        return worked(case.pk, job, "Declined. The case stays open.")


def withdraw_request(
    *, tenant_id: int, request_id: int, person_id: int, version: int, now: datetime
) -> Worked:
    """Take an own request back. Locks job (or statement) → case → request. Raises NoSuchRequest, NotPermitted, StaleCase."""
    case_id = _case_of(tenant_id, request_id)
    with working(tenant_id, case_id, person_id, "withdraw request"):
        job, case = locks.lock_asked(case_id)
        person = operator(person_id)
        request = _open_request(case, request_id, version)
        if request.asked_by_id != person_id:
            raise NotPermitted("Only whoever asked takes it back; you can decline it.")
        _close(request, "withdrawn", person, now)
        raise_version(case)
        _journal(job, case, request, "case.request_withdrawn", person)
        return worked(case.pk, job, "Taken back. The case stays open.")


def raise_version(case: Case) -> None:
    """Count a change that the screens of others have not seen. The case is locked."""
    case.version += 1
    Case.objects.filter(pk=case.pk).update(version=case.version)


def _case_of(tenant_id: int, request_id: int) -> int:
    with reading(tenant_id):
        return locks.case_of(request_id)


def _asker(request: ResolutionRequest) -> Actor:
    """Whose word it is that is seconded: they have to be who may ask for it, still."""
    try:
        return operator(request.asked_by_id)
    except NotPermitted as refused:
        said = f"{request.asked_by.username} may not ask for this any more, so nobody seconds it. Decline it."
        raise NotAllowedNow(said) from refused


def _another(person_id: int, request_id: int, verb: str) -> Actor:
    person = authority.require(person_id, *SECONDERS)
    if ResolutionRequest.objects.filter(pk=request_id, asked_by_id=person_id).exists():
        raise SecondIsTheAsker(f"You have asked for this yourself; somebody else has to {verb} it.")
    return person


def _open_request(case: Case, request_id: int, version: int) -> ResolutionRequest:
    check_version(case, version)
    request = locks.lock_open_request(case)
    if request is None or request.pk != request_id:
        raise StaleCase(what_became_of(case))
    return request


def _close(request: ResolutionRequest, outcome: str, person: Actor, now: datetime) -> None:
    ResolutionRequest.objects.filter(pk=request.pk, closed_at__isnull=True).update(
        closed_at=now, closed_by_id=person.person_id, outcome=outcome
    )


def _journal(
    job: Job | None, case: Case, request: ResolutionRequest, event: str, person: Actor, *, reason: str = ""
) -> None:
    evidence = {"case": case.pk, "request": request.pk, "verb": request.verb}
    if reason:
        evidence["reason"] = reason
    tell(job, event=event, actor=person, evidence=evidence)
