"""Files that inputs name: kept before the job, found by their digest, swept when nobody names them."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, ProgrammingError, connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from access.models import Person, Tenant
from access.refusals import NotPermitted
from access.roles import Role
from access.tenancy import acting, reading
from tests.support import at_once, eventually, make_person, make_tenant
from workflows.actions.keep_file import FileRefused, FileTooLarge, Kept, keep_file
from workflows.actions.submit import submit_job
from workflows.authoring import BadDefinition, Ctx, FileDigest, FileKind, NoSuchFile
from workflows.authoring.files import Accepts
from workflows.engine.connections import connect
from workflows.engine.engine import Engine
from workflows.engine.liveness import sweep_files
from workflows.file_kinds import LONGEST_NAME, clean_name, kind_of
from workflows.models import Checkpoint, Job, JobFile, JournalEntry, StoredFile
from workflows.submissions import InvalidSubmission

pytestmark = pytest.mark.django_db(transaction=True)
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\nhello"
DOCX = b"PK\x03\x04[Content_Types].xml ... word/document.xml"
DIGEST = hashlib.sha256(PDF).hexdigest()


@pytest.fixture(autouse=True)
def _own_workflow(settings: Any, test_workflows: None) -> None:
    settings.COUNTERFOIL_WORKFLOWS = ["tests.workflows.filing"]


def keep(tenant: Tenant, person: Person, content: bytes = PDF, name: str = "letter.pdf", **more: Any) -> Kept:
    values = {"now": timezone.now(), **more}
    return keep_file(tenant_id=tenant.pk, name=name, content=content, person_id=person.pk, **values)


def submit(tenant: Tenant, person: Person, key: str = "k", **value: Any) -> int:
    return submit_job(
        tenant_id=tenant.pk,
        workflow="test-filing",
        value={"title": "Letter", **value},
        submission_key=key,
        person_id=person.pk,
        source="test",
        now=timezone.now(),
    ).job_id


def stored(tenant: Tenant) -> list[tuple[str, str, int]]:
    with reading(tenant.pk):
        return list(StoredFile.objects.order_by("pk").values_list("name", "kind", "size"))


def problems(refused: InvalidSubmission) -> dict[str, str]:
    return {p.field: p.message for p in refused.problems}


# --- keeping ----------------------------------------------------------------------------------------------------


def test_the_same_bytes_are_kept_once_under_their_first_name(tenant: Tenant, submitter: Person) -> None:
    first = keep(tenant, submitter)
    again = keep(tenant, submitter, name="copy.pdf")
    assert (first, again) == (
        Kept(DIGEST, "letter.pdf", FileKind.PDF, len(PDF), known=False),
        Kept(DIGEST, "letter.pdf", FileKind.PDF, len(PDF), known=True),
    )
    assert stored(tenant) == [("letter.pdf", "pdf", len(PDF))]


def test_two_people_who_upload_the_same_bytes_at_once_have_one_file(
    tenant: Tenant, submitter: Person
) -> None:
    other = make_person(tenant, Role.SUBMITTER)
    told = at_once(lambda: keep(tenant, submitter), lambda: keep(tenant, other, name="copy.pdf"))
    assert [k.digest for k in told] == [DIGEST, DIGEST]
    assert len(stored(tenant)) == 1


@pytest.mark.parametrize(
    ("content", "refusal", "sentence"),
    [
        (b"", FileRefused, "The file is empty."),
        (
            b"GIF89a\x00\x01",
            FileRefused,
            "none of what is taken here: a PDF, a Word document (DOCX) or plain text",
        ),
        (b"PK\x03\x04 some other package", FileRefused, "none of what is taken here"),
        (b"\x00%PDX-", FileRefused, "none of what is taken here"),
        (b"x" * 2001, FileTooLarge, "larger than 2,000 bytes"),
    ],
    ids=["empty", "an image", "a package", "nearly a PDF", "too large"],
)
def test_what_is_not_taken_is_refused_in_a_sentence(
    tenant: Tenant,
    submitter: Person,
    settings: Any,
    content: bytes,
    refusal: type[FileRefused],
    sentence: str,
) -> None:
    settings.COUNTERFOIL_LARGEST_FILE = 2000
    with pytest.raises(refusal) as refused:
        keep(tenant, submitter, content)
    assert sentence in str(refused.value)
    assert stored(tenant) == []


def test_only_a_submitter_uploads(tenant: Tenant) -> None:
    with pytest.raises(NotPermitted):
        keep(tenant, make_person(tenant, Role.AUDITOR))
    assert stored(tenant) == []


def test_the_database_takes_no_file_under_a_digest_that_is_not_its_own(
    tenant: Tenant, submitter: Person
) -> None:
    row: dict[str, Any] = {
        "tenant": tenant, "digest": "0" * 64, "name": "n", "kind": "pdf", "size": 3, "content": b"abc",
        "uploaded_by": submitter, "offered_at": timezone.now(),
    }  # fmt: skip
    with pytest.raises(IntegrityError, match="a_files_digest_is_of_its_bytes"), acting(tenant.pk):
        StoredFile.objects.create(**row)
    row["digest"] = hashlib.sha256(b"abc").hexdigest()
    with pytest.raises(IntegrityError, match="a_files_size_is_of_its_bytes"), acting(tenant.pk):
        StoredFile.objects.create(**{**row, "size": 4})


def test_nobody_changes_a_kept_file(tenant: Tenant, submitter: Person) -> None:
    keep(tenant, submitter)
    for statement in ("UPDATE workflows_storedfile SET content = ''", "DELETE FROM workflows_storedfile"):
        with (
            pytest.raises(ProgrammingError, match="permission denied"),
            acting(tenant.pk),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)


# --- what a file is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PDF, FileKind.PDF),
        (b"\xef\xbb\xbf\r\n" + PDF, FileKind.PDF),
        (DOCX, FileKind.DOCX),
        ("Grüße\r\n\tand more\x0c".encode(), FileKind.TEXT),
        (b"<script>alert(1)</script>", FileKind.TEXT),
        ("Grüße".encode("latin-1"), None),
        (b"text with \x00", None),
        (b"\x1b[31mred", None),
        (b"text that speaks of %PDF-1.7", FileKind.TEXT),
    ],
)
def test_a_file_is_what_it_begins_with(content: bytes, kind: FileKind | None) -> None:
    assert kind_of(content) is kind


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("letter.pdf", "letter.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\letter.pdf", "letter.pdf"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("a\r\nContent-Type: text/html", "html"),
        ("", "file.pdf"),
        ("...", "file.pdf"),
        ("x" * 300 + ".pdf", "x" * 196 + ".pdf"),
    ],
)
def test_a_name_is_made_fit_for_people(name: str, clean: str) -> None:
    assert clean_name(name, FileKind.PDF.ending) == clean


@given(st.text())
def test_every_name_becomes_one_that_can_be_kept(name: str) -> None:
    clean = clean_name(name, FileKind.TEXT.ending)
    assert 0 < len(clean) <= LONGEST_NAME
    assert not set(clean) & set("/\\\x00\r\n")


def test_unknown_kind_is_refused_at_import() -> None:
    with pytest.raises(BadDefinition, match="'exe' is none of docx, pdf, text"):
        Accepts("pdf", "exe")


# --- naming them ------------------------------------------------------------------------------------------------


def test_a_job_names_its_files_and_its_steps_read_them(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    keep(tenant, submitter)
    job_id = submit(tenant, submitter, letter=DIGEST)

    def output() -> str | None:
        with reading(tenant.pk):
            rows = Checkpoint.objects.filter(item__job_id=job_id, item__stage__name="read")
            return rows.values_list("output", flat=True).first()

    text = eventually(output, what="the step's result")
    assert json.loads(text) == {"name": "letter.pdf", "kind": "pdf", "size": len(PDF)}
    with reading(tenant.pk):
        entry = JournalEntry.objects.get(job_id=job_id, event="job.received")
    assert json.loads(entry.evidence)["files"] == [DIGEST]


def test_every_place_that_names_a_file_is_found(tenant: Tenant, submitter: Person) -> None:
    texts = [f"text {n}".encode() for n in range(4)]
    letter, enclosure, one, two = (keep(tenant, submitter, t, "t.txt").digest for t in texts)
    job_id = submit(tenant, submitter, letter=letter, enclosure=enclosure, more=[one, two, one])
    with reading(tenant.pk):
        found = JobFile.objects.filter(job_id=job_id).values_list("file__digest", flat=True)
        assert sorted(found) == sorted({letter, enclosure, one, two})


def test_a_file_that_is_not_here_is_named_with_its_place(tenant: Tenant, submitter: Person) -> None:
    keep(tenant, submitter)
    with pytest.raises(InvalidSubmission) as refused:
        submit(tenant, submitter, letter=DIGEST, more=["a" * 64])
    assert problems(refused.value) == {
        "more.0": "names a file that is not here (any more); upload it, then submit again"
    }
    with reading(tenant.pk):
        assert Job.objects.count() == 0


def test_a_file_of_another_kind_is_refused_at_its_field(tenant: Tenant, submitter: Person) -> None:
    digest = keep(tenant, submitter, DOCX, "letter.docx").digest
    with pytest.raises(InvalidSubmission) as refused:
        submit(tenant, submitter, letter=digest)
    assert problems(refused.value) == {
        "letter": "is a Word document (DOCX); give a PDF or plain text in UTF-8"
    }


@pytest.mark.parametrize("value", ["letter.pdf", DIGEST.upper(), f"{DIGEST}\n", ""])
def test_what_is_no_digest_is_said_to_be_none(tenant: Tenant, submitter: Person, value: str) -> None:
    with pytest.raises(InvalidSubmission) as refused:
        submit(tenant, submitter, letter=value)
    assert "is not the digest of a file: upload it" in problems(refused.value)["letter"]


def test_another_organisation_does_not_find_the_file(tenant: Tenant, submitter: Person) -> None:
    keep(tenant, submitter)
    other = make_tenant()
    with pytest.raises(InvalidSubmission):
        submit(other, make_person(other, Role.SUBMITTER), letter=DIGEST)


def test_a_step_reads_only_what_its_job_names(tenant: Tenant, submitter: Person) -> None:
    keep(tenant, submitter)
    job_id = submit(tenant, submitter, letter=keep(tenant, submitter, b"text", "t.txt").digest)
    ctx = Ctx(
        tenant_id=tenant.pk, job_id=job_id, reference="", item_key="1", attempt=1, request_key="r"
    )  # fmt: skip
    with pytest.raises(NoSuchFile):
        ctx.read_file(DIGEST)


def test_the_form_and_the_schema_say_which_files_are_taken() -> None:
    from tests.workflows.filing import Filing

    schema = Filing.model_json_schema()["properties"]
    assert (schema["letter"]["widget"], schema["letter"]["accept"]) == ("upload", [".pdf", ".txt"])
    assert schema["more"]["items"]["accept"] == [".pdf", ".docx", ".txt"]
    assert FileDigest.__metadata__[0] == Accepts()  # type: ignore[attr-defined]


# --- sweeping ---------------------------------------------------------------------------------------------------


def sweep() -> int:
    with connect("sweep") as engine:
        return sweep_files(engine)


def test_files_that_no_job_names_are_swept_after_a_day(tenant: Tenant, submitter: Person) -> None:
    long_ago = timezone.now() - timedelta(hours=25)
    named = keep(tenant, submitter, b"named", "named.txt", now=long_ago).digest
    keep(tenant, submitter, b"old", "old.txt", now=long_ago)
    keep(tenant, submitter, b"young", "young.txt")
    keep(tenant, submitter, b"again", "again.txt", now=long_ago)
    keep(tenant, submitter, b"again", "again.txt")
    submit(tenant, submitter, letter=named)
    assert sweep() == 1
    assert [name for name, _, _ in stored(tenant)] == ["named.txt", "young.txt", "again.txt"]
    assert sweep() == 0


def test_a_sweep_leaves_what_is_being_submitted(tenant: Tenant, submitter: Person) -> None:
    """A submission has locked the file and not committed; the sweep goes past it, and afterwards it is named."""
    digest = keep(tenant, submitter, now=timezone.now() - timedelta(hours=25)).digest
    with psycopg.connect(os.environ["DATABASE_URL"]) as submitting:
        submitting.execute("SELECT 1 FROM workflows_storedfile WHERE digest = %s FOR NO KEY UPDATE", [digest])
        assert sweep() == 0
    submit(tenant, submitter, letter=digest)
    assert sweep() == 0


def test_a_submission_of_what_was_just_swept_says_to_upload_it_again(
    tenant: Tenant, submitter: Person
) -> None:
    digest = keep(tenant, submitter, now=timezone.now() - timedelta(hours=25)).digest
    assert sweep() == 1
    with pytest.raises(InvalidSubmission, match="upload it, then submit again"):
        submit(tenant, submitter, letter=digest)
