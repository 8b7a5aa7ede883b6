"""Our own figures, read from the rows' times by the database's clock."""

from __future__ import annotations

import os
import signal
import statistics

import psycopg

from bench import CHAIN
from bench.installation import Installation, installation, workers

SLOTS = 32
_DONE = (
    "SELECT count(*) FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id WHERE w.state = 4"
)
_SPAN = (
    "SELECT extract(epoch FROM max(w.finished_at) - min(w.started_at)) FROM workflows_workitem w"
    " JOIN workflows_stage s ON s.id = w.stage_id WHERE "
)


def commit_rate(url: str, commits: int = 3000) -> float:
    """Single-row commits a second from one plain psycopg connection: the database's own limit in this run."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE bench_commits (id bigint GENERATED ALWAYS AS IDENTITY, t text)")
        (started,) = connection.execute("SELECT clock_timestamp()").fetchone() or (None,)
        for _ in range(commits):
            connection.execute("INSERT INTO bench_commits (t) VALUES ('x')")
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp() - %s)", [started]).fetchone()
        connection.execute("DROP TABLE bench_commits")
    assert row is not None
    return commits / float(row[0])


def fan_out(items: int, processes: int = 1) -> tuple[float, float]:
    """Items a second of one stage: (running them, with their creation counted)."""
    with installation() as there, workers(there, processes=processes, slots=SLOTS):
        there.submit("bench-fan-out", {"items": items})
        there.until(lambda: there.one(_DONE + " AND s.name = 'small'") == items)
        span = float(there.one(_SPAN + "s.name = 'small'"))
        whole = float(
            there.one(
                "SELECT extract(epoch FROM max(w.finished_at) - min(s.opened_at)) FROM workflows_workitem w"
                " JOIN workflows_stage s ON s.id = w.stage_id WHERE s.name = 'small'"
            )
        )
        return items / span, items / whole


def chains(jobs: int, processes: int = 1) -> float:
    """Steps a second of chains of 50, `jobs` side by side, all submitted before the workers start."""
    with installation() as there:
        there.submit("bench-chain", {}, jobs)
        with workers(there, processes=processes, slots=SLOTS):
            there.until(lambda: there.one(_DONE + " AND s.kind = 'step'") == jobs * CHAIN)
            return jobs * CHAIN / float(there.one(_SPAN + "s.kind = 'step'"))


def first_steps(jobs: int) -> float:
    """Milliseconds from a job's row to the start of its first item, p95, one job at a time."""
    with installation() as there, workers(there, processes=2, slots=8):
        done = _DONE + f" AND s.name = 'link-{CHAIN - 1}'"
        for number in range(1, jobs + 1):
            there.submit("bench-chain", {})
            there.until(lambda until=number: there.one(done) == until)  # type: ignore[misc]
        rows = there.owner.execute(
            "SELECT extract(epoch FROM min(w.started_at) - j.created_at) * 1000 FROM workflows_workitem w"
            " JOIN workflows_job j ON j.id = w.job_id GROUP BY j.id, j.created_at"
        ).fetchall()
        return p95([float(r[0]) for r in rows])


def recoveries(kills: int) -> list[float]:
    """Milliseconds from SIGKILL of a worker process to the start of its item's next attempt, elsewhere."""
    with installation() as there, workers(there, processes=2, slots=4):
        return [_kill_one(there) for _ in range(kills)]


def _kill_one(there: Installation) -> float:
    (job,) = there.submit("bench-paused", {"milliseconds": 20_000})
    running = (
        "SELECT k.pid FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id"
        " JOIN workflows_worker k ON k.id = w.worker_id"
        " WHERE w.job_id = %s AND s.name = 'pause' AND w.state = 2 AND w.attempts = 1 AND k.ended_at IS NULL"
    )
    pid = there.until(lambda: there.one(running, job))
    killed = there.one("SELECT clock_timestamp()")
    os.kill(pid, signal.SIGKILL)
    again = (
        "SELECT extract(epoch FROM w.started_at - %s) * 1000 FROM workflows_workitem w"
        " JOIN workflows_stage s ON s.id = w.stage_id"
        " WHERE w.job_id = %s AND s.name = 'pause' AND w.attempts = 2"
    )
    milliseconds = float(there.until(lambda: there.one(again, killed, job)))
    there.until(lambda: there.one("SELECT count(*) FROM workflows_worker WHERE ended_at IS NULL") == 2)
    return milliseconds


def p95(values: list[float]) -> float:
    """The 95th percentile; of twenty values the nineteenth."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]
