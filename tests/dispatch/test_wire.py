"""What the client can see of real sockets, whether the mark was set, and which trace of httpcore that rests on."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from dispatch.contracts import Timeouts
from dispatch.wire import FIRST_BYTE, NotBegun, Request, exchange
from tests.dispatch.faults import (
    Behaviour,
    FaultServer,
    answers,
    fin,
    reset_after_read,
    reset_at_once,
    says,
    silence,
)

QUICK = Timeouts(connect=1, read=0.4, write=1)


def put(url: str, body: bytes = b"{}") -> Request:
    return Request("PUT", url, {"Content-Type": "application/json", "X-Key": "k"}, body)


@pytest.mark.parametrize(
    ("behaviour", "exception", "tail"),
    [
        (reset_at_once, "ReadError", "http11.receive_response_headers.failed"),
        (reset_after_read, "ReadError", "http11.receive_response_headers.failed"),
        (fin, "RemoteProtocolError", "http11.receive_response_headers.failed"),
        (silence, "ReadTimeout", "http11.receive_response_headers.failed"),
        (says(b"garbage\r\n\r\n"), "RemoteProtocolError", "http11.receive_response_headers.failed"),
    ],
)
def test_without_an_answer_the_mark_is_what_is_known(behaviour: Behaviour, exception: str, tail: str) -> None:
    with FaultServer(behaviour) as server:
        seen = exchange(put(server.url), QUICK)
    assert (seen.marked, seen.exception, seen.status) == (True, exception, None)
    assert tail in seen.trace
    assert FIRST_BYTE in seen.trace


def test_a_refused_connection_is_never_marked() -> None:
    with FaultServer() as server:
        url = server.url
    seen = exchange(put(url), QUICK)
    assert (seen.marked, seen.exception) == (False, "ConnectError")
    assert FIRST_BYTE not in seen.trace


def test_an_unknown_name_is_never_marked() -> None:
    seen = exchange(put("http://no-such-host.invalid/"), QUICK)
    assert (seen.marked, seen.exception) == (False, "ConnectError")


def test_a_barrier_that_refuses_lets_no_byte_out() -> None:
    def refuse() -> None:
        raise NotBegun("no")

    with FaultServer() as server:
        seen = exchange(put(server.url), QUICK, barrier=refuse)
        exchange(put(server.url), QUICK)
        assert server.received[0] == b""
    assert (seen.marked, seen.exception, seen.message) == (False, "NotBegun", "no")


def test_the_barrier_stands_before_the_first_byte_and_after_the_connection() -> None:
    trace: list[tuple[str, ...]] = []
    with FaultServer(answers(200)) as server:
        seen = exchange(put(server.url), QUICK, barrier=lambda: trace.append(()))
    assert len(trace) == 1
    assert list(seen.trace).index("connection.connect_tcp.complete") < list(seen.trace).index(FIRST_BYTE)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'HTTP/1.1 201 C\r\nContent-Length: 50\r\n\r\n{"id"', "cut off (RemoteProtocolError)"),
        (
            b"HTTP/1.1 200 O\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nxxx",
            "encoded as gzip, which was not asked for",
        ),
    ],
)
def test_the_status_is_known_although_the_body_fails(raw: bytes, problem: str) -> None:
    with FaultServer(says(raw)) as server:
        seen = exchange(put(server.url), QUICK)
    assert (seen.status, seen.body_problem) == (int(raw.split()[1]), problem)


def test_a_small_body_is_never_unpacked_into_a_large_one() -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    head = f"HTTP/1.1 200 O\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    with FaultServer(says(head + bomb)) as server:
        assert exchange(put(server.url), QUICK).body == bomb


def test_a_body_is_read_up_to_a_limit() -> None:
    with FaultServer(answers(200, b"x" * 3_000_000)) as server:
        seen = exchange(put(server.url), QUICK)
    assert (len(seen.body), seen.body_problem) == (1_000_000, "longer than 1000000 bytes")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    with FaultServer() as server:
        server.then(answers(status, Location=f"{server.url}/elsewhere"), answers(200))
        assert exchange(put(server.url), QUICK).status == status
        assert len(server.received) == 1


def test_the_environments_proxy_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(answers(200)) as proxy, FaultServer(answers(204)) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert exchange(put(server.url), QUICK).status == 204
        assert proxy.received == []


def test_each_send_has_a_connection_of_its_own_and_only_the_frozen_headers() -> None:
    with FaultServer(answers(200), answers(200)) as server:
        exchange(put(server.url + "/a"), QUICK)
        exchange(put(server.url + "/a"), QUICK)
        assert len(server.received) == 2
        assert server.received[0] == server.received[1]
        names = sorted(
            line.split(b":")[0] for line in server.received[0].split(b"\r\n\r\n")[0].split(b"\r\n")[1:]
        )
    assert names == [
        b"Accept", b"Accept-Encoding", b"Connection", b"Content-Length", b"Content-Type", b"Host", b"User-Agent",
        b"X-Key",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://[::ffff:127.0.0.1]:5432/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://10.0.0.5/",
        "ftp://127.0.0.1/",
        "http://user:pass@127.0.0.1/",
        "http:///x",
    ],
)
def test_an_address_that_points_inside_is_refused_before_anything_is_opened(url: str) -> None:
    seen = exchange(put(url), QUICK)
    assert (seen.marked, seen.exception, seen.trace) == (False, "AddressRefused", ())


def test_a_name_that_moves_inside_after_it_was_saved_is_refused_at_connect_time(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name server answers with an inner address at the moment of the send; nothing is connected to."""
    import socket

    settings.COUNTERFOIL_INTERNAL_RECEIVERS = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: [(2, 1, 6, "", ("10.0.0.5", 80))])
    seen = exchange(put("http://erp.example/"), QUICK)
    assert (seen.marked, seen.exception) == (False, "AddressRefused")
    assert seen.body == b""


