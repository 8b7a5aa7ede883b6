"""Making and unmaking matches by a person's word, inside the action of whoever may.

The caller holds the locks of the jobs and the operations; the lines' statements are locked here. Of an operation's two
lines the second waits in the unique index. Whoever is second is told who was first.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction
from psycopg.errors import UniqueViolation

from access.refusals import Conflict, Unprocessable
from access.roles import Actor
from approvals import canonical
from dispatch import booked
from dispatch.booked import Effect
from dispatch.models import Operation
from statements.locks import lock_statements
from statements.matching.adding_up import allocate
from statements.matching.asides import aside_of, said_aside
from statements.matching.candidates import booked_line, expected_operation
from statements.matching.comparing import Booked, Expected, Field, Verdict, compare, money, verdict_of
from statements.matching.effects import as_evidence
from statements.matching.ladder import NAMES, VERSION, Tier
from statements.matching.models import DifferenceKind, Finding, Match, Says, Unmatch
from statements.matching.running import settings_of
from statements.matching.settings import Settings
from statements.matching.suggesting import weigh
from statements.models import StatementLine
from workflows import journal
from workflows.models import Job


class LineClaimed(Conflict):
    """The line, or the operation, has a match already; the message says which and whose."""


class DoNotBelongTogether(Unprocessable):
    """Currency, direction, account or sum forbid it, or nothing was sent."""


class NeedsTwoPeople(Unprocessable):
    """The amounts differ inside the tolerance: a second person has to agree, on the operation's case."""


class DifferenceUnsaid(Unprocessable):
    """The amounts differ inside the tolerance, and nobody said what the difference is, or why."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One line beside one operation whose job is locked with it."""

    line_id: int
    job: Job
    operation: Operation


@dataclass(frozen=True, slots=True)
class Word:
    """Whose word it is, why, and when. `apart_as`: what a difference is, as a `DifferenceKind` says it."""

    actor: Actor
    reason: str
    now: datetime
    second: Actor | None = None
    apart_as: str = ""


def make(pairs: Sequence[Pair], word: Word) -> list[tuple[Operation, Effect]]:
    """Match lines with operations, each of the one with each of the other, and take what they say into each operation.

    Amounts add up, or are apart inside the tolerance, which takes a second person and a word for what it is. Locks the
    lines' statements. Raises LineClaimed, DoNotBelongTogether, NeedsTwoPeople, DifferenceUnsaid, NoSuchLine, and
    dispatch's StillSending and NotInDoubt.
    """
    lock_statements([p.line_id for p in pairs])
    refuse_claimed(pairs)
    looked = [_look(pair) for pair in pairs]
    off = _check_all(looked)
    if off and word.second is None:
        raise NeedsTwoPeople(
            f"{_said(off, looked)}: a second person has to agree. Ask for them on the case of {looked[0].expected.label}."
        )
    if off and (word.apart_as not in DifferenceKind.values or not word.reason):
        raise DifferenceUnsaid(f"{_said(off, looked)}: say what that is, and why.")
    rows = _rows(pairs, looked, word, off)
    try:
        with transaction.atomic():
            Match.objects.bulk_create(rows)
    except IntegrityError as failed:
        if not overtaken(failed):
            raise
        refuse_claimed(pairs)
        raise
    jobs = {p.operation.pk: p for p in pairs}
    taken: dict[int, tuple[Operation, Effect]] = {}
    for row in rows:
        pair = jobs[row.operation_id]
        effect = _take(Pair(row.line_id, pair.job, pair.operation), row, word)
        # What the first line did to an operation; those after it only agree.
        taken.setdefault(row.operation_id, (pair.operation, effect))
    return list(taken.values())


def apart(pairs: Sequence[Pair]) -> str:
    """By how much the amounts of lines and of one operation differ inside the tolerance, in words, or "".

    Raises as `make` does for what cannot be matched.
    """
    looked = [_look(pair) for pair in pairs]
    refuse_claimed(pairs)
    off = _check_all(looked)
    return _said(off, looked) if off else ""


def named(pairs: Sequence[Pair]) -> str:
    """The lines as people name them: "row 5 of STMT-3"."""
    lines = StatementLine.objects.select_related("statement").filter(pk__in=[p.line_id for p in pairs])
    return ", ".join(f"row {n.row_number} of {n.statement.label}" for n in lines.order_by("pk"))


