"""The machine "dispatch.send" against a receiver that is nothing but a socket."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

import pytest
from django.utils import timezone

from access.tenancy import reading
from dispatch import reads
from dispatch.contracts import Contract, Lookup
from dispatch.explaining import explain
from dispatch.looking import UNSEEN
from tests.dispatch.faults import FaultServer, answers, fin, reset_after_read, reset_at_once, says, silence
from tests.dispatch.world import (
    QUICK,
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    as_json,
    as_owner,
    end_worker,
    make_worker,
)
from workflows.authoring import Ctx
from workflows.models import Job, JournalEntry

pytestmark = pytest.mark.django_db(transaction=True)
OK = answers(200, as_json(RECEIPT))


def outcome(d: Dispatching, job: Job) -> tuple[str, str, list[str]]:
    return d.job_state(job), d.operation(job).state, [s.outcome for s in d.submissions(job)]


def test_an_answer_that_matches_confirms_the_job() -> None:
    with FaultServer(OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["applied"])
        assert len(erp.received) == 1
    sent, operation = erp.received[0], d.operation(job)
    assert sent.endswith(bytes(operation.proposed.body))
    assert f"Idempotency-Key: {operation.operation_key}".encode() in sent
    assert sent.startswith(b"PUT /vendors/V-1 HTTP/1.1")
    assert operation.receipt_id == "R-1"
    assert [(o.kind, o.finding, o.proves) for o in d.observations(job)] == [("answer", "applied", True)]
    assert d.events(job)[-4:] == [
        "operation.submitted",
        "submission.closed",
        "operation.observed",
        "outcome.confirmed",
    ]


@pytest.mark.parametrize(
    "behaviour", [reset_at_once, reset_after_read, fin, silence, answers(500), answers(502, b"<html>")]
)
def test_doubt_at_a_receiver_with_neither_is_unknown_and_never_sent_twice(behaviour: object) -> None:
    with FaultServer(behaviour, OK) as erp:  # type: ignore[arg-type]
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
        d.step(d.operation(job))
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown"])
        assert len(erp.received) == 1
    assert d.submissions(job)[0].may_have_been_sent_at is not None
    assert d.events(job)[-1] == "outcome.unknown"


def test_doubt_at_a_keyed_receiver_is_sent_again_with_the_same_key_and_bytes() -> None:
    with FaultServer(fin, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["unknown", "applied"])
        assert erp.received[0] == erp.received[1]
    assert [s.permit for s in d.submissions(job)] == ["approval", "window"]


def test_resubmissions_end_and_the_outcome_stays_unknown() -> None:
    with FaultServer(*[fin] * 6) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown"] * 3)
        assert len(erp.received) == 3


def test_nothing_is_sent_again_outside_the_window() -> None:
    with FaultServer(fin, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract(retention=10, retention_margin=10))
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown"])
        assert len(erp.received) == 1


def test_a_key_in_progress_is_waited_for_and_counts_as_no_try() -> None:
    busy = answers(409, as_json({"code": "key_in_progress"}))
    with FaultServer(fin, busy, busy, busy, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["unknown", *["in progress"] * 3, "applied"])
        assert len(set(erp.received)) == 1


def test_a_replayed_500_stops_the_resubmissions() -> None:
    with FaultServer(answers(500), answers(500), OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown", "unknown"])
        assert len(erp.received) == 2


def test_a_redirect_is_neither_followed_nor_asked_for_again() -> None:
    with FaultServer(answers(307, Location="http://169.254.169.254/latest/meta-data/"), OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown"])
        assert len(erp.received) == 1


def test_absence_counts_from_the_end_of_a_send_that_took_long() -> None:
    """The body left slowly, beyond the time in which a send may begin: until it ended it could still arrive."""
    with FaultServer(fin, answers(404, as_json({}))) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(in_flight_max=60))
        job = d.ready()
        d.step(d.operation(job))
        ended = timezone.now() + timedelta(seconds=30)
        as_owner("dispatch_submission", "send_deadline_at = opened_at, closed_at = %s", [ended])
        d.step(d.operation(job))
        d.step(d.operation(job))
    assert d.operation(job).next_step_at == ended + timedelta(seconds=60)


def test_other_content_under_our_key_is_an_incident_and_never_a_new_key() -> None:
    mismatch = answers(422, as_json({"code": "key_reused"}))
    with FaultServer(fin, mismatch, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown", "key mismatch"])
        assert len(erp.received) == 2
    assert "operation.key_mismatch" in d.events(job)


def test_a_refusal_of_a_resubmission_says_nothing_about_the_first() -> None:
    with FaultServer(fin, answers(400), answers(400)) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown", "refused", "refused"])


def test_a_refusal_of_the_only_send_fails_the_job() -> None:
    with FaultServer(answers(422, as_json({"code": "bad"}))) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("FAILED", "REFUSED", ["refused"])


def test_an_answer_that_differs_is_conflicted() -> None:
    other = {**RECEIPT, "fields": {"limit": "8400.00"}}
    with FaultServer(answers(200, as_json(other))) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "CONFLICTED", ["conflicted"])
    (seen,) = d.observations(job)
    assert json.loads(seen.detail) == [{"field": "limit", "approved": "4800.00", "told": "8400.00"}]


def test_429_goes_back_and_waits_as_long_as_it_was_asked_to() -> None:
    with FaultServer(answers(429, Retry_After="77"), OK) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.step(d.operation(job))
        operation = d.operation(job)
        assert outcome(d, job) == ("READY_TO_COMMIT", "PREPARED", ["not applied"])
        closed_at = d.submissions(job)[0].closed_at
        assert closed_at is not None
        assert operation.next_step_at is not None
        assert 76 < (operation.next_step_at - closed_at).total_seconds() < 78
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["not applied", "applied"])
        assert erp.received[0] == erp.received[1]


def test_a_receiver_that_cannot_be_reached_was_definitely_not_sent_to() -> None:
    with FaultServer(OK) as erp:
        url = erp.url
    d = Dispatching.make(url, a_contract())
    job = d.ready()
    d.step(d.operation(job))
    assert outcome(d, job) == ("READY_TO_COMMIT", "PREPARED", ["not sent"])
    assert d.submissions(job)[0].may_have_been_sent_at is None


def test_credentials_that_are_refused_block_until_a_person_acts() -> None:
    with FaultServer(answers(401), OK) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("READY_TO_COMMIT", "PREPARED", ["not applied"])
        assert d.operation(job).next_step == "blocked"
        assert len(erp.received) == 1
    assert "send.blocked" in d.events(job)


@pytest.mark.parametrize(
    "behaviour",
    [
        answers(201),
        answers(200, b"<title>Sign in</title>"),
        answers(200, b'{"id":"7'),
        says(b'HTTP/1.1 201 Created\r\nContent-Length: 90\r\n\r\n{"id": "R-1"'),
        says(b"garbage\r\n\r\n"),
    ],
)
def test_an_unreadable_success_is_looked_up_and_never_posted_again(behaviour: object) -> None:
    with FaultServer(behaviour, answers(200, as_json(RECEIPT))) as erp:  # type: ignore[arg-type]
        d = Dispatching.make(erp.url, a_lookup_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["unknown"])
        assert [r.split()[0] for r in erp.received] == [b"PUT", b"GET"]


def test_a_look_up_is_asked_under_a_secret_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that may only read. A send never goes under it, and a step reads under it too."""
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_ERP_READS", "may only read")
    lookup = Lookup(
        path="/operations/{operation_key}", authoritative=True, schedule=(0, 0),
        secret_reference="env:COUNTERFOIL_RECEIVER_ERP_READS",
    )  # fmt: skip
    with FaultServer(fin, answers(200, as_json(RECEIPT)), answers(200, b"{}")) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(proves_after=None, lookup=lookup))
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["unknown"])
        ctx = Ctx(
            tenant_id=d.tenant_id, job_id=job.pk, reference="", item_key="1", attempt=1, request_key="k"
        )
        reads.ask(ctx, d.operation(job).receiver.name, "/vendors/V-1")
        assert [(r.split()[0], b"may only read" in r) for r in erp.received] == [
            (b"PUT", False), (b"GET", True), (b"GET", True),
        ]  # fmt: skip
    said = " ".join(term.sentence for term in explain(Contract.of(d.operation(job).contract.terms)))
    assert "Asked under env:COUNTERFOIL_RECEIVER_ERP_READS, which need not be able to send." in said


