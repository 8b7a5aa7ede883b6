"""What is offered to a person for a line or for an operation: candidates in the ladder's order, with reasons. Pure.

Nothing here is taken by itself. What the machine takes is decided by `taking.py`, in the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statements.matching.adding_up import sets_on_both_sides, sets_that_add_up
from statements.matching.comparing import (
    Booked,
    Expected,
    Field,
    Verdict,
    compare,
    money,
    reasons,
    verdict_of,
)
from statements.matching.ladder import Tier
from statements.matching.likeness import Written
from statements.matching.settings import Settings

MOST = 8
MOST_TOGETHER = 30
MOST_OF_BOTH = 15
"""Candidates that are offered, those that are tried together, and those of either side where several of both are."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One line beside one operation. `apart`: by what it can be told from the other candidates."""

    booked: Booked
    expected: Expected
    tier: Tier
    fields: tuple[Field, ...]
    because: str
    score: float = 0.0
    apart: str = ""

    @property
    def is_exact(self) -> bool:
        return verdict_of(self.fields, "amount") is Verdict.EQUAL


@dataclass(frozen=True, slots=True)
class Together:
    """Several operations for one line, several lines for one operation, or several of both, whose sums are equal."""

    lines: tuple[Booked, ...]
    operations: tuple[Expected, ...]
    because: str

    @property
    def further(self) -> tuple[Booked, ...]:
        """The lines beside the first."""
        return self.lines[1:]


def weigh(
    booked: Booked, expected: Expected, settings: Settings, written: Written | None = None
) -> Suggestion | None:
    """The highest rung on which the two meet, or None. Another currency or direction meets on none."""
    fields = compare(booked, expected, settings)
    if expected.amount is None or verdict_of(fields, "currency") is not Verdict.EQUAL:
        return None
    if verdict_of(fields, "direction") is Verdict.DIFFERS or verdict_of(fields, "account") is Verdict.DIFFERS:
        return None
    amount = verdict_of(fields, "amount")
    near = amount in (Verdict.EQUAL, Verdict.NEAR)
    alike = (written or Written(booked.words)).likeness((expected.record, expected.recipient, expected.title))
    tier = None
    for name, rung in (("our key", Tier.OUR_KEY), ("receiver’s id", Tier.RECEIVERS_ID)):
        if tier is None and verdict_of(fields, name) is Verdict.EQUAL:
            tier = rung
    if tier is None and amount is Verdict.EQUAL and verdict_of(fields, "reference") is Verdict.EQUAL:
        tier = Tier.REFERENCE
    if tier is None and near and verdict_of(fields, "day") in (Verdict.EQUAL, Verdict.NEAR):
        tier = Tier.NEAR
    named = verdict_of(fields, "reference") is Verdict.EQUAL  # with another amount it may be a part
    if tier is None and (named or alike.share >= settings.likeness):
        tier = Tier.TEXT
    if tier is None:
        return None
    because = reasons(fields)
    if alike.share >= settings.likeness and verdict_of(fields, "reference") is not Verdict.EQUAL:
        because = f"{because}; {alike.sentence}"
    return Suggestion(booked, expected, tier, fields, because, alike.share)


def operations_for(booked: Booked, candidates: Sequence[Expected], settings: Settings) -> list[Suggestion]:
    """The operations that a line could be, the likeliest first, each with what tells it from the others."""
    written = Written(booked.words)
    weighed = [weigh(booked, expected, settings, written) for expected in candidates]
    found = sorted((s for s in weighed if s is not None), key=_order)[:MOST]
    told = _told_apart([(_of_operation(s.expected)) for s in found])
    return [_with(s, apart) for s, apart in zip(found, told, strict=True)]


def lines_for(expected: Expected, candidates: Sequence[Booked], settings: Settings) -> list[Suggestion]:
    """The lines that an operation could be, likewise."""
    weighed = [weigh(booked, expected, settings) for booked in candidates]
    found = sorted((s for s in weighed if s is not None), key=_order)[:MOST]
    told = _told_apart([_of_line(s.booked) for s in found])
    return [_with(s, apart) for s, apart in zip(found, told, strict=True)]


def operations_together(booked: Booked, candidates: Sequence[Expected], settings: Settings) -> list[Together]:
    """Sets of operations whose amounts add up to the line's, nearest in time first."""
    fitting = [e for e in candidates if e.amount is not None and _could_be(booked, e, settings)]
    fitting.sort(key=lambda e: (_distance(booked, e), e.operation_id))
    tried = fitting[:MOST_TOGETHER]
    sums = sets_that_add_up(booked.amount, [e.amount or 0 for e in tried], largest=settings.largest_group)
    whole = sums.whole and len(fitting) <= MOST_TOGETHER
    return [
        Together(
            (booked,),
            tuple(tried[i] for i in places),
            _adds_up(len(places), "operations", len(sums.found), whole),
        )
        for places in sums.found
    ]


