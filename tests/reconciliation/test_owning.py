"""Assign, take, hand over, snooze, comment, add evidence."""

from __future__ import annotations

from datetime import timedelta

import pytest

from access.models import Membership, Person
from access.refusals import NotPermitted
from access.tenancy import acting, reading
from reconciliation.actions.noting import TakenInTheFuture, add_evidence, comment
from reconciliation.actions.owning import CannotOwn, SnoozeTooLong, assign, hand_over, snooze, take
from reconciliation.actions.working import EvidenceMissing, StaleCase
from reconciliation.counting import counts
from reconciliation.models import Case
from reconciliation.narrowing import Narrowing
from reconciliation.queries import open_cases
from reconciliation.waiting import why_it_waits
from tests.dispatch.faults import FaultServer, fin
from tests.dispatch.world import a_contract, a_keyed_contract
from tests.reconciliation.world import PATIENT, Desk, now
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk() -> Desk:
    return Desk.make("http://127.0.0.1:9", a_contract())


def expired(desk: Desk) -> tuple[Job, Case]:
    job = desk.world.job()
    return job, desk.happens(job, "proposal.expired")


def test_of_two_who_take_a_case_the_second_is_told_who_has_it(desk: Desk) -> None:
    _, case = expired(desk)
    desk.act(take, case)
    with pytest.raises(StaleCase, match=desk.anna.username):
        desk.act(take, case, desk.ben)
    assert desk.fresh(case).assignee == desk.anna


def test_a_case_is_handed_over_and_back_to_its_role(desk: Desk) -> None:
    job, case = expired(desk)
    desk.act(take, case)
    desk.act(hand_over, desk.fresh(case), assignee_id=desk.ben.pk)
    assert desk.page(case).assignee == desk.ben.username
    desk.act(hand_over, desk.fresh(case), desk.ben, assignee_id=None)
    assert desk.fresh(case).assignee is None
    assert desk.events(job).count("case.assigned") == 3


def test_what_is_handed_over_goes_with_a_note(desk: Desk) -> None:
    job, case = expired(desk)
    desk.act(hand_over, case, assignee_id=desk.ben.pk, note="Ask Tern first.")
    assert [(c.by, c.body) for c in desk.page(case).comments] == [(desk.anna.username, "Ask Tern first.")]
    before = desk.snapshot(job)
    with pytest.raises(StaleCase):
        desk.act(hand_over, case, assignee_id=None, note="Never mind.")
    assert desk.snapshot(job) == before


def test_the_case_of_somebody_who_has_left_is_nobodys_again_and_says_whose_it_was(desk: Desk) -> None:
    job, case = expired(desk)
    desk.act(take, case, desk.ben)

    def nobodys() -> list[tuple[str, bool]]:
        with reading(desk.tenant_id):
            page = open_cases(now=now(), chosen=Narrowing(owner="nobody"))
            assert len(page.rows) == counts(desk.anna.pk, now=now()).nobodys
            return [(r.assignee, r.assignee_left) for r in page.rows]

    assert nobodys() == []
    with acting(desk.tenant_id):
        Membership.objects.filter(person=desk.ben).update(ended_at=now())
    assert nobodys() == [(desk.ben.username, True)]
    assert desk.page(case).assignee_left
    with reading(desk.tenant_id):
        assert (why_it_waits(job) or "").startswith("waits for an operator: ")
    desk.act(take, desk.fresh(case))
    assert desk.fresh(case).assignee == desk.anna


def test_only_who_works_on_cases_is_assigned_one(desk: Desk) -> None:
    job, case = expired(desk)
    before = desk.snapshot(job)
    with pytest.raises(CannotOwn):
        desk.act(assign, case, assignee_id=desk.auditor.pk)
    with pytest.raises(NotPermitted):
        desk.act(take, case, desk.auditor)
    assert desk.snapshot(job) == before


def test_a_snoozed_case_is_due_no_earlier_and_leaves_the_list(desk: Desk) -> None:
    _, case = expired(desk)
    until = now() + timedelta(days=3)
    desk.act(snooze, case, until=until, reason="they answer on Monday")
    put_off = desk.fresh(case)
    assert (put_off.snoozed_until, put_off.due_at) == (until, until)
    with reading(desk.tenant_id):
        assert [r.case_id for r in open_cases(now=now()).rows] == []
        assert [r.case_id for r in open_cases(now=now(), chosen=Narrowing(snoozed="1")).rows] == [case.pk]
        assert [r.case_id for r in open_cases(now=until).rows] == [case.pk]


