"""A COMMIT whose answer is lost: of the mark, and of the outcome. A proxy stands before PostgreSQL and drops it.

And an outcome that cannot be saved at once, because somebody else has the job."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from access.roles import Actor, ActorKind
from access.tenancy import acting
from dispatch import sending
from dispatch.looking import UNSEEN
from dispatch.marker import barrier
from dispatch.opening import Opened, open_submission
from dispatch.wire import exchange
from tests.dispatch.faults import FaultServer, answers
from tests.dispatch.world import RECEIPT, Dispatching, a_contract, as_json, states
from tests.support import eventually
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
W1 = Actor(ActorKind.WORKER, "worker-1")


class DroppingProxy:
    """Relays to the server. `drop` = "answer" lets the next COMMIT through and keeps its answer; "commit" keeps both.

    `commits`: how the COMMIT is known. That of the mark is no word: the end of an exchange that is a transaction.
    """

    def __init__(self, host: str, port: str) -> None:
        self.drop = ""
        self.commits: Callable[[bytes], bool] = lambda sent: b"COMMIT" in sent
        self._to = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        server = self._server()
        answers_go_on = threading.Event()
        answers_go_on.set()
        threading.Thread(target=self._back, args=(server, client, answers_go_on), daemon=True).start()
        try:
            while data := client.recv(65536):
                if self.drop and self.commits(data):
                    what, self.drop = self.drop, ""
                    answers_go_on.clear()
                    if what == "answer":
                        server.sendall(data)
                        # The backend has committed when it closes after the end of its input.
                        server.shutdown(socket.SHUT_WR)
                        self._until_closed(server)
                    break
                server.sendall(data)
        except OSError:
            pass
        for end in (client, server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def _back(self, server: socket.socket, client: socket.socket, goes_on: threading.Event) -> None:
        try:
            while data := server.recv(65536):
                if goes_on.is_set():
                    client.sendall(data)
        except OSError:
            pass

    def _until_closed(self, server: socket.socket) -> None:
        try:
            while server.recv(65536):
                pass
        except OSError:
            pass

    def _server(self) -> socket.socket:
        host, port = self._to
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port or 5432}")
            return server
        return socket.create_connection((host or "127.0.0.1", int(port or 5432)))


def sets_and_does(sent: bytes) -> bool:
    """Whether this runs two prepared statements and ends with Sync: the settings of a transaction, and all that it does."""
    kinds = b""
    while len(sent) >= 5:
        kinds += sent[:1]
        sent = sent[1 + int.from_bytes(sent[1:5], "big") :]
    return kinds.count(b"E") == 2 and kinds.endswith(b"S")


@pytest.fixture
def proxy(transactional_db: None) -> Iterator[DroppingProxy]:
    before = dict(connection.settings_dict)
    made = DroppingProxy(before["HOST"], before["PORT"])
    connection.close()
    connection.settings_dict.update(HOST="127.0.0.1", PORT=str(made.port))
    yield made
    connection.close()
    connection.settings_dict.update(HOST=before["HOST"], PORT=before["PORT"])
    made.close()


def opened(d: Dispatching, job: Job) -> Opened:
    operation = d.operation(job)
    found = open_submission(
        claim=d.claim(operation), operation_id=operation.pk, looked=UNSEEN, now=timezone.now()
    )
    assert isinstance(found, Opened)
    return found


def test_a_mark_whose_answer_was_lost_is_read_again_before_anything_is_sent(proxy: DroppingProxy) -> None:
    with FaultServer(answers(200, as_json(RECEIPT))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        send = opened(d, job)
        proxy.drop, proxy.commits = "answer", sets_and_does
        seen = exchange(send.request, send.contract.timeouts, barrier=barrier(send.sender))
        assert (seen.marked, seen.status, proxy.drop) == (True, 200, "")
        assert len(erp.received) == 1
    assert d.submissions(job)[0].may_have_been_sent_at is not None


def test_a_mark_that_was_not_committed_sends_nothing(proxy: DroppingProxy) -> None:
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        send = opened(d, job)
        proxy.drop, proxy.commits = "commit", sets_and_does
        seen = exchange(send.request, send.contract.timeouts, barrier=barrier(send.sender))
        assert (seen.marked, seen.exception, proxy.drop) == (False, "NotBegun", "")
        assert set(erp.received) <= {b""}
    assert d.submissions(job)[0].may_have_been_sent_at is None


@pytest.mark.parametrize("what", ["answer", "commit"])
def test_an_outcome_whose_commit_was_lost_is_written_once_and_never_sent_again(
    proxy: DroppingProxy, what: str
) -> None:
    with FaultServer(answers(200, as_json(RECEIPT))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        send = opened(d, job)
        seen = exchange(send.request, send.contract.timeouts, barrier=barrier(send.sender))
        proxy.drop = what
        sending.record_outcome(send, seen, W1)
        assert proxy.drop == ""
        assert len(erp.received) == 1
    assert d.job_state(job) == "CONFIRMED"
    assert d.events(job).count("submission.closed") == 1


def test_an_answer_waits_while_somebody_holds_the_job_for_longer_than_an_action_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A long transaction has the job from when the answer is on its way until after the first try to save it has
    given up. The answer is known, and so it is saved: a question for a person would be a lie."""
    monkeypatch.setattr(sending, "acting", partial(acting, lock_timeout_ms=100))
    with psycopg.connect(os.environ["DATABASE_URL"]) as holder, ThreadPoolExecutor() as pool:
        let_go: list[Future[None]] = []

        def answer(connection: socket.socket) -> bytes:
            holder.execute("SELECT 1 FROM workflows_job WHERE id = %s FOR UPDATE", [job.pk])
            let_go.append(pool.submit(release_after_a_try, holder))
            return answers(200, as_json(RECEIPT))(connection)

        with FaultServer(answer) as erp:
            d = Dispatching.make(erp.url, a_contract())
            job = d.ready()
            assert sending.run(d.claim(d.operation(job))) == sending.Done()
            let_go[0].result()
    assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
    assert [s.outcome for s in d.submissions(job)] == ["applied"]


def release_after_a_try(holder: psycopg.Connection[Any]) -> None:
    """End the holder's transaction once somebody has waited for it, and has stopped waiting."""

    def waits() -> bool:
        with psycopg.connect(os.environ["DATABASE_URL"]) as looking:
            row = looking.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))",
                [holder.info.backend_pid],
            ).fetchone()
        return row != (0,)

    try:
        eventually(waits, what="somebody who waits for the job")
        eventually(lambda: not waits(), what="the end of that wait")
    finally:
        holder.rollback()
