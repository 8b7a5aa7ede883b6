"""Liveness: holds this process's advisory lock, renews its lease, listens for work, and frees what the dead left.

A free lock proves only that a database session ended, not that its process did. A worker counts as dead when its
lease has expired, or when its lock has been free for 300 ms and the server has not restarted since the worker
registered (a restart frees the locks of the living). Who has just lost a connection itself judges nobody for 3 s: what
cut it may have cut the others. Nor does who sees that the database's clock has jumped, since that ends every lease at once:
whoever lives sees it too, and renews. A takeover ends the worker's row and frees its items in one transaction; a worker
that finds its row ended abandons its claims and registers anew.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import psycopg

from workflows import clock, errands
from workflows.engine import sweeps_sql as sql
from workflows.engine.connections import Connection, connect

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

log = logging.getLogger(__name__)
LOCK_CLASS = 0x4346
TAKEOVER_CLASS = 0x4347
TICK_SECONDS = 0.2
FREE_SECONDS = 0.3
SWEEP_SECONDS = 3.0
SWEPT_AT_ONCE = 200
FILES_SECONDS = 600.0
GRACE_SECONDS = 3.0
"""After our own connection was lost others may have lost theirs: so long they have to take their locks again. So long
they have, too, to renew their leases after the database's clock has jumped."""
JUMP_SECONDS = 2.0
"""By so much must the database's clock be off what it was learnt to be, and counted on, to have jumped."""
QUICK_SECONDS = 0.5
"""What was answered later than that is too old to learn the time from."""

_REGISTER = """
INSERT INTO workflows_worker (name, host, pid, slots, started_at, server_started_at, lease_until, ended_why)
VALUES (%s, %s, %s, %s, clock_timestamp(), pg_postmaster_start_time(), clock_timestamp() + %s * interval '1 s', '')
RETURNING id, clock_timestamp()
"""
_RENEW = """
UPDATE workflows_worker SET lease_until = clock_timestamp() + %s * interval '1 s',
  swept_at = coalesce(clock_timestamp() - %s * interval '1 s', swept_at)
WHERE id = %s AND ended_at IS NULL RETURNING clock_timestamp()
"""
_SUSPECTS = """
SELECT clock_timestamp(), w.id, w.lease_until <= clock_timestamp(),
  w.server_started_at = pg_postmaster_start_time() AND NOT EXISTS (
    SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
      AND l.classid = %s::oid AND l.objid = w.id::oid
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
FROM (VALUES (1)) AS always LEFT JOIN workflows_worker w ON w.ended_at IS NULL AND w.id <> %s
"""
"""The time, and the others; where there are none, one row without."""
_END = """
UPDATE workflows_worker SET ended_at = clock_timestamp(), ended_why = %s WHERE id = %s AND ended_at IS NULL
RETURNING name
"""


