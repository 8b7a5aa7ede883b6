"""The advancer: a few threads that do, through the rooms' own actions, what follows a batch. All of it can be repeated.

What one does is mostly to wait for the database, one statement after another, so a single thread would hold up every
job of the process. The same thing is never done by two of them at once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from django.db import close_old_connections, connection

from access.sessions import trust_quiet_session
from workflows import clock, registry
from workflows.actions import advance, begin_waits, revisions
from workflows.errands import Errand

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

log = logging.getLogger(__name__)
THREADS = 3
"""Each waits for the database about half of its time; a session of the database belongs to each."""
Call = Callable[[], object]


class Advancer:
    """A queue of what is to be done; what is asked for twice while it waits is done once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: queue.SimpleQueue[tuple[str, Call] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._running: set[str] = set()
        self._again: dict[str, Call] = {}
        """What was asked for while it ran: it may have looked already at what has changed since."""

    def advance(self, tenant_id: int, job_id: int) -> None:
        """See whether a job's open stage is done, and open what follows."""
        self._put(f"advance {job_id}", partial(self._advance, tenant_id, job_id))

    def report(self, tenant_id: int, item_id: int) -> None:
        """Journal an item that stopped, so that a case opens."""
        self._put(f"report {item_id}", partial(_report, tenant_id, item_id))

    def begin_waits(self, tenant_id: int, job_id: int) -> None:
        """Journal a job's waits that have begun, and use the events that are there already."""
        self._put(f"begin the waits of {job_id}", partial(self._begin_waits, tenant_id, job_id))

    def missing_revision(self, tenant_id: int, job_id: int, why: str) -> None:
        """Leave a job whose revision is not here to others, or hold it."""
        self._put(f"missing {job_id}", partial(self._missing, tenant_id, job_id, why))

    def revision_returned(self, tenant_id: int, job_id: int) -> None:
        """Let a job go on that was held for a revision which is here."""
        self._put(f"free {job_id}", partial(_returned, tenant_id, job_id))

    def errand(self, errand: Errand, tenant_id: int, errand_id: int) -> None:
        """Do a turn of a room's long work, and another after whatever else waits."""
        self._put(f"{errand.name} {errand_id}", partial(self._errand, errand, tenant_id, errand_id))

    def stop(self) -> None:
        """Do what is queued, then end the threads."""
        for _ in range(THREADS):
            self._queue.put(None)

    def run(self) -> None:
        """One thread, until `stop`. What fails is logged; the sweep brings it again."""
        while (entry := self._queue.get()) is not None:
            name, call = entry
            if not self._begins(name, call):
                continue
            try:
                trust_quiet_session()
                call()
            except Exception:
                log.exception("could not %s; the sweep will try again", name)
            finally:
                close_old_connections()
                self._ended(name)
        connection.close()

    def _put(self, name: str, call: Call) -> None:
        with self._lock:
            known = name in self._waiting
            self._waiting.add(name)
        if not known:
            self._queue.put((name, call))

    def _begins(self, name: str, call: Call) -> bool:
        """Whether this thread shall do it now: while another does, it is left to that one for after."""
        with self._lock:
            self._waiting.discard(name)
            if name in self._running:
                self._again[name] = call
                return False
            self._running.add(name)
            return True

    def _ended(self, name: str) -> None:
        with self._lock:
            self._running.discard(name)
            call = self._again.pop(name, None)
        if call is not None:
            self._put(name, call)

    def _advance(self, tenant_id: int, job_id: int) -> None:
        try:
            advance.advance_job(tenant_id=tenant_id, job_id=job_id, now=clock.now())
        except registry.RevisionMissing as missing:
            self._missing(tenant_id, job_id, str(missing))

    def _begin_waits(self, tenant_id: int, job_id: int) -> None:
        try:
            _begin_waits(tenant_id, job_id)
        except registry.RevisionMissing as missing:
            self._missing(tenant_id, job_id, str(missing))

    def _errand(self, errand: Errand, tenant_id: int, errand_id: int) -> None:
        if not self._engine.stopping and errand.turn(tenant_id, errand_id, self._engine.name):
            self.errand(errand, tenant_id, errand_id)

    def _missing(self, tenant_id: int, job_id: int, why: str) -> None:
        revisions.revision_missing(tenant_id=tenant_id, job_id=job_id, why=why, now=clock.now())
        self._engine.serving.look_soon()


def _report(tenant_id: int, item_id: int) -> None:
    advance.report_stopped(tenant_id=tenant_id, item_id=item_id, now=clock.now())


def _begin_waits(tenant_id: int, job_id: int) -> None:
    while begin_waits.begin_waits(tenant_id=tenant_id, job_id=job_id, now=clock.now()) == begin_waits.BATCH:
        pass


def _returned(tenant_id: int, job_id: int) -> None:
    revisions.revision_returned(tenant_id=tenant_id, job_id=job_id)
