"""A receiver that comes back is not overrun: a limit of its name holds for its sends, and what waits says so."""

from __future__ import annotations

import socket

import pytest
from django.utils import timezone

from access.tenancy import acting, reading
from dispatch.proofs import MACHINE
from tests.dispatch.faults import FaultServer, read_all
from tests.dispatch.test_flow import receipt
from tests.dispatch.world import Dispatching, a_keyed_contract
from tests.support import eventually
from workflows import hooks
from workflows.engine.engine import Engine
from workflows.models import Job, Lane, Limit, WorkItem

pytestmark = pytest.mark.django_db(transaction=True)


def test_sends_to_a_receiver_under_a_limit_keep_to_it_oldest_first() -> None:
    with FaultServer(*[_takes] * 3) as server:
        d = Dispatching.make(server.url, a_keyed_contract())
        with acting(d.tenant_id):
            Limit.objects.create(
                tenant_id=d.tenant_id,
                name="receiver-erp",
                requests_per_minute=2,
                changed_at=timezone.now(),
                changed_by="test",
            )
        jobs = [d.ready(f"V-{n}") for n in range(1, 4)]
        with reading(d.tenant_id):
            lanes = WorkItem.objects.filter(stage__name=MACHINE).values_list("lane_id", "limited")
            lane = Lane.objects.get(name="receiver-erp")
            assert list(lanes) == [(lane.pk, True)] * 3
        engine = Engine(slots=4, lease_seconds=20)
        engine.start_threads()
        try:
            eventually(lambda: d.job_state(jobs[0]) == "CONFIRMED", what="the oldest to be sent")
            sentence = eventually(lambda: why(d, jobs[1]), what="the reason")
            assert sentence.startswith("waiting for limit receiver-erp until ")
            assert records(server) == ["V-1"]
            with acting(d.tenant_id):
                Limit.objects.update(requests_per_minute=60_000, requests_due=None, closed_until=None)
            eventually(lambda: all(d.job_state(j) == "CONFIRMED" for j in jobs), what="the others to be sent")
        finally:
            engine.request_stop()
            engine.join()
        assert sorted(records(server)) == ["V-1", "V-2", "V-3"]


def _takes(connection: socket.socket) -> bytes:
    """Applies whatever is sent, and says so."""
    request = read_all(connection)
    body = receipt(_record(request))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    connection.sendall(head + body)
    connection.close()
    return request


def _record(request: bytes) -> str:
    return request.split(b" ")[1].decode().rsplit("/", 1)[-1]


def records(server: FaultServer) -> list[str]:
    """The records that were sent, in the order of arrival."""
    return [_record(request) for request in server.received if request]


def why(d: Dispatching, job: Job) -> str:
    with reading(d.tenant_id):
        said = hooks.why_waiting(Job.objects.get(pk=job.pk)) or ""
        return said if "limit" in said else ""
