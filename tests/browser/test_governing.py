"""Two admins write one policy at once, a draft is tried before it is written, and a manager lends and takes back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desks
from tests.browser.pages import ADMIN, MANAGER, SECOND_MANAGER
from tests.browser.test_z_every_page import DESK, faults_of

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.long]


def readable(page: Page) -> None:
    """Pages that only a form leads to are not among those that links lead to."""
    assert list(faults_of(page, page.url)) == []


def test_two_admins_write_a_policy_and_the_second_goes_on_from_the_first(desks: Desks) -> None:
    first, second = (desks.of(ADMIN, viewport=DESK, reduced_motion="reduce") for _ in range(2))
    first.goto("policies/")
    first.get_by_role("link", name="Write a policy…").click()
    first.get_by_label("Name").fill("letters")
    first.get_by_label("Name").press("Enter")
    expect(first.get_by_role("heading", level=1)).to_contain_text("revision 1, not written yet")
    readable(first)
    first.get_by_role("button", name="Write revision 1").click()
    expect(first.locator("#messages")).to_contain_text("Revision 1 is written and in force.")

    policy = first.url
    for page in (first, second):
        page.goto(policy)
        page.get_by_role("link", name="Write a revision…").click()
    first.get_by_label("It may be approved together with others").check()
    first.get_by_role("button", name="See what it would do").click()
    first.get_by_role("button", name="Write revision 2").click()
    expect(first.locator("#messages")).to_contain_text("Revision 2 is written")

    signatures = second.get_by_label("Signatures").first
    signatures.fill("0")
    second.get_by_role("button", name="See what it would do").click()
    expect(second.get_by_text("Has to be at least 1.")).to_be_visible()
    readable(second)
    signatures.fill("2")
    second.get_by_role("button", name="See what it would do").click()
    expect(second.get_by_role("heading", name=f"{ADMIN} was first")).to_be_visible()
    expect(second.locator("main")).to_contain_text("It may be approved together with others.")
    readable(second)
    second.get_by_role("button", name="Go on with mine…").click()
    expect(signatures).to_have_value("2")
    second.get_by_label("It may be approved together with others").check()
    second.get_by_role("button", name="See what it would do").click()
    second.get_by_role("button", name="Who could approve under it…").click()
    second.get_by_role("button", name="Ask").click()
    expect(second.get_by_text("The people who are at work can complete it.")).to_be_visible()
    readable(second)
    second.get_by_role("button", name="Go on writing it…").click()
    expect(signatures).to_have_value("2")
    second.get_by_role("button", name="See what it would do").click()
    second.get_by_role("button", name="Write revision 3").click()
    expect(second.locator("main")).to_contain_text("Two managers sign.")


def test_manager_lends_for_a_day_and_takes_it_back(desks: Desks) -> None:
    page, other = desks.of(MANAGER, viewport=DESK), desks.of(SECOND_MANAGER)
    today = datetime.now(UTC).date().isoformat()
    page.goto("absence/")
    form = page.locator("form", has=page.get_by_role("button", name="Lend", exact=True))
    form.get_by_label("From").fill(today)
    form.get_by_label("Until").fill(today)
    form.get_by_label("To", exact=True).select_option(SECOND_MANAGER)
    form.get_by_label("vendor-enrichment").check()
    form.get_by_role("button", name="Lend", exact=True).click()
    expect(page.get_by_text("This field is required.")).to_be_visible()
    form.get_by_label("Reason").fill("At the fair.")
    form.get_by_role("button", name="Lend", exact=True).click()
    expect(page.locator("#messages")).to_contain_text("Lent. What is signed with it names both of you.")
    other.goto("absence/")
    expect(other.locator("section", has_text="Lent by others")).to_contain_text("for vendor-enrichment")
    page.get_by_role("link", name=f"Revoke what is lent to {SECOND_MANAGER}…").click()
    readable(page)
    page.get_by_role("button", name="Revoke").click()
    expect(page.locator("#messages")).to_contain_text("Revoked.")
    expect(page.get_by_text("Nothing is lent.")).to_be_visible()
