"""Nobody knows whether a change was made; the receiver's statement has a line that is it, and the operator says so."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Desks, Served
from tests.browser.pages import OPERATOR, Change, here
from tests.browser.test_statements import readable
from tests.browser.test_unknown_outcome import signed
from tests.browser.test_z_every_page import DESK

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.long]
VENDOR = "V-30417"


def test_a_line_that_is_the_lost_change_is_matched_taken_back_and_counted(
    desks: Desks, served: Served
) -> None:
    served.erp.set_fault(
        "drop_after_commit", contract="neither", method="PUT", path=f"/neither/vendors/{VENDOR}"
    )
    job = signed(desks, Change(VENDOR, "38500.00", receiver="neither"))
    page = desks.of(OPERATOR, viewport=DESK, reduced_motion="reduce")
    page.goto(job)
    expect(here(page, "Outcome unknown")).to_be_visible()

    page.goto("statements/upload/")
    page.get_by_label("Receiver").select_option(label="Astrel ERP (no key, no look-up)")
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    content = f"Date;Amount;Reference\n{today};-38500,00;{VENDOR}\n{today};-12,00;FEES\n".encode()
    file = {"name": "limits.csv", "mimeType": "text/csv", "buffer": content}
    page.get_by_label("File", exact=True).set_input_files(file)  # type: ignore[arg-type]
    page.get_by_role("button", name="Upload").click()
    page.locator("input[name=currency]").fill("EUR")
    page.get_by_role("button", name="See the first rows").click()
    page.get_by_role("button", name="Read all of it so").click()
    apply = page.get_by_role("button", name="Apply 2 lines")
    expect(apply).to_be_visible(timeout=30_000)
    apply.click()
    statement = page.url

    page.get_by_role("link", name="Unclaimed").click()
    page.get_by_role("row").filter(has_text=VENDOR).get_by_role("link").click()
    expect(page.locator("h1 + .meta")).to_contain_text("Unclaimed")
    offered = page.locator("label.option").filter(has_text=VENDOR)
    expect(offered).to_contain_text("reference equal, amount equal")
    readable(page)
    offered.get_by_role("radio").check()
    page.get_by_role("button", name="Match", exact=True).click()
    expect(page.locator("h1 + .meta")).to_contain_text("Matched")
    line = page.url
    page.goto(job)
    expect(here(page, "Confirmed")).to_be_visible()

    page.goto(f"{statement}complete/")
    expect(page.get_by_role("region", name="What makes the difference")).to_contain_text(
        "1 line that no operation claims"
    )
    readable(page)

    page.goto(line)
    page.get_by_label("Why").fill("It is another vendor's.")
    page.get_by_role("button", name="Take the match back").click()
    expect(page.locator("h1 + .meta")).to_contain_text("Unclaimed")
    expect(page.get_by_role("region", name="Taken back")).to_contain_text("It is another vendor's.")
    assert [r["method"] for r in served.erp.requests(path=f"/neither/vendors/{VENDOR}")].count("PUT") == 1
