"""Whether days of an account are complete: several statements, several currencies, and how the files follow each other."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from access.tenancy import reading
from reconciliation.unclaimed import looking_after
from statements.matching import completeness, exporting
from statements.matching.sides import Scope, currencies, side
from tests.reconciliation.pages import as_person
from tests.reconciliation.test_unclaimed import allow_alone, aside
from tests.statements.matching.ledger import Ledger
from tests.statements.matching.test_by_hand import say

pytestmark = pytest.mark.django_db(transaction=True)


def day(number: int) -> date:
    return date(2026, 3, number)


def sent(number: int) -> str:
    return f"2026-03-{number:02}T08:00:00Z"


def of_march(ledger: Ledger, first: int, last: int) -> completeness.Period:
    with reading(ledger.tenant.pk):
        page = completeness.of_period(ledger.receiver_id, account="", first=day(first), last=day(last))
    assert page is not None
    return page


def test_days_of_two_statements_are_held_against_what_was_sent_in_them_by_currency() -> None:
    ledger = Ledger.make()
    paid, late, elsewhere, lost, dollars = ledger.operations(
        [
            {"amount_minor": 100, "sent": sent(10)},
            {"amount_minor": 200, "sent": sent(9)},
            {"amount_minor": 40, "sent": sent(12)},
            {"amount_minor": 70, "sent": sent(11)},
            {"amount_minor": 5, "sent": sent(11), "currency": "USD"},
        ]
    )
    _, (one, two) = ledger.statement(
        [{"amount": 100, "booked_on": day(10)}, {"amount": 200, "booked_on": day(11)}],
        first=day(10),
        last=day(11),
    )
    _, (fee, free, usd, after) = ledger.statement(
        [
            {"amount": 3, "booked_on": day(12)},
            {"amount": 9, "booked_on": day(12), "reference": "=1+1"},
            {"amount": 5, "booked_on": day(12), "currency": "USD"},
            {"amount": 40, "booked_on": day(13)},
        ],
        first=day(12),
        last=day(13),
    )
    for line, operation in ((one, paid), (two, late), (usd, dollars), (after, elsewhere)):
        say(ledger, [line], [operation])
    allow_alone(ledger)
    looking_after.turn(ledger.tenant.pk, ledger.last, "w")
    aside(ledger, [fee])

    page = of_march(ledger, 10, 12)
    euro, dollar = page.sides
    assert (euro.currency, euro.booked.count, euro.booked.amount) == ("EUR", 4, Decimal("3.12"))
    assert (euro.settled.count, euro.settled.amount, euro.residual) == (3, Decimal("2.10"), Decimal("1.02"))
    assert {p.what: (p.count, str(p.amount)) for p in euro.parts} == {
        "line that no operation claims": (1, "0.09"),
        "line that was set aside": (1, "0.03"),
        "confirmed operation without a line": (1, "-0.70"),
        "line of an operation that was sent on another day": (1, "2.00"),
        "operation whose line is in another statement": (1, "-0.40"),
    }
    assert euro.explained
    assert [v.line.pk for v in euro.lines_without_operation] == [free]
    assert [o.operation_id for o in euro.operations_without_line] == [lost]
    assert (dollar.currency, dollar.residual, dollar.parts) == ("USD", 0, [])

    rows = list(csv.DictReader(io.StringIO("".join(exporting.differences(ledger.tenant.pk, page.scope)))))
    assert sum(Decimal(r["Amount"]) for r in rows) == euro.residual
    assert [r["Reference"] for r in rows if r["Row"] == "3" and r["What"].startswith("line that no")] == [
        "'=1+1"
    ]


def test_statements_that_do_not_follow_each_other_are_named() -> None:
    ledger = Ledger.make()
    for first, last, opening, closing in (
        (1, 5, 1000, 900),
        (6, 9, 900, 800),
        (10, 12, 750, 700),
        (12, 14, 700, 650),
    ):
        ledger.statement(
            [{"amount": opening - closing, "booked_on": day(first)}],
            first=day(first), last=day(last), opening=opening, closing=closing,
        )  # fmt: skip
    ledger.statement([{"booked_on": day(17)}], first=day(17), last=day(17))
    page = of_march(ledger, 1, 20)
    assert [(x.found, x.apart) for x in page.links] == [
        ("continuous", None), ("gap", Decimal("-0.50")), ("overlap", None), ("unknown", None),
    ]  # fmt: skip
    assert "both have 12 Mar 2026" in page.links[2].sentence
    assert "neither has 15 Mar 2026 to 16 Mar 2026" in page.links[3].sentence
    assert (page.uncovered, page.follows) == (
        "No line of a statement is of 18 Mar 2026 to 20 Mar 2026.",
        False,
    )
    assert of_march(ledger, 1, 9).follows


def test_a_day_is_the_statements_own() -> None:
    """Sent at 23:30 in London on the 11th is the 12th in Berlin."""
    ledger = Ledger.make()
    ledger.operations([{"amount_minor": 100, "sent": "2026-03-11T23:30:00Z"}])
    scope = Scope(ledger.receiver_id, "", "out", day(12), day(12), "Europe/Berlin")
    with reading(ledger.tenant.pk):
        assert side(scope, "EUR").settled.count == 1
        assert currencies(replace(scope, zone="Europe/London")) == []


def test_the_page_of_a_period_says_what_is_missing_and_saves_it() -> None:
    ledger = Ledger.make()
    browser = as_person(ledger.operator)
    at = f"/t/{ledger.tenant.slug}/statements/period/{ledger.receiver_id}/"
    assert "nothing to hold against" in browser.get(at).content.decode()
    assert browser.get(f"{at}differences.csv").status_code == 404
    statement, _ = ledger.statement([{"booked_on": day(12)}], first=day(12), last=day(12))
    shown = browser.get(at, {"first": "2026-03-10", "last": "2026-03-12"}).content.decode()
    assert "1 line that no operation claims" in shown
    assert "No line of a statement is of 10 Mar 2026 to 11 Mar 2026." in shown
    assert "These are no days" in browser.get(at, {"first": "yesterday"}).content.decode()
    saved = b"".join(browser.get(f"{at}differences.csv").streaming_content).decode()  # type: ignore[attr-defined]
    assert saved.count("line that no operation claims") == 1
    single = browser.get(f"/t/{ledger.tenant.slug}/statements/{statement}/complete/").content.decode()
    assert f"{at}?account=&amp;first=2026-03-12&amp;last=2026-03-12" in single
    assert (
        browser.get(f"/t/{ledger.tenant.slug}/statements/period/{ledger.receiver_id + 99}/").status_code
        == 404
    )
