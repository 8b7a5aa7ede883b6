"""The committer: one thread a process that records what finished and claims for the freed slots, in one transaction.

Order inside a batch: hold our lease → lock its jobs by id → record → open single successors → claim with SKIP LOCKED
→ commit, sent in one round trip; then probe barriers, outside. A batch is at most 64 items or a megabyte. A
connection error keeps the batch whole until it is known what was saved, claim numbers telling; a data error splits
it, so that a bad row costs only itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from workflows.engine import rows, sql
from workflows.engine.connections import Connection, connect
from workflows.engine.outcomes import Result
from workflows.engine.slots import Pinned
from workflows.machines import Claim
from workflows.models import StageKind
from workflows.states import ItemState

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

log = logging.getLogger(__name__)
BATCH_ITEMS = 64
BATCH_CHARACTERS = 1_000_000
LANES_WALKED = 32
POLL_SECONDS = 1.0
GATHER_SECONDS = 0.002
_TRY_AGAIN = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)


@dataclass(frozen=True, slots=True)
class Saved:
    """What a batch's transaction did: items whose result was accepted, and jobs whose next step it opened."""

    items: frozenset[int]
    opened_for: frozenset[int]


class Committer:
    """Holds the process's claims. All of it runs in one thread, but for `finish`, `wake` and `abandon`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._finished: deque[Result] = deque()
        self._held: dict[int, Pinned] = {}
        self._cursor = 0
        self._wake = threading.Event()
        self._connection: Connection | None = None
        self._unsure = False
        self._abandoned = False

    # -- from other threads --------------------------------------------------------------------------------------
    def finish(self, result: Result) -> None:
        """A slot is done with a claim."""
        self._finished.append(result)
        self._wake.set()

    def wake(self) -> None:
        """There may be something to claim."""
        self._wake.set()

    def abandon(self) -> None:
        """Our worker row was ended by somebody: nothing that we hold is ours any more."""
        self._abandoned = True
        self._wake.set()

    # -- the thread ----------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Until the engine stops and everything finished is saved, or its time to stop has run out."""
        while (not self._engine.stopping or self._held or self._finished) and not self._engine.must_leave():
            self._wake.wait(0 if self._finished else POLL_SECONDS if not self._engine.stopping else 0.05)
            self._wake.clear()
            self._gather()
            try:
                self._turn()
            except _TRY_AGAIN as error:
                log.info("a batch is tried again: %s", type(error).__name__)
            except psycopg.OperationalError as error:
                self._lost(error)
            except psycopg.Error:
                log.exception("a batch could not be saved; it is kept and tried again")
                self._reset()
                self._engine.pause(0.2)
        if self._held:
            log.warning("%s items were still running when the worker had to leave", len(self._held))
        self._reset()

    def _gather(self) -> None:
        """Where some have finished and more still run, wait a moment: quick handlers then share a commit."""
        until = time.monotonic() + GATHER_SECONDS
        while self._finished and len(self._finished) < min(len(self._held), BATCH_ITEMS):
            left = until - time.monotonic()
            if left <= 0 or not self._wake.wait(left):
                break
            self._wake.clear()

    def _turn(self) -> None:
        connection = self._connected()
        if self._abandoned:
            self._abandoned = False
            self._held.clear()
        if self._unsure:
            self._settle(connection)
        while True:
            batch = self._take_batch()
            free = 0 if self._engine.stopping else self._engine.slots - len(self._held) + len(batch)
            if not batch and free <= 0:
                return
            try:
                claims = self._save(connection, batch, free)
            except psycopg.Error:
                self._finished.extendleft(r for r in reversed(batch) if r.claim.item_id in self._held)
                raise
            self._engine.start(claims)
            if not self._finished and len(claims) < free and self._cursor == 0:
                return

    def _save(self, connection: Connection, batch: Sequence[Result], free: int) -> list[Pinned]:
        try:
            return self._commit(connection, batch, free)
        except psycopg.DataError:
            return self._halve(connection, batch)

    def _halve(self, connection: Connection, batch: Sequence[Result]) -> list[Pinned]:
        """A value that the database refuses: save the halves apart, until the bad row stands alone."""
        if len(batch) == 1:
            log.error("item %s returned what the database refuses", batch[0].claim.item_id)
            return self._commit(connection, [rows.unstorable(batch[0])], 0)
        middle = len(batch) // 2
        return [*self._save(connection, batch[:middle], 0), *self._save(connection, batch[middle:], 0)]

    def _commit(self, connection: Connection, batch: Sequence[Result], free: int) -> list[Pinned]:
        """One transaction in one round trip: the statements depend on each other in the database alone."""
        following = [
            n for r in batch if (n := rows.next_stage(r, self._held.get(r.claim.item_id))) is not None
        ]
        done = opened = taken = None
        self._unsure = True
        with connection.pipeline(), connection.transaction():
            lease = connection.execute(sql.HOLD_LEASE, [self._engine.worker_id])
            if batch:
                jobs = sorted({r.claim.job_id for r in batch})
                connection.execute(sql.LOCK_JOBS if following else sql.LOCK_JOBS_SHARED, [jobs])
                done = connection.execute(sql.COMPLETE, self._complete_parameters(batch))
            if following:
                columns = [list(column) for column in zip(*following, strict=True)]
                opened = connection.execute(sql.OPEN_NEXT, dict(zip(rows.NEXT_COLUMNS, columns, strict=True)))
            if free > 0:
                taken = connection.execute(sql.CLAIM, self._claim_parameters(free))
        self._unsure = False
        saved = Saved(
            items=frozenset(row[0] for row in done.fetchall()) if done else frozenset(),
            opened_for=frozenset(row[0] for row in opened.fetchall()) if opened else frozenset(),
        )
        claims = self._pin(taken.fetchall()) if taken else []
        for result in batch:
            self._held.pop(result.claim.item_id, None)
        self._held.update((p.claim.item_id, p) for p in claims)
        if lease.fetchone() is None:
            self._engine.lease_lost()
        self._after(connection, batch, saved)
        return claims

    def _complete_parameters(self, batch: Sequence[Result]) -> dict[str, Any]:
        return rows.complete_parameters(
            batch, worker_id=self._engine.worker_id, worker_name=self._engine.name
        )

    def _claim_parameters(self, free: int) -> dict[str, int]:
        return {
            "cursor": self._cursor,
            "lanes": LANES_WALKED,
            "free": free,
            "worker": self._engine.worker_id,
        }

    def _pin(self, taken: list[tuple[Any, ...]]) -> list[Pinned]:
        claims = [
            rows.pin(row, worker_id=self._engine.worker_id, worker_name=self._engine.name) for row in taken
        ]
        lanes = {p.claim.lane_id for p in claims}
        self._cursor = max(lanes) if len(lanes) >= LANES_WALKED else 0
        return claims

    # -- after the commit ----------------------------------------------------------------------------------------
    def _after(self, connection: Connection, batch: Sequence[Result], saved: Saved) -> None:
        """Keep outputs at hand, and pass on what needs the rooms above. A crash here is made good by the sweep."""
        self._record_stale(connection, [r for r in batch if r.claim.item_id not in saved.items])
        barriers: dict[int, Claim] = {}
        for result in batch:
            claim = result.claim
            if claim.item_id not in saved.items:
                continue
            if result.error_class == "RevisionMissing":
                self._engine.advancer.missing_revision(claim.tenant_id, claim.job_id, result.error_message)
            elif result.state in (ItemState.EXHAUSTED, ItemState.REFUSED):
                self._engine.advancer.report(claim.tenant_id, claim.item_id)
            elif result.state is ItemState.SUCCEEDED and claim.kind != StageKind.MACHINE:
                if claim.kind != StageKind.EACH and result.output is not None:
                    self._engine.texts.put((claim.job_id, claim.stage_name), result.output)
                barriers[claim.stage_id] = claim
        busy = {p.claim.stage_id for p in self._held.values()}
        probed = {s: c for s, c in barriers.items() if s not in busy and c.job_id not in saved.opened_for}
        if probed:
            jobs = [c.job_id for c in probed.values()]
            for (stage_id,) in connection.execute(sql.CLOSED_BARRIERS, [jobs, list(probed)]).fetchall():
                self._engine.advancer.advance(probed[stage_id].tenant_id, probed[stage_id].job_id)

    def _record_stale(self, connection: Connection, stale: Sequence[Result]) -> None:
        if stale:
            connection.execute(sql.STALE, rows.stale_parameters(stale, worker_name=self._engine.name))
            log.info("%s late results were recorded and discarded", len(stale))

    # -- faults --------------------------------------------------------------------------------------------------
    def _settle(self, connection: Connection) -> None:
        """A commit's answer was lost. Drop results that were saved after all; give back claims we never heard of."""
        claims = [r.claim for r in self._finished]
        found = connection.execute(
            sql.ALREADY_SAVED, [[c.item_id for c in claims], [c.claim_no for c in claims], self._engine.name]
        ).fetchall()
        saved = {(item, claim_no) for item, claim_no in found}
        for item, _ in saved:
            self._held.pop(item, None)
        self._finished = deque(r for r in self._finished if (r.claim.item_id, r.claim.claim_no) not in saved)
        connection.execute(sql.ORPHANS, {"worker": self._engine.worker_id, "held": list(self._held)})
        self._unsure = False

    def _lost(self, error: psycopg.OperationalError) -> None:
        told = " ".join(str(error).split())[:200]
        log.warning("the database went away (%s); %s results are kept", told, len(self._finished))
        self._reset()
        self._engine.pause(0.3)
        self._wake.set()

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect("committer")
        return self._connection

    def _reset(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take_batch(self) -> list[Result]:
        batch: list[Result] = []
        size = 0
        while self._finished and len(batch) < BATCH_ITEMS and size < BATCH_CHARACTERS:
            batch.append(self._finished.popleft())
            size += len(batch[-1].output or "")
        return batch
