"""The vendor pipeline's look at the receiver itself: when it begins, and again just before a send."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from examples import vendor_onboarding
from examples.management import sample
from examples.simulators.client import ErpControl
from examples.vendor_onboarding import VendorChange, VendorRecord
from tests.examples.test_vendor_onboarding import a_change, a_ctx, a_record, proposed
from workflows.authoring import Ctx, Permanent, Retryable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture
def ctx(erp: ErpControl) -> Ctx:
    return a_ctx(sample.load(now=timezone.now(), sign_in=False).tenant_id)


def current(ctx: Ctx, **changes: Any) -> VendorRecord:
    found = vendor_onboarding.read_current(ctx, VendorChange.model_validate(a_change(**changes)))
    assert isinstance(found, VendorRecord)
    return found


@pytest.mark.parametrize("contract", ["keyed", "lookup", "neither"])
def test_record_is_read_under_each_contract(ctx: Ctx, contract: str) -> None:
    assert current(ctx, erp=contract) == a_record()


def test_record_that_stayed_as_it_was_raises_no_objection(ctx: Ctx) -> None:
    draft = proposed(record=current(ctx))

    assert vendor_onboarding.recheck(ctx, draft) == []
    assert vendor_onboarding.source_version(ctx, draft.sources[0], draft) == draft.sources[0].version


def test_version_of_a_record_is_the_one_that_the_receiver_has_now(ctx: Ctx) -> None:
    draft = proposed(record=current(ctx).model_copy(update={"version": 40}))
    gone = draft.sources[0].model_copy(update={"name": "V-99999"})

    assert vendor_onboarding.source_version(ctx, draft.sources[0], draft) == "41"
    assert vendor_onboarding.source_version(ctx, gone, draft) is None


def test_vendor_that_is_suspended_is_objected_to(ctx: Ctx) -> None:
    record = current(ctx, vendor_id="V-30119")
    draft = proposed(record=record.model_copy(update={"suspended": False}))

    assert vendor_onboarding.recheck(ctx, draft) == ["V-30119 was suspended at the receiver meanwhile."]


def test_unknown_vendor_stops_the_job(ctx: Ctx) -> None:
    with pytest.raises(Permanent, match="404"):
        current(ctx, vendor_id="V-99999")


def test_receiver_that_is_down_is_asked_again(ctx: Ctx, erp: ErpControl) -> None:
    erp.set_fault("status_503", method="GET")

    with pytest.raises(Retryable):
        current(ctx)
