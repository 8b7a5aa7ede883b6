"""What a job's items wait for, in a sentence: a time, an event from outside, a person's answer."""

from __future__ import annotations

from django.db.models import F
from django.utils import timezone

from workflows.kinds import NOT_STEPS
from workflows.models import Expectation, ExpectationKind, Job, WorkItem
from workflows.states import ItemState

_MOVING = (ItemState.READY.number, ItemState.RUNNING.number)
_LONGEST = 200


def why_it_waits(job: Job) -> str | None:
    """The wait that ends first, and how many more there are; None while something else of the job moves."""
    open_ones = Expectation.objects.filter(job=job, settled_at__isnull=True)
    first = open_ones.order_by(F("due_at").asc(nulls_last=True), "pk").first()
    if first is None:
        return None
    moving = WorkItem.objects.filter(job=job, state__in=_MOVING).exclude(stage__kind__in=NOT_STEPS)
    if moving.exists():
        return None
    more = open_ones.count() - 1
    return f"{sentence(first)}{f', and {more:,} more' if more else ''}"


def sentence(e: Expectation) -> str:
    """ "waits for the event shipment R-7 until 14:05 on 2 December"."""
    until = f" until {clock(e)}" if e.due_at is not None else ""
    if e.kind == ExpectationKind.TIME:
        return f"waits{until}"
    if e.kind == ExpectationKind.EVENT:
        return f"waits for the event {e.key}{until}"
    article = "an" if e.role[0] in "aeiou" else "a"
    return f"waits for {article} {e.role}'s answer{until}: {short(e.question)}"


def clock(e: Expectation) -> str:
    """When the wait ends, as people here read it, with its day where that is not today."""
    assert e.due_at is not None
    local = timezone.localtime(e.due_at)
    if local.date() == timezone.localdate():
        return f"{local:%H:%M}"
    year = f" {local:%Y}" if local.year != timezone.localdate().year else ""
    return f"{local:%H:%M} on {local.day} {local:%B}{year}"


def short(question: str) -> str:
    """One line of a question."""
    line = " ".join(question.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
