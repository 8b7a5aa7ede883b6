"""Files over HTTP: uploaded before the job that names them, handed out with it."""

from __future__ import annotations

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone

from access.tenancy import reading
from api.jobs import api, find_job, tenant_of
from api.problems import BadRequest
from web.downloads import download
from workflows import files
from workflows.actions.keep_file import keep_file, too_large


@api.post("/t/{slug}/files", url_name="files")
def upload(request: HttpRequest, slug: str) -> HttpResponse:
    """201 with the digest that an input names the file by; 200 where the same bytes are kept already.

    A multipart form with one file in the field "file".
    """
    tenant = tenant_of(request, slug)
    chosen = request.FILES.get("file")
    if not isinstance(chosen, UploadedFile):
        raise BadRequest('Send a multipart form (multipart/form-data) with the file in its field "file".')
    if (chosen.size or 0) > settings.COUNTERFOIL_LARGEST_FILE:
        raise too_large()
    kept = keep_file(
        tenant_id=tenant.pk,
        name=chosen.name or "",
        content=chosen.read(),
        person_id=int(request.user.pk or 0),
        now=timezone.now(),
    )
    body = {"digest": kept.digest, "name": kept.name, "kind": kept.kind.value, "size": kept.size}
    return JsonResponse(body, status=200 if kept.known else 201)


@api.get("/t/{slug}/jobs/{int:job_id}/files/{digest}", url_name="job-file")
def job_file(request: HttpRequest, slug: str, job_id: int, digest: str) -> HttpResponse:
    """A file that the job names, as an attachment."""
    tenant = tenant_of(request, slug)
    with reading(tenant.pk):
        file = files.file_of(find_job(job_id), digest)
        return download(name=file.name, media_type=file.media_type, content=file.content)
