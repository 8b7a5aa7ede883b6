"""Connections to the outside: to a checked address only, with nothing kept, repeated, redirected or taken from the
environment.

A name is resolved once and that very address is connected to, while certificates are still checked against the name.
Each connection is wrapped in what the caller wants to see, or to allow, of it.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import httpcore
import httpx

from access.addresses import AddressRefused, resolve

_PIECE = 16_384
Wrap = Callable[[httpcore.NetworkStream], httpcore.NetworkStream]


class Transport(httpx.HTTPTransport):
    """HTTP/1.1 over one connection of its own, to an address that has passed the check."""

    def __init__(self, wrap: Wrap, who: str = "", context: ssl.SSLContext | None = None) -> None:
        """`who`: for whom an address is checked; `context`: in place of the public certificates and no client's own."""
        context = context or _certificates()
        super().__init__(verify=context, trust_env=False, retries=0)
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_connections=1,
            max_keepalive_connections=0,
            http1=True,
            http2=False,
            retries=0,
            network_backend=_CheckedBackend(wrap, who),
        )


class Deadline:
    """When an exchange has to be over: a peer that takes or sends a byte now and then cannot hold it open."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Count from now on."""
        self._at = _clock() + self._seconds

    def left(self, timeout: float | None) -> float:
        """How long a single wait of at most `timeout` may take; nothing or less when it is over."""
        left = self._at - _clock()
        return left if timeout is None else min(timeout, left)


def _clock() -> float:
    # Runs on while the machine is suspended: a sender that wakes up has to find its time over.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def ends_by(deadline: Deadline) -> Wrap:
    """A connection whose every wait ends at the latest when the whole exchange must."""
    return lambda stream: _Until(stream, deadline)


@cache
def _certificates() -> ssl.SSLContext:
    # One a process: making one costs 26 ms.
    return httpx.create_ssl_context(trust_env=False)


def context_of(certificate: str, key: str, authorities: str) -> ssl.SSLContext:
    """A client's own certificate, and whose certificates it believes ("" for the public ones). Raises OSError, ValueError.

    Made anew where a file has changed since: certificates are short-lived.
    """
    stamps = tuple(Path(file).stat().st_mtime_ns if file else 0 for file in (certificate, key, authorities))
    return _context_of(certificate, key, authorities, stamps)


@lru_cache(maxsize=64)
def _context_of(certificate: str, key: str, authorities: str, _stamps: tuple[int, ...]) -> ssl.SSLContext:
    if authorities:
        context = ssl.create_default_context(cafile=authorities)
    else:
        context = httpx.create_ssl_context(trust_env=False)
    if certificate:
        # A key under a password would otherwise be asked for at the terminal.
        context.load_cert_chain(certificate, key or None, password=lambda: "")
    return context


class _CheckedBackend(httpcore.NetworkBackend):
    """Connects to the address that was checked."""

    def __init__(self, wrap: Wrap, who: str) -> None:
        self._real = httpcore.SyncBackend()
        self._wrap = wrap
        self._who = who

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            address = resolve(host, port, self._who)
        except OSError as unknown:
            raise httpcore.ConnectError(f"the name {host} is not known: {unknown}") from unknown
        return self._wrap(self._real.connect_tcp(address, port, timeout, local_address, socket_options))

    def connect_unix_socket(self, *args: Any, **kwargs: Any) -> httpcore.NetworkStream:
        raise AddressRefused("What is outside is reached over TCP.")

    def sleep(self, seconds: float) -> None:
        raise AssertionError("the connection pool never retries, so it never sleeps")


class _Until(httpcore.NetworkStream):
    """Writes in pieces: one long write would begin its time-out anew with every byte that the peer takes."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for begin in range(0, len(buffer), _PIECE):
            self._stream.write(buffer[begin : begin + _PIECE], self._left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._left(timeout, httpcore.ConnectTimeout)
        return _Until(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def _left(self, timeout: float | None, late: type[httpcore.TimeoutException]) -> float:
        left = self._deadline.left(timeout)
        if left <= 0:
            raise late("the whole exchange took too long")
        return left
