"""What the rooms tell, to whom, and what becomes of what cannot be delivered: with real proposals and cases."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from access.models import Person
from access.roles import WORKER, Actor, ActorKind, Role
from access.tenancy import acting, reading
from approvals.actions.expire import expire_proposal
from approvals.locks import lock_proposal
from approvals.models import Decision, Proposal
from outbox.actions.endpoints import add_endpoint
from outbox.actions.messages import GIVEN_UP
from outbox.events import declared
from outbox.models import Endpoint, Message
from reconciliation import undelivered
from reconciliation.actions.steps import record_outcome
from reconciliation.models import Case, CaseKind
from tests.approvals.world import World
from tests.outbox.telling import messages
from tests.support import make_person
from workflows import journal
from workflows.actions.cancel import cancel_job
from workflows.engine.connections import connect
from workflows.locks import lock_job
from workflows.models import Job, JournalEntry
from workflows.states import JobState


@pytest.fixture(autouse=True)
def a_mail_server_is_set(settings: Any) -> None:
    """None is spoken to: no dispatcher runs in these tests."""
    settings.EMAIL_HOST = "mail.example.test"


@pytest.fixture
def admin(world: World) -> Person:
    return make_person(world.tenant, Role.ADMIN)


@pytest.fixture
def books(world: World, admin: Person) -> Endpoint:
    made = add_endpoint(
        tenant_id=world.tenant.pk, name="books", url="http://127.0.0.1:9/",
        secret_reference="env:COUNTERFOIL_WEBHOOK_SAMPLE", chosen=list(declared()), person_id=admin.pk,
        now=timezone.now(),
    )  # fmt: skip
    with reading(world.tenant.pk):
        return Endpoint.objects.get(pk=made.endpoint_id)


def told(world: World) -> list[tuple[str, int | None, str]]:
    """Event, person and title of every message."""
    return [(m.event, m.person_id, json.loads(m.payload)["data"]["title"]) for m in messages(world.tenant)]


def happens(world: World, proposal: Proposal, event: str, **evidence: Any) -> None:
    with acting(world.tenant.pk):
        journal.record(job=lock_job(proposal.job_id), event=event, actor=WORKER, evidence=evidence)


def test_managers_are_asked_and_who_started_it_is_told_what_came_of_it(
    world: World,
    books: Endpoint,
) -> None:
    proposal = world.proposed()
    asked = f"Proposal {proposal.label} of JOB-{proposal.job_id} waits for a decision"
    expected = [
        ("approval.asked", world.manager.pk, asked),
        ("approval.asked", world.second.pk, asked),
        ("approval.asked", None, asked),
    ]
    assert told(world) == expected
    world.decide(proposal, world.manager)
    approved = f"Proposal {proposal.label} of JOB-{proposal.job_id} was approved"
    expected += [("proposal.approved", world.submitter.pk, approved), ("proposal.approved", None, approved)]
    assert told(world) == expected


def test_a_message_holds_ids_a_label_and_a_link_and_nothing_of_the_proposal(
    world: World,
    books: Endpoint,
) -> None:
    proposal = world.proposed()
    payload = json.loads(messages(world.tenant)[-1].payload)
    assert payload["data"] == {
        "job": proposal.job_id, "proposal": proposal.pk, "organisation": world.tenant.slug,
        "title": f"Proposal {proposal.label} of JOB-{proposal.job_id} waits for a decision",
        "link": f"http://127.0.0.1:8000/t/{world.tenant.slug}/approvals/{proposal.pk}/",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "event", "word"),
    [
        ("reject", "proposal.rejected", "was rejected"),
        ("request changes", "changes.requested", "was sent back with changes to make"),
    ],
)
def test_whoever_started_it_is_told_of_a_no(world: World, verdict: str, event: str, word: str) -> None:
    proposal = world.proposed()
    world.decide(proposal, world.manager, verdict)
    title = f"Proposal {proposal.label} of JOB-{proposal.job_id} {word}"
    assert (event, world.submitter.pk, title) in told(world)


def test_whoever_started_a_job_is_told_of_its_end_unless_it_was_their_own_hand(
    world: World, admin: Person, books: Endpoint
) -> None:
    reject, own, others, failed = (world.proposed() for _ in range(4))
    world.decide(reject, world.manager, "reject")
    for proposal, person in ((own, world.submitter), (others, admin)):
        cancel_job(
            tenant_id=world.tenant.pk, job_id=proposal.job_id, person_id=person.pk, reason="no longer",
            now=timezone.now(),
        )  # fmt: skip
    with acting(world.tenant.pk):
        journal.transition(
            job=lock_job(failed.job_id),
            to=JobState.VALIDATED,
            event="proposal.voided",
            actor=WORKER,
            evidence={},
        )
        journal.transition(
            job=lock_job(failed.job_id), to=JobState.FAILED, event="job.given_up", evidence={"reason": "test"},
            actor=Actor(ActorKind.OPERATOR, world.operator.username, world.operator.pk),
        )  # fmt: skip
    ends = [(e, who, title) for e, who, title in told(world) if e.startswith("job.")]
    assert ends == [
        ("job.cancelled", None, f"JOB-{reject.job_id} is cancelled"),
        ("job.cancelled", None, f"JOB-{own.job_id} is cancelled"),
        ("job.cancelled", world.submitter.pk, f"JOB-{others.job_id} is cancelled"),
        ("job.cancelled", None, f"JOB-{others.job_id} is cancelled"),
        ("job.failed", world.submitter.pk, f"JOB-{failed.job_id} failed"),
        ("job.failed", None, f"JOB-{failed.job_id} failed"),
    ]
    assert {m.job_id for m in messages(world.tenant) if m.event.startswith("job.")} == {
        p.job_id for p in (reject, own, others, failed)
    }


def test_whoever_started_it_is_told_of_an_expiry_and_operators_of_its_case(world: World) -> None:
    proposal = world.proposed()
    with acting(world.tenant.pk):
        expire_proposal(lock_job(proposal.job_id), lock_proposal(proposal.pk), WORKER, timezone.now())
    with reading(world.tenant.pk):
        case = Case.objects.get()
    assert sorted(told(world)[2:]) == [
        (
            "case.opened",
            world.operator.pk,
            f"{case.label}, proposal expired, was opened for JOB-{proposal.job_id}",
        ),
        (
            "proposal.expired",
            world.submitter.pk,
            f"Proposal {proposal.label} of JOB-{proposal.job_id} expired",
        ),
    ]


def give_up(world: World) -> None:
    """What a dispatcher does with everything that is due, when its time is over."""
    with acting(world.tenant.pk):
        due = Message.objects.filter(next_attempt_at__isnull=False)
        due.update(next_attempt_at=None, given_up_at=timezone.now(), last_error="It answered 500.")


def report(world: World) -> int:
    """What an engine's sweep does; how much it found."""
    with connect("test") as engine:
        found = engine.execute(GIVEN_UP).fetchall()
    for tenant_id, message_id in [*found, *found]:
        assert undelivered.turn(tenant_id, message_id, "w1") is False
    return len(found)


