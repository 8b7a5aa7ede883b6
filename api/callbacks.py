"""Callbacks of receivers: `POST /api/v1/callbacks/<public id of the receiver>`, signed as its contract says.

No session and no CSRF: the signature over the raw body is what counts. What is answered tells a stranger nothing, and
even whoever signs is not told which keys there are.
"""

from __future__ import annotations

from uuid import UUID

from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from ninja import Router

from access.doors import BUSY
from api import problems
from api.events import read_body
from dispatch.callbacks.receiving import NotTheirs, receive_callback
from dispatch.callbacks.signing import BadMessageId
from dispatch.callbacks.taking import LARGEST, TooManyCallbacks

router = Router()


@router.post("/callbacks/{public_id}", url_name="callback", auth=None)
def callback(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """200 where it names an operation, and again for the same message; 404 where it names nothing here."""
    body = read_body(request, LARGEST)
    try:
        taken = receive_callback(public_id=public_id, body=body, headers=request.headers, now=timezone.now())
    except NotTheirs as stranger:
        raise problems.NotSigned from stranger
    except BadMessageId as bad:
        raise problems.BadRequest(str(bad)) from bad
    except TooManyCallbacks as many:
        return _later(429, str(many), "60")
    except OperationalError as busy:
        if getattr(busy.__cause__, "sqlstate", None) not in BUSY:
            raise
        # Not 409: some who call back take every 4xx for the last word.
        return _later(503, "Somebody else is at it at this moment. Nothing was kept; send it again.", "5")
    if not taken.matched:
        raise Http404
    response = JsonResponse({"status": "taken"})
    if taken.repeated:
        response.headers["Idempotency-Replayed"] = "true"
    return response


def _later(status: int, why: str, seconds: str) -> HttpResponse:
    response = problems.problem(status, why)
    response.headers["Retry-After"] = seconds
    return response
