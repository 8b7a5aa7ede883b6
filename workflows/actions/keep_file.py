"""Keeping an uploaded file, before any job names it: the one door from form, API and command."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from access import authority
from access.refusals import Unprocessable
from access.roles import Role
from access.tenancy import acting
from workflows.authoring.files import FileKind
from workflows.file_kinds import clean_name, kind_of
from workflows.models import StoredFile


class FileRefused(Unprocessable):
    """What was uploaded is not kept; the message says why and what is."""


class FileTooLarge(FileRefused):
    """Over the installation's limit; the status is 413 where the file is all that was sent."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The file as it is kept. `known`: the same bytes were here already, maybe under another name."""

    digest: str
    name: str
    kind: FileKind
    size: int
    known: bool


def keep_file(*, tenant_id: int, name: str, content: bytes, person_id: int, now: datetime) -> Kept:
    """Keep a file for a day, and for good once a job names it. Repeating it makes the day begin anew.

    Raises NotPermitted, FileRefused, FileTooLarge.
    """
    kind = _judged(content)
    digest = hashlib.sha256(content).hexdigest()
    with acting(tenant_id):
        authority.require(person_id, Role.SUBMITTER)
        known = StoredFile.objects.filter(digest=digest).update(offered_at=now) == 1
        if not known:
            _insert(tenant_id, digest, clean_name(name, kind.ending), kind, content, person_id, now)
        told, size = StoredFile.objects.values_list("name", "size").get(digest=digest)
        return Kept(digest, told, kind, size, known=known)


def too_large() -> FileTooLarge:
    """The refusal of a file over the limit, for whoever need not read it to know."""
    return FileTooLarge(
        f"The file is larger than {settings.COUNTERFOIL_LARGEST_FILE:,} bytes; at most that is kept."
    )


def _judged(content: bytes) -> FileKind:
    if not content:
        raise FileRefused("The file is empty.")
    if len(content) > settings.COUNTERFOIL_LARGEST_FILE:
        raise too_large()
    kind = kind_of(content)
    if kind is None:
        *most, last = (k.words for k in FileKind)
        raise FileRefused(f"The file is none of what is taken here: {', '.join(most)} or {last}.")
    return kind


def _insert(
    tenant_id: int, digest: str, name: str, kind: FileKind, content: bytes, person_id: int, now: datetime
) -> None:
    """Somebody else may insert the same bytes at this moment; then theirs is kept, and offered once more."""
    file = StoredFile(
        tenant_id=tenant_id,
        digest=digest,
        name=name,
        kind=kind.value,
        size=len(content),
        content=content,
        uploaded_by_id=person_id,
        offered_at=now,
    )
    StoredFile.objects.bulk_create(
        [file], update_conflicts=True, update_fields=["offered_at"], unique_fields=["tenant", "digest"]
    )
