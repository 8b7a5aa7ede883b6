"""Taking back what an operation did: a job of its own, bound to the operation and to the receiver's id of it.

How much of an operation is taken back is added up by the database (`dispatch_reversed`), also through compensations of
compensations; where no amount was approved, the whole counts as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db import connection

from dispatch.minor import as_amount, as_minor
from dispatch.models import Operation, Reversal
from dispatch.states import IN_DOUBT_OR_FLIGHT, OperationState
from web.amounts import sign_and_figures
from workflows.authoring import ProposalDraft
from workflows.models import Job

S = OperationState
COMPENSATION = "compensation"
"""The source of a job that takes something back."""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """How much of an operation is taken back: surely, and at most once everything that is under way has come true."""

    whole: int
    surely: int
    at_most: int

    @property
    def left(self) -> int:
        """What a new compensation may still take back."""
        return self.whole - self.at_most


def taken_back(operation: Operation) -> TakenBack:
    """By its compensations, as they stand. Two sums by the database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT dispatch_reversed(%s, true), dispatch_reversed(%s, false)", [operation.pk, operation.pk]
        )
        surely, at_most = cursor.fetchone()
    return TakenBack(_whole(operation), int(surely), int(at_most))


def reversals_of(operations: Sequence[Operation]) -> dict[int, list[Reversal]]:
    """The compensations of each operation that has any, oldest first, with their jobs. One query."""
    found: dict[int, list[Reversal]] = {}
    rows = Reversal.objects.filter(original__in=[o.pk for o in operations]).select_related("job")
    for row in rows.order_by("pk"):
        found.setdefault(row.original_id, []).append(row)
    return found


def reversal_by(job: Job) -> Reversal | None:
    """What a job takes back, if that is what it is for."""
    if job.source != COMPENSATION:
        return None
    rows = Reversal.objects.filter(job=job).select_related("original", "original__receiver", "original__job")
    return rows.first()


def why_not(operation: Operation) -> str:
    """Why nothing (more) of an operation can be taken back, in a sentence, or nothing."""
    if operation.state != S.CONFIRMED:
        state = operation.state.replace("_", " ").lower()
        return f"Only what was applied can be compensated: {operation.label} is {state}."
    taken = taken_back(operation)
    if taken.left > 0:
        return ""
    if taken.surely >= taken.whole:
        return f"{operation.label} is taken back already."
    jobs = ", ".join(r.job.label for r in reversals_of([operation]).get(operation.pk, []))
    return f"{operation.label} is being taken back already, by {jobs}."


def amount_left(operation: Operation) -> Decimal | None:
    """What a new compensation may take back at most; None where no amount was approved."""
    if operation.amount_minor is None:
        return None
    return as_amount(taken_back(operation).left, operation.currency)


def in_words(minor: int, currency: str) -> str:
    """An amount of minor units for a sentence."""
    sign, figures = sign_and_figures(as_amount(minor, currency), currency)
    return f"{figures} {currency}" if sign == currency else f"{sign} {figures}"


def is_open(reversal: Reversal) -> bool:
    """Whether what a compensation sends is on its way, or nobody knows what became of it."""
    return Operation.objects.filter(job=reversal.job_id, state__in=IN_DOUBT_OR_FLIGHT).exists()


def why_not_draft(job: Job, draft: ProposalDraft) -> str:
    """What a compensating job proposes that it was not asked for, in a sentence, or nothing. Its job is locked."""
    reversal = reversal_by(job)
    if reversal is None:
        return ""
    original = reversal.original
    if len(draft.operations) != 1:
        return f"A compensation proposes one operation, which takes back {original.label}; this proposes {len(draft.operations)}."
    (one,) = draft.operations
    if one.receiver != original.receiver.name:
        return f"A compensation goes to the receiver of {original.label}, which is {original.receiver.name}."
    if reversal.receipt_id and reversal.receipt_id not in draft.model_dump_json():
        return (
            f"{original.label} is {reversal.receipt_id} at {original.receiver.title}, and the proposal names that nowhere:"
            " put it into the body, the record or a source."
        )
    return _why_not_amount(reversal, one.amount, one.currency or "")


def _why_not_amount(reversal: Reversal, amount: Decimal | None, currency: str) -> str:
    if reversal.amount_minor is None:
        return (
            "" if amount is None else "What is taken back had no amount, so neither has what takes it back."
        )
    asked = in_words(reversal.amount_minor, reversal.currency)
    if amount is None or currency != reversal.currency:
        return f"A compensation of {asked} has an amount in {reversal.currency}."
    minor = as_minor(abs(amount), currency)
    if minor is None or minor > reversal.amount_minor:
        return f"No more than {asked} was asked to be taken back."
    return ""


def why_not_send(job: Job) -> str:
    """What forbids a compensating job to send, or to be redriven: what it takes back is not what it was. Or nothing."""
    reversal = reversal_by(job)
    if reversal is None:
        return ""
    original = reversal.original
    if original.state != S.CONFIRMED or original.receipt_id != reversal.receipt_id:
        return (
            f"{original.label}, which it takes back, is not what it was: it is {original.state.lower()} now."
        )
    taken, own = taken_back(original), reversal.amount_minor if reversal.amount_minor is not None else 1
    others = taken.at_most - (0 if _given_up(job) else own)
    if others + own > taken.whole:
        return f"More of {original.label} would be taken back than was applied."
    return ""


def _given_up(job: Job) -> bool:
    """Whether a job has ended without effect, so that it takes nothing back as it is."""
    return job.ended_at is not None


def _whole(operation: Operation) -> int:
    return 1 if operation.amount_minor is None else abs(int(operation.amount_minor))
