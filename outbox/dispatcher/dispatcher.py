"""The thread in every worker process that has messages delivered, in slots of its own.

It claims for free slots only, lane by lane, whenever something was written, a slot became free, or a second has passed.
Nothing is shared with the engine's slots, and every exchange has an end, so neither can hold up the other. What it
holds when its process dies comes up again when the lease ends. Any number of processes and hosts may do this at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import psycopg
from django.db import connection as django_connection

from access.outages import is_outage
from outbox.dispatcher import claiming
from outbox.dispatcher.claiming import SLOTS, Claim, Lane
from outbox.dispatcher.delivering import deliver

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
STOP_SECONDS = 5.0
"""How long a stopping dispatcher waits for what is under way; the rest is sent again by others."""


class Dispatcher:
    """`run` in a thread until `stopping` says so; `wake` from anywhere. `connect` gives a connection of the engine's role."""

    def __init__(
        self,
        *,
        name: str,
        connect: Callable[[], psycopg.Connection[Any]],
        clock: Callable[[], datetime],
        stopping: Callable[[], bool],
    ) -> None:
        self._name = name
        self._connect = connect
        self._clock = clock
        self._stopping = stopping
        self._awake = threading.Event()
        self._ended = threading.Event()
        self._guard = threading.Lock()
        self._free = dict(SLOTS)
        self._pools = {
            lane: ThreadPoolExecutor(slots, thread_name_prefix=f"counterfoil-outbox-{lane}")
            for lane, slots in SLOTS.items()
        }

    def wake(self) -> None:
        """Something may be due."""
        self._awake.set()

    def run(self) -> None:
        """Until stopping. What fails is logged, and looked at again a second later."""
        connection: psycopg.Connection[Any] | None = None
        while not self._stopping():
            self._awake.clear()
            try:
                if connection is None or connection.closed:
                    connection = self._connect()
                for lane in Lane:
                    self._turn(connection, lane)
            except Exception as error:  # whatever it is, the worker goes on, and the next turn tries again
                _log("messages could not be claimed now", error)
                if connection is not None:
                    connection.close()
            self._awake.wait(LOOK_SECONDS)
        self._leave()
        self._ended.set()
        if connection is not None:
            connection.close()

    def _turn(self, connection: psycopg.Connection[Any], lane: Lane) -> None:
        with self._guard:
            free = self._free[lane]
        if not free or self._stopping():
            return
        for claim in claiming.claim(connection, lane, free, self._name):
            with self._guard:
                self._free[lane] -= 1
            self._pools[lane].submit(self._deliver, lane, claim)

    def _deliver(self, lane: Lane, claim: Claim) -> None:
        try:
            deliver(claim, self._clock, self._ended.wait)
        except (
            Exception
        ) as error:  # the slot is free again, whatever it is; the lease's end brings the message up
            _log(f"message {claim.message_id} was left to the end of its lease", error)
        finally:
            django_connection.close()  # slots are idle most of the time, and connections are few
            with self._guard:
                self._free[lane] += 1
            self._awake.set()

    def _leave(self) -> None:
        until = time.monotonic() + STOP_SECONDS
        for pool in self._pools.values():
            pool.shutdown(wait=False)
        while self._is_busy() and time.monotonic() < until:
            self._awake.wait(0.1)
            self._awake.clear()

    def _is_busy(self) -> bool:
        with self._guard:
            return self._free != SLOTS


def _log(what: str, error: Exception) -> None:
    """An outage of the database in one line; anything else is a fault of ours, with its traceback."""
    if is_outage(error):
        log.warning("%s: %s", what, " ".join(str(error).split())[:200])
    else:
        log.error("%s", what, exc_info=error)
