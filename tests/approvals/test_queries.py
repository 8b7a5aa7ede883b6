"""The list of what awaits approval and the slip, for one person."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.roles import Role
from access.tenancy import reading
from approvals import queries, slips
from approvals.actions.repropose import repropose_job
from approvals.actions.withdraw import withdraw_approval
from approvals.locks import NoSuchProposal
from approvals.models import Proposal
from approvals.queries import Counts, Page
from approvals.slips import Difference, Slip
from tests.approvals.world import World, draft, operation
from tests.support import make_person

pytestmark = pytest.mark.django_db(transaction=True)


def page(world: World, person: object, which: str = "everyone", **more: object) -> Page:
    with reading(world.tenant.pk):
        return queries.awaiting(
            person_id=person.pk,  # type: ignore[attr-defined]
            which=which,
            now=timezone.now(),
            **more,  # type: ignore[arg-type]
        )


def ids(page: Page) -> list[int]:
    return [r.proposal_id for r in page.rows]


def slip(world: World, proposal: Proposal, person: object) -> Slip:
    with reading(world.tenant.pk):
        return slips.slip(
            proposal.pk,
            person_id=person.pk,  # type: ignore[attr-defined]
            now=timezone.now(),
        )


def test_a_row_says_what_is_proposed_and_how_far_it_is(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    (row,) = page(world, world.second).rows
    assert (row.title, row.recipient, row.amount, row.currency) == (
        "Update vendor record V-1",
        "Fennmark Castings",
        Decimal("4800"),
        "EUR",
    )
    assert (row.approvals, row.quorum, row.why_not, row.workflow_title) == (1, 2, "", "Orders for tests")
    assert (row.initiator, row.started_by_me) == (world.submitter.username, False)


def test_the_tabs_hold_what_they_say(world: World) -> None:
    both = make_person(world.tenant, Role.SUBMITTER, Role.MANAGER)
    world.policy(limit_amount=Decimal("5000"), limit_currency="EUR", quorum=2)
    mine, large = world.proposed(by=both), world.proposed(draft(amount="5000.01"))
    signed, plain = world.proposed(), world.proposed()
    world.decide(signed, both)
    everyone = {r.proposal_id: r.why_not for r in page(world, both).rows}
    assert everyone == {
        mine.pk: "You started this job",
        large.pk: "Over your limit",
        signed.pk: "You have signed",
        plain.pk: "",
    }
    assert ids(page(world, both, "for-me")) == [plain.pk]
    assert ids(page(world, both, "signed-today")) == [signed.pk]
    assert {r.why_not for r in page(world, world.operator).rows} == {"Only managers decide"}
    with reading(world.tenant.pk):
        counts = queries.counts(person_id=both.pk, now=timezone.now())
        assert queries.why_not(both.pk, world.proposal(mine)) == "You started this job"
    assert counts == Counts(for_me=1, everyone=4, signed_today=1)


def test_pages_follow_each_other_by_expiry_without_gaps_or_repeats(world: World) -> None:
    now = timezone.now()
    made = [world.proposed(now=now - timedelta(minutes=n // 2)) for n in range(7)]
    expected = [p.pk for p in sorted(made, key=lambda p: (p.expires_at, p.pk))]
    for which in ("everyone", "for-me"):
        found, after = [], ""
        for _ in range(4):
            one = page(world, world.manager, which, limit=2, after=after)
            found += ids(one)
            after = one.next_after
        assert (found, after) == (expected, "")
    for nonsense in ("x", "1-", "9" * 30 + "-1", "²-1", "1-1; DROP"):
        assert len(page(world, world.manager, after=nonsense).rows) in (0, 7)


def test_another_tenants_proposals_are_not_there(world: World) -> None:
    proposal, other = world.proposed(), World.make()
    assert page(other, other.manager).rows == []
    with reading(other.tenant.pk), pytest.raises(NoSuchProposal):
        slips.slip(proposal.pk, person_id=other.manager.pk, now=timezone.now())


def test_a_longer_list_takes_no_more_queries(world: World) -> None:
    def cost() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            page(world, world.manager)
        return len(captured)

    world.proposed()
    one = cost()
    world.proposed()
    world.proposed()
    assert cost() == one


def test_the_slip_takes_the_same_few_queries_however_many_people_manage(world: World) -> None:
    proposal = world.proposed()
    with CaptureQueriesContext(connection) as few:
        slip(world, proposal, world.manager)
    for _ in range(3):
        make_person(world.tenant, Role.MANAGER)
    with CaptureQueriesContext(connection) as many:
        slip(world, proposal, world.manager)
    assert (len(few), len(many)) == (19, 19)


def test_the_slip_is_read_from_the_bytes_that_are_signed(world: World) -> None:
    proposal = world.proposed()
    seen = slip(world, proposal, world.manager)
    assert (seen.digest, seen.label) == (proposal.digest, f"{proposal.job_id:05d}-01")
    assert (seen.amount, seen.currency, seen.model_route) == (Decimal("4800.00"), "EUR", "large")
    (one,) = seen.operations
    assert (one.method, one.target, one.receiver) == ("POST", "http://erp.test/vendors/V-1", "erp")
    assert '"iban": "NO93"' in one.body
    assert [c["label"] for c in one.changes] == ["Limit"]
    assert (seen.open, seen.can_approve, seen.can_refuse, seen.why_not) == (True, True, True, "")
    assert [c.name for c in seen.checks if not c.ok] == ["Policy"]
    assert (seen.previous, seen.differences) == (None, [])


def test_the_slip_says_what_each_person_may_do(world: World) -> None:
    world.policy(limit_amount=Decimal("1"), limit_currency="EUR")
    proposal = world.proposed()
    manager, submitter = slip(world, proposal, world.manager), slip(world, proposal, world.submitter)
    assert (manager.can_approve, manager.can_refuse, manager.why_not) == (False, True, "Over your limit")
    assert (submitter.can_approve, submitter.can_refuse, submitter.can_withdraw_proposal) == (
        False,
        False,
        True,
    )


def test_the_slip_shows_decisions_with_their_void_marks(world: World) -> None:
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    assert slip(world, proposal, world.manager).can_withdraw_approval
    withdraw_approval(
        tenant_id=world.tenant.pk,
        proposal_id=proposal.pk,
        person_id=world.manager.pk,
        now=timezone.now(),
        reason="wrong one",
    )
    seen = slip(world, proposal, world.manager)
    (decision,) = seen.decisions
    assert (decision.person, decision.void, decision.void_why) == (world.manager.username, True, "wrong one")
    assert (seen.approvals, seen.can_approve, seen.can_withdraw_approval) == (0, True, False)


def test_a_new_proposal_of_the_same_draft_differs_in_nothing_that_matters(world: World) -> None:
    first = world.proposed()
    world.decide(first, world.manager, "request changes", reason="Look again")
    world.policy(quorum=2)
    result = repropose_job(
        tenant_id=world.tenant.pk, job_id=first.job_id, person_id=world.submitter.pk, now=timezone.now()
    )
    assert result.proposal_id is not None
    with reading(world.tenant.pk):
        second = Proposal.objects.get(pk=result.proposal_id)
        assert [p.number for p in queries.proposals_of(first.job_id)] == [2, 1]
    seen = slip(world, second, world.manager)
    assert seen.differences == [Difference("Policy", "test-policy revision 1", "test-policy revision 2")]
    assert seen.previous is not None
    old = slip(world, first, world.second)
    assert old.closed_sentence.endswith("Look again")
    assert not old.can_refuse


def test_differences_name_every_point_that_has_to_be_read_again(world: World) -> None:
    before = slip(world, world.proposed(), world.manager).document
    changed = draft(amount="9000", operations=[operation(record="V-2"), operation(record="V-3")])
    after = slip(world, world.proposed(changed), world.manager).document
    found = {d.what: (d.before, d.after) for d in slips.differences(before, after)}
    assert found["Amount"] == ("4800.00 EUR", "9000.00 EUR")
    assert found["Operation 1: target"] == (
        "POST http://erp.test/vendors/V-1",
        "POST http://erp.test/vendors/V-2",
    )
    assert found["Operation 2: Limit"] == (None, "4800.00")


def test_differences_find_what_is_nested_moved_taken_out_or_named_twice(world: World) -> None:
    limit = {"field": "limit", "label": "Limit", "current": "1", "proposed": "2"}
    body = {"items": [{"note": "a", "iban": "NO93"}], "n": 1}
    first, second = operation(record="V-9", body=body, changes=[limit, limit]), operation(record="V-2")
    before = slip(world, world.proposed(draft(operations=[first, second])), world.manager).document
    deeper = {"items": [{"note": "a", "iban": "NO94"}], "n": "1"}
    changed = operation(
        body=deeper, changes=[limit, {**limit, "proposed": "3", "by_model": True}], independent=True
    )
    after = slip(world, world.proposed(draft(operations=[changed])), world.manager).document
    found = {d.what: (d.before, d.after) for d in slips.differences(before, after)}
    assert found["Operation 1: body.items[0].iban"] == ("NO93", "NO94")
    assert found["Operation 1: body.n"] == ("1 (not text)", "1")
    assert found["Operation 1: Limit (2)"] == ("2", "3")
    assert found["Operation 1: Limit, source (2)"] == (", version , by no model", ", version , by the model")
    assert found["Operation 1: order"] == ("waits for those before it", "waits for none")
    assert found["Operation 2: record"] == ("V-2", None)
    assert "Operation 1: body.items[0].note" not in found
    moved = slip(world, world.proposed(draft(operations=[second, first])), world.manager).document
    turned = {d.what: (d.before, d.after) for d in slips.differences(before, moved)}
    assert turned["Operation 1: record"] == ("V-9", "V-2")
    assert turned["Operation 2: record"] == ("V-2", "V-9")
