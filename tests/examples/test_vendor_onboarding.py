"""The vendor pipeline's own decisions: what it validates, and what it proposes."""

from __future__ import annotations

from typing import Any

import pytest

from examples import vendor_onboarding
from examples.vendor_onboarding import Assessment, VendorChange, VendorRecord
from workflows.authoring import Ctx, Invalid, Permanent, ProposalDraft
from workflows.submissions import InvalidSubmission, check


def a_ctx(tenant_id: int = 1) -> Ctx:
    return Ctx(
        tenant_id=tenant_id, job_id=2, reference="VC-1", item_key="1", attempt=1, request_key="test-2-a-1"
    )


def a_change(**changes: Any) -> dict[str, Any]:
    value = {
        "reference": "VC-2026-0412",
        "vendor_id": "V-30417",
        "request": "We expect larger orders.",
        "requested_limit": "48200.00",
        "currency": "EUR",
        "contact": "a@b.example",
        "erp": "keyed",
    }
    return {**value, **changes}


def a_record(**changes: Any) -> VendorRecord:
    value = {
        "vendor_id": "V-30417",
        "version": 41,
        "suspended": False,
        "name": "Fennmark Castings",
        "credit_limit": "20000.00",
        "currency": "EUR",
        "payment_terms": "30 days net",
    }
    return VendorRecord.model_validate({**value, **changes})


ASSESSMENT = Assessment.model_validate(
    {"credit_limit": "48200.00", "payment_terms": "45 days net", "reason": "Low risk."}
)


def proposed(change: dict[str, Any] | None = None, record: VendorRecord | None = None) -> ProposalDraft:
    draft = vendor_onboarding.propose(
        a_ctx(), VendorChange.model_validate(change or a_change()), record or a_record(), ASSESSMENT
    )
    assert isinstance(draft, ProposalDraft)
    return draft


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vendor_id", "30417"),
        ("vendor_id", "V-304170"),
        ("contact", "nobody"),
        ("requested_limit", "0.00"),
        ("requested_limit", "-1.00"),
        ("requested_limit", "1.005"),
    ],
)
def test_what_the_shape_cannot_say_is_refused_by_name(field: str, value: str) -> None:
    with pytest.raises(Invalid) as refused:
        vendor_onboarding.validate(a_ctx(), VendorChange.model_validate(a_change(**{field: value})))

    assert [p.field for p in refused.value.problems] == [field]


def test_every_problem_is_named_at_once() -> None:
    change = VendorChange.model_validate(a_change(vendor_id="x", contact="y", requested_limit="0"))
    with pytest.raises(Invalid) as refused:
        vendor_onboarding.validate(a_ctx(), change)

    assert [p.field for p in refused.value.problems] == ["vendor_id", "contact", "requested_limit"]


@pytest.mark.parametrize(
    "wrong",
    [{"requested_limit": 48200}, {"currency": "XXX1"}, {"erp": "sap"}, {"reference": "a b"}, {"extra": 1}],
)
def test_wrong_shape_makes_no_job(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSubmission) as refused:
        check(vendor_onboarding.vendor_onboarding, a_change(**wrong))

    assert [p.field for p in refused.value.problems] == list(wrong)


def test_proposal_shows_what_changes_and_sends_just_that() -> None:
    draft = proposed()

    (operation,) = draft.operations
    assert (operation.receiver, operation.action, operation.record) == (
        "astrel-erp-keyed",
        "update-vendor",
        "V-30417",
    )
    assert operation.body == {"credit_limit": "48200.00", "payment_terms": "45 days net"}
    assert [(c.field, c.current, c.proposed, c.by_model) for c in operation.changes] == [
        ("credit_limit", "20000.00", "48200.00", False),
        ("payment_terms", "30 days net", "45 days net", True),
    ]
    assert (draft.model_text, draft.model_route) == ("Low risk.", "atlas-large")
    assert [(s.name, s.version) for s in draft.sources] == [("V-30417", "41")]
    assert draft.summary == "It is 20,000.00 EUR now, so exposure rises by 28,200.00 EUR."


def test_models_own_figure_never_replaces_the_one_that_was_asked_for() -> None:
    draft = proposed(a_change(requested_limit="30000.00"))

    assert draft.operations[0].body["credit_limit"] == "30000.00"
    assert draft.summary.endswith("The model suggests 48,200.00; the request is what is proposed.")


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"suspended": True}, "suspended"),
        ({"currency": "SEK"}, "kept in SEK"),
        ({"credit_limit": "48200.0", "payment_terms": "45 days net"}, "already has"),
    ],
)
def test_what_cannot_be_proposed_stops_the_job(record: dict[str, Any], why: str) -> None:
    with pytest.raises(Permanent, match=why):
        proposed(record=a_record(**record))
