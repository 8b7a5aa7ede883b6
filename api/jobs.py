"""Submitting jobs and reading them over HTTP. Thin: parse, one action or query, answer."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils import timezone
from ninja import NinjaAPI
from ninja.security import django_auth

from access import authority
from access.doors import find_tenant
from access.models import Tenant
from access.tenancy import reading
from api import callbacks, events, problems
from dispatch.deriving import current
from workflows import hooks, registry, submissions
from workflows.actions.submit import LONGEST_KEY, submit_job
from workflows.compensation.plan import progress_of
from workflows.files import files_of
from workflows.journal import refusal_of_input
from workflows.locks import NoSuchJob
from workflows.models import Job, StoredFile

api = NinjaAPI(
    title="Counterfoil", version="1", urls_namespace="api", auth=django_auth, docs_url=None, openapi_url=None
)
problems.install(api)
api.add_router("", events.router)
api.add_router("", callbacks.router)


@api.post("/t/{slug}/workflows/{name}/jobs", url_name="submit")
def submit(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    """202 with the job's address. The same Idempotency-Key and input again answer the same job, and say so."""
    tenant = tenant_of(request, slug)
    key = request.headers.get("Idempotency-Key", "").strip()
    if not key:
        raise problems.BadRequest(
            f"Send an Idempotency-Key header of up to {LONGEST_KEY} characters: one key an intent, kept for retries."
        )
    registry.current(name)
    made = submit_job(
        tenant_id=tenant.pk,
        workflow=name,
        value=submissions.parse(request.body),
        submission_key=key,
        person_id=int(request.user.pk or 0),
        source="API",
        now=timezone.now(),
    )
    with reading(tenant.pk):
        body = _job(slug, find_job(made.job_id))
    response = JsonResponse(body, status=202)
    response.headers["Location"] = body["url"]
    if made.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return response


@api.get("/t/{slug}/jobs/{int:job_id}", url_name="job")
def job(request: HttpRequest, slug: str, job_id: int) -> HttpResponse:
    """Where one job stands, and why it waits."""
    tenant = tenant_of(request, slug)
    with reading(tenant.pk):
        return JsonResponse(_job(slug, find_job(job_id)))


def tenant_of(request: HttpRequest, slug: str) -> Tenant:
    """The organisation of the address, for its members; for everybody else there is none."""
    tenant = find_tenant(slug)
    if tenant is None:
        raise Http404
    with reading(tenant.pk):
        if not authority.roles_of(int(request.user.pk or 0)):
            raise Http404
    return tenant


def find_job(job_id: int) -> Job:
    found = Job.objects.filter(pk=job_id).select_related("submitted_by").first()
    if found is None:
        raise NoSuchJob(f"There is no job {job_id} here.")
    return found


def _job(slug: str, job: Job) -> dict[str, Any]:
    return {
        "id": job.pk,
        "label": job.label,
        "url": reverse("api:job", args=[slug, job.pk]),
        "page": reverse("job", args=[slug, job.pk]),
        "workflow": job.workflow,
        "revision": job.revision,
        "title": job.title,
        "reference": job.reference,
        "state": job.state,
        "waiting": hooks.why_waiting(job) if job.ended_at is None else None,
        "input_digest": job.input_digest,
        "submitted_by": job.submitted_by.username,
        "source": job.source,
        "created_at": _time(job.created_at),
        "held_at": _time(job.held_at),
        "cancel_requested_at": _time(job.cancel_requested_at),
        "ended_at": _time(job.ended_at),
        "problems": [{"field": p["field"], "detail": p["message"]} for p in refusal_of_input(job)],
        "compensation": _compensation(job),
        "operations": _operations(job),
        "files": [_file(slug, job, f) for f in files_of(job)],
    }


def _operations(job: Job) -> list[dict[str, Any]]:
    """What the latest proposal changes elsewhere, in order, each with where it stands: UNKNOWN where nobody can say."""
    rows = current(job).select_related("receiver", "proposed")
    return [
        {
            "label": one.label,
            "title": one.proposed.title,
            "receiver": one.receiver.name,
            "record": one.record,
            "state": one.state,
            "receipt": one.receipt_id,
        }
        for one in rows.defer("proposed__body", "proposed__headers")
    ]


def _file(slug: str, job: Job, file: StoredFile) -> dict[str, Any]:
    url = reverse("api:job-file", args=[slug, job.pk, file.digest])
    return {"digest": file.digest, "name": file.name, "kind": file.kind, "size": file.size, "url": url}


def _compensation(job: Job) -> dict[str, Any] | None:
    """How far what the job's steps made is undone; null where nothing had to be."""
    progress = progress_of(job)
    if progress is None:
        return None
    return {
        "standing": progress.standing.value,
        "undone": progress.undone,
        "of": progress.of,
        "finished_at": _time(progress.finished_at),
    }


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