@pytest.mark.parametrize(
    "host",
    ["[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a00:1]", "[fec0::1]", "[5f00::1]",
     "[3fff::1]", "[8000::1]", "192.0.0.8", "192.88.99.1"],
)  # fmt: skip
def test_an_address_that_carries_an_inner_one_or_leads_nowhere_is_refused(settings: Any, host: str) -> None:
    from access.addresses import AddressRefused, check_url

    settings.COUNTERFOIL_INTERNAL_RECEIVERS = []
    with pytest.raises(AddressRefused):
        check_url(f"http://{host}/")


def test_a_network_that_translates_reaches_what_is_outside(settings: Any) -> None:
    """Where names of IPv4 hosts are answered with NAT64's addresses, those that carry an outer one are good."""
    from access.addresses import check_url

    settings.COUNTERFOIL_INTERNAL_RECEIVERS = []
    assert check_url("http://[64:ff9b::808:808]/").hostname == "64:ff9b::808:808"
    assert check_url("http://[2001:4860:4860::8888]/").hostname == "2001:4860:4860::8888"


def test_an_address_inside_is_allowed_to_one_receiver_by_host_or_network_and_to_no_other(
    settings: Any,
) -> None:
    from access.addresses import AddressRefused, check_url, resolve

    settings.COUNTERFOIL_INTERNAL_RECEIVERS = ["acme/ledger=10.20.0.0/16", "acme/erp=127.0.0.1"]
    assert resolve("10.20.3.4", 80, "acme/ledger") == "10.20.3.4"
    assert check_url("http://127.0.0.1/", "acme/erp").hostname == "127.0.0.1"
    for url, who in (
        ("http://127.0.0.1/", "acme/ledger"),
        ("http://127.0.0.1/", "other/erp"),
        ("http://127.0.0.1/", ""),
        ("http://10.20.3.4/", "acme/erp"),
        ("http://169.254.169.254/", "acme/erp"),
    ):
        with pytest.raises(AddressRefused, match="points inside"):
            check_url(url, who)


def test_an_entry_that_does_not_say_for_whom_it_is_lets_no_process_start(settings: Any) -> None:
    from access.checks import internal_receivers

    settings.COUNTERFOIL_INTERNAL_RECEIVERS = [
        "*=localhost",
        "acme/a b=10.0.0.0/8",
        "acme/endpoint/hook=10.1.1.1",
    ]
    assert internal_receivers() == []
    settings.COUNTERFOIL_INTERNAL_RECEIVERS = ["127.0.0.1", "acme=10.0.0.1", "*=10.0.0.0/99", "*=no host"]
    assert [str(e.msg).split(": ", 1)[1] for e in internal_receivers()] == [
        "'127.0.0.1' has to say for whom: organisation/receiver=127.0.0.1, or *=127.0.0.1.",
        "'acme=10.0.0.1' has to say for whom: organisation/receiver=acme, or *=acme.",
        "'*=10.0.0.0/99' names no network: 10.0.0.0/99.",
        "'*=no host' names neither a host nor a network: no host.",
    ]
