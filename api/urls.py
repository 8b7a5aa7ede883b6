"""The API's addresses, under /api/v1/. It says 401 and 405 by itself, so what pages answer stays away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, path

from api import files, proposals  # noqa: F401 - add their addresses
from api.jobs import api
from api.problems import not_allowed

_patterns, _app, _namespace = api.urls


def _open(patterns: Iterable[URLPattern | URLResolver]) -> None:
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            pattern.callback = login_not_required(_telling(pattern.callback))


def _telling(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """The view, with the library's bare 405 as a problem like every other refusal."""

    @wraps(view)
    def answer(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(*args, **kwargs)
        if isinstance(response, HttpResponseNotAllowed):
            return not_allowed(response.headers["Allow"])
        return response

    return answer


_open(_patterns)
urlpatterns: list[URLResolver] = [path("api/v1/", (_patterns, _app, _namespace))]
