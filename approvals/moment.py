"""What all rows of a list are judged by, read once for one page and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from zoneinfo import ZoneInfo

from access.directory import Directory, directory
from access.models import Tenant
from access.tenancy import require_scope
from approvals.facts import current_rules, facts_for
from approvals.hints import policies_of_what_waits
from approvals.models import Policy, Proposal
from approvals.rules import Facts
from approvals.ruleset import RuleSet


class Moment:
    """Each part is read when it is first asked for, and kept.

    `ahead`: proposals that will be asked about later, so that their facts are read together with the first ones.
    """

    def __init__(self) -> None:
        self.ahead: list[Proposal] | None = None
        self._facts: dict[int, Facts] = {}

    @cached_property
    def people(self) -> Directory:
        return directory()

    @cached_property
    def policies(self) -> list[Policy]:
        """The revisions that something waits under."""
        return policies_of_what_waits()

    @cached_property
    def current(self) -> dict[str, RuleSet]:
        """What is in force under their names."""
        return current_rules({policy.name for policy in self.policies})

    @cached_property
    def zone(self) -> ZoneInfo:
        """The tenant's."""
        return ZoneInfo(Tenant.objects.values_list("time_zone", flat=True).get(pk=require_scope()))

    def midnight(self, now: datetime) -> datetime:
        """The last one where the tenant is."""
        return now.astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0)

    def facts(self, proposals: Sequence[Proposal]) -> dict[int, Facts]:
        """The facts about these, and by the way about those ahead. A number of queries that does not depend on theirs."""
        asked = [*proposals, *(self.ahead or ())]
        unread = list({p.pk: p for p in asked if p.pk not in self._facts}.values())
        if unread:
            self._facts |= facts_for(unread, people=self.people, current=self.current)
        return self._facts
