"""What is frozen is all that is shown and sent, in bytes that read the same everywhere; or nothing is."""

import hashlib
import json
import re
from decimal import Decimal

import pytest
from pydantic import ValidationError

from access.roles import Role
from access.tenancy import reading
from approvals import canonical
from approvals.drafts import NotFrozen, read_draft
from approvals.models import ProposedOperation
from tests.approvals.world import World, draft, operation
from tests.support import make_person, make_tenant
from workflows.authoring import ProposalDraft
from workflows.models import WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_frozen_proposal_awaits_approval_with_the_digest_of_its_own_document(world: World) -> None:
    proposal = world.proposed()
    assert world.state(proposal) == "AWAITING_APPROVAL"
    assert world.events(proposal) == ["job.received", "job.validated", "proposal.frozen", "approval.asked"]
    assert hashlib.sha256(proposal.document.encode()).hexdigest() == proposal.digest
    frozen = world.evidence(proposal, "proposal.frozen")
    assert (frozen["proposal"], frozen["number"], frozen["digest"]) == (proposal.pk, 1, proposal.digest)
    assert frozen["checkpoints"]["draft"] == frozen["draft"]
    asked = world.evidence(proposal, "approval.asked")
    assert (asked["policy"], asked["policy_revision"], asked["quorum"]) == ("test-policy", 1, 1)


def test_the_document_holds_every_byte_that_will_be_sent(world: World) -> None:
    proposal = world.proposed()
    value = json.loads(proposal.document)
    with reading(world.tenant.pk):
        row = ProposedOperation.objects.get(proposal=proposal)
    signed = value["operations"][0]
    assert signed["body"].encode() == bytes(row.body)
    assert signed["body_digest"] == row.body_digest == hashlib.sha256(bytes(row.body)).hexdigest()
    assert signed["target"] == row.target == "http://erp.test/vendors/V-1"
    assert signed["headers"] == json.loads(row.headers)
    assert signed["operation_key"] == row.operation_key == signed["headers"]["idempotency-key"]
    assert (value["amount"], value["currency"], value["recipient"]) == ("4800.00", "EUR", "Fennmark Castings")
    assert "authorization" in value["headers_left_out"]


def test_equal_money_is_equal_text_and_the_same_draft_gets_another_key(world: World) -> None:
    first = json.loads(world.proposed(draft(amount="4800")).document)
    second = json.loads(world.proposed(draft(amount="4800.0")).document)
    assert first["amount"] == second["amount"] == "4800.00"
    assert first["operations"][0]["operation_key"] != second["operations"][0]["operation_key"]


def test_expiry_is_rung_for_the_moment_on_the_proposal(world: World) -> None:
    proposal = world.proposed()
    with reading(world.tenant.pk):
        item = WorkItem.objects.get(job_id=proposal.job_id, stage__name="approvals.expire")
    assert (item.key, item.next_attempt_at) == (str(proposal.pk), proposal.expires_at)
    assert item.state_name is ItemState.BACKING_OFF


