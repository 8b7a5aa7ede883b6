"""Claims under named limits: in a short transaction of their own, the limits' rows locked, shared ones first.

Exact across hosts, since whoever claims under a limit holds its row. A crash afterwards loses what was charged, and
never lets more through. What a batch settles (`settle`) comes last in its transaction, after jobs and items; a claim
takes items only with SKIP LOCKED, so the two cannot wait for each other in a ring.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from workflows.engine import limits_sql, rows, sql
from workflows.engine.connections import Connection
from workflows.engine.outcomes import Result
from workflows.engine.slots import Pinned
from workflows.limits import Allowance, State, allowance, charged, put_right

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

LANES_WALKED = 32
LOOK_AGAIN_SECONDS = 0.2
"""Where a limit opens when something ends, which may end on another host."""

LONGEST_CLOSED = 2.0
"""A person may change a limit: a closed one is looked at so often in any case."""

Lane = tuple[int, int, str]
"""Its id, its tenant, and the name of its limit."""


class Limiter:
    """What one process knows of the lanes under limits. Used by the committer's thread alone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cursor = 0
        self._closed: dict[int, float] = {}

    def walk(self) -> dict[str, Any]:
        """Parameters of sql.LIMITED_LANES; lanes known to be closed do not count against how many are walked."""
        return {
            "cursor": self._cursor,
            "lanes": LANES_WALKED + len(self._closed),
            "apart": self._engine.serving.apart,
        }

    def open_lanes(self, found: Sequence[Lane]) -> list[Lane]:
        """Those of a walk that are not known to be closed."""
        now = time.monotonic()
        self._closed = {lane: at for lane, at in self._closed.items() if at > now}
        return [lane for lane in found if lane[0] not in self._closed]

    def reopens_in(self) -> float | None:
        """Seconds until a lane that is known to be closed is worth a look."""
        return max(0.0, min(self._closed.values()) - time.monotonic()) if self._closed else None

    def look_again(self) -> None:
        """Something that ran under a limit has ended, so one that counts what runs may be open."""
        soon = time.monotonic() + LOOK_AGAIN_SECONDS
        self._closed = {lane: at for lane, at in self._closed.items() if at > soon}

    def claim(self, connection: Connection, lanes: Sequence[Lane], free: int) -> list[Pinned]:
        """Up to `free` items of `lanes`, as many as their limits allow; the next walk begins after the last one served."""
        if not lanes or free <= 0:
            return []
        claims, served = self._claim(connection, lanes, free, sql.CLAIM_LIMITED)
        self._cursor = served or lanes[-1][0]
        return claims

    def claim_suspect(self, connection: Connection) -> list[Pinned]:
        """One item whose worker stopped before, of a lane whose limits allow it: nothing is let off them for that."""
        lanes = self.open_lanes(
            connection.execute(sql.SUSPECT_LANES, {"apart": self._engine.serving.apart}).fetchall()
        )
        return self._claim(connection, lanes, 1, sql.CLAIM_LIMITED_SUSPECT)[0] if lanes else []

    def _claim(
        self, connection: Connection, lanes: Sequence[Lane], free: int, statement: str
    ) -> tuple[list[Pinned], int]:
        """What was taken, and the last lane that was allowed something, or 0."""
        with connection.transaction():
            connection.execute(
                "SET LOCAL lock_timeout = '200ms'"
            )  # a person edits it; others shall not wait with us
            limits = _Limits(connection, lanes)
            counts = self._counts(limits, lanes, free)
            claims = self._take(connection, counts, statement) if counts else []
            limits.charge(claims)
        return claims, next(reversed(counts), 0)

    def settle_parameters(self, batch: Sequence[Result]) -> dict[str, list[Any]] | None:
        """Parameters of limits_sql.SETTLE for what a batch used under limits; None if nothing did."""
        limited = [r for r in batch if r.claim.limit_name]
        if not limited:
            return None
        self.look_again()
        return {
            "tenants": [r.claim.tenant_id for r in limited],
            "names": [r.claim.limit_name for r in limited],
            "tokens": [r.usage.tokens_in + r.usage.tokens_out if r.usage else 0 for r in limited],
            "costs": [r.usage.cost if r.usage else Decimal(0) for r in limited],
            "reserved_tokens": [r.claim.reserved_tokens for r in limited],
            "reserved_costs": [r.claim.reserved_cost for r in limited],
            "closes": [r.closes_limit for r in limited],
        }

    def _counts(self, limits: _Limits, lanes: Sequence[Lane], free: int) -> dict[int, int]:
        each = -(-free // len(lanes))
        counts: dict[int, int] = {}
        for lane in lanes:
            allowed = limits.allow(lane, min(each, free))
            if allowed.count:
                counts[lane[0]] = allowed.count
                free -= allowed.count
            elif free > 0:
                wait = LOOK_AGAIN_SECONDS
                if allowed.until is not None:
                    wait = min(max(0.005, (allowed.until - limits.now).total_seconds()), LONGEST_CLOSED)
                self._closed[lane[0]] = time.monotonic() + wait
        return counts

    def _take(self, connection: Connection, counts: dict[int, int], statement: str) -> list[Pinned]:
        taken = connection.execute(
            statement,
            {"lanes": list(counts), "counts": list(counts.values()), "worker": self._engine.worker_id},
        ).fetchall()
        return rows.pinned(taken, worker_id=self._engine.worker_id, worker_name=self._engine.name)


class _Limits:
    """The limits of some lanes, their rows locked, for one claim. A key is (tenant, name); tenant 0 is shared."""

    def __init__(self, connection: Connection, lanes: Sequence[Lane]) -> None:
        self._connection = connection
        names = sorted({name for _, _, name in lanes})
        found = connection.execute(limits_sql.LOCK_SHARED, [names]).fetchall()
        found += connection.execute(
            limits_sql.LOCK_OWN, [[tenant for _, tenant, _ in lanes], [name for _, _, name in lanes]]
        ).fetchall()
        self.now: datetime = connection.execute("SELECT clock_timestamp()").fetchone()[0]  # type: ignore[index]
        self._states = {(r[0], r[1]): put_right(State(*r[2:]), self.now) for r in found}
        self._spoken_for = dict(self._states)
        self._running = self._count_running(names)
        self._closing: dict[tuple[int, str], Allowance] = {}

    def allow(self, lane: Lane, wanted: int) -> Allowance:
        """What all limits of a lane together allow, which is then spoken for."""
        _, tenant, name = lane
        keys = [k for k in ((tenant, name), (0, name)) if k in self._states]
        count = wanted
        for key in keys:
            found = allowance(self._spoken_for[key], running=self._running[key], now=self.now)
            if found.count == 0:
                self._closing[key] = found
                return found
            count = min(count, found.count)
        for key in keys:
            self._running[key] += count
            self._spoken_for[key] = self._charged(self._spoken_for[key], count)
        return Allowance(count)

    def charge(self, claims: Sequence[Pinned]) -> None:
        """Write what was taken, and which limits are closed; the claims remember what they were charged."""
        taken: Counter[tuple[int, str]] = Counter()
        for pinned in claims:
            taken[pinned.claim.tenant_id, pinned.claim.limit_name] += 1
            taken[0, pinned.claim.limit_name] += 1
            state = self._state_of(pinned.claim.tenant_id, pinned.claim.limit_name)
            if state is not None:
                pinned.claim = replace(
                    pinned.claim, reserved_tokens=state.tokens_an_item, reserved_cost=state.average_cost
                )
        for key, state in self._states.items():
            if taken[key] or key in self._closing:
                self._write(*key, self._charged(state, taken[key]) if taken[key] else state)

    def _charged(self, state: State, count: int) -> State:
        return charged(
            state,
            count=count,
            tokens=state.tokens_an_item * count,
            cost=state.average_cost * count,
            now=self.now,
        )

    def _state_of(self, tenant: int, name: str) -> State | None:
        return self._states.get((tenant, name)) or self._states.get((0, name))

    def _count_running(self, names: list[str]) -> Counter[tuple[int, str]]:
        running: Counter[tuple[int, str]] = Counter()
        if any(state.concurrency is not None for state in self._states.values()):
            for tenant, name, count in self._connection.execute(limits_sql.RUNNING_UNDER, [names]).fetchall():
                running[tenant, name] += count
                running[0, name] += count
        return running

    def _write(self, tenant: int, name: str, state: State) -> None:
        closing = self._closing.get((tenant, name))
        if closing is not None:
            state = replace(state, closed_until=closing.until, closed_why=closing.why)
        values = {f.name: getattr(state, f.name) for f in fields(state)}
        statement = limits_sql.WRITE_OWN if tenant else limits_sql.WRITE_SHARED
        self._connection.execute(statement, {**values, "tenant": tenant, "name": name})
