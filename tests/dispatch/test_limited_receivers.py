"""A receiver that comes back is not overrun: a limit of its name holds for its sends, and what waits says so."""

from __future__ import annotations

import socket
import time
from collections import deque
from datetime import datetime

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from access.tenancy import acting, reading
from dispatch.classification import Outcome
from dispatch.locks import database_clock
from dispatch.models import Operation, Submission
from dispatch.proofs import MACHINE
from tests.dispatch.faults import FaultServer, answers, read_all
from tests.dispatch.test_flow import receipt
from tests.dispatch.world import Dispatching, a_keyed_contract, as_engine
from tests.support import eventually
from workflows import hooks
from workflows.engine.engine import Engine
from workflows.models import Attempt, Job, Lane, Limit, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 500


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


@pytest.mark.long
def test_five_hundred_that_waited_for_a_receiver_come_back_at_its_pace_oldest_first() -> None:
    """C7: nothing listens, then something that takes ten a second; all are due in that instant, under such a limit."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    d = Dispatching.make(f"http://127.0.0.1:{port}", a_keyed_contract())
    with acting(d.tenant_id):
        Limit.objects.create(
            tenant_id=d.tenant_id,
            name="receiver-erp",
            requests_per_minute=600,
            changed_at=timezone.now(),
            changed_by="test",
        )
    for number in range(MANY):
        d.ready(f"V-{number:03}")
    engine, receiver = Engine(slots=8, lease_seconds=20), _TenASecond()
    engine.start_threads()
    try:
        eventually(lambda: _tried(d) >= 60, seconds=60, what="tries that reached nobody")
        with FaultServer(*[receiver] * (2 * MANY), port=port):
            back_at = _all_due(d)
            eventually(lambda: _confirmed(d) == MANY, seconds=400, what="every outcome")
    finally:
        engine.request_stop()
        engine.join()
    assert sorted(receiver.applied) == [f"V-{n:03}" for n in range(MANY)]
    begun = _begun_after(d, back_at)
    print(f"refused {receiver.refused} times, {MANY} in {(begun[-1][0] - begun[0][0]).total_seconds():.0f} s")
    assert receiver.refused <= MANY / 5
    for first, (since, _) in enumerate(begun):
        for last in range(first, len(begun)):
            passed = (begun[last][0] - since).total_seconds()
            assert last - first + 1 <= 60 + passed * 541 / 60 + 1
    firsts = list(dict.fromkeys(item for _, item in begun))
    overtaken = [sum(older < item for older in firsts[place:]) for place, item in enumerate(firsts)]
    assert sum(many > 8 for many in overtaken) <= 16


class _TenASecond:
    """Applies ten in any second, and refuses what is more than that."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.refused = 0
        self._times: deque[float] = deque([0.0] * 10, maxlen=10)

    def __call__(self, connection: socket.socket) -> bytes:
        if time.monotonic() - self._times[0] < 1:
            self.refused += 1
            return answers(429, b"{}", Retry_After="1")(connection)
        self._times.append(time.monotonic())
        request = _takes(connection)
        self.applied.append(_record(request))
        return request


def _tried(d: Dispatching) -> int:
    with reading(d.tenant_id):
        return Submission.objects.filter(outcome=Outcome.NOT_SENT).count()


def _confirmed(d: Dispatching) -> int:
    with reading(d.tenant_id):
        return Job.objects.filter(state="CONFIRMED").count()


def _all_due(d: Dispatching) -> datetime:
    """As after an hour without anybody there: whatever waits for its next try has waited long enough."""
    with acting(d.tenant_id):
        Operation.objects.filter(next_step_at__isnull=False).update(next_step_at=Now())
    as_engine(
        "UPDATE workflows_workitem SET next_attempt_at = clock_timestamp() WHERE state = %s",
        [ItemState.BACKING_OFF.number],
    )
    return database_clock()


def _begun_after(d: Dispatching, at: datetime) -> list[tuple[datetime, int]]:
    """When each attempt began, and whose it was, in order."""
    with reading(d.tenant_id):
        rows = Attempt.objects.filter(item__stage__name=MACHINE, started_at__gte=at)
        return list(rows.order_by("started_at").values_list("started_at", "item_id"))


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
