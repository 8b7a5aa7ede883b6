"""A step stops, and an operator helps: corrects what it works on, leaves an item out, redrives a job that was given up."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Desks
from tests.browser.pages import OPERATOR, SUBMITTER, reload_until
from tests.browser.test_z_every_page import faults_of

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def send_letter(page: Page, *lines: str, closing: str = "fine") -> str:
    """Start a job of the test workflow through its form; the address of its page."""
    page.goto("submit/test-letters/")
    page.get_by_label("Lines").fill("\n".join(lines))
    page.get_by_label("Closing").fill(closing)
    page.get_by_role("button", name="Submit job").click()
    expect(page).to_have_url(re.compile(r"/jobs/\d+/$"))
    return page.url


def open_case(page: Page, job: str, title: str) -> None:
    """From the job's page to the case that asks about it."""
    page.goto(job)
    note = page.locator("p.note", has_text=title)
    reload_until(page, note)
    note.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(title)


def rung(page: Page, title: str) -> Locator:
    """One way on, as the case offers it."""
    return page.locator("ol.ladder > li", has=page.get_by_role("heading", name=title))


def test_operator_corrects_one_item_leaves_another_out_and_the_job_goes_on(desks: Desks) -> None:
    submitter, page = desks.of(SUBMITTER), desks.of(OPERATOR)
    job = send_letter(submitter, "good", "bad two", "bad three")

    open_case(page, job, "Read 2 of 3")
    rung(page, "Correct and try again").get_by_role("link").click()
    expect(page.get_by_role("heading", name="What went wrong")).to_be_visible()
    page.get_by_label("Text").fill("")
    page.get_by_label("What was wrong").fill("The scanner read the margin.")
    page.get_by_role("button", name="Correct and try again").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed.")
    expect(page.locator(".error")).to_contain_text("is empty; fill it in")
    page.get_by_label("Text").fill("two")
    page.get_by_role("button", name="Correct and try again").click()
    expect(page.locator("#messages")).to_contain_text("Corrected.")
    expect(page.get_by_text("corrected what it works on")).to_be_visible()
    reload_until(page, page.locator("p.meta .state", has_text="Done"))

    open_case(page, job, "Read 3 of 3")
    rung(page, "Go on without it").get_by_role("link").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("Why the job can go on").fill("The page was blank.")
    dialog.get_by_role("button", name="Go on without it").click()
    expect(page.locator("#messages")).to_contain_text("The job goes on without it.")

    page.goto(job)
    step = page.locator("table.steps tr", has_text="Read")
    expect(step.get_by_role("link", name="1 corrected")).to_be_visible()
    step.get_by_role("link", name="1 skipped").click()
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.goto(job)
    reload_until(page, page.locator("table.steps tr", has_text="Put together").get_by_text("Done"))


@pytest.mark.long
def test_operator_redrives_a_job_that_was_given_up(desks: Desks) -> None:
    submitter, page = desks.of(SUBMITTER), desks.of(OPERATOR)
    job = send_letter(submitter, "good", closing="broken")
    open_case(page, job, "Put together")
    expect(rung(page, "Go on without it").get_by_role("button")).to_have_attribute("aria-disabled", "true")
    rung(page, "Give the job up").get_by_role("link").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("Why the job is given up").fill("Nobody knows how to close it.")
    dialog.get_by_role("button", name="Give the job up").click()
    expect(page.locator("#messages")).to_contain_text("is given up")

    page.goto(job)
    page.get_by_role("link", name="Redrive job").click()
    dialog.get_by_label("Attempts for each item").fill("2")
    dialog.get_by_label("Reason").fill("The submitter has told us.")
    dialog.get_by_role("button", name="Redrive job").click()
    expect(page.locator("#messages")).to_contain_text("Redriven: 1 item goes on.")
    open_case(page, job, "Put together")


@pytest.mark.long
def test_operator_leaves_all_stopped_items_of_a_job_out_in_bulk(desks: Desks) -> None:
    """Chosen from the list of what stopped, looked at, confirmed once, and done by the workers while the page looks on."""
    submitter, page = desks.of(SUBMITTER), desks.of(OPERATOR, reduced_motion="reduce")
    job = send_letter(submitter, "good", "bad one", "bad two", "bad three")
    open_case(page, job, "Read 2 of 4")
    rung(page, "Correct and try again").get_by_role("link").click()
    expect(page.get_by_role("heading", name="What went wrong")).to_be_visible()
    assert list(faults_of(page, page.url)) == []
    page.goto(job)
    stopped = page.locator("table.steps").get_by_role("link", name="3 stopped")
    reload_until(page, stopped)
    stopped.click()
    page.get_by_role("link", name="Do something with all of these").click()
    page.get_by_label("Go on without stopped items").check()
    page.get_by_role("button", name="See what that is").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Go on without stopped items: 3")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Go on without stopped items (3)").click()
    expect(page.locator(".error")).to_contain_text("Say why")
    page.get_by_label("Reason").fill("Those pages were blank.")
    page.get_by_role("button", name="Go on without stopped items (3)").click()
    expect(page.locator("#messages")).to_contain_text("Confirmed.")
    expect(page.locator("p.fig")).to_contain_text("3 of 3 items, finished")
    page.reload()
    assert list(faults_of(page, page.url)) == []
    expect(page.locator("nav.tabs a", has_text="Done")).to_contain_text("3")
    page.goto(job)
    expect(page.locator("table.steps").get_by_role("link", name="3 skipped")).to_be_visible()


@pytest.mark.long
def test_operator_has_steps_run_again_whose_draft_could_not_be_proposed(desks: Desks) -> None:
    submitter, page = desks.of(SUBMITTER), desks.of(OPERATOR, reduced_motion="reduce")
    job = send_letter(submitter, "good", "fine")
    page.goto(job)
    button = page.get_by_role("link", name="Run steps again")
    reload_until(page, button)
    button.click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("From this step on").select_option(label="3. Read")
    assert list(faults_of(page, page.url)) == []
    dialog.get_by_role("button", name="Run steps again").click()
    expect(dialog).to_be_visible()
    dialog.get_by_label("Reason").fill("The letters were sorted meanwhile.")
    dialog.get_by_role("button", name="Run steps again").click()
    expect(page.locator("#messages")).to_contain_text("3 steps run again. A new proposal follows.")
    aside = page.get_by_role("link", name="Read before run 2")
    reload_until(page, aside)
    aside.click()
    expect(page.get_by_role("heading", name="Read before run 2")).to_be_visible()
    expect(page.locator("#list tbody tr")).to_have_count(2)
    page.goto(job)
    reload_until(page, page.get_by_role("link", name="Run steps again"))
    assert list(faults_of(page, page.url)) == []