def unmake(match: Match, pairs: Sequence[tuple[Job, Operation]], word: Word) -> bool:
    """End a match and the set that it was made in; whether an operation is in doubt again by it. It stands until now."""
    lock_statements([m.line_id for m in set_of(match)])
    Unmatch.objects.create(
        tenant_id=match.tenant_id, match=match, reason=word.reason, unmade_by_id=word.actor.person_id, unmade_at=word.now
    )  # fmt: skip
    doubted = False
    for job, operation in pairs:
        evidence = {
            "operation": operation.label,
            "operation_id": operation.pk,
            "match": match.pk,
            "line": match.line_id,
            "reason_digest": canonical.sha256(word.reason) if word.reason else "",
        }
        journal.record(job=job, event="operation.line_unmatched", actor=word.actor, evidence=evidence)
        applied = Finding.objects.filter(
            operation=operation, match__in=set_of(match), effect=Effect.APPLIED.value
        )
        if applied.exists():
            summary = f"{word.actor.name} took its statement line away: {word.reason}"[:500]
            doubted |= booked.line_taken_away(
                job=job, operation=operation, summary=summary, actor=word.actor, now=word.now
            )
    return doubted


def set_of(match: Match) -> list[Match]:
    """The match with those that it was made together with."""
    if not match.together:
        return [match]
    rows = Match.objects.filter(together=match.together).select_related("line", "operation")
    return list(rows.order_by("pk"))


def claimed_by(line_id: int) -> Match | None:
    """The match of a line that stands."""
    rows = Match.objects.filter(line=line_id, unmade_at__isnull=True)
    rows = rows.select_related("line__statement", "operation", "made_by")
    return rows.order_by("line_place").first()


def check(line: Booked, expected: Expected, settings: Settings) -> None:
    """Raise DoNotBelongTogether where more than their amounts keeps a line and an operation apart."""
    fields = compare(line, expected, settings)
    if expected.amount is None:
        raise DoNotBelongTogether(
            f"No amount was approved for {expected.label}, so no line can be compared with it."
        )
    if expected.sent_on is None:
        raise DoNotBelongTogether(f"{expected.label} was never sent by us, so this line is something else.")
    for name, why in _FORBIDS.items():
        if verdict_of(fields, name) is Verdict.DIFFERS:
            raise DoNotBelongTogether(why.format(expected.label))


_FORBIDS = {
    "currency": "The line and {} have different currencies.",
    "direction": "The money went the other way than that of {}.",
    "account": "The line is of another account than {}.",
}


@dataclass(frozen=True, slots=True)
class _Looked:
    booked: Booked
    expected: Expected
    settings: Settings
    settings_version: int


def overtaken(failed: IntegrityError) -> bool:
    """Whether somebody else has claimed the line or the operation in the meantime."""
    return isinstance(failed.__cause__, UniqueViolation) and "one_match_a" in str(failed)


def _look(pair: Pair) -> _Looked:
    line, receiver_id = booked_line(pair.line_id)
    expected, theirs = expected_operation(pair.operation.pk)
    if receiver_id != theirs:
        raise DoNotBelongTogether(
            f"{expected.label} went to another receiver than the one that the line is of."
        )
    version, settings = settings_of(receiver_id)
    return _Looked(line, expected, settings, version)


def _check_all(looked: Sequence[_Looked]) -> int:
    """What was booked less what was approved, inside the tolerance. Raises DoNotBelongTogether.

    Lines of one operation may be apart as one line may. Of several operations nobody could say which of them the difference is
    of, so there the sums are equal.
    """
    for one in looked:
        check(one.booked, one.expected, one.settings)
    lines, operations = _amounts(looked)
    if len(looked) > 1 and not min(*lines.values(), *operations.values()):
        raise DoNotBelongTogether("What comes to nothing is no part of anything: leave it out.")
    booked_sum, approved = sum(lines.values()), sum(operations.values())
    off = booked_sum - approved
    if not off:
        return 0
    tolerance = looked[0].settings.tolerance if len(operations) == 1 else 0
    currency = looked[0].booked.currency
    if abs(off) > tolerance and len(looked) == 1:
        raise DoNotBelongTogether(
            f"{looked[0].expected.label} is {money(approved, currency)} and the line is"
            f" {money(booked_sum, currency)}: more apart than this receiver’s settings allow."
        )
    if abs(off) > tolerance:
        raise DoNotBelongTogether(
            f"{money(booked_sum, currency)} was booked and {money(approved, currency)} approved:"
            " several are matched only where they add up to it exactly, or inside the band of one operation."
        )
    if len(lines) > 1 and min(lines.values()) <= abs(off):
        raise DoNotBelongTogether(
            f"A line of {money(min(lines.values()), currency)} is no more than the difference: leave it out, or set it aside."
        )
    return off


