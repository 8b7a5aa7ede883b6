"""What comes back after something was asked of a slip: the next one, the same one, a question, or why it was refused."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone

from access import doors
from access.doors import TenantRequest
from access.refusals import Conflict, NotPermitted, Refused, status_of
from access.tenancy import reading
from approvals import desk, inbox
from approvals.asking import Ask, ask_for
from approvals.forms import Posted
from approvals.inbox import Place
from approvals.models import Proposal
from approvals.refused import refused_decision
from approvals.showing import inbox_of, note_view, place_of, slip_context, slip_of
from approvals.slips import Slip
from web.htmx import render_fragment, wants_fragment


def after(request: TenantRequest, proposal_id: int, said: str) -> HttpResponseBase:
    """The next slip for htmx, a redirect to it for everybody else."""
    now, place = timezone.now(), place_of(request)
    with reading(request.tenant.pk):
        expires_at = Proposal.objects.values_list("expires_at", flat=True).get(pk=proposal_id)
        following = inbox.next_for(
            person_id=request.person.pk, now=now, expires_at=expires_at, proposal_id=proposal_id
        )
        if not wants_fragment(request):
            left = inbox.inbox(Place(place.slug, place.which), person_id=request.person.pk, now=now)
            messages.success(request, f"{said} {inbox.left_words(left.counts.for_me)}")
            return redirect(place.of("approval", following) if following else place.url)
    request.now = now
    if following and not note_view(request, following):
        following = None
    with reading(request.tenant.pk):
        listed = inbox_of(request, following or 0)
        said = f"{said} {inbox.left_words(listed.counts.for_me)}"
        context = {"inbox": listed, "said": said, "nav_oob": True}
        if not following:
            response = render_fragment(request, "approvals/list.html#decided", context)
        else:
            context |= slip_context(request, following)
            response = render_fragment(request, "approvals/approval.html#decided", context)
    response.headers["HX-Push-Url"] = place.of("approval", following) if following else place.url
    return response


def same(request: TenantRequest, proposal_id: int, said: str) -> HttpResponseBase:
    """The same slip as it is now."""
    place = place_of(request)
    if not wants_fragment(request):
        messages.success(request, said)
        return redirect(place.of("approval", proposal_id))
    with reading(request.tenant.pk):
        context = {
            **slip_context(request, proposal_id),
            "inbox": inbox_of(request, proposal_id),
            "said": said,
            "nav_oob": True,
        }
        return render_fragment(request, "approvals/approval.html#decided", context)


def ask(
    request: TenantRequest, proposal_id: int, verb: str, asked: Posted | None = None, error: str = ""
) -> HttpResponseBase:
    with reading(request.tenant.pk):
        shown = slip_of(request, proposal_id)
        ask = ask_for(verb, shown, place_of(request))
        if not error:
            _refuse_to_ask(ask, shown)
        digest = asked.digest if asked else request.GET.get("digest") or shown.digest
        context = {"slip": shown, "ask": ask, "digest": digest, "asked": asked, "error": error}
        if not error:
            return render_fragment(request, "approvals/ask.html#dialog", context)
        if not wants_fragment(request):
            return TemplateResponse(request, "approvals/ask.html", context, status=422).render()
        response = render_fragment(request, "approvals/ask.html#dialog", context, 422)
        response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#ask", "innerHTML"
        return response


def password_again(
    request: TenantRequest, proposal_id: int, asked: Posted, refusal: Refused
) -> HttpResponseBase:
    """The same desk, which asks for the password and says what was wrong. Nothing was decided."""
    if not note_view(request, proposal_id):
        raise doors.Busy("Somebody else is at this job at this moment. Look again; nothing was decided.")
    with reading(request.tenant.pk):
        context = slip_context(request, proposal_id)
        shown = context["slip"]
        context |= {"stale": asked.digest != shown.digest, "password_error": str(refusal)}
        if not wants_fragment(request):
            context["inbox"] = inbox_of(request, proposal_id)
        response = render_fragment(request, "approvals/approval.html#desk", context, status_of(refusal))
    response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#desk", "outerHTML"
    return response


def _refuse_to_ask(ask: Ask, shown: Slip) -> None:
    if ask.allowed:
        return
    strong, text, _ = desk.why_not_now(shown)
    sentence = f"{strong} {text}".strip() or ask.refusal
    raise (NotPermitted if shown.open and not shown.expired else Conflict)(sentence)


def refused(request: TenantRequest, proposal_id: int, refusal: Refused, asked: Posted) -> HttpResponseBase:
    with reading(request.tenant.pk):
        proposal = Proposal.objects.defer("document").get(pk=proposal_id)
        conflict = refused_decision(refusal, asked, proposal, place_of(request), request.now)
        context = {"conflict": conflict, "kept": asked.reason, "inbox": inbox_of(request, proposal_id)}
        return render_fragment(request, "approvals/refused.html#slip", context, conflict.status)
