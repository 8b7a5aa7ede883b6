"""Answers that are saved and never shown: what files hold came from anybody."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header


def csv(rows: Iterator[str], name: str) -> HttpResponseBase:
    """A table, row after row."""
    return attached(StreamingHttpResponse(rows, content_type="text/csv; charset=utf-8"), name)


def attached(response: StreamingHttpResponse, name: str) -> HttpResponseBase:
    """The response as a file of this name."""
    response.headers["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response.headers["Cache-Control"] = "private, no-cache"
    return response
