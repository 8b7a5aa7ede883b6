"""What the screens read of this room. Every query needs the tenant's scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from dispatch.contracts import Contract
from dispatch.explaining import Term, explain
from dispatch.locks import NoSuchReceiver
from dispatch.models import Observation, Operation, Receiver, ReceiverContract, Submission
from dispatch.sent import Comparison
from dispatch.states import UNSETTLED, OperationState
from dispatch.writing import compared
from workflows.models import Job


@dataclass(frozen=True, slots=True)
class OperationView:
    """One operation with everything that was sent and seen, oldest first."""

    operation: Operation
    submissions: Sequence[Submission] = field(default_factory=list)
    observations: Sequence[Observation] = field(default_factory=list)

    @property
    def contract(self) -> Contract:
        return Contract.of(self.operation.contract.terms)

    @property
    def sends(self) -> list[tuple[Submission, Comparison | None]]:
        """Each submission, and how what left compares with what was approved."""
        return [(s, compared(s, self.operation.proposed.body_digest)) for s in self.submissions]

    @property
    def terms(self) -> list[Term]:
        """The contract in words."""
        return explain(self.contract)


@dataclass(frozen=True, slots=True)
class ReceiverView:
    """One receiver, its contract in force, and how many of its operations are not settled."""

    receiver: Receiver
    contract: Contract | None
    version: int
    unsettled: int
    kept: ReceiverContract | None = None

    @property
    def source_link(self) -> str:
        """Where its retention is written, as far as that is an address."""
        link = self.contract.retention_source_url if self.contract is not None else ""
        return link if link.startswith("https://") else ""

    @property
    def terms(self) -> list[Term]:
        return explain(self.contract) if self.contract is not None else []


def operations_of(job: Job) -> list[OperationView]:
    """Every operation of a job, earlier proposals' first. Three queries."""
    query = Operation.objects.filter(job=job).select_related("receiver", "contract", "proposed")
    return views_of(list(query.order_by("proposed__proposal_id", "ordinal", "pk")))


def effect_stands(job: Job) -> bool:
    """Whether something of the job was applied, or may have been: whatever its proposal, whatever its state."""
    standing = (
        OperationState.CONFIRMED,
        OperationState.CONFLICTED,
        OperationState.UNKNOWN,
        OperationState.SUBMITTED,
    )
    return Operation.objects.filter(job=job, state__in=standing).exists()


def operation_view(operation_id: int) -> OperationView | None:
    """One operation, or None. Three queries."""
    query = Operation.objects.filter(pk=operation_id).select_related("receiver", "contract", "proposed")
    return next(iter(views_of(list(query))), None)


def views_of(operations: Sequence[Operation]) -> list[OperationView]:
    """These operations with what was sent and seen of each, in their order. Two queries."""
    ids = [o.pk for o in operations]
    submissions: dict[int, list[Submission]] = defaultdict(list)
    for submission in Submission.objects.filter(operation_id__in=ids).order_by("number", "pk"):
        submissions[submission.operation_id].append(submission)
    observations: dict[int, list[Observation]] = defaultdict(list)
    seen = Observation.objects.filter(operation_id__in=ids).defer("question", "answer_headers", "answer_body")
    for observation in seen.order_by("seen_at", "pk"):
        observations[observation.operation_id].append(observation)
    return [OperationView(o, submissions[o.pk], observations[o.pk]) for o in operations]


def receiver(receiver_id: int) -> ReceiverView:
    """One receiver with its contract in force. Raises NoSuchReceiver."""
    found = _views_of(list(Receiver.objects.filter(pk=receiver_id)))
    if not found:
        raise NoSuchReceiver(f"There is no receiver {receiver_id} here.")
    return found[0]


def receivers() -> list[ReceiverView]:
    """Every receiver by name, with its state. Three queries."""
    return _views_of(list(Receiver.objects.order_by("name", "pk")))


def _views_of(rows: Sequence[Receiver]) -> list[ReceiverView]:
    counts = dict(
        Operation.objects.filter(state__in=UNSETTLED, receiver__in=rows)
        .values_list("receiver_id")
        .annotate(n=Count("pk"))
        .order_by("receiver_id")
    )
    latest: dict[int, ReceiverContract] = {}
    for row in ReceiverContract.objects.filter(receiver__in=rows).order_by("receiver_id", "version"):
        latest[row.receiver_id] = row
    return [
        ReceiverView(
            receiver=r,
            contract=Contract.of(latest[r.pk].terms) if r.pk in latest else None,
            version=latest[r.pk].version if r.pk in latest else 0,
            unsettled=counts.get(r.pk, 0),
            kept=latest.get(r.pk),
        )
        for r in rows
    ]


def may_have_left(job: Job) -> bool:
    """Whether a byte of this job may have left: until then SUBMITTED reads "Sending"."""
    return _may_have_left().filter(job=job).exists()


def jobs_that_may_have_left(job_ids: Iterable[int]) -> set[int]:
    """`may_have_left` for a page of jobs, in one query."""
    return set(_may_have_left().filter(job_id__in=list(job_ids)).values_list("job_id", flat=True))


def _may_have_left() -> QuerySet[Operation]:
    """By a mark, or by what a backup knows nothing of."""
    marked = Submission.objects.filter(operation=OuterRef("pk"), may_have_been_sent_at__isnull=False)
    return Operation.objects.filter(Exists(marked) | Q(quarantined_at__isnull=False))