def test_a_policy_that_waives_approval_leaves_the_job_ready_to_commit(world: World) -> None:
    world.policy(waives_approval=True)
    proposal = world.proposed()
    assert "approval.waived" in world.events(proposal)
    assert world.evidence(proposal, "approval.waived")["policy_revision"] == 2
    assert (proposal.quorum, proposal.approved_at is not None) == (0, True)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (draft(operations=[operation(receiver="nowhere")]), 'no receiver "nowhere"'),
        (draft(amount="1.001"), "more decimals than EUR"),
        (draft(currency=None), "amount and a currency together"),
        (draft(operations=[operation(body={"a": 1.5})]), "1.5 is a number with decimals"),
        (draft(operations=[operation(body={"a": 2**53})]), "too large for a JSON number"),
        (draft(operations=[operation(body={"a": {"b": "x\x00y"}})]), "operations[0].body.a.b contains a NUL"),
        (draft(summary="half \ud800"), "half a character"),
        (draft(operations=[]), "The draft is not a proposal: operations"),
        (draft(recipient="x" * 301), "longer than 300"),
        ('{"title": "a", "title": "b"}', "stands there twice"),
        ('{"title": NaN}', "NaN is a number with decimals or no number"),
        ('{"title": 1e400}', "1e400 is a number"),
        ("not json", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_draft_that_reads_two_ways_is_refused_and_the_job_stays_validated(
    world: World, value: object, says: str
) -> None:
    job = world.job()
    world.freeze(job, value)  # type: ignore[arg-type]
    assert world.state(job) == "VALIDATED"
    assert world.events(job) == ["job.received", "job.validated", "proposal.refused"]
    assert says in world.evidence(job, "proposal.refused")["why"]


def test_six_visible_characters_survive_where_a_nul_would_not(world: World) -> None:
    proposal = world.proposed(draft(summary=r"a\u0000b"))
    assert json.loads(proposal.document)["summary"] == r"a\u0000b"


def test_a_missing_policy_is_said_in_a_sentence(world: World) -> None:

    tenant = make_tenant()
    other = World(tenant, make_person(tenant, Role.SUBMITTER), world.manager, world.second, world.operator)
    job = other.job()
    other.freeze(job)
    assert other.state(job) == "VALIDATED"
    assert other.evidence(job, "proposal.refused")["why"].startswith(
        'There is no approval policy "test-policy"'
    )


def test_nobody_able_to_approve_is_journalled_and_blocks(world: World) -> None:
    world.policy(quorum=3)
    proposal = world.proposed()
    assert world.state(proposal) == "AWAITING_APPROVAL"
    assert world.evidence(proposal, "approver.missing") == {
        "proposal": proposal.pk,
        "quorum": 3,
        "missing": 3,
        "why": "It needs 3 more signatures, more than 2 managers can give.",
    }


def test_canonical_text_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical.write({"b": {"z": "1", "a": "2"}, "a": "1.10"}) == '{"a":"1.10","b":{"a":"2","z":"1"}}'
    for wrong in ({"n": -0.0}, {"n": 2**53}, {"n": "\x00"}, {1: "a"}, {"n": b"x"}):
        with pytest.raises(canonical.NotCanonical):
            canonical.write(wrong)


@pytest.mark.parametrize(
    ("amount", "says"),
    [
        ('"1E+5"', "write an amount as text with a point"),
        ('"-0.00"', "minus zero is not an amount"),
        ('"' + "9" * 30 + '"', "write an amount as text with a point"),
        ('"1250.005"', "1250.005 has more decimals than EUR has"),
        ('"NaN"', "write an amount as text with a point"),
        ('" 1"', "write an amount as text with a point"),
        ('"\uff11"', "write an amount as text with a point"),
        ("12", "write an amount as text with a point"),
        ("12.5", "12.5 is a number with decimals or no number; write it as text"),
        ("-0.0", "-0.0 is a number with decimals"),
        ("1e400", "1e400 is a number with decimals"),
        ("9007199254740993", "amount is too large for a JSON number; write it as text"),
    ],
)
def test_an_amount_that_two_readers_could_take_differently_is_refused_with_what_to_do(
    amount: str, says: str
) -> None:
    text = json.dumps(draft()).replace('"amount": "4800.0"', f'"amount": {amount}')
    with pytest.raises((NotFrozen, canonical.NotCanonical), match=re.escape(says)):
        read_draft(text)


@pytest.mark.parametrize("amount", ["-0", "1" * 16, "0.12345", "NaN", "Infinity", "1E+400"])
def test_an_authors_decimal_is_held_to_what_its_text_can_be(amount: str) -> None:
    with pytest.raises(ValidationError):
        ProposalDraft.model_validate({**draft(), "amount": Decimal(amount)})
    assert ProposalDraft.model_validate({**draft(), "amount": Decimal("1E+3")}).amount == Decimal(1000)


def test_an_id_beyond_what_other_readers_keep_is_refused_as_a_number_and_kept_as_text(world: World) -> None:
    number = draft(operations=[operation(body={"id": 9007199254740993})])
    with pytest.raises(canonical.NotCanonical, match=r"operations\[0\].body.id is too large"):
        read_draft(json.dumps(number))
    kept = world.proposed(draft(operations=[operation(body={"id": "9007199254740993", "nul": "\\u0000"})]))
    body = json.loads(json.loads(kept.document)["operations"][0]["body"])
    assert body == {"id": "9007199254740993", "nul": "\\u0000"}
