"""Budgets of a day that are used up while work waits under them: one case for each limit, which an admin owns.

An errand, since no transaction of a person or a job notices it: claims just find the limit closed. The case stands at the
job that waits first; it closes by itself when the limit lets work through again, by the day or by an admin, or when
nothing waits. A job that ends takes its case with it, and the next one that waits gets another.
"""

# ruff: noqa: S608 - the statements are made of the fragments below, never of input
from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from access.roles import Actor, ActorKind
from access.tenancy import acting
from reconciliation import words
from reconciliation.casework import Question, close_case, open_case
from reconciliation.locks import lock_case
from reconciliation.models import Case, CaseKind
from workflows import clock
from workflows.errands import Errand
from workflows.locks import lock_job, lock_name
from workflows.models import Lane, WorkItem
from workflows.states import ItemState

OPEN_AGAIN = "the limit lets work through again"
NOTHING_WAITS = "nothing waits under the limit any more"
_PASSED = """m.cost_per_day > 0 AND m.day = (clock_timestamp() AT TIME ZONE 'UTC')::date AND m.spent >= m.cost_per_day"""
"""As `workflows.limits` has it. A budget of nought is a limit that somebody has shut, and no surprise."""
_WAITING = f"w.state = {ItemState.READY.number} AND w.limited AND w.deaths = 0"
FIND = f"""
WITH passed AS (
  SELECT l.tenant_id, l.name, l.id FROM workflows_limit m
  JOIN workflows_lane l ON l.tenant_id = m.tenant_id AND l.name = m.name WHERE {_PASSED}
  UNION SELECT l.tenant_id, l.name, l.id FROM workflows_sharedlimit m JOIN workflows_lane l ON l.name = m.name
  WHERE {_PASSED}
), waiting AS MATERIALIZED (
  SELECT p.tenant_id, p.name, min(p.id) AS lane FROM passed p
  WHERE EXISTS (SELECT FROM workflows_workitem w WHERE w.lane_id = p.id AND {_WAITING}) GROUP BY p.tenant_id, p.name
), asked AS MATERIALIZED (
  SELECT l.tenant_id, l.name, l.id AS lane FROM reconciliation_case c JOIN workflows_workitem w ON w.id = c.item_id
  JOIN workflows_lane l ON l.id = abs(w.lane_id)
  WHERE c.kind = '{CaseKind.BUDGET_PASSED.value}' AND c.resolved_at IS NULL
)
SELECT tenant_id, lane FROM waiting WHERE (tenant_id, name) NOT IN (SELECT tenant_id, name FROM asked)
UNION ALL
SELECT tenant_id, lane FROM asked WHERE (tenant_id, name) NOT IN (SELECT tenant_id, name FROM waiting) LIMIT 20
"""
_STANDING = f"""
SELECT m.cost_per_day, m.spent, m.own FROM (
  SELECT name, cost_per_day, day, spent, true AS own FROM workflows_limit
  UNION ALL SELECT name, cost_per_day, day, spent, false FROM workflows_sharedlimit) m
WHERE m.name = %s AND {_PASSED} ORDER BY m.own DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class _Passed:
    """A budget that is used up. `own`: the organisation's own limit, not the installation's."""

    budget: Decimal
    spent: Decimal
    own: bool


def turn(tenant_id: int, lane_id: int, worker: str) -> bool:
    """Look after the limit of one of an organisation's lanes; never more at once. A repeat, by anybody, changes nothing."""
    with acting(tenant_id):
        look_after(lane_id, Actor(ActorKind.WORKER, worker), clock.now())
    return False


def look_after(lane_id: int, actor: Actor, now: datetime) -> None:
    """Have what waits under a lane's limit have an open case while the budget is used up, and none otherwise.

    Locks the limit's name for this, then a job → its case.
    """
    lane = Lane.objects.get(pk=lane_id)
    lock_name("budget", lane.tenant_id, lane.name)
    lanes = list(Lane.objects.filter(name=lane.name).values_list("pk", flat=True))
    waiting = WorkItem.objects.filter(lane_id__in=lanes, state=ItemState.READY.number, limited=True, deaths=0)
    passed, first = _passed(lane.name), waiting.order_by("job_id", "pk").first()
    case = Case.objects.filter(
        kind=CaseKind.BUDGET_PASSED.value,
        resolved_at__isnull=True,
        item__lane_id__in=[*lanes, *(-pk for pk in lanes)],  # of a held job's items they are negative
    ).first()
    if case is None and passed is not None and first is not None:
        _open(lane, passed, waiting, first, actor, now)
    elif case is not None and (passed is None or first is None):
        assert case.job_id is not None
        job, case = lock_job(case.job_id), lock_case(case.pk)
        if case.resolved_at is None:
            why = OPEN_AGAIN if passed is None else NOTHING_WAITS
            close_case(job=job, case=case, resolution=why, reason="", actor=actor, now=now)


def _open(
    lane: Lane, passed: _Passed, waiting: QuerySet[WorkItem], first: WorkItem, actor: Actor, now: datetime
) -> None:
    job = lock_job(first.job_id)
    items, jobs = waiting.count(), waiting.values("job").distinct().count()
    until = datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(), UTC)
    told = f"{_spent(passed)} {_count(items, 'step waits', 'steps wait')} in {_count(jobs, 'job', 'jobs')}."
    told += f" By itself it goes on {words.clock(until, lane.tenant_id)}; {_raised(passed)}"
    question = Question(CaseKind.BUDGET_PASSED, words.budget_passed(lane.name), told, actor.name, item=first)
    open_case(job=job, question=question, actor=actor, now=now)


def _spent(passed: _Passed) -> str:
    budget = f"{passed.budget.normalize():f} {settings.COUNTERFOIL_COST_CURRENCY}"
    if not passed.own:  # what others have spent of a shared one is not told
        return f"The installation's budget of {budget} a day is used up."
    return f"{passed.spent.normalize():f} of {budget} a day are spent."


def _raised(passed: _Passed) -> str:
    if passed.own:
        return "an admin raises it under Limits, and it goes on at once."
    return "whoever runs the installation raises it."


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _passed(name: str) -> _Passed | None:
    with connection.cursor() as cursor:
        cursor.execute(_STANDING, [name])
        row = cursor.fetchone()
    return None if row is None else _Passed(*row)


ERRAND = Errand("passed budgets", FIND, turn)
