"""The same thing pressed twice: by one hand too quickly, and in two windows one after the other. It is done once."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Desks
from tests.browser.pages import MANAGER, OPERATOR, SUBMITTER, here, slip_of
from tests.browser.test_together import pay

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


NEVER_OVER = """
const later = window.setTimeout;
window.setTimeout = (run, wait, ...given) => wait === 500 ? 0 : later(run, wait, ...given);
"""
"""Half a second does not pass: the pause in which a second press counts for nothing lasts until the page is left."""

COUNT_SENT = """
window.addEventListener("submit", (event) => {
  if (!event.defaultPrevented) sessionStorage.sent = Number(sessionStorage.sent || 0) + 1;
});
"""


def posts_of(page: Page) -> list[str]:
    """The addresses to which the page posts from now on."""
    found: list[str] = []
    page.on("request", lambda asked: found.append(asked.url) if asked.method == "POST" else None)
    return found


def middle_of(button: Locator) -> tuple[float, float]:
    box = button.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_second_half_of_a_double_click_does_not_sign_the_next_slip(desks: Desks) -> None:
    """The answer to the first press brings the next slip under the pointer before the finger comes down again."""
    submitter, page = desks.of(SUBMITTER), desks.of(MANAGER)
    jobs = [pay(submitter, reference, "70.00") for reference in ("TW-1", "TW-2")]
    slips = [slip_of(submitter, job) for job in jobs]
    page.add_init_script(NEVER_OVER)
    page.goto(slips[0])
    expect(page.locator("#slip h1")).to_have_text("Pay TW-1")
    posts, approve = posts_of(page), page.get_by_role("button", name="Approve and sign")
    x, y = middle_of(approve)
    page.mouse.click(x, y)
    expect(page.locator("#slip h1")).to_have_text("Pay TW-2")
    page.mouse.click(x, y)
    assert len(posts) == 1
    page.close()
    submitter.goto(jobs[0])
    expect(here(submitter, "Awaiting approval")).to_have_count(0)
    submitter.goto(f"{jobs[1]}cancel/")
    submitter.get_by_label("Reason").fill("Nobody has read it.")
    submitter.get_by_role("button", name="Cancel job").click()
    expect(submitter.locator("#messages")).to_contain_text("Cancelled. Future steps stopped.")


def test_double_click_holds_a_job_once_and_a_second_window_is_told_and_keeps_what_was_typed(
    desks: Desks,
) -> None:
    """Two windows of one operator ask the same of a job. The first presses twice, the second comes too late."""
    submitter, page = desks.of(SUBMITTER), desks.of(OPERATOR)
    job = pay(submitter, "TW-3", "80.00")
    other = page.context.new_page()
    for window, reason in ((page, "Month end."), (other, "The bank is shut until Monday.")):
        window.goto(job)
        window.get_by_role("link", name="Hold job").click()
        window.locator("dialog[open]").get_by_label("Reason").fill(reason)
    page.evaluate(COUNT_SENT)
    page.locator("dialog[open]").get_by_role("button", name="Hold job").dblclick()
    expect(page.locator("#messages")).to_contain_text("Held.")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert page.evaluate("sessionStorage.sent") == "1"

    other.locator("dialog[open]").get_by_role("button", name="Hold job").click()
    told = other.get_by_role("alert")
    expect(told).to_contain_text(f"already held by {OPERATOR}")
    expect(told.get_by_label("What you wrote, not recorded")).to_have_value("The bank is shut until Monday.")
    told.get_by_role("link", name="See how it is now").click()
    expect(other).to_have_url(job)
    lift = other.get_by_role("button", name="Lift")
    lift.click()
    expect(other.locator("#messages")).to_contain_text("The hold is lifted.")
    page.get_by_role("button", name="Lift").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Somebody or something was first")
    expect(page.locator("main")).to_contain_text("is not held")
