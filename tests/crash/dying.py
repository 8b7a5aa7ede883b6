"""A connector that kills its own process where a test says so: the careful client, with SIGKILL between its steps."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dispatch.connectors.http import HttpConnector
from dispatch.connectors.seam import Sending
from dispatch.wire import Barrier, Exchange

FOLDER = "COUNTERFOIL_TEST_FOLDER"
"""The environment's name for a folder: a file in it says where to die next, and is gone before the process is."""
OPENED, MARKED, TAKEN, ANSWERED, RECORDED = "opened", "marked", "taken", "answered", "recorded"


def dies(folder: Path, point: str, pid: int) -> None:
    """SIGKILL to this process if it is to die here, once."""
    try:
        (folder / point).unlink()
    except FileNotFoundError:
        return
    os.kill(pid, signal.SIGKILL)


class Dying(HttpConnector):
    """Leaves the id of its process in the folder before it sends, for others who kill it."""

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        folder, pid = Path(os.environ[FOLDER]), os.getpid()
        (folder / "sender").write_text(str(pid))
        dies(folder, OPENED, pid)

        def mark() -> None:
            barrier()
            dies(folder, MARKED, pid)

        seen = super().send(sending, mark)
        dies(folder, ANSWERED, pid)
        return seen
