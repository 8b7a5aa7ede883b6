"""The definitions that this installation has met, under their names and revisions; and who can run which.

A job pins a revision and the digest of its definition. What was once deployed under a revision stays what it is: a
process that comes with something else under the same name does not start, unless its code says that it is compatible
with what was there. Several processes may start at once; they write one after the other.
"""

# ruff: noqa: S608 - the statements are made of this file's own constants
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from django.db import connection, transaction

from access.refusals import Conflict
from workflows import registry
from workflows.authoring import Workflow
from workflows.authoring.differences import between
from workflows.models import Job, KnownRevision


class DefinitionChanged(Conflict):
    """A revision is not what it was when it was first deployed here; the message says what changed, and what to do."""


class Cursor(Protocol):
    """Django's or psycopg's: the engine writes over its own connection."""

    def execute(self, query: Any, params: Any = ..., /) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class _Known(NamedTuple):
    id: int
    workflow: str
    revision: str
    digest: str
    described: str
    first_seen: str


_remembered: set[tuple[str, str, str]] = set()
"""What this process has written down or found; looked up at every submission."""


def remember(*only: Workflow) -> None:
    """Write down what is loaded here, or only some of it. Raises DefinitionChanged, and then has written nothing."""
    definitions = only or tuple(registry.workflows().values())
    with transaction.atomic(), connection.cursor() as cursor:
        changed = write_down(cursor, definitions)
        if changed:
            raise DefinitionChanged("\n".join(changed))
    _remembered.update((d.name, d.revision, _digest(d)) for d in definitions)


def require(definition: Workflow) -> None:
    """Before a job pins a definition: it must be known, and not have changed. Raises DefinitionChanged."""
    if (definition.name, definition.revision, _digest(definition)) not in _remembered:
        remember(definition)


def write_down(cursor: Cursor, definitions: Iterable[Workflow]) -> list[str]:
    """Add what is new, in the caller's transaction; the sentences on what has changed instead."""
    cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('counterfoil: known revisions', 0))")
    known = _known(cursor)
    for definition in definitions:
        same = _same(known, definition)
        if not same or _is_compatible(definition, same):
            cursor.execute(
                _INSERT, [definition.name, definition.revision, _digest(definition), definition.described()]
            )
    return list(_changes(known, definitions))


def changed() -> list[str]:
    """The sentences on what has changed under its revision, without writing anything."""
    with connection.cursor() as cursor:
        return list(_changes(_known(cursor), registry.workflows().values()))


def runnable(cursor: Cursor) -> list[int]:
    """The ids of the known definitions whose jobs this process can run."""
    loaded = registry.workflows()
    return sorted(k.id for k in _known(cursor) if registry.runs(loaded[k.workflow, k.revision], k.digest))


def is_written_down(cursor: Cursor) -> bool:
    """Whether everything that is loaded here is known: it is, unless rows were taken away."""
    found = {(k.workflow, k.revision, k.digest) for k in _known(cursor)}
    return all((*key, digest) in found for key, digest in registry.digests().items())


def known_for(job: Job) -> KnownRevision:
    """The definition that a job pinned; written down now if no process has ever loaded it here."""
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [job.workflow, job.revision, job.configuration_digest, ""])
    return KnownRevision.objects.get(
        workflow=job.workflow, revision=job.revision, digest=job.configuration_digest
    )


def has_worker(job: Job) -> bool:
    """Whether a living worker can run the definition that a job pinned."""
    with connection.cursor() as cursor:
        cursor.execute(_PINNED_HAS_A_WORKER, [job.workflow, job.revision, job.configuration_digest])
        return bool(cursor.fetchone()[0])


def without_a_worker(known: KnownRevision) -> float | None:
    """For how many seconds no living worker has been able to run it; None while one can."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {WITHOUT_A_WORKER} FROM workflows_knownrevision k WHERE k.id = %s", [known.pk]
        )
        (seconds,) = cursor.fetchone()
    return None if seconds is None else float(seconds)


def _known(cursor: Cursor) -> list[_Known]:
    keys = list(registry.workflows())
    cursor.execute(_FIND, [[name for name, _ in keys], [revision for _, revision in keys]])
    return [_Known(*row) for row in cursor.fetchall()]


def _same(known: Sequence[_Known], definition: Workflow) -> list[_Known]:
    return [k for k in known if (k.workflow, k.revision) == (definition.name, definition.revision)]


def _is_compatible(definition: Workflow, same: Sequence[_Known]) -> bool:
    return any(registry.runs(definition, k.digest) for k in same)


def _changes(known: Sequence[_Known], definitions: Iterable[Workflow]) -> Iterator[str]:
    for definition in definitions:
        same = _same(known, definition)
        if same and not _is_compatible(definition, same):
            yield _sentence(definition, same[-1])


def _sentence(definition: Workflow, first: _Known) -> str:
    what = "; ".join(between(first.described, definition.described())) or "what it was is not known here"
    return (
        f"{definition.name} revision {definition.revision} is not what it was when it was first deployed here, on"
        f" {first.first_seen}: {what}. Give what you have changed a revision of its own and keep this one beside it"
        f" until its jobs have ended; or put it back; or, if its jobs can go on with it as it is now, say so:"
        f' compatible_with=("{first.digest[:12]}",).'
    )


def _digest(definition: Workflow) -> str:
    return registry.digests()[definition.name, definition.revision]


_FIND = """
SELECT id, workflow, revision, digest, described, to_char(first_seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')
FROM workflows_knownrevision WHERE (workflow, revision) IN (SELECT * FROM unnest(%s::text[], %s::text[])) ORDER BY id
"""

_INSERT = """
INSERT INTO workflows_knownrevision (workflow, revision, digest, described, first_seen_at)
VALUES (%s, %s, %s, %s, clock_timestamp())
ON CONFLICT (workflow, revision, digest) DO UPDATE SET described = excluded.described
WHERE workflows_knownrevision.described = '' AND excluded.described <> ''
"""

HAS_A_WORKER = """EXISTS (SELECT FROM workflows_worker n
  WHERE n.ended_at IS NULL AND n.lease_until > clock_timestamp() AND k.id = ANY(n.revisions))"""

_PINNED_HAS_A_WORKER = f"""
SELECT EXISTS (SELECT FROM workflows_knownrevision k
  WHERE (k.workflow, k.revision, k.digest) = (%s, %s, %s) AND {HAS_A_WORKER})
"""

WITHOUT_A_WORKER = f"""CASE WHEN NOT {HAS_A_WORKER} THEN extract(epoch FROM clock_timestamp() - coalesce(
  (SELECT max(coalesce(n.ended_at, n.lease_until)) FROM workflows_worker n WHERE k.id = ANY(n.revisions)),
  k.first_seen_at)) END"""
