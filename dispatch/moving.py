"""Changing an operation's row, and what is written down with it. The caller holds the locks of its job and of it."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from access.roles import Actor
from access.statements import Update, insert
from dispatch.answers import Answer, Heard
from dispatch.models import Observation, Operation
from dispatch.states import SETTLED, NextStep, OperationState
from dispatch.texts import kept, shown
from workflows import journal
from workflows.models import Job


class OperationMoved(Exception):
    """The operation is no longer in the version that the caller saw; nothing was written."""


class RecordBusy(Exception):
    """Another operation on the same record was first."""


def move(operation: Operation, to: OperationState, now: datetime, **columns: Any) -> None:
    """Set state, step and columns in one conditional update; the database refuses what `states.MOVES` lacks."""
    moves = str(operation.state) != str(to)
    settled = to in SETTLED
    values = {
        **columns,
        "state": to.value,
        "version": operation.version + (1 if moves else 0),
        "settled_at": (operation.settled_at or now) if settled else None,
    }
    changed = _SET(operation.pk, operation.version, **values)
    if changed != 1:
        raise OperationMoved(f"{operation.label} is no longer in version {operation.version}.")
    for name, value in values.items():
        setattr(operation, name, value)


def plan(operation: Operation, step: NextStep, at: datetime | None, **columns: Any) -> None:
    """Say what comes next without moving the state."""
    values = {**columns, "next_step": step.value, "next_step_at": at}
    _SET(operation.pk, operation.version, **values)
    for name, value in values.items():
        setattr(operation, name, value)


def observe(
    *,
    job: Job,
    operation: Operation,
    kind: str,
    finding: str,
    proves: bool,
    summary: str,
    actor: Actor,
    now: datetime,
    detail: str = "",
    receipt_id: str = "",
    digest: str = "",
    heard: Heard | None = None,
) -> Observation:
    """Keep something that was seen, and journal it as a digest (of `detail`, unless one is given): `operation.observed`.

    `heard`: the question and the answer of a look-up. The digest is then the answer's, and the question's stands beside it.

    The words may be others': what cannot be kept, and what is secret, is taken out."""
    asked, answer = ("", Answer()) if heard is None else (heard.digest, heard.answer)
    digest = digest or answer.digest or (hashlib.sha256(detail.encode()).hexdigest() if detail else "")
    row = insert(
        Observation(
            tenant_id=operation.tenant_id,
            operation=operation,
            kind=kind,
            finding=finding,
            proves=proves,
            summary=shown(summary)[:500],
            detail=shown(detail)[:100_000],
            digest=digest,
            question="" if heard is None else heard.question[:100_000],
            question_digest=asked,
            status=answer.status,
            answer_headers=answer.headers,
            answer_body=answer.body,
            receipt_id=kept(receipt_id)[:200],
            seen_by=actor.name,
            seen_at=now,
        )
    )
    journal.record(
        job=job,
        event="operation.observed",
        actor=actor,
        evidence={
            "operation": operation.label,
            "observation": row.pk,
            "kind": kind,
            "finding": finding,
            "proves": proves,
            "digest": digest,
            **({"question_digest": asked} if asked else {}),
        },
    )
    return row


_SET = Update(lambda operation, version: Operation.objects.filter(pk=operation, version=version))
