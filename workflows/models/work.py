"""The work that a job's steps are.

The hot table is `WorkItem`: narrow, updated at claim and at completion. What it works on and what comes out of it is
insert-only: `ItemInput`, `Checkpoint`, `Attempt`. The lease is on the worker's row, so a renewal is one update.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.tenancy import Rights, TenantForeignKey, TenantModel
from workflows.kinds import AttemptOutcome, StageKind
from workflows.models.jobs import Job
from workflows.states import ItemState

READY, BACKING_OFF, RUNNING = ItemState.READY.number, ItemState.BACKING_OFF.number, ItemState.RUNNING.number
WAITING = ItemState.WAITING.number
NOT_DONE_NUMBERS = [s.number for s in ItemState if s is not ItemState.SUCCEEDED]
STUCK_NUMBERS = [ItemState.EXHAUSTED.number, ItemState.REFUSED.number]


class Stage(TenantModel):
    """One step of one job, opened once. `closed_at` is set when its need is met and the next was opened.

    `need`: how many items must succeed; empty means all of them. `patience`: seconds that the others are waited for
    once that many have (`met_at`); empty means until each has come to an end.
    """

    app_rights: ClassVar = Rights(
        insert=True,
        update=("closed_at", "digest", "total", "need", "patience", "met_at", "name", "ordinal", "kind"),
    )
    engine_rights: ClassVar = Rights(insert=True, update=("closed_at", "digest", "total", "met_at"))

    job = TenantForeignKey(Job, db_index=False)
    name = models.CharField(max_length=140)
    ordinal = models.IntegerField()
    kind = models.CharField(max_length=10, choices=StageKind.choices)
    total = models.IntegerField(default=0)
    need = models.IntegerField(null=True, blank=True)
    patience = models.FloatField(null=True, blank=True)
    met_at = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)
    digest = models.CharField(max_length=64, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["job", "name"], name="one_stage_a_name")]
        indexes: ClassVar = [
            models.Index(
                fields=["id"], condition=Q(closed_at__isnull=True) & ~Q(kind="machine"), name="stage_open"
            ),
        ]

    def __str__(self) -> str:
        return f"JOB-{self.job_id} {self.name}"


class WorkItem(TenantModel):
    """One independently retryable unit, unique by job, stage and key.

    `claim_no` is the claim's token: raised at each claim, never reset. `attempts` is counted at claim, so that a
    worker's death counts. `deaths` counts the workers that stopped while they ran it: from the first on it is a
    suspect, which is claimed alone. `limited`: its lane stands under a named limit. On a RUNNING machine item, `next_attempt_at` says that somebody rang meanwhile. While its
    job is held, an item's `lane_id` is negative: no claim looks there.
    """

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "state",
            "attempts",
            "attempts_limit",
            "lane_id",
            "stage_id",
            "limited",
            "deaths",
            "first_started_at",
            "next_attempt_at",
            "reported_at",
            "finished_at",
        ),
    )
    engine_rights: ClassVar = Rights(
        insert=True,
        update=(
            "state",
            "attempts",
            "attempts_limit",
            "deaths",
            "first_started_at",
            "claim_no",
            "next_attempt_at",
            "worker_id",
            "started_at",
            "finished_at",
            "reported_at",
        ),
    )

    job = TenantForeignKey(Job, db_index=False)
    stage = TenantForeignKey(Stage, db_index=False)
    key = models.CharField(max_length=200)
    ordinal = models.IntegerField(default=0)
    lane_id = models.BigIntegerField()
    limited = models.BooleanField(default=False, db_default=False)
    rank = models.BigIntegerField(default=0)
    state = models.SmallIntegerField(default=READY)
    attempts = models.SmallIntegerField(default=0)
    attempts_limit = models.SmallIntegerField(default=5)
    claim_no = models.IntegerField(default=0)
    deaths = models.SmallIntegerField(default=0, db_default=0)
    first_started_at = models.DateTimeField(null=True, blank=True)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    worker_id = models.BigIntegerField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    reported_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "stage", "key"], name="one_item_a_key"),
            models.CheckConstraint(condition=~Q(key=""), name="an_item_has_a_key"),
            models.CheckConstraint(
                condition=~Q(state=RUNNING) | Q(worker_id__isnull=False, started_at__isnull=False),
                name="a_running_item_has_a_worker",
            ),
            models.CheckConstraint(
                condition=~Q(state=BACKING_OFF) | Q(next_attempt_at__isnull=False),
                name="a_backing_off_item_has_a_time",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["lane_id", "rank", "id"],
                condition=Q(state=READY, limited=False, deaths=0),
                name="item_ready",
            ),
            models.Index(
                fields=["lane_id", "rank", "id"],
                condition=Q(state=READY, limited=True, deaths=0),
                name="item_ready_limited",
            ),
            models.Index(fields=["id"], condition=Q(state=READY, deaths__gt=0), name="item_suspect"),
            models.Index(
                fields=["lane_id"], condition=Q(state=RUNNING, limited=True), name="item_running_limited"
            ),
            models.Index(fields=["next_attempt_at"], condition=Q(state=BACKING_OFF), name="item_backing_off"),
            models.Index(
                fields=["next_attempt_at"],
                condition=Q(state=WAITING, next_attempt_at__isnull=False),
                name="item_waiting_until",
            ),
            models.Index(fields=["worker_id"], condition=Q(state=RUNNING), name="item_running"),
            models.Index(
                fields=["job", "stage", "state"],
                include=["tenant"],
                condition=Q(state__in=NOT_DONE_NUMBERS),
                name="item_not_done",
            ),
            models.Index(
                fields=["id"],
                condition=Q(state__in=STUCK_NUMBERS, reported_at__isnull=True),
                name="item_stuck_unreported",
            ),
        ]

    def __str__(self) -> str:
        return f"item {self.pk} ({self.key})"

    @property
    def state_name(self) -> ItemState:
        """The state that the number stands for."""
        return list(ItemState)[self.state]


class ItemInput(TenantModel):
    """What one item of a fan-out works on; a single step's input follows from the job and earlier checkpoints."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)
    engine_rights: ClassVar = Rights(insert=True)

    item = TenantForeignKey(WorkItem, db_index=False)
    version = models.SmallIntegerField(default=1)
    value = models.TextField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["item", "version"], name="one_item_input_a_version")
        ]

    def __str__(self) -> str:
        return f"input {self.version} of item {self.item_id}"


