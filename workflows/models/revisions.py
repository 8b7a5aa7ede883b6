"""Which definitions this installation has run under which name and revision."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class KnownRevision(models.Model):
    """A workflow's revision as it was first deployed here. `described` is what its digest is over, as JSON."""

    workflow = models.CharField(max_length=100)
    revision = models.CharField(max_length=50)
    digest = models.CharField(max_length=64)
    described = models.TextField()
    first_seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workflow", "revision"], name="one_known_revision")
        ]

    def __str__(self) -> str:
        return f"{self.workflow} revision {self.revision}"
