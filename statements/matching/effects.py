"""Taking what lines say into operations: one finding after the other, each in a transaction of its own, in turns.

Most lines agree with what is confirmed already and leave no finding. Who comes second finds it taken.
"""

from __future__ import annotations

import json
import logging
import time
from datetime import datetime

from django.db import OperationalError
from psycopg.errors import DeadlockDetected, LockNotAvailable

from access.roles import Actor, ActorKind
from access.tenancy import acting, reading
from dispatch import booked
from dispatch.booked import Effect
from dispatch.locks import lock_job_and_operation
from dispatch.settling import StillSending
from statements.matching.comparing import money
from statements.matching.ladder import NAMES, Tier
from statements.matching.models import Finding, Match, Says
from statements.models import StatementLine
from workflows import clock
from workflows.errands import Errand

log = logging.getLogger(__name__)
TURN_SECONDS = 0.25
AT_A_TIME = 50
FIND = """
SELECT tenant_id, min(id) FROM statements_finding WHERE taken_at IS NULL GROUP BY tenant_id ORDER BY 2 LIMIT 20
"""


def turn(tenant_id: int, finding_id: int, worker: str) -> bool:
    """Take findings of a tenant for a quarter of a second; whether more can be taken at once.

    One that fails holds up none of those after it; the first failure is raised when the turn is over.
    """
    actor, until = Actor(ActorKind.WORKER, worker), time.monotonic() + TURN_SECONDS
    failures: list[Exception] = []
    more = _take_until(tenant_id, until, actor, failures)
    if failures:
        raise failures[0]
    return more


def _take_until(tenant_id: int, until: float, actor: Actor, failures: list[Exception]) -> bool:
    after = 0
    while True:
        with reading(tenant_id):
            waiting = Finding.objects.filter(taken_at__isnull=True, pk__gt=after).order_by("pk")
            ids = list(waiting.values_list("pk", flat=True)[:AT_A_TIME])
        if not ids:
            return False
        for after in ids:
            try:
                try_to_take(tenant_id, after, actor, clock.now())
            except Exception as failed:  # whatever it is: it is one line's, and raised by the turn
                log.warning("finding %s could not be taken: %r", after, failed)
                failures.append(failed)
            if time.monotonic() >= until:
                return True


def try_to_take(tenant_id: int, finding_id: int, actor: Actor, now: datetime) -> Effect | None:
    """Take one finding; None where its operation is being sent or locked just now, and it is left for the next turn."""
    try:
        with acting(tenant_id, lock_timeout_ms=1000):
            return take(finding_id, actor, now)
    except StillSending:
        return None
    except OperationalError as failed:
        if isinstance(failed.__cause__, LockNotAvailable | DeadlockDetected):
            return None
        raise


def take(finding_id: int, actor: Actor, now: datetime) -> Effect | None:
    """Take one finding into its operation. Inside an action; locks job → operation. None where it is taken already.

    Raises StillSending.
    """
    operation_id = Finding.objects.values_list("operation_id", flat=True).get(pk=finding_id)
    job, operation = lock_job_and_operation(operation_id)
    # Read after the lock of the job, which everybody holds who takes one of its findings.
    finding = Finding.objects.select_related("match").get(pk=finding_id)
    if finding.taken_at is not None:
        return None
    if finding.match is not None and finding.match.unmade_at is not None:
        _close(finding, "unmade", now)
        return None
    line = StatementLine.objects.select_related("statement").get(pk=finding.line_id)
    told = booked.Line(
        _summary(line, finding), as_evidence(line, finding.match, finding.compared), line.receivers_id[:200]
    )
    say = booked.booked_as_approved if finding.says == Says.APPLIED else booked.booked_differently
    effect = say(job=job, operation=operation, line=told, actor=actor, now=now)
    _close(finding, effect.value, now)
    return effect


def as_evidence(line: StatementLine, match: Match | None, compared: str) -> str:
    """What an observation keeps of a line: the file's digest, the line's fingerprint, the rule, and what was compared."""
    value = {
        "file": line.statement.digest,
        "row": line.row_number,
        "fingerprint": bytes(line.fingerprint).hex(),
        "occurrence": line.occurrence,
        "rule": NAMES[Tier(match.tier)] if match is not None else "our key",
        "rule_version": match.rule_version if match is not None else None,
        "compared": json.loads(compared),
    }
    return json.dumps(value, ensure_ascii=False)


def _summary(line: StatementLine, finding: Finding) -> str:
    where = f"row {line.row_number} of {line.statement.label}"
    if finding.says == Says.DIFFERS:
        _, amount, currency, account = json.loads(finding.compared)
        shown = ["amount", *(money(int(a), c) for a, c in zip(amount[1:], currency[1:], strict=True))]
        fields = [shown, account] if shown[1] != shown[2] else [account]
        unequal = [
            f"{name} {theirs} where {ours} was approved" for name, theirs, ours in fields if theirs != ours
        ]
        return f"{where} names its key, and says {', '.join(unequal)}"[:500]
    assert finding.match is not None
    return f"{where}, matched by {NAMES[Tier(finding.match.tier)]}"


def _close(finding: Finding, effect: str, now: datetime) -> None:
    Finding.objects.filter(pk=finding.pk, taken_at__isnull=True).update(taken_at=now, effect=effect)


ERRAND = Errand("take statement lines", FIND, turn)
