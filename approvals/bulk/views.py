"""The pages of deciding together. Choosing, confirming and going on are posted; looking decides nothing."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from access.doors import TenantRequest, tenant_page
from access.reentry import TooManyWrong, WrongPassword
from access.refusals import Refused, status_of
from access.roles import Role
from access.tenancy import reading
from approvals.actions.asked import PasswordNeeded
from approvals.actions.bulk import (
    AlreadyConfirmed,
    NoSuchSelection,
    carry_out,
    choose_proposals,
    confirm_selection,
)
from approvals.bulk.looking import Look, look
from approvals.forms import reason_of
from approvals.models import Selection, Verdict
from approvals.reasons import ReasonMissing
from approvals.showing import enter_again, entered, number, session_of

PAGE = "approvals/bulk.html"


@require_POST
@tenant_page(Role.MANAGER)
def choose(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Stores what was ticked, as "number:digest" each, and shows it."""
    pairs = [text.partition(":") for text in request.POST.getlist("chosen")[:1000]]
    selection_id = choose_proposals(
        tenant_id=request.tenant.pk,
        person_id=request.person.pk,
        chosen=[(number(pk), digest[:64]) for pk, _, digest in pairs],
        now=request.now,
    )
    return redirect("approval-bulk", slug, selection_id)


@require_safe
@tenant_page(Role.MANAGER)
def bulk(request: TenantRequest, slug: str, selection_id: int) -> HttpResponseBase:
    """What was chosen, to be confirmed; or what came of each."""
    return TemplateResponse(request, PAGE, _context(request, _looked(request, selection_id)))


@require_POST
@sensitive_post_parameters("password")
@tenant_page(Role.MANAGER)
def decide(request: TenantRequest, slug: str, selection_id: int) -> HttpResponseBase:
    """Confirms a verdict for what the page showed, once, and begins to carry it out."""
    verdict = request.POST.get("verdict", "")
    with reading(request.tenant.pk):
        shown = _looked(request, selection_id)
    try:
        enter_again(request)
        if verdict == Verdict.APPROVE and shown.password_why:
            with reading(request.tenant.pk):
                _need_entry(request, shown)
        confirm_selection(
            tenant_id=request.tenant.pk,
            selection_id=selection_id,
            person_id=request.person.pk,
            verdict=verdict,
            reason=reason_of(request.POST),
            seen={number(pk) for pk in request.POST.getlist("seen")},
            why_left={r.proposal.pk: r.changed or r.why_not for r in shown.rows},
            now=request.now,
        )
    except AlreadyConfirmed:
        return redirect("approval-bulk", slug, selection_id)
    except (PasswordNeeded, WrongPassword, TooManyWrong) as refusal:
        return _again(request, selection_id, refusal, password_error=str(refusal))
    except ReasonMissing as missing:
        return _again(request, selection_id, missing, reason_error=str(missing))
    return _carried_out(request, selection_id)


@require_POST
@sensitive_post_parameters("password")
@tenant_page(Role.MANAGER)
def go_on(request: TenantRequest, slug: str, selection_id: int) -> HttpResponseBase:
    """Goes on with what still waits of a confirmed selection."""
    try:
        enter_again(request)
    except (WrongPassword, TooManyWrong) as refusal:
        return _again(request, selection_id, refusal, password_error=str(refusal))
    return _carried_out(request, selection_id)


def _carried_out(request: TenantRequest, selection_id: int) -> HttpResponseBase:
    carry_out(
        tenant_id=request.tenant.pk,
        selection_id=selection_id,
        person_id=request.person.pk,
        session=session_of(request),
    )
    return redirect("approval-bulk", request.tenant.slug, selection_id)


def _need_entry(request: TenantRequest, shown: Look) -> None:
    """PasswordNeeded before anything is confirmed; each decision asks again by itself."""
    if not entered(request):
        raise PasswordNeeded(shown.password_why)


def _again(request: TenantRequest, selection_id: int, refusal: Refused, **errors: str) -> HttpResponseBase:
    with reading(request.tenant.pk):
        context = {**_context(request, _looked(request, selection_id)), **errors}
        context["kept"] = reason_of(request.POST)
        return TemplateResponse(request, PAGE, context, status=status_of(refusal)).render()


def _looked(request: TenantRequest, selection_id: int) -> Look:
    selection = Selection.objects.filter(pk=selection_id, person_id=request.person.pk).first()
    if selection is None:
        raise NoSuchSelection("There is no such selection of yours here.")
    return look(selection, request.now)


def _context(request: TenantRequest, shown: Look) -> dict[str, Any]:
    return {"b": shown, "asks_password": shown.password_why and not entered(request)}
