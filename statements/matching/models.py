"""Which line is which operation: what a receiver's operator has set, runs of the ladder, matches, and what lines say.

A match is a row that nobody changes; unmatching is another row, by which the first one ends.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from dispatch.models import Operation, Receiver


class MatchingSettings(TenantModel):
    """One version of how far the ladder may go for a receiver (`settings.Settings` reads it)."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    receiver = TenantForeignKey(Receiver, db_index=False)
    version = models.IntegerField()
    terms = models.JSONField()
    written_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    written_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        app_label = "statements"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["receiver", "version"], name="one_matching_settings_a_version")
        ]

    def __str__(self) -> str:
        return f"matching settings {self.version} of receiver {self.receiver_id}"


class MatchRun(TenantModel):
    """One walk of the ladder over the lines that nobody has claimed: of one statement, or of all of a receiver.

    `rung`, `at_statement` and `at_row` are how far it has come, committed with what was taken there, so that whoever
    goes on repeats nothing. `worked_until`: until then nobody but `worked_by` does a turn of it.
    """

    app_rights: ClassVar = Rights(
        insert=True,
        update=(
            "rung",
            "at_statement",
            "at_row",
            "looked_at",
            "taken",
            "differing",
            "worked_by",
            "worked_until",
            "ended_at",
        ),
    )
    engine_rights: ClassVar = Rights()
    ended_by: ClassVar = "ended_at"

    receiver = TenantForeignKey(Receiver, db_index=False)
    statement = TenantForeignKey("statements.Statement", null=True, blank=True, db_index=False)
    settings_version = models.IntegerField(default=0)
    terms = models.JSONField(default=dict)
    asked_by = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    to_look_at = models.IntegerField(default=0)
    rung = models.SmallIntegerField(default=0)
    at_statement = models.BigIntegerField(default=0)
    at_row = models.IntegerField(default=0)
    looked_at = models.BigIntegerField(default=0)
    taken = models.IntegerField(default=0)
    differing = models.IntegerField(default=0)
    worked_by = models.CharField(max_length=200, default="", blank=True)
    worked_until = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        app_label = "statements"
        constraints: ClassVar = [
            models.UniqueConstraint(
                "receiver",
                Coalesce("statement", 0),
                condition=Q(ended_at__isnull=True),
                name="one_match_run_at_a_time",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["receiver", "-id"], name="match_run_by_age")]

    def __str__(self) -> str:
        return f"match run {self.pk}"


class DifferenceKind(models.TextChoices):
    """What it is by which lines and operations are apart that two people match."""

    FEE = "fee"  # what the receiver or a bank has taken for itself
    ROUNDING = "rounding"  # the smallest units, lost or won
    DISCOUNT = "discount"  # what was agreed to be taken off
    EXCHANGE = "exchange rate"  # it was turned into another currency on the way
    OTHER = "other"  # said in the reason


