"""Addresses: those that can be looked for, and the page of ours that somebody came from."""

from __future__ import annotations

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.http import url_has_allowed_host_and_scheme


def refuse_nul(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Middleware, the last: an address that holds a NUL names nothing, and no database takes it to look for it.

    What it refuses looks like every other address that is not there.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        if "\0" in request.path_info:
            raise Http404
        return get_response(request)

    return answer


def came_from(request: HttpRequest) -> str:
    """The address of the page of ours on which something was asked, or "/"."""
    htmx = getattr(request, "htmx", None)
    page = (htmx.current_url if htmx else None) or request.headers.get("Referer", "")
    ours = url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure())
    return page if ours else "/"
