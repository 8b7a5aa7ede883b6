"""What needs a person: the queues of the home page, each with its count, its oldest and its most urgent rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Min, OuterRef, Q, Subquery, Window

from approvals.models import Proposal
from console.links import link
from console.queries.questions import open_questions
from reconciliation.incidents.pages import Row, open_incidents
from reconciliation.kinds import Queue as InQueue
from reconciliation.kinds import kinds_in
from reconciliation.models import Case
from reconciliation.narrowing import GROUPED
from workflows.models import Job
from workflows.states import ENDED, JobState
from workflows.titles import workflow_title

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Need:
    """One row of a queue."""

    title: str
    url: str
    workflow: str
    label: str
    since: datetime
    until: datetime | None = None
    amount: Decimal | None = None
    currency: str = ""
    late: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue: what waits, most urgent first. `oldest` and `late` speak of all of it, not only of the rows."""

    name: str
    title: str
    url: str
    count: int
    late: int
    oldest: datetime | None
    rows: tuple[Need, ...]
    empty: str

    @property
    def more(self) -> bool:
        return self.count > len(self.rows)


def queues(slug: str, now: datetime) -> list[Queue]:
    """Every queue, empty ones too, except those for corrections, unclaimed lines, questions and incidents, which show when there is
    something in it."""
    asked, storms = _questions(slug, now), _incidents(slug, now)
    of_no_held_job = _in(InQueue.HELD) & Q(job__held_at__isnull=True)
    corrections = _cases(
        slug, now, "corrections", "To be corrected", _in(InQueue.TO_BE_CORRECTED) | of_no_held_job
    )
    unclaimed = _cases(
        slug, now, "unclaimed", "Unclaimed statement lines", _in(InQueue.UNCLAIMED), "unclaimed"
    )
    return [
        _approvals(slug, now),
        *([asked] if asked.count else []),
        *([storms] if storms.count else []),
        _cases(slug, now, "unresolved", "Unresolved outcomes", _in(InQueue.UNRESOLVED)),
        _cases(slug, now, "exhausted", "Retry exhausted", _in(InQueue.EXHAUSTED), "exhausted"),
        *([corrections] if corrections.count else []),
        *([unclaimed] if unclaimed.count else []),
        _held(slug, now),
        _cases(
            slug, now, "cancelled", "Cancelled with effects", _in(InQueue.CANCELLED_WITH_EFFECT), "effects"
        ),
    ]


def _in(queue: InQueue) -> Q:
    return Q(kind__in=kinds_in(queue))


def _approvals(slug: str, now: datetime) -> Queue:
    rows = (
        Proposal.objects.filter(
            closed_at__isnull=True, approved_at__isnull=True, job__state=JobState.AWAITING_APPROVAL
        )
        .select_related("job")
        .annotate(**_totals("frozen_at", Q(expires_at__lt=now)))
        .order_by("expires_at", "pk")[:SHOWN]
    )
    needs = [
        Need(
            title=p.title,
            url=link("approval", slug, p.pk) or link("job", slug, p.job_id),
            workflow=workflow_title(p.job.workflow),
            label=p.job.label,
            since=p.frozen_at,
            until=p.expires_at,
            amount=p.amount,
            currency=p.currency,
            late=p.expires_at < now,
        )
        for p in rows
    ]
    return _queue(
        "approvals",
        "Approvals waiting",
        link("approvals", slug),
        rows,
        needs,
        "No proposal waits for a decision.",
    )


def _questions(slug: str, now: datetime) -> Queue:
    rows = (
        open_questions()
        .select_related("job")
        .annotate(**_totals("asked_at", Q(due_at__lt=now)))
        .order_by(F("due_at").asc(nulls_last=True), "pk")[:SHOWN]
    )
    needs = [
        Need(
            title=q.question,
            url=link("question", slug, q.pk),
            workflow=workflow_title(q.job.workflow),
            label=q.job.label,
            since=q.asked_at,
            until=q.due_at,
        )
        for q in rows
    ]
    return _queue(
        "questions", "Questions", link("questions", slug) + "?all=1", rows, needs, "Nothing is asked."
    )


