"""A field of the submit form whose value is a kept file: it is uploaded once, also when another field is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString

from access.doors import TenantRequest
from access.tenancy import reading
from web.seeing import shown
from workflows.actions.keep_file import Kept, keep_file, too_large
from workflows.authoring import FileKind, Problem
from workflows.models import StoredFile
from workflows.submissions import InvalidSubmission


class UploadInput(forms.Widget):
    """Chooses a file; the digest of one that is kept goes along hidden. `kept` describes it."""

    needs_multipart_form = True
    kept: Kept | None = None

    def __init__(self, *, accept: Sequence[str]) -> None:
        super().__init__()
        self._accept = ",".join(accept)

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """The input, and what is kept already. Whatever it says of the file comes from `kept`, not from the browser."""
        attributes = self.build_attrs(self.attrs, {**(attrs or {}), "accept": self._accept})
        flat = forms.utils.flatatt(attributes)
        chooser = format_html('<input type="file" name="{}:file"{}>', name, flat)
        if self.kept is None:
            return chooser
        said = format_html(
            '<p class="small">{}, {}, is kept. Choose another to take its place.</p>',
            shown(self.kept.name),
            filesizeformat(self.kept.size),
        )
        return format_html(
            '<input type="hidden" name="{}" value="{}">{}{}', name, self.kept.digest, said, chooser
        )

    def use_required_attribute(self, initial: Any) -> bool:
        """A file that is kept need not be chosen again, which a browser cannot know."""
        return False


def keep_upload(request: TenantRequest, uploaded: UploadedFile[Any]) -> Kept:
    """Keep what came with a request. Raises what `keep_file` raises."""
    if (uploaded.size or 0) > settings.COUNTERFOIL_LARGEST_FILE:
        raise too_large()
    return keep_file(
        tenant_id=request.tenant.pk,
        name=uploaded.name or "",
        content=uploaded.read(),
        person_id=request.person.pk,
        now=request.now,
    )


def kept_before(request: TenantRequest, digest: str) -> Kept | None:
    """The file that an earlier try with the same form has kept, if it is there."""
    if not digest:
        return None
    with reading(request.tenant.pk):
        file = StoredFile.objects.defer("content").filter(digest=digest).first()
    return None if file is None else Kept(file.digest, file.name, FileKind(file.kind), file.size, known=True)


def read_text(uploaded: UploadedFile[Any], field: str) -> str:
    """The text of a file that takes the place of what is written. InvalidSubmission for one that is too large for that.

    Bytes that are no UTF-8 show as what they are, and are refused by the check.
    """
    if (uploaded.size or 0) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        limit = f"{settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,}"
        raise InvalidSubmission([Problem(field, f"The text file is larger than {limit} bytes.")])
    uploaded.seek(0)  # the value is asked for twice: to be checked, and to be submitted
    return str(uploaded.read().decode("utf-8", errors="surrogateescape"))
