"""What the items of one job wait for, and how earlier waits ended."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, F, Q

from access.roles import Role
from console.queries.questions import answers_to
from console.queries.standing import Sign
from workflows.models import Expectation, ExpectationKind, Job, Settled

SHOWN = 10
_WORDS = {
    Settled.TIME: Sign("SUCCEEDED", "Woke up"),
    Settled.EXPIRED: Sign("EXHAUSTED", "Nothing came"),
    Settled.CANCELLED: Sign("CANCELLED", "Ended with its item"),
}


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait as the job's page shows it."""

    expectation: Expectation
    what: str
    sign: Sign
    answer: tuple[tuple[str, str], ...]
    yours: bool

    @property
    def is_question(self) -> bool:
        return self.expectation.kind == ExpectationKind.ANSWER


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits that are open and the last that ended, ten of each at most, with how many there are."""

    rows: tuple[Wait, ...]
    open: int
    ended: int


def waits_of(job: Job, roles: frozenset[Role]) -> Waits:
    """Four queries at most; one where the job never waited."""
    mine = Expectation.objects.filter(job=job)
    counted = mine.aggregate(open=Count("pk", filter=Q(settled_at__isnull=True)), total=Count("pk"))
    if not counted["total"]:
        return Waits((), 0, 0)
    still = mine.filter(settled_at__isnull=True).order_by(F("due_at").asc(nulls_last=True), "pk")[:SHOWN]
    over = mine.filter(settled_at__isnull=False).order_by("-settled_at", "-pk")[:SHOWN]
    found = [*still, *over]
    answers = answers_to(found)
    held = {r.value for r in roles}
    rows = [Wait(e, _what(e), _sign(e), answers.get(e.pk, ()), e.role in held) for e in found]
    return Waits(tuple(rows), counted["open"], counted["total"] - counted["open"])


def _what(e: Expectation) -> str:
    if e.kind == ExpectationKind.EVENT:
        return f"The event {e.key}{f' from {e.source}' if e.source else ''}"
    return e.question if e.kind == ExpectationKind.ANSWER else "A time"


def _sign(e: Expectation) -> Sign:
    if e.settled_at is None:
        asks = e.kind == ExpectationKind.ANSWER
        return Sign("WAITING", f"Waits for {_article(e.role)}", "awaiting") if asks else Sign("WAITING")
    if e.settled_how == Settled.CAME:
        word = "Answered" if e.kind == ExpectationKind.ANSWER else "Came"
        return Sign("SUCCEEDED", f"{word}, {e.settled_by}")
    return _WORDS[Settled(e.settled_how)]


def _article(role: str) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"
