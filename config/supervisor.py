"""`make run`: everything on one machine, for trying it out and for development.

Sets the database up, then keeps the web server, the workers and the simulators (a receiver, a model provider, a document
index) running as separate processes, each with its log in `var/log`. A process that ends, however, is started again after a
pause that grows. Ctrl-C and SIGTERM stop everything; if this process is killed, the kernel sends its children SIGTERM.

    supervisor.lock   held by this process: the second `make run` says where the first one listens
    services.lock     held by this process and inherited by the services: what they are of a run that was killed
                      must be gone before the next one starts its own
"""

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from config import database, embedded
from config.var import PROJECT, var_directory, var_file

STOP_SECONDS = 12
READY_SECONDS = 90
LONGEST_PAUSE = 30.0
CALM_SECONDS = 60
"""A process that ran this long gets the shortest pause again when it ends."""
STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
LOG_BYTES = 20_000_000


class SetupFailed(Exception):
    """A step before the services failed; the message names its log."""


class Stopped(Exception):
    """Ctrl-C or SIGTERM came."""


# --- the run ----------------------------------------------------------------------------------------------------------


def run() -> int:
    """Set up, serve until told to stop, stop. The exit code is for the shell: 2 when the database cannot be used."""
    lock = os.open(var_file("run", "supervisor.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    if not _try_lock(lock):
        address = os.pread(lock, 1000, 0).decode()
        where = f"runs at {address}" if address else "is being started by another `make run`"
        say(f"Counterfoil already {where}. Stop it with Ctrl-C where it was started.")
        return 0
    os.ftruncate(lock, 0)
    signals = _Signals()
    services: list[_Service] = []
    try:
        services_lock = _wait_for_last_run(signals)
        database.check_server(database.login_url())
        addresses = _free_addresses()
        services.extend(_services(addresses, services_lock))
        _serve(services, addresses, signals, announce=lambda address: os.pwrite(lock, address.encode(), 0))
    except Stopped:
        return 0
    except (database.DatabaseUnusable, SetupFailed) as failed:
        say(str(failed))
        return 2
    finally:
        os.ftruncate(lock, 0)
        if services:
            say("Stopping …")
        _stop([s for s in services if not s.is_simulator], STOP_SECONDS)
        _stop([s for s in services if s.is_simulator], 3)
        embedded.leave_server()
        if services:
            say("Stopped. `make run` continues where this ended.")
    return 0


def _serve(
    services: "list[_Service]",
    addresses: "_Addresses",
    signals: "_Signals",
    *,
    announce: Callable[[str], object],
) -> None:
    environment = addresses.environment()
    _step("Preparing the database", ["manage.py", "migrate", "--noinput", "-v", "1"], environment, signals)
    _step(
        "Collecting static files",
        ["manage.py", "collectstatic", "--noinput", "-v", "0"],
        environment,
        signals,
    )
    _step("Loading the sample tenant", ["manage.py", "load_sample"], environment, signals)
    for service in services:
        service.start()
    _wait_until_healthy(addresses.web, services, signals)
    _step("Submitting the example jobs", ["manage.py", "submit_examples"], environment, signals)
    announce(addresses.web)
    _introduce(addresses, environment)
    while True:
        signals.wait(_next_start(services))
        _tend(services)


def _introduce(addresses: "_Addresses", environment: dict[str, str]) -> None:
    people = subprocess.run(
        [sys.executable, "manage.py", "load_sample", "--show"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    say("")
    say(f"Counterfoil is ready:  {addresses.web}")
    say(f"Simulated receiver:    {addresses.erp}")
    say(f"Simulated provider:    {addresses.provider}")
    say(f"Simulated bureau:      {addresses.bureau}")
    say(f"Simulated index:       {addresses.index}")
    say("")
    say(people.stdout.strip())
    say("")
    say(f"Logs are in {_short(var_file('log', 'web.log').parent)}. Ctrl-C stops everything.")


def _step(title: str, command: list[str], environment: dict[str, str], signals: "_Signals") -> None:
    signals.check()
    say(f"{title} …")
    log = var_file("log", "setup.log")
    with open(log, "ab") as output:
        start = output.tell()
        ended = subprocess.run(
            [sys.executable, *command],
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    signals.check()
    if ended.returncode != 0:
        with open(log, "rb") as written:
            written.seek(start)
            tail = written.read().decode(errors="replace").strip().splitlines()[-15:]
        say("\n".join(f"    {line}" for line in tail))
        raise SetupFailed(f"{title} failed (exit code {ended.returncode}): all of it is in {_short(log)}.")


def _wait_for_last_run(signals: "_Signals") -> int:
    """The lock that this run's services inherit, once nothing of a killed run is left."""
    lock = os.open(var_file("run", "services.lock"), os.O_RDONLY | os.O_CREAT, 0o644)
    began = time.monotonic()
    told: set[int] = set()
    while not _try_lock(lock):
        if not told:
            say("Waiting for the processes of the last run to end …")
        waited = time.monotonic() - began
        if waited > STOP_SECONDS + 8:
            raise SetupFailed(f"Processes of an earlier `make run` in {PROJECT} do not end: end them first.")
        # Whoever holds the lock while no supervisor lives has lost the one that would tell it to stop.
        for pid in _holders(lock):
            if waited > STOP_SECONDS:
                _send(os.kill, pid, signal.SIGKILL)
            elif pid not in told:
                _send(os.kill, pid, signal.SIGTERM)
            told.add(pid)
        signals.wait(0.2)
    return lock


def _try_lock(descriptor: int) -> bool:
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


def _wait_until_healthy(address: str, services: "list[_Service]", signals: "_Signals") -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _is_healthy(address):
        if time.monotonic() > deadline:
            raise SetupFailed(
                f"{address}/healthz did not answer within {READY_SECONDS} s: see {_short(_log_of('web'))}."
            )
        signals.wait(0.2)
        _tend(services)


def _is_healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=2) as answer:  # noqa: S310  (our own address)
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


# --- addresses --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Addresses:
    web: str
    erp: str
    provider: str
    bureau: str
    index: str

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONUNBUFFERED": "1",
            "COUNTERFOIL_ERP_URL": self.erp,
            "COUNTERFOIL_PROVIDER_URL": self.provider,
            "COUNTERFOIL_BUREAU_URL": self.bureau,
            "COUNTERFOIL_INDEX_URL": self.index,
        }


def _free_addresses() -> _Addresses:
    """The ports of the last run where they are free: proposals that wait name the receiver's address in full."""
    remembered = _remembered_ports()
    web = int(os.environ.get("COUNTERFOIL_PORT", "8000"))
    wanted = (
        ("web", web),
        ("erp", remembered.get("erp", 8101)),
        ("provider", remembered.get("provider", 8102)),
        ("bureau", remembered.get("bureau", 8103)),
        ("index", remembered.get("index", 8104)),
    )
    found: dict[str, int] = {}
    for name, port in wanted:
        free = next((p for p in range(port, port + 100) if p not in found.values() and _is_free(p)), None)
        if free is None:
            raise SetupFailed(f"No port from {port} to {port + 99} is free for {name}: end what uses them.")
        if free != port:
            say(f"Port {port} is taken: {name} takes {free}.")
        found[name] = free
    var_file("run", "ports.json").write_text(json.dumps(found))
    return _Addresses(**{name: f"http://127.0.0.1:{port}" for name, port in found.items()})


def _remembered_ports() -> dict[str, int]:
    try:
        ports: dict[str, int] = json.loads(var_file("run", "ports.json").read_text())
    except (OSError, ValueError):
        return {}
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one in TIME_WAIT is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


# --- services ---------------------------------------------------------------------------------------------------------


def _services(addresses: _Addresses, lock: int) -> "list[_Service]":
    var = var_directory()
    script = "examples/simulators/provider_script.json"
    commands = {
        "erp": _simulator("erp", addresses.erp, var / "erp.sqlite3"),
        "index": _simulator("index", addresses.index, var / "index.sqlite3"),
        "provider": [
            *_simulator("provider", addresses.provider, var / "provider.sqlite3"),
            "--script",
            script,
        ],
        "bureau": _simulator("bureau", addresses.bureau, var / "bureau.sqlite3"),
        "web": [
            *(sys.executable, "-m", "gunicorn", "config.wsgi", "-w", "2", "--threads", "4"),
            *(
                "-b",
                addresses.web.removeprefix("http://"),
                "--graceful-timeout",
                "8",
                "--access-logfile",
                "-",
            ),
        ],
        "workers": [sys.executable, "manage.py", "qcluster"],
    }
    return [_Service(name, command, addresses.environment(), lock) for name, command in commands.items()]


def _simulator(name: str, address: str, file: Path) -> list[str]:
    port = address.rsplit(":", 1)[1]
    return [sys.executable, "-m", f"examples.simulators.{name}", "--port", port, "--database", str(file)]


@dataclass
class _Service:
    name: str
    command: list[str]
    environment: dict[str, str]
    lock: int
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
        log = _log_of(self.name)
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
                pass_fds=(self.lock,),
                start_new_session=True,  # Ctrl-C is for the supervisor; it tells the main processes only
                preexec_fn=_end_with_parent(os.getpid()),
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
        say(f"{self.name} {how}; starting it again in {self.pause:g} s ({_short(_log_of(self.name))})")
        # What the ended process had started may not know that it is gone (the sentinel of a q2 cluster does not).
        _send(os.killpg, self.process.pid, signal.SIGTERM)
        self.orphans.append((time.monotonic() + STOP_SECONDS, self.process.pid))
        self.process = None

    def kill_orphans(self, *, now: float) -> None:
        """Those of ended processes that were told to stop long enough before `now`."""
        for _, group in (due for due in self.orphans if due[0] <= now):
            _send(os.killpg, group, signal.SIGKILL)
        self.orphans = [later for later in self.orphans if later[0] > now]


def _tend(services: list[_Service]) -> None:
    for service in services:
        service.kill_orphans(now=time.monotonic())
        if service.has_ended():
            service.plan_restart()
        elif service.process is None and time.monotonic() >= service.start_at:
            service.start()


def _next_start(services: list[_Service]) -> float:
    """Seconds until something is due: a planned start, or just another look."""
    planned = [s.start_at - time.monotonic() for s in services if s.process is None]
    return max(0.0, min([*planned, 5.0]))


def _stop(services: list[_Service], seconds: float) -> None:
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
        _send(os.killpg, process.pid, signal.SIGKILL)
        process.wait()
    for service in services:
        service.kill_orphans(now=float("inf"))


def _send(kill: Callable[[int, int], None], target: int, number: signal.Signals) -> None:
    try:
        kill(target, number)
    except ProcessLookupError:
        pass


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _end_with_parent(parent: int) -> Callable[[], None]:
    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # it ended before the line above
                os._exit(1)

    return in_child


# --- signals and words ------------------------------------------------------------------------------------------------


class _Signals:
    """Stop signals and ended children wake one wait; nothing is done inside a handler."""

    def __init__(self) -> None:
        self._stop = False
        self._awake, writer = os.pipe()
        os.set_blocking(self._awake, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._remember)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def wait(self, seconds: float) -> None:
        """Return after that time, or at once when a child ended; raise Stopped when told to stop."""
        self.check()
        if select.select([self._awake], [], [], seconds)[0]:
            os.read(self._awake, 4096)
        self.check()

    def check(self) -> None:
        if self._stop:
            raise Stopped

    def _remember(self, *_: object) -> None:
        self._stop = True


def say(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError:  # the terminal is gone; stopping must go on
        pass


def _log_of(name: str) -> Path:
    return var_file("log", f"{name}.log")


def _short(path: Path) -> str:
    return str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else str(path)


if __name__ == "__main__":
    if sys.argv[1:] != ["run"]:
        sys.exit("Use: python -m config.supervisor run")
    sys.exit(run())
