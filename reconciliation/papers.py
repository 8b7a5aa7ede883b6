"""A document that a person puts to a case: judged by its bytes, named for people, without secrets, never opened.

What is kept of a text is the text without its secrets; the digest of the file as it came is kept beside it, so that
whoever has the original can show that it is the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from django.conf import settings

from access.refusals import Unprocessable
from reconciliation.models import EvidenceFile
from web.redaction import hide
from workflows.authoring.files import FileKind
from workflows.file_kinds import LONGEST_NAME, clean_name
from workflows.file_kinds import kind_of as kind_of_input

LARGEST_TEXT = 1_000_000
"""Bytes. Every line of a text is looked through for secrets."""


class PaperKind(StrEnum):
    """What such a document can be."""

    PDF = "pdf"
    PNG = "png"
    JPEG = "jpeg"
    DOCX = "docx"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class _Look:
    """How a kind is told to a person and to a browser. The first of `endings` is given to a name that has none of them."""

    words: str
    media_type: str
    endings: tuple[str, ...]


LOOKS: dict[PaperKind, _Look] = {
    PaperKind.PDF: _Look("a PDF", FileKind.PDF.media_type, (".pdf",)),
    PaperKind.PNG: _Look("a PNG picture", "image/png", (".png",)),
    PaperKind.JPEG: _Look("a JPEG picture", "image/jpeg", (".jpg", ".jpeg")),
    PaperKind.DOCX: _Look("a Word document", FileKind.DOCX.media_type, (".docx",)),
    # No ending that a browser or a shell would run where somebody opens what they have saved.
    PaperKind.TEXT: _Look(
        "plain text in UTF-8", FileKind.TEXT.media_type, (".txt", ".csv", ".eml", ".log", ".json", ".md")
    ),
}


class PaperRefused(Unprocessable):
    """What was uploaded is not kept; the message says why and what is."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A file as it will be kept. `given_digest`: of the bytes as they came, before secrets were hidden."""

    name: str
    kind: PaperKind
    content: bytes = field(repr=False)
    given_digest: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def read_paper(name: str, content: bytes) -> Paper:
    """Judge a file. Outside of any transaction: looking for secrets takes a while. Raises PaperRefused."""
    if not content:
        raise PaperRefused("The file is empty.")
    if len(content) > settings.COUNTERFOIL_LARGEST_FILE:
        raise too_large(settings.COUNTERFOIL_LARGEST_FILE)
    kind = kind_of(content)
    if kind is None:
        *most, last = (look.words for look in LOOKS.values())
        raise PaperRefused(f"The file is none of what is taken here: {', '.join(most)} or {last}.")
    given_digest = hashlib.sha256(content).hexdigest()
    if kind is PaperKind.TEXT:
        if len(content) > LARGEST_TEXT:
            raise too_large(LARGEST_TEXT)
        content = hide(content.decode()).encode()
    return Paper(safe_name(name, kind), kind, content, given_digest)


def too_large(limit: int) -> PaperRefused:
    """The refusal of a file over a limit."""
    return PaperRefused(f"The file is larger than {limit:,} bytes; at most that is kept.")


def kind_of(content: bytes) -> PaperKind | None:
    """The kind by what the bytes begin with, or None. A package such as a DOCX is not unpacked."""
    if content[:8] == b"\x89PNG\r\n\x1a\n" and content[12:16] == b"IHDR":
        return PaperKind.PNG
    if content[:3] == b"\xff\xd8\xff":
        return PaperKind.JPEG
    known = kind_of_input(content)
    return None if known is None else PaperKind(known.value)


def safe_name(name: str, kind: PaperKind) -> str:
    """A name for people that ends as its kind does, whatever it was called."""
    endings = LOOKS[kind].endings
    clean = clean_name(name, endings[0])
    return (
        clean if clean.lower().endswith(endings) else f"{clean[: LONGEST_NAME - len(endings[0])]}{endings[0]}"
    )


def keep(tenant_id: int, paper: Paper, now: datetime) -> EvidenceFile:
    """Its row, once a tenant, inside the transaction of whoever puts it to a case."""
    row = EvidenceFile(
        tenant_id=tenant_id,
        digest=paper.digest,
        kind=paper.kind.value,
        size=len(paper.content),
        content=paper.content,
        kept_at=now,
    )
    EvidenceFile.objects.bulk_create([row], ignore_conflicts=True)
    return EvidenceFile.objects.defer("content").get(digest=paper.digest)
