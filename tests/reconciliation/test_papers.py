"""Documents as evidence: judged by their bytes, kept for good without secrets, and never shown by a browser."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError
from django.urls import reverse

from access.roles import Role
from access.tenancy import acting, reading
from reconciliation.actions.noting import add_evidence
from reconciliation.actions.outcomes import PaperMissing, confirm_not_applied
from reconciliation.actions.receipts import confirm_with_receipt
from reconciliation.actions.seconding import second
from reconciliation.kinds import VerbName
from reconciliation.models import Case, Evidence, EvidenceFile
from reconciliation.papers import LARGEST_TEXT, PaperKind, PaperRefused, kind_of, read_paper
from tests.dispatch.faults import FaultServer, fin
from tests.dispatch.world import a_contract
from tests.reconciliation.pages import Upload, address, as_person, html_of, post
from tests.reconciliation.world import PATIENT, Desk, a_letter, now, receipt
from tests.support import make_person, make_tenant
from web.redaction import HIDDEN

pytestmark = pytest.mark.django_db(transaction=True)
PDF = b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + b"\x00" * 20
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
HTML = b"<!doctype html><script>fetch('/t/acme/')</script>"


@pytest.fixture
def erp() -> Iterator[FaultServer]:
    with FaultServer(fin) as server:
        yield server


@pytest.fixture
def desk(erp: FaultServer) -> Desk:
    return Desk.make(erp.url, a_contract(timeouts=PATIENT))


def bomb() -> bytes:
    """A small package that would unpack to 50 MB, named as a Word document's parts are."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("[Content_Types].xml", "x")
        package.writestr("word/document.xml", b"0" * 50_000_000)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PDF, PaperKind.PDF),
        (PNG, PaperKind.PNG),
        (JPEG, PaperKind.JPEG),
        (b"amount;4800,00\r\n", PaperKind.TEXT),
        (HTML, PaperKind.TEXT),
        (SVG, PaperKind.TEXT),
        (b"GIF89a\x01\x00", None),
        (b"MZ\x90\x00\x03", None),
        (b"PK\x03\x04whatever", None),
        (b"\x89PNG\r\n\x1a\nnot a picture", None),
        ("Größe".encode("cp1252"), None),
    ],
)
def test_what_a_file_is_is_told_from_its_bytes(content: bytes, kind: PaperKind | None) -> None:
    assert kind_of(content) is kind


@pytest.mark.parametrize(
    ("name", "content", "kept"),
    [
        ("letter.html", HTML, "letter.html.txt"),
        ("picture.svg", SVG, "picture.svg.txt"),
        ("receipt.exe", PDF, "receipt.exe.pdf"),
        ("Scan.JPEG", JPEG, "Scan.JPEG"),
        ("../../etc/cron.d/x", b"text", "x.txt"),
        ("line\r\nContent-Type: text/html", b"text", "html.txt"),
        ("gpj.\u202etxt", PNG, "gpj.txt.png"),
        ("", PDF, "file.pdf"),
        ("n" * 300, PNG, "n" * 196 + ".png"),
    ],
)
def test_a_name_ends_as_what_the_file_is(name: str, content: bytes, kept: str) -> None:
    assert read_paper(name, content).name == kept


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"GIF89a\x01\x00", "none of what is taken here"),
        (b"x" * (LARGEST_TEXT + 1), "larger than 1,000,000"),
    ],
)
def test_what_is_not_kept_is_refused_with_what_is(content: bytes, said: str) -> None:
    with pytest.raises(PaperRefused, match=said):
        read_paper("x", content)


def test_a_file_over_the_limit_is_refused_before_it_is_read(desk: Desk, settings: Any) -> None:
    settings.COUNTERFOIL_LARGEST_FILE = 2000
    job, case = desk.unknown()
    before = desk.snapshot(job)
    response = post(desk, desk.anna, "case-evidence", case, **seen(file=Upload("a.pdf", PDF + b"x" * 5000)))
    assert (response.status_code, "larger than 2,000 bytes" in html_of(response)) == (422, True)
    assert desk.snapshot(job) == before


