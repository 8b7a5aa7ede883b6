"""What base.html needs on every page of an organisation. Costs three queries, a few more while dispatch is shut, and none
outside of a scope."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from access.models import Tenant
from access.switches import switches_of
from access.tenancy import current_tenant_id
from console.health import MAY_SEE_HEALTH
from console.links import link
from console.queries import counts
from console.views.costs import MAY_SEE
from outbox.views import READERS
from reconciliation.restored import left_by
from reconciliation.situation import SECONDERS
from statements.views import READERS as STATEMENT_READERS
from web.navigation import Room


def console(request: HttpRequest) -> dict[str, Any]:
    """Navigation, roles and search for a request that came through an organisation's door."""
    tenant = getattr(request, "tenant", None)
    if not isinstance(tenant, Tenant) or current_tenant_id() != tenant.pk:
        return {}
    roles = sorted(role.label for role in getattr(request, "roles", ()))
    return {
        "nav": _nav(request, tenant.slug),
        "more": _more(request, tenant.slug),
        "roles": ", ".join(roles),
        "installation": tenant.name,
        "search_url": link("jobs", tenant.slug),
        "home_url": link("home", tenant.slug),
        "now": request.now,  # type: ignore[attr-defined]
        "slug": tenant.slug,
        **_shut(request, tenant),
    }


def _shut(request: HttpRequest, tenant: Tenant) -> dict[str, Any]:
    """Since a restore: what every page says while nothing is sent."""
    restored = switches_of(tenant.pk).restored if tenant.shut_at is not None else None
    if restored is None or restored.shut_at is None:
        return {}
    may_open = not request.roles.isdisjoint(SECONDERS)  # type: ignore[attr-defined]
    return {
        "shut": restored,
        "shut_left": left_by(restored),
        "shut_url": link("dispatch", tenant.slug) if may_open else "",
    }


def _nav(request: HttpRequest, slug: str) -> list[Room]:
    """What people come for, in the bar."""
    rooms = [
        Room("Home", link("home", slug), "h"),
        Room("Approvals", link("approvals", slug), "a", counts.approvals_awaiting() or None),
        Room("Reconcile", link("cases", slug), "r", counts.open_cases() or None),
        Room("Questions", link("questions", slug), "q", counts.questions(request.roles) or None),  # type: ignore[attr-defined]
        Room("Jobs", link("jobs", slug), "j"),
        Room("Receivers", link("receivers", slug), "v"),
    ]
    return _standing_in(request, rooms)


def _more(request: HttpRequest, slug: str) -> list[Room]:
    """What it is run by, in the menu."""
    roles = request.roles  # type: ignore[attr-defined]
    rooms = [
        Room("Policies", link("policies", slug), "p"),
        Room("Groups", link("groups", slug), "u"),
        Room("My absence", link("absence", slug), "o"),
        Room("Limits", link("limits", slug), "l"),
    ]
    if not roles.isdisjoint(MAY_SEE):
        rooms.append(Room("Cost", link("costs", slug), "c"))
    if not roles.isdisjoint(STATEMENT_READERS):
        rooms.append(Room("Statements", link("statements", slug), "t"))
    if not roles.isdisjoint(READERS):
        rooms.append(Room("Notifications", link("notifications", slug), "n"))
    if not roles.isdisjoint(MAY_SEE_HEALTH):
        rooms.append(Room("Health", link("health", slug), "e"))
    return _standing_in(request, rooms)


def _standing_in(request: HttpRequest, rooms: list[Room]) -> list[Room]:
    here, home = request.path, rooms[0].url if rooms[0].label == "Home" else ""
    return [
        Room(r.label, r.url, r.key, r.count, here == r.url if r.url == home else here.startswith(r.url))
        for r in rooms
        if r.url
    ]
