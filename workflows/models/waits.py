"""What items wait for beside workers, and what came for them from outside."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.tenancy import Rights, TenantForeignKey, TenantModel
from workflows.models.jobs import Job
from workflows.models.work import WorkItem


class ExpectationKind(models.TextChoices):
    """What ends the wait."""

    TIME = "time"
    EVENT = "event"
    ANSWER = "answer"


class Settled(models.TextChoices):
    """How a wait ended."""

    TIME = "time"  # the time that was waited for has come
    CAME = "came"  # the event came, or a person answered
    EXPIRED = "expired"  # nobody waits any longer; the item is refused, and a case asks what to do
    CANCELLED = "cancelled"  # its item was cancelled or skipped


class Expectation(TenantModel):
    """What one waiting item waits for, and how that ended. One open an item; what came is the item's checkpoint.

    Written by the batch that records that the item waits. `key` names an event of this tenant (unique while open), to
    be sent by `source` or, where that is empty, by any. `schema` is the JSON schema of an answer. `due_at`: when the
    time has come, or when nobody waits any longer. `begun_at`: when it was journalled, and seen whether its event had
    come before. `misfits` counts what was sent for it and was not of its type; `misfit` says what was wrong last.
    """

    app_rights: ClassVar = Rights(
        update=(
            "begun_at",
            "settled_at",
            "settled_how",
            "settled_by",
            "misfits",
            "misfit",
            "misfit_at",
        )
    )
    engine_rights: ClassVar = Rights(insert=True, update=("settled_at", "settled_how"))

    job = TenantForeignKey(Job, db_index=False)
    item = TenantForeignKey(WorkItem, db_index=False)
    kind = models.CharField(max_length=10, choices=ExpectationKind.choices)
    key = models.CharField(max_length=200, default="", blank=True)
    source = models.CharField(max_length=100, default="", db_default="", blank=True)
    question = models.TextField(default="", blank=True)
    role = models.CharField(max_length=20, default="", blank=True)
    schema = models.TextField(default="{}")
    asked_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True, blank=True)
    begun_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)
    settled_how = models.CharField(
        max_length=20, default="", db_default="", blank=True, choices=Settled.choices
    )
    settled_by = models.CharField(max_length=200, default="", db_default="", blank=True)
    misfits = models.IntegerField(default=0, db_default=0)
    misfit = models.CharField(max_length=500, default="", db_default="", blank=True)
    misfit_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["item"], condition=Q(settled_at__isnull=True), name="one_open_expectation_an_item"
            ),
            models.UniqueConstraint(
                fields=["tenant", "key"],
                condition=Q(settled_at__isnull=True) & ~Q(key=""),
                name="one_open_expectation_a_key",
            ),
            models.CheckConstraint(
                condition=Q(settled_at__isnull=True, settled_how="")
                | (Q(settled_at__isnull=False) & ~Q(settled_how="")),
                name="a_settled_expectation_says_how",
            ),
            models.CheckConstraint(
                condition=Q(kind="time", due_at__isnull=False, key="", question="")
                | (Q(kind="event", question="") & ~Q(key=""))
                | (Q(kind="answer", key="") & ~Q(question="") & ~Q(role="")),
                name="an_expectation_is_of_its_kind",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["job", "id"], name="expectation_by_job"),
            models.Index(fields=["tenant", "key", "id"], condition=~Q(key=""), name="expectation_by_key"),
            models.Index(
                fields=["tenant", "kind", "id"], condition=Q(settled_at__isnull=True), name="expectation_open"
            ),
            models.Index(
                fields=["id"],
                condition=Q(settled_at__isnull=True, begun_at__isnull=True),
                name="expectation_not_begun",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for item {self.item_id}"


class EventEnd(models.TextChoices):
    """What became of an event that came from outside."""

    USED = "used"  # it ended a wait
    MISFIT = "misfit"  # it came before anybody waited, and was not what was waited for then
    DISCARDED = "discarded"  # a person said that it will not be needed; its value is gone


class ExternalEvent(TenantModel):
    """One signed callback as it came, once an `event_id`. It may come before anybody waits for it.

    `digest` covers key and value, so that the same id with other content is told apart. Unused events of a source are
    limited in number; a person discards what will not be needed.
    """

    app_rights: ClassVar = Rights(
        insert=True, update=("used_by_id", "closed_at", "closed_how", "closed_by", "misfit", "value")
    )
    engine_rights: ClassVar = Rights()

    source = models.CharField(max_length=100)
    event_id = models.CharField(max_length=200)
    key = models.CharField(max_length=200)
    value = models.TextField()
    digest = models.CharField(max_length=64)
    received_at = models.DateTimeField()
    used_by = TenantForeignKey(Expectation, null=True, db_index=False)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_how = models.CharField(
        max_length=20, default="", db_default="", blank=True, choices=EventEnd.choices
    )
    closed_by = models.CharField(max_length=200, default="", db_default="", blank=True)
    misfit = models.CharField(max_length=500, default="", db_default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "source", "event_id"], name="one_event_an_id"),
            models.UniqueConstraint(
                fields=["used_by"], condition=Q(used_by__isnull=False), name="one_event_an_expectation"
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, closed_how="", used_by__isnull=True)
                | Q(closed_at__isnull=False, closed_how="used", used_by__isnull=False)
                | Q(closed_at__isnull=False, closed_how__in=["misfit", "discarded"], used_by__isnull=True),
                name="a_closed_event_says_how",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["tenant", "key", "id"], condition=Q(closed_at__isnull=True), name="event_unused"
            ),
            models.Index(
                fields=["tenant", "source", "id"],
                condition=Q(closed_how__in=["", "misfit"]),
                name="event_kept_by_source",
            ),
        ]

    def __str__(self) -> str:
        return f"event {self.event_id}"


class EventSource(TenantModel):
    """Who may send signed events to a tenant. The row says where the secret is to be found, never the secret.

    After a rotation the secret before it holds until `previous_until`.
    """

    app_rights: ClassVar = Rights(
        insert=True,
        update=("secret_reference", "previous_reference", "previous_until", "rotated_at", "ended_at"),
    )

    name = models.CharField(max_length=100)
    secret_reference = models.CharField(max_length=200)
    previous_reference = models.CharField(max_length=200, default="", db_default="", blank=True)
    previous_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    rotated_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="one_event_source_a_name"),
            models.CheckConstraint(
                condition=Q(previous_reference="", previous_until__isnull=True)
                | (~Q(previous_reference="") & Q(previous_until__isnull=False)),
                name="a_previous_secret_has_an_end",
            ),
        ]

    def __str__(self) -> str:
        return self.name