def test_a_form_says_how_large_a_document_may_be_and_that_it_has_to_be_chosen_again(
    desk: Desk, settings: Any
) -> None:
    settings.COUNTERFOIL_LARGEST_FILE = 2_500_000
    _, case = desk.unknown()
    again = "The document was not kept. Choose it again."
    asked = html_of(as_person(desk.anna).get(address(desk, "case-evidence", case.pk)))
    assert ("at most 2.5 MB, a text 1 MB" in asked, again in asked) == (True, False)
    for file, said in ((Upload("a.pdf", PDF), True), (None, False)):
        given = seen(summary=" ", **({"file": file} if file else {}))
        response = post(desk, desk.anna, "case-evidence", case, **given)
        assert (response.status_code, again in html_of(response)) == (422, said)


def test_a_package_is_kept_as_it_is_and_never_unpacked() -> None:
    packed = bomb()
    paper = read_paper("big.docx", packed)
    assert (paper.kind, paper.content is packed, len(packed) < 100_000) == (PaperKind.DOCX, True, True)


def seen(**changes: Any) -> dict[str, Any]:
    values = {
        "summary": "Line 5",
        "source": "bank",
        "taken_at": now().strftime("%Y-%m-%dT%H:%M:%S"),
        "detail": "",
    }
    return {**values, **changes}


def the_file(desk: Desk, case: Case) -> Evidence:
    with reading(desk.tenant_id):
        (row,) = Evidence.objects.filter(case=case, file__isnull=False).select_related("file")
        return row


def test_a_page_of_somebody_is_saved_as_text_and_can_run_nowhere(desk: Desk) -> None:
    _, case = desk.unknown()
    assert (
        post(desk, desk.anna, "case-evidence", case, **seen(file=Upload("proof.html", HTML))).status_code
        == 302
    )
    row = the_file(desk, case)
    link = address(desk, "evidence-file", case.pk, row.pk)
    page = html_of(as_person(desk.auditor).get(address(desk, "case", case.pk)))
    assert (link in page, "proof.html.txt" in page, f"put here by {desk.anna.username}" in page) == (
        True,
    ) * 3
    response = as_person(desk.auditor).get(link)
    assert response.content == HTML
    told = {
        name: response.headers[name]
        for name in ("Content-Type", "X-Content-Type-Options", "Content-Disposition")
    }
    assert told == {
        "Content-Type": "text/plain; charset=utf-8",
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": 'attachment; filename="proof.html.txt"',
    }
    assert response.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"


