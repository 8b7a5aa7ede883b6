"""One answer for two askers: a page for a browser, the fragment of that page for htmx.

A conflict is content. 403, 409, 412 and 422 carry the fresh fragment, and base.html tells htmx once to swap them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers

STOP_POLLING = 286


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two slips of a conflict: what was looked at, or what it is now."""

    title: str
    number: str = ""
    digest: str = ""
    stamp: str = ""
    facts: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody or something was first. `not_done` comes first on the screen: what was not recorded and not sent."""

    title: str
    not_done: str
    because: str = ""
    was: Side | None = None
    now: Side | None = None
    same: str = ""
    next_url: str = ""
    next_label: str = ""
    back_url: str = ""
    back_label: str = ""
    status: int = 409
    kept: str = ""
    """What the person had written, which was not recorded, to be copied from here."""


def wants_fragment(request: HttpRequest) -> bool:
    """True for htmx, but not when it restores history or follows a boosted link: those replace the page."""
    htmx = getattr(request, "htmx", None)
    return htmx is not None and bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def render_fragment(
    request: HttpRequest, template: str, context: Mapping[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    """Renders "page.html#rows" for htmx and "page.html" for everybody else."""
    page, _, _ = template.partition("#")
    name = template if wants_fragment(request) else page
    response = render(request, name, dict(context or {}), status=status)
    patch_vary_headers(response, ["HX-Request"])
    return response


def render_conflict(
    request: HttpRequest, conflict: Conflict, context: Mapping[str, Any] | None = None
) -> HttpResponse:
    """The conflict as a page, or as the content that takes the place of the slip."""
    return render_fragment(
        request, "web/conflict.html#content", {**(context or {}), "conflict": conflict}, conflict.status
    )
