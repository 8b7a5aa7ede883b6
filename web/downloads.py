"""Handing out a file that came from somebody: to be saved, never shown by the browser."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.http import content_disposition_header


def download(*, name: str, media_type: str, content: bytes | memoryview) -> HttpResponse:
    """An attachment whose type is what we found it to be, which no browser guesses anew, and in which nothing runs."""
    response = HttpResponse(bytes(content), content_type=media_type)
    response.headers["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response.headers["Cache-Control"] = "private, no-cache"
    return response
