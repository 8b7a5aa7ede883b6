"""Restore mode: these rows were put back from a backup, and what was sent since is not known here.

Dispatch is shut for every organisation first. Then each job that has not ended is kept back: what it may have sent is
quarantined (`quarantining.py`); one that had nothing to send yet, and may since have been proposed, approved and sent
under a key that no row here has, is held for a person, with a case (`job.kept_back`). At last the rows count as the installation again. Until then the
mark refuses every send, so that a crash at any line leaves dispatch shut, and the next start does it all once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Max

from access import tenant_journal
from access.locks import lock_tenant
from access.models import Tenant, TenantEntry
from access.roles import Actor, ActorKind
from access.switches import switches_of
from access.tenancy import acting, reading
from approvals.models import Proposal
from approvals.wording import clock as minute
from dispatch import locks, quarantining
from dispatch.deriving import current
from dispatch.moving import RecordBusy
from workflows import clock, journal
from workflows.actions.hold import hold_locked
from workflows.locks import lock_job
from workflows.models import Job, JournalEntry
from workflows.states import ENDED, JobState

RESTORE = Actor(ActorKind.WORKER, "the restore")
_SENT_NOTHING = (
    JobState.RECEIVED,
    JobState.VALIDATED,
    JobState.PROPOSED,
    JobState.AWAITING_APPROVAL,
    JobState.READY_TO_COMMIT,
)


@dataclass(frozen=True, slots=True)
class KeptBack:
    """How many organisations were shut, how many operations quarantined, how many jobs held."""

    organisations: int
    quarantined: int
    held: int


def enter_restore_mode(why: str) -> KeptBack:
    """Shut dispatch for every organisation and keep back what may have been sent. Journals `dispatch.shut` in each.

    Opens its own transactions: one for each organisation, operation and job. A repeat, and a second process beside it,
    find most of it done. Opened again by `reconciliation.actions.opening.open_dispatch` only.
    """
    tenants = list(Tenant.objects.order_by("pk").values_list("pk", flat=True))
    for tenant_id in tenants:
        _shut(tenant_id, why)
    quarantined = held = 0
    for tenant_id in tenants:
        with reading(tenant_id):
            jobs = list(Job.objects.exclude(state__in=ENDED).order_by("pk").values_list("pk", flat=True))
        for job_id in jobs:
            quarantined += _quarantine(tenant_id, job_id)
            held += _hold(tenant_id, job_id)
    _come_home()
    return KeptBack(len(tenants), quarantined, held)


def take_note() -> None:
    """`enter_restore_mode` for who only needs it done."""
    enter_restore_mode("its rows were put back from a dump")


def _shut(tenant_id: int, why: str) -> None:
    with acting(tenant_id):
        tenant = lock_tenant(tenant_id)
        now = locks.database_clock()
        if tenant.shut_at is None:
            # Of a backup that was itself made in restore mode the earlier end stays: more may have been sent since.
            tenant.known_until, tenant.shut_at = _last_known() or now, now
        # Whatever clock froze them: all that is here came out of the backup.
        frozen = Proposal.objects.aggregate(last=Max("frozen_at"))["last"]
        tenant.restored_at = now if frozen is None else max(now, frozen)
        tenant.save(update_fields=["known_until", "shut_at", "restored_at"])
        assert tenant.known_until is not None
        evidence = {"known_until": tenant.known_until.isoformat(), "why": why}
        tenant_journal.record(event="dispatch.shut", actor=RESTORE, evidence=evidence)


def _last_known() -> datetime | None:
    ends = [model.objects.aggregate(end=Max("at"))["end"] for model in (JournalEntry, TenantEntry)]
    return max((end for end in ends if end is not None), default=None)


def _quarantine(tenant_id: int, job_id: int) -> int:
    """What the job may have sent, operation by operation: each is whole by itself."""
    with reading(tenant_id):
        open_ones = current(job_id).filter(state__in=quarantining.OPEN)
        operations = list(open_ones.order_by("ordinal").values_list("pk", flat=True))
    return sum(_quarantine_one(tenant_id, job_id, operation_id) for operation_id in operations)


def _quarantine_one(tenant_id: int, job_id: int, operation_id: int) -> bool:
    try:
        with acting(tenant_id):
            job = lock_job(job_id)
            proposal = locks.lock_proposal_of(operation_id)
            operation = locks.lock_operation(job, operation_id)
            if not quarantining.is_due(operation, proposal, switches_of(tenant_id).restored):
                return False
            quarantining.quarantine(
                job=job, proposal=proposal, operation=operation, actor=RESTORE, now=clock.now()
            )
            return True
    except RecordBusy:
        return False  # held with its job; looked at again before it is sent


def _hold(tenant_id: int, job_id: int) -> bool:
    """Hold it, unless a person already does, and say so once (`job.kept_back`): whoever releases it has to know."""
    with acting(tenant_id):
        job = lock_job(job_id)
        if job.state not in _SENT_NOTHING:
            return False
        restored = switches_of(tenant_id).restored
        assert restored is not None
        assert restored.shut_at is not None
        was_held = job.held_at is not None
        if was_held and _is_kept_back(job, restored.shut_at):
            return False
        reason = (
            f"Restored from a backup that ends at {minute(restored.known_until, tenant_id)}. It may since have been proposed, "
            "approved and sent under a key that is not known here: ask its receiver before it goes on."
        )
        if not was_held:
            hold_locked(job=job, actor=RESTORE, reason=reason, now=clock.now())
        evidence = {"known_until": restored.known_until.isoformat(), "why": reason}
        journal.record(job=job, event="job.kept_back", actor=RESTORE, evidence=evidence)
        return not was_held


def was_kept_back(job: Job) -> bool:
    """Whether a restore kept the job back, so that nobody here knows what was sent of it between the backup and then."""
    return JournalEntry.objects.filter(job_id=job.pk, event="job.kept_back").exists()


def _is_kept_back(job: Job, since: datetime) -> bool:
    return JournalEntry.objects.filter(job_id=job.pk, event="job.kept_back", at__gte=since).exists()


def _come_home() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE access_installation SET home_table = 'public.access_installation'::regclass::oid::bigint,"
            " home_server = (SELECT system_identifier FROM pg_control_system())"
        )
