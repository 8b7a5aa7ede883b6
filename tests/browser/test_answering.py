"""A step asks, two operators answer at once: one counts, the other is told who, and the job goes on."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desks
from tests.browser.pages import ADMIN, OPERATOR, SUBMITTER, reload_until

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def ask(page: Page, reference: str, role: str = "operator") -> str:
    """Start a job whose first step asks; the address of its page, once it does."""
    page.goto("submit/test-asking/")
    page.get_by_label("Reference").fill(reference)
    page.get_by_label("Role").fill(role)
    page.get_by_role("button", name="Submit job").click()
    expect(page).to_have_url(re.compile(r"/jobs/\d+/$"))
    reload_until(page, page.get_by_text(f"How does {reference} travel?").first)
    return page.url


def test_an_operator_answers_with_the_keyboard_and_another_is_told_who_was_first(desks: Desks) -> None:
    job = ask(desks.of(SUBMITTER), "BA-1")
    page, other = desks.of(OPERATOR), desks.of(OPERATOR)
    page.goto("./")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", level=1)).to_have_text("Questions")
    page.get_by_role("link", name="How does BA-1 travel?").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("How does BA-1 travel?")
    other.goto(page.url)

    page.get_by_label("Way").focus()
    page.keyboard.press("Tab")
    page.keyboard.type("0")
    page.get_by_role("button", name="Answer and go on").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Your answer was not recorded.")
    expect(page.locator("#id_way_error")).to_be_visible()
    expect(page.locator("#id_parcels_error")).to_be_visible()
    page.get_by_label("Way").select_option("by lorry")
    page.get_by_label("Parcels").fill("3")
    page.get_by_label("Width").fill("40")
    page.get_by_role("button", name="Answer and go on").click()
    expect(page.locator("#messages")).to_contain_text("Answered.")

    other.get_by_label("Way").select_option("by hand")
    other.get_by_label("Parcels").fill("1")
    other.get_by_label("Width").fill("1")
    other.get_by_role("button", name="Answer and go on").click()
    expect(other.get_by_role("alert")).to_contain_text("Your answer was not recorded.")
    expect(other.get_by_role("heading", level=2)).to_contain_text(f"Answered by {OPERATOR}")
    expect(other.locator("main dl.facts")).to_contain_text("by lorry")

    page.goto(job)
    reload_until(page, page.get_by_text("Waits for the event shipment BA-1"))
    expect(page.locator("section[aria-labelledby=waits-t]")).to_contain_text("by lorry")


@pytest.mark.long
def test_answering_works_without_scripts(desks: Desks) -> None:
    ask(desks.of(SUBMITTER), "BA-2", role="admin")
    page = desks.of(ADMIN, java_script_enabled=False)
    page.goto("questions/")
    page.get_by_role("link", name="How does BA-2 travel?").click()
    page.get_by_label("Way").select_option("by hand")
    page.get_by_label("Parcels").fill("1")
    page.get_by_label("Width").fill("9")
    page.get_by_role("button", name="Answer and go on").click()
    expect(page.get_by_role("status").or_(page.locator("#messages")).first).to_contain_text("Answered.")
