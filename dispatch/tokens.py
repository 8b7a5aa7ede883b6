"""Tokens by OAuth client credentials: fetched before a send is marked, kept in this process's memory and nowhere else.

A token endpoint that fails has nothing to do with the effect: nothing was sent. A token that a receiver has refused is
forgotten, so that the next attempt, under the same key, asks for another.
"""

from __future__ import annotations

import hashlib
import threading
import time
from base64 import b64encode
from collections import defaultdict
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from dispatch.authentication import OAuth
from dispatch.comparison import Unreadable, read_json
from dispatch.contracts import Timeouts
from dispatch.wire import Request, Security, exchange
from web.redaction import remember

EARLIER = 30.0
"""Seconds before its end in which a token is not used any more."""
ASSUMED = 300.0
"""For how long a token is taken to be good whose endpoint does not say."""
LONGEST = 86_400.0
_REFUSED = (400, 401, 403)


class NoToken(Exception):
    """No token was given; a sentence. `refused`: the endpoint does not know this client, and will not by itself."""

    def __init__(self, said: str, *, refused: bool = False) -> None:
        super().__init__(said)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks for a token."""

    oauth: OAuth
    secret: str
    security: Security

    @property
    def key(self) -> str:
        parts = (repr(self.oauth), self.secret, repr(self.security))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Token:
    """`kept`: it was here already, so that a refusal may be about its age."""

    value: str
    kept: bool


_held: dict[str, tuple[str, float]] = {}
_failed: dict[str, tuple[NoToken, float]] = {}
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def token_of(client: Client, timeouts: Timeouts) -> Token:
    """A token that is good now; of several threads one asks, and what it is told holds for those that waited. Raises NoToken."""
    key, came_at = client.key, _clock()
    with _locks[key]:
        value, until = _held.get(key, ("", 0.0))
        if _clock() < until:
            return Token(value, kept=True)
        failure, failed_at = _failed.get(key, (None, 0.0))
        if failure is not None and failed_at >= came_at:
            raise NoToken(str(failure), refused=failure.refused)
        try:
            value, seconds = _ask(client, timeouts)
        except NoToken as none:
            _failed[key] = none, _clock()
            raise
        remember(value)
        _held[key] = value, _clock() + max(0.0, min(seconds, LONGEST) - EARLIER)
        return Token(value, kept=False)


def forget(client: Client, token: str) -> None:
    """The receiver has refused this token. One that has been fetched since stays."""
    with _locks[client.key]:
        if _held.get(client.key, ("", 0.0))[0] == token:
            del _held[client.key]


def _ask(client: Client, timeouts: Timeouts) -> tuple[str, float]:
    seen = exchange(_request(client), timeouts)
    where = client.oauth.token_url
    if seen.status is None:
        raise NoToken(f"{where} gave no token: {seen.exception}: {seen.message}")
    if seen.status != 200:
        raise NoToken(f"{where} gave no token: it answered {seen.status}", refused=seen.status in _REFUSED)
    try:
        content = read_json(b"" if seen.body_problem else seen.body)
    except Unreadable as unreadable:
        raise NoToken(f"{where} gave no token: {unreadable}") from None
    value, kind = content.get("access_token"), content.get("token_type", "Bearer")
    if not (isinstance(value, str) and 0 < len(value) <= 8000 and value.isascii() and value.isprintable()):
        raise NoToken(f"{where} gave no token: its answer has none that can be sent")
    if str(kind).lower() != "bearer":
        raise NoToken(f"{where} gave a token of another kind than Bearer", refused=True)
    return value, _seconds(content.get("expires_in"))


def _request(client: Client) -> Request:
    oauth, headers = client.oauth, {"Accept": "application/json"}
    form = {"grant_type": "client_credentials"}
    form |= {n: v for n, v in (("scope", oauth.scope), ("audience", oauth.audience)) if v}
    secret: dict[str, str] = {}
    if oauth.client_auth == "basic":
        pair = f"{quote(oauth.client_id, safe='')}:{quote(client.secret, safe='')}"
        secret["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    else:
        form |= {"client_id": oauth.client_id, "client_secret": client.secret}
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    return Request("POST", oauth.token_url, headers, urlencode(form).encode(), secret, client.security)


def _seconds(told: object) -> float:
    # Some say it as text. A kept answer is a number only where it says one.
    text = str(told)
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else ASSUMED


def _clock() -> float:
    # Runs on while the machine is suspended, as the token's time does.
    return time.clock_gettime(time.CLOCK_BOOTTIME)
