"""The list of jobs: filters, counts by state, one page by keyset, and where each job of the page stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, OuterRef, Q, QuerySet, Subquery

from access.tenancy import TenantQuerySet
from approvals.models import Decision, Proposal, Verdict
from console import words
from console.queries.standing import Sign, sign_of_job, with_standing
from dispatch.models import Operation
from web.times import left_words, stamp_words
from web.vocabulary import sign_of
from workflows import waiting
from workflows.costs.spent import NOTHING, Spent, uses_of
from workflows.kinds import NOT_STEPS
from workflows.models import Expectation, Job, Stage, StageKind, WorkItem
from workflows.states import ENDED, ItemState, JobState
from workflows.titles import workflow_title

PAGE = 25
MONTH = timedelta(days=30)
HELD = "held"
_LABEL = re.compile(r"(?:job-?)?(\d{1,18})", re.IGNORECASE)
_OPEN_STATES = tuple(s for s in JobState if s not in ENDED)


@dataclass(frozen=True, slots=True)
class Filter:
    """What the list was narrowed to. Empty strings narrow nothing."""

    state: str = ""
    workflow: str = ""
    q: str = ""

    @property
    def any(self) -> bool:
        return bool(self.state or self.workflow or self.q)


@dataclass(frozen=True, slots=True)
class Bar:
    """One state's share of a bar that is drawn to scale."""

    state: str
    mark: str
    words: str
    count: int
    x: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Jobs by state: the open ones, and those that ended in 30 days."""

    open: tuple[Bar, ...]
    open_total: int
    ended: tuple[Bar, ...]
    ended_total: int


@dataclass(frozen=True, slots=True)
class Row:
    """One job of the list."""

    job: Job
    workflow: str
    sign: Sign
    stands: str
    by: str
    spent: Spent


@dataclass(frozen=True, slots=True)
class Page:
    """One page of rows, newest first. `older` and `newer` are the ids to go on from, or 0."""

    rows: tuple[Row, ...]
    older: int
    newer: int


def counts(now: datetime) -> Counts:
    """One query."""
    found = dict(
        Job.objects.filter(Q(state__in=_OPEN_STATES) | Q(ended_at__gte=now - MONTH))
        .values_list("state")
        .annotate(n=Count("pk"))
        .order_by()
    )
    open_bars, ended_bars = _bars(_OPEN_STATES, found), _bars(ENDED, found)
    return Counts(
        open=open_bars,
        open_total=sum(b.count for b in open_bars),
        ended=ended_bars,
        ended_total=sum(b.count for b in ended_bars),
    )


def _bars(states: Sequence[JobState], found: dict[str, int]) -> tuple[Bar, ...]:
    bars, x = [], 0
    for state in states:
        count = found.get(state.value, 0)
        if count:
            sign = sign_of(state.value)
            bars.append(Bar(state.value, sign.mark, sign.words, count, x))
            x += count
    return tuple(bars)


def page(chosen: Filter, now: datetime, *, before: int = 0, after: int = 0) -> Page:
    """One page of jobs, older than `before` or newer than `after`. Eight queries, however many rows."""
    jobs = with_standing(_matching(chosen).select_related("submitted_by"))
    if after:
        found = list(jobs.filter(pk__gt=after).order_by("pk")[: PAGE + 1])
        more_newer, more_older = len(found) > PAGE, True
        found = found[:PAGE][::-1]
    else:
        found = list((jobs.filter(pk__lt=before) if before else jobs).order_by("-pk")[: PAGE + 1])
        more_newer, more_older = bool(before), len(found) > PAGE
        found = found[:PAGE]
    stands = _stands(found, now)
    uses = uses_of(*(job.pk for job in found))
    rows = tuple(
        Row(
            job=job,
            workflow=workflow_title(job.workflow),
            sign=sign_of_job(job),
            stands=stands.get(job.pk, ""),
            by=job.submitted_by.username,
            spent=sum((u.spent for u in uses if u.job_id == job.pk), NOTHING),
        )
        for job in found
    )
    return Page(
        rows=rows,
        older=found[-1].pk if found and more_older else 0,
        newer=found[0].pk if found and more_newer else 0,
    )


def _matching(chosen: Filter) -> TenantQuerySet[Job]:
    jobs: TenantQuerySet[Job] = Job.objects.all()
    if chosen.state == HELD:
        jobs = jobs.filter(held_at__isnull=False).exclude(state__in=ENDED)
    elif chosen.state:
        jobs = jobs.filter(state=chosen.state)
    if chosen.workflow:
        jobs = jobs.filter(workflow=chosen.workflow)
    return jobs.filter(_search(chosen.q)) if chosen.q else jobs


def _search(q: str) -> Q:
    """A label or number, the start of a reference, a part of the title, a whole key or digest."""
    found = Q(title__icontains=q) | Q(reference__istartswith=q) | Q(submission_key=q)
    found |= Q(input_digest=q.lower()) | Q(submitted_by__username=q)
    found |= Q(pk__in=Operation.objects.filter(operation_key=q).values("job"))
    found |= Q(pk__in=Proposal.objects.filter(digest=q.lower()).values("job"))
    number = _LABEL.fullmatch(q)
    return found | Q(pk=int(number.group(1))) if number else found


def _stands(jobs: Sequence[Job], now: datetime) -> dict[int, str]:
    """A few words on each job: what it is at, or what it waits for."""
    ids = [job.pk for job in jobs]
    said = _at_steps(ids, now)
    said.update(_at_waits(ids))
    said.update(_at_approval(ids, now))
    said.update(_at_receivers(ids, now))
    for job in jobs:
        if job.state in ENDED and job.ended_at is not None and job.pk not in said:
            said[job.pk] = f"ended {_stamp(job.ended_at, now, seconds=False)}"
        elif job.held_at is not None and job.state not in ENDED:
            said[job.pk] = job.hold_reason or f"by {job.held_by}"
    return said


def _at_steps(ids: Sequence[int], now: datetime) -> dict[int, str]:
    stages = (
        Stage.objects.filter(
            job__in=ids, closed_at__isnull=True, job__state__in=[JobState.RECEIVED, JobState.VALIDATED]
        )
        .exclude(kind__in=NOT_STEPS)
        .select_related("job")
        .annotate(
            done=Subquery(_items_of(ItemState.SUCCEEDED)),
            again=Subquery(
                WorkItem.objects.filter(stage=OuterRef("pk"), state=ItemState.BACKING_OFF.number)
                .order_by("next_attempt_at")
                .values("next_attempt_at")[:1]
            ),
        )
        .order_by("job", "ordinal")
    )
    return {stage.job_id: _stage_words(stage, now) for stage in stages}


def _at_waits(ids: Sequence[int]) -> dict[int, str]:
    """The wait that ends first, of each job that waits."""
    waits = Expectation.objects.filter(job__in=ids, settled_at__isnull=True)
    first = waits.order_by("job_id", F("due_at").asc(nulls_last=True), "pk").distinct("job_id")
    return {e.job_id: waiting.sentence(e) for e in first}


def _items_of(state: ItemState) -> QuerySet[WorkItem, Any]:
    items = WorkItem.objects.filter(stage=OuterRef("pk"), state=state.number).order_by()
    return items.values("stage").annotate(n=Count("pk")).values("n")


def _stage_words(stage: Stage, now: datetime) -> str:
    definition = words.definition_of(stage.job.workflow, stage.job.revision)
    title = words.stage_title(definition, stage.name)
    if stage.kind == StageKind.EACH:
        title = f"{title}: {stage.done or 0} of {stage.total}"  # type: ignore[attr-defined]
    again = stage.again  # type: ignore[attr-defined]
    return f"{title}, again {_stamp(again, now)}" if again else title


def _at_approval(ids: Sequence[int], now: datetime) -> dict[int, str]:
    approvals = (
        Decision.objects.filter(proposal=OuterRef("pk"), verdict=Verdict.APPROVE)
        .order_by()
        .values("proposal")
        .annotate(n=Count("pk"))
        .values("n")
    )
    open_proposals = (
        Proposal.objects.filter(job__in=ids, closed_at__isnull=True, job__state=JobState.AWAITING_APPROVAL)
        .annotate(signed=Subquery(approvals))
        .order_by("pk")
    )
    return {
        p.job_id: f"{p.signed or 0} of {p.quorum}, {_plain(left_words(p.expires_at, now)[0])}"
        for p in open_proposals
    }


def _at_receivers(ids: Sequence[int], now: datetime) -> dict[int, str]:
    said: dict[int, str] = {}
    for job_id, sent, settled, total, applied in (
        Operation.objects.filter(job__in=ids)
        .values_list("job")
        .annotate(
            sent=Max("first_may_have_been_sent_at"),
            settled=Max("settled_at"),
            total=Count("pk"),
            applied=Count("pk", filter=Q(state="CONFIRMED")),
        )
        .order_by()
    ):
        if total and applied == total and settled:
            said[job_id] = f"receipt {_stamp(settled, now, seconds=False)}"
        elif sent and total > 1:
            said[job_id] = f"{applied} of {total} applied"
        elif sent:
            said[job_id] = f"sent {_stamp(sent, now, seconds=False)}"
    return said


def _stamp(moment: datetime, now: datetime, *, seconds: bool = True) -> str:
    """The words of a time with plain spaces: these sentences are shown with every unusual character made visible."""
    return _plain(stamp_words(moment, now, seconds=seconds))


def _plain(words: str) -> str:
    return words.replace("\u00a0", " ").replace("\u202f", " ")
