"""One engine: its threads, and how it starts and stops."""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Sequence

from django.db import connection

from workflows.costs.counting import Bookkeeper
from workflows.engine.advancer import Advancer
from workflows.engine.committer import Committer
from workflows.engine.liveness import Liveness
from workflows.engine.slots import Pinned, Texts, released, run

log = logging.getLogger(__name__)
STOP_SECONDS = 8.0
"""How long a stopping engine waits for what runs; the rest goes back to the queue."""


class Engine:
    """`slots` handlers at a time. `start_threads`, then `request_stop` from anywhere, then `join`."""

    def __init__(self, *, slots: int, lease_seconds: float) -> None:
        self.slots = slots
        self.lease_seconds = lease_seconds
        self.name = f"{socket.gethostname()}-{os.getpid()}-{int(time.time() * 1000) % 100_000}"
        self.worker_id = 0
        self.texts = Texts()
        self.committer = Committer(self)
        self.advancer = Advancer(self)
        self._liveness = Liveness(self)
        self._work: queue.SimpleQueue[Pinned | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._stop_by = float("inf")
        self._threads: list[threading.Thread] = []
        self._committer_thread: threading.Thread | None = None

    # -- life ----------------------------------------------------------------------------------------------------
    def start_threads(self) -> None:
        """Register and begin to claim. Raises psycopg.Error when the database cannot be had."""
        self.worker_id = self._liveness.register()
        self._committer_thread = self._thread("committer", self.committer.run)
        self._thread("liveness", self._liveness.run)
        self._thread("advancer", self.advancer.run)
        self._thread("bookkeeper", Bookkeeper(self._stop.is_set, self._stop.wait).run)
        for number in range(self.slots):
            self._thread(f"slot-{number}", self._slot, daemon=True)
        for thread in self._threads:
            thread.start()
        self.committer.wake()
        log.info("worker %s is up with %s slots", self.name, self.slots)

    def request_stop(self) -> None:
        """Claim nothing more, wait for what runs (8 s at most), record, give back the rest, end. From any thread."""
        if not self._stop.is_set():
            self._stop_by = time.monotonic() + STOP_SECONDS
            self._stop.set()
            self.committer.wake()

    def join(self) -> None:
        """Wait until a stop is complete."""
        assert self._committer_thread is not None
        self._committer_thread.join()
        self.advancer.stop()
        for _ in range(self.slots):
            self._work.put(None)
        for thread in self._threads:
            if not thread.daemon:
                thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the threads that everything depends on run."""
        return all(t.is_alive() for t in self._threads)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def must_leave(self) -> bool:
        return time.monotonic() > self._stop_by

    def committer_has_left(self) -> bool:
        return self._committer_thread is not None and not self._committer_thread.is_alive()

    def pause(self, seconds: float) -> None:
        """Keep a repeated fault from spinning."""
        threading.Event().wait(seconds)

    def lease_lost(self) -> None:
        """The committer saw that our lease no longer lives; liveness finds out at its next renewal."""
        self._liveness.lease_ends = 0.0
        self._liveness.renew_soon()

    # -- work ----------------------------------------------------------------------------------------------------
    def start(self, claims: Sequence[Pinned]) -> None:
        """Hand claims to the slots."""
        for pinned in claims:
            self._work.put(pinned)

    def _slot(self) -> None:
        while (pinned := self._work.get()) is not None:
            # After our own deadline somebody else may have the item: nothing is begun that could have an effect.
            if time.monotonic() >= self._liveness.lease_ends or self.must_leave():
                self.committer.finish(released(pinned))
            else:
                self.committer.finish(run(pinned, self.texts))
        connection.close()

    def _thread(self, name: str, target: object, *, daemon: bool = False) -> threading.Thread:
        thread = threading.Thread(target=target, name=f"counterfoil-{name}", daemon=daemon)  # type: ignore[arg-type]
        self._threads.append(thread)
        return thread
