"""What a policy says, as one value: levels, limits, sums, times. Pure; `Policy.rules` holds its canonical JSON.

RuleSet(quorum=2, limit_amount="20000.00", limit_currency="EUR")           # the short form
RuleSet(levels=[Level(quorum=1), Level(name="controller", group="controllers")],
        limits=[Limit(person="m.okafor", amount="50000.00", currency="EUR"), Limit(amount="5000.00", currency="EUR")],
        rates={"USD/EUR": "0.92"})
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from access.roles import Role
from workflows.authoring import Amount, Currency
from workflows.authoring.values import check_decimals

MINUTES = 366 * 24 * 60
MOST_PEOPLE = 20


def _one_line(name: str) -> str:
    """Without line breaks and characters that nobody sees: a name is looked for as it is read."""
    if not name.isprintable():
        raise ValueError("is not one line of text without hidden characters")
    return name


Name = Annotated[str, StringConstraints(strip_whitespace=True, max_length=80), AfterValidator(_one_line)]
Minutes = Annotated[int, Field(ge=1, le=MINUTES)]
Days = Annotated[int, Field(ge=0, le=366)]
Rate = Annotated[Decimal, Field(gt=0, max_digits=18, decimal_places=9)]
Pair = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}/[A-Z]{3}$")]


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Level(_Rule):
    """One round of signatures. Whoever signs is a manager; `role` and `group` ask for more. `quorum`: distinct people."""

    name: Name = ""
    role: Role = Role.MANAGER
    group: Name = ""
    quorum: Annotated[int, Field(ge=1, le=MOST_PEOPLE)] = 1


class Money(_Rule):
    """An amount of one currency, in no more decimals than it has."""

    amount: Amount
    currency: Currency

    @model_validator(mode="after")
    def _decimals(self) -> Self:
        if self.amount < 0:
            raise ValueError("an amount to compare with is not below zero")
        check_decimals(self.amount, self.currency)
        return self


class Limit(Money):
    """What one approval may be about at most. The narrowest that fits holds: a person's before a group's before
    everybody's, and one for a workflow before one for all."""

    person: Name = ""
    group: Name = ""
    workflow: Name = ""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.person and self.group:
            raise ValueError("a limit is for a person or for a group, not for both")
        return self


class SumLimit(Money):
    """What all approvals under the policy may add up to: of everything, to one recipient, or by one approver.

    `days`: calendar days of the tenant's time zone, today's included.
    """

    per: Literal["policy", "recipient", "approver"] = "policy"
    days: Annotated[int, Field(ge=1, le=366)] = 1


class When(_Rule):
    """A moment in a proposal's time: minutes after it was asked, minutes before its expiry, or a time of a later day."""

    after_minutes: Minutes | None = None
    before_expiry_minutes: Minutes | None = None
    days: Days | None = None
    at: time | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.days is None) != (self.at is None):
            raise ValueError("a later day needs its time, as in days = 1, at = 09:00")
        given = [v for v in (self.after_minutes, self.before_expiry_minutes, self.days) if v is not None]
        if len(given) != 1:
            raise ValueError("say one of after_minutes, before_expiry_minutes, or days with at")
        if self.at is not None and self.at.tzinfo is not None:
            raise ValueError("the time is the tenant's own; write it without a zone")
        return self

    def moment(self, asked: datetime, expires: datetime, zone: ZoneInfo) -> datetime:
        """The moment itself. Minutes are elapsed time; a time of day is the wall clock's, across clock changes too."""
        if self.after_minutes is not None:
            return _utc(asked) + timedelta(minutes=self.after_minutes)
        if self.before_expiry_minutes is not None:
            return _utc(expires) - timedelta(minutes=self.before_expiry_minutes)
        assert self.days is not None
        assert self.at is not None
        return wall_clock(asked, self.days, self.at, zone)


class Escalation(When):
    """Somebody more is told at a moment; with `may_decide` they may sign the open level from then on, too."""

    person: Name = ""
    group: Name = ""
    role: Role | None = None
    may_decide: bool = False

    @model_validator(mode="after")
    def _to_somebody(self) -> Self:
        if sum(map(bool, (self.person, self.group, self.role))) != 1:
            raise ValueError("an escalation goes to one of a person, a group or a role")
        return self

    @property
    def to(self) -> str:
        return self.person or (f"group {self.group}" if self.group else f"every {self.role}")