def test_accepted_is_pending_until_a_look_up_confirms_it() -> None:
    with FaultServer(answers(202), answers(200, as_json(RECEIPT))) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract())
        job = d.ready()
        d.step(d.operation(job))
        assert outcome(d, job) == ("SUBMITTED", "SUBMITTED", ["pending"])
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["pending"])


def test_accepted_by_a_receiver_that_never_confirms_is_unknown() -> None:
    with FaultServer(answers(202)) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["pending"])


def test_absence_before_its_time_proves_nothing() -> None:
    """The send's deadline is still ahead, so finding nothing is an observation; the later look finds it."""
    absent = answers(404, as_json({}))
    with FaultServer(fin, absent, answers(200, as_json(RECEIPT))) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(proves_after=None))
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["unknown"])
        assert [o.proves for o in d.observations(job)] == [False, True]
        assert [r.split()[0] for r in erp.received] == [b"PUT", b"GET", b"GET"]


def test_every_look_up_keeps_what_was_asked_and_what_was_answered() -> None:
    """An error, then nothing, then the effect: each with both digests, and without the secrets of either side."""
    unsaid, absent, found = b"<html>down</html>" + b"x" * 30_000, as_json({"no": 1}), as_json(RECEIPT)
    later = [answers(500, unsaid, **{"Set-Cookie": "s=1"}), answers(404, absent), answers(200, found)]
    lookup = Lookup(path="/operations/{operation_key}", authoritative=True, schedule=(0, 0, 0))
    with FaultServer(fin, *later) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(proves_after=None, lookup=lookup))
        job = d.ready()
        d.run(job)
        target, seen = f"{erp.url}/operations/{d.operation(job).operation_key}", d.observations(job)
    assert [(o.finding, o.status) for o in seen] == [("unclear", 500), ("absent", 404), ("applied", 200)]
    assert [o.digest for o in seen] == [hashlib.sha256(body).hexdigest() for body in (unsaid, absent, found)]
    assert [o.answer_body for o in seen] == [unsaid[:20_000].decode(), absent.decode(), found.decode()]
    assert "Set-Cookie" not in seen[0].answer_headers
    for o in seen:
        question = json.loads(o.question)
        assert (question["method"], question["target"], question["sent"]) == (
            "GET",
            target,
            True,
        )
        assert o.question_digest == hashlib.sha256(o.question.encode()).hexdigest()
    with reading(d.tenant_id):
        rows = JournalEntry.objects.filter(job_id=job.pk, event="operation.observed").order_by("sequence")
        told = [json.loads(evidence) for evidence in rows.values_list("evidence", flat=True)]
    assert [(e["digest"], e["question_digest"]) for e in told] == [
        (o.digest, o.question_digest) for o in seen
    ]


