"""My absence: being out of office, and lending one's authority. Admins do both for others with `of=<handle>`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from access.actions.absences import end_absence, note_absence
from access.actions.delegations import NoSuchDelegation, lend_authority, own_or_admin, revoke_delegation
from access.directory import directory
from access.doors import TenantRequest, tenant_page
from access.models import Absence, Delegation, Person
from access.refusals import Conflict, NotFound, Refused, Unprocessable, status_of
from access.roles import Role
from access.tenancy import reading
from approvals.governing.absence_forms import LendForm, SpanForm
from approvals.models import Decision


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page()
def absence(request: TenantRequest, slug: str) -> HttpResponseBase:
    """GET shows what is noted and lent; POST notes an absence, with what is lent meanwhile."""
    with reading(request.tenant.pk):
        whose = _whose(request)
        if request.method != "POST":
            return _page(request, whose)
        form = _form(request, whose, optional=True)
        if not form.is_valid():
            return _page(request, whose, away=form)
    return _do(
        request,
        whose,
        lambda: note_absence(
            tenant_id=request.tenant.pk,
            absent_id=whose.pk,
            span=form.span,
            person_id=request.person.pk,
            now=request.now,
            lending=form.lending if isinstance(form, LendForm) else None,
        ),
        "Noted. Nobody waits for them meanwhile."
        if whose != request.person
        else "Noted. Nobody waits for you meanwhile.",
        away=form,
    )


@require_POST
@tenant_page()
def lend(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Lends authority without an absence."""
    with reading(request.tenant.pk):
        whose = _whose(request)
        form = LendForm(request.POST, giver_id=whose.pk, zone=_zone(request), prefix="lend")
        if not form.is_valid() or (lending := form.lending) is None:
            return _page(request, whose, lend=form)
    return _do(
        request,
        whose,
        lambda: lend_authority(
            tenant_id=request.tenant.pk,
            giver_id=whose.pk,
            lending=lending,
            person_id=request.person.pk,
            now=request.now,
        ),
        "Lent. What is signed with it names both of you.",
        lend=form,
    )


@require_POST
@tenant_page()
def end(request: TenantRequest, slug: str, absence_id: int) -> HttpResponseBase:
    """Somebody is back."""
    end_absence(
        tenant_id=request.tenant.pk, absence_id=absence_id, person_id=request.person.pk, now=request.now
    )
    messages.success(request, "Over. What was lent stays lent until it is revoked or ends.")
    return redirect(_back(request, request.POST.get("of", "")))


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page()
def revoke(request: TenantRequest, slug: str, delegation_id: int) -> HttpResponseBase:
    """GET says which signatures would stop counting; POST takes back what was lent."""
    if request.method == "POST":
        revoke_delegation(
            tenant_id=request.tenant.pk,
            delegation_id=delegation_id,
            person_id=request.person.pk,
            now=request.now,
        )
        messages.success(request, "Revoked. Nothing more is signed with it.")
        return redirect(_back(request, request.POST.get("of", "")))
    with reading(request.tenant.pk):
        found = Delegation.objects.filter(pk=delegation_id).select_related("giver", "taker").first()
        if found is None:
            raise NoSuchDelegation("There is no such delegation here.")
        own_or_admin(request.person.pk, found.giver_id)
        unsent = Decision.objects.filter(delegation=found, proposal__closed_at__isnull=True).count()
        context = {
            "lent": found,
            "unsent": unsent,
            "of": found.giver,
            "own": found.giver_id == request.person.pk,
        }
        return TemplateResponse(request, "approvals/absence_revoke.html", context).render()


def _do(
    request: TenantRequest, whose: Person, act: Callable[[], int], said: str, **forms: SpanForm
) -> HttpResponseBase:
    """Back to the page with what was done, or the form as it was filled in with why it was not."""
    try:
        act()
    except (Unprocessable, Conflict) as refused:
        with reading(request.tenant.pk):
            return _page(request, whose, refused, **forms)
    messages.success(request, said)
    return redirect(_back(request, whose.username))


