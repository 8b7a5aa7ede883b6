"""One process that is kept running: started, started again, stopped with whatever it had started itself."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from config.supervisor.words import log_of, say, short
from config.var import PROJECT

STOP_SECONDS = 12
LONGEST_PAUSE = 30.0
CALM_SECONDS = 60
"""A process that ran this long gets the shortest pause again when it ends."""
LOG_BYTES = 20_000_000


@dataclass
class Service:
    name: str
    command: list[str]
    environment: dict[str, str]
    lock: int
    socket: int | None = None
    """Where it listens, if it does."""
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    start_at: float = 0.0
    pause: float = 0.5
    orphans: list[tuple[float, int]] = field(default_factory=list)
    """When to kill which process group of an ended process."""

    @property
    def is_simulator(self) -> bool:
        return "examples.simulators" in " ".join(self.command)

    def start(self) -> None:
        log = log_of(self.name)
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                self.command,
                cwd=PROJECT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(self.lock,) if self.socket is None else (self.lock, self.socket),
                start_new_session=True,  # Ctrl-C is for the supervisor; it tells the main processes only
                preexec_fn=end_with_parent(os.getpid()),
            )
        self.started_at = time.monotonic()

    def has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def plan_restart(self) -> None:
        assert self.process is not None
        ran = time.monotonic() - self.started_at
        self.pause = 0.5 if ran > CALM_SECONDS else min(self.pause * 2, LONGEST_PAUSE)
        self.start_at = time.monotonic() + self.pause
        code = self.process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        say(f"{self.name} {how}; starting it again in {self.pause:g} s ({short(log_of(self.name))})")
        # What the ended process had started may not know that it is gone (the sentinel of a q2 cluster does not).
        send(os.killpg, self.process.pid, signal.SIGTERM)
        self.orphans.append((time.monotonic() + STOP_SECONDS, self.process.pid))
        self.process = None

    def kill_orphans(self, *, now: float) -> None:
        """Those of ended processes that were told to stop long enough before `now`."""
        for _, group in (due for due in self.orphans if due[0] <= now):
            send(os.killpg, group, signal.SIGKILL)
        self.orphans = [later for later in self.orphans if later[0] > now]


def tend(services: list[Service]) -> None:
    for service in services:
        service.kill_orphans(now=time.monotonic())
        if service.has_ended():
            service.plan_restart()
        elif service.process is None and time.monotonic() >= service.start_at:
            service.start()


def next_start(services: list[Service]) -> float:
    """Seconds until something is due: a planned start, or just another look."""
    planned = [s.start_at - time.monotonic() for s in services if s.process is None]
    return max(0.0, min([*planned, 5.0]))


def stop(services: list[Service], seconds: float) -> None:
    running = [s.process for s in services if s.process is not None]
    for process in running:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + seconds
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            say(f"Process {process.pid} did not stop within {seconds:g} s: killing it.")
        # Whatever is left of its group, orphans of a process that ended badly included.
        send(os.killpg, process.pid, signal.SIGKILL)
        process.wait()
    for service in services:
        service.kill_orphans(now=float("inf"))


def send(kill: Callable[[int, int], None], target: int, number: signal.Signals) -> None:
    try:
        kill(target, number)
    except ProcessLookupError:
        pass


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> Callable[[], None]:
    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # it ended before the line above
                os._exit(1)

    return in_child
