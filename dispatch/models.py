"""READY_TO_COMMIT … SUBMITTED … CONFIRMED: receivers and their contracts, operations, what was sent, what was seen.

An operation is settled only by evidence: a receipt, an observation, or a person's attested resolution.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q

from access.tenancy import Rights, TenantForeignKey, TenantModel
from approvals.models import ProposedOperation
from dispatch.states import IN_DOUBT_OR_FLIGHT, WITHOUT_EFFECT
from workflows.models import Job


class Receiver(TenantModel):
    """A system that effects are sent to. Secrets are references to the environment, never values.

    `public_id`: the part of the address of its callbacks that nobody guesses and that names no organisation.
    """

    app_rights: ClassVar = Rights(
        insert=True, update=("title", "base_url", "paused_at", "paused_by", "pause_reason")
    )

    public_id = models.UUIDField(default=uuid.uuid4, db_default=RandomUUID(), unique=True, editable=False)
    name = models.CharField(max_length=100)
    title = models.CharField(max_length=200)
    base_url = models.URLField(max_length=500)
    account = models.CharField(max_length=200, default="", blank=True)
    secret_reference = models.CharField(max_length=200, default="", blank=True)
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_by = models.CharField(max_length=200, default="", blank=True)
    pause_reason = models.CharField(max_length=1000, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="one_receiver_a_name")
        ]

    def __str__(self) -> str:
        return self.name


class ReceiverContract(TenantModel):
    """One immutable version of what a receiver promises, as data (`contracts.Contract` reads it)."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    receiver = TenantForeignKey(Receiver, db_index=False)
    version = models.IntegerField()
    terms = models.JSONField()
    reviewed_at = models.DateTimeField()
    source = models.CharField(max_length=500, default="", blank=True)
    written_by = models.CharField(max_length=200, default="", db_default="", blank=True)
    reason = models.CharField(max_length=1000, default="", db_default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["receiver", "version"], name="one_contract_a_version")
        ]

    def __str__(self) -> str:
        return f"contract {self.version} of receiver {self.receiver_id}"


class Operation(TenantModel):
    """One intended external effect under one durable key. Its state moves only along dispatch/states.py."""

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "state",
            "version",
            "first_may_have_been_sent_at",
            "resubmit_safe_until",
            "next_step_at",
            "next_step",
            "ordered_by",
            "settled_at",
            "receipt_id",
            "automatic_resubmissions",
            "lookups",
            "fate_note",
            "reopened_at",
            "quarantined_at",
        ),
    )

    job = TenantForeignKey(Job)
    proposed = TenantForeignKey(ProposedOperation, db_index=False)
    receiver = TenantForeignKey(Receiver)
    contract = TenantForeignKey(ReceiverContract, db_index=False)
    ordinal = models.IntegerField()
    operation_key = models.CharField(max_length=100)
    account = models.CharField(max_length=200, default="", blank=True)
    record = models.CharField(max_length=300)
    amount_minor = models.BigIntegerField(null=True, blank=True)
    """What was approved, in the smallest unit of its currency (cents), as the frozen document has it; None: no amount."""
    currency = models.CharField(max_length=3, default="", db_default="", blank=True)
    state = models.CharField(max_length=12, default="PREPARED")
    version = models.IntegerField(default=0)
    first_may_have_been_sent_at = models.DateTimeField(null=True, blank=True)
    resubmit_safe_until = models.DateTimeField(null=True, blank=True)
    next_step = models.CharField(max_length=20, default="send", blank=True)
    ordered_by = models.CharField(max_length=200, default="", blank=True)
    next_step_at = models.DateTimeField(null=True, blank=True)
    automatic_resubmissions = models.IntegerField(default=0)
    lookups = models.IntegerField(default=0)
    receipt_id = models.CharField(max_length=200, default="", blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)
    reopened_at = models.DateTimeField(null=True, blank=True)
    """When new evidence made it unknown again: what its sends were answered before that proves nothing any more."""
    quarantined_at = models.DateTimeField(null=True, blank=True)
    """When it was taken out of a backup: from then on it counts as possibly sent by sends that no row here knows of."""
    fate_note = models.CharField(max_length=500, default="", blank=True)
    created_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["proposed"], name="one_operation_a_proposed"),
            # A key goes on to a later proposal with equal bytes only where this operation had no effect.
            models.UniqueConstraint(
                fields=["operation_key"], condition=~Q(state__in=WITHOUT_EFFECT), name="one_operation_a_key"
            ),
            models.UniqueConstraint(
                fields=["tenant", "receiver", "account", "record"],
                condition=Q(state__in=IN_DOUBT_OR_FLIGHT),
                name="one_operation_in_flight_a_record",
            ),
            models.CheckConstraint(
                condition=Q(amount_minor__isnull=True, currency="")
                | (Q(amount_minor__isnull=False) & ~Q(currency="")),
                name="an_amount_has_a_currency",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "record", "id"], name="operation_by_record"),
            # What a callback names: the key of one without effect, which the constraint above leaves out, or a receipt.
            models.Index(
                fields=["operation_key"], condition=Q(state__in=WITHOUT_EFFECT), name="operation_by_key"
            ),
            models.Index(
                fields=["receiver", "receipt_id"], condition=~Q(receipt_id=""), name="operation_by_receipt"
            ),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """How people name it; the operation key is what receivers see."""
        return label_of(self.job_id, self.ordinal)


