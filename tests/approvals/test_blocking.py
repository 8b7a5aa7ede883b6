"""The block list: who may write it, what a name is taken for, and its page."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from access.models import Person, TenantEntry
from access.refusals import NotPermitted
from access.roles import Role
from access.tenancy import reading
from approvals.actions.block import BlockedAlready, NoRecipient, NotBlocked, block_recipient, lift_block
from approvals.blocking import block_of, key_of
from approvals.models import RecipientBlock
from approvals.objections import RecipientBlocked
from approvals.reasons import ReasonMissing
from tests.approvals.world import World
from tests.reconciliation.pages import as_person
from tests.support import at_once, make_person

pytestmark = pytest.mark.django_db(transaction=True)


def block(world: World, person: Person, recipient: str = "Fennmark Castings", reason: str = "fraud") -> int:
    return block_recipient(
        tenant_id=world.tenant.pk, recipient=recipient, reason=reason, person_id=person.pk, now=timezone.now()
    )


def lift(world: World, person: Person, block_id: int, reason: str = "cleared") -> None:
    lift_block(
        tenant_id=world.tenant.pk, block_id=block_id, reason=reason, person_id=person.pk, now=timezone.now()
    )


def events(world: World) -> list[str]:
    with reading(world.tenant.pk):
        told = TenantEntry.objects.order_by("sequence").values_list("event", flat=True)
        return [event for event in told if event.startswith("recipient.")]


@pytest.mark.parametrize(
    "name",
    ["FENNMARK castings", " Fennmark\u00a0 Castings ", "Fenn\u200bmark Castings", "\uff26ennmark Castings",
     "Fenn\ufe0fmark Castings", "Fennmark Ca\u034fstings", "Fennmark\u3164Castings", "Fennmark \u2800Castings",
     "Fennmark Castings\U000e0101", "Fennmark\u0001 Castings\ue000", "Fennmark\u2028Castings"],
)  # fmt: skip
def test_a_name_is_the_same_in_whatever_case_width_and_spacing(name: str) -> None:
    assert key_of(name) == key_of("Fennmark Castings")
    assert key_of("Fennmark Casting") != key_of("Fennmark Castings")


def test_a_block_is_written_once_and_lifted_once_with_reasons_in_the_journal(world: World) -> None:
    admin = make_person(world.tenant, Role.ADMIN)
    made = block(world, admin)
    with pytest.raises(BlockedAlready, match=f"is blocked already by {admin.username}: fraud"):
        block(world, admin, "fennmark castings")
    lift(world, admin, made)
    with pytest.raises(NotBlocked):
        lift(world, admin, made)
    assert events(world) == ["recipient.blocked", "recipient.unblocked"]
    assert block(world, admin) != made


@pytest.mark.parametrize(
    ("recipient", "reason", "refusal"),
    [("", "why", NoRecipient), ("\u200b", "why", NoRecipient), ("x" * 301, "why", NoRecipient),
     ("A", " ", ReasonMissing), ("A", "x" * 1001, ReasonMissing), ("A", "a\x00b", ReasonMissing)],
)  # fmt: skip
def test_a_block_without_a_name_or_a_reason_is_not_written(
    world: World, recipient: str, reason: str, refusal: type[Exception]
) -> None:
    admin = make_person(world.tenant, Role.ADMIN)
    with pytest.raises(refusal):
        block(world, admin, recipient, reason)
    with reading(world.tenant.pk):
        assert not RecipientBlock.objects.exists()


def test_only_an_admin_blocks_and_lifts(world: World) -> None:
    made = block(world, make_person(world.tenant, Role.ADMIN))
    for person in (world.manager, world.operator, world.submitter):
        with pytest.raises(NotPermitted):
            block(world, person, "Another")
        with pytest.raises(NotPermitted):
            lift(world, person, made)
    assert events(world) == ["recipient.blocked"]


def test_of_two_admins_who_block_the_same_at_once_one_is_told_so(world: World) -> None:
    first, second = make_person(world.tenant, Role.ADMIN), make_person(world.tenant, Role.ADMIN)
    results = at_once(lambda: block(world, first), lambda: block(world, second))
    assert sorted(type(r).__name__ for r in results) == ["BlockedAlready", "int"]
    with reading(world.tenant.pk):
        assert RecipientBlock.objects.count() == 1


def test_a_blocked_recipient_can_be_said_no_to_but_approved_by_nobody(world: World) -> None:
    proposal = world.proposed()
    block(world, make_person(world.tenant, Role.ADMIN))
    for manager in (world.manager, world.second):
        with pytest.raises(RecipientBlocked, match="Fennmark Castings is blocked by"):
            world.decide(proposal, manager)
    assert world.decide(proposal, world.manager, "reject").job_state == "CANCELLED"


def test_a_block_of_another_organisation_is_none_here(world: World) -> None:
    other = World.make()
    block(other, make_person(other.tenant, Role.ADMIN))
    with reading(world.tenant.pk):
        assert block_of("Fennmark Castings") is None
    assert world.decide(world.proposed(), world.manager).job_state == "READY_TO_COMMIT"


def test_an_admin_blocks_and_lifts_on_the_page_and_others_read_it(world: World) -> None:
    admin = as_person(make_person(world.tenant, Role.ADMIN))
    url = reverse("blocks", args=[world.tenant.slug])
    assert "Nobody is blocked" in admin.get(url).content.decode()
    assert admin.post(url, {"recipient": "", "reason": ""}).status_code == 422
    assert admin.post(url, {"recipient": "<b>Fennmark</b>", "reason": "fraud"}).status_code == 302
    again = admin.post(url, {"recipient": "<B>fennmark</B>", "reason": "fraud"})
    assert (again.status_code, "is blocked already by" in again.content.decode()) == (409, True)
    with reading(world.tenant.pk):
        made = RecipientBlock.objects.get()
    page = as_person(world.operator).get(url).content.decode()
    assert "&lt;b&gt;Fennmark&lt;/b&gt;" in page
    assert "Lift…" not in page
    lifting = reverse("block-lift", args=[world.tenant.slug, made.pk])
    assert as_person(world.operator).post(lifting, {"reason": "x"}).status_code == 403
    assert as_person(world.operator).post(url, {"recipient": "A", "reason": "x"}).status_code == 403
    assert admin.get(lifting).status_code == 200
    assert admin.post(lifting, {"reason": ""}).status_code == 422
    assert admin.post(lifting, {"reason": "cleared"}).status_code == 302
    assert admin.post(lifting, {"reason": "cleared"}).status_code == 409
    assert admin.get(reverse("block-lift", args=[world.tenant.slug, 0])).status_code == 404
    assert "Lifted lately" in admin.get(url).content.decode()
    assert events(world) == ["recipient.blocked", "recipient.unblocked"]
