"""What a worker costs that has nothing to do, and whether its memory stays where it is while it works."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.installation import Installation, installation, workers

_DONE = (
    "SELECT count(*) FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id"
    " WHERE w.state = 4 AND s.name = 'small'"
)
_TICKS = os.sysconf("SC_CLK_TCK")


def idle_percent(seconds: float = 20.0) -> float:
    """Percent of one core that one idle worker process uses, without q2's other processes and the database."""
    with installation() as there, workers(there, processes=1, slots=8):
        time.sleep(3)  # the start is not what is measured
        before = _cpu(_pid(there))
        time.sleep(seconds)
        return (_cpu(_pid(there)) - before) / seconds * 100


def memory(items: int, parts: int = 5) -> list[float]:
    """Megabytes of a worker process after each part of `items` fan-out items."""
    with installation() as there, workers(there, processes=1, slots=32):
        found = []
        for part in range(1, parts + 1):
            there.submit("bench-fan-out", {"items": items // parts})
            there.until(lambda until=part: there.one(_DONE) >= until * (items // parts), 600)  # type: ignore[misc]
            found.append(_resident(_pid(there)))
        return found


def _pid(there: Installation) -> int:
    return int(there.one("SELECT pid FROM workflows_worker WHERE ended_at IS NULL"))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000
