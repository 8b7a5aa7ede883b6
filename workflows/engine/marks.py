"""Where in its lanes a process goes on claiming, for as long as looking from the start of each costs too much.

A claimed item leaves a dead entry at the start of its lane's index. Vacuum takes them away, but not while anybody's older
snapshot might still see them: a dump, a forgotten session, a replica. A claim from the start then steps over each of
them, and so it becomes slower with every item that is done. So each process remembers where its last claim in a lane
ended. As soon as a claim from the start has cost too much, it goes on from there, and looks from the start only so often
that this takes a small part of its time: what came back below a mark (retries, items of the dead, jobs that began when
the lane was empty) is found then.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from workflows.claims import Claim

DEAR_SECONDS = 0.010
"""A claim from the start that took the server longer than this is dear. With no old snapshot it takes 1 to 2 ms."""
PART = 100
IDLE_PART = 4
"""Of the time, at most one part in so many goes into dear looks: busy, and with slots that found nothing to do."""
LONGEST_SECONDS = 5.0
"""So often there is a look from the start in any case."""
MOST_LANES = 1000


class Marks:
    """Used by the committer's thread alone."""

    def __init__(self) -> None:
        self._at: dict[int, tuple[int, int]] = {}
        self._cost = 0.0
        self._looked = 0.0
        self._idle = False

    def look_from_start(self) -> bool:
        """Whether the next claim shall look at each lane from its start."""
        if self._cost < DEAR_SECONDS:
            return True
        pause = min(self._cost * (IDLE_PART if self._idle else PART), LONGEST_SECONDS)
        return time.monotonic() - self._looked >= pause

    def parameters(self) -> dict[str, list[int]]:
        """Of sql.CLAIM_ON."""
        return {
            "mark_lanes": list(self._at),
            "mark_ranks": [rank for rank, _ in self._at.values()],
            "mark_ids": [item for _, item in self._at.values()],
        }

    def floor(self, lane: int) -> int:
        """From which rank on what is ready in a lane is looked for; 0 while looking from the start is cheap."""
        return self._at[lane][0] if self._cost >= DEAR_SECONDS and lane in self._at else 0

    def claimed(
        self, claims: Iterable[tuple[int, Claim]], *, took: float, from_start: bool, idle: bool
    ) -> None:
        """What a claim took, by rank, in how many seconds of the server, and whether slots stayed free after it."""
        if from_start:
            self._cost, self._looked = took, time.monotonic()
        self._idle = idle
        ends: dict[int, tuple[int, int]] = {}
        for rank, claim in claims:
            ends[claim.lane_id] = max(ends.get(claim.lane_id, (0, 0)), (rank, claim.item_id))
        for lane, end in ends.items():
            self._at.pop(lane, None)  # so that the order is that of the last claims
            self._at[lane] = end
        while len(self._at) > MOST_LANES:
            del self._at[next(iter(self._at))]
