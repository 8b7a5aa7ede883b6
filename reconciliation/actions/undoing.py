"""Answering for what a job's steps made and the machine could not undo."""

from __future__ import annotations

from datetime import datetime

from reconciliation import locks
from reconciliation.actions.working import (
    EvidenceMissing,
    Worked,
    allow,
    check_version,
    operator,
    text,
    worked,
    working,
)
from reconciliation.casework import close_case, keep_evidence
from reconciliation.kinds import VerbName
from reconciliation.models import EvidenceKind
from reconciliation.papers import Paper
from reconciliation.situation import look_at
from workflows.actions.undo import Undone, record_undone_inside


def record_undone(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    outcome: str,
    evidence: str,
    source: str,
    now: datetime,
    paper: Paper | None = None,
) -> Worked:
    """Record that one result, or all that is left, was undone by hand or stays; the machine goes on with the others.

    Locks job → the machine's item → case. Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, EvidenceMissing,
    NothingToUndo.
    """
    with working(tenant_id, case_id, person_id, VerbName.RECORD_UNDONE.value):
        job, case = locks.lock_job_and_read_case(case_id)
        actor = operator(person_id)
        check_version(case, version)
        allow(VerbName.RECORD_UNDONE, look_at(job=job, case=case))
        if outcome not in set(Undone):
            raise EvidenceMissing(f"Say one of: {'; '.join(Undone)}.")
        reason = text(evidence, "Say what shows it.")
        where = text(source, "Say where that can be found: a log, a letter, a ticket.")
        recorded = record_undone_inside(
            job_id=job.pk, person_id=person_id, how=Undone(outcome), reason=reason
        )
        job.refresh_from_db()
        case = locks.lock_case(case_id)
        keep_evidence(
            job=job, case=case, summary=reason, detail=reason, source=where, actor=actor, now=now,
            kind=EvidenceKind.STATEMENT, proves=f"attests: {outcome}"[:60], paper=paper,
        )  # fmt: skip
        close_case(job=job, case=case, resolution=outcome, reason=reason, actor=actor, now=now)
        goes_on = " The machine goes on with the others." if recorded.goes_on else ""
        return worked(case_id, job, f"Recorded: {outcome}.{goes_on}")
