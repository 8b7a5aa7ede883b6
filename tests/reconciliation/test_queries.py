"""Lists, counts and the case screen."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.tenancy import acting, reading
from reconciliation.actions.outcomes import confirm_not_applied
from reconciliation.actions.owning import take
from reconciliation.kinds import Queue, VerbName
from reconciliation.locks import NoSuchCase
from reconciliation.queries import CaseRow, QueueCounts, case_page, cases_of, open_cases, queue_counts
from tests.dispatch.faults import FaultServer, fin
from tests.dispatch.world import a_contract, a_keyed_contract
from tests.reconciliation.world import PATIENT, Desk, a_letter, now
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk() -> Desk:
    return Desk.make("http://127.0.0.1:9", a_contract())


def listed(desk: Desk, **filters: Any) -> list[CaseRow]:
    with reading(desk.tenant_id):
        return list(open_cases(**{"now": now(), **filters}).rows)


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
    assert [r.case_id for r in listed(desk, after=cursor)] == [case.pk]


def test_cases_are_filtered(desk: Desk) -> None:
    mine = desk.happens(desk.world.job(), "proposal.expired")
    held = desk.happens(desk.world.job(), "revision.missing", why="gone")
    desk.act(take, mine)
    assert [r.case_id for r in listed(desk, mine=desk.anna.pk)] == [mine.pk]
    assert [r.case_id for r in listed(desk, queue=Queue.HELD)] == [held.pk]
    assert [r.case_id for r in listed(desk, kinds=["proposal expired"])] == [mine.pk]
    assert listed(desk, overdue=True) == []
    late = listed(desk, overdue=True, now=now() + timedelta(hours=5))
    assert [(r.case_id, r.overdue) for r in late] == [(held.pk, True)]


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


def test_the_home_page_counts_by_queue(desk: Desk) -> None:
    desk.happens(desk.world.job(), "proposal.expired")
    job = desk.world.job()
    desk.happens(job, "revision.missing", why="gone")
    with acting(desk.tenant_id):
        Job.objects.filter(pk=job.pk).update(held_at=now(), held_by="worker")
    with reading(desk.tenant_id), CaptureQueriesContext(connection) as seen:
        counts = queue_counts(now=now() + timedelta(hours=5))
    assert counts == QueueCounts(
        unresolved_outcomes=0, retry_exhausted=0, held_jobs=1, cancelled_with_effects=0, other=1, overdue=1
    )
    assert len(seen) == 2


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
