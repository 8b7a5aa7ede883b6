"""What left is taken at the connection, compared with what was approved, told on the slip, and a case when it differs."""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from access import outbound
from access.owner import as_owner
from access.tenancy import reading
from approvals.aftermath import earlier_ends
from approvals.models import Proposal
from dispatch.contracts import Timeouts
from dispatch.sent import HIDDEN, Approved, Recorder, Verdict, Written, compare
from dispatch.wire import Request, exchange
from reconciliation.models import Case
from tests.approvals.pages import as_person, at, text
from tests.dispatch.faults import FaultServer, answers, fin, read_all
from tests.dispatch.world import (
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    as_json,
)
from workflows.models import Job

OK = answers(200, as_json(RECEIPT))
QUICK = Timeouts(connect=1, read=1, write=1)
CERTIFICATE = Path(__file__).parent / "localhost.pem"
BODY = b'{"amount":"12.50"}'


def approved(body: bytes = BODY, target: str = "http://127.0.0.1:9/a?b=c") -> Approved:
    return Approved("PUT", target, {"X-Key": "k", "Content-Type": "application/json"}, body)


def written(sent: Approved, *, cut: int | None = None, also: str = "", method: str = "PUT") -> Written | None:
    url = httpx.URL(sent.target)
    headers = "".join(f"{name}: {value}\r\n" for name, value in sent.headers.items())
    head = f"{method} {url.raw_path.decode()} HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n{headers}{also}\r\n"
    recorder = Recorder(("Authorization",))
    for byte in head.encode() + sent.body[:cut]:
        recorder.take(bytes([byte]))
    return recorder.written()


def test_the_approved_request_compares_equal_and_its_secret_is_hidden() -> None:
    sent = written(approved(), also="Authorization: Bearer s3cr3t\r\nContent-Length: 18\r\n")
    assert sent is not None
    assert compare(approved(), sent).verdict is Verdict.EQUAL
    assert "s3cr3t" not in sent.head
    assert ["Authorization", HIDDEN] in json.loads(sent.head)["headers"]


@pytest.mark.parametrize(
    ("sent", "point"),
    [
        (written(approved(b'{"amount":"12.51"}')), "the body, 18 bytes of"),
        (written(approved(BODY + b" ")), "the body, 19 bytes of"),
        (written(approved(), method="POST"), "the method POST"),
        (written(approved(target="http://127.0.0.1:9/a?b=d")), "the address http://127.0.0.1:9/a?b=d"),
        (written(approved(target="http://127.0.0.2:9/a?b=c")), "the address http://127.0.0.2:9/a?b=c"),
        (written(Approved("PUT", approved().target, {"X-Key": "l"}, BODY)), "the header x-key; the header content-type"),
        (written(approved(), also="X-Key: k\r\n"), "the header x-key"),
        (written(approved(), also="X-Also: 1\r\n"), "the header x-also, which nobody approved"),
    ],
)  # fmt: skip
def test_whatever_differs_is_named(sent: Written, point: str) -> None:
    found = compare(approved(), sent)
    assert (found.verdict, point in found.sentence) == (Verdict.DIFFERS, True)


def test_a_beginning_is_a_part_and_nothing_written_down_is_said_so() -> None:
    assert compare(approved(), written(approved(), cut=5)).verdict is Verdict.PART
    assert compare(approved(), None).verdict is Verdict.UNRECORDED


@settings(max_examples=40, deadline=None)
@given(st.binary(min_size=1, max_size=60), st.integers(0, 59), st.integers(1, 255))
def test_one_other_byte_anywhere_in_the_body_is_found(body: bytes, at: int, change: int) -> None:
    other = bytearray(body)
    other[at % len(body)] ^= change
    assert compare(approved(body), written(approved(bytes(other)))).verdict is Verdict.DIFFERS


@pytest.mark.parametrize("body", [b"", BODY, b"x" * 700_000])
def test_what_is_recorded_is_what_the_receiver_read(body: bytes) -> None:
    with FaultServer(OK) as server:
        request = Request(
            "PUT", f"{server.url}/a?b=%20c", {"X-Key": "k"}, body, {"Authorization": "Bearer s3"}
        )
        seen = exchange(request, QUICK)
    assert seen.written is not None
    assert seen.written.length == len(body)
    assert seen.written.digest == hashlib.sha256(server.received[0].partition(b"\r\n\r\n")[2]).hexdigest()
    assert compare(Approved("PUT", request.url, request.headers, body), seen.written).verdict is Verdict.EQUAL


