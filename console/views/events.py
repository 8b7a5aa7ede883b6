"""Events from outside: who may send them, and what came that nobody has used."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from console.queries import events as queries
from workflows.actions.event_sources import discard_event

READERS = (Role.ADMIN, Role.OPERATOR, Role.AUDITOR)


@require_safe
@tenant_page(*READERS)
def events(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Sources with how they stand, and events that are kept."""
    text = request.GET.get("before", "")
    before = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    unused, older = queries.unused_events(before=before)
    context = {
        "sources": queries.list_sources(),
        "unused": unused,
        "older": older,
        "newest": not before,
        "may_discard": not request.roles.isdisjoint({Role.ADMIN, Role.OPERATOR}),
    }
    return render(request, "console/events.html", context)


@require_POST
@tenant_page(Role.ADMIN, Role.OPERATOR)
def discard(request: TenantRequest, slug: str, event_id: int) -> HttpResponseBase:
    """Gives up one event."""
    discard_event(
        tenant_id=request.tenant.pk, event_id=event_id, person_id=request.person.pk, now=timezone.now()
    )
    messages.success(request, "Discarded. Its value is gone; its id is kept.")
    return redirect("events", slug)
