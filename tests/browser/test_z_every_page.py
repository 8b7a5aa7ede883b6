"""Every page that a link leads to, with the example jobs on them: readable for everybody, and on a telephone.

Last by its name: the example jobs would fill the home page of the stories.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import urldefrag, urljoin

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from config.var import PROJECT
from tests.browser.conftest import Desks, Served
from tests.browser.pages import ADMIN, AUDITOR, MANAGER, OPERATOR, SUBMITTER

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

AREAS = {
    MANAGER: ("approvals/", "absence/"),
    OPERATOR: ("cases/", "statements/"),
    ADMIN: (
        "jobs/",
        "receivers/",
        "health/",
        "policies/",
        "groups/",
        "absence/",
        "notifications/",
        "approvals/blocks/",
    ),
    SUBMITTER: ("submit/",),
    AUDITOR: ("cost/", "policies/"),
}
"""Who looks at which pages: whoever has most to do there. Home is everybody's."""

LONG = (MANAGER, OPERATOR, ADMIN, AUDITOR)
"""Whose areas have too many pages for `make test`; `make prove` looks at them."""
_MANY = pytest.mark.long

AT_MOST = {"jobs/N/": 8, "approvals/N/": 3, "cases/N/": 4}
"""Pages of one address and many looks; of any other address one is as good as another."""

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
EVERYTHING = {"resultTypes": ["violations"], "preload": False}
"""Without axe's own copies of the style sheets, which the page's policy rightly refuses."""
COLOURS = {**EVERYTHING, "runOnly": ["color-contrast"]}


@pytest.fixture(scope="module")
def example_jobs(served: Served) -> None:
    ended = subprocess.run(
        [sys.executable, "manage.py", "submit_examples"],
        cwd=PROJECT,
        env={
            **os.environ,
            "COUNTERFOIL_ERP_URL": served.erp.base_url,
            "COUNTERFOIL_PROVIDER_URL": served.provider.base_url,
            "COUNTERFOIL_BUREAU_URL": served.bureau.base_url,
            "COUNTERFOIL_INDEX_URL": served.index.base_url,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "not reached" not in ended.stdout, ended.stdout


@pytest.mark.parametrize("handle", [pytest.param(h, marks=_MANY if h in LONG else ()) for h in AREAS])
def test_every_page_is_accessible_in_both_colours_and_fits_a_telephone(
    desks: Desks, served: Served, example_jobs: None, handle: str
) -> None:
    page = desks.of(handle, viewport=DESK, reduced_motion="reduce", color_scheme="light")
    faults = [
        fault for url in pages_from(page, served.url(), AREAS[handle]) for fault in faults_of(page, url)
    ]
    assert faults == []


def test_pages_without_a_person_are_accessible_too(desks: Desks, served: Served) -> None:
    page = desks.of(viewport=DESK, reduced_motion="reduce", color_scheme="light")
    page.goto(served.address)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert list(faults_of(page, page.url)) == []


def test_telephone_shows_which_room_is_open(desks: Desks) -> None:
    page = desks.of(OPERATOR, viewport=PHONE)
    page.goto("receivers/")
    expect(
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Receivers")
    ).to_be_in_viewport(ratio=0.9)


def pages_from(page: Page, home: str, areas: tuple[str, ...]) -> Iterator[str]:
    """Home, the areas, and each address in them that links lead to, opened."""
    waiting = [home, *(home + area for area in areas)]
    known = set(waiting)
    times: Counter[str] = Counter()
    for url in waiting:
        pattern = re.sub(r"\d+", "N", url.removeprefix(home).partition("?")[0])
        if times[pattern] >= AT_MOST.get(pattern, 1):
            continue
        times[pattern] += 1
        answer = page.goto(url)
        assert answer is not None
        assert answer.status == 200, url
        yield url
        found = [urldefrag(urljoin(url, address))[0] for address in hrefs(page)]
        new = [u for u in found if u.startswith(tuple(home + area for area in areas)) and u not in known]
        waiting += [
            u
            for u in dict.fromkeys(new)
            if not u.partition("?")[0].endswith((".json", ".csv", "/file/")) and "/files/" not in u
        ]
        known.update(new)


def hrefs(page: Page) -> list[str]:
    return page.locator("a[href]").evaluate_all("all => all.map(a => a.getAttribute('href'))")  # type: ignore[no-any-return]


def faults_of(page: Page, url: str) -> Iterator[str]:
    """What is wrong with the page that is open."""
    if not page.get_by_role("heading", level=1).first.is_visible():
        yield f"{url}: shows no heading"
    yield from violations(page, url, "light", EVERYTHING)
    in_colours(page, "dark")
    yield from violations(page, url, "dark", COLOURS)
    in_colours(page, "light")
    page.set_viewport_size(PHONE)
    width = page.locator("html").evaluate("html => html.scrollWidth")
    if width > PHONE["width"]:
        yield f"{url}: {width} px wide on a screen of {PHONE['width']}"
    if page.locator(".note").evaluate_all("all => all.some(n => n.checkVisibility() && !n.innerText.trim())"):
        yield f"{url}: a note says nothing on a telephone"
    page.set_viewport_size(DESK)


def in_colours(page: Page, scheme: Literal["light", "dark"]) -> None:
    """Returns when no colour is on its way from one to the other any more."""
    page.emulate_media(color_scheme=scheme)
    page.locator("html").evaluate(
        "() => Promise.allSettled(document.getAnimations().map((under) => under.finished))"
    )


def violations(page: Page, url: str, colours: str, options: dict[str, Any]) -> Iterator[str]:
    found = Axe().run(page, options=options).response["violations"]
    for violation in found:
        for node in violation["nodes"]:
            yield f"{url} ({colours}): {violation['id']} at {node['target']}: {node['html'][:200]}"