def test_a_snooze_needs_a_reason_and_an_end(desk: Desk) -> None:
    job, case = expired(desk)
    before = desk.snapshot(job)
    for until, reason, refusal in (
        (now() + timedelta(hours=1), " ", EvidenceMissing),
        (now() - timedelta(hours=1), "x", SnoozeTooLong),
        (now() + timedelta(days=15), "x", SnoozeTooLong),
    ):
        with pytest.raises(refusal):
            desk.act(snooze, case, until=until, reason=reason)
    assert desk.snapshot(job) == before


def test_a_snooze_never_passes_the_time_in_which_the_key_is_safe() -> None:
    with FaultServer(fin) as erp:
        contract = a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0, retention=7200)
        desk = Desk.make(erp.url, contract)
        _, case = desk.unknown()
    with pytest.raises(SnoozeTooLong, match="recognises the key"):
        desk.act(snooze, case, until=now() + timedelta(hours=3), reason="later")
    desk.act(snooze, case, until=now() + timedelta(hours=1), reason="later")


def test_a_comment_is_kept_and_journalled_as_a_digest(desk: Desk) -> None:
    job, case = expired(desk)
    desk.act(lambda *, version, **more: comment(**more), case, desk.world.manager, body="Ask Tern first.")
    page = desk.page(case)
    assert [(c.by, c.body) for c in page.comments] == [(desk.world.manager.username, "Ask Tern first.")]
    assert "Ask Tern first." not in [e.what for e in page.evidence]
    assert "Ask" not in str(desk.world.evidence(job, "case.commented"))
    assert desk.fresh(case).version == case.version
    with pytest.raises(NotPermitted):
        desk.act(lambda *, version, **more: comment(**more), case, desk.auditor, body="I saw this.")


def test_a_comment_that_is_sent_twice_is_one_comment_and_said_again_later_is_two(desk: Desk) -> None:
    job, case = expired(desk)

    def says(person: Person, body: str) -> None:
        desk.act(lambda *, version, **more: comment(**more), case, person, body=body)

    for body in ("Asked Tern.", "Asked Tern.", "They are closed.", "Asked Tern."):
        says(desk.anna, body)
    says(desk.world.manager, "Asked Tern.")
    assert [c.body for c in desk.page(case).comments] == [
        "Asked Tern.", "They are closed.", "Asked Tern.", "Asked Tern.",
    ]  # fmt: skip
    assert desk.events(job).count("case.commented") == 4


def test_the_same_words_are_another_comment_when_they_are_said_on_another_day(desk: Desk) -> None:
    _, case = expired(desk)
    for at in (now() - timedelta(days=1), now()):
        comment(tenant_id=desk.tenant_id, case_id=case.pk, person_id=desk.anna.pk, body="No answer.", now=at)
    assert [c.body for c in desk.page(case).comments] == ["No answer.", "No answer."]


def test_evidence_that_is_sent_twice_is_there_once(desk: Desk) -> None:
    job, case = expired(desk)
    seen = {"summary": "A letter with password=hunter22", "source": "post", "detail": "token: abcd1234"}

    def add(*, version: int, **more: object) -> object:
        return add_evidence(**more)  # type: ignore[arg-type]

    at = now() - timedelta(days=1)
    for taken_at in (at, at, at + timedelta(hours=1)):
        desk.act(add, case, taken_at=taken_at, **seen)
    assert [e.taken_at for e in desk.evidence(case)][-2:] == [at, at + timedelta(hours=1)]
    assert desk.events(job).count("case.evidence_added") == 2


def test_evidence_is_added_and_settles_nothing(desk: Desk) -> None:
    job, case = expired(desk)

    def add(*, version: int, **more: object) -> object:
        return add_evidence(**more)  # type: ignore[arg-type]

    desk.act(add, case, summary="A letter", source="post", taken_at=now() - timedelta(days=1))
    assert desk.evidence(case)[-1].summary == "A letter"
    assert desk.fresh(case).resolved_at is None
    with pytest.raises(TakenInTheFuture):
        desk.act(add, case, summary="A letter", source="post", taken_at=now() + timedelta(days=1))
    with pytest.raises(EvidenceMissing):
        desk.act(add, case, summary="", source="post", taken_at=now())
    assert len(desk.evidence(case)) == 2
    assert desk.events(job).count("case.evidence_added") == 1
