"""The two locks of a run, and waiting until nothing of a killed one is left."""

import fcntl
import os
import signal
import time
from pathlib import Path

from config.supervisor.processes import STOP_SECONDS, send
from config.supervisor.signals import Signals
from config.supervisor.words import SetupFailed, say
from config.var import PROJECT, var_file


def wait_for_last_run(signals: Signals) -> int:
    """The lock that this run's services inherit, once nothing of a killed run is left."""
    lock = os.open(var_file("run", "services.lock"), os.O_RDONLY | os.O_CREAT, 0o644)
    began = time.monotonic()
    told: set[int] = set()
    while not try_lock(lock):
        if not told:
            say("Waiting for the processes of the last run to end …")
        waited = time.monotonic() - began
        if waited > STOP_SECONDS + 8:
            raise SetupFailed(f"Processes of an earlier `make run` in {PROJECT} do not end: end them first.")
        # Whoever holds the lock while no supervisor lives has lost the one that would tell it to stop.
        for pid in _holders(lock):
            if waited > STOP_SECONDS:
                send(os.kill, pid, signal.SIGKILL)
            elif pid not in told:
                send(os.kill, pid, signal.SIGTERM)
            told.add(pid)
        signals.wait(0.2)
    return lock


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holders(descriptor: int) -> list[int]:
    """The other processes that have the same file open, as far as /proc shows them to us."""
    wanted = os.fstat(descriptor)
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            opened = [os.stat(entry) for entry in (folder / "fd").iterdir()]
        except OSError:  # it ended, or is somebody else's
            continue
        if int(folder.name) != os.getpid() and any(os.path.samestat(wanted, one) for one in opened):
            found.append(int(folder.name))
    return found
