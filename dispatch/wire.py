"""The one HTTP client that talks to receivers, set so that every send is ours to record.

HTTP/1.1 only, no kept connections, no redirects, no retries, nothing from the environment, every timeout named: each
of these otherwise repeats, moves or answers a request without our knowing. The address is resolved once and checked
(`access/outbound.py`), the body is read raw up to a limit, and from the first byte on the whole exchange takes no longer
than its timeouts together: whoever takes an operation over counts on that.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpcore
import httpx

from access.addresses import AddressRefused, check_url
from access.outbound import Deadline, Transport, context_of, ends_by
from approvals.rendering import LEFT_OUT
from dispatch.contracts import Timeouts
from dispatch.sent import Recorder, Written

BODY_LIMIT = 1_000_000
FIRST_BYTE = "http11.send_request_headers.started"
"""The trace event of the pinned httpcore after which bytes may leave; a contract test holds it."""

CERTIFICATE_UNUSABLE = "CertificateUnusable"
"""The `exception` of an exchange that did not begin, since a file of its certificates cannot be read."""
NO_TOKEN, TOKEN_REFUSED = "NoToken", "TokenRefused"
"""And of one that did not begin for want of a token: for now, or until somebody has changed something."""

Barrier = Callable[[], None]


class NotBegun(Exception):
    """A barrier's refusal: raised before the first byte, so that nothing was sent."""


@dataclass(frozen=True, slots=True)
class Security:
    """For whom an address is checked ("organisation/receiver"), and the certificates of its TLS, as files."""

    who: str = ""
    certificate: str = ""
    key: str = ""
    authorities: str = ""

    def context(self) -> ssl.SSLContext | None:
        if not (self.certificate or self.authorities):
            return None
        return context_of(self.certificate, self.key, self.authorities)


PUBLIC = Security()


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent, to the byte."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes = b""
    secret_headers: dict[str, str] = field(default_factory=dict, repr=False)
    security: Security = PUBLIC


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the client could see of one exchange. `marked`: the barrier was passed, so bytes may have left.

    `written`: what was handed to the connection, taken below the client; None where not even its head was.
    """

    marked: bool
    trace: tuple[str, ...] = ()
    exception: str = ""
    message: str = ""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    body_problem: str = ""
    written: Written | None = None
    old_token: bool = False
    """The token that was sent had been here for a while: a refusal may be about its age."""


class _Recorded(httpcore.NetworkStream):
    """A connection that keeps what was written to it; under TLS what goes into it, not what comes out."""

    def __init__(self, real: httpcore.NetworkStream, recorder: Recorder) -> None:
        self._real, self._recorder = real, recorder

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._real.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._real.write(buffer, timeout)
        self._recorder.take(buffer)

    def close(self) -> None:
        self._real.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._real.start_tls(ssl_context, server_hostname, timeout)
        self._recorder.scheme = "https"
        return _Recorded(secured, self._recorder)

    def get_extra_info(self, info: str) -> Any:
        return self._real.get_extra_info(info)


def exchange(request: Request, timeouts: Timeouts, *, barrier: Barrier | None = None) -> Exchange:
    """Send once and say what was seen; never raises for what a network or a receiver can do.

    `barrier` is called just before the first byte; what it raises ends the exchange with nothing sent. The caller is
    outside any transaction.
    """
    deadline = Deadline(timeouts.longest.total_seconds())
    seen, recorder = _Watch(barrier, deadline), Recorder((*request.secret_headers, *LEFT_OUT))
    ending = ends_by(deadline)
    try:
        context = request.security.context()
    except (OSError, ValueError) as unusable:
        return Exchange(marked=False, exception=CERTIFICATE_UNUSABLE, message=str(unusable)[:300])
    try:
        check_url(request.url, request.security.who)
        with (
            httpx.Client(
                transport=Transport(
                    lambda stream: ending(_Recorded(stream, recorder)),
                    request.security.who,
                    context,
                ),
                timeout=_timeout(timeouts),
                follow_redirects=False,
                trust_env=False,
            ) as client,
            client.stream(
                request.method,
                request.url,
                headers=_headers(request),
                content=request.body or None,
                extensions={"trace": seen},
            ) as response,
        ):
            body, problem = _read(response)
            return Exchange(
                marked=seen.passed,
                trace=tuple(seen.events),
                status=response.status_code,
                headers={k: v[:1000] for k, v in list(response.headers.items())[:50]},
                body=body,
                body_problem=problem,
                written=recorder.written(),
            )
    except (httpx.HTTPError, httpx.InvalidURL, AddressRefused, NotBegun, UnicodeError) as failed:
        return Exchange(
            marked=seen.passed,
            trace=tuple(seen.events),
            exception=type(failed).__name__,
            message=_message(failed),
            written=recorder.written(),
        )


class _Watch:
    """Listens to httpcore's trace, and stands at the barrier."""

    def __init__(self, barrier: Barrier | None, deadline: Deadline) -> None:
        self._barrier = barrier
        self._deadline = deadline
        self.passed = False
        self.events: list[str] = []

    def __call__(self, event: str, info: dict[str, Any]) -> None:
        self.events.append(event)
        if event != FIRST_BYTE or info["request"].method == b"CONNECT":
            return
        if self.passed:
            raise NotBegun("a second request under one send")
        if self._barrier is not None:
            self._barrier()
        self._deadline.restart()
        self.passed = True


def _timeout(timeouts: Timeouts) -> httpx.Timeout:
    return httpx.Timeout(
        connect=timeouts.connect, read=timeouts.read, write=timeouts.write, pool=timeouts.connect
    )


def _message(failed: Exception) -> str:
    if isinstance(failed, httpx.LocalProtocolError):
        return str(failed).partition(" b")[
            0
        ]  # what follows is the header that it refuses: perhaps the secret
    return str(failed)[:300]


def _headers(request: Request) -> dict[str, str]:
    named = {"User-Agent": "Counterfoil", "Accept-Encoding": "identity", "Connection": "close"}
    return {**named, **request.headers, **request.secret_headers}


def _read(response: httpx.Response) -> tuple[bytes, str]:
    """The raw body up to the limit, and what was wrong with it. The status is known whatever happens here."""
    body = bytearray()
    try:
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > BODY_LIMIT:
                return bytes(body[:BODY_LIMIT]), f"longer than {BODY_LIMIT} bytes"
    except httpx.HTTPError as cut:
        return bytes(body), f"cut off ({type(cut).__name__})"
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        # Asked for none, so nothing is unpacked: a small body could become a very large one.
        return bytes(body), f"encoded as {encoding[:20]}, which was not asked for"
    return bytes(body), ""
