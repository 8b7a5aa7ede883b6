"""What is proposed: the frozen document, its operations with their bytes, and how it stopped being open."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from approvals.models.policies import Policy
from workflows.models import Job


class Closing(models.TextChoices):
    """How a proposal stopped being open. Approved ones close when they are sent, voided or cancelled, too."""

    REJECTED = "rejected"  # a manager said no: the job is cancelled
    CHANGES_REQUESTED = "changes requested"  # a manager sent it back
    WITHDRAWN = "withdrawn"  # its submitter took it back
    EXPIRED = "expired"  # nobody decided in time, or approved too late to be sent
    VOIDED = "voided"  # a fact changed, or the job was cancelled
    SENT = "sent"  # its operations are under way; it can no longer change hands
    REPLACED = "replaced"  # a newer proposal of the same job took its place


class Proposal(TenantModel):
    """The frozen intent. `document` is canonical JSON (RFC 8785) of all that is shown and sent; `digest` its SHA-256.

    The other columns repeat what lists and limits need of it. `approved_at` is when the quorum was complete, or when
    the policy waived approval (then `quorum` is 0); it is emptied only while the job is back in AWAITING_APPROVAL.
    """

    app_rights: ClassVar = Rights(
        insert=True, update=("approved_at", "closed_at", "closing", "closing_reason", "blocked_at")
    )

    job = TenantForeignKey(Job, db_index=False)
    number = models.IntegerField()
    title = models.CharField(max_length=300)
    recipient = models.CharField(max_length=300, default="", blank=True)
    document = models.TextField()
    digest = models.CharField(max_length=64)
    policy = TenantForeignKey(Policy)
    quorum = models.IntegerField()
    two_because = models.CharField(max_length=500, default="", blank=True)
    """Why two people have to sign it whatever its policy says; empty where nothing but the policy counts."""
    amount = models.DecimalField(max_digits=20, decimal_places=4, null=True, blank=True)
    currency = models.CharField(max_length=3, default="", blank=True)
    amount_label = models.CharField(max_length=300, default="", blank=True)
    amounts = models.TextField(default="[]")
    """JSON pairs [amount, currency] that limits are compared with: the proposal's own and the sums of its operations."""
    initiator = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    frozen_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    approved_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    closing = models.CharField(max_length=20, choices=Closing.choices, default="", blank=True)
    closing_reason = models.CharField(max_length=1000, default="", blank=True)
    blocked_at = models.DateTimeField(null=True, blank=True)
    """Since when the people at work could not complete it, as `approver.missing` said; means nothing once it is closed."""

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "number"], name="one_proposal_a_number"),
            models.CheckConstraint(
                condition=Q(approved_at__isnull=True) | Q(blocked_at__isnull=True),
                name="what_is_approved_is_not_blocked",
            ),
            models.UniqueConstraint(
                fields=["job"], condition=Q(closed_at__isnull=True), name="one_open_proposal_a_job"
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, closing="")
                | (Q(closed_at__isnull=False) & ~Q(closing="")),
                name="a_closing_has_its_time",
            ),
            models.CheckConstraint(condition=Q(closing__in=["", *Closing.values]), name="a_closing_is_known"),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("frozen_at")), name="expires_after_it_is_frozen"
            ),
        ]
        indexes: ClassVar = [
            # With what hints compare, so that what waits for others is passed over without its rows being read.
            models.Index(
                fields=["tenant", "expires_at", "id"],
                include=["policy", "initiator", "currency", "amount"],
                condition=Q(closed_at__isnull=True, approved_at__isnull=True),
                name="proposal_awaiting",
            ),
            models.Index(
                fields=["tenant", "policy"],
                condition=Q(closed_at__isnull=True, approved_at__isnull=True),
                name="proposal_awaiting_policy",
            ),
            models.Index(
                fields=["tenant", "recipient", "id"], condition=~Q(recipient=""), name="proposal_to_recipient"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id:05d}-{self.number:02d}"

    @property
    def label(self) -> str:
        """The number printed on the slip."""
        return f"{self.job_id:05d}-{self.number:02d}"


class ProposedOperation(TenantModel):
    """The exact request of one operation of a proposal, with its operation key: made once, never renewed."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    proposal = TenantForeignKey(Proposal, db_index=False)
    ordinal = models.IntegerField()
    operation_key = models.CharField(max_length=100)
    receiver = models.CharField(max_length=100)
    contract_version = models.IntegerField()
    account = models.CharField(max_length=200, default="", blank=True)
    record = models.CharField(max_length=300)
    title = models.CharField(max_length=300)
    method = models.CharField(max_length=10)
    target = models.TextField()
    headers = models.TextField(default="{}")
    body = models.BinaryField()
    body_digest = models.CharField(max_length=64)
    independent = models.BooleanField(default=False)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["proposal", "ordinal"], name="one_proposed_operation_a_place"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "operation_key"], name="proposed_by_key"),
            models.Index(fields=["tenant", "receiver", "record"], name="proposed_by_record"),
        ]

    def __str__(self) -> str:
        return f"CF-{self.pk}"
