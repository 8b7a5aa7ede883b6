"""What stands before the ERP: it hands each request on, or does with it what its record has coming, socket and all."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

LONGEST_SECONDS = 90.0
_LINE = re.compile(rb"(PUT|POST|GET) \S*/([^/\s?]+)[\s?]")
Answering = Callable[[socket.socket, bytes], None]
"""Given the connection and what the ERP answered (nothing where it was not asked), does its worst."""


@dataclass(frozen=True)
class Strike:
    """What becomes of one request. `applied`: the ERP gets it. `unread`: not even the gate reads it."""

    does: Answering
    applied: bool = False
    unread: bool = False


class Gate:
    """A port of its own, on which nobody listens before `open`. Counts the writes that arrive, by record."""

    def __init__(self, erp_port: int) -> None:
        self._erp = ("127.0.0.1", erp_port)
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._coming: dict[str, list[Strike]] = {}
        self._lock = threading.Lock()
        self.writes: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def open(self) -> None:
        """Listen from now on."""
        self._listener.listen(256)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def expect(self, record: str, strikes: tuple[Strike, ...]) -> None:
        """The next writes of this record are struck so, in this order; all others go through."""
        self._coming[record] = list(strikes)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(LONGEST_SECONDS)
        with connection, contextlib.suppress(OSError):
            strike = self._strike_for(_first_line(connection))
            request = b"" if strike is not None and strike.unread else _whole_request(connection)
            answer = self._handed_on(request) if strike is None or strike.applied else b""
            if strike is None:
                connection.sendall(answer)
            else:
                strike.does(connection, answer)

    def _strike_for(self, line: bytes) -> Strike | None:
        found = _LINE.match(line)
        if found is None or found[1] == b"GET":
            return None
        record = found[2].decode("ascii")
        with self._lock:
            self.writes[record] += 1
            coming = self._coming.get(record)
            return coming.pop(0) if coming else None

    def _handed_on(self, request: bytes) -> bytes:
        with socket.create_connection(self._erp, LONGEST_SECONDS) as erp:
            erp.sendall(request)
            return b"".join(iter(lambda: erp.recv(65536), b""))


def says(raw: bytes) -> Answering:
    """Answers exactly this."""
    return lambda connection, _: connection.sendall(raw)


def answers(status: int, body: bytes = b"", **headers: str) -> Answering:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} Some", f"Content-Length: {len(body)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return says("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def says_half(connection: socket.socket, answer: bytes) -> None:
    """The head and half of the body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    connection.sendall(head + b"\r\n\r\n" + body[: len(body) // 2])


def says_otherwise(connection: socket.socket, answer: bytes) -> None:
    """The answer with another value in it, of the same length."""
    connection.sendall(answer.replace(b"4800.00", b"8400.00"))


def drips(connection: socket.socket, answer: bytes) -> None:
    """The answer a byte at a time, for longer than anybody waits."""
    for byte in answer:
        connection.sendall(bytes((byte,)))
        time.sleep(0.2)


def tells_by_item(connection: socket.socket, answer: bytes) -> None:
    """The receipt as a 207, with both items applied."""
    receipt = json.loads(answer.partition(b"\r\n\r\n")[2])
    body = json.dumps({**receipt, "items": [{"status": "201"}, {"status": "201"}]}).encode()
    answers(207, body)(connection, answer)


def hangs_up(connection: socket.socket, answer: bytes) -> None:
    """An orderly end, without an answer."""


def resets(connection: socket.socket, answer: bytes) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def keeps_silent(connection: socket.socket, answer: bytes) -> None:
    """Until the other side leaves."""
    connection.recv(1)


def _first_line(connection: socket.socket) -> bytes:
    while b"\r\n" not in (seen := connection.recv(4096, socket.MSG_PEEK)):
        if not seen:
            return b""
    return seen


def _whole_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and (chunk := connection.recv(65536)):
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    wanted = int(length[1]) if length else 0
    while len(body) < wanted and (chunk := connection.recv(65536)):
        body += chunk
    return head + b"\r\n\r\n" + body
