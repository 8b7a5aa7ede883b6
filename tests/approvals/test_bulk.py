"""Deciding together: exactly what was ticked and seen, each with its result, through a crash in the middle."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.models import Person, TenantEntry
from access.roles import Role
from access.tenancy import reading
from approvals.actions import bulk
from approvals.actions.repropose import repropose_job
from approvals.models import Chosen, Decision, Proposal
from tests.approvals.pages import as_person, at, text
from tests.approvals.test_authority import group
from tests.approvals.world import World, draft, make_person
from tests.support import make_person as make_person_with_password

pytestmark = pytest.mark.django_db(transaction=True)
EUR = {"currency": "EUR"}


@pytest.fixture(autouse=True)
def _bulk_is_allowed(world: World) -> None:
    world.policy(bulk=True)


def ticked(html: str) -> list[str]:
    """Every box of the list, as if all were ticked."""
    return re.findall(r'name="chosen" value="([^"]+)"', html)


def choose(client: Any, world: World, chosen: list[str]) -> str:
    """The address of the page that is to be confirmed."""
    response = client.post(at(world, "approval-choose"), {"chosen": chosen})
    assert response.status_code == 302, text(response)
    page: str = response.headers["Location"]
    return page


def confirm(client: Any, page: str, verdict: str = "approve", **more: Any) -> Any:
    """Press the button of a verdict: its form's hidden fields come along."""
    html = text(client.get(page))
    forms = re.findall(r'<form class="form" method="post".*?</form>', html, re.DOTALL)
    (form,) = [f for f in forms if f'name="verdict" value="{verdict}"' in f]
    seen = re.findall(r'name="seen" value="(\d+)"', form)
    return client.post(f"{page}decision/", {"verdict": verdict, "seen": seen, **more})


def results(world: World) -> dict[int, str]:
    with reading(world.tenant.pk):
        return dict(Chosen.objects.order_by("ordinal").values_list("proposal_id", "state"))


def named(*proposals: Proposal) -> list[str]:
    return [f"{p.pk}:{p.digest}" for p in proposals]


