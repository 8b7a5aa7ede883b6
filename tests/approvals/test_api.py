"""Proposals, decisions and the password over HTTP: strict bodies, one type of problem a refusal, the page's own function."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from access.models import Person
from access.roles import Role
from access.tenancy import reading
from api.kinds import KINDS
from approvals.models import Decision, Proposal
from tests.approvals.pages import as_person
from tests.approvals.world import World, draft
from tests.support import make_person

pytestmark = pytest.mark.django_db(transaction=True)


def address(world: World, proposal: Proposal | None = None, rest: str = "") -> str:
    return f"/api/v1/t/{world.tenant.slug}/proposals" + (f"/{proposal.pk}{rest}" if proposal else rest)


def send(client: Client, url: str, body: Any, **headers: str) -> Any:
    raw = body if isinstance(body, str) else json.dumps(body)
    return client.post(url, raw, content_type="application/json", headers=headers)


def decide(world: World, proposal: Proposal, person: Person, **body: Any) -> Any:
    whole = {"verdict": "approve", "digest": proposal.digest, **body}
    return send(as_person(person), address(world, proposal, "/decisions"), whole)


def told(response: Any) -> tuple[int, str]:
    """The status and the last part of the problem's type."""
    assert response.headers["Content-Type"] == "application/problem+json"
    return response.status_code, response.json()["type"].rpartition("/")[2]


def stored(world: World) -> list[tuple[str, str, str]]:
    with reading(world.tenant.pk):
        return [(d.person_name, d.verdict, d.door) for d in Decision.objects.order_by("pk")]


