"""What the screens read of this room. Every query needs the tenant's scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal

from django.db.models import F, QuerySet

from statements.locks import NoSuchStatement
from statements.models import (
    Format,
    Mapping,
    RepeatedRow,
    RowError,
    Statement,
    StatementLine,
    StatementState,
    Verdict,
)
from statements.numbers import in_units

PAGE = 50
WORDS = {
    StatementState.UPLOADED: ("Uploaded, not read", "awaiting"),
    StatementState.READING: ("Being read", "running"),
    StatementState.READ: ("Read, not applied", "awaiting"),
    StatementState.APPLIED: ("Applied", "done"),
    StatementState.DISCARDED: ("Discarded", "cancelled"),
}


@dataclass(frozen=True, slots=True)
class StatementRow:
    """One statement with the words for where it stands."""

    statement: Statement

    @property
    def words(self) -> str:
        return WORDS[StatementState(self.statement.state)][0]

    @property
    def mark(self) -> str:
        return WORDS[StatementState(self.statement.state)][1]


@dataclass(frozen=True, slots=True)
class ListPage:
    """Statements, newest first. `older`: the id to go on before, or 0."""

    rows: Sequence[StatementRow]
    older: int


@dataclass(frozen=True, slots=True)
class LineView:
    """A line with its amount as people write it, what came in being positive."""

    line: StatementLine

    @property
    def amount(self) -> Decimal:
        units = in_units(self.line.amount, self.line.currency)
        return -units if self.line.direction == "out" else units


@dataclass(frozen=True, slots=True)
class Question:
    """A row that may be known: what it says, and what the earlier line says."""

    row: RepeatedRow
    here: LineView
    earlier: LineView


@dataclass(frozen=True, slots=True)
class StatementPage(StatementRow):
    """One statement with a page of what it holds. `width`: how far it is read, of 300."""

    width: str = "0"
    asked: int = 0
    lines: Sequence[LineView] = field(default_factory=list)
    errors: Sequence[RowError] = field(default_factory=list)
    questions: Sequence[Question] = field(default_factory=list)
    after: int = 0

    @property
    def live(self) -> bool:
        return self.statement.state == StatementState.READING

    @property
    def open(self) -> bool:
        return self.statement.state not in (StatementState.APPLIED, StatementState.DISCARDED)

    @property
    def is_table(self) -> bool:
        return self.statement.format == Format.CSV

    @property
    def ready(self) -> bool:
        """Nothing stands against its being applied."""
        s = self.statement
        return s.state == StatementState.READ and not s.errors and not self.asked and s.lines > 0

    @property
    def sums(self) -> list[tuple[str, Decimal]]:
        """What all lines come to, by their way, where they have one currency."""
        s = self.statement
        if not s.currency:
            return []
        found = [("Came in", s.amount_in), ("Went out", -s.amount_out)]
        found += [("Opening balance", s.opening)] if s.opening is not None else []
        found += [("Closing balance", s.closing)] if s.closing is not None else []
        return [(label, in_units(amount, s.currency)) for label, amount in found]


def statements(*, receiver_id: int = 0, state: str = "", before: int = 0) -> ListPage:
    """A page of the list."""
    rows = Statement.objects.select_related("receiver", "uploaded_by").order_by("-pk")
    if receiver_id:
        rows = rows.filter(receiver_id=receiver_id)
    if state in StatementState.values:
        rows = rows.filter(state=state)
    if before:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: PAGE + 1])
    return ListPage([StatementRow(s) for s in found[:PAGE]], found[PAGE - 1].pk if len(found) > PAGE else 0)


def statement(statement_id: int) -> Statement:
    """One, with whom it names. Raises NoSuchStatement."""
    names = ("receiver", "mapping", "uploaded_by", "read_by", "applied_by", "discarded_by")
    found = Statement.objects.select_related(*names).filter(pk=statement_id).first()
    if found is None:
        raise NoSuchStatement(f"There is no statement {statement_id} here.")
    return found


def statement_page(statement_id: int, *, show: str = "", after: int = 0) -> StatementPage:
    """One statement with a page of its lines, or of its errors, from the row `after` on."""
    found = statement(statement_id)
    asked = RepeatedRow.objects.filter(statement=found, verdict=Verdict.ASKED).count()
    width = f"{300 * found.position / found.size:.1f}"
    rows: dict[str, object] = {}
    if found.state in (StatementState.READ, StatementState.APPLIED) and show != "errors":
        lines = list(_lines(found).filter(row_number__gt=after)[: PAGE + 1])
        rows = {"lines": [LineView(n) for n in lines[:PAGE]], "after": _after([n.row_number for n in lines])}
    elif show == "errors":
        errors = list(errors_of(found).filter(pk__gt=after)[: PAGE + 1])
        rows = {"errors": errors[:PAGE], "after": _after([e.pk for e in errors])}
    questions = questions_of(found) if found.state == StatementState.READ else []
    return StatementPage(found, width=width, asked=asked, questions=questions, **rows)  # type: ignore[arg-type]


def errors_of(found: Statement) -> QuerySet[RowError]:
    """Everything that is wrong with its rows, in the order in which it was found, which is theirs."""
    return RowError.objects.filter(statement=found).order_by("pk")


def questions_of(found: Statement) -> list[Question]:
    """Rows that may be known under other words: those without an answer first, some of them."""
    rows = RepeatedRow.objects.filter(statement=found).exclude(verdict=Verdict.EQUAL)
    rows = rows.select_related("earlier", "line", "decided_by").order_by(
        F("decided_at").asc(nulls_first=True), "row_number"
    )
    return [Question(r, LineView(r.line), LineView(r.earlier)) for r in rows[:PAGE] if r.line is not None]


def rows_in_question(statement_id: int) -> list[int]:
    """The rows of which nobody has said whether they are known."""
    rows = RepeatedRow.objects.filter(statement_id=statement_id, verdict=Verdict.ASKED)
    return list(rows.order_by("row_number").values_list("row_number", flat=True))


@dataclass(frozen=True, slots=True)
class Covered:
    """Days of an account, one after the other, that the applied statements of a receiver have."""

    account: str
    first: date
    last: date


def covered(receiver_id: int) -> list[Covered] | None:
    """What the applied statements of a receiver cover, by account and day; None where there is none. One query."""
    applied = Statement.objects.filter(receiver=receiver_id, state=StatementState.APPLIED)
    found = list(
        applied.order_by("account", "first_booked_on", "pk").values_list(
            "account", "first_booked_on", "last_booked_on"
        )
    )
    spans: list[Covered] = []
    for account, first, last in found:
        if first is None or last is None:
            continue
        before = spans[-1] if spans and spans[-1].account == account else None
        if before is not None and first <= before.last + timedelta(days=1):
            spans[-1] = Covered(account, before.first, max(before.last, last))
        else:
            spans.append(Covered(account, first, last))
    return spans if found else None


def last_mapping(receiver_id: int) -> Mapping | None:
    """How the receiver's files were read last."""
    return Mapping.objects.filter(receiver_id=receiver_id).order_by("-version").first()


def _lines(found: Statement) -> QuerySet[StatementLine]:
    return StatementLine.objects.filter(statement=found).order_by("row_number")


def _after(keys: list[int]) -> int:
    return keys[PAGE - 1] if len(keys) > PAGE else 0
