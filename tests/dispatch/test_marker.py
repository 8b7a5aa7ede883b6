"""The mark: each guard alone stops the send, and nothing leaves. Takeover and mark settle it on the submission's row."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connections
from django.utils import timezone

from access.roles import Actor, ActorKind
from access.tenancy import acting
from dispatch import sending
from dispatch.actions.receivers import pause_receiver
from dispatch.looking import UNSEEN
from dispatch.marker import CONDITIONS, barrier, boot_clock
from dispatch.models import Submission
from dispatch.opening import Opened, open_submission
from dispatch.wire import Exchange, NotBegun, exchange
from tests.dispatch.faults import FaultServer, answers
from tests.dispatch.world import (
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    as_engine,
    as_json,
    as_owner,
    end_worker,
    expire_approval,
    make_worker,
)
from tests.support import eventually
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job
from workflows.models import Job

W1 = Actor(ActorKind.WORKER, "worker-1")
pytestmark = pytest.mark.django_db(transaction=True)


def opened(d: Dispatching, job: Job) -> Opened:
    operation = d.operation(job)
    found = open_submission(
        claim=d.claim(operation), operation_id=operation.pk, looked=UNSEEN, now=timezone.now()
    )
    assert isinstance(found, Opened)
    return found


def close_it(d: Dispatching, job: Job) -> None:
    with acting(d.tenant_id):
        Submission.objects.filter(operation__job=job).update(closed_at=timezone.now(), outcome="not sent")


def take_claim(d: Dispatching, job: Job) -> None:
    as_engine(
        "UPDATE workflows_workitem SET claim_no = claim_no + 1 WHERE id = %s", [d.item(d.operation(job)).pk]
    )


def expire_lease(d: Dispatching, job: Job) -> None:
    as_engine("UPDATE workflows_worker SET lease_until = now() - interval '1 s' WHERE id = %s", [d.worker.pk])


def cancel(d: Dispatching, job: Job) -> None:
    cancel_job(tenant_id=d.tenant_id, job_id=job.pk, person_id=d.admin.pk, reason="no", now=timezone.now())


def hold(d: Dispatching, job: Job) -> None:
    hold_job(tenant_id=d.tenant_id, job_id=job.pk, person_id=d.admin.pk, reason="no", now=timezone.now())


def pause(d: Dispatching, job: Job) -> None:
    pause_receiver(
        tenant_id=d.tenant_id, receiver_id=d.operation(job).receiver_id, person_id=d.admin.pk, reason="no",
        now=timezone.now(),
    )  # fmt: skip


def pass_deadline(d: Dispatching, job: Job) -> None:
    as_owner(
        "dispatch_submission",
        "send_deadline_at = now() - interval '1 s' WHERE operation_id = %s",
        [d.operation(job).pk],
    )


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (close_it, "the submission is closed or already marked"),
        (take_claim, "the claim is another's"),
        (lambda d, job: end_worker(d.worker), "the worker's lease has run out"),
        (expire_lease, "the worker's lease has run out"),
        (cancel, "a cancel was asked for"),
        (hold, "the job is held"),
        (pause, "the receiver is paused"),
        (expire_approval, "the approval has expired"),
        (pass_deadline, "the time to send has passed"),
    ],
)
def test_each_guard_alone_stops_the_send(spoil: Callable[[Dispatching, Job], None], why: str) -> None:
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        send = opened(d, job)
        spoil(d, job)
        seen = exchange(send.request, send.contract.timeouts, barrier=barrier(send.sender))
        assert (seen.marked, seen.exception, seen.message) == (False, "NotBegun", why)
        assert set(erp.received) <= {b""}
    assert d.submissions(job)[0].may_have_been_sent_at is None
    assert why in CONDITIONS


def test_the_window_guards_a_resubmission_instead_of_the_approval() -> None:
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.step(d.operation(job))
        d.hurry(d.operation(job))
        expire_approval(d, job)
        send = opened(d, job)
        as_owner(
            "dispatch_operation",
            "resubmit_safe_until = now() - interval '1 s' WHERE job_id = %s",
            [job.pk],
        )
        with pytest.raises(NotBegun, match="the same key is safe"):
            barrier(send.sender)()
        as_owner(
            "dispatch_operation",
            "resubmit_safe_until = now() + interval '1 h' WHERE job_id = %s",
            [job.pk],
        )
        barrier(send.sender)()


def test_the_mark_is_made_once() -> None:
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        send = opened(d, job)
        barrier(send.sender)()
        marked_at = d.submissions(job)[0].may_have_been_sent_at
        assert marked_at is not None
        with pytest.raises(NotBegun, match="already marked"):
            barrier(send.sender)()
        assert d.submissions(job)[0].may_have_been_sent_at == marked_at


def test_a_process_that_slept_past_its_deadline_after_the_mark_sends_nothing() -> None:
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        send = opened(d, job)
        late = dataclasses.replace(send, sender=dataclasses.replace(send.sender, boot_deadline=boot_clock()))
        seen = exchange(late.request, late.contract.timeouts, barrier=barrier(late.sender))
        assert (seen.marked, seen.exception) == (False, "NotBegun")
        assert set(erp.received) <= {b""}
        sending.record_outcome(late, seen, W1)
    assert [s.outcome for s in d.submissions(job)] == ["not sent"]
    assert d.job_state(job) == "READY_TO_COMMIT"


def test_a_sender_that_wakes_after_the_takeover_sends_nothing() -> None:
    """W1 opens and freezes before the first byte; W2 takes over and sends; W1 wakes up at its barrier."""
    with FaultServer(answers(200, as_json(RECEIPT))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        frozen = opened(d, job)
        end_worker(d.worker)
        second = make_worker("worker-2")
        d.step(d.operation(job), second)
        d.worker = second
        d.run(job)
        assert d.job_state(job) == "CONFIRMED"
        seen = exchange(frozen.request, frozen.contract.timeouts, barrier=barrier(frozen.sender))
        assert (seen.marked, seen.exception) == (False, "NotBegun")
        assert [r for r in erp.received if r] == erp.received[:1]


def test_a_mark_that_waits_for_a_takeover_finds_what_the_takeover_wrote() -> None:
    """The takeover has locked and closed the submission, uncommitted; the mark waits on that row; the takeover commits."""
    with FaultServer() as erp, psycopg.connect(os.environ["DATABASE_URL"]) as takeover:
        d = Dispatching.make(erp.url, a_contract())
        send = opened(d, d.ready())
        takeover.execute(
            "UPDATE dispatch_submission SET closed_at = now(), outcome = 'unknown' WHERE id = %s",
            [send.sender.submission_id],
        )
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(_send_and_close, send)
            eventually(_somebody_waits_for_a_lock, what="the mark waiting for the row")
            takeover.commit()
            seen = waits.result(10)

    assert (seen.marked, seen.exception) == (False, "NotBegun")
    assert "closed or already marked" in seen.message
    assert [r for r in erp.received if r] == []


def _send_and_close(send: Opened) -> Exchange:
    try:
        return exchange(send.request, send.contract.timeouts, barrier=barrier(send.sender))
    finally:
        connections.close_all()


def _somebody_waits_for_a_lock() -> bool:
    with psycopg.connect(os.environ["DATABASE_URL"]) as looking:
        found = looking.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    return found is not None and found[0] > 0


def test_a_late_answer_of_a_sender_that_lost_its_claim_is_kept_and_settles_the_doubt() -> None:
    """W1 marks and hangs in the receiver's answer; W2 takes over as unknown; then W1's answer arrives."""
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        send = opened(d, job)
        barrier(send.sender)()
        end_worker(d.worker)
        d.step(d.operation(job), make_worker("worker-2"))
        assert d.job_state(job) == "NEEDS_RECONCILIATION"
        answer = Exchange(marked=True, status=200, body=as_json(RECEIPT))
        sending.record_outcome(send, answer, W1)
        assert (d.job_state(job), d.operation(job).state) == ("CONFIRMED", "CONFIRMED")
        assert [s.outcome for s in d.submissions(job)] == ["unknown"]
        assert [o.kind for o in d.observations(job)] == ["late answer"]


def test_recording_an_outcome_twice_changes_nothing() -> None:
    with FaultServer(answers(200, as_json(RECEIPT))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        send = opened(d, job)
        seen = exchange(send.request, send.contract.timeouts, barrier=barrier(send.sender))
        sending.record_outcome(send, seen, W1)
        before = d.events(job)
        sending.record_outcome(send, seen, W1)
        assert d.events(job) == before
