"""The room's pages: the list, the slip, and the forms that decide. Nothing decides on GET."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST, require_safe

from access import doors
from access.doors import TenantRequest, tenant_page
from access.reentry import TooManyWrong, WrongPassword
from access.refusals import NotFound, Refused
from access.roles import Role
from access.tenancy import reading
from approvals import answering
from approvals.actions.asked import DecisionResult, PasswordNeeded
from approvals.actions.decide import record_decision
from approvals.actions.remind import remind as remind_approvers
from approvals.actions.repropose import repropose_job
from approvals.actions.withdraw import withdraw_approval, withdraw_proposal
from approvals.forms import Posted, posted, reason_of
from approvals.locks import NoSuchProposal, job_of
from approvals.models import Proposal, Verdict
from approvals.proof.exporting import MAY_EXPORT, export_decision
from approvals.reasons import ReasonMissing
from approvals.showing import enter_again, inbox_of, note_view, number, session_of, slip_context
from web.htmx import render_fragment, wants_fragment


@require_safe
@tenant_page()
def approvals(request: TenantRequest, slug: str) -> HttpResponseBase:
    """The list, with a blank slip beside it. `part=rows` is what the list asks again while it stands open."""
    if request.GET.get("part") == "rows":
        context = {"inbox": inbox_of(request, number(request.GET.get("open", "")))}
        return render_fragment(request, "approvals/list.html#fresh", context)
    return render_fragment(request, "approvals/list.html#page", {"inbox": inbox_of(request)})


@require_safe
def approval(request: HttpRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    """One slip beside the list. That a manager opens it is journalled before it is handed over.

    `part=desk` is what the desk asks again; it names the digest on the screen and counts as no new look. Asked by
    anything but htmx it is the slip, for which it would come whole.
    """
    response: HttpResponseBase = _approval(request, slug, proposal_id)
    return response if _asks_desk(request) else _opened(request, proposal_id, response)


@require_safe
def signed(request: HttpRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    """The document that is signed, to the byte: its SHA-256 is the digest. Counts as a look at the slip."""
    return _opened(request, proposal_id, _signed(request, slug, proposal_id))


@require_POST
@sensitive_post_parameters("password")
@tenant_page()
def decision(request: TenantRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    """Records a verdict on the digest that was on the screen, then shows the next slip that waits."""
    asked = posted(request.POST)
    try:
        enter_again(request)
        result = record_decision(
            tenant_id=request.tenant.pk,
            proposal_id=proposal_id,
            person_id=request.person.pk,
            verdict=asked.verdict,
            digest=asked.digest,
            reason=asked.reason,
            fields=asked.fields,
            knows_of=asked.knows_of,
            now=request.now,
            session=session_of(request),
        )
    except ReasonMissing as missing:
        return answering.ask(request, proposal_id, asked.verdict, asked, str(missing))
    except NotFound:
        raise
    except (PasswordNeeded, WrongPassword, TooManyWrong) as refusal:
        return answering.password_again(request, proposal_id, asked, refusal)
    except Refused as refusal:
        return answering.refused(request, proposal_id, refusal, asked)
    return answering.after(request, proposal_id, _said(result))


@require_GET
@tenant_page(Role.MANAGER)
def reject(request: TenantRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    """Asks for the reason of a rejection: a dialog, or a page of its own."""
    return answering.ask(request, proposal_id, Verdict.REJECT)


@require_GET
@tenant_page(Role.MANAGER)
def request_changes(request: TenantRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    """Asks what should change and why."""
    return answering.ask(request, proposal_id, Verdict.REQUEST_CHANGES)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page()
def withdraw(request: TenantRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    """GET asks, POST takes an own proposal back."""
    if request.method != "POST":
        return answering.ask(request, proposal_id, "withdraw")
    try:
        withdraw_proposal(**_taking_back(request, proposal_id))
    except NotFound:
        raise
    except Refused as refusal:
        return answering.refused(
            request, proposal_id, refusal, Posted("withdraw", "", reason_of(request.POST), ())
        )
    return answering.same(request, proposal_id, "Withdrawn. Nothing was sent.")


@require_POST
@tenant_page()
def remind(request: TenantRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    """Has the people reminded who could sign an own job's proposal."""
    try:
        done = remind_approvers(
            tenant_id=request.tenant.pk, proposal_id=proposal_id, person_id=request.person.pk, now=request.now
        )
    except NotFound:
        raise
    except Refused as refusal:
        return answering.refused(request, proposal_id, refusal, Posted("remind", "", "", ()))
    return answering.same(request, proposal_id, done.sentence)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.MANAGER)
