"""Reminders and escalation happen at their moments, once, to whom they concern, and decide nothing."""

from __future__ import annotations

import dataclasses
import json
import os
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.refusals import NotPermitted
from access.roles import Role
from access.tenancy import reading
from approvals import notifying, schedule
from approvals.actions.notify import notify
from approvals.actions.remind import NothingToRemindOf, NotYourJob, RemindedLately, RemindedNow, remind
from approvals.actions.withdraw import withdraw_approval
from approvals.models import Decision, Escalated, Moment, Proposal, Reminded
from approvals.objections import NotYourLevel
from approvals.slips import slip
from outbox.models import Message
from tests.approvals.test_authority import group, lend
from tests.approvals.test_looking import away
from tests.approvals.world import World, make_person
from tests.support import at_once
from workflows import machines
from workflows.actions.hold import hold_job
from workflows.machines import Claim, Done, Wait
from workflows.models import WorkItem
from workflows.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)
BERLIN = ZoneInfo("Europe/Berlin")
TWICE = {"reminders": [{"after_minutes": 30}, {"after_minutes": 60}], "expires_after_minutes": 120}


@pytest.fixture(autouse=True)
def _with_mail(settings: Any) -> None:
    settings.EMAIL_HOST = "127.0.0.1"


def run(world: World, proposal: Proposal) -> Done | Wait:
    """What the engine calls at a moment, or at any other time."""
    assert machines.handler(schedule.MACHINE) is notify
    blank = {f.name: "" if f.type == "str" else 1 for f in dataclasses.fields(Claim)}
    mine = {
        "tenant_id": world.tenant.pk, "job_id": proposal.job_id, "key": str(proposal.pk), "worker_name": "w1",
    }  # fmt: skip
    return notify(Claim(**{**blank, **mine}))  # type: ignore[arg-type]


def ago(minutes: int) -> datetime:
    return timezone.now() - minutes * MINUTE


def mails(world: World, event: str = "approval.reminded") -> list[str]:
    """Who is told by e-mail, in order."""
    with reading(world.tenant.pk):
        rows = Message.objects.filter(event=event, person__isnull=False).order_by("person__username")
        return list(rows.values_list("person__username", flat=True))


def titles(world: World, event: str) -> set[str]:
    with reading(world.tenant.pk):
        return {json.loads(p)["data"]["title"] for p in Message.objects.filter(event=event).values_list("payload", flat=True)}  # fmt: skip


def times(world: World, proposal: Proposal, person: Person) -> list[str]:
    with reading(world.tenant.pk):
        return [line.words for line in slip(proposal.pk, person_id=person.pk, now=timezone.now()).times.lines]


def told(world: World, proposal: Proposal) -> list[str]:
    return [e for e in world.events(proposal) if e in ("approval.reminded", "approval.escalated")]


def names(*people: Person) -> list[str]:
    return sorted(p.username for p in people)


def test_a_reminder_goes_to_whoever_could_sign_now_and_is_at_work(world: World) -> None:
    signed, absent, deputy, other = (make_person(world.tenant, Role.MANAGER) for _ in range(4))
    group(world, "controllers", signed, absent, world.manager)
    world.policy(levels=[{"group": "controllers", "quorum": 2}], **TWICE)
    lend(world, absent, deputy)
    proposal = world.proposed(now=ago(30))
    world.decide(proposal, signed)
    away(world, absent)
    assert run(world, proposal) == Wait(at=proposal.frozen_at + 60 * MINUTE)
    assert mails(world) == names(world.manager, deputy)
    assert world.evidence(proposal, "approval.reminded") == {"proposal": proposal.pk, "step": 1, "told": 2}
    (title,) = titles(world, "approval.reminded")
    assert f"№ {proposal.label} of JOB-" in title
    assert "4,800" not in title
    assert "Fennmark" not in title
    assert run(world, proposal) == Wait(at=proposal.frozen_at + 60 * MINUTE)
    assert told(world, proposal) == ["approval.reminded"]
    assert times(world, proposal, other) == ["Reminded, 2 people told", "Next: reminder"]


