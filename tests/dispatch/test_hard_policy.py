"""Once bytes may have left: an expired approval stands in the way of nothing that resolves it, hard policy still does."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from access.actions.tenants import restore_tenant, revoke_tenant
from access.models import TenantEntry
from access.roles import Role
from access.tenancy import acting, reading
from approvals.actions.block import block_recipient, lift_block
from approvals.actions.repropose import repropose_job
from dispatch import settling
from dispatch.actions.receivers import pause_receiver, resume_receiver
from dispatch.locks import lock_job_and_operation
from tests.approvals.world import World
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import (
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    as_json,
    as_owner,
    expire_approval,
    receipt,
    states,
)
from tests.support import make_person
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
OK = answers(200, receipt("V-1"))


def lost(d: Dispatching) -> Job:
    """A job whose first send was received and never answered."""
    job = d.ready()
    d.step(d.operation(job))
    assert d.operation(job).state == "UNKNOWN"
    return job


def block(world: World) -> int:
    admin = make_person(world.tenant, Role.ADMIN)
    return block_recipient(
        tenant_id=world.tenant.pk, recipient="Fennmark Castings", reason="fraud", person_id=admin.pk,
        now=timezone.now(),
    )  # fmt: skip


def test_an_unknown_send_is_made_again_inside_its_window_though_the_approval_has_expired() -> None:
    with FaultServer(fin, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = lost(d)
        expire_approval(d, job)
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
        assert erp.received[0] == erp.received[1]
    first, again = d.submissions(job)
    assert (first.permit, again.permit) == ("approval", "window")
    assert "Expiry" in first.checks
    assert "Expiry" not in again.checks


def test_an_unknown_send_is_looked_up_and_confirmed_though_the_approval_has_expired() -> None:
    with FaultServer(fin, OK) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract())
        job = lost(d)
        expire_approval(d, job)
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])


def test_an_unknown_send_is_closed_by_people_though_the_approval_has_expired() -> None:
    with FaultServer(fin) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = lost(d)
        expire_approval(d, job)
        with acting(d.tenant_id):
            locked, operation = lock_job_and_operation(d.operation(job).pk)
            settling.settle_not_applied(
                job=locked,
                operation=operation,
                summary="they hold nothing",
                actor=d.operator,
                now=timezone.now(),
            )
        assert states(d, job) == ("FAILED", ["NOT_APPLIED"])


def test_what_definitely_did_nothing_is_not_sent_again_after_the_expiry() -> None:
    with FaultServer(answers(429), OK) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.step(d.operation(job))
        assert states(d, job) == ("READY_TO_COMMIT", ["PREPARED"])
        expire_approval(d, job)
        d.run(job)
        assert len(erp.received) == 1
    assert d.job_state(job) == "VALIDATED"
    assert "send.check_failed" in d.events(job)


def test_proven_absence_is_not_sent_again_after_the_expiry_and_by_nobodys_order_either() -> None:
    with FaultServer(fin, answers(404, as_json({})), OK) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract())
        job = lost(d)
        as_owner(
            "dispatch_submission",
            "send_deadline_at = now() - interval '1 s' WHERE operation_id = %s",
            [d.operation(job).pk],
        )
        d.step(d.operation(job))
        assert d.operation(job).state == "NOT_APPLIED"
        expire_approval(d, job)
        with acting(d.tenant_id):
            locked, operation = lock_job_and_operation(d.operation(job).pk)
            settling.order_resubmission(
                job=locked, operation=operation, actor=d.operator, now=timezone.now(), beyond_window=True
            )
        d.step(d.operation(job))
        assert len(erp.received) == 2
    assert d.world.evidence(job, "send.check_failed")["check"] == "Expiry"


def test_a_blocked_recipient_is_looked_up_and_confirmed_but_not_sent_to_again() -> None:
    with FaultServer(fin, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = lost(d)
        assert d.operation(job).next_step == "resubmit"
        block(d.world)
        d.run(job)
        assert len(erp.received) == 1
    assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
    told = d.world.evidence(job, "send.check_failed")
    assert told["check"] == "Recipient"
    assert [c["name"] for c in told["checks"]] == [
        "Bytes", "Target", "Window", "Receiver", "Organisation", "Cancel", "Recipient",
    ]  # fmt: skip
    assert [c["name"] for c in told["checks"] if not c["ok"]] == ["Recipient"]


@pytest.mark.parametrize("policy", ["receiver", "organisation"])
def test_what_hard_policy_holds_back_waits_and_goes_on_when_it_is_lifted(policy: str) -> None:
    with FaultServer(fin, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job, now = lost(d), timezone.now()
        receiver = d.operation(job).receiver_id
        if policy == "receiver":
            pause_receiver(
                tenant_id=d.tenant_id, receiver_id=receiver, person_id=d.admin.pk, reason="no", now=now
            )
        else:
            revoke_tenant(tenant_id=d.tenant_id, reason="the contract ended", now=now)
        d.step(d.operation(job))
        assert (len(erp.received), d.operation(job).state) == (1, "UNKNOWN")
        if policy == "receiver":
            resume_receiver(tenant_id=d.tenant_id, receiver_id=receiver, person_id=d.admin.pk, now=now)
        else:
            restore_tenant(tenant_id=d.tenant_id, now=now)
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])


def test_a_first_send_to_a_blocked_recipient_is_voided_and_a_lifted_block_lets_it_be_proposed_again() -> None:
    with FaultServer(OK) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        block_id = block(d.world)
        d.step(d.operation(job))
        assert (states(d, job), erp.received) == (("VALIDATED", ["WITHDRAWN"]), [])
    assert d.events(job)[-1] == "proposal.voided"
    again = {"tenant_id": d.tenant_id, "job_id": job.pk, "person_id": d.world.operator.pk}
    refused = repropose_job(**again, now=timezone.now())
    assert (refused.proposal_id, "is blocked by" in refused.refused) == (None, True)
    admin = make_person(d.world.tenant, Role.ADMIN)
    lift_block(
        tenant_id=d.tenant_id, block_id=block_id, reason="cleared", person_id=admin.pk, now=timezone.now()
    )
    assert repropose_job(**again, now=timezone.now()).proposal_id is not None
    assert d.job_state(job) == "READY_TO_COMMIT"


def test_an_organisation_is_revoked_and_restored_on_the_command_line_with_a_reason() -> None:
    world = World.make()
    slug = world.tenant.slug
    with pytest.raises(CommandError, match="Say why"):
        call_command("tenant", "revoke", slug)
    call_command("tenant", "revoke", slug, reason="the contract ended")
    with pytest.raises(CommandError, match="revoked already: the contract ended"):
        call_command("tenant", "revoke", slug, reason="again")
    call_command("tenant", "restore", slug)
    with pytest.raises(CommandError, match="is not revoked"):
        call_command("tenant", "restore", slug)
    with reading(world.tenant.pk):
        events = list(TenantEntry.objects.order_by("sequence").values_list("event", flat=True))
    assert [e for e in events if e.startswith("tenant.")] == ["tenant.revoked", "tenant.restored"]
