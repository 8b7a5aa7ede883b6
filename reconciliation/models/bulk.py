"""One verb for many: a frozen selection, and what came of each of it."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from reconciliation.models.cases import Case
from workflows.models import Job, WorkItem


class BulkState(models.TextChoices):
    """Where a bulk stands."""

    PLANNED = "planned"  # its selection is frozen and looked at; a person confirms it, or never does
    RUNNING = "running"  # workers do one entry after the other
    STOPPED = "stopped"  # a person stopped it: what was not done yet is left
    FINISHED = "finished"  # every entry has its result


class Bulk(TenantModel):
    """One verb for a frozen selection of jobs, items or cases: looked at, confirmed once, done one by one.

    `filters` are what was asked for. `worked_until`: until then nobody but `worked_by` does a turn of it.
    """

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "state",
            "total",
            "reason",
            "attempts",
            "confirmed_by_id",
            "confirmed_at",
            "stopped_by_id",
            "ended_at",
            "worked_by",
            "worked_until",
        ),
        delete=True,
    )
    engine_rights: ClassVar = Rights()

    verb = models.CharField(max_length=20)
    filters = models.JSONField(default=dict)
    total = models.IntegerField(default=0)
    state = models.CharField(max_length=10, choices=BulkState.choices, default=BulkState.PLANNED)
    reason = models.TextField(default="", blank=True)
    attempts = models.SmallIntegerField(default=0)
    planned_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    planned_at = models.DateTimeField()
    confirmed_by = models.ForeignKey(
        Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    confirmed_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    ended_at = models.DateTimeField(null=True, blank=True)
    worked_by = models.CharField(max_length=200, default="", blank=True)
    worked_until = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(state="planned", confirmed_at__isnull=True)
                | (~Q(state="planned") & Q(confirmed_at__isnull=False, confirmed_by__isnull=False)),
                name="a_bulk_is_confirmed_by_somebody",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["planned", "running"], ended_at__isnull=True)
                | Q(state__in=["stopped", "finished"], ended_at__isnull=False),
                name="a_bulk_that_has_ended_says_when",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-id"], name="bulk_by_age"),
            models.Index(fields=["id"], condition=Q(state="running"), name="bulk_running"),
        ]

    def __str__(self) -> str:
        return f"bulk {self.pk}: {self.verb}"


class EntryState(models.TextChoices):
    """What came of one entry of a bulk."""

    WAITING = "waiting"  # its turn has not come
    DONE = "done"
    REFUSED = "refused"  # the verb was not allowed for it; `why` says so
    CHANGED = "changed"  # it is not as it was when the selection was frozen, so it was left alone
    FAILED = "failed"  # it could not be done, for a reason that is ours; the log has it
    LEFT = "left"  # the bulk was stopped before its turn


class BulkEntry(TenantModel):
    """One job, item or case of a bulk, as it was seen when the selection was frozen: its state, and its claim or version."""

    app_rights: ClassVar = Rights(insert=True, update=("state", "why", "settled_at"), delete=True)

    bulk = TenantForeignKey(Bulk, db_index=False)
    job = TenantForeignKey(Job, db_index=False)
    item = TenantForeignKey(WorkItem, null=True, blank=True, db_index=False)
    case = TenantForeignKey(Case, null=True, blank=True, db_index=False)
    seen_state = models.CharField(max_length=30)
    seen_number = models.BigIntegerField()
    state = models.CharField(max_length=10, choices=EntryState.choices, default=EntryState.WAITING)
    why = models.CharField(max_length=500, default="", blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                "bulk", "job", Coalesce("item", 0), Coalesce("case", 0), name="one_bulk_entry_a_thing"
            ),
            models.CheckConstraint(
                condition=Q(state="waiting", settled_at__isnull=True)
                | (~Q(state="waiting") & Q(settled_at__isnull=False)),
                name="a_settled_entry_says_when",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["bulk", "state", "id"], name="bulk_entry_by_state")]

    def __str__(self) -> str:
        return f"entry {self.pk} of bulk {self.bulk_id}: {self.state}"
