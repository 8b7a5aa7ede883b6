"""Putting something to a case without answering it: comments and evidence. Nothing is edited in place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access import authority
from access.refusals import Unprocessable
from access.roles import Role
from reconciliation import locks
from reconciliation.actions.working import text, working
from reconciliation.casework import keep_evidence
from reconciliation.models import EvidenceKind
from reconciliation.papers import Paper
from reconciliation.situation import SECONDERS


class TakenInTheFuture(Unprocessable):
    """Evidence cannot have been taken in the future."""


@dataclass(frozen=True, slots=True)
class Noted:
    """The row that was added."""

    case_id: int
    evidence_id: int


def comment(*, tenant_id: int, case_id: int, person_id: int, body: str, now: datetime) -> Noted:
    """Say something about a case, open or resolved; journalled as case.commented. Locks job (or statement) → case.

    Everybody but an auditor. Raises NoSuchCase, NotPermitted, EvidenceMissing (an empty comment).
    """
    with working(tenant_id, case_id, person_id, "comment"):
        job, case = locks.lock_asked(case_id)
        actor = authority.require(person_id, *SECONDERS, Role.MANAGER, Role.SUBMITTER)
        body = text(body, "Write something first.")
        row = keep_evidence(
            job=job, case=case, summary=body, detail=body, source=actor.name, actor=actor, now=now,
            kind=EvidenceKind.COMMENT,
        )  # fmt: skip
        return Noted(case_id, row.pk)


def add_evidence(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    summary: str,
    source: str,
    taken_at: datetime,
    now: datetime,
    detail: str = "",
    paper: Paper | None = None,
) -> Noted:
    """Put something that a person has found to a case, open or resolved. It settles nothing by itself.

    Locks job (or statement) → case. Raises NoSuchCase, NotPermitted, EvidenceMissing, TakenInTheFuture.
    """
    with working(tenant_id, case_id, person_id, "add evidence"):
        job, case = locks.lock_asked(case_id)
        actor = authority.require(person_id, *SECONDERS)
        summary = text(summary, "Say what it shows.")
        source = text(source, "Say where it comes from.")
        if taken_at > now:
            raise TakenInTheFuture("Evidence cannot have been taken in the future.")
        row = keep_evidence(
            job=job, case=case, summary=summary, detail=detail[:100_000], source=source, actor=actor, now=now,
            kind=EvidenceKind.STATEMENT, taken_at=taken_at, paper=paper,
        )  # fmt: skip
        return Noted(case_id, row.pk)
