"""What a worker process watches about itself, and when it starts anew: by ending, since q2 starts another one.

Handlers are code of others, and share the process with the engine. Some of what they can do to it cannot be undone
from inside. Two ways out, then. When the engine itself is broken, the process ends at once: its claims are freed
and count as attempts. When the process has merely become unfit (too much memory, too many threads, too many handlers
left behind), it claims nothing more, lets what runs come to an end, records it, and ends.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import re
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
MOST_THREADS = 300
"""Beside the slots. Each costs memory, and nobody but the handler that started it can end it."""
BROKEN_SECONDS = 15.0
"""So long may the committer fail for another reason than the database."""
FROZEN_SECONDS = 60.0
"""At least so long must no thread of ours have run, which a handler can bring about that never lets go of the
interpreter; and twice the lease at least, so that all claims are lost anyway."""
UNFIT_SECONDS = 60.0
"""How long an unfit process waits for what runs."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a process should come to an orderly end, and whether what still runs at that end counts as the cause."""

    why: str
    blames_what_runs: bool


class Watch:
    """One look a second, from the process's own watching thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._frozen = max(FROZEN_SECONDS, 2 * engine.lease_seconds)
        self._looked = 0.0
        self._armed = 0.0

    def look(self) -> Unfit | None:
        """Whether the process should come to an orderly end. Ends it at once where the engine is broken."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return None
        self._looked = now
        self._arm(now)
        if broken := self._broken(now):
            end_at_once(f"{self._engine.name}: {broken}")
        return self._unfit()

    def _broken(self, now: float) -> str:
        if self._engine.stopping:
            return ""
        if not self._engine.is_alive:
            return "a thread of the engine has ended"
        since = self._engine.committer.broken_since
        if since is not None and now - since > BROKEN_SECONDS:
            return "nothing can be recorded, and not because of the database"
        return ""

    def _unfit(self) -> Unfit | None:
        threads, megabytes = _threads_and_memory()
        most, behind = settings.COUNTERFOIL_WORKER_MEMORY_MB, self._engine.pool.left_behind
        if behind >= self._engine.slots:
            return Unfit(f"{behind} handlers outstayed their time and still run", blames_what_runs=False)
        if threads > MOST_THREADS + self._engine.slots:
            return Unfit(f"it has {threads} threads", blames_what_runs=True)
        if most and megabytes > most:
            why = f"it takes {megabytes} MB of memory, and COUNTERFOIL_WORKER_MEMORY_MB is {most}"
            return Unfit(why, blames_what_runs=True)
        return None

    def _arm(self, now: float) -> None:
        # Its thread needs no interpreter lock: it strikes although nothing of ours can run.
        if now - self._armed > self._frozen / 6:
            self._armed = now
            faulthandler.dump_traceback_later(self._frozen, exit=True)


def limit_memory() -> None:
    """An allocation beyond twice the worker's memory is refused: MemoryError for who asked, not the end of others."""
    most = settings.COUNTERFOIL_WORKER_MEMORY_MB * 2_000_000
    if most:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def end_within(seconds: float) -> None:
    """The process ends by then, however its threads behave."""
    faulthandler.dump_traceback_later(seconds, exit=True)


def end_at_once(why: str) -> None:
    """End the process without a further step of ours: whoever takes its claims over finds them counted."""
    log.critical("this worker process ends at once: %s", why)
    flush()
    os._exit(1)


def flush() -> None:
    """What was logged and printed is not lost with the process."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue


def _threads_and_memory() -> tuple[int, int]:
    """Threads of every kind, and resident megabytes; zeros where there is no /proc."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0, 0
    found = dict(re.findall(r"^(Threads|VmRSS):\s+(\d+)", status, re.MULTILINE))
    return int(found.get("Threads", 0)), int(found.get("VmRSS", 0)) // 1000
