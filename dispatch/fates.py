"""What became of each operation of a job that stops or has ended: one of four fates, and nothing else anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from django.db.models import OuterRef, Subquery

from dispatch import reversals
from dispatch.deriving import current
from dispatch.models import Operation, Reversal
from dispatch.states import NextStep, OperationState
from workflows.models import Job

S = OperationState


class Fate(StrEnum):
    """The four words that people read."""

    STOPPED = "Future steps stopped"
    REVERSED = "Change reversed"
    STANDS = "Change not reversed"
    CHECKING = "Outcome still being checked"


@dataclass(frozen=True, slots=True)
class FateOf:
    """One operation's fate and the sentence that says why."""

    operation_id: int
    label: str
    title: str
    fate: Fate
    sentence: str


def fates(job: Job) -> list[FateOf]:
    """The fate of each operation of the job's latest proposal, in their order. Needs the tenant's scope."""
    query = current(job).select_related("receiver", "proposed")
    operations = list(query.defer("proposed__body", "proposed__headers"))
    taken = reversals.reversals_of(operations)
    return [_reversed(o, taken[o.pk]) if o.pk in taken else _fate_of(o) for o in operations]


def in_a_sentence(job_id: int) -> str:
    """What a cancel leaves, in the four words and with how many operations each: "Future steps stopped." """
    counted = Counter(fates_of_jobs([job_id]).get(job_id, [Fate.STOPPED]))
    told = [f"{fate} ({counted[fate]})" if counted[fate] > 1 else fate for fate in Fate if counted[fate]]
    return f"{', '.join(told)}."


def fates_of_jobs(job_ids: Sequence[int]) -> dict[int, list[Fate]]:
    """The fate of each operation of the latest proposal of several jobs, in their order. Two queries, and two for each
    operation that is taken back."""
    latest = Operation.objects.filter(job=OuterRef("job")).order_by("-proposed__proposal_id")
    rows = Operation.objects.filter(
        job__in=job_ids, proposed__proposal_id=Subquery(latest.values("proposed__proposal_id")[:1])
    )
    rows = rows.select_related("receiver", "proposed").defer("proposed__body", "proposed__headers")
    operations = list(rows.order_by("job_id", "ordinal"))
    taken = reversals.reversals_of([o for o in operations if o.state == S.CONFIRMED])
    found: dict[int, list[Fate]] = {}
    for o in operations:
        fate = _reversed(o, taken[o.pk]) if o.pk in taken else _fate_of(o)
        found.setdefault(o.job_id, []).append(fate.fate)
    return found


def _reversed(o: Operation, by: list[Reversal]) -> FateOf:
    """The fate of an operation that was asked to be taken back."""
    plain, taken = _fate_of(o), reversals.taken_back(o)
    if plain.fate is not Fate.STANDS or taken.at_most == 0:
        return plain
    jobs = ", ".join(r.job.label for r in by)
    if taken.surely >= taken.whole:
        return replace(
            plain, fate=Fate.REVERSED, sentence=f"{o.receiver.title} has taken it back, by {jobs}."
        )
    if any(reversals.is_open(r) for r in by):
        said = f"Whether {o.receiver.title} has taken it back by {jobs} is being found out."
        return replace(plain, fate=Fate.CHECKING, sentence=said)
    part = ""
    if o.amount_minor is not None and taken.surely:
        part = f" {reversals.in_words(taken.surely, o.currency)} of it is taken back."
    asked = f" {jobs} is to take it back." if taken.at_most > taken.surely else ""
    return replace(plain, sentence=f"{plain.sentence.partition(';')[0].rstrip('.')}.{part}{asked}")


def _fate_of(o: Operation) -> FateOf:
    at = o.receiver.title
    receipt = f" as {o.receipt_id}" if o.receipt_id else ""
    table: dict[str, tuple[Fate, str]] = {
        S.PREPARED: (Fate.STOPPED, f"It was never sent to {at}."),
        S.WITHDRAWN: (Fate.STOPPED, f"It was never sent to {at}, and will not be."),
        S.NOT_APPLIED: (Fate.STOPPED, f"{at} did not apply it."),
        S.REFUSED: (Fate.STOPPED, f"{at} refused it, so nothing was changed."),
        S.CONFIRMED: (Fate.STANDS, f"{at} applied it{receipt}; undoing it takes a job of its own."),
        S.CONFLICTED: (Fate.STANDS, f"{at} applied something else than what was approved{receipt}."),
        S.SUBMITTED: (Fate.CHECKING, f"It is on its way to {at}, or awaits its confirmation."),
        S.UNKNOWN: (Fate.CHECKING, _unknown(o, at)),
    }
    fate, sentence = table[o.state]
    return FateOf(o.pk, o.label, o.proposed.title, fate, sentence)


def _unknown(o: Operation, at: str) -> str:
    if o.next_step == NextStep.NONE:
        return f"It may have been sent to {at}; a person has to find out."
    return f"It may have been sent to {at}, which is being asked."
