"""Ticking with the keyboard, deciding together, and entering the password again, in a browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desks, Served
from tests.browser.pages import MANAGER, SECOND_MANAGER, SUBMITTER, here, reload_until, sign_in, slip_of

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def pay(page: Page, reference: str, amount: str) -> str:
    """Start a payment; the address of its job, once it waits for approval."""
    page.goto("submit/test-together/")
    page.get_by_label("Reference").fill(reference)
    page.get_by_label("Amount").fill(amount)
    page.get_by_role("button", name="Submit job").click()
    expect(page).to_have_url(re.compile(r"/jobs/\d+/$"))
    reload_until(page, here(page, "Awaiting approval"))
    return page.url


def test_ticked_with_the_keyboard_and_decided_together_once_with_the_password(
    desks: Desks, served: Served
) -> None:
    """`j` and `s` tick; a wrong password changes nothing; the right one signs all; a second manager was first at one."""
    submitter, page, other = desks.of(SUBMITTER), desks.of(MANAGER), desks.of(SECOND_MANAGER)
    jobs = [pay(submitter, f"TG-{n}", amount) for n, amount in ((1, "900.00"), (2, "1200.00"), (3, "80.00"))]
    page.goto("approvals/")
    rows = page.locator("#rows li", has_text=re.compile(r"Pay TG-[123]"))
    expect(rows).to_have_count(3)
    for number in (1, 2, 3):
        page.locator("#rows li", has_text=f"Pay TG-{number}").get_by_role("link").focus()
        page.keyboard.press("s")
    expect(page.locator("#rows input:checked")).to_have_count(3)
    page.get_by_role("button", name="Decide the ticked ones together").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Decide 3 together")
    expect(page.get_by_text("2,180.00").first).to_be_visible()

    other.goto(slip_of(submitter, jobs[2]))
    other.get_by_role("button", name="Approve and sign").click()
    expect(other.locator("#live")).to_contain_text("Signed.")

    password = page.get_by_label("Your password again")
    password.fill("not it")
    page.get_by_role("button", name="Approve and sign 3").click()
    expect(page.get_by_role("alert")).to_contain_text("That is not your password")
    expect(page.get_by_label("Your password again")).to_be_focused()
    password.fill(served.password)
    page.get_by_role("button", name="Approve and sign 2").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("2 of 3 decided")
    expect(page.get_by_role("row", name=re.compile("Pay TG-3"))).to_contain_text("Left")
    for job in jobs[:2]:
        page.goto(job)
        expect(page.locator("ol.journal")).to_contain_text(MANAGER)


@pytest.mark.parametrize("script", [True, pytest.param(False, marks=pytest.mark.long)], ids=["htmx", "plain"])
def test_the_desk_asks_for_the_password_in_the_form_that_signs(
    desks: Desks, served: Served, script: bool
) -> None:
    """In a session of its own each: an entry counts for its session alone."""
    options: dict[str, Any] = {} if script else {"java_script_enabled": False}
    submitter, page = desks.of(SUBMITTER), desks.of(**options)
    sign_in(page, served.address, MANAGER, served.password)
    slip = slip_of(submitter, pay(submitter, f"TP-{script:d}", "5000.00"))
    page.goto(slip)
    field = page.get_by_label("Your password again")
    expect(page.get_by_text("asks for your password again above 1,000.00 EUR")).to_be_visible()
    if script:
        page.keyboard.press("a")
        expect(page.get_by_role("button", name="Approve and sign")).to_be_focused()
    field.fill("not it")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("That is not your password. Nothing was decided.")
    assert field.input_value() == ""
    field.fill(served.password)
    field.press("Enter")
    expect(page.locator("#live" if script else "#messages")).to_contain_text("Signed.")
