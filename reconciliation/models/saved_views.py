"""Filters of the queue that somebody named."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.models import Person
from access.tenancy import Rights, TenantModel


class SavedView(TenantModel):
    """One person's name for a filter. `shared_at`: since then the whole organisation sees it; only its person changes it."""

    app_rights: ClassVar = Rights(insert=True, update=("name", "shared_at"), delete=True)

    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=60)
    asked = models.JSONField(default=dict)
    made_at = models.DateTimeField()
    shared_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "person", "name"], name="one_view_a_name"),
            models.CheckConstraint(condition=~Q(name=""), name="a_view_has_a_name"),
        ]

    def __str__(self) -> str:
        return self.name