def test_a_look_up_that_is_not_answered_keeps_what_was_asked() -> None:
    with FaultServer(fin, fin, fin) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(proves_after=None))
        job = d.ready()
        d.run(job)
        seen = d.observations(job)
    assert [(o.finding, o.status, o.digest) for o in seen] == [("unclear", None, "")] * 2
    assert all(json.loads(o.question)["sent"] for o in seen)


def test_look_ups_end_and_the_outcome_stays_unknown() -> None:
    with FaultServer(fin, *[answers(404, as_json({}))] * 9) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(proves_after=None))
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown"])
        assert len(erp.received) == 3


def test_the_send_of_a_dead_worker_is_not_repeated_at_a_receiver_with_neither() -> None:
    """The worker dies between its mark and its outcome; another takes the item over."""
    with FaultServer(OK) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        _opened_and_left(d, job, marked=True)
        end_worker(d.worker)
        d.step(d.operation(job), make_worker("worker-2"))
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown"])
        assert erp.received == []


def test_absence_counts_later_where_nobody_saw_the_send_end() -> None:
    """The sender may have been frozen in the middle, and write on within its time-outs when it wakes up."""
    with FaultServer(answers(404, as_json({}))) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(in_flight_max=60))
        job = d.ready()
        _opened_and_left(d, job, marked=True)
        end_worker(d.worker)
        for _ in range(3):
            d.step(d.operation(job), make_worker("worker-2"))
        (left,) = d.submissions(job)
    assert d.operation(job).next_step_at == left.send_deadline_at + QUICK.longest + timedelta(seconds=60)


def test_the_unmarked_send_of_a_dead_worker_is_simply_sent_later() -> None:
    with FaultServer(OK) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        _opened_and_left(d, job, marked=False)
        end_worker(d.worker)
        d.worker = make_worker("worker-2")
        d.step(d.operation(job))
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["not sent", "applied"])
        assert len(erp.received) == 1


def test_a_marked_send_of_a_worker_that_lives_is_waited_for() -> None:
    with FaultServer(OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        _opened_and_left(d, job, marked=True)
        d.step(d.operation(job), make_worker("worker-2"))
        assert d.job_state(job) == "SUBMITTED"
        assert [s.closed_at for s in d.submissions(job)] == [None]
        assert erp.received == []


def _opened_and_left(d: Dispatching, job: Job, *, marked: bool) -> None:
    from dispatch.marker import barrier
    from dispatch.opening import Opened, open_submission

    operation = d.operation(job)
    opened = open_submission(
        claim=d.claim(operation), operation_id=operation.pk, looked=UNSEEN, now=timezone.now()
    )
    assert isinstance(opened, Opened)
    if marked:
        barrier(opened.sender)()


def test_a_contract_is_what_it_was_when_it_was_kept() -> None:
    contract = a_keyed_contract()
    assert Contract.model_validate(contract.model_dump(mode="json")) == contract
