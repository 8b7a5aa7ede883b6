"""Files through the submit form and out of the job's page: kept once, judged in words, handed out to be saved."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from access.models import Tenant
from access.roles import Role
from access.tenancy import reading
from console.links import link
from tests.console.support import HOSTILE, as_person
from tests.support import install, make_person, make_tenant
from workflows.models import Job, JobFile, StoredFile

pytestmark = pytest.mark.django_db(transaction=True)
PDF = b"%PDF-1.7\nhello"
DIGEST = hashlib.sha256(PDF).hexdigest()


@pytest.fixture(autouse=True)
def _own_workflow(settings: Any) -> None:
    install(settings, "tests.workflows.filing", "examples.expense_policy")


@pytest.fixture
def client(tenant: Tenant) -> Client:
    return as_person(make_person(tenant, Role.SUBMITTER))


def upload(name: str = "letter.pdf", content: bytes = PDF) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content, content_type="text/html")


def send(client: Client, tenant: Tenant, **fields: Any) -> HttpResponse:
    body = {
        "title": "Letter",
        "submission_key": "form-1",
        **{k.replace("__", ":"): v for k, v in fields.items()},
    }
    return client.post(link("submit-workflow", tenant.slug, "test-filing"), body)  # type: ignore[return-value]


def jobs(tenant: Tenant) -> list[Job]:
    with reading(tenant.pk):
        return list(Job.objects.order_by("pk"))


def kept(tenant: Tenant) -> list[str]:
    with reading(tenant.pk):
        return list(StoredFile.objects.order_by("pk").values_list("name", flat=True))


def error_of(response: HttpResponse, field: str) -> str:
    found = re.search(rf'id="id_{field}_error">(.*?)</div>', response.content.decode(), re.DOTALL)
    return re.sub(r"<[^>]+>", "", found.group(1)).strip() if found else ""


def test_the_form_shows_a_field_to_choose_a_file(client: Client, tenant: Tenant) -> None:
    html = client.get(link("submit-workflow", tenant.slug, "test-filing")).content.decode()
    assert re.search(r'<input type="file" name="letter:file"[^>]*accept="\.pdf,\.txt"', html)
    assert 'enctype="multipart/form-data"' in html
    assert "What came in." in html


def test_a_chosen_file_is_kept_and_named_by_the_job(client: Client, tenant: Tenant) -> None:
    response = send(client, tenant, letter__file=upload())
    (job,) = jobs(tenant)
    assert (response.status_code, response.headers["Location"]) == (302, link("job", tenant.slug, job.pk))
    assert job.input == f'{{"letter":"{DIGEST}","title":"Letter"}}'
    with reading(tenant.pk):
        assert JobFile.objects.get(job=job).file.digest == DIGEST


def test_a_file_need_not_be_chosen_again_when_another_field_is_wrong(client: Client, tenant: Tenant) -> None:
    first = send(client, tenant, letter__file=upload(f"{HOSTILE}.pdf"), title="\x07")
    html = first.content.decode()
    assert first.status_code == 422
    assert f'<input type="hidden" name="letter" value="{DIGEST}">' in html
    assert "is kept. Choose another to take its place." in html
    assert "<img" not in html

    again = send(client, tenant, letter=DIGEST)
    assert again.status_code == 302
    assert len(kept(tenant)) == 1


def test_another_file_takes_the_place_of_the_first(client: Client, tenant: Tenant) -> None:
    send(client, tenant, letter__file=upload(), title="\x07")
    send(client, tenant, letter=DIGEST, letter__file=upload("other.txt", b"other"))
    (job,) = jobs(tenant)
    assert hashlib.sha256(b"other").hexdigest() in job.input


def test_no_file_is_asked_for_at_its_field(client: Client, tenant: Tenant) -> None:
    response = send(client, tenant)
    assert (response.status_code, error_of(response, "letter")) == (422, "Choose a file.")
    assert jobs(tenant) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "The file is empty."),
        (
            b"MZ\x00",
            "The file is none of what is taken here: a PDF, a Word document (DOCX) or plain text in UTF-8.",
        ),
        (b"x" * 5001, "The file is larger than 5,000 bytes; at most that is kept."),
    ],
    ids=["empty", "a program", "too large"],
)
def test_a_file_that_is_not_taken_is_refused_at_its_field(
    client: Client, tenant: Tenant, settings: Any, content: bytes, sentence: str
) -> None:
    settings.COUNTERFOIL_LARGEST_FILE = 5000
    response = send(client, tenant, letter__file=upload("a.pdf", content))
    assert (response.status_code, error_of(response, "letter")) == (422, sentence)
    assert (jobs(tenant), kept(tenant)) == ([], [])


def test_a_file_of_thirty_megabytes_is_refused_in_a_sentence(client: Client, tenant: Tenant) -> None:
    response = send(client, tenant, letter__file=upload("a.pdf", b"%PDF-" + b"x" * 30_000_000))
    assert response.status_code == 422
    assert error_of(response, "letter") == "The file is larger than 20,000,000 bytes; at most that is kept."
    assert kept(tenant) == []


def test_what_is_far_too_large_is_cut_off(client: Client, tenant: Tenant, settings: Any) -> None:
    settings.COUNTERFOIL_LARGEST_FILE = 5000
    response = send(client, tenant, letter__file=upload("a.pdf", b"x" * 30_000))
    assert response.status_code == 413
    assert jobs(tenant) == []


def test_a_digest_of_nothing_is_said_to_be_none(client: Client, tenant: Tenant) -> None:
    response = send(client, tenant, letter="a" * 64)
    assert response.status_code == 422
    assert "names a file that is not here (any more)" in error_of(response, "letter")


def test_a_text_file_for_a_text_field_keeps_its_own_limit(client: Client, tenant: Tenant) -> None:
    body = {"reference": "POL-1", "title": "Policy", "text:file": upload("p.txt", b"x" * 1_000_001)}
    response = client.post(link("submit-workflow", tenant.slug, "expense-policy"), body)
    assert response.status_code == 422
    assert "The text file is larger than 1,000,000 bytes." in response.content.decode()
    assert jobs(tenant) == []


# --- handing out ------------------------------------------------------------------------------------------------


def test_a_file_is_handed_out_to_be_saved_and_never_shown(client: Client, tenant: Tenant) -> None:
    """Text that a browser would take for a page, uploaded as one."""
    content = b"<script>alert(1)</script>"
    send(client, tenant, letter__file=upload("page.html", content))
    (job,) = jobs(tenant)
    page = client.get(link("job", tenant.slug, job.pk)).content.decode()
    (url,) = re.findall(r'href="([^"]+/files/[^"]+)"', page)

    for role in Role:
        response = as_person(make_person(tenant, role)).get(url)
        assert (response.status_code, response.content) == (200, content)
        assert response.headers["Content-Disposition"] == 'attachment; filename="page.html"'
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"


def test_a_file_is_found_only_with_a_job_that_names_it(client: Client, tenant: Tenant) -> None:
    send(client, tenant, letter__file=upload())
    send(client, tenant, letter__file=upload("b.txt", b"other"), submission_key="form-2")
    first, second = jobs(tenant)
    assert client.get(link("job-file", tenant.slug, first.pk, DIGEST)).status_code == 200
    assert client.get(link("job-file", tenant.slug, second.pk, DIGEST)).status_code == 404
    outsider = as_person(make_person(make_tenant(), *Role))
    assert outsider.get(link("job-file", tenant.slug, first.pk, DIGEST)).status_code == 404
