"""What a policy says, in sentences: for its page, the slip, the command and the comparison of two. Pure.

Signatures   First one manager, then two managers of the group controllers.
Limits       m.okafor approves up to 50,000.00 EUR.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from num2words import num2words

from access.roles import Role
from approvals.ruleset import Escalation, Level, Limit, RuleSet, SumLimit, When
from web.amounts import sign_and_figures

HOUR, DAY = 60, 24 * 60


@dataclass(frozen=True, slots=True)
class Told:
    """One rule: what it is about, and what it says; nothing where the policy says nothing about it."""

    rule: str
    sentences: tuple[str, ...]


def told(rules: RuleSet) -> list[Told]:
    """Every rule that says something, in the order in which people ask."""
    return [one for one in whole(rules) if one.sentences]


def whole(rules: RuleSet) -> list[Told]:
    """Every kind of rule, those that say nothing too: the places that a comparison goes through."""
    return [
        Told("Signatures", (_signatures(rules),)),
        Told("Four eyes", (_four_eyes(rules),)),
        Told("Limits", tuple(_limits(rules))),
        Told("Rates", tuple(_rates(rules))),
        Told("Sums", tuple(_sum(one) for one in rules.sums)),
        Told("Expiry", (f"It expires {_expiry(rules)}.",)),
        Told("Password", (_password(rules),)),
        Told("Together", (_together(rules),)),
        Told("Reminders", tuple(f"Whoever can sign is reminded {moment(one)}." for one in rules.reminders)),
        Told("Escalation", tuple(_escalation(one) for one in rules.escalation)),
    ]


def in_a_line(rules: RuleSet) -> str:
    """The heart of it, for a list: who signs, and up to which amount."""
    if rules.waives_approval:
        return "Nobody is asked"
    *before, last = rules.levels
    parts = [_level(last)]
    if before:
        parts.append("after " + " and ".join(_level(one) for one in before))
    line = _capital(", ".join(parts))
    most = [one for one in rules.limits if not (one.person or one.group)]
    if not rules.limits:
        return line
    if len(rules.limits) == 1 and most:
        return f"{line}; up to {figures(most[0].amount, most[0].currency)} each{_in_workflow(most[0])}"
    return f"{line}; {_number(len(rules.limits))} limits by person, group or workflow"


def figures(amount: Decimal, currency: str) -> str:
    """20,000.00 EUR: the amount with the decimals of its currency."""
    return f"{sign_and_figures(amount, currency)[1]} {currency}"


def moment(when: When) -> str:
    """ "30 minutes before it expires", "at 09:00 on the next day"."""
    if when.after_minutes is not None:
        return f"{minutes(when.after_minutes)} after it is asked"
    if when.before_expiry_minutes is not None:
        return f"{minutes(when.before_expiry_minutes)} before it expires"
    assert when.at is not None
    return f"at {when.at:%H:%M} {_day(when.days or 0)}"


def minutes(number: int) -> str:
    """90 minutes, 24 hours, 7 days: the largest unit that leaves nothing over."""
    if number % DAY == 0 and number > DAY:
        return f"{number // DAY} days"
    if number % HOUR == 0:
        return _several(number // HOUR, "hour")
    return _several(number, "minute")


def level_in_words(level: Level) -> str:
    """Two managers of the group controllers."""
    return _capital(_level(level))


def _signatures(rules: RuleSet) -> str:
    if rules.waives_approval:
        return "Nobody is asked: the policy itself approves."
    if len(rules.levels) == 1:
        one = rules.levels[0]
        verb = "signs" if one.quorum == 1 else "sign"
        return f"{_capital(_level(one))} {verb}{_called(one)}."
    steps = [f"{_level(one)}{_called(one)}" for one in rules.levels]
    return f"First {', then '.join(steps)}. Nobody signs twice."


def _level(level: Level) -> str:
    who = "manager" if level.quorum == 1 else "managers"
    also = "" if level.role is Role.MANAGER else f" who {_be(level.quorum)} also {level.role}"
    group = f" of the group {level.group}" if level.group else ""
    return f"{_number(level.quorum)} {who}{group}{also}"


def _called(level: Level) -> str:
    return f" (“{level.name}”)" if level.name else ""


def _four_eyes(rules: RuleSet) -> str:
    if rules.four_eyes:
        return "Nobody signs what they started, corrected or had a hand in."
    return "Whoever started a job may sign it too."


def _limits(rules: RuleSet) -> Iterator[str]:
    for one in rules.limits:
        yield f"{_whose(one)} up to {figures(one.amount, one.currency)}{_in_workflow(one)}."
    if rules.limits and not any(not (one.person or one.group or one.workflow) for one in rules.limits):
        yield "Where none of these fits, no amount can be approved."


def _whose(limit: Limit) -> str:
    if limit.person:
        return f"{limit.person} approves"
    if limit.group:
        return f"Members of the group {limit.group} approve"
    return "Everybody else approves" if limit.workflow else "Everybody approves"


def _in_workflow(limit: Limit) -> str:
    return f" in {limit.workflow}" if limit.workflow else ""


def _rates(rules: RuleSet) -> Iterator[str]:
    for pair, rate in sorted(rules.rates.items()):
        own, to = pair.split("/")
        yield f"1 {own} counts as {rate.normalize():f} {to}."
    if rules.limits or rules.sums or rules.reauthenticate_above:
        yield (
            "No other rate is named, so amounts of other currencies are never compared."
            if rules.rates
            else "No rate is named, so amounts of two currencies are never compared."
        )


def _sum(one: SumLimit) -> str:
    days = "one day" if one.days == 1 else f"{one.days} days"
    what = {
        "policy": "All approvals",
        "recipient": "What one recipient gets",
        "approver": "What one person approves",
    }[one.per]
    verb = "come" if one.per == "policy" else "comes"
    return f"{what} in {days} {verb} to at most {figures(one.amount, one.currency)}."


def _expiry(rules: RuleSet) -> str:
    if rules.expires_days is None or rules.expires_at is None:
        return f"{minutes(rules.expires_after_minutes)} after it is asked"
    if rules.expires_days == 0:
        return f"at {rules.expires_at:%H:%M} on the same day, or on the next where that hour is over"
    return f"at {rules.expires_at:%H:%M} {_day(rules.expires_days)}"


def _password(rules: RuleSet) -> str:
    if rules.reauthenticate == "always":
        return "Whoever approves enters their password again."
    if rules.reauthenticate_above is not None:
        above = figures(rules.reauthenticate_above.amount, rules.reauthenticate_above.currency)
        return f"Above {above}, and where no rate compares, whoever approves enters their password again."
    return "Nobody is asked for their password again."


def _together(rules: RuleSet) -> str:
    if rules.bulk:
        return "It may be approved together with others."
    return "Each is approved by itself."


def _escalation(one: Escalation) -> str:
    may = ", and may sign from then on" if one.may_decide else ""
    who = one.person or (f"the group {one.group}" if one.group else f"every {one.role}")
    return f"{_capital(moment(one))} {who} is told{may}."


def _day(days: int) -> str:
    return {0: "on the same day", 1: "on the next day"}.get(days, f"{_number(days)} days later")


def _several(number: int, unit: str) -> str:
    return f"one {unit}" if number == 1 else f"{number} {unit}s"


def _number(number: int) -> str:
    return str(num2words(number, lang="en")) if number <= 20 else str(number)


def _be(quorum: int) -> str:
    return "is" if quorum == 1 else "are"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
