"""Text out of real files, and out of hostile ones: each in a sentence, and never at this process's cost."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Callable

import pytest
from docx import Document
from pypdf import PdfReader, PdfWriter

from examples import text_extraction
from examples.sample_documents import agreement, docx, pdf
from examples.text_extraction import Unreadable, extract
from workflows.authoring import File, FileKind, Retryable
from workflows.file_kinds import kind_of


def a_file(content: bytes, kind: FileKind | None = None) -> File:
    kind = kind or kind_of(content)
    assert kind is not None
    return File(name="file", kind=kind, content=content)


@pytest.mark.parametrize("make", [pdf, docx])
def test_the_text_of_a_document_comes_out_whole(make: Callable[[list[str]], bytes]) -> None:
    lines = agreement(clauses=60)
    text = extract(a_file(make(lines)))
    assert [line for line in lines if line and line not in text.text] == []
    assert text.pages == (2 if make is pdf else 0)


def test_a_sample_document_is_the_same_file_each_time() -> None:
    assert [pdf(agreement()), docx(agreement())] == [pdf(agreement()), docx(agreement())]


def test_characters_of_other_languages_survive() -> None:
    lines = ["Grüße – “quoted” (and \\ more)", "Łódź, Αθήνα, 東京"]
    assert lines[0] in extract(a_file(pdf(lines[:1]))).text
    assert all(line in extract(a_file(docx(lines))).text for line in lines)


def test_plain_text_is_read_as_it_is() -> None:
    assert extract(a_file("Grüße\n\nand more".encode())).text == "Grüße\n\nand more"


def locked(user: str, owner: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(agreement()))))
    writer.encrypt(user, owner, algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def test_a_pdf_that_only_limits_printing_is_read() -> None:
    assert "Fennmark Castings" in extract(a_file(locked("", "owner"))).text


def packed(*parts: tuple[str, bytes]) -> bytes:
    """A Word document with more parts, compressed."""
    made = io.BytesIO(docx(["A line"]))
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts:
            package.writestr(name, content)
    return made.getvalue()


def without_text() -> bytes:
    made = io.BytesIO()
    Document().save(made)
    return made.getvalue()


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a PDF with a password": (lambda: locked("secret", "owner"), "The PDF is protected by a password"),
    "a PDF of no page": (lambda: pdf([]), "The PDF has no page."),
    "a PDF of pictures": (lambda: pdf(["", " "]), "The PDF has 1 page and no text in it: it may be a scan."),
    "not a PDF at all": (lambda: b"%PDF-1.7\nhello", "It begins like a PDF but cannot be read as one"),
    "half a PDF": (lambda: pdf(agreement())[:900], "It begins like a PDF but cannot be read as one"),
    "a PDF of thousands of pages": (
        lambda: pdf(["line"] * 48 * 2001),
        "The PDF has 2,001 pages; at most 2,000",
    ),
    "a Word document without text": (without_text, "The Word document has no text in it."),
    "not a Word document at all": (
        lambda: b"PK\x03\x04[Content_Types].xml word/document.xml",
        "It begins like a Word document but cannot be read as one",
    ),
    "a Word document that unpacks to a lot": (
        lambda: packed(("word/media/image1.bmp", b"\0" * 150_000_000)),
        "The Word document would unpack to 150,8",
    ),
    "a Word document of many parts": (
        lambda: packed(*((f"word/media/{n}", b"") for n in range(5001))),
        "The Word document would unpack to",
    ),
    "more text than anybody reads": (
        lambda: ("word " * 500_000).encode(),
        "The document holds more than 2,000,000 characters",
    ),
    "text of blanks": (lambda: b" \n\t", "The file has no text in it."),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_cannot_be_read_is_said_in_a_sentence(what: str) -> None:
    make, sentence = HOSTILE[what]
    with pytest.raises(Unreadable) as refused:
        extract(a_file(make()))
    assert str(refused.value).startswith(sentence)


def flate_bomb() -> bytes:
    """A page whose content unpacks to more than a gigabyte."""
    packing = zlib.compressobj(9)
    block = b"(a) Tj\n" * 150_000
    stream = b"".join(
        [packing.compress(b"BT "), *(packing.compress(block) for _ in range(1100)), packing.flush()]
    )
    return with_content(stream, f"/Filter /FlateDecode /Length {len(stream)}")


def with_content(stream: bytes, described: str) -> bytes:
    whole = pdf(["A line"])
    begin = whole.index(b"<< /Length", whole.index(b"5 0 obj"))
    end = whole.index(b"endobj", begin)
    return whole[:begin] + f"<< {described} >>\nstream\n".encode() + stream + b"\nendstream\n" + whole[end:]


@pytest.mark.long
def test_a_pdf_that_unpacks_without_end_is_refused() -> None:
    with pytest.raises(Unreadable):
        extract(a_file(flate_bomb()))


@pytest.mark.long
def test_a_document_that_takes_all_the_memory_is_refused() -> None:
    """Ninety megabytes of paragraphs, within what a package may unpack to; read, they are far more than a gigabyte."""
    body = b"<w:p/>" * 15_000_000
    xml = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    made, source = io.BytesIO(), zipfile.ZipFile(io.BytesIO(docx(["A line"])))
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as package:
        for part in source.infolist():
            content = xml + body + b"</w:body></w:document>" if part.filename == "word/document.xml" else None
            package.writestr(part.filename, source.read(part) if content is None else content)
    with pytest.raises(Unreadable):
        extract(a_file(made.getvalue()))


@pytest.mark.long
def test_a_pdf_that_takes_all_the_time_is_ended() -> None:
    """Millions of operators on one page: more than twenty seconds of work."""
    stream = zlib.compress(b"BT " + b"(a) Tj\n" * 10_000_000 + b"ET")
    content = with_content(stream, f"/Filter /FlateDecode /Length {len(stream)}")
    with pytest.raises((Unreadable, Retryable)):
        extract(a_file(content))


def test_a_reader_that_is_killed_is_no_fault_of_the_file() -> None:
    """The kernel takes the child for want of memory: its own limits end it in another way."""
    with pytest.raises(Retryable, match="was killed"):
        text_extraction._told(-9, b"")
    with pytest.raises(Unreadable, match="more time or memory"):
        text_extraction._told(-24, b"")


def test_the_reader_knows_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_extraction, "CHILD", "tests.examples.telling_child")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    told = extract(a_file(b"text"))
    assert "OPENAI_API_KEY" not in told.text
    assert "DATABASE_URL" not in told.text
    assert os.environ["OPENAI_API_KEY"] == "secret"
