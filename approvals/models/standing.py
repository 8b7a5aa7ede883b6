"""What became of a proposal's time and money: escalations that were taken, and what it takes of its policy's sums."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.tenancy import Rights, TenantForeignKey, TenantModel
from approvals.models.proposals import Proposal


class Escalated(TenantModel):
    """One step of a policy's escalation that has been taken for a proposal: who was told, and who may sign since."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    proposal = TenantForeignKey(Proposal, db_index=False)
    step = models.IntegerField()
    to = models.CharField(max_length=200)
    person = models.CharField(max_length=80, default="", blank=True)
    group = models.CharField(max_length=80, default="", blank=True)
    role = models.CharField(max_length=20, default="", blank=True)
    may_decide = models.BooleanField(default=False)
    at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["proposal", "step"], name="one_escalation_a_step")
        ]

    def __str__(self) -> str:
        return f"{self.proposal_id} to {self.to}"


class Reservation(TenantModel):
    """What an approved proposal takes of its policy's sums, in one currency, until it is released.

    Released when the proposal ends unsent, goes back to its approvers, or nothing of it was applied.
    """

    app_rights: ClassVar = Rights(insert=True, update=("released_at", "released_why"))
    ended_by: ClassVar = "released_at"

    proposal = TenantForeignKey(Proposal, db_index=False)
    policy_name = models.CharField(max_length=100)
    recipient = models.CharField(max_length=300, default="", blank=True)
    amount = models.DecimalField(max_digits=20, decimal_places=4)
    currency = models.CharField(max_length=3)
    day = models.DateField()
    """The tenant's own day on which it was approved."""
    reserved_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)
    released_why = models.CharField(max_length=200, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["proposal", "currency"],
                condition=Q(released_at__isnull=True),
                name="one_reservation_a_currency",
            ),
            models.CheckConstraint(condition=Q(amount__gte=0), name="a_reservation_is_not_negative"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["tenant", "policy_name", "day"],
                condition=Q(released_at__isnull=True),
                name="reserved_of_policy",
            )
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.currency} of {self.policy_name}"
