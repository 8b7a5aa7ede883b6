"""What calls to models cost: the page, and the same as a file."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from console.queries import costs as queries
from workflows import pricing
from workflows.costs import report
from workflows.costs.spent import spending

MAY_SEE = (Role.MANAGER, Role.OPERATOR, Role.ADMIN, Role.AUDITOR)
_KEYS = ("day", "workflow", "route")


@require_safe
@tenant_page(*MAY_SEE)
def costs(request: TenantRequest, slug: str) -> HttpResponseBase:
    """By workflow, model and day, in a range of days of the organisation's own zone."""
    today = timezone.localdate(request.now)
    days = queries.chosen_range(request.GET.dict(), today)
    by_day = queries.by_day(days)
    context = {
        "days": days,
        "today": today,
        "shortcuts": [(words, today - timedelta(days=n - 1)) for words, n in queries.SHORTCUTS],
        "by_workflow": queries.by_workflow(days),
        "by_route": queries.by_route(days),
        "by_day": by_day[::-1],
        "chart": queries.draw(by_day, days),
        "currency": pricing.currency(),
        "zone": request.tenant.time_zone,
    }
    return render(request, "console/costs.html", context, status=422 if days.wrong else 200)


@require_safe
@tenant_page(*MAY_SEE)
def costs_file(request: TenantRequest, slug: str) -> HttpResponseBase:
    """The same days as CSV, exact: a line for each day, workflow, route and fate."""
    days = queries.chosen_range(request.GET.dict(), timezone.localdate(request.now))
    lines = spending(since=days.since, until=days.until, by=_KEYS)
    name = f"cost-{slug}-{days.since}-{days.until}.csv"
    return StreamingHttpResponse(
        report.csv_lines(lines, _KEYS),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