def label_of(job_id: int, ordinal: int) -> str:
    """What the operation of a job is called that stands at this place."""
    return f"CF-{job_id:05d}-{ordinal:02d}"


class Reversal(TenantModel):
    """A job that takes back what an operation did, wholly or in part: what for, and under which id of the receiver's.

    The database adds up what all of an operation take back, and lets it be no more than was applied.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    original = TenantForeignKey(Operation)
    job = TenantForeignKey(Job, db_index=False)
    receipt_id = models.CharField(max_length=200, default="", blank=True)
    amount_minor = models.BigIntegerField(null=True, blank=True)
    currency = models.CharField(max_length=3, default="", blank=True)
    reason = models.CharField(max_length=1000)
    asked_by = models.CharField(max_length=200)
    asked_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job"], name="one_reversal_a_job"),
            models.CheckConstraint(
                condition=Q(amount_minor__isnull=True, currency="")
                | (Q(amount_minor__gt=0) & ~Q(currency="")),
                name="a_reversal_takes_something_back",
            ),
        ]

    def __str__(self) -> str:
        return f"reversal of operation {self.original_id} by job {self.job_id}"


class Submission(TenantModel):
    """One send of an operation: opened before the first byte, closed by its outcome or by whoever takes it over."""

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "may_have_been_sent_at",
            "closed_at",
            "outcome",
            "fault",
            "status",
            "response_headers",
            "response_body",
            "response_digest",
            "receipt_id",
            "sent_head",
            "sent_digest",
            "sent_bytes",
            "sent_differs",
        ),
    )

    operation = TenantForeignKey(Operation, db_index=False)
    number = models.IntegerField()
    item_id = models.BigIntegerField()
    claim_no = models.IntegerField()
    worker_id = models.BigIntegerField()
    worker_name = models.CharField(max_length=200)
    resubmission = models.BooleanField(default=False)
    permit = models.CharField(max_length=20, default="approval")
    body_digest = models.CharField(max_length=64)
    checks = models.TextField(default="[]")
    opened_at = models.DateTimeField()
    send_deadline_at = models.DateTimeField()
    may_have_been_sent_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=20, default="", blank=True)
    fault = models.CharField(max_length=300, default="", blank=True)
    status = models.IntegerField(null=True, blank=True)
    response_headers = models.TextField(default="", blank=True)
    response_body = models.TextField(default="", blank=True)
    response_digest = models.CharField(max_length=64, default="", blank=True)
    receipt_id = models.CharField(max_length=200, default="", blank=True)
    sent_head = models.TextField(default="", db_default="", blank=True)
    """JSON of method, address and headers as they were written to the connection, authentication hidden."""
    sent_digest = models.CharField(max_length=64, default="", db_default="", blank=True)
    sent_bytes = models.BigIntegerField(null=True, blank=True)
    """Digest and length of the body that was written; empty where nobody could write down what left."""
    sent_differs = models.CharField(max_length=500, default="", db_default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["operation", "number"], name="one_submission_a_number"),
            models.UniqueConstraint(
                fields=["operation"], condition=Q(closed_at__isnull=True), name="one_open_submission"
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, outcome="")
                | (Q(closed_at__isnull=False) & ~Q(outcome="")),
                name="a_closed_submission_has_an_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"submission {self.number} of operation {self.operation_id}"


class Observation(TenantModel):
    """Something seen about an operation: an answer, a lookup, a callback, a statement line, a person's receipt."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    operation = TenantForeignKey(Operation)
    kind = models.CharField(max_length=20)
    finding = models.CharField(max_length=20)
    proves = models.BooleanField(default=False)
    summary = models.CharField(max_length=500)
    detail = models.TextField(default="", blank=True)
    digest = models.CharField(max_length=64, default="", blank=True)
    question = models.TextField(default="", db_default="", blank=True)
    """Of a look-up: JSON of what was asked, authentication hidden, and its digest; `digest` is then the answer's."""
    question_digest = models.CharField(max_length=64, default="", db_default="", blank=True)
    status = models.IntegerField(null=True, blank=True)
    answer_headers = models.TextField(default="", db_default="", blank=True)
    answer_body = models.TextField(default="", db_default="", blank=True)
    receipt_id = models.CharField(max_length=200, default="", blank=True)
    seen_by = models.CharField(max_length=200)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.kind}: {self.finding}"


class Callback(TenantModel):
    """A signed message of a receiver as it came, once a `message_id`. `operation` is empty where it named none then.

    What it says of an operation is an observation.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    receiver = TenantForeignKey(Receiver, db_index=False)
    message_id = models.CharField(max_length=200)
    operation = TenantForeignKey(Operation, null=True, db_index=False)
    operation_key = models.CharField(max_length=100, default="", blank=True)
    receipt_id = models.CharField(max_length=200, default="", blank=True)
    finding = models.CharField(max_length=20)
    summary = models.CharField(max_length=500)
    body = models.TextField(default="", blank=True)
    digest = models.CharField(max_length=64)
    sent_at = models.DateTimeField(null=True, blank=True)
    received_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["receiver", "message_id"], name="one_callback_an_id")
        ]
        indexes: ClassVar = [
            models.Index(fields=["receiver", "received_at", "id"], name="callback_by_age"),
            models.Index(
                fields=["receiver", "receipt_id", "id"],
                condition=Q(operation__isnull=True),
                name="callback_of_nothing",
            ),
        ]

    def __str__(self) -> str:
        return f"callback {self.message_id}"
