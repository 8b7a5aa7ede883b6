"""When cases of a kind are due, where an organisation wants that otherwise than the table of kinds."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from dispatch.models import Receiver


class DueTime(TenantModel):
    """How long after its opening a case is due: for a kind, at one receiver or at all. The last row of a pair holds.

    `minutes` None: as if nothing had been written. Open cases keep what they were given.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    kind = models.CharField(max_length=30)
    receiver = TenantForeignKey(Receiver, null=True, blank=True, db_index=False)
    minutes = models.IntegerField(null=True, blank=True)
    written_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    written_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(minutes__isnull=True) | Q(minutes__gte=5, minutes__lte=90 * 24 * 60),
                name="a_due_time_is_minutes_to_months",
            )
        ]
        indexes: ClassVar = [models.Index(fields=["tenant", "kind", "-id"], name="due_time_by_kind")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.minutes} minutes"
