"""PROPOSED … READY_TO_COMMIT: what is proposed, under which policy, and who decided what.

A proposal and its operations are immutable from birth; what happens to a proposal is its closing, written once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from access.models import Delegation, Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from approvals.ruleset import RuleSet
from workflows.models import Job


class Policy(TenantModel):
    """Who may approve what: one immutable revision of a named set of rules. The highest revision is in force."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    name = models.CharField(max_length=100)
    revision = models.IntegerField()
    rules = models.TextField()
    """Canonical JSON of the RuleSet; the database refuses columns beside it that say something else."""
    waives_approval = models.BooleanField(default=False)
    quorum = models.IntegerField(default=1)
    four_eyes = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name", "revision"], name="one_policy_a_revision"),
            models.CheckConstraint(condition=Q(quorum__gte=1), name="a_quorum_is_at_least_one"),
        ]

    def __str__(self) -> str:
        return f"{self.name} revision {self.revision}"

    @property
    def ruleset(self) -> RuleSet:
        """What it says, as a value."""
        return read_rules(self.rules)


@lru_cache(maxsize=256)
def read_rules(text: str) -> RuleSet:
    """A stored rule set; the same text is read once a process."""
    return RuleSet.model_validate_json(text)


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
        insert=True, update=("approved_at", "closed_at", "closing", "closing_reason")
    )

    job = TenantForeignKey(Job, db_index=False)
    number = models.IntegerField()
    title = models.CharField(max_length=300)
    recipient = models.CharField(max_length=300, default="", blank=True)
    document = models.TextField()
    digest = models.CharField(max_length=64)
    policy = TenantForeignKey(Policy)
    quorum = models.IntegerField()
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

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "number"], name="one_proposal_a_number"),
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
            models.Index(
                fields=["tenant", "expires_at", "id"],
                condition=Q(closed_at__isnull=True, approved_at__isnull=True),
                name="proposal_awaiting",
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
        indexes: ClassVar = [models.Index(fields=["tenant", "operation_key"], name="proposed_by_key")]

    def __str__(self) -> str:
        return f"CF-{self.pk}"


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
