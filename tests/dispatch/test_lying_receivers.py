"""Receivers whose answers are well formed and say what cannot be kept, should not be kept, or is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from dispatch.actions.receivers import write_contract
from dispatch.classification import Outcome
from dispatch.contracts import Action, Contract, Lookup, Signal
from dispatch.sights import Found, read_sight
from dispatch.wire import Exchange
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.test_classification import answer, read
from tests.dispatch.world import (
    BODY,
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    as_json,
    as_owner,
)
from workflows.models import Job

MARK = "\N{REPLACEMENT CHARACTER}"
SECRET = "s3cr3t-token-of-the-erp"
NOTHING_COMPARED = {"update": Action(method="PUT", path="/vendors/{record}")}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("said", "kept"), [("R\x001", f"R{MARK}1"), ("R\ud8001", "R?1")])
def test_what_no_database_can_keep_changes_no_outcome(said: str, kept: str) -> None:
    """Applied under such an id is applied; such a value beside ours is a difference that a page can show."""
    fits, differs = ({"id": said, "record": "V-1", "fields": fields} for fields in (BODY, {"limit": said}))
    with FaultServer(answers(200, as_json(fits)), answers(200, as_json(differs))) as server:
        d = Dispatching.make(server.url, a_contract())
        job = d.ready()
        d.run(job)
        assert (d.job_state(job), d.operation(job).receipt_id) == ("CONFIRMED", kept)
        job = d.ready()
        d.run(job)
        assert d.operation(job).state == "CONFLICTED"
        (difference,) = json.loads(d.observations(job)[0].detail)
        assert difference["told"] == kept


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_says_our_secret_back_has_it_written_into_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error page with the request's headers, and a list of errors with them in it, which is also a fault's words."""
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_SAYS_BACK", SECRET)
    said = {**RECEIPT, "id": "", "errors": [f"who is {SECRET}?"]}
    action = a_contract().actions["update"].model_copy(update={"errors_path": "errors"})
    page = answers(500, f"<pre>Authorization: Bearer {SECRET}</pre>".encode(), Echo=SECRET)
    with FaultServer(page, answers(200, as_json(said))) as server:
        d = Dispatching.make(server.url, a_contract(actions={"update": action}))
        as_owner(
            "dispatch_receiver",
            "secret_reference = %s WHERE tenant_id = %s",
            ["env:COUNTERFOIL_RECEIVER_SAYS_BACK", d.tenant_id],
        )
        first, second = d.ready("V-1"), d.ready("V-2")
        d.run(first)
        d.run(second)
        assert SECRET.encode() in server.received[0]
        (sent,), (refused,) = d.submissions(first), d.submissions(second)
        assert sent.response_body == "<pre>Authorization: Bearer [hidden]</pre>"
        assert json.loads(sent.response_headers)["echo"] == "[hidden]"
        assert (refused.outcome, refused.fault) == (
            "refused",
            'answered 200 with errors: ["who is [hidden]?"]',
        )
        assert SECRET not in refused.response_body


def test_a_value_of_an_answer_is_compared_as_text() -> None:
    """A contract can only write text; an answer has numbers."""
    numbered = Signal(status=422, path="errorCode", equals="704")
    keyed = a_keyed_contract(in_progress_signals=(numbered,))
    for code in ("704", 704):
        assert read(answer(422, as_json({"errorCode": code})), keyed).outcome is Outcome.IN_PROGRESS
    for other in (705, None, ["704"]):
        assert read(answer(422, as_json({"errorCode": other})), keyed).outcome is Outcome.REFUSED
    assert not Signal(status=200, path="gone").matches(200, {}), "what is not there is not empty"


@pytest.mark.parametrize("status", [406, 409])
def test_a_status_that_some_servers_find_after_the_work_is_doubt(status: int) -> None:
    assert read(answer(status)).outcome is Outcome.UNKNOWN


def sight(contract: Contract, content: dict[str, Any]) -> Found:
    seen = Exchange(marked=True, status=200, body=as_json(content))
    return read_sight(seen, contract, contract.actions["update"], sent=as_json(BODY), record="V-1").found


def searching(**changes: Any) -> Contract:
    """A look-up that is a search: it answers 200 whatever it finds."""
    lookup = Lookup(
        **{
            "path": "/payments?reference={operation_key}", "authoritative": True, "absence_is_proof_after": 0,
            "schedule": (0, 0), "count_path": "count", **changes,
        }
    )  # fmt: skip
    return a_lookup_contract(lookup=lookup, automatic_resubmissions=0, actions=NOTHING_COMPARED)


