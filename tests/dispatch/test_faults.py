"""Every row of faults, brought about by real sockets: what the client sees, whether it is marked, what it comes to."""

from __future__ import annotations

import importlib.metadata
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import httpx
import pytest
import trustme

from access import outbound
from dispatch.classification import Outcome, Reading, read_exchange
from dispatch.contracts import Action, KeyLocation, Meaning, Signal, Timeouts
from dispatch.wire import FIRST_BYTE, Exchange, NotBegun, Request, exchange
from tests.dispatch.faults import (
    Behaviour,
    FaultServer,
    answers,
    closes_midway,
    drips,
    early,
    fin,
    read_all,
    reset_after_read,
    reset_at_once,
    resets_midway,
    says,
    silence,
    sips,
    stops_reading,
)
from tests.dispatch.world import BODY, RECEIPT, a_contract, as_json
from tests.support import eventually

O = Outcome  # noqa: E741 - a table reads better with one letter
NOW = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)
QUICK = Timeouts(connect=0.3, read=0.3, write=0.3)
SMALL = as_json(BODY)
LARGE = as_json({**BODY, "note": "x" * 12_000_000})
"""More than the buffers of both sides hold."""
OK = answers(200, as_json(RECEIPT))
HEAD = b"HTTP/1.1 200 OK\r\n"


@dataclass(frozen=True)
class Row:
    """What the receiver does with a request, and what has to come of it."""

    does: Behaviour
    outcome: Outcome
    seen: str | int
    """The exception's name, or the status."""
    blocked: bool = False
    body: bytes = SMALL
    contract: dict[str, Any] = field(default_factory=dict)


KEYED = {
    "key_location": KeyLocation.HEADER, "key_name": "Idempotency-Key", "deduplicates": True, "retention": 86_400,
    "mismatch_signals": (Signal(status=422, path="code", equals="key_reused"),),
    "in_progress_signals": (Signal(status=409, path="code", equals="key_in_progress"),),
    "duplicate_signals": (Signal(status=409, path="code", equals="duplicate"),),
    "duplicate_is_proof": True, "duplicate_receipt_path": "existing",
}  # fmt: skip
EXISTS = as_json({"code": "duplicate", "existing": "R-1"})
SAYS_NOTHING = {
    "actions": {
        "update": Action(
            method="PUT",
            path="/vendors/{record}",
            success={"204": Meaning.APPLIED},
            receipt_required=False,
        )
    }
}
SAYS_WHY_NOT = {
    "actions": {"update": a_contract().actions["update"].model_copy(update={"errors_path": "userErrors"})}
}
MEANT = {
    (O.REFUSED, False): (400, 402, 404, 405, 410, 411, 412, 413, 414, 415, 422, 431, 451, 501),
    (O.NOT_APPLIED, True): (401, 403, 407),
    (O.NOT_APPLIED, False): (421, 425, 429),
    (O.PENDING, False): (202,),
    (O.UNKNOWN, False): (
        200, 201, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 307, 308, 399, 406, 408, 409, 416,
        417, 418, 423, 424, 426, 428, 499, 500, 502, 503, 504, 505, 506, 507, 508, 510, 511, 520, 599,
    ),
}  # fmt: skip
"""What each status means by itself and whether it waits for a person; a success names what it has done, or is doubt."""

