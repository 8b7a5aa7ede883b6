"""Lines that nobody claims, and setting them aside: a person says that a line is no operation, and why.

Whoever sets aside or takes back holds the lock of the lines' statement.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Count, Exists, OuterRef, QuerySet, Sum

from access.refusals import Conflict
from statements.matching.comparing import money
from statements.matching.models import AsideKind, Match, SetAside
from statements.models import StatementLine


class NotSetAside(Conflict):
    """The line is not set aside (any more)."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """What lines of one currency and direction come to, in the smallest unit."""

    currency: str
    direction: str
    lines: int
    amount: int

    @property
    def words(self) -> str:
        went = "went out" if self.direction == "out" else "came in"
        return f"{money(self.amount, self.currency)} {went}"


def unclaimed(statement_id: int | None = None) -> QuerySet[StatementLine]:
    """Lines without a match that nobody has set aside: of one statement, or of all."""
    matched = Match.objects.filter(line=OuterRef("pk"), unmade_at__isnull=True)
    aside = SetAside.objects.filter(line=OuterRef("pk"), taken_back_at__isnull=True)
    lines = StatementLine.objects.filter(~Exists(matched), ~Exists(aside))
    return lines if statement_id is None else lines.filter(statement=statement_id)


def amounts_of(lines: QuerySet[StatementLine]) -> list[Amounts]:
    """What lines come to, by currency and direction. One query over all of them."""
    rows = lines.values_list("currency", "direction").annotate(n=Count("pk"), s=Sum("amount"))
    return [Amounts(c, d, n, int(s)) for c, d, n, s in rows.order_by("currency", "-direction")]


def in_words(amounts: Sequence[Amounts]) -> str:
    """ "3 lines: € 40.00 went out, € 2.00 came in"."""
    count = sum(a.lines for a in amounts)
    return f"{count:,} line{'s' if count != 1 else ''}: {', '.join(a.words for a in amounts)}"


def aside_of(line_id: int) -> SetAside | None:
    """Who has set a line aside, while that stands."""
    rows = SetAside.objects.filter(line=line_id, taken_back_at__isnull=True)
    return rows.select_related("line__statement", "made_by", "second").first()


def said_aside(aside: SetAside) -> str:
    """Who set it aside as what, in a sentence."""
    line = aside.line
    return f"{aside.made_by.username} has set row {line.row_number} of {line.statement.label} aside: {aside.kind}."


@dataclass(frozen=True, slots=True)
class Saying:
    """Who says of lines that they are no operation, and why."""

    kind: AsideKind
    words: str
    person_id: int
    second_id: int | None
    now: datetime


def set_aside(lines: QuerySet[StatementLine], saying: Saying) -> tuple[int, str]:
    """Set lines of one locked statement aside, which nobody claims, in one statement; how many, and what names the set."""
    together = secrets.token_hex(16)
    chosen, values = lines.order_by().values("tenant_id", "pk", "statement_id").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO statements_setaside (tenant_id, line_id, statement_id, kind, words, together, made_by_id,"  # noqa: S608 - the ORM's own SQL
            " second_id, made_at, reason) SELECT c.*, %s, %s, %s, %s, %s::bigint, %s::timestamptz, '' FROM"
            f" ({chosen}) c",
            [
                saying.kind.value, saying.words, together, saying.person_id, saying.second_id, saying.now,
                *values,
            ],
        )  # fmt: skip
        return cursor.rowcount, together


def end(aside: SetAside, *, person_id: int, reason: str, now: datetime) -> None:
    """Take one back: the line is unclaimed again. Raises NotSetAside."""
    rows = SetAside.objects.filter(pk=aside.pk, taken_back_at__isnull=True)
    if not rows.update(taken_back_at=now, taken_back_by_id=person_id, reason=reason):
        raise NotSetAside("Somebody has taken it back already. Nothing was done now.")
