"""The shared pages render, hold no inline script or style, and answer htmx with the fragment alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.test import RequestFactory
from django_htmx.middleware import HtmxDetails

from web import views
from web.htmx import Conflict, render_conflict, render_fragment, wants_fragment

ROOT = Path(__file__).parents[2]
CONFLICT = Conflict(title="Already decided", not_done="Your signature was not recorded and nothing was sent.")

COMPONENTS = """
    bar ledger rows sheet slip face stub sum-line diff said checks sign seal quorum digest bars rail fan gantt journal
    fate known trail decide ladder note seg bulk ask chart state field pager blank stamp tabs live facts
"""


def ask(**headers: str) -> HttpRequest:
    request = RequestFactory().get("/somewhere/", headers=headers)
    request.user = AnonymousUser()
    request.htmx = HtmxDetails(request)  # type: ignore[attr-defined]
    return request


def test_styleguide_shows_every_component() -> None:
    html = render_to_string("web/styleguide.html", {**views._context(), "request": ask(), "csrf_token": "t"})
    shown = set(re.findall(r'class="([^"]*)"', html))
    classes = {name for value in shown for name in value.split()}
    assert set(re.findall(r"[\w-]+", COMPONENTS)) - classes == set()


@pytest.mark.parametrize("name", ["400.html", "500.html", "403_csrf.html"])
def test_pages_for_our_own_trouble_need_no_request(name: str) -> None:
    assert "<h1" in render_to_string(name)


@pytest.mark.parametrize("name", ["403.html", "404.html"])
def test_error_pages_say_first_what_did_not_happen(name: str) -> None:
    lead = render_to_string(name, {"request": ask(), "exception": "<b>"}).split('class="lead">')[1]
    assert re.match(r"(Nothing was|Your request was <b>not</b>)", lead)
    assert "<b></p>" not in lead


@pytest.mark.parametrize("path", sorted(ROOT.glob("templates/**/*.html")), ids=lambda p: p.name)
def test_templates_hold_no_inline_script_or_style(path: Path) -> None:
    html = re.sub(r"{%.*?%}", "", path.read_text())
    assert not re.search(r"<style|\sstyle=|\son\w+=|hx-on|javascript:", html)
    assert not re.search(r"<script(?![^>]*\ssrc=)", html)
    assert "|safe" not in html


def test_htmx_gets_the_fragment_and_a_browser_the_page() -> None:
    page = render_conflict(ask(), CONFLICT)
    fragment = render_conflict(ask(hx_request="true"), CONFLICT)
    assert (page.status_code, fragment.status_code) == (409, 409)
    assert b"<!doctype html>" in page.content
    assert fragment.content.strip().startswith(b'<section class="conflict" role="alert">')
    assert page.headers["Vary"] == fragment.headers["Vary"] == "HX-Request"


def test_a_restored_history_entry_gets_the_page() -> None:
    request = ask(hx_request="true", hx_history_restore_request="true")
    assert not wants_fragment(request)
    assert (
        b"<!doctype html>"
        in render_fragment(request, "web/conflict.html#content", {"conflict": CONFLICT}).content
    )


def test_every_stylesheet_is_imported_once_and_every_script_is_loaded() -> None:
    css = ROOT / "static" / "css"
    imported = re.findall(r'@import "([\w-]+\.css)";', (css / "counterfoil.css").read_text())
    assert sorted(imported) == sorted(p.name for p in css.glob("*.css") if p.name != "counterfoil.css")
    loaded = re.findall(r"static 'js/([\w-]+\.js)'", (ROOT / "templates" / "base.html").read_text())
    assert sorted(loaded) == sorted(p.name for p in (ROOT / "static" / "js").glob("*.js"))
