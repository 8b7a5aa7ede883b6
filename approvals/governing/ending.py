"""Ending a policy: who needs it, what is open under it, and why it ends."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods

from access.doors import TenantRequest, tenant_page
from access.refusals import Conflict, Refused, Unprocessable, status_of
from access.roles import Role
from access.tenancy import reading
from approvals.governing import queries
from approvals.models import Proposal
from approvals.naming import deployed_under
from approvals.policies import end_policy


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def end(request: TenantRequest, slug: str, policy_id: int) -> HttpResponseBase:
    """GET says what comes of it; POST ends the policy of this revision, with the reason. Of an older one it is refused."""
    with reading(request.tenant.pk):
        shown = queries.policy_of(policy_id)
    reason, refused = request.POST.get("reason", ""), None
    if request.method == "POST":
        try:
            end_policy(
                tenant_id=request.tenant.pk,
                name=shown.name,
                reason=reason,
                person_id=request.person.pk,
                now=request.now,
                expected=shown.revision,
            )
            messages.success(request, "Ended. What is open under it keeps it; nothing more is asked.")
            return redirect("policies", slug)
        except (Unprocessable, Conflict) as failed:
            refused = failed
    with reading(request.tenant.pk):
        return _ask(request, policy_id, reason, refused)


def _ask(request: TenantRequest, policy_id: int, reason: str, refused: Refused | None) -> HttpResponseBase:
    policy = queries.policy_of(policy_id)
    context = {
        "policy": policy,
        "needing": deployed_under(policy.name),
        "open": Proposal.objects.filter(policy__name=policy.name, closed_at__isnull=True).count(),
        "refused": str(refused) if refused else "",
        "reason": reason,
    }
    status = status_of(refused) if refused else 200
    return TemplateResponse(request, "approvals/policy_end.html", context, status=status).render()
