"""What is printed is all of it: paper cannot be opened."""

from __future__ import annotations

import io

import pytest
from playwright.sync_api import Browser
from pypdf import PdfReader

from tests.browser.conftest import Served

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

FOLDED = (
    '<link rel="stylesheet" href="/static/css/counterfoil.css"><article class="slip"><div class="face">'
    '<details class="long"><summary>Begins</summary><span class="val">{}</span></details>'
    '<details class="sent"><summary>A request</summary><pre class="bytes">{}</pre></details></div></article>'
)


def test_folded_values_and_bodies_are_printed_in_full(chromium: Browser, served: Served) -> None:
    words = [f"word{n:04}" for n in range(1500)]
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{served.address}/sign-in/")
        page.set_content(FOLDED.format(" ".join(words), "\n".join(words)), wait_until="networkidle")
        printed = "".join(p.extract_text() for p in PdfReader(io.BytesIO(page.pdf())).pages)
    found = "".join(printed.split())
    assert [found.count(word) for word in words] == [2] * len(words)
