"""Files over HTTP: uploaded first, named by a submission, handed out with the job."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from tests.console.support import as_person
from tests.support import install, make_person, make_tenant
from workflows.models import Job, StoredFile

pytestmark = pytest.mark.django_db(transaction=True)
PDF = b"%PDF-1.7\nhello"
DIGEST = hashlib.sha256(PDF).hexdigest()


@pytest.fixture(autouse=True)
def _own_workflow(settings: Any) -> None:
    install(settings, "tests.workflows.filing")


def send(
    client: Client, slug: str, content: bytes = PDF, name: str = "letter.pdf", field: str = "file"
) -> Any:
    return client.post(f"/api/v1/t/{slug}/files", {field: SimpleUploadedFile(name, content)})


def submit(client: Client, slug: str, **value: Any) -> Any:
    return client.post(
        f"/api/v1/t/{slug}/workflows/test-filing/jobs",
        json.dumps({"title": "Letter", **value}),
        content_type="application/json",
        headers={"Idempotency-Key": "k-1"},
    )


def refused(response: Any) -> tuple[int, str]:
    assert response.headers["Content-Type"] == "application/problem+json"
    return response.status_code, json.loads(response.content)["detail"]


def count(tenant: Tenant) -> tuple[int, int]:
    with reading(tenant.pk):
        return StoredFile.objects.count(), Job.objects.count()


def test_an_uploaded_file_is_named_by_its_digest_and_comes_back_whole(
    tenant: Tenant, submitter: Person
) -> None:
    client = as_person(submitter)
    response = send(client, tenant.slug)
    assert response.status_code == 201
    assert response.json() == {"digest": DIGEST, "name": "letter.pdf", "kind": "pdf", "size": len(PDF)}
    assert send(client, tenant.slug, name="again.pdf").status_code == 200

    job = submit(client, tenant.slug, letter=DIGEST).json()
    (file,) = job["files"]
    back = client.get(file["url"])
    assert (back.content, back.headers["Content-Type"]) == (PDF, "application/pdf")
    assert back.headers["Content-Disposition"] == 'attachment; filename="letter.pdf"'


@pytest.mark.parametrize(
    ("field", "content", "status", "sentence"),
    [
        ("letter", PDF, 400, "Send a multipart form (multipart/form-data) with the file in its field"),
        ("file", b"", 422, "The file is empty."),
        ("file", b"\x7fELF", 422, "The file is none of what is taken here"),
        ("file", b"x" * 5001, 413, "The file is larger than 5,000 bytes"),
        ("file", b"x" * 30_000, 413, "A body may hold 1,000,000 bytes, and a file in a form 5,000."),
    ],
    ids=["another field", "empty", "a program", "too large", "far too large"],
)
def test_what_is_not_taken_is_a_problem_in_a_sentence(
    tenant: Tenant, submitter: Person, settings: Any, field: str, content: bytes, status: int, sentence: str
) -> None:
    settings.COUNTERFOIL_LARGEST_FILE = 5000
    told = refused(send(as_person(submitter), tenant.slug, content, field=field))
    assert told[0] == status
    assert told[1].startswith(sentence)
    assert count(tenant) == (0, 0)


def test_a_body_that_is_no_form_is_told_what_to_send(tenant: Tenant, submitter: Person) -> None:
    response = as_person(submitter).post(
        f"/api/v1/t/{tenant.slug}/files", PDF, content_type="application/pdf"
    )
    assert refused(response)[0] == 400


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PDF, "multipart/form-data"),
        (PDF, f"multipart/form-data; boundary={'b' * 300}"),
        (b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nx\r\n' * 101, "multipart/form-data; boundary=b"),
        (b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n' * 1001, "multipart/form-data; boundary=b"),
    ],
    ids=["no boundary", "no such boundary", "too many files", "too many fields"],
)  # fmt: skip
def test_a_form_that_cannot_be_read_is_a_problem_like_every_other(
    tenant: Tenant, submitter: Person, content: bytes, kind: str
) -> None:
    client = as_person(submitter)
    assert refused(client.post(f"/api/v1/t/{tenant.slug}/files", content, content_type=kind))[0] == 400
    assert count(tenant) == (0, 0)


def test_only_submitters_of_the_organisation_upload(tenant: Tenant) -> None:
    assert refused(send(as_person(make_person(tenant, Role.AUDITOR)), tenant.slug))[0] == 403
    outsider = as_person(make_person(make_tenant(), *Role))
    assert refused(send(outsider, tenant.slug))[0] == 404
    assert refused(send(Client(headers={"host": "localhost"}), tenant.slug))[0] == 401
    assert count(tenant) == (0, 0)


def test_a_submission_that_names_a_missing_file_is_refused_at_its_place(
    tenant: Tenant, submitter: Person
) -> None:
    response = submit(as_person(submitter), tenant.slug, letter="a" * 64)
    assert response.status_code == 422
    assert [e["field"] for e in json.loads(response.content)["errors"]] == ["letter"]
    assert count(tenant) == (0, 0)


def test_a_file_of_another_job_is_not_found(tenant: Tenant, submitter: Person) -> None:
    client = as_person(submitter)
    send(client, tenant.slug)
    job = submit(client, tenant.slug, letter=DIGEST).json()
    assert client.get(job["files"][0]["url"].replace(DIGEST, "b" * 64)).status_code == 404
    outsider = as_person(make_person(make_tenant(), *Role))
    assert outsider.get(job["files"][0]["url"]).status_code == 404