class RuleSet(_Rule):
    """The whole of one policy. Short forms: `quorum` for one level, `limit_amount` with `limit_currency` for one limit."""

    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=5)] = (Level(),)
    four_eyes: bool = True
    expires_after_minutes: Minutes = 24 * 60
    expires_days: Days | None = None
    expires_at: time | None = None
    limits: Annotated[tuple[Limit, ...], Field(max_length=200)] = ()
    rates: Annotated[dict[Pair, Rate], Field(max_length=100)] = Field(default_factory=dict)
    sums: Annotated[tuple[SumLimit, ...], Field(max_length=20)] = ()
    reauthenticate: Literal["never", "above", "always"] = "never"
    reauthenticate_above: Money | None = None
    bulk: bool = False
    reminders: Annotated[tuple[When, ...], Field(max_length=20)] = ()
    escalation: Annotated[tuple[Escalation, ...], Field(max_length=20)] = ()
    waives_approval: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        value = dict(given)
        if "quorum" in value:
            if "levels" in value:
                raise ValueError("say quorum, or levels with a quorum each, not both")
            value["levels"] = [{"quorum": value.pop("quorum")}]
        amount, currency = value.pop("limit_amount", None), value.pop("limit_currency", None) or None
        if (amount is None) != (currency is None):
            raise ValueError("a limit needs an amount and a currency together")
        if amount is not None:
            limits = value.get("limits", ())
            if not isinstance(limits, list | tuple):
                raise ValueError("limits has to be a list")
            value["limits"] = [*limits, {"amount": amount, "currency": currency}]
        return value

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.expires_days is None) != (self.expires_at is None):
            raise ValueError("an expiry by the clock needs expires_days and expires_at together")
        if self.expires_at is not None and self.expires_at.tzinfo is not None:
            raise ValueError("the time of the expiry is the tenant's own; write it without a zone")
        if (self.reauthenticate == "above") != (self.reauthenticate_above is not None):
            raise ValueError('reauthenticate = "above" and reauthenticate_above go together')
        if self.waives_approval and (self.limits or self.escalation or self.reminders):
            raise ValueError(
                "a policy that waives approval asks nobody, so it has no limits, reminders or escalation"
            )
        if self.waives_approval and any(s.per == "approver" for s in self.sums):
            raise ValueError("a policy that waives approval has no approver to add up for")
        return self

    @property
    def quorum(self) -> int:
        """Signatures over all levels; 0 where approval is waived."""
        return 0 if self.waives_approval else sum(level.quorum for level in self.levels)

    def for_two(self) -> RuleSet:
        """The same, asking for two signatures at least: one more in the last level, two managers where nobody is asked."""
        if self.waives_approval:
            return self.model_copy(update={"waives_approval": False, "levels": (Level(quorum=2),)})
        if self.quorum >= 2:
            return self
        (level,) = self.levels
        return self.model_copy(update={"levels": (level.model_copy(update={"quorum": 2}),)})

    def expiry(self, frozen: datetime, zone: ZoneInfo) -> datetime:
        """When a proposal frozen at a moment expires."""
        if self.expires_days is None or self.expires_at is None:
            return _utc(frozen) + timedelta(minutes=self.expires_after_minutes)
        by_clock = wall_clock(frozen, self.expires_days, self.expires_at, zone)
        # A proposal of the evening whose day's hour is over has until the next day's.
        return (
            by_clock
            if by_clock > frozen
            else wall_clock(frozen, self.expires_days + 1, self.expires_at, zone)
        )


def wall_clock(start: datetime, days: int, at: time, zone: ZoneInfo) -> datetime:
    """`at` on the day `days` after `start`'s, by the zone's wall clock. A time that a clock change leaves out is taken
    after the gap; one that comes twice, the first time."""
    day = start.astimezone(zone).date() + timedelta(days=days)
    # Through UTC and back: of a time that does not exist this makes the one after the gap.
    return datetime.combine(day, at, zone).astimezone(UTC)


def _utc(at: datetime) -> datetime:
    """In UTC, where adding minutes is elapsed time; in a zone it would be the wall clock's."""
    return at.astimezone(UTC)


def convert(amount: Decimal, currency: str, to: str, rates: dict[str, Decimal]) -> Decimal | None:
    """An amount in another currency by the policy's own rate, unrounded; None without one."""
    if currency == to:
        return amount
    rate = rates.get(f"{currency}/{to}")
    return None if rate is None else amount * rate
