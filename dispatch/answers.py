"""What is kept of a question and of its answer: both with a digest of them as they were, without secrets, and bounded. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from dispatch.texts import shown
from dispatch.wire import Exchange, Request

LONGEST = 20_000
"""Characters of an answer's body; its digest is of all of it that was read."""

_HIDDEN = frozenset(("set-cookie", "authorization", "proxy-authenticate", "www-authenticate"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: nothing at all where `digest` is empty. `headers` is JSON."""

    status: int | None = None
    headers: str = ""
    body: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """One question and its answer. `question` is JSON of method, address, headers and the body's digest, as they were
    written to the connection where it came to that ("sent"); what authenticates it is hidden. `digest` is of that."""

    question: str
    digest: str
    answer: Answer


def answer_of(seen: Exchange | None) -> Answer:
    """What is kept of the answer of an exchange."""
    if seen is None:
        return Answer()
    body = shown(seen.body[:LONGEST].decode("utf-8", "replace"))
    if seen.status is None:
        return Answer(body=body)
    headers = {k: v for k, v in seen.headers.items() if k.lower() not in _HIDDEN}
    digest = hashlib.sha256(seen.body).hexdigest()
    return Answer(seen.status, shown(json.dumps(headers)), body, digest)


def heard(request: Request, seen: Exchange) -> Heard:
    """What was asked, as far as it left, and what came back."""
    question = json.dumps(_question(request, seen), ensure_ascii=False)
    return Heard(shown(question), hashlib.sha256(question.encode()).hexdigest(), answer_of(seen))


def _question(request: Request, seen: Exchange) -> dict[str, Any]:
    if seen.written is not None:
        head, body, sent = _head(seen.written.head), seen.written.digest, True
    else:
        headers = [[name, value] for name, value in request.headers.items()]
        head = {"method": request.method, "target": request.url, "headers": headers}
        body, sent = hashlib.sha256(request.body).hexdigest(), False
    return {**head, "body_sha256": body, "sent": sent}


def _head(written: str) -> dict[str, Any]:
    try:
        return dict(json.loads(written))
    except ValueError:  # cut, since it was so long
        return {"head": written}
