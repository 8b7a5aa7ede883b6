"""Jobs and their journal. A job's `state`, `version` and `head` are written by the journal's trigger function alone."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel


class HeldFor(models.TextChoices):
    """What the machine itself holds a job for, and lets it go for by itself."""

    REVISION = "revision"  # until a worker has its revision, or it was migrated


class Job(TenantModel):
    """One accepted submission of a workflow. `held_for` is empty for a hold that only a person lifts; `reruns` counts how
    often steps of it were run again."""

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "held_at",
            "held_by",
            "hold_reason",
            "held_for",
            "cancel_requested_at",
            "cancel_requested_by",
            "cancel_reason",
            "ended_at",
            "reference_free",
            "deadline_at",
            "revision",
            "configuration_digest",
            "reruns",
        ),
    )
    engine_rights: ClassVar = Rights(update=("ended_at",))  # so that it may lock a job's row

    workflow = models.CharField(max_length=100)
    revision = models.CharField(max_length=50)
    configuration_digest = models.CharField(max_length=64)
    title = models.CharField(max_length=300)
    reference = models.CharField(max_length=200, default="", blank=True)
    reference_free = models.BooleanField(default=False, db_default=False)
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
    held_for = models.CharField(max_length=20, choices=HeldFor.choices, default="", db_default="", blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_by = models.CharField(max_length=200, default="", blank=True)
    cancel_reason = models.CharField(max_length=1000, default="", blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True)
    reruns = models.SmallIntegerField(default=0, db_default=0)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "workflow", "submission_key"], name="one_job_a_submission_key"
            ),
            models.UniqueConstraint(
                fields=["tenant", "workflow", "reference"],
                condition=~Q(reference="") & Q(reference_free=False),
                name="one_job_a_reference",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "state", "-id"], name="job_by_state"),
            models.Index(fields=["tenant", "-id"], name="job_by_age"),
            models.Index(
                fields=["workflow", "revision"],
                condition=Q(ended_at__isnull=True),
                name="job_open_by_revision",
            ),
            models.Index(fields=["id"], condition=~Q(held_for=""), name="job_held_by_the_machine"),
        ]

    def __str__(self) -> str:
        return f"JOB-{self.pk}"

    @property
    def label(self) -> str:
        """How people name it."""
        return f"JOB-{self.pk}"


class JobInput(TenantModel):
    """A later version of a job's input, which a migration converted it to; version 1 is the job's own, as submitted."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    job = TenantForeignKey(Job, db_index=False)
    version = models.SmallIntegerField()
    value = models.TextField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "version"], name="one_job_input_a_version")
        ]

    def __str__(self) -> str:
        return f"input {self.version} of JOB-{self.job_id}"


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
