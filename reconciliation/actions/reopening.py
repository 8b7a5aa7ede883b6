"""Reopening: new evidence says that a settled outcome is not what was recorded.

What was resolved stays as it was resolved. The evidence is put to a case of its own, "contradicted"; once a second
person agrees, the operation is unknown again and a new case asks what became of it.
"""

from __future__ import annotations

from datetime import datetime

from reconciliation import locks, words
from reconciliation.actions import seconding
from reconciliation.actions.carrying_out import Deed
from reconciliation.actions.noting import TakenInTheFuture
from reconciliation.actions.working import (
    StaleCase,
    Worked,
    allow,
    operator,
    text,
    what_became_of,
    worked,
    working,
)
from reconciliation.casework import Question, keep_evidence, open_case
from reconciliation.kinds import VerbName
from reconciliation.models import Case, CaseKind, EvidenceKind
from reconciliation.papers import Paper
from reconciliation.situation import Situation, look_at


def reopen(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    evidence: str,
    source: str,
    taken_at: datetime,
    now: datetime,
    paper: Paper | None = None,
) -> Worked:
    """Ask a second person to have a settled operation asked about again; from its resolved case, or from the open one
    that the evidence has opened. The result names the case in which it is asked.

    Nothing moves before they agree. Locks job → operations → cases. Raises NoSuchCase, NotPermitted, StaleCase,
    NotAllowedNow, EvidenceMissing, TakenInTheFuture, SameVerbAsked.
    """
    with working(tenant_id, case_id, person_id, VerbName.REOPEN.value):
        job, operations, case = locks.lock_with_operations(case_id)
        actor = operator(person_id)
        if case.version != version:
            raise StaleCase(what_became_of(case))
        operation = next((o for o in operations if o.pk == case.operation_id), None)
        situation = look_at(job=job, case=case, operation=operation)
        allow(VerbName.REOPEN, situation)
        reason = text(evidence, "Say what the new evidence shows.")
        where = text(source, "Say where it comes from.")
        if taken_at > situation.clock:
            raise TakenInTheFuture("Evidence cannot have been taken in the future.")
        deed = Deed(VerbName.REOPEN, reason, {"source": where[:200]}, actor, None, now)
        asked = _asked_in(situation, deed)
        request = seconding.ask_for_second(look_at(job=job, case=asked, operation=operation), deed)
        keep_evidence(
            job=job, case=asked, summary=reason, detail=reason, source=where, actor=actor, now=now,
            kind=EvidenceKind.STATEMENT, taken_at=taken_at, proves="speaks against it", paper=paper,
        )  # fmt: skip
        said = f"Asked for in {asked.label}. A second person has to agree; until then nothing moves."
        return worked(asked.pk, job, said, request.pk)


def _asked_in(situation: Situation, deed: Deed) -> Case:
    """The open case that the evidence speaks in: this one, or one that it opens."""
    case, doubt = situation.case, situation.doubt
    if case.resolved_at is None:
        return case
    assert doubt is not None
    operation = doubt.operation
    title = words.doubted(operation)
    told = f"{operation.label} was settled in {case.label} as “{case.resolution}”; new evidence speaks against it."
    question = Question(CaseKind.CONTRADICTED, title, told, deed.actor.name, operation=operation)
    return open_case(job=situation.job, question=question, actor=deed.actor, now=deed.now)
