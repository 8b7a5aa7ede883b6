"""Receivers at their worst, as sockets on this machine: each gives its "host:port" for as long as it lasts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def nobody() -> Iterator[str]:
    """A port that is taken and at which nobody listens, so that connections are refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield _name(taken)


@contextmanager
def deaf() -> Iterator[str]:
    """Takes connections and whatever comes, and never says a word."""
    with _serving(_drain) as where:
        yield where


@contextmanager
def rubbish() -> Iterator[str]:
    """Answers whatever it is asked with what is no answer in any protocol, and closes."""

    def answer(connection: socket.socket) -> None:
        connection.settimeout(0.5)
        with suppress(OSError):
            connection.recv(65536)
        connection.sendall(b"\x00\xffwhat is this?\r\n\r\n")
        connection.close()

    with _serving(answer) as where:
        yield where


@contextmanager
def _serving(does: Callable[[socket.socket], None]) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=_once, args=(does, connection), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield _name(listener)
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in connections:
            connection.close()
        thread.join(5)


def _once(does: Callable[[socket.socket], None], connection: socket.socket) -> None:
    with suppress(OSError):
        does(connection)


def _drain(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def _name(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"
