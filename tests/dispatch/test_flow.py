"""Several operations, cancels, and facts that changed between approval and send."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import IntegrityError
from django.utils import timezone

from access.tenancy import acting, reading
from dispatch import booked, in_part, sending, settling
from dispatch.booked import Effect
from dispatch.contracts import Contract
from dispatch.fates import Fate, fates
from dispatch.locks import lock_job_and_operation
from dispatch.looking import UNSEEN, Looked
from dispatch.marker import barrier
from dispatch.models import Operation, Receiver
from dispatch.opening import NotOpened, Opened, open_submission
from dispatch.wire import exchange
from tests.approvals.world import long_ago
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import (
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    as_json,
    as_owner,
    receipt,
    states,
)
from tests.support import at_once
from workflows.actions.cancel import cancel_job
from workflows.models import Job
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
URL = "http://127.0.0.1:9"


def cancel(d: Dispatching, job: Job) -> None:
    cancel_job(tenant_id=d.tenant_id, job_id=job.pk, person_id=d.admin.pk, reason="no", now=timezone.now())


def _let_the_deadline_pass(d: Dispatching, job: Job) -> None:
    as_owner(
        "dispatch_submission",
        "send_deadline_at = now() - interval '1 s' WHERE operation_id = %s",
        [d.operation(job).pk],
    )


def _spoil(d: Dispatching, job: Job, what: str) -> None:
    if what == "target":
        with acting(d.tenant_id):
            Receiver.objects.update(base_url="http://127.0.0.1:1")
    if what == "bytes":
        with reading(d.tenant_id):
            proposed_id = Operation.objects.get(job=job).proposed_id
        as_owner("approvals_proposedoperation", "body = 'other' WHERE id = %s", [proposed_id])


def test_an_operation_waits_until_the_one_before_it_is_confirmed() -> None:
    with FaultServer(answers(200, receipt("V-1")), answers(200, receipt("V-2"))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready("V-1", "V-2")
        first, second = d.operations(job)
        d.step(second)
        assert states(d, job) == ("READY_TO_COMMIT", ["PREPARED", "PREPARED"])
        d.step(first)
        assert states(d, job) == ("SUBMITTED", ["CONFIRMED", "PREPARED"])
        assert d.item(second).state_name in (ItemState.READY, ItemState.RUNNING)
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED", "CONFIRMED"])
        assert [r.split()[1] for r in erp.received] == [b"/vendors/V-1", b"/vendors/V-2"]


def test_what_depends_on_a_refused_operation_is_never_sent() -> None:
    with FaultServer(answers(422)) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready("V-1", "V-2")
        d.run(job)
        assert states(d, job) == ("FAILED", ["REFUSED", "WITHDRAWN"])
        assert len(erp.received) == 1


def test_a_part_that_was_applied_needs_a_person_who_can_go_on_or_close() -> None:
    with FaultServer(answers(200, receipt("V-1")), answers(422)) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready("V-1", "V-2", "V-3")
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["CONFIRMED", "REFUSED", "PREPARED"])
        assert d.events(job)[-1] == "outcome.partial"
        with acting(d.tenant_id):
            locked, _ = lock_job_and_operation(d.operation(job).pk)
            settling.close_partly_applied(job=locked, actor=d.operator, now=timezone.now(), why="enough")
        assert states(d, job) == ("FAILED", ["CONFIRMED", "REFUSED", "WITHDRAWN"])
    with reading(d.tenant_id):
        assert [f.fate for f in fates(job)] == [Fate.STANDS, Fate.STOPPED, Fate.STOPPED]


def test_a_cancel_before_anything_was_sent_withdraws_and_sends_nothing() -> None:
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        cancel(d, job)
        assert states(d, job) == ("CANCELLED", ["WITHDRAWN"])
        d.step(d.operation(job))
        assert erp.received == []


def test_a_cancel_between_two_operations_stops_the_second_and_says_what_stands() -> None:
    with FaultServer(answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready("V-1", "V-2")
        d.step(d.operations(job)[0])
        cancel(d, job)
        assert states(d, job) == ("CANCELLED", ["CONFIRMED", "WITHDRAWN"])
    with reading(d.tenant_id):
        assert [f.fate for f in fates(job)] == [Fate.STANDS, Fate.STOPPED]


def test_a_cancel_that_came_too_late_is_said_when_the_look_up_confirms() -> None:
    with FaultServer(fin, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract())
        job = d.ready()
        d.step(d.operation(job))
        cancel(d, job)
        assert states(d, job) == ("SUBMITTED", ["UNKNOWN"])
        with reading(d.tenant_id):
            assert [f.fate for f in fates(job)] == [Fate.CHECKING]
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
    assert d.world.evidence(job, "outcome.confirmed")["cancel"] == "the cancel came too late"


def test_nothing_is_sent_again_after_a_cancel() -> None:
    with FaultServer(fin, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.step(d.operation(job))
        cancel(d, job)
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
        assert len(erp.received) == 1


def test_proven_absence_sends_once_more_and_then_confirms() -> None:
    absent = answers(404, as_json({}))
    with FaultServer(fin, absent, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract())
        job = d.ready()
        d.step(d.operation(job))
        _let_the_deadline_pass(d, job)
        d.step(d.operation(job))
        assert states(d, job) == ("SUBMITTED", ["NOT_APPLIED"])
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
        assert erp.received[0] == erp.received[2]
    assert [s.permit for s in d.submissions(job)] == ["approval", "approval"]


@pytest.mark.parametrize("contract", [a_lookup_contract(), a_keyed_contract()], ids=["look-up", "key"])
def test_what_is_known_to_be_done_in_part_is_neither_sent_again_nor_taken_for_absent(
    contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line of a statement is a part of it, and the receiver finds nothing or would recognise the key: a person decides."""
    done: set[int] = set()
    monkeypatch.setattr(in_part, "_knows", [lambda operation: operation.pk in done])
    with FaultServer(fin, *[answers(404, as_json({}))] * 8) as erp:
        d = Dispatching.make(erp.url, contract)
        job = d.ready()
        d.step(d.operation(job))
        operation = d.operation(job)
        assert (operation.state, operation.next_step != "") == ("UNKNOWN", True)
        done.add(operation.pk)
        with acting(d.tenant_id):
            held, locked = lock_job_and_operation(operation.pk)
            line = booked.Line("row 2 of STMT-1 is a part of it", "", "")
            effect = booked.booked_in_part(
                job=held, operation=locked, line=line, actor=d.operator, now=timezone.now()
            )
        assert effect is Effect.PART
        assert d.operation(job).next_step != "resubmit"
        _let_the_deadline_pass(d, job)
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
        assert len(d.submissions(job)) == 1