def unsign(request: TenantRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    """GET asks, POST takes an own approval back before anything is sent."""
    if request.method != "POST":
        return answering.ask(request, proposal_id, "unsign")
    try:
        withdraw_approval(**_taking_back(request, proposal_id))
    except NotFound:
        raise
    except Refused as refusal:
        return answering.refused(
            request, proposal_id, refusal, Posted("unsign", "", reason_of(request.POST), ())
        )
    return answering.same(request, proposal_id, "Your signature no longer counts. Nothing was sent.")


@require_POST
@tenant_page(Role.OPERATOR, Role.SUBMITTER)
def propose_again(request: TenantRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    """Freezes the saved draft of this proposal's job anew."""
    with reading(request.tenant.pk):
        job_id = job_of(proposal_id)
    made = repropose_job(
        tenant_id=request.tenant.pk, job_id=job_id, person_id=request.person.pk, now=request.now
    )
    if made.proposal_id is None:
        messages.error(request, f"It could not be proposed again: {made.refused}")
        return redirect("approval", slug, proposal_id)
    messages.success(request, "Proposed again, with a new number and new keys.")
    return redirect("approval", slug, made.proposal_id)


@require_POST
@tenant_page(*MAY_EXPORT)
def proof(request: TenantRequest, slug: str, decision_id: int) -> HttpResponseBase:
    """One decision as a signed file that proves itself. Posted, since taking it out is journalled."""
    text = export_decision(
        tenant_id=request.tenant.pk, decision_id=decision_id, person_id=request.person.pk, now=request.now
    )
    response = HttpResponse(text, content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="decision-{decision_id}.json"'
    return response


def _opened(request: HttpRequest, proposal_id: int, response: HttpResponseBase) -> HttpResponseBase:
    """Hands over what was read once it is journalled that a manager read it."""
    if request.method != "GET" or response.status_code != 200 or note_view(request, proposal_id):  # type: ignore[arg-type]
        return response
    busy = doors.Busy("Somebody else is at this job at this moment. Look again.")
    with reading(request.tenant.pk):  # type: ignore[attr-defined]
        return doors.refused(request, busy)


@tenant_page()
def _signed(request: TenantRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    proposal = Proposal.objects.filter(pk=proposal_id).first()
    if proposal is None:
        raise NoSuchProposal(f"There is no proposal {proposal_id} here.")
    response = HttpResponse(proposal.document, content_type="application/json; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{proposal.label}.json"'
    return response


@tenant_page()
def _approval(request: TenantRequest, slug: str, proposal_id: int) -> HttpResponseBase:
    if _asks_desk(request):
        context = slip_context(request, proposal_id)
        context["stale"] = request.GET.get("digest") != context["slip"].digest
        return render_fragment(request, "approvals/approval.html#desk", context)
    context = {**slip_context(request, proposal_id), "inbox": inbox_of(request, proposal_id)}
    return render_fragment(request, "approvals/approval.html#opened", context)


def _asks_desk(request: HttpRequest) -> bool:
    return request.GET.get("part") == "desk" and wants_fragment(request)


def _taking_back(request: TenantRequest, proposal_id: int) -> dict[str, Any]:
    return {
        "tenant_id": request.tenant.pk,
        "proposal_id": proposal_id,
        "person_id": request.person.pk,
        "now": request.now,
        "reason": reason_of(request.POST),
    }


def _said(result: DecisionResult) -> str:
    if result.repeated or result.verdict is not Verdict.APPROVE:
        return result.sentence
    missing = result.quorum - result.approvals
    return "Signed." if missing <= 0 else f"Signed. It needs {missing} more."