@pytest.fixture
def secured(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[bytes]]]:
    """A server behind TLS whose certificate is trusted here, and what it read."""
    monkeypatch.setattr(
        outbound, "_certificates", lambda: ssl.create_default_context(cafile=str(CERTIFICATE))
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    read: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            with context.wrap_socket(plain, server_side=True) as secure:
                read.append(read_all(secure))
                secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"https://localhost:{listener.getsockname()[1]}/a", read
        thread.join(5)


def test_under_tls_it_is_what_goes_into_the_connection(secured: tuple[str, list[bytes]]) -> None:
    url, read = secured
    seen = exchange(Request("PUT", url, {"X-Key": "k"}, BODY), QUICK)
    assert (seen.status, seen.exception) == (200, "")
    assert read[0].endswith(BODY)
    assert compare(Approved("PUT", url, {"X-Key": "k"}, BODY), seen.written).verdict is Verdict.EQUAL


@pytest.mark.django_db(transaction=True)
def test_slip_and_job_say_that_the_sent_bytes_equal_the_approved_ones() -> None:
    with FaultServer(fin, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
    first, second = d.submissions(job)
    body = bytes(d.operation(job).proposed.body)
    assert [s.sent_digest for s in (first, second)] == [hashlib.sha256(body).hexdigest()] * 2
    assert [(s.sent_bytes, s.sent_differs) for s in (first, second)] == [(len(body), "")] * 2
    client, proposal = as_person(d.world.manager), d.operation(job).proposed.proposal
    slip = text(client.get(at(d.world, "approval", proposal)))
    assert "<strong>Sent bytes equal the approved bytes.</strong> 2 sends of its operation" in slip
    assert "Differences: none." in slip
    page = text(client.get(f"/t/{d.world.tenant.slug}/jobs/{job.pk}/"))
    assert page.count("The sent bytes equal the approved bytes.") == 2


@pytest.mark.django_db(transaction=True)
def test_what_a_dead_sender_wrote_is_said_to_be_unrecorded() -> None:
    with FaultServer(answers(500)) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE dispatch_submission DISABLE TRIGGER USER")
        cursor.execute("UPDATE dispatch_submission SET sent_bytes = NULL, sent_head = '', sent_digest = ''")
        cursor.execute("ALTER TABLE dispatch_submission ENABLE TRIGGER USER")
    slip = text(as_person(d.world.manager).get(at(d.world, "approval", d.operation(job).proposed.proposal)))
    assert "No sent byte differs from the approved bytes." in slip
    assert "What left was not recorded: the sender stopped before it could." in slip


@pytest.mark.django_db(transaction=True)
def test_a_client_that_sends_something_else_is_found_out_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library between us and the socket changes the body: no second send, a case, and the slip says so."""
    real = httpx.Client.stream

    def tampering(self: httpx.Client, *args: Any, **more: Any) -> Any:
        return real(self, *args, **{**more, "content": more["content"].replace(b"4800.00", b"9800.00")})

    monkeypatch.setattr(httpx.Client, "stream", tampering)
    with FaultServer(fin, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert len(erp.received) == 1
    assert "operation.sent_differs" in d.events(job)
    assert d.submissions(job)[0].sent_differs.startswith("the body, ")
    with reading(d.tenant_id):
        kinds = sorted(Case.objects.filter(job=job).values_list("kind", flat=True))
    assert kinds == ["sent differs", "unknown outcome"]
    slip = text(as_person(d.world.manager).get(at(d.world, "approval", d.operation(job).proposed.proposal)))
    assert "Sent bytes differ from the approved bytes." in slip
    assert "What was sent differs from what was approved: the body, " in slip


def slip_of(d: Dispatching, job: Job) -> str:
    """The newest slip of a job as a manager reads it."""
    with reading(d.tenant_id):
        proposal = Proposal.objects.filter(job=job).latest("number")
    return text(as_person(d.world.manager).get(at(d.world, "approval", proposal)))


@pytest.mark.django_db(transaction=True)
def test_next_slip_on_the_record_says_why_the_last_one_failed_until_one_succeeds() -> None:
    refuse = answers(422, as_json({"code": "frozen", "message": "limit is frozen"}))
    contract = a_keyed_contract()
    with FaultServer(refuse, OK) as erp:
        d = Dispatching.make(erp.url, contract)
        refused = d.ready(recipient="")
        d.run(refused)
        assert d.operation(refused).state == "REFUSED"
        again, elsewhere = d.ready(recipient=""), d.ready("V-2", recipient="")
        said = slip_of(d, again)
        d.run(again)
        after = d.ready(recipient="")
    label = f"№ {d.operation(refused).proposed.proposal.label}"
    assert "<strong>The last time this was approved it was refused: " in said
    assert f'{label}</a> for V-1, <a class="ref" href="/t/{d.world.tenant.slug}/jobs/{refused.pk}/">' in said
    assert "The last time" not in slip_of(d, elsewhere)
    assert d.operation(again).state == "CONFIRMED"
    assert "The last time" not in slip_of(d, after)


@pytest.mark.django_db(transaction=True)
def test_an_unknown_outcome_for_the_same_recipient_is_told_though_the_record_is_another() -> None:
    with FaultServer(fin) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
    assert d.operation(job).state == "UNKNOWN"
    other = d.ready("V-2")
    said = slip_of(d, other)
    assert "The last time this was approved nobody knows yet what became of it" in said
    assert "for V-1, " in said
    with reading(d.tenant_id):
        proposal = Proposal.objects.select_related("job").get(job=other)
        with CaptureQueriesContext(connection) as asked:
            assert [e.record for e in earlier_ends(proposal)] == ["V-1"]
        assert len(asked) == 2
