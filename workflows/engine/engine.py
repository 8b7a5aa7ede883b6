"""One engine: its threads, and how it starts and stops."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from outbox.dispatcher.dispatcher import Dispatcher
from workflows import clock
from workflows.costs.counting import Bookkeeper
from workflows.engine import advancer
from workflows.engine.advancer import Advancer
from workflows.engine.committer import Committer
from workflows.engine.connections import connect
from workflows.engine.liveness import Liveness
from workflows.engine.pool import Pool
from workflows.engine.serving import Serving
from workflows.engine.slots import Pinned, Texts

log = logging.getLogger(__name__)
STOP_SECONDS = 8.0
"""How long a stopping engine waits for what runs; the rest goes back to the queue."""


class Engine:
    """`slots` handlers at a time. `start_threads`, then `request_stop` from anywhere, then `join`."""

    def __init__(self, *, slots: int, lease_seconds: float) -> None:
        self.slots = slots
        self.lease_seconds = lease_seconds
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.worker_id = 0
        self.texts = Texts()
        self.serving = Serving(self)
        self.committer = Committer(self)
        self.advancer = Advancer(self)
        self.pool = Pool(self)
        self.outbox = Dispatcher(
            name=self.name,
            connect=partial(connect, "outbox"),
            clock=clock.now,
            stopping=lambda: self.stopping,
        )
        self._liveness = Liveness(self)
        self._stop = threading.Event()
        self._stop_by = float("inf")
        self.signs_off = True
        self._threads: list[threading.Thread] = []
        self._committer_thread: threading.Thread | None = None

    # -- life ----------------------------------------------------------------------------------------------------
    def start_threads(self) -> None:
        """Register and begin to claim. Raises psycopg.Error when the database cannot be had."""
        self.worker_id = self._liveness.register()
        self._committer_thread = self._thread("committer", self.committer.run)
        self._thread("liveness", self._liveness.run)
        for number in range(advancer.THREADS):
            self._thread(f"advancer-{number + 1}", self.advancer.run)
        self._thread("outbox", self.outbox.run)
        self._thread("bookkeeper", Bookkeeper(self._stop.is_set, self._stop.wait).run)
        for thread in self._threads:
            thread.start()
        self.pool.start()
        self.committer.wake()
        log.info("worker %s is up with %s slots", self.name, self.slots)

    def request_stop(self, *, seconds: float = STOP_SECONDS, sign_off: bool = True) -> None:
        """Claim nothing more, wait for what runs (so long at most), record, give back the rest, end. From any thread.

        Without `sign_off` the rest is not given back: whoever takes it over counts it. A repeat may shorten the wait.
        """
        self._stop_by = min(self._stop_by, time.monotonic() + seconds)
        if not self._stop.is_set():
            self.signs_off = sign_off
            self._stop.set()
            self.committer.wake()
            self.outbox.wake()

    def join(self) -> None:
        """Wait until a stop is complete."""
        assert self._committer_thread is not None
        self._committer_thread.join()
        self.advancer.stop()
        self.pool.stop()
        for thread in self._threads:
            thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the threads that everything depends on run."""
        return all(t.is_alive() for t in self._threads) and self.pool.is_whole

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop: nothing more is claimed."""
        return self._stop.is_set()

    def must_leave(self) -> bool:
        """Whether the time that a stop may take is over."""
        return time.monotonic() > self._stop_by

    def committer_has_left(self) -> bool:
        """Whether everything that will be recorded has been."""
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
        self.pool.give(claims)

    def may_begin(self) -> bool:
        """After our own deadline somebody else may have the item: nothing is begun that could have an effect."""
        return self.holds_lease() and not self.must_leave()

    def holds_lease(self) -> bool:
        """By our own clock, which began before the database's."""
        return time.monotonic() < self._liveness.lease_ends

    def _thread(self, name: str, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name=f"counterfoil-{name}")
        self._threads.append(thread)
        return thread
