"""What the screens read about matching. Every query needs the tenant's scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import F, Q

from dispatch.locks import NoSuchReceiver
from dispatch.models import Receiver
from statements.matching import candidates, making, parts
from statements.matching.asides import aside_of, unclaimed
from statements.matching.candidates import NoSuchLine, Offer
from statements.matching.comparing import money
from statements.matching.ladder import NAMES, Tier
from statements.matching.models import (
    DifferenceKind,
    Finding,
    Match,
    MatchingSettings,
    MatchRun,
    Says,
    SetAside,
    Tally,
    Unmatch,
)
from statements.matching.running import settings_of
from statements.matching.settings import Settings
from statements.models import Statement, StatementLine, StatementState
from statements.queries import PAGE, LineView


@dataclass(frozen=True, slots=True)
class OfStatement:
    """How far the lines of an applied statement are matched. `share`: of 300, drawn to scale."""

    run: MatchRun | None
    matched: int
    aside: int
    unclaimed: int
    share: str

    @property
    def walking(self) -> bool:
        return self.run is not None and self.run.ended_at is None

    @property
    def walked(self) -> int:
        """How much of the walk is done, in percent."""
        if self.run is None or not self.run.to_look_at:
            return 0
        return min(99, 100 * self.run.looked_at // self.run.to_look_at)


@dataclass(frozen=True, slots=True)
class MatchView:
    """One match with its words and what came of it. `operations`: a match of each operation in its set."""

    match: Match
    together: Sequence[Match]
    effect: str
    unmatch: Unmatch | None

    @property
    def operations(self) -> list[Match]:
        return list({m.operation_id: m for m in reversed(self.together)}.values())[::-1]

    @property
    def further(self) -> list[StatementLine]:
        """The lines that it was matched together with."""
        others = [] if self.match.partial else self.together  # parts come one after the other
        lines = {m.line_id: m.line for m in others if m.line_id != self.match.line_id}
        return [lines[pk] for pk in sorted(lines)]

    @property
    def in_part(self) -> str:
        """Of a line that is a part: what of its operation is matched by now, or ""."""
        return parts.said(self.match.operation) if self.match.partial else ""

    @property
    def apart(self) -> str:
        """What was booked beside what was approved, in words, or ""."""
        off = sum(m.apart for m in self.together)
        if not off:
            return ""
        return (
            f"{money(abs(off), self.match.line.currency)} {'more' if off > 0 else 'less'} than was approved"
        )

    @property
    def apart_as(self) -> str:
        kind = self.match.apart_as
        return (
            "something else"
            if kind == DifferenceKind.OTHER
            else f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"
        )

    @property
    def rung(self) -> str:
        return NAMES[Tier(self.match.tier)]

    @property
    def by(self) -> str:
        return self.match.made_by.username if self.match.made_by is not None else "the machine"


@dataclass(frozen=True, slots=True)
class LinePage:
    """One line: what it says, what it is matched with or could be, what was taken back, and where it differs."""

    view: LineView
    statement: Statement
    standing: MatchView | None
    earlier: Sequence[MatchView]
    differing: Sequence[Finding]
    aside: SetAside | None
    offer: Offer | None


@dataclass(frozen=True, slots=True)
class ReceiverPage:
    """How far the ladder goes for a receiver, and its walks."""

    receiver: Receiver
    version: int
    settings: Settings
    written: MatchingSettings | None
    runs: Sequence[MatchRun]
    unclaimed: Sequence[tuple[Statement, int]]


def of_statement(statement: Statement) -> OfStatement | None:
    """None where its lines do not count."""
    if statement.state != StatementState.APPLIED:
        return None
    of_it = Q(statement=statement) | Q(receiver=statement.receiver_id, statement__isnull=True)
    run = MatchRun.objects.filter(of_it).order_by("-pk").first()
    matched, aside = Tally.objects.values_list("lines", "aside").get(statement=statement)
    share = f"{300 * matched / statement.lines:.1f}" if statement.lines else "0"
    return OfStatement(run, matched, aside, statement.lines - matched - aside, share)


def unclaimed_lines(statement_id: int, *, after: int = 0) -> tuple[list[LineView], int]:
    """A page of the lines that nobody has claimed, and the row to go on behind, or 0."""
    rows = unclaimed().filter(statement=statement_id, row_number__gt=after).order_by("row_number")
    found = list(rows[: PAGE + 1])
    return [LineView(line) for line in found[:PAGE]], found[PAGE - 1].row_number if len(found) > PAGE else 0


def line_page(line_id: int) -> LinePage:
    """One line of an applied statement. Raises NoSuchLine."""
    line = StatementLine.objects.select_related("statement__receiver").filter(pk=line_id).first()
    if line is None or line.statement.state != StatementState.APPLIED:
        raise NoSuchLine(f"There is no line {line_id} of an applied statement here.")
    views = _matches_of(Q(line=line))
    standing = next((v for v in views if v.match.unmade_at is None), None)
    differing = (
        Finding.objects.filter(line=line, says=Says.DIFFERS).select_related("operation").order_by("pk")
    )
    aside = aside_of(line_id)
    return LinePage(
        LineView(line),
        line.statement,
        standing,
        [v for v in views if v.match.unmade_at is not None],
        list(differing),
        aside,
        candidates.for_line(line_id) if standing is None and aside is None else None,
    )


def receiver_of(receiver_id: int) -> Receiver:
    """One. Raises NoSuchReceiver."""
    receiver = Receiver.objects.filter(pk=receiver_id).first()
    if receiver is None:
        raise NoSuchReceiver(f"There is no receiver {receiver_id} here.")
    return receiver


def receiver_page(receiver_id: int) -> ReceiverPage:
    """How a receiver's lines are matched. Raises NoSuchReceiver."""
    receiver = receiver_of(receiver_id)
    version, settings = settings_of(receiver_id)
    written = (
        MatchingSettings.objects.filter(receiver=receiver, version=version)
        .select_related("written_by")
        .first()
    )
    runs = (
        MatchRun.objects.filter(receiver=receiver)
        .select_related("asked_by", "statement")
        .order_by("-pk")[:10]
    )
    return ReceiverPage(receiver, version, settings, written, list(runs), with_unclaimed(receiver_id))


