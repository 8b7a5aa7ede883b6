"""The pages of incidents. Nothing is done here: a receiver is paused on its own page, and cases are answered in bulk."""

from __future__ import annotations

from django.http import HttpResponseBase
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from reconciliation.incidents.pages import closed_incidents, incident_page, open_incidents
from reconciliation.links import link
from reconciliation.narrowing import Narrowing
from reconciliation.queries import open_cases
from reconciliation.tabs import mark_of
from reconciliation.words import state_words
from web.htmx import render_fragment

FIRST = 10


@require_safe
@tenant_page()
def incidents(request: TenantRequest, slug: str) -> HttpResponseBase:
    """The open ones and the latest that have closed."""
    context = {"open": open_incidents(), "closed": closed_incidents()}
    return TemplateResponse(request, "reconciliation/incidents.html", context)


@require_safe
@tenant_page()
def incident(request: TenantRequest, slug: str, incident_id: int) -> HttpResponseBase:
    """One storm: its cases, what can be done to all of them, and what has happened. Asks again while it is open."""
    page = incident_page(incident_id, request.roles)
    chosen = Narrowing(incident=str(incident_id), snoozed="1")
    first = open_cases(now=request.now, person_id=request.person.pk, chosen=chosen, limit=FIRST)
    context = {
        "i": page,
        "mark": mark_of(page.row.incident.kind),
        "kind_words": state_words(page.row.incident.kind),
        "rows": [(row, mark_of(row.kind)) for row in first.rows],
        "pause_url": link("receiver-pause", slug, page.row.incident.receiver_id)
        if Role.ADMIN in request.roles
        else "",
        "me": request.person.username,
    }
    return render_fragment(request, "reconciliation/incident.html#live", context)