def test_nothing_is_told_before_its_minute_nor_at_the_expiry_nor_after_a_decision(world: World) -> None:
    world.policy(**TWICE)
    early, late, decided, closed = (world.proposed(now=ago(n)) for n in (29, 120, 31, 31))
    world.decide(decided, world.manager)
    world.decide(closed, world.manager, "reject")
    assert run(world, early) == Wait(at=early.frozen_at + 30 * MINUTE)
    assert (run(world, late), run(world, closed)) == (Done(), Done())
    assert run(world, decided) == Wait(at=decided.frozen_at + 60 * MINUTE)
    assert mails(world) == []
    assert [told(world, p) for p in (early, late, decided, closed)] == [[]] * 4


def test_what_goes_back_to_its_approvers_is_reminded_of_what_passed_meanwhile_once(world: World) -> None:
    world.policy(**TWICE)
    proposal = world.proposed(now=ago(70))
    world.decide(proposal, world.manager)
    assert run(world, proposal) == Done()
    withdraw_approval(
        tenant_id=world.tenant.pk, proposal_id=proposal.pk, person_id=world.manager.pk, now=timezone.now()
    )
    with reading(world.tenant.pk):
        item = WorkItem.objects.get(stage__name=schedule.MACHINE, key=str(proposal.pk))
        assert item.state_name == "READY"
    assert run(world, proposal) == Done()
    assert mails(world) == names(world.manager, world.second)
    assert world.evidence(proposal, "approval.reminded")["passed"] == [1]
    assert times(world, proposal, world.manager)[0].endswith("a later one was due")


def test_an_escalation_is_recorded_as_what_it_is_and_lets_its_people_sign(world: World) -> None:
    chief = make_person(world.tenant, Role.MANAGER, handle=f"chief.{world.tenant.slug}")
    group(world, "controllers", world.manager)
    steps = [
        {"after_minutes": 10, "role": "operator"},
        {"after_minutes": 20, "person": chief.username, "may_decide": True},
    ]
    world.policy(levels=[{"group": "controllers"}], escalation=steps)
    away(world, world.manager)
    proposal = world.proposed(now=ago(21))
    assert told(world, proposal) == []
    assert "approver.missing" in world.events(proposal)
    assert run(world, proposal) == Done()
    assert told(world, proposal) == ["approval.escalated"] * 2
    assert mails(world, "approval.escalated") == names(world.operator, chief)
    assert any(t.endswith("you may sign it now") for t in titles(world, "approval.escalated"))
    assert world.evidence(proposal, "approval.escalated")["to"] == chief.username
    assert world.events(proposal)[-1] == "approver.found", "whoever it went to can complete it"
    with reading(world.tenant.pk):
        assert not Decision.objects.exists()
        assert list(Escalated.objects.order_by("step").values_list("step", "may_decide")) == [(1, False), (2, True)]  # fmt: skip
    assert run(world, proposal) == Done()
    assert len(told(world, proposal)) == 2
    assert times(world, proposal, chief)[1] == f"Escalated to {chief.username}, who may sign since"
    assert world.decide(proposal, chief).job_state == JobState.READY_TO_COMMIT


def test_whoever_is_only_told_of_it_may_sign_no_more_than_before(world: World) -> None:
    group(world, "controllers", world.manager)
    steps = [{"after_minutes": 10, "person": world.second.username}]
    world.policy(levels=[{"group": "controllers"}], escalation=steps)
    proposal = world.proposed(now=ago(11))
    assert run(world, proposal) == Done()
    assert told(world, proposal) == ["approval.escalated"]
    with pytest.raises(NotYourLevel):
        world.decide(proposal, world.second)


