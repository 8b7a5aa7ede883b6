"""Choosing what a bulk is for, and freezing it: one row for each job or item, as it is seen at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import BigIntegerField, CharField, Exists, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models import Case as Choice

from access.refusals import Unprocessable
from dispatch.models import Operation
from dispatch.states import OperationState
from reconciliation.bulk.verbs import Terms
from reconciliation.models import Bulk, Case, CaseKind
from workflows.kinds import NOT_STEPS
from workflows.models import Attempt, Job, StageKind, WorkItem
from workflows.states import ENDED, STUCK_ITEM_STATES, ItemState, JobState

MOST = 50_000
"""Entries of one bulk."""

_FREEZE = """
INSERT INTO reconciliation_bulkentry
  (tenant_id, bulk_id, job_id, item_id, case_id, seen_state, seen_number, state, why)
SELECT c.tenant_id, %s, c.job_id, c.item_id::bigint, c.case_id::bigint, c.state, c.number, 'waiting', ''
FROM ({chosen}) AS c (tenant_id, job_id, item_id, case_id, state, number)
"""
_NONE = Value(None, output_field=BigIntegerField())
_STUCK = [s.number for s in STUCK_ITEM_STATES]


class BadFilter(Unprocessable):
    """The filter names something that there is not; the message says what there is. Nothing was frozen."""


class TooMany(Unprocessable):
    """More is chosen than one bulk holds. Nothing was frozen."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What was asked for; an empty string narrows nothing.

    `error`: the class of a stopped item's last error, whole or its last name, or how the attempt ended ("worker died").
    `since` and `until`: when an item stopped, a failed job ended, another job was submitted, a case was opened. `kind`: of a
    case about it. `receiver`, by name, and `incident`, by number, choose among cases.
    """

    workflow: str = ""
    job: str = ""
    step: str = ""
    error: str = ""
    state: str = ""
    kind: str = ""
    receiver: str = ""
    incident: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Filters:
        """From stored or posted values."""
        return cls(**{f.name: str(given.get(f.name) or "").strip()[:300] for f in fields(cls)})

    def asked(self) -> dict[str, str]:
        """Only what narrows something."""
        return {name: value for name, value in asdict(self).items() if value}


def chosen(terms: Terms, filters: Filters) -> QuerySet[Any, Any]:
    """Rows of (tenant, job, item, case, state seen, number seen) that the filter leaves. Needs the tenant's scope.

    Raises BadFilter.
    """
    if filters.kind and filters.kind not in CaseKind.values:
        raise BadFilter(
            f"There is no kind of case “{filters.kind}”. There are: {', '.join(CaseKind.values)}."
        )
    if terms.cases is not None:
        return _cases(terms.cases(), filters)
    if filters.receiver or filters.incident:
        raise BadFilter(f"{terms.title}: only cases are chosen by receiver or incident.")
    states = {s.lower(): s for s in terms.states}
    state = states.get(filters.state.lower(), "")
    if filters.state and not state:
        raise BadFilter(f"{terms.title}: state is one of {', '.join(states)}.")
    wanted = [state] if state else list(terms.states)
    return _items(terms, filters, wanted) if terms.of_items else _jobs(terms, filters, wanted)


def freeze(bulk: Bulk, rows: QuerySet[Any, Any]) -> int:
    """Write the entries of a planned bulk in one statement; how many there are. Raises TooMany."""
    query, parameters = rows[: MOST + 1].query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(_FREEZE.replace("{chosen}", query), [bulk.pk, *parameters])
        total = int(cursor.rowcount)
    if total > MOST:
        raise TooMany(f"That is more than {MOST:,}. Narrow it by workflow, step, error or time.")
    return total


def _items(terms: Terms, filters: Filters, states: list[str]) -> QuerySet[Any, Any]:
    rows: QuerySet[Any, Any] = WorkItem.objects.filter(
        state__in=[ItemState(s).number for s in states],
        job__state__in=[s for s in JobState if s not in ENDED],
        stage__closed_at__isnull=True,
    )
    if not terms.wants_attempts:
        rows = rows.exclude(stage__kind=StageKind.MACHINE)
    if filters.workflow:
        rows = rows.filter(job__workflow=filters.workflow)
    if filters.job:
        rows = rows.filter(job=_number(filters.job, "JOB-"))
    rows = _narrowed(rows, filters)
    if filters.kind:
        open_cases = Case.objects.filter(item=OuterRef("pk"), kind=filters.kind, resolved_at__isnull=True)
        rows = rows.filter(Exists(open_cases))
    rows = _within(rows, "finished_at", filters)
    names = [When(state=ItemState(s).number, then=Value(s)) for s in states]
    named = rows.annotate(seen=Choice(*names, output_field=CharField()), no_case=_NONE)
    found: QuerySet[Any, Any] = named.values_list("tenant_id", "job_id", "pk", "no_case", "seen", "claim_no")
    return found.order_by("pk")


def _jobs(terms: Terms, filters: Filters, states: list[str]) -> QuerySet[Any, Any]:
    rows: QuerySet[Any, Any] = Job.objects.filter(state__in=states)
    if filters.workflow:
        rows = rows.filter(workflow=filters.workflow)
    if filters.job:
        rows = rows.filter(pk=_number(filters.job, "JOB-"))
    if terms.applied:
        rows = rows.filter(
            Exists(Operation.objects.filter(job=OuterRef("pk"), state=OperationState.CONFIRMED))
        )
    failed = states == [JobState.FAILED]
    ended = all(s in ENDED for s in states)
    if filters.step or filters.error:
        stopped = [*_STUCK, ItemState.CANCELLED.number] if failed else _STUCK
        items = WorkItem.objects.filter(job=OuterRef("pk"), state__in=stopped, attempts__gt=0)
        rows = rows.filter(Exists(_narrowed(items.exclude(stage__kind__in=NOT_STEPS), filters)))
    if filters.kind:
        cases = Case.objects.filter(job=OuterRef("pk"), kind=filters.kind)
        rows = rows.filter(Exists(cases if ended else cases.filter(resolved_at__isnull=True)))
    rows = _within(rows, "ended_at" if ended else "created_at", filters)
    without = rows.annotate(no_item=_NONE, no_case=_NONE)
    found: QuerySet[Any, Any] = without.values_list(
        "tenant_id", "pk", "no_item", "no_case", "state", "version"
    )
    return found.order_by("pk")


def _cases(which: Q, filters: Filters) -> QuerySet[Any, Any]:
    """Open cases, in the order of their jobs, so that those of one job stand together."""
    for name in ("step", "error", "state"):
        if getattr(filters, name):
            raise BadFilter(f"{name}: cases are chosen by workflow, job, kind, receiver, incident and time.")
    rows = Case.objects.filter(which, resolved_at__isnull=True, job__isnull=False)
    if filters.workflow:
        rows = rows.filter(job__workflow=filters.workflow)
    if filters.job:
        rows = rows.filter(job=_number(filters.job, "JOB-"))
    if filters.kind:
        rows = rows.filter(kind=filters.kind)
    if filters.receiver:
        rows = rows.filter(receiver__name=filters.receiver)
    if filters.incident:
        rows = rows.filter(incident=_number(filters.incident, "INC-"))
    without = _within(rows, "opened_at", filters).annotate(no_item=_NONE)
    found: QuerySet[Any, Any] = without.values_list("tenant_id", "job_id", "no_item", "pk", "kind", "version")
    return found.order_by("job_id", "pk")


def _narrowed(items: Any, filters: Filters) -> Any:
    """Items of a step, and those whose last attempt ended with an error."""
    if filters.step:
        items = items.filter(stage__name=filters.step)
    if filters.error:
        last = Attempt.objects.filter(item=OuterRef("pk")).order_by("-claim_no", "-pk")
        items = items.annotate(
            last_error=Subquery(last.values("error_class")[:1]),
            last_outcome=Subquery(last.values("outcome")[:1]),
        )
        items = items.filter(
            Q(last_error=filters.error)
            | Q(last_error__endswith=f".{filters.error}")
            | Q(last_outcome=filters.error)
        )
    return items


def _within(rows: Any, column: str, filters: Filters) -> Any:
    for name, condition in (("since", "gte"), ("until", "lt")):
        if text := getattr(filters, name):
            rows = rows.filter(**{f"{column}__{condition}": _moment(text, name)})
    return rows


def _number(text: str, prefix: str) -> int:
    number = text.upper().removeprefix(prefix)
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        name = {"JOB-": "job", "INC-": "incident"}[prefix]
        raise BadFilter(f"{name}: {text} is no {name}; write it as {prefix}12.")
    return int(number)


def _moment(text: str, name: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadFilter(f"{name}: {text} is no time; write it as 2026-03-13T16:00.") from error
    if at.tzinfo is None:
        raise BadFilter(f"{name}: {text} has no zone.")
    return at
