"""What a person settles, orders or asks, and what the screens read."""

from __future__ import annotations

import pytest
from django.utils import timezone

from access.tenancy import acting, reading
from dispatch import settling
from dispatch.actions.look_up import NothingToAsk, look_up
from dispatch.locks import lock_job_and_operation
from dispatch.queries import operations_of, receivers
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import (
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    as_json,
    receipt,
    states,
)
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
URL = "http://127.0.0.1:9"


def _unknown() -> tuple[Dispatching, Job]:
    with FaultServer(fin) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
    assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
    return d, job


def test_an_operator_confirms_with_a_receipt() -> None:
    d, job = _unknown()
    with acting(d.tenant_id):
        locked, operation = lock_job_and_operation(d.operation(job).pk)
        settling.settle_confirmed(
            job=locked, operation=operation, kind="receipt", summary="e-mail", receipt_id="R-9", actor=d.operator,
            now=timezone.now(),
        )  # fmt: skip
    assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
    assert d.operation(job).receipt_id == "R-9"


def test_attested_absence_fails_the_job_and_can_still_be_contradicted() -> None:
    d, job = _unknown()
    with acting(d.tenant_id):
        locked, operation = lock_job_and_operation(d.operation(job).pk)
        settling.settle_not_applied(
            job=locked, operation=operation, summary="their letter", actor=d.operator, now=timezone.now()
        )
    assert states(d, job) == ("FAILED", ["NOT_APPLIED"])
    with acting(d.tenant_id):
        locked, operation = lock_job_and_operation(d.operation(job).pk)
        settling.settle_confirmed(
            job=locked, operation=operation, kind="statement", summary="line 3", receipt_id="", actor=d.operator,
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
            settling.order_resubmission(job=locked, operation=operation, actor=d.operator, now=timezone.now())
    assert d.events(job) == before


def test_an_ordered_resubmission_goes_out_with_the_same_key_and_bytes() -> None:
    with FaultServer(*[fin] * 3, answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
        with acting(d.tenant_id):
            locked, operation = lock_job_and_operation(d.operation(job).pk)
            settling.order_resubmission(job=locked, operation=operation, actor=d.operator, now=timezone.now())
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
            job=locked, operation=operation, summary="as agreed", actor=d.operator, now=timezone.now()
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
                job=locked, operation=operation, actor=d.operator, now=timezone.now(), beyond_window=True
            )
        d.run(job)
        assert states(d, job) == ("NEEDS_RECONCILIATION", ["CONFLICTED"])
    assert "operation.possible_duplicate" in d.events(job)
