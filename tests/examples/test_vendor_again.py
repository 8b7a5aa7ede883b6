"""A vendor's record that moves on at the real ERP before the send, and the job that reads it again and is confirmed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.refusals import NotPermitted
from access.tenancy import reading
from approvals import slips
from dispatch.models import Operation
from examples.management import sample
from examples.simulators.client import ErpControl, ProviderControl
from reconciliation.models import Case
from tests.approvals.world import World
from tests.dispatch.world import as_owner
from tests.examples.erp import somebody_else_writes
from tests.examples.test_vendor_onboarding import a_change
from tests.support import eventually, running_engine
from workflows import verification
from workflows.actions.run_again import CannotRunAgain, run_steps_again
from workflows.actions.submit import submit_job
from workflows.engine.engine import Engine
from workflows.models import Attempt, Job
from workflows.replaying import comparing, rows
from workflows.replaying.folding import fold

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture
def world(erp: ErpControl, provider: ProviderControl) -> World:
    loaded = sample.load(now=timezone.now(), sign_in=False)
    named = (sample.SUBMITTER, sample.MANAGER, sample.SECOND_MANAGER, sample.OPERATOR)
    return World(
        Tenant.objects.get(pk=loaded.tenant_id),
        *(Person.objects.get(pk=loaded.people[handle]) for handle in named),
    )


@pytest.fixture
def engine(world: World) -> Iterator[Engine]:
    with running_engine(2) as running:
        yield running


def submitted(world: World) -> Job:
    made = submit_job(
        tenant_id=world.tenant.pk,
        workflow="vendor-onboarding",
        value=a_change(),
        submission_key="VC-2026-0412",
        person_id=world.submitter.pk,
        source="test",
        now=timezone.now(),
    )
    with reading(world.tenant.pk):
        return Job.objects.get(pk=made.job_id)


def reaches(world: World, job: Job, state: str) -> None:
    eventually(lambda: world.state(job) == state, what=f"{job.label} in {state}")


def sign(world: World, job: Job) -> None:
    """As many managers as the policy asks."""
    proposal = world.proposal(job)
    for manager in (world.manager, world.second)[: proposal.quorum]:
        world.decide(proposal, manager)


def test_a_record_that_moved_on_is_read_again_in_the_same_job_and_changed_once(
    engine: Engine, world: World, erp: ErpControl, provider: ProviderControl
) -> None:
    job = submitted(world)
    reaches(world, job, "AWAITING_APPROVAL")
    somebody_else_writes(erp, credit_limit="30000.00", payment_terms="10 days net")
    sign(world, job)
    eventually(lambda: "proposal.voided" in world.events(job), what="the check before the send")
    with reading(world.tenant.pk):
        case = Case.objects.get(job=job, kind="fact changed")
    (first_call,) = provider.calls()

    again: dict[str, Any] = {"tenant_id": world.tenant.pk, "job_id": job.pk, "seen": 0, "now": timezone.now()}
    with pytest.raises(NotPermitted):
        run_steps_again(person_id=world.manager.pk, reason="mine", **again)
    as_owner("dispatch_operation", "state = 'UNKNOWN' WHERE job_id = %s", [job.pk])
    with pytest.raises(CannotRunAgain, match="is unknown: doing it again could do it twice"):
        run_steps_again(person_id=world.operator.pk, reason="The record has moved on.", **again)
    as_owner("dispatch_operation", "state = 'WITHDRAWN' WHERE job_id = %s", [job.pk])
    done = run_steps_again(person_id=world.operator.pk, reason="The record has moved on.", **again)
    assert done.steps == ("read-current", "assess", "propose")
    reaches(world, job, "AWAITING_APPROVAL")

    asked = [call["last_user"] for call in provider.calls()]
    assert asked[0] == first_call["last_user"]
    assert ["20000.00 EUR, payment terms 30 days net" in text for text in asked] == [True, False]
    assert ["30000.00 EUR, payment terms 10 days net" in text for text in asked] == [False, True]
    proposal = world.proposal(job)
    with reading(world.tenant.pk):
        slip = slips.slip(proposal.pk, person_id=world.manager.pk, now=timezone.now())
        case.refresh_from_db()
    assert (proposal.number, slip.previous and slip.previous.number) == (2, 1)
    told = {d.what: (d.before, d.after) for d in slip.differences}
    assert told["Source V-30417"] == ("version 41", "version 42")
    assert told["Operation 1: Credit limit, current value"] == ("20000.00", "30000.00")
    assert told["read-current: run again from here on"] == (None, f"by {sample.OPERATOR}")
    assert (case.resolution, case.resolved_by) == ("steps run again", world.operator)

    sign(world, job)
    reaches(world, job, "CONFIRMED")
    with reading(world.tenant.pk):
        states = list(Operation.objects.filter(job=job).order_by("pk").values_list("state", flat=True))
        key = Operation.objects.get(job=job, state="CONFIRMED").operation_key
        tries = Attempt.objects.filter(item__job=job, outcome="succeeded")
        steps = list(tries.order_by("pk").values_list("item__stage__name", flat=True))
    assert states == ["WITHDRAWN", "CONFIRMED"]
    assert [e["operation_key"] for e in erp.effects(record="V-30417")] == [None, key]
    assert [s for s in steps if not s.startswith(("dispatch", "approvals"))] == [
        *("validate", "read-current#1", "assess#1", "propose#1"),
        *("read-current", "assess", "propose"),
    ]  # fmt: skip
    assert verification.verify_jobs(job_id=job.pk).bad is None
    with rows.snapshot(world.tenant.pk):
        found = rows.rows_of(job.pk)
        assert comparing.compare(found, fold(found)) == []
