"""Whether dispatch is shut since a restore, what that has left open, and opening it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from access.doors import TenantRequest, tenant_page
from access.switches import switches_of
from access.tenancy import reading
from console.reasons import ReasonForm
from dispatch.after_restore import over_at
from reconciliation.actions.opening import open_dispatch, why_not
from reconciliation.restored import left_by
from reconciliation.situation import SECONDERS


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(*SECONDERS)
def dispatch(request: TenantRequest, slug: str) -> HttpResponseBase:
    """GET says what is left since the restore; POST opens dispatch with a reason."""
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        open_dispatch(
            tenant_id=request.tenant.pk,
            person_id=request.person.pk,
            reason=form.cleaned_data["reason"],
            now=timezone.now(),
        )
        messages.success(request, "Dispatch is open. What waited is sent after its checks.")
        return redirect("home", slug)
    with reading(request.tenant.pk):
        restored = switches_of(request.tenant.pk).restored
        left = None if restored is None else left_by(restored)
        context = {
            "restored": restored,
            "left": left,
            "two_until": None if restored is None else over_at(restored),
            "why_not": "" if left is None else why_not(left),
            "form": form,
        }
        status = 422 if form.is_bound else 200
        return TemplateResponse(request, "console/dispatch.html", context, status=status).render()
