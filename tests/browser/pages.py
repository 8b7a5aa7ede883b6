"""What people do on the pages, in the words that they see there."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from urllib.parse import urljoin

from playwright.sync_api import Locator, Page, expect

from examples.management.sample import ADMIN, AUDITOR, MANAGER, OPERATOR, SECOND_MANAGER, SUBMITTER
from tests.support import eventually

__all__ = ["ADMIN", "AUDITOR", "MANAGER", "OPERATOR", "SECOND_MANAGER", "SUBMITTER"]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Change:
    """A vendor change as a submitter asks for it. The reference is its own, so that a page can be told from others."""

    vendor: str
    limit: str
    receiver: str = "keyed"
    request: str = "Larger orders are expected from spring on."
    reference: str = field(default_factory=lambda: f"BT-{next(_numbers):04}")


def sign_in(page: Page, address: str, handle: str, password: str) -> None:
    """Through the form, from wherever nobody is signed in; ends at home."""
    page.goto(address)
    page.get_by_label("Handle").fill(handle)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="What needs a person")).to_be_visible()


def submit(page: Page, change: Change) -> str:
    """Start a job through its form; the address of the job's page."""
    page.goto("submit/")
    page.get_by_role("link", name="Vendor onboarding").click()
    page.get_by_label("Reference").fill(change.reference)
    page.get_by_label("Vendor", exact=True).fill(change.vendor)
    page.get_by_label("Request").fill(change.request)
    page.get_by_label("New credit limit").fill(change.limit)
    page.get_by_label("Currency").fill("EUR")
    page.get_by_label("Contact").fill("accounts@vendor.example")
    page.get_by_label("Receiver").select_option(change.receiver)
    page.get_by_role("button", name="Submit job").click()
    expect(page).to_have_url(re.compile(r"/jobs/\d+/$"))
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Update vendor record {change.vendor}")
    return page.url


def here(page: Page, words: str) -> Locator:
    """The stop of the job's rail at which it stands, where that reads so."""
    return page.locator("ol.rail [aria-current=step]", has_text=words)


def reload_until(page: Page, wanted: Locator) -> None:
    """What somebody without scripts does."""

    def look() -> bool:
        page.reload()
        return wanted.is_visible()

    eventually(look, seconds=30, what=str(wanted))


def slip_of(page: Page, job: str) -> str:
    """The address of the open slip of a job, once there is one."""
    page.goto(job)
    link = page.locator("ul.slips a")
    reload_until(page, link)
    return urljoin(page.url, link.last.get_attribute("href") or "")
