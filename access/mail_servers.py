"""What every conversation with a mail server shares: an end, whatever the server does, and what it said in one line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket

from web.redaction import hide

AGAIN = 0.5
"""Seconds between two cuts."""


@contextmanager
def cut_off_after(seconds: float, connection: Callable[[], socket | None]) -> Iterator[None]:
    """While it lasts, whatever waits on the connection fails once this time is over; a time-out of each wait alone lets a
    server that says a word now and then hold on for ever.

    It is cut again and again: between two sockets, as while TLS begins, there is none that could be.
    """
    over = threading.Event()

    def cut() -> None:
        wait = seconds
        while not over.wait(wait):
            _cut(connection)
            wait = AGAIN

    threading.Thread(target=cut, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def told(code: int, said: bytes | str) -> str:
    """What a server said, with its code."""
    return f"{code} {in_one_line(said)}"


def in_one_line(said: bytes | str) -> str:
    """Words of others in one line, without secrets, not too long."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return hide(" ".join("".join(c if c.isprintable() else " " for c in text).split()))[:200]


def _cut(connection: Callable[[], socket | None]) -> None:
    if (open_one := connection()) is not None:
        with suppress(OSError):
            open_one.shutdown(SHUT_RDWR)
