"""Who works, and the lanes that the work is shared between."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from access.tenancy import Rights, TenantModel
from workflows.models.revisions import KnownRevision


class Worker(models.Model):
    """One engine in one worker process. Serves every tenant, so it has none. `revisions`: the known ones it can run.

    `swept_at`: when it last looked for what a crash left behind, as of its last renewal.
    """

    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200)
    pid = models.IntegerField()
    slots = models.IntegerField()
    started_at = models.DateTimeField()
    server_started_at = models.DateTimeField()
    lease_until = models.DateTimeField()
    swept_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_why = models.CharField(max_length=60, default="", blank=True)
    revisions = ArrayField(models.BigIntegerField(), default=list, db_default=[], blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["id"], condition=Q(ended_at__isnull=True), name="worker_live"),
        ]

    def __str__(self) -> str:
        return self.name


class Lane(TenantModel):
    """What fairness is shared between: a tenant's work, and its work under each named limit (`name`).

    `revision`: a lane beside those, for work of this revision, from the day that a worker met some and lacked it. Only
    workers that have the revision look there.
    """

    app_rights: ClassVar = Rights(insert=True)
    engine_rights: ClassVar = Rights(insert=True)

    name = models.CharField(max_length=100, default="", blank=True)
    revision = models.ForeignKey(
        KnownRevision, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(revision__isnull=True), name="one_lane_a_name"
            ),
            models.UniqueConstraint(
                fields=["revision", "tenant", "name"],
                condition=Q(revision__isnull=False),
                name="one_lane_a_name_and_revision",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id}:{self.name}"
