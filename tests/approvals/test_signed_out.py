"""Somebody whose session ended while a slip was open: nothing is decided, and the way back leads to the slip."""

from __future__ import annotations

import html
import re

import pytest

from access.roles import Role
from tests.approvals.pages import HTMX, as_person, at, text
from tests.approvals.world import World
from tests.support import make_person

pytestmark = pytest.mark.django_db(transaction=True)


def test_whoever_signs_in_again_after_pressing_approve_comes_back_to_the_slip(world: World) -> None:
    proposal, mia = world.proposed(), make_person(world.tenant, Role.MANAGER)
    client, slip = as_person(mia), at(world, "approval", proposal)
    client.logout()
    form = {"verdict": "approve", "digest": proposal.digest}
    for came_from, leads_to in ((f"http://localhost{slip}", slip), ("http://evil.test/x", "/"), ("", "/")):
        sent = client.post(at(world, "decision", proposal), form, headers={"referer": came_from})
        assert sent.status_code == 302
        page = text(client.get(sent.headers["Location"]))
        (leads,) = re.findall(r'name="next" value="([^"]*)"', page)
        assert html.unescape(leads).removeprefix("http://localhost") == leads_to
    back = {"username": mia.username, "password": "correct horse", "next": f"http://localhost{slip}"}
    assert client.post("/sign-in/", back, follow=True).status_code == 200
    assert world.state(proposal) == "AWAITING_APPROVAL"


def test_the_address_of_a_form_is_no_blank_page(world: World) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    slip = f"http://localhost{at(world, 'approval', proposal)}"
    for came_from, leads_to in ((slip, slip), ("http://evil.test/", "/")):
        told = client.get(at(world, "decision", proposal), headers={"referer": came_from})
        assert (told.status_code, told.headers["Allow"]) == (405, "POST")
        assert "Nothing was changed and nothing was sent." in text(told)
        assert f'href="{leads_to}"' in text(told)


def test_no_sign_in_is_swapped_into_a_part_of_a_page(world: World) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    client.logout()
    for name, ask in (("decision", client.post), ("approval", client.get)):
        answer = ask(at(world, name, proposal), headers=HTMX)
        assert (answer.status_code, text(answer)) == (401, "")


def test_nothing_that_was_read_is_kept_by_a_browser_or_on_the_way(world: World) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    pages = [at(world, name) for name in ("approvals", "approval-mine", "approval-figures")]
    pages += [at(world, name, proposal) for name in ("approval", "approval-signed", "approval-reject")]
    pages += [f"/api/v1/t/{world.tenant.slug}/proposals/{proposal.pk}", "/t/nothing/here/"]
    assert {client.get(page).headers["Cache-Control"] for page in pages} == {"private, no-store"}
