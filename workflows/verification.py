"""Recomputing the journals' chains outside of what wrote them: every hash in Python, from the rows as they are stored.

Reads as the database's owner, whom row level security does not bind, in one statement a journal: one snapshot, so
that work that goes on meanwhile is no fault. Rows are streamed; nothing is kept but the row before.
"""

# ruff: noqa: S608 - the statements are made of this file's own names
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, transaction

from access.owner import as_owner
from workflows import chain
from workflows.states import ALLOWED

STREAMED = 2000


@dataclass(frozen=True, slots=True)
class BadRow:
    """The first thing that does not fit, and where."""

    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why}"


@dataclass(frozen=True, slots=True)
class Verified:
    """How much was looked at, and the first bad row, if any."""

    chains: int
    rows: int
    bad: BadRow | None = None


class _Row(NamedTuple):
    """One row of a chain beside its head; `sequence` is None for a chain that has a head but no rows."""

    tenant_id: int
    chain: int
    version: int
    head: bytes
    state: str
    sequence: int | None
    event: str
    from_state: str
    to_state: str
    actor_kind: str
    actor_id: int
    actor_name: str
    evidence: str
    at: datetime
    previous: bytes
    hash: bytes


def verify_jobs(*, job_id: int | None = None) -> Verified:
    """Every job's chain, or one job's: hashes, sequence, allowed transitions, and the job's version, head and state."""
    one = "" if job_id is None else " WHERE j.id = %s"
    return _verify(
        "SELECT coalesce(e.tenant_id, j.tenant_id), j.id, j.version, j.head, j.state, e.sequence, e.event, e.from_state,"
        " e.to_state, e.actor_kind, e.actor_id, e.actor_name, e.evidence, e.at, e.previous, e.hash"
        f" FROM workflows_job j LEFT JOIN workflows_journalentry e ON e.job_id = j.id{one} ORDER BY j.id, e.sequence",
        [] if job_id is None else [job_id],
        orphans="SELECT e.job_id FROM workflows_journalentry e"
        " WHERE NOT EXISTS (SELECT FROM workflows_job j WHERE j.id = e.job_id) LIMIT 1",
        name="JOB-{}",
        of_job=True,
    )


def verify_tenants() -> Verified:
    """Every tenant's own journal."""
    return _verify(
        "SELECT h.tenant_id, h.tenant_id, h.version, h.head, '', e.sequence, e.event, '', '', e.actor_kind, e.actor_id,"
        " e.actor_name, e.evidence, e.at, e.previous, e.hash"
        " FROM access_tenanthead h LEFT JOIN access_tenantentry e ON e.tenant_id = h.tenant_id"
        " ORDER BY h.tenant_id, e.sequence",
        [],
        orphans="SELECT e.tenant_id FROM access_tenantentry e"
        " WHERE NOT EXISTS (SELECT FROM access_tenanthead h WHERE h.tenant_id = e.tenant_id) LIMIT 1",
        name="organisation {}",
        of_job=False,
    )


def _verify(query: str, parameters: list[Any], *, orphans: str, name: str, of_job: bool) -> Verified:
    chains = rows = 0
    last: _Row | None = None
    state = ""
    with as_owner(connection):
        for row in _stream(query, parameters):
            if last is None or row.chain != last.chain:
                if last is not None and (why := _end(last, state)):
                    return Verified(chains, rows, BadRow(_place(name, last), why))
                chains, last, state = chains + 1, None, ""
            rows += row.sequence is not None
            if why := _fault(row, last, of_job) or _wrong_step(row, state, of_job):
                return Verified(chains, rows, BadRow(_place(name, row), why))
            last, state = row, row.to_state or state
        if last is not None and (why := _end(last, state)):
            return Verified(chains, rows, BadRow(_place(name, last), why))
        with connection.cursor() as cursor:
            cursor.execute(orphans)
            if (orphan := cursor.fetchone()) is not None:
                bad = BadRow(name.format(orphan[0]), "it has rows, and does not exist")
                return Verified(chains, rows, bad)
    return Verified(chains, rows)


def _stream(query: str, parameters: list[Any]) -> Iterator[_Row]:
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute(query, parameters)
        while chunk := cursor.fetchmany(STREAMED):
            for row in chunk:
                yield _Row._make(row)


def _fault(row: _Row, before: _Row | None, of_job: bool) -> str:
    """What is wrong with one row, given the one before it in its chain."""
    if row.sequence is None:
        return "" if row.version == 0 else f"its head is at version {row.version}, and it has no rows"
    expected = 1 if before is None else (before.sequence or 0) + 1
    if row.sequence != expected:
        return f"row {expected} is missing"
    if bytes(row.previous) != (b"" if before is None else bytes(before.hash)):
        return "it does not follow the row before it: its link is another hash"
    if _hash(row, of_job) != bytes(row.hash):
        return "its content is not what was hashed when it was written"
    return ""


def _wrong_step(row: _Row, state: str, of_job: bool) -> str:
    """What is wrong with where a row moves its job, given the state that the rows before it left it in."""
    if not of_job or row.sequence is None:
        return ""
    if not row.to_state:
        return "" if state else "its chain begins without a state"
    if row.from_state != state:
        return f"it moves the job from {row.from_state or 'nothing'}, and the job was {state or 'nothing'}"
    if (row.from_state, row.to_state, row.actor_kind) not in ALLOWED:
        return f"a {row.actor_kind} may not move a job from {row.from_state or 'nothing'} to {row.to_state}"
    return ""


def _end(last: _Row, state: str) -> str:
    """What is wrong between a chain's last row and what is kept of the chain beside it."""
    if last.sequence is None:
        return ""
    if last.sequence != last.version:
        return f"it is the last row, and the head is at version {last.version}"
    if bytes(last.hash) != bytes(last.head):
        return "it is the last row, and the head is another hash"
    if state != last.state:
        return f"it ends in {state}, and the job is {last.state}"
    return ""


def _hash(row: _Row, of_job: bool) -> bytes:
    return chain.hash_of(
        chain.Link(
            numbers=(row.tenant_id, row.chain, row.sequence or 0)
            if of_job
            else (row.tenant_id, row.sequence or 0),
            texts=(row.event, row.from_state, row.to_state) if of_job else (row.event,),
            actor_kind=row.actor_kind,
            actor_id=row.actor_id,
            actor_name=row.actor_name,
            evidence=row.evidence,
            at=row.at,
            previous=bytes(row.previous),
        )
    )


def _place(name: str, row: _Row) -> str:
    chain = name.format(row.chain)
    return chain if row.sequence is None else f"{chain}, row {row.sequence} ({row.event})"
