"""Looking at a tenant's open proposals again when other people may be able to complete them.

Triggers write a `LookAgain` row in the transaction of every change: of roles, groups, accounts, delegations, absences
(also for the moment at which one begins or ends), policies, and what is reserved of their sums. An engine finds the
rows that are due and walks the tenant's open proposals in turns, a transaction each where something has changed. A walk
that was killed goes on after the last proposal; what it does twice changes nothing.

A proposal that is being asked or signed while the world changes is not visible to the walk, and its transaction may
have read the world before. So a walk notes first which transactions run (`horizon`) and begins when they have ended:
whatever begins later reads the change by itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import OperationalError, connection
from psycopg.errors import DeadlockDetected, LockNotAvailable

from access.tenancy import acting, reading
from approvals.facts import facts_for
from approvals.locks import NoSuchProposal, database_clock, lock_job_and_proposal, lock_look
from approvals.missing import look_at_midnight, note_approvers
from approvals.models import LookAgain, Proposal
from workflows.errands import Errand

TURN_SECONDS = 0.25
HELD_SECONDS = 10
AT_A_TIME = 50

FIND = """
SELECT tenant_id, id FROM (
  SELECT DISTINCT ON (tenant_id, policy) tenant_id, id, at FROM approvals_lookagain
  WHERE at <= clock_timestamp() AND (worked_until IS NULL OR worked_until < clock_timestamp())
  ORDER BY tenant_id, policy, horizon NULLS LAST, at, id) due
ORDER BY at LIMIT 20
"""
# What was waiting with it for the same is covered by one walk, as long as that walk has not begun.
_MERGE = """
DELETE FROM approvals_lookagain WHERE id IN (
  SELECT id FROM approvals_lookagain WHERE tenant_id = %(tenant)s AND id <> %(id)s AND horizon IS NULL
    AND at <= statement_timestamp() AND (%(policy)s = '' OR policy = %(policy)s)
  ORDER BY id FOR UPDATE SKIP LOCKED)
"""
_BEGUN = """
SELECT EXISTS (SELECT FROM approvals_lookagain WHERE tenant_id = %(tenant)s AND id <> %(id)s
  AND horizon IS NOT NULL AND policy = %(policy)s)
