"""Recipients to whom nothing may be sent, each with who blocked them, when and why."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.tenancy import Rights, TenantModel


class RecipientBlock(TenantModel):
    """One recipient who is blocked, until `lifted_at`. `key` is the name as it is compared (`blocking.key_of`)."""

    app_rights: ClassVar = Rights(insert=True, update=("lifted_at", "lifted_by", "lift_reason"))
    ended_by: ClassVar = "lifted_at"

    recipient = models.CharField(max_length=300)
    key = models.CharField(max_length=600)
    reason = models.CharField(max_length=1000)
    blocked_at = models.DateTimeField()
    blocked_by = models.CharField(max_length=200)
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.CharField(max_length=200, default="", blank=True)
    lift_reason = models.CharField(max_length=1000, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "key"],
                condition=Q(lifted_at__isnull=True),
                name="one_live_block_a_recipient",
            ),
            models.CheckConstraint(condition=~Q(reason="") & ~Q(key=""), name="a_block_has_a_reason"),
            models.CheckConstraint(
                condition=Q(lifted_at__isnull=True, lifted_by="")
                | (Q(lifted_at__isnull=False) & ~Q(lifted_by="")),
                name="a_lifted_block_says_by_whom",
            ),
        ]

    def __str__(self) -> str:
        return self.recipient
