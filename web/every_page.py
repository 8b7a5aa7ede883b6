"""What holds for every page: how one is sent to the sign-in, that nothing keeps a copy, and that no answer is a blank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.template.loader import render_to_string

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


def explain_not_allowed(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[..., HttpResponseBase]:
    """Middleware: whoever opens or reloads the address of a form gets a page instead of a blank one."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if isinstance(response, HttpResponseNotAllowed) and request.method == "GET" and not response.content:
            response.content = render_to_string("405.html", {"back": came_from(request)}, request).encode()
        return response

    return answer
