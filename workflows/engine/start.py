"""How an engine comes to run in every q2 worker process, and how it ends with it.

q2's worker-start signal starts it; its threads outlive nothing: they stop when the cluster says so through the pipe
(`qcluster`), when the process's main thread has ended, when the parent is gone, or on SIGTERM. Nothing runs in q2's
own tasks: their time-out strikes anywhere in the main thread.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
from types import FrameType

import psycopg
from django.conf import settings
from django.db import connections
from django_q.signals import post_spawn

from workflows.engine.engine import Engine

log = logging.getLogger(__name__)
_engine: Engine | None = None
_started_in = 0
_stop_pipe: tuple[int, int] | None = None


def open_stop_pipe() -> None:
    """In the cluster's main process, before it forks: what every worker process will watch."""
    global _stop_pipe
    _stop_pipe = os.pipe()


def announce_stop() -> None:
    """Tell every worker process of this cluster to stop. Nobody reads the byte, so all of them see it."""
    if _stop_pipe is not None:
        os.write(_stop_pipe[1], b".")


def _stop_announced() -> bool:
    return _stop_pipe is not None and bool(select.select([_stop_pipe[0]], [], [], 0)[0])


def connect() -> None:
    """Listen to q2's worker-start signal. Called once, when the app is ready."""
    post_spawn.connect(_worker_spawned, dispatch_uid="counterfoil-engine")


def ensure_running() -> str:
    """What the doorbell's task does: start an engine in this worker process if it has none that lives."""
    if _engine is not None and _started_in == os.getpid() and _engine.is_alive:
        return f"{_engine.name} is up"
    start_engine()
    return "started anew"


def start_engine() -> None:
    """Start this process's engine and the thread that watches over it. A database that is away is waited for."""
    global _engine, _started_in
    engine = Engine(slots=settings.COUNTERFOIL_SLOTS, lease_seconds=settings.COUNTERFOIL_LEASE_SECONDS)
    _engine, _started_in = engine, os.getpid()
    threading.Thread(target=_watch, args=(engine, os.getppid()), name="counterfoil-watch").start()


def _worker_spawned(sender: object, **_: object) -> None:
    connections.close_all()  # a forked child must not share its parent's sessions
    signal.signal(signal.SIGTERM, _on_sigterm)
    start_engine()


def _on_sigterm(_signum: int, _frame: FrameType | None) -> None:
    if _engine is not None:
        _engine.request_stop()
    sys.exit(0)


def _watch(engine: Engine, parent: int) -> None:
    ended = threading.Event()

    def over() -> bool:
        orphaned = os.getppid() != parent or not threading.main_thread().is_alive()
        return engine.stopping or orphaned or _stop_announced()

    while not over():
        try:
            engine.start_threads()
            break
        except psycopg.Error as error:
            log.warning("the engine waits for the database: %s", " ".join(str(error).split())[:200])
            ended.wait(1.0)
    while not over():
        ended.wait(0.1)
    engine.request_stop()
    if engine.worker_id:
        engine.join()
    if threading.main_thread().is_alive():
        os._exit(0)  # q2's loop may wait for ever on a queue whose lock a killed sibling took with it
