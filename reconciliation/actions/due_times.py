"""An organisation says when cases of a kind are due. A row for each word: nothing is changed in place."""

from __future__ import annotations

from datetime import datetime, timedelta

from access import authority, tenant_journal
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from dispatch.locks import NoSuchReceiver
from dispatch.models import Receiver
from reconciliation.due_times import LEAST, MOST, last_written
from reconciliation.models import CaseKind, DueTime
from workflows.locks import lock_name


class BadDueTime(Unprocessable):
    """The kind or the time will not do; the message says why."""


class DueTimeWrittenMeanwhile(Conflict):
    """Somebody wrote one since the page was read."""


def write_due_time(
    *,
    tenant_id: int,
    person_id: int,
    kind: str,
    receiver_id: int | None,
    after: timedelta | None,
    seen: int,
    now: datetime,
) -> int:
    """Say how long after its opening a case of a kind is due, at one receiver or at all; None: as the kind itself says.

    Holds for cases that open from now on: open ones keep what they were given. `seen` is `last_written()` as the page
    had it. Admins only. Journals due.written. Raises NotPermitted, BadDueTime, NoSuchReceiver,
    DueTimeWrittenMeanwhile.
    """
    if kind not in CaseKind.values:
        raise BadDueTime(f"There is no kind of case “{kind}”.")
    if after is not None and not LEAST <= after <= MOST:
        raise BadDueTime("A case is due after 5 minutes at least, and 90 days at most.")
    with acting(tenant_id):
        lock_name("due times", tenant_id, "")
        actor = authority.require(person_id, Role.ADMIN)
        receiver = _receiver(receiver_id)
        if last_written() != seen:
            raise DueTimeWrittenMeanwhile(
                "Somebody wrote a due time since this page was opened. Look at it again."
            )
        minutes = None if after is None else int(after.total_seconds() // 60)
        row = DueTime.objects.create(
            tenant_id=tenant_id,
            kind=kind,
            receiver=receiver,
            minutes=minutes,
            written_by_id=person_id,
            written_at=now,
        )
        evidence = {"kind": kind, "receiver": receiver.name if receiver else "", "minutes": minutes}
        tenant_journal.record(event="due.written", actor=actor, evidence=evidence)
        return row.pk


def _receiver(receiver_id: int | None) -> Receiver | None:
    if receiver_id is None:
        return None
    receiver = Receiver.objects.filter(pk=receiver_id).first()
    if receiver is None:
        raise NoSuchReceiver(f"There is no receiver {receiver_id} here.")
    return receiver
