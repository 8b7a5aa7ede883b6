"""A bank loses the answers of six entries: one incident, paused, looked up in bulk, and closed by its last answer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desks, Served
from tests.browser.pages import ADMIN, OPERATOR, SUBMITTER, reload_until
from tests.browser.storming import TITLE

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.long]
ENTRIES = 6


def test_a_storm_is_paused_looked_up_in_bulk_and_closed(desks: Desks, served: Served) -> None:
    """All six were booked; their answers were lost, and the look-up that comes by itself met a bank that was down."""
    served.erp.set_fault("drop_after_commit", method="PUT", path="/keyed/records/ST-1", times=ENTRIES)
    served.erp.set_fault("status_503", method="GET", path="/keyed/operations/", times=ENTRIES)
    submit(desks.of(SUBMITTER))

    page = desks.of(OPERATOR)
    page.goto("cases/")
    incident = page.get_by_role("row").filter(has_text="INC-")
    reload_until(page, incident.filter(has_text=f"{ENTRIES} open of {ENTRIES}"))
    expect(page.get_by_role("link", name=re.compile("ST-1-"))).to_have_count(0)
    incident.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(TITLE)
    expect(page.get_by_text("Only an admin may do this.")).to_be_visible()

    pause(desks.of(ADMIN), page.url)
    page.reload()
    expect(page.get_by_text(f"Nothing is sent to {TITLE}.")).to_be_visible()
    look = page.get_by_role("listitem").filter(
        has=page.get_by_role("heading", name="Look up at the receiver")
    )
    look.get_by_role("button", name=f"See the {ENTRIES}…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Look up at the receiver: {ENTRIES}")
    page.get_by_label("Reason, kept in every journal").fill("The bank is back.")
    page.get_by_role("button", name=f"Look up at the receiver ({ENTRIES})").click()
    expect(page.get_by_text("That settles it.")).to_have_count(ENTRIES)

    page.goto("cases/incidents/")
    closed = page.get_by_role("row").filter(has_text=f"0 open of {ENTRIES}")
    reload_until(page, closed.filter(has_text="closed"))
    closed.get_by_role("link").first.click()
    happened = page.get_by_role("region", name="What has happened")
    expect(happened).to_contain_text("The incident was opened")
    expect(happened).to_contain_text(f"{TITLE} was paused: It loses answers.")
    expect(happened).to_contain_text(f"Look up at the receiver: {ENTRIES} cases, finished")
    expect(happened).to_contain_text("answered: settled by evidence")
    expect(happened).to_contain_text("The incident was closed")
    assert len(served.erp.effects()) >= ENTRIES
    assert [len(served.erp.effects(record=f"ST-1-{n}")) for n in range(1, ENTRIES + 1)] == [1] * ENTRIES


def submit(page: Page) -> None:
    page.goto("submit/test-storm/")
    page.get_by_label("Reference").fill("ST-1")
    page.get_by_label("Size").fill(str(ENTRIES))
    page.get_by_role("button", name="Submit job").click()
    expect(page).to_have_url(re.compile(r"/jobs/\d+/$"))


def pause(page: Page, incident: str) -> None:
    """By the switch that every receiver has; it leads back to the incident, and is lifted at the end of the day."""
    page.goto(incident)
    page.get_by_role("link", name="Pause…").click()
    dialog = page.locator("dialog[open]")
    dialog.locator("#reason").fill("It loses answers.")
    dialog.get_by_role("button", name="Pause receiver").click()
    expect(page).to_have_url(incident)
    expect(page.locator("#messages")).to_contain_text("Paused.")
