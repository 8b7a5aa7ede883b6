"""Whether this installation can serve: for load balancers, for monitors, and as a page."""

from __future__ import annotations

from collections.abc import Callable

from django.db import Error, connection
from django.db.models import Case, When
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.http import require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from web.htmx import render_fragment
from workflows import health
from workflows.models import Worker

MAY_SEE_HEALTH = (Role.OPERATOR, Role.ADMIN)
"""What is said there is of the installation, not of one organisation."""


def probes(everything_else: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware before all other. What a probe brings along, a session's cookie or a Host of its own, is not looked at:
    reading the session of a database that is away would answer with a page for people.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        return _PROBES.get(request.path_info, everything_else)(request)

    return answer


def healthz(request: HttpRequest) -> JsonResponse:
    """200 when this process and its database answer, 503 when the database does not."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return _no_database()
    return JsonResponse({"status": "ok"})


def work(request: HttpRequest) -> JsonResponse:
    """200 when the work goes on, 503 when something does not do its part. Not for load balancers: the web may be well."""
    try:
        found = health.look()
    except Error:
        return _no_database()
    status = 503 if found.level == "late" else 200
    checks = {c.name: {"level": c.level, "says": c.says} for c in found.checks}
    return JsonResponse({"status": found.level, "checks": checks}, status=status)


@require_safe
@tenant_page(*MAY_SEE_HEALTH)
def page(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Every check with what to do about it, the workers, and the transactions that are in the way."""
    found = health.look()
    lives = Case(When(lease_until__gt=Now(), then=True), default=False)
    workers = Worker.objects.filter(ended_at__isnull=True).annotate(lives=lives).order_by("host", "pid")
    context = {
        "health": found,
        "checks": [(_CODES[c.level], c) for c in found.checks],
        "workers": list(workers),
    }
    return render_fragment(request, "console/health.html#live", context)


_PROBES = {"/healthz": healthz, "/healthz/work": work}
_CODES = {"ok": "PASSES", "warn": "HELD", "late": "FAILS"}


def _no_database() -> JsonResponse:
    return JsonResponse({"status": "late", "database": "cannot be reached"}, status=503)
