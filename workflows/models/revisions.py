"""Which definitions this installation has run under which name and revision."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class KnownRevision(models.Model):
    """A workflow's revision with one definition, as it was first met here. `described` is what its digest is over.

    A revision has one definition; a second comes only from code that says that it is compatible with the first.
    `described` is empty where a job pinned it and no process has ever loaded it.
    """

    workflow = models.CharField(max_length=100)
    revision = models.CharField(max_length=50)
    digest = models.CharField(max_length=64)
    described = models.TextField()
    first_seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workflow", "revision", "digest"], name="one_known_definition")
        ]

    def __str__(self) -> str:
        return f"{self.workflow} revision {self.revision}"