def _incidents(slug: str, now: datetime) -> Queue:
    """Storms: each is one thing to look at, however many cases it has; those stand in no other queue."""
    rows = open_incidents()
    needs = [
        Need(
            title=f"{row.incident.receiver.title}: {row.open} × {row.words}",
            url=link("incident", slug, row.incident.pk),
            workflow="Incident",
            label=row.incident.label,
            since=row.incident.began_at,
            until=row.due_at,
            late=_is_late(row, now),
        )
        for row in rows[:SHOWN]
    ]
    oldest = min((row.incident.began_at for row in rows), default=None)
    late = sum(_is_late(row, now) for row in rows)
    url = link("incidents", slug)
    return Queue("incidents", "Incidents", url, len(rows), late, oldest, tuple(needs), "No storm.")


def _is_late(row: Row, now: datetime) -> bool:
    return row.due_at is not None and row.due_at < now


def _cases(slug: str, now: datetime, name: str, title: str, which: Q, tab: str = "") -> Queue:
    """Cases that no incident stands for. `tab`: of the page of cases, where one has just these."""
    proposal = Proposal.objects.filter(job=OuterRef("job")).order_by("-number")
    rows = (
        Case.objects.filter(which, resolved_at__isnull=True)
        .exclude(GROUPED)
        .select_related("job", "receiver")
        .annotate(
            amount=Subquery(proposal.values("amount")[:1]),
            currency=Subquery(proposal.values("currency")[:1]),
            **_totals("opened_at", Q(due_at__lt=now)),
        )
        .order_by("due_at", "pk")[:SHOWN]
    )
    needs = [
        Need(
            title=case.title,
            url=link("case", slug, case.pk),
            workflow=_where(case),
            label=case.label,
            since=case.opened_at,
            until=case.due_at,
            amount=case.amount,
            currency=case.currency,
            late=case.due_at < now,
        )
        for case in rows
    ]
    url = link("cases", slug) + (f"?kind={tab}" if tab else "")
    return _queue(name, title, url, rows, needs, "Nothing.")


def _where(case: Case) -> str:
    """The workflow of its job, or the receiver of what has no job."""
    if case.job is not None:
        return workflow_title(case.job.workflow)
    return "" if case.receiver is None else str(case.receiver.title)


def _held(slug: str, now: datetime) -> Queue:
    """Held jobs; what asks why one is held, if it has a case, is where its row leads."""
    proposal = Proposal.objects.filter(job=OuterRef("pk")).order_by("-number")
    case = Case.objects.filter(_in(InQueue.HELD), job=OuterRef("pk"), resolved_at__isnull=True).order_by(
        "due_at", "pk"
    )
    rows = (
        Job.objects.filter(held_at__isnull=False)
        .exclude(state__in=ENDED)
        .annotate(
            amount=Subquery(proposal.values("amount")[:1]),
            currency=Subquery(proposal.values("currency")[:1]),
            case_id=Subquery(case.values("pk")[:1]),
            case_due_at=Subquery(case.values("due_at")[:1]),
        )
        .annotate(**_totals("held_at", Q(case_due_at__lt=now)))
        .order_by(F("case_due_at").asc(nulls_last=True), "held_at", "pk")[:SHOWN]
    )
    needs = [
        Need(
            title=f"{job.title}: {job.hold_reason}" if job.hold_reason else job.title,
            url=link("job", slug, job.pk) if job.case_id is None else link("case", slug, job.case_id),
            workflow=workflow_title(job.workflow),
            label=job.label,
            since=job.held_at,
            until=job.case_due_at,
            amount=job.amount,
            currency=job.currency,
            late=job.case_due_at is not None and job.case_due_at < now,
        )
        for job in rows
        if job.held_at is not None
    ]
    return _queue("held", "Held jobs", link("jobs", slug) + "?state=held", rows, needs, "No job is held.")


def _totals(since: str, late: Q) -> dict[str, Any]:
    """Figures over the whole queue, on each of its first rows: one query a queue."""
    return {
        "total": Window(Count("*")),
        "oldest": Window(Min(F(since))),
        "late_total": Window(Count("pk", filter=late)),
    }


def _queue(name: str, title: str, url: str, rows: Iterable[Any], needs: Sequence[Need], empty: str) -> Queue:
    first = next(iter(rows), None)
    return Queue(
        name=name,
        title=title,
        url=url,
        count=first.total if first is not None else 0,
        late=first.late_total if first is not None else 0,
        oldest=first.oldest if first is not None else None,
        rows=tuple(needs),
        empty=empty,
    )
