"""A statement has lines that are no operation of ours: two people set them aside, and one is looked at again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desks
from tests.browser.pages import ADMIN, OPERATOR
from tests.browser.test_statements import readable
from tests.browser.test_z_every_page import DESK
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.long]
QUEUE = "cases/?kind=unclaimed"


def applied(page: Page) -> None:
    """A statement with a fee, a rent and a repayment, read and applied."""
    page.goto("statements/upload/")
    page.get_by_label("Receiver").select_option(label="Astrel ERP (no key, no look-up)")
    page.get_by_label("Account").fill("ASIDE-1")
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    rows = [f"{today};-4,50;FEE 03/26", f"{today};-1200,00;RENT 03/26", f"{today};80,00;REPAID"]
    content = "\n".join(["Date;Amount;Reference", *rows, ""]).encode()
    file = {"name": "aside.csv", "mimeType": "text/csv", "buffer": content}
    page.get_by_label("File", exact=True).set_input_files(file)  # type: ignore[arg-type]
    page.get_by_role("button", name="Upload").click()
    page.locator("input[name=currency]").fill("EUR")
    page.get_by_role("button", name="See the first rows").click()
    page.get_by_role("button", name="Read all of it so").click()
    apply = page.get_by_role("button", name="Apply 3 lines")
    expect(apply).to_be_visible(timeout=30_000)
    apply.click()
    expect(page.get_by_text("Applied: 3 lines count from now on.")).to_be_visible()


def case_of(page: Page) -> str:
    """The address of the open case about the statement, once the workers have opened it."""
    row = page.get_by_role("row").filter(has_text="aside.csv")

    def there() -> bool:
        page.goto(QUEUE)
        return row.count() == 1

    eventually(there, seconds=30)
    row.get_by_role("link").first.click()
    return page.url


def test_lines_are_set_aside_by_two_people_and_one_is_looked_at_again(desks: Desks) -> None:
    page = desks.of(OPERATOR, viewport=DESK, reduced_motion="reduce")
    applied(page)
    case = case_of(page)
    expect(page.get_by_text("3 lines: EUR 1,204.50 went out, EUR 80.00 came in").first).to_be_visible()
    readable(page)

    page.get_by_label("Direction").select_option("out")
    page.get_by_role("button", name="Filter").click()
    page.get_by_label("All that the filter leaves: 2 lines").check()
    page.get_by_label("What they are").select_option("Not ours")
    page.get_by_role("button", name="Set aside").click()
    expect(page.get_by_text("a second person has to agree. Until then nothing is set aside.")).to_be_visible()

    other = desks.of(ADMIN, viewport=DESK, reduced_motion="reduce")
    other.goto(case)
    expect(other.get_by_text("Chosen: went out")).to_be_visible()
    other.get_by_role("link", name="Second…").click()
    other.get_by_role("button", name="Second it").click()
    expect(other.get_by_text("2 lines are set aside as not ours.")).to_be_visible()

    page.goto(case)
    page.get_by_label("Row 4").check()
    page.get_by_label("What they are").select_option("Other")
    page.get_by_role("button", name="Set aside").click()
    expect(page.get_by_text("Say in words what they are.")).to_be_visible()
    page.get_by_label("In your words").fill("paid back by mistake")
    page.get_by_role("button", name="Set aside").click()
    other.goto(case)
    other.get_by_role("link", name="Second…").click()
    other.get_by_role("button", name="Second it").click()
    expect(other.get_by_text("every line is claimed or set aside").first).to_be_visible()

    page.goto(f"{case}?show=aside")
    readable(page)
    page.get_by_role("row").filter(has_text="paid back by mistake").get_by_role("link").click()
    page.get_by_label("Why it is to be looked at again").fill("it was our payment")
    page.get_by_role("button", name="Take it back").click()
    expect(page.locator("h1 + .meta")).to_contain_text("Unclaimed")
    assert case_of(page) != case
    expect(page.get_by_text("was closed before").first).to_be_visible()
