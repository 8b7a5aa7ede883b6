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
  SELECT y.name, p.frozen_at, p.approved_at, p.closed_at,
    CASE WHEN p.closing = %(rejected)s THEN 'rejected'
      WHEN p.closing = %(changes)s THEN 'changes'
      WHEN p.closing = %(expired)s THEN 'expired'
      WHEN p.approved_at IS NOT NULL AND p.quorum = 0
        AND NOT EXISTS (SELECT FROM approvals_decision d WHERE d.proposal_id = p.id) THEN 'waived'
      WHEN p.approved_at IS NOT NULL THEN 'approved'
      WHEN p.closed_at IS NOT NULL THEN 'taken back'
      ELSE 'waiting' END AS became
  FROM approvals_proposal p JOIN approvals_policy y ON y.id = p.policy_id
  WHERE p.tenant_id = %(tenant)s AND p.frozen_at >= %(since)s AND p.frozen_at < %(until)s
), timed AS (
  SELECT name, became, CASE WHEN became = 'approved' THEN approved_at - frozen_at
    WHEN became IN ('rejected', 'changes') THEN closed_at - frozen_at END AS took
  FROM told
)
SELECT name, count(*),
  count(*) FILTER (WHERE became = 'approved'),
  count(*) FILTER (WHERE became = 'waived'),
  count(*) FILTER (WHERE became = 'rejected'),
  count(*) FILTER (WHERE became = 'changes'),
  count(*) FILTER (WHERE became = 'expired'),
  count(*) FILTER (WHERE became = 'taken back'),
  count(*) FILTER (WHERE became = 'waiting'),
  percentile_cont(0.5) WITHIN GROUP (ORDER BY took),
  percentile_cont(0.9) WITHIN GROUP (ORDER BY took)
FROM timed GROUP BY name ORDER BY name
"""
