"""Opening and closing cases inside the transaction of whatever asks or answers their question.

The caller holds the job's lock; cases are locked last. One open case a question: a repeat adds evidence to it. What
stands in the journal are ids, kinds and digests, never what somebody wrote. A case without a job (`unclaimed`) is told
of in the organisation's journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from access import tenant_journal
from access.roles import Actor
from access.statements import Values
from access.tenancy import notes
from dispatch.models import Operation, Submission
from outbox.models import Message
from reconciliation import notifying
from reconciliation.due_times import due_after
from reconciliation.incidents.joining import ALONE, Fault, Joined, join
from reconciliation.kinds import terms_of
from reconciliation.locks import lock_case
from reconciliation.models import Case, CaseKind, Evidence, EvidenceKind, ResolutionRequest
from reconciliation.papers import Paper, keep
from web.redaction import hide
from workflows import journal
from workflows.models import Job, WorkItem

BY_EVIDENCE = "settled by evidence"
WENT_ON = "went on"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, about what. `told` is the first piece of evidence: what made it a question."""

    kind: CaseKind
    title: str
    told: str
    source: str
    operation: Operation | None = None
    item: WorkItem | None = None
    message: Message | None = None
    fault: str = ""
    """What went wrong, where it is not what became of the operation's last send."""

    mailed: bool = True
    """Whether the role that owns it is written to."""


def open_case(*, job: Job, question: Question, actor: Actor, now: datetime) -> Case:
    """Open a question's case, or add evidence to the one that is open; journals case.opened or case.evidence_added."""
    case = _open_one(job, question)
    if case is not None:
        keep_evidence(job=job, case=case, summary=question.told, source=question.source, actor=actor, now=now)
        return case
    notes().pop(_without_cases(job), None)
    terms, fault = terms_of(question.kind), fault_of(question)
    joined = _joined(job, question, fault, now)
    case = Case.objects.create(
        tenant_id=job.tenant_id,
        kind=question.kind.value,
        job=job,
        operation=question.operation,
        item=question.item,
        message=question.message,
        receiver_id=question.operation.receiver_id if question.operation else None,
        fault=fault,
        incident=joined.incident,
        title=question.title,
        detail=question.told,
        owner_role=terms.owner.value,
        blocking=terms.blocking,
        opened_at=now,
        due_at=_due_at(question, now),
    )
    insert_evidence(case, question.told, question.source, now)
    evidence = {
        "case": case.pk,
        "kind": case.kind,
        "operation": question.operation.label if question.operation else None,
        "item": question.item.pk if question.item else None,
        "owner": case.owner_role,
        "due_at": case.due_at.isoformat(),
    }
    if joined.incident is not None:
        evidence["incident"] = joined.incident.pk
    journal.record(job=job, event="case.opened", actor=actor, evidence=evidence)
    if not joined.storm:
        notifying.case_opened(job, case, now, mailed=question.mailed)
    return case


def tell(job: Job | None, *, event: str, actor: Actor, evidence: Mapping[str, Any]) -> None:
    """Journal what happened to a case: with its job, or with the organisation where it has none."""
    if job is not None:
        journal.record(job=job, event=event, actor=actor, evidence=evidence)
    else:
        tenant_journal.record(event=event, actor=actor, evidence=evidence)


def keep_evidence(
    *,
    job: Job | None,
    case: Case,
    summary: str,
    source: str,
    actor: Actor,
    now: datetime,
    kind: EvidenceKind = EvidenceKind.OBSERVED,
    detail: str = "",
    proves: str = "nothing",
    taken_at: datetime | None = None,
    paper: Paper | None = None,
) -> Evidence:
    """Put something to a case and journal its digest: case.evidence_added, or case.commented for a comment.

    Secrets in what is written are hidden, as they are in what receivers answer.
    """
    row = Evidence.objects.create(
        tenant_id=case.tenant_id,
        case=case,
        kind=kind.value,
        person_id=actor.person_id or None,
        summary=storable(hide(summary))[:500],
        detail=storable(hide(detail)),
        source=storable(hide(source))[:200],
        proves=proves,
        taken_at=taken_at or now,
        kept_at=now,
        file=None if paper is None else keep(case.tenant_id, paper, now),
        file_name="" if paper is None else paper.name,
        given_digest="" if paper is None else paper.given_digest,
    )
    digest = hashlib.sha256(f"{row.summary}\n{row.detail}".encode()).hexdigest()
    evidence = {"case": case.pk, "evidence": row.pk, "kind": row.kind, "proves": proves, "digest": digest}
    if paper is not None:
        evidence |= {"file": paper.digest, "file_as_given": paper.given_digest}
    event = "case.commented" if kind is EvidenceKind.COMMENT else "case.evidence_added"
    tell(job, event=event, actor=actor, evidence=evidence)
    return row


