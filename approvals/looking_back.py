"""The room's pages that look back: what a person decided and what became of it, and how approvals went by policy."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.doors import TenantRequest, tenant_page
from approvals.figures import by_policy
from approvals.record import my_decisions
from approvals.showing import number

DAYS = (7, 30, 90, 365)


@require_safe
@tenant_page()
def mine(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Everything that the reader has decided here."""
    after = number(request.GET.get("after", ""))
    context = {"page": my_decisions(request.person.pk, after=after), "after": after}
    return render(request, "approvals/mine.html", context)


@require_safe
@tenant_page()
def figures(request: TenantRequest, slug: str) -> HttpResponseBase:
    """By policy, over one of a few spans of days; what is no span is thirty."""
    days = number(request.GET.get("days", ""))
    days = days if days in DAYS else 30
    found = by_policy(since=request.now - timedelta(days=days), until=request.now)
    return render(request, "approvals/figures.html", {"figures": found, "days": days, "choices": DAYS})
