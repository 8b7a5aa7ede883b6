"""Addresses that can be looked for: one that holds a NUL names nothing, and no database takes it to look for it."""

from __future__ import annotations

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponseBase


def refuse_nul(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Middleware, the last: what it refuses looks like every other address that is not there."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if "\0" in request.path_info:
            raise Http404
        return get_response(request)

    return answer
