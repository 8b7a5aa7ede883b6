"""What receivers say they did: statement files, how their columns are read, and the lines that came of them.

A statement is one file of one account at one receiver. Its lines are written while it is read and count for nothing
until it is applied; from then on they stay as they are.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

import statements.matching.models  # noqa: F401 - they are of this app, too
from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from dispatch.models import Receiver

LONGEST_TEXT = 1000
"""Characters of one text of a line; a cell that is longer is an error of its row."""


class Mapping(TenantModel):
    """One version of how a receiver's statement files are read (`terms.Terms` reads it)."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    receiver = TenantForeignKey(Receiver, db_index=False)
    version = models.IntegerField()
    terms = models.JSONField()
    written_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    written_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["receiver", "version"], name="one_mapping_a_version")
        ]

    def __str__(self) -> str:
        return f"mapping {self.version} of receiver {self.receiver_id}"


class StatementState(models.TextChoices):
    """Where a statement stands."""

    UPLOADED = "uploaded"  # its file is kept; a person says how to read it, or discards it
    READING = (
        "reading"  # workers read it, batch after batch; a person may map it anew or discard it meanwhile
    )
    READ = "read"  # every row is a line, a row that is known, or an error; a person applies, maps anew or discards
    APPLIED = "applied"  # its lines count, for good
    DISCARDED = "discarded"  # a person put it away; workers delete what was read of it


class Format(models.TextChoices):
    """What kind of file it is, told from its bytes."""

    CSV = "csv", "CSV"
    CAMT053 = "camt.053", "camt.053"
    MT940 = "mt940", "MT940"


