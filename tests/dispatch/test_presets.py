"""Presets are proposals that promise nothing their source does not."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from dispatch.contracts import UNPUBLISHED
from dispatch.explaining import explain
from dispatch.paths import at_path
from dispatch.presets import PRESETS, PUBLISHED, Preset

NOW = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("preset", PUBLISHED.values(), ids=lambda p: p.name)
def test_a_published_preset_says_where_it_is_from_and_claims_no_proof(preset: Preset) -> None:
    contract = preset.contract
    assert preset.source.startswith("https://")
    assert contract.retention_source_url == preset.source
    assert re.fullmatch(r"(\d{4}-\d\d-\d\d)?", preset.reviewed_on)
    assert contract.lookup is None or contract.lookup.absence_is_proof_after is None
    assert explain(contract)
    if contract.automatic_resubmissions:
        until = contract.resubmit_safe_until(NOW)
        assert until is not None
        assert until > NOW
        assert preset.reviewed_on, "nothing is sent again by itself on what nobody has compared"


def test_what_is_unpublished_counts_as_none() -> None:
    unpublished = [p for p in PRESETS.values() if p.contract.retention == UNPUBLISHED]
    assert {"square", "xero", "quickbooks-online"} <= {p.name for p in unpublished}
    for preset in unpublished:
        assert preset.contract.resubmit_safe_until(NOW) is None
        assert preset.contract.automatic_resubmissions == 0


def test_a_path_goes_through_lists_too() -> None:
    errors = {"errors": [{"code": "A"}, {"code": "B"}]}
    assert at_path(errors, "errors.1.code") == "B"
    assert [at_path(errors, p) for p in ("errors.2.code", "errors.x.code", "errors.-1", "errors.code")] == [
        None
    ] * 4


@pytest.mark.parametrize(
    "name", ["github-merge", "github-ref", "amazon-s3-replace", "dynamodb-put", "put-that-changes"]
)
def test_a_condition_without_a_key_is_never_sent_again_by_itself(name: str) -> None:
    """Its refusal after a doubtful send may be that send's own doing: a person looks."""
    preset = PUBLISHED[name]
    contract = preset.contract
    assert (contract.deduplicates, contract.lookup, contract.automatic_resubmissions) == (False, None, 0)
    assert contract.resubmit_safe_until(NOW) is None
    assert "person looks" in preset.note or "condition stands in the body" in preset.note


def test_replacing_an_object_names_the_version_that_it_replaces() -> None:
    (action,) = PUBLISHED["amazon-s3-replace"].contract.actions.values()
    assert action.precondition == "if_match"
    (creating,) = PUBLISHED["amazon-s3"].contract.actions.values()
    assert creating.precondition == "if_none_match"
