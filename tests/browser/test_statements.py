"""An operator brings a receiver's file from upload to applied, and mends a mapping on the way."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desks
from tests.browser.pages import AUDITOR, OPERATOR
from tests.browser.test_z_every_page import DESK, faults_of
from tests.statements.shelf import content_of

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.long]


def readable(page: Page) -> None:
    """In both colours, and on a telephone."""
    assert list(faults_of(page, page.url)) == []
    page.set_viewport_size(DESK)


def test_a_statement_is_uploaded_mapped_mended_and_applied(desks: Desks) -> None:
    page = desks.of(OPERATOR, viewport=DESK, reduced_motion="reduce")
    page.goto("statements/")
    page.get_by_role("link", name="Upload a statement").first.click()
    page.get_by_label("Account").fill("0010")
    content = content_of("07_day_month.csv").replace(b"31/02", b"28/02")
    file = {"name": "august.csv", "mimeType": "text/csv", "buffer": content}
    page.get_by_label("File", exact=True).set_input_files(file)  # type: ignore[arg-type]
    readable(page)
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("How august.csv is read")
    expect(page.get_by_text("The semicolon gives 4 of the first rows 3 columns each.")).to_be_visible()

    page.get_by_label("Dates are written").select_option("MM/DD/YYYY")
    page.get_by_label("Amounts are written").select_option("1,234.50")
    page.locator("input[name=currency]").fill("EUR")
    page.get_by_role("button", name="See the first rows").click()
    expect(page.get_by_text("2 of them are wrong: nothing would be applied.")).to_be_visible()
    readable(page)
    page.get_by_role("button", name="Read all of it so").click()
    expect(page.get_by_text("Nothing can be applied: 2 rows are wrong.")).to_be_visible(timeout=30_000)
    page.get_by_role("link", name="All of them").click()
    expect(page.get_by_text("“13/04/2026” is no day of the calendar, read as MM/DD/YYYY.")).to_be_visible()
    readable(page)

    page.get_by_role("link", name="Map it otherwise").click()
    page.get_by_label("Dates are written").select_option("DD/MM/YYYY")
    page.get_by_role("button", name="See the first rows").click()
    expect(page.get_by_text("None is wrong.")).to_be_visible()
    page.get_by_role("button", name="Read all of it so").click()
    apply = page.get_by_role("button", name="Apply 3 lines")
    expect(apply).to_be_visible(timeout=30_000)
    readable(page)
    apply.click()
    expect(page.locator("#messages")).to_contain_text("Applied: 3 lines count from now on.")
    address = page.url

    auditor = desks.of(AUDITOR, viewport=DESK, reduced_motion="reduce")
    auditor.goto("receivers/")
    auditor.get_by_role("link", name="What it says it did").first.click()
    expect(auditor.get_by_role("heading", level=1)).to_have_text("Statements")
    auditor.goto(address)
    expect(auditor.locator("h1 + .meta")).to_contain_text("Applied")
    expect(auditor.get_by_role("link", name="Map it otherwise")).to_have_count(0)
