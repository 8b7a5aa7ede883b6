"""How an engine comes to run in every q2 worker process, and how it ends with it.

q2's worker-start signal starts it; its threads outlive nothing: they stop when the cluster says so through the pipe
(`qcluster`), when the process's main thread has ended, when the parent is gone, on SIGTERM, or when the process has
become unfit (`watch.py`). Nothing runs in q2's own tasks: their time-out strikes anywhere in the main thread.
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from django.conf import settings
from django.db import connections
from django_q.signals import post_spawn

from access import noticing
from workflows.engine import watch
from workflows.engine.connections import guard_against_forks
from workflows.engine.engine import STOP_SECONDS, Engine

log = logging.getLogger(__name__)
_engine: Engine | None = None
_started_in = 0
_stop_pipe: tuple[int, int] | None = None


def keep_what_is_loaded() -> None:
    """In the cluster's main process, before it forks: have no collector go over what was imported, ever again.

    The first full collection of a worker went over all of it, and no thread runs meanwhile: a tenth of a second in the
    middle of somebody's step.
    """
    gc.collect()
    gc.freeze()


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
    guard_against_forks()
    os.register_at_fork(after_in_child=_be_nobody)
    faulthandler.enable()
    watch.limit_memory()
    start_engine()


def _be_nobody() -> None:
    """In a child that a handler forked: SIGTERM ends it, and does not run our way of stopping in a copy of us."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _on_sigterm(_signum: int, _frame: FrameType | None) -> None:
    if _engine is not None:
        _engine.request_stop()
    sys.exit(0)


def _watch(engine: Engine, parent: int) -> None:
    ended = threading.Event()

    def told() -> bool:
        orphaned = os.getppid() != parent or not threading.main_thread().is_alive()
        return orphaned or _stop_announced()

    while not (engine.stopping or told()):
        try:
            if noticing.look():
                log.warning("these rows were put back from a backup: dispatch is shut (docs/restore.md)")
            engine.start_threads()
            break
        except Exception as error:
            log.warning("the engine cannot start yet: %s", " ".join(str(error).split())[:200])
            ended.wait(1.0)
        finally:
            connections.close_all()
    if engine.worker_id:
        _serve(engine, told, ended)
    # Not by returning: threads that handlers left would keep the process, and so would q2's loop, which may wait
    # for ever on a queue whose lock a killed sibling took with it.
    watch.flush()
    os._exit(0)


def _serve(engine: Engine, told: Callable[[], bool], ended: threading.Event) -> None:
    """Until told to stop, or unfit; then until everything that could be recorded is."""
    watching = watch.Watch(engine)
    unfit = None
    while not (engine.stopping or told() or unfit):
        ended.wait(0.1)
        unfit = watching.look()
    if unfit is not None:
        log.warning("worker %s ends, and another one takes its place: %s", engine.name, unfit.why)
        watch.end_within(watch.UNFIT_SECONDS + 5)
        engine.request_stop(seconds=watch.UNFIT_SECONDS, sign_off=not unfit.blames_what_runs)
        while not (engine.committer_has_left() or told()):
            ended.wait(0.1)
    watch.end_within(STOP_SECONDS + 5)
    engine.request_stop()
    engine.join()
