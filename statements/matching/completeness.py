"""Whether what a receiver booked is what was settled here: of one statement, and of days of an account.

Over days the statements have to follow each other, too: where they name balances each has to begin with what the one
before ended with. Where they name none, only their days can be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise

from access.models import Tenant
from dispatch.minor import as_amount
from dispatch.models import Receiver
from statements.matching.queries import receiver_of
from statements.matching.running import settings_of
from statements.matching.sides import Scope, Side, currencies, side
from statements.models import Statement, StatementState
from statements.queries import statement


@dataclass(frozen=True, slots=True)
class Completeness:
    """Of one statement; `side` is None where its lines do not count, or have several currencies."""

    statement: Statement
    scope: Scope | None
    side: Side | None
    balances: tuple[Decimal, Decimal, Decimal] | None
    """Opening, closing, and by how much opening and lines miss the closing; None where the file has no balances."""


@dataclass(frozen=True, slots=True)
class Link:
    """How a statement follows the one before it: "continuous", "gap", "overlap" or "unknown", in a sentence."""

    earlier: Statement
    later: Statement
    found: str
    sentence: str
    apart: Decimal | None = None
    """By how much the opening balance is off the closing one before it."""


@dataclass(frozen=True, slots=True)
class Period:
    """Days of an account at a receiver: a side for each currency, its statements, and how they follow each other."""

    receiver: Receiver
    scope: Scope
    sides: Sequence[Side]
    statements: Sequence[Statement]
    links: Sequence[Link]
    accounts: Sequence[str]
    uncovered: str
    """Which days at either end no statement reaches, in a sentence, or ""."""

    @property
    def follows(self) -> bool:
        """Whether each statement goes on where the one before ended."""
        return all(link.found == "continuous" for link in self.links)


def of_statement(statement_id: int) -> Completeness:
    """Of one applied statement; of another, and of one in several currencies, without sums. Raises NoSuchStatement."""
    found = statement(statement_id)
    if found.state != StatementState.APPLIED or found.first_booked_on is None:
        return Completeness(found, None, None, None)
    assert found.last_booked_on is not None
    _, settings = settings_of(found.receiver_id)
    scope = Scope(
        found.receiver_id, found.account, settings.direction, found.first_booked_on, found.last_booked_on,
        _zone(found), found.pk,
    )  # fmt: skip
    if not found.currency:
        return Completeness(found, scope, None, None)
    return Completeness(found, scope, side(scope, found.currency), _balances(found))


def of_period(
    receiver_id: int, *, account: str | None = None, first: date | None = None, last: date | None = None
) -> Period | None:
    """Of days of an account; what is not said is that of the account's latest statement. None without an applied one.

    Raises NoSuchReceiver.
    """
    receiver = receiver_of(receiver_id)
    applied = Statement.objects.filter(
        receiver=receiver, state=StatementState.APPLIED, first_booked_on__isnull=False
    )
    accounts = sorted(set(applied.values_list("account", flat=True)))
    latest = applied if account is None else applied.filter(account=account)
    newest = latest.select_related("mapping").order_by("-last_booked_on", "-pk").first()
    if newest is None or newest.first_booked_on is None or newest.last_booked_on is None:
        return None
    _, settings = settings_of(receiver_id)
    begins, ends = first or newest.first_booked_on, last or newest.last_booked_on
    scope = Scope(
        receiver_id, newest.account, settings.direction, min(begins, ends), max(begins, ends), _zone(newest)
    )
    reached = list(
        applied.filter(
            account=newest.account, first_booked_on__lte=scope.last, last_booked_on__gte=scope.first
        ).order_by("first_booked_on", "last_booked_on", "pk")
    )
    return Period(
        receiver,
        scope,
        [side(scope, currency) for currency in currencies(scope)],
        reached,
        links(reached),
        accounts,
        _uncovered(scope, reached),
    )


def links(statements: Sequence[Statement]) -> list[Link]:
    """How statements of one account, in the order of their days, follow each other."""
    return [_link(a, b) for a, b in pairwise(statements)]


def _link(earlier: Statement, later: Statement) -> Link:
    assert earlier.last_booked_on is not None
    assert later.first_booked_on is not None
    between = f"{earlier.label} and {later.label}"
    if later.first_booked_on <= earlier.last_booked_on:
        shared = _days(later.first_booked_on, min(earlier.last_booked_on, later.last_booked_on or date.max))
        told = f"{between} both have {shared}. A line that both have counts once; their balances do not follow each other."
        return Link(earlier, later, "overlap", told)
    missed = _days(earlier.last_booked_on + timedelta(days=1), later.first_booked_on - timedelta(days=1))
    if earlier.closing is None or later.opening is None or earlier.currency != later.currency:
        without = f"Between {between} stands no balance to compare"
        next_day = later.first_booked_on == earlier.last_booked_on + timedelta(days=1)
        told = f"{without}." if next_day else f"{without}, and neither has {missed}."
        return Link(earlier, later, "unknown", told)
    apart = later.opening - earlier.closing
    if apart:
        told = f"{later.label} does not begin with what {earlier.label} ends with: something is missing between them."
        return Link(earlier, later, "gap", told, as_amount(apart, later.currency))
    return Link(earlier, later, "continuous", f"{later.label} begins with what {earlier.label} ends with.")


def _uncovered(scope: Scope, statements: Sequence[Statement]) -> str:
    if not statements:
        return "No statement has any of these days."
    day = timedelta(days=1)
    begin = min(s.first_booked_on for s in statements if s.first_booked_on)
    end = max(s.last_booked_on for s in statements if s.last_booked_on)
    missed = [_days(scope.first, begin - day)] if begin > scope.first else []
    missed += [_days(end + day, scope.last)] if end < scope.last else []
    return f"No line of a statement is of {' or '.join(missed)}." if missed else ""


def _days(first: date, last: date) -> str:
    return f"{first:%-d %b %Y}" if first == last else f"{first:%-d %b %Y} to {last:%-d %b %Y}"


def _zone(found: Statement) -> str:
    """Whose days its days are: those of its mapping, or the organisation's."""
    if found.mapping is not None:
        return str(found.mapping.terms["time_zone"])
    return str(Tenant.objects.values_list("time_zone", flat=True).get(pk=found.tenant_id))


def _balances(found: Statement) -> tuple[Decimal, Decimal, Decimal] | None:
    if found.opening is None or found.closing is None:
        return None
    missed = found.closing - (found.opening + found.amount_in - found.amount_out)
    opening, closing, off = (as_amount(m, found.currency) for m in (found.opening, found.closing, missed))
    return opening, closing, off
