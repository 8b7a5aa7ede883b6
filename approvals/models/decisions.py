"""What people said to a proposal, what made it void, and what was refused."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.models import Delegation, Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from approvals.models.proposals import Proposal


class Verdict(models.TextChoices):
    """What a person said to a proposal."""

    APPROVE = "approve"
    REJECT = "reject"
    REQUEST_CHANGES = "request changes"


class Decision(TenantModel):
    """One person's verdict on one proposal, with the digest that was on their screen. Append-only.

    The database refuses a second one by the same person while the first counts, one with another digest, and one
    after the closing or the expiry. `round` is above 1 only after an earlier decision of the person was voided.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    proposal = TenantForeignKey(Proposal, db_index=False)
    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    person_name = models.CharField(max_length=200)
    on_behalf_of = models.ForeignKey(
        Person, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    """Whose authority was used, where it was lent by `delegation`; None: the person's own."""
    delegation = TenantForeignKey(Delegation, null=True, blank=True, db_index=False)
    level = models.IntegerField(default=1, db_default=1)
    """The level of the frozen policy that was open, from 1; 0 for one that only today's policy asks for."""
    round = models.IntegerField(default=1)
    verdict = models.CharField(max_length=20, choices=Verdict.choices)
    digest = models.CharField(max_length=64)
    reason = models.TextField(default="", blank=True)
    fields = models.TextField(default="", blank=True)
    authenticated_by = models.CharField(max_length=40, default="password")
    authenticated_at = models.DateTimeField(null=True, blank=True)
    """When the password was entered again for it, where the policy asks."""
    door = models.CharField(max_length=10, default="page", db_default="page")
    decided_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["proposal", "person", "round"], name="one_decision_a_person"),
            models.CheckConstraint(condition=Q(verdict__in=Verdict.values), name="a_verdict_is_one_of_three"),
            models.CheckConstraint(
                condition=Q(verdict=Verdict.APPROVE) | ~Q(reason=""), name="a_refusal_has_a_reason"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.person_name}: {self.verdict}"


class DecisionVoid(TenantModel):
    """A decision that stopped counting (authority lost, withdrawn): the decision itself stays as it was."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    decision = TenantForeignKey(Decision, db_index=False)
    why = models.CharField(max_length=1000)
    voided_at = models.DateTimeField()
    voided_by = models.CharField(max_length=200)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["decision"], name="one_void_a_decision")]

    def __str__(self) -> str:
        return f"decision {self.decision_id} void: {self.why}"


class Refusal(TenantModel):
    """Something that was asked of a proposal and refused (stale digest, not permitted, too late). Append-only.

    Written in a transaction of its own, where the refusal's rollback cannot take it.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    proposal = TenantForeignKey(Proposal)
    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    asked = models.CharField(max_length=40)
    why = models.CharField(max_length=1000)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.asked} refused: {self.why}"
