"""What the actions refuse, the database refuses too: from raw SQL, in the app's own role."""

import hashlib
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from access.models import Delegation
from access.owner import as_owner
from access.tenancy import acting, reading
from approvals.models import Decision, Policy, Proposal, ProposedOperation
from tests.approvals.test_authority import lend
from tests.approvals.world import World, long_ago
from tests.support import at_once

pytestmark = pytest.mark.django_db(transaction=True)

DECIDE = (
    "INSERT INTO approvals_decision (tenant_id, proposal_id, person_id, person_name, round, verdict, digest, reason,"
    " fields, authenticated_by, decided_at) VALUES (%s, %s, %s, 'x', %s, %s, %s, 'r', '', 'sql', now())"
)


def run(world: World, statement: str, parameters: list[object]) -> int:
    with acting(world.tenant.pk), connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.rowcount


def decide(
    world: World,
    proposal: Proposal,
    person_id: int,
    *,
    digest: str = "",
    verdict: str = "approve",
    number: int = 1,
) -> int:
    digest = digest or proposal.digest
    return run(world, DECIDE, [world.tenant.pk, proposal.pk, person_id, number, verdict, digest])


def refuses(says: str, call: Callable[[], object]) -> None:
    with pytest.raises(DatabaseError, match=says):
        call()


def decisions(world: World, proposal: Proposal) -> int:
    with reading(world.tenant.pk):
        return Decision.objects.filter(proposal=proposal).count()


