"""Proposals over HTTP: what waits, one of them with the bytes that are signed, decisions, and the password again.

Whoever is signed in decides, by the function that the pages use. Nothing in a body says who that is.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from access import authority, reentry
from access.roles import Role
from access.tenancy import reading
from api import kinds
from api.bodies import read_decision, read_list, read_password
from api.jobs import api, tenant_of
from approvals import queries, slips
from approvals.actions.asked import DecisionResult
from approvals.actions.decide import record_decision
from approvals.actions.view import record_view
from approvals.document import money
from approvals.models import Proposal
from approvals.queries import AwaitingRow
from approvals.slips import Slip, SlipDecision


@api.get("/t/{slug}/proposals", url_name="proposals")
def proposals(request: HttpRequest, slug: str) -> HttpResponse:
    """A page of a tab of the list: `tab`, `limit` (1 to 100), and `after` as the page before gave it in `next`."""
    tenant, asked = tenant_of(request, slug), read_list(request.GET)
    with reading(tenant.pk):
        page = queries.awaiting(
            person_id=_person(request),
            which=asked.tab,
            now=timezone.now(),
            after=asked.after,
            limit=asked.limit,
        )
        here = reverse("api:proposals", args=[slug])
        following = f"{here}?tab={asked.tab}&limit={asked.limit}&after={page.next_after}"
        rows = [_row(slug, row) for row in page.rows]
        return JsonResponse({"proposals": rows, "next": following if page.next_after else None})


@api.get("/t/{slug}/proposals/{int:proposal_id}", url_name="proposal")
def proposal(request: HttpRequest, slug: str, proposal_id: int) -> HttpResponse:
    """One proposal. `document` is the text that is signed: the SHA-256 of its UTF-8 is the digest.

    That a manager reads it is journalled before it is handed over, as on the page.
    """
    tenant, person_id, now = tenant_of(request, slug), _person(request), timezone.now()
    with reading(tenant.pk):
        shown = slips.slip(proposal_id, person_id=person_id, now=now)
        text = Proposal.objects.values_list("document", flat=True).get(pk=proposal_id)
        manages = Role.MANAGER in authority.roles_of(person_id)
    if manages:
        record_view(tenant_id=tenant.pk, proposal_id=proposal_id, person_id=person_id)
    return JsonResponse(_proposal(slug, shown, text))


@api.post("/t/{slug}/proposals/{int:proposal_id}/decisions", url_name="decisions")
def decisions(request: HttpRequest, slug: str, proposal_id: int) -> HttpResponse:
    """201 with what the decision did. The same verdict and digest again: 200, and what the first one did."""
    tenant, asked = tenant_of(request, slug), read_decision(request.body)
    result = record_decision(
        tenant_id=tenant.pk,
        proposal_id=proposal_id,
        person_id=_person(request),
        verdict=asked.verdict,
        digest=asked.digest,
        reason=asked.reason,
        fields=asked.fields,
        knows_of=asked.knows_of,
        now=timezone.now(),
        session=reentry.session_digest(request.session.session_key),
        door="API",
    )
    response = JsonResponse(_result(slug, result), status=200 if result.repeated else 201)
    if result.repeated:
        response.headers["Idempotency-Replayed"] = "true"
    return response


@api.post("/password-entry", url_name="password-entry")
@sensitive_variables("password")
def password_entry(request: HttpRequest) -> HttpResponse:
    """Enter the password again, for what asks for it in this session: 201 with the time until which it counts."""
    password, now = read_password(request.body), timezone.now()
    session = reentry.session_digest(request.session.session_key)
    reentry.enter(person_id=_person(request), password=password, session=session, now=now)
    return JsonResponse({"counts_until": (now + reentry.COUNTS_FOR).isoformat()}, status=201)


@api.get("/problems/{name}", url_name="problem", auth=None)
def problem(request: HttpRequest, name: str) -> HttpResponse:
    """What a type of problem means."""
    kind = kinds.called(name)
    if kind is None:
        raise Http404
    return JsonResponse({"type": kinds.address(kind), "title": kind.title, "meaning": kind.meaning})


def _person(request: HttpRequest) -> int:
    return int(request.user.pk or 0)


def _row(slug: str, row: AwaitingRow) -> dict[str, Any]:
    return {
        "id": row.proposal_id,
        "label": row.label,
        "url": reverse("api:proposal", args=[slug, row.proposal_id]),
        "page": reverse("approval", args=[slug, row.proposal_id]),
        "job": {"label": row.job_label, "url": reverse("api:job", args=[slug, row.job_id])},
        "workflow": row.workflow,
        "title": row.title,
        "recipient": row.recipient,
        "amount": money(row.amount, row.currency),
        "currency": row.currency,
        "amount_label": row.amount_label,
        "initiator": row.initiator,
        "approvals": row.approvals,
        "quorum": row.quorum,
        "frozen_at": row.frozen_at.isoformat(),
        "expires_at": row.expires_at.isoformat(),
        "why_not": row.why_not,
        "my_verdict": row.my_verdict,
        "closing": row.closing,
        "job_state": row.job_state,
    }


def _proposal(slug: str, shown: Slip, document: str) -> dict[str, Any]:
    return {
        "id": shown.proposal_id,
        "label": shown.label,
        "url": reverse("api:proposal", args=[slug, shown.proposal_id]),
        "page": reverse("approval", args=[slug, shown.proposal_id]),
        "job": {
            "label": shown.job_label,
            "url": reverse("api:job", args=[slug, shown.job_id]),
            "state": shown.job_state,
        },
        "title": shown.title,
        "recipient": shown.recipient,
        "amount": money(shown.amount, shown.currency),
        "currency": shown.currency,
        "amount_label": shown.amount_label,
        "workflow": shown.workflow,
        "initiator": shown.initiator,
        "policy": {"name": shown.policy_name, "revision": shown.policy_revision},
        "frozen_at": shown.frozen_at.isoformat(),
        "expires_at": shown.expires_at.isoformat(),
        "digest": shown.digest,
        "document": document,
        "decisions": [_decision(d) for d in shown.decisions],
        "approvals": shown.approvals,
        "quorum": shown.quorum,
        "two_because": shown.two_because,
        "same": [
            {
                "id": t.proposal_id,
                "label": t.proposal_label,
                "url": reverse("api:proposal", args=[slug, t.proposal_id]),
                "sentence": f"{t.proposal_label} of {t.job_label} asks for the same and {t.word}.",
            }
            for t in shown.twins
        ],
        "checks": [{"name": c.name, "ok": c.ok, "sentence": c.sentence} for c in shown.checks],
        "may": {
            "approve": shown.can_approve,
            "reject": shown.can_refuse,
            "request changes": shown.can_refuse,
        },
        "why_not": shown.why_not,
        "password_again": shown.password_why,
        "approved_at": _time(shown.approved_at),
        "closing": shown.closing,
        "closed_at": _time(shown.closed_at),
        "closed_sentence": shown.closed_sentence,
        "newer": reverse("api:proposal", args=[slug, shown.newer.pk]) if shown.newer else None,
    }


def _decision(one: SlipDecision) -> dict[str, Any]:
    return {
        "id": one.decision_id,
        "person": one.person,
        "verdict": one.verdict,
        "decided_at": one.decided_at.isoformat(),
        "digest": one.digest,
        "reason": one.reason,
        "fields": one.fields,
        "void": one.void_why or None,
    }


def _result(slug: str, result: DecisionResult) -> dict[str, Any]:
    return {
        "decision": result.decision_id,
        "proposal": reverse("api:proposal", args=[slug, result.proposal_id]),
        "job": reverse("api:job", args=[slug, result.job_id]),
        "verdict": result.verdict.value,
        "decided_at": result.decided_at.isoformat(),
        "repeated": result.repeated,
        "approvals": result.approvals,
        "quorum": result.quorum,
        "closing": result.closing,
        "job_state": result.job_state,
        "sentence": result.sentence,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
