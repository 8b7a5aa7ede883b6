"""What a process claims next: of plain lanes, of suspects, and under limits, so that none of them starves another."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from workflows.engine import rows, sql
from workflows.engine.connections import Connection
from workflows.engine.limiter import Lane, Limiter
from workflows.engine.marks import Marks
from workflows.engine.slots import Pinned

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

LANES_WALKED = 32
Answer = psycopg.Cursor[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The claims of one batch's transaction, sent and not yet read."""

    plain: Answer | None = None
    wanted: int = 0
    from_start: bool = True
    suspect: Answer | None = None
    under_limits: Answer | None = None
    """Lanes under a limit that have ready items or, while none is known, whether there is any such item."""
    knew_of_limited: bool = False


class Claiming:
    """Used by the committer's thread alone, but for `suspects_wait`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cursors = {True: 0, False: 0}
        """The lane that was served last, by claims from the start and from the marks: the next claim begins after it, so
        that lanes take turns however few slots are free, and each is looked at from its start."""
        self.has_walked_all = True
        """Whether the last claim saw every lane that had something ready."""
        self.lanes: rows.Lanes = {}
        self.limiter = Limiter(engine)
        self.marks = Marks()
        self._limited_wait = self._knows_limited = self._odd = False
        self._suspects = False
        self._seeks_limited = False
        """Whether a suspect may be claimed, and there was none without a limit."""

    def suspects_wait(self) -> None:
        """There are items whose worker stopped before."""
        self._suspects = True

    def ask(self, connection: Connection, free: int, running: Collection[Pinned]) -> Asked:
        """Inside the batch's transaction: claim for `free` slots, while the process runs `running` beside them."""
        if free <= 0:
            return Asked()
        plain = self._plain_share(free)
        asked = {"worker": self._engine.worker_id, "apart": self._engine.serving.apart}
        from_start = self.marks.look_from_start()
        walk = {**asked, "cursor": self._cursors[from_start], "lanes": LANES_WALKED, "free": plain}
        if not from_start:
            walk |= self.marks.parameters()
        may_suspect = self._suspects and not any(p.claim.deaths for p in running)
        return Asked(
            suspect=connection.execute(sql.CLAIM_SUSPECT, asked) if may_suspect else None,
            plain=connection.execute(sql.CLAIM if from_start else sql.CLAIM_ON, walk) if plain > 0 else None,
            wanted=plain,
            from_start=from_start,
            under_limits=self._walk_limited(connection)
            if self._knows_limited
            else connection.execute(sql.ANY_LIMITED),
            knew_of_limited=self._knows_limited,
        )

    def answered(self, asked: Asked) -> list[Pinned]:
        """After the commit: what was claimed."""
        claims: list[Pinned] = []
        if asked.plain is not None:
            found = asked.plain.fetchall()
            claims = self._pinned(found)
            self._served({p.claim.lane_id for p in claims}, from_start=asked.from_start)
            self.marks.claimed(
                zip((row[rows.RANK] for row in found), (p.claim for p in claims), strict=False),
                took=max(row[-1] for row in found),
                from_start=asked.from_start,
                idle=len(claims) < asked.wanted and self.has_walked_all,
            )
        if asked.suspect is not None:
            suspects = self._pinned(asked.suspect.fetchall())
            self._suspects, self._seeks_limited = bool(suspects), not suspects
            claims += suspects
        return claims

    def claim_limited(self, connection: Connection, asked: Asked, free: int) -> list[Pinned]:
        """Claims under limits, after the batch's commit and in a transaction of their own."""
        claims: list[Pinned] = []
        if self._seeks_limited and free > 0:
            claims = self.limiter.claim_suspect(connection)
            self._suspects, self._seeks_limited = bool(claims), False
        found = self._found_limited(connection, asked)
        lanes = self.limiter.open_lanes(found)
        self._limited_wait, self._knows_limited = bool(lanes), bool(found)
        return claims + self.limiter.claim(connection, lanes, free - len(claims))

    def _found_limited(self, connection: Connection, asked: Asked) -> list[Lane]:
        """Where nothing waits under a limit, a batch asks only whether that is still so: a walk costs it a fifth."""
        if asked.under_limits is None:
            return []
        if asked.knew_of_limited:
            return asked.under_limits.fetchall()
        return self._walk_limited(connection).fetchall() if asked.under_limits.fetchone() else []

    def _walk_limited(self, connection: Connection) -> Answer:
        return connection.execute(sql.LIMITED_LANES, self.limiter.walk())

    def begun(self, claims: Sequence[Pinned]) -> None:
        """Remember the lanes of what was claimed, for what follows it."""
        self.lanes.update(
            ((p.claim.tenant_id, p.claim.limit_name, p.claim.apart_for), p.claim.lane_id) for p in claims
        )

    def next_parameters(self, following: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
        """Parameters of sql.OPEN_NEXT: what is opened is ranked after the marks, so that it is seen."""
        columns = [list(column) for column in zip(*following, strict=True)]
        named = dict(zip(rows.NEXT_COLUMNS, columns, strict=True))
        return {**named, "floors": [self.marks.floor(lane) for lane in named["lanes"]]}

    def _served(self, lanes: Collection[int], *, from_start: bool) -> None:
        before = self._cursors[from_start]
        self._cursors[from_start] = max(lanes, key=lambda lane: (lane <= before, lane), default=before)
        self.has_walked_all = len(lanes) < LANES_WALKED

    def _plain_share(self, free: int) -> int:
        """How many of the free slots the lanes without a limit may take, while others wait under limits."""
        if not self._limited_wait:
            return free
        self._odd = not self._odd
        return free // 2 if free > 1 else int(self._odd)

    def _pinned(self, found: Sequence[tuple[Any, ...]]) -> list[Pinned]:
        return rows.pinned(found, worker_id=self._engine.worker_id, worker_name=self._engine.name)
