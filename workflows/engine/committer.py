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
from typing import TYPE_CHECKING, Any

import psycopg

from access.outages import is_outage
from workflows.engine import asking, limits_sql, rows, sql, sweeps_sql
from workflows.engine.aftermath import Aftermath, Saved
from workflows.engine.claiming import Asked, Claiming
from workflows.engine.connections import CONTENTION, Connection, connect, plan_by_index
from workflows.engine.outcomes import Result
from workflows.engine.slots import Pinned

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

log = logging.getLogger(__name__)
BATCH_ITEMS = 64
BATCH_CHARACTERS = 1_000_000
POLL_SECONDS = 1.0
SETTLE_SECONDS = 30.0
GATHER_SECONDS = 0.002
GATHER_SHARE = 0.15
MOST_GATHERING = 0.025
"""A result waits for others: 2 ms, or this share of the time that it took itself, up to so many seconds. A send takes long
beside a commit, and few end in the same 2 ms: each had a batch of its own."""


class LeaseInDoubt(Exception):
    """Our lease does not live by the database's clock: nothing of the batch was recorded, and nothing is lost."""


class Committer:
    """Holds the process's claims. All of it runs in one thread, but for `finish`, `wake` and `abandon`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._finished: deque[Result] = deque()
        self._held: dict[tuple[int, int], Pinned] = {}
        self._recorded: set[tuple[int, int]] = set()
        """What of the batch at hand is committed: half of one may be."""
        self.claiming = Claiming(engine)
        self.aftermath = Aftermath(engine)
        self._wake = threading.Event()
        self._connection: Connection | None = None
        self._unsure = False
        self._settled = time.monotonic()
        self._abandoned = False
        self.broken_since: float | None = None
        """Since when every turn has failed for another reason than the database's."""

    # -- from other threads --------------------------------------------------------------------------------------
    def finish(self, result: Result) -> None:
        """A slot is done with a claim."""
        self._finished.append(result)
        self._wake.set()

    def wake(self) -> None:
        """There may be something to claim."""
        self._wake.set()

    def suspects_wait(self) -> None:
        """There are items whose worker stopped before."""
        self.claiming.suspects_wait()
        self._wake.set()

    def abandon(self) -> None:
        """Our worker row was ended by somebody: nothing that we hold is ours any more."""
        self._abandoned = True
        self._wake.set()

    # -- the thread ----------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Until the engine stops and everything finished is saved, or its time to stop has run out."""
        while (not self._engine.stopping or self._held or self._finished) and not self._engine.must_leave():
            self._wake.wait(self._patience())
            self._wake.clear()
            try:
                self._turn()
                self.broken_since = None
            except CONTENTION as error:
                log.info("a batch is tried again: %s", type(error).__name__)
            except LeaseInDoubt:
                self._engine.lease_lost()
            except Exception as error:
                self._failed(error)
        if self._held:
            log.warning("%s items were still running when the worker had to leave", len(self._held))
        self._reset()

    def _patience(self) -> float:
        """Seconds until there may be something to do although nobody wakes us."""
        if self._finished:
            return 0
        if self._engine.stopping:
            return 0.05
        reopens = self.claiming.limiter.reopens_in() if len(self._held) < self._engine.slots else None
        return POLL_SECONDS if reopens is None else min(POLL_SECONDS, reopens)

    def _gather(self) -> None:
        """Where some have finished and more still run, wait a moment: they then share a commit."""
        if not self._finished:
            return
        first = self._finished[0]
        until = time.monotonic() + worth_waiting((first.ended_at - first.started_at).total_seconds())
        while self._finished and len(self._finished) < min(len(self._held), BATCH_ITEMS):
            left = until - time.monotonic()
            if left <= 0 or not self._wake.wait(left):
                break
            self._wake.clear()

    def _turn(self) -> None:
        connection = self._connected()
        if self._abandoned:
            self._abandoned, ours = False, self._engine.worker_id
            self._held = {t: p for t, p in self._held.items() if p.claim.worker_id == ours}
        if not self._engine.holds_lease():
            # Not saved, not given up: liveness renews it, or finds that somebody has ended us.
            self._engine.pause(0.05)
            return
        if self._unsure or time.monotonic() - self._settled > SETTLE_SECONDS:
            self._settle(connection)
        if not self._finished:
            self.aftermath.record_late(connection)
        while True:
            self._gather()
            batch = self._take_batch()
            self._recorded.clear()
            free = 0 if self._engine.stopping else self._engine.slots - len(self._held) + len(batch)
            if not batch and free <= 0:
                return
            try:
                claimed = self._save(connection, batch, free)
            except Exception:
                self._finished.extendleft(r for r in reversed(batch) if r.claim.token not in self._recorded)
                raise
            if not self._finished and claimed < free and self.claiming.has_walked_all:
                return

    def _save(self, connection: Connection, batch: Sequence[Result], free: int) -> int:
        try:
            return self._commit(connection, batch, free)
        except (psycopg.Error, ValueError) as error:  # ValueError: text that is no UTF-8 does not get as far
            if not batch or is_outage(error) or isinstance(error, CONTENTION):
                raise
            return self._halve(connection, batch)

    def _halve(self, connection: Connection, batch: Sequence[Result]) -> int:
        """A value that the database refuses: save the halves apart, until the bad row stands alone."""
        if len(batch) == 1:
            log.error("item %s returned what the database refuses", batch[0].claim.item_id)
            return self._commit(connection, [rows.unstorable(batch[0])], 0)
        middle = len(batch) // 2
        return self._save(connection, batch[:middle], 0) + self._save(connection, batch[middle:], 0)

    def _commit(self, connection: Connection, batch: Sequence[Result], free: int) -> int:
        """One transaction in one round trip: the statements depend on each other in the database alone.

        Claims are started as soon as they are known: what follows may fail. Returns how many there were.
        """
        following = [
            n
            for r in batch
            if (n := rows.next_stage(r, self._held.get(r.claim.token), self.claiming.lanes)) is not None
        ]
        settled = self.claiming.limiter.settle_parameters(batch)
        done = opened = None
        ending = {r.claim.token for r in batch}
        running = [p for token, p in self._held.items() if token not in ending]
        self._unsure = True
        with connection.pipeline(), connection.transaction():
            lease = connection.execute(sql.HOLD_LEASE, [self._engine.worker_id])
            if batch:
                jobs = sorted({r.claim.job_id for r in batch})
                connection.execute(sql.LOCK_JOBS if following else sql.LOCK_JOBS_SHARED, [jobs])
                batch = asking.ask(connection, batch, worker_id=self._engine.worker_id)
                done = connection.execute(sql.COMPLETE, self._complete_parameters(batch))
                asking.settle(connection, batch)
            if following:
                opened = connection.execute(sql.OPEN_NEXT, self.claiming.next_parameters(following))
            asked = self.claiming.ask(connection, free, running)
            if settled is not None:
                for statement in limits_sql.SETTLE:
                    connection.execute(statement, settled)
        self._unsure = False
        if lease.fetchone() is None:
            raise LeaseInDoubt
        saved = Saved(
            items=frozenset(row[0] for row in done.fetchall()) if done else frozenset(),
            opened_for=frozenset(row[0] for row in opened.fetchall()) if opened else frozenset(),
        )
        claims = self.claiming.answered(asked)
        for result in batch:
            self._held.pop(result.claim.token, None)
            self._recorded.add(result.claim.token)
        self._begin(claims)
        self.aftermath.follow(connection, batch, saved, busy={p.claim.stage_id for p in self._held.values()})
        return len(claims) + self._claim_limited(connection, asked, free - len(claims))

    def _claim_limited(self, connection: Connection, asked: Asked, free: int) -> int:
        self._unsure = True
        claims = self.claiming.claim_limited(connection, asked, free)
        self._unsure = False
        self._begin(claims)
        return len(claims)

    def _begin(self, claims: Sequence[Pinned]) -> None:
        self._held.update((p.claim.token, p) for p in claims)
        self.claiming.begun(claims)
        self._engine.start(claims)

    def _complete_parameters(self, batch: Sequence[Result]) -> dict[str, Any]:
        return rows.complete_parameters(
            batch, worker_id=self._engine.worker_id, worker_name=self._engine.name
        )

    # -- faults --------------------------------------------------------------------------------------------------
    def _settle(self, connection: Connection) -> None:
        """After a commit whose answer was lost, and now and then for whatever nobody has thought of.

        Drop results that were saved after all; give back claims that we never heard of.
        """
        claims = [r.claim for r in self._finished]
        found = connection.execute(
            sql.ALREADY_SAVED, [[c.item_id for c in claims], [c.claim_no for c in claims], self._engine.name]
        ).fetchall()
        saved = set(found)
        self._held = {token: p for token, p in self._held.items() if token not in saved}
        self._finished = deque(r for r in self._finished if r.claim.token not in saved)
        held = [item for item, _ in self._held]
        given = connection.execute(
            sweeps_sql.ORPHANS, {"worker": self._engine.worker_id, "held": held}
        ).rowcount
        if given:
            log.warning("%s claims were ours and nobody ran them; they are given back", given)
        self._unsure, self._settled = False, time.monotonic()

    def _failed(self, error: Exception) -> None:
        """Whatever it was: what has finished is kept, and saved again on a new connection."""
        if is_outage(error):
            told = " ".join(str(error).split())[:200]
            log.warning("the database went away (%s); %s results are kept", told, len(self._finished))
        else:
            log.error("a batch could not be saved; it is kept and tried again", exc_info=error)
        if not isinstance(error, psycopg.Error):
            self.broken_since = self.broken_since or time.monotonic()
        self._reset()
        self._engine.pause(0.3)
        self._wake.set()

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = plan_by_index(connect("committer"))
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


def worth_waiting(took: float) -> float:
    """How long a result that took so many seconds to make waits for others to share its commit."""
    return min(MOST_GATHERING, max(GATHER_SECONDS, took * GATHER_SHARE))
