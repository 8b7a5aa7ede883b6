"""Each check before a send, and each guard of its last moment: with exactly that one switched off the same story is sent.

So every story is known to bite. Where two checks fail for one reason, both are named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.utils import timezone

from access import authority
from access.actions.tenants import revoke_tenant
from access.roles import WORKER, Role
from access.switches import switches_of
from access.tenancy import acting
from approvals import standing
from approvals.actions.block import block_recipient
from approvals.standing import first_failure
from dispatch import marker, permits
from dispatch.actions.receivers import pause_receiver
from dispatch.locks import lock_all
from dispatch.looking import UNSEEN, Looked, SourceSeen
from dispatch.models import Operation, Receiver
from dispatch.opening import NotOpened, Opened, open_submission
from dispatch.wire import NotBegun
from reconciliation.mismatched import HELD_BACK
from tests.approvals.biting import PASSES, Switch, passing, switched_off
from tests.approvals.world import World, draft, operation
from tests.dispatch.world import (
    BODY,
    Dispatching,
    a_keyed_contract,
    as_engine,
    as_owner,
    end_worker,
    expire_approval,
)
from tests.support import make_person
from workflows import journal
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job
from workflows.locks import lock_job
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
URL = "http://127.0.0.1:9"


def block(world: World) -> None:
    admin = make_person(world.tenant, Role.ADMIN)
    block_recipient(
        tenant_id=world.tenant.pk, recipient="fennmark  CASTINGS", reason="fraud", person_id=admin.pk,
        now=timezone.now(),
    )  # fmt: skip


# -- before a send ------------------------------------------------------------------------------------------------


def cancelled(d: Dispatching, job: Job) -> None:
    as_owner(
        "workflows_job", "cancel_requested_at = now(), cancel_requested_by = 'x' WHERE id = %s", [job.pk]
    )


def tampered_body(d: Dispatching, job: Job) -> None:
    as_owner("approvals_proposedoperation", "body = 'other' WHERE id = %s", [d.operation(job).proposed_id])


def tampered_document(d: Dispatching, job: Job) -> None:
    as_owner("approvals_proposal", "document = document || ' ' WHERE job_id = %s", [job.pk])


def moved_away(d: Dispatching, job: Job) -> None:
    with acting(d.tenant_id):
        Receiver.objects.update(base_url="http://127.0.0.1:1")


def paused(d: Dispatching, job: Job) -> None:
    receiver_id = d.operation(job).receiver_id
    pause_receiver(
        tenant_id=d.tenant_id, receiver_id=receiver_id, person_id=d.admin.pk, reason="no", now=timezone.now()
    )


def revoked(d: Dispatching, job: Job) -> None:
    revoke_tenant(tenant_id=d.tenant_id, reason="the contract ended", now=timezone.now())


def out_of_window(d: Dispatching, job: Job) -> None:
    as_owner("dispatch_operation", "resubmit_safe_until = now() - interval '1 s' WHERE job_id = %s", [job.pk])


def with_a_hand_in_it(d: Dispatching, job: Job) -> None:
    with acting(d.tenant_id):
        actor = authority.require(d.world.manager.pk, Role.OPERATOR)
        journal.record(job=lock_job(job.pk), event="item.corrected", actor=actor, evidence={"item": 0})


def nothing(d: Dispatching, job: Job) -> None:
    """What the workflow says is the whole story."""


MOVED = Looked(sources=(SourceSeen("Credit report", "3", "4"),))


@dataclass(frozen=True)
class Before:
    """What happens between the approval and the send, what the workflow says then, and which checks it fails."""

    spoil: Callable[[Dispatching, Job], None]
    switches: tuple[Switch, ...]
    fails: tuple[str, ...]
    looked: Looked = UNSEEN
    unknown: bool = False
    more: tuple[Switch, ...] = ()


def off(*names: str) -> tuple[Switch, ...]:
    """The functions of these checks, each in its room."""
    return tuple((permits if hasattr(permits, name) else standing, name, passing) for name in names)


def the_policy(**rules: Any) -> Callable[[Dispatching, Job], None]:
    return lambda d, job: d.world.policy(**rules) and None


OBJECTS = Looked(objections=("The supplier is suspended.",))
BEFORE = {
    "Bytes": Before(tampered_body, off("_bytes", "_digest"), ("Bytes", "Digest")),
    "Digest": Before(tampered_document, off("_digest"), ("Digest",)),
    "Target": Before(moved_away, off("_target"), ("Target",)),
    "Window": Before(out_of_window, off("_window"), ("Window",), unknown=True),
    "Receiver": Before(paused, off("_receiver"), ("Receiver",)),
    "Organisation": Before(revoked, off("_organisation"), ("Organisation",)),
    "Cancel": Before(cancelled, off("_no_cancel"), ("Cancel",)),
    "Expiry": Before(expire_approval, off("_expiry"), ("Expiry",)),
    "Recipient": Before(lambda d, _: block(d.world), off("_recipient"), ("Recipient",)),
    "Initiator": Before(lambda d, _: d.world.end_role(d.world.submitter), off("_initiator"), ("Initiator",)),
    "Authority": Before(
        lambda d, _: d.world.end_role(d.world.manager), off("_authority", "_policy"), ("Authority", "Policy")
    ),
    "Four eyes": Before(with_a_hand_in_it, off("_four_eyes", "_policy"), ("Four eyes", "Policy")),
    "Limit": Before(
        the_policy(limits=[{"amount": "1", "currency": "EUR"}]), off("_limit", "_policy"), ("Limit", "Policy")
    ),
    "Sums": Before(the_policy(sums=[{"amount": "1", "currency": "EUR"}]), off("_sums"), ("Sums",)),
    "Policy": Before(the_policy(quorum=2), off("_policy"), ("Policy",)),
    "Record versions": Before(nothing, off("_versions"), ("Record versions",), looked=MOVED),
    "Recheck": Before(nothing, ((permits, "_objections", lambda _: [PASSES]),), ("Recheck",), looked=OBJECTS),
    "Earlier sends": Before(
        nothing,
        off("_earlier_sends"),
        ("Earlier sends",),
        more=((permits, "_objects", [lambda _: "Another proposal of it stands."]),),
    ),
}


def approved(*, unknown: bool) -> tuple[Dispatching, Job]:
    """A job that one manager has approved, or one whose first send was lost."""
    d = Dispatching.make(URL, a_keyed_contract())
    d.world.manager = make_person(d.world.tenant, Role.MANAGER, Role.OPERATOR)
    if not unknown:
        d.world.policy()
    job = d.world.job()
    d.world.freeze(job, draft(operations=[operation(action="update", body=BODY)]))
    if unknown:
        as_owner(
            "dispatch_operation",
            "state = 'UNKNOWN', next_step = 'resubmit', first_may_have_been_sent_at = now(),"
            " resubmit_safe_until = now() + interval '1 h' WHERE job_id = %s",
            [job.pk],
        )
    else:
        d.world.decide(d.world.proposal(job), d.world.manager)
    return d, job


def sends(case: Before) -> tuple[bool, list[str]]:
    """Whether the story ends with a submission that may be sent, and which checks fail in it."""
    d, job = approved(unknown=case.unknown)
    case.spoil(d, job)
    one = d.operation(job)
    with pytest.MonkeyPatch.context() as patch, acting(d.tenant_id):
        for place, name, instead in case.more:
            patch.setattr(place, name, instead)
        at = lock_all(job.pk, one.pk)
        permit = permits.permit_of(at.operation)
        checks = permits.checks_before(
            at.job,
            at.proposal,
            at.operation,
            permit=permit,
            waits_for=permits.what_it_waits_for(at.job, at.operation, switches_of(d.tenant_id)),
            looked=case.looked,
            now=timezone.now(),
        )
    with pytest.MonkeyPatch.context() as patch:
        for place, name, instead in case.more:
            patch.setattr(place, name, instead)
        opened = open_submission(
            claim=d.claim(one), operation_id=one.pk, looked=case.looked, now=timezone.now()
        )
    assert isinstance(opened, Opened | NotOpened)
    assert isinstance(opened, Opened) == (len(d.submissions(job)) == 1)
    return isinstance(opened, Opened), [c.name for c in checks if not c.ok]


@pytest.mark.parametrize("name", BEFORE)
def test_a_send_that_one_check_alone_stops_goes_out_without_it(name: str) -> None:
    case = BEFORE[name]
    assert sends(case) == (False, list(case.fails))
    assert name in case.fails
    with switched_off(case.switches):
        assert sends(case) == (True, [])


def test_every_check_that_is_made_before_a_send_has_a_story_here() -> None:
    d, job = approved(unknown=False)
    d.world.policy(sums=[{"amount": "1000000", "currency": "EUR"}])
    lost, its = approved(unknown=True)
    named = set()
    for one, of in ((d, job), (lost, its)):
        with acting(one.tenant_id):
            at = lock_all(of.pk, Operation.objects.get(job=of).pk)
            permit = permits.permit_of(at.operation)
            checks = permits.checks_before(
                at.job,
                at.proposal,
                at.operation,
                permit=permit,
                waits_for=permits.what_it_waits_for(at.job, at.operation, switches_of(d.tenant_id)),
                looked=UNSEEN,
                now=timezone.now(),
            )
        assert first_failure(checks) is None
        assert all(check.sentence.endswith(".") for check in checks)
        named |= {check.name for check in checks}
    assert named == set(BEFORE)


# -- the last moment: the mark ------------------------------------------------------------------------------------


def close_it(d: Dispatching, job: Job) -> None:
    as_owner(
        "dispatch_submission",
        "closed_at = now(), outcome = 'not sent' WHERE operation_id = %s",
        [_one(d, job)],
    )


def _one(d: Dispatching, job: Job) -> int:
    return d.operation(job).pk


def take_claim(d: Dispatching, job: Job) -> None:
    item = d.item(d.operation(job))
    as_engine("UPDATE workflows_workitem SET claim_no = claim_no + 1 WHERE id = %s", [item.pk])


def hold(d: Dispatching, job: Job) -> None:
    hold_job(tenant_id=d.tenant_id, job_id=job.pk, person_id=d.admin.pk, reason="no", now=timezone.now())


def cancel(d: Dispatching, job: Job) -> None:
    cancel_job(tenant_id=d.tenant_id, job_id=job.pk, person_id=d.admin.pk, reason="no", now=timezone.now())


def moved_on(d: Dispatching, job: Job) -> None:
    as_owner("dispatch_operation", "state = 'UNKNOWN' WHERE id = %s", [_one(d, job)])


def late(d: Dispatching, job: Job) -> None:
    as_owner("dispatch_submission", "send_deadline_at = now() WHERE operation_id = %s", [_one(d, job)])


TAKEN = "the submission is closed or already marked"
"""Without this guard a trigger of the database refuses."""

SHUT, COPIED = "dispatch is shut since a backup was restored", "these rows were copied here from a dump"
"""Without these a trigger of the database refuses."""


def shut(d: Dispatching, job: Job) -> None:
    restored(d, job)
    with acting(d.tenant_id):
        Operation.objects.filter(pk=_one(d, job)).update(quarantined_at=timezone.now())
    as_owner("access_tenant", "shut_at = now() WHERE id = %s", [d.tenant_id])


def copied(d: Dispatching, job: Job) -> None:
    as_owner("access_installation", "home_table = home_table - 1 WHERE %s", [True])


def restored(d: Dispatching, job: Job) -> None:
    as_owner("access_tenant", "restored_at = now(), known_until = now() WHERE id = %s", [d.tenant_id])


def mismatched(d: Dispatching, job: Job) -> None:
    with acting(d.tenant_id):
        evidence = {"operation_id": Operation.objects.get(job=job).pk, "why": "other content"}
        journal.record(job=lock_job(job.pk), event="operation.key_mismatch", actor=WORKER, evidence=evidence)


LAST: dict[str, Callable[[Dispatching, Job], None]] = {
    TAKEN: close_it,
    "the claim is another's": take_claim,
    "the worker's lease has run out": lambda d, _: end_worker(d.worker),
    "a cancel was asked for": cancel,
    "the job is held": hold,
    "the receiver is paused": paused,
    HELD_BACK: mismatched,
    "the organisation is revoked": revoked,
    SHUT: shut,
    COPIED: copied,
    "it may have been sent after the backup": restored,
    "the recipient is blocked": lambda d, _: block(d.world),
    "the operation has moved on": moved_on,
    "the approval has expired": expire_approval,
    "the time in which the same key is safe has passed": out_of_window,
    "the time to send has passed": late,
}


def held_back_by(why: str) -> str:
    """Why the first byte may not leave after this has happened to an open submission, or "" where it may."""
    d, job = approved(unknown="same key" in why)
    one = d.operation(job)
    opened = open_submission(claim=d.claim(one), operation_id=one.pk, looked=UNSEEN, now=timezone.now())
    assert isinstance(opened, Opened)
    LAST[why](d, job)
    try:
        marker.barrier(opened.sender)()
    except NotBegun as stopped:
        return str(stopped)
    finally:
        as_owner(
            "access_installation",
            "home_table = 'access_installation'::regclass::oid::bigint WHERE %s",
            [True],
        )
    return ""


@pytest.mark.parametrize("why", [w for w in marker.CONDITIONS if w not in (TAKEN, SHUT, COPIED)])
def test_a_first_byte_that_one_guard_alone_holds_back_leaves_without_it(why: str) -> None:
    assert held_back_by(why) == why
    guard = marker.CONDITIONS[why]
    assert marker._MARK.count(guard) == 1
    with switched_off(((marker, "_MARK", marker._MARK.replace(guard, "true")),)):
        assert held_back_by(why) == ""


@pytest.mark.parametrize("why", [SHUT, COPIED])
def test_a_mark_that_forgot_to_ask_whether_dispatch_is_shut_is_refused_by_the_database(why: str) -> None:
    assert held_back_by(why) == why
    with switched_off(((marker, "_MARK", marker._MARK.replace(marker.CONDITIONS[why], "true")),)):
        assert held_back_by(why) == "the database could not be asked"


def test_every_guard_of_the_mark_has_a_story_here() -> None:
    assert set(LAST) == set(marker.CONDITIONS)
    assert held_back_by(TAKEN) == TAKEN
