"""Asking for an address decides nothing, whoever asks for it and wherever it stands."""

from __future__ import annotations

import re

import pytest

from access.tenancy import reading
from approvals.models import Decision
from tests.approvals.pages import as_person, at, text
from tests.approvals.world import World, make_person

pytestmark = pytest.mark.django_db(transaction=True)


def test_no_link_decides_at_any_door(world: World) -> None:
    """A mail scanner or a preview asks for every address that a page or a message has, signed in or not."""
    world.policy(bulk=True)
    proposal = world.proposed()
    client, nobody = as_person(world.manager), as_person(make_person(world.tenant))
    chosen = client.post(at(world, "approval-choose"), {"chosen": f"{proposal.pk}:{proposal.digest}"})
    start = [
        at(world, "approvals"),
        at(world, "approval", proposal),
        chosen.headers["Location"],
        f"/api/v1/t/{world.tenant.slug}/proposals/{proposal.pk}",
    ]
    found = {link for page in start for link in links_of(text(client.get(page)))} | set(start)
    actions = {f"{at(world, 'decision', proposal)}?verdict=approve&digest={proposal.digest}"}
    actions |= {f"{s}decision/?verdict=approve&seen={proposal.pk}" for s in start if "/bulk/" in s}
    actions |= {f"{s}/decisions?verdict=approve&digest={proposal.digest}" for s in start if "/api/" in s}
    assert len(found) > 10
    for address in sorted(found | actions):
        for one in (client, nobody):
            one.get(address)
            one.head(address)
    with reading(world.tenant.pk):
        assert not Decision.objects.exists()
    assert world.state(proposal) == "AWAITING_APPROVAL"


def links_of(html: str) -> list[str]:
    """Every address of our own that a page names, wherever it stands."""
    found = re.findall(r'(?:href|action|hx-get|hx-post)="(/[^"]*)"', html)
    ours = ("/approvals/", "/jobs/", "/api/")
    return [link.replace("&amp;", "&") for link in found if any(part in link for part in ours)]
