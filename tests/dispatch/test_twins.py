"""The same invoice comes in with two jobs: whoever approves the second is told, and has to say that it shall be done again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person
from access.tenancy import reading
from approvals.actions.asked import SameAgain
from approvals.models import Proposal
from dispatch.twins import twins_of
from tests.approvals.world import draft, operation
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import BODY, Dispatching, a_contract, a_keyed_contract, as_owner, receipt
from tests.reconciliation.pages import as_person, html_of
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
APPLIES, REFUSES = answers(200, receipt("INV-1001")), answers(422)


def asking(url: str) -> Dispatching:
    d = Dispatching.make(url, a_contract())
    d.world.policy(waives_approval=False)
    return d


def invoice(d: Dispatching, record: str = "INV-1001", amount: str = "250.00", **changes: Any) -> Job:
    job = d.world.job()
    one = operation(action="update", record=record, body=BODY, amount=amount, currency="EUR")
    d.world.freeze(job, draft(operations=[one | changes], amount=amount, currency="EUR"))
    return job


def words(d: Dispatching, job: Job) -> list[str]:
    with reading(d.tenant_id):
        return [t.word for t in twins_of(Proposal.objects.filter(job=job).latest("number"))]


def approve(d: Dispatching, job: Job, person: Person | None = None, **more: Any) -> None:
    d.world.decide(d.world.proposal(job), person or d.world.manager, **more)


def test_the_second_is_refused_until_its_approver_says_that_it_shall_be_done_again() -> None:
    with FaultServer(APPLIES) as erp:
        d = asking(erp.url)
        first, second = invoice(d), invoice(d)
        assert (words(d, first), words(d, second)) == (["waits for a decision"], ["waits for a decision"])
        twin = d.world.proposal(first)
        approve(d, first, knows_of=d.world.proposal(second).pk)
        assert words(d, second) == ["is approved"]
        d.run(first)
        assert words(d, second) == ["was confirmed"]
        for known in (0, twin.pk - 1):
            with pytest.raises(
                SameAgain, match=f"{twin.label} of JOB-{first.pk} asks for the same and was confirmed"
            ):
                approve(d, second, knows_of=known)
        assert d.job_state(second) == "AWAITING_APPROVAL"
        approve(d, second, knows_of=twin.pk)
        assert d.world.evidence(second, "proposal.approved")["knows_of"] == twin.pk


def test_what_surely_did_nothing_what_differs_and_what_is_long_past_is_no_twin() -> None:
    with FaultServer(REFUSES) as erp:
        d = asking(erp.url)
        refused = invoice(d)
        approve(d, refused)
        d.run(refused)
        assert d.job_state(refused) == "FAILED"
        rejected = invoice(d)
        d.world.decide(d.world.proposal(rejected), d.world.manager, "reject")
        old = invoice(d)
        as_owner(
            "approvals_proposal", "frozen_at = frozen_at - interval '91 days' WHERE job_id = %s", [old.pk]
        )
        other_record = invoice(d, record="INV-1002")
        other_amount = invoice(d, amount="260.00", body={"limit": "1.00"})
        job = invoice(d)
        assert words(d, job) == []
        assert words(d, other_record) == words(d, other_amount) == []
        approve(d, job)


def test_what_became_of_nobody_knows_and_other_bytes_for_the_same_amount_and_recipient_are_twins() -> None:
    with FaultServer(fin) as erp:
        d = asking(erp.url)
        doubtful = invoice(d)
        approve(d, doubtful)
        d.run(doubtful)
        again = invoice(d, body={"limit": "4800.00", "asked": str(timezone.now())})
        assert words(d, again) == ["was sent"]


@pytest.mark.parametrize(
    "where", [{"key_location": "body", "key_name": "request_id"}, {"key_location": "query", "key_name": "k"}]
)
def test_the_key_in_a_request_makes_it_no_other_request(where: dict[str, str]) -> None:
    """No amount and no recipient: what is asked for is the bytes, each with a key of its own in them."""
    d = Dispatching.make("http://127.0.0.1:9", a_keyed_contract(**where))
    d.world.policy(waives_approval=False)

    def change(limit: str) -> Job:
        job, one = d.world.job(), operation(action="update", record="V-1", body={"limit": limit})
        d.world.freeze(job, draft(operations=[one], recipient=""))
        return job

    change("4800.00")
    assert words(d, change("4800.00")) == ["waits for a decision"]
    assert words(d, change("9900.00")) == [], "as long, and another change"


def test_the_page_asks_for_a_tick_and_every_other_door_for_the_same() -> None:
    with FaultServer() as erp:
        d = asking(erp.url)
        first, second = (d.world.proposal(invoice(d)) for _ in range(2))
        here = f"/t/{d.world.tenant.slug}/approvals/{second.pk}/"
        browser = as_person(d.world.manager)
        html = html_of(browser.get(here))
        assert "Another proposal asks for the same, and waits for a decision." in html
        assert f'name="knows_of" value="{first.pk}" required' in html
        posted = {"verdict": "approve", "digest": second.digest}
        refused = browser.post(f"{here}decision/", posted)
        assert (refused.status_code, "Another proposal asks for the same" in html_of(refused)) == (409, True)
        api = f"/api/v1/t/{d.world.tenant.slug}/proposals/{second.pk}"
        (told,) = browser.get(api).json()["same"]
        assert told["id"] == first.pk
        answered = browser.post(f"{api}/decisions", json.dumps(posted), content_type="application/json")
        assert (answered.status_code, answered.json()["type"].rsplit("/", 1)[-1]) == (409, "same-again")
        assert d.job_state(Job(pk=second.job_id)) == "AWAITING_APPROVAL"
        done = browser.post(
            f"{api}/decisions", json.dumps({**posted, "knows_of": first.pk}), content_type="application/json"
        )
        assert done.status_code == 201
