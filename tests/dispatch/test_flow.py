"""Several operations, cancels, pauses, facts that changed, and what a person settles."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from access.roles import Actor, ActorKind
from access.tenancy import acting, reading
from dispatch import settling
from dispatch.actions.look_up import NothingToAsk, look_up
from dispatch.actions.receivers import (
    BadContract,
    BadReceiver,
    PauseUnchanged,
    pause_receiver,
    resume_receiver,
    write_contract,
    write_receiver,
)
from dispatch.fates import Fate, fates
from dispatch.locks import lock_job_and_operation
from dispatch.models import Operation, Receiver
from dispatch.opening import NotOpened, open_submission
from dispatch.queries import may_have_left, operations_of, receivers
from dispatch.waiting import why_it_waits
from tests.approvals.world import long_ago
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import (
    BODY,
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    as_json,
    as_owner,
)
from workflows.actions.cancel import cancel_job
from workflows.models import Job
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
URL = "http://127.0.0.1:9"
OPERATOR = Actor(ActorKind.OPERATOR, "ops", 1)


def receipt(record: str) -> bytes:
    return as_json({"id": f"R-{record}", "record": record, "fields": BODY})


def states(d: Dispatching, job: Job) -> tuple[str, list[str]]:
    return d.job_state(job), [o.state for o in d.operations(job)]


def cancel(d: Dispatching, job: Job) -> None:
    cancel_job(tenant_id=d.tenant_id, job_id=job.pk, person_id=d.admin.pk, reason="no", now=timezone.now())


def test_an_operation_waits_until_the_one_before_it_is_confirmed() -> None:
    with FaultServer(answers(200, receipt("V-1")), answers(200, receipt("V-2"))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready("V-1", "V-2")
        first, second = d.operations(job)
        d.step(second)
        assert states(d, job) == ("READY_TO_COMMIT", ["PREPARED", "PREPARED"])
        d.step(first)
        assert states(d, job) == ("SUBMITTED", ["CONFIRMED", "PREPARED"])
        assert d.item(second).state_name in (ItemState.READY, ItemState.RUNNING)
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED", "CONFIRMED"])
        assert [r.split()[1] for r in erp.received] == [b"/vendors/V-1", b"/vendors/V-2"]


def test_what_depends_on_a_refused_operation_is_never_sent() -> None:
    with FaultServer(answers(422)) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready("V-1", "V-2")
        d.run(job)
        assert states(d, job) == ("FAILED", ["REFUSED", "WITHDRAWN"])
        assert len(erp.received) == 1


def test_a_part_that_was_applied_needs_a_person_who_can_go_on_or_close() -> None:
    with FaultServer(answers(200, receipt("V-1")), answers(422)) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready("V-1", "V-2", "V-3")
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["CONFIRMED", "REFUSED", "PREPARED"])
        assert d.events(job)[-1] == "outcome.partial"
        with acting(d.tenant_id):
            locked, _ = lock_job_and_operation(d.operation(job).pk)
            settling.close_partly_applied(job=locked, actor=OPERATOR, now=timezone.now(), why="enough")
        assert states(d, job) == ("FAILED", ["CONFIRMED", "REFUSED", "WITHDRAWN"])
    with reading(d.tenant_id):
        assert [f.fate for f in fates(job)] == [Fate.STANDS, Fate.STOPPED, Fate.STOPPED]


def test_a_cancel_before_anything_was_sent_withdraws_and_sends_nothing() -> None:
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        cancel(d, job)
        assert states(d, job) == ("CANCELLED", ["WITHDRAWN"])
        d.step(d.operation(job))
        assert erp.received == []


def test_a_cancel_between_two_operations_stops_the_second_and_says_what_stands() -> None:
    with FaultServer(answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready("V-1", "V-2")
        d.step(d.operations(job)[0])
        cancel(d, job)
        assert states(d, job) == ("CANCELLED", ["CONFIRMED", "WITHDRAWN"])
    with reading(d.tenant_id):
        assert [f.fate for f in fates(job)] == [Fate.STANDS, Fate.STOPPED]


def test_a_cancel_that_came_too_late_is_said_when_the_look_up_confirms() -> None:
    with FaultServer(fin, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract())
        job = d.ready()
        d.step(d.operation(job))
        cancel(d, job)
        assert states(d, job) == ("SUBMITTED", ["UNKNOWN"])
        with reading(d.tenant_id):
            assert [f.fate for f in fates(job)] == [Fate.CHECKING]
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
    assert d.world.evidence(job, "outcome.confirmed")["cancel"] == "the cancel came too late"


def test_nothing_is_sent_again_after_a_cancel() -> None:
    with FaultServer(fin, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.step(d.operation(job))
        cancel(d, job)
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
        assert len(erp.received) == 1


def test_proven_absence_sends_once_more_and_then_confirms() -> None:
    absent = answers(404, as_json({}))
    with FaultServer(fin, absent, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract())
        job = d.ready()
        d.step(d.operation(job))
        _let_the_deadline_pass(d, job)
        d.step(d.operation(job))
        assert states(d, job) == ("SUBMITTED", ["NOT_APPLIED"])
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
        assert erp.received[0] == erp.received[2]
    assert [s.permit for s in d.submissions(job)] == ["approval", "approval"]


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


@pytest.mark.parametrize(
    ("spoil", "event", "check"),
    [
        ("expiry", "proposal.expired", "Expiry"),
        ("target", "proposal.voided", "Target"),
        ("bytes", "proposal.voided", "Bytes"),
        ("recheck", "proposal.voided", "Recheck"),
    ],
)
def test_what_no_longer_holds_is_named_and_goes_back_with_nothing_sent(
    spoil: str, event: str, check: str
) -> None:
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready(at=long_ago() if spoil == "expiry" else None)
        _spoil(d, job, spoil)
        operation = d.operation(job)
        refused = open_submission(
            claim=d.claim(operation),
            operation_id=operation.pk,
            objections=["The supplier is suspended."] if spoil == "recheck" else [],
            now=timezone.now(),
        )
        assert isinstance(refused, NotOpened)
        assert (erp.received, d.submissions(job)) == ([], [])
    assert states(d, job) == ("VALIDATED", ["WITHDRAWN"])
    assert d.events(job)[-1] == event
    assert d.world.evidence(job, "send.check_failed")["check"] in (check, "Digest")


def test_two_proposals_for_one_record_do_not_race() -> None:
    with FaultServer(fin, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        first, second = d.ready(), d.ready()
        d.run(first)
        d.run(second, steps=2)
        assert states(d, second) == ("READY_TO_COMMIT", ["PREPARED"])
        assert len(erp.received) == 1


def test_an_operator_confirms_with_a_receipt() -> None:
    d, job = _unknown()
    with acting(d.tenant_id):
        locked, operation = lock_job_and_operation(d.operation(job).pk)
        settling.settle_confirmed(
            job=locked, operation=operation, kind="receipt", summary="e-mail", receipt_id="R-9", actor=OPERATOR,
            now=timezone.now(),
        )  # fmt: skip
    assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
    assert d.operation(job).receipt_id == "R-9"


def test_attested_absence_fails_the_job_and_can_still_be_contradicted() -> None:
    d, job = _unknown()
    with acting(d.tenant_id):
        locked, operation = lock_job_and_operation(d.operation(job).pk)
        settling.settle_not_applied(
            job=locked, operation=operation, summary="their letter", actor=OPERATOR, now=timezone.now()
        )
    assert states(d, job) == ("FAILED", ["NOT_APPLIED"])
    with acting(d.tenant_id):
        locked, operation = lock_job_and_operation(d.operation(job).pk)
        settling.settle_confirmed(
            job=locked, operation=operation, kind="statement", summary="line 3", receipt_id="", actor=OPERATOR,
            now=timezone.now(),
        )  # fmt: skip
    assert states(d, job) == ("FAILED", ["NOT_APPLIED"])
    assert "outcome.contradicted" in d.events(job)


def test_an_order_to_send_again_is_refused_where_the_receiver_would_not_recognise_it() -> None:
    d, job = _unknown()
    before = d.events(job)
    with acting(d.tenant_id):
        locked, operation = lock_job_and_operation(d.operation(job).pk)
        with pytest.raises(settling.WindowPassed):
            settling.order_resubmission(job=locked, operation=operation, actor=OPERATOR, now=timezone.now())
    assert d.events(job) == before


def test_an_ordered_resubmission_goes_out_with_the_same_key_and_bytes() -> None:
    with FaultServer(*[fin] * 3, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
        with acting(d.tenant_id):
            locked, operation = lock_job_and_operation(d.operation(job).pk)
            settling.order_resubmission(job=locked, operation=operation, actor=OPERATOR, now=timezone.now())
        assert states(d, job) == ("SUBMITTED", ["UNKNOWN"])
        d.run(job)
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
        assert len(set(erp.received)) == 1


def test_a_variance_can_be_accepted() -> None:
    other = as_json({**RECEIPT, "fields": {"limit": "1.00"}})
    with FaultServer(answers(200, other)) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
    with acting(d.tenant_id):
        locked, operation = lock_job_and_operation(d.operation(job).pk)
        settling.accept_variance(
            job=locked, operation=operation, summary="as agreed", actor=OPERATOR, now=timezone.now()
        )
    assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])


def test_a_person_can_only_ask_where_the_contract_has_a_look_up() -> None:
    d, job = _unknown()
    with pytest.raises(NothingToAsk):
        look_up(
            tenant_id=d.tenant_id, operation_id=d.operation(job).pk, person_id=d.world.operator.pk,
            now=timezone.now(),
        )  # fmt: skip


def test_the_screens_read_everything_in_a_few_queries(django_assert_num_queries: object) -> None:
    d, job = _unknown()
    with reading(d.tenant_id):
        with django_assert_num_queries(3):  # type: ignore[operator]
            (view,) = operations_of(job)
        assert [s.outcome for s in view.submissions] == ["unknown"]
        assert view.terms[0].value == "no"
        with django_assert_num_queries(3):  # type: ignore[operator]
            (receiver,) = receivers()
        assert (receiver.version, receiver.unsettled) == (2, 1)


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


def _unknown() -> tuple[Dispatching, Job]:
    with FaultServer(fin) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
    assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
    return d, job


def _let_the_deadline_pass(d: Dispatching, job: Job) -> None:
    as_owner(
        "dispatch_submission",
        "send_deadline_at = now() - interval '1 s' WHERE operation_id = %s",
        [d.operation(job).pk],
    )


def _spoil(d: Dispatching, job: Job, what: str) -> None:
    if what == "target":
        with acting(d.tenant_id):
            Receiver.objects.update(base_url="http://127.0.0.1:1")
    if what == "bytes":
        with reading(d.tenant_id):
            proposed_id = Operation.objects.get(job=job).proposed_id
        as_owner("approvals_proposedoperation", "body = 'other' WHERE id = %s", [proposed_id])


def test_a_success_beyond_the_window_may_be_a_second_effect_and_is_not_confirmed() -> None:
    unpublished = a_keyed_contract(retention="unpublished", automatic_resubmissions=0)
    with FaultServer(fin, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, unpublished)
        job = d.ready()
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
        with acting(d.tenant_id):
            locked, operation = lock_job_and_operation(d.operation(job).pk)
            settling.order_resubmission(
                job=locked, operation=operation, actor=OPERATOR, now=timezone.now(), beyond_window=True
            )
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["CONFLICTED"])
    assert "operation.possible_duplicate" in d.events(job)
