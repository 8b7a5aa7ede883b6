"""What was written to a receiver's connection, against what was approved. Pure: reads no rows, calls nobody.

`Written` is taken at the connection itself, below the HTTP client: what it says left, left so. Authentication is hidden
in it by name; everything else of the request is in it, and has to be the approved request to the byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import httpx

OURS = frozenset(("host", "accept", "accept-encoding", "connection", "user-agent", "content-length"))
"""Headers that the client adds: about the connection, never about the effect."""

HIDDEN = "[hidden]"
LONGEST_HEAD = 64_000
_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Written:
    """One request as it was handed to the connection: `head` is JSON of method, target and headers."""

    head: str
    digest: str
    length: int


class Recorder:
    """Takes the bytes as they are written; the body is only hashed and counted."""

    def __init__(self, secret: Iterable[str]) -> None:
        self._secret = frozenset(name.lower() for name in secret)
        self._head = b""
        self._in_body = False
        self._body = hashlib.sha256()
        self._length = 0
        self.scheme = "http"

    def take(self, data: bytes) -> None:
        if self._in_body:
            self._count(data)
            return
        self._head += data
        end = self._head.find(_END_OF_HEAD)
        if end >= 0:
            self._in_body = True
            self._count(self._head[end + len(_END_OF_HEAD) :])
            self._head = self._head[:end]

    def written(self) -> Written | None:
        """What was written so far, or None where not even the head was."""
        if not self._in_body:
            return None
        head = json.dumps(self._parsed(), ensure_ascii=False)
        return Written(head[:LONGEST_HEAD], self._body.hexdigest(), self._length)

    def _count(self, data: bytes) -> None:
        self._body.update(data)
        self._length += len(data)

    def _parsed(self) -> dict[str, object]:
        first, *lines = self._head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        headers = [[name, value.strip()] for name, _, value in (line.partition(":") for line in lines)]
        host = next((value for name, value in headers if name.lower() == "host"), "")
        return {
            "method": method,
            "target": f"{self.scheme}://{host}{rest.rpartition(' ')[0]}",
            "headers": [[n, HIDDEN if n.lower() in self._secret else v] for n, v in headers],
        }


class Verdict(StrEnum):
    """How what was sent compares with what was approved."""

    EQUAL = "equal"  # to the byte
    PART = "part"  # its beginning: the connection broke before the end
    DIFFERS = "differs"  # something else left: a fault of ours
    UNRECORDED = "unrecorded"  # nobody could write down what left


@dataclass(frozen=True, slots=True)
class Approved:
    """The approved request, as far as it is sent."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict, and in which points it differs."""

    verdict: Verdict
    points: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return {
            Verdict.EQUAL: "The sent bytes equal the approved bytes.",
            Verdict.PART: "Only the beginning of the approved bytes left before the connection broke.",
            Verdict.DIFFERS: f"What was sent differs from what was approved: {'; '.join(self.points)}.",
            Verdict.UNRECORDED: "What left was not recorded: the sender stopped before it could.",
        }[self.verdict]


def compare(approved: Approved, written: Written | None) -> Comparison:
    """Method, address, every approved header and the body, against what left."""
    if written is None:
        return Comparison(Verdict.UNRECORDED)
    try:
        head = json.loads(written.head)
        points = [*_line(approved, head), *_headers(approved.headers, head["headers"])]
    except (ValueError, KeyError, TypeError):
        points = ["the record of it cannot be read"]
    whole = written.length >= len(approved.body)
    if hashlib.sha256(approved.body[: written.length]).hexdigest() != written.digest or (
        written.length > len(approved.body)
    ):
        points.append(f"the body, {written.length} bytes of {written.digest[:8]}")
    if points:
        return Comparison(Verdict.DIFFERS, tuple(points))
    return Comparison(Verdict.EQUAL if whole else Verdict.PART)


def _line(approved: Approved, head: Mapping[str, object]) -> list[str]:
    url = httpx.URL(approved.target)
    target = f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii')}"
    found = []
    if head["method"] != approved.method:
        found.append(f"the method {head['method']}")
    if head["target"] != target:
        found.append(f"the address {head['target']}")
    return found


def _headers(approved: Mapping[str, str], sent: Iterable[tuple[str, str]]) -> list[str]:
    rows = [(name.lower(), value) for name, value in sent]
    wanted = {name.lower(): value for name, value in approved.items()}
    found = [
        f"the header {name}"
        for name, value in wanted.items()
        if [v for n, v in rows if n == name] != [value.strip()]
    ]
    strangers = {n for n, v in rows if n not in wanted and n not in OURS and v != HIDDEN}
    return found + [f"the header {name}, which nobody approved" for name in sorted(strangers)]
