"""What an approval takes of its policy's sums, down every path: kept while something stands, or may stand; else free."""

from __future__ import annotations

import pytest
from django.utils import timezone

from access.tenancy import acting, reading
from approvals.models import Closing, Proposal, Reservation
from approvals.standing import void_and_return
from dispatch import settling
from dispatch.locks import lock_job_and_operation
from dispatch.models import Operation
from dispatch.moving import move
from dispatch.states import OperationState
from reconciliation.kinds import KINDS, VerbName
from reconciliation.models import Case
from tests.approvals.test_expiry_and_returns import run_expiry
from tests.approvals.world import long_ago
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import RECEIPT, Dispatching, a_contract, as_json
from tests.support import at_once
from workflows.actions.cancel import cancel_job
from workflows.locks import lock_job
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


def desk(url: str = "http://127.0.0.1:9") -> Dispatching:
    """A policy that lets 5,000 EUR a day through by itself; each job proposes 4,800."""
    d = Dispatching.make(url, a_contract())
    d.world.policy(waives_approval=True, sums=[{"amount": "5000.00", "currency": "EUR"}])
    return d


def taken(d: Dispatching, job: Job) -> list[str]:
    """Of each reservation, why it was released; empty where it counts."""
    with reading(d.tenant_id):
        rows = Reservation.objects.filter(proposal__job=job).order_by("pk")
        return list(rows.values_list("released_why", flat=True))


def proposal(d: Dispatching, job: Job) -> Proposal:
    return d.world.proposal(job)


def open_cases(d: Dispatching, job: Job) -> list[Case]:
    with reading(d.tenant_id):
        return list(Case.objects.filter(job=job, resolved_at__isnull=True))


def settle(d: Dispatching, job: Job, *, applied: bool) -> None:
    with acting(d.tenant_id):
        locked, operation = lock_job_and_operation(d.operation(job).pk)
        if applied:
            settling.settle_confirmed(
                job=locked, operation=operation, kind="statement", summary="line 3", receipt_id="R-3",
                actor=d.operator, now=timezone.now(),
            )  # fmt: skip
        else:
            settling.settle_not_applied(
                job=locked, operation=operation, summary="their letter", actor=d.operator, now=timezone.now()
            )


def test_what_ends_without_effect_gives_its_room_back_and_takes_it_when_it_was_done_after_all() -> None:
    with FaultServer(fin) as erp:
        d = desk(erp.url)
        first = d.ready()
        d.run(first)
    assert d.job_state(first) == "NEEDS_RECONCILIATION"
    assert taken(d, first) == [""], "nobody knows, so it counts"
    settle(d, first, applied=False)
    assert (d.job_state(first), taken(d, first)) == ("FAILED", ["nothing of it was applied"])
    second = d.ready()
    assert (d.job_state(second), taken(d, second)) == ("READY_TO_COMMIT", [""])
    settle(d, first, applied=True)
    assert taken(d, first) == ["nothing of it was applied", ""]
    settle(d, first, applied=True)
    assert taken(d, first) == ["nothing of it was applied", ""], "a repeat changes nothing"


def test_what_was_applied_counts_for_good_and_what_no_longer_fits_waits_with_an_owner() -> None:
    with FaultServer(answers(200, as_json(RECEIPT))) as erp:
        d = desk(erp.url)
        first = d.ready()
        d.run(first)
    assert (d.job_state(first), taken(d, first)) == ("CONFIRMED", [""])
    second = d.ready()
    assert d.job_state(second) == "VALIDATED"
    (case,) = open_cases(d, second)
    assert "5,000.00 EUR" in case.title
    assert VerbName.REPROPOSE in KINDS[case.kind].verbs  # type: ignore[index]


def test_a_cancelled_job_gives_its_room_back() -> None:
    d = desk()
    job = d.ready()
    cancel_job(tenant_id=d.tenant_id, job_id=job.pk, person_id=d.admin.pk, reason="stop", now=timezone.now())
    assert taken(d, job) == ["voided"]


def test_an_approved_one_that_expires_unsent_gives_its_room_back_and_waits_with_an_owner() -> None:
    d = desk()
    job = d.ready(at=long_ago())
    run_expiry(d.world, proposal(d, job))
    assert (d.job_state(job), taken(d, job)) == ("VALIDATED", ["expired"])
    assert [c.kind for c in open_cases(d, job)] == ["proposal expired"]


@pytest.mark.parametrize("state", [OperationState.NOT_APPLIED, OperationState.UNKNOWN])
def test_one_that_was_sent_and_goes_back_is_free_only_where_nothing_can_stand(state: OperationState) -> None:
    d = desk()
    job = d.ready()
    with acting(d.tenant_id):
        locked = lock_job(job.pk)
        fresh = Proposal.objects.select_related("policy").get(job=job)
        Proposal.objects.filter(pk=fresh.pk).update(closed_at=timezone.now(), closing=Closing.SENT)
        fresh.refresh_from_db()
        operation = Operation.objects.get(job=job)
        for step in (OperationState.SUBMITTED, state):
            move(operation, step, timezone.now())
        void_and_return(locked, fresh, "the source has changed", Closing.VOIDED, timezone.now())
    known = state is OperationState.NOT_APPLIED
    assert taken(d, job) == ["nothing of it was applied" if known else ""]


def test_sums_that_came_after_the_approvals_let_one_of_two_sends_through() -> None:
    """Both were approved before there were sums. Their senders look at the same instant, each in its own connection."""
    with FaultServer(fin) as erp:
        d = Dispatching.make(erp.url, a_contract())
        d.world.policy(waives_approval=True)
        jobs = [d.ready("V-1"), d.ready("V-2")]
        d.world.policy(waives_approval=True, sums=[{"amount": "5000.00", "currency": "EUR"}])
        at_once(*[lambda job=job: d.run(job) for job in jobs])
    assert sorted(d.job_state(job) for job in jobs) == ["NEEDS_RECONCILIATION", "VALIDATED"]
    assert sorted(taken(d, job) for job in jobs) == [[], [""]]