def close_case(
    *,
    job: Job | None,
    case: Case,
    resolution: str,
    reason: str,
    actor: Actor,
    now: datetime,
    second: Actor | None = None,
) -> None:
    """Write how a locked, open case was answered, end a request that is still open, journal case.closed."""
    changed = Case.objects.filter(pk=case.pk, resolved_at__isnull=True).update(
        resolved_at=now,
        resolution=resolution[:60],
        resolution_reason=reason,
        resolved_by_id=actor.person_id or None,
        second_person_id=second.person_id if second else None,
        version=case.version + 1,
    )
    assert changed == 1, "a case is resolved once"
    case.resolved_at, case.resolution, case.version = now, resolution[:60], case.version + 1
    ResolutionRequest.objects.filter(case=case, closed_at__isnull=True).update(
        closed_at=now, outcome="overtaken"
    )
    evidence = {
        "case": case.pk,
        "kind": case.kind,
        "resolution": case.resolution,
        "reason_digest": hashlib.sha256(reason.encode()).hexdigest() if reason else "",
        "second": second.name if second else None,
    }
    tell(job, event="case.closed", actor=actor, evidence=evidence)
    about = job if job is not None else case.statement
    assert about is not None
    notifying.case_closed(about, case, now)


def close_open(
    *,
    job: Job,
    kinds: tuple[CaseKind, ...],
    resolution: str,
    actor: Actor,
    now: datetime,
    reason: str = "",
    item_id: int | None = None,
    operation_id: int | None = None,
) -> int:
    """Close the job's open cases of some kinds, in the order of their ids; how many there were."""
    if not has_cases(job):
        return 0
    ids = [
        case_id
        for case_id, item, operation in _OPEN.all(job.pk, [k.value for k in kinds])
        if item_id in (None, item) and operation_id in (None, operation)
    ]
    for case_id in ids:
        close_case(
            job=job, case=lock_case(case_id), resolution=resolution, reason=reason, actor=actor, now=now
        )
    return len(ids)


_OPEN = Values(
    lambda job, kinds: (
        Case.objects.filter(job=job, resolved_at__isnull=True, kind__among=kinds)
        .order_by("pk")
        .values_list("pk", "item_id", "operation_id")
    )
)


def has_cases(job: Job) -> bool:
    """Whether a locked job ever had a case. Nearly none has, and each send asks four times: the answer is kept.

    It holds until the transaction ends: only `open_case` makes one, under the job's lock.
    """
    if notes().get(_without_cases(job)):
        return False
    found = _ANY.exist(job.pk)
    notes()[_without_cases(job)] = not found
    return found


def _without_cases(job: Job) -> str:
    return f"job {job.pk} has no cases"


_ANY = Values(lambda job: Case.objects.filter(job=job).values_list("pk")[:1])


def storable(text: str) -> str:
    """The text without what PostgreSQL cannot keep."""
    return text.replace("\x00", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()


def _open_one(job: Job, question: Question) -> Case | None:
    cases = Case.objects.filter(
        job=job,
        kind=question.kind.value,
        operation=question.operation,
        item=question.item,
        resolved_at__isnull=True,
    )
    return cases.order_by("pk").first()


def insert_evidence(case: Case, told: str, source: str, now: datetime) -> None:
    """What made it a question; the journal tells of it with the opening."""
    Evidence.objects.create(
        tenant_id=case.tenant_id,
        case=case,
        summary=storable(told)[:500],
        source=storable(source)[:200],
        taken_at=now,
        kept_at=now,
    )


def fault_of(question: Question) -> str:
    """What went wrong, without what is particular to this one: what cases of one storm have in common, or ""."""
    if question.operation is None:
        return ""
    last = Submission.objects.filter(operation=question.operation).order_by("-number")
    told = question.fault or last.values_list("fault", flat=True).first() or question.operation.fate_note
    return storable(told.partition(":")[0])[:80]


def _joined(job: Job, question: Question, fault: str, now: datetime) -> Joined:
    if question.operation is None or not fault:
        return ALONE
    same = Fault(job.tenant_id, question.operation.receiver_id, question.kind.value, fault)
    return join(same, now)


def bring_forward(case: Case, now: datetime) -> None:
    """Have an open case due when its operation's key ends, if that is sooner by now. The caller holds the job's lock.

    A window gets shorter when a contract is written that says so; the queue is in the order of what is due.
    """
    due = _not_after_the_key(case.due_at, case.operation, now)
    if due != case.due_at:
        Case.objects.filter(pk=lock_case(case.pk).pk).update(due_at=due)


def _due_at(question: Question, now: datetime) -> datetime:
    receiver_id = question.operation.receiver_id if question.operation else None
    return _not_after_the_key(now + due_after(question.kind, receiver_id), question.operation, now)


def _not_after_the_key(due: datetime, operation: Operation | None, now: datetime) -> datetime:
    """Never after the time in which the same key is safe: later there is less to choose from."""
    safe_until = operation.resubmit_safe_until if operation else None
    return min(due, safe_until) if safe_until is not None and safe_until > now else due
