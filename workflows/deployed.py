"""Which revisions are deployed, who can run them, and which of them still have jobs that are not done.

Reads as the database's owner, over all organisations: it is for whoever deploys.
"""

# ruff: noqa: S608 - the statements are made of our own constants
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import connection

from access.owner import as_owner
from workflows import registry
from workflows.known import HAS_A_WORKER


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Jobs of one definition that have not ended, by state; how many of them are held for want of it."""

    states: dict[str, int] = field(default_factory=dict)
    held: int = 0
    oldest: str = ""

    @property
    def count(self) -> int:
        """In all states together."""
        return sum(self.states.values())


@dataclass(frozen=True, slots=True)
class Deployed:
    """One definition: where it is, and what it is still needed for."""

    workflow: str
    revision: str
    digest: str
    loaded: bool
    current: bool
    workers: int
    unfinished: Unfinished

    @property
    def is_needed_and_not_here(self) -> bool:
        """Whether jobs that have not ended pin it, and this process has not loaded it."""
        return self.unfinished.count > 0 and not self.loaded


def deployed(only: str = "") -> list[Deployed]:
    """Every definition that was ever met here, is loaded in this process, or is pinned by a job that has not ended."""
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute(_KNOWN)
        found = {(name, revision, digest): workers for name, revision, digest, workers in cursor.fetchall()}
        cursor.execute(_UNFINISHED)
        unfinished = _unfinished(cursor.fetchall())
    here = {(*key, digest) for key, digest in registry.digests().items()}
    keys = sorted({*found, *unfinished, *here}, key=lambda k: (k[0], *_natural(k[1]), k[2]), reverse=False)
    return [
        _deployed(key, found.get(key, 0), unfinished.get(key, Unfinished()))
        for key in keys
        if only in ("", key[0])
    ]


def _deployed(key: tuple[str, str, str], workers: int, unfinished: Unfinished) -> Deployed:
    name, revision, digest = key
    definition = registry.workflows().get((name, revision))
    loaded = definition is not None and registry.runs(definition, digest)
    current = loaded and registry.current(name) is definition
    return Deployed(name, revision, digest, loaded, current, workers, unfinished)


def _unfinished(
    rows: Sequence[tuple[str, str, str, str, int, int, str]],
) -> dict[tuple[str, str, str], Unfinished]:
    found: dict[tuple[str, str, str], Unfinished] = {}
    for name, revision, digest, state, count, held, oldest in rows:
        before = found.get((name, revision, digest), Unfinished())
        found[name, revision, digest] = Unfinished(
            {**before.states, state: count},
            before.held + held,
            min(before.oldest, oldest) if before.oldest else oldest,
        )
    return found


def _natural(revision: str) -> tuple[tuple[int, str], ...]:
    """2 before 10."""
    parts = revision.replace("-", ".").replace("_", ".").split(".")
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


_KNOWN = f"""
SELECT k.workflow, k.revision, k.digest, (SELECT count(*) FROM workflows_worker n
  WHERE n.ended_at IS NULL AND n.lease_until > clock_timestamp() AND k.id = ANY(n.revisions))
FROM workflows_knownrevision k WHERE k.described <> '' OR {HAS_A_WORKER}
"""

_UNFINISHED = """
SELECT workflow, revision, configuration_digest, state, count(*), count(*) FILTER (WHERE held_for = 'revision'),
  to_char(min(created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD')
FROM workflows_job WHERE ended_at IS NULL AND state <> '' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
"""
