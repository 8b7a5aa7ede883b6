"""Writing and reading a job's journal. `record` is the one door: nothing else changes a job's state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db import connection

from access.roles import Actor
from access.statements import execute
from workflows import chain, hooks, states
from workflows.models import Job, JournalEntry
from workflows.states import JobState


class StaleState(Exception):
    """The job is no longer in the state that the caller saw."""


def transition(*, job: Job, to: JobState, event: str, actor: Actor, evidence: Mapping[str, Any]) -> int:
    """Move a locked job to `to`, journal it and tell the hooks; return the entry's sequence.

    The job must have been read under its lock in this transaction (`locks.lock_job`). Raises TransitionNotAllowed,
    or StaleState where the database knows better.
    """
    states.check(job.state, to, actor.kind)
    return _write(job=job, source=job.state, target=to, event=event, actor=actor, evidence=evidence)


def record(*, job: Job, event: str, actor: Actor, evidence: Mapping[str, Any]) -> int:
    """Journal something that changes no state, and tell the hooks; return the entry's sequence."""
    return _write(job=job, source="", target="", event=event, actor=actor, evidence=evidence)


def _write(
    *, job: Job, source: str, target: str, event: str, actor: Actor, evidence: Mapping[str, Any]
) -> int:
    assert connection.in_atomic_block, "journal rows are written inside an action's transaction"
    text = json.dumps(evidence, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    row = execute(
        "INSERT INTO workflows_journalentry (tenant_id, job_id, sequence, event, from_state, to_state,"
        " actor_kind, actor_id, actor_name, evidence)"
        " SELECT tenant_id, id, version + 1, %s, %s, %s, %s, %s, %s, %s FROM workflows_job"
        " WHERE id = %s AND state = %s RETURNING sequence, at, hash",
        [event, str(source), str(target), actor.kind.value, actor.person_id, actor.name, text, job.pk, str(job.state)],
    ).fetchone()  # fmt: skip
    if row is None:
        raise StaleState(f"{job.label} is no longer {job.state}.")
    sequence, at, head = row
    job.version, job.head = sequence, head
    if target:
        job.state = str(target)
        job.ended_at = at if target in states.ENDED else None
    hooks.run(
        hooks.Happened(
            job=job,
            sequence=sequence,
            event=event,
            from_state=str(source),
            to_state=str(target),
            actor=actor,
            evidence=evidence,
            at=at,
        )
    )
    return int(sequence)


def part_of(bulk: int) -> dict[str, int]:
    """What the evidence of one deed says of the bulk that it is a part of, if it is."""
    return {"bulk": bulk} if bulk else {}


def refusal_of_input(job: Job) -> list[dict[str, str]]:
    """What the workflow's own validation found wrong with the input of a job that failed at it: field and message."""
    if job.state != states.JobState.FAILED:
        return []
    rows = JournalEntry.objects.filter(job=job, event="input.refused").order_by("-sequence")
    text = rows.values_list("evidence", flat=True).first()
    problems: list[dict[str, str]] = [] if text is None else json.loads(text)["problems"]
    return problems


def entry_hash(entry: JournalEntry) -> bytes:
    """The hash of one entry, computed outside of the database; for verification."""
    return chain.hash_of(link_of(entry))


def link_of(entry: JournalEntry) -> chain.Link:
    """One entry as a row of its chain."""
    return chain.Link(
        numbers=(entry.tenant_id, entry.job_id, entry.sequence),
        texts=(entry.event, entry.from_state, entry.to_state),
        actor_kind=entry.actor_kind,
        actor_id=entry.actor_id,
        actor_name=entry.actor_name,
        evidence=entry.evidence,
        at=entry.at,
        previous=bytes(entry.previous),
    )
