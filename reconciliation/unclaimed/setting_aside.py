"""What setting lines aside does, inside the action of whoever may: alone, or with the second person who has agreed.

The caller holds the statement and its case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from access.refusals import Conflict
from access.roles import Actor
from access.tenant_journal import record
from reconciliation.casework import keep_evidence
from reconciliation.models import Case, EvidenceKind
from reconciliation.unclaimed.choosing import Chosen, as_seen, lines_of
from reconciliation.unclaimed.looking_after import look_after
from statements.matching import asides
from statements.matching.asides import Saying, amounts_of, in_words
from statements.matching.models import AsideKind
from statements.matching.running import settings_of
from statements.models import Statement, StatementLine


class OtherLines(Conflict):
    """The lines are not the ones that were on the screen, or asked about, any more. Nothing was set aside."""


@dataclass(frozen=True, slots=True)
class Deed:
    """What lines are set aside as, why, and by whom."""

    kind: AsideKind
    words: str
    actor: Actor
    second: Actor | None
    now: datetime


def needs_second(statement: Statement, lines: QuerySet[StatementLine]) -> bool:
    """Whether one of the lines is above what one person may set aside alone at the receiver."""
    _, settings = settings_of(statement.receiver_id)
    return bool(lines.filter(amount__gt=settings.alone_up_to).exists())


def lines_asked_about(statement: Statement, details: Mapping[str, str]) -> QuerySet[StatementLine]:
    """The lines of a request for a second person, if they are still those. Raises OtherLines."""
    ticked = [int(pk) for pk in details.get("ticked", "").split(",") if pk]
    lines = lines_of(statement, Chosen.read(details), ticked)
    check_seen(lines, details["seen"])
    return lines


def check_seen(lines: QuerySet[StatementLine], seen: str) -> None:
    """OtherLines unless they are as many, and come to as much, as on the screen."""
    amounts = amounts_of(lines)
    if as_seen(amounts) != seen:
        raise OtherLines(
            f"These are not the lines that were on the screen any more: it is {in_words(amounts)} now. Nothing was set aside."
        )


def carry_out(statement: Statement, case: Case, lines: QuerySet[StatementLine], deed: Deed) -> str:
    """Set them aside, put that to the case, close it with its last line; the sentence that says what was done."""
    told = in_words(amounts_of(lines))
    second = deed.second.person_id if deed.second else None
    saying = Saying(deed.kind, deed.words, deed.actor.person_id, second, deed.now)
    count, together = asides.set_aside(lines, saying)
    by = f"{deed.actor.name} and {deed.second.name}" if deed.second else deed.actor.name
    keep_evidence(
        job=None, case=case, summary=f"{told}. Set aside as {deed.kind.value} by {by}.", detail=deed.words,
        source=statement.label, actor=deed.actor, now=deed.now, kind=EvidenceKind.STATEMENT,
        proves="no operation of ours",
    )  # fmt: skip
    evidence = {
        "statement": statement.pk, "case": case.pk, "kind": deed.kind.value, "lines": count, "together": together,
        "second": deed.second.name if deed.second else None,
    }  # fmt: skip
    record(event="lines.set_aside", actor=deed.actor, evidence=evidence)
    look_after(statement, deed.actor, deed.now, deed.second)
    return f"{count:,} line{'s are' if count != 1 else ' is'} set aside as {deed.kind.value}."
