"""Which of a job's cases forbid to do it again: what they ask about an effect, or what they were answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from access.statements import Select
from access.tenancy import TenantQuerySet
from approvals.models import Proposal
from reconciliation.casework import has_cases
from reconciliation.kinds import KINDS
from reconciliation.models import Case, CaseKind
from workflows.models import Job

_ABOUT_EFFECTS = tuple(kind.value for kind, terms in KINDS.items() if terms.outlives_the_job)
_WITHOUT_EFFECT: dict[str, tuple[str, ...]] = {
    # Of what was reopened the operation's own state says it, which nothing here has to repeat.
    CaseKind.CONTRADICTED: ("the evidence was mistaken", "the change was reversed elsewhere", "reopened"),
    CaseKind.POSSIBLE_DUPLICATE: (),
}
"""By kind, the answers after which nothing stands at the receiver; other kinds say nothing about it."""


def why_not(job: Job) -> str:
    """The case that leaves in doubt whether something of the job was applied, or says that it was; or nothing."""
    return _first(Case.objects.filter(job=job, kind__in=_ABOUT_EFFECTS).order_by("pk"))


def why_not_send(job: Job) -> str:
    """The same of operations of earlier proposals, which were settled as without effect before the latest was made."""
    return _first(_EARLIER.all(job.pk)) if has_cases(job) else ""


def _earlier(job: Any) -> TenantQuerySet[Case]:
    latest = Proposal.objects.filter(job=job).order_by("-number").values("pk")[:1]
    earlier = Case.objects.filter(job=job, kind__in=_ABOUT_EFFECTS, operation__isnull=False)
    return earlier.exclude(operation__proposed__proposal__in=latest).order_by("pk")


_EARLIER = Select(_earlier)


def _first(cases: Iterable[Case]) -> str:
    for case in cases:
        if case.resolved_at is None:
            return f"{case.label} asks about an effect of this job: answer it first."
        if case.kind in _WITHOUT_EFFECT and case.resolution not in _WITHOUT_EFFECT[case.kind]:
            return f"{case.label} was answered: {case.resolution}. Doing it again could do it twice."
    return ""
