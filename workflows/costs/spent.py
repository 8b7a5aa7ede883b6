"""Reading what work cost: the sums, and what is not in them yet, in one snapshot. Exact at every moment.

Call within the tenant's scope. Days are the tenant's; costs are in the installation's currency (`pricing.currency`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from access.tenancy import require_scope
from workflows.costs import sql
from workflows.models import Job
from workflows.states import JobState

EVER = datetime(1970, 1, 1, tzinfo=UTC)
_KEYS = ("day", "hour", "workflow", "route")


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls used. `cost` is what is known of it; `unpriced` calls of unknown cost come on top."""

    cost: Decimal = Decimal(0)
    unpriced: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.cost + other.cost,
            self.unpriced + other.unpriced,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
        )

    def __bool__(self) -> bool:
        return bool(self.cost or self.unpriced or self.tokens_in or self.tokens_out)


NOTHING = Spent()


@dataclass(frozen=True, slots=True)
class Line:
    """What one key (a workflow, a route, a day, or several of these) cost, by what became of it."""

    key: tuple[Any, ...]
    kept: Spent = NOTHING
    failed: Spent = NOTHING
    refused: Spent = NOTHING

    @property
    def total(self) -> Spent:
        """Whatever became of it."""
        return self.kept + self.failed + self.refused

    @property
    def in_vain(self) -> Spent:
        """What gave no result that counts."""
        return self.failed + self.refused


def spending(
    *, since: date, until: date, by: Sequence[str] = (), from_hour: datetime = EVER, anew: bool = False
) -> list[Line]:
    """What was spent from one day to another, both included, by some of day, hour, workflow and route.

    `anew`: from every attempt, without the sums, to compare. One query.
    """
    require_scope()
    assert set(by) <= set(_KEYS)
    parameters = {"since": since, "until": until, "from_hour": from_hour, "anew": anew}
    found: dict[tuple[Any, ...], dict[str, Spent]] = {}
    for fate, cost, unpriced, tokens_in, tokens_out, *key in _rows(sql.read_by(*by), parameters):
        found.setdefault(tuple(key), {})[fate] = _spent(cost, unpriced, tokens_in, tokens_out)
    return [Line(key, **found[key]) for key in sorted(found)]


@dataclass(frozen=True, slots=True)
class StageUse:
    """What attempts of one stage used by one route, and whether they gave a result."""

    job_id: int
    stage_id: int
    route: str
    gave_result: bool
    attempts: int
    spent: Spent


def uses_of(*job_ids: int) -> list[StageUse]:
    """What some jobs used, by stage and route. One query."""
    require_scope()
    return [
        StageUse(job_id, stage_id, route, gave_result, int(attempts), _spent(*sums))
        for job_id, stage_id, route, gave_result, attempts, *sums in _rows(
            sql.OF_JOBS, {"jobs": list(job_ids)}
        )
    ]


def spent_by(job: Job, uses: Sequence[StageUse]) -> Line:
    """What one job cost, of its `uses_of`."""
    useful = sum((u.spent for u in uses if u.gave_result), NOTHING)
    failed = sum((u.spent for u in uses if not u.gave_result), NOTHING)
    if job.state in (JobState.FAILED, JobState.CANCELLED):
        return Line((), failed=failed, refused=useful)
    return Line((), kept=useful, failed=failed)


def _rows(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def _spent(cost: Decimal, unpriced: Any, tokens_in: Any, tokens_out: Any) -> Spent:
    return Spent(cost, int(unpriced), int(tokens_in), int(tokens_out))
