"""Groups, lent authority and absences: who may write them, what is refused with which sentence, and two at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from access.actions.absences import AwayAlready, end_absence, note_absence
from access.actions.delegations import (
    CannotLend,
    Lending,
    LentAlready,
    OverAlready,
    lend_authority,
    revoke_delegation,
)
from access.actions.groups import (
    BadGroupName,
    GroupExists,
    NoSuchGroup,
    NoSuchMember,
    add_to_group,
    make_group,
    remove_from_group,
)
from access.directory import directory
from access.models import Absence, Delegation, GroupMember, Person, Tenant, TenantEntry
from access.refusals import NotFound, NotPermitted
from access.roles import Role
from access.spans import BadSpan, Span, local
from access.tenancy import reading
from tests.support import at_once, make_person, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)


@dataclass
class Office:
    """An organisation with two managers, an admin and an operator."""

    tenant: Tenant
    mia: Person
    max: Person
    admin: Person
    operator: Person
    now: datetime

    def lending(self, **changes: Any) -> Lending:
        span = Span(self.now, self.now + 7 * DAY)
        return replace(Lending(taker_id=self.max.pk, span=span, reason="holiday"), **changes)

    def lend(self, by: Person | None = None, giver: Person | None = None, **changes: Any) -> int:
        return lend_authority(
            tenant_id=self.tenant.pk,
            giver_id=(giver or self.mia).pk,
            lending=self.lending(**changes),
            person_id=(by or self.mia).pk,
            now=self.now,
        )

    def away(self, by: Person | None = None, **changes: Any) -> int:
        asked: dict[str, Any] = {"absent_id": self.mia.pk, "span": Span(self.now, self.now + DAY), **changes}
        return note_absence(tenant_id=self.tenant.pk, person_id=(by or self.mia).pk, now=self.now, **asked)

    def counts(self) -> tuple[int, int, int, int]:
        with reading(self.tenant.pk):
            rows = (Delegation, Absence, GroupMember)
            return (*(r.objects.count() for r in rows), TenantEntry.objects.count())  # type: ignore[attr-defined]

    def journal(self) -> list[tuple[str, str]]:
        with reading(self.tenant.pk):
            return list(TenantEntry.objects.order_by("sequence").values_list("event", "actor_name"))


@pytest.fixture
def office() -> Office:
    tenant = make_tenant()
    mia, max_, admin, operator = (
        make_person(tenant, role) for role in (Role.MANAGER, Role.MANAGER, Role.ADMIN, Role.OPERATOR)
    )
    return Office(tenant, mia, max_, admin, operator, timezone.now())


def test_an_admin_makes_a_group_and_moves_people_in_and_out(office: Office) -> None:
    who = {"tenant_id": office.tenant.pk, "person_id": office.admin.pk}
    group = make_group(name="  controllers ", **who)
    move = {"group_id": group, "member_id": office.mia.pk, **who}
    assert (add_to_group(**move), add_to_group(**move)) == (True, False)
    with reading(office.tenant.pk):
        assert directory().members[office.mia.pk].groups == {"controllers"}
    assert remove_from_group(now=office.now, **move) is True
    assert remove_from_group(now=office.now, **move) is False
    assert add_to_group(**move) is True
    assert office.journal() == [
        (event, office.admin.username)
        for event in ("group.made", "group.member_added", "group.member_removed", "group.member_added")
    ]


def test_what_groups_refuse_changes_nothing(office: Office) -> None:
    admin = {"tenant_id": office.tenant.pk, "person_id": office.admin.pk}
    group = make_group(name="controllers", **admin)
    stranger = make_person(make_tenant(), Role.MANAGER)
    before = office.counts()
    for person in (office.mia, office.operator, stranger):
        with pytest.raises(NotPermitted, match="Only an admin"):
            make_group(tenant_id=office.tenant.pk, name="others", person_id=person.pk)
    with pytest.raises(GroupExists, match='"controllers" already'):
        make_group(name="controllers", **admin)
    for name in ("", "  ", "x" * 81, "two\nlines", "nul\0"):
        with pytest.raises(BadGroupName):
            make_group(name=name, **admin)
    with pytest.raises(NoSuchMember):
        add_to_group(group_id=group, member_id=stranger.pk, **admin)
    with pytest.raises(NoSuchGroup):
        add_to_group(group_id=group + 1000, member_id=office.mia.pk, **admin)
    assert office.counts() == before


def test_another_tenants_group_is_not_there(office: Office) -> None:
    other = make_tenant()
    boss = make_person(other, Role.ADMIN)
    theirs = make_group(tenant_id=other.pk, name="theirs", person_id=boss.pk)
    with pytest.raises(NoSuchGroup):
        add_to_group(
            tenant_id=office.tenant.pk,
            group_id=theirs,
            member_id=office.mia.pk,
            person_id=office.admin.pk,
        )


def test_two_admins_add_the_same_person_once(office: Office) -> None:
    who = {"tenant_id": office.tenant.pk, "person_id": office.admin.pk}
    group = make_group(name="controllers", **who)
    call = lambda: add_to_group(group_id=group, member_id=office.mia.pk, **who)  # noqa: E731
    assert sorted(at_once(call, call)) == [False, True]
    assert [event for event, _ in office.journal()] == ["group.made", "group.member_added"]


def test_a_manager_lends_and_takes_back(office: Office) -> None:
    made = office.lend(policies=("b", "a", "a"), most_amount=Decimal("500.00"), most_currency="EUR")
    with reading(office.tenant.pk):
        (lent,) = directory().taken_by(office.max.pk)
        assert (lent.giver_id, lent.policies, lent.most) == (office.mia.pk, {"a", "b"}, Decimal("500.0000"))
    who = {"tenant_id": office.tenant.pk, "delegation_id": made, "now": office.now}
    for person in (office.max, office.operator):
        with pytest.raises(NotPermitted):
            revoke_delegation(person_id=person.pk, **who)
    revoke_delegation(person_id=office.mia.pk, **who)
    with pytest.raises(OverAlready):
        revoke_delegation(person_id=office.mia.pk, **who)
    with pytest.raises(NotFound):
        revoke_delegation(person_id=office.mia.pk, **{**who, "delegation_id": made + 1000})
    with reading(office.tenant.pk):
        assert directory().lent == ()
    assert office.journal() == [
        ("delegation.given", office.mia.username),
        ("delegation.revoked", office.mia.username),
    ]


def test_an_admin_lends_and_notes_for_others_and_nobody_else_does(office: Office) -> None:
    office.lend(by=office.admin)
    office.away(by=office.admin)
    assert [who for _, who in office.journal()] == [office.admin.username] * 2
    with pytest.raises(NotPermitted, match="Only an admin"):
        office.lend(by=office.max)
    with pytest.raises(NotPermitted, match="Only an admin"):
        office.away(by=office.operator)


CANNOT_BE_LENT: list[tuple[dict[str, Any], str]] = [
    ({"taker_id": "mia"}, "Nobody lends authority to themselves"),
    ({"taker_id": "operator"}, "is no manager here, and only a manager can use what is lent"),
    ({"taker_id": 10**9}, "is no manager here"),
    ({"reason": " "}, "Say why"),
    ({"reason": "x" * 1001}, "under 1,000 characters"),
    ({"reason": "nul\0"}, "characters of text"),
    ({"reason": "half \ud800"}, "characters of text"),
    ({"policies": ("a\nb",)}, "A policy is named"),
    ({"most_amount": Decimal("5")}, "needs its currency"),
    ({"most_currency": "EUR"}, "needs its currency"),
    ({"most_amount": Decimal("-1"), "most_currency": "EUR"}, "not below zero"),
    ({"most_amount": Decimal("NaN"), "most_currency": "EUR"}, "a number like"),
    ({"most_amount": Decimal("1e30"), "most_currency": "EUR"}, "a number like"),
    ({"most_amount": Decimal("1"), "most_currency": "eur"}, "needs its currency"),
]
NO_TIME = [
    (timedelta(0), timedelta(0), "after the beginning"),
    (-3 * DAY, -2 * DAY, "That time is over"),
    (-2 * DAY, DAY, "in the past"),
    (timedelta(0), 367 * DAY, "longer than a year"),
]


def test_what_cannot_be_lent_is_refused_with_a_sentence(office: Office) -> None:
    for changes, why in CANNOT_BE_LENT:
        if isinstance(named := changes.get("taker_id"), str):
            changes = {"taker_id": getattr(office, named).pk}
        with pytest.raises(CannotLend, match=why):
            office.lend(**changes)
    assert office.counts() == (0, 0, 0, 0)


def test_times_that_make_no_sense_are_refused(office: Office) -> None:
    for begins, ends, why in NO_TIME:
        span = Span(office.now + begins, office.now + ends)
        for write in (office.lend, office.away):
            with pytest.raises(BadSpan, match=why):
                write(span=span)
    assert office.counts() == (0, 0, 0, 0)


def test_who_is_no_manager_has_nothing_to_lend_and_can_be_away(office: Office) -> None:
    with pytest.raises(CannotLend, match="no authority to lend"):
        office.lend(by=office.operator, giver=office.operator)
    office.away(by=office.operator, absent_id=office.operator.pk)
    with reading(office.tenant.pk):
        assert directory().members[office.operator.pk].away


def test_the_same_is_not_lent_twice_for_the_same_time(office: Office) -> None:
    office.lend(policies=("a", "b"))
    for policies in ((), ("b", "c")):
        with pytest.raises(LentAlready, match="Revoke that first"):
            office.lend(policies=policies)
    office.lend(policies=("c",))
    later = Span(office.now + 7 * DAY, office.now + 8 * DAY)
    office.lend(policies=("a",), span=later)
    assert office.counts()[0] == 3


def test_of_two_that_lend_the_same_at_once_one_is_written(office: Office) -> None:
    """Without the giver's lock both would look before either has written."""
    found = at_once(office.lend, lambda: office.lend(by=office.admin))
    assert sum(isinstance(one, int) for one in found) == 1
    assert LentAlready in map(type, found)
    assert office.counts() == (1, 0, 0, 1)


