"""Who is told outside that a case was opened."""

from __future__ import annotations

from datetime import datetime

from access.roles import Role
from outbox import events
from outbox.writing import Notice, write
from reconciliation.models import Case
from workflows.models import Job

OPENED = "case.opened"


def declare() -> None:
    """Make the event known that endpoints can choose."""
    events.declare(OPENED, "a question needs a person")


def case_opened(job: Job, case: Case, now: datetime) -> None:
    """Everybody of the role that owns a new case is told. In the transaction that opens it, after its journal row."""
    notice = Notice(
        event=OPENED,
        key=f"{OPENED}/{case.pk}",
        title=f"{case.label}, {case.kind}, was opened for {job.label}",
        page="case",
        page_args=(case.pk,),
        subject={"job": job.pk, "case": case.pk},
    )
    write(notice, roles=[Role(case.owner_role)], now=now)
