"""One webhook: signed as Standard Webhooks describes, posted once, and judged by its status alone.

Nothing is followed, nothing of the answer's body is read, and an address that points inside is refused at the moment
of connecting, whatever it was when it was saved.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx
from standardwebhooks.webhooks import Webhook

from access.addresses import AddressRefused, check_url
from access.outbound import Deadline, Transport, ends_by
from outbox.dispatcher.outcomes import Delivered, Later, Never, Outcome
from web.redaction import hide

SECONDS = 15.0
"""For the whole exchange, whatever the other side does; the resolution of its name may add to it."""
SLOW_SECONDS = 2.0
_TIMEOUT = httpx.Timeout(connect=5.0, read=10.0, write=5.0, pool=5.0)


@dataclass(frozen=True, slots=True)
class Post:
    """What is posted where, and the secrets that sign it."""

    url: str
    webhook_id: str
    payload: str
    secrets: Sequence[str]
    who: str = ""
    """As COUNTERFOIL_INTERNAL_RECEIVERS names it."""


def post(what: Post, now: datetime) -> Outcome:
    """Send it once. Raises nothing that a network or an endpoint can do. The caller is outside any transaction."""
    began = time.monotonic()
    try:
        check_url(what.url, what.who)
        with (
            httpx.Client(
                transport=Transport(ends_by(Deadline(SECONDS)), what.who),
                timeout=_TIMEOUT,
                follow_redirects=False,
                trust_env=False,
            ) as client,
            client.stream(
                "POST", what.url, headers=signed_headers(what, now), content=what.payload.encode()
            ) as response,
        ):
            return _judge(response, time.monotonic() - began)
    except AddressRefused as refused:
        return Later(f"Nothing was sent: {refused}")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as failed:
        return Later(f"No answer: {type(failed).__name__}: {hide(' '.join(str(failed).split()))[:200]}")


def signed_headers(what: Post, now: datetime) -> dict[str, str]:
    """The headers of this try: the id stays, the time and the signatures are this try's."""
    at = now.astimezone(UTC)
    signatures = [Webhook(secret).sign(what.webhook_id, at, what.payload) for secret in what.secrets]
    return {
        "Content-Type": "application/json",
        "User-Agent": "Counterfoil",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "webhook-id": what.webhook_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def _judge(response: httpx.Response, took: float) -> Outcome:
    status = response.status_code
    if 200 <= status < 300:
        return Delivered(f"answered {status}", slow=took > SLOW_SECONDS)
    if status == 410:
        return Never("It answered 410: nobody is there any more.", gone=True)
    if 300 <= status < 400:
        return Later(f"It answered {status}, which leads elsewhere and is not followed.")
    return Later(f"It answered {status}.", not_before=_asked_for(response))


def _asked_for(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0
