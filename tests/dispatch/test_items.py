"""Answers that tell of each item by itself, and successes that say why nothing was done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from access.tenancy import reading
from dispatch.contracts import Contract, Lookup, Meaning
from dispatch.item_terms import Items
from reconciliation.models import Case
from tests.dispatch.calling import PROGRESS
from tests.dispatch.faults import FaultServer, answers, silence
from tests.dispatch.world import Dispatching, a_keyed_contract, as_json

pytestmark = pytest.mark.django_db(transaction=True)
SENT = {"lines": [{"sku": "a"}, {"sku": "b"}]}
ITEMS = Items(path="results", sent_path="lines", progress=PROGRESS)


def by_item(**changes: Any) -> Contract:
    plain = a_keyed_contract(automatic_resubmissions=0, **changes)
    update = plain.actions["update"].model_copy(
        update={
            "success": {"200": Meaning.APPLIED, "207": Meaning.APPLIED}, "items": ITEMS, "errors_path": "userErrors",
            "echo_path": "", "record_path": "",
        }
    )  # fmt: skip
    return Contract.model_validate(
        {**plain.model_dump(mode="json"), "actions": {"update": update.model_dump()}}
    )


def results(*words: Any, **more: Any) -> bytes:
    return as_json({"id": "B-1", "results": [{"status": word} for word in words], **more})


@pytest.mark.parametrize(
    ("status", "body", "state", "operation"),
    [
        (207, results("done", "done"), "CONFIRMED", "CONFIRMED"),
        (207, results("rejected", "rejected"), "FAILED", "REFUSED"),
        (207, results("done", "rejected"), "NEEDS_RECONCILIATION", "CONFLICTED"),
        (207, results("done"), "NEEDS_RECONCILIATION", "UNKNOWN"),
        pytest.param(
            207, results("done", "done", "done"), "NEEDS_RECONCILIATION", "UNKNOWN", marks=pytest.mark.long
        ),
        (207, results("done", "in the clouds"), "NEEDS_RECONCILIATION", "UNKNOWN"),
        pytest.param(
            207,
            as_json({"id": "B-1", "results": "done"}),
            "NEEDS_RECONCILIATION",
            "UNKNOWN",
            marks=pytest.mark.long,
        ),
        pytest.param(207, b"<html>", "NEEDS_RECONCILIATION", "UNKNOWN", marks=pytest.mark.long),
        pytest.param(
            200, as_json({"id": "B-1", "userErrors": []}), "CONFIRMED", "CONFIRMED", marks=pytest.mark.long
        ),
        (200, as_json({"userErrors": [{"field": "sku", "message": "unknown"}]}), "FAILED", "REFUSED"),
        (200, as_json({"id": "B-1", "userErrors": ["half"]}), "NEEDS_RECONCILIATION", "CONFLICTED"),
    ],
)
def test_an_answer_by_item_is_one_outcome(status: int, body: bytes, state: str, operation: str) -> None:
    with FaultServer(answers(status, body)) as server:
        d = Dispatching.make(server.url, by_item())
        job = d.ready(body=SENT)
        d.run(job)
        assert (d.job_state(job), d.operation(job).state) == (state, operation)
        assert len(d.submissions(job)) == 1


def test_what_was_done_in_part_names_the_items_that_were_not() -> None:
    with FaultServer(answers(207, results("done", "rejected"))) as server:
        d = Dispatching.make(server.url, by_item())
        job = d.ready(body=SENT)
        d.run(job)
        (seen,) = d.observations(job)
        assert (seen.finding, seen.summary) == ("differs", "submission 1: answered 207: 1 of 2 items applied")
        assert json.loads(seen.detail) == [{"field": "item 2", "approved": "applied", "told": "rejected"}]
        with reading(d.tenant_id):
            assert [case.kind for case in Case.objects.all()] == ["conflicted"]


@pytest.mark.parametrize(
    ("words", "state"), [(("done", "done"), "CONFIRMED"), (("done", "rejected"), "NEEDS_RECONCILIATION"),
                         (("rejected", "rejected"), "FAILED")],
)  # fmt: skip
def test_a_look_up_tells_of_items_too(words: tuple[str, ...], state: str) -> None:
    lookup = Lookup(path="/operations/{operation_key}", authoritative=True, schedule=(0,))
    with FaultServer(silence, answers(200, results(*words))) as server:
        d = Dispatching.make(server.url, by_item(lookup=lookup))
        job = d.ready(body=SENT)
        d.run(job)
        assert d.job_state(job) == state
