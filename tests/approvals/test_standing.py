"""Whether an approval still holds just before a send, and the way back when it does not."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from django.db import connection
from django.utils import timezone

from access import authority
from access.owner import as_owner
from access.roles import Role
from access.tenancy import acting, reading
from approvals import standing
from approvals.locks import lock_job_and_proposal
from approvals.models import Closing, DecisionVoid, Proposal
from approvals.standing import CheckResult, Effect
from tests.approvals.world import World, draft, long_ago, operation
from tests.support import make_person
from workflows import journal
from workflows.locks import lock_job

pytestmark = pytest.mark.django_db(transaction=True)


def approved(world: World, **more: object) -> Proposal:
    proposal = world.proposed(**more)  # type: ignore[arg-type]
    world.decide(proposal, world.manager)
    return world.proposal(proposal)


def failure(world: World, proposal: Proposal) -> CheckResult | None:
    with reading(world.tenant.pk):
        return standing.first_failure(standing.approval_still_holds(proposal))


def return_it(world: World, proposal: Proposal) -> None:
    """What dispatch does in its own transaction when a check fails."""
    with acting(world.tenant.pk):
        job, locked = lock_job_and_proposal(proposal.pk)
        checks = standing.approval_still_holds(locked)
        failed = standing.first_failure(checks)
        assert failed is not None
        now = timezone.now()
        if failed.effect is Effect.BACK_TO_APPROVAL:
            standing.send_back_to_approval(
                job, locked, standing.failed_decisions(checks), failed.sentence, now
            )
        else:
            closing = Closing.EXPIRED if failed.effect is Effect.EXPIRED else Closing.VOIDED
            standing.void_and_return(job, locked, failed.sentence, closing, now)


def voids(world: World) -> list[str]:
    with reading(world.tenant.pk):
        return list(DecisionVoid.objects.values_list("why", flat=True))


def test_an_untouched_approval_holds_in_every_check(world: World) -> None:
    proposal = approved(world)
    with reading(world.tenant.pk):
        checks = standing.approval_still_holds(proposal)
    assert [c.name for c in checks] == [
        "Digest",
        "Expiry",
        "Recipient",
        "Initiator",
        "Authority",
        "Four eyes",
        "Limit",
        "Policy",
    ]
    assert all(c.ok and c.effect is Effect.NONE for c in checks)


def _role_ends(world: World) -> None:
    world.end_role(world.manager)


def _account_is_disabled(world: World) -> None:
    world.manager.is_active = False
    world.manager.save()


def _limit_falls(world: World) -> None:
    world.policy(limit_amount=Decimal("1000"), limit_currency="EUR")


@pytest.mark.parametrize(
    ("lose", "name", "says"),
    [
        (_role_ends, "Authority", "is no longer a manager here"),
        (_account_is_disabled, "Authority", "is disabled"),
        (_limit_falls, "Limit", "above the limit of 1,000.00 EUR"),
    ],
)
def test_authority_lost_after_the_approval_voids_it_and_asks_again(
    world: World, lose: Callable[[World], None], name: str, says: str
) -> None:
    proposal = approved(world)
    lose(world)
    failed = failure(world, proposal)
    assert failed is not None
    assert (failed.name, failed.effect, len(failed.decision_ids)) == (name, Effect.BACK_TO_APPROVAL, 1)
    assert says in failed.sentence
    return_it(world, proposal)
    assert world.state(proposal) == "AWAITING_APPROVAL"
    assert (world.proposal(proposal).approved_at, len(voids(world))) == (None, 1)
    assert "approval.voided" in world.events(proposal)


def test_after_it_was_sent_back_another_manager_can_approve(world: World) -> None:
    proposal = approved(world)
    world.end_role(world.manager)
    return_it(world, proposal)
    assert world.decide(proposal, world.second).job_state == "READY_TO_COMMIT"
    assert failure(world, world.proposal(proposal)) is None


def test_an_approver_who_had_a_hand_in_it_afterwards_no_longer_counts(world: World) -> None:
    both = make_person(world.tenant, Role.MANAGER, Role.OPERATOR)
    proposal = world.proposed()
    world.decide(proposal, both)
    with acting(world.tenant.pk):
        actor = authority.require(both.pk, Role.OPERATOR)
        journal.record(
            job=lock_job(proposal.job_id), event="item.corrected", actor=actor, evidence={"item": 0}
        )
    failed = failure(world, world.proposal(proposal))
    assert failed is not None
    assert failed.name == "Four eyes"


def test_a_quorum_raised_after_the_approval_waits_for_the_second_and_keeps_the_first(world: World) -> None:
    proposal = approved(world)
    world.policy(quorum=2)
    failed = failure(world, proposal)
    assert failed is not None
    assert (failed.name, failed.sentence) == ("Policy", "test-policy needs one more approval.")
    return_it(world, proposal)
    assert (world.state(proposal), voids(world)) == ("AWAITING_APPROVAL", [])
    assert world.decide(proposal, world.second).job_state == "READY_TO_COMMIT"


def test_a_waiver_that_was_taken_back_asks_for_an_approval(world: World) -> None:
    world.policy(waives_approval=True)
    proposal = world.proposed()
    assert failure(world, proposal) is None
    world.policy()
    return_it(world, proposal)
    assert world.state(proposal) == "AWAITING_APPROVAL"
    assert world.decide(proposal, world.manager).job_state == "READY_TO_COMMIT"


def test_an_approval_that_outlived_its_expiry_is_not_sent(world: World) -> None:
    world.policy(waives_approval=True)
    proposal = world.proposed(now=long_ago())
    failed = failure(world, proposal)
    assert failed is not None
    assert (failed.name, failed.effect) == ("Expiry", Effect.EXPIRED)
    return_it(world, proposal)
    assert (world.state(proposal), world.proposal(proposal).closing) == ("VALIDATED", "expired")
    assert world.events(proposal)[-1] == "proposal.expired" or "proposal.expired" in world.events(proposal)


TAMPER = [
    ("approvals_proposal", "document = replace(document, 'V-1', 'V-2')"),
    ("approvals_proposal", "expires_at = expires_at + interval '1 day'"),
    ("approvals_proposal", "document = 'broken', digest = encode(sha256('broken'), 'hex')"),
    ("approvals_proposedoperation", "body = replace(convert_from(body, 'UTF8'), 'NO93', 'NO94')::bytea"),
    (
        "approvals_proposedoperation",
        "body = 'x', body_digest = encode(sha256('x'), 'hex')",
    ),
    ("approvals_proposedoperation", "target = target || '/other'"),
    ("approvals_proposedoperation", "headers = '{}'"),
    ("approvals_proposedoperation", "independent = true"),
    ("approvals_proposedoperation", "operation_key = 'other'"),
    ("approvals_proposedoperation", "ordinal = 2"),
]


@pytest.mark.parametrize(("table", "change"), TAMPER)
def test_bytes_that_somebody_changed_past_every_guard_are_not_sent(
    world: World, table: str, change: str
) -> None:
    proposal = approved(world, value=draft(operations=[operation()]))
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute(f"UPDATE {table} SET {change}")
        cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    failed = failure(world, world.proposal(proposal))
    assert failed is not None
    assert (failed.name, failed.effect) == ("Digest", Effect.VOID)
    assert failed.sentence.startswith("Digest mismatch: ")
    return_it(world, proposal)
    assert (world.state(proposal), world.proposal(proposal).closing) == ("VALIDATED", "voided")
    assert "proposal.voided" in world.events(proposal)


def test_a_proposal_that_is_sent_changes_hands_no_more(world: World) -> None:
    proposal = approved(world)
    with acting(world.tenant.pk):
        _, locked = lock_job_and_proposal(proposal.pk)
        standing.mark_sent(locked, timezone.now())
        standing.mark_sent(locked, timezone.now())
    assert world.proposal(proposal).closing == "sent"
    with acting(world.tenant.pk):
        job, locked = lock_job_and_proposal(proposal.pk)
        standing.send_back_to_approval(job, locked, [], "the role ended", timezone.now())
    assert (world.state(proposal), world.proposal(proposal).closing) == ("VALIDATED", "sent")
