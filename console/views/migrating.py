"""Taking a job to another revision: what would become of each step, and then, with a reason, doing it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from access.doors import TenantRequest, tenant_page
from access.refusals import Conflict
from access.roles import Role
from access.tenancy import reading
from console.migrating import TOO_MANY, Shown, results_of, shown_of
from console.queries import job as queries
from console.reasons import ReasonForm
from workflows.actions.migrate import Migrated, migrate_job
from workflows.authoring import Workflow
from workflows.migrating.planning import targets_of
from workflows.models import Job


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.OPERATOR)
def migrate(request: TenantRequest, slug: str, job_id: int) -> HttpResponseBase:
    """GET looks at the job in full and says what would happen; POST does it, if that is still what was shown."""
    data = request.POST if request.method == "POST" else None
    form = ReasonForm(data)
    with reading(request.tenant.pk):
        job = queries.job_of(job_id)
        targets = targets_of(job)
        too_many = results_of(job) > TOO_MANY
    target = _chosen(targets, (data or request.GET).get("to", ""))
    refusal = ""
    if data is not None and target is not None and form.is_valid():
        try:
            done = _migrate(request, job, target, form.cleaned_data["reason"], data.get("seen", ""))
            messages.success(request, f"Migrated from revision {done.from_revision} to {done.to}.")
            return redirect("job", slug, job_id)
        except Conflict as late:
            refusal = str(late)
    shown = None if target is None or too_many else shown_of(request.tenant.pk, job, target)
    status = 409 if refusal else 422 if data is not None else 200
    return _page(request, job, targets, shown, form, refusal, too_many=too_many, status=status)


def _chosen(targets: list[Workflow], to: str) -> Workflow | None:
    """The revision that was asked for, or the first that leads on."""
    return next((t for t in targets if t.revision == to), targets[0] if targets and not to else None)


def _migrate(request: TenantRequest, job: Job, target: Workflow, reason: str, seen: str) -> Migrated:
    return migrate_job(
        tenant_id=request.tenant.pk,
        job_id=job.pk,
        person_id=request.person.pk,
        from_revision=job.revision,
        to=target.revision,
        reason=reason,
        seen=seen,
        now=timezone.now(),
    )


def _page(
    request: TenantRequest,
    job: Job,
    targets: list[Workflow],
    shown: Shown | None,
    form: ReasonForm,
    refusal: str,
    *,
    too_many: bool,
    status: int,
) -> TemplateResponse:
    """Rendered by the door, in the organisation's scope."""
    context = {
        "job": job,
        "targets": [t.revision for t in targets],
        "shown": shown,
        "form": form,
        "refusal": refusal,
        "too_many": too_many,
    }
    return TemplateResponse(request, "console/migrate.html", context, status=status)