def test_a_proposal_is_read_signed_and_signed_again_over_http(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    client = as_person(world.manager)
    shown = client.get(address(world, proposal)).json()
    assert hashlib.sha256(shown["document"].encode()).hexdigest() == shown["digest"] == proposal.digest
    assert shown["may"] == {"approve": True, "reject": True, "request changes": True}
    assert (shown["amount"], shown["currency"], shown["password_again"]) == ("4800.00", "EUR", "")
    assert "proposal.viewed" in world.events(proposal)
    first, again = decide(world, proposal, world.manager), decide(world, proposal, world.manager)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["sentence"] == "Your approval is recorded. It needs one more approver."
    assert again.json()["decision"] == first.json()["decision"]
    assert (first.json()["repeated"], again.json()["repeated"]) == (False, True)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert told(decide(world, proposal, world.manager, verdict="reject", reason="No")) == (
        409,
        "already-decided",
    )
    assert decide(world, proposal, world.second).json()["job_state"] == "READY_TO_COMMIT"
    assert stored(world) == [(p.username, "approve", "API") for p in (world.manager, world.second)]


def test_the_list_goes_on_where_it_says_and_takes_no_nonsense(world: World) -> None:
    now = timezone.now()
    made = [world.proposed(now=now - timedelta(minutes=n)) for n in range(3)]
    client, url = as_person(world.manager), address(world) + "?limit=2"
    found: list[int] = []
    while url:
        page = client.get(url).json()
        found += [row["id"] for row in page["proposals"]]
        url = page["next"]
    assert found == [p.pk for p in reversed(made)]
    for query in ("tab=mine", "limit=0", "limit=101", "limit=x", "after=x", "who=me", "after=9-" + "9" * 50):
        assert told(client.get(f"{address(world)}?{query}"))[0] == 400, query
    (row, *_) = client.get(address(world) + "?tab=everyone").json()["proposals"]
    assert (row["why_not"], row["amount"], row["currency"]) == ("", "4800.00", "EUR")


@pytest.mark.parametrize(
    ("body", "status", "kind", "says"),
    [
        ({"approved_by": 42, "decided_by": "boss"}, 422, "wrong-body", "Who decides is whoever is signed in"),
        ({"verdict": "aprove"}, 422, "no-such-verdict", "Say one of"),
        ({"verdict": True}, 422, "wrong-body", "is text"),
        ({"digest": ["x"]}, 422, "wrong-body", "is text"),
        ({"digest": 1.5}, 422, "wrong-body", "is text"),
        ({"digest": ""}, 422, "no-such-verdict", "which digest"),
        ({"digest": "0" * 64}, 409, "stale-digest", "has changed"),
        ({"digest": "0" * 201}, 422, "wrong-body", "64 characters"),
        ({"fields": "Limit"}, 422, "wrong-body", "a list of names"),
        ({"fields": ["x"] * 101}, 422, "wrong-body", "100 at most"),
        ({"verdict": "reject"}, 422, "reason-missing", "Say why"),
        ({"verdict": "reject", "reason": "x" * 4001}, 422, "reason-missing", "4,000"),
        ({"verdict": "reject", "reason": "\u202e\ud800"}, 422, "reason-missing", "cannot be stored"),
    ],
)
def test_a_wrong_body_is_refused_by_name_and_decides_nothing(
    world: World, body: Any, status: int, kind: str, says: str
) -> None:
    proposal = world.proposed()
    response = decide(world, proposal, world.manager, **body)
    assert told(response) == (status, kind)
    assert says in response.content.decode()
    assert (stored(world), world.state(proposal)) == ([], "AWAITING_APPROVAL")


def test_a_decision_says_which_question_it_answers_or_is_none(world: World) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    url = address(world, proposal, "/decisions")
    for body, status in (
        ("", 400),
        ("[]", 400),
        ('{"verdict":"approve","verdict":"reject"}', 400),
        ('{"verdict":"approve"}', 422),
        ("{}", 422),
    ):
        assert told(send(client, url, body))[0] == status, body
    job = f"/api/v1/t/{world.tenant.slug}/jobs/{proposal.job_id}/decisions"
    assert send(client, job, {"verdict": "approve", "digest": proposal.digest}).status_code == 404
    assert stored(world) == []


def test_nobody_but_a_person_in_their_session_decides(world: World) -> None:
    proposal = world.proposed()
    url, body = address(world, proposal, "/decisions"), {"verdict": "approve", "digest": proposal.digest}
    nobody = Client(headers={"host": "localhost"})
    for headers in ({}, {"Authorization": "Bearer cf_machine"}, {"Authorization": "Token 42"}):
        assert told(send(nobody, url, body, **headers))[0] == 401
    forged = Client(headers={"host": "localhost"}, enforce_csrf_checks=True)
    forged.force_login(world.manager)
    assert told(send(forged, url, body))[0] == 403
    assert told(decide(world, proposal, world.operator)) == (403, "not-an-approver")
    assert stored(world) == []


def test_the_password_is_entered_again_before_what_asks_for_it(world: World) -> None:
    world.policy(reauthenticate="always")
    proposal, mia = world.proposed(), make_person(world.tenant, Role.MANAGER)
    client, url = as_person(mia), address(world, proposal, "/decisions")
    body = {"verdict": "approve", "digest": proposal.digest}
    assert told(send(client, url, body)) == (403, "password-needed")
    entry = "/api/v1/password-entry"
    assert told(send(client, entry, {"password": "correct donkey"})) == (403, "wrong-password")
    for wrong in ({}, {"password": 1}, {"password": "x" * 1001}, {"password": "x", "person": 1}):
        assert told(send(client, entry, wrong)) == (422, "wrong-body")
    right = send(client, entry, {"password": "correct horse"})
    assert (right.status_code, list(right.json())) == (201, ["counts_until"])
    elsewhere = as_person(mia)
    assert told(send(elsewhere, url, body)) == (403, "password-needed")
    assert send(client, url, body).status_code == 201
    for _ in range(5):
        send(client, entry, {"password": "guess"})
    assert told(send(client, entry, {"password": "correct horse"})) == (403, "too-many-wrong-passwords")


def test_every_type_of_problem_says_what_it_means(world: World) -> None:
    """The names are part of the API: whoever changes one changes this list with open eyes."""
    names = "no-such-proposal no-such-verdict reason-missing stale-digest same-again already-decided proposal-closed"
    names += " proposal-expired job-stands-still busy not-an-approver four-eyes not-your-level authority-used"
    names += " over-limit over-sum not-in-bulk password-needed wrong-password too-many-wrong-passwords"
    assert [kind.name for kind in KINDS.values()] == names.split()
    page = Path("docs/api.md").read_text("utf-8")
    assert [name for name in names.split() if f"`{name}`" not in page] == []
    client = Client(headers={"host": "localhost"})
    for name in (*names.split(), "wrong-body"):
        assert client.get(f"/api/v1/problems/{name}").json()["meaning"]
    assert told(client.get("/api/v1/problems/other"))[0] == 404


def test_what_is_not_here_is_not_told_apart(world: World) -> None:
    proposal, other = world.proposed(draft()), World.make()
    body = {"verdict": "approve", "digest": proposal.digest}
    for url in (address(world, proposal), address(other, proposal)):
        assert as_person(other.manager).get(url).status_code == 404
        assert send(as_person(other.manager), url + "/decisions", body).status_code == 404
    assert stored(world) == []


def test_hostile_json_is_refused_in_an_answer_no_longer_than_itself(world: World) -> None:
    """Half characters in names and in the password, and a body that is wrong in eighty thousand places."""
    proposal, client = world.proposed(), as_person(world.manager)
    url = address(world, proposal, "/decisions")
    half = send(client, url, '{"verdict":"approve","digest":"x","\\ud800":1}')
    assert (*told(half), half.json()["errors"][0]["field"]) == (422, "wrong-body", "\\ud800")
    entry = send(client, "/api/v1/password-entry", '{"password":"\\ud800"}')
    assert told(entry) == (422, "wrong-body")
    many = json.dumps({f"{n:x}": 1 for n in range(80_000)})
    answer = send(client, url, many)
    assert (told(answer), len(answer.json()["errors"])) == ((422, "wrong-body"), 101)
    assert len(answer.content) < len(many) / 10


@pytest.mark.parametrize("method", ["put", "patch", "delete", "options", "head", "trace"])
def test_an_address_asked_for_in_another_way_answers_with_a_problem(world: World, method: str) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    for url, known in ((address(world, proposal), "GET"), (address(world, proposal, "/decisions"), "POST")):
        answer = getattr(client, method)(url)
        assert (answer.status_code, answer.headers["Allow"]) == (405, known)
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert client.get(url).json()["detail"] == "This address takes POST only."
    assert stored(world) == []


def test_a_host_that_is_not_served_is_told_so(world: World) -> None:
    answer = Client(headers={"host": "elsewhere.test"}).get(address(world))
    assert (told(answer)[0], answer.json()["detail"]) == (
        400,
        "Nothing is served here under the host name of this request.",
    )


def test_a_field_that_is_named_in_two_lines_is_kept_as_one(world: World) -> None:
    proposal = world.proposed()
    names = ["Limit\nBank account", "a\u2028b", "  ", "Payee"]
    more = {"verdict": "request changes", "reason": "Look again", "fields": names}
    assert decide(world, proposal, world.manager, **more).status_code == 201
    shown = as_person(world.manager).get(address(world, proposal)).json()
    kept = ["Limit Bank account", "a b", "Payee"]
    assert shown["decisions"][0]["fields"] == kept == world.evidence(proposal, "changes.requested")["fields"]