class Statement(TenantModel):
    """One file of an account at a receiver, and how far it has come.

    `position`: bytes that are read and committed. `reading`: counts the readings, so that a turn of an earlier one
    changes nothing. `swept_at`: when everything that an earlier reading has left was deleted; empty while there is
    something. `worked_until`: until then nobody but `worked_by` does a turn of it.
    """

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "state",
            "mapping_id",
            "reading",
            "position",
            "rows",
            "lines",
            "repeated",
            "errors",
            "left_out",
            "currency",
            "opening",
            "closing",
            "first_booked_on",
            "last_booked_on",
            "amount_in",
            "amount_out",
            "worked_by",
            "worked_until",
            "swept_at",
            "read_by_id",
            "read_at",
            "applied_by_id",
            "applied_at",
            "discarded_by_id",
            "discarded_at",
        ),
    )
    engine_rights: ClassVar = Rights()

    receiver = TenantForeignKey(Receiver, db_index=False)
    account = models.CharField(max_length=200, default="", blank=True)
    name = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)
    size = models.BigIntegerField()
    format = models.CharField(max_length=10, choices=Format.choices)
    encoding = models.CharField(max_length=20, default="", blank=True)
    evidence = models.CharField(max_length=500, default="", blank=True)
    """How its bytes become text, and what showed it."""
    uploaded_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    uploaded_at = models.DateTimeField()

    state = models.CharField(max_length=10, choices=StatementState.choices, default=StatementState.UPLOADED)
    mapping = TenantForeignKey(Mapping, null=True, blank=True, db_index=False)
    reading = models.IntegerField(default=0)
    position = models.BigIntegerField(default=0)
    rows = models.IntegerField(default=0)
    lines = models.IntegerField(default=0)
    repeated = models.IntegerField(default=0)
    errors = models.IntegerField(default=0)
    left_out = models.IntegerField(default=0)
    currency = models.CharField(max_length=3, default="", blank=True)
    opening = models.BigIntegerField(null=True, blank=True)
    closing = models.BigIntegerField(null=True, blank=True)
    first_booked_on = models.DateField(null=True, blank=True)
    last_booked_on = models.DateField(null=True, blank=True)
    amount_in = models.BigIntegerField(default=0)
    amount_out = models.BigIntegerField(default=0)
    """In the smallest unit of `currency`, which is empty where lines have several; then these are 0."""
    worked_by = models.CharField(max_length=200, default="", blank=True)
    worked_until = models.DateTimeField(null=True, blank=True)
    swept_at = models.DateTimeField(null=True, blank=True)
    read_by = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    read_at = models.DateTimeField(null=True, blank=True)
    applied_by = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    applied_at = models.DateTimeField(null=True, blank=True)
    discarded_by = models.ForeignKey(
        Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    discarded_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["receiver", "account", "digest"],
                condition=~Q(state="discarded"),
                name="one_statement_a_file",
            ),
            # Until it is applied or swept nobody knows which of its lines will count, so no other can be compared.
            models.UniqueConstraint(
                fields=["receiver", "account"],
                condition=Q(state__in=["reading", "read"]) | Q(state="discarded", swept_at__isnull=True),
                name="one_undecided_statement_an_account",
            ),
            models.CheckConstraint(
                condition=Q(state="applied", applied_at__isnull=False, applied_by__isnull=False)
                | (~Q(state="applied") & Q(applied_at__isnull=True)),
                name="an_applied_statement_says_by_whom",
            ),
            models.CheckConstraint(
                condition=Q(state="discarded", discarded_at__isnull=False, discarded_by__isnull=False)
                | (~Q(state="discarded") & Q(discarded_at__isnull=True)),
                name="a_discarded_statement_says_by_whom",
            ),
            models.CheckConstraint(
                condition=Q(state="applied", errors=0) | ~Q(state="applied"),
                name="no_statement_with_an_error_is_applied",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-id"], name="statement_by_age"),
            models.Index(
                fields=["id"],
                condition=Q(state="reading") | Q(state="discarded", swept_at__isnull=True),
                name="statement_with_work",
            ),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return f"STMT-{self.pk}"


class StatementPart(TenantModel):
    """A piece of a statement's file, as it came. Together they are the file, whose digest the statement has."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    statement = TenantForeignKey(Statement, db_index=False)
    number = models.IntegerField()
    content = models.BinaryField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["statement", "number"], name="one_part_a_number"),
            models.CheckConstraint(condition=Q(number__gte=0), name="parts_are_counted_from_nought"),
        ]

    def __str__(self) -> str:
        return f"part {self.number} of statement {self.statement_id}"


class Direction(models.TextChoices):
    """Which way the money went, seen from the account that the statement is of."""

    IN = "in"
    OUT = "out"


class StatementLine(TenantModel):
    """One line of a statement: what the receiver says it booked. Counts once its statement is applied.

    `amount` is in the smallest unit of its currency and never negative. `fingerprint` and `occurrence` make it the
    same line wherever it comes again: two equal rows of one file are two lines.
    """

    app_rights: ClassVar = Rights(insert=True, delete=True)

    statement = TenantForeignKey(Statement, db_index=False, by_statement=True)
    receiver = TenantForeignKey(Receiver, db_index=False, by_statement=True)
    account = models.CharField(max_length=200, default="", blank=True)
    row_number = models.IntegerField()
    booked_on = models.DateField()
    value_on = models.DateField(null=True, blank=True)
    amount = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    direction = models.CharField(max_length=3, choices=Direction.choices)
    receivers_id = models.CharField(max_length=LONGEST_TEXT, default="", blank=True)
    reference = models.CharField(max_length=LONGEST_TEXT, default="", blank=True)
    text = models.CharField(max_length=LONGEST_TEXT, default="", blank=True)
    counterparty = models.CharField(max_length=LONGEST_TEXT, default="", blank=True)
    counterparty_account = models.CharField(max_length=LONGEST_TEXT, default="", blank=True)
    fingerprint = models.BinaryField()
    occurrence = models.IntegerField()
    raw = models.TextField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["statement", "row_number"], name="one_line_a_row"),
            models.UniqueConstraint(
                fields=["receiver", "account", "fingerprint", "occurrence"], name="one_line_a_fingerprint"
            ),
            models.CheckConstraint(condition=Q(amount__gte=0), name="a_lines_amount_has_no_sign"),
            models.CheckConstraint(condition=Q(direction__in=["in", "out"]), name="a_line_goes_in_or_out"),
        ]

    def __str__(self) -> str:
        return f"line {self.row_number} of statement {self.statement_id}"


class RowError(TenantModel):
    """Why a row of a file is no line: where, what was read, and what to do. Row 0 is the file itself."""

    app_rights: ClassVar = Rights(insert=True, delete=True)

    statement = TenantForeignKey(Statement, db_index=False)
    row_number = models.IntegerField()
    column = models.CharField(max_length=200, default="", blank=True)
    was_read = models.CharField(max_length=500, default="", blank=True)
    problem = models.CharField(max_length=500)

    class Meta(TenantModel.Meta):
        indexes: ClassVar = [models.Index(fields=["statement", "id"], name="row_error_by_age")]

    def __str__(self) -> str:
        return f"row {self.row_number} of statement {self.statement_id}: {self.problem}"


class Verdict(models.TextChoices):
    """Whether a row is a line that an earlier statement has brought."""

    EQUAL = "equal"  # by its fingerprint, so it is not brought again
    ASKED = "asked"  # same day, amount and direction, other words; a person says
    SAME = "same"  # a person said so; its line goes when the statement is applied
    ANOTHER = "another"  # a person said so; both count


class RepeatedRow(TenantModel):
    """A row that is, or may be, a line which an applied statement has. `line` is the one made of it, while there is one."""

    app_rights: ClassVar = Rights(
        insert=True, update=("verdict", "line_id", "decided_by_id", "decided_at"), delete=True
    )

    statement = TenantForeignKey(Statement, db_index=False)
    row_number = models.IntegerField()
    earlier = TenantForeignKey(StatementLine)
    line = TenantForeignKey(StatementLine, null=True, blank=True)
    verdict = models.CharField(max_length=10, choices=Verdict.choices)
    decided_by = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["statement", "row_number"], name="one_repeat_a_row"),
            models.UniqueConstraint(fields=["statement", "earlier"], name="one_repeat_an_earlier_line"),
            models.CheckConstraint(
                condition=Q(verdict__in=["equal", "asked"], decided_at__isnull=True)
                | Q(verdict__in=["same", "another"], decided_at__isnull=False, decided_by__isnull=False),
                name="a_verdict_of_a_person_says_whose",
            ),
        ]

    def __str__(self) -> str:
        return f"row {self.row_number} of statement {self.statement_id}: {self.verdict}"
