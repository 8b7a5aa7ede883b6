"""Answering what became of an operation with a line of a statement, or with several that add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dispatch.models import Operation
from reconciliation.actions import carrying_out, seconding
from reconciliation.actions.carrying_out import Deed
from reconciliation.actions.outcomes import begin
from reconciliation.actions.working import LONGEST, EvidenceMissing, Worked, operator, text, worked, working
from reconciliation.casework import keep_evidence, storable
from reconciliation.kinds import VerbName
from reconciliation.situation import Situation
from statements.matching import making, parts
from statements.matching.making import Pair, Word
from statements.matching.models import DifferenceKind
from web.redaction import hide


def match_line(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    lines: Sequence[int],
    now: datetime,
    reason: str = "",
    apart_as: str = "",
    part: bool = False,
) -> Worked:
    """Match an operation in doubt with unclaimed lines, and confirm it by them; inside a tolerance, ask a second person to.

    `apart_as`: what the difference is, of the kinds that `DifferenceKind` has; nothing where there is none. `part`: the
    one line is a part of it; what is left stays open, with the case, until another part comes to it.

    Locks job → operations → case; who is second at a line waits in its index. Raises NoSuchCase, NotPermitted,
    StaleCase, NotAllowedNow, LineClaimed, DoNotBelongTogether, NoSuchLine, EvidenceMissing (a reason for a
    difference), SameVerbAsked, and dispatch's StillSending.
    """
    with working(tenant_id, case_id, person_id, VerbName.MATCH_LINE.value):
        situation, operation = begin(case_id, version, person_id, VerbName.MATCH_LINE)
        actor = operator(person_id)
        pairs = [Pair(line, situation.job, operation) for line in sorted(set(lines))]
        if part or parts.parts_of(operation.pk) is not None:
            return _match_part(situation, operation, pairs, Word(actor, _written(reason), now))
        apart = making.apart(pairs)
        if apart:
            if apart_as not in DifferenceKind.values:
                kinds = ", ".join(DifferenceKind.values)
                raise EvidenceMissing(f"{apart}: say what that is, of {kinds}.", field="apart_as")
            if not reason.strip():
                raise EvidenceMissing(
                    f"{apart}: say why, for the second person who has to agree.", field="reason"
                )
            reason = text(reason, "")
        details = {"lines": ",".join(str(p.line_id) for p in pairs), "line": making.named(pairs)}
        details |= {"apart": apart, "apart_as": apart_as} if apart else {}
        deed = Deed(VerbName.MATCH_LINE, _written(reason), details, actor, None, now)
        if apart:
            request = seconding.ask_for_second(situation, deed)
            said = f"Asked for. {apart} ({apart_as}), so a second person has to agree."
            return worked(case_id, situation.job, said, request.pk)
        return worked(case_id, situation.job, carrying_out.carry_out(situation, operation, deed))


def _match_part(situation: Situation, operation: Operation, pairs: list[Pair], word: Word) -> Worked:
    if len(pairs) != 1:
        raise EvidenceMissing("A part is matched line by line: choose one.")
    (pair,) = pairs
    job, case, line = situation.job, situation.case, making.named(pairs)
    if not parts.left_after(pair):
        details = {"lines": str(pair.line_id), "line": line, "part": "yes"}
        deed = Deed(VerbName.MATCH_LINE, word.reason, details, word.actor, None, word.now)
        return worked(case.pk, job, carrying_out.carry_out(situation, operation, deed))
    added = parts.add(pair, word)
    keep_evidence(
        job=job, case=case, summary=f"{line} is a part of it. {added.sentence}", detail=word.reason, source=line,
        actor=word.actor, now=word.now, proves="a part of it",
    )  # fmt: skip
    return worked(case.pk, job, f"Matched as a part. {added.sentence}")


def _written(reason: str) -> str:
    return hide(storable(reason)).strip()[:LONGEST]
