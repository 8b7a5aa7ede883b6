"""Files as inputs: an input model names a file by its digest, a step reads it with `ctx.read_file`.

    class Upload(BaseModel):
        letter: Annotated[FileDigest, Accepts("pdf", "docx")]

The submit form shows a field to choose a file; over the API a file is uploaded first, and its digest submitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from workflows.authoring.errors import Permanent
from workflows.authoring.policies import BadDefinition

_DIGEST = re.compile(r"[0-9a-f]{64}")


class FileKind(StrEnum):
    """What a file is, by what it begins with, never by its name."""

    PDF = "pdf"
    DOCX = "docx"
    TEXT = "text"

    @property
    def media_type(self) -> str:
        """As a Content-Type header names it."""
        return _MEDIA_TYPES[self]

    @property
    def words(self) -> str:
        """For people: "a PDF"."""
        return _WORDS[self]

    @property
    def ending(self) -> str:
        """Of its name, for a browser's dialog."""
        return ".txt" if self is FileKind.TEXT else f".{self.value}"


_MEDIA_TYPES = {
    FileKind.PDF: "application/pdf",
    FileKind.DOCX: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    FileKind.TEXT: "text/plain; charset=utf-8",
}
_WORDS = {
    FileKind.PDF: "a PDF",
    FileKind.DOCX: "a Word document (DOCX)",
    FileKind.TEXT: "plain text in UTF-8",
}


@dataclass(frozen=True, slots=True)
class File:
    """One kept file. `name` is what it was called when it was first uploaded: for people, not for opening anything."""

    name: str
    kind: FileKind
    content: bytes = field(repr=False)


class NoSuchFile(Permanent):
    """The job names no such file."""


@dataclass(slots=True)
class NamedFiles:
    """Pass it as pydantic's validation context, and it has the files that an input names, with the kinds it takes."""

    found: list[tuple[str, tuple[FileKind, ...]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Accepts:
    """Which kinds of file a field takes; none named: all."""

    kinds: tuple[FileKind, ...]

    def __init__(self, *kinds: str) -> None:
        known = {k.value for k in FileKind}
        if strange := [k for k in kinds if k not in known]:
            raise BadDefinition(f"Accepts: {strange[0]!r} is none of {', '.join(sorted(known))}")
        object.__setattr__(self, "kinds", tuple(FileKind(k) for k in kinds) or tuple(FileKind))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._named, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        accept = [k.ending for k in self.kinds]
        return {**handler(schema), "pattern": "^[0-9a-f]{64}$", "widget": "upload", "accept": accept}

    def _named(self, value: str, info: ValidationInfo) -> str:
        if not _DIGEST.fullmatch(value):
            raise ValueError(
                "is not the digest of a file: upload it, and give the 64 digits that are answered"
            )
        if isinstance(info.context, NamedFiles):
            info.context.found.append((value, self.kinds))
        return value


FileDigest = Annotated[str, Accepts()]
"""A file, by the SHA-256 of its bytes in hexadecimal. Put `Accepts("pdf")` beside it to take some kinds only."""

Reader = Callable[[str], File]
_default: list[Callable[[int, int], Reader]] = []


def reads_by_default(reader_of: Callable[[int, int], Reader]) -> None:
    """Who reads files in the processes of an installation, by tenant and job. Called once, when the app is ready."""
    _default[:] = [reader_of]


def read(reader: Reader | None, tenant_id: int, job_id: int, digest: str) -> File:
    """`Ctx.read_file`."""
    if reader is None and not _default:
        raise NoSuchFile("There are no files here: give Ctx a reader of them.")
    return (reader or _default[0](tenant_id, job_id))(digest)
