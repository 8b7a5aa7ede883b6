"""One fault of one receiver that many cases ask about."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.tenancy import Rights, TenantForeignKey, TenantModel
from dispatch.models import Receiver


class Incident(TenantModel):
    """A storm: cases of one kind about one receiver in which the same thing went wrong. It closes with its last case.

    `announced_at`: since then people have been told and its first cases belong to it. `opened_at` is when so many were
    open together; `began_at`, when the first of them was.
    """

    app_rights: ClassVar = Rights(insert=True, update=("announced_at", "closed_at"))
    engine_rights: ClassVar = Rights()

    receiver = TenantForeignKey(Receiver, db_index=False)
    kind = models.CharField(max_length=30)
    fault = models.CharField(max_length=80)
    began_at = models.DateTimeField()
    opened_at = models.DateTimeField()
    announced_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["receiver", "kind", "fault"],
                condition=Q(closed_at__isnull=True),
                name="one_open_incident_a_fault",
            ),
            models.CheckConstraint(condition=~Q(fault=""), name="an_incident_says_what_went_wrong"),
        ]
        indexes: ClassVar = [models.Index(fields=["tenant", "-id"], name="incident_by_age")]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """How people name it."""
        return f"INC-{self.pk:04d}"
