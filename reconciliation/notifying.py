"""Who is told outside that a case was opened, and that it was answered."""

from __future__ import annotations

from datetime import datetime

from access.roles import Role
from outbox import events
from outbox.writing import Notice, write
from reconciliation.models import Case, Incident
from statements.models import Statement
from workflows.models import Job

OPENED, CLOSED, STORM = "case.opened", "case.closed", "incident.opened"


def declare() -> None:
    """Make the events known that endpoints can choose."""
    events.declare(OPENED, "a question needs a person")
    events.declare(CLOSED, "a question was answered")
    events.declare(
        STORM, "many cases ask about one fault of one receiver, or its key mismatch stops a workflow"
    )


def case_opened(about: Job | Statement, case: Case, now: datetime, *, mailed: bool = True) -> None:
    """Endpoints are told of a new case, and where it is `mailed` everybody of the role that owns it. In the transaction that
    opens it, after its journal row."""
    roles = [Role(case.owner_role)] if mailed else []
    title = f"{case.label}, {case.kind}, was opened for {about.label}"
    write(_about(case, OPENED, f"{OPENED}/{case.pk}", title), roles=roles, now=now)


def case_closed(about: Job | Statement, case: Case, now: datetime) -> None:
    """Endpoints are told that it was answered; how, only its page says. In the transaction that closes it."""
    key = f"{CLOSED}/{case.pk}/{case.version}"  # it may be opened again
    write(_about(case, CLOSED, key, f"{case.label}, {case.kind}, of {about.label} was answered"), now=now)


def _about(case: Case, event: str, key: str, title: str) -> Notice:
    of = {"job": case.job_id, "statement": case.statement_id, "case": case.pk}
    subject = {name: pk for name, pk in of.items() if pk is not None}
    return Notice(event=event, key=key, title=title, page="case", page_args=(case.pk,), subject=subject)


def incident_opened(incident: Incident, cases: int, now: datetime) -> None:
    """Everybody who works on cases is told of a storm, once. In the transaction that journals it."""
    said = "1 case" if cases == 1 else f"{cases} cases"
    notice = Notice(
        event=STORM,
        key=f"{STORM}/{incident.pk}",
        title=f"{incident.label}: {incident.kind} at {incident.receiver.title}, {said} so far",
        page="incident",
        page_args=(incident.pk,),
        subject={"incident": incident.pk},
    )
    write(notice, roles=[Role.OPERATOR], now=now)
