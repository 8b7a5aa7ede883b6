"""The slots: threads that run handlers, one claim at a time, and what is done about handlers that misbehave.

A thread cannot be stopped from outside. So when a handler takes longer than its step's `Retry(timeout=…)`, the
attempt is recorded as timed out, its thread is left behind, and another thread takes the slot. What the thread that
was left behind returns later is recorded as stale. When as many are left behind as there are slots, the process
starts anew (`watch.py`). `docs/engine.md` says what each kind of misbehaviour leads to.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Iterable
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING

from django.db import connection

from workflows import registry
from workflows.authoring import Retry
from workflows.engine import handlers
from workflows.engine.handling import MACHINE_RETRY
from workflows.engine.outcomes import Result, failed
from workflows.engine.slots import Pinned, released, run
from workflows.kinds import AttemptOutcome, StageKind

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

log = logging.getLogger(__name__)
_UNDESCRIBED = "The step raised an exception that fails when it is asked what it is."


class TimedOut(Exception):
    """The handler took longer than its step allows. It may still be running; its answer will not be used."""


class Undescribed(Exception):
    """The handler raised something whose own methods raise."""


class Pool:
    """`engine.slots` threads that serve. `give` and the properties from any thread, the rest from liveness."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._work: queue.SimpleQueue[Pinned | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: dict[int, tuple[Pinned, float]] = {}
        """What each thread runs, and until when it may; who takes an entry out tells how that attempt ended."""
        self._serving: dict[int, threading.Thread] = {}
        self._left_behind: list[threading.Thread] = []
        self._made = 0

    def start(self) -> None:
        """Start a thread for each slot."""
        for _ in range(self._engine.slots):
            self._add()

    def give(self, claims: Iterable[Pinned]) -> None:
        """Claims for free slots."""
        for pinned in claims:
            self._work.put(pinned)

    def stop(self) -> None:
        """Threads end when they are idle; the process does not wait for those that are not."""
        for _ in range(self._engine.slots):
            self._work.put(None)

    @property
    def is_whole(self) -> bool:
        """Whether every slot has a thread."""
        return all(thread.is_alive() for thread in list(self._serving.values()))

    @property
    def left_behind(self) -> int:
        """Handlers that outstayed their time limit and still run."""
        self._left_behind = [t for t in self._left_behind if t.is_alive()]
        return len(self._left_behind)

    def leave_overdue_behind(self) -> None:
        """Record what has taken too long, and give its slot to a new thread."""
        now = time.monotonic()
        with self._lock:
            overdue = {n: pinned for n, (pinned, until) in self._running.items() if until <= now}
            for number in overdue:
                del self._running[number]
        for number, pinned in overdue.items():
            log.warning("item %s did not end in its time; its thread is left behind", pinned.claim.item_id)
            self._left_behind.append(self._serving.pop(number))
            self._add()
            self._engine.committer.finish(_timed_out(pinned))

    def _add(self) -> None:
        self._made += 1
        number = self._made
        thread = threading.Thread(
            target=self._serve, args=(number,), name=f"counterfoil-slot-{number}", daemon=True
        )
        self._serving[number] = thread
        thread.start()

    def _serve(self, number: int) -> None:
        process = os.getpid()
        while (pinned := self._work.get()) is not None:
            if not self._engine.may_begin():
                self._engine.committer.finish(released(pinned))
                continue
            with self._lock:
                self._running[number] = pinned, time.monotonic() + _retry_of(pinned).timeout
            result = self._result(pinned)
            if os.getpid() != process:
                os._exit(
                    0
                )  # a fork of the handler's came back as if it were us: nothing here is its business
            handlers.tidy(pinned)
            with self._lock:
                in_time = self._running.pop(number, None) is not None
            if not in_time:
                self._engine.committer.aftermath.came_late(result)
                break
            self._engine.committer.finish(result)
        connection.close()

    def _result(self, pinned: Pinned) -> Result:
        """Whatever the handler does to its context (decimals, time zone, tenant), it does to a copy."""
        try:
            return copy_context().run(run, pinned, self._engine.texts)
        except BaseException:
            return _failed(pinned, Undescribed(_UNDESCRIBED))


def _timed_out(pinned: Pinned) -> Result:
    seconds = _retry_of(pinned).timeout
    error = TimedOut(
        f"It took longer than the {seconds:g} s that the step allows; its thread was left behind."
    )
    return replace(_failed(pinned, error), outcome=AttemptOutcome.TIMED_OUT)


def _failed(pinned: Pinned, error: Exception) -> Result:
    retry, now = _retry_of(pinned), pinned.now()
    return failed(pinned.claim, error, retry=retry, usage=None, started=pinned.started_at, now=now)


def _retry_of(pinned: Pinned) -> Retry:
    if pinned.claim.kind == StageKind.MACHINE:
        return MACHINE_RETRY
    try:
        step = pinned.definition().step_named(pinned.claim.stage_name)
    except registry.RevisionMissing:
        return Retry()
    return Retry() if step is None else step.retry
