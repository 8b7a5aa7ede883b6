"""A connector that kills, freezes or holds up its own process where a test says so, between the careful client's steps."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from dispatch.connectors.http import HttpConnector
from dispatch.connectors.seam import Sending
from dispatch.wire import Barrier, Exchange

FOLDER = "COUNTERFOIL_TEST_FOLDER"
"""The environment's name for a folder: a file in it says where to die next, and is gone before the process is."""
OPENED, MARKED, TAKEN, ANSWERED, RECORDED = "opened", "marked", "taken", "answered", "recorded"
CONNECTED = "connected"
FREEZE = str(int(signal.SIGSTOP))
"""What a file says whose process is to be frozen instead."""


def dies(folder: Path, point: str, pid: int) -> None:
    """SIGKILL to this process if it is to die here, once; or the signal whose number the file says."""
    try:
        how = (folder / point).read_text()
        (folder / point).unlink()
    except FileNotFoundError:
        return
    os.kill(pid, int(how or signal.SIGKILL))


def holds(folder: Path, point: str) -> None:
    """Stay here as long as the test's file is there; one beside it says that somebody does."""
    pause = threading.Event()
    while (folder / f"hold-{point}").exists():
        (folder / f"held-{point}").touch()
        pause.wait(0.02)


class Dying(HttpConnector):
    """Leaves the id of its process in the folder before it sends, for others who kill it."""

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        folder, pid = Path(os.environ[FOLDER]), os.getpid()
        (folder / "sender").write_text(str(pid))
        dies(folder, OPENED, pid)

        def mark() -> None:
            dies(folder, CONNECTED, pid)
            barrier()
            dies(folder, MARKED, pid)

        seen = super().send(sending, mark)
        dies(folder, ANSWERED, pid)
        holds(folder, ANSWERED)
        return seen
