"""Named limits across hosts: how much of something may run or be used. Checked when work is claimed.

A step names a limit (`step(limit="model-a")`); its items then stand in a lane of their own. A limit of a tenant and a
shared one of the same name both hold. Rates are kept as the time at which the allowance is whole again (GCRA).
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.tenancy import Rights, TenantModel

_TERMS = (
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "cost_per_day",
    "changed_at",
    "changed_by",
)
_USE = (
    "requests_due",
    "tokens_due",
    "day",
    "spent",
    "average_tokens",
    "average_cost",
    "closed_until",
    "closed_why",
)


def _allows_something(name: str) -> models.CheckConstraint:
    bounds = ("concurrency", "requests_per_minute", "tokens_per_minute")
    condition = Q(cost_per_day__isnull=True) | Q(cost_per_day__gte=0)
    for bound in bounds:
        condition &= Q(**{f"{bound}__isnull": True}) | Q(**{f"{bound}__gt": 0})
    return models.CheckConstraint(condition=condition, name=name)


class LimitTerms(models.Model):
    """What is allowed, where it says so, and what has been used. Money in the installation's cost currency."""

    name = models.CharField(max_length=100)
    concurrency = models.PositiveIntegerField(null=True, blank=True)
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_minute = models.PositiveIntegerField(null=True, blank=True)
    cost_per_day = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True)
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=200)

    requests_due = models.DateTimeField(null=True, blank=True)
    tokens_due = models.DateTimeField(null=True, blank=True)
    day = models.DateField(null=True, blank=True)
    spent = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    average_tokens = models.FloatField(default=0)
    average_cost = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    closed_until = models.DateTimeField(null=True, blank=True)
    closed_why = models.CharField(max_length=200, default="", blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Limit(LimitTerms, TenantModel):
    """A limit of one tenant."""

    app_rights: ClassVar = Rights(insert=True, update=(*_TERMS, *_USE), delete=True)
    engine_rights: ClassVar = Rights(update=_USE)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="one_limit_a_name"),
            _allows_something("a_limit_allows_something"),
        ]


class SharedLimit(LimitTerms):
    """A limit of the whole installation, such as its account at a provider. Says nothing of any tenant."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name"], name="one_shared_limit_a_name"),
            _allows_something("a_shared_limit_allows_something"),
        ]