"""
# The statement's own time, which is before its snapshot: the horizon is of after the moment.
_TAKE = """
UPDATE approvals_lookagain SET worked_by = %(worker)s, worked_until = clock_timestamp() + %(held)s * interval '1 s',
  horizon = coalesce(horizon, pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
WHERE id = %(id)s AND at <= statement_timestamp()
  AND (worked_by = %(worker)s OR worked_until IS NULL OR worked_until < clock_timestamp())
RETURNING horizon, after
"""
# A horizon from another server's count, as after a restore, is no reason to wait.
_SETTLED = """
SELECT %(horizon)s <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint
  OR %(horizon)s > pg_snapshot_xmax(pg_current_snapshot())::text::bigint
"""


@dataclass(frozen=True, slots=True)
class _Walk:
    """One walk as this worker has it."""

    id: int
    tenant_id: int
    policy: str
    worker: str
    after: int


def turn(tenant_id: int, look_id: int, worker: str) -> bool:
    """Walk on for a quarter of a second; whether there is more to do at once. Nothing where another worker is at it."""
    until = time.monotonic() + TURN_SECONDS
    walk = _take(tenant_id, look_id, worker)
    while walk is not None:
        proposals = _next(walk)
        if not proposals:
            return _finish(walk)
        last, missed = _look(walk, proposals, until)
        walk = _keep(walk, last, missed=missed)
        if time.monotonic() >= until:
            return walk is not None
    return False


def _take(tenant_id: int, look_id: int, worker: str) -> _Walk | None:
    """Hold a walk for ten seconds; None where it is over, held by another, or transactions from before still run."""
    with acting(tenant_id), connection.cursor() as cursor:
        look = lock_look(look_id)
        if look is None:
            return None
        named: dict[str, int | str] = {
            "tenant": tenant_id,
            "id": look_id,
            "policy": look.policy,
            "worker": worker,
        }
        if look.horizon is None:
            cursor.execute(_BEGUN, named)
            if cursor.fetchone()[0]:
                return None
            cursor.execute(_MERGE, named)
        cursor.execute(_TAKE, {**named, "held": HELD_SECONDS})
        taken = cursor.fetchone()
    if taken is None:
        return None
    with reading(tenant_id), connection.cursor() as cursor:
        cursor.execute(_SETTLED, {"horizon": taken[0]})
        (settled,) = cursor.fetchone()
    walk = _Walk(look_id, tenant_id, look.policy, worker, taken[1])
    if not settled:
        _let_go(walk)
        return None
    return walk


def _let_go(walk: _Walk) -> None:
    with acting(walk.tenant_id):
        LookAgain.objects.filter(pk=walk.id, worked_by=walk.worker).update(worked_until=None)


def _next(walk: _Walk) -> Sequence[Proposal]:
    with reading(walk.tenant_id):
        waiting = Proposal.objects.filter(closed_at__isnull=True, approved_at__isnull=True, pk__gt=walk.after)
        if walk.policy:
            waiting = waiting.filter(policy__name=walk.policy)
        named = waiting.select_related("policy", "job", "initiator").defer("document", "job__input")
        return list(named.order_by("pk")[:AT_A_TIME])


def _look(walk: _Walk, proposals: Sequence[Proposal], until: float) -> tuple[int, bool]:
    """Note what has changed of a batch; up to which proposal, and whether one was locked by somebody else."""
    last, missed = proposals[-1].pk, False
    for changed in _changed(walk, proposals):
        missed = not _note(walk.tenant_id, changed) or missed
        if time.monotonic() >= until and changed < last:
            return changed, missed
    return last, missed


def _changed(walk: _Walk, proposals: Sequence[Proposal]) -> list[int]:
    """Which of them differ from what is kept, looked at without a lock."""
    found: list[int] = []
    by_sums: set[str] = set()
    with reading(walk.tenant_id):
        for proposal, facts in zip(proposals, facts_for(proposals).values(), strict=True):
            if facts.blocked != (proposal.blocked_at is not None):
                found.append(proposal.pk)
            elif facts.blocked_by_sums:
                by_sums.add(proposal.policy.name)
    if by_sums:
        with acting(walk.tenant_id):
            for policy in sorted(by_sums):
                look_at_midnight(policy, database_clock())
    return found


def _note(tenant_id: int, proposal_id: int) -> bool:
    """Look at one under its locks; False where those cannot be had now."""
    try:
        with acting(tenant_id, lock_timeout_ms=1000):
            job, proposal = lock_job_and_proposal(proposal_id)
            note_approvers(job, proposal)
    except NoSuchProposal:
        return True
    except OperationalError as failed:
        if isinstance(failed.__cause__, LockNotAvailable | DeadlockDetected):
            return False
        raise
    return True


def _keep(walk: _Walk, last: int, *, missed: bool) -> _Walk | None:
    """Write down how far the walk is; None where somebody else has it by now."""
    with acting(walk.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE approvals_lookagain SET after = greatest(after, %s), missed = missed OR %s,"
            " worked_until = clock_timestamp() + %s * interval '1 s' WHERE id = %s AND worked_by = %s",
            [last, missed, HELD_SECONDS, walk.id, walk.worker],
        )
        mine = cursor.rowcount == 1
    return _Walk(walk.id, walk.tenant_id, walk.policy, walk.worker, last) if mine else None


def _finish(walk: _Walk) -> bool:
    """End a walk, or have it begin once more where a proposal was locked. Always False: nothing more to do at once."""
    with acting(walk.tenant_id):
        mine = LookAgain.objects.filter(pk=walk.id, worked_by=walk.worker)
        again = mine.filter(missed=True).update(
            at=database_clock(), horizon=None, after=0, missed=False, worked_until=None
        )
        if not again:
            mine.delete()
    return False


ERRAND = Errand("looking", FIND, turn)
