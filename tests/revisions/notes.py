"""What the handlers of this folder write down of themselves, and the gate at which some of them wait."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

LONGEST = 60.0


class Note(NamedTuple):
    """One time that a handler began."""

    revision: str
    step: str
    key: str
    pid: int


def write(folder: str, *, revision: str, step: str, key: str = "1") -> None:
    """One line, whole, whoever else writes."""
    line = f"{revision} {step} {key} {os.getpid()}\n".encode()
    notes = os.open(Path(folder) / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(notes, line)
    os.close(notes)


def read(folder: Path) -> list[Note]:
    path = folder / "notes"
    lines = path.read_text().splitlines() if path.exists() else []
    return [Note(revision, step, key, int(pid)) for revision, step, key, pid in map(str.split, lines)]


def wait_at_gate(folder: str, name: str) -> None:
    """Until the folder has a file "go", or one for this name."""
    gates = [Path(folder) / "go", Path(folder) / f"go {name}"]
    deadline = time.monotonic() + LONGEST
    while not any(gate.exists() for gate in gates) and time.monotonic() < deadline:
        threading.Event().wait(0.01)
