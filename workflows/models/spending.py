"""What attempts cost, summed up: by job, and by hour. Counted from the attempts by `workflows.costs`, by nobody else."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from access.tenancy import Rights, TenantForeignKey, TenantModel
from workflows.kinds import Fate
from workflows.models.jobs import Job
from workflows.models.work import Stage

_SUMS = ("tokens_in", "tokens_out", "cost", "unpriced")


class Sums(TenantModel):
    """What calls by one route in one hour used. `day` is the tenant's; an hour that two days share has two rows."""

    day = models.DateField()
    hour = models.DateTimeField()
    route = models.CharField(max_length=200)
    tokens_in = models.BigIntegerField()
    tokens_out = models.BigIntegerField()
    cost = models.DecimalField(max_digits=26, decimal_places=10)
    unpriced = models.BigIntegerField()

    class Meta(TenantModel.Meta):
        abstract = True


class JobSpending(Sums):
    """Of one stage of a job. `refused`: under which fate its results are counted in `Spending`.

    `attempts`: how many there were, each counted with its last route.
    """

    engine_rights: ClassVar = Rights(insert=True, update=(*_SUMS, "attempts", "refused"))

    job = TenantForeignKey(Job, db_index=False)
    stage = TenantForeignKey(Stage, db_index=False)
    attempts = models.BigIntegerField()
    gave_result = models.BooleanField()
    refused = models.BooleanField()

    class Meta(Sums.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["job", "stage", "day", "hour", "route", "gave_result"],
                name="one_sum_a_stage_and_hour",
            )
        ]

    def __str__(self) -> str:
        return f"JOB-{self.job_id} {self.hour} {self.route}"


class Spending(Sums):
    """Of all jobs of one workflow."""

    engine_rights: ClassVar = Rights(insert=True, update=_SUMS)

    workflow = models.CharField(max_length=100)
    fate = models.CharField(max_length=10, choices=Fate.choices)

    class Meta(Sums.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "day", "hour", "workflow", "route", "fate"], name="one_sum_an_hour"
            )
        ]

    def __str__(self) -> str:
        return f"{self.workflow} {self.hour} {self.route} {self.fate}"


class SpendingReview(TenantModel):
    """A job began or ceased to be one whose results were refused; written with that, taken away when it is counted."""

    app_rights: ClassVar = Rights(insert=True)
    engine_rights: ClassVar = Rights(delete=True)

    job = TenantForeignKey(Job, db_index=False)

    def __str__(self) -> str:
        return f"JOB-{self.job_id}"


class CostBook(models.Model):
    """How far attempts are counted, and the one currency of every cost here. One row."""

    only_row = models.BooleanField(primary_key=True, default=True)
    counted_up_to = models.BigIntegerField(default=0)
    currency = models.CharField(max_length=3, default="", blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(only_row=True), name="one_cost_book")
        ]

    def __str__(self) -> str:
        return f"counted up to attempt {self.counted_up_to}"
