"""Retry, give up, go on, stop here, propose again, release, record an outcome: allowed and refused."""

from __future__ import annotations

from typing import Any

import pytest

from access.refusals import NotPermitted, Unprocessable
from access.tenancy import acting
from reconciliation.actions.steps import (
    cancel,
    give_up,
    go_on,
    record_outcome,
    release,
    repropose,
    retry,
    skip,
    stop_here,
)
from reconciliation.actions.working import EvidenceMissing, NotAllowedNow, StaleCase
from reconciliation.kinds import VerbName
from reconciliation.models import CaseKind
from tests.dispatch.faults import FaultServer, answers
from tests.dispatch.world import RECEIPT, a_contract, as_json
from tests.reconciliation.test_opening import stuck
from tests.reconciliation.world import PATIENT, Desk, now
from workflows.models import Job
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
OK = answers(200, as_json(RECEIPT))


@pytest.fixture
def desk() -> Desk:
    return Desk.make("http://127.0.0.1:9", a_contract())


def test_a_retry_grants_attempts_and_closes_the_case(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.EXHAUSTED)
    case = desk.happens(job, "retry.exhausted", item=item.pk)
    done = desk.act(retry, case, attempts=2, reason="the provider is back")
    closed, again = desk.fresh(case), desk.item(job)
    assert (done.resolution, closed.resolved_by, closed.resolution_reason) == (
        "tried again",
        desk.anna,
        "the provider is back",
    )
    assert (again.state_name, again.attempts_limit) == (ItemState.READY, 5)
    assert desk.events(job)[-2:] == ["attempts.granted", "case.closed"]


def test_a_retry_is_refused_with_nothing_changed(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.EXHAUSTED)
    case = desk.happens(job, "retry.exhausted", item=item.pk)
    before = desk.snapshot(job)
    for person, values, refusal in (
        (desk.anna, {"attempts": 0, "reason": "x"}, Unprocessable),
        (desk.anna, {"attempts": 1, "reason": " "}, EvidenceMissing),
        (desk.admin, {"attempts": 1, "reason": "x"}, NotPermitted),
        (desk.anna, {"attempts": 1, "reason": "x", "version": 7}, StaleCase),
    ):
        with pytest.raises(refusal):
            desk.act(retry, case, person, **values)
    assert desk.snapshot(job) == before


def test_a_step_that_stops_again_opens_a_new_case(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.EXHAUSTED)
    first = desk.happens(job, "retry.exhausted", item=item.pk)
    desk.act(retry, first, attempts=1, reason="once more")
    second = desk.happens(job, "retry.exhausted", item=item.pk)
    assert second.pk != first.pk
    assert [c.pk for c in desk.cases(job, open_only=True)] == [second.pk]


def test_what_the_workflow_cannot_do_without_is_not_left_out(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.REFUSED)
    case = desk.happens(job, "item.refused", item=item.pk)
    before = desk.snapshot(job)
    verb = desk.verb(case, VerbName.SKIP)
    assert (verb.allowed, "only an item of a fan-out" in verb.why_not) == (False, True)
    with pytest.raises(NotAllowedNow, match="only an item of a fan-out"):
        desk.act(skip, case, reason="we need it")
    assert desk.snapshot(job) == before


def test_what_a_case_offers_for_a_stopped_step_and_to_whom(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.EXHAUSTED)
    case = desk.happens(job, "retry.exhausted", item=item.pk)
    offered = {p: {v.name for v in desk.page(case, p).verbs if v.allowed} for p in (desk.anna, desk.admin)}
    assert offered == {
        desk.anna: {VerbName.RETRY, VerbName.CORRECT, VerbName.GIVE_UP},
        desk.admin: {VerbName.CANCEL},
    }


def test_an_admin_cancels_the_job_of_a_case_and_an_operator_does_not(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.EXHAUSTED)
    case = desk.happens(job, "retry.exhausted", item=item.pk)
    with pytest.raises(NotPermitted):
        desk.act(cancel, case, desk.anna, reason="enough")
    with pytest.raises(EvidenceMissing):
        desk.act(cancel, case, desk.admin, reason=" ")
    done = desk.act(cancel, case, desk.admin, reason="ordered twice")
    assert (done.job_state, done.resolution) == ("CANCELLED", "the job was cancelled")
    with pytest.raises(StaleCase):
        desk.act(cancel, case, desk.admin, reason="again")


def test_a_draft_that_could_not_be_frozen_is_proposed_again_from_its_case(desk: Desk) -> None:
    desk.world.policy(waives_approval=False)
    job = desk.world.job()
    desk.freeze(job)
    _back_to_validated(desk, job)
    case = desk.happens(job, "proposal.refused", why="no receiver")
    assert desk.act(repropose, case).job_state == "AWAITING_APPROVAL"
    assert desk.fresh(case).resolution == "went on"


def test_giving_up_fails_the_job_and_closes_all_of_its_cases(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.REFUSED)
    case = desk.happens(job, "item.refused", item=item.pk)
    other = desk.happens(job, "proposal.expired")
    with pytest.raises(EvidenceMissing):
        desk.act(give_up, case, reason="")
    done = desk.act(give_up, case, reason="the order was withdrawn")
    assert (done.job_state, done.resolution) == ("FAILED", "given up")
    assert [(c.resolution, c.resolved_by) for c in (desk.fresh(case), desk.fresh(other))] == [
        ("given up", desk.anna)
    ] * 2