def _amounts(looked: Sequence[_Looked]) -> tuple[dict[int, int], dict[int, int]]:
    """Of each line and of each operation."""
    return (
        {one.booked.line_id: one.booked.amount for one in looked},
        {one.expected.operation_id: one.expected.amount or 0 for one in looked},
    )


def _said(off: int, looked: Sequence[_Looked]) -> str:
    return f"The amounts are {money(abs(off), looked[0].booked.currency)} apart"


def _rows(pairs: Sequence[Pair], looked: Sequence[_Looked], word: Word, off: int) -> list[Match]:
    sides = {(p.line_id, p.operation.pk): (p, one) for p, one in zip(pairs, looked, strict=True)}
    shares = allocate(*_amounts(looked))
    together = secrets.token_hex(16) if len(shares) > 1 else ""
    line_places: Counter[int] = Counter()
    operation_places: Counter[int] = Counter()
    rows: list[Match] = []
    for line_id, operation_id, allocated in shares:
        pair, one = sides[line_id, operation_id]
        found = weigh(one.booked, one.expected, one.settings)
        tier = Tier.TOGETHER if together else found.tier if found else Tier.NONE
        rows.append(
            Match(
                tenant_id=pair.operation.tenant_id,
                line_id=line_id,
                operation=pair.operation,
                line_place=line_places[line_id],
                operation_place=operation_places[operation_id],
                together=together,
                allocated=allocated,
                tier=tier,
                rule_version=VERSION,
                settings_version=one.settings_version,
                compared=kept(compare(one.booked, one.expected, one.settings)),
                within_tolerance=bool(off),
                apart=0 if rows else off,
                apart_as=word.apart_as if off else "",
                reason=word.reason,
                made_by_id=word.actor.person_id,
                second_id=word.second.person_id if off and word.second else None,
                made_at=word.now,
            )
        )
        line_places[line_id] += 1
        operation_places[operation_id] += 1
    return rows


def kept(fields: tuple[Field, ...]) -> str:
    """What was compared, as a match keeps it."""
    return json.dumps(
        [[f.name, f.booked, f.expected] for f in fields if f.booked or f.expected], ensure_ascii=False
    )


def _take(pair: Pair, match: Match, word: Word) -> Effect:
    line = StatementLine.objects.select_related("statement").get(pk=pair.line_id)
    said = booked.Line(
        f"{word.actor.name}: row {line.row_number} of {line.statement.label}, by {NAMES[Tier(match.tier)]}. {word.reason}"[
            :500
        ],
        as_evidence(line, match, match.compared),
        line.receivers_id[:200],
    )
    evidence = {
        "operation": pair.operation.label, "operation_id": pair.operation.pk, "match": match.pk, "line": line.pk,
        "second": word.second.name if word.second else None,
        "reason_digest": canonical.sha256(word.reason) if word.reason else "",
    }  # fmt: skip
    journal.record(job=pair.job, event="operation.line_matched", actor=word.actor, evidence=evidence)
    effect = booked.booked_as_approved(
        job=pair.job, operation=pair.operation, line=said, actor=word.actor, now=word.now
    )
    Finding.objects.create(
        tenant_id=match.tenant_id, line=line, operation=pair.operation, match=match, says=Says.APPLIED,
        compared=match.compared, found_at=word.now, taken_at=word.now, effect=effect.value,
    )  # fmt: skip
    return effect


def refuse_claimed(pairs: Sequence[Pair], *, parts: bool = False) -> None:
    """LineClaimed where a line or an operation has a match, or a line is set aside. `parts`: those of the operation may stand."""
    for pair in pairs:
        if (aside := aside_of(pair.line_id)) is not None:
            raise LineClaimed(f"{said_aside(aside)} Take that back first; nothing was done now.")
        standing = Match.objects.filter(unmade_at__isnull=True).select_related(
            "line__statement", "operation", "made_by"
        )
        for match in (
            standing.filter(line=pair.line_id).order_by("pk").first(),
            standing.filter(operation=pair.operation)
            .exclude(**({"partial": True} if parts else {}))
            .order_by("pk")
            .first(),
        ):
            if match is not None:
                raise LineClaimed(claimed(match))


def claimed(match: Match) -> str:
    """Who has matched what, for whoever comes too late. The match comes with its line, operation and person."""
    who = match.made_by.username if match.made_by is not None else "The machine"
    line = match.line
    return f"{who} has matched row {line.row_number} of {line.statement.label} with {match.operation.label}. Nothing was done now."
