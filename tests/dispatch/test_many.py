"""A set of many operations: a send costs the same however many siblings it has, and looks at its own bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.tenancy import acting, reading
from dispatch import sending
from dispatch.actions.prepare import ring_open
from dispatch.models import Operation
from tests.dispatch.faults import Behaviour, FaultServer, answers, read_all
from tests.dispatch.world import BODY, Dispatching, a_contract, a_keyed_contract, as_owner
from workflows.locks import lock_job
from workflows.models import Job, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
URL = "http://127.0.0.1:9"


def applies() -> Behaviour:
    """Answers with a receipt for whatever record is asked for."""

    def answer(connection: object) -> bytes:
        data = read_all(connection)  # type: ignore[arg-type]
        record = data.split()[1].decode().rsplit("/", 1)[1]
        body = json.dumps({"id": f"R-{record}", "record": record, "fields": BODY}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        connection.sendall(head + body)  # type: ignore[attr-defined]
        connection.close()  # type: ignore[attr-defined]
        return data

    return answer


def a_set(d: Dispatching, size: int, **changes: object) -> tuple[Job, list[Operation]]:
    numbers = count(1)
    job = d.ready(*(f"V-{next(numbers):03d}" for _ in range(size)), **{"independent": True, **changes})
    return job, d.operations(job)


def statements(call: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as captured:
        call()
    return len(captured)


def ready_items(d: Dispatching) -> list[tuple[str, int]]:
    """Keys and ranks of what may be claimed, in the order in which it is."""
    with reading(d.tenant_id):
        items = WorkItem.objects.filter(stage__name=sending.MACHINE, state=ItemState.READY.number)
        return list(items.order_by("rank", "pk").values_list("key", "rank"))


def test_a_send_asks_the_database_as_often_among_thirty_siblings_as_among_three() -> None:
    found = []
    for size in (3, 30):
        with FaultServer(*(applies() for _ in range(2))) as erp:
            d = Dispatching.make(erp.url, a_keyed_contract())
            _, operations = a_set(d, size)
            first, second = d.claim(operations[0]), d.claim(operations[1])
            sending.run(first)
            found.append(statements(lambda: sending.run(second)))  # noqa: B023 - called here

    assert found[0] == found[1]


def test_a_set_is_prepared_in_as_many_statements_whatever_its_size() -> None:
    d = Dispatching.make(URL, a_contract())
    found = []
    for size in (2, 20):
        job, _ = a_set(d, size)
        with acting(d.tenant_id):
            locked = lock_job(job.pk)
            found.append(statements(lambda: ring_open(locked)))  # noqa: B023 - called here
        assert sum(1 for _ in d.operations(job)) == size

    assert found[0] == found[1]


def test_operations_of_a_set_are_rung_once_each_and_take_turns_in_their_order() -> None:
    d = Dispatching.make(URL, a_contract())
    _, operations = a_set(d, 4)

    rung = ready_items(d)

    assert [key for key, _ in rung] == [str(o.pk) for o in operations]
    assert [rank - rung[0][1] for _, rank in rung] == [0, 1, 2, 3]


def test_every_operation_of_a_set_is_sent_and_the_last_one_confirms_the_job() -> None:
    with FaultServer(*(applies() for _ in range(5))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job, operations = a_set(d, 5)
        for one in (operations[3], operations[0], operations[4], operations[2]):
            d.step(one)
            assert d.job_state(job) == "SUBMITTED"
        d.step(operations[1])

    assert d.job_state(job) == "CONFIRMED"
    assert [o.state for o in d.operations(job)] == ["CONFIRMED"] * 5
    assert len(erp.received) == 5


def test_only_the_operation_whose_turn_has_come_is_rung_by_the_one_before_it() -> None:
    with FaultServer(applies(), applies()) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job, operations = a_set(d, 4, independent=False)
        d.step(operations[0])
        for one in operations[2:]:
            d.step(one)
        assert len(erp.received) == 1

        d.step(operations[1])

    assert len(erp.received) == 2
    assert [o.state for o in d.operations(job)] == ["CONFIRMED", "CONFIRMED", "PREPARED", "PREPARED"]
    # Both were called too early; the third is called again by the second's receipt, the fourth waits for the third.
    assert [d.item(o).next_attempt_at is not None for o in operations[2:]] == [True, False]


def test_bytes_that_were_changed_are_not_sent_though_their_siblings_were() -> None:
    with FaultServer(applies(), applies()) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job, operations = a_set(d, 3)
        d.step(operations[0])
        changed = "body = 'other', body_digest = encode(sha256('other'), 'hex') WHERE id = %s"
        as_owner("approvals_proposedoperation", changed, [operations[1].proposed_id])

        d.step(operations[2])
        d.step(operations[1])

    assert len(erp.received) == 2
    assert [o.state for o in d.operations(job)] == ["CONFIRMED", "PREPARED", "CONFIRMED"]
    assert (d.job_state(job), d.events(job).count("send.check_failed")) == ("NEEDS_RECONCILIATION", 1)


def test_before_the_first_send_the_bytes_of_the_whole_set_are_looked_at() -> None:
    with FaultServer(answers(500)) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job, operations = a_set(d, 3)
        as_owner(
            "approvals_proposedoperation",
            "target = target || '/x' WHERE id = %s",
            [operations[2].proposed_id],
        )

        d.step(operations[0])

    assert erp.received == []
    assert d.job_state(job) == "VALIDATED"
