"""A job's operations: the few that want to be looked at on its page, all of them on a page of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Case, Count, IntegerField, Value, When

from access.tenancy import TenantQuerySet
from console.queries.looks import Look, looks_at
from console.queries.standing import Sign
from dispatch import queries as dispatch
from dispatch.models import Operation, Reversal
from dispatch.queries import OperationView
from dispatch.reversals import reversals_of
from dispatch.states import OperationState
from workflows.models import Job

S = OperationState
FEW, FIRST = 20, 8
"""A job's page shows so many at most, or the first of more."""

PAGE = 50
URGENCY = (
    S.CONFLICTED,
    S.UNKNOWN,
    S.NOT_APPLIED,
    S.REFUSED,
    S.SUBMITTED,
    S.PREPARED,
    S.WITHDRAWN,
    S.CONFIRMED,
)
"""What a person has to look at first, first."""


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation with everything that was sent and seen, and its state in words."""

    view: OperationView
    sign: Sign
    reversals: Sequence[Reversal] = ()
    """The jobs that were to take it back, or are."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How many operations are in one state."""

    sign: Sign
    count: int


@dataclass(frozen=True, slots=True)
class Operations:
    """Rows of a job's operations. `after`: where the next page begins, or 0; the job's page says only how many more."""

    total: int
    standings: Sequence[Standing]
    rows: Sequence[OperationRow]
    after: int = 0
    looks: Sequence[Look] = ()

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


def operations_of(job: Job) -> Operations:
    """What a job's page shows: all where they are few, else those that are worth a look. At most six queries."""
    mine = _of(job)
    few = list(mine.order_by("proposed__proposal_id", "ordinal", "pk")[: FEW + 1])
    if len(few) <= FEW:
        rows = _rows(few)
        return Operations(len(few), (), rows, looks=_looks(job, rows))
    standings = _standings(job)
    rows = _rows(list(mine.order_by(_urgency(), "-proposed__proposal_id", "ordinal", "pk")[:FIRST]))
    return Operations(sum(s.count for s in standings), standings, rows, looks=_looks(job, rows))


def page_of(job: Job, state: str, *, after: int = 0) -> Operations:
    """A page of them, in the order in which they were made; a state that there is not narrows nothing. Five queries."""
    mine = _of(job).filter(pk__gt=after).order_by("pk")
    if state in list(S):
        mine = mine.filter(state=state)
    rows = _rows(list(mine[: PAGE + 1]))
    standings = _standings(job)
    return Operations(
        total=sum(s.count for s in standings),
        standings=standings,
        rows=rows[:PAGE],
        after=rows[PAGE - 1].view.operation.pk if len(rows) > PAGE else 0,
        looks=_looks(job, rows[:PAGE]),
    )


def _of(job: Job) -> TenantQuerySet[Operation]:
    mine: TenantQuerySet[Operation] = Operation.objects.filter(job=job)
    return mine.select_related("receiver", "contract", "proposed").defer(
        "proposed__body", "proposed__headers"
    )


def _urgency() -> Case:
    places = (When(state=state, then=Value(place)) for place, state in enumerate(URGENCY))
    return Case(*places, default=Value(len(URGENCY)), output_field=IntegerField())


def _rows(operations: Sequence[Operation]) -> list[OperationRow]:
    applied = [o for o in operations if o.state == S.CONFIRMED]
    taken = reversals_of(applied) if applied else {}
    return [
        OperationRow(view, _sign_of(view.operation), taken.get(view.operation.pk, ()))
        for view in dispatch.views_of(operations)
    ]


def _looks(job: Job, rows: Sequence[OperationRow]) -> list[Look]:
    return looks_at(job, [row.view for row in rows]) if rows else []


def _standings(job: Job) -> list[Standing]:
    counts = Operation.objects.filter(job=job).order_by().values_list("state").annotate(n=Count("pk"))
    found = dict(counts)
    return [Standing(Sign(state), found[state]) for state in URGENCY if state in found]


def _sign_of(operation: Operation) -> Sign:
    if operation.state == S.SUBMITTED and operation.first_may_have_been_sent_at is None:
        return Sign(operation.state, "Sending")
    return Sign(operation.state)
