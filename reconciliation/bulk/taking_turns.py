"""Which bulk of this process asks receivers now: one at a time, in the order in which they came.

A receiver that is silent takes as long as its contract lets it, and the thread that waits for it is one of the few that
open everybody's next steps: several bulks of one storm must not take all of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

FORGOTTEN_AFTER = 10.0
"""Seconds. The sweep brings a bulk that waits every three; one that has not come for so long was stopped, or is done."""


class Turns:
    """Who asks, and who waits for it. `now` is the process's monotonic clock."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._asks: int | None = None
        self._waiting: dict[int, float] = {}

    def begins(self, bulk_id: int, now: float) -> bool:
        """Whether it is this bulk's turn, which it then ends. One that waits keeps its place."""
        with self._guard:
            for other in [b for b, came in self._waiting.items() if now - came > FORGOTTEN_AFTER]:
                del self._waiting[other]
            if self._asks is not None or next(iter(self._waiting), bulk_id) != bulk_id:
                self._waiting[bulk_id] = now
                return False
            self._waiting.pop(bulk_id, None)
            self._asks = bulk_id
            return True

    def ends(self) -> None:
        """Whoever asks has done so."""
        with self._guard:
            self._asks = None


_turns = Turns()


@contextmanager
def turn_of(bulk_id: int) -> Iterator[bool]:
    """Whether it is this bulk's turn; it waits for nobody. The turn ends with the block."""
    if not _turns.begins(bulk_id, time.monotonic()):
        yield False
        return
    try:
        yield True
    finally:
        _turns.ends()