def test_an_absence_and_what_is_lent_in_it_are_written_together_or_not_at_all(office: Office) -> None:
    with pytest.raises(CannotLend):
        office.away(lending=office.lending(taker_id=office.operator.pk))
    assert office.counts() == (0, 0, 0, 0)
    span = Span(office.now + DAY, office.now + 3 * DAY)
    made = office.away(span=span, lending=office.lending())
    with reading(office.tenant.pk):
        lent = Delegation.objects.get()
        assert (lent.starts_at, lent.ends_at) == (span.starts_at, span.ends_at)
        assert not directory().members[office.mia.pk].away
        assert directory(span.starts_at).members[office.mia.pk].away
    with pytest.raises(AwayAlready, match="End it first"):
        office.away(span=Span(office.now + 2 * DAY, office.now + 4 * DAY))
    end_absence(tenant_id=office.tenant.pk, absence_id=made, person_id=office.mia.pk, now=office.now)
    with pytest.raises(OverAlready):
        end_absence(tenant_id=office.tenant.pk, absence_id=made, person_id=office.mia.pk, now=office.now)
    with reading(office.tenant.pk):
        assert not directory(span.starts_at).members[office.mia.pk].away
    assert [event for event, _ in office.journal()] == ["absence.noted", "delegation.given", "absence.ended"]


def test_what_began_earlier_today_begins_now(office: Office) -> None:
    zone = ZoneInfo("UTC")
    midnight = office.now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    office.lend(span=Span(midnight, office.now + DAY))
    with reading(office.tenant.pk):
        assert Delegation.objects.get().starts_at == max(midnight, office.now)


def test_a_time_of_a_zone_survives_clock_changes() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    for wall, moment in (
        ("2026-03-29T02:30:00", "2026-03-29T01:30:00+00:00"),
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00+00:00"),
        ("2026-07-01T00:00:00", "2026-06-30T22:00:00+00:00"),
    ):
        assert local(datetime.fromisoformat(wall), berlin) == datetime.fromisoformat(moment)
