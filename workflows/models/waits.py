"""What an item waits for that no worker does: a time, an event from outside, a person's answer."""

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


class Expectation(TenantModel):
    """What one waiting item waits for, and what came. One open an item; its answer becomes the item's checkpoint.

    `key` names an event of this tenant (unique while open). `schema` is the JSON schema of the value. `due_at`: when
    the time has come, or when nobody waits any longer. `settled_how`: came, time, expired, cancelled.
    """

    app_rights: ClassVar = Rights(insert=True, update=("settled_at", "settled_how", "settled_by", "value"))
    engine_rights: ClassVar = Rights()

    job = TenantForeignKey(Job, db_index=False)
    item = TenantForeignKey(WorkItem, db_index=False)
    kind = models.CharField(max_length=10, choices=ExpectationKind.choices)
    key = models.CharField(max_length=200, default="", blank=True)
    question = models.TextField(default="", blank=True)
    role = models.CharField(max_length=20, default="", blank=True)
    schema = models.TextField(default="{}")
    asked_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)
    settled_how = models.CharField(max_length=20, default="", blank=True)
    settled_by = models.CharField(max_length=200, default="", blank=True)
    value = models.TextField(default="", blank=True)

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
        ]
        indexes: ClassVar = [
            models.Index(fields=["job", "id"], name="expectation_by_job"),
            models.Index(
                fields=["tenant", "kind", "id"], condition=Q(settled_at__isnull=True), name="expectation_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for item {self.item_id}"


class ExternalEvent(TenantModel):
    """One signed callback as it came, once an `event_id`. It may come before anybody waits for it.

    `used_by`: the expectation that it ended.
    """

    app_rights: ClassVar = Rights(insert=True, update=("used_by_id", "used_at"))

    source = models.CharField(max_length=100)
    event_id = models.CharField(max_length=200)
    key = models.CharField(max_length=200)
    value = models.TextField()
    received_at = models.DateTimeField()
    used_by = TenantForeignKey(Expectation, null=True, db_index=False)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "source", "event_id"], name="one_event_an_id"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["tenant", "key", "id"], condition=Q(used_by__isnull=True), name="event_unused"
            ),
        ]

    def __str__(self) -> str:
        return f"event {self.event_id}"


class EventSource(TenantModel):
    """Who may send signed events to a tenant. The row says where the secret is to be found, never the secret."""

    app_rights: ClassVar = Rights(insert=True, update=("secret_reference", "ended_at"))

    name = models.CharField(max_length=100)
    secret_reference = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="one_event_source_a_name")
        ]

    def __str__(self) -> str:
        return self.name
