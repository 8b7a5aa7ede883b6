"""What one person may approve at most, by the narrowest rule that fits. Money of two currencies is never compared
without a rate that the policy itself names. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal, localcontext

from access.directory import Member
from approvals.objections import OverLimit
from approvals.ruleset import Limit, Money, RuleSet, convert


def limits_for(member: Member, workflow: str, rules: RuleSet) -> list[Limit] | None:
    """The limits that hold for a person and a workflow: the narrowest kind that fits. None where the policy has none."""
    if not rules.limits:
        return None
    fitting = [(rank, one) for one in rules.limits if (rank := _rank(one, member, workflow)) is not None]
    narrowest = max((rank for rank, _ in fitting), default=0)
    return [one for rank, one in fitting if rank == narrowest]


def over_limit(
    amounts: Iterable[tuple[Decimal, str]], limits: Iterable[Money] | None, rates: dict[str, Decimal]
) -> OverLimit | None:
    """Why the amounts do not fit under the limits, or None. Of several in one currency the highest holds."""
    if limits is None:
        return None
    limits = list(limits)
    for amount, currency in amounts:
        if not limits:
            return OverLimit("The policy names no limit for you, so you may not approve an amount under it.")
        limit = _limit_in(currency, limits, rates)
        if limit is None:
            named = " or ".join(dict.fromkeys(one.currency for one in limits))
            return OverLimit(
                f"The limit is in {named} and this is in {currency}: they are never compared without a rate,"
                " and the policy names none, so nobody may approve it under this limit."
            )
        converted = convert(abs(amount), currency, limit.currency, rates)
        if converted is not None and converted > limit.amount:
            return OverLimit(
                f"This is above the limit of {limit.amount:,.2f} {limit.currency} for an approval."
            )
    return None


def most_allowed(currency: str, limits: Iterable[Money], rates: dict[str, Decimal]) -> Decimal | None:
    """No more of a currency than this fits under the limits, to four decimals upwards; None where none of it does."""
    limit = _limit_in(currency, list(limits), rates)
    if limit is None or limit.currency == currency:
        return None if limit is None else limit.amount
    with localcontext(rounding=ROUND_CEILING):
        most = limit.amount / rates[f"{currency}/{limit.currency}"]
    return most.quantize(Decimal("0.0001"), ROUND_CEILING, Context(prec=60))


def _limit_in(currency: str, limits: list[Money], rates: dict[str, Decimal]) -> Money | None:
    same = [one for one in limits if one.currency == currency]
    comparable = same or [one for one in limits if f"{currency}/{one.currency}" in rates]
    first = next(iter(comparable), None)
    if first is None:
        return None
    return max((one for one in comparable if one.currency == first.currency), key=lambda one: one.amount)


def _rank(limit: Limit, member: Member, workflow: str) -> int | None:
    """How narrow a limit that fits is; None where it does not fit."""
    if (limit.person and limit.person != member.handle) or (limit.group and limit.group not in member.groups):
        return None
    if limit.workflow and limit.workflow != workflow:
        return None
    return (4 if limit.person else 2 if limit.group else 0) + bool(limit.workflow)


def asks_again(rules: RuleSet, amounts: Iterable[tuple[Decimal, str]]) -> bool:
    """Whether a policy asks for the password again. An amount that cannot be compared with its threshold does ask."""
    if rules.reauthenticate != "above":
        return rules.reauthenticate == "always"
    above = rules.reauthenticate_above
    assert above is not None
    for amount, currency in amounts:
        converted = convert(abs(amount), currency, above.currency, rules.rates)
        if converted is None or converted > above.amount:
            return True
    return False


def why_again(rules: RuleSet) -> str:
    """What is said where a policy asks for the password again."""
    above = rules.reauthenticate_above
    if above is None:
        return "The policy asks for your password again before each approval."
    return f"The policy asks for your password again above {above.amount:,.2f} {above.currency}."
