"""RECEIVED … PROPOSED: jobs, their journal, and the work that their steps are.

The hot table is `WorkItem`: narrow, updated at claim and at completion. What it works on and what comes out of it is
insert-only: `ItemInput`, `Checkpoint`, `Attempt`. The lease is on the worker's row, so a renewal is one update.
A job's `state`, `version` and `head` are written by the journal's trigger function alone (`journal_sql.py`).
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from workflows.states import OPEN_ITEM_STATES, ItemState

READY, BACKING_OFF, RUNNING = ItemState.READY.number, ItemState.BACKING_OFF.number, ItemState.RUNNING.number
OPEN_NUMBERS = [s.number for s in OPEN_ITEM_STATES]
STUCK_NUMBERS = [ItemState.EXHAUSTED.number, ItemState.REFUSED.number]


class Job(TenantModel):
    """One accepted submission of a workflow."""

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "held_at",
            "held_by",
            "hold_reason",
            "cancel_requested_at",
            "cancel_requested_by",
            "cancel_reason",
            "ended_at",
        ),
    )
    engine_rights: ClassVar = Rights(update=("ended_at",))  # so that it may lock a job's row

    workflow = models.CharField(max_length=100)
    revision = models.CharField(max_length=50)
    configuration_digest = models.CharField(max_length=64)
    title = models.CharField(max_length=300)
    reference = models.CharField(max_length=200, default="", blank=True)
    submission_key = models.CharField(max_length=200)
    input = models.TextField()
    input_digest = models.CharField(max_length=64)
    submitted_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    source = models.CharField(max_length=40, default="console")
    created_at = models.DateTimeField()

    state = models.CharField(max_length=30, default="")
    version = models.BigIntegerField(default=0)
    head = models.BinaryField(default=b"")

    held_at = models.DateTimeField(null=True, blank=True)
    held_by = models.CharField(max_length=200, default="", blank=True)
    hold_reason = models.CharField(max_length=1000, default="", blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_by = models.CharField(max_length=200, default="", blank=True)
    cancel_reason = models.CharField(max_length=1000, default="", blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "workflow", "submission_key"], name="one_job_a_submission_key"
            ),
            models.UniqueConstraint(
                fields=["tenant", "workflow", "reference"],
                condition=~Q(reference=""),
                name="one_job_a_reference",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "state", "-id"], name="job_by_state"),
            models.Index(fields=["tenant", "-id"], name="job_by_age"),
        ]

    def __str__(self) -> str:
        return f"JOB-{self.pk}"

    @property
    def label(self) -> str:
        """How people name it."""
        return f"JOB-{self.pk}"


class JournalEntry(TenantModel):
    """One line of a job's append-only history. Written by `journal.record`, numbered and chained by the database."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(
        insert=True,
        insert_columns=(
            "tenant_id",
            "job_id",
            "sequence",
            "event",
            "from_state",
            "to_state",
            "actor_kind",
            "actor_id",
            "actor_name",
            "evidence",
        ),
    )

    job = TenantForeignKey(Job, db_index=False)
    sequence = models.BigIntegerField()
    event = models.CharField(max_length=60)
    from_state = models.CharField(max_length=30, default="", blank=True)
    to_state = models.CharField(max_length=30, default="", blank=True)
    actor_kind = models.CharField(max_length=20)
    actor_id = models.BigIntegerField(default=0)
    actor_name = models.CharField(max_length=200)
    evidence = models.TextField(default="{}")
    at = models.DateTimeField()
    previous = models.BinaryField()
    hash = models.BinaryField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "sequence"], name="one_journal_entry_a_sequence")
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "event", "id"], name="journal_by_event"),
            models.Index(fields=["tenant", "actor_id", "id"], name="journal_by_actor"),
        ]

    def __str__(self) -> str:
        return f"JOB-{self.job_id}/{self.sequence} {self.event}"


class Worker(models.Model):
    """One engine in one worker process. Serves every tenant, so it has none."""

    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200)
    pid = models.IntegerField()
    slots = models.IntegerField()
    started_at = models.DateTimeField()
    server_started_at = models.DateTimeField()
    lease_until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_why = models.CharField(max_length=60, default="", blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["id"], condition=Q(ended_at__isnull=True), name="worker_live"),
        ]

    def __str__(self) -> str:
        return self.name


