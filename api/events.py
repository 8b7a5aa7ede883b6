"""Events from outside: `POST /api/v1/t/<organisation>/events/<source>`, signed as Standard Webhooks describes.

Nothing is told to a sender whose signature does not hold, and nothing of what it sent is kept.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from ninja import Router

from access import signatures
from access.doors import find_tenant
from access.tenancy import reading
from api.problems import BadRequest, NotSigned, TooLarge
from workflows import sources, submissions, wording
from workflows.actions.receive_event import InvalidEvent, receive_event
from workflows.authoring import Problem

LARGEST = 100_000
"""Bytes of one event."""
LONGEST_ID = 200

router = Router()


@router.post("/t/{slug}/events/{source}", url_name="event", auth=None)
def event(request: HttpRequest, slug: str, source: str) -> HttpResponse:
    """`{"key": …, "value": …}`: 200 where it ended a wait, 202 where it is kept for one; the same again, the same."""
    body = read_body(request, LARGEST)
    tenant = find_tenant(slug)
    held: list[str] = []
    if tenant is not None:
        with reading(tenant.pk):
            held = sources.secrets_of(source, timezone.now())
    if not signatures.is_signed(body, request.headers, held) or tenant is None:
        raise NotSigned
    event_id = request.headers["webhook-id"]
    if len(event_id) > LONGEST_ID or not event_id.isprintable():
        raise BadRequest(
            f"Send a webhook-id of up to {LONGEST_ID} printable characters: one an event, kept for retries."
        )
    key, value = _content(submissions.parse(body))
    received = receive_event(
        tenant_id=tenant.pk, source=source, event_id=event_id, key=key, value=value, now=timezone.now()
    )
    response = JsonResponse(
        {"status": "used" if received.used else "kept"}, status=200 if received.used else 202
    )
    if received.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return response


def read_body(request: HttpRequest, largest: int) -> bytes:
    """The body, unread where its length says that it is too long. Raises TooLarge."""
    length = request.headers.get("Content-Length", "")
    if length.isdigit() and int(length) > largest:
        raise TooLarge(largest)
    body = request.body
    if len(body) > largest:
        raise TooLarge(largest)
    return body


def _content(whole: Any) -> tuple[str, Any]:
    if not isinstance(whole, dict):
        raise InvalidEvent([Problem("", 'send an object with "key" and "value"')])
    problems = [Problem(name, "is missing") for name in ("key", "value") if name not in whole]
    problems += [
        Problem(wording.place(name), "is not known; send key and value")
        for name in whole
        if name not in ("key", "value")
    ]
    if type(whole.get("key", "")) is not str:  # a fraction is kept as a kind of text by the parser
        problems.append(Problem("key", "is text"))
    if problems:
        raise InvalidEvent(wording.named(problems))
    return whole["key"], whole["value"]