ROWS = {
    # The connection broke, or nothing came.
    "reset before anything was read": Row(reset_at_once, O.UNKNOWN, "ReadError"),
    "reset after everything was read": Row(reset_after_read, O.UNKNOWN, "ReadError"),
    "end of stream after everything was read": Row(fin, O.UNKNOWN, "RemoteProtocolError"),
    "silence": Row(silence, O.UNKNOWN, "ReadTimeout"),
    "stops reading a large body": Row(stops_reading, O.UNKNOWN, "WriteTimeout", body=LARGE),
    "takes a large body in sips": Row(sips, O.UNKNOWN, "WriteTimeout", body=LARGE),
    "answers and then breaks off its own body": Row(
        says(b'HTTP/1.1 201 C\r\nContent-Length: 90\r\n\r\n{"id": "R-1"'), O.UNKNOWN, 201
    ),
    # What came is no answer.
    "garbage for a status line": Row(says(b"garbage\r\n\r\n"), O.UNKNOWN, "RemoteProtocolError"),
    "half a status line": Row(says(b"HTTP/1.1 20"), O.UNKNOWN, "RemoteProtocolError"),
    "100 and no more": Row(says(b"HTTP/1.1 100 Continue\r\n\r\n"), O.UNKNOWN, "RemoteProtocolError"),
    "103 and no more": Row(
        says(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), O.UNKNOWN, "RemoteProtocolError"
    ),
    "another protocol": Row(
        says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        O.UNKNOWN, "RemoteProtocolError",
    ),
    "headers without end": Row(drips(HEAD, b"X-More: " + b"x" * 4000 + b"\r\n"), O.UNKNOWN, "RemoteProtocolError"),
    "an answer of two lengths": Row(
        says(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), O.UNKNOWN, "RemoteProtocolError"
    ),
    "headers that drip": Row(drips(HEAD, b"x"), O.UNKNOWN, "ReadTimeout"),
    # The status is known, its body is not.
    "a body of 2 GB": Row(drips(HEAD + b"Content-Length: 2147483648\r\n\r\n", b"x" * 65536), O.UNKNOWN, 200),
    "a body without end": Row(
        drips(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + b"x" * 0x8000 + b"\r\n"), O.UNKNOWN, 200
    ),
    "a body that drips": Row(drips(HEAD + b"Content-Length: 9000\r\n\r\n", b" "), O.UNKNOWN, 200),
    "gzip that is none": Row(
        says(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!"), O.UNKNOWN, 200
    ),
    "not JSON": Row(answers(200, b"<title>Sign in</title>"), O.UNKNOWN, 200),
    "no body": Row(answers(201), O.UNKNOWN, 201),
    # Answers.
    "done as approved": Row(OK, O.APPLIED, 200),
    "103 before the answer": Row(
        says(b"HTTP/1.1 103 Early Hints\r\n\r\n" + HEAD + b"Connection: close\r\n\r\n" + as_json(RECEIPT)),
        O.APPLIED, 200,
    ),
    "made anew as approved": Row(answers(201, as_json(RECEIPT)), O.APPLIED, 201),
    "204 that the contract knows": Row(answers(204), O.APPLIED, 204, contract=SAYS_NOTHING),
    "done otherwise": Row(answers(200, as_json({**RECEIPT, "record": "V-2"})), O.CONFLICTED, 200),
    "errors in a success": Row(answers(200, as_json({"userErrors": [{"field": "limit"}]})), O.UNKNOWN, 200),
    "errors that the contract knows": Row(
        answers(200, as_json({"userErrors": [{"field": "limit"}]})), O.REFUSED, 200, contract=SAYS_WHY_NOT
    ),
    "errors beside a receipt": Row(
        answers(200, as_json({**RECEIPT, "userErrors": ["limit"]})), O.CONFLICTED, 200, contract=SAYS_WHY_NOT
    ),
    "accepted": Row(answers(202), O.PENDING, 202),
    "accepted, with a place to ask": Row(answers(202, Location="/operations/7"), O.PENDING, 202),
    "an answer for each part": Row(answers(207, as_json({"items": [{"status": 409}]})), O.UNKNOWN, 207),
    "the key is in use": Row(answers(409, as_json({"code": "key_in_progress"})), O.IN_PROGRESS, 409, contract=KEYED),
    "the key came with other content": Row(
        answers(422, as_json({"code": "key_reused"})), O.KEY_MISMATCH, 422, blocked=True, contract=KEYED
    ),
    "it is there already": Row(answers(409, EXISTS), O.APPLIED, 409, contract=KEYED),
    "it is there already, and the contract does not know": Row(answers(409, EXISTS), O.UNKNOWN, 409),
    "a redirect to a cloud's metadata": Row(
        answers(307, Location="http://169.254.169.254/latest/meta-data/"), O.UNKNOWN, 307
    ),
    "a redirect elsewhere": Row(answers(302, Location="http://127.0.0.1:1/"), O.UNKNOWN, 302),
    "413 before the body has come": Row(
        early(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"), O.REFUSED, 413, body=LARGE
    ),
    "408 that the contract knows": Row(
        answers(408), O.NOT_APPLIED, 408, contract={"definite_not_applied_codes": frozenset({408})}
    ),
    "503 that the contract knows": Row(
        answers(503, Retry_After="3"), O.NOT_APPLIED, 503, contract={"definite_not_applied_codes": frozenset({503})}
    ),
    "429, and when to come again": Row(answers(429, Retry_After="3"), O.NOT_APPLIED, 429),
    "503, and when to come again": Row(answers(503, Retry_After="3"), O.UNKNOWN, 503),
    # Every status, with no more than its head and where else to go.
    **{
        str(status): Row(answers(status, Location="/elsewhere"), outcome, status, blocked)
        for (outcome, blocked), statuses in MEANT.items()
        for status in statuses
    },
}  # fmt: skip


def read(url: str, body: bytes = SMALL, **contract: Any) -> tuple[Any, Reading, list[str]]:
    """One send; what was seen, what it comes to, and how often the barrier was asked."""
    asked: list[str] = []
    request = Request("PUT", f"{url}/vendors/V-1", {"Content-Type": "application/json"}, body)
    seen = exchange(request, QUICK, barrier=lambda: asked.append("mark"))
    terms = a_contract(**contract)
    action = terms.actions["update"]
    return seen, read_exchange(seen, terms, action, sent=body, record="V-1", now=NOW), asked


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_what_the_receiver_does_after_the_mark_comes_to_what_the_table_says(row: Row) -> None:
    began = time.monotonic()
    with FaultServer(row.does, OK) as server:
        seen, reading, asked = read(server.url, row.body, **row.contract)
        assert len(server.received) == 1, "nothing is sent twice, nor anywhere else"
    assert (reading.outcome, reading.blocked) == (row.outcome, row.blocked)
    assert (seen.status or seen.exception) == row.seen
    assert (seen.marked, asked) == (True, ["mark"])
    assert time.monotonic() - began < 2.5, (
        "from the first byte on it takes no longer than its time-outs together"
    )


def test_a_receiver_that_closes_over_a_large_body_is_doubt() -> None:
    """Whether the client then reads a reset or an end is the kernel's choice; neither is an answer."""
    with FaultServer(closes_midway) as server:
        seen, reading, _ = read(server.url, LARGE)
    assert seen.exception in ("RemoteProtocolError", "ReadError")
    assert (seen.marked, seen.status, reading.outcome) == (True, None, O.UNKNOWN)
    assert seen.written is not None
    assert 0 < seen.written.length < len(LARGE), "what left is counted although the rest did not"


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_mark_that_is_refused_lets_no_byte_out_whatever_the_receiver_would_do(row: Row) -> None:
    def refuse() -> None:
        raise NotBegun("no")

    with FaultServer(read_all) as server:
        seen = exchange(Request("PUT", server.url, {}, row.body), QUICK, barrier=refuse)
        exchange(Request("GET", server.url, {}), QUICK)
        assert server.received[0] == b""
    assert (seen.marked, seen.exception, seen.written) == (False, "NotBegun", None)


@pytest.mark.parametrize(
    ("url", "exception", "outcome", "blocked"),
    [
        ("http://no-such-host.invalid", "ConnectError", O.NOT_SENT, False),
        ("http://127.0.0.1:1", "ConnectError", O.NOT_SENT, False),
        ("http://169.254.169.254", "AddressRefused", O.OUR_FAULT, True),
        ("http://10.0.0.5", "AddressRefused", O.OUR_FAULT, True),
        ("http://[::1]:1", "AddressRefused", O.OUR_FAULT, True),
        ("http://127.0.0.1:99999", "AddressRefused", O.OUR_FAULT, True),
        ("http://[127.0.0.1", "AddressRefused", O.OUR_FAULT, True),
        ("http://", "AddressRefused", O.OUR_FAULT, True),
        ("gopher://127.0.0.1", "AddressRefused", O.OUR_FAULT, True),
    ],
)
def test_what_fails_before_a_connection_is_never_marked(
    url: str, exception: str, outcome: Outcome, blocked: bool
) -> None:
    seen, reading, asked = read(url)
    assert (seen.exception, reading.outcome, reading.blocked) == (exception, outcome, blocked)
    assert (seen.marked, asked) == (False, [])


def test_an_inner_address_is_sent_to_once_the_installation_allows_it(settings: Any) -> None:
    with FaultServer(OK) as server:
        settings.COUNTERFOIL_INTERNAL_RECEIVERS = ["*=10.0.0.0/8"]
        assert read(server.url)[1].outcome is O.OUR_FAULT
        settings.COUNTERFOIL_INTERNAL_RECEIVERS = ["*=127.0.0.0/8"]
        assert read(server.url)[1].outcome is O.APPLIED
        assert len(server.received) == 1


def test_a_listener_that_takes_nobody_in_is_a_time_out_before_the_mark() -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        seen, reading, asked = read(f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert (seen.exception, reading.outcome, reading.blocked) == ("ConnectTimeout", O.NOT_SENT, False)
    assert (seen.marked, asked) == (False, [])


def test_a_wait_for_a_free_connection_ends_before_the_mark() -> None:
    """The pool's one connection is held by an answer that nobody reads on."""
    asked: list[str] = []
    with (
        FaultServer(says(HEAD + b"Content-Length: 9\r\n\r\n"), OK) as server,
        httpx.Client(transport=outbound.Transport(lambda stream: stream), timeout=0.2) as client,
        client.stream("PUT", server.url, content=SMALL) as held,
    ):
        assert held.status_code == 200
        with pytest.raises(httpx.PoolTimeout) as none:
            client.put(server.url, content=SMALL, extensions={"trace": lambda event, _: asked.append(event)})
        assert (asked, len(server.received)) == ([], 1)
    seen = Exchange(marked=False, exception=type(none.value).__name__)
    terms = a_contract()
    reading = read_exchange(seen, terms, terms.actions["update"], sent=SMALL, record="V-1", now=NOW)
    assert (reading.outcome, reading.blocked) == (O.NOT_SENT, False)


def test_a_send_never_waits_for_the_connection_of_another() -> None:
    """While the first of two is not answered, the second has its own and is done."""
    second_is_done = Event()

    def waits_for_the_second(connection: socket.socket) -> bytes:
        Thread(target=lambda: (second_is_done.wait(20), OK(connection)), daemon=True).start()
        return b""

    with FaultServer(waits_for_the_second, OK) as server, ThreadPoolExecutor(1) as pool:
        request = Request("PUT", f"{server.url}/vendors/V-1", {}, SMALL)
        first = pool.submit(exchange, request, Timeouts(connect=1, read=20, write=1))
        eventually(lambda: len(server.received) == 1, what="the first connection")
        assert exchange(request, Timeouts(connect=1, read=20, write=1)).status == 200
        second_is_done.set()
        assert first.result(20).status == 200


def test_a_connection_that_the_receiver_would_keep_open_is_not_used_again() -> None:
    """It says keep-alive and leaves it open. The second send finds neither a dead connection nor somebody else's answer."""
    body = as_json(RECEIPT)
    keeps = HEAD + b"Connection: keep-alive\r\nKeep-Alive: timeout=60\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    ended: list[bytes] = []

    def stays(connection: socket.socket) -> bytes:
        data = read_all(connection)
        connection.sendall(keeps + body)
        ended.append(connection.recv(1))
        return data

    with FaultServer(stays, stays) as server:
        assert [read(server.url)[1].outcome for _ in range(2)] == [O.APPLIED] * 2
        assert len(server.received) == 2
        assert b"Connection: close" in server.received[1]
    assert ended == [b"", b""], "each was closed by us once it was answered"


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({"X-A b": "1"}, {}),
        ({"X-A\r\nX-B": "1"}, {}),
        ({"": "1"}, {}),
        ({}, {"Authorization": "Bearer two\nlines"}),
    ],
)
def test_a_header_that_cannot_be_written_is_our_fault_and_tells_no_secret(
    headers: dict[str, str], secret: dict[str, str]
) -> None:
    with FaultServer(read_all) as server:
        seen = exchange(Request("PUT", server.url, headers, SMALL, secret), QUICK)
        exchange(Request("GET", server.url, {}), QUICK)
        assert server.received[0] == b""
    terms = a_contract()
    reading = read_exchange(seen, terms, terms.actions["update"], sent=SMALL, record="V-1", now=NOW)
    assert (seen.exception, reading.outcome, reading.blocked) == ("LocalProtocolError", O.OUR_FAULT, True)
    assert "the request is malformed: Illegal header" in reading.fault
    assert "lines" not in f"{reading.fault} {seen}"


def test_the_receipt_of_its_own_part_decides_where_a_contract_names_207() -> None:
    """One operation is one request, so its answer for each part has one part that counts."""
    action = Action(
        method="PUT", path="/vendors/{record}", success={"207": Meaning.APPLIED},
        receipt_path="part.id", echo_path="part.fields",
    )  # fmt: skip
    parts = {"id": "R-7", "fields": BODY}, {"id": "R-7", "fields": {"limit": "1.00"}}, {"status": 409}
    found = []
    for part in parts:
        with FaultServer(answers(207, as_json({"part": part}))) as server:
            found.append(read(server.url, actions={"update": action})[1].outcome)
    assert found == [O.APPLIED, O.CONFLICTED, O.UNKNOWN]


# -- TLS -------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority of these tests stands among those that the installation trusts."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    monkeypatch.setattr(outbound, "_certificates", lambda: context)


def served(authority: trustme.CA, name: str = "localhost", **changes: Any) -> ssl.SSLContext:
    """What a receiver of this name serves TLS with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    for attribute, value in changes.items():
        setattr(context, attribute, value)
    if changes.get("verify_mode") is ssl.CERT_REQUIRED:
        authority.configure_trust(context)
    return context


@pytest.mark.usefixtures("trusted")
def test_a_certificate_that_is_trusted_is_sent_to(authority: trustme.CA) -> None:
    with FaultServer(OK, tls=served(authority)) as server:
        seen, reading, asked = read(server.url)
    assert (reading.outcome, asked) == (O.APPLIED, ["mark"])
    assert seen.trace.index("connection.start_tls.complete") < seen.trace.index(FIRST_BYTE)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("speaks", [["h2", "http/1.1"], ["h2"]], ids=["prefers HTTP/2", "nothing but HTTP/2"])
def test_http_2_is_not_offered_however_much_the_receiver_would_like_it(
    authority: trustme.CA, speaks: list[str]
) -> None:
    """Under HTTP/2 one call may be more than one send. The hello of the real handshake names HTTP/1.1 and nothing else."""
    spoken: list[str | None] = []

    def notes_what_was_agreed(connection: socket.socket) -> bytes:
        assert isinstance(connection, ssl.SSLSocket)
        spoken.append(connection.selected_alpn_protocol())
        return OK(connection)

    context = served(authority)
    context.set_alpn_protocols(speaks)
    with FaultServer(notes_what_was_agreed, tls=context) as server:
        _, reading, asked = read(server.url)
        assert server.received[0].startswith(b"PUT /vendors/V-1 HTTP/1.1\r\n")
        assert b"upgrade" not in server.received[0].lower()
    assert spoken == ["http/1.1" if "http/1.1" in speaks else None]
    assert (reading.outcome, asked) == (O.APPLIED, ["mark"])
    with FaultServer(closes_midway) as bare:
        read(bare.url.replace("http:", "https:").replace("127.0.0.1", "localhost"))
        (hello,) = bare.received
    assert b"\x00\x09\x08http/1.1" in hello, "a list of one protocol"


@pytest.mark.usefixtures("trusted")
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
@pytest.mark.parametrize(
    "case", ["another's name", "an unknown authority", "another version", "TLS 1.2, ours missing"]
)
def test_a_handshake_that_fails_is_never_marked_and_waits_for_a_person(
    case: str, authority: trustme.CA
) -> None:
    context = {
        "another's name": lambda: served(authority, "erp.example"),
        "an unknown authority": lambda: served(trustme.CA()),
        "another version": lambda: served(authority, maximum_version=ssl.TLSVersion.TLSv1_1),
        "TLS 1.2, ours missing": lambda: served(
            authority, maximum_version=ssl.TLSVersion.TLSv1_2, verify_mode=ssl.CERT_REQUIRED
        ),
    }[case]()
    with FaultServer(read_all, tls=context) as server:
        seen, reading, asked = read(server.url)
        assert server.received == [b""]
    assert (seen.exception, reading.outcome, reading.blocked) == ("ConnectError", O.NOT_SENT, True)
    assert (seen.marked, asked) == (False, [])


@pytest.mark.parametrize(
    ("does", "exception", "blocked"),
    [
        (closes_midway, "ConnectError", True),
        (resets_midway, "ConnectError", True),
        (stops_reading, "ConnectTimeout", False),
    ],
)
def test_a_peer_that_breaks_off_or_ignores_the_handshake_is_never_marked(
    does: Behaviour, exception: str, blocked: bool
) -> None:
    with FaultServer(does) as server:
        seen, reading, asked = read(server.url.replace("http:", "https:"))
    assert (seen.exception, reading.outcome, reading.blocked) == (exception, O.NOT_SENT, blocked)
    assert (seen.marked, asked) == (False, [])


@pytest.mark.usefixtures("trusted")
def test_a_certificate_that_tls_1_3_misses_after_the_request_left_is_no_doubt(authority: trustme.CA) -> None:
    """Its alert comes after the mark, and is proof all the same: nothing is taken in before a certificate came."""
    with FaultServer(read_all, tls=served(authority, verify_mode=ssl.CERT_REQUIRED)) as server:
        seen, reading, asked = read(server.url)
        assert server.received == [b""]
    assert (seen.marked, asked, seen.exception) == (True, ["mark"], "ReadError")
    assert (reading.outcome, reading.blocked) == (O.NOT_APPLIED, True)


# -- what it rests on ------------------------------------------------------------------------------------------------
def test_the_pinned_client_tells_its_events_by_these_names_in_this_order() -> None:
    """httpcore promises neither. Another version is read anew: where it sends the first byte, and what it tells before."""
    assert [importlib.metadata.version(name) for name in ("httpx", "httpcore")] == ["0.28.1", "1.0.9"]
    with FaultServer(OK) as server:
        seen, *_ = read(server.url)
    steps = [
        "connection.connect_tcp",
        "http11.send_request_headers",
        "http11.send_request_body",
        "http11.receive_response_headers",
        "http11.receive_response_body",
        "http11.response_closed",
    ]
    assert list(seen.trace) == [f"{step}.{end}" for step in steps for end in ("started", "complete")]
    assert steps[1] + ".started" == FIRST_BYTE
