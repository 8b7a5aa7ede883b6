"""Real processes in a `var` of their own, and waiting for what they do by looking at it."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from config.var import PROJECT

T = TypeVar("T")
USER = "import sys; from config import database; print(database.login_url(), flush=True); sys.stdin.read()"


def until(look: Callable[[], T], *, seconds: float = 30, what: str = "it") -> T:
    """What `look` answers once that is true; fails when the time is over."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        select.select([], [], [], 0.02)
    return found


def environment(var: Path, **more: str) -> dict[str, str]:
    hidden = {"DATABASE_URL", "COUNTERFOIL_NO_DATABASE"}
    return {**{k: v for k, v in os.environ.items() if k not in hidden}, "COUNTERFOIL_VAR": str(var), **more}


@dataclass
class User:
    """A process that uses the embedded server until its input ends."""

    process: "subprocess.Popen[str]"

    @classmethod
    def start(cls, var: Path, code: str = USER) -> "User":
        return cls(
            subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=PROJECT,
                env=environment(var),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.leave()


@contextmanager
def user_of(var: Path) -> Iterator[str]:
    """The address of the server, used by another process for as long as the block runs."""
    user = User.start(var)
    try:
        yield user.says()
    finally:
        user.leave()


def postmaster(var: Path) -> int:
    return int((var / "postgres" / "postmaster.pid").read_text().split()[0])


def keepers(var: Path) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes()
            if b"config.keeper" in command and f"COUNTERFOIL_VAR={var}".encode() in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def has_stopped(var: Path) -> bool:
    return not (var / "postgres" / "postmaster.pid").exists() and not keepers(var)
