"""A2: the queue's time-out strikes a real worker process while a request is on the wire and its answer is awaited."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from django_q.models import Task
from django_q.tasks import async_task

from dispatch.contracts import Timeouts
from examples.demos.workers import Cluster, live_workers
from tests.crash import dying
from tests.dispatch.faults import FaultServer, read_all
from tests.dispatch.own_connectors import installed
from tests.dispatch.test_flow import receipt
from tests.dispatch.world import Dispatching, a_contract
from tests.support import eventually
from workflows.models import Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes, pytest.mark.long]
PATIENT = Timeouts(connect=1, read=40, write=1, send_window=60)


class Holding:
    """Takes what is sent at once, and answers when it may."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.may_answer = Event()

    def __call__(self, connection: socket.socket) -> bytes:
        request = read_all(connection)
        record = request.split(b" ")[1].decode().rsplit("/", 1)[-1]
        self.taken.append(record)
        assert self.may_answer.wait(60)
        body = receipt(record)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)
        connection.close()
        return request


@pytest.fixture
def worker(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], int]]:
    """Starts a cluster of one worker process; calling it again tells the one that serves now.

    A receiver may use its connector "dying".
    """
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    cluster = Cluster(
        environment={
            "DATABASE_URL": os.environ["DATABASE_URL"],
            "COUNTERFOIL_WORKFLOWS": "tests.workflows_for_tests",
            "COUNTERFOIL_WORKERS": "1",
            "COUNTERFOIL_SLOTS": "2",
            "PYTHONPATH": path,
            dying.FOLDER: str(tmp_path),
        },
        log=tmp_path / "workers.log",
    )
    with installed(tmp_path, monkeypatch, dying="tests.crash.dying:Dying"):
        cluster.start()
        yield lambda: eventually(live_workers, seconds=30, what="a worker")[-1].pid
        cluster.kill()


def _alarm(pid: int) -> None:
    """A task of this process outstays its time: q2's SIGALRM ends it and then its process."""
    async_task("time.sleep", 600, timeout=1)
    eventually(lambda: Task.objects.filter(success=False).exists(), what="the alarm")
    assert "exceeded maximum timeout" in Task.objects.get(success=False).result


def _guard(pid: int) -> None:
    """The task catches the alarm, so q2's guard ends its process, and starts another one before."""
    async_task("tests.dispatch.stubborn.sleep_through", 600, timeout=1)
    eventually(lambda: {w.pid for w in live_workers()} - {pid}, seconds=30, what="the guard's new process")


def _bare_signal(pid: int) -> None:
    """SIGALRM where nobody has set a handler: it ends the process on the spot."""
    os.kill(pid, signal.SIGALRM)
    eventually(lambda: not _lives(pid), what="the end of the process")


@pytest.mark.parametrize("strike", [_alarm, _guard])
def test_answer_that_comes_after_the_time_out_is_recorded_before_the_process_ends(
    worker: Callable[[], int], strike: Callable[[int], None]
) -> None:
    holding, struck = Holding(), worker()
    with FaultServer(holding, holding) as server:
        d, job = _in_the_air(server, holding)
        strike(struck)
        holding.may_answer.set()
        eventually(lambda: d.job_state(job) == "CONFIRMED", what="the outcome")
        eventually(lambda: not _lives(struck), what="the end of the process")
        assert worker() != struck
        after = d.ready("V-2")
        eventually(lambda: d.job_state(after) == "CONFIRMED", what="the next one's outcome")
    assert holding.taken == ["V-1", "V-2"]
    assert len(d.submissions(job)) == 1


@pytest.mark.parametrize("strike", [_alarm, _bare_signal])
def test_send_whose_process_ended_before_the_answer_is_a_question_for_a_person_and_not_sent_again(
    worker: Callable[[], int], strike: Callable[[int], None]
) -> None:
    """At a receiver with neither key nor look-up; the answer comes when nobody waits for it any more."""
    holding, struck = Holding(), worker()
    with FaultServer(holding, holding) as server:
        d, job = _in_the_air(server, holding)
        strike(struck)
        eventually(lambda: not _lives(struck), seconds=30, what="the end of the process")
        holding.may_answer.set()
        eventually(lambda: d.job_state(job) == "NEEDS_RECONCILIATION", seconds=30, what="the question")
        after = d.ready("V-2")
        eventually(lambda: d.job_state(after) == "CONFIRMED", seconds=30, what="the next one's outcome")
    assert holding.taken == ["V-1", "V-2"]
    assert len(d.submissions(job)) == 1


@pytest.mark.parametrize(
    ("strike", "came_to"),
    [
        (_alarm, ("CONFIRMED", "applied")),
        (_guard, ("CONFIRMED", "applied")),
        (_bare_signal, ("NEEDS_RECONCILIATION", "unknown")),
    ],
)
def test_time_out_between_the_answer_and_its_record_has_nothing_sent_again(
    worker: Callable[[], int], strike: Callable[[int], None], came_to: tuple[str, str], tmp_path: Path
) -> None:
    """The process has read the answer and is held up before it saves it. A process that ends there takes the answer along."""
    holding, struck, held = Holding(), worker(), tmp_path / f"held-{dying.ANSWERED}"
    holding.may_answer.set()
    (tmp_path / f"hold-{dying.ANSWERED}").touch()
    with FaultServer(holding, holding) as server:
        d, job = _in_the_air(server, holding, connector="dying")
        eventually(held.exists, what="the answer, read")
        assert d.submissions(job)[0].closed_at is None
        strike(struck)
        (tmp_path / f"hold-{dying.ANSWERED}").unlink()
        eventually(lambda: d.job_state(job) == came_to[0], seconds=30, what=came_to[0])
        eventually(lambda: not _lives(struck), seconds=30, what="the end of the process")
        after = d.ready("V-2")
        eventually(lambda: d.job_state(after) == "CONFIRMED", seconds=30, what="the next one's outcome")
    assert holding.taken == ["V-1", "V-2"]
    assert [s.outcome for s in d.submissions(job)] == [came_to[1]]


def _in_the_air(server: FaultServer, holding: Holding, connector: str = "http") -> tuple[Dispatching, Job]:
    """A job whose request has arrived, is marked as begun, and has no outcome."""
    d = Dispatching.make(server.url, a_contract(timeouts=PATIENT, connector=connector))
    job = d.ready("V-1")
    eventually(lambda: holding.taken, what="the request")
    assert len(d.submissions(job)) == 1
    return d, job


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
