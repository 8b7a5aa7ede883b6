"""Which messages are taken next, over organisations, endpoints and processes; and exchanges that would never end."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import psycopg
import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting
from outbox.dispatcher import webhook
from outbox.dispatcher.claiming import Lane, claim
from outbox.dispatcher.dispatcher import Dispatcher
from outbox.dispatcher.outcomes import Later
from outbox.models import Endpoint
from outbox.writing import Notice, write
from tests.outbox.conftest import make_endpoint
from tests.outbox.receiving import SECRET
from tests.outbox.telling import messages, tell
from tests.support import make_person, make_tenant
from workflows.engine.connections import Connection, connect

OTHER = "env:COUNTERFOIL_WEBHOOK_OTHER"


@pytest.fixture
def engine(transactional_db: None) -> Iterator[Connection]:
    with connect("test") as connection:
        yield connection


def test_an_organisation_with_one_message_comes_before_anothers_second(
    tenant: Tenant, admin: Person, engine: Connection
) -> None:
    for n in range(8):
        make_endpoint(tenant, admin, "http://127.0.0.1:9/", name=f"e{n}")
    tell(tenant, keys=[f"k{n}" for n in range(50)])
    other = make_tenant()
    make_endpoint(other, make_person(other, Role.ADMIN), "http://127.0.0.1:9/", secret=OTHER)
    tell(other)
    taken = claim(engine, Lane.PROMPT, 4, "d1")
    assert sorted(c.tenant_id for c in taken) == sorted([tenant.pk] * 3 + [other.pk])


def test_an_endpoint_that_lags_stands_in_a_lane_of_its_own(
    tenant: Tenant, admin: Person, engine: Connection
) -> None:
    make_endpoint(tenant, admin, "http://127.0.0.1:9/", name="lags")
    make_endpoint(tenant, admin, "http://127.0.0.1:9/", name="answers")
    with acting(tenant.pk):
        Endpoint.objects.filter(name="lags").update(lagging_since=timezone.now())
    tell(tenant)
    lags, answers = messages(tenant)
    assert [c.message_id for c in claim(engine, Lane.PROMPT, 4, "d1")] == [answers.pk]
    assert [c.message_id for c in claim(engine, Lane.LAGGING, 4, "d1")] == [lags.pk]
    assert claim(engine, Lane.MAIL, 4, "d1") == []


def test_an_endpoint_has_two_under_way_over_all_processes_and_a_lease_that_ends_frees_its_place(
    tenant: Tenant, admin: Person, endpoint: Endpoint, engine: Connection
) -> None:
    tell(tenant, keys=["a", "b", "c"])
    first = [c.message_id for c in claim(engine, Lane.PROMPT, 4, "d1")]
    assert first == [m.pk for m in messages(tenant)[:2]]
    assert claim(engine, Lane.PROMPT, 4, "d2") == []
    engine.execute(
        "UPDATE outbox_message SET next_attempt_at = now() - interval '1 s' WHERE id = %s", [first[0]]
    )
    again = claim(engine, Lane.PROMPT, 4, "d2")
    assert [(c.message_id, c.number) for c in again] == [(first[0], 2)]


def test_a_notice_of_an_event_that_nobody_declared_is_a_fault_of_ours(tenant: Tenant) -> None:
    with pytest.raises(ValueError, match=r"no\.such"), acting(tenant.pk):
        write(Notice(event="no.such", key="k", title="t", page="home"), now=timezone.now())


@pytest.fixture
def dripping() -> Iterator[str]:
    """An endpoint that answers a byte now and then, and never comes to the end of its headers."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            taken, _ = server.accept()
            with taken:
                try:
                    taken.sendall(b"HTTP/1.1 204 No Content\r\nX: ")
                    while not ended.wait(0.02):
                        taken.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        ended.set()
        thread.join(10)


def test_an_endpoint_that_answers_a_byte_now_and_then_holds_nobody(
    dripping: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "SECONDS", 0.5)
    outcome = webhook.post(webhook.Post(dripping, "msg_1", json.dumps({}), [SECRET]), timezone.now())
    assert isinstance(outcome, Later)
    assert outcome.said.startswith("No answer: ReadTimeout")


@pytest.mark.parametrize(
    ("error", "level", "traced"),
    [
        (psycopg.OperationalError("the server is away"), "WARNING", False),
        (psycopg.errors.UndefinedColumn("no such column"), "ERROR", True),
        (TypeError("a fault of ours"), "ERROR", True),
    ],
)
def test_a_dispatcher_says_an_outage_in_a_line_and_a_fault_of_ours_with_its_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception, level: str, traced: bool
) -> None:
    turns = iter([False, True])

    def connect_in_vain() -> Connection:
        raise error

    Dispatcher(name="d1", connect=connect_in_vain, clock=timezone.now, stopping=lambda: next(turns)).run()
    (record,) = caplog.records
    assert (record.levelname, record.exc_info is not None) == (level, traced)
    assert str(error) in caplog.text