def test_secrets_in_what_is_written_and_uploaded_are_hidden_and_the_original_can_be_recognised(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"POST /v1/vendors\nAuthorization: Bearer abcdefghijklmnop123456\n\naccepted\n"
    _, case = desk.unknown()
    note = {"summary": "They sent password=hunter22 along", "detail": "api_key: 0123456789abcdef"}
    post(desk, desk.anna, "case-evidence", case, **seen(**note, file=Upload("trace.log", text)))
    row = the_file(desk, case)
    assert row.file is not None
    kept = bytes(row.file.content).decode()
    assert (HIDDEN in kept, "abcdefghijklmnop" in kept, "accepted" in kept) == (True, False, True)
    assert (row.given_digest, row.file.digest) == (
        hashlib.sha256(text).hexdigest(),
        hashlib.sha256(kept.encode()).hexdigest(),
    )
    assert ("hunter22" in row.summary, "0123456789abcdef" in row.detail) == (False, False)
    assert "secrets hidden" in html_of(as_person(desk.anna).get(address(desk, "case", case.pk)))


def test_the_same_document_is_kept_once_and_named_by_each(desk: Desk) -> None:
    _, case = desk.unknown()
    for name in ("a.pdf", "b.pdf"):
        add_evidence(
            tenant_id=desk.tenant_id, case_id=case.pk, person_id=desk.anna.pk, summary="x", source="y",
            taken_at=now(), now=now(), paper=read_paper(name, PDF),
        )  # fmt: skip
    with reading(desk.tenant_id):
        assert EvidenceFile.objects.count() == 1
        assert list(
            Evidence.objects.exclude(file_name="").order_by("pk").values_list("file_name", flat=True)
        ) == [
            "a.pdf",
            "b.pdf",
        ]


def test_nobody_changes_a_document_or_what_says_whose_it_is(desk: Desk) -> None:
    _, case = desk.unknown()
    post(desk, desk.anna, "case-evidence", case, **seen(file=Upload("a.pdf", PDF)))
    row = the_file(desk, case)
    with pytest.raises(DatabaseError), acting(desk.tenant_id):
        Evidence.objects.filter(pk=row.pk).update(file_name="b.pdf")
    for sql in (
        "UPDATE reconciliation_evidencefile SET content = 'x'",
        "DELETE FROM reconciliation_evidencefile",
        "UPDATE reconciliation_evidence SET given_digest = 'x'",
    ):
        with (
            psycopg.connect(os.environ["DATABASE_URL"]) as owner,
            pytest.raises(psycopg.Error, match="append-only"),
        ):
            owner.execute(sql)


def test_another_organisations_document_is_not_found(desk: Desk) -> None:
    _, case = desk.unknown()
    post(desk, desk.anna, "case-evidence", case, **seen(file=Upload("a.pdf", PDF)))
    row = the_file(desk, case)
    other = make_tenant()
    stranger = make_person(other, Role.OPERATOR)
    for slug in (other.slug, desk.world.tenant.slug):
        response = as_person(stranger).get(reverse("evidence-file", args=(slug, case.pk, row.pk)))
        assert response.status_code == 404
    assert as_person(desk.anna).get(address(desk, "evidence-file", case.pk, row.pk + 999)).status_code == 404


def test_that_the_receiver_wrote_so_takes_the_writing(desk: Desk) -> None:
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    before = desk.snapshot(job)
    with pytest.raises(PaperMissing, match="statement as a file"):
        desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail")
    assert desk.snapshot(job) == before
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    assert the_file(desk, case).proves == "attests not applied"


def test_the_receipt_itself_may_stand_in_for_its_number(desk: Desk) -> None:
    job, case = desk.unknown()
    done = desk.act(
        confirm_with_receipt, case, receipt=receipt(receipt_id=""), paper=read_paper("r.pdf", PDF)
    )
    assert (done.job_state, desk.sending.operation(job).receipt_id) == ("CONFIRMED", "")


@pytest.mark.parametrize("rules", [{"quorum": 2}, {"limit_amount": "1000.00", "limit_currency": "EUR"}])
def test_what_nobody_may_sign_alone_nobody_confirms_alone(erp: FaultServer, rules: dict[str, Any]) -> None:
    """Below the limit one person is enough: `test_a_receipt_that_agrees_confirms_the_operation_and_closes_the_case`."""
    desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
    job, case = desk.unknown(amount="4800.00", currency="EUR")
    desk.world.policy(**rules)
    assert desk.verb(case, VerbName.CONFIRM_WITH_RECEIPT).needs_second
    asked = desk.act(confirm_with_receipt, case, receipt=receipt(amount="4800", currency="EUR"))
    assert (asked.request_id is not None, asked.job_state) == (True, "NEEDS_RECONCILIATION")
    case = desk.fresh(case)
    question = html_of(as_person(desk.ben).get(address(desk, "case-second", case.pk, asked.request_id)))
    assert ("R-77" in question, "4800" in question) == (True, True)
    done = desk.answer(second, case, desk.ben)
    assert (done.resolution, done.job_state) == ("applied, by receipt", "CONFIRMED")
    assert desk.fresh(case).second_person == desk.ben
    assert desk.sending.operation(job).receipt_id == "R-77"
