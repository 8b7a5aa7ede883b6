"""A vendor's record that changes at the real ERP between the approval and the send, and one that is suspended."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.tenancy import reading
from dispatch.looking import UNSEEN
from dispatch.opening import NotOpened, open_submission
from examples import vendor_onboarding
from examples.management import sample
from examples.simulators.client import ErpControl
from examples.vendor_onboarding import VendorChange
from reconciliation.models import Case
from tests.approvals.world import World
from tests.dispatch.world import Dispatching, make_worker, states
from tests.examples.erp import somebody_else_writes
from tests.examples.test_vendor_onboarding import a_change, a_ctx, proposed
from workflows.models import Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture
def desk(erp: ErpControl) -> Dispatching:
    loaded = sample.load(now=timezone.now(), sign_in=False)
    people = {handle: Person.objects.get(pk=pk) for handle, pk in loaded.people.items()}
    named = (sample.SUBMITTER, sample.MANAGER, sample.SECOND_MANAGER, sample.OPERATOR)
    world = World(Tenant.objects.get(pk=loaded.tenant_id), *(people[handle] for handle in named))
    return Dispatching(world, people[sample.ADMIN], make_worker())


def approved(desk: Dispatching) -> Job:
    """A change of V-30417, proposed from the record as the ERP has it now, and approved."""
    change = a_change()
    record = vendor_onboarding.read_current(a_ctx(desk.tenant_id), VendorChange.model_validate(change))
    job = desk.world.job(workflow=vendor_onboarding.vendor_onboarding, text=json.dumps(change))
    desk.world.freeze(job, proposed(change, record).model_dump_json())
    for manager in (desk.world.manager, desk.world.second):
        if desk.job_state(job) == "AWAITING_APPROVAL":
            desk.world.decide(desk.world.proposal(job), manager)
    assert desk.job_state(job) == "READY_TO_COMMIT"
    return job


def failed_checks(desk: Dispatching, job: Job) -> dict[str, str]:
    told = desk.world.evidence(job, "proposal.voided")["why"]
    entries = desk.world.evidence(job, "send.check_failed")
    assert told
    return {check["name"]: check["sentence"] for check in entries.get("checks", []) if not check["ok"]}


def test_a_record_that_changed_after_the_approval_is_not_written_over(
    desk: Dispatching, erp: ErpControl
) -> None:
    job = approved(desk)
    somebody_else_writes(erp, payment_terms="10 days net")
    desk.step(desk.operation(job))

    assert states(desk, job) == ("VALIDATED", ["WITHDRAWN"])
    assert [effect["path"] for effect in erp.effects(record="V-30417")] == ["/neither/vendors/V-30417"]
    moved = "V-30417 is at version 42 now; version 41 was approved."
    assert failed_checks(desk, job) == {"Record versions": moved}
    assert desk.world.evidence(job, "proposal.voided")["why"] == moved
    with reading(desk.tenant_id):
        assert [(case.kind, case.resolved_at) for case in Case.objects.filter(job=job)] == [
            ("fact changed", None)
        ]

    again = approved(desk)
    desk.run(again)
    assert states(desk, again) == ("CONFIRMED", ["CONFIRMED"])
    (sent,) = desk.submissions(again)
    found = {check["name"]: check["sentence"] for check in json.loads(sent.checks)}
    assert found["Record versions"] == "V-30417 is still at version 42."
    assert found["Recheck"] == "The workflow looked again and has no objection."


def test_a_vendor_who_was_suspended_after_the_approval_gets_nothing(
    desk: Dispatching, erp: ErpControl
) -> None:
    job = approved(desk)
    somebody_else_writes(erp, suspended=True)
    operation = desk.operation(job)
    unseen = open_submission(
        claim=desk.claim(operation), operation_id=operation.pk, looked=UNSEEN, now=timezone.now()
    )
    assert isinstance(unseen, NotOpened)
    assert (unseen.why, desk.submissions(job)) == ("the workflow has to look at it first", [])
    desk.step(desk.operation(job))

    assert states(desk, job) == ("VALIDATED", ["WITHDRAWN"])
    assert (
        desk.world.evidence(job, "send.check_failed")["why"]
        == "V-30417 was suspended at the receiver meanwhile."
    )
    assert len(erp.effects(record="V-30417")) == 1