@pytest.mark.parametrize(
    ("spoil", "event", "check"),
    [
        ("expiry", "proposal.expired", "Expiry"),
        ("target", "proposal.voided", "Target"),
        ("bytes", "proposal.voided", "Bytes"),
        ("recheck", "proposal.voided", "Recheck"),
    ],
)
def test_what_no_longer_holds_is_named_and_goes_back_with_nothing_sent(
    spoil: str, event: str, check: str
) -> None:
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready(at=long_ago() if spoil == "expiry" else None)
        _spoil(d, job, spoil)
        operation = d.operation(job)
        refused = open_submission(
            claim=d.claim(operation),
            operation_id=operation.pk,
            looked=Looked(("The supplier is suspended.",)) if spoil == "recheck" else UNSEEN,
            now=timezone.now(),
        )
        assert isinstance(refused, NotOpened)
        assert (erp.received, d.submissions(job)) == ([], [])
    assert states(d, job) == ("VALIDATED", ["WITHDRAWN"])
    assert d.events(job)[-1] == event
    assert d.world.evidence(job, "send.check_failed")["check"] in (check, "Digest")


def test_two_proposals_for_one_record_do_not_race() -> None:
    with FaultServer(fin, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        first, second = d.ready(), d.ready()
        d.run(first)
        d.run(second, steps=2)
        assert states(d, second) == ("READY_TO_COMMIT", ["PREPARED"])
        assert len(erp.received) == 1


def test_what_the_database_refuses_for_another_reason_is_not_taken_for_a_busy_record() -> None:
    """Another operation has its key by now, so it would wait every 15 s for ever: it fails instead, and is reported."""
    d = Dispatching.make(URL, a_contract())
    job, later = d.ready("V-1"), d.ready("V-2")
    first = d.operation(job)
    as_owner(
        "dispatch_operation",
        "state = 'NOT_APPLIED', next_step = 'resubmit', settled_at = now() WHERE id = %s",
        [first.pk],
    )
    as_owner(
        "dispatch_operation", "operation_key = %s WHERE id = %s", [first.operation_key, d.operation(later).pk]
    )
    with pytest.raises(IntegrityError, match="one_operation_a_key"):
        d.step(first)
    assert d.submissions(job) == []


@pytest.mark.parametrize("rounds", [5, pytest.param(95, marks=pytest.mark.long)])
def test_a_cancel_and_a_send_in_the_same_instant_never_leave_cancelled_and_sent(rounds: int) -> None:
    """Both want the job's lock: the cancel first means nothing is sent; the send first makes the cancel a request."""
    for _ in range(rounds):
        with FaultServer(answers(200, receipt("V-1"))) as erp:
            d = Dispatching.make(erp.url, a_contract())
            job = d.ready()
            claim = d.claim(d.operation(job))
            at_once(partial(sending.run, claim), partial(cancel, d, job))
            sent = [r for r in erp.received if r]
            assert (d.job_state(job), len(sent)) in (("CANCELLED", 0), ("CONFIRMED", 1))


def test_a_cancel_that_stops_a_send_before_its_first_byte_ends_the_job() -> None:
    """The submission is open and unmarked when the cancel arrives; the mark refuses, and nothing is left to wait for."""
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready("V-1", "V-2")
        operation = d.operations(job)[0]
        send = open_submission(
            claim=d.claim(operation), operation_id=operation.pk, looked=UNSEEN, now=timezone.now()
        )
        assert isinstance(send, Opened)
        cancel(d, job)
        assert states(d, job) == ("SUBMITTED", ["SUBMITTED", "WITHDRAWN"])
        seen = exchange(send.request, send.contract.timeouts, barrier=barrier(send.sender))
        sending.record_outcome(send, seen, d.operator)
        assert states(d, job) == ("CANCELLED", ["WITHDRAWN", "WITHDRAWN"])
        assert set(erp.received) <= {b""}
