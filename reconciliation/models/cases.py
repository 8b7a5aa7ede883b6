"""Every thing that needs a person: cases, what is known about them, and how they were resolved."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce, Length

from access.models import Person
from access.roles import Role
from access.tenancy import Rights, TenantForeignKey, TenantModel
from dispatch.models import Operation, Receiver
from outbox.models import Message
from reconciliation.models.incidents import Incident
from statements.models import Statement
from workflows.models import Job, WorkItem
from workflows.models.files import HexDigest


class CaseKind(models.TextChoices):
    """Why a person is needed."""

    UNKNOWN_OUTCOME = "unknown outcome"
    CONFLICTED = "conflicted"
    PARTIAL = "partial"
    POSSIBLE_DUPLICATE = "possible duplicate"
    CONFIRMATION_OVERDUE = "confirmation overdue"
    RETRY_EXHAUSTED = "retry exhausted"
    PERMANENT_ERROR = "permanent error"
    REVISION_MISSING = "revision missing"
    DEADLINE_PASSED = "deadline passed"
    PROPOSAL_EXPIRED = "proposal expired"
    CHANGES_REQUESTED = "changes requested"
    FACT_CHANGED = "fact changed"
    NO_APPROVER = "no approver"
    SEND_BLOCKED = "send blocked"
    CANCELLED_WITH_EFFECT = "cancelled with effect"
    CONTRADICTED = "contradicted"
    KEY_MISMATCH = "key mismatch"
    NOT_UNDONE = "not undone"
    SENT_DIFFERS = "sent differs"
    UNDELIVERABLE = "undeliverable event"
    UNCLAIMED = "unclaimed statement lines"
    RESTORED = "restored from backup"
    BUDGET_PASSED = "budget passed"


class Case(TenantModel):
    """One open question with an owner and a due time. Owned by a role always, and by a person once assigned."""

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "assignee_id",
            "due_at",
            "incident_id",
            "snoozed_until",
            "version",
            "resolved_at",
            "resolution",
            "resolved_by_id",
            "second_person_id",
            "resolution_reason",
        ),
    )
    engine_rights: ClassVar = Rights()

    kind = models.CharField(max_length=30, choices=CaseKind.choices)
    job = TenantForeignKey(Job, null=True, blank=True)
    """None of exactly one kind: unclaimed lines are a question of their statement."""

    statement = TenantForeignKey(Statement, null=True, blank=True, db_index=False)
    operation = TenantForeignKey(Operation, null=True, blank=True)
    item = TenantForeignKey(WorkItem, null=True, blank=True)
    message = TenantForeignKey(Message, null=True, blank=True)
    receiver = TenantForeignKey(Receiver, null=True, blank=True, db_index=False)
    incident = TenantForeignKey(Incident, null=True, blank=True, db_index=False)
    """The storm that it belongs to. Nothing is decided by it, so it changes without the job's lock."""

    fault = models.CharField(max_length=80, default="", db_default="", blank=True)
    """What went wrong, without what is particular to this one: "sent, no answer in time"."""

    title = models.CharField(max_length=300)
    detail = models.TextField(default="", blank=True)
    owner_role = models.CharField(max_length=20, default=Role.OPERATOR.value)
    assignee = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    blocking = models.BooleanField(default=True)
    opened_at = models.DateTimeField()
    due_at = models.DateTimeField()
    snoozed_until = models.DateTimeField(null=True, blank=True)
    version = models.IntegerField(default=0)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolution = models.CharField(max_length=60, default="", blank=True)
    resolution_reason = models.TextField(default="", blank=True)
    resolved_by = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    second_person = models.ForeignKey(
        Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                "kind",
                "job",
                Coalesce("operation", 0),
                Coalesce("item", 0),
                condition=Q(resolved_at__isnull=True),
                name="one_open_case_a_question",
            ),
            models.UniqueConstraint(
                fields=["statement"], condition=Q(resolved_at__isnull=True), name="one_open_case_a_statement"
            ),
            models.CheckConstraint(
                condition=Q(
                    kind="unclaimed statement lines",
                    statement__isnull=False,
                    receiver__isnull=False,
                    job__isnull=True,
                    operation__isnull=True,
                    item__isnull=True,
                    message__isnull=True,
                    blocking=False,
                )
                | (~Q(kind="unclaimed statement lines") & Q(job__isnull=False, statement__isnull=True)),
                name="a_case_is_of_a_job_or_of_a_statement",
            ),
            models.CheckConstraint(
                condition=Q(second_person__isnull=True) | ~Q(second_person=F("resolved_by")),
                name="a_second_person_is_another",
            ),
            models.CheckConstraint(
                condition=Q(resolved_at__isnull=True, resolution="")
                | (Q(resolved_at__isnull=False) & ~Q(resolution="")),
                name="a_resolved_case_says_how",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["tenant", "due_at", "id"], condition=Q(resolved_at__isnull=True), name="case_open"
            ),
            models.Index(fields=["job"], condition=Q(resolved_at__isnull=True), name="case_open_of_job"),
            models.Index(
                fields=["statement", "id"], condition=Q(statement__isnull=False), name="case_of_statement"
            ),
            models.Index(fields=["incident"], condition=Q(incident__isnull=False), name="case_of_incident"),
            # What has just come and could be a storm.
            models.Index(
                fields=["opened_at"],
                condition=Q(resolved_at__isnull=True, incident__isnull=True, receiver__isnull=False),
                name="case_ungrouped",
            ),
            # Every send asks for them: mostly there is none.
            models.Index(
                fields=["tenant", "receiver"],
                condition=Q(kind="key mismatch", resolved_at__isnull=True),
                name="case_key_mismatch",
            ),
            # Looked for every few seconds: there are as many as limits whose day's budget is used up.
            models.Index(
                fields=["item"],
                condition=Q(kind="budget passed", resolved_at__isnull=True),
                name="case_budget_passed",
            ),
            # The queue's counts are read from it alone: 20,000 rows without a look at the table.
            models.Index(
                fields=["tenant", "kind"],
                include=["due_at", "opened_at", "snoozed_until", "assignee", "incident"],
                condition=Q(resolved_at__isnull=True),
                name="case_counted",
            ),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """How people name it."""
        return f"RC-{self.pk:04d}"


