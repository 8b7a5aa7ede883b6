"""The rules that recovery rests on, each where somebody else's software broke it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from django.test import Client

from access.tenancy import reading
from dispatch.contracts import Lookup, Signal
from dispatch.recovery import IN_PROGRESS_LIMIT
from reconciliation.models import Case
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import (
    BODY,
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    as_json,
)

pytestmark = pytest.mark.django_db(transaction=True)
BUSY = answers(409, as_json({"code": "key_in_progress"}))
EXISTS = answers(400, as_json({"code": "duplicate", "existing": {"id": "R-1"}}))


def test_a_receiver_that_says_for_ever_that_it_is_still_working_ends_in_a_case() -> None:
    with FaultServer(fin, *[BUSY] * 20) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job, steps=30)
        sent = [s.outcome for s in d.submissions(job)]
        assert sent == ["unknown", *["in progress"] * (IN_PROGRESS_LIMIT + 1)]
        assert (d.job_state(job), d.operation(job).next_step) == ("NEEDS_RECONCILIATION", "")
        assert len(set(erp.received)) == 1


@pytest.mark.parametrize(
    ("stored", "state"), [(BODY, "CONFIRMED"), ({"limit": "9.00"}, "NEEDS_RECONCILIATION")]
)
def test_what_exists_already_is_fetched_and_compared_before_it_counts_as_ours(
    stored: Any, state: str
) -> None:
    contract = a_keyed_contract(
        duplicate_signals=(Signal(status=400, path="code", equals="duplicate"),),
        duplicate_receipt_path="existing.id",
        duplicate_is_proof=True,
        lookup=Lookup(path="/operations/{operation_key}", authoritative=True, schedule=(0, 0)),
    )
    with FaultServer(EXISTS, answers(200, as_json({**RECEIPT, "fields": stored}))) as erp:
        d = Dispatching.make(erp.url, contract)
        job = d.ready()
        d.run(job)
        assert d.job_state(job) == state
        assert len(erp.received) == 2


@pytest.mark.parametrize("looks", [False, True])
def test_no_transaction_is_open_while_the_receiver_takes_its_time(looks: bool) -> None:
    def counts_sessions(connection: Any) -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
            )
            seen.append(cursor.fetchone()[0])
        connections.close_all()
        answers(500)(connection)

    seen: list[int] = []
    with FaultServer(*[counts_sessions] * (2 if looks else 1)) as erp:
        contract = a_lookup_contract(proves_after=None) if looks else a_contract()
        d = Dispatching.make(erp.url, contract)
        job = d.ready()
        d.step(d.operation(job))
        if looks:
            d.step(d.operation(job))
    assert seen == [0] * (2 if looks else 1)


@pytest.mark.parametrize(
    "answer",
    [
        answers(502, b"<html><script>alert(1)</script></html>"),
        answers(500, as_json({"message": "<script>alert(1)</script>"})),
        answers(503, b"<script>alert(1)</script>" + b"x" * 50_000),
    ],
)
def test_the_page_of_an_error_settles_nothing_and_is_shown_as_text(client: Client, answer: Any) -> None:
    with FaultServer(answer) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
    assert (d.job_state(job), [s.outcome for s in d.submissions(job)]) == (
        "NEEDS_RECONCILIATION",
        ["unknown"],
    )
    assert len(d.submissions(job)[0].response_body) <= 20_000
    with reading(d.tenant_id):
        case = Case.objects.get()
    client.force_login(d.world.operator)
    page = client.get(f"/t/{d.world.tenant.slug}/cases/{case.pk}/").content.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page