class Checkpoint(TenantModel):
    """A succeeded item's saved output: canonical JSON text and its digest. Never changed; a correction is a version."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)
    engine_rights: ClassVar = Rights(insert=True)

    item = TenantForeignKey(WorkItem, db_index=False)
    version = models.SmallIntegerField(default=1)
    output = models.TextField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["item", "version"], name="one_checkpoint_a_version")
        ]

    def __str__(self) -> str:
        return f"checkpoint {self.version} of item {self.item_id}"


class Attempt(TenantModel):
    """One try of one item, written when it ends. Append-only.

    Of one that failed: `trace`, where in the code, without values; `answer`, what the model had said, if the step
    recorded it. `cost` is what is known of it, and `unpriced` the number of calls of which nobody knows the cost.
    `by_route` tells more, as JSON, where there were several routes or tokens of a special kind.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights()
    engine_rights: ClassVar = Rights(insert=True)

    item = TenantForeignKey(WorkItem, db_index=False)
    number = models.SmallIntegerField()
    claim_no = models.IntegerField()
    worker_name = models.CharField(max_length=200)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    outcome = models.CharField(max_length=20, choices=AttemptOutcome.choices)
    error_class = models.CharField(max_length=200, default="", blank=True)
    error_message = models.CharField(max_length=2000, default="", blank=True)
    trace = models.TextField(default="", db_default="", blank=True)
    answer = models.TextField(default="", db_default="", blank=True)
    route = models.CharField(max_length=200, default="", blank=True)
    tokens_in = models.IntegerField(default=0)
    tokens_out = models.IntegerField(default=0)
    cost = models.DecimalField(max_digits=20, decimal_places=10, default=0)
    unpriced = models.IntegerField(default=0, db_default=0)
    by_route = models.TextField(default="", db_default="", blank=True)

    class Meta(TenantModel.Meta):
        indexes: ClassVar = [models.Index(fields=["item", "claim_no"], name="attempt_by_item")]

    def __str__(self) -> str:
        return f"attempt {self.number} of item {self.item_id}: {self.outcome}"

    @property
    def took(self) -> timedelta:
        """From its claim to its end."""
        return self.ended_at - self.started_at
