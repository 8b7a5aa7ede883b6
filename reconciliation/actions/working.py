"""What every action on a case shares: its transaction, the version check, and keeping what was refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import OperationalError
from django.db.models import QuerySet
from psycopg.errors import LockNotAvailable

from access import authority
from access.models import TenantEntry
from access.refusals import Conflict, NotFound, Refused, Unprocessable
from access.roles import Actor, Role
from access.tenancy import acting
from reconciliation import verbs
from reconciliation.casework import storable, tell
from reconciliation.kinds import VerbName
from reconciliation.locks import lock_asked
from reconciliation.models import Case
from reconciliation.situation import WHO_MAY, Situation
from reconciliation.words import clock
from web.redaction import hide
from workflows.models import Job, JournalEntry

LONGEST = 4000
_SAYING_MOST = (Role.OPERATOR, Role.ADMIN, Role.MANAGER, Role.SUBMITTER, Role.AUDITOR)


class StaleCase(Conflict):
    """The case has moved on since the screen was read; the message says who did what."""


class NotAllowedNow(Conflict):
    """A guard forbids the verb; the message is the screen's sentence."""


class EvidenceMissing(Unprocessable):
    """Nothing is closed without an outcome and what shows it. `field`: of the form, where it is not its text."""

    def __init__(self, sentence: str, *, field: str = "") -> None:
        super().__init__(sentence)
        self.field = field


class SomebodyElseIsWorking(Conflict):
    """The rows are locked by another action for longer than a person should wait. Nothing was done."""


@dataclass(frozen=True, slots=True)
class Worked:
    """What an action did. `request_id`: a second person is asked and nothing else has happened yet."""

    case_id: int
    version: int
    resolution: str
    job_state: str
    sentence: str
    request_id: int | None = None


@contextmanager
def working(tenant_id: int, case_id: int, person_id: int, asked: str) -> Iterator[None]:
    """The one durable transaction of an action on a case. A refusal rolls it back and is then journalled."""
    try:
        with acting(tenant_id):
            yield
    except NotFound:
        raise
    except Refused as refused:
        with acting(tenant_id):
            _keep(case_id, person_id, asked, refused)
        raise
    except OperationalError as failed:
        if not isinstance(failed.__cause__, LockNotAvailable):
            raise
        raise SomebodyElseIsWorking(
            "Somebody else is working on this right now. Nothing was done; try again in a moment."
        ) from failed


def operator(person_id: int) -> Actor:
    """The person as an operator, or NotPermitted."""
    return authority.require(person_id, *WHO_MAY)


def check_version(case: Case, version: int) -> None:
    """StaleCase unless the case is open and as it was on the screen. The caller holds what the case is about."""
    if case.resolved_at is not None or case.version != version:
        raise StaleCase(what_became_of(case))


def allow(name: VerbName, situation: Situation) -> None:
    """NotAllowedNow with the reason, where a guard forbids the verb."""
    reason = verbs.why_not(name, situation)
    if reason:
        raise NotAllowedNow(reason)


def text(value: str, missing: str) -> str:
    """What a person has written, without secrets, or EvidenceMissing."""
    value = hide(storable(value)).strip()
    if not value:
        raise EvidenceMissing(missing)
    if len(value) > LONGEST:
        raise EvidenceMissing(f"Keep it under {LONGEST:,} characters.")
    return value


def worked(case_id: int, job: Job | None, sentence: str, request_id: int | None = None) -> Worked:
    """The result, read from the rows as they are now."""
    case = Case.objects.get(pk=case_id)
    state = job.state if job is not None else ""
    return Worked(case.pk, case.version, case.resolution, state, sentence, request_id)


def what_became_of(case: Case) -> str:
    """Who answered the case and how, or who changed it last, for whoever comes too late."""
    if case.resolved_at is not None:
        who = case.resolved_by.username if case.resolved_by else "the machine"
        second = f" with {case.second_person.username}" if case.second_person else ""
        at = clock(case.resolved_at, case.tenant_id)
        why = f": {case.resolution_reason}" if case.resolution_reason else "."
        return (
            f"{who}{second} resolved {case.label} on {at} as “{case.resolution}”{why} Nothing was done now."
        )
    last = _last_event(case)
    told = f": {last.actor_name} ({last.event.removeprefix('case.').replace('_', ' ')})" if last else ""
    return (
        f"{case.label} has changed since this page was opened{told}. Look at it again; nothing was done now."
    )


def _last_event(case: Case) -> JournalEntry | TenantEntry | None:
    entries: QuerySet[JournalEntry] | QuerySet[TenantEntry] = TenantEntry.objects.all()
    if case.job_id is not None:
        entries = JournalEntry.objects.filter(job_id=case.job_id)
    entries = entries.filter(event__startswith="case.")
    entries = entries.exclude(event__in=("case.refused", "case.commented", "case.evidence_added"))
    recent = entries.order_by("-sequence")[:50]
    return next((e for e in recent if json.loads(e.evidence).get("case") == case.pk), None)


def _keep(case_id: int, person_id: int, asked: str, refused: Refused) -> None:
    job, case = lock_asked(case_id)
    evidence = {"case": case.pk, "asked": asked, "why": type(refused).__name__, "person": person_id}
    tell(job, event="case.refused", actor=authority.noted(person_id, *_SAYING_MOST), evidence=evidence)