class Liveness:
    """The thread that keeps the engine known to be alive."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._free_since: dict[int, float] = {}
        self._renewed = 0.0
        self._swept = 0.0
        self._files_swept = 0.0
        self._swept_to: dict[str, int] = {}
        self._judges_from = 0.0
        self._failures = 0
        self.lease_ends = 0.0
        """By the monotonic clock of this process: no handler is started after it."""

    def register(self) -> int:
        """A worker row of our own, its lock held; returns its id."""
        connection = self._connected()
        lease = self._engine.lease_seconds
        before = time.monotonic()
        row = connection.execute(
            _REGISTER, [self._engine.name, socket.gethostname(), os.getpid(), self._engine.slots, lease]
        ).fetchone()
        assert row is not None
        worker_id = int(row[0])
        clock.learnt(row[1])
        connection.execute("SELECT pg_advisory_lock(%s, %s)", [LOCK_CLASS, worker_id])
        connection.execute("LISTEN counterfoil_work")
        self._engine.serving.register(connection, worker_id)
        self._renewed, self.lease_ends = before, before + lease
        return worker_id

    def renew_soon(self) -> None:
        """Look at our lease at the next tick, not only when a third of it has passed."""
        self._renewed = 0.0

    def run(self) -> None:
        """Until the committer has left."""
        while not self._engine.committer_has_left():
            self._engine.pool.leave_overdue_behind()
            try:
                self._tick()
                self._failures = 0
            except Exception as error:
                self._failed(error)
        try:
            if self._engine.signs_off:
                self._leave()
        except psycopg.Error as error:
            log.warning("could not sign off; the lock and the lease will tell: %s", error)
        self._reset()

    def _failed(self, error: Exception) -> None:
        """At once to a new connection the first time: our lock is free meanwhile, and others look at it."""
        if isinstance(error, psycopg.Error):
            log.warning("liveness lost the database: %s", " ".join(str(error).split())[:200])
        else:
            log.error("liveness failed; it goes on", exc_info=error)
        self._reset()
        self._free_since.clear()
        self._judges_from = time.monotonic() + GRACE_SECONDS
        self._failures += 1
        self._engine.pause(0.1 if self._failures > 1 else 0)

    def _tick(self) -> None:
        connection = self._connected()
        for _ in connection.notifies(timeout=self._until_next_look(), stop_after=1):
            self._engine.committer.wake()
            self._engine.outbox.wake()
        now = time.monotonic()
        if now - self._renewed > self._engine.lease_seconds / 3:
            self._renew(connection, now)
        if connection.execute(sql.PROMOTE).rowcount:
            self._engine.committer.wake()
        if connection.execute(sql.SUSPECTS).fetchone() is not None:
            self._engine.committer.suspects_wait()
        if now > self._judges_from:
            self._look_for_the_dead(connection, now)
        self._engine.serving.tick(connection)
        if now - self._swept > SWEEP_SECONDS:
            if not self._swept:
                self.renew_soon()  # so that it is known at once that somebody sweeps
            self._swept = now
            self._sweep(connection)
        if now - self._files_swept > FILES_SECONDS:
            self._files_swept = now
            sweep_files(connection)

    def _until_next_look(self) -> float:
        """A tick; less where a lock is free, so that it is looked at as soon as it has been for long enough."""
        left = [FREE_SECONDS - (time.monotonic() - since) for since in self._free_since.values()]
        return min([TICK_SECONDS, *(seconds for seconds in left if seconds > 0)])

    def _renew(self, connection: Connection, now: float) -> None:
        lease = self._engine.lease_seconds
        swept_ago = now - self._swept if self._swept else None
        asked_at = clock.now()
        row = connection.execute(_RENEW, [lease, swept_ago, self._engine.worker_id]).fetchone()
        if row is None:
            self.start_anew()
            return
        self._has_jumped(asked_at, row[0])
        self._renewed, self.lease_ends = now, now + lease
        self._engine.committer.wake()

    def start_anew(self) -> None:
        """Our row was ended: what we hold belongs to others now. Register again as somebody new."""
        log.warning("worker %s was declared dead while it lived; it starts anew", self._engine.worker_id)
        self._connected().execute("SELECT pg_advisory_unlock_all()")
        self._engine.worker_id = self.register()
        self._engine.committer.abandon()

    def _look_for_the_dead(self, connection: Connection, now: float) -> None:
        asked_at = clock.now()
        found = connection.execute(_SUSPECTS, [LOCK_CLASS, self._engine.worker_id]).fetchall()
        if self._has_jumped(asked_at, found[0][0]):
            self._renew(connection, time.monotonic())
            return
        suspects = [row[1:] for row in found if row[1] is not None]
        free = {worker for worker, _, lock_free in suspects if lock_free}
        self._free_since = {w: self._free_since.get(w, now) for w in free}
        for worker, expired, _ in suspects:
            if expired:
                self._take_over(connection, worker, "lease lost", "its lease ran out")
            elif worker in free and now - self._free_since[worker] >= FREE_SECONDS:
                self._take_over(connection, worker, "worker died", "its process ended")

    def _has_jumped(self, asked_at: datetime, told: datetime) -> bool:
        """Whether the database's clock is not what we counted on when we asked it; nobody is judged for a while then.

        What it told is of some moment between our question and its answer. It is learnt from now on.
        """
        answered_at = clock.now()
        off = max(told - answered_at, timedelta()) or min(told - asked_at, timedelta())
        jumped = abs(off) > timedelta(seconds=JUMP_SECONDS)
        if jumped or answered_at - asked_at < timedelta(seconds=QUICK_SECONDS):
            clock.learnt(told)
        if jumped:
            log.warning("the database's clock has jumped by %+.0f s", off.total_seconds())
            self._judges_from = time.monotonic() + GRACE_SECONDS
        return jumped

    def _take_over(self, connection: Connection, worker: int, outcome: str, why: str) -> None:
        with connection.transaction():
            mutex = connection.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [TAKEOVER_CLASS, worker])
            if mutex.fetchone() != (True,) or not self._is_dead(connection, worker, outcome):
                return
            row = connection.execute(_END, [why, worker]).fetchone()
            if row is None:
                return
            freed = connection.execute(
                sql.TAKE_OVER_ITEMS,
                {
                    "worker": worker,
                    "name": row[0],
                    "outcome": outcome,
                    "message": f"Its worker stopped: {why}.",
                },
            ).rowcount
        log.warning("took over %s items of worker %s: %s", freed, row[0], why)
        if freed:
            self._engine.committer.suspects_wait()  # which is what they are now

    def _is_dead(self, connection: Connection, worker: int, outcome: str) -> bool:
        """Once more, under the row's lock and the database's clock."""
        row = connection.execute(
            "SELECT lease_until <= clock_timestamp() FROM workflows_worker"
            " WHERE id = %s AND ended_at IS NULL FOR UPDATE",
            [worker],
        ).fetchone()
        if row is None:
            return False
        if outcome == "lease lost":
            return bool(row[0])
        lock = connection.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [LOCK_CLASS, worker]).fetchone()
        return lock == (True,)

    def _sweep(self, connection: Connection) -> None:
        """What a crash between a batch's commit and what follows it has left behind; what came and went."""
        self._engine.serving.sweep(connection, self._engine.worker_id)
        for statement in (sql.LEFT_BEHIND, sql.PATIENT):
            for tenant_id, job_id in self._next_of(connection, statement):
                self._engine.advancer.advance(tenant_id, job_id)
        for tenant_id, item_id in connection.execute(sql.UNREPORTED).fetchall():
            self._engine.advancer.report(tenant_id, item_id)
        for statement in (sql.WAITS, sql.MISSED_EVENTS):
            for tenant_id, job_id in self._next_of(connection, statement):
                self._engine.advancer.begin_waits(tenant_id, job_id)
        for errand in errands.registered():
            for tenant_id, errand_id in connection.execute(errand.find).fetchall():
                self._engine.advancer.errand(errand, tenant_id, errand_id)

    def _next_of(self, connection: Connection, statement: str) -> Iterator[tuple[int, int]]:
        """Some (tenant, job) a sweep, each time those after the last: what nothing can be done about yet, such as a
        stage that waits for people, must not keep the sweep from what comes behind it."""
        asked = {"after": self._swept_to.get(statement, 0), "some": SWEPT_AT_ONCE}
        found = connection.execute(statement, asked).fetchall()
        self._swept_to[statement] = found[-1][2] if len(found) == SWEPT_AT_ONCE else 0
        for tenant_id, job_id, _ in found:
            yield tenant_id, job_id

    def _leave(self) -> None:
        """Sign off: whatever we still hold goes back at once."""
        connection = self._connected()
        with connection.transaction():
            if connection.execute(_END, ["stopped", self._engine.worker_id]).fetchone() is not None:
                connection.execute(
                    sql.TAKE_OVER_ITEMS,
                    {
                        "worker": self._engine.worker_id,
                        "name": self._engine.name,
                        "outcome": "released",
                        "message": "Its worker had to stop before it was done.",
                    },
                )
            connection.execute("NOTIFY counterfoil_work")

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect("liveness")
            if self._engine.worker_id:
                self._resume(self._connection)
        return self._connection

    def _resume(self, connection: Connection) -> None:
        """After a lost link: if our row still lives, take the lock again and our tokens stay good."""
        connection.execute("LISTEN counterfoil_work")
        row = connection.execute(
            "SELECT ended_at IS NULL FROM workflows_worker WHERE id = %s", [self._engine.worker_id]
        ).fetchone()
        if row == (True,):
            connection.execute("SELECT pg_advisory_lock(%s, %s)", [LOCK_CLASS, self._engine.worker_id])
            connection.execute(
                "UPDATE workflows_worker SET server_started_at = pg_postmaster_start_time() WHERE id = %s",
                [self._engine.worker_id],
            )
            self._renew(connection, time.monotonic())
        else:
            self.start_anew()

    def _reset(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def sweep_files(connection: Connection) -> int:
    """Delete files that were uploaded more than a day ago and that no job names; how many. A hundred at a time."""
    with connection.transaction():
        old = [row[0] for row in connection.execute(sql.OLD_FILES).fetchall()]
        return connection.execute(sql.DELETE_FILES, [old]).rowcount if old else 0
