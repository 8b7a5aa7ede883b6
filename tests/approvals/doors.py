"""The three doors that a decision comes through, asked in the same words: the page, the API and bulk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from access.models import Person
from access.tenancy import reading
from approvals.models import Chosen, Decision, Proposal, Refusal
from tests.approvals.pages import as_person, at
from tests.approvals.world import World

DOORS = ("page", "API", "bulk")


@dataclass(frozen=True)
class Answer:
    """What a door said: whether it let a decision through, its status, and all of its words."""

    status: int
    done: bool
    words: str


def knock(
    door: str,
    world: World,
    person: Person,
    proposal: Proposal,
    verdict: str = "approve",
    *,
    digest: str = "",
    under: World | None = None,
    client: Any = None,
    forged: dict[str, str] | None = None,
) -> Answer:
    """Decide through a door, as its own form or client does. `under`: whose address it is asked at."""
    client = client or as_person(person)
    at_world = under or world
    asked = {"verdict": verdict, "digest": digest or proposal.digest, "reason": "because", **(forged or {})}
    if door == "page":
        response = client.post(at(at_world, "decision", proposal), asked)
        return Answer(response.status_code, response.status_code == 302, response.content.decode())
    if door == "API":
        url = f"/api/v1/t/{at_world.tenant.slug}/proposals/{proposal.pk}/decisions"
        response = client.post(url, json.dumps(asked), content_type="application/json")
        return Answer(response.status_code, response.status_code in (200, 201), response.content.decode())
    return _in_bulk(client, at_world, proposal, asked)


def _in_bulk(client: Any, world: World, proposal: Proposal, asked: dict[str, Any]) -> Answer:
    chosen = client.post(at(world, "approval-choose"), {"chosen": f"{proposal.pk}:{asked['digest']}"})
    if chosen.status_code != 302:
        return Answer(chosen.status_code, False, chosen.content.decode())
    page = chosen.headers["Location"]
    # As a forged form would: it confirms what the page may not have offered.
    posted = client.post(f"{page}decision/", {**asked, "seen": proposal.pk})
    if posted.status_code != 302:
        return Answer(posted.status_code, False, posted.content.decode())
    with reading(world.tenant.pk):
        row = Chosen.objects.get(proposal=proposal, selection=page.rstrip("/").rpartition("/")[2])
    return Answer(200, row.state == "done", row.why)


def decided(world: World) -> list[tuple[str, str, str]]:
    """Every decision there is, with its door."""
    with reading(world.tenant.pk):
        return [(d.person_name, d.verdict, d.door) for d in Decision.objects.order_by("pk")]


def refusals(world: World) -> list[str]:
    """Why, of everything that was refused and kept."""
    with reading(world.tenant.pk):
        return [r.why.partition(":")[0] for r in Refusal.objects.order_by("pk")]
