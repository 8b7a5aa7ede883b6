"""The figures beside the navigation."""

from __future__ import annotations

from access.roles import Role
from approvals.models import Proposal
from console.queries.questions import open_questions
from reconciliation.models import Case
from workflows.states import JobState

MOST = 1000


def approvals_awaiting() -> int | str:
    """Open proposals without their quorum; "999+" for more, since it stands on every page."""
    waiting = Proposal.objects.filter(
        closed_at__isnull=True, approved_at__isnull=True, job__state=JobState.AWAITING_APPROVAL
    )
    found = waiting[:MOST].count()
    return found if found < MOST else f"{MOST - 1}+"


def questions(roles: frozenset[Role]) -> int:
    """Open questions that these roles may answer."""
    return open_questions(roles).count()


def open_cases() -> int:
    """Cases without a resolution."""
    return Case.objects.filter(resolved_at__isnull=True).count()