def test_a_second_decision_by_the_same_person_is_refused_in_any_round(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    assert decide(world, proposal, world.manager.pk) == 1
    for number in (1, 2, 7):
        refuses(
            "has decided on proposal", lambda n=number: decide(world, proposal, world.manager.pk, number=n)
        )
    assert decisions(world, proposal) == 1


def test_a_decision_on_another_digest_is_refused(world: World) -> None:
    proposal = world.proposed()
    refuses("another digest", lambda: decide(world, proposal, world.manager.pk, digest="0" * 64))


def test_a_decision_after_the_closing_or_the_quorum_is_refused(world: World) -> None:
    rejected, approved = world.proposed(), world.proposed()
    world.decide(rejected, world.manager, "reject")
    world.decide(approved, world.manager)
    for proposal in (rejected, approved):
        refuses("no longer open to decisions", lambda p=proposal: decide(world, p, world.second.pk))


def test_a_decision_after_the_expiry_is_refused_by_the_databases_clock(world: World) -> None:
    proposal = world.proposed(now=long_ago())
    refuses("has expired", lambda: decide(world, proposal, world.manager.pk))


def test_a_decision_by_whoever_started_the_job_is_refused(world: World) -> None:
    proposal = world.proposed()
    refuses("started the job", lambda: decide(world, proposal, world.submitter.pk))


def test_a_verdict_or_a_closing_that_nobody_knows_is_refused(world: World) -> None:
    proposal = world.proposed()
    refuses("a_verdict_is_one_of_three", lambda: decide(world, proposal, world.manager.pk, verdict="maybe"))
    close = "UPDATE approvals_proposal SET closed_at = now(), closing = 'lost' WHERE id = %s"
    refuses("a_closing_is_known", lambda: run(world, close, [proposal.pk]))


def test_a_decision_in_another_tenants_name_is_refused(world: World) -> None:
    proposal, other = world.proposed(), World.make()
    refuses("is not one of tenant", lambda: decide(other, proposal, other.manager.pk))


def test_two_raw_decisions_at_once_queue_on_the_proposal(world: World) -> None:
    """Two sessions insert for one person, past the actions: the second waits, then sees the first."""
    world.policy(quorum=2)
    proposal = world.proposed()

    def insert() -> object:
        try:
            return decide(world, proposal, world.manager.pk)
        except DatabaseError as refused:
            return refused

    results = at_once(insert, insert)
    assert sorted(isinstance(r, DatabaseError) for r in results) == [False, True]
    assert decisions(world, proposal) == 1


def test_a_proposal_cannot_be_edited_by_the_app_or_by_the_owner(world: World) -> None:
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    for column in ("document", "digest", "title", "quorum", "expires_at", "amounts", "initiator_id"):
        edit = f"UPDATE approvals_proposal SET {column} = {column} WHERE id = %s"
        refuses("permission denied", lambda e=edit: run(world, e, [proposal.pk]))
    with as_owner(connection), connection.cursor() as cursor:
        for edit in (
            "document = document || ' '",
            "quorum = 0",
            "expires_at = expires_at + interval '1 day'",
        ):
            refuses("immutable", lambda e=edit: cursor.execute(f"UPDATE approvals_proposal SET {e}"))
        refuses("append-only", lambda: cursor.execute("DELETE FROM approvals_proposal"))
        refuses("append-only", lambda: cursor.execute("UPDATE approvals_proposedoperation SET body = ''"))
        refuses("append-only", lambda: cursor.execute("DELETE FROM approvals_decision"))


def test_a_closing_is_written_once(world: World) -> None:
    proposal = world.proposed()
    world.decide(proposal, world.manager, "reject")
    for edit in (
        "closed_at = NULL, closing = ''",
        "closing = 'expired'",
        "closing_reason = 'other'",
        "approved_at = now()",
    ):
        refuses(
            "is closed",
            lambda e=edit: run(world, f"UPDATE approvals_proposal SET {e} WHERE id = %s", [proposal.pk]),
        )


def test_nothing_is_approved_without_the_decisions_that_make_the_quorum(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    approve = "UPDATE approvals_proposal SET approved_at = now() WHERE id = %s"
    refuses("lacks approvals", lambda: run(world, approve, [proposal.pk]))
    world.policy(levels=[{"name": "line"}, {"name": "controlling"}])
    twice_on_one = world.proposed()
    for person in (world.manager, world.second):
        decide(world, twice_on_one, person.pk)
    refuses("lacks approvals", lambda: run(world, approve, [twice_on_one.pk]))


def test_an_approval_stays_until_its_job_goes_back(world: World) -> None:
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    for value in ("NULL", "now()"):
        edit = f"UPDATE approvals_proposal SET approved_at = {value} WHERE id = %s"
        refuses("stays approved", lambda e=edit: run(world, e, [proposal.pk]))


def test_no_operation_is_added_to_a_frozen_proposal(world: World) -> None:
    proposal = world.proposed()

    def add(body: bytes, digest: str) -> None:
        with acting(world.tenant.pk):
            ProposedOperation.objects.create(
                tenant=world.tenant,
                proposal=proposal,
                ordinal=2,
                operation_key="k",
                receiver="erp",
                contract_version=1,
                record="V-9",
                title="More",
                method="POST",
                target="http://erp.test/",
                body=body,
                body_digest=digest,
            )

    refuses("is frozen", lambda: add(b"x", hashlib.sha256(b"x").hexdigest()))
    refuses("not that of the body", lambda: add(b"x", "0" * 64))


def test_a_proposal_is_born_with_its_own_digest_open_and_of_a_validated_job(world: World) -> None:
    job = world.job()
    with reading(world.tenant.pk):
        policy = Policy.objects.latest("revision")

    def make(document: str = "{}", **more: object) -> None:
        now = timezone.now()
        values: dict[str, object] = {
            "digest": hashlib.sha256(document.encode()).hexdigest(),
            "expires_at": now + timedelta(days=1),
            **more,
        }
        with acting(world.tenant.pk):
            Proposal.objects.create(
                tenant=world.tenant,
                job=job,
                number=1,
                title="T",
                document=document,
                policy=policy,
                frozen_at=now,
                **{"quorum": 1, "initiator": world.submitter, **values},
            )

    refuses("not that of the document", lambda: make(digest="0" * 64))
    refuses("born open", lambda: make(approved_at=timezone.now()))
    refuses("the quorum of its policy", lambda: make(quorum=0))
    refuses("the initiator of its job", lambda: make(initiator=world.second))
    make()
    refuses("awaits no approval", lambda: decide(world, world.proposal(job), world.manager.pk))
    world.decide(awaiting := world.proposed(), world.manager)
    job = world.job()
    with reading(world.tenant.pk):
        job.pk = awaiting.job_id
    refuses("only a validated job", make)


def decide_for(world: World, proposal: Proposal, lent: Delegation) -> int:
    """Raw, by who was lent it, with the giver's authority."""
    statement = DECIDE.replace("decided_at)", "decided_at, delegation_id, on_behalf_of_id)").replace(
        "now())", "now(), %s, %s)"
    )
    parameters: list[object] = [world.tenant.pk, proposal.pk, lent.taker_id, 1, "approve", proposal.digest]
    return run(world, statement, [*parameters, lent.pk, lent.giver_id])


def test_a_decision_for_who_started_it_or_for_no_manager_is_refused(world: World) -> None:
    """The delegations themselves are in force: past the actions anybody's can be written."""
    proposal = world.proposed()
    for giver, says in ((world.submitter, "started the job"), (world.operator, "acts for one who is none")):
        lent = lend(world, giver, world.second)
        refuses(says, lambda lent=lent: decide_for(world, proposal, lent))


def test_a_decision_with_what_is_not_lent_now_is_refused(world: World) -> None:
    now, proposal = timezone.now(), world.proposed()
    for changes in (
        {"ends_at": now},
        {"starts_at": now + timedelta(hours=1), "ends_at": now + timedelta(hours=2)},
        {"revoked_at": now, "revoked_by": "x"},
        {"giver": world.second, "taker": world.manager},
    ):
        lent = lend(world, **{"giver": world.manager, "taker": world.second, **changes})
        lent.taker_id, lent.giver_id = world.second.pk, world.manager.pk
        refuses("was not lent this authority", lambda lent=lent: decide_for(world, proposal, lent))


def test_a_giver_and_who_acts_for_them_decide_once(world: World) -> None:
    world.policy(quorum=2)
    lent = lend(world, world.manager, world.second)
    first, second = world.proposed(), world.proposed()
    assert decide(world, first, world.manager.pk) == 1
    refuses("has decided on proposal", lambda: decide_for(world, first, lent))
    assert decide_for(world, second, lent) == 1
    refuses("has decided on proposal", lambda: decide(world, second, world.manager.pk))


def test_what_has_ended_is_not_undone_and_not_ended_anew(world: World) -> None:
    lent = lend(world, world.manager, world.second)
    revoke = "UPDATE access_delegation SET revoked_at = %s, revoked_by = 'x' WHERE id = %s"
    assert run(world, revoke, [timezone.now(), lent.pk]) == 1
    for at in (None, timezone.now()):
        refuses("has ended", lambda at=at: run(world, revoke, [at, lent.pk]))
