"""When cases are due: the kind's own time, what an organisation writes instead, and who wrote it meanwhile."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from access.models import TenantEntry
from access.refusals import NotPermitted
from access.tenancy import reading
from dispatch.locks import NoSuchReceiver
from dispatch.models import Receiver
from reconciliation.actions.due_times import BadDueTime, DueTimeWrittenMeanwhile, write_due_time
from reconciliation.due_times import last_written, table
from reconciliation.models import Case
from tests.dispatch.faults import FaultServer, fin
from tests.dispatch.world import a_contract, a_keyed_contract
from tests.reconciliation.pages import address, as_person, html_of
from tests.reconciliation.world import PATIENT, Desk, now
from tests.support import at_once
from web.times import span_words

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


def write(desk: Desk, kind: str, after: timedelta | None, **more: Any) -> int:
    with reading(desk.tenant_id):
        seen = last_written()
    values = {"person_id": desk.admin.pk, "receiver_id": None, "seen": seen, "now": now(), **more}
    return write_due_time(tenant_id=desk.tenant_id, kind=kind, after=after, **values)


def took(case: Case) -> timedelta:
    return case.due_at - case.opened_at


def test_a_receivers_time_stands_before_everybodys_and_that_before_the_kinds() -> None:
    """Open cases keep what they were given; an emptied time is as if it had never been written."""
    with FaultServer(*[fin] * 8) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        with reading(desk.tenant_id):
            receiver = Receiver.objects.get(name="erp").pk
        _, first = desk.unknown("V-1")
        write(desk, "unknown outcome", 2 * HOUR)
        _, second = desk.unknown("V-2")
        write(desk, "unknown outcome", HOUR / 2, receiver_id=receiver)
        _, third = desk.unknown("V-3")
        write(desk, "unknown outcome", None, receiver_id=receiver)
        _, fourth = desk.unknown("V-4")
    assert [took(c) for c in (desk.fresh(first), second, third, fourth)] == [
        4 * HOUR,
        2 * HOUR,
        HOUR / 2,
        2 * HOUR,
    ]
    assert took(desk.happens(desk.world.job(), "proposal.expired")) == 24 * HOUR
    with reading(desk.tenant_id):
        told = [
            json.loads(e.evidence)
            for e in TenantEntry.objects.filter(event="due.written").order_by("sequence")
        ]
        (row,) = [r for r in table() if r.kind == "unknown outcome"]
    assert [t["minutes"] for t in told] == [120, 30, None]
    assert [(w.receiver, w.after, w.row.written_by) for w in row.written] == [("", 2 * HOUR, desk.admin)]


def test_no_written_time_is_later_than_the_end_of_the_key() -> None:
    with FaultServer(fin) as erp:
        contract = a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0, retention=3 * 3600)
        desk = Desk.make(erp.url, contract)
        write(desk, "unknown outcome", 50 * HOUR)
        job, case = desk.unknown()
    assert case.due_at == desk.sending.operation(job).resubmit_safe_until


def test_who_may_not_and_what_will_not_do_is_refused_and_nothing_is_written() -> None:
    desk = Desk.make("http://127.0.0.1:9", a_contract())
    for person in (desk.anna, desk.auditor, desk.world.manager):
        with pytest.raises(NotPermitted):
            write(desk, "partial", HOUR, person_id=person.pk)
    for kind, after in (("parcel", HOUR), ("partial", timedelta(minutes=4)), ("partial", timedelta(days=91))):
        with pytest.raises(BadDueTime):
            write(desk, kind, after)
    with pytest.raises(NoSuchReceiver):
        write(desk, "partial", HOUR, receiver_id=2**40)
    with pytest.raises(DueTimeWrittenMeanwhile):
        write(desk, "partial", HOUR, seen=write(desk, "partial", HOUR) - 1)
    with reading(desk.tenant_id):
        assert [r.kind for r in table() if r.written] == ["partial"]


def test_of_two_who_write_one_at_once_the_second_is_told() -> None:
    """Both have seen the same; without the lock both would look before either has written."""
    desk = Desk.make("http://127.0.0.1:9", a_contract())
    with reading(desk.tenant_id):
        seen = last_written()
    found = at_once(*[partial(write, desk, "partial", hours * HOUR, seen=seen) for hours in (1, 2, 3)])
    assert sorted(type(one) is DueTimeWrittenMeanwhile for one in found) == [False, True, True]
    with reading(desk.tenant_id):
        assert [r.kind for r in table() if r.written] == ["partial"]


def test_an_admin_writes_one_on_the_page_and_everybody_reads_it() -> None:
    desk = Desk.make("http://127.0.0.1:9", a_contract())
    url, client = address(desk, "due-times"), as_person(desk.admin)
    given = {"kind": "partial", "receiver": "", "hours": "1.5", "seen": "0"}
    assert client.post(url, given).status_code == 302
    late = client.post(url, given)
    assert (late.status_code, "Somebody wrote a due time" in html_of(late)) == (409, True)
    assert client.post(url, {**given, "hours": "many", "seen": "9"}).status_code == 422
    assert as_person(desk.anna).post(url, given).status_code == 403
    html = html_of(as_person(desk.auditor).get(url))
    assert span_words(1.5 * HOUR) in html
    assert "An admin says when cases are due." in html