def test_the_frozen_schedule_holds_whatever_is_written_later(world: World) -> None:
    world.policy(**TWICE)
    proposal = world.proposed(now=ago(30))
    world.policy(reminders=[{"after_minutes": 5}], expires_after_minutes=120)
    Tenant.objects.filter(pk=world.tenant.pk).update(time_zone="Pacific/Auckland")
    assert run(world, proposal) == Wait(at=proposal.frozen_at + 60 * MINUTE)
    assert told(world, proposal) == ["approval.reminded"]


@pytest.mark.parametrize(
    ("asked", "reminded"),
    [
        # Spring: 02:30 on the 29th does not exist, so it is 03:30; 09:00 is an hour earlier in UTC than the day before.
        (
            datetime(2026, 3, 28, 12, tzinfo=BERLIN),
            ["2026-03-29T01:30", "2026-03-29T07:00", "2026-03-29T11:00"],
        ),
        # Autumn: 02:30 comes twice and the first counts; a day's minutes are elapsed time, not the clock's.
        (
            datetime(2026, 10, 24, 12, tzinfo=BERLIN),
            ["2026-10-25T00:30", "2026-10-25T08:00", "2026-10-25T10:00"],
        ),
    ],
)
def test_moments_are_the_tenants_own_clock_on_nights_that_it_changes(
    world: World, asked: datetime, reminded: list[str]
) -> None:
    Tenant.objects.filter(pk=world.tenant.pk).update(time_zone=BERLIN.key)
    world.policy(
        reminders=[{"days": 1, "at": time(2, 30)}, {"days": 1, "at": time(9)}, {"after_minutes": 24 * 60}],
        expires_days=2,
        expires_at=time(9),
    )
    proposal = world.proposed(now=asked)
    with reading(world.tenant.pk):
        found = list(Moment.objects.filter(proposal=proposal).order_by("step").values_list("at", flat=True))
        item = WorkItem.objects.get(stage__name=schedule.MACHINE, key=str(proposal.pk))
    assert [f"{at.astimezone(UTC):%Y-%m-%dT%H:%M}" for at in found] == reminded
    assert item.next_attempt_at == min(found)


def test_a_moment_that_is_past_or_not_before_the_expiry_is_left_out_and_noted(world: World) -> None:
    world.policy(
        expires_after_minutes=60,
        reminders=[{"before_expiry_minutes": 60}, {"after_minutes": 60}, {"after_minutes": 59}],
        escalation=[{"before_expiry_minutes": 90, "role": "admin"}],
    )
    proposal = world.proposed(now=ago(10))
    noted = world.evidence(proposal, "approval.asked")["schedule"]
    assert [(n["kind"], n["step"], n.get("left_out")) for n in noted] == [
        ("escalation", 1, schedule.PAST),
        ("reminder", 1, schedule.PAST),
        ("reminder", 3, None),
        ("reminder", 2, schedule.TOO_LATE),
    ]
    assert run(world, proposal) == Wait(at=proposal.frozen_at + 59 * MINUTE)
    assert told(world, proposal) == []
    assert times(world, proposal, world.manager) == [
        f"Escalation to every admin left out: {schedule.PAST}",
        f"Reminder left out: {schedule.PAST}",
        "Next: reminder",
        f"Reminder left out: {schedule.TOO_LATE}",
    ]


def test_a_worker_killed_between_the_journal_and_the_outbox_has_done_nothing(
    world: World, monkeypatch: Any
) -> None:
    """The row, the journal's line and the messages are one transaction; after it another call finds it done."""
    world.policy(**TWICE, escalation=[{"after_minutes": 20, "role": "manager"}])
    proposal = world.proposed(now=ago(31))
    for told_by in ("reminded", "escalated"):
        with monkeypatch.context() as patch:

            def die(*_: Any, **__: Any) -> None:
                raise KeyboardInterrupt

            patch.setattr(notifying, told_by, die)
            with pytest.raises(KeyboardInterrupt):
                run(world, proposal)
        assert told(world, proposal) == []
        with reading(world.tenant.pk):
            assert not Reminded.objects.exists()
            assert not Escalated.objects.exists()
            assert not Message.objects.filter(event__startswith="approval.r").exists()
    results = at_once(lambda: run(world, proposal), lambda: run(world, proposal))
    assert results == [Wait(at=proposal.frozen_at + 60 * MINUTE)] * 2
    assert told(world, proposal) == ["approval.escalated", "approval.reminded"]
    assert mails(world) == names(world.manager, world.second)


