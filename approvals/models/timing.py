"""When open proposals are looked at again, because other people may be able to complete them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from access.tenancy import Rights, TenantModel


class LookAgain(TenantModel):
    """A moment from which on a tenant's open proposals may have other approvers than before. See `looking.py`.

    Written by triggers wherever people, what they lent, absences or policies change. `policy` empty: all of them.
    `horizon`: every transaction before it may have read the world before the change; they have to end first.
    `after`: the proposal that was looked at last. `missed`: one was locked, so all are looked at once more.
    """

    app_rights: ClassVar = Rights(
        insert=True, update=("at", "horizon", "after", "missed", "worked_by", "worked_until"), delete=True
    )
    engine_rights: ClassVar = Rights()

    at = models.DateTimeField()
    policy = models.CharField(max_length=100, default="", db_default="", blank=True)
    horizon = models.BigIntegerField(null=True, blank=True)
    after = models.BigIntegerField(default=0, db_default=0)
    missed = models.BooleanField(default=False, db_default=False)
    worked_by = models.CharField(max_length=200, default="", db_default="", blank=True)
    worked_until = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        indexes: ClassVar = [models.Index(fields=["at", "tenant", "id"], name="look_again_when")]

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} at {self.at}"
