"""When something happens to a proposal by itself: the moments of its schedule, and when open ones are looked at again."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from approvals.models.proposals import Proposal


class MomentKind(models.TextChoices):
    """What is due at a moment."""

    REMINDER = "reminder"  # whoever could sign is told that it still waits
    ESCALATION = "escalation"  # somebody more is told, and may sign from then on if the step says so


class Moment(TenantModel):
    """One moment of a proposal's schedule, as the frozen policy had it when it was asked. Append-only.

    `left_out` says why nothing happens at it: it was past already, or not before the expiry.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    proposal = TenantForeignKey(Proposal, db_index=False)
    kind = models.CharField(max_length=12, choices=MomentKind.choices)
    step = models.IntegerField()
    """The place in the policy's own list, from 1."""
    at = models.DateTimeField()
    left_out = models.CharField(max_length=100, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["proposal", "kind", "step"], name="one_moment_a_step"),
            models.CheckConstraint(condition=Q(kind__in=MomentKind.values), name="a_moment_is_of_a_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.step} of {self.proposal_id}"


class Reminded(TenantModel):
    """One reminder that was given: by the schedule (`step`), or because its initiator asked (`step` 0). Append-only.

    `told`: how many people got an e-mail. `passed`: a later one was due by then, so nobody was told twice.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    proposal = TenantForeignKey(Proposal, db_index=False)
    step = models.IntegerField(default=0)
    by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+", null=True, blank=True)
    told = models.IntegerField()
    passed = models.BooleanField(default=False)
    at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["proposal", "step"], condition=Q(step__gt=0), name="one_reminder_a_step"
            ),
            models.CheckConstraint(
                condition=Q(step=0, by__isnull=False) | Q(step__gt=0, by__isnull=True),
                name="a_reminder_is_the_schedules_or_a_persons",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["proposal", "at"], name="reminded_of_proposal")]

    def __str__(self) -> str:
        return f"{self.proposal_id} at {self.at}"


class LookAgain(TenantModel):
    """A moment from which on a tenant's open proposals may have other approvers than before. See `looking.py`.

    Written by triggers wherever people, what they lent, absences or policies change. `policy` empty: all of them.
    `horizon`: every transaction before it may have read the world before the change; they have to end first.
    `after`: the proposal that was looked at last. `missed`: one was locked, so all are looked at once more.
    """

    app_rights: ClassVar = Rights(
        insert=True, update=("at", "horizon", "after", "missed", "worked_by", "worked_until"), delete=True
    )
    engine_rights: ClassVar = Rights()

    at = models.DateTimeField()
    policy = models.CharField(max_length=100, default="", db_default="", blank=True)
    horizon = models.BigIntegerField(null=True, blank=True)
    after = models.BigIntegerField(default=0, db_default=0)
    missed = models.BooleanField(default=False, db_default=False)
    worked_by = models.CharField(max_length=200, default="", db_default="", blank=True)
    worked_until = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        indexes: ClassVar = [models.Index(fields=["at", "tenant", "id"], name="look_again_when")]

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} at {self.at}"
