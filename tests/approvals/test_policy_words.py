"""Policies as people read and write them: sentences, differences, and a text that comes back as it was, fault by fault."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.comparing import RuleDifference, compare
from approvals.policies import read_rules
from approvals.policy_text import Fault, faults_in, read, write
from approvals.ruleset import RuleSet
from approvals.telling import in_a_line, minutes, told

EVERYTHING: dict[str, Any] = {
    "levels": [
        {"quorum": 1},
        {"name": "controller", "group": "controllers", "quorum": 2, "role": "operator"},
    ],
    "four_eyes": False,
    "limits": [
        {"person": "m.okafor", "amount": "50000.00", "currency": "EUR"},
        {"group": "controllers", "amount": "9000", "currency": "JPY"},
        {"workflow": "letters", "amount": "5000.00", "currency": "EUR"},
    ],
    "rates": {"USD/EUR": "0.92"},
    "sums": [
        {"amount": "100.00", "currency": "EUR"},
        {"per": "recipient", "days": 30, "amount": "100.00", "currency": "EUR"},
        {"per": "approver", "amount": "100.00", "currency": "EUR"},
    ],
    "expires_days": 1,
    "expires_at": "17:00",
    "reauthenticate": "above",
    "reauthenticate_above": {"amount": "10.00", "currency": "EUR"},
    "bulk": True,
    "reminders": [{"before_expiry_minutes": 90}, {"days": 0, "at": "09:00"}],
    "escalation": [
        {"after_minutes": 60, "person": "p.quint"},
        {"days": 2, "at": "08:30", "group": "controllers", "may_decide": True},
        {"days": 1, "at": "08:30", "role": "admin"},
    ],
}
SAID = {
    "Signatures": (
        "First one manager, then two managers of the group controllers who are also operator (“controller”)."
        " Nobody signs twice.",
    ),
    "Four eyes": ("Whoever started a job may sign it too.",),
    "Limits": (
        "m.okafor approves up to 50,000.00 EUR.",
        "Members of the group controllers approve up to 9,000 JPY.",
        "Everybody else approves up to 5,000.00 EUR in letters.",
        "Where none of these fits, no amount can be approved.",
    ),
    "Rates": (
        "1 USD counts as 0.92 EUR.",
        "No other rate is named, so amounts of other currencies are never compared.",
    ),
    "Sums": (
        "All approvals in one day come to at most 100.00 EUR.",
        "What one recipient gets in 30 days comes to at most 100.00 EUR.",
        "What one person approves in one day comes to at most 100.00 EUR.",
    ),
    "Expiry": ("It expires at 17:00 on the next day.",),
    "Password": (
        "Above 10.00 EUR, and where no rate compares, whoever approves enters their password again.",
    ),
    "Together": ("It may be approved together with others.",),
    "Reminders": (
        "Whoever can sign is reminded 90 minutes before it expires.",
        "Whoever can sign is reminded at 09:00 on the same day.",
    ),
    "Escalation": (
        "One hour after it is asked p.quint is told.",
        "At 08:30 two days later the group controllers is told, and may sign from then on.",
        "At 08:30 on the next day every admin is told.",
    ),
}


def test_every_rule_is_said_in_words() -> None:
    assert {one.rule: one.sentences for one in told(read_rules(EVERYTHING))} == SAID
    plain = {one.rule: one.sentences for one in told(RuleSet())}
    assert plain == {
        "Signatures": ("One manager signs.",),
        "Four eyes": ("Nobody signs what they started, corrected or had a hand in.",),
        "Expiry": ("It expires 24 hours after it is asked.",),
        "Password": ("Nobody is asked for their password again.",),
        "Together": ("Each is approved by itself.",),
    }


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        ({}, "One manager"),
        ({"quorum": 2, "limit_amount": "20000.00", "limit_currency": "EUR"}, "Two managers; up to 20,000.00 EUR each"),
        ({"waives_approval": True}, "Nobody is asked"),
        ({"levels": [{}, {"group": "controllers", "quorum": 2}]}, "Two managers of the group controllers, after one manager"),
        ({"limits": EVERYTHING["limits"]}, "One manager; three limits by person, group or workflow"),
    ],
)  # fmt: skip
def test_a_policy_has_its_heart_in_a_line(rules: dict[str, Any], line: str) -> None:
    assert in_a_line(read_rules(rules)) == line


def test_spans_are_said_in_the_largest_unit_that_leaves_nothing_over() -> None:
    assert [minutes(n) for n in (1, 59, 60, 90, 1440, 2880, 2881)] == [
        "one minute", "59 minutes", "one hour", "90 minutes", "24 hours", "2 days", "2881 minutes",
    ]  # fmt: skip


def test_a_comparison_names_the_rules_that_differ_and_of_lists_only_what_does() -> None:
    before = read_rules(EVERYTHING)
    after = read_rules({**EVERYTHING, "bulk": False, "limits": EVERYTHING["limits"][1:]})
    assert compare(before, after) == [
        RuleDifference("Limits", ("m.okafor approves up to 50,000.00 EUR.",), (), 3),
        RuleDifference("Together", ("It may be approved together with others.",), ("Each is approved by itself.",), 0),
    ]  # fmt: skip
    assert compare(before, read_rules(EVERYTHING)) == []


def test_a_text_comes_back_as_the_rules_it_was_made_of() -> None:
    for rules in (read_rules(EVERYTHING), RuleSet(), read_rules({"waives_approval": True})):
        assert read(write(rules)) == rules


@given(name=st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_whatever_a_name_holds_it_comes_back_or_is_refused_before(name: str) -> None:
    rules = faults_in({"levels": [{"group": name}]})
    if isinstance(rules, RuleSet):
        assert read(write(rules)) == rules


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("x = \n", ["Line 1: this is not TOML: invalid value."]),
        (
            "[[levels]]\nquorum = 1\n[[levels]]\nquorum = 0\nfoo = 1",
            ["Line 4: levels.2.quorum has to be at least 1.", "Line 5: levels.2.foo is not known here; leave it out."],
        ),
        (
            "[[limits]]\namount = 5000.00\ncurrency = 'EUR'\nperson = 'a'\ngroup = 'b'",
            ["Line 1: limits.1: a limit is for a person or for a group, not for both."],
        ),
        (
            "[rates]\n'USD/EUR' = 0\nusd = 1",
            ["Line 2: rates.USD/EUR has to be more than 0.",
             "Line 3: rates.usd has to be 3 capital letters, then one slash, then 3 capital letters."],
        ),
        ("expires_days = 1", ["An expiry by the clock needs expires_days and expires_at together."]),
        ("x" * 100_001, ["A policy has at most 100,000 characters."]),
    ],
)  # fmt: skip
def test_each_fault_is_named_with_its_line(text: str, faults: list[str]) -> None:
    found = read(text)
    assert isinstance(found, list)
    assert [fault.words for fault in found] == faults


def test_figures_stay_as_they_were_typed() -> None:
    found = read("[[limits]]\namount = 20000.10\ncurrency = 'EUR'")
    assert isinstance(found, RuleSet)
    assert str(found.limits[0].amount) == "20000.10"


def test_of_many_faults_twenty_are_told() -> None:
    found = faults_in({"limits": [{} for _ in range(100)]})
    assert isinstance(found, list)
    assert len(found) == 20
    assert found[0] == Fault(("limits", 0, "amount"), "is missing; give it")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("quorum = " + "[\n" * 40_000, "This is not TOML that can be read: it is nested too deep."),
        ("quorum = 1\na = " + "9" * 5000, "Line 2: a line has at most 1,000 characters."),
        ("a" + ".a" * 45_000 + " = 1", "Line 1: a line has at most 1,000 characters."),
        ("[" + ".".join("a" * 40_000) + "]", "Line 1: a line has at most 1,000 characters."),
        ("[[levels]]\n" * 9000, "Line 1: levels has too many entries; give at most 5."),
    ],
    ids=["deep", "digits", "dotted", "header", "rows"],
)
def test_a_text_that_was_made_to_take_long_is_answered_at_once(text: str, words: str) -> None:
    """Anybody who is signed in can have a text read; each of these took a minute, or was an error page."""
    began = time.process_time()
    found = read(text)
    assert isinstance(found, list)
    assert found[0].words == words
    assert time.process_time() - began < 5