class Lane(TenantModel):
    """What fairness is shared between: a tenant, and later a limit of it."""

    app_rights: ClassVar = Rights(insert=True)
    engine_rights: ClassVar = Rights(insert=True)

    name = models.CharField(max_length=100, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["tenant", "name"], name="one_lane_a_name")]

    def __str__(self) -> str:
        return f"{self.tenant_id}:{self.name}"


class StageKind(models.TextChoices):
    """What a stage's items are run by."""

    VALIDATE = "validate"
    STEP = "step"
    EACH = "each"
    PROPOSE = "propose"
    MACHINE = "machine"


class Stage(TenantModel):
    """One step of one job, opened once. `closed_at` is set when its need is met and the next was opened."""

    app_rights: ClassVar = Rights(insert=True, update=("closed_at", "digest", "total"))
    engine_rights: ClassVar = Rights(insert=True, update=("closed_at", "digest", "total"))

    job = TenantForeignKey(Job, db_index=False)
    name = models.CharField(max_length=100)
    ordinal = models.IntegerField()
    kind = models.CharField(max_length=10, choices=StageKind.choices)
    total = models.IntegerField(default=0)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)
    digest = models.CharField(max_length=64, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["job", "name"], name="one_stage_a_name")]

    def __str__(self) -> str:
        return f"JOB-{self.job_id} {self.name}"


class WorkItem(TenantModel):
    """One independently retryable unit, unique by job, stage and key.

    `claim_no` is the claim's token: raised at each claim, never reset. `attempts` is counted at claim, so that a
    worker's death counts. On a RUNNING machine item, `next_attempt_at` says that somebody rang meanwhile. While its
    job is held, an item's `lane_id` is negative: no claim looks there.
    """

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "state",
            "attempts",
            "attempts_limit",
            "lane_id",
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
            "claim_no",
            "next_attempt_at",
            "worker_id",
            "started_at",
            "finished_at",
            "rank",
            "reported_at",
        ),
    )

    job = TenantForeignKey(Job, db_index=False)
    stage = TenantForeignKey(Stage, db_index=False)
    key = models.CharField(max_length=200)
    ordinal = models.IntegerField(default=0)
    lane_id = models.BigIntegerField()
    rank = models.BigIntegerField(default=0)
    state = models.SmallIntegerField(default=READY)
    attempts = models.SmallIntegerField(default=0)
    attempts_limit = models.SmallIntegerField(default=5)
    claim_no = models.IntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    worker_id = models.BigIntegerField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    reported_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "stage", "key"], name="one_item_a_key"),
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
            models.Index(fields=["lane_id", "rank", "id"], condition=Q(state=READY), name="item_ready"),
            models.Index(fields=["next_attempt_at"], condition=Q(state=BACKING_OFF), name="item_backing_off"),
            models.Index(fields=["worker_id"], condition=Q(state=RUNNING), name="item_running"),
            models.Index(fields=["job", "stage"], condition=Q(state__in=OPEN_NUMBERS), name="item_open"),
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


class AttemptOutcome(models.TextChoices):
    """How one attempt ended."""

    SUCCEEDED = "succeeded"  # its result was accepted
    WAITING = "waiting"  # a machine item that has nothing to do until it is rung or its time comes
    RETRYABLE = "retryable"  # failed; may be tried again
    PERMANENT = "permanent"  # failed; trying again cannot help
    WORKER_DIED = "worker died"  # its worker's session ended; written by whoever took the item over
    LEASE_LOST = "lease lost"  # its worker's lease ran out; likewise
    RELEASED = "released"  # given back unrun or unfinished when its worker stopped
    STALE = "stale"  # answered after it had lost its claim: recorded, discarded


class Attempt(TenantModel):
    """One try of one item, written when it ends. Append-only."""

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
    route = models.CharField(max_length=200, default="", blank=True)
    tokens_in = models.IntegerField(default=0)
    tokens_out = models.IntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=0)

    class Meta(TenantModel.Meta):
        indexes: ClassVar = [models.Index(fields=["item", "claim_no"], name="attempt_by_item")]

    def __str__(self) -> str:
        return f"attempt {self.number} of item {self.item_id}: {self.outcome}"
