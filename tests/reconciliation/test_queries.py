"""Lists, counts and the case screen."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.roles import WORKER
from access.tenancy import acting, reading
from console.queries import needs
from dispatch.models import Operation, Receiver
from reconciliation.actions.outcomes import confirm_not_applied, look_up
from reconciliation.actions.owning import snooze, take
from reconciliation.actions.receipts import confirm_with_receipt
from reconciliation.counting import counts
from reconciliation.figures import figures
from reconciliation.kinds import Queue, VerbName, kinds_in
from reconciliation.locks import NoSuchCase
from reconciliation.narrowing import Narrowing, faults_of
from reconciliation.queries import CaseRow, case_page, cases_of, open_cases
from reconciliation.reviewing import review
from reconciliation.tabs import TABS
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import a_contract, a_keyed_contract, a_lookup_contract
from tests.dispatch.world import receipt as receipt_of
from tests.reconciliation.pages import address, as_person, html_of
from tests.reconciliation.world import PATIENT, Desk, a_letter, now, receipt
from workflows.locks import lock_job
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk() -> Desk:
    return Desk.make("http://127.0.0.1:9", a_contract())


def listed(desk: Desk, **filters: Any) -> list[CaseRow]:
    with reading(desk.tenant_id):
        at, person = filters.pop("now", now()), filters.pop("person", desk.anna)
        chosen = Narrowing.read(filters)
        assert faults_of(chosen) == []
        return list(open_cases(now=at, person_id=person.pk, chosen=chosen).rows)


def test_open_cases_are_paged_by_what_is_due_first(desk: Desk) -> None:
    cases = [desk.happens(desk.world.job(), "proposal.expired") for _ in range(5)]
    seen: list[int] = []
    after = ""
    while True:
        with reading(desk.tenant_id):
            page = open_cases(now=now(), limit=2, after=after)
        seen += [r.case_id for r in page.rows]
        after = page.after
        if not after:
            break
    assert seen == [c.pk for c in sorted(cases, key=lambda c: (c.due_at, c.pk))]


@pytest.mark.parametrize("cursor", ["", "x", "1-", "-1", "٣-٣", "9" * 30 + "-1"])
def test_a_cursor_that_is_none_begins_at_the_top(desk: Desk, cursor: str) -> None:
    case = desk.happens(desk.world.job(), "proposal.expired")
    with reading(desk.tenant_id):
        assert [r.case_id for r in open_cases(now=now(), after=cursor).rows] == [case.pk]


def test_cases_are_narrowed_by_owner_kind_due_time_and_age(desk: Desk) -> None:
    job = desk.world.job()
    mine = desk.happens(job, "proposal.expired")
    held = desk.happens(desk.world.job(), "revision.missing", why="gone")
    desk.act(take, mine)
    later = now() + timedelta(hours=5)
    for asked, found in (
        ({"owner": "me"}, [mine]),
        ({"owner": "me", "person": desk.ben}, []),
        ({"owner": desk.anna.username}, [mine]),
        ({"owner": "nobody"}, [held]),
        ({"kind": "held"}, [held]),
        ({"kind": "proposal expired"}, [mine]),
        ({"workflow": job.workflow}, [held, mine]),
        ({"workflow": "another"}, []),
        ({"due": "late"}, []),
        ({"due": "late", "now": later}, [held]),
        ({"due": "soon", "now": later - timedelta(hours=4)}, [held]),
        ({"age": "hours"}, [held, mine]),
        ({"age": "hours", "now": later}, []),
        ({"age": "day", "now": later}, [held, mine]),
        ({"age": "older", "now": now() + timedelta(days=8)}, [held, mine]),
    ):
        assert [r.case_id for r in listed(desk, **asked)] == [c.pk for c in found], asked


def test_cases_are_narrowed_by_receiver_and_by_keys_that_end_soon() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(
            erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0, retention=36000)
        )
        job, doubt = desk.unknown()
    desk.happens(desk.world.job(), "revision.missing", why="gone")
    name = "erp"
    assert (doubt.receiver_id, doubt.fault) == (
        desk.sending.operations(job)[0].receiver_id,
        "the connection ended without a usable answer",
    )
    assert [r.receiver for r in listed(desk, receiver=name)] == ["ERP"]
    assert listed(desk, due="key") == []
    assert [r.case_id for r in listed(desk, due="key", now=now() + timedelta(hours=3))] == [doubt.pk]
    assert listed(desk, due="key", now=now() + timedelta(hours=11)) == []


def test_what_means_nothing_narrows_nothing_and_is_named(desk: Desk) -> None:
    case = desk.happens(desk.world.job(), "proposal.expired")
    stranger = Desk.make("http://127.0.0.1:9", a_contract()).anna.username
    chosen = Narrowing.read(
        {"kind": "<b>", "age": "old\x00", "due": "then", "receiver": "bank", "owner": stranger, "other": "x"}
    )
    with reading(desk.tenant_id):
        assert [r.case_id for r in open_cases(now=now(), chosen=chosen).rows] == [case.pk]
        assert faults_of(chosen) == [
            "There is no kind of case “<b>”.",
            "“old␀” is no age; there are hours, day, days, week, older.",
            "“then” says nothing of a due time.",
            "There is no receiver “bank” here.",
            f"Nobody called “{stranger}” belongs to this organisation.",
        ]


def test_counts_are_those_of_the_list(desk: Desk) -> None:
    cases = [desk.happens(desk.world.job(), "revision.missing", why="gone") for _ in range(3)]
    desk.happens(desk.world.job(), "proposal.expired")
    desk.act(take, cases[0])
    desk.act(snooze, cases[1], until=now() + timedelta(hours=5), reason="wait")
    with reading(desk.tenant_id):
        at = now() + timedelta(hours=4, minutes=30)
        found = counts(desk.anna.pk, now=at)
    assert (found.total, found.late, found.mine, found.nobodys, found.snoozed) == (4, 2, 1, 3, 1)
    assert [(t.name, t.count) for t in found.tabs] == [
        ("unknown", 0), ("expected", 0), ("overdue", 0), ("conflicted", 0), ("duplicate", 0),
        ("unclaimed", 0), ("held", 3), ("again", 1),
    ]  # fmt: skip
    assert [(b.name, b.count, b.x) for b in found.ages] == [("day", 4, 0)]
    for asked, number in (("late", found.late),):
        assert len(listed(desk, due=asked, snoozed="1", now=at)) == number


def test_figures_say_how_often_nobody_knew_how_long_and_what_answered_it() -> None:
    """Of four sends two are answered at once, one doubt is settled by a look-up and one by a receipt."""
    settled = answers(200, receipt_of("V-2"))
    with FaultServer(answers(200, receipt_of("V-1")), fin, answers(500), answers(500), settled) as erp:
        desk = Desk.make(erp.url, a_lookup_contract(proves_after=None, timeouts=PATIENT))
        desk.run(desk.sending.ready("V-1"))
        _, first = desk.unknown("V-2")
        desk.act(look_up, first)
    with FaultServer(fin, answers(500), answers(500), answers(200, receipt_of("V-4"))) as erp:
        move_to(desk, erp.url)
        _, second = desk.unknown("V-3")
        desk.act(confirm_with_receipt, second, receipt=receipt(record="V-3"))
        desk.run(desk.sending.ready("V-4"))
    with reading(desk.tenant_id):
        (found,) = [f for f in figures(now()) if f.receiver.name == "erp"]
    assert (found.sent, found.doubts, found.percent, found.open) == (4, 2, 50.0, 0)
    assert [(c.words, c.count, c.percent) for c in found.closings] == [
        ("applied, by receipt", 1, 50),
        ("look-up", 1, 50),
    ]
    took = [c.resolved_at - c.opened_at for c in map(desk.fresh, (first, second)) if c.resolved_at]
    assert found.median is not None
    assert min(took) <= found.median <= max(took)
    assert "How doubts went" in html_of(as_person(desk.auditor).get(address(desk, "case-figures")))


def move_to(desk: Desk, url: str) -> None:
    with acting(desk.tenant_id):
        Receiver.objects.filter(name="erp").update(base_url=url)


def test_a_window_that_got_shorter_brings_the_case_forward() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(
            erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0, retention=86400)
        )
        job, case = desk.unknown()
    ends = now() + timedelta(hours=1)
    assert case.due_at > ends
    with acting(desk.tenant_id):
        Operation.objects.filter(job=job).update(resubmit_safe_until=ends)
        review(lock_job(job.pk), WORKER, now())
    assert desk.fresh(case).due_at == ends


def test_a_list_costs_the_same_for_one_and_three_cases(desk: Desk) -> None:
    costs = []
    for count in (1, 2):
        for _ in range(count):
            desk.happens(desk.world.job(), "proposal.expired")
        with (
            reading(desk.tenant_id),
            CaptureQueriesContext(
                connection,
            ) as seen,
        ):
            open_cases(now=now())
        costs.append(len(seen))
    assert costs == [2, 2]


def test_each_case_stands_in_one_queue_of_the_home_page(desk: Desk) -> None:
    """What holds its job stands there as that job, which leads to it; of a job that is held no more, as a case."""
    desk.happens(desk.world.job(), "proposal.expired")
    by_hand, waiting, let_go = (desk.world.job() for _ in range(3))
    case, left = (desk.happens(job, "revision.missing", why="gone") for job in (waiting, let_go))
    with acting(desk.tenant_id):
        Job.objects.filter(pk__in=[by_hand.pk, waiting.pk]).update(held_at=now(), held_by="worker")
    slug, later = desk.world.tenant.slug, now() + timedelta(hours=5)
    with reading(desk.tenant_id):
        found = {q.name: q for q in needs.queues(slug, later)}
    counts = {name: (q.count, q.late) for name, q in found.items() if q.count}
    assert counts == {"held": (2, 1), "corrections": (2, 1)}
    held = [(n.url, n.label, n.until) for n in found["held"].rows]
    assert held == [
        (f"/t/{slug}/cases/{case.pk}/", waiting.label, case.due_at),
        (f"/t/{slug}/jobs/{by_hand.pk}/", by_hand.label, None),
    ]
    assert left.pk in [int(n.url.split("/")[-2]) for n in found["corrections"].rows]


def test_a_queue_that_a_tab_holds_leads_to_that_tab() -> None:
    queues = {
        "exhausted": Queue.EXHAUSTED,
        "unclaimed": Queue.UNCLAIMED,
        "effects": Queue.CANCELLED_WITH_EFFECT,
    }
    kinds = {tab.name: set(tab.kinds) for tab in TABS}
    assert {tab: kinds[tab] for tab in queues} == {tab: set(kinds_in(queue)) for tab, queue in queues.items()}


def test_a_case_of_another_tenant_is_not_there(desk: Desk) -> None:
    case = desk.happens(desk.world.job(), "proposal.expired")
    other = Desk.make("http://127.0.0.1:9", a_contract())
    with reading(other.tenant_id), pytest.raises(NoSuchCase):
        case_page(case.pk, other.anna.pk, now=now())


def test_the_screen_says_what_is_known_what_is_not_and_what_may_be_done() -> None:
    with FaultServer(fin) as erp:
        contract = a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0)
        desk = Desk.make(erp.url, contract)
        job, case = desk.unknown(amount="4800.00", currency="EUR")
    page = desk.page(case)
    assert (page.title, page.state_words) == ("Did ERP update V-1?", "Outcome unknown")
    assert [k.name for k in page.known] == ["Intended", "Dispatched", "Answer lost"]
    assert "digest" in page.known[0].sentence
    assert page.unknown == [
        "Whether ERP accepted the request",
        "Whether it did update V-1",
        "Whether the money has left the account",
    ]
    assert page.residual_risk.startswith("If this is sent again after ")
    assert page.residual_risk.endswith("ERP does “Update V-1” (€ 4,800.00) twice.")
    assert (page.amount, page.currency) == (Decimal("4800.00"), "EUR")
    assert [(v.name, v.danger, v.needs_second) for v in page.verbs] == [
        (VerbName.LOOK_UP, False, False),
        (VerbName.MATCH_LINE, False, False),
        (VerbName.CONFIRM_WITH_RECEIPT, False, False),
        (VerbName.CONFIRM_NOT_APPLIED, True, True),
        (VerbName.RESUBMIT, True, False),
    ]
    assert page.verbs[0].why_not == "ERP offers no look-up."
    assert page.resubmit_safe_until == desk.sending.operation(job).resubmit_safe_until
    assert [f.fate for f in page.fates_if_cancelled] == ["Outcome still being checked"]
    assert page.terms[0].name == "Deduplicates by key"
    assert [e.number for e in page.evidence] == [2, 1]
    assert [c.case_id for c in desk_cases(desk, job)] == [case.pk]


def test_who_may_not_act_sees_why(desk: Desk) -> None:
    case = desk.happens(desk.world.job(), "proposal.expired")
    page = desk.page(case, desk.auditor)
    assert not page.may_work
    assert [v.allowed for v in page.verbs] == [False, False, False]
    assert page.verbs[0].why_not == "Only an operator of this organisation may do this."
    assert page.verbs[1].why_not == f"{page.job_label} has not come to a proposal yet."
    assert [v.allowed for v in desk.page(case, desk.world.submitter).verbs] == [True, False, False]


def test_a_pending_request_is_shown_to_who_may_answer_it() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        _, case = desk.unknown()
        case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
        desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    answers = {}
    for person in (desk.anna, desk.ben, desk.admin, desk.auditor):
        request = desk.page(case, person).request
        assert request is not None
        answers[person.pk] = (request.may_answer, request.may_withdraw)
    assert answers == {
        desk.anna.pk: (False, True),
        desk.ben.pk: (True, False),
        desk.admin.pk: (True, False),
        desk.auditor.pk: (False, False),
    }
    assert listed(desk)[0].second_asked == "confirm not applied"


def desk_cases(desk: Desk, job: Job) -> list[CaseRow]:
    with reading(desk.tenant_id):
        return cases_of(job.pk, now=now())
