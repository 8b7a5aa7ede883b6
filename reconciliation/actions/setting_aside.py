"""Saying of unclaimed lines that they are no operations: some, or all that a filter leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from reconciliation import locks
from reconciliation.actions import carrying_out, seconding
from reconciliation.actions.working import EvidenceMissing, check_version, operator, text, working
from reconciliation.kinds import VerbName
from reconciliation.unclaimed import setting_aside as aside
from reconciliation.unclaimed.choosing import Chosen, as_seen, lines_of
from statements.matching.asides import amounts_of, aside_of, in_words, said_aside
from statements.matching.making import claimed, claimed_by
from statements.matching.models import AsideKind
from statements.models import Statement, StatementLine

MOST_TICKED = 500


@dataclass(frozen=True, slots=True)
class SetAsideNow:
    """What came of it: for lines that were ticked, also why each of the others was not."""

    case_id: int
    sentence: str
    refused: tuple[str, ...]
    request_id: int | None = None


def set_lines_aside(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    kind: AsideKind,
    words: str,
    now: datetime,
    ticked: Sequence[int] = (),
    chosen: Chosen | None = None,
    seen: str = "",
) -> SetAsideNow:
    """Set the ticked lines aside as far as nobody claims them, or all that a filter leaves if they are as they were seen.

    Where a line is above what one person may at the receiver, nothing happens before a second one agrees. Locks statement
    → case; of two people at a line the second is told. Raises NoSuchCase, NotOfAStatement, NotPermitted, StaleCase,
    EvidenceMissing, OtherLines, SameVerbAsked.
    """
    with working(tenant_id, case_id, person_id, VerbName.SET_ASIDE.value):
        statement, case = locks.lock_statement_and_case(case_id)
        actor = operator(person_id)
        check_version(case, version)
        words = text(words, "Say in words what they are.") if kind is AsideKind.OTHER or words.strip() else ""
        if bool(ticked) == (chosen is not None) or len(ticked) > MOST_TICKED:
            raise EvidenceMissing(f"Tick up to {MOST_TICKED} lines, or choose all that the filter leaves.")
        lines = lines_of(statement, chosen or Chosen(), ticked)
        if chosen is not None:
            aside.check_seen(lines, seen)
        refused = _refused(statement, ticked, set(lines.values_list("pk", flat=True))) if ticked else ()
        amounts = amounts_of(lines)
        if not amounts:
            raise aside.OtherLines(" ".join(refused) or "No line is left to be set aside. Nothing was done.")
        if not aside.needs_second(statement, lines):
            deed = aside.Deed(kind, words, actor, None, now)
            return SetAsideNow(case.pk, aside.carry_out(statement, case, lines, deed), refused)
        details = {
            "kind": kind.value, "seen": as_seen(amounts), "lines_in_words": in_words(amounts),
            "ticked": ",".join(str(pk) for pk in lines.order_by("pk").values_list("pk", flat=True)) if ticked else "",
            **(chosen.asked() if chosen is not None else {}),
            "chosen_by": chosen.words if chosen is not None else "one by one",
        }  # fmt: skip
        asked = carrying_out.Deed(VerbName.SET_ASIDE, words, details, actor, None, now)
        request = seconding.ask(None, case, asked)
        said = (
            f"Asked for. {in_words(amounts)}: a second person has to agree. Until then nothing is set aside."
        )
        return SetAsideNow(case.pk, said, refused, request.pk)


def _refused(statement: Statement, ticked: Sequence[int], free: set[int]) -> tuple[str, ...]:
    """Why each ticked line that is not free was left alone."""
    theirs = StatementLine.objects.filter(statement=statement, pk__in=set(ticked) - free).order_by(
        "row_number"
    )
    return tuple(_why(line) for line in theirs)


def _why(line: StatementLine) -> str:
    if (match := claimed_by(line.pk)) is not None:
        return claimed(match)
    aside_already = aside_of(line.pk)
    return said_aside(aside_already) if aside_already is not None else f"Row {line.row_number} is claimed."
