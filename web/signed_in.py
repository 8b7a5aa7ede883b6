"""What holds for every page of somebody who is signed in: how they are sent to the sign-in, and that nothing keeps a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from web.addresses import came_from
from web.htmx import wants_fragment

SAFE = ("GET", "HEAD")


class SignInMiddleware(LoginRequiredMiddleware):
    """Sends whoever is not signed in to a page that can be opened afterwards, and never the sign-in into a part of a page.

    A form's own address takes POST only; after the sign-in the page on which it stood is opened instead.
    """

    def handle_no_permission(  # type: ignore[override]  # Django's always redirects
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        if wants_fragment(request):
            return HttpResponse(status=401)  # static/js/lost.js says what to do
        if request.method in SAFE:
            return super().handle_no_permission(request, view_func)
        return redirect_to_login(came_from(request), self.get_login_url(view_func))


def keep_no_copy(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Middleware: what was read is gone from the browser once somebody signs out, and no cache on the way has it."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response

    return answer
