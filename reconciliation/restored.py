"""What a restore has left open: the operations that may have been sent since the backup, and the jobs held for a person."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from access.switches import Restored
from dispatch.models import Operation
from dispatch.quarantining import OPEN
from dispatch.restoring import RESTORE, was_kept_back
from dispatch.states import OperationState
from reconciliation.models import Case, CaseKind
from workflows.models import Job

S = OperationState
WITHOUT_OUTCOME = (S.SUBMITTED, S.UNKNOWN, S.CONFLICTED)


@dataclass(frozen=True, slots=True)
class Left:
    """How many operations have no outcome yet, how many of them are nobody's, and how many jobs are held.

    `not_looked_at`: what the sweep after the restore has not come to.
    """

    without_outcome: int
    nobodys: int
    not_looked_at: int
    held: int


def left_by(restored: Restored) -> Left:
    """What is left in the scope's tenant. Four queries."""
    return Left(
        without_outcome=_without_outcome(restored).count(),
        nobodys=nobodys(restored).count(),
        not_looked_at=_not_looked_at(restored).count(),
        held=_kept_back().count(),
    )


def nothing_was_sent(job: Job) -> str:
    """Of a job without an operation, in a sentence: a backup knows only what was sent until it was made. One query."""
    if was_kept_back(job):
        return "Its backup knows of nothing that was sent; what was sent after that is not known here."
    return "Nothing was sent."


def _kept_back() -> QuerySet[Job]:
    """Jobs that are held since the restore, by it or by who held them before."""
    asked = Case.objects.filter(job=OuterRef("pk"), kind=CaseKind.RESTORED.value, resolved_at__isnull=True)
    return Job.objects.filter(held_at__isnull=False).filter(Q(held_by=RESTORE.name) | Exists(asked))


def nobodys(restored: Restored) -> QuerySet[Operation]:
    """Those without an outcome whose question no person has taken or been given."""
    owned = Case.objects.filter(operation=OuterRef("pk"), resolved_at__isnull=True, assignee__isnull=False)
    return _without_outcome(restored).exclude(Exists(owned))


def unowned_cases(restored: Restored) -> QuerySet[Case]:
    """The open cases of those, by their ids."""
    return Case.objects.filter(operation__in=nobodys(restored), resolved_at__isnull=True).order_by("pk")


def _without_outcome(restored: Restored) -> QuerySet[Operation]:
    return Operation.objects.filter(quarantined_at__gte=restored.at, state__in=WITHOUT_OUTCOME)


def _not_looked_at(restored: Restored) -> QuerySet[Operation]:
    """A held job's are looked at when it is released, before anything is sent."""
    before = Q(quarantined_at__isnull=True) | Q(quarantined_at__lt=restored.at)
    frozen = Q(proposed__proposal__frozen_at__lte=restored.at)
    return Operation.objects.filter(before, frozen, state__in=OPEN, job__held_at__isnull=True)