def test_a_blocked_send_that_is_given_up_is_never_sent() -> None:
    with FaultServer(answers(401)) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown()
        done = desk.act(give_up, case, reason="no credentials")
    assert (done.job_state, desk.sending.operation(job).state) == ("FAILED", "WITHDRAWN")


def test_going_on_sends_what_was_blocked_once_it_is_put_right() -> None:
    with FaultServer(answers(401), OK) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown()
        with pytest.raises(EvidenceMissing):
            desk.act(go_on, case, reason="")
        done = desk.act(go_on, case, reason="the token is renewed")
        assert done.resolution == "went on"
        desk.run(job)
        assert len(erp.received) == 2
    assert desk.sending.job_state(job) == "CONFIRMED"


def test_stopping_here_keeps_what_was_applied_and_says_the_fate_of_each() -> None:
    with FaultServer(OK, answers(422)) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("V-1", "V-2", "V-3")
        with pytest.raises(NotAllowedNow, match="not made"):
            desk.act(go_on, case, reason="try")
        done = desk.act(stop_here, case, reason="V-1 can stand alone")
    assert (done.resolution, done.job_state) == ("stopped here", "FAILED")
    assert [o.state for o in desk.sending.operations(job)] == ["CONFIRMED", "REFUSED", "WITHDRAWN"]
    assert len(erp.received) == 2


@pytest.mark.parametrize("event", ["proposal.expired", "changes.requested", "proposal.voided"])
def test_proposing_again_freezes_a_new_proposal_and_closes_the_case(desk: Desk, event: str) -> None:
    desk.world.policy(waives_approval=False)
    job = desk.world.job()
    desk.freeze(job)
    _back_to_validated(desk, job)
    case = desk.happens(job, event, why="why")
    done = desk.act(repropose, case, desk.world.submitter)
    closed = desk.fresh(case)
    assert (done.resolution, done.job_state) == ("went on", "AWAITING_APPROVAL")
    assert closed.resolved_by == desk.world.submitter
    with pytest.raises(StaleCase):
        desk.act(repropose, case)


def test_a_stranger_does_not_propose_again(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "proposal.expired")
    before = desk.snapshot(job)
    with pytest.raises(NotPermitted):
        desk.act(repropose, case, desk.world.manager)
    assert desk.snapshot(job) == before


def test_lifting_the_hold_closes_the_case(desk: Desk) -> None:
    job = desk.world.job()
    with acting(desk.tenant_id):
        Job.objects.filter(pk=job.pk).update(held_at=now(), held_by="worker", hold_reason="gone")
    case = desk.happens(job, "revision.missing", why="gone")
    done = desk.act(release, case)
    assert (done.resolution, desk.fresh(case).resolved_by) == ("released", desk.anna)
    with pytest.raises(StaleCase, match="released"):
        desk.act(release, case, desk.ben)


def test_a_hold_that_is_gone_is_not_lifted(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "revision.missing", why="gone")
    with pytest.raises(NotAllowedNow, match="not held"):
        desk.act(release, case)
    assert desk.fresh(case).resolved_at is None


def test_an_outcome_is_recorded_with_what_shows_it_or_not_at_all(desk: Desk) -> None:
    job = desk.sending.ready()
    operation = desk.sending.operation(job)
    case = desk.happens(job, "operation.key_mismatch", operation_id=operation.pk, why="other content")
    assert case.kind == CaseKind.KEY_MISMATCH
    good: dict[str, Any] = {
        "outcome": "the receiver was mistaken",
        "evidence": "They confirmed a fault of theirs.",
        "source": "ticket 4711",
    }
    before = desk.snapshot(job)
    for missing in ({"outcome": "fine"}, {"evidence": " "}, {"source": ""}):
        with pytest.raises(EvidenceMissing):
            desk.act(record_outcome, case, **{**good, **missing})
    with pytest.raises(NotPermitted):
        desk.act(record_outcome, case, desk.auditor, **good)
    assert desk.snapshot(job) == before
    done = desk.act(record_outcome, case, **good)
    assert done.resolution == "the receiver was mistaken"
    assert desk.evidence(case)[-1].source == "ticket 4711"


def test_a_verb_of_another_kind_is_refused(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "proposal.expired")
    before = desk.snapshot(job)
    for action, values in (
        (retry, {"attempts": 1, "reason": "x"}),
        (stop_here, {"reason": "x"}),
        (record_outcome, {"outcome": "done", "evidence": "x", "source": "y"}),
    ):
        with pytest.raises(NotAllowedNow, match="does not answer"):
            desk.act(action, case, **values)
    assert desk.snapshot(job) == before


def _back_to_validated(desk: Desk, job: Job) -> None:
    from approvals.actions.withdraw import withdraw_proposal

    proposal = desk.world.proposal(job)
    withdraw_proposal(
        tenant_id=desk.tenant_id,
        proposal_id=proposal.pk,
        person_id=desk.world.submitter.pk,
        now=now(),
        reason="x",
    )
