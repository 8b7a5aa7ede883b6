"""Files that inputs name: kept in the database, addressed by the digest of their bytes, once a tenant."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Length

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from workflows.authoring.files import FileKind
from workflows.models.jobs import Job


class HexDigest(Func):
    """SHA-256 of bytes, in hexadecimal, by the database."""

    template = "encode(sha256(%(expressions)s), 'hex')"
    output_field = models.CharField()


class StoredFile(TenantModel):
    """One file. The same bytes are kept once, under the name they first came with.

    `offered_at`: when somebody last uploaded it. A file that no job names is swept a day after that.
    """

    app_rights: ClassVar = Rights(insert=True, update=("offered_at",))
    engine_rights: ClassVar = Rights(update=("offered_at",), delete=True)

    digest = models.CharField(max_length=64)
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=10, choices=[(k.value, k.value) for k in FileKind])
    size = models.IntegerField()
    content = models.BinaryField()
    uploaded_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    offered_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "digest"], name="one_file_a_digest"),
            models.CheckConstraint(
                condition=Q(digest=HexDigest(F("content"))), name="a_files_digest_is_of_its_bytes"
            ),
            models.CheckConstraint(
                condition=Q(size=Length("content")) & Q(size__gt=0), name="a_files_size_is_of_its_bytes"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["offered_at"], name="file_by_offer")]

    def __str__(self) -> str:
        return f"{self.name} ({self.digest[:8]})"

    @property
    def media_type(self) -> str:
        """As a Content-Type header names it."""
        return FileKind(self.kind).media_type


class JobFile(TenantModel):
    """A job's input names a file. While this row is there the file stays."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)
    engine_rights: ClassVar = Rights()

    job = TenantForeignKey(Job, db_index=False)
    file = TenantForeignKey(StoredFile)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "file"], name="one_row_a_file_of_a_job")
        ]

    def __str__(self) -> str:
        return f"JOB-{self.job_id} file {self.file_id}"
