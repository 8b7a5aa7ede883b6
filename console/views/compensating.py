"""Taking back what an operation did: asks how much and why, and starts the job that proposes it."""

from __future__ import annotations

import secrets

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from access.doors import TenantRequest, tenant_page
from access.refusals import Unprocessable
from access.roles import Role
from access.tenancy import reading
from console.queries import job as queries
from console.reasons import CompensateForm
from dispatch import reversals
from dispatch.locks import NoSuchOperation
from dispatch.models import Operation
from reconciliation.actions import compensating
from reconciliation.reversing import why_not
from web.htmx import render_fragment
from workflows import registry
from workflows.actions.submit import ReferenceTaken
from workflows.titles import workflow_title

PAGE = "console/compensate.html"


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.OPERATOR)
def compensate(request: TenantRequest, slug: str, job_id: int, operation_id: int) -> HttpResponseBase:
    """GET asks how much and why, or says why not; POST starts the job, which has a proposal and an approval of its own."""
    posted = request.POST if request.method == "POST" else None
    with reading(request.tenant.pk):
        job = queries.job_of(job_id)
        found = Operation.objects.select_related("receiver", "proposed").filter(pk=operation_id, job=job)
        operation = found.first()
        if operation is None:
            raise NoSuchOperation(f"{job.label} has no such operation.")
        form = CompensateForm(
            posted,
            left=reversals.amount_left(operation),
            currency=operation.currency,
            key=secrets.token_hex(8),
        )
        context = {
            "job": job,
            "operation": operation,
            "form": form,
            "why_not": why_not(job, operation),
            "by": _title_of(job.workflow),
            "earlier": reversals.reversals_of([operation]).get(operation.pk, []),
        }
        if posted is None:
            return render_fragment(request, f"{PAGE}#dialog", context)
    if form.is_valid():
        try:
            made = compensating.compensate(
                tenant_id=request.tenant.pk,
                operation_id=operation_id,
                person_id=request.person.pk,
                amount=form.cleaned_data.get("amount", ""),
                reason=form.cleaned_data["reason"],
                key=form.cleaned_data["key"],
                now=timezone.now(),
            )
        except compensating.NotSoMuch as wrong:
            form.add_error("amount" if "amount" in form.fields else None, str(wrong))
        except (Unprocessable, ReferenceTaken) as refused:
            form.add_error(None, str(refused))
        else:
            said = "It proposes what is to be sent; nothing is taken back before that is approved."
            messages.success(request, said)
            return redirect("job", slug, made.job_id)
    with reading(request.tenant.pk):
        return TemplateResponse(request, PAGE, context, status=422).render()


def _title_of(workflow: str) -> str:
    definition = registry.compensating(workflow)
    return workflow_title(definition.name) if definition is not None else ""
