"""The list, the slip and the decisions, through the pages: every role, with and without a script."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.roles import Role
from access.tenancy import acting, reading
from approvals.models import Decision, Proposal, Refusal
from tests.approvals.pages import HOSTILE, HTMX, as_person, at, decide, text
from tests.approvals.world import World, draft, long_ago, operation
from tests.support import make_person
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

ASKING = ("approval-reject", "approval-changes", "approval-withdraw", "approval-unsign")


def decisions(world: World) -> list[tuple[str, str]]:
    with reading(world.tenant.pk):
        return list(Decision.objects.order_by("pk").values_list("person_name", "verdict"))


@pytest.mark.parametrize("role", list(Role))
def test_every_role_reads_the_list_and_the_slip(world: World, role: Role) -> None:
    proposal = world.proposed()
    client = as_person(make_person(world.tenant, role))
    listed, slip = client.get(at(world, "approvals")), client.get(at(world, "approval", proposal))
    assert (listed.status_code, slip.status_code) == (200, 200)
    assert ("Approve and sign <kbd" in text(slip)) is (role is Role.MANAGER)
    if role is not Role.MANAGER:
        assert "Only managers of this organisation decide." in text(slip)
        assert f"{world.second.username} or {world.manager.username} can sign it." in text(slip)


@pytest.mark.parametrize("name", ["approvals", "approval", *ASKING])
def test_an_outsider_gets_404(world: World, name: str) -> None:
    proposal, outsider = world.proposed(), World.make().manager
    address = at(world, name, None if name == "approvals" else proposal)
    assert as_person(outsider).get(address).status_code == 404


def test_another_tenants_proposal_is_not_there_under_ones_own_address(world: World) -> None:
    proposal, other = world.proposed(), World.make()
    client = as_person(other.manager)
    assert client.get(at(other, "approval", proposal)).status_code == 404
    posted = client.post(at(other, "decision", proposal), {"verdict": "approve", "digest": proposal.digest})
    assert (posted.status_code, decisions(world)) == (404, [])


def test_who_is_not_signed_in_is_asked_to(client: Any, world: World) -> None:
    assert client.get(at(world, "approval", world.proposed())).status_code == 302


def test_the_slip_shows_everything_that_is_signed(world: World) -> None:
    proposal = world.proposed()
    html = text(as_person(world.manager).get(at(world, "approval", proposal)))
    with reading(world.tenant.pk):
        key = re.search(r'"idempotency-key":"(\w+)"', Proposal.objects.get(pk=proposal.pk).document)
    assert key is not None
    for shown in (
        "Four thousand eight hundred euros",
        "4,800.00",
        "http://erp.test/vendors/V-1",
        "<b>POST</b>",
        key[1],
        "idempotency-key",
        "&quot;iban&quot;: &quot;NO93&quot;",
        proposal.digest,
        proposal.label,
        "Credit report",
        "Checked again when it is sent",
        "authorization, cookie, date",
    ):
        assert shown in html, shown
    assert 'class="said"' in html
    assert "20000.00" in html
    assert "<mark>4800.00</mark>" in html


def test_that_a_manager_opened_it_is_journalled_once_and_nobody_elses_look_is(world: World) -> None:
    proposal = world.proposed()
    as_person(world.submitter).get(at(world, "approval", proposal))
    as_person(world.manager).head(at(world, "approval", proposal))
    desk = at(world, "approval", proposal) + f"?part=desk&digest={proposal.digest}"
    as_person(world.manager).get(desk, headers=HTMX)
    assert "proposal.viewed" not in world.events(proposal)
    for _ in range(2):
        assert as_person(world.manager).get(at(world, "approval", proposal)).status_code == 200
    assert world.events(proposal).count("proposal.viewed") == 1


@pytest.mark.parametrize("headers", [{}, {**HTMX, "hx-boosted": "true"}])
def test_the_slip_is_not_read_unnoticed_by_asking_for_its_desk(world: World, headers: dict[str, str]) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    address = f"{at(world, 'approval', proposal)}?part=desk&digest={proposal.digest}"
    assert "NO93" not in text(client.get(address, headers=HTMX))
    assert "proposal.viewed" not in world.events(proposal)
    assert "NO93" in text(client.get(address, headers=headers))
    assert "proposal.viewed" in world.events(proposal)


def test_nothing_decides_on_get_or_head(world: World) -> None:
    proposal = world.proposed()
    client = as_person(world.manager)
    query = f"?verdict=approve&digest={proposal.digest}&reason=x"
    for ask in (client.get, client.head):
        assert ask(at(world, "decision", proposal) + query).status_code == 405
        for name in ("approval", "approval-reject", "approval-changes"):
            ask(at(world, name, proposal) + query)
    assert (decisions(world), world.state(proposal)) == ([], "AWAITING_APPROVAL")


def test_a_post_without_its_token_decides_nothing(world: World) -> None:
    from django.test import Client

    proposal, client = world.proposed(), Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    client.force_login(world.manager)
    data = {"verdict": "approve", "digest": proposal.digest}
    assert client.post(at(world, "decision", proposal), data).status_code == 403
    assert decisions(world) == []


def test_a_browser_without_script_signs_and_is_led_to_the_next(world: World) -> None:
    first, second = world.proposed(), world.proposed()
    response: Any = decide(world, first, world.manager)
    assert (response.status_code, response["Location"]) == (302, at(world, "approval", second))
    assert world.state(first) == "READY_TO_COMMIT"
    client = as_person(world.manager)
    client.post(at(world, "decision", second), {"verdict": "approve", "digest": second.digest})
    assert "Signed. Nothing else waits for you." in text(client.get(at(world, "approvals")))


def test_htmx_gets_the_next_slip_with_the_list_and_a_live_message(world: World) -> None:
    first, second, _third = (world.proposed() for _ in range(3))
    response = decide(world, first, world.manager, htmx=True)
    html = text(response)
    assert (response.status_code, response["HX-Push-Url"]) == (200, at(world, "approval", second))
    assert "<html" not in html
    assert 'id="slip"' in html
    assert f"№ {second.label}" in html
    assert "Signed. 2 left." in html
    assert html.count('hx-swap-oob="true"') == 3
    assert at(world, "approval", first) not in html
    assert world.events(second).count("proposal.viewed") == 1


def test_after_the_last_one_a_blank_slip_says_so(world: World) -> None:
    response = decide(world, world.proposed(), world.manager, htmx=True)
    assert response["HX-Push-Url"] == at(world, "approvals")
    assert "Nothing waits for your signature" in text(response)


def test_a_first_signature_of_two_says_what_is_missing(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    assert "second of 2" not in text(as_person(world.second).get(at(world, "approval", proposal)))
    assert "Signed. It needs 1 more." in text(decide(world, proposal, world.manager, htmx=True))
    html = text(as_person(world.second).get(at(world, "approval", proposal)))
    assert f"as {world.second.username}, second of 2." in html
    assert "1 of 2" in html


@pytest.mark.parametrize(("verdict", "state"), [("reject", "CANCELLED"), ("request changes", "VALIDATED")])
@pytest.mark.parametrize("htmx", [True, False])
def test_saying_no_with_a_reason_is_recorded(world: World, verdict: str, state: str, htmx: bool) -> None:
    proposal = world.proposed()
    response = decide(world, proposal, world.manager, verdict, htmx, reason="Wrong account", fields=["Limit"])
    assert response.status_code == (200 if htmx else 302)
    assert (decisions(world), world.state(proposal)) == ([(world.manager.username, verdict)], state)
    html = text(as_person(world.second).get(at(world, "approval", proposal)))
    assert "“Wrong account”" in html
    assert "About Limit" in html
    assert "Approve and sign <kbd" not in html


@pytest.mark.parametrize("name", ["approval-reject", "approval-changes"])
def test_the_question_is_a_dialog_for_htmx_and_a_page_without(world: World, name: str) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    page = text(client.get(at(world, name, proposal)))
    dialog = text(client.get(at(world, name, proposal) + "?digest=" + "a" * 64, headers=HTMX))
    assert "<html" in page
    assert proposal.digest in page
    assert dialog.strip().startswith("<dialog")
    assert f'value="{"a" * 64}"' in dialog


@pytest.mark.parametrize("htmx", [True, False])
def test_a_missing_reason_is_asked_for_again_and_nothing_is_lost(world: World, htmx: bool) -> None:
    proposal = world.proposed()
    response = decide(world, proposal, world.manager, "request changes", htmx, reason="  ", fields=["Limit"])
    html = text(response)
    assert (response.status_code, decisions(world)) == (422, [])
    assert "Say why" in html
    assert 'value="Limit" checked' in html
    assert response.headers.get("HX-Retarget") == ("#ask" if htmx else None)


@pytest.mark.parametrize("htmx", [True, False])
def test_a_reason_that_is_too_long_is_kept_whole(world: World, htmx: bool) -> None:
    reason = "x" * 4001
    response = decide(world, world.proposed(), world.manager, "reject", htmx, reason=reason)
    assert (response.status_code, decisions(world)) == (422, [])
    assert reason in text(response)


@pytest.mark.parametrize("htmx", [True, False])
def test_a_stale_digest_is_answered_with_both_slips_and_the_typed_reason(world: World, htmx: bool) -> None:
    proposal = world.proposed()
    response = decide(
        world, proposal, world.manager, "reject", htmx, digest="0" * 64, reason="Typed for long"
    )
    html = text(response)
    assert (response.status_code, decisions(world)) == (409, [])
    assert world.state(proposal) == "AWAITING_APPROVAL"
    assert "Your rejection was not recorded and nothing was sent." in html
    assert "What you were looking at" in html
    assert proposal.digest in html
    assert "Typed for long" in html
    assert ("<html" in html) is not htmx


@pytest.mark.parametrize("digest", ["", "xyz", "'\"><script>", "é" * 300])
def test_a_digest_that_is_none_is_refused_as_content(world: World, digest: str) -> None:
    response = decide(world, world.proposed(), world.manager, digest=digest)
    assert response.status_code in (409, 422)
    assert "<script>" not in text(response).replace("<script src", "").replace("<script type", "")
    assert decisions(world) == []


def test_pressing_twice_is_one_signature_and_a_calm_answer(world: World) -> None:
    proposal = world.proposed()
    for said in ("Signed.", "You approved this already at"):
        response = decide(world, proposal, world.manager, htmx=True)
        assert response.status_code == 200
        assert said in text(response)
    assert decisions(world) == [(world.manager.username, "approve")]


def test_a_second_manager_is_told_who_decided_first_and_when(world: World) -> None:
    proposal = world.proposed()
    decide(world, proposal, world.manager, "reject", reason="Not ours")
    response = decide(world, proposal, world.second, htmx=True)
    html = text(response)
    assert response.status_code == 409
    assert re.search(
        rf"Your signature was not recorded\. {re.escape(world.manager.username)} rejected this at \w+ \d+ \w+,",
        html,
    )
    assert "nothing was sent" not in html


def test_approving_the_old_slip_leads_to_the_new_one(world: World) -> None:
    from django.utils import timezone

    from approvals.actions.repropose import repropose_job

    old = world.proposed()
    world.decide(old, world.manager, "request changes", reason="Look again")
    made = repropose_job(
        tenant_id=world.tenant.pk, job_id=old.job_id, person_id=world.submitter.pk, now=timezone.now()
    )
    assert made.proposal_id is not None
    response = decide(world, old, world.second, htmx=True)
    html = text(response)
    assert response.status_code == 409
    assert "This proposal changed while you were looking" in html
    assert at(world, "approval", made.proposal_id) in html
    assert 'class="stamp"' in html
    fresh = text(as_person(world.second).get(at(world, "approval", made.proposal_id)))
    assert f"Different from № {old.label}" in fresh
    closed = text(as_person(world.second).get(at(world, "approval", old)))
    assert "Changes requested</span>" in closed
    assert at(world, "approval", made.proposal_id) in closed


def test_an_expired_proposal_cannot_be_signed(world: World) -> None:
    proposal = world.proposed(now=long_ago())
    html = text(as_person(world.manager).get(at(world, "approval", proposal)))
    assert "Its time is over." in html
    response = decide(world, proposal, world.manager)
    assert response.status_code == 409
    assert "This proposal has expired" in text(response)
    assert decisions(world) == []


def test_four_eyes_locks_the_desk_and_the_door(world: World) -> None:
    both = make_person(world.tenant, Role.SUBMITTER, Role.MANAGER)
    proposal = world.proposed(by=both)
    html = text(as_person(both).get(at(world, "approval", proposal)))
    assert "You started this job, so you cannot sign it." in html
    assert "Approve and sign <kbd" not in html
    response = decide(world, proposal, both, htmx=True)
    assert response.status_code == 403
    assert "You started this job, so somebody else has to decide it." in text(response)
    assert as_person(both).get(at(world, "approval-reject", proposal)).status_code == 403
    with reading(world.tenant.pk):
        assert Refusal.objects.get().why.startswith("FourEyes")


def test_above_the_limit_one_can_only_say_no(world: World) -> None:
    world.policy(limit_amount=Decimal("1"), limit_currency="EUR")
    proposal = world.proposed()
    html = text(as_person(world.manager).get(at(world, "approval", proposal)))
    assert "This is above what you may approve." in html
    assert "Approve and sign <kbd" not in html
    assert at(world, "approval-reject", proposal) in html
    assert decide(world, proposal, world.manager).status_code == 403


def test_the_person_is_never_taken_from_the_form(world: World) -> None:
    decide(
        world, world.proposed(), world.manager, person_id=world.second.pk, decided_by=world.second.username
    )
    assert decisions(world) == [(world.manager.username, "approve")]


def test_the_submitter_withdraws_the_own_proposal_and_proposes_again(world: World) -> None:
    proposal, client = world.proposed(), as_person(world.submitter)
    assert at(world, "approval-withdraw", proposal) in text(client.get(at(world, "approval", proposal)))
    assert "Withdraw №" in text(client.get(at(world, "approval-withdraw", proposal)))
    response = client.post(at(world, "approval-withdraw", proposal), {"reason": "A slip"}, headers=HTMX)
    assert (response.status_code, world.state(proposal)) == (200, "VALIDATED")
    assert "Withdrawn. Nothing was sent." in text(response)
    again = client.post(at(world, "approval-withdraw", proposal), {}, headers=HTMX)
    assert again.status_code == 409
    assert client.post(at(world, "approval-again", proposal)).status_code == 302
    assert world.state(proposal) == "AWAITING_APPROVAL"


def test_the_submitter_reminds_from_the_slip_and_is_told_when_again(world: World) -> None:
    """A post, with and without a script; looking at it, or following its address, does nothing."""
    proposal = world.proposed()
    client, page = as_person(world.submitter), at(world, "approval", proposal)
    assert 'aria-keyshortcuts="m"' in text(client.get(page))
    assert 'aria-keyshortcuts="m"' not in text(as_person(world.manager).get(page))
    assert client.get(at(world, "approval-remind", proposal)).status_code == 405
    assert as_person(world.manager).post(at(world, "approval-remind", proposal)).status_code == 403
    assert as_person(World.make().submitter).post(at(world, "approval-remind", proposal)).status_code == 404
    response = client.post(at(world, "approval-remind", proposal), headers=HTMX)
    assert response.status_code == 200
    assert 'aria-describedby="remind-why"' in text(response)
    assert f"Reminded by {world.submitter.username}, nobody told by e-mail" in text(response)
    again = client.post(at(world, "approval-remind", proposal))
    assert again.status_code == 409
    assert "They were reminded a short while ago" in text(again)
    assert world.events(proposal).count("approval.reminded") == 1


def test_the_slip_and_the_list_say_that_nobody_can_complete_it(world: World) -> None:
    world.policy(quorum=3)
    proposal = world.proposed()
    client = as_person(world.manager)
    assert "more than 2 managers can give." in text(client.get(at(world, "approval", proposal)))
    assert "Too few people can sign" in text(client.get(at(world, "approvals")))


def test_a_reason_for_withdrawing_that_is_too_long_is_refused_and_not_cut(world: World) -> None:
    proposal = world.proposed()
    for name, person in (("approval-unsign", world.manager), ("approval-withdraw", world.submitter)):
        if person is world.manager:
            decide(world, proposal, person)
        told = as_person(person).post(at(world, name, proposal), {"reason": "x" * 1001})
        assert (told.status_code, "1,000 characters at most" in text(told)) == (422, True)
        assert "x" * 1001 in text(told)
    assert world.state(proposal) == "READY_TO_COMMIT"


def test_nobody_else_withdraws_it(world: World) -> None:
    proposal = world.proposed()
    client = as_person(world.manager)
    assert client.get(at(world, "approval-withdraw", proposal)).status_code in (403, 409)
    assert client.post(at(world, "approval-withdraw", proposal)).status_code == 403
    assert world.state(proposal) == "AWAITING_APPROVAL"


def test_a_withdrawn_signature_stays_on_the_slip_struck_out(world: World) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    world.decide(proposal, world.manager)
    assert at(world, "approval-unsign", proposal) in text(client.get(at(world, "approval", proposal)))
    assert client.post(at(world, "approval-unsign", proposal), {"reason": "Too soon"}).status_code == 302
    assert world.state(proposal) == "AWAITING_APPROVAL"
    html = text(client.get(at(world, "approval", proposal)))
    assert '<li class="voided">' in html
    assert "Too soon" in html
    assert "Approve and sign <kbd" in html


def test_a_reason_that_cannot_be_kept_takes_nothing_back(world: World) -> None:
    proposal, submitter, manager = world.proposed(), as_person(world.submitter), as_person(world.manager)
    world.decide(proposal, world.manager)
    for client, name in ((submitter, "approval-withdraw"), (manager, "approval-unsign")):
        answer = client.post(at(world, name, proposal), {"reason": "a\0b"})
        assert answer.status_code == 422
        assert "a character that cannot be stored" in text(answer)
    assert decisions(world) == [(world.manager.username, "approve")]
    assert (world.state(proposal), world.proposal(proposal).closed_at) == ("READY_TO_COMMIT", None)


def test_hostile_text_is_escaped_and_what_cannot_be_seen_is_shown(world: World) -> None:
    change = {
        "field": "limit",
        "label": HOSTILE,
        "current": HOSTILE,
        "proposed": HOSTILE + "2",
        "source": HOSTILE,
        "source_version": HOSTILE,
        "by_model": True,
    }
    one = operation(title=HOSTILE, action=HOSTILE, changes=[change], body={"note": HOSTILE})
    proposal = world.proposed(
        draft(
            title=HOSTILE,
            summary=HOSTILE,
            model_text=HOSTILE + "\n</blockquote><script>alert(1)</script>",
            model_route=HOSTILE,
            amount_label=HOSTILE,
            recipient=HOSTILE,
            sources=[{"name": HOSTILE, "version": HOSTILE}],
            operations=[one],
        )
    )
    client = as_person(world.manager)
    answers = [
        client.get(at(world, "approvals")),
        client.get(at(world, "approval", proposal)),
        client.get(at(world, "approval", proposal), headers=HTMX),
        client.get(at(world, "approval-changes", proposal)),
        decide(world, proposal, world.manager, "request changes", reason=HOSTILE, digest="1" * 64),
        decide(world, proposal, world.manager, "request changes", reason=HOSTILE),
        client.get(at(world, "approval", proposal)),
    ]
    for number, response in enumerate(answers):
        html = text(response)
        assert "<img" not in html, number
        assert "<script>" not in html, number
        if number not in (4, 5):
            assert "&lt;img src=x onerror=alert(1)&gt;" in html, number
            assert "U+202E" in html, number
    assert "\u202e" not in text(answers[1])
    assert re.search(r"characters in this proposal cannot be seen", text(answers[1]))


def test_a_document_that_was_tampered_with_is_not_shown_and_not_signed(world: World) -> None:
    from access.owner import as_owner

    proposal = world.proposed()
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE approvals_proposal DISABLE TRIGGER USER")
        cursor.execute("UPDATE approvals_proposal SET document = '{}' WHERE id = %s", [proposal.pk])
        cursor.execute("ALTER TABLE approvals_proposal ENABLE TRIGGER USER")
    response = as_person(world.manager).get(at(world, "approval", proposal))
    assert response.status_code == 409
    assert "cannot be shown and nobody can sign it" in text(response)
    over_http = as_person(world.manager).get(f"/api/v1/t/{world.tenant.slug}/proposals/{proposal.pk}")
    assert (over_http.status_code, over_http.headers["content-type"]) == (409, "application/problem+json")
    assert "cannot be shown and nobody can sign it" in over_http.json()["detail"]


def test_the_desk_that_is_asked_again_offers_nothing_for_another_digest(world: World) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    address = at(world, "approval", proposal) + "?part=desk&digest="
    same, other = (client.get(address + d, headers=HTMX) for d in (proposal.digest, "0" * 64))
    assert "Approve and sign <kbd" in text(same)
    assert "This is not the slip that is stored now." in text(other)
    assert "Approve and sign" not in text(other)


def test_the_rows_that_are_asked_again_keep_what_is_open(world: World) -> None:
    first, _second = world.proposed(), world.proposed()
    client = as_person(world.manager)
    response = client.get(at(world, "approvals") + f"?part=rows&open={first.pk}", headers=HTMX)
    html = text(response)
    assert html.strip().startswith('<div id="rows"')
    assert html.count('aria-current="true"') == 1


def test_the_tabs_and_their_pages_are_kept_while_one_goes_on(world: World) -> None:
    world.proposed(draft(amount="6318.75"))
    signed = world.proposed()
    world.decide(signed, world.manager)
    client = as_person(world.manager)
    everyone = text(client.get(at(world, "approvals") + "?tab=everyone"))
    assert "?tab=everyone" in everyone
    assert "6,318.75<" in everyone
    today = text(client.get(at(world, "approvals") + "?tab=signed-today"))
    assert "You signed" in today
    assert "Approved, not sent" in today
    for nonsense in ("?tab=x", "?after=x", "?part=x", "?tab=everyone&after=1-1;"):
        assert client.get(at(world, "approvals") + nonsense).status_code == 200


def test_a_long_list_goes_on_behind_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        world.proposed()
    client = as_person(world.manager)
    monkeypatch.setattr("approvals.inbox.PAGE", 2)
    html = text(client.get(at(world, "approvals")))
    following = re.search(r'href="([^"]*after=[^"]+)" rel="next"', html)
    assert following is not None
    assert html.count("data-row") == 2
    assert text(client.get(following[1].replace("&amp;", "&"))).count("data-row") == 1


def test_a_held_job_waits_on_the_desk_too(world: World) -> None:
    proposal = world.proposed()
    with acting(world.tenant.pk):
        Job.objects.filter(pk=proposal.job_id).update(
            held_at=proposal.frozen_at, held_by="ann", hold_reason="Wait."
        )
    html = text(as_person(world.manager).get(at(world, "approval", proposal)))
    assert "is held." in html
    assert "Approve and sign <kbd" not in html
    assert decide(world, proposal, world.manager).status_code == 409


def test_pages_take_the_same_queries_for_one_row_and_for_three(world: World) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    addresses = [
        at(world, "approvals"),
        at(world, "approvals") + "?tab=everyone",
        at(world, "approvals") + "?tab=signed-today",
        at(world, "approval", proposal),
    ]
    for address in addresses:
        client.get(address)
    one = [_queries(client, a) for a in addresses]
    world.proposed()
    world.proposed()
    assert [_queries(client, a) for a in addresses] == one
    assert one == [19, 20, 20, 39]


def _queries(client: Any, address: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return len([q for q in captured if q["sql"].lstrip().upper().startswith(("SELECT", "INSERT", "UPDATE"))])
