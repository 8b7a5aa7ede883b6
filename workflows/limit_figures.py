"""How limits stand: for the console's page and the command. Reads need the tenant's scope."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from django.db import connection

from workflows import registry
from workflows.limits import State, allowance
from workflows.models import Limit, LimitTerms, SharedLimit
from workflows.states import ItemState


@dataclass(frozen=True, slots=True)
class LimitStanding:
    """One limit that is set, or one that workflows name and nobody has set (`terms` None).

    `running` and `waiting` count this tenant's items under it. `spent_today` in the cost currency, by UTC's day; of a
    shared limit it is everybody's and not told.
    """

    name: str
    shared: bool
    terms: LimitTerms | None
    used_by: tuple[str, ...]
    running: int
    waiting: int
    spent_today: Decimal | None
    closed_until: datetime | None
    closed_why: str


def standings(now: datetime) -> list[LimitStanding]:
    """Every limit that holds for the scope's tenant, or is named by a workflow, by name; shared ones after own."""
    used = _named_by_workflows()
    counts = _counts()
    rows: list[LimitTerms] = [*Limit.objects.all(), *SharedLimit.objects.all()]
    found = [_standing(row, used, counts, now) for row in rows]
    missing = set(used) - {row.name for row in rows}
    found += [
        LimitStanding(name, False, None, tuple(used[name]), *counts.get(name, (0, 0)), None, None, "")
        for name in missing
    ]
    return sorted(found, key=lambda s: (s.name, s.shared))


def _standing(
    row: LimitTerms, used: dict[str, list[str]], counts: dict[str, tuple[int, int]], now: datetime
) -> LimitStanding:
    running, waiting = counts.get(row.name, (0, 0))
    shared = isinstance(row, SharedLimit)
    state = State(
        concurrency=row.concurrency,
        requests_per_minute=row.requests_per_minute,
        tokens_per_minute=row.tokens_per_minute,
        cost_per_day=row.cost_per_day,
        requests_due=row.requests_due,
        tokens_due=row.tokens_due,
        day=row.day,
        spent=row.spent,
        average_tokens=row.average_tokens,
        average_cost=row.average_cost,
        closed_until=row.closed_until,
        closed_why=row.closed_why,
    )
    allowed = allowance(state, running=running, now=now)
    spent = row.spent if row.day == now.astimezone(UTC).date() else Decimal(0)
    return LimitStanding(
        row.name,
        shared,
        row,
        tuple(used.get(row.name, [])),
        running,
        waiting,
        None if shared else spent,
        allowed.until,
        allowed.why,
    )


def _named_by_workflows() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for workflow in registry.workflows().values():
        for step in workflow.steps:
            if step.limit and workflow.name not in found.setdefault(step.limit, []):
                found[step.limit].append(workflow.name)
    return found


def _counts() -> dict[str, tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"ready": ItemState.READY.number, "running": ItemState.RUNNING.number})
        return {name: (running, waiting) for name, running, waiting in cursor.fetchall()}


_COUNTS = """
SELECT l.name,
  (SELECT count(*) FROM workflows_workitem w WHERE w.lane_id = l.id AND w.state = %(running)s AND w.limited),
  (SELECT count(*) FROM workflows_workitem w WHERE w.lane_id = l.id AND w.state = %(ready)s AND w.limited
     AND w.deaths = 0)
FROM workflows_lane l WHERE l.name <> ''
"""
