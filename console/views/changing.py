"""What a person does to a job: hold it, lift the hold, cancel it, redrive it. Each is a form that works without a script."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from access.tenancy import reading
from console.queries import job as queries
from console.reasons import ReasonForm, RedriveForm
from console.words import several
from dispatch.fates import in_a_sentence
from web.htmx import render_fragment
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job, release_job
from workflows.actions.redrive import Redriven, redrive_job, why_not_redrive
from workflows.states import JobState


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN, Role.SUBMITTER)
def cancel(request: TenantRequest, slug: str, job_id: int) -> HttpResponseBase:
    """GET shows the four fates before it asks for a reason, as a page or as a dialog; POST cancels."""
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        result = cancel_job(
            tenant_id=request.tenant.pk,
            job_id=job_id,
            person_id=request.person.pk,
            reason=form.cleaned_data["reason"],
            now=timezone.now(),
        )
        with reading(request.tenant.pk):
            said = in_a_sentence(job_id)
        messages.success(request, f"{'Cancelled' if result.ended else 'Stopping'}. {said}")
        return redirect("job", slug, job_id)
    return _ask(request, job_id, form, "console/cancel.html")


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN, Role.OPERATOR)
def hold(request: TenantRequest, slug: str, job_id: int) -> HttpResponseBase:
    """GET asks for a reason; POST holds."""
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        hold_job(
            tenant_id=request.tenant.pk,
            job_id=job_id,
            person_id=request.person.pk,
            reason=form.cleaned_data["reason"],
            now=timezone.now(),
        )
        messages.success(request, "Held. Nothing runs and nothing is sent until the hold is lifted.")
        return redirect("job", slug, job_id)
    return _ask(request, job_id, form, "console/hold.html")


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.OPERATOR)
def redrive(request: TenantRequest, slug: str, job_id: int) -> HttpResponseBase:
    """GET asks how often and why, or says why not; POST has the failed job go on from what was saved."""
    form = RedriveForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        done = redrive_job(
            tenant_id=request.tenant.pk,
            job_id=job_id,
            person_id=request.person.pk,
            attempts=form.cleaned_data["attempts"],
            reason=form.cleaned_data["reason"],
            now=timezone.now(),
        )
        messages.success(request, _redriven(done))
        return redirect("job", slug, job_id)
    status = 422 if form.is_bound else 200
    with reading(request.tenant.pk):
        job = queries.job_of(job_id)
        context = {"job": job, "form": form, "why_not": why_not_redrive(job)}
        if form.is_bound:
            return TemplateResponse(request, "console/redrive.html", context, status=status).render()
        return render_fragment(request, "console/redrive.html#dialog", context, status)


def _redriven(done: Redriven) -> str:
    if done.items:
        return (
            f"Redriven: {several(done.items, 'item goes', 'items go')} on. Everything that was saved stays."
        )
    if done.job_state == JobState.VALIDATED:
        return "Redriven. Its draft could not be proposed again: a case says why."
    return "Redriven: its draft is proposed anew."


@require_POST
@tenant_page(Role.ADMIN, Role.OPERATOR)
def release(request: TenantRequest, slug: str, job_id: int) -> HttpResponseBase:
    """Lifts a hold."""
    release_job(tenant_id=request.tenant.pk, job_id=job_id, person_id=request.person.pk, now=timezone.now())
    messages.success(request, "The hold is lifted. Work goes on where it stopped.")
    return redirect("job", slug, job_id)


def _ask(request: TenantRequest, job_id: int, form: ReasonForm, template: str) -> HttpResponseBase:
    status = 422 if form.is_bound else 200
    with reading(request.tenant.pk):
        job = queries.job_of(job_id)
        queries.refuse_ended(job)
        context = {"job": job, "form": form, "fates": queries.fates(job)}
        if form.is_bound:
            return TemplateResponse(request, template, context, status=status).render()
        return render_fragment(request, f"{template}#dialog", context, status)
