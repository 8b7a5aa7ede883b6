"""What people wrote down about who approves: one immutable revision of a named policy a row."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.tenancy import Rights, TenantModel
from approvals.ruleset import RuleSet


class Policy(TenantModel):
    """Who may approve what: one immutable revision of a named set of rules. The highest revision is in force.

    A policy is ended by a last revision, which repeats the rules and says why: nothing is asked under the policy from
    then on, until somebody writes another revision.
    """

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True)

    name = models.CharField(max_length=100)
    revision = models.IntegerField()
    rules = models.TextField()
    """Canonical JSON of the RuleSet; the database refuses columns beside it that say something else."""
    waives_approval = models.BooleanField(default=False)
    quorum = models.IntegerField(default=1)
    four_eyes = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)
    end_reason = models.CharField(max_length=1000, default="", db_default="", blank=True)
    """Why the policy is ended by this revision; empty where the revision says what holds."""

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name", "revision"], name="one_policy_a_revision"),
            models.CheckConstraint(condition=Q(quorum__gte=1), name="a_quorum_is_at_least_one"),
        ]

    def __str__(self) -> str:
        return f"{self.name} revision {self.revision}"

    @property
    def ruleset(self) -> RuleSet:
        """What it says, as a value."""
        return read_rules(self.rules)


@lru_cache(maxsize=256)
def read_rules(text: str) -> RuleSet:
    """A stored rule set; the same text is read once a process."""
    return RuleSet.model_validate_json(text)
