"""A vendor change from its submission to its effect, and what else people decide about a slip."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desks, Served
from tests.browser.pages import (
    MANAGER,
    SECOND_MANAGER,
    SUBMITTER,
    Change,
    here,
    reload_until,
    sign_in,
    slip_of,
    submit,
)

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def test_what_the_manager_saw_and_signed_is_what_the_erp_got(desks: Desks, served: Served) -> None:
    """Signed with the keyboard: `a` moves to the button and acts not, Enter signs."""
    page, change = desks.of(), Change("V-30417", "31000.00")
    job = submitted_by_hand(page, served, change)
    sign_in(page, served.address, MANAGER, served.password)
    open_from_home(page, "31")

    shown = expect_slip(page, change)
    watched = page.context.new_page()
    watched.goto(job)
    expect(here(watched, "Awaiting approval")).to_be_visible()
    page.bring_to_front()
    page.keyboard.press("a")
    approve = page.get_by_role("button", name="Approve and sign")
    expect(approve).to_be_focused()
    assert served.erp.effects(key=shown.key) == []
    page.keyboard.press("Enter")

    expect(page.locator("#live")).to_contain_text("Signed.")
    expect(page.locator("#slip")).not_to_contain_text(change.reference)
    watched.bring_to_front()
    expect(here(watched, "Confirmed")).to_be_visible()
    expect_one_effect(served, shown)


@pytest.mark.long
def test_it_all_works_without_scripts(desks: Desks, served: Served) -> None:
    page, change = desks.of(java_script_enabled=False), Change("V-30417", "32000.00")
    job = submitted_by_hand(page, served, change)
    sign_in(page, served.address, MANAGER, served.password)
    open_from_home(page, "32")

    shown = expect_slip(page, change)
    page.get_by_role("button", name="Approve and sign").click()

    expect(page.locator("#messages")).to_contain_text("Signed.")
    page.goto(job)
    reload_until(page, here(page, "Confirmed"))
    expect_one_effect(served, shown)


@pytest.mark.long
def test_signature_by_mouse_brings_the_next_slip(desks: Desks) -> None:
    submitter, page = desks.of(SUBMITTER), desks.of(MANAGER)
    first, second = Change("V-30417", "33000.00"), Change("V-30288", "9100.00")
    slips = [slip_of(submitter, submit(submitter, change)) for change in (first, second)]
    page.goto(slips[0])
    expect(page.locator("#slip")).to_contain_text(first.reference)

    page.get_by_role("button", name="Approve and sign").click()

    expect(page.locator("#live")).to_contain_text("Signed.")
    expect(page.locator("#slip")).to_contain_text(second.reference)
    expect(page).to_have_url(re.compile(re.escape(slips[1])))
    expect(page.locator("#rows [data-row]")).to_have_count(1)
    page.get_by_role("button", name="Approve and sign").click()
    expect(page.locator("#slip")).to_contain_text("Nothing waits for your signature")


def test_rejection_needs_a_reason_and_keeps_what_was_typed(desks: Desks) -> None:
    submitter, page, change = desks.of(SUBMITTER), desks.of(MANAGER), Change("V-30288", "9200.00")
    job = submit(submitter, change)
    page.goto(slip_of(submitter, job))
    page.get_by_role("link", name="Reject").click()
    question = page.locator("dialog#question")
    keep = question.get_by_role("button", name="Keep it waiting")
    expect(keep).to_be_focused()
    keep.click()
    expect(question).to_be_hidden()
    page.get_by_role("link", name="Reject").click()

    reject = question.get_by_role("button", name="Reject and cancel the job")
    reject.click()  # the browser asks for the reason itself
    expect(question.locator("#reason:invalid")).to_be_focused()
    question.locator("#reason").fill("   ")  # which blanks get past
    reject.click()
    expect(question.locator("#reason-error")).to_be_visible()
    assert question.locator("#reason").input_value().strip() == ""
    question.locator("#reason").fill("The frame contract was never signed.")
    reject.click()

    expect(page.locator("#live")).to_contain_text("Rejected")
    page.goto(job)
    expect(page.get_by_text("It has ended.")).to_be_visible()
    expect(page.locator("ol.journal")).to_contain_text(MANAGER)
    expect(page.get_by_text("Nothing was sent.")).to_be_visible()


@pytest.mark.long
def test_requested_changes_end_the_slip_and_the_reason_is_on_it(desks: Desks) -> None:
    submitter, page, change = desks.of(SUBMITTER), desks.of(MANAGER), Change("V-30288", "9300.00")
    job = submit(submitter, change)
    slip = slip_of(submitter, job)
    page.goto(slip)
    page.keyboard.press("c")
    page.keyboard.press("Enter")
    question = page.locator("dialog#question")
    question.get_by_label("Credit limit").check()
    question.locator("#reason").fill("Ask for 9,000.00, as agreed in March.")
    question.get_by_role("button", name="Request changes").click()

    expect(question).to_have_count(0)
    page.goto(slip)
    expect(page.locator("#slip")).to_contain_text("Ask for 9,000.00, as agreed in March.")
    expect(page.get_by_role("button", name="Approve and sign")).to_have_count(0)
    submitter.goto(job)
    submitter.get_by_role("link", name="Cancel job").click()
    submitter.locator("dialog #reason").fill("Asked for again with the other limit.")
    submitter.locator("dialog").get_by_role("button", name="Cancel job").click()
    expect(submitter.locator("#messages")).to_contain_text("Cancelled. Future steps stopped.")


@pytest.mark.long
def test_second_manager_is_told_who_decided_first_and_when(desks: Desks) -> None:
    """The second presses the button only after what the first signed has been sent and confirmed."""
    submitter, change = desks.of(SUBMITTER), Change("V-30417", "34000.00")
    job = submit(submitter, change)
    slip = slip_of(submitter, job)
    first, second = desks.of(MANAGER), desks.of(SECOND_MANAGER)
    for page in (first, second):
        page.goto(slip)
        expect(page.locator("#slip")).to_contain_text(change.reference)
    first.get_by_role("button", name="Approve and sign").click()
    expect(first.locator("#live")).to_contain_text("Signed.")
    first.goto(job)
    expect(here(first, "Confirmed")).to_be_visible()

    second.get_by_role("button", name="Approve and sign").click()

    told = second.get_by_role("alert")
    expect(told).to_contain_text("Somebody or something was first")
    expect(told).to_contain_text("Your signature was not recorded")
    expect(told).to_contain_text(MANAGER)
    expect(told).to_contain_text(re.compile(r"\d\d:\d\d"))


@pytest.mark.long
def test_whoever_is_signed_out_meanwhile_is_told_so_and_comes_back_to_the_slip(
    desks: Desks, served: Served
) -> None:
    """The session ends under an open slip. After signing out for good nothing of it comes back from the browser."""
    submitter, change = desks.of(SUBMITTER), Change("V-30417", "35000.00")
    job = submit(submitter, change)
    slip = slip_of(submitter, job)
    page = desks.of(MANAGER)
    page.goto(slip)
    page.context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Approve and sign").click()
    expect(page.locator("#live")).to_contain_text("You are signed out, and nothing was recorded.")
    expect(page.locator("#slip")).to_contain_text(change.reference)
    page.reload()
    page.get_by_label("Handle").fill(MANAGER)
    page.get_by_label("Password").fill(served.password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#slip")).to_contain_text(change.reference)
    expect(page.get_by_role("button", name="Approve and sign")).to_be_visible()

    page.locator("details.menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("body")).not_to_contain_text(change.reference)


# --- what the stories share -----------------------------------------------------------------------------------------


class Shown:
    """What a slip says will be sent."""

    def __init__(self, page: Page) -> None:
        sent = page.locator("details.sent")
        self.key = sent.locator("dd.digest code").first.inner_text()
        self.body = sent.locator("pre.bytes").text_content() or ""


def submitted_by_hand(page: Page, served: Served, change: Change) -> str:
    sign_in(page, served.address, SUBMITTER, served.password)
    job = submit(page, change)
    reload_until(page, here(page, "Awaiting approval"))
    page.locator("details.menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    return job


def open_from_home(page: Page, thousands: str) -> None:
    """Open the one slip at home with this many thousands at stake."""
    page.get_by_role("row").filter(has_text=f"{thousands},000.00").get_by_role("link").click()


def expect_slip(page: Page, change: Change) -> Shown:
    slip = page.locator("#slip")
    expect(slip).to_contain_text(change.reference)
    shown = Shown(page)
    assert f'"credit_limit":"{change.limit}"' in shown.body
    return shown


def expect_one_effect(served: Served, shown: Shown) -> None:
    (effect,) = served.erp.effects(key=shown.key)
    (request,) = served.erp.requests(key=shown.key)
    assert (request["body"], request["body_sha256"]) == (shown.body, effect["body_sha256"])


@pytest.mark.long
def test_whoever_started_it_reminds_by_key_once_and_reads_when_again(desks: Desks) -> None:
    """`m` moves to the button and acts not; a second key sends, and the slip says so."""
    page = desks.of(SUBMITTER)
    job = submit(page, Change("V-30417", "37000.00"))
    page.goto(slip_of(page, job))
    page.keyboard.press("m")
    button = page.get_by_role("button", name="Remind them")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".stub")).to_contain_text("Reminded by")
    expect(button).to_have_attribute("aria-disabled", "true")
    page.goto(job)
    expect(page.locator("main")).to_contain_text("Reminded of the decision")
    page.goto(slip_of(page, job))
    page.get_by_role("link", name="Withdraw proposal").click()
    page.get_by_role("button", name="Withdraw proposal").click()
    expect(page.locator("#slip")).to_contain_text("was withdrawn by its submitter")
