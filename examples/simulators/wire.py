"""One request in, one reply out.

The body is read only when the application asks for it, because one fault resets the connection before that.
"""

import json
import re
import select
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

BODY_LIMIT = 10 * 1024 * 1024
DEPTH_LIMIT = 64


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hangup:
    """Close without a byte of answer: a plain end of stream, or with `reset` a TCP reset."""

    reset: bool = False


Reply = Answer | Hangup


class Refused(Exception):
    """The request cannot be served; `reply` says how that is told."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self.reply = reply


def json_answer(status: int, content: object, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json_bytes(content), "application/json", named)


def json_bytes(content: object) -> bytes:
    # Escaped to ASCII: a lone surrogate sent to us must not stop us from answering.
    return (json.dumps(content, indent=1) + "\n").encode("ascii")


def problem(status: int, code: str, detail: str, **headers: str) -> Answer:
    body = json_bytes({"type": "about:blank", "status": status, "code": code, "detail": detail})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, body, "application/problem+json", named)


def html_answer(page: str, status: int = 200) -> Answer:
    policy = (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return Answer(status, page.encode("utf-8", "replace"), "text/html; charset=utf-8", headers)


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Raises `Refused` with 400 for anything that is not one JSON object in UTF-8."""
    try:
        content = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Refused(problem(400, "bad_json", "The body is not JSON in UTF-8.")) from None
    if not isinstance(content, dict):
        raise Refused(problem(400, "not_an_object", "The body must be a JSON object."))
    if _depth(content) > DEPTH_LIMIT:
        raise Refused(problem(400, "too_deep", f"The body nests deeper than {DEPTH_LIMIT} levels."))
    return content


def _depth(content: object) -> int:
    """Counted without recursion, and only as far as the limit needs."""
    level, depth = [content], 0
    while level and depth <= DEPTH_LIMIT:
        branches = [node for node in level if isinstance(node, dict | list)]
        level = [child for node in branches for child in (node.values() if isinstance(node, dict) else node)]
        depth += 1
    return depth


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


class Incoming:
    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler
        self._body: bytes | None = None
        target = urlsplit(handler.path)
        self.method: str = handler.command
        self.path = target.path or "/"
        self.segments = [unquote(part, errors="replace") for part in self.path.split("/")[1:]]
        self.query = dict(parse_qsl(target.query, keep_blank_values=True, errors="replace"))
        self.headers = handler.headers

    @property
    def body_was_read(self) -> bool:
        return self._body is not None

    def header(self, name: str) -> str | None:
        value = self.headers.get(name)
        return None if value is None else str(value).strip()

    def read_body(self) -> bytes:
        """Raises `Refused`: 413 over the limit, 400 for broken framing, a hangup when the client left midway."""
        if self._body is None:
            self._body = self._read_chunked() if "Transfer-Encoding" in self.headers else self._read_sized()
        return self._body

    def client_leaves_within(self, seconds: float) -> bool:
        """Wait that long, or only until the client closes its end."""
        connection, deadline = self._handler.connection, time.monotonic() + seconds
        poll = select.poll()  # not select(), which cannot wait for descriptors above 1023
        poll.register(connection, select.POLLIN)
        try:
            if poll.poll(seconds * 1000) and connection.recv(1, socket.MSG_PEEK) == b"":
                return True
        except OSError:
            return True
        time.sleep(max(0.0, deadline - time.monotonic()))
        return False

    def _read_sized(self) -> bytes:
        stated = self.headers.get_all("Content-Length") or ["0"]
        if len(set(stated)) != 1 or not re.fullmatch(r"[0-9]{1,18}", stated[0].strip()):
            raise Refused(problem(400, "bad_length", "Content-Length is not one number."))
        return self._read_exactly(int(stated[0]))

    def _read_chunked(self) -> bytes:
        if (
            str(self.headers["Transfer-Encoding"]).strip().lower() != "chunked"
            or "Content-Length" in self.headers
        ):
            raise Refused(problem(400, "bad_framing", "Only chunked, without Content-Length, is understood."))
        content = bytearray()
        while size := self._read_chunk_size():
            content += self._read_exactly(size, already=len(content))
            self._read_line()
        while self._read_line().strip():
            pass
        return bytes(content)

    def _read_chunk_size(self) -> int:
        size = self._read_line().split(b";", 1)[0].strip()
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size):
            raise Refused(problem(400, "bad_chunk", "A chunk has no size."))
        return int(size, 16)

    def _read_line(self) -> bytes:
        line = self._handler.rfile.readline(4096)
        if not line.endswith(b"\n"):
            raise Refused(Hangup())
        return line

    def _read_exactly(self, size: int, already: int = 0) -> bytes:
        if already + size > BODY_LIMIT:
            raise Refused(problem(413, "too_large", f"The limit is {BODY_LIMIT} bytes."))
        content = self._handler.rfile.read(size)
        if len(content) != size:
            raise Refused(Hangup())
        return content
