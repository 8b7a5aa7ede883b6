"""Lines that are each a part of one operation, and come one after the other. It is confirmed when they come to it, not before.

The caller holds the job and the operation, which everybody does who adds a part or takes one back.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from django.db import IntegrityError, transaction

from approvals import canonical
from dispatch import booked
from dispatch.booked import Effect
from dispatch.models import Operation
from statements.locks import lock_statements
from statements.matching import making
from statements.matching.candidates import booked_line, expected_operation
from statements.matching.comparing import Booked, Expected, compare, money
from statements.matching.effects import as_evidence
from statements.matching.ladder import VERSION, Tier
from statements.matching.making import DoNotBelongTogether, LineClaimed, Pair, Word
from statements.matching.models import Finding, Match, Says
from statements.matching.running import settings_of
from statements.models import StatementLine
from workflows import journal


@dataclass(frozen=True, slots=True)
class Parts:
    """What stands of an operation by parts of it: their set, how many, what they come to, and the next place."""

    together: str
    count: int
    amount: int
    place: int


@dataclass(frozen=True, slots=True)
class Added:
    """A part that was added: what is left then, in words too, and what the line has done."""

    left: int
    sentence: str
    effect: Effect


def parts_of(operation_id: int) -> Parts | None:
    """Those that stand, or None."""
    rows = list(Match.objects.filter(operation=operation_id, unmade_at__isnull=True, partial=True))
    if not rows:
        return None
    place = max(m.operation_place for m in rows) + 1
    return Parts(rows[0].together, len(rows), sum(m.allocated for m in rows), place)


def said(operation: Operation) -> str:
    """What of it is matched and what is left, in a sentence; or "" where nothing stands by parts."""
    parts = parts_of(operation.pk)
    if parts is None or operation.amount_minor is None:
        return ""
    return _said(parts.count, parts.amount, operation.amount_minor, operation.currency)


def left_after(pair: Pair) -> int:
    """What is left of the operation once the line is a part of it, in the smallest unit; 0 where that confirms it.

    Raises LineClaimed, DoNotBelongTogether, NoSuchLine.
    """
    line, expected = _look(pair)
    parts = parts_of(pair.operation.pk)
    making.refuse_claimed([pair], parts=parts is not None)
    before = parts.amount if parts is not None else 0
    left = (expected.amount or 0) - before - line.amount
    if left < 0:
        raise DoNotBelongTogether(
            f"The line is {money(line.amount, line.currency)}, and of {expected.label}"
            f" {money(left + line.amount, line.currency)} is left."
        )
    if not line.amount or (not before and not left):
        raise DoNotBelongTogether(f"The line is no part of {expected.label}: match it whole.")
    return left


def add(pair: Pair, word: Word) -> Added:
    """Match a line as a part of an operation in doubt; the part that comes to all of it confirms it.

    Locks the line's statement. Raises LineClaimed, DoNotBelongTogether, NoSuchLine, and dispatch's StillSending.
    """
    lock_statements([pair.line_id])
    left = left_after(pair)
    parts, (line, expected) = parts_of(pair.operation.pk), _look(pair)
    version, settings = settings_of(pair.operation.receiver_id)
    row = Match(
        tenant_id=pair.operation.tenant_id,
        line_id=pair.line_id,
        operation=pair.operation,
        operation_place=parts.place if parts is not None else 0,
        together=parts.together if parts is not None else secrets.token_hex(16),
        allocated=line.amount,
        tier=Tier.TOGETHER,
        rule_version=VERSION,
        settings_version=version,
        compared=making.kept(compare(line, expected, settings)),
        partial=True,
        reason=word.reason,
        made_by_id=word.actor.person_id,
        made_at=word.now,
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as failed:
        if making.overtaken(failed):
            raise LineClaimed(
                "Somebody else has matched it in the meantime. Nothing was done now."
            ) from failed
        raise
    count, total = (parts.count if parts is not None else 0) + 1, expected.amount or 0
    sentence = _said(count, total - left, total, line.currency)
    return Added(left, sentence, _take(pair, row, word, sentence, whole=not left))


def _look(pair: Pair) -> tuple[Booked, Expected]:
    line, receiver_id = booked_line(pair.line_id)
    expected, theirs = expected_operation(pair.operation.pk)
    if receiver_id != theirs:
        raise DoNotBelongTogether(
            f"{expected.label} went to another receiver than the one that the line is of."
        )
    _, settings = settings_of(receiver_id)
    making.check(line, expected, settings)
    return line, expected


def _take(pair: Pair, match: Match, word: Word, sentence: str, *, whole: bool) -> Effect:
    line = StatementLine.objects.select_related("statement").get(pk=pair.line_id)
    told = booked.Line(
        f"{word.actor.name}: row {line.row_number} of {line.statement.label} is a part of it. {sentence} {word.reason}"[
            :500
        ],
        as_evidence(line, match, match.compared),
        line.receivers_id[:200],
    )
    evidence = {
        "operation": pair.operation.label, "operation_id": pair.operation.pk, "match": match.pk, "line": line.pk,
        "part": match.operation_place + 1, "second": None,
        "reason_digest": canonical.sha256(word.reason) if word.reason else "",
    }  # fmt: skip
    journal.record(job=pair.job, event="operation.line_matched", actor=word.actor, evidence=evidence)
    take = booked.booked_as_approved if whole else booked.booked_in_part
    effect = take(job=pair.job, operation=pair.operation, line=told, actor=word.actor, now=word.now)
    Finding.objects.create(
        tenant_id=match.tenant_id, line=line, operation=pair.operation, match=match, says=Says.APPLIED,
        compared=match.compared, found_at=word.now, taken_at=word.now, effect=effect.value,
    )  # fmt: skip
    return effect


def _said(count: int, matched: int, total: int, currency: str) -> str:
    by = "1 line" if count == 1 else f"{count} lines"
    of = f"{money(matched, currency)} of {money(total, currency)} is matched, by {by}"
    return f"{of}; {money(total - matched, currency)} is left." if matched < total else f"{of}."
