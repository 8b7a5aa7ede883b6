"""Requests that no client library would send. Each is followed by a good one: nothing may bring the process down."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from examples.simulators.client import ErpControl, Running

pytestmark = pytest.mark.processes

HEAD = b"PUT /neither/vendors/V-1 HTTP/1.1\r\nHost: erp\r\n"


def exchange(running: Running, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\xff\xfe\x00\r\n\r\n", b"400"),
        (b"BREW /pot HTTP/1.1\r\nHost: erp\r\n\r\n", b"501"),
        (b"GET http://[ HTTP/1.1\r\nHost: erp\r\n\r\n", b"400"),
        (b"GET /\xff%ff%00 HTTP/1.1\r\nHost: erp\r\n\r\n", b"404"),
        (HEAD + b"Content-Length: many\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: -1\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"400"),
        (HEAD + b"Content-Length: 10485761\r\n\r\n", b"413"),
        (HEAD + b"Content-Length: 99999999999999999999\r\n\r\n", b"400"),
        (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", b"400"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", b"413"),
        (HEAD + b"X: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
    ],
)
def test_rubbish_is_refused_and_the_next_request_is_served(
    erp: Running, http: httpx.Client, control: ErpControl, sent: bytes, status: bytes
) -> None:
    assert exchange(erp, sent).split(b" ")[1] == status
    assert control.effects() == []
    assert http.get("/healthz").json() == {"status": "ok"}


def test_a_client_that_leaves_midway_changes_nothing(erp: Running, control: ErpControl) -> None:
    assert exchange(erp, HEAD + b"Content-Length: 100\r\n\r\n{") == b""
    assert control.effects() == []
    assert [(logged["outcome"], logged["body"]) for logged in control.requests()] == [("dropped", None)]


def test_a_chunked_body_is_accepted(http: httpx.Client, control: ErpControl) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"name": '
        yield b'"New"}'

    assert http.put("/neither/vendors/V-1", content=pieces()).status_code == 201
    assert control.requests()[0]["body"] == '{"name": "New"}'


def test_a_body_over_the_limit_is_told_so_while_it_is_still_being_sent(http: httpx.Client) -> None:
    answer = http.put("/neither/vendors/V-1", content=b"x" * (11 * 1024 * 1024))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_expecting_100_is_answered_before_the_body(erp: Running) -> None:
    answer = exchange(erp, HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n")


def test_a_connection_is_kept_for_the_next_request(erp: Running) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: erp\r\n"
    assert (
        exchange(erp, request + b"\r\n" + request + b"Connection: close\r\n\r\n").count(b"HTTP/1.1 200 OK")
        == 2
    )
