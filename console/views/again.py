"""Running a job's steps again: from which one on, why, and what becomes of what they had saved."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods

from access import authority
from access.doors import TenantRequest, tenant_page
from access.roles import Role
from access.tenancy import reading
from console.queries import job as queries
from console.reasons import RunAgainForm
from console.words import several
from web.htmx import render_fragment
from workflows import rerunning
from workflows.actions.run_again import run_steps_again
from workflows.models import Job


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.OPERATOR, Role.SUBMITTER)
def run_again(request: TenantRequest, slug: str, job_id: int) -> HttpResponseBase:
    """GET asks from which step on and why, or says why not; POST does it."""
    form = RunAgainForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        done = run_steps_again(
            tenant_id=request.tenant.pk,
            job_id=job_id,
            person_id=request.person.pk,
            first=form.cleaned_data["first"],
            seen=form.cleaned_data["seen"],
            reason=form.cleaned_data["reason"],
            now=request.now,
        )
        messages.success(
            request, f"{several(len(done.steps), 'step runs', 'steps run')} again. A new proposal follows."
        )
        return redirect("job", slug, job_id)
    with reading(request.tenant.pk):
        job = queries.job_of(job_id)
        why_not = _why_not(request, job)
        choices = [] if why_not else rerunning.choices(job)
        context = {
            "job": job,
            "form": RunAgainForm(request.POST if form.is_bound else None, choices, job.reruns),
            "why_not": why_not,
            "possible": any(not c.why_not for c in choices),
            "barred": [c for c in choices if c.why_not],
        }
        if form.is_bound:
            return TemplateResponse(request, "console/run_again.html", context, status=422).render()
        return render_fragment(request, "console/run_again.html#dialog", context, 200)


def _why_not(request: TenantRequest, job: Job) -> str:
    if not queries.may_run_again(job, request.roles, request.person.pk):
        return authority.who_may(Role.OPERATOR)
    return rerunning.why_not(job)
