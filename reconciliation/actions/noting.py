"""Putting something to a case without answering it: comments and evidence. Nothing is edited in place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from access import authority
from access.refusals import Unprocessable
from access.roles import Role
from reconciliation import locks
from reconciliation.actions.working import text, working
from reconciliation.casework import keep_evidence, storable
from reconciliation.models import Case, Evidence, EvidenceKind
from reconciliation.papers import Paper
from reconciliation.situation import SECONDERS
from web.redaction import hide

TWICE = timedelta(minutes=1)
"""Within it the same words are one press too many; later they are said again."""


class TakenInTheFuture(Unprocessable):
    """Evidence cannot have been taken in the future."""


@dataclass(frozen=True, slots=True)
class Noted:
    """The row that was added."""

    case_id: int
    evidence_id: int


def comment(*, tenant_id: int, case_id: int, person_id: int, body: str, now: datetime) -> Noted:
    """Say something about a case, open or resolved; journalled as case.commented. Locks job (or statement) → case.

    Everybody but an auditor. The same words again from the same person within a minute, with nobody's between, are one
    comment: a form that was sent twice. Raises NoSuchCase, NotPermitted, EvidenceMissing (an empty comment).
    """
    with working(tenant_id, case_id, person_id, "comment"):
        job, case = locks.lock_asked(case_id)
        actor = authority.require(person_id, *SECONDERS, Role.MANAGER, Role.SUBMITTER)
        body = text(body, "Write something first.")
        last = _last(case, EvidenceKind.COMMENT)
        if (
            last is not None
            and (last.person_id, last.detail) == (person_id, body)
            and now - last.taken_at < TWICE
        ):
            return Noted(case_id, last.pk)
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

    The same again from the same person, with nothing else between, is there already. Locks job (or statement) → case.
    Raises NoSuchCase, NotPermitted, EvidenceMissing, TakenInTheFuture.
    """
    with working(tenant_id, case_id, person_id, "add evidence"):
        job, case = locks.lock_asked(case_id)
        actor = authority.require(person_id, *SECONDERS)
        summary = text(summary, "Say what it shows.")
        source = text(source, "Say where it comes from.")
        if taken_at > now:
            raise TakenInTheFuture("Evidence cannot have been taken in the future.")
        detail = storable(hide(detail[:100_000]))
        digest = "" if paper is None else paper.given_digest
        last = _last(case, EvidenceKind.STATEMENT)
        same = (person_id, "nothing", summary[:500], detail, source, taken_at, digest)
        if last is not None and _told(last) == same:
            return Noted(case_id, last.pk)
        row = keep_evidence(
            job=job, case=case, summary=summary, detail=detail, source=source, actor=actor, now=now,
            kind=EvidenceKind.STATEMENT, taken_at=taken_at, paper=paper,
        )  # fmt: skip
        return Noted(case_id, row.pk)


def _last(case: Case, kind: EvidenceKind) -> Evidence | None:
    return Evidence.objects.filter(case=case, kind=kind.value).order_by("-pk").first()


def _told(row: Evidence) -> tuple[object, ...]:
    return (row.person_id, row.proves, row.summary, row.detail, row.source, row.taken_at, row.given_digest)
