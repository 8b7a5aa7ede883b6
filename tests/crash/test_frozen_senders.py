"""B3: the process that sends is frozen past its lease, and another takes over; then it wakes, with the socket in its hand."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from access.tenancy import reading
from dispatch.contracts import Contract, Timeouts
from tests import clusters
from tests.crash import dying
from tests.crash.dying import CONNECTED, MARKED
from tests.dispatch.own_connectors import installed
from tests.dispatch.world import Dispatching, a_contract, a_keyed_contract, receipt
from tests.support import eventually, install
from workflows.models import Attempt, Job, Worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
WORKFLOWS = "tests.workflows_for_tests"
PATIENT = Timeouts(connect=1, read=40, write=1, send_window=60)
"""Nobody is told by the time to send: what stops the sender that wakes is the mark alone."""


class Receiver(ThreadingHTTPServer):
    """Does what it is asked as it arrives, but once for a key that it recognises; keeps every request as it came."""

    def __init__(self, *, recognises: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.recognises = recognises
        self.requests: list[tuple[str, str, bytes]] = []
        self.effects: Counter[str] = Counter()
        self.book = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def listening(self) -> Iterator[None]:
        thread = threading.Thread(target=self.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            self.server_close()
            thread.join()


class _Answers(BaseHTTPRequestHandler):
    server: Receiver

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        record, key = self.path.rpartition("/")[2], self.headers.get("Idempotency-Key") or ""
        with self.server.book:
            known = any(key and k == key for _, k, _ in self.server.requests)
            self.server.requests.append((record, key, body))
            if not (self.server.recognises and known):
                self.server.effects[record] += 1
        said = receipt(record)
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


SENT_BY_THE_OTHER = ("CONFIRMED", ["not sent", "applied"])
CASES = {
    "no key, before the mark": (a_contract(), CONNECTED, SENT_BY_THE_OTHER, SENT_BY_THE_OTHER, 1),
    "no key, after the mark": (
        a_contract(),
        MARKED,
        ("NEEDS_RECONCILIATION", ["unknown"]),
        ("CONFIRMED", ["unknown"]),
        1,
    ),
    "key, before the mark": (a_keyed_contract(), CONNECTED, SENT_BY_THE_OTHER, SENT_BY_THE_OTHER, 1),
    "key, after the mark": (
        a_keyed_contract(),
        MARKED,
        ("CONFIRMED", ["unknown", "applied"]),
        ("CONFIRMED", ["unknown", "applied"]),
        2,
    ),
}
"""Contract and place; what has come of it while the sender sleeps, and once it has woken; the requests in all."""


@pytest.mark.parametrize("name", CASES)
def test_a_sender_that_slept_past_its_lease_makes_no_second_effect(
    name: str, transactional_db: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the mark it may not send any more. After it there is no further look: where nobody tells two requests apart,
    nobody else has sent, and its own late answer settles the question; where a key does, both carry it and the same bytes."""
    contract, point, asleep, awake, requests = CASES[name]
    install(settings, WORKFLOWS)
    receiver = Receiver(recognises=contract.deduplicates)
    with (
        installed(tmp_path, monkeypatch, dying="tests.crash.dying:Dying"),
        receiver.listening(),
        clusters.starting(tmp_path) as start,
    ):
        d = _at(receiver, contract)
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
        (tmp_path / point).write_text(dying.FREEZE)
        start(
            WORKFLOWS,
            workers=2,
            slots=2,
            PYTHONPATH=path,
            COUNTERFOIL_LEASE_SECONDS=2,
            **{dying.FOLDER: tmp_path},
        )
        job = d.ready("V-1")
        eventually(lambda: not (tmp_path / point).exists(), what="the sender at its place")
        frozen = int((tmp_path / "sender").read_text())
        sleeper = Worker.objects.get(pid=frozen, ended_at=None)
        try:
            eventually(lambda: _came_to(d, job) == asleep, seconds=30, what=f"what the other does: {asleep}")
            assert Worker.objects.get(pk=sleeper.pk).ended_why == "its lease ran out"
            assert len(receiver.requests) == requests - (point == MARKED)
        finally:
            os.kill(frozen, signal.SIGCONT)
        eventually(lambda: _late(d, job) == ["stale"], seconds=30, what="the end of the sleeper's attempt")
        eventually(lambda: _came_to(d, job) == awake, what=f"what the sleeper's end changes: {awake}")
    assert len(receiver.requests) == requests
    assert len(set(receiver.requests)) == 1
    assert receiver.effects == {"V-1": 1}


def _at(receiver: Receiver, contract: Contract) -> Dispatching:
    return Dispatching.make(
        receiver.url, contract.model_copy(update={"connector": "dying", "timeouts": PATIENT})
    )


def _came_to(d: Dispatching, job: Job) -> tuple[str, list[str]]:
    return d.job_state(job), [s.outcome for s in d.submissions(job)]


def _late(d: Dispatching, job: Job) -> list[str]:
    with reading(d.tenant_id):
        late = Attempt.objects.filter(item__job_id=job.pk, outcome="stale")
        return list(late.values_list("outcome", flat=True))
