"""How claiming fares while somebody's old snapshot keeps every dead row: a dump, a forgotten session, a replica."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psycopg

from bench.installation import Installation, installation
from bench.ours import p95
from workflows.claims import Claim
from workflows.engine.marks import Marks

_DONE = (
    "SELECT count(*) FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id"
    " WHERE w.state = 4 AND s.name = 'small'"
)


@dataclass(frozen=True)
class Churn:
    """A fan-out worked off by one engine."""

    middle: float
    p95: float
    """Milliseconds of the server for a claim, over the second half of them."""
    items_per_second: float
    dead: int
    """Dead versions of items in the table at the end, as the server counts them."""


def churn(items: int, *, held: bool) -> Churn:
    """Work `items` off, with a REPEATABLE READ snapshot from before the first `held` all the time, or without."""
    with installation() as there, _snapshot(there, held):
        there.submit("bench-fan-out", {"items": items})
        with _engine() as times:
            there.until(lambda: there.one("SELECT count(*) FROM workflows_stage WHERE name = 'small'") == 1)
            began = time.monotonic()
            there.until(lambda: there.one(_DONE) >= items, 900)
            took = time.monotonic() - began
        claims = times[len(times) // 2 :]
        dead = there.one("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'workflows_workitem'")
    return Churn(statistics.median(claims) * 1000, p95(claims) * 1000, items / took, int(dead))


@contextlib.contextmanager
def _snapshot(there: Installation, held: bool) -> Iterator[None]:
    if not held:
        yield
        return
    with psycopg.connect(there.url, options="-c idle_in_transaction_session_timeout=0") as holding:
        holding.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holding.execute("SELECT count(*) FROM workflows_workitem")
        yield


@contextlib.contextmanager
def _engine() -> Iterator[list[float]]:
    """An engine in this process; the seconds of its claims."""
    from workflows.engine.engine import Engine

    engine = Engine(slots=32, lease_seconds=30)
    engine.committer.claiming.marks = watched = _Watched()
    engine.start_threads()
    try:
        yield watched.times
    finally:
        engine.request_stop()
        engine.join()


class _Watched(Marks):
    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def claimed(
        self, claims: Iterable[tuple[int, Claim]], *, took: float, from_start: bool, idle: bool
    ) -> None:
        self.times.append(took)
        super().claimed(claims, took=took, from_start=from_start, idle=idle)
