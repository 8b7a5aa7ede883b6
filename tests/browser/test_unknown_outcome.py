"""The ERP did what it was asked and its answer was lost: nobody knows, until somebody holds the receipt."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desks, Served
from tests.browser.pages import ADMIN, MANAGER, OPERATOR, SUBMITTER, Change, here, slip_of, submit
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]
VENDOR = "V-30288"


def test_lost_answer_stays_unknown_until_a_receipt_settles_it(desks: Desks, served: Served) -> None:
    served.erp.set_fault(
        "drop_after_commit", contract="neither", method="PUT", path=f"/neither/vendors/{VENDOR}"
    )
    job = signed(desks, Change(VENDOR, "41000.00", receiver="neither"))
    page = desks.of(OPERATOR)
    page.goto(job)
    expect(here(page, "Outcome unknown")).to_be_visible()

    page.goto("./")
    page.get_by_role("row").filter(has_text="41,000.00").get_by_role("link").click()
    unknown = page.locator(".unknown")
    expect(unknown.get_by_role("heading")).to_have_text("What we don’t know")
    expect(unknown.get_by_role("listitem").first).to_be_visible()
    *_, effect = served.erp.effects(record=VENDOR)
    page.keyboard.press("c")
    page.keyboard.press("Enter")
    question = page.locator("dialog#ask-dialog")
    fill_in_receipt(page, effect["id"], amount="14000.00")
    expect(question).to_contain_text("The amount on the receipt is not the one that was approved.")
    expect(question.get_by_label("Receipt number")).to_have_value(effect["id"])
    question.get_by_label("Amount on the receipt").fill("41000.00")
    question.get_by_label("The receipt itself").set_input_files(
        {
            "name": "receipt.html",
            "mimeType": "text/html",
            "buffer": b"<script>alert(1)</script> 41,000.00 paid",
        }
    )
    question.locator("button[type=submit]").click()

    expect(page.get_by_role("heading", name="How it was resolved")).to_be_visible()
    expect(page.locator("main")).to_contain_text("applied, by receipt")
    with page.expect_download() as saved:
        page.get_by_role("link", name="receipt.html.txt").click()
    assert saved.value.suggested_filename == "receipt.html.txt"
    case = page.url
    page.goto(job)
    expect(here(page, "Confirmed")).to_be_visible()
    assert served.erp.effects(record=VENDOR)[-1] == effect
    sent = [r["method"] for r in served.erp.requests(path=f"/neither/vendors/{VENDOR}")]
    assert sent.count("PUT") == 1

    page.goto(case)
    reopened_by_two(desks, page)
    page.goto(job)
    expect(here(page, "Outcome unknown")).to_be_visible()
    sent = [r["method"] for r in served.erp.requests(path=f"/neither/vendors/{VENDOR}")]
    assert sent.count("PUT") == 1


def reopened_by_two(desks: Desks, page: Page) -> None:
    """New evidence speaks against the receipt: one operator asks, and an admin agrees."""
    page.get_by_role("link", name="Reopen…").click()
    question = page.locator("dialog#ask-dialog")
    question.get_by_label("What the new evidence shows").fill("The receipt is of another vendor.")
    question.get_by_label("Where it comes from").fill("Accounts receivable")
    question.get_by_label("When it was taken").fill(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}")
    question.get_by_role("button", name="Ask for a second person").click()
    expect(page.locator("main")).to_contain_text("asks for a second person")
    admin = desks.of(ADMIN)
    admin.goto(page.url)
    admin.get_by_role("link", name=re.compile("^Second…")).click()
    expect(admin.locator("dialog#ask-dialog")).to_contain_text("The receipt is of another vendor.")
    admin.locator("dialog#ask-dialog").get_by_role("button", name="Second it").click()
    expect(admin.locator("#messages")).to_contain_text("is unknown again")


def signed(desks: Desks, change: Change) -> str:
    submitter, manager = desks.of(SUBMITTER), desks.of(MANAGER)
    job = submit(submitter, change)
    manager.goto(slip_of(submitter, job))
    manager.get_by_role("button", name="Approve and sign").click()
    expect(manager.locator("#live")).to_contain_text("Signed.")
    return job


def fill_in_receipt(page: Page, number: str, *, amount: str) -> None:
    """Obtained in the first whole second after now: the form knows no fractions, and the send was just before."""
    obtained = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    question = page.locator("dialog#ask-dialog")
    question.get_by_label("Receipt number").fill(number)
    question.get_by_label("Amount on the receipt").fill(amount)
    question.get_by_label("Currency on the receipt").fill("EUR")
    question.get_by_label("Record or payee on the receipt").fill(VENDOR)
    question.get_by_label("Who gave it, or where it was found").fill("Accounts receivable, by telephone")
    question.get_by_label("When it was obtained").fill(f"{obtained:%Y-%m-%dT%H:%M:%S}")
    eventually(lambda: datetime.now(UTC) > obtained, what="the time on the receipt")
    question.get_by_role("button", name=re.compile("Confirm")).click()
