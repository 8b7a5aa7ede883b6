"""What follows a batch's commit: late results are recorded, and what needs the rooms above is passed on.

A crash anywhere in here is made good by the sweep.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workflows.engine import rows, sql
from workflows.engine.connections import Connection
from workflows.engine.outcomes import Result
from workflows.engine.slots import kept_as
from workflows.machines import Claim
from workflows.models import StageKind
from workflows.states import STUCK_ITEM_STATES, ItemState

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.2
"""So often at most is a stage that some of its items are enough for looked at while others still run."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a batch's transaction did: items whose result was accepted, and jobs whose next step it opened."""

    items: frozenset[int]
    opened_for: frozenset[int]


class Aftermath:
    """Used by the committer's thread alone, but for `came_late`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._looked_at: dict[int, float] = {}
        self._late: deque[Result] = deque()

    def follow(
        self, connection: Connection, batch: Sequence[Result], saved: Saved, *, busy: set[int]
    ) -> None:
        """Keep outputs at hand, report what stopped, and open what a finished stage leads to.

        `busy`: stages of which this process still runs something, so that there is no need to ask.
        """
        self._record_stale(connection, [r for r in batch if r.claim.item_id not in saved.items])
        accepted = [r for r in batch if r.claim.item_id in saved.items]
        barriers: dict[int, Claim] = {}
        for result in accepted:
            if self._pass_on(result):
                barriers[result.claim.stage_id] = result.claim
        self._look_at_patient(barriers)
        probed = {s: c for s, c in barriers.items() if s not in busy and c.job_id not in saved.opened_for}
        if probed:
            jobs = [c.job_id for c in probed.values()]
            for (stage_id,) in connection.execute(sql.CLOSED_BARRIERS, [jobs, list(probed)]).fetchall():
                self._engine.advancer.advance(probed[stage_id].tenant_id, probed[stage_id].job_id)

    def came_late(self, result: Result) -> None:
        """A handler that was left behind has come back: for the record only. From any thread."""
        self._late.append(result)
        self._engine.committer.wake()

    def record_late(self, connection: Connection) -> None:
        """Once everything that has finished is saved: the attempt that timed out stands before its late answer."""
        late = list(self._late)
        self._record_stale(connection, late)
        for _ in late:
            self._late.popleft()

    def _pass_on(self, result: Result) -> bool:
        """Tell the advancer what it must know; whether the item's stage may be done."""
        claim = result.claim
        if result.error_class == "RevisionMissing":
            self._engine.advancer.missing_revision(claim.tenant_id, claim.job_id, result.error_message)
        elif result.asked is not None and result.state is ItemState.WAITING:
            self._engine.advancer.begin_waits(claim.tenant_id, claim.job_id)
        elif result.state in STUCK_ITEM_STATES:
            self._engine.advancer.report(claim.tenant_id, claim.item_id)
            return claim.kind == StageKind.EACH
        elif result.state is ItemState.SUCCEEDED and claim.kind != StageKind.MACHINE:
            if claim.kind != StageKind.EACH and result.output is not None:
                self._engine.texts.put(kept_as(claim, claim.stage_name), result.output)
            return True
        return False

    def _look_at_patient(self, barriers: dict[int, Claim]) -> None:
        now = time.monotonic()
        for stage_id, claim in barriers.items():
            if claim.patient and now - self._looked_at.get(stage_id, 0.0) >= LOOK_SECONDS:
                self._looked_at[stage_id] = now
                self._engine.advancer.advance(claim.tenant_id, claim.job_id)
        if len(self._looked_at) > 1000:
            self._looked_at.clear()

    def _record_stale(self, connection: Connection, stale: Sequence[Result]) -> None:
        if stale:
            connection.execute(sql.STALE, rows.stale_parameters(stale, worker_name=self._engine.name))
            log.info("%s late results were recorded and discarded", len(stale))