def undeliverable(world: World) -> list[Case]:
    with reading(world.tenant.pk):
        return list(Case.objects.filter(kind=CaseKind.UNDELIVERABLE).order_by("pk"))


def test_what_cannot_be_delivered_is_one_case_for_a_recipient_with_an_admin_as_its_owner(
    world: World,
    admin: Person,
    books: Endpoint,
) -> None:
    first = world.proposed()
    give_up(world)
    assert report(world) == 3
    managers = {
        f"{p.username} cannot be told by e-mail of what happens" for p in (world.manager, world.second)
    }
    cases = undeliverable(world)
    assert {c.owner_role for c in cases} == {"admin"}
    assert {c.blocking for c in cases} == {False}
    # All three are about one job, so they are one question there, with what was told of each.
    assert [c.title in {*managers, "books cannot be told by webhook of what happens"} for c in cases] == [
        True
    ]
    assert cases[0].job_id == first.job_id
    world.proposed()
    give_up(world)
    report(world)
    given_up = [m for m in messages(world.tenant) if m.given_up_at is not None]
    assert {m.reported_at is not None for m in given_up} == {True}
    with reading(world.tenant.pk):
        assert JournalEntry.objects.filter(event="message.undeliverable").count() == len(given_up)
    assert report(world) == 0
    record_outcome(
        tenant_id=world.tenant.pk, case_id=cases[0].pk, person_id=admin.pk, version=cases[0].version,
        outcome="they were told otherwise", evidence="I called them.", source="the telephone", now=timezone.now(),
    )  # fmt: skip
    with reading(world.tenant.pk):
        assert Case.objects.get(pk=cases[0].pk).resolution == "they were told otherwise"


def test_who_cannot_be_told_of_one_thing_is_not_asked_about_again_with_the_next(
    world: World,
    admin: Person,
) -> None:
    for _ in range(3):
        proposal = world.proposed()
        happens(world, proposal, "approver.missing", quorum=1, able=0)
    with acting(world.tenant.pk):
        Message.objects.exclude(person=admin).update(
            next_attempt_at=None, given_up_at=timezone.now(), reported_at=timezone.now()
        )
    give_up(world)
    assert report(world) == 3
    assert [c.title for c in undeliverable(world)] == [
        f"{admin.username} cannot be told by e-mail of what happens"
    ]


def everything(world: World) -> tuple[Any, ...]:
    with reading(world.tenant.pk), connection.cursor() as cursor:
        cursor.execute("SELECT count(*), max(id) FROM access_tenantentry")
        return (
            list(Proposal.objects.order_by("pk").values()),
            list(Decision.objects.values()),
            list(Case.objects.order_by("pk").values()),
            list(Job.objects.order_by("pk").values("state", "held_at", "cancel_requested_at")),
            list(JournalEntry.objects.exclude(event="proposal.viewed").order_by("pk").values("event")),
            messages(world.tenant),
            cursor.fetchone(),
        )


@pytest.mark.parametrize("method", ["get", "head"])
def test_opening_every_link_of_every_message_changes_nothing_with_a_session_and_without(
    world: World,
    books: Endpoint,
    admin: Person,
    method: str,
) -> None:
    proposal = world.proposed()
    happens(world, proposal, "approver.missing", quorum=1, able=0)
    other = world.proposed()
    world.decide(other, world.manager)
    links = {json.loads(m.payload)["data"]["link"] for m in messages(world.tenant)}
    assert len(links) == 3
    before = everything(world)
    for person in (None, world.manager, world.submitter, admin):
        client = Client(SERVER_NAME="127.0.0.1")
        if person is not None:
            client.force_login(person)
        for link in links:
            answer = getattr(client, method)(urlsplit(link).path)
            assert answer.status_code == (302 if person is None else 200)
    assert everything(world) == before
