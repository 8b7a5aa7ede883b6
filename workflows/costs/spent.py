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
from workflows.kinds import Fate
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
        return self.kept + self.failed + self.refused

    @property
    def in_vain(self) -> Spent:
        """What gave no result that counts."""
        return self.failed + self.refused


def spending(
    *, since: date, until: date, by: Sequence[str] = (), from_hour: datetime = EVER, anew: bool = False
) -> list[Line]:
    """What was spent from one day to another, both included, by some of day, hour, workflow and route.

    `anew`: from every attempt, without the sums, to compare. One query, and one more to know how far the sums go.
    """
    require_scope()
    assert set(by) <= set(_KEYS)
    parameters = {"since": since, "until": until, "from_hour": from_hour, "anew": anew}
    found: dict[tuple[Any, ...], dict[str, Spent]] = {}
    for fate, cost, unpriced, tokens_in, tokens_out, *key in _rows(sql.read_by(*by), parameters):
        found.setdefault(tuple(key), {})[fate] = _spent(cost, unpriced, tokens_in, tokens_out)
    return [Line(key, **found[key]) for key in sorted(found)]


def spent_by(job: Job) -> Line:
    """What one job cost. Two queries."""
    require_scope()
    spent = {gave_result: _spent(*sums) for gave_result, *sums in _rows(sql.OF_JOB, {"job": job.pk})}
    refused = job.state in (JobState.FAILED, JobState.CANCELLED)
    results = Fate.REFUSED if refused else Fate.KEPT
    return Line((), **{results.value: spent.get(True, NOTHING), Fate.FAILED.value: spent.get(False, NOTHING)})


def _rows(statement: str, parameters: dict[str, Any]) -> list[list[Any]]:
    """Rows of one snapshot. Counting may go on between the two queries: then they are asked again."""
    anew = parameters.get("anew", False)
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT counted_up_to FROM workflows_costbook")
            row = cursor.fetchone()
            counted = row[0] if row else 0
            cursor.execute(statement, {**parameters, "counted": 0 if anew else counted})
            rows = cursor.fetchall()
            if anew or all((upto or 0) == counted for upto, *_ in rows):
                return [rest for _, *rest in rows]


def _spent(cost: Decimal, unpriced: Any, tokens_in: Any, tokens_out: Any) -> Spent:
    return Spent(cost, int(unpriced), int(tokens_in), int(tokens_out))
