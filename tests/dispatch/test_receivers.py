"""Receivers and their contracts: written, paused, resumed, refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from access.tenancy import acting, reading
from dispatch.actions.receivers import (
    BadContract,
    BadReceiver,
    PauseUnchanged,
    pause_receiver,
    resume_receiver,
    write_contract,
    write_receiver,
)
from dispatch.models import Receiver, ReceiverContract
from dispatch.queries import may_have_left
from dispatch.waiting import why_it_waits
from tests.dispatch.faults import FaultServer, answers
from tests.dispatch.world import (
    Dispatching,
    a_contract,
    a_keyed_contract,
    as_engine,
    receipt,
    states,
)
from workflows.models import WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
URL = "http://127.0.0.1:9"


def test_a_paused_receiver_gets_nothing_until_it_is_resumed() -> None:
    with FaultServer(answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        receiver_id = d.operation(job).receiver_id
        admin = {"tenant_id": d.tenant_id, "receiver_id": receiver_id, "person_id": d.admin.pk}
        pause_receiver(**admin, reason="storm", now=timezone.now())
        with pytest.raises(PauseUnchanged):
            pause_receiver(**admin, reason="storm", now=timezone.now())
        d.step(d.operation(job))
        assert (erp.received, d.submissions(job)) == ([], [])
        with reading(d.tenant_id):
            assert why_it_waits(d.fresh(job)) == f"ERP was paused by {d.admin.username}"
            assert not may_have_left(job)
        resume_receiver(**admin, now=timezone.now())
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
        with reading(d.tenant_id):
            assert may_have_left(job)


def test_all_that_waited_for_a_receiver_is_due_when_it_is_resumed() -> None:
    d = Dispatching.make(URL, a_contract())
    jobs = [d.ready(f"V-{n}") for n in range(3)]
    admin = {
        "tenant_id": d.tenant_id,
        "receiver_id": d.operation(jobs[0]).receiver_id,
        "person_id": d.admin.pk,
    }
    pause_receiver(**admin, reason="storm", now=timezone.now())
    backing_off, running = ItemState.BACKING_OFF.number, ItemState.RUNNING.number
    ids = {job.pk: d.item(d.operation(job)).pk for job in jobs}
    as_engine(
        "UPDATE workflows_workitem SET state = %s, next_attempt_at = now() + interval '1 min' WHERE id = ANY(%s)",
        [backing_off, [ids[job.pk] for job in jobs[:2]]],
    )
    d.claim(d.operation(jobs[2]))
    resume_receiver(**admin, now=timezone.now())
    with reading(d.tenant_id):
        found = {i.job_id: i for i in WorkItem.objects.filter(pk__in=ids.values())}
    assert [found[j.pk].state for j in jobs] == [ItemState.READY.number, ItemState.READY.number, running]
    assert found[jobs[2].pk].next_attempt_at <= timezone.now(), "it is called again when it has ended"


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://2130706433/",
        "http://[::ffff:127.0.0.1]/",
        "http://10.1.1.1",
        "file:///x",
    ],
)
def test_a_receiver_that_points_inside_is_refused_when_it_is_saved(url: str) -> None:
    d = Dispatching.make(URL, a_contract())
    with pytest.raises(BadReceiver):
        write_receiver(
            tenant_id=d.tenant_id, name="x", title="X", base_url=url, person_id=d.admin.pk, now=timezone.now()
        )
    with reading(d.tenant_id):
        assert not Receiver.objects.filter(name="x").exists()


def test_a_contract_that_contradicts_itself_is_refused() -> None:
    d = Dispatching.make(URL, a_contract())
    with reading(d.tenant_id):
        receiver_id = Receiver.objects.get().pk
    terms = {**a_contract().model_dump(mode="json"), "automatic_resubmissions": 1}
    with pytest.raises(BadContract, match="neither key nor lookup makes it safe"):
        write_contract(
            tenant_id=d.tenant_id, receiver_id=receiver_id, terms=terms, source="", person_id=d.admin.pk,
            now=timezone.now(),
        )  # fmt: skip


def test_terms_that_were_kept_before_a_field_came_are_no_other_version() -> None:
    d = Dispatching.make(URL, a_contract(title="before"))
    new = a_contract(title="new")
    kept = {
        k: v for k, v in new.model_dump(mode="json").items() if k not in ("statement_feed", "cancel_by_key")
    }
    with acting(d.tenant_id):
        receiver = Receiver.objects.get()
        old = ReceiverContract.objects.create(
            tenant_id=d.tenant_id, receiver=receiver, version=9, terms=kept, reviewed_at=timezone.now()
        )
    for terms, version in ((new, old.version), (a_contract(title="newer"), old.version + 1)):
        made = write_contract(
            tenant_id=d.tenant_id, receiver_id=receiver.pk, terms=terms.model_dump(mode="json"), source="",
            person_id=d.admin.pk, now=timezone.now(),
        )  # fmt: skip
        assert made.version == version


def test_keys_fit_their_contract_and_never_look_like_numbers() -> None:
    upper = a_keyed_contract(key_max_len=30, key_charset="upper")
    keys = {upper.new_key() for _ in range(500)}
    assert len(keys) == 500
    assert all(len(k) == 30 and k.isupper() and "E" not in k and k[0].isalpha() for k in keys)
    assert all(upper.takes_key(k) for k in keys)
    assert not upper.takes_key("a" * 31)


def test_the_window_is_counted_from_the_first_send_less_a_margin() -> None:
    first = timezone.now()
    assert a_keyed_contract().resubmit_safe_until(first) == first + timedelta(seconds=86_400 - 600)
    assert (
        a_keyed_contract(retention="unpublished", automatic_resubmissions=0).resubmit_safe_until(first)
        is None
    )
    assert a_contract().resubmit_safe_until(first) is None
