"""Ways out of an outcome that is not what was meant: asked for, accepted, taken back, or seen before it is signed."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Desks, Served
from tests.browser.pages import (
    ADMIN,
    MANAGER,
    OPERATOR,
    SUBMITTER,
    Change,
    here,
    reload_until,
    slip_of,
    submit,
)
from tests.browser.storming import TITLE
from tests.browser.test_unknown_outcome import signed
from tests.browser.test_z_every_page import DESK, faults_of

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def dialog_of(page: Page) -> Locator:
    return page.locator("dialog[open]")


def case_of(page: Page, job: str) -> None:
    """From the job's page to the case that asks about it."""
    page.goto(job)
    link = page.locator("p.note strong a", has_text="RC-")
    reload_until(page, link)
    link.click()


def test_operator_looks_a_lost_answer_up_and_the_job_is_confirmed(desks: Desks, served: Served) -> None:
    """The receiver was down for the look-up that comes by itself; a person asks again, and nothing is sent twice."""
    served.erp.set_fault("drop_after_commit", method="PUT", path="/keyed/records/LU-1")
    served.erp.set_fault("status_503", method="GET", path="/keyed/operations/")
    submitter, page = desks.of(SUBMITTER), desks.of(OPERATOR)
    submitter.goto("submit/test-storm/")
    submitter.get_by_label("Reference").fill("LU-1")
    submitter.get_by_label("Size").fill("1")
    submitter.get_by_role("button", name="Submit job").click()
    expect(submitter).to_have_url(re.compile(r"/jobs/\d+/$"))
    case_of(page, submitter.url)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Did {TITLE} enter LU-1-1?")

    page.keyboard.press("l")
    expect(page.get_by_role("button", name="Look up")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="How it was resolved")).to_be_visible()
    expect(page.locator("main")).to_contain_text("there, as approved")
    page.goto(submitter.url)
    expect(here(page, "Confirmed")).to_be_visible()
    sent = [r["method"] for r in served.erp.requests(path="/keyed/records/LU-1")]
    assert (sent, len(served.erp.effects(record="LU-1-1"))) == (["PUT"], 1)


def test_a_difference_stands_once_a_second_person_agrees(desks: Desks, served: Served) -> None:
    """The dialog is read for longer than the page waits before it looks again, and still gives the focus back."""
    vendor = "V-30288"
    served.erp.set_fault(
        "differs",
        contract="keyed",
        method="PUT",
        path=f"/keyed/vendors/{vendor}",
        field="credit_limit",
        value="8999.00",
    )
    job = signed(desks, Change(vendor, "8400.00"))
    page, admin = desks.of(OPERATOR), desks.of(ADMIN)
    page.clock.install()
    page.goto(job)
    expect(here(page, "Answer differs")).to_be_visible()
    page.locator("p.note strong a").click()
    accept = page.get_by_role("link", name=re.compile("^Accept"))
    accept.click()
    expect(dialog_of(page)).to_contain_text("approved 8400.00, done 8999.00")
    page.clock.run_for(20_000)
    page.keyboard.press("Escape")
    expect(accept).to_be_focused()
    page.keyboard.press("Enter")
    dialog_of(page).get_by_label("Why the difference can stand").fill("The vendor has agreed to it.")
    dialog_of(page).get_by_role("button", name="Ask for a second person").click()
    expect(page.locator("main")).to_contain_text("asks for a second person")

    admin.goto(page.url)
    admin.get_by_role("link", name=re.compile("^Second…")).click()
    expect(dialog_of(admin)).to_contain_text("approved 8400.00, done 8999.00")
    expect(dialog_of(admin)).to_contain_text("The vendor has agreed to it.")
    dialog_of(admin).get_by_role("button", name="Second it").click()
    expect(admin.get_by_role("heading", name="How it was resolved")).to_be_visible()
    admin.goto(job)
    expect(here(admin, "Confirmed")).to_be_visible()


def test_whoever_approves_the_same_once_more_says_that_they_know(desks: Desks) -> None:
    submitter, page = desks.of(SUBMITTER), desks.of(MANAGER)
    slips = [slip_of(submitter, submit(submitter, Change("V-30502", "7300.00"))) for _ in range(2)]
    page.goto(slips[1])
    twin = page.locator("p.note", has_text="Another proposal asks for the same, and waits for a decision.")
    expect(twin.get_by_role("link").first).to_have_attribute(
        "href", re.compile(slips[0].rpartition("/t/")[2])
    )
    tick = page.get_by_label("this shall be done again")
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    expect(tick).to_be_focused()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Approve and sign").click()
    expect(page.locator("#live")).to_contain_text("Signed.")


@pytest.mark.long
def test_what_was_applied_is_taken_back_by_a_job_that_somebody_approves(desks: Desks, served: Served) -> None:
    vendor = "V-30417"
    job = signed(desks, Change(vendor, "47100.00", receiver="lookup"))
    page = desks.of(OPERATOR, viewport=DESK, reduced_motion="reduce")
    page.goto(job)
    expect(here(page, "Confirmed")).to_be_visible()
    compensate = page.get_by_role("link", name=re.compile("^Compensate"))
    reload_until(page, compensate)
    compensate.click()
    assert list(faults_of(page, page.url)) == []
    dialog_of(page).get_by_label("How much is taken back").fill("1e3")
    dialog_of(page).get_by_label("Why it is taken back").fill("It was meant for another vendor.")
    dialog_of(page).get_by_role("button", name="Propose to take it back").click()
    expect(page.locator(".error")).to_contain_text("Enter the amount in figures")
    page.get_by_label("How much is taken back").fill("47100.00")
    page.get_by_role("button", name="Propose to take it back").click()
    expect(page.locator("#messages")).to_contain_text("nothing is taken back before that is approved")
    back = page.url

    manager = desks.of(MANAGER)
    manager.goto(slip_of(page, back))
    manager.get_by_role("button", name="Approve and sign").click()
    expect(manager.locator("#live")).to_contain_text("Signed.")
    page.goto(back)
    expect(here(page, "Confirmed")).to_be_visible()
    page.get_by_role("link", name=re.compile(r"^JOB-\d+$")).first.click()
    expect(page).to_have_url(urljoin(page.url, job))
    expect(page.locator("main")).to_contain_text("Change reversed")
    first, second = served.erp.effects(record=vendor)[-2:]
    assert (first["fields"]["credit_limit"], second["fields"]["credit_limit"] != "47100.00") == (
        "47100.00",
        True,
    )
