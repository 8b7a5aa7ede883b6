"""How each receiver's outcomes went over thirty days: how often nobody knew, how long that took, and what answered it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Aggregate, Count, DurationField, ExpressionWrapper, F, OuterRef, Subquery, Sum

from dispatch.models import Observation, Operation, Receiver
from reconciliation.casework import BY_EVIDENCE
from reconciliation.models import Case, CaseKind
from statements.matching.models import Tally

DAYS = 30
DOUBTS = (CaseKind.UNKNOWN_OUTCOME.value, CaseKind.CONFIRMATION_OVERDUE.value)
_PROOFS = {
    "lookup": "look-up",
    "callback": "callback",
    "statement": "statement line",
    "answer": "answer",
    "late answer": "late answer",
    "attested": "attested by two people",
}


class Median(Aggregate):
    """The one in the middle, or between the two that are."""

    function = "PERCENTILE_CONT"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"


@dataclass(frozen=True, slots=True)
class Closing:
    """One way in which doubts were answered, how many, and the share of all in per cent."""

    words: str
    count: int
    percent: int


@dataclass(frozen=True, slots=True)
class Figures:
    """One receiver's. `percent` is the share of what was sent that came to doubt, to a tenth; None: nothing was sent."""

    receiver: Receiver
    sent: int
    doubts: int
    percent: float | None
    open: int
    median: timedelta | None
    closings: Sequence[Closing]
    unclaimed: int
    """Lines of its applied statements that no operation claims and nobody has set aside."""


def figures(now: datetime) -> list[Figures]:
    """Every receiver, by title. Six queries; the first reads every operation."""
    since = now - timedelta(days=DAYS)
    sent = _by_receiver(Operation.objects.filter(first_may_have_been_sent_at__gte=since))
    asked = Case.objects.filter(kind__in=DOUBTS, receiver__isnull=False)
    recent = asked.filter(operation__first_may_have_been_sent_at__gte=since)
    doubts = dict(recent.values_list("receiver").annotate(n=Count("operation", distinct=True)).order_by())
    is_open = _by_receiver(asked.filter(resolved_at__isnull=True))
    answered = asked.filter(resolved_at__gte=since)
    took = ExpressionWrapper(F("resolved_at") - F("opened_at"), output_field=DurationField())
    medians = dict(
        answered.values_list("receiver").annotate(m=Median(took, output_field=DurationField())).order_by()
    )
    closings = _closings(answered)
    unclaimed = _unclaimed()
    return [
        Figures(
            receiver=receiver,
            sent=sent.get(receiver.pk, 0),
            doubts=doubts.get(receiver.pk, 0),
            percent=_tenths(doubts.get(receiver.pk, 0), sent.get(receiver.pk, 0)),
            open=is_open.get(receiver.pk, 0),
            median=medians.get(receiver.pk),
            closings=closings.get(receiver.pk, ()),
            unclaimed=unclaimed.get(receiver.pk, 0),
        )
        for receiver in Receiver.objects.order_by("title", "pk")
    ]


def _unclaimed() -> dict[int, int]:
    left = Sum(F("statement__lines") - F("lines") - F("aside"))
    return dict(Tally.objects.values_list("statement__receiver").annotate(n=left).order_by())


def _by_receiver(rows: object) -> dict[int, int]:
    return dict(rows.values_list("receiver").annotate(n=Count("pk")).order_by())  # type: ignore[attr-defined]


def _closings(answered: object) -> dict[int, list[Closing]]:
    proof = Observation.objects.filter(operation=OuterRef("operation"), proves=True).order_by("-pk")
    rows = answered.annotate(proof=Subquery(proof.values("kind")[:1]))  # type: ignore[attr-defined]
    counted: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for receiver, resolution, kind, number in (
        rows.values_list("receiver", "resolution", "proof").annotate(n=Count("pk")).order_by()
    ):
        words = _PROOFS.get(kind or "", "other evidence") if resolution == BY_EVIDENCE else resolution
        counted[receiver][words] += number
    found = {}
    for receiver, ways in counted.items():
        total = sum(ways.values())
        most = sorted(ways.items(), key=lambda way: (-way[1], way[0]))
        found[receiver] = [Closing(words, number, round(100 * number / total)) for words, number in most]
    return found


def _tenths(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None
