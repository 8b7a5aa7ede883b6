"""How approvals went, by policy: how long people took, and how often they said no. Needs a tenant's scope."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from access.tenancy import require_scope
from approvals.models import Closing


@dataclass(frozen=True, slots=True)
class Figures:
    """One policy's proposals of a time. A proposal counts once, as what happened to it; `waived` asked nobody.

    `middle` and `slow`: from frozen to decided (approved, rejected or sent back), median and 90th percentile.
    """

    policy: str
    asked: int
    approved: int
    waived: int
    rejected: int
    changes: int
    expired: int
    taken_back: int
    waiting: int
    middle: timedelta | None
    slow: timedelta | None

    def share(self, number: int) -> int:
        """Per cent of what was asked, rounded down."""
        return number * 100 // self.asked if self.asked else 0

    @property
    def refused_share(self) -> int:
        """Per cent that people said no to, changes included."""
        return self.share(self.rejected + self.changes)


def by_policy(*, since: datetime, until: datetime) -> list[Figures]:
    """Every policy with a proposal that was frozen in a time, by name. One statement, whatever there is."""
    with connection.cursor() as cursor:
        cursor.execute(
            _BY_POLICY,
            {
                "tenant": require_scope(),
                "since": since,
                "until": until,
                "rejected": Closing.REJECTED.value,
                "changes": Closing.CHANGES_REQUESTED.value,
                "expired": Closing.EXPIRED.value,
            },
        )
        return [Figures(*row) for row in cursor.fetchall()]


_BY_POLICY = """
WITH told AS (
  SELECT y.name, p.quorum, p.closing, p.approved_at, p.closed_at,
    CASE WHEN p.quorum = 0 THEN NULL
      WHEN p.closing IN (%(rejected)s, %(changes)s) THEN p.closed_at - p.frozen_at
      WHEN p.approved_at IS NOT NULL AND p.closing <> %(expired)s THEN p.approved_at - p.frozen_at END AS took
  FROM approvals_proposal p JOIN approvals_policy y ON y.id = p.policy_id
  WHERE p.tenant_id = %(tenant)s AND p.frozen_at >= %(since)s AND p.frozen_at < %(until)s
)
SELECT name, count(*),
  count(*) FILTER (WHERE quorum > 0 AND approved_at IS NOT NULL AND closing <> %(expired)s),
  count(*) FILTER (WHERE quorum = 0),
  count(*) FILTER (WHERE closing = %(rejected)s),
  count(*) FILTER (WHERE closing = %(changes)s),
  count(*) FILTER (WHERE closing = %(expired)s),
  count(*) FILTER (WHERE quorum > 0 AND closed_at IS NOT NULL AND approved_at IS NULL
    AND closing NOT IN (%(rejected)s, %(changes)s, %(expired)s)),
  count(*) FILTER (WHERE closed_at IS NULL AND approved_at IS NULL),
  percentile_cont(0.5) WITHIN GROUP (ORDER BY took),
  percentile_cont(0.9) WITHIN GROUP (ORDER BY took)
FROM told GROUP BY name ORDER BY name
"""