def both_together(
    booked: Booked, others: Sequence[Booked], candidates: Sequence[Expected], settings: Settings
) -> list[Together]:
    """Sets of operations that the line adds up to together with other unclaimed lines, nearest in time first."""
    fitting = [e for e in candidates if e.amount and _could_be(booked, e, settings)]
    fitting.sort(key=lambda e: (_distance(booked, e), e.operation_id))
    beside = [b for b in others if b.line_id != booked.line_id and b.amount and _is_beside(booked, b)]
    beside.sort(key=lambda b: (abs((b.booked_on - booked.booked_on).days), b.line_id))
    tried, near = fitting[:MOST_OF_BOTH], beside[:MOST_OF_BOTH]
    sums = sets_on_both_sides(
        booked.amount,
        [b.amount for b in near],
        [e.amount or 0 for e in tried],
        largest=settings.largest_group,
    )
    whole = sums.whole and max(len(fitting), len(beside)) <= MOST_OF_BOTH
    found = []
    for mine, theirs in sums.found:
        lines, operations = (booked, *(near[i] for i in mine)), tuple(tried[i] for i in theirs)
        if all(_could_be(line, one, settings) for line in lines for one in operations):
            told = f"{len(lines)} lines and {len(operations)} operations add up to the same exactly"
            found.append(Together(lines, operations, _and_others(told, len(sums.found), whole)))
    return found


def _is_beside(booked: Booked, other: Booked) -> bool:
    mine = (booked.currency, booked.direction, booked.account)
    return mine == (other.currency, other.direction, other.account)


def lines_together(expected: Expected, candidates: Sequence[Booked], settings: Settings) -> list[Together]:
    """Sets of lines whose amounts add up to the operation's; where none do, that miss it by no more than the tolerance."""
    fitting = [b for b in candidates if _could_be(b, expected, settings)]
    fitting.sort(key=lambda b: (_distance(b, expected), b.line_id))
    tried = fitting[:MOST_TOGETHER]
    amounts = [b.amount for b in tried]
    sums = sets_that_add_up(expected.amount or 0, amounts, largest=settings.largest_group)
    if not sums.found and settings.tolerance:
        # Of one operation it can be said what the lines miss it by.
        sums = sets_that_add_up(
            expected.amount or 0, amounts, largest=settings.largest_group, within=settings.tolerance
        )
    whole = sums.whole and len(fitting) <= MOST_TOGETHER
    sets = [tuple(tried[i] for i in places) for places in sums.found]
    return [
        Together(lines, (expected,), _and_others(_comes_to(lines, expected), len(sets), whole))
        for lines in sets
    ]


def _comes_to(lines: Sequence[Booked], expected: Expected) -> str:
    off = sum(b.amount for b in lines) - (expected.amount or 0)
    if not off:
        return f"{len(lines)} lines add up to it exactly"
    return f"{len(lines)} lines come to it but for {money(abs(off), expected.currency)}"


def _could_be(booked: Booked, expected: Expected, settings: Settings) -> bool:
    """Whether a part of one could be a part of the other: all but the amount is as it has to be."""
    fields = compare(booked, expected, settings)
    refused = (
        verdict_of(fields, name) is Verdict.DIFFERS for name in ("currency", "direction", "account", "day")
    )
    return not any(refused) and expected.sent_on is not None


def _adds_up(count: int, what: str, sets: int, whole: bool) -> str:
    return _and_others(f"{count} {what} add up to it exactly", sets, whole)


def _and_others(said: str, sets: int, whole: bool) -> str:
    if sets > 1:
        said += "; other sets do too"
    return said if whole else f"{said}; not every set was tried"


def _order(one: Suggestion) -> tuple[int, bool, float, int, int, int]:
    return (
        one.tier,
        not one.is_exact,
        -one.score,
        _distance(one.booked, one.expected),
        one.booked.line_id,
        one.expected.operation_id,
    )


def _distance(booked: Booked, expected: Expected) -> int:
    return abs((booked.booked_on - expected.sent_on).days) if expected.sent_on is not None else 10_000


def _of_operation(e: Expected) -> dict[str, str]:
    return {
        "record": e.record,
        "to": e.recipient,
        "sent": e.sent_on.isoformat() if e.sent_on else "never",
        "state": e.state.replace("_", " ").lower(),
        "number": e.label,
    }


def _of_line(b: Booked) -> dict[str, str]:
    return {
        "reference": b.reference,
        "with": b.counterparty,
        "booked": b.booked_on.isoformat(),
        "id": b.receivers_id,
        "text": b.text,
    }


def _told_apart(each: list[dict[str, str]]) -> list[str]:
    """For each candidate the values that not all of them share; nothing where there is but one."""
    if len(each) < 2:
        return [""] * len(each)
    names = [n for n in each[0] if len({one[n] for one in each}) > 1]
    return [", ".join(f"{n} {one[n] or '–'}" for n in names[:3]) for one in each]


def _with(one: Suggestion, apart: str) -> Suggestion:
    return Suggestion(one.booked, one.expected, one.tier, one.fields, one.because, one.score, apart)
