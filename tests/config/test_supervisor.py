"""The supervisor's promises about the processes it starts."""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from config.supervisor import addresses, processes
from config.var import PROJECT
from tests.config.processes import environment, is_running, until

pytestmark = pytest.mark.processes

SLEEPER = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)",
]
PARENT = [
    sys.executable,
    "-c",
    "import os, time; os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)",
]
LEFT_BEHIND = """
import fcntl, os, sys, time
os.makedirs(os.path.dirname(sys.argv[1]))
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY | os.O_CREAT), fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(600)
"""
OWNER = """
import os, sys, time
from config.supervisor.processes import Service
lock = os.open(sys.argv[1], os.O_RDONLY | os.O_CREAT)
service = Service("child", [sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), lock)
service.start()
print(service.process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[processes.Service]:
    monkeypatch.setenv("COUNTERFOIL_VAR", str(tmp_path))
    lock = os.open(tmp_path / "lock", os.O_RDONLY | os.O_CREAT)
    made = processes.Service("child", getattr(request, "param", SLEEPER), dict(os.environ), lock)
    yield made
    processes.stop([made], 0)
    os.close(lock)


def _printed(tmp_path: Path, count: int) -> list[int]:
    log = tmp_path / "log" / "child.log"
    return until(lambda: len(found := [int(line) for line in log.read_text().split()]) >= count and found)


def test_process_that_was_killed_is_started_again(
    service: processes.Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.start()
    [first] = _printed(tmp_path, 1)
    os.kill(first, signal.SIGKILL)
    until(service.has_ended)
    until(lambda: processes.tend([service]) or len(_printed(tmp_path, 1)) == 2)
    assert "child was ended by SIGKILL; starting it again in 1 s" in capsys.readouterr().out


@pytest.mark.parametrize("service", [PARENT], indirect=True)
def test_what_an_ended_process_had_started_is_told_to_stop(
    service: processes.Service, tmp_path: Path
) -> None:
    service.start()
    assert service.process is not None
    parent = service.process.pid
    [child] = set(_printed(tmp_path, 2)) - {parent}
    os.kill(parent, signal.SIGKILL)
    until(service.has_ended)
    assert is_running(child)
    service.plan_restart()
    until(lambda: not is_running(child))


def test_run_ends_what_a_killed_run_left_behind(tmp_path: Path) -> None:
    left = subprocess.Popen(
        [sys.executable, "-c", LEFT_BEHIND, str(tmp_path / "run" / "services.lock")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert left.stdout is not None
    left.stdout.readline()
    ended = subprocess.run(
        [sys.executable, "-m", "config.supervisor", "run"],
        cwd=PROJECT,
        env=environment(tmp_path, DATABASE_URL="postgresql://a@/b?host=/nonexistent"),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    left.communicate()
    assert left.returncode == -signal.SIGTERM
    assert ended.returncode == 2
    waiting, unreachable = ended.stdout.splitlines()
    assert waiting == "Waiting for the processes of the last run to end …"
    assert unreachable.startswith("The database server at /nonexistent cannot be reached")


def test_pause_grows_while_a_process_keeps_ending(service: processes.Service) -> None:
    pauses = []
    for _ in range(8):
        service.process = subprocess.Popen([sys.executable, "-c", ""])
        service.process.wait()
        service.started_at = time.monotonic()
        service.plan_restart()
        pauses.append(service.pause)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize("service", [STUBBORN], indirect=True)
def test_process_that_ignores_the_stop_is_killed(service: processes.Service, tmp_path: Path) -> None:
    service.start()
    [pid] = _printed(tmp_path, 1)
    processes.stop([service], 0.2)
    assert not is_running(pid)


def test_children_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "lock")],
        cwd=PROJECT,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    child = int(owner.stdout.readline())
    assert is_running(child)
    owner.kill()
    owner.communicate()
    until(lambda: not is_running(child))


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("http://127.0.0.1:8000", "Counterfoil already runs at http://127.0.0.1:8000."),
        ("", "Counterfoil already is being started by another `make run`."),
    ],
)
def test_second_run_says_where_the_first_one_listens(tmp_path: Path, written: str, sentence: str) -> None:
    (tmp_path / "run").mkdir()
    lock = os.open(tmp_path / "run" / "supervisor.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, written.encode())
    ended = subprocess.run(
        [sys.executable, "-m", "config.supervisor", "run"],
        cwd=PROJECT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    os.close(lock)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(sentence)


def test_taken_port_is_passed_over_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNTERFOIL_VAR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("COUNTERFOIL_PORT", str(port))
        with addresses.addresses_taken() as found:
            address = found.web
    assert address != f"http://127.0.0.1:{port}"
    assert f"Port {port} is taken: web takes {address.rsplit(':', 1)[1]}." in capsys.readouterr().out


def test_two_runs_that_choose_before_either_has_started_anything_take_other_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And so do runs whose ports are remembered from a time when the other was not there."""
    for remembered in (False, True):
        with ExitStack() as held:
            found = []
            for folder in ("one", "two"):
                monkeypatch.setenv("COUNTERFOIL_VAR", str(tmp_path / folder))
                if remembered:
                    shutil.copy(tmp_path / "one" / "run" / "ports.json", tmp_path / folder / "run" / "other")
                    (tmp_path / folder / "run" / "other").replace(tmp_path / folder / "run" / "ports.json")
                found.append(held.enter_context(addresses.addresses_taken()))
            first, second = (
                {a.web, a.erp, a.provider, a.bureau, a.index, a.post, a.mail_port} for a in found
            )
            assert (len(first), len(second), first & second) == (7, 7, set())


def test_request_that_comes_before_a_simulator_has_started_waits_for_it(
    service: processes.Service, tmp_path: Path
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        client.settimeout(30)
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: erp\r\n\r\n")
        service.socket = listening.fileno()
        service.command = [
            *(sys.executable, "-m", "examples.simulators.erp"),
            *("--socket", str(service.socket), "--database", str(tmp_path / "erp.sqlite3")),
        ]
        service.start()
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
