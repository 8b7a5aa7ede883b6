"""An admin stops a job for a while, lets it go on, and cancels it through the dialog."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Desks
from tests.browser.pages import ADMIN, MANAGER, SUBMITTER, Change, slip_of, submit

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.mark.long
def test_admin_holds_releases_and_cancels_a_job(desks: Desks) -> None:
    submitter, page, manager = desks.of(SUBMITTER), desks.of(ADMIN), desks.of(MANAGER)
    job = submit(submitter, Change("V-30288", "9400.00"))
    slip = slip_of(submitter, job)
    page.goto(job)
    dialog = page.locator("dialog[open]")

    page.keyboard.press("h")
    page.keyboard.press("Enter")
    dialog.locator("#reason").fill("The contact left the company; waiting for a call back.")
    dialog.get_by_role("button", name="Hold job").click()
    expect(page.locator("#messages")).to_contain_text("Held.")
    expect(page.locator("#job-live")).to_contain_text("waiting for a call back")
    manager.goto(slip)
    expect(manager.locator("#desk")).to_contain_text("is held.")
    expect(manager.get_by_role("button", name="Approve and sign")).to_have_count(0)

    page.get_by_role("button", name="Lift the hold").click()
    expect(page.locator("#messages")).to_contain_text("The hold is lifted.")
    manager.reload()
    expect(manager.get_by_role("button", name="Approve and sign")).to_be_visible()

    page.get_by_role("link", name="Cancel job").click()
    expect(dialog.locator("ul.fate > li")).to_have_count(4)
    dialog.get_by_role("button", name="Keep it running").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("link", name="Cancel job").click()
    dialog.locator("#reason").fill("Entered twice; the other request stays.")
    dialog.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#messages")).to_contain_text("Cancelled. Future steps stopped.")
    expect(page.get_by_text("It has ended.")).to_be_visible()
    manager.reload()
    expect(manager.get_by_role("button", name="Approve and sign")).to_have_count(0)