def with_unclaimed(receiver_id: int, *, most: int = 50) -> list[tuple[Statement, int]]:
    """Applied statements with lines that nobody has claimed, and how many, the newest first."""
    applied = Statement.objects.filter(receiver=receiver_id, state=StatementState.APPLIED).order_by("-pk")
    settled = Tally.objects.filter(statement__in=applied).annotate(settled=F("lines") + F("aside"))
    tallies = dict(settled.values_list("statement_id", "settled"))
    found = [(s, s.lines - tallies[s.pk]) for s in applied.select_related("receiver")[:500]]
    return [(s, left) for s, left in found if left > 0][:most]


def matches_of_operation(operation_id: int) -> list[MatchView]:
    """Every match that an operation has or had, the one that stands first."""
    return _matches_of(Q(operation=operation_id))


def amount_of(match: Match) -> Decimal:
    """What of the line is this operation's."""
    return LineView(match.line).amount


def _matches_of(which: Q) -> list[MatchView]:
    rows = Match.objects.filter(which).select_related(
        "operation__receiver", "line__statement", "made_by", "second"
    )
    views: dict[str, MatchView] = {}
    for match in rows.order_by("-unmade_at", "line_place", "operation_place", "pk"):
        key = match.together or str(match.pk)
        if key not in views:
            together = making.set_of(match)
            unmatch = Unmatch.objects.filter(match__in=together).select_related("unmade_by").first()
            finding = Finding.objects.filter(match=match).first()
            effect = "corroborated" if finding is None else finding.effect
            views[key] = MatchView(match, together, effect, unmatch)
    return list(views.values())