def test_a_hold_stops_neither(world: World) -> None:
    world.policy(**TWICE)
    proposal = world.proposed(now=ago(31))
    hold_job(
        tenant_id=world.tenant.pk, job_id=proposal.job_id, person_id=world.operator.pk, reason="x", now=timezone.now()
    )  # fmt: skip
    with reading(world.tenant.pk):
        assert WorkItem.objects.get(stage__name=schedule.MACHINE).lane_id > 0
    run(world, proposal)
    assert told(world, proposal) == ["approval.reminded"]


def test_the_database_takes_a_step_once_whoever_writes_it(world: World) -> None:
    world.policy(**TWICE)
    proposal = world.proposed(now=ago(31))
    run(world, proposal)
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner, pytest.raises(psycopg.errors.UniqueViolation):
        owner.execute(
            "INSERT INTO approvals_reminded (tenant_id, proposal_id, step, told, passed, at)"
            " VALUES (%s, %s, 1, 1, false, now())",
            [world.tenant.pk, proposal.pk],
        )


def by_hand(world: World, proposal: Proposal, person: Person) -> RemindedNow:
    return remind(tenant_id=world.tenant.pk, proposal_id=proposal.pk, person_id=person.pk, now=timezone.now())


def test_whoever_started_the_job_reminds_once_an_hour_and_nobody_else_does(world: World) -> None:
    proposal = world.proposed()
    for person in (world.manager, world.operator):
        with pytest.raises(NotYourJob):
            by_hand(world, proposal, person)
    assert world.events(proposal)[-1] == "reminder.refused"
    assert by_hand(world, proposal, world.submitter).sentence == "Reminded 2 people."
    assert world.evidence(proposal, "approval.reminded") == {"proposal": proposal.pk, "told": 2}
    with pytest.raises(RemindedLately, match="again from"):
        by_hand(world, proposal, world.submitter)
    assert mails(world) == names(world.manager, world.second)
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        owner.execute("ALTER TABLE approvals_reminded DISABLE TRIGGER append_only")
        owner.execute("UPDATE approvals_reminded SET at = at - interval '1 hour'")
        owner.execute("ALTER TABLE approvals_reminded ENABLE TRIGGER append_only")
    results = at_once(*[lambda: by_hand(world, proposal, world.submitter)] * 2)
    assert sorted(type(r).__name__ for r in results) == ["RemindedLately", "RemindedNow"]
    assert told(world, proposal) == ["approval.reminded"] * 2


def test_there_is_nothing_to_remind_of_where_nobody_can_decide(world: World) -> None:
    decided, alone, held = world.proposed(), world.proposed(), world.proposed()
    world.decide(decided, world.manager)
    hold_job(
        tenant_id=world.tenant.pk, job_id=held.job_id, person_id=world.operator.pk, reason="x", now=timezone.now()
    )  # fmt: skip
    for proposal in (decided, held):
        with pytest.raises(NothingToRemindOf):
            by_hand(world, proposal, world.submitter)
    away(world, world.manager, world.second)
    with pytest.raises(NothingToRemindOf, match="case"):
        by_hand(world, alone, world.submitter)
    world.end_role(world.submitter)
    with pytest.raises(NotPermitted):
        by_hand(world, alone, world.submitter)
    assert mails(world) == []
    with reading(world.tenant.pk):
        assert not Reminded.objects.exists()