class Match(TenantModel):
    """One line is one operation, or a part of it: by which rung, by which comparison, and who said so.

    `together` names a set that was made at once: lines for operations, of which either may be several. `line_place`
    and `operation_place` count what a line and an operation have in it. The first is 0, and while a match is not unmade no
    other may have the same: so a line, and an operation, have one match or one set.

    `apart` is what was booked less what was approved, of a set on its first row; `apart_as` says what that is. `partial`:
    the line is a part of an operation whose other lines come one after the other, into the same set. Each is ended alone.
    """

    app_rights: ClassVar = Rights(insert=True)
    ended_by: ClassVar = "unmade_at"

    line = TenantForeignKey("statements.StatementLine", db_index=False, by_statement=True)
    operation = TenantForeignKey(Operation, db_index=False, by_statement=True)
    line_place = models.SmallIntegerField(default=0)
    operation_place = models.SmallIntegerField(default=0)
    together = models.CharField(max_length=32, default="", blank=True)
    allocated = models.BigIntegerField()
    tier = models.SmallIntegerField()
    rule_version = models.SmallIntegerField()
    settings_version = models.IntegerField(default=0)
    compared = models.TextField(default="[]")
    """JSON: [field, what the line says, what was approved], for each field that counted."""

    within_tolerance = models.BooleanField(default=False)
    partial = models.BooleanField(default=False, db_default=False)
    apart = models.BigIntegerField(default=0, db_default=0)
    apart_as = models.CharField(
        max_length=20, choices=DifferenceKind.choices, default="", db_default="", blank=True
    )
    """Empty where nothing is apart, and of differences that were accepted before they were named."""

    reason = models.TextField(default="", blank=True)
    made_by = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    second = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    made_at = models.DateTimeField()
    unmade_at = models.DateTimeField(null=True, blank=True)
    """Set by the database when an `Unmatch` comes, and by nothing else."""

    class Meta(TenantModel.Meta):
        app_label = "statements"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["line", "line_place"], condition=Q(unmade_at__isnull=True), name="one_match_a_line"
            ),
            models.UniqueConstraint(
                fields=["operation", "operation_place"],
                condition=Q(unmade_at__isnull=True),
                name="one_match_an_operation",
            ),
            models.CheckConstraint(
                condition=~Q(together="") | Q(line_place=0, operation_place=0),
                name="only_a_set_has_second_places",
            ),
            models.CheckConstraint(condition=Q(allocated__gte=0), name="what_is_allocated_has_no_sign"),
            models.CheckConstraint(
                condition=Q(within_tolerance=False)
                | (Q(made_by__isnull=False, second__isnull=False) & ~Q(second=F("made_by"))),
                name="a_tolerance_needs_two_people",
            ),
            models.CheckConstraint(
                condition=Q(partial=False)
                | (Q(within_tolerance=False, line_place=0, made_by__isnull=False) & ~Q(together="")),
                name="a_part_is_a_persons_word_and_exact",
            ),
            models.CheckConstraint(
                condition=Q(apart=0, apart_as="")
                | (Q(within_tolerance=True, apart_as__in=[k.value for k in DifferenceKind]) & ~Q(reason="")),
                name="a_difference_says_what_it_is_and_why",
            ),
            models.CheckConstraint(
                condition=Q(made_by__isnull=False) | Q(tier__lte=2), name="the_machine_takes_three_tiers"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["together"], condition=~Q(together=""), name="match_together")
        ]

    def __str__(self) -> str:
        return f"match {self.pk}: line {self.line_id}, operation {self.operation_id}"


class Unmatch(TenantModel):
    """A person took a match back, with the whole set that it was made in."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    match = TenantForeignKey(Match, db_index=False)
    reason = models.TextField()
    unmade_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    unmade_at = models.DateTimeField()

    class Meta(TenantModel.Meta):
        app_label = "statements"
        constraints: ClassVar = [models.UniqueConstraint(fields=["match"], name="a_match_is_unmade_once")]

    def __str__(self) -> str:
        return f"unmatch of match {self.match_id}"


class Tally(TenantModel):
    """How many lines of an applied statement have a match, what they come to, and how many are set aside: counted by the
    database with each of both. `stale`: since whoever answers for what is left has looked, something was counted.
    """

    app_rights: ClassVar = Rights(update=("stale",))
    engine_rights: ClassVar = Rights()

    statement = TenantForeignKey("statements.Statement", db_index=False)
    lines = models.IntegerField(default=0)
    amount = models.BigIntegerField(default=0)
    aside = models.IntegerField(default=0, db_default=0)
    stale = models.BooleanField(default=True, db_default=True)

    class Meta(TenantModel.Meta):
        app_label = "statements"
        constraints: ClassVar = [models.UniqueConstraint(fields=["statement"], name="one_tally_a_statement")]
        indexes: ClassVar = [
            models.Index(fields=["statement"], condition=Q(stale=True), name="tally_to_look_after")
        ]

    def __str__(self) -> str:
        return f"{self.lines} matched lines of statement {self.statement_id}"


class AsideKind(models.TextChoices):
    """Why a line is nobody's operation."""

    NOT_OURS = "not ours"  # somebody else's business on the same account
    FEE = "bank fee"  # what the receiver takes for itself
    MADE_OUTSIDE = "made outside Counterfoil"  # ours, and sent by other means
    OTHER = "other"  # said in words