def test_a_search_that_finds_nothing_is_not_there_and_one_that_does_not_say_is_unclear() -> None:
    assert [sight(searching(), {"id": "R-1", "count": n}) for n in (0, "0", 1, 2)] == [
        Found.ABSENT, Found.ABSENT, Found.APPLIED, Found.DUPLICATE,
    ]  # fmt: skip
    listed = searching(count_path="data")
    assert [sight(listed, {"id": "R-1", "data": [{}] * n}) for n in (0, 1, 2)] == [
        Found.ABSENT, Found.APPLIED, Found.DUPLICATE,
    ]  # fmt: skip
    assert [sight(searching(), {"id": "R-1", "count": n}) for n in (None, True, "many", -1)] == [
        Found.UNCLEAR
    ] * 4
    by_signal = searching(count_path="", absent=(Signal(status=200, path="total", equals="0"),))
    assert sight(by_signal, {"total": 0}) is Found.ABSENT
    assert sight(by_signal, {"total": 1}) is Found.UNCLEAR, "nothing names it, and nothing can be compared"
    assert sight(by_signal, {"total": 1, "id": "R-1"}) is Found.APPLIED


@pytest.mark.django_db(transaction=True)
def test_nothing_is_confirmed_by_a_search_that_finds_nothing() -> None:
    with FaultServer(fin, *[answers(200, as_json({"count": 0, "data": []}))] * 3) as server:
        d = Dispatching.make(server.url, searching())
        job = d.ready()
        d.step(d.operation(job))
        nothing_can_arrive(d, job)
        d.run(job)
        assert (d.job_state(job), d.operation(job).state) == ("FAILED", "NOT_APPLIED")


def nothing_can_arrive(d: Dispatching, job: Job) -> None:
    """The time in which the first send may still have begun is over."""
    change = "send_deadline_at = opened_at, closed_at = opened_at WHERE operation_id = %s"
    as_owner("dispatch_submission", change, [d.operation(job).pk])


@pytest.mark.django_db(transaction=True)
def test_one_that_says_now_for_ever_is_not_sent_to_without_a_pause() -> None:
    """429 with nothing to wait for: a moment at first, then as long as if it had said nothing; asked for more, more."""
    now = answers(429, **{"Retry-After": "0"})
    with FaultServer(*[now] * 11, answers(429, **{"Retry-After": "300"})) as server:
        d = Dispatching.make(server.url, a_contract())
        job, waits = d.ready(), []
        for _ in range(12):
            d.step(d.operation(job))
            at, closed = d.operation(job).next_step_at, d.submissions(job)[-1].closed_at
            assert at is not None
            assert closed is not None
            waits.append((at - closed).total_seconds())
    assert waits[:8] == [1.0] * 8
    assert min(waits[8:11]) >= 60
    assert waits[11] == 300


def rewrite(d: Dispatching, job: Job, contract: Contract) -> None:
    """An admin puts the contract right."""
    write_contract(
        tenant_id=d.tenant_id, receiver_id=d.operation(job).receiver_id, terms=contract.model_dump(mode="json"),
        source="what the receiver says by now", person_id=d.admin.pk, now=timezone.now(),
    )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_a_window_that_was_put_right_after_the_send_is_the_one_that_counts() -> None:
    """The key was taken to be good for a day. It is not, and the doubtful operation was about to be sent again."""
    with FaultServer(fin, fin) as server:
        d = Dispatching.make(server.url, a_keyed_contract())
        job = d.ready()
        d.step(d.operation(job))
        assert (d.operation(job).state, d.operation(job).next_step) == ("UNKNOWN", "resubmit")
        rewrite(d, job, a_keyed_contract(retention="unpublished", automatic_resubmissions=0))
        d.run(job)
        operation = d.operation(job)
        assert (operation.state, operation.resubmit_safe_until, operation.next_step) == ("UNKNOWN", None, "")
        assert (d.job_state(job), len(server.received)) == ("NEEDS_RECONCILIATION", 1)
        assert "send.check_failed" in d.events(job)


@pytest.mark.django_db(transaction=True)
def test_absence_proves_nothing_any_more_where_the_contract_was_put_right() -> None:
    absent = answers(404, as_json({}))
    with FaultServer(fin, *[absent] * 6) as server:
        d = Dispatching.make(server.url, a_lookup_contract())
        job = d.ready()
        d.step(d.operation(job))
        rewrite(d, job, a_lookup_contract(proves_after=None))
        nothing_can_arrive(d, job)
        d.run(job)
        assert (d.job_state(job), d.operation(job).state) == ("NEEDS_RECONCILIATION", "UNKNOWN")
        assert [r.split(b" ")[0] for r in server.received].count(b"PUT") == 1
        assert not any(o.proves for o in d.observations(job))


@pytest.mark.django_db(transaction=True)
def test_that_another_address_does_not_have_it_proves_nothing() -> None:
    """The receiver has moved since the send. The new place knows nothing of the key; the old one did it."""
    with FaultServer(fin) as old, FaultServer(*[answers(404, as_json({}))] * 3) as new:
        d = Dispatching.make(old.url, a_lookup_contract())
        job = d.ready()
        d.step(d.operation(job))
        nothing_can_arrive(d, job)
        as_owner("dispatch_receiver", "base_url = %s WHERE tenant_id = %s", [new.url, d.tenant_id])
        d.run(job)
        assert (d.job_state(job), d.operation(job).state) == ("NEEDS_RECONCILIATION", "UNKNOWN")
        assert (len(old.received), len(new.received)) == (1, 2)
        assert not any(o.proves for o in d.observations(job))
