"""What is told to whom outside: endpoints that subscribe to events, messages on their way, and every try to deliver."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel


class Endpoint(TenantModel):
    """An address of another system that is told of chosen events by signed webhooks.

    The secret is a reference. After a rotation both secrets sign until `previous_until`. `lagging_since`: since when
    its answers have failed or been slow, so that its messages share a few slots with others of the kind.
    """

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "url",
            "secret_reference",
            "previous_reference",
            "previous_until",
            "events",
            "disabled_at",
            "disabled_by",
            "disabled_reason",
            "lagging_since",
        ),
    )
    engine_rights: ClassVar = Rights()

    name = models.CharField(max_length=100)
    url = models.CharField(max_length=2000)
    secret_reference = models.CharField(max_length=200)
    previous_reference = models.CharField(max_length=200, default="", blank=True)
    previous_until = models.DateTimeField(null=True, blank=True)
    events = ArrayField(models.CharField(max_length=60), default=list)
    created_at = models.DateTimeField()
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_by = models.CharField(max_length=200, default="", blank=True)
    disabled_reason = models.CharField(max_length=1000, default="", blank=True)
    lagging_since = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="one_endpoint_a_name"),
            models.CheckConstraint(
                condition=Q(disabled_at__isnull=True, disabled_by="", disabled_reason="")
                | (Q(disabled_at__isnull=False) & ~Q(disabled_by="") & ~Q(disabled_reason="")),
                name="a_disabled_endpoint_says_why",
            ),
            models.CheckConstraint(
                condition=Q(previous_until__isnull=True, previous_reference="")
                | (Q(previous_until__isnull=False) & ~Q(previous_reference="")),
                name="an_endpoints_previous_secret_ends",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class MessageKind(models.TextChoices):
    """By which way it goes out."""

    EMAIL = "e-mail"  # to a person, by the installation's mail server
    WEBHOOK = "webhook"  # to an endpoint, signed


class Message(TenantModel):
    """One notification for one person or endpoint, written in the transaction of what it tells.

    What it says never changes. `key` is what makes it the same notification: a second one for the same recipient is
    not written. `public_id` is what the recipient may drop a repeat by. `next_attempt_at`: when it is due, or, while
    `claimed_by` is set, when that dispatcher's lease ends; empty once it was delivered or given up. `claim_no` is the
    token of a claim and never goes back. `job_id` is the job that it tells of, a room above's: what tells of one job reaches one
    recipient in the order that it was written in. `reported_at`: when somebody was told that it was given up.
    """

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "attempts",
            "next_attempt_at",
            "gives_up_at",
            "claimed_by",
            "delivered_at",
            "given_up_at",
            "reported_at",
            "last_error",
        ),
        delete=True,
    )
    engine_rights: ClassVar[Rights] = Rights(update=("attempts", "next_attempt_at", "claimed_by", "claim_no"))

    public_id = models.UUIDField(default=uuid.uuid4, unique=True)
    kind = models.CharField(max_length=10, choices=MessageKind.choices)
    event = models.CharField(max_length=60)
    key = models.CharField(max_length=200)
    subject = models.JSONField(default=dict)
    person = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    endpoint = TenantForeignKey(Endpoint, null=True, blank=True, db_index=False)
    job_id = models.BigIntegerField(null=True, blank=True)
    payload = models.TextField()
    created_at = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    gives_up_at = models.DateTimeField()
    claim_no = models.IntegerField(default=0)
    claimed_by = models.CharField(max_length=200, default="", blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    given_up_at = models.DateTimeField(null=True, blank=True)
    reported_at = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=500, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                "tenant", "key", Coalesce("person", 0), Coalesce("endpoint", 0), name="one_message_a_recipient"
            ),
            models.CheckConstraint(
                condition=Q(kind="e-mail", person__isnull=False, endpoint__isnull=True)
                | Q(kind="webhook", person__isnull=True, endpoint__isnull=False),
                name="a_message_has_one_recipient",
            ),
            models.CheckConstraint(
                condition=Q(delivered_at__isnull=True, given_up_at__isnull=True, next_attempt_at__isnull=False)
                | Q(delivered_at__isnull=False, given_up_at__isnull=True, next_attempt_at__isnull=True, claimed_by="")
                | Q(delivered_at__isnull=True, given_up_at__isnull=False, next_attempt_at__isnull=True, claimed_by=""),
                name="a_message_is_due_or_at_its_end",
            ),
            models.CheckConstraint(
                condition=Q(reported_at__isnull=True) | Q(given_up_at__isnull=False),
                name="only_what_was_given_up_is_reported",
            ),
        ]  # fmt: skip
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-id"], name="message_by_age"),
            models.Index(
                fields=["endpoint", "next_attempt_at", "id"],
                condition=Q(kind="webhook", next_attempt_at__isnull=False),
                name="message_due_to_endpoint",
            ),
            models.Index(
                fields=["tenant", "next_attempt_at", "id"],
                condition=Q(kind="e-mail", next_attempt_at__isnull=False),
                name="message_due_by_mail",
            ),
            models.Index(
                fields=["job_id", "endpoint", "person", "id"],
                condition=Q(job_id__isnull=False, next_attempt_at__isnull=False),
                name="message_waiting_of_job",
            ),
            models.Index(fields=["endpoint"], condition=~Q(claimed_by=""), name="message_claimed"),
            models.Index(fields=["endpoint", "-id"], condition=Q(kind="webhook"), name="message_of_endpoint"),
            models.Index(
                fields=["tenant", "-id"], condition=Q(next_attempt_at__isnull=False), name="message_waiting"
            ),
            models.Index(
                fields=["tenant", "-id"], condition=Q(given_up_at__isnull=False), name="message_given_up"
            ),
            models.Index(
                fields=["tenant", "delivered_at"],
                condition=Q(delivered_at__isnull=False),
                name="message_delivered",
            ),
            models.Index(
                fields=["id"],
                condition=Q(given_up_at__isnull=False, reported_at__isnull=True),
                name="message_to_report",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} by {self.kind}"

    def of_the_same(self) -> models.QuerySet[Message]:
        """What waits for the same recipient and tells of the same job, this one perhaps among it."""
        waiting = Message.objects.filter(next_attempt_at__isnull=False)
        if self.job_id is None:
            return waiting.none()
        return waiting.filter(
            job_id=self.job_id, kind=self.kind, endpoint=self.endpoint_id, person=self.person_id
        )

    @property
    def webhook_id(self) -> str:
        """The same at every try, so that the receiver can drop a repeat."""
        return f"msg_{self.public_id.hex}"


class TryOutcome(models.TextChoices):
    """What came of one try."""

    DELIVERED = "delivered"  # the endpoint answered 2xx, or the mail server took it
    FAILED = "failed"  # it is tried again
    REFUSED = "refused"  # it never can be delivered, so it was given up
    STALE = "stale"  # its lease had run out, and somebody else had it by then


class Try(TenantModel):
    """One try to deliver a message, written when it has ended. A claim without one: its dispatcher died.

    It never changes, and goes with its message.
    """

    app_rights: ClassVar = Rights(insert=True, delete=True)

    message = TenantForeignKey(Message, db_index=False)
    claim_no = models.IntegerField()
    outcome = models.CharField(max_length=10, choices=TryOutcome.choices)
    said = models.CharField(max_length=500, default="", blank=True)
    dispatcher = models.CharField(max_length=200)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["message", "claim_no"], name="one_try_a_claim")
        ]

    def __str__(self) -> str:
        return f"try {self.claim_no} of message {self.message_id}: {self.outcome}"
