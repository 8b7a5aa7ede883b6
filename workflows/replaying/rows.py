"""What is folded: a job with its journal, stages, items and attempts, read in one snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from access.owner import as_owner
from access.tenancy import reading
from workflows.models import Attempt, Job, JournalEntry, Stage, StageKind, WorkItem

RENAMING = ("job.migrated", "steps.run_again")
"""Lines that tell of stages which got other names: `aside` and `stages`, the new one with the old."""


class NoSuchJob(Exception):
    """There is no job of this number in any organisation."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the journal, its evidence read."""

    sequence: int
    event: str
    to_state: str
    actor: str
    at: datetime
    evidence: dict[str, Any]
    hash: bytes


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt of an item, without its texts."""

    number: int
    outcome: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Kept:
    """One checkpoint of an item, without its text; `holds`: its digest is that of the text."""

    version: int
    digest: str
    created_at: datetime
    holds: bool


@dataclass(frozen=True, slots=True)
class Item:
    """A work item as it is stored, with what was written about it."""

    id: int
    stage: str
    stages: frozenset[str]
    """The names that its stage has had: a migration may give it another, and so does a step that is run again."""

    since: int
    """The line since which there is its stage under these names; an earlier one tells of another of the same name."""

    key: str
    state: int
    attempts: int
    attempts_limit: int
    tried: tuple[Tried, ...]
    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Everything of one job that a fold looks at. Machine items are the rooms' own and left out."""

    job: Job
    entries: tuple[JournalEntry, ...]
    lines: tuple[Line, ...]
    stages: tuple[Stage, ...]
    items: tuple[Item, ...]


def tenant_of(job_id: int) -> int:
    """The organisation of a job; read as the owner, since a command on the host is told a number only."""
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute("SELECT tenant_id FROM workflows_job WHERE id = %s", [job_id])
        row = cursor.fetchone()
    if row is None:
        raise NoSuchJob(f"There is no job {job_id}.")
    return int(row[0])


@contextmanager
def snapshot(tenant_id: int) -> Iterator[None]:
    """A read-only transaction of one snapshot, so that work that goes on meanwhile is no difference."""
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with reading(tenant_id):
            yield


def rows_of(job_id: int) -> Rows:
    """Within the snapshot of its tenant."""
    entries = tuple(JournalEntry.objects.filter(job_id=job_id).order_by("sequence"))
    stages = Stage.objects.filter(job_id=job_id).exclude(kind=StageKind.MACHINE)
    lines = tuple(_line(e) for e in entries)
    return Rows(
        job=Job.objects.get(pk=job_id),
        entries=entries,
        lines=lines,
        stages=tuple(stages.order_by("ordinal", "pk")),
        items=tuple(_items(job_id, lines)),
    )


def names_of(stage: str, lines: Sequence[Line]) -> tuple[frozenset[str], int]:
    """The names that a stage has had, and the line since which it is there: what gave it others, undone from the last
    to the first."""
    names = {stage}
    for line in reversed(lines):
        if line.event not in RENAMING:
            continue
        aside, kept = line.evidence.get("aside", {}), line.evidence.get("stages", {})
        before = {**aside, **kept}
        if stage in before:
            stage = before[stage]
            names.add(stage)
        elif stage in aside.values():
            return frozenset(names), line.sequence
    return frozenset(names), 0


def named_at(stage: str, lines: Sequence[Line], at: datetime) -> str | None:
    """What a stage was called at a moment; None where it was not there yet, or only just being made."""
    later = [line for line in lines if line.at > at]
    names, since = names_of(stage, later)
    if since:
        return None
    for line in reversed(later):
        if line.event in RENAMING:
            stage = {**line.evidence.get("aside", {}), **line.evidence.get("stages", {})}.get(stage, stage)
    assert stage in names
    return stage


def _line(entry: JournalEntry) -> Line:
    return Line(
        entry.sequence,
        entry.event,
        entry.to_state,
        entry.actor_name,
        entry.at,
        json.loads(entry.evidence),
        bytes(entry.hash),
    )


def _items(job_id: int, lines: Sequence[Line]) -> Iterator[Item]:
    names: dict[str, tuple[frozenset[str], int]] = {}
    tried: dict[int, list[Tried]] = {}
    for item, number, outcome, began, ended in (
        Attempt.objects.filter(item__job_id=job_id)
        .exclude(item__stage__kind=StageKind.MACHINE)
        .order_by("item_id", "started_at", "pk")
        .values_list("item_id", "number", "outcome", "started_at", "ended_at")
        .iterator(2000)
    ):
        tried.setdefault(item, []).append(Tried(number, outcome, began, ended))
    kept: dict[int, list[Kept]] = {}
    for item, version, digest, created_at, holds in _checkpoints(job_id):
        kept.setdefault(item, []).append(Kept(version, digest, created_at, holds))
    items = WorkItem.objects.filter(job_id=job_id).exclude(stage__kind=StageKind.MACHINE)
    for pk, stage, key, state, attempts, limit in (
        items.order_by("stage__ordinal", "ordinal", "pk")
        .values_list("pk", "stage__name", "key", "state", "attempts", "attempts_limit")
        .iterator(2000)
    ):
        if stage not in names:
            names[stage] = names_of(stage, lines)
        had = (tuple(tried.get(pk, ())), tuple(kept.get(pk, ())))
        yield Item(pk, stage, *names[stage], key, state, attempts, limit, *had)


def _checkpoints(job_id: int) -> list[tuple[int, int, str, datetime, bool]]:
    """The texts stay in the database: it compares them with their digests."""
    with connection.cursor() as cursor:
        cursor.execute(_CHECKPOINTS, [job_id])
        return list(cursor.fetchall())


_CHECKPOINTS = """
SELECT c.item_id, c.version, c.digest, c.created_at, encode(sha256(convert_to(c.output, 'UTF8')), 'hex') = c.digest
FROM workflows_checkpoint c JOIN workflows_workitem w ON w.id = c.item_id JOIN workflows_stage s ON s.id = w.stage_id
WHERE w.job_id = %s AND s.kind <> 'machine' ORDER BY c.item_id, c.version
"""
