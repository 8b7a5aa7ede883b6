"""Keeping refusals: evidence that a rollback cannot take, written in a transaction of its own after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import OperationalError
from psycopg.errors import LockNotAvailable

from access import authority
from access.refusals import Conflict, NotFound, Refused
from access.roles import Role
from access.tenancy import acting
from approvals.locks import lock_job_and_proposal
from approvals.models import Refusal
from workflows import journal

_SAYING_MOST = (Role.MANAGER, Role.ADMIN, Role.OPERATOR, Role.SUBMITTER, Role.AUDITOR)


class SomebodyElseIsDeciding(Conflict):
    """The rows are locked by another action for longer than a person should wait. Nothing was done."""


@contextmanager
def keeps_refusals(
    tenant_id: int,
    proposal_id: int,
    person_id: int,
    asked: str,
    now: datetime,
    *,
    event: str = "decision.refused",
) -> Iterator[None]:
    """Around an action on a proposal: whatever it refuses is kept as a row and in the journal, then raised on.

    Opens its transaction after the action's has ended. A proposal that does not exist leaves nothing to keep it by.
    """
    try:
        try:
            yield
        except NotFound:
            raise
        except Refused as refused:
            with acting(tenant_id):
                _keep(proposal_id, person_id, asked, refused, now, event)
            raise
    except OperationalError as failed:
        if not isinstance(failed.__cause__, LockNotAvailable):
            raise
        raise SomebodyElseIsDeciding(
            "Somebody else is working on this job right now. Nothing was done; try again in a moment."
        ) from failed


def _keep(proposal_id: int, person_id: int, asked: str, refused: Refused, now: datetime, event: str) -> None:
    job, proposal = lock_job_and_proposal(proposal_id)
    Refusal.objects.create(
        tenant_id=proposal.tenant_id,
        proposal=proposal,
        person_id=person_id,
        asked=_storable(asked)[:40],
        why=_storable(f"{type(refused).__name__}: {refused}")[:1000],
        at=now,
    )
    evidence = {
        "proposal": proposal.pk,
        "asked": _storable(asked)[:40],
        "why": type(refused).__name__,
        "person": person_id,
    }
    journal.record(job=job, event=event, actor=authority.noted(person_id, *_SAYING_MOST), evidence=evidence)


def _storable(text: str) -> str:
    return text.replace("\x00", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()
