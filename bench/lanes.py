"""How claiming fares when much is waiting: a million ready items, a busy tenant beside a quiet one, many lanes."""

from __future__ import annotations

import statistics
import time

import psycopg

from bench.installation import Installation, installation, workers
from bench.ours import p95
from workflows.engine import sql

CLAIMS = 60
_STARTED = (
    "SELECT extract(epoch FROM min(w.first_started_at) - j.created_at) * 1000 FROM workflows_workitem w"
    " JOIN workflows_job j ON j.id = w.job_id WHERE j.id = %s AND w.first_started_at IS NOT NULL"
    " GROUP BY j.created_at"
)
_FILL = """
WITH job AS (
  INSERT INTO workflows_job (tenant_id, workflow, revision, configuration_digest, title, reference, submission_key,
    input, input_digest, submitted_by_id, source, created_at, state, version, head, held_by, hold_reason,
    cancel_requested_by, cancel_reason)
  SELECT %(tenant)s, 'bench-fan-out', '1', '', 'Filling', '', 'filling-' || %(lane)s, '{}', '', %(person)s, 'bench',
    now(), '', 0, '', '', '', '', '' RETURNING id),
stage AS (
  INSERT INTO workflows_stage (tenant_id, job_id, name, ordinal, kind, total, opened_at, digest)
  SELECT %(tenant)s, id, 'small', 2, 'each', %(items)s, now(), '' FROM job RETURNING id, job_id)
INSERT INTO workflows_workitem (tenant_id, job_id, stage_id, key, ordinal, lane_id, rank, state, attempts,
  attempts_limit, claim_no)
SELECT %(tenant)s, job_id, stage.id, n::text, n, %(lane)s, n, 0, 0, 5, 0 FROM stage, generate_series(1, %(items)s) n
"""


def claim_milliseconds(ready: int, lanes: int = 1) -> float:
    """The median of claims of 32 items while `ready` wait in `lanes` lanes; each is rolled back."""
    with installation() as there:
        from workflows.engine.connections import plan_by_index

        fill(there, ready, lanes)
        worker = register(there)
        parameters = {"cursor": 0, "lanes": 32, "free": 32, "worker": worker, "apart": []}
        with psycopg.connect(there.url, autocommit=True) as connection:
            plan_by_index(connection)
            claims = [claim(connection, parameters) for _ in range(CLAIMS)]
        assert {taken for taken, _ in claims} == {32}
        return statistics.median(seconds for _, seconds in claims[5:]) * 1000


def delays(busy: int, rounds: int = 20) -> float:
    """p95 of milliseconds from a quiet tenant's submission to the start of its item beside `busy` of another's."""
    with installation() as there:
        quiet = there.another_tenant("quiet")
        there.submit("bench-fan-out", {"items": busy})
        with workers(there, processes=1, slots=32):
            opened = "SELECT count(*) FROM workflows_stage WHERE name = 'small'"
            there.until(lambda: there.one(opened) == 1)
            found = []
            for _ in range(rounds):
                (job,) = quiet.submit("bench-paused", {"milliseconds": 0})
                found.append(float(there.until(lambda job=job: there.one(_STARTED, job))))  # type: ignore[misc]
            left = there.one(
                "SELECT count(*) FROM workflows_workitem WHERE state = 0 AND tenant_id = %s", there.tenant_id
            )
            if left < busy / 100:
                raise RuntimeError(f"the busy tenant was nearly done: {left} left")
            return p95(found)


def fill(there: Installation, ready: int, lanes: int) -> None:
    """Ready items by plain SQL, as if so many fan-outs had been opened; this database's checks are taken away."""
    owner = there.owner
    owner.execute("ALTER TABLE workflows_job DISABLE TRIGGER USER")
    references = (
        "SELECT conname FROM pg_constraint WHERE conrelid = 'workflows_workitem'::regclass AND contype = 'f'"
    )
    for (name,) in owner.execute(references).fetchall():
        owner.execute(f'ALTER TABLE workflows_workitem DROP CONSTRAINT "{name}"')  # type: ignore[call-overload]
    owner.execute(
        "INSERT INTO workflows_lane (tenant_id, name) SELECT %s, 'filling-' || n FROM generate_series(1, %s) n",
        [there.tenant_id, lanes],
    )
    for (lane,) in owner.execute("SELECT id FROM workflows_lane WHERE name LIKE 'filling-%'").fetchall():
        values = {"tenant": there.tenant_id, "person": there.person_id, "lane": lane, "items": ready // lanes}
        owner.execute(_FILL, values)
    owner.execute("VACUUM ANALYZE workflows_workitem")


def register(there: Installation) -> int:
    """A worker's row that lives for an hour, with nobody behind it."""
    return int(
        there.one(
            "INSERT INTO workflows_worker (name, host, pid, slots, started_at, server_started_at, lease_until, ended_why)"
            " VALUES ('bench', 'bench', 1, 32, now(), pg_postmaster_start_time(), now() + interval '1 hour', '')"
            " RETURNING id"
        )
    )


def claim(connection: psycopg.Connection, parameters: dict[str, object]) -> tuple[int, float]:
    """A claim that is rolled back: how many it took, and in how many seconds."""
    with connection.transaction(force_rollback=True):
        started = time.perf_counter()
        taken = connection.execute(sql.CLAIM, parameters).fetchall()
        return sum(row[0] is not None for row in taken), time.perf_counter() - started
