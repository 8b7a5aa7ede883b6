"""One installation for all browser tests, with real processes, and one Chromium that looks at it.

The rows are the pages' to show: once the browser runs, nothing here reads the database (Playwright's loop in this
thread would make Django refuse to).
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import MD5PasswordHasher
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from access.models import Person
from examples.demos.installation import installation
from examples.demos.telling import Teller
from examples.management.sample import PEOPLE, SLUG
from examples.simulators.client import BureauControl, ErpControl, IndexControl, ProviderControl
from tests.browser import storming
from tests.browser.pages import sign_in
from tests.browser.serving import FLAGS, chromium_path, static_files, web_server
from tests.browser.together import write_rules

LONGEST = 20_000
"""Milliseconds that a page may take to show something: far more than a calm machine needs."""

SIGNED_OUT = "Response Status Error Code 401"
"""What htmx writes there of an answer that it does not show; `lost.js` tells the person."""

REFUSED = (
    "401 (Unauthorized)",
    "403 (Forbidden)",
    "409 (Conflict)",
    "422 (Unprocessable Content)",
    "422 (Unprocessable Entity)",
)
"""Chromium writes every answer above 399 to its console, and these are content."""


@dataclass(frozen=True)
class Served:
    """What the tests look at from the outside."""

    address: str
    erp: ErpControl
    provider: ProviderControl
    bureau: BureauControl
    index: IndexControl
    password: str

    def url(self, path: str = "") -> str:
        return f"{self.address}/t/{SLUG}/{path}"


@pytest.fixture(scope="package")
def served(django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The sample organisation without a job, its ERP, its model provider, its workers and its web server."""
    chromium_path()
    folder: Path = tmp_path_factory.mktemp("browser")
    password = secrets.token_urlsafe(9)
    ours = (
        "tests.workflows.mending",
        "tests.console.asking",
        "tests.browser.together",
        "tests.browser.storming",
    )
    workflows = ",".join([*settings.COUNTERFOIL_WORKFLOWS, *ours])
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("COUNTERFOIL_WORKFLOWS", workflows)
        with static_files(folder / "static") as static:
            started = installation(Teller(io.StringIO()), workers=1, slots=4, keep=False)
            made = started.__enter__()
        try:
            hashed = MD5PasswordHasher().encode(password, "tests")
            Person.objects.filter(username__in=PEOPLE).update(password=hashed)
            write_rules(SLUG)
            storming.prepare(SLUG, made.erp.base_url)
            with web_server(static=static, log=folder / "web.log") as address:
                yield Served(address, made.erp, made.provider, made.bureau, made.index, password)
        finally:
            started.__exit__(None, None, None)


@pytest.fixture(scope="package")
def chromium(served: Served) -> Iterator[Browser]:
    expect.set_options(timeout=LONGEST)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def signed_in(chromium: Browser, served: Served) -> Callable[[str], Any]:
    """The cookies of somebody who has signed in, once for all tests."""
    known: dict[str, Any] = {}

    def cookies_of(handle: str) -> Any:
        if handle not in known:
            with chromium.new_context(base_url=served.url()) as context:
                sign_in(context.new_page(), served.address, handle, served.password)
                known[handle] = context.storage_state()
        return known[handle]

    return cookies_of


@dataclass
class Desks:
    """Opens browsers, each with one person in it or nobody yet, and keeps what goes wrong in their consoles."""

    browser: Browser
    served: Served
    cookies_of: Callable[[str], Any]
    wrong: list[str] = field(default_factory=list)
    opened: list[BrowserContext] = field(default_factory=list)

    def of(self, handle: str = "", **options: Any) -> Page:
        """A page in a browser of its own; further pages of the same person come from `page.context`."""
        state = self.cookies_of(handle) if handle else None
        context = self.browser.new_context(base_url=self.served.url(), storage_state=state, **options)
        context.set_default_timeout(LONGEST)
        context.on("console", self._keep)
        context.on("weberror", lambda error: self.wrong.append(str(error.error)))
        self.opened.append(context)
        return context.new_page()

    def _keep(self, message: Any) -> None:
        if SIGNED_OUT in message.text:
            return
        if message.type in ("error", "warning") and not message.text.rstrip(")").endswith(
            tuple(r.rstrip(")") for r in REFUSED)
        ):
            self.wrong.append(f"{message.location['url']}: {message.text}")


@pytest.fixture
def desks(chromium: Browser, served: Served, signed_in: Callable[[str], Any]) -> Iterator[Desks]:
    """Every test's browsers. It fails when a console held an error, which a refused script or style also is."""
    desks = Desks(chromium, served, signed_in)
    yield desks
    for context in desks.opened:
        context.close()
    assert list(dict.fromkeys(desks.wrong)) == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Beside what failed stands what the pages showed."""
    report: pytest.TestReport = yield  # type: ignore[assignment, misc]
    desks = getattr(item, "funcargs", {}).get("desks")
    if report.failed and report.when == "call" and desks is not None:
        for page in (page for context in desks.opened for page in context.pages):
            report.sections.append((page.url, page.locator("body").inner_text()))
    return report  # type: ignore[return-value]
