"""The way in: from / to an organisation's home, and the home page itself."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from access.belonging import tenants_of
from access.doors import TenantRequest, tenant_page
from console.health import MAY_SEE_HEALTH
from console.queries import costs, day, needs
from web.htmx import render_fragment


def front(request: HttpRequest) -> HttpResponse:
    """To the one organisation of a person; a choice where there are several, and a clear page where there is none."""
    belongings = tenants_of(int(request.user.pk or 0))
    if len(belongings) == 1:
        return redirect("home", belongings[0].slug)
    return render(request, "console/front.html", {"belongings": belongings})


@require_safe
@tenant_page()
def home(request: TenantRequest, slug: str) -> HttpResponseBase:
    """What needs a person, and how the last day went."""
    queues = needs.queues(slug, request.now)
    context = {
        "queues": queues,
        "total": sum(q.count for q in queues),
        "late": sum(q.late for q in queues),
        "ended": day.ended(request.now),
        "cost": costs.last_day(request.now),
        "health": day.health(request.now),
        "may_see_health": not request.roles.isdisjoint(MAY_SEE_HEALTH),
    }
    return render_fragment(request, "console/home.html#live", context)