class EvidenceKind(models.TextChoices):
    """What a piece of evidence is."""

    OBSERVED = "observed"  # what the machine told when the case opened, or again while it was open
    COMMENT = "comment"  # what a person thinks about it: proves nothing
    STATEMENT = "statement"  # what a receiver or a bank has written, entered by a person
    RECEIPT = "receipt"  # a receipt that a person entered, compared with what was approved


class EvidenceFile(TenantModel):
    """A document that was put to a case, once a tenant by the digest of its bytes. As long as there are cases it stays."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    digest = models.CharField(max_length=64)
    kind = models.CharField(max_length=10)
    size = models.IntegerField()
    content = models.BinaryField()
    kept_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "digest"], name="one_evidence_file_a_digest"),
            models.CheckConstraint(
                condition=Q(digest=HexDigest(F("content"))), name="an_evidence_files_digest_is_of_its_bytes"
            ),
            models.CheckConstraint(
                condition=Q(size=Length("content")) & Q(size__gt=0),
                name="an_evidence_files_size_is_of_its_bytes",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["pdf", "png", "jpeg", "docx", "text"]),
                name="an_evidence_file_is_of_a_known_kind",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.digest[:8]}"


class Evidence(TenantModel):
    """Something put to a case: by the machine or by a person. Append-only.

    `taken_at` is when it was found, as whoever put it there says; `kept_at` when it was put there. `given_digest` is of
    its file as it came; `file` holds it without secrets.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    case = TenantForeignKey(Case)
    kind = models.CharField(max_length=20, choices=EvidenceKind.choices, default=EvidenceKind.OBSERVED)
    person = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    summary = models.CharField(max_length=500)
    detail = models.TextField(default="", blank=True)
    source = models.CharField(max_length=200)
    proves = models.CharField(max_length=60, default="nothing")
    taken_at = models.DateTimeField()
    kept_at = models.DateTimeField(null=True, blank=True)
    file = TenantForeignKey(EvidenceFile, null=True, blank=True, db_index=False)
    file_name = models.CharField(max_length=200, default="", db_default="", blank=True)
    given_digest = models.CharField(max_length=64, default="", db_default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(file__isnull=True, file_name="", given_digest="")
                | (Q(file__isnull=False) & ~Q(file_name="") & ~Q(given_digest="")),
                name="an_evidence_that_has_a_file_names_it",
            )
        ]

    def __str__(self) -> str:
        return self.summary


class ResolutionRequest(TenantModel):
    """A resolution that needs a second person: asked for by one, seconded or declined by another.

    `outcome` is "seconded", "declined" or, where the case was resolved otherwise meanwhile, "overtaken".
    """

    app_rights: ClassVar = Rights(insert=True, update=("closed_at", "closed_by_id", "outcome"))

    case = TenantForeignKey(Case)
    verb = models.CharField(max_length=40)
    reason = models.TextField()
    details = models.JSONField(default=dict)
    asked_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    closed_by = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    closed_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=20, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["case"], condition=Q(closed_at__isnull=True), name="one_open_request_a_case"
            ),
            models.CheckConstraint(
                condition=~Q(outcome__in=["seconded", "declined"])
                | (Q(closed_by__isnull=False) & ~Q(closed_by=F("asked_by"))),
                name="another_person_seconds_or_declines",
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, outcome="")
                | (Q(closed_at__isnull=False) & ~Q(outcome="")),
                name="a_closed_request_says_how",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verb} of case {self.case_id}"
