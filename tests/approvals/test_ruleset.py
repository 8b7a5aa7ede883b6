"""What a policy can say, as values: short forms, contradictions, moments across clock changes, money across currencies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from access.directory import Member
from access.roles import Role
from approvals.limits import asks_again, limits_for, over_limit
from approvals.policies import BadPolicy, read_rules, text_of
from approvals.ruleset import RuleSet, When, convert

BERLIN = ZoneInfo("Europe/Berlin")
MIA = Member(1, "mia", frozenset({Role.MANAGER}), frozenset({"controllers"}), away=False)
MAX = Member(2, "max", frozenset({Role.MANAGER}), frozenset(), away=False)


def test_the_short_form_is_one_level_and_one_limit() -> None:
    rules = read_rules({"quorum": 2, "limit_amount": "20000.00", "limit_currency": "EUR"})
    assert [level.quorum for level in rules.levels] == [2]
    assert [(one.amount, one.currency) for one in rules.limits] == [(Decimal("20000.00"), "EUR")]
    assert read_rules(rules.model_dump()) == rules == RuleSet.model_validate_json(text_of(rules))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"quorum": 1, "levels": [{"quorum": 1}]}, "not both"),
        ({"quorum": 0}, "levels.1.quorum has to be at least 1"),
        ({"limit_amount": "5"}, "amount and a currency together"),
        ({"limits": [{"amount": "1.001", "currency": "EUR"}]}, "more decimals"),
        ({"limits": [{"amount": "1e3", "currency": "EUR"}]}, "as text with a point"),
        ({"limits": [{"amount": "-1.00", "currency": "EUR"}]}, "not below zero"),
        ({"limits": [{"person": "a", "group": "b", "amount": "1", "currency": "EUR"}]}, "not for both"),
        ({"rates": {"USD/EUR": "0"}}, "has to be more than 0"),
        ({"expires_days": 1}, "expires_days and expires_at together"),
        ({"reauthenticate": "above"}, "go together"),
        ({"reminders": [{"after_minutes": 1, "before_expiry_minutes": 1}]}, "say one of"),
        ({"reminders": [{"days": 1}]}, "needs its time"),
        ({"reminders": [{"days": 1, "at": "09:00+02:00"}]}, "without a zone"),
        ({"expires_days": 1, "expires_at": "09:00+02:00"}, "without a zone"),
        ({"limits": 5, "limit_amount": "1.00", "limit_currency": "EUR"}, "Limits has to be a list"),
        ({"escalation": [{"after_minutes": 5}]}, "goes to one of"),
        ({"waives_approval": True, "limits": [{"amount": "1", "currency": "EUR"}]}, "asks nobody"),
        ({"whatever": 1}, "is not known here"),
    ],
)
def test_what_contradicts_itself_is_refused_with_a_sentence(said: dict[str, Any], why: str) -> None:
    with pytest.raises(BadPolicy, match=why):
        read_rules(said)


@pytest.mark.parametrize(
    ("asked", "at", "moment"),
    [
        # The night in which 02:30 does not exist: the moment is taken after the gap.
        ("2026-03-28T12:00:00+01:00", "02:30", "2026-03-29T01:30:00+00:00"),
        # The night in which 02:30 comes twice: the first one.
        ("2026-10-24T12:00:00+02:00", "02:30", "2026-10-25T00:30:00+00:00"),
        ("2026-03-28T12:00:00+01:00", "09:00", "2026-03-29T07:00:00+00:00"),
        ("2026-10-24T12:00:00+02:00", "09:00", "2026-10-25T08:00:00+00:00"),
    ],
)
def test_a_time_of_day_is_the_wall_clocks_across_clock_changes(asked: str, at: str, moment: str) -> None:
    start = datetime.fromisoformat(asked)
    when = When.model_validate({"days": 1, "at": at})
    found = when.moment(start, start + timedelta(days=3), BERLIN)
    assert found == datetime.fromisoformat(moment)


def test_minutes_are_elapsed_time_across_clock_changes() -> None:
    start = datetime(2026, 3, 28, 12, tzinfo=BERLIN)
    rules = read_rules({"expires_after_minutes": 1440})
    assert rules.expiry(start, BERLIN).astimezone(BERLIN).hour == 13
    before = When(before_expiry_minutes=60).moment(start, rules.expiry(start, BERLIN), BERLIN)
    assert before - start.astimezone(UTC) == timedelta(hours=23)


def test_an_expiry_by_the_clock_that_is_over_today_is_the_next_days() -> None:
    rules = read_rules({"expires_days": 0, "expires_at": "17:00"})
    assert rules.expiry(datetime(2026, 6, 1, 9, tzinfo=BERLIN), BERLIN).astimezone(BERLIN).day == 1
    assert rules.expiry(datetime(2026, 6, 1, 17, tzinfo=BERLIN), BERLIN).astimezone(BERLIN).day == 2


def limits(*given: dict[str, str], rates: dict[str, str] | None = None) -> RuleSet:
    return read_rules({"limits": list(given), "rates": rates or {}})


def over(rules: RuleSet, member: Member, amount: str, currency: str = "EUR", workflow: str = "pay") -> bool:
    return (
        over_limit([(Decimal(amount), currency)], limits_for(member, workflow, rules), rules.rates)
        is not None
    )


def test_the_narrowest_limit_holds() -> None:
    rules = limits(
        {"amount": "100.00", "currency": "EUR"},
        {"amount": "500.00", "currency": "EUR", "group": "controllers"},
        {"amount": "50.00", "currency": "EUR", "person": "max"},
        {"amount": "900.00", "currency": "EUR", "person": "max", "workflow": "refund"},
        {"amount": "20.00", "currency": "EUR", "person": "max", "workflow": "advance"},
    )
    assert over(rules, MAX, "20.01", workflow="advance"), "a lower one for a workflow comes first, too"
    assert (over(rules, MIA, "500.00"), over(rules, MIA, "500.01")) == (False, True)
    assert (over(rules, MAX, "50.00"), over(rules, MAX, "50.01")) == (False, True)
    assert (
        over(rules, MAX, "900.00", workflow="refund"),
        over(rules, MAX, "-900.01", workflow="refund"),
    ) == (
        False,
        True,
    )


def test_money_of_two_currencies_is_compared_by_the_policys_own_rate_only() -> None:
    plain = limits({"amount": "100.00", "currency": "EUR"})
    assert over(plain, MIA, "1.00", "USD")
    rated = limits({"amount": "100.00", "currency": "EUR"}, rates={"USD/EUR": "0.92"})
    assert (over(rated, MIA, "108.69", "USD"), over(rated, MIA, "108.70", "USD")) == (False, True)
    assert over(rated, MIA, "1.00", "NOK")
    # The way back is another rate, which nobody named.
    assert convert(Decimal(1), "EUR", "USD", rated.rates) is None
    own = limits(
        {"amount": "100.00", "currency": "EUR"},
        {"amount": "10.00", "currency": "USD"},
        rates={"USD/EUR": "0.92"},
    )
    assert over(own, MIA, "10.01", "USD"), "a limit in the amount's own currency is used before a rate"


def test_somebody_whom_no_limit_names_may_approve_no_amount() -> None:
    rules = limits({"amount": "100.00", "currency": "EUR", "person": "max"})
    assert over(rules, MIA, "0.01")
    assert over_limit([], limits_for(MIA, "pay", rules), rules.rates) is None


def test_the_password_is_asked_for_above_an_amount_and_where_it_cannot_be_compared() -> None:
    rules = read_rules(
        {"reauthenticate": "above", "reauthenticate_above": {"amount": "100.00", "currency": "EUR"}}
    )
    assert not asks_again(rules, [(Decimal("100.00"), "EUR")])
    assert asks_again(rules, [(Decimal("100.01"), "EUR")])
    assert asks_again(rules, [(Decimal("0.01"), "USD")])
    assert not asks_again(rules, [])
    assert asks_again(read_rules({"reauthenticate": "always"}), [])