def _whose(request: TenantRequest) -> Person:
    """Whose page it is: one's own, or for an admin that of another member."""
    handle = (request.POST if request.method == "POST" else request.GET).get("of", "").strip()
    if not handle or handle == request.person.username:
        return request.person
    found = next((m for m in directory().members.values() if m.handle == handle), None)
    if Role.ADMIN not in request.roles or found is None:
        raise NotFound("There is nobody of that name here whose absence you may see.")
    return Person.objects.get(pk=found.person_id)


def _form(request: TenantRequest, whose: Person, *, optional: bool) -> SpanForm:
    """An absence with what is lent in it; without, of somebody who has nothing to lend."""
    data = request.POST if request.method == "POST" else None
    if _lends(whose):
        return LendForm(data, giver_id=whose.pk, optional=optional, zone=_zone(request), prefix="away")
    return SpanForm(data, zone=_zone(request), prefix="away")


def _lends(whose: Person) -> bool:
    member = directory().members.get(whose.pk)
    return member is not None and Role.MANAGER in member.roles


def _page(
    request: TenantRequest,
    whose: Person,
    refused: Refused | None = None,
    *,
    away: SpanForm | None = None,
    lend: SpanForm | None = None,
) -> HttpResponseBase:
    now, lends = request.now, _lends(whose)
    given = Delegation.objects.filter(revoked_at__isnull=True, ends_at__gt=now).order_by("starts_at", "pk")
    coming = Absence.objects.filter(person=whose, ended_at__isnull=True, ends_at__gt=now)
    context: dict[str, Any] = {
        "whose": whose,
        "own": whose.pk == request.person.pk,
        "absences": coming.order_by("starts_at"),
        "given": _told(given.filter(giver=whose)),
        "taken": _told(given.filter(taker=whose)),
        "lends": lends,
        "away": away or _unbound(request, whose, lends),
        "lend": lend or (_fresh(request, whose) if lends else None),
        "refused": str(refused) if refused else "",
        "refused_at": "lend" if refused and lend else "away" if refused else "",
        "people": sorted(m.handle for m in directory().members.values())
        if Role.ADMIN in request.roles
        else [],
        "zone": request.tenant.time_zone,
    }
    invalid = any(form is not None and form.is_bound and not form.is_valid() for form in (away, lend))
    status = status_of(refused) if refused else 422 if invalid else 200
    return TemplateResponse(request, "approvals/absence.html", context, status=status).render()


def _fresh(request: TenantRequest, whose: Person) -> LendForm:
    """Nothing filled in; `?policy=`, from a slip, is chosen already."""
    chosen = {"policies": request.GET.getlist("policy")}
    return LendForm(None, giver_id=whose.pk, zone=_zone(request), prefix="lend", initial=chosen)


def _unbound(request: TenantRequest, whose: Person, lends: bool) -> SpanForm:
    if lends:
        return LendForm(None, giver_id=whose.pk, optional=True, zone=_zone(request), prefix="away")
    return SpanForm(None, zone=_zone(request), prefix="away")


def _told(rows: Any) -> list[tuple[Delegation, list[str]]]:
    """Each delegation with the policies that it is for; none: all."""
    return [
        (row, row.policies.split("\n") if row.policies else [])
        for row in rows.select_related("giver", "taker")
    ]


def _back(request: TenantRequest, handle: str) -> str:
    url = reverse("absence", args=[request.tenant.slug])
    with reading(request.tenant.pk):
        known = {m.handle for m in directory().members.values()}
    if handle == request.person.username or handle not in known:
        return url
    return f"{url}?{urlencode({'of': handle})}"


def _zone(request: TenantRequest) -> ZoneInfo:
    return ZoneInfo(request.tenant.time_zone)