class SetAside(TenantModel):
    """A person said that a line is no operation, and why. `together`: the set that it was said of at once.

    Until it is taken back the line has no match, and no other one stands for it.
    """

    app_rights: ClassVar = Rights(insert=True, update=("taken_back_at", "taken_back_by_id", "reason"))
    ended_by: ClassVar = "taken_back_at"

    line = TenantForeignKey("statements.StatementLine", db_index=False)
    statement = TenantForeignKey("statements.Statement", db_index=False)
    kind = models.CharField(max_length=30, choices=AsideKind.choices)
    words = models.TextField(default="", blank=True)
    together = models.CharField(max_length=32)
    made_by = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    second = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    made_at = models.DateTimeField()
    taken_back_at = models.DateTimeField(null=True, blank=True)
    taken_back_by = models.ForeignKey(
        Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    reason = models.TextField(default="", blank=True)
    """Why it was taken back."""

    class Meta(TenantModel.Meta):
        app_label = "statements"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["line"], condition=Q(taken_back_at__isnull=True), name="one_setting_aside_a_line"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=[k.value for k in AsideKind]) & (~Q(kind="other") | ~Q(words="")),
                name="what_is_set_aside_says_why",
            ),
            models.CheckConstraint(
                condition=Q(second__isnull=True) | ~Q(second=F("made_by")),
                name="a_second_at_a_line_is_another",
            ),
            models.CheckConstraint(
                condition=Q(taken_back_at__isnull=True, taken_back_by__isnull=True, reason="")
                | (Q(taken_back_at__isnull=False, taken_back_by__isnull=False) & ~Q(reason="")),
                name="what_is_taken_back_says_why",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["statement", "id"], condition=Q(taken_back_at__isnull=True), name="aside_of_statement"
            )
        ]

    def __str__(self) -> str:
        return f"line {self.line_id}: {self.kind}"


class Says(models.TextChoices):
    """What a line says about an operation."""

    APPLIED = "applied"  # as it was approved; it has a match
    DIFFERS = "differs"  # it names the operation by a key or an id, and is not what was approved


class Finding(TenantModel):
    """What a line says about an operation that is not confirmed yet, to be taken into the operation by a worker.

    `effect` is what came of it, once `taken_at` is set.
    """

    app_rights: ClassVar = Rights(insert=True, update=("taken_at", "effect"))
    engine_rights: ClassVar = Rights()
    ended_by: ClassVar = "taken_at"

    line = TenantForeignKey("statements.StatementLine", db_index=False)
    operation = TenantForeignKey(Operation, db_index=False)
    match = TenantForeignKey(Match, null=True, blank=True, db_index=False)
    says = models.CharField(max_length=10, choices=Says.choices)
    compared = models.TextField(default="[]")
    found_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True, blank=True)
    effect = models.CharField(max_length=20, default="", blank=True)

    class Meta(TenantModel.Meta):
        app_label = "statements"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["match"], condition=Q(match__isnull=False), name="one_finding_a_match"
            ),
            models.UniqueConstraint(
                fields=["line", "operation"], condition=Q(says="differs"), name="one_difference_a_line"
            ),
            models.CheckConstraint(
                condition=Q(says="applied", match__isnull=False) | Q(says="differs", match__isnull=True),
                name="what_differs_is_no_match",
            ),
            models.CheckConstraint(
                condition=Q(taken_at__isnull=True, effect="") | (Q(taken_at__isnull=False) & ~Q(effect="")),
                name="a_finding_that_is_taken_says_what_came_of_it",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["id"], condition=Q(taken_at__isnull=True), name="finding_to_be_taken"),
            models.Index(fields=["operation"], name="finding_by_operation"),
        ]

    def __str__(self) -> str:
        return f"line {self.line_id} says {self.says} of operation {self.operation_id}"
