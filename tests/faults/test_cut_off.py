"""B6: one worker alone loses the database for longer than its lease, while the others go on."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from psycopg.conninfo import conninfo_to_dict

from examples.demos.workers import Cluster, live_workers
from tests.faults.conftest import ActingJob
from tests.support import eventually
from workflows.models import Worker
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


class Link:
    """A way to the database server that can be cut: what is open ends, and nothing new is let through."""

    def __init__(self, host: str, port: str) -> None:
        self._to = f"{host}/.s.PGSQL.{port or 5432}" if host.startswith("/") else (host, int(port or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.is_cut = False
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        self.is_cut = True
        for end in self._open:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def mend(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_cut:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX if isinstance(self._to, str) else socket.AF_INET)
            server.connect(self._to)
            self._open += [client, server]
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._relay, args=ends, daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


@pytest.fixture
def link() -> Iterator[Link]:
    parts = conninfo_to_dict(os.environ["DATABASE_URL"])
    made = Link(str(parts["host"]), str(parts.get("port", "")))
    yield made
    made.close()


def test_worker_that_is_cut_off_begins_nothing_more_and_comes_back_as_somebody_new(
    cluster: Callable[..., Cluster], acting_job: Callable[..., ActingJob], link: Link
) -> None:
    parts = conninfo_to_dict(os.environ["DATABASE_URL"])
    through = f"postgresql://{parts['user']}@127.0.0.1:{link.port}/{parts['dbname']}"
    cut_off = cluster(slots=2, lease=2, DATABASE_URL=through)
    (first,) = live_workers()
    job = acting_job("gated", "gated", *["fine"] * 18)
    eventually(lambda: len(job.starts()) == 2, what="two runs")
    link.cut()
    cluster(workers=1, slots=4, lease=2)
    eventually(lambda: len(job.said()) == 18, seconds=40, what="all but the two that it held")
    begun = [s for s in job.starts() if s.pid == first.pid]
    assert len(begun) == 2
    job.go()
    job.settled(*[ItemState.SUCCEEDED] * 20)
    assert [s for s in job.starts() if s.pid == first.pid] == begun
    assert len(job.starts(1)) == len(job.starts(2)) == 2

    link.mend()
    eventually(
        lambda: job.outcomes()["stale"] == 2, seconds=30, what="the late results, recorded and not used"
    )
    eventually(
        lambda: Worker.objects.filter(pid=first.pid, ended_at=None).count() == 1, what="the worker, anew"
    )
    assert Worker.objects.get(pk=first.pk).ended_at is not None
    assert "was declared dead while it lived" in cut_off.log_text
