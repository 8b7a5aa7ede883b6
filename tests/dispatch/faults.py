"""A receiver that is nothing but a socket: each connection gets the next behaviour of a list, and is kept on record."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType

Behaviour = Callable[[socket.socket], bytes]
"""Given a connection, does its worst, and returns what it had read."""


class FaultServer:
    """Listens on a port of its own, or the one given; `received` holds what each connection brought, in order."""

    def __init__(self, *behaviours: Behaviour, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._behaviours = list(behaviours)
        self._tls = tls
        self._received: list[bytes] = []
        self._idle = threading.Event()
        self._idle.set()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._open: list[socket.socket] = []

    @property
    def received(self) -> list[bytes]:
        """So far. Who has just been answered may look before the answering thread has noted what it read."""
        self._idle.wait(1.0)
        return self._received

    @property
    def url(self) -> str:
        where = "http://127.0.0.1" if self._tls is None else "https://localhost"
        return f"{where}:{self._listener.getsockname()[1]}"

    def then(self, *behaviours: Behaviour) -> None:
        self._behaviours.extend(behaviours)

    def __enter__(self) -> FaultServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            connection.settimeout(5)
            behaviour = self._behaviours.pop(0) if self._behaviours else fin
            self._idle.clear()
            index = len(self._received)
            self._received.append(b"")
            try:
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                    self._open.append(connection)
                self._received[index] = behaviour(connection)
            except OSError:
                pass
            finally:
                self._idle.set()


def read_all(connection: socket.socket) -> bytes:
    """The whole request: headers and as much body as they announce. What came before an early close otherwise."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return data
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ),
        0,
    )
    while len(body) < length and (chunk := connection.recv(65536)):
        body += chunk
    return head + b"\r\n\r\n" + body


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def reset_at_once(connection: socket.socket) -> bytes:
    """RST before anything is read, once the whole request has come."""
    while not connection.recv(65536, socket.MSG_PEEK).endswith(b"}"):
        pass
    _reset(connection)
    return b""


def reset_after_read(connection: socket.socket) -> bytes:
    """RST after everything was read."""
    data = read_all(connection)
    _reset(connection)
    return data


def fin(connection: socket.socket) -> bytes:
    """A plain end of stream after everything was read."""
    data = read_all(connection)
    connection.close()
    return data


def silence(connection: socket.socket) -> bytes:
    """Reads everything and never answers; the connection stays open."""
    return read_all(connection)


def stops_reading(connection: socket.socket) -> bytes:
    """Takes the head and a little more, and leaves the rest where it is."""
    return connection.recv(4096)


def closes_midway(connection: socket.socket) -> bytes:
    """Takes the head and a little more, and closes over the rest."""
    data = connection.recv(4096)
    connection.close()
    return data


def resets_midway(connection: socket.socket) -> bytes:
    """Takes the head and a little more, and breaks off."""
    data = connection.recv(4096)
    _reset(connection)
    return data


def sips(connection: socket.socket) -> bytes:
    """Takes a little every now and then: no single write ever waits for long."""
    data = b""
    while chunk := connection.recv(65536):
        data += chunk
        time.sleep(0.02)
    return data


def early(raw: bytes) -> Behaviour:
    """Answers before the body has come, and closes over it."""

    def answer(connection: socket.socket) -> bytes:
        data = connection.recv(4096)
        connection.sendall(raw)
        connection.close()
        return data

    return answer


def drips(head: bytes, piece: bytes) -> Behaviour:
    """Reads everything, answers `head` and then one `piece` after another for as long as anybody reads them."""

    def answer(connection: socket.socket) -> bytes:
        data = read_all(connection)
        connection.sendall(head)
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(piece)
                time.sleep(0.02 if len(piece) < 100 else 0)
        return data

    return answer


def says(raw: bytes) -> Behaviour:
    """Reads everything, answers exactly these bytes and closes."""

    def answer(connection: socket.socket) -> bytes:
        data = read_all(connection)
        connection.sendall(raw)
        connection.close()
        return data

    return answer


def answers(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """A whole HTTP answer."""
    lines = [f"HTTP/1.1 {status} Some", f"Content-Length: {len(body)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return says("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
