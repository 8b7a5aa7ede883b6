"""A real PDF and a real Word document, made here and now: for the demo, the example jobs and the tests."""

from __future__ import annotations

import io
from collections.abc import Sequence
from zipfile import ZipFile, ZipInfo

LINES_A_PAGE = 48
_EPOCH = (2026, 1, 1, 0, 0, 0)

AGREEMENT = (
    "Frame agreement on cold storage",
    "",
    "Supplier: Fennmark Castings",
    "Subject: Cold storage at the quay",
    "Signed on: 2026-03-02",
    "Total: 48,200.00 EUR",
    "",
    "The supplier keeps two hundred pallet places at minus eighteen degrees for Harrow Lyle Freight.",
    "Places that are not used in a month are not charged. The supplier tells of a failure of its cooling within an hour.",
)
CLAUSES = (
    "Deliveries are announced a day before they come, with the number of pallets and what is on them.",
    "The supplier counts what comes in and what goes out, and answers for a difference of more than two pallets.",
    "Each side may end the agreement at the end of a quarter, with a notice of six weeks in writing.",
    "Invoices are sent monthly, with the places that were used, and are paid within thirty days.",
    "Neither side answers for what a strike or a closed harbour delays, if it says so on the same day.",
)


def agreement(*, clauses: int = 40, without: Sequence[str] = ()) -> list[str]:
    """The lines of an agreement of some length. `without`: labels whose lines are left out."""
    head = [line for line in AGREEMENT if not line.startswith(tuple(f"{label}:" for label in without))]
    return [*head, "", *(f"{n}. {CLAUSES[n % len(CLAUSES)]}" for n in range(1, clauses + 1))]


def pdf(lines: Sequence[str]) -> bytes:
    """A PDF with this text, in a font that every reader has. The same lines, the same bytes."""
    pages = [lines[at : at + LINES_A_PAGE] for at in range(0, len(lines), LINES_A_PAGE)]
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, page in enumerate(pages):
        stream = _page(page)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
            + f" /Contents {5 + 2 * number} 0 R >>".encode()
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream")
    return _file(objects)


def docx(lines: Sequence[str]) -> bytes:
    """A Word document: the lines as paragraphs, those with a label as a table. The same lines, the same bytes."""
    from docx import Document

    document = Document()
    labelled = [line.partition(": ") for line in lines if ": " in line[:20]]
    table = document.add_table(rows=0, cols=1)
    for label, _, value in labelled:
        table.add_row().cells[0].text = f"{label}: {value}"
    for line in lines:
        if ": " not in line[:20]:
            document.add_paragraph(line)
    made = io.BytesIO()
    document.save(made)
    return _without_time(made.getvalue())


def _page(lines: Sequence[str]) -> bytes:
    shown = "".join(f"({_escaped(line)}) Tj T*\n" for line in lines)
    return f"BT /F1 9 Tf 14 TL 50 790 Td\n{shown}ET".encode("cp1252", "replace")


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _file(objects: Sequence[bytes]) -> bytes:
    body = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    return (
        body
        + f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n".encode()
        + f"startxref\n{len(body)}\n%%EOF\n".encode()
    )


def _without_time(package: bytes) -> bytes:
    """The package with one moment on all of its parts, so that the same text is the same file."""
    made = io.BytesIO()
    with ZipFile(io.BytesIO(package)) as given, ZipFile(made, "w") as kept:
        for part in given.infolist():
            kept.writestr(ZipInfo(part.filename, _EPOCH), given.read(part), compress_type=part.compress_type)
    return made.getvalue()
