"""When the database cannot serve: away, starting, full, read-only, out of connections. Nobody's fault who asked.

Whoever has a result to save keeps it and tries again; whoever looks at a page is told so with a 503, and nothing that
an outage stopped is recorded as something that failed by itself.
"""

from __future__ import annotations

import sys

import psycopg
from django.db import InterfaceError, InternalError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error as plain_server_error

AGAIN_SECONDS = 5
"""After which a browser or a client may ask again."""
_CLASSES = ("08", "53", "57P", "58")
"""Connections, resources (disk, memory, connections), a server that stops or starts, its files. Source: PostgreSQL's
appendix of error codes."""
_READ_ONLY = "25006"


_CONTENTION = ("40001", "40P01", "55P03")
"""Serialization, deadlock, a lock that was not to be had in time."""


def may_pass(error: BaseException | None) -> bool:
    """Whether what could not be saved may be saved a moment later: the database was away, or somebody else was first."""
    return is_outage(error) or _code(error) in _CONTENTION


def is_outage(error: BaseException | None) -> bool:
    """Whether the database could not serve at all, so that the same question may be answered later."""
    if isinstance(error, (InterfaceError, psycopg.InterfaceError)):
        return True
    if not isinstance(
        error, (OperationalError, InternalError, psycopg.OperationalError, psycopg.InternalError)
    ):
        return False
    code = _code(error)
    if code is None:  # no server said anything: the connection could not be made, or was lost
        return isinstance(error, (OperationalError, psycopg.OperationalError))
    return code == _READ_ONLY or code.startswith(_CLASSES)


def _code(error: BaseException | None) -> str | None:
    """What the server called it; Django's errors have it from their cause."""
    found = getattr(error, "sqlstate", None) or getattr(getattr(error, "__cause__", None), "sqlstate", None)
    return None if found is None else str(found)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's 500, but 503 when it is the database that cannot serve. Called while the exception is handled."""
    if not is_outage(sys.exc_info()[1]):
        return plain_server_error(request)
    page = render_to_string("503.html", {"changed": request.method not in ("GET", "HEAD")})
    response = HttpResponse(page, status=503)
    response.headers["Retry-After"] = str(AGAIN_SECONDS)
    return response
