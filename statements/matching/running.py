"""Walking the ladder: a run takes one batch of lines after the other, rung by rung, each in a transaction of its own.

What was taken and how far the run has come are committed together, so a crash at any line repeats nothing that counts.
Whoever does a turn holds the run for ten seconds; that nothing is taken twice does not depend on it, but on the indexes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import F, QuerySet, Sum

from access.tenancy import acting
from statements.locks import lock_statement
from statements.matching.locks import lock_run
from statements.matching.models import MatchingSettings, MatchRun
from statements.matching.settings import Settings
from statements.matching.taking import Batch, Rung, Taken, rungs, take
from statements.models import Statement, StatementState
from workflows import clock
from workflows.errands import Errand

TURN_SECONDS = 0.25
HELD_SECONDS = 10
LINES = 5000
"""In one batch: a fifth of a second where each of them is taken."""

_TAKE = """
UPDATE statements_matchrun SET worked_by = %s, worked_until = clock_timestamp() + %s * interval '1 s'
WHERE id = %s AND ended_at IS NULL
  AND (worked_by = %s OR worked_until IS NULL OR worked_until < clock_timestamp())
"""
FIND = """
SELECT tenant_id, id FROM (
  SELECT DISTINCT ON (receiver_id) tenant_id, id, worked_until FROM statements_matchrun
  WHERE ended_at IS NULL ORDER BY receiver_id, id) first
WHERE worked_until IS NULL OR worked_until < clock_timestamp() ORDER BY id LIMIT 20
"""
"""The oldest of each receiver: two walks over the same lines would only wait for each other."""


def settings_of(receiver_id: int) -> tuple[int, Settings]:
    """The version in force and what it says; version 0 are the defaults."""
    row = MatchingSettings.objects.filter(receiver=receiver_id).order_by("-version").first()
    return (0, Settings()) if row is None else (row.version, Settings.model_validate(row.terms))


def begin(*, receiver_id: int, statement: Statement | None, asked_by: int, now: datetime) -> bool:
    """Have workers walk the ladder, over one applied statement or all of a receiver. Inside an action.

    False where the same walk has not ended yet. Walks of one receiver follow each other.
    """
    version, settings = settings_of(receiver_id)
    of_all = _applied(receiver_id).aggregate(n=Sum("lines"))["n"] or 0
    values = {
        "receiver": receiver_id,
        "statement": statement.pk if statement is not None else None,
        "version": version,
        "terms": settings.model_dump_json(),
        "asked_by": asked_by,
        "now": now,
        "lines": (of_all if statement is None else statement.lines) * len(rungs(settings)),
    }
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN, values)
        return bool(cursor.rowcount)


_BEGIN = """
INSERT INTO statements_matchrun (tenant_id, receiver_id, statement_id, settings_version, terms, asked_by_id, asked_at,
  to_look_at, rung, at_statement, at_row, looked_at, taken, differing, worked_by)
SELECT tenant_id, id, %(statement)s, %(version)s, %(terms)s, %(asked_by)s, %(now)s, %(lines)s, 0, 0, 0, 0, 0, 0, ''
FROM dispatch_receiver WHERE id = %(receiver)s
ON CONFLICT DO NOTHING
"""


def turn(tenant_id: int, run_id: int, worker: str) -> bool:
    """Take batches for a quarter of a second; whether there are more. Nothing where another worker is at it."""
    until = time.monotonic() + TURN_SECONDS
    with acting(tenant_id), connection.cursor() as cursor:
        cursor.execute(_TAKE, [worker, HELD_SECONDS, run_id, worker])
        if cursor.rowcount == 0:
            return False
    while time.monotonic() < until:
        if not step(tenant_id, run_id, worker):
            return False
    return True


def step(tenant_id: int, run_id: int, worker: str, *, lines: int = LINES) -> bool:
    """One batch of a run, and how far it has come with it; whether there is more."""
    now = clock.now()
    with acting(tenant_id):
        run = lock_run(run_id)
        if run.ended_at is not None or run.worked_by != worker:
            return False
        settings = Settings.model_validate(run.terms)
        place = _next(run, lines)
        if place is None:
            return _next_rung(run, settings, now)
        batch = Batch(run.receiver_id, place.statement_id, place.after, place.upto)
        lock_statement(place.statement_id)  # nobody sets its lines aside, or matches them, meanwhile
        taken = take(Rung(run.rung), batch, settings, settings_version=run.settings_version, now=now)
        _advance(run, place, taken)
        return True


@dataclass(frozen=True, slots=True)
class _Place:
    statement_id: int
    after: int
    upto: int
    count: int


def _next(run: MatchRun, lines: int) -> _Place | None:
    """The next lines of the run's rung, or None at its end."""
    statement_id, after = run.at_statement, run.at_row
    while True:
        if statement_id:
            with connection.cursor() as cursor:
                cursor.execute(_UPTO, [statement_id, after, lines])
                count, upto = cursor.fetchone()
            if count:
                return _Place(statement_id, after, upto, count)
        left = _applied(run.receiver_id).filter(pk__gt=statement_id).order_by("pk")
        if run.statement_id is not None:
            left = left.filter(pk=run.statement_id)
        following = left.values_list("pk", flat=True).first()
        if following is None:
            return None
        statement_id, after = following, -1


_UPTO = """
SELECT count(*), max(row_number) FROM (SELECT row_number FROM statements_statementline
  WHERE statement_id = %s AND row_number > %s ORDER BY row_number LIMIT %s) batch
"""


def _advance(run: MatchRun, place: _Place, taken: Taken) -> None:
    MatchRun.objects.filter(pk=run.pk).update(
        at_statement=place.statement_id,
        at_row=place.upto,
        looked_at=F("looked_at") + place.count,
        taken=F("taken") + taken.matches,
        differing=F("differing") + taken.differing,
    )


def _next_rung(run: MatchRun, settings: Settings, now: datetime) -> bool:
    above = [r for r in rungs(settings) if r > run.rung]
    if above:
        MatchRun.objects.filter(pk=run.pk).update(rung=above[0], at_statement=0, at_row=0)
        return True
    MatchRun.objects.filter(pk=run.pk).update(ended_at=now, worked_until=None)
    return False


def _applied(receiver_id: int) -> QuerySet[Statement]:
    return Statement.objects.filter(receiver=receiver_id, state=StatementState.APPLIED)


ERRAND = Errand("match", FIND, turn)