def test_all_ticked_is_what_was_seen_and_nothing_that_came_since(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six waiting, five a page, all ticked; one arrives and one is sent back and proposed again before the confirmation."""
    monkeypatch.setattr("approvals.inbox.PAGE", 5)
    now = timezone.now()
    made = [world.proposed(now=now - timedelta(minutes=m)) for m in (9, 8, 7, 6, 5, 4)]
    client = as_person(world.manager)
    boxes = ticked(text(client.get(at(world, "approvals"))))
    assert boxes == named(*made[:5])
    page = choose(client, world, boxes)
    html = text(client.get(page))
    world.proposed(now=now - timedelta(minutes=20))
    world.decide(made[1], world.second, "request changes", reason="Look again")
    again = repropose_job(
        tenant_id=world.tenant.pk, job_id=made[1].job_id, person_id=world.submitter.pk, now=now
    )
    assert again.proposal_id
    seen = re.findall(r'name="seen" value="(\d+)"', html.partition('value="reject"')[0])
    posted = client.post(f"{page}decision/", {"verdict": "approve", "seen": seen})
    assert posted.status_code == 302
    assert results(world) == {p.pk: "refused" if p is made[1] else "done" for p in made[:5]}
    told = text(client.get(page))
    assert "4 of 5 decided" in told
    assert "Look again" in told
    assert world.second.username in told
    with reading(world.tenant.pk):
        mine = Decision.objects.filter(person=world.manager).values_list("proposal", "digest", "door")
        assert set(mine) == {(p.pk, p.digest, "bulk") for p in made[:5] if p is not made[1]}
        assert TenantEntry.objects.filter(event="selection.confirmed").count() == 1


def test_only_what_may_be_decided_together_has_a_box(world: World) -> None:
    world.policy(bulk=False)
    alone = world.proposed()
    client = as_person(world.manager)
    html = text(client.get(at(world, "approvals")))
    assert (ticked(html), "Decide the ticked ones" in html, alone.title in html) == ([], False, True)
    world.policy(bulk=True)
    together = world.proposed()
    html = text(client.get(at(world, "approvals")))
    assert (ticked(html), "Decide the ticked ones" in html) == (named(together), True)


def test_the_page_shows_sums_the_largest_what_stands_out_and_what_cannot_be(world: World) -> None:
    for _ in range(5):
        world.decide(world.proposed(draft(amount="1000.00")), world.second)
    world.policy(bulk=True, limits=[{"amount": "6000.00", **EUR}, {"amount": "9000.00", "currency": "NOK"}])
    rows = [
        world.proposed(draft(amount="1000.00")),
        world.proposed(draft(amount="5000.01")),
        world.proposed(draft(amount="300.00", currency="NOK")),
        world.proposed(draft(amount="6000.01")),
        world.proposed(),
        world.proposed(by=manages_too(world)),
    ]
    client = as_person(world.manager)
    world.decide(rows[4], world.second, "reject", reason="No")
    page = choose(client, world, [*named(*rows), *named(rows[0]), "99999:x", "nonsense"])
    html = text(client.get(page))
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
    for sentence in (
        "Decide 6 together",
        "4 that you may approve",
        "More than 5 times the middle of the last 5 approvals under test-policy, which is 1,000.00 EUR.",
        "1 that you may not approve here",
        "Over your limit; you may reject it",
        "1 changed since it was chosen, and dropped",
        f"{world.second.username} rejected this",
        "3 in EUR",
        "1 in NOK",
        "Or reject 5",
    ):
        assert sentence in shown, (sentence, shown)
    assert "10,800.01" in shown
    assert confirm(client, page, "reject", reason="").status_code == 422
    assert confirm(client, page, "reject", reason="Not this year.").status_code == 302
    assert list(results(world).values()) == ["done"] * 4 + ["left", "done"]
    with reading(world.tenant.pk):
        assert "rejected this" in Chosen.objects.get(state="left").why
        assert set(Decision.objects.filter(door="bulk").values_list("reason", flat=True)) == {
            "Not this year."
        }


def manages_too(world: World) -> Person:
    return make_person(world.tenant, Role.SUBMITTER, Role.MANAGER)


def test_a_turn_that_ends_in_the_middle_is_gone_on_with(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request's time is over at once; meanwhile one is decided whose result was lost; then somebody goes on."""
    rows = [world.proposed() for _ in range(3)]
    client = as_person(world.manager)
    page = choose(client, world, named(*rows))
    monkeypatch.setattr(bulk, "TURN_SECONDS", 0.0)
    assert confirm(client, page).status_code == 302
    assert set(results(world).values()) == {"waiting"}
    world.decide(rows[0], world.manager)  # the crash came between the decision and the row's result
    assert "some of them still wait" in text(client.get(at(world, "approvals")))
    assert "Go on with 3" in text(client.get(page))
    monkeypatch.undo()
    for _ in range(2):
        assert client.post(f"{page}go-on/").status_code == 302
    assert set(results(world).values()) == {"done"}
    with reading(world.tenant.pk):
        assert Decision.objects.count() == 3
    assert "some of them still wait" not in text(client.get(at(world, "approvals")))


def test_it_is_confirmed_once_by_its_own_person_in_time(world: World) -> None:
    first, second = world.proposed(), world.proposed()
    client, other = as_person(world.manager), as_person(world.second)
    page = choose(client, world, named(first, second))
    assert other.get(page).status_code == 404
    for address in (f"{page}decision/", f"{page}go-on/"):
        assert other.post(address, {"verdict": "approve", "seen": first.pk}).status_code == 404
    assert client.post(f"{page}go-on/").status_code == 302
    assert client.post(f"{page}decision/", {"verdict": "approve"}).status_code == 422
    assert (
        client.post(f"{page}decision/", {"verdict": "request changes", "seen": first.pk}).status_code == 422
    )
    with reading(world.tenant.pk):
        assert Decision.objects.count() == 0
    assert client.post(f"{page}decision/", {"verdict": "approve", "seen": first.pk}).status_code == 302
    assert (
        client.post(f"{page}decision/", {"verdict": "reject", "reason": "x", "seen": second.pk}).status_code
        == 302
    )
    assert list(results(world).values()) == ["done", "left"]
    late = bulk.choose_proposals(
        tenant_id=world.tenant.pk,
        person_id=world.manager.pk,
        chosen=[(second.pk, second.digest)],
        now=timezone.now() - timedelta(minutes=61),
    )
    told = client.post(
        f"{at(world, 'approval-choose')}{late}/decision/", {"verdict": "approve", "seen": second.pk}
    )
    assert told.status_code == 409
    assert as_person(world.operator).post(at(world, "approval-choose"), {"chosen": "1:x"}).status_code == 403
    too_many = [f"{n}:x" for n in range(1, 102)]
    assert client.post(at(world, "approval-choose"), {"chosen": too_many}).status_code == 422


def test_the_password_is_asked_for_once_for_all_before_anything_is_confirmed(world: World) -> None:
    world.policy(bulk=True, reauthenticate="above", reauthenticate_above={"amount": "1000.00", **EUR})
    mia = make_person_with_password(world.tenant, Role.MANAGER)
    client = as_person(mia)
    rows = [world.proposed(draft(amount="10.00")), world.proposed(), world.proposed()]
    page = choose(client, world, named(*rows))
    for given in ({}, {"password": "correct donkey"}):
        told = confirm(client, page, **given)
        assert told.status_code == 403
        assert "correct donkey" not in text(told)
        assert 'name="password"' in text(told)
    assert set(results(world).values()) == {"waiting"}
    assert confirm(client, page, password="correct horse").status_code == 302
    assert set(results(world).values()) == {"done"}
    with reading(world.tenant.pk):
        assert Decision.objects.filter(authenticated_at__isnull=False).count() == 2  # 10.00 asks for none


def test_a_level_that_opens_meanwhile_is_not_signed_with_the_rest(world: World) -> None:
    """Never more than was seen: what was not offered when the page was made is left, though it could be decided now."""
    group(world, "controllers", world.second)
    world.policy(bulk=True, levels=[{"group": "controllers"}, {}])
    waits = world.proposed()
    world.policy(bulk=True)
    client = as_person(world.manager)
    other = world.proposed()
    page = choose(client, world, named(waits, other))
    html = text(client.get(page))
    world.decide(waits, world.second)
    seen = re.findall(r'name="seen" value="(\d+)"', html.partition('value="reject"')[0])
    assert client.post(f"{page}decision/", {"verdict": "approve", "seen": seen}).status_code == 302
    assert results(world) == {waits.pk: "left", other.pk: "done"}


def test_the_page_takes_the_same_queries_for_one_and_for_four(world: World) -> None:
    client = as_person(world.manager)
    pages = [choose(client, world, named(*[world.proposed() for _ in range(n)])) for n in (1, 4)]
    costs = []
    for page in pages:
        with CaptureQueriesContext(connection) as captured:
            client.get(page)
        costs.append(len(captured))
    assert costs[0] == costs[1]
