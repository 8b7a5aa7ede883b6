"""The API's addresses, under /api/v1/. It says 401 by itself, so the console's redirect to the sign-in stays away."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, URLResolver, path

from api import files, proposals  # noqa: F401 - add their addresses
from api.jobs import api

_patterns, _app, _namespace = api.urls


def _open(patterns: Iterable[URLPattern | URLResolver]) -> None:
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            pattern.callback = login_not_required(pattern.callback)


_open(_patterns)
urlpatterns: list[URLResolver] = [path("api/v1/", (_patterns, _app, _namespace))]
